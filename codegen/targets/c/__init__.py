"""C for the CPU: the loop IR as text, and the compiler that makes shared objects of it.

`source_file` makes a file of kernels, `printer` the statements of one, `expressions` its values,
`vectors` its register tiles; `compiler`, `object_store` and `thread_pool` compile, keep and run
files. Imports the loop IR and the caches of `einalg.storage`. Add a statement of the loop IR in
`printer`, a scalar operator in `expressions`, a function in `helpers`.
"""
