"""Products in tiles: a block stages both factors in shared memory, and its threads sum.

`contraction` reads a statement as a product and chooses tiles, `diagonal` gives bands rows and
columns, `tiled` is the kernel with `shared_staging`, `register_tiles` and `tensor_cores` are what
multiplies in it. Imports `codegen.targets.cuda.lowering.threads`. Add another way to multiply as a
class beside these two.
"""
