"""The code of statements: generated, compiled and loaded once, whatever programs they are in.

Values in a row, each made by one function (design §10): a `BuildProblem`, in which statements that
compute a value of each row are parts of others (`row_fusion`); the `FusionDecision` of
`decide_fusion`, which says what becomes one kernel; the `KernelSelection` of `select_kernels`,
which says what runs each kernel; and the `BuiltProgram` of these. What was generated is found again
by what it depends on (`deduplicate`, `generated_code`, `reviewed_records`), so that a program whose
kernels are known starts without code generation. `generated_kernels` generates operators,
`compilation` compiles beside that. May import what `codegen.program` may, and nothing else of it.
"""
