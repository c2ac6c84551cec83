"""Which of several ways to run a kernel is fastest here: measured, kept with its figures, and measured again while these leave doubt (design §10)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from statistics import median, quantiles
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from codegen.ir.nodes import Function
from codegen.libraries import ways
from codegen.libraries.fallback import Fallback
from codegen.libraries.numpy import POOLS
from codegen.runtime.array_arguments import Array, sample
from codegen.runtime.kernel_call import entry
from codegen.runtime.protocol import GENERATED, Buffers, KernelFunction, prepared
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.object_store import loaded, placed
from codegen.targets.c.source_file import own_sources
from codegen.targets.c.thread_pool import RUNTIME
from codegen.tuning.fingerprint import CHOICE_CODE, library_versions, thread_settings
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.ir.traversal import reductions
from einalg.language.notation.constant import array_of
from einalg.runtime.processors import thread_count
from einalg.runtime.timing import MeasuringPolicy, run_times
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import Fingerprint

LOG = logging.getLogger("einalg")
CHOICES = DiskCache("choices", ".json", "measured choices")
SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.03, 3, 30  # of a way
LATE, MUCH_LATER = (
    0.1,
    5.0,
)  # seconds of a first run, and times those of the best, from which on a way is not run again
LEAST_POINTS = 1 << 12  # of a scope, below which a library's call costs more than it can save
MEMORY_BOUND = (
    "reduce",
    *POOLS,
)  # generated loops run these at the speed of memory, where a library has nothing to gain
MARGIN = 0.1  # by which the best is ahead of the second, and of which half its own times may differ, beyond doubt
MOST_MEASUREMENTS = 4  # by as many processes
AGAIN = 0.25  # seconds, from which on a process measures nothing again that leaves doubt
TOLERANCE = {"f64": 1e-9, "f32": 1e-4, "bf16": 2e-2, "f16": 1e-2}  # of the largest element
BLOCK = 1 << 20  # elements that are compared at once
Found = TypeVar("Found")
_taken: dict[str, str] = {}  # this process's choices: it measures nothing twice
_again: list[float] = []  # seconds that this process has measured again


@dataclass(frozen=True)
class Figures:
    """The median of some runs in seconds, and how far the middle half of them lies apart, as a part of that."""

    seconds: float
    spread: float


@dataclass(frozen=True)
class Selection:
    """Ways with their figures, the lowest of so many measurements."""

    ways: Mapping[str, Figures]
    measurements: int = 1

    @property
    def best(self) -> str:
        return min(self.ways, key=lambda name: self.ways[name].seconds)

    def is_settled(self) -> bool:
        """Whether another measurement would hardly change it: the best is well ahead, of figures that are sharp."""
        first, *rest = sorted(self.ways.values(), key=lambda figures: figures.seconds)
        ahead = not rest or rest[0].seconds >= first.seconds * (
            1 + max(MARGIN, first.spread, rest[0].spread)
        )
        return self.measurements >= MOST_MEASUREMENTS or (ahead and first.spread <= MARGIN)

    def merged(self, other: Selection) -> Selection:
        """Each way's lower figures: what is disturbed is slower, never faster."""
        lowest = {
            name: min(figures, other.ways.get(name, figures), key=lambda f: (f.seconds, f.spread))
            for name, figures in self.ways.items()
        }
        return Selection({**other.ways, **lowest}, self.measurements + other.measurements)

    def text(self) -> bytes:
        ways = {name: [figures.seconds, figures.spread] for name, figures in self.ways.items()}
        return json.dumps({"measurements": self.measurements, "ways": ways}).encode()


