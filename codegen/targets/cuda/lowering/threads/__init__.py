"""The common ground of all kernels of a GPU.

`schedule` holds the numbers that a tuner may choose, `points` the statement with its loops and how
threads count its points. Imports `codegen.lowering` and the loop IR; knows no kind of kernel.
"""
