"""Services for running programs besides kernels: timing, result buffers, direct calls on memory.

`timing` measures alternative implementations, `processors` counts cores and threads,
`buffer_pool` makes the arrays of results, and `direct_call` calls programs on addresses.
`clock` is the time of an answer, `processes` runs commands that end with it, and `live_entries`
caches what is known of an object as long as it lives.
Imports only `einalg.language`; derive, codegen and the front ends import from here.
Add what several backends or front ends need at run time; kernels belong to codegen.
"""
