"""The cycles of loop IR, whatever wrote it (design §10).

`cycles` has those of what loops compute, and the sum of all; `lines` those of the lines of memory
that they read and write; `open_loops` what both know of loops and branches. Imports the loop IR and
the coefficients of `codegen.kernels.cpu_costs`.
"""
