"""The base of nodes: tensors, accesses and scopes are SymPy's objects, with fields that are set
once (design §3).
"""

from __future__ import annotations

from functools import cache
from inspect import unwrap
from typing import Any

import sympy
from sympy import Basic, Tuple
from sympy.core.cache import CACHE
from sympy.core.symbol import Str

# Functions of SymPy with a cache that are asked of no expression with scopes in it.
OF_NO_SCOPE = frozenset(
    {
        *("Integer.__new__", "Rational.__new__", "Number.sort_key"),
        *("Symbol.sort_key", "Symbol._canonical_assumptions"),
        *("_get_postprocessors", "_get_postprocessors_for_type"),
    }
)


def lift(value: Any) -> Basic:
    """Return a field of a node as a SymPy argument."""
    if isinstance(value, Basic):
        return value
    if isinstance(value, str):
        return Str(value)
    if isinstance(value, (tuple, list)):
        # A range that is still open has no bounds.
        return Tuple(*(lift(entry) for entry in value if entry is not None))
    return sympy.sympify(value)


class Node:
    """Fields in `_fields`, set once; SymPy sees them as `args`, and `type(node)(*node.args)`
    rebuilds the node.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    # The kind of a node, for printers that do not import it: as SymPy's `is_Add` and its kin.
    is_scope = is_reduction = is_access = is_view = False

    @classmethod
    def _build(cls, *values: Any) -> Any:
        node = Basic.__new__(cls)  # pyright: ignore
        for name, value in zip(cls._fields, values):
            setattr(node, name, value)
        return node

    @property
    def args(self) -> tuple[Basic, ...]:
        """The fields as SymPy sees them."""
        if not self._args:  # pyright: ignore
            self._args = tuple(lift(self._seen(name)) for name in self._fields)
        return self._args

    def _seen(self, name: str) -> Any:
        """Return a field as SymPy is to see it: itself, but where a node says otherwise."""
        return getattr(self, name)

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.args

    def __hash__(self) -> int:
        known = self._mhash  # pyright: ignore
        if known is None:
            fields = [getattr(self, name) for name in self._fields]
            known = self._mhash = hash((type(self).__name__, *fields))
        return known

    def __eq__(self, other: object) -> bool:
        """Equal fields: what SymPy finds too, without making its `args` first."""
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)


def forget_evaluations() -> None:
    """Empty SymPy's cache of expressions, so that what follows does not depend on what was
    evaluated before.

    Scopes that differ in the names of their indices are equal. `2*S[i]` would be the product that
    was evaluated first of all scopes equal to `S`, with the names of that one, and a move that
    names an index of `S` would not apply to it.
    """
    for cached in _caches_of_expressions():
        cached.cache_clear()


@cache
def _caches_of_expressions() -> list[Any]:
    """Return SymPy's cached functions, but for those of numbers, symbols and types alone."""
    return [cached for cached in CACHE if unwrap(cached).__qualname__ not in OF_NO_SCOPE]
