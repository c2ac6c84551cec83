"""Services for running programs besides kernels: timing, result buffers, direct calls on memory.

`timing` measures alternative implementations, `processors` counts cores and threads,
`buffer_pool` makes the arrays of results, and `direct_call` calls programs on addresses.
Imports only `einalg.language`; derive, codegen and the front ends import from here.
Add what several backends or front ends need at run time; kernels belong to codegen.
"""
