"""Expensive functions in the loops of any lowering: computed once, and in whole vectors.

In the order of a compilation: `readers` (which loops compute what others have computed),
`stored_values` (the first ones store it), `whole_vectors` (what fills no vector is computed with
neighbours), `loop_invariants` (what is the same in all steps of a loop is computed before it),
`sum_quotients` (quotients by sums are products), `row_prefetch` (rows that loops go through several
times are asked for in time). May import what `codegen.kernels` may. Add another rewriting of a
function with expensive values as a module, and its call to `rewriting`.
"""
