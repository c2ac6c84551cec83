"""The fastest of several implementations of a kernel on this machine (design §10).

A choice is measured, stored with its figures, and measured again while these leave doubt.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from time import perf_counter
from typing import TypeVar

import numpy as np

from codegen.ir.nodes import Function
from codegen.libraries import library_kernels
from codegen.libraries.fallback import Fallback
from codegen.libraries.numpy import POOLS
from codegen.runtime.array_arguments import Array, sample
from codegen.runtime.kernel_call import generated_kernel
from codegen.runtime.memory_planning import aligned
from codegen.runtime.protocol import GENERATED, Buffers, KernelFunction, Packed, prepared
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.object_store import loaded, placed
from codegen.targets.c.source_file import own_sources
from codegen.targets.c.thread_pool import RUNTIME
from codegen.tuning.fingerprint import CHOICE_CODE, library_versions, thread_settings
from codegen.tuning.value_comparison import fill_unlike, same_values, valued
from einalg.language.interpreters.numpy.loops import defined_points
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.ir.traversal import reductions
from einalg.language.notation.constant import array_of
from einalg.runtime.clock import check_time
from einalg.runtime.measurement import Measurement, Turn, measurement, measurements
from einalg.runtime.processors import thread_count
from einalg.runtime.timing import MeasuringPolicy, take_turns
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import Fingerprint

LOG = logging.getLogger("einalg")
CHOICES = DiskCache("choices", ".json", "measured choices")
# Of one implementation, in one visit: only the best one of them matters.
MEASURING = MeasuringPolicy(0.03, 3, 30, hopeless_ratio=3.0, visits=1)


@dataclass(frozen=True)
class ChoicePolicy:
    """When implementations are compared, and when a choice is beyond doubt.

    A library is tried for a scope of `min_library_points`, below which its call costs more than it
    can save. A choice is beyond doubt where the best is ahead of the second by `margin`, of which
    half its own times may differ, or after `max_measurements`, by as many processes. A process
    measures again what leaves doubt for `repeat_seconds`.
    """

    min_library_points: int = 1 << 12
    margin: float = 0.1
    max_measurements: int = 4
    repeat_seconds: float = 0.25


POLICY = ChoicePolicy()
# Generated loops run these at the speed of memory, where a library has nothing to gain.
MEMORY_BOUND = ("reduce", *POOLS)
Run = TypeVar("Run")
_choices: dict[str, str] = {}  # of this process, by key: it measures nothing twice
_repeat_seconds: list[float] = []  # that this process has measured again


@dataclass(frozen=True)
class Figures:
    """The seconds of a run, the spread of its turns as a part of them, and whether the machine was
    busy.
    """

    seconds: float
    spread: float
    busy: bool = False


@dataclass(frozen=True)
class Selection:
    """Implementations with their figures, the lowest of so many measurements.

    An example of `figures` is `{"generated": Figures(1e-3, 0.02), "numpy": Figures(2e-3, 0.1)}`.
    """

    figures: Mapping[str, Figures]
    measurements: int = 1

    @property
    def best(self) -> str:
        return min(self.figures, key=lambda name: self.figures[name].seconds)

    def is_conclusive(self) -> bool:
        """Say whether another measurement would hardly choose another one.

        The best is well ahead, and its figures are sharp and of a quiet machine.
        """
        if self.measurements >= POLICY.max_measurements:
            return True
        if any(figures.busy for figures in self.figures.values()):
            return False
        first, *others = sorted(self.figures.values(), key=lambda figures: figures.seconds)
        if first.spread > POLICY.margin:
            return False
        if not others:
            return True
        second = others[0]
        lead = max(POLICY.margin, first.spread, second.spread)
        return second.seconds >= first.seconds * (1 + lead)

    def merged(self, other: Selection) -> Selection:
        """Return each implementation's better figures.

        Those are of a quiet machine, then the lower ones: a disturbance only makes slower.
        """
        lowest = dict(other.figures)
        for name, figures in self.figures.items():
            rival = lowest.get(name, figures)
            lowest[name] = min(figures, rival, key=lambda f: (f.busy, f.seconds, f.spread))
        return Selection(lowest, self.measurements + other.measurements)

    def text(self) -> bytes:
        """Return the selection as JSON."""
        ways: dict[str, list[float]] = {}
        for name, figures in self.figures.items():
            ways[name] = [figures.seconds, figures.spread, figures.busy]
        return json.dumps({"measurements": self.measurements, "ways": ways}).encode()


def selection_from_text(content: bytes | None) -> Selection | None:
    """Return a selection from its text; None for a foreign or broken one.

    >>> selection_from_text(Selection({"numpy": Figures(1e-3, 0.1)}).text()).best
    'numpy'
    """
    try:
        entry = json.loads(content or b"")
        figures: dict[str, Figures] = {}
        for name, (seconds, spread, busy) in entry["ways"].items():
            figures[str(name)] = Figures(float(seconds), float(spread), bool(busy))
        measurements = int(entry["measurements"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    if not figures:
        return None
    for row in figures.values():
        if not 0 < row.seconds < float("inf") or not row.spread >= 0:
            return None
    return Selection(figures, measurements)


def fastest(
    calls: Mapping[str, Callable[[], KernelFunction]],
    kernel: Kernel,
    scope: Scope,
    constants: Collection[str] = (),
    *keys: str,
) -> str:
    """Return the name of the fastest implementation; `calls` make them ready.

    The values of the first one are the expected ones. `constants` names the inputs that are known
    before a run. `keys` say what the implementations depend on besides the kernel, as a compiler.
    One that raises or has other values than the first is left out, with a warning.
    """
    return cached_choice(
        _key(calls, kernel, constants, *keys),
        calls,
        lambda: measure(calls, scope, kernel.output, constants),
    )


def _key(names: Collection[str], kernel: Kernel, constants: Collection[str], *keys: str) -> str:
    machine = "\n".join(thread_settings())
    fingerprint = Fingerprint(CHOICE_CODE, machine, libraries=library_versions())
    return fingerprint.key(*keys, kernel.op, *names, " ".join(sorted(constants)))


def cached_choice(key: str, names: Collection[str], measure: Callable[[], Selection]) -> str:
    """Return the best of some implementations.

    It is the one that was measured before, or is measured now where nothing is known, or what is
    known leaves doubt. A process measures again for some time only, so that one that starts from
    what is known starts quickly.
    """
    if key not in _choices:
        _choices[key] = _selection(key, names, measure).best
    return _choices[key]


def _selection(key: str, names: Collection[str], measure: Callable[[], Selection]) -> Selection:
    known = selection_from_text(CHOICES.read(key))
    if known is None or known.figures.keys() - set(names):
        selection = measure()
    elif known.is_conclusive() or not has_budget():
        return known
    else:
        began = perf_counter()
        selection = measure()
        _repeat_seconds.append(perf_counter() - began)
        if known.figures.keys() == selection.figures.keys():
            selection = known.merged(selection)
    CHOICES.replace(key, selection.text())
    return selection


def has_budget() -> bool:
    """Say whether this process may still measure again what leaves doubt."""
    return sum(_repeat_seconds) < POLICY.repeat_seconds


def alternatives(kernel: Kernel, scope: Scope) -> Mapping[str, KernelFunction]:
    """Return the implementations of libraries that may be faster than generated code."""
    if kernel.op in (EOP, *MEMORY_BOUND) or points(scope) < POLICY.min_library_points:
        return {}
    return library_kernels(kernel, scope)


@dataclass(frozen=True)
class LibraryChoice:
    """The library that runs an operator; None where its generated code does.

    It `is_conclusive` where another measurement would hardly choose another one, and `is_open`
    where nothing was measured though a library may be faster.
    """

    library: str | None = None
    is_conclusive: bool = True
    is_open: bool = False


OPEN = LibraryChoice(is_conclusive=False, is_open=True)
NO_LIBRARY = LibraryChoice()  # beyond doubt


def library_for(
    kernel: Kernel,
    scope: Scope,
    function: Function,
    constants: Collection[str],
    compiler: Compiler,
    timeout: float,
    readers: Sequence[ReaderCode] = (),
) -> LibraryChoice:
    """Return the library that runs an operator faster than its generated function, if one does.

    Where the function computes `readers` too, the first of which reads the operator's result and
    each other one that of the one before, libraries are followed by these.
    """
    libraries = alternatives(kernel, scope)
    if not libraries:
        return NO_LIBRARY
    compiled = partial(_compiled, compiler=compiler, timeout=timeout)
    sources, tensors, result = own_sources([function]), dict(scope.tensors), kernel.output
    for reader in readers:
        sources += own_sources([reader.function])
        tensors |= reader.scope.tensors
        del tensors[result]
        result = reader.output
    calls: dict[str, Callable[[], KernelFunction]] = {GENERATED: partial(compiled, function)}
    for name, run in libraries.items():
        calls[name] = partial(_itself, run)
        if readers:
            calls[name] = partial(_with_readers, run, kernel.output, scope, readers, compiled)
    known = [name for name in tensors if name in constants]
    key = _key(calls, kernel, known, compiler.key("\n".join(sources)), RUNTIME)
    measured = readers[-1].scope if readers else scope
    name = cached_choice(
        key, calls, lambda: _measured(calls, inputs_of(tensors), measured, result, known)
    )
    selection = selection_from_text(CHOICES.read(key))
    is_conclusive = selection is not None and selection.is_conclusive()
    if name == GENERATED:
        return LibraryChoice(None, is_conclusive)
    return LibraryChoice(name, is_conclusive)


@dataclass(frozen=True)
class ReaderCode:
    """A statement that reads an operator's result: its output, its scope, and its function."""

    output: str
    scope: Scope
    function: Function


