"""Full collections are rare while something runs, and as often as before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

import einalg as ea
from einalg.runtime.garbage import (
    FEW_FULL_COLLECTIONS,
    MIN_COLLECTIONS,
    with_few_full_collections,
)

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_only_full_collections_are_rare_and_only_meanwhile() -> None:
    with FEW_FULL_COLLECTIONS:
        with FEW_FULL_COLLECTIONS:
            assert gc.get_threshold() == (*USUAL[:2], MIN_COLLECTIONS)
        assert gc.get_threshold() == (*USUAL[:2], MIN_COLLECTIONS)
    assert gc.get_threshold() == USUAL


def test_an_error_ends_it() -> None:
    @with_few_full_collections
    def fail() -> None:
        raise ValueError(gc.get_threshold()[2])

    with pytest.raises(ValueError, match=str(MIN_COLLECTIONS)):
        fail()
    assert gc.get_threshold() == USUAL


def test_what_others_set_meanwhile_stays() -> None:
    with FEW_FULL_COLLECTIONS:
        gc.set_threshold(1, 2, 3)
    assert gc.get_threshold() == (1, 2, 3)


def test_rarer_ones_stay_as_rare() -> None:
    gc.set_threshold(700, 10, 10 * MIN_COLLECTIONS)
    with FEW_FULL_COLLECTIONS:
        assert gc.get_threshold()[2] == 10 * MIN_COLLECTIONS


def test_the_last_of_several_threads_ends_it() -> None:
    inside, told = Barrier(2), []

    @with_few_full_collections
    def wait() -> None:
        inside.wait()
        inside.wait()

    thread = Thread(target=wait)
    thread.start()
    inside.wait()
    with FEW_FULL_COLLECTIONS:
        pass
    told.append(gc.get_threshold()[2])
    inside.wait()
    thread.join()
    assert told == [MIN_COLLECTIONS] and gc.get_threshold() == USUAL


def test_long_calls_are_such() -> None:
    seen: list[int] = []
    ea.derive(
        "O[i] += A[i,j]",
        A=(4, 5),
        seconds=1,
        measure=False,
        progress=lambda _: seen.append(gc.get_threshold()[2]),
    )
    assert set(seen) == {MIN_COLLECTIONS} and gc.get_threshold() == USUAL
