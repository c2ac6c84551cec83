"""Costs of candidates: a roofline estimate that ranks before anything is compiled, and measured
kernels (design §8).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from time import perf_counter
from typing import Any, Protocol

import sympy

from derive.cost.backend import Backend, BackgroundKernels
from derive.cost.memory import memory_bytes
from einalg.errors import EinalgError, without_remedy
from einalg.language.analysis.canonical import key
from einalg.language.analysis.compile_time import compile_time_statements_among
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import number_of_points
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor, unpadded
from einalg.language.ir.traversal import accesses
from einalg.runtime.measurement import Measurement
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest
from einalg.text.wording import in_bytes

log = logging.getLogger("einalg")

Domain = tuple[tuple[LoopIndex, ...], tuple[Constraint, ...]]
COSTS = DiskCache("costs", ".json", "measured costs")
MAX_ESTIMATED_SECONDS = 1.0  # a kernel that is estimated to run longer is not measured
MAX_MEMORY_FRACTION = 0.25  # of a machine: a kernel that takes more of it is not measured either
MAX_SAMPLES = 3  # processes that measure a kernel whose times differ though the machine is quiet
RETRY_SECONDS = 0.5  # that a process spends on kernels that others have measured


class CostModel(Protocol):
    """Seconds that a kernel takes."""

    def seconds(self, kernel: Kernel) -> float: ...


@dataclass(frozen=True)
class Roofline:
    """Arithmetic and memory rates of a machine, in operations and bytes per second; `call` is the
    overhead of one kernel in seconds.
    """

    library: float = 1.0e11
    generated: float = 4.0e9
    bandwidth: float = 1.0e10
    call: float = 2.0e-6

    def seconds(self, kernel: Kernel) -> float:
        assert kernel.scope is not None
        return self.time(operations(kernel.scope), traffic(kernel.scope), library=not kernel.is_eop)

    def time(self, operations: float, traffic: float, library: bool) -> float:
        """Return the seconds for so many operations and bytes, by a library or by generated
        code.
        """
        rate = self.library if library else self.generated
        return self.call + max(operations / rate, traffic / self.bandwidth)


def operations(scope: Scope) -> int:
    """Return the scalar operations to evaluate a flat scope at every point.

    A reduction is evaluated once for all steps of the innermost loops on which it does not depend,
    be they over points or over those of a reduction around it.

    >>> import einalg as ea
    >>> operations(ea.parse("O[i,j] = A[i,j]/Sum[k](A[i,k])", A=(10, 100)))
    3000
    """
    return max(prod(scope.shape), _operations(scope.body, tuple(scope.iterators)))


def _operations(body: sympy.Basic, loops: tuple[LoopIndex, ...]) -> int:
    """Return the operations for all steps of some loops, outermost first: a reduction does its
    body's, and one to combine, at every point of its own.
    """
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return 0
    if isinstance(body, Reduce):
        own_loops = (*_repeating(body, loops), *body.iterators)
        return _steps(own_loops) + _operations(body.body, own_loops)
    return _steps(loops) + sum(_operations(operand, loops) for operand in body.args)


def _repeating(reduce: Reduce, loops: tuple[LoopIndex, ...]) -> tuple[LoopIndex, ...]:
    """Return the loops without the innermost ones on which a reduction does not depend."""
    while loops and loops[-1].index not in reduce.free_symbols:
        loops = loops[:-1]
    return loops


def _steps(loops: Sequence[LoopIndex]) -> int:
    return prod(it.extent for it in loops)


def arithmetic(program: Program) -> int:
    """Return the additions and multiplications of the sums of a program, at the points where their
    conditions hold.

    Points that would take long to count are counted as if there were no conditions.

    >>> import einalg as ea
    >>> from einalg.language.ir.program import as_program
    >>> text = "O[i:8] = Sum[j:8](A[i,j]*B[j], where=j<=i)"
    >>> arithmetic(as_program(ea.parse(text, A=(8, 8), B=(8,))))
    72
    """
    return sum(arithmetic_of(scope) for _, scope in program.statements)


def arithmetic_of(scope: Scope) -> int:
    """Return the additions and multiplications of the sums of one statement."""
    return sum(2 * _points(*domain) for domain in _summed(scope.body, scope, ((), ())))


def _summed(body: Any, scope: Scope, around: Domain) -> Iterator[Domain]:
    """Yield at which points each reduction of a body sums: those of the scope, of the reductions
    around it on whose indices it depends, and its own.
    """
    if isinstance(body, Reduce):
        outer = [it for it in around[0] if it.index in body.free_symbols]
        iterators = (*scope.iterators, *outer, *body.iterators)
        known = {it.index for it in iterators}
        conditions = (*scope.where, *around[1], *body.where)
        yield iterators, tuple(one for one in conditions if one.indices <= known)
        inside = (*around[0], *body.iterators), (*around[1], *body.where)
        yield from _summed(body.body, scope, inside)
    elif not isinstance(body, (Access, IndexArithmetic)):
        for operand in body.args:
            yield from _summed(operand, scope, around)


def _points(iterators: Sequence[LoopIndex], where: Sequence[Constraint]) -> int:
    points = number_of_points(iterators, where)
    return _steps(iterators) if points is None else points


def traffic(scope: Scope) -> int:
    """Return the bytes that must be moved at least: every element read once, every result written
    once.
    """
    total = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
    for tensor in {unpadded(a.base) for a in accesses(scope.body)}:
        total += prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize
    return total


def total(model: CostModel, kernels: Sequence[Kernel], limit: float = math.inf) -> float:
    """Return the seconds of a run of all kernels, or what is known of them once they are above
    `limit`.

    What depends on weights and constants alone is done once, and costs no run anything.
    """
    seconds = 0.0
    for kernel in kernels_of_each_run(kernels):
        if seconds <= limit:
            seconds += model.seconds(kernel)
    return seconds


def kernels_of_each_run(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels of every run: without what is done once, which they read as weights."""
    once = constant_outputs(kernels)
    return [_with_weights(kernel, once) for kernel in kernels if kernel.output not in once]


