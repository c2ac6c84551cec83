"""Building blocks of operators: how they are registered and how their arguments are read.

`registry` has the table of operators, `operands`, `axes`, `layouts`, `scalars` and `windows` read
tensors, axis numbers, axis orders, numbers and the windows of convolutions. They may import
`einalg.language.ir` and `notation`. What several operators ask of their arguments belongs here.
"""
