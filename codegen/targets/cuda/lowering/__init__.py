"""A statement as loops over the blocks and threads of a GPU.

`plans` are the kinds of kernels that a statement may become: a product in tiles (`products`), rows
whose reductions threads share (`row_reductions` and `reduction`), rows of outputs for each thread
(`thread_rows`), or a map (`map`). `lower` writes a plan, and makes the one that a schedule says;
`codegen.tuning.spaces.cuda` compares all. `threads` holds what they have in common. Imports
`codegen.lowering` and the loop IR; knows no device. Add a kind of kernel as a module, and its plan
in `plans`.
"""
