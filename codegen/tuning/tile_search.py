"""Tilings of contractions that were measured (design §10).

The winners are stored for a machine and a compiler, and travel as JSON. The model of
`codegen.kernels.contraction.cost_model` ranks; the best few are compiled and timed in turns, and
then the neighbours of the best: its blocks and steps of depth halved and doubled. A winner is text:
the same text gives the same source everywhere.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from codegen.hardware.cpu import cpu, machine
from codegen.kernels.contraction.cost_model import orders, ranked
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import StridedAxis, StridedOperand
from codegen.runtime.array_arguments import Array
from codegen.runtime.protocol import KernelFunction, prepared
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.tuning.kernel_choice import MEASURING, inputs_for
from einalg.errors import RecordError
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.scope import Scope
from einalg.runtime.processors import core_count
from einalg.runtime.timing import measure
from einalg.storage.disk_cache import DiskCache, cache_folder
from einalg.storage.fingerprint import text_digest

LOG = logging.getLogger("einalg")
TUNINGS = DiskCache("tunings", ".json", "tuned kernels")
SCHEMA = 2
COUNT, SECONDS = 8, 0.3  # tilings that are compiled, and seconds for which they run in turns
SAME = 1e-4  # of the largest element: sums in another order
Make = Callable[[Contraction, Tiling], KernelFunction]


@dataclass(frozen=True)
class Winner:
    """The fastest of some tilings, with its seconds and those of the model's own.

    `order` is the number of its contraction in `orders`.
    """

    kernel: str
    machine: str
    compiler: str
    order: int
    tiling: Tiling
    seconds: float
    model_seconds: float

    @property
    def key(self) -> str:
        return text_digest(self.kernel, self.machine, self.compiler)

    def text(self) -> str:
        """The winner as JSON, the same for the same winner."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True)

    def of(self, contraction: Contraction) -> tuple[Contraction, Tiling] | None:
        """Return the contraction in the winner's order with its tiling; None if it does not fit."""
        ordered = orders(contraction)
        if self.order >= len(ordered) or not self.tiling.fits(ordered[self.order]):
            return None
        return ordered[self.order], self.tiling


def signature(contraction: Contraction) -> str:
    """Return a contraction without names as a text: what its loop nest depends on."""
    operands = list(map(_operand, (contraction.left, contraction.right, contraction.target)))
    groups = (contraction.batch, contraction.rows, contraction.columns, contraction.depth)
    windows: list[list[Any]] = []
    for window in contraction.windows:
        numbers = [field.name for field in fields(window) if field.type != "Index"]
        windows.append([getattr(window, name) for name in numbers])
    return json.dumps([contraction.dtype, operands, list(map(_axes, groups)), windows])


def _operand(operand: StridedOperand) -> list[Any]:
    """Every field but the name of the memory."""
    rest = {f.name: getattr(operand, f.name) for f in fields(operand) if f.name != "buf"}
    return [operand.buf.shape, operand.buf.dtype, repr(sorted(rest.items()))]


def _axes(axes: Iterable[StridedAxis]) -> list[list[int]]:
    return [[a.extent, a.left, a.right, a.target] for a in axes]


def this_machine() -> str:
    """Return the digest of all that a winner depends on besides the kernel and the compiler."""
    return f"{text_digest(cpu())[:16]} {core_count()}"


def this_compiler(compiler: Compiler) -> str:
    return text_digest(*compiler.command, compiler.version, *compiler.flags)[:16]


def tuned(contraction: Contraction) -> tuple[Contraction, Tiling] | None:
    """Return the order of the operands and the tiling that were fastest here.

    None where nothing was measured.
    """
    if not (cache_folder() / TUNINGS.name).is_dir():
        return None
    compiler = find_compiler()
    if compiler is None:
        return None
    key = text_digest(signature(contraction), this_machine(), this_compiler(compiler))
    winner = _known(key, str(cache_folder()))
    if winner is None:
        return None
    return winner.of(contraction)


@lru_cache(maxsize=4096)
def _known(key: str, folder: str) -> Winner | None:
    """Return what the cache in a folder holds; this process asks once."""
    content = TUNINGS.read(key)
    if not content:
        return None
    try:
        return winner_of(json.loads(content))
    except (ValueError, RecordError) as error:
        LOG.warning("einalg: a tuned kernel is left out: %s", error)
        return None


