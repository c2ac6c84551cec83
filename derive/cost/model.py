"""What a candidate costs: a roofline estimate that ranks before anything is compiled, and measured kernels (design §8)."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from time import perf_counter
from typing import Any, Protocol

import sympy

from derive.cost.backend import Backend
from derive.cost.memory import memory
from einalg.errors import EinalgError
from einalg.language.analysis.canonical import key
from einalg.language.analysis.compile_time import settled_among
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.isl import number_of_points
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest
from einalg.text.wording import in_bytes

log = logging.getLogger("einalg")

COSTS = DiskCache("costs", ".json", "measured costs")
LONGEST = 1.0  # seconds: a kernel that is estimated to run longer is not measured
PART = 0.25  # of the memory of a machine: one that takes more of it is not measured either
LOOKS = 3  # processes that measure a kernel, of whose figures the lowest counts: what disturbs only adds
AGAIN = 0.5  # seconds that a process spends on kernels that others have measured


class CostModel(Protocol):
    """Seconds that a kernel takes."""

    def seconds(self, kernel: Kernel) -> float: ...


@dataclass(frozen=True)
class Roofline:
    """Arithmetic and memory rates of a machine, in operations and bytes per second; `call` is the overhead of one kernel in seconds."""

    library: float = 1.0e11
    generated: float = 4.0e9
    bandwidth: float = 1.0e10
    call: float = 2.0e-6

    def seconds(self, kernel: Kernel) -> float:
        assert kernel.scope is not None
        return self.time(operations(kernel.scope), traffic(kernel.scope), library=not kernel.is_eop)

    def time(self, operations: float, traffic: float, library: bool) -> float:
        """Seconds for so many operations and bytes, by a library or by generated code."""
        return self.call + max(
            operations / (self.library if library else self.generated), traffic / self.bandwidth
        )


def operations(scope: Scope) -> int:
    """Scalar operations to evaluate a flat scope at every point."""
    points = prod(scope.shape)
    return points * max(1, _body_operations(scope.body))


def _body_operations(body: sympy.Basic) -> int:
    """Operations for one point: a reduction does its body's, and one to combine, at every point of its own."""
    if isinstance(body, (Access, IndexArithmetic)) or not body.args:
        return 0
    if isinstance(body, Reduce):
        return prod(it.extent for it in body.iterators) * (_body_operations(body.body) + 1)
    return 1 + sum(_body_operations(a) for a in body.args)


def arithmetic(program: Program) -> int:
    """Additions and multiplications of the sums of a program, at the points where their conditions hold.

    Points that would take long to count are counted as if there were no conditions.

    >>> import einalg as ea
    >>> from einalg.language.ir.program import as_program
    >>> arithmetic(as_program(ea.parse("O[i:8] = Sum[j:8](A[i,j]*B[j], where=j<=i)", A=(8, 8), B=(8,))))
    72
    """
    return sum(arithmetic_of(scope) for _, scope in program.statements)


def arithmetic_of(scope: Scope) -> int:
    """Those of one statement."""
    return sum(2 * _points(scope, reduce) for reduce in reductions(scope.body))


def _points(scope: Scope, reduce: Reduce) -> int:
    iterators = (*scope.iterators, *reduce.iterators)
    found = number_of_points(iterators, (*scope.where, *reduce.where))
    return prod(it.extent for it in iterators) if found is None else found


def traffic(scope: Scope) -> int:
    """Bytes that must be moved at least: every element read once, every result written once."""
    total = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
    for tensor in {unpadded(a.base) for a in accesses(scope.body)}:
        total += prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize
    return total


def total(model: CostModel, kernels: Sequence[Kernel], limit: float = math.inf) -> float:
    """Seconds of a run of all kernels, or what is known of them once they are above `limit`.

    What depends on weights and constants alone is done once, and costs no run anything.
    """
    seconds = 0.0
    for kernel in each_run(kernels):
        if seconds <= limit:
            seconds += model.seconds(kernel)
    return seconds


