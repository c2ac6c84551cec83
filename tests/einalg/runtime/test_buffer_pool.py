"""Large results lie where earlier ones did that nobody has any more, and never where somebody has
one.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.runtime import buffer_pool
from einalg.runtime.buffer_pool import BufferPool
from tests.helpers.interrupts import functions_entered

KIND = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "MIN_POOLED_BYTES", 1 << 12)


def maker(*shape: int) -> Callable[[], Any]:
    return BufferPool().allocator(shape, KIND)


def place(array: Any) -> int:
    return array.__array_interface__["data"][0]


def test_memory_comes_back_once_nobody_has_it() -> None:
    make = maker(40, 50)
    first = make()
    assert (
        first.shape == (40, 50)
        and first.dtype == KIND
        and first.flags.writeable
        and first.flags.c_contiguous
    )
    where = place(first)
    assert where % 64 == 0
    view = first[3:].T
    del first
    assert place(other := make()) != where  # a view still has it
    del view
    assert place(third := make()) == where
    assert place(other) != place(third)


def test_no_two_results_share_memory() -> None:
    make = maker(1 << 10)
    held = [make() for _ in range(5)]
    for number, array in enumerate(held):
        array[:] = number
    assert [set(array.tolist()) for array in held] == [{float(k)} for k in range(5)]
    del held, array
    one, two = make(), make()
    assert not np.shares_memory(one, two)


def test_results_that_no_core_caches_begin_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run = ea.derive(ea.parse("O[i,j] = 2*A[i,j]", A=(1024, 513)), measure=False).best.compile()
    held = [run(A=np.ones((1024, 513), np.float32)) for _ in range(3)]
    assert [place(array) % 64 for array in held] == [0, 0, 0]
    assert len({place(array) for array in held}) == 3 and held[0].min() == 2


def test_little_is_kept() -> None:
    memory = BufferPool()
    make = memory.allocator((1 << 10,), KIND)
    held = [make() for _ in range(5)]
    del held
    gc.collect()
    assert [len(free) for free in memory._free.values()] == [1]


def test_no_python_code_runs_where_a_result_dies() -> None:
    """An interrupt in it would be lost, and the memory with it."""
    make = maker(1 << 10)
    held = [make() for _ in range(3)]
    assert functions_entered(held.clear) == []


def test_memory_is_freed_without_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """No circle of references holds what the pool does not retain."""
    made: list[weakref.ref[Any]] = []
    empty = np.empty

    def noted(*arguments: Any) -> Any:
        memory = empty(*arguments)
        made.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(np, "empty", noted)
    make = maker(1 << 10)
    gc.disable()
    try:
        held = [make() for _ in range(4)]
        del held
        assert sum(memory() is not None for memory in made) == 1
        del make
        assert all(memory() is None for memory in made)
    finally:
        gc.enable()


def test_a_result_outlives_its_program() -> None:
    make = maker(1 << 10)
    array = make()
    array[:] = 7
    del make
    gc.collect()
    assert set(array.tolist()) == {7.0}
    del array


def test_small_results_are_new_arrays() -> None:
    assert maker(4)().base is None


def test_threads_get_memory_of_their_own() -> None:
    make, wrong = maker(1 << 10), []

    def work(number: int) -> None:
        for _ in range(200):
            array = make()
            array[:] = number
            if array.min() != number or array.max() != number:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_programs_give_results_that_stay() -> None:
    run = ea.derive(ea.parse("O[i,j] = 2*A[i,j]", A=(64, 64)), measure=False).best.compile()
    one, two = run(A=np.ones((64, 64))), run(A=np.full((64, 64), 3))
    assert one.min() == one.max() == 2 and two.min() == two.max() == 6
    where = place(one)
    del one
    assert place(run(A=np.zeros((64, 64)))) == where
    assert two.max() == 6


def test_networks_give_results_that_stay() -> None:
    o = ea.optimize(
        ea.parse("O[i,j] = Max(A[i,j], 0)", A=(64, 64)), [np.ones((64, 64), np.float32)], seconds=0
    )
    one, two = o(np.ones((64, 64), np.float32)), o(np.full((64, 64), 3, np.float32))
    assert one.max() == 1 and two.min() == 3


def test_tensors_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from einalg.frontends.torch import direct_call

    monkeypatch.setattr(direct_call, "MIN_SYSTEM_BYTES", 1 << 12)
    make = direct_call._tensor_maker(BufferPool(), ea.tensor("O", (64, 64)), torch.float32)  # pyright: ignore[reportPrivateUsage]
    one, two = make().fill_(1), make().fill_(3)
    assert (
        one.shape == (64, 64) and one.dtype is torch.float32 and one.max() == 1 and two.min() == 3
    )
    where, view = one.data_ptr(), one[3:]
    del one
    assert make().data_ptr() != where
    del view
    assert make().data_ptr() == where
