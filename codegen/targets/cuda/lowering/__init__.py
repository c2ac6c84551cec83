"""A statement as loops over the blocks and threads of a GPU.

`lower` decides which kind of kernel a statement becomes: a product in tiles (`products`), rows
whose reductions threads share (`row_reductions` and `reduction`), rows of outputs for each thread
(`thread_rows`), or a map (`map`). `threads` holds what they have in common. Imports
`codegen.lowering` and the loop IR; knows no device. Add a kind of kernel as a module, and its plan
in `lower`.
"""
