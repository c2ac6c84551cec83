"""The numbers by which TASO and Tensat write the parameters of operators."""

from __future__ import annotations

from derive.substitutions.files.checking import wrong_rule
from derive.substitutions.graphs.kinds import MAX_RANK

PADDINGS = ("same", "valid")
ACTIVATIONS = ("none", "sigmoid", "relu", "tanh")
SWAPPED = (1, 0)  # the axes of a transposed matrix


def word(name: str, words: tuple[str, ...], number: int) -> str:
    """Return the word that a number stands for in a rule of some name."""
    if not 0 <= number < len(words):
        raise wrong_rule(name, f"parameter {number} is none of {', '.join(words)}")
    return words[number]


def permutation(name: str, number: int) -> tuple[int, ...]:
    """Return the permutation of which a number has the digits, to the base of its length: numbers
    of different lengths lie apart.

    >>> permutation("rule", 2), permutation("rule", 15)
    ((1, 0), (1, 2, 0))
    """
    for rank in range(1, MAX_RANK + 1):
        digits, rest = list[int](), number
        for _ in range(rank):
            digits.append(rest % rank)
            rest //= rank
        if rest == 0 and sorted(digits) == list(range(rank)):
            return tuple(reversed(digits))
    raise wrong_rule(name, f"parameter {number} is no permutation of up to {MAX_RANK} axes")
