"""Products of many tensors: the orders in which their contractions are cheap, as moves.

A sum of products is a `network` of factors with indices; `orders` finds trees of contractions
(`contraction_tree`) by the path finders of opt_einsum, and `ordering` takes their steps by rules.
The folder imports `derive.rewriting` and `derive.rules`; `derive.search` starts from what it gives.
A path finder is a function in `orders`.
"""