def each_run(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels of every run: without what is done once, which they read as weights."""
    once = done_once(kernels)
    return [_with_weights(kernel, once) for kernel in kernels if kernel.output not in once]


def shares(model: CostModel, kernels: Sequence[Kernel]) -> list[float]:
    """Seconds of each kernel by itself; 0 for what is done once."""
    once = done_once(kernels)
    return [
        0.0 if kernel.output in once else model.seconds(_with_weights(kernel, once))
        for kernel in kernels
    ]


def _with_weights(kernel: Kernel, once: frozenset[str]) -> Kernel:
    """The kernel with what is done once as weights, which its operator may pack ahead."""
    assert kernel.scope is not None
    known = {
        name: Tensor(name, t.axes, t.dtype, "weight")
        for name, t in kernel.scope.tensors.items()
        if name in once
    }
    return replace(kernel, scope=substitute_tensors(kernel.scope, known)) if known else kernel


def done_once(kernels: Sequence[Kernel]) -> frozenset[str]:
    """Outputs of the kernels that a run need not compute: what they read is known before."""
    return settled_among((k.output, k.scope) for k in kernels if k.scope is not None)


@dataclass
class MeasuredCostModel:
    """Measured seconds of kernels, each distinct one measured once and kept on disk; where measuring fails, the estimate of `model`.

    A kernel is its operator, the canonical key of its scope, its data types, and which operands are weights: names do not matter.
    A figure may come from a busy moment, so the next processes look again, for `again` seconds in all, and keep the lowest; after
    `LOOKS` it stays. `estimated` holds the keys of those that could not be measured, with the reason; `timers` measure those that are ready.
    """

    model: CostModel
    backend: Backend
    cache: DiskCache | None = COSTS
    longest: float = LONGEST
    again: float = AGAIN
    known: dict[str, float] = field(default_factory=dict, repr=False)
    estimated: dict[str, str] = field(default_factory=dict, repr=False)
    timers: dict[str, Callable[[], float]] = field(default_factory=dict, repr=False)

    def make_ready(self, kernels: Sequence[Kernel]) -> None:
        """Compile at once, for the measurements to come, those kernels that are not known."""
        named = {
            self.identity(kernel): kernel
            for kernel in kernels
            if self.model.seconds(kernel) <= self.longest
        }
        unknown = {
            name: kernel
            for name, kernel in named.items()
            if not (name in self.known or name in self.timers or self._kept(name)[0])
        }
        self.timers.update(
            zip(unknown, self.backend.kernel_timers(list(unknown.values())), strict=True)
        )

    def seconds(self, kernel: Kernel) -> float:
        name = self.identity(kernel)
        if name not in self.known:
            stored, looks = self._kept(name)
            if stored is None:
                self.known[name] = self._measured(name, kernel)
            elif looks < LOOKS and self.again > 0:
                self.known[name] = self._looked_again(name, kernel, stored, looks)
            else:
                self.known[name] = stored
        return self.known[name]

    def identity(self, kernel: Kernel) -> str:
        """The name of a kernel on this machine, with all that its seconds depend on."""
        assert kernel.scope is not None
        scope = _anonymous(kernel.scope)
        dtypes = [
            f"{name} {t.dtype} {t.shape} {t.role == 'weight'}"
            for name, t in sorted(scope.tensors.items())
        ]
        return text_digest(self.backend.identity(), kernel.op, repr(key(scope)), scope.dtype, *dtypes)

    def _kept(self, name: str) -> tuple[float | None, int]:
        """The seconds on disk, and how often they were looked at."""
        entry = _read(self.cache, name) or {}
        return _number(entry.get("seconds")), int(_number(entry.get("looks")) or 1)

    def _measured(self, name: str, kernel: Kernel) -> float:
        estimate = self.model.seconds(kernel)
        if estimate > self.longest:
            return self._instead(name, estimate, f"it is estimated to run for {estimate:.1f} s")
        assert kernel.scope is not None
        if (size := traffic(kernel.scope)) > memory() * PART:
            return self._instead(name, estimate, f"it reads and writes {in_bytes(size)}")
        try:
            seconds = self._timed(name, kernel)
        except EinalgError as error:
            return self._instead(name, estimate, str(error))
        self._keep(name, kernel, seconds, 1)
        return seconds

    def _timed(self, name: str, kernel: Kernel) -> float:
        timer = self.timers.pop(name, None)
        return timer() if timer else self.backend.kernel_timers([kernel])[0]()

    def _looked_again(self, name: str, kernel: Kernel, stored: float, looks: int) -> float:
        """The lower of a figure that is known and a new one."""
        began = perf_counter()
        try:
            lowest = min(stored, self._timed(name, kernel))
        except EinalgError as error:
            log.info("einalg: a kernel is not measured again: %s", error)
            return stored
        finally:
            self.again -= perf_counter() - began
        self._keep(name, kernel, lowest, looks + 1)
        return lowest

    def _keep(self, name: str, kernel: Kernel, seconds: float, looks: int) -> None:
        if self.cache is not None:
            self.cache.replace(
                name, json.dumps({"op": kernel.op, "seconds": seconds, "looks": looks}).encode()
            )

    def _instead(self, name: str, estimate: float, reason: str) -> float:
        log.info("einalg: a kernel is not measured: %s", reason)
        self.estimated[name] = reason
        return estimate


def _anonymous(scope: Scope) -> Scope:
    """The scope with tensors that are numbered in the order of their use."""
    plain = {name: t for name, t in scope.tensors.items() if not isinstance(t, Constant)}
    role = {True: "weight", False: "input"}
    return substitute_tensors(
        scope,
        {
            name: Tensor(f"x{n}", t.axes, t.dtype, role[t.role == "weight"])
            for n, (name, t) in enumerate(plain.items())
        },
    )


def calibrated(backend: Backend, cache: DiskCache | None = COSTS) -> Roofline:
    """The roofline of the machine at hand: its rates are measured once, within a second or so, and kept on disk."""
    name = text_digest("roofline", backend.identity())
    rates = _roofline(_read(cache, name))
    if rates is None:
        measured = dict(backend.rates())
        rates = _roofline(measured)
        if rates is None:
            log.warning(
                "einalg: the rates of this machine could not be measured; usual ones are used"
            )
            return Roofline()
        if cache is not None:
            cache.replace(name, json.dumps(measured).encode())
    return rates


def _roofline(rates: Mapping[str, Any] | None) -> Roofline | None:
    numbers = {f.name: _number((rates or {}).get(f.name)) for f in fields(Roofline)}
    return (
        None
        if None in numbers.values()
        else Roofline(**{name: n for name, n in numbers.items() if n is not None})
    )


def _number(value: Any) -> float | None:
    """A positive finite number, or None for what a foreign or older entry may hold."""
    return float(value) if type(value) in (int, float) and 0 < value < math.inf else None


def _read(cache: DiskCache | None, name: str) -> dict[str, Any] | None:
    content = cache.read(name) if cache is not None else None
    try:
        entry = json.loads(content) if content else None
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