def seconds_by_kernel(model: CostModel, kernels: Sequence[Kernel]) -> list[float]:
    """Return the seconds of each kernel by itself; 0 for what is done once."""
    once = constant_outputs(kernels)
    seconds = []
    for kernel in kernels:
        if kernel.output in once:
            seconds.append(0.0)
        else:
            seconds.append(model.seconds(_with_weights(kernel, once)))
    return seconds


def _with_weights(kernel: Kernel, once: frozenset[str]) -> Kernel:
    """Return the kernel with what is done once as weights, which its operator may pack ahead."""
    assert kernel.scope is not None
    weights = {}
    for name, tensor in kernel.scope.tensors.items():
        if name in once:
            weights[name] = Tensor(name, tensor.axes, tensor.dtype, "weight")
    if not weights:
        return kernel
    return replace(kernel, scope=substitute_tensors(kernel.scope, weights))


def constant_outputs(kernels: Sequence[Kernel]) -> frozenset[str]:
    """Return the outputs of kernels that a run need not compute: what they read is a compile-time
    constant.
    """
    return compile_time_statements_among(
        (k.output, k.scope) for k in kernels if k.scope is not None
    )


@dataclass
class MeasuredCostModel:
    """Measured seconds of kernels, each distinct one measured once and stored on disk; where
    measuring fails, the estimate of `model`.

    A kernel is its operator, the canonical key of its scope, its data types, and which operands are
    weights: names do not matter. A figure of a busy moment is marked on disk. The next processes
    measure it again, for `retry_seconds` in all, until it comes from a quiet one; a process that
    finds the machine busy leaves it to the next. One whose turns differ on a quiet machine stays
    after `MAX_SAMPLES`.
    Kernels that are estimated to run longer than `max_seconds` are not measured. `estimated` holds
    the keys of those that could not be measured, with the reason; `timers` measure those that are
    ready.
    """

    model: CostModel
    backend: Backend
    cache: DiskCache | None = COSTS
    max_seconds: float = MAX_ESTIMATED_SECONDS
    retry_seconds: float = RETRY_SECONDS
    known: dict[str, float] = field(default_factory=dict, repr=False)
    estimated: dict[str, str] = field(default_factory=dict, repr=False)
    timers: dict[str, Callable[[], Measurement]] = field(default_factory=dict, repr=False)

    def make_ready(
        self, kernels: Sequence[Kernel], background: BackgroundKernels | None = None
    ) -> None:
        """Compile at once, for the measurements to come, those kernels that are not known.

        With a `background` that only begins.
        """
        unknown: dict[str, Kernel] = {}
        for kernel in kernels:
            if self.model.seconds(kernel) <= self.max_seconds:
                name = self.identity(kernel)
                if not self._is_ready(name):
                    unknown[name] = kernel
        compiler = self.backend if background is None else background
        timers = compiler.kernel_timers(list(unknown.values()))
        self.timers.update(zip(unknown, timers, strict=True))

    def _is_ready(self, name: str) -> bool:
        """Return whether nothing needs to be compiled to know the seconds of a kernel."""
        if name in self.known or name in self.timers:
            return True
        return self._stored(name)[0] is not None

    def seconds(self, kernel: Kernel) -> float:
        name = self.identity(kernel)
        if name not in self.known:
            stored, samples = self._stored(name)
            if stored is None:
                self.known[name] = self._measured(name, kernel)
            elif self.retry_seconds > 0 and _leaves_doubt(stored, samples):
                self.known[name] = self._measured_again(name, kernel, stored, samples)
            else:
                self.known[name] = stored.seconds
        return self.known[name]

    @cached_property
    def machine(self) -> str:
        """What all measurements depend on."""
        return self.backend.identity()

    def identity(self, kernel: Kernel) -> str:
        """Return the name of a kernel on this machine, with all that its seconds depend on."""
        assert kernel.scope is not None
        scope = _anonymous(kernel.scope)
        dtypes = []
        for name, tensor in sorted(scope.tensors.items()):
            is_weight = tensor.role == "weight"
            dtypes.append(f"{name} {tensor.dtype} {tensor.shape} {is_weight}")
        return text_digest(self.machine, kernel.op, repr(key(scope)), scope.dtype, *dtypes)

    def _stored(self, name: str) -> tuple[Measurement | None, int]:
        """Return the measurement on disk, and how often it was taken."""
        entry = _read(self.cache, name) or {}
        stored = Measurement.from_record(entry.get("measurement"))
        return stored, int(_number(entry.get("looks")) or 1)

    def _measured(self, name: str, kernel: Kernel) -> float:
        estimate = self.model.seconds(kernel)
        if estimate > self.max_seconds:
            return self._estimated(name, estimate, f"it is estimated to run for {estimate:.1f} s")
        assert kernel.scope is not None
        if (size := traffic(kernel.scope)) > memory_bytes() * MAX_MEMORY_FRACTION:
            return self._estimated(name, estimate, f"it reads and writes {in_bytes(size)}")
        try:
            measured = self._timed(name, kernel)
        except EinalgError as error:
            return self._estimated(name, estimate, without_remedy(error))
        self._store(name, kernel, measured, 1)
        return measured.seconds

    def _timed(self, name: str, kernel: Kernel) -> Measurement:
        timer = self.timers.pop(name, None)
        return timer() if timer else self.backend.kernel_timers([kernel])[0]()

    def _measured_again(
        self, name: str, kernel: Kernel, stored: Measurement, samples: int
    ) -> float:
        """Return the better one of a stored figure and a new one."""
        began = perf_counter()
        try:
            measured = self._timed(name, kernel)
        except EinalgError as error:
            log.info("einalg: a kernel is not measured again: %s", error)
            return stored.seconds
        finally:
            self.retry_seconds -= perf_counter() - began
        if measured.busy:
            self.retry_seconds = 0.0  # a later process may meet a quiet machine
        better = stored.merged(measured)
        self._store(name, kernel, better, samples + 1)
        return better.seconds

    def _store(self, name: str, kernel: Kernel, measured: Measurement, samples: int) -> None:
        if self.cache is not None:
            entry = {"op": kernel.op, "measurement": measured.as_record(), "looks": samples}
            self.cache.replace(name, json.dumps(entry).encode())

    def _estimated(self, name: str, estimate: float, reason: str) -> float:
        log.info("einalg: a kernel is not measured: %s", reason)
        self.estimated[name] = reason
        return estimate


