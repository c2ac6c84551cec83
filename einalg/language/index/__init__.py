"""Index arithmetic: quasi-affine forms of integers, loop indices with ranges, and conditions.

`affine` holds the forms in normal form (`2*h + r//3 - 1`), `operators` their arithmetic, `text` and
`bounds` their texts and values, `convert` the way from and to SymPy, `remainder` and `cases` what
is not left to SymPy, `constraint` and `iterator` what cuts and binds a domain, `isl` the same as
sets of isl. These files import `einalg.errors` and `einalg.language.node` alone. What ranges allow
besides the normal form goes into `einalg.language.analysis.simplify`.
"""
