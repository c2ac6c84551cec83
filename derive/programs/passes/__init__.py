"""Passes that rewrite a program as a whole: each returns an equal program, or the same object.

`normalise` makes one ready for the search of its layers; the others change what the layers are.
Every change is a move of a rule, or proven. `derive.programs` runs them.
"""
