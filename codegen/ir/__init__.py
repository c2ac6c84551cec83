"""The loop IR, which lowerings and kernels write and targets print.

`nodes` are its values and statements, `types` says in which types scalars are computed, and
`scalars` makes values of SymPy bodies. `builder` writes loops from the outside inwards, `names`
finds free names and gives buffers others, and `window` describes the spatial axes of operators. May
import `einalg.language`, and nothing else of `codegen`. A new node is added to `nodes` and to every
printer in `codegen.targets`.
"""
