"""Substitutions of whole programs: where a rule fits, what it makes of a program, and which of the
programs that rules lead to are worth compiling (design §14).

`patterns` makes the sides of a rule ready, for the `convolutions` that a program has; `matching`
finds their statements in a program by their mathematics, also in parts of its `concatenations`;
`replacement` writes the other side and proves it equal, `search` goes on from what is cheap.
"""
