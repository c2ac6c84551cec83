"""Interpreters: the values of expressions on arrays.

`reference` is the meaning of the language, point by point and exact; it imports the data model
alone. `numpy` computes the same for real sizes, `prime_field` modulo a prime for random tests of
identities. They may import `einalg.language.index`, `ir` and `analysis`; another interpreter gets a
module or folder of its own here.
"""
