"""Entries that live as long as their owners, for which no Python code runs where an owner dies.

An object may die anywhere, and of an exception that is raised there, as by Ctrl-C, Python prints a
line and goes on: `weakref.WeakValueDictionary`, whose callback is Python code, loses interrupts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import ref

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class Entry(ref[Owner], Generic[Owner, Value]):
    """A weak reference to the owner of a value."""

    __slots__ = ("key", "value")
    key: Hashable
    value: Value


class LiveEntries(Generic[Owner, Value]):
    """Values by keys. An entry is there as long as its owner lives.

    A dead entry leaves with the next one that is put.

    >>> class Owner: pass
    >>> entries, owner = LiveEntries(), Owner()
    >>> entries.put("a", owner, 1)
    >>> entries.get("a") == (owner, 1)
    True
    >>> del owner
    >>> print(entries.get("a"))
    None
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, Entry[Owner, Value]] = {}
        self._dead: list[Entry[Owner, Value]] = []

    def __len__(self) -> int:
        """Return the number of entries whose owners live."""
        self._remove_dead()
        return len(self._entries)

    def get(self, key: Hashable) -> tuple[Owner, Value] | None:
        """Return the owner and the value of a key; None where no owner lives."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        owner = entry()
        if owner is None:
            return None
        return owner, entry.value

    def put(self, key: Hashable, owner: Owner, value: Value) -> None:
        """Add an entry, in the place of another one of the same key."""
        self._remove_dead()
        entry: Entry[Owner, Value] = Entry(owner, self._dead.append)
        entry.key, entry.value = key, value
        self._entries[key] = entry

    def _remove_dead(self) -> None:
        while self._dead:
            try:
                entry = self._dead.pop()
            except IndexError:  # another thread took it
                return
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
