"""Entries live as long as their owners, and end without Python code, which might be interrupted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from einalg.runtime.live_entries import LiveEntries
from tests.helpers.interrupts import functions_entered


class Owner:
    """Anything that can be referred to weakly."""


class Key:
    """A key that is compared by Python code."""

    def __init__(self, number: int):
        self.number = number

    def __hash__(self) -> int:
        return self.number % 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.number == other.number


def test_entries_live_as_long_as_their_owners() -> None:
    entries: LiveEntries[Owner, int] = LiveEntries()
    owners = [Owner() for _ in range(9)]
    for number in range(len(owners)):
        entries.put(Key(number), owners[number], number)
    assert [entries.get(Key(k)) for k in range(9)] == list(zip(owners, range(9)))
    assert entries.get(Key(9)) is None
    del owners[::2]
    assert len(entries) == 4
    assert [entries.get(Key(k)) is None for k in range(9)] == [k % 2 == 0 for k in range(9)]


def test_another_owner_takes_the_place_of_a_dead_one() -> None:
    """The end of the first one does not remove the entry of the second."""
    entries: LiveEntries[Owner, str] = LiveEntries()
    first, second = Owner(), Owner()
    entries.put("a", first, "first")
    del first
    entries.put("a", second, "second")
    assert entries.get("a") == (second, "second") and len(entries) == 1
    third = Owner()
    entries.put("a", third, "third")
    del second
    assert entries.get("a") == (third, "third") and len(entries) == 1


def test_no_python_code_runs_where_an_owner_dies() -> None:
    entries: LiveEntries[Owner, int] = LiveEntries()
    owners = [Owner() for _ in range(3)]
    for number in range(len(owners)):
        entries.put(Key(number), owners[number], number)
    assert functions_entered(owners.clear) == []
    assert len(entries) == 0


def test_owners_may_die_in_any_thread() -> None:
    entries: LiveEntries[Owner, int] = LiveEntries()
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(500):
            owner = Owner()
            entries.put((number, turn % 7), owner, turn)
            if entries.get((number, turn % 7)) != (owner, turn):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(entries) == 0


def test_an_owner_needs_weak_references() -> None:
    with pytest.raises(TypeError):
        LiveEntries[Any, None]().put("a", 1, None)
