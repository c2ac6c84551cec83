"""Interning of nested tuples: each is stored once, so that comparing and hashing shared parts costs
nothing.
"""

from __future__ import annotations

from typing import Any

# Beyond it sharing starts anew: equal tuples stay equal, but comparing them costs more.
MAX_INTERNED_TUPLES = 2_000_000


class InternedTuple(tuple[Any, ...]):
    """A tuple that knows its hash."""

    def __hash__(self) -> int:
        cached = self.__dict__.get("hash")
        if cached is None:
            cached = self.__dict__["hash"] = tuple.__hash__(self)
        return cached

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, tuple) or hash(self) != hash(other):
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        """Compare as tuples do, without a call for each level: these may be many."""
        one: Any = self
        two: Any = other
        while isinstance(one, tuple) and isinstance(two, tuple):
            for first, second in zip(one, two):
                if first is not second and first != second:
                    one, two = first, second
                    break
            else:
                return len(one) < len(two)
        return bool(one < two)

    def __gt__(self, other: tuple[Any, ...]) -> bool:
        return InternedTuple.__lt__(other, self)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        return interned, tuple(self)


_INTERNED: dict[InternedTuple, InternedTuple] = {}


def interned(*parts: Any) -> InternedTuple:
    """Return the tuple of these parts; the same object for equal parts.

    >>> interned(1, "a") is interned(1, "a")
    True
    """
    if len(_INTERNED) > MAX_INTERNED_TUPLES:
        _INTERNED.clear()
    new = InternedTuple(parts)
    return _INTERNED.setdefault(new, new)