def _leaves_doubt(stored: Measurement, samples: int) -> bool:
    """Say whether a figure is worth another measurement, after so many."""
    return stored.busy or (not stored.is_sharp and samples < MAX_SAMPLES)


def _anonymous(scope: Scope) -> Scope:
    """Return the scope with tensors that are numbered in the order of their use."""
    numbered: dict[str, Tensor] = {}
    for name, tensor in scope.tensors.items():
        if not isinstance(tensor, Constant):
            role = "weight" if tensor.role == "weight" else "input"
            numbered[name] = Tensor(f"x{len(numbered)}", tensor.axes, tensor.dtype, role)
    return substitute_tensors(scope, numbered)


def calibrated(backend: Backend, cache: DiskCache | None = COSTS) -> Roofline:
    """Return the roofline of this machine: its rates are measured once, within a second or so, and
    stored on disk.
    """
    rates = measured_rates(backend, cache)
    if rates is None:
        log.warning("einalg: the rates of this machine could not be measured; usual ones are used")
        return Roofline()
    return rates


def measured_rates(backend: Backend, cache: DiskCache | None = COSTS) -> Roofline | None:
    """Return the rates of this machine, measured now where they are not known; None where they
    cannot be.
    """
    rates = known_rates(backend, cache)
    if rates is None:
        measured = dict(backend.rates())
        rates = _roofline(measured)
        if rates is not None and cache is not None:
            cache.replace(_rates_name(backend), json.dumps(measured).encode())
    return rates


