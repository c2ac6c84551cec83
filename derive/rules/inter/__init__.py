"""Rules between the parts of a sum, or between the statements of a program.

They import `derive.rewriting` and `derive.rules.intra`. A rule of two statements has
`level="program"`.
"""
