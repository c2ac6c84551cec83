"""Operators that move elements: reshaping, indexing, concatenation, exchange of space and depth.

They may import `einalg.language.ops.definition`. A new operator is a function with the decorator
`operator`, exported by `einalg.language.ops`.
"""
