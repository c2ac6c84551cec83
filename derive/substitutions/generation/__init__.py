"""The generator of substitutions (design §14): every program of few operators, those that are
equal, and of these pairs the rules from which the others follow.

`programs` has the programs by their values. `terms` writes two of one value as a pair, `rewriting`
says whether it follows from rules, `rules` states it at open sizes, and `generator` has what is
left proved; `checkpoint` keeps verdicts on disk.
"""
