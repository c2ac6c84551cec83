"""The spellings of an expression that a search starts from, beside the one it was typed in.

`channels_last` moves the channels of convolutions; `digits` makes two indices of one that long
products read by its digits; `separation` splits sums where that leaves less arithmetic;
`partly_equal` computes sums over windows on other axes. Each returns a program with the moves that
lead there. The folder imports `derive.contraction`, `derive.rewriting` and `derive.rules`, and
nothing of `derive.search`. A new start is a file here, and an entry in the start programs of
`best_first`.
"""
