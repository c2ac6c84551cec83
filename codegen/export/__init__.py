"""Programs as C projects of their own, to be compiled without einalg (design §12).

`call_plan` says which kernels run on which memory; `c_file` and `header` write them as one C
function, `numbers` the arrays inside, `check_program` the `main.c` that checks and times it,
`build_files` what compiles all of it, and `folder` writes the project whole or not at all. May
import everything else of `codegen`. Another file of a project is a module here and a row of
`project.project_files`.
"""