def choice_of(content: bytes | None) -> Selection | None:
    """A choice from its text; None for a foreign or broken one.

    >>> choice_of(Selection({"numpy": Figures(1e-3, 0.1)}).text()).best
    'numpy'
    """
    try:
        entry = json.loads(content or b"")
        ways = {
            str(name): Figures(float(seconds), float(spread))
            for name, (seconds, spread) in entry["ways"].items()
        }
        sound = ways and all(0 < f.seconds < float("inf") and f.spread >= 0 for f in ways.values())
        return Selection(ways, int(entry["measurements"])) if sound else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def fastest(
    calls: Mapping[str, Callable[[], KernelFunction]],
    kernel: Kernel,
    scope: Scope,
    ahead: Collection[str] = (),
    *keys: str,
) -> str:
    """The name of the fastest of several ways, given as functions that make them ready; the first is the one that is believed.

    `ahead` names the inputs that are known before a run. `keys` say what the ways depend on besides the kernel, as a compiler.
    A way that raises or has other values than the first is left out, with a warning.
    """
    return remembered(
        _key(calls, kernel, ahead, *keys),
        calls,
        lambda: measure(calls, scope, kernel.output, ahead),
    )


def _key(ways: Collection[str], kernel: Kernel, ahead: Collection[str], *keys: str) -> str:
    machine = "\n".join(thread_settings())
    fingerprint = Fingerprint(CHOICE_CODE, machine, libraries=library_versions())
    return fingerprint.key(*keys, kernel.op, *ways, " ".join(sorted(ahead)))


def remembered(key: str, ways: Collection[str], measure: Callable[[], Selection]) -> str:
    """The best of some ways: as it was measured before, or measured now where nothing is known, or what is known leaves doubt.

    A process measures again for some time only, so that one that starts from what is known starts quickly.
    """
    if key not in _taken:
        known = choice_of(CHOICES.read(key))
        if known is None or set(known.ways) - set(ways):
            known = measure()
            CHOICES.replace(key, known.text())
        elif not known.is_settled() and leaves_time():
            began = perf_counter()
            measured = measure()
            _again.append(perf_counter() - began)
            known = known.merged(measured) if set(known.ways) == set(measured.ways) else measured
            CHOICES.replace(key, known.text())
        _taken[key] = known.best
    return _taken[key]


def leaves_time() -> bool:
    """Whether this process may still measure again what leaves doubt."""
    return sum(_again) < AGAIN


def rivals(kernel: Kernel, scope: Scope) -> Mapping[str, KernelFunction]:
    """The ways of libraries that may be faster than generated code."""
    return (
        ways(kernel, scope)
        if points(scope) >= LEAST_POINTS and kernel.op not in (EOP, *MEMORY_BOUND)
        else {}
    )


def library_for(
    kernel: Kernel,
    scope: Scope,
    function: Function,
    ahead: Collection[str],
    compiler: Compiler,
    timeout: float,
) -> tuple[str | None, bool]:
    """The library's way that runs an operator faster than its generated function, None where no way does; and whether that is beyond doubt."""
    found = rivals(kernel, scope)
    if not found:
        return None, True

    source = own_sources([function])

    def generated() -> KernelFunction:
        (place,) = placed(compiler, [function], source, timeout)
        library = loaded(compiler, place, timeout)
        assert library is not None  # a moment ago
        return entry(library, function, place[1])

    calls = {GENERATED: generated, **{name: lambda run=run: run for name, run in found.items()}}
    given = [name for name in scope.tensors if name in ahead], compiler.key(*source), RUNTIME
    name = fastest(calls, kernel, scope, *given)
    known = choice_of(CHOICES.read(_key(calls, kernel, *given)))
    return None if name == GENERATED else name, known is not None and known.is_settled()


def by_library(
    kernel: Kernel, scope: Scope, name: str, instead: Callable[[], KernelFunction]
) -> KernelFunction:
    """A library's way to run an operator, with generated code to fall back to."""
    return Fallback(ways(kernel, scope)[name], instead, f"{name} for {kernel}")


def points(scope: Scope) -> int:
    """How often the innermost body of a scope is computed."""
    return prod(scope.shape) * max(
        (prod(it.extent for it in r.iterators) for r in reductions(scope.body)), default=1
    )