@dataclass(frozen=True)
class _KernelsInTurn:
    """Two kernels as one: what the first one writes, into `array`, the second one reads."""

    first: KernelFunction
    second: KernelFunction
    name: str
    array: Array

    def __call__(self, buffers: Buffers) -> None:
        both = {**buffers, self.name: self.array}
        self.first(both)
        self.second(both)

    def prepared(self, known: Buffers, packed: Packed) -> _KernelsInTurn:
        """Return both with what is known packed now."""
        first, second = prepared(self.first, known, packed), prepared(self.second, known, packed)
        return replace(self, first=first, second=second)


def _with_readers(
    run: KernelFunction,
    name: str,
    scope: Scope,
    readers: Sequence[ReaderCode],
    compiled: Callable[[Function], KernelFunction],
) -> KernelFunction:
    """Return a library's function for an operator, called `name`, and its readers after it."""
    for reader in readers:
        array = aligned(scope.shape, scope.dtype)
        run = _KernelsInTurn(run, compiled(reader.function), name, array)
        name, scope = reader.output, reader.scope
    return run


def _compiled(function: Function, compiler: Compiler, timeout: float) -> KernelFunction:
    """Return a generated function as a call."""
    (place,) = placed(compiler, [function], own_sources([function]), timeout)
    shared_object = loaded(compiler, place, timeout)
    assert shared_object is not None  # a moment ago
    return generated_kernel(shared_object, function, place[1])


