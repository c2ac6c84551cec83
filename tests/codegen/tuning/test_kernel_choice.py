"""Measured choices: kept with their figures, measured again while these leave doubt, never for
ever.
"""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.lowering.lower import lower
from codegen.program.building.generated_kernels import best_candidate
from codegen.runtime.protocol import prepared
from codegen.targets.c.compiler import find_compiler
from codegen.tuning import kernel_choice, value_comparison
from codegen.tuning.kernel_choice import (
    CHOICES,
    MEASURING,
    POLICY,
    Figures,
    LibraryChoice,
    ReaderCode,
    Selection,
    fastest,
    library_for,
    measure,
    points,
    selection_from_text,
    timed,
)
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.value_comparison import BLOCK_ELEMENTS, same_values
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import as_program
from tests.helpers.fake_clock import FakeClock

SCOPE = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))
KERNEL = Kernel("matmul", {}, ("A", "B"), "O", scope=SCOPE)
FRESH = (f"{os.getpid()} {number}" for number in count())  # workers of the tests share a cache


@pytest.fixture(autouse=True)
def next_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a process remembers is forgotten where this is called."""
    taken: dict[str, str] = {}
    again: list[float] = []
    monkeypatch.setattr(kernel_choice, "_choices", taken)
    monkeypatch.setattr(kernel_choice, "_repeat_seconds", again)
    return lambda: (taken.clear(), again.clear())


@pytest.mark.parametrize("place", [0, 9, 10, 24])
def test_values_are_compared_block_by_block(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    monkeypatch.setattr(value_comparison, "BLOCK_ELEMENTS", 10)
    expected = np.linspace(-1, 3, 25, dtype=np.float32).reshape(5, 5)
    found, nowhere = expected.copy(), expected.copy()
    found.flat[place] += np.float32(2e-4)  # within 1e-4 of the largest
    assert same_values(found, expected, "f32")
    found.flat[place] += np.float32(2e-4)
    assert not same_values(found, expected, "f32")
    nowhere.flat[place] = np.nan
    assert same_values(nowhere, nowhere.copy(), "f32") and not same_values(nowhere, expected, "f32")


def test_large_values_are_compared_in_little_memory() -> None:
    expected = np.ones(8 * BLOCK_ELEMENTS + 5, np.float32)
    found = expected.copy()
    tracemalloc.start()
    assert same_values(found, expected, "f32")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 8 * BLOCK_ELEMENTS
    assert same_values(np.empty(0, np.float32), np.empty(0, np.float32), "f32")


def choice(measurements: int = 1, **ways: tuple[float, float]) -> Selection:
    return Selection({name: Figures(*figures) for name, figures in ways.items()}, measurements)


@pytest.mark.parametrize(
    ("ways", "settled"),
    [
        ({"one": (1.0, 0.0)}, True),
        ({"one": (1.0, 0.05), "other": (2.0, 0.05)}, True),
        ({"one": (1.0, 0.05), "other": (1.05, 0.05)}, False),
        ({"one": (1.0, 0.5), "other": (2.0, 0.05)}, False),
        ({"one": (1.0, 0.05), "other": (1.3, 0.5)}, False),
        ({"one": (1.0, 0.05), "other": (2.0, 0.5)}, True),
    ],
)
def test_what_leaves_doubt(ways: Any, settled: bool) -> None:
    assert choice(**ways).is_conclusive() == settled
    assert choice(measurements=POLICY.max_measurements, **ways).is_conclusive()


def test_the_lower_figures_count() -> None:
    merged = choice(one=(3.0, 0.4), other=(2.0, 0.1)).merged(
        choice(one=(1.0, 0.1), other=(2.5, 0.3))
    )
    assert merged == choice(2, one=(1.0, 0.1), other=(2.0, 0.1)) and merged.best == "one"
    assert selection_from_text(merged.text()) == merged


def test_figures_of_a_busy_machine_leave_doubt() -> None:
    busy = Selection({"one": Figures(1.0, 0.0, busy=True), "other": Figures(2.0, 0.0)})
    assert not busy.is_conclusive()
    quiet = choice(one=(1.5, 0.0), other=(2.0, 0.0))
    merged = busy.merged(quiet)
    assert merged.figures["one"] == Figures(1.5, 0.0) and merged.is_conclusive()
    assert selection_from_text(busy.text()) == busy


@pytest.mark.parametrize(
    "content",
    [
        *(None, b"", b"{", b"[]", b"library", b"{}", b"\xff"),
        *(
            b'{"measurements": 1, "ways": {}}',
            b'{"measurements": 1, "ways": {"a": [0, 0, false]}}',
            b'{"measurements": 1, "ways": {"a": 3}}',
        ),
        *(
            b'{"measurements": 1, "ways": {"a": [NaN, 0, false]}}',
            b'{"measurements": "x", "ways": {"a": [1, 0, false]}}',
        ),
    ],
)
def test_foreign_entries_are_no_choices(content: Any) -> None:
    assert selection_from_text(content) is None


def test_a_busy_moment_does_not_decide_for_ever(
    next_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process measures again, some times at most, and the way that is faster when nothing
    disturbs wins.
    """
    told = [
        choice(one=(1.0, 0.0), other=(0.98, 0.5)),
        choice(one=(0.5, 0.3), other=(0.97, 0.1)),
        choice(one=(0.5, 0.05), other=(0.97, 0.1)),
    ]
    asked: list[int] = []
    monkeypatch.setattr(
        kernel_choice, "measure", lambda *given: (asked.append(1), told[len(asked) - 1])[1]
    )
    calls, key = {"one": lambda: print, "other": lambda: print}, next(FRESH)
    names = []
    for _ in range(5):
        names.append(fastest(calls, KERNEL, SCOPE, (), key))
        assert fastest(calls, KERNEL, SCOPE, (), key) == names[-1]
        next_process()
    assert names == ["other", "one", "one", "one", "one"] and len(asked) == 3


