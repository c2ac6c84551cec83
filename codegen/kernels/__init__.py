"""Loop nests that are shaped by hand for operators: contractions, stencils, bands, transposes.

Each folder has a `problem` (the operator as strided axes), the choice of its numbers by a cost
model for a CPU, and a `loop_nest` that writes loop IR with `codegen.ir.builder`. The modules beside
the folders are shared: strided axes, epilogues, cost coefficients. `expensive_values` rewrites the
loops of any lowering that call functions. May import `codegen.ir`, `codegen.lowering`,
`codegen.hardware` and `einalg.language`, but no target. Add a folder for another operator, and a
space of its numbers in `codegen.tuning.spaces`.
"""
