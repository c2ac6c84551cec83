"""Printing of expressions: as text that parses back, as LaTeX and as trees.

The printers are below the nodes: they ask the flags of `kinds` and import no node, only
`einalg.language.index`. Another form of output is a module here.
"""
