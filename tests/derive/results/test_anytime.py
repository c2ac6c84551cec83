"""A derivation has an answer at any time: when time is over, and when it is interrupted."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.measure import calibration
from codegen.measure.background import BackgroundTimers
from codegen.targets.c.compiler import Compiler
from derive.cost.backend import Backend
from derive.cost.model import known_rates
from derive.results import pipeline
from derive.results.derivation import SearchResult
from derive.results.pipeline import find_derivation
from derive.results.sample_inputs import inputs_with_values
from derive.search.best_first import Budget
from einalg.api.backend import LocalBackend
from einalg.language.ir.program import as_program
from einalg.runtime.clock import (
    COMPILING,
    MEASURING,
    PROVING,
    SEARCHING,
    Clock,
    OutOfTime,
    check_time,
)
from tests.helpers.compiler_script import script
from tests.helpers.kernels import compiler
from tests.helpers.measurements import MEASURED_RATES, RATES
from tests.helpers.searches import shorten_layer_searches

KERNEL = (24, 16, 3)
CONV = ea.parse("O[f,h] += A.pad(0,1)[c,h+r-1]*K[f,c,r]", A=(16, 61), K=KERNEL)
FEW = Budget(states=3, seconds=600)
LAYERED = ea.parse(
    "S[i,j] += A[i,k]*B[k,j]\nO[i,j] += S[i,k]*C[k,j]", A=(40, 64), B=(64, 16), C=(16, 32)
)
PLACES = {  # what runs when an interrupt comes, by what is done
    "calibrating": "einalg.api.backend:LocalBackend.rates",
    "searching": "derive.search.expansion:StateExpander.__call__",
    "proving": "derive.results.verification:verdict_of",
    "generating code": "einalg.api.backend:LocalBackend.kernel_timers",
    "while it searches": "codegen.measure.background:BackgroundTimers.kernel_timers",
    "compiling": "codegen.targets.c.compiler:run_compiler",
    "measuring kernels": "codegen.measure.calibration:sample",
    "computing the reference": "einalg.api.backend:LocalBackend.reference",
    "measuring": "einalg.api.backend:LocalBackend.measure",
}
LIMIT = 60  # seconds that a thread whose start was interrupted may go on, on a busy machine
AT_FIRST = (
    "calibrating",
    "while it searches",
    "compiling",
    "measuring kernels",
)  # these come before the search too


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(warm_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test measured is known in the next, but every test searches."""
    monkeypatch.setenv("EINALG_CACHE", str(warm_cache))
    monkeypatch.setattr(pipeline, "MIN_SECONDS", math.inf)


def nothing_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(folder / "empty"))


@pytest.fixture(autouse=True)
def heard_interrupts() -> Iterator[None]:
    """Interrupts are heard, also by a process that was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """No thread and no child is left of those that a test started.

    A thread whose start was interrupted ends by itself, as soon as its work is over.
    """
    compiler()
    threads, others = set(threading.enumerate()), set(children())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(LIMIT)
    assert set(threading.enumerate()) <= threads
    assert set(children()) <= others


def children() -> list[int]:
    """Return the processes that this one started and that run."""
    numbers: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        numbers += map(int, path.read_text().split())
    return numbers


def before(monkeypatch: pytest.MonkeyPatch, place: str, action: Callable[[], None]) -> None:
    """Do something before each call of a function."""
    owner, _, name = place.replace(":", ".").rpartition(".")
    real = resolve_name(place)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        action()
        return real(*arguments, **options)

    monkeypatch.setattr(f"{owner}.{name}", wrapped)


def interrupting(times: int) -> Callable[[], None]:
    """Return what interrupts this process so often, as Ctrl-C does."""
    left = [times]

    def interrupt() -> None:
        if left[0] > 0:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return interrupt


def derived(backend: Backend | None = None, **options: Any) -> SearchResult:
    return find_derivation(CONV, FEW, None, backend or LocalBackend(), **options)


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_leaves_the_best_so_far(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place in AT_FIRST:
        nothing_known(tmp_path, monkeypatch)
    before(monkeypatch, PLACES[place], interrupting(1))
    d = derived()
    assert d.original.verdict == "proved" and d.stats.is_interrupted
    assert all(candidate.verdict == "proved" for candidate in d.candidates)
    if place not in (*AT_FIRST, "searching"):
        assert any(candidate.moves for candidate in d.candidates)
    assert str(d) and d.explain()


@pytest.mark.parametrize("place", ["searching", "proving"])
def test_a_second_interrupt_is_raised(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, PLACES["proving"], interrupting(10))
    if place == "searching":
        before(monkeypatch, PLACES["searching"], interrupting(1))
    with pytest.raises(KeyboardInterrupt):
        derived()


def hanging(folder: Path) -> Path:
    """Return the system's compiler, which hangs once the file `armed` is there."""
    real = compiler().command[0]
    text = f'if [ -e {folder}/armed ]; then touch {folder}/hangs; sleep 600; fi\nexec {real} "$@"'
    return script(folder / "hanging", text)


