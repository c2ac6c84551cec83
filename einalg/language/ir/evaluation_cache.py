"""SymPy's cache of evaluated operations, which does not tell scopes that differ in names only."""

from __future__ import annotations

from sympy.core.cache import clear_cache


def forget_evaluations() -> None:
    """Empty SymPy's cache, so that what follows does not depend on what was evaluated before.

    Scopes that differ in the names of their indices are equal. `2*S[i]` would be the product that
    was evaluated first of all scopes equal to `S`, with the names of that one, and a move that
    names an index of `S` would not apply to it.
    """
    clear_cache()