def winner_of(entry: Any) -> Winner:
    """A winner from a JSON value; `RecordError` for anything else."""
    try:
        if entry["schema"] != SCHEMA:
            raise RecordError(
                f"a tuned kernel has schema {entry['schema']}, not {SCHEMA}\n"
                "  tune again with this version"
            )
        return Winner(
            kernel=str(entry["kernel"]),
            machine=str(entry["machine"]),
            compiler=str(entry["compiler"]),
            order=int(entry["order"]),
            tiling=_tiling(entry["tiling"]),
            seconds=float(entry["seconds"]),
            model_seconds=float(entry["model_seconds"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"this is no tuned kernel: {error!r}\n  export the tunings again"
        ) from None


def _tiling(row: Any) -> Tiling:
    """Return a tiling from a JSON value; one of the usual exceptions for anything else."""
    numbers: dict[str, Any] = {}
    for field in fields(Tiling):
        if field.default is MISSING or field.name in row:
            number = row[field.name]
            if type(number) not in (int, bool) or number < 0:
                raise ValueError("numbers of a tiling are integers")
            numbers[field.name] = number
    return Tiling(**numbers)


def tune(
    contraction: Contraction,
    scope: Scope,
    output: str,
    make: Make,
    compiler: Compiler,
    ahead: Sequence[str] = (),
    count: int = COUNT,
) -> Winner:
    """Measure the tilings that the model ranks best, then the neighbours of the fastest.

    The winner is stored. `make` compiles a contraction with its tiling; `ahead` names the inputs
    that are known before a run.
    """
    buffers = inputs_for(scope)
    buffers[output] = np.empty(scope.shape, numpy_dtype(scope.dtype))
    bench = _Bench(make, buffers, output, {name: buffers[name] for name in ahead})
    first = ranked(contraction)[:count]
    seconds = bench.seconds(first)
    ordered, best = first[min(seconds, key=seconds.__getitem__)]
    near = [(ordered, best)]
    for tiling in neighbours(ordered, best):
        near.append((ordered, tiling))
    near.append(first[0])
    near_seconds = bench.seconds(near)
    fastest = min(near_seconds, key=near_seconds.__getitem__)
    ordered, tiling = near[fastest]
    winner = Winner(
        kernel=signature(contraction),
        machine=this_machine(),
        compiler=this_compiler(compiler),
        order=orders(contraction).index(ordered),
        tiling=tiling,
        seconds=near_seconds[fastest],
        model_seconds=near_seconds[len(near) - 1],
    )
    TUNINGS.replace(winner.key, winner.text().encode())
    _known.cache_clear()
    return winner


def neighbours(contraction: Contraction, tiling: Tiling) -> Iterator[Tiling]:
    """Yield tilings with the blocks, groups or steps of depth halved or doubled.

    And one with steps that threads share, or share no longer.
    """
    for name in ("block", "group", "depth"):
        number = getattr(tiling, name, 0)
        doubled = 2 * number
        if name == "depth" and contraction.depth:
            doubled = min(contraction.depth[0].extent, doubled)
        for other in (number // 2, doubled):
            if other <= 0 or other == number:
                continue
            changed = replace(tiling, **{name: other})
            if changed.fits(contraction):
                yield changed
    if machine().cores > 1 and Partition(contraction, tiling).steps > 1:
        yield replace(tiling, apart=not tiling.apart)


@dataclass(frozen=True)
class _Bench:
    """Tilings compiled and timed on the same arrays."""

    make: Make
    buffers: dict[str, Array]
    output: str
    known: Mapping[str, Array]

    def seconds(self, tilings: Sequence[tuple[Contraction, Tiling]]) -> dict[int, float]:
        """Return the shortest time of each, by its position.

        One whose values differ from those of the first is left out.
        """
        calls: dict[str, Callable[[], None]] = {}
        expected: Array | None = None
        for number, (contraction, tiling) in enumerate(tilings):
            run = prepared(self.make(contraction, tiling), self.known)
            run(self.buffers)
            values = self.buffers[self.output].astype(np.float64)
            if expected is None:
                expected = values
            largest = np.abs(expected).max(initial=0)
            if np.abs(values - expected).max(initial=0) <= SAME * largest:
                calls[str(number)] = partial(run, self.buffers)
            else:
                LOG.warning("einalg: a tiling has other values and is left out: %s", tiling)
        policy = replace(MEASURING, seconds_per_alternative=SECONDS / COUNT)
        measured = measure(calls, policy, same_thread_pool=True)
        return {int(name): figures.minimum for name, figures in measured.items()}


def exported() -> str:
    """Return all winners that the cache holds, as JSON."""
    winners: set[bytes] = set()
    for path in (cache_folder() / TUNINGS.name).glob("*/*.json"):
        content = TUNINGS.read(path.stem.partition("-")[0])
        if content:
            winners.add(content)
    kernels = list(map(json.loads, sorted(winners)))
    return json.dumps({"schema": SCHEMA, "kernels": kernels}, indent=1, sort_keys=True)


def imported(path: Path) -> int:
    """Put the winners of a file into the cache, and return how many there are.

    Each counts for the machine and compiler that it was measured with. Raises `RecordError`, and
    changes nothing, for a file that holds anything else.
    """
    try:
        entries = list(json.loads(path.read_text())["kernels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} holds no tuned kernels: {error!r}\n"
            "  write it with python -m bench.tune --export"
        ) from None
    winners = [winner_of(entry) for entry in entries]
    for winner in winners:
        TUNINGS.replace(winner.key, winner.text().encode())
    _known.cache_clear()
    return len(winners)
