"""Derivation: expressions are rewritten by rules, matched with operators, and proven equal.

`rules` are the cards, `rewriting` applies moves, `contraction` orders long products, `search` looks
for better programs, `matching` recognises operators, `proof` compares, `cost` estimates and
measures, `results` is what a search returns, `interactive` a derivation by hand, `programs` whole
networks. Imports `einalg` below its interface, and neither `codegen` nor anything that shows
things.
"""