def _itself(run: KernelFunction) -> KernelFunction:
    return run


def by_library(
    kernel: Kernel, scope: Scope, name: str, generated: Callable[[], KernelFunction]
) -> KernelFunction:
    """Return a library's function for an operator, with generated code to fall back to."""
    return Fallback(library_kernels(kernel, scope)[name], generated, f"{name} for {kernel}")


def points(scope: Scope) -> int:
    """Return how often the innermost body of a scope is computed."""
    most = 1
    for reduction in reductions(scope.body):
        extents = [iterator.extent for iterator in reduction.iterators]
        most = max(most, prod(extents))
    return prod(scope.shape) * most


def measure(
    calls: Mapping[str, Callable[[], KernelFunction]],
    scope: Scope,
    output: str,
    constants: Collection[str] = (),
) -> Selection:
    """Measure all implementations on the same random inputs, in turns.

    One that is late at its first run is not run again.
    """
    return _measured(calls, inputs_for(scope), scope, output, constants)


def _measured(
    calls: Mapping[str, Callable[[], KernelFunction]],
    inputs: Buffers,
    scope: Scope,
    output: str,
    constants: Collection[str],
) -> Selection:
    """Measure all implementations of a scope on these inputs, in turns."""
    buffers = dict(inputs)
    known = {name: array for name, array in buffers.items() if name in constants}
    buffers[output] = np.empty(scope.shape, numpy_dtype(scope.dtype))
    first: dict[str, float] = {}

    out = buffers[output]

    def attempt(name: str, expected: Array | None) -> tuple[KernelFunction, Array]:
        check_time()
        run = prepared(calls[name](), known)
        fill_unlike(out, np.zeros_like(out) if expected is None else expected)
        began = perf_counter()
        run(buffers)
        first[name] = perf_counter() - began
        return run, out.copy()

    runs = consistent_runs({name: partial(attempt, name) for name in calls}, scope)
    latest = MEASURING.latest(first[name] for name in runs)
    quick = {name: run for name, run in runs.items() if first[name] <= latest}
    recorded = measurements(timed(quick, buffers))
    figures: dict[str, Figures] = {}
    for name in runs:
        if name not in recorded:
            recorded[name] = measurement([Turn(first[name], 0.0)])
        figures[name] = figures_of(recorded[name])
    return Selection(figures)


