"""A statement as loops over the blocks and threads of a GPU.

`lower` decides which kind of kernel a statement becomes: a product in tiles (`contraction` with
`tiled`), rows whose reductions threads share (`row_reductions` and `reduction`), or a map (`map`).
`schedule` holds the numbers that a tuner may choose. Imports `codegen.lowering` and the loop IR;
knows no device. Add a kind of kernel as a module, and its plan in `lower`.
"""