@pytest.fixture(params=["generating code", "while it searches"])
def hangs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that is there once a compiler hangs: for what is measured, or before, already."""
    monkeypatch.setenv("CC", str(hanging(tmp_path)))
    nothing_known(tmp_path, monkeypatch)
    monkeypatch.setattr(LocalBackend, "rates", lambda _: RATES)
    monkeypatch.setattr("codegen.measure.background.core_count", lambda: 2)
    before(monkeypatch, PLACES[request.param], (tmp_path / "armed").touch)
    return tmp_path / "hangs"


@contextmanager
def interrupted(there: Path) -> Iterator[None]:
    """Interrupt this process once a file is there.

    No garbage is collected meanwhile: Python drops what is raised in a function that another
    package, such as hypothesis, has called at each collection.
    """

    def wait() -> None:
        while not there.exists():
            if is_over.wait(0.01):
                return
        os.kill(os.getpid(), signal.SIGINT)

    is_over = threading.Event()
    thread = threading.Thread(target=wait)
    gc.disable()
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        gc.enable()


def test_an_interrupt_ends_compilers(hangs: Path) -> None:
    if sys.gettrace() is not None:
        pytest.skip(
            "the interrupt may come inside a tracer, such as coverage's, and leave it locked"
        )
    with interrupted(hangs):
        d = derived()
    assert d.stats.is_interrupted and not d.best.measured and any(c.moves for c in d.candidates)


def seconds_since(there: Path) -> Callable[[], float]:
    """Return a clock that stands until a file is there."""
    began: list[float] = []

    def now() -> float:
        if not began and there.exists():
            began.append(perf_counter())
        if not began:
            return 0.0
        return perf_counter() - began[0]

    return now


def test_time_ends_compilers(hangs: Path) -> None:
    d = derived(clock=Clock.of(2.0, now=seconds_since(hangs)))
    assert hangs.exists() and d.stats.is_cut and not d.stats.is_interrupted
    assert d.stats.unmeasured and not d.best.measured


class Hands:
    """A clock that a test turns on; it counts how often it was asked."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now

    def turn(self, seconds: float) -> Callable[[], None]:
        """Return what makes some seconds pass."""

        def pass_on() -> None:
            self.now += seconds

        return pass_on


SLOW = {  # what takes 4 of 10 seconds, and the phase whose time that is
    "calibrating": MEASURING,
    "searching": SEARCHING,
    "proving": PROVING,
    "generating code": COMPILING,
    "computing the reference": MEASURING,
}