def test_measurements_are_bounded(next_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        kernel_choice,
        "measure",
        lambda *given: (asked.append(1), choice(one=(1.0, 0.9), other=(1.0, 0.9)))[1],
    )
    key = next(FRESH)
    for _ in range(3 * POLICY.max_measurements):
        fastest({"one": lambda: print, "other": lambda: print}, KERNEL, SCOPE, (), key)
        next_process()
    assert len(asked) == POLICY.max_measurements


def test_a_process_measures_again_for_some_time_only(
    next_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        kernel_choice,
        "measure",
        lambda *given: (asked.append(1), choice(one=(1.0, 0.9), other=(1.0, 0.9)))[1],
    )
    monkeypatch.setattr(
        kernel_choice, "perf_counter", lambda: 0.02 * len(asked)
    )  # which a measurement takes
    monkeypatch.setattr(kernel_choice, "POLICY", replace(POLICY, repeat_seconds=0.03))
    keys, calls = [next(FRESH) for _ in range(5)], {"one": lambda: print, "other": lambda: print}
    for expected in (5, 5 + 2, 5 + 2 + 2):  # all that is unknown, however long it takes
        for key in keys:
            assert fastest(calls, KERNEL, SCOPE, (), key) == "one"
        assert len(asked) == expected
        next_process()


