"""How tensors, accesses and scopes are SymPy's objects: fields that are set once, seen as arguments (design §3)."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Atom, Basic, Tuple
from sympy.core.symbol import Str


def lift(value: Any) -> Basic:
    """A field of a node as a SymPy argument."""
    if isinstance(value, Basic):
        return value
    if isinstance(value, str):
        return Str(value)
    if isinstance(value, (tuple, list)):
        return Tuple(*(lift(v) for v in value if v is not None))  # a range that is still open has no bounds
    return sympy.sympify(value)


class ScopeRead(Atom):
    """A scope where it is read, as SymPy sees it: a whole, for SymPy would move cases of its body out of it, away from their indices."""

    __slots__ = ("scope",)

    def __new__(cls, scope: Any) -> ScopeRead:
        read = super().__new__(cls)
        read.scope = scope
        return read

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.scope,)

    @staticmethod
    def scope_of(base: Any) -> Any:
        """The scope that is read, of what SymPy sees of it; anything else is given back."""
        return base.scope if isinstance(base, ScopeRead) else base

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.scope,)

    def sort_key(self, order: Any = None) -> Any:
        return self.scope.sort_key(order)

    def _sympystr(self, printer: Any) -> str:
        return printer._print(self.scope)


class Node:
    """Fields in `_fields`, set once; SymPy sees them as `args`, and `type(node)(*node.args)` rebuilds the node."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    is_scope = False

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
        """A field as SymPy is to see it."""
        value = getattr(self, name)
        return ScopeRead(value) if name == "base" and value.is_scope else value

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.args

    def __hash__(self) -> int:
        known = self._mhash  # pyright: ignore
        if known is None:
            known = self._mhash = hash((type(self).__name__, *(getattr(self, name) for name in self._fields)))
        return known

    def __eq__(self, other: object) -> bool:
        """Equal fields: what SymPy finds too, without making its `args` first."""
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)