@pytest.mark.parametrize("place", SLOW)
def test_every_phase_asks_the_clock(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one step takes long, the whole ends after it, and its phase is named."""
    hands = Hands()
    if place in AT_FIRST:
        nothing_known(tmp_path, monkeypatch)
    before(monkeypatch, PLACES[place], hands.turn(4.0))
    d = derived(clock=Clock.of(10.0, now=hands))
    assert d.stats.seconds <= 12.0, "no more than one step too late"
    assert d.stats.phases[SLOW[place]] >= 4.0
    assert sum(d.stats.phases.values()) == pytest.approx(d.stats.seconds)


def test_a_machine_that_is_slow_to_measure_leaves_time_to_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rates are then usual ones, which are not kept."""
    nothing_known(tmp_path, monkeypatch)
    monkeypatch.setattr(calibration, "rates", MEASURED_RATES)
    hands = Hands()
    before(monkeypatch, PLACES["calibrating"], hands.turn(4.0))
    d = derived(clock=Clock.of(10.0, now=hands))
    assert any(candidate.moves for candidate in d.candidates)
    assert known_rates(LocalBackend()) is None


def test_the_reference_ends_with_the_time() -> None:
    """However large it is, a part that fits in memory is computed at once."""
    with Clock.of(0.0).limiting(), pytest.raises(OutOfTime):
        LocalBackend().reference(as_program(CONV), {"A": np.ones((16, 61)), "K": np.ones(KERNEL)})


def test_without_time_the_expression_is_as_it_is() -> None:
    d = derived(clock=Clock.of(0.0))
    assert [candidate.moves for candidate in d.candidates] == [()] and d.stats.is_cut
    assert not d.best.measured and d.best.verdict == "proved"


@pytest.mark.parametrize(("size", "is_proven"), [(300, True), (3, False)])
def test_what_saves_more_than_its_proof_takes_is_proven_after_the_end(
    size: int, is_proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of six matrices in one nest would run for ages, unless they are tiny."""
    seconds = 0.4

    def slow_verdict(start: Any, program: Any) -> str:
        end = perf_counter() + seconds
        while perf_counter() < end:
            check_time()
        return "proved"

    monkeypatch.setattr("derive.results.verification.verdict_of", slow_verdict)
    equation = "ab,bc,cd,de,ef,fg->ag"
    product = ea.einsum(equation, *(ea.tensor(name, (size, size)) for name in "ABCDEF"))
    found = find_derivation(product, Budget(seconds=seconds), None, None)
    assert bool(found.best.moves) is is_proven


def test_the_first_answer_comes_while_it_searches() -> None:
    first = []

    def watch(stats: Any) -> None:
        if stats.best is not None and not first:
            first.append((stats.phase, stats.best.verdict, stats.best.measured))

    d = derived(progress=watch)
    assert first == [(SEARCHING, "proved", False)] and d.best.measured


def test_the_order_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """What promises most is proven before it is compiled, and the rest once that is measured."""
    phases: list[str] = []
    d = derived(progress=lambda stats: phases.append(stats.phase))
    order = [phase for phase, other in zip(phases, [*phases[1:], ""]) if phase != other]
    assert order[0] == MEASURING and order[1] == SEARCHING
    assert order.index(PROVING) < order.index(COMPILING) < len(order) - 1
    assert order[-1] == PROVING
    assert all(candidate.verdict == "proved" for candidate in d.candidates)


def test_it_compiles_while_it_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven by then; and what was begun is not compiled again."""
    nothing_known(tmp_path, monkeypatch)
    monkeypatch.setattr(LocalBackend, "rates", lambda _: RATES)
    monkeypatch.setattr("codegen.measure.background.core_count", lambda: 2)
    begun: list[Any] = []
    sources: list[str] = []
    phases: list[str] = []
    kernel_timers, run = BackgroundTimers.kernel_timers, Compiler._run

    def begin(self: BackgroundTimers, kernels: Any) -> Any:
        begun.extend(kernels)
        return kernel_timers(self, kernels)

    def compile_one(self: Compiler, source: str, timeout: float) -> bytes:
        sources.append(source)
        return run(self, source, timeout)

    monkeypatch.setattr(BackgroundTimers, "kernel_timers", begin)
    monkeypatch.setattr(Compiler, "_run", compile_one)
    d = derived(progress=lambda stats: phases.append(stats.phase))
    assert begun and d.best.measured
    first = phases.index(COMPILING)
    assert SEARCHING in phases[:first] and SEARCHING in phases[first:]
    assert len(set(sources)) == len(sources)


def test_without_a_core_to_spare_nothing_is_compiled_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_known(tmp_path, monkeypatch)
    monkeypatch.setattr(LocalBackend, "rates", lambda _: RATES)
    monkeypatch.setattr("codegen.measure.background.core_count", lambda: 1)
    before(monkeypatch, PLACES["while it searches"], interrupting(1))
    assert not derived().stats.is_interrupted


def test_the_one_who_watches_ends_it() -> None:
    def stop(stats: Any) -> None:
        if stats.phase == COMPILING:
            raise StopIteration

    d = derived(progress=stop)
    assert d.stats.is_interrupted and not d.best.measured and len(d.candidates) > 1


@pytest.mark.parametrize("place", ["searching", "proving", "compiling", "measuring"])
def test_an_interrupted_optimization_is_a_model(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_known(tmp_path, monkeypatch)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(t.shape) for name, t in LAYERED.inputs.items()}
    before(monkeypatch, PLACES[place], interrupting(1))
    shorten_layer_searches(monkeypatch)
    o = ea.optimize(LAYERED, arrays)
    expected = ea.evaluate(LAYERED, **arrays)
    np.testing.assert_allclose(o(*arrays.values()), expected, rtol=1e-4, atol=1e-4)
    assert str(o.report)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("O[i] = exp(A[i])/Sum[j:8](exp(A[j]))", "O[i] = exp(A[i]-A[0])/Sum[j:8](exp(A[j]-A[0]))"),
        ("O[i] = Sum[j:8](A[i]*A[j])", "O[i] = A[i]*Sum[j:8](A[j])"),
        ("O[i] = Max[j:8](A[i]*A[j])", "O[i] = Max[j:8](A[j]*A[i]*A[i]*A[0])"),
    ],
    ids=["by laws", "exactly", "by evaluation"],
)
def test_a_proof_asks_the_clock(one: str, other: str) -> None:
    """However it proves; each question takes a second here."""
    hands = Hands()
    clock = Clock.of(2.0, now=lambda: hands.turn(1.0)() or hands())
    with pytest.raises(OutOfTime), clock.limiting():
        ea.prove(ea.parse(one, A=(8,)), ea.parse(other, A=(8,)))


def test_no_reference_is_computed_once_time_is_over():
    """It takes a second for large inputs."""

    def reference(_: Any) -> Any:
        raise AssertionError

    program = as_program(CONV)
    with Clock.of(0.0).limiting(), pytest.raises(OutOfTime):
        inputs_with_values(program, program.inputs, reference)