def consistent_runs(
    attempts: Mapping[str, Callable[[Array | None], tuple[Run, Array]]], scope: Scope
) -> dict[str, Run]:
    """Return the runs of those attempts whose values are those of the first one.

    An attempt is asked with the values that are expected, None at first, and gives a run and its
    own values. One that raises or has other values is left out, with a warning; what the first one
    raises is raised.
    """
    runs: dict[str, Run] = {}
    expected: Array | None = None
    defined = defined_points(scope)
    for name, attempt in attempts.items():
        try:
            run, values = attempt(expected)
        except Exception as error:  # a library may raise anything, and there are others
            if expected is None:
                raise
            LOG.warning("einalg: %s cannot run %s and is left out: %s", name, scope, str(error))
            continue
        if expected is None:
            expected = values
        if not same_values(valued(values, defined), valued(expected, defined), scope.dtype):
            LOG.warning("einalg: %s has other values for %s and is left out", name, scope)
            continue
        runs[name] = run
    return runs


def timed(runs: Mapping[str, KernelFunction], buffers: Buffers) -> dict[str, list[Turn]]:
    """Return the turns of runs, each after a first one; what is hopeless has few.

    With several threads each run is followed by one of the first implementation, as it is in a
    program by kernels that are generated: what a library's threads cost these, while they wait for
    more work, is a part of its price.
    """
    calls = {name: partial(run, buffers) for name, run in runs.items()}
    teardown = None
    if thread_count() > 1 and len(calls) > 1:
        teardown = next(iter(calls.values()))
    return take_turns(calls, MEASURING, teardown)


def figures_of(recorded: Measurement) -> Figures:
    """Return the figures of a measurement.

    >>> figures_of(measurement([Turn(1.0), Turn(1.5), Turn(3.0)]))
    Figures(seconds=1.0, spread=0.25, busy=False)
    """
    return Figures(recorded.minimum, recorded.spread, recorded.busy)


def inputs_for(scope: Scope) -> dict[str, Array]:
    """Return random arrays for what a scope reads, and its constants."""
    return inputs_of(scope.tensors)


def inputs_of(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Return random arrays for tensors; constants have their values."""
    constants: dict[str, Array] = {}
    others: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, Constant):
            constants[name] = array_of(tensor)
        else:
            others[name] = Tensor(name, tensor.axes, tensor.dtype)
    return {**constants, **sample(others)}