def test_what_a_choice_depends_on(next_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways, threads, versions and what is known ahead: each of them makes it another choice."""
    asked: list[Any] = []
    monkeypatch.setattr(
        kernel_choice,
        "measure",
        lambda calls, *given: (asked.append(given), choice(**dict.fromkeys(calls, (1.0, 0.0))))[1],
    )
    key, both = next(FRESH), {"one": lambda: print, "other": lambda: print}
    fastest({"one": both["one"]}, KERNEL, SCOPE, (), key)
    fastest(both, KERNEL, SCOPE, (), key)
    fastest(both, KERNEL, SCOPE, ("B",), key)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    fastest(both, KERNEL, SCOPE, ("B",), key)
    monkeypatch.setattr(kernel_choice, "library_versions", lambda: ("numpy 0.0",))
    fastest(both, KERNEL, SCOPE, ("B",), key)
    assert len(asked) == 5
    fastest(both, KERNEL, SCOPE, ("B",), key)
    assert len(asked) == 5


def test_a_damaged_choice_is_measured_again(
    next_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_choice, "measure", lambda *given: choice(one=(1.0, 0.0)))
    stored: list[str] = []
    monkeypatch.setattr(type(CHOICES), "replace", lambda self, key, content: stored.append(key))
    monkeypatch.setattr(type(CHOICES), "read", lambda self, key: b"library")
    assert (
        fastest({"one": lambda: print}, KERNEL, SCOPE, (), next(FRESH)) == "one"
        and len(stored) == 1
    )


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_is_hopeless_runs_few_times(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    clock, counted = FakeClock(monkeypatch), Counter[str]()

    def run(name: str, seconds: float) -> Any:
        def call(buffers: Any) -> None:
            counted[name] += 1
            clock.sleep(seconds)

        return call

    times = timed({"quick": run("quick", 1e-4), "slow": run("slow", 4e-2)}, {})
    assert counted["slow"] == 2 < counted["quick"] and len(times["slow"]) == 1


def test_measuring_checks_values_and_covers_constants() -> None:
    expected = np.float32(4) * 0

    def good(buffers: Any) -> None:
        np.matmul(buffers["A"], buffers["B"], out=buffers["O"])

    def lazy(buffers: Any) -> None:
        buffers["O"][:2] = buffers["A"][:2] @ buffers["B"] + expected

    found = measure({"first": lambda: good, "lazy": lambda: lazy, "good": lambda: good}, SCOPE, "O")
    assert set(found.figures) == {"first", "good"} and all(
        f.seconds > 0 for f in found.figures.values()
    )
    with pytest.raises(ZeroDivisionError):
        measure({"first": lambda: 1 / 0, "good": lambda: good}, SCOPE, "O")  # type: ignore[dict-item,return-value]


def test_integers_that_are_not_written_show() -> None:
    """Whatever the expected ones are: no number is less likely than others."""
    scope = ea.parse("O[i] = A[i]", A=ea.tensor("A", (3,), dtype="i32"))

    def whole(buffers: Any) -> None:
        buffers["O"][:] = 77

    found = measure({"first": lambda: whole, "lazy": lambda: lambda buffers: None}, scope, "O")
    assert set(found.figures) == {"first"}


@pytest.mark.parametrize(("name", "runs"), [("late", 1), ("first", 1), ("none", 0)])
def test_a_way_that_is_late_at_its_first_run_is_not_run_again(
    name: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it is, the one that is believed too."""
    clock, counted = FakeClock(monkeypatch), Counter[str]()
    monkeypatch.setattr(kernel_choice, "perf_counter", clock.read)
    monkeypatch.setattr(kernel_choice, "MEASURING", replace(MEASURING, late_seconds=0.02))

    def way(own: str) -> Any:
        def call(buffers: Any) -> None:
            counted[own] += 1
            clock.sleep(0.05 if own == name else 1e-4)
            np.matmul(buffers["A"], buffers["B"], out=buffers["O"])

        return call

    found = measure(
        {own: lambda own=own: way(own) for own in ("first", "late", "good")}, SCOPE, "O"
    )
    assert set(found.figures) == {"first", "late", "good"} and counted[name] == runs
    assert min(counts for own, counts in counted.items() if own != name) > 2 and found.best != name


def test_points() -> None:
    assert points(SCOPE) == 60 and points(ea.parse("O[i] = A[i]", A=(7,))) == 7


@pytest.mark.parametrize(
    "scope",
    [
        ops.matmul(ea.tensor("A", (3, 4)), ea.tensor("B", (4, 5))),
        ops.sum(ea.tensor("x", (100, 100)), 1),
    ],
)
def test_nothing_is_measured_where_there_is_nothing_to_gain(
    scope: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small kernels cost less than a library's call, and reductions run at the speed of memory."""
    monkeypatch.setattr(kernel_choice, "measure", lambda *given: pytest.fail("measured"))
    kernel, compiler = match(scope, "O"), find_compiler()
    assert kernel is not None and compiler is not None
    choice = library_for(kernel, scope, lower("O", scope), (), compiler, 60.0)
    assert choice == LibraryChoice(None, is_conclusive=True)


def test_a_library_is_followed_by_the_reader_of_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared computes the same: both in one function, or one after the other."""
    monkeypatch.setenv("EINALG_LIBRARIES", "numpy")
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j] + b[j], 0)"
    pair = as_program(ea.parse(text, A=(64, 32), W=(32, 48), b=(48,)))
    product, reader = pair["T"], pair["O"]
    kernel, compiler = match(product, "T"), find_compiler()
    assert kernel is not None and compiler is not None
    results: list[dict[str, np.ndarray]] = []
    measured = kernel_choice._measured

    def look(calls, inputs, scope, output, constants):
        values = {}
        for name, call in calls.items():
            buffers = {**inputs, output: np.empty(scope.shape, np.float32)}
            prepared(call(), {"W": inputs["W"]})(buffers)
            values[name] = buffers[output]
        results.append(values)
        return measured(calls, inputs, scope, output, constants)

    monkeypatch.setattr(kernel_choice, "_measured", look)
    best = best_candidate(CodeUnit(kernel, product, frozenset({"W"}), readers=(("O", reader),)))
    assert best is not None
    epilogue = best.build()
    after = ReaderCode("O", reader, lower("O", reader))
    library_for(kernel, product, epilogue, ("W",), compiler, 60.0, [after])
    (values,) = results
    assert values.keys() == {"generated", "numpy"}
    np.testing.assert_allclose(values["generated"], values["numpy"], rtol=1e-5, atol=1e-6)
