"""Mathematical operators: functions of elements, reductions, products of matrices, casts.

They may import `einalg.language.ops.definition`. A new operator is a function with the decorator
`operator`, exported by `einalg.language.ops`.
"""