def measure(
    calls: Mapping[str, Callable[[], KernelFunction]],
    scope: Scope,
    output: str,
    ahead: Collection[str] = (),
) -> Selection:
    """All ways on the same random inputs, in turns; of one that is late at its first run, no more is asked."""
    buffers = inputs_for(scope)
    buffers[output] = np.empty(scope.shape, numpy_dtype(scope.dtype))
    first: dict[str, float] = {}

    def attempt(name: str) -> tuple[KernelFunction, Array]:
        run = prepared(calls[name](), {k: array for k, array in buffers.items() if k in ahead})
        began = perf_counter()
        values = _result(run, buffers, output)
        first[name] = perf_counter() - began
        return run, values

    runs = agreeing({name: partial(attempt, name) for name in calls}, scope)
    latest = max(LATE, MUCH_LATER * min(first[name] for name in runs))
    times = {name: [first[name]] for name in runs if first[name] > latest}
    times |= timed({name: run for name, run in runs.items() if name not in times}, buffers)
    return Selection({name: figures(times[name]) for name in runs})


def agreeing(
    attempts: Mapping[str, Callable[[], tuple[Found, Array]]], scope: Scope
) -> dict[str, Found]:
    """What attempts to compute a scope give, of those whose values, which they give too, are those of the first one.

    One that raises or has other values is left out, with a warning; what the first one raises is raised.
    """
    given, expected = dict[str, Found](), None
    for name, attempt in attempts.items():
        try:
            found, values = attempt()
        except Exception as error:  # whatever a library raises, there is another way
            if expected is None:
                raise
            LOG.warning("einalg: %s cannot run %s and is left out: %s", name, scope, str(error))
            continue
        if expected is None or _same(values, expected, scope.dtype):
            given[name], expected = found, values if expected is None else expected
        else:
            LOG.warning("einalg: %s has other values for %s and is left out", name, scope)
    return given


def timed(runs: Mapping[str, KernelFunction], buffers: Buffers) -> dict[str, list[float]]:
    """The seconds of runs, each after a first one; what is hopeless has few.

    With several threads each run is followed by one of the first way, as it is in a program by kernels that are generated: what a library's
    threads cost these, while they wait for more work, is a part of its price.
    """
    calls = {name: lambda run=run: run(buffers) for name, run in runs.items()}
    policy = MeasuringPolicy(SECONDS, LEAST_ROUNDS, MOST_ROUNDS)
    teardown = None
    if thread_count() > 1 and len(calls) > 1:
        teardown = next(iter(calls.values()))
    return run_times(calls, policy, teardown)


def figures(times: list[float]) -> Figures:
    middle = max(median(times), 1e-9)
    low, _, high = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (0.0, 0.0, 0.0)
    return Figures(middle, (high - low) / middle)


def inputs_for(scope: Scope) -> dict[str, Array]:
    """Random arrays for what a scope reads, and its constants."""
    constants = {
        name: array_of(tensor)
        for name, tensor in scope.tensors.items()
        if isinstance(tensor, Constant)
    }
    others = {
        name: Tensor(name, t.axes, t.dtype)
        for name, t in scope.tensors.items()
        if name not in constants
    }
    return {**constants, **sample(others)}


def _result(run: KernelFunction, buffers: Mapping[str, Any], output: str) -> Array:
    """What a run gives; elements that it does not write show."""
    out = buffers[output]
    out.fill(np.nan if out.dtype.kind == "f" else 77)
    run(buffers)
    return out.copy()


def _same(found: Array, expected: Array, dtype: str) -> bool:
    """Whether values are equal within the tolerance of a dtype, block by block: large results in double precision would not fit in memory."""
    if dtype not in TOLERANCE:
        return np.array_equal(found, expected)
    one, other = found.reshape(-1), expected.reshape(-1)
    blocks = [slice(k, k + BLOCK) for k in range(0, other.size, BLOCK)]
    allowed = TOLERANCE[dtype] * max((_largest(other[block]) for block in blocks), default=0.0)
    return all(
        np.allclose(
            one[block].astype(np.float64),
            other[block].astype(np.float64),
            rtol=0,
            atol=allowed,
            equal_nan=True,
        )
        for block in blocks
    )


def _largest(values: Array) -> float:
    exact = values.astype(np.float64)
    return float(np.abs(exact[np.isfinite(exact)]).max(initial=0))
