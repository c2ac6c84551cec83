"""Scopes as loop nests of the loop IR, for statements without a kernel that is shaped by hand.

`lower` writes the loops over the output, `reductions` those of sums inside them; `loop_plan` says
which loops there are, `distinct_indices` names those of sums, `guards` says where padded reads are
inside their tensors, `schedule` and `parallel` hold the numbers that a tuner may choose. May import
`codegen.ir` and `einalg.language`, but no target. Add a transformation of loops to `loop_plan`, and
a number of it to `Schedule`.
"""
