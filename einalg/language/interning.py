"""Nested tuples that are stored once, so that comparing and hashing their shared parts costs
nothing.
"""

from __future__ import annotations

from typing import Any

MOST = (
    2_000_000  # beyond it sharing starts anew; equal tuples stay equal, comparing them costs more
)


class InternedTuple(tuple[Any, ...]):
    """A tuple that knows its hash."""

    def __hash__(self) -> int:
        cached = self.__dict__.get("hash")
        if cached is None:
            cached = self.__dict__["hash"] = tuple.__hash__(self)
        return cached

    def __eq__(self, other: object) -> bool:
        return self is other or (hash(self) == hash(other) and tuple.__eq__(self, other) is True)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> Any:
        return interned, tuple(self)


_KNOWN: dict[InternedTuple, InternedTuple] = {}


def interned(*parts: Any) -> InternedTuple:
    """The tuple of these parts; the same object for equal parts.

    >>> interned(1, "a") is interned(1, "a")
    True
    """
    if len(_KNOWN) > MOST:
        _KNOWN.clear()
    made = InternedTuple(parts)
    return _KNOWN.setdefault(made, made)
