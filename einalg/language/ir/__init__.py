"""The nodes of an expression: tensors, bodies with reductions, scopes and programs.

`tensor`, `body`, `scope` and `program` hold the nodes, `traversal` walks and changes them,
`identity` makes equal scopes equal, `dtypes` and `dtype_inference` type them, `functions` lists
what a body may apply, `kernel` is a statement with its operator, and `printing` writes all as text.
These files may import `einalg.language.index`. New behaviour is a new function, not a method of a
node.
"""