def known_rates(backend: Backend, cache: DiskCache | None = COSTS) -> Roofline | None:
    """Return the rates of this machine as they were measured before; None where they were not."""
    return _roofline(_read(cache, _rates_name(backend)))


def known_seconds(backend: Backend, kernels: Sequence[Kernel]) -> list[float] | None:
    """Return the seconds of each kernel by itself as they were measured before, 0 for what is done
    once; None where one of them was not.
    """
    model = MeasuredCostModel(Roofline(), backend)
    once, seconds = constant_outputs(kernels), []
    for kernel in kernels:
        if kernel.output in once:
            seconds.append(0.0)
            continue
        stored, _ = model._stored(model.identity(_with_weights(kernel, once)))
        if stored is None:
            return None
        seconds.append(stored.seconds)
    return seconds


def _rates_name(backend: Backend) -> str:
    return text_digest("roofline", backend.identity())


def _roofline(rates: Mapping[str, Any] | None) -> Roofline | None:
    """Return the roofline of an entry; None where a rate is missing or is none."""
    numbers: dict[str, float] = {}
    for rate in fields(Roofline):
        number = _number((rates or {}).get(rate.name))
        if number is None:
            return None
        numbers[rate.name] = number
    return Roofline(**numbers)


def _number(value: Any) -> float | None:
    """Return a positive finite number, or None for what a foreign or older entry may hold."""
    if type(value) not in (int, float) or not 0 < value < math.inf:
        return None
    return float(value)


def _read(cache: DiskCache | None, name: str) -> dict[str, Any] | None:
    """Return an entry on disk; None where there is none, or none that can be read."""
    content = cache.read(name) if cache is not None else None
    if not content:
        return None
    try:
        entry = json.loads(content)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
