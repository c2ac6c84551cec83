"""Sums of products of two tensors along strided axes, in tiles of registers and panels.

In the order of a compilation: `problem` and `statements` (what is computed: operators, reductions
of other bodies, transposed convolutions as several contractions, epilogues), `cost_model` with
`cost_terms` and `blocking` (which tiling is best), `partition` (the parts that a tiling makes),
`ranges` (what conditions leave of an index) and `nest` (the loop IR). May import what
`codegen.kernels` may. Add a term of the cost to `cost_terms`, and its coefficient to
`codegen.kernels.cpu_costs`.
"""
