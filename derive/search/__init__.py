"""The search for equal programs that run on library operators (design §8).

`best_first.search` takes states from a queue and collects `candidates`; `expansion` makes their
successors by `repairs`, which converge to an operator, and `variations`, which leave one; `cleanup`
does what is never worse, and `starts` are other spellings to start from. `executor` and
`speculation` let other processes help; `search_tree` is the log; `outlines` are derivations that
are followed at other sizes. The folder imports
`derive.rewriting`, `derive.rules`, `derive.contraction`, `derive.matching` and `derive.cost`, and
nothing above. A new way to go on from a state is a generator of moves in `repairs` or `variations`;
a weight or a limit is a field of `weights.SearchWeights` or of `best_first.Budget`.
"""
