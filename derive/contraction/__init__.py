"""Products of many tensors: the orders in which their contractions are cheap, as moves.

A sum of products is a `network` of factors with indices; `orders` finds trees of contractions
(`contraction_tree`), by `exact` or the random greedy trials of opt_einsum, and `ordering` takes
their steps by rules. `slicing` keeps results within a bound on memory. The folder imports
`derive.rewriting` and `derive.rules`; `derive.search` starts from what it gives. A path finder is a
function that `orders` calls.
"""
