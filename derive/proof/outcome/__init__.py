"""The outcome of a proof: its verdict, and the region of points that differ, as a person reads it.

`verdict` holds the result type of `prove`, `regions` makes short sets of points. Imports only sets
of indices and of sizes from `einalg.language`; all ways of proving import from here.
"""
