"""Tilings of contractions that were measured: the winners are kept for a machine and a compiler, and travel as JSON (design §10).

The model of `codegen.kernels.contraction.cost_model` ranks; the best few are compiled and timed in turns, and then the neighbours of the best: its blocks
and steps of depth halved and doubled. A winner is text: the same text gives the same source everywhere.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import lru_cache
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
from einalg.runtime.timing import interleaved
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
    """The fastest of some tilings: `order` is the number of its contraction in `orders`; seconds of it and of the model's own."""

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
        """The contraction in the winner's order with its numbers; None where these do not fit it."""
        ways = orders(contraction)
        return (
            (ways[self.order], self.tiling)
            if self.order < len(ways) and self.tiling.fits(ways[self.order])
            else None
        )


def signature(contraction: Contraction) -> str:
    """A contraction without names: what its loop nest depends on."""
    operands = [_operand(o) for o in (contraction.left, contraction.right, contraction.target)]
    groups = [
        _axes(group)
        for group in (contraction.batch, contraction.rows, contraction.columns, contraction.depth)
    ]
    windows = [
        [getattr(window, f.name) for f in fields(window) if f.type != "Index"]
        for window in contraction.windows
    ]
    return json.dumps([contraction.dtype, operands, groups, windows])


def _operand(operand: StridedOperand) -> list[Any]:
    """Every field but the name of the memory."""
    rest = {f.name: getattr(operand, f.name) for f in fields(operand) if f.name != "buf"}
    return [operand.buf.shape, operand.buf.dtype, repr(sorted(rest.items()))]


def _axes(axes: Iterable[StridedAxis]) -> list[list[int]]:
    return [[a.extent, a.left, a.right, a.target] for a in axes]


def this_machine() -> str:
    """What a winner depends on besides the kernel and the compiler."""
    return f"{text_digest(cpu())[:16]} {core_count()}"


def this_compiler(compiler: Compiler) -> str:
    return text_digest(*compiler.command, compiler.version, *compiler.flags)[:16]


def tuned(contraction: Contraction) -> tuple[Contraction, Tiling] | None:
    """The order of the operands and the numbers that were fastest here; None where nothing was measured."""
    compiler = find_compiler() if (cache_folder() / TUNINGS.name).is_dir() else None
    if compiler is None:
        return None
    winner = _known(
        text_digest(signature(contraction), this_machine(), this_compiler(compiler)),
        str(cache_folder()),
    )
    return winner.of(contraction) if winner else None


@lru_cache(maxsize=4096)
def _known(key: str, folder: str) -> Winner | None:
    """What the cache in a folder holds; this process asks once."""
    content = TUNINGS.read(key)
    try:
        return winner_of(json.loads(content)) if content else None
    except (ValueError, RecordError) as error:
        LOG.warning("einalg: a tuned kernel is left out: %s", error)
        return None


def winner_of(entry: Any) -> Winner:
    """A winner from a JSON value; `RecordError` for anything else."""
    try:
        if entry["schema"] != SCHEMA:
            raise RecordError(
                f"a tuned kernel has schema {entry['schema']}, not {SCHEMA}\n  tune again with this version"
            )
        numbers = {
            f.name: entry["tiling"][f.name]
            for f in fields(Tiling)
            if f.default is MISSING or f.name in entry["tiling"]
        }
        if not all(type(n) in (int, bool) and n >= 0 for n in numbers.values()):
            raise ValueError("numbers of a tiling are integers")
        kernel, machine, compiler = (str(entry[name]) for name in ("kernel", "machine", "compiler"))
        seconds, model = float(entry["seconds"]), float(entry["model_seconds"])
        return Winner(
            kernel, machine, compiler, int(entry["order"]), Tiling(**numbers), seconds, model
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"this is no tuned kernel: {error!r}\n  export the tunings again"
        ) from None


def tune(
    contraction: Contraction,
    scope: Scope,
    output: str,
    make: Make,
    compiler: Compiler,
    ahead: Sequence[str] = (),
    count: int = COUNT,
) -> Winner:
    """Measure the tilings that the model ranks best, then the neighbours of the fastest, and keep the winner.

    `make` compiles a contraction with its numbers; `ahead` names the inputs that are known before a run.
    """
    buffers = inputs_for(scope)
    buffers[output] = np.empty(scope.shape, numpy_dtype(scope.dtype))
    bench = _Bench(make, buffers, output, {name: buffers[name] for name in ahead})
    first = ranked(contraction)[:count]
    seconds = bench.seconds(first)
    best = min(seconds, key=lambda n: seconds[n])
    near = [first[best], *((first[best][0], t) for t in neighbours(*first[best])), first[0]]
    again = bench.seconds(near)
    fastest = min(again, key=lambda n: again[n])
    way, tiling = near[fastest]
    order = orders(contraction).index(way)
    winner = Winner(
        signature(contraction),
        this_machine(),
        this_compiler(compiler),
        order,
        tiling,
        again[fastest],
        again[len(near) - 1],
    )
    TUNINGS.replace(winner.key, winner.text().encode())
    _known.cache_clear()
    return winner


def neighbours(contraction: Contraction, tiling: Tiling) -> Iterator[Tiling]:
    """Blocks, groups and steps of depth, one of them halved or doubled; steps that threads share, or share no longer."""
    for name in ("block", "group", "depth"):
        number = getattr(tiling, name, 0)
        most = contraction.depth[0].extent if name == "depth" and contraction.depth else 2 * number
        for other in (number // 2, min(most, 2 * number)):
            changed = replace(tiling, **{name: other}) if other > 0 else tiling
            if other not in (0, number) and changed.fits(contraction):
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

    def seconds(self, ways: Sequence[tuple[Contraction, Tiling]]) -> dict[int, float]:
        """The shortest time of each, by its position; one whose values differ from those of the first is left out."""
        runs: dict[str, KernelFunction] = {}
        expected: Array | None = None
        for number, way in enumerate(ways):
            run = prepared(self.make(*way), self.known)
            run(self.buffers)
            found = self.buffers[self.output].astype(np.float64)
            if expected is None:
                expected = found
            if np.abs(found - expected).max(initial=0) <= SAME * np.abs(expected).max(initial=0):
                runs[str(number)] = run
            else:
                LOG.warning("einalg: a tiling has other values and is left out: %s", way[1])
        calls = {name: lambda run=run: run(self.buffers) for name, run in runs.items()}
        policy = replace(MEASURING, seconds_per_alternative=SECONDS / COUNT)
        times = interleaved(calls, policy)
        return {int(name): least(runs) for name, runs in times.items()}


def least(times: Sequence[float]) -> float:
    """The shortest time: what disturbs only adds, and a winner stays."""
    return min(times)


def exported() -> str:
    """All winners that the cache holds, as JSON."""
    contents = (
        TUNINGS.read(path.stem.partition("-")[0])
        for path in sorted((cache_folder() / TUNINGS.name).glob("*/*.json"))
    )
    winners = {content for content in contents if content}
    return json.dumps(
        {"schema": SCHEMA, "kernels": [json.loads(content) for content in sorted(winners)]},
        indent=1,
        sort_keys=True,
    )


def imported(path: Path) -> int:
    """Put the winners of a file into the cache, each for the machine and compiler it was measured with; how many there are.

    Raises `RecordError`, and changes nothing, for a file that holds anything else.
    """
    try:
        entries = list(json.loads(path.read_text())["kernels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} holds no tuned kernels: {error!r}\n  write it with python -m bench.tune --export"
        ) from None
    winners = [winner_of(entry) for entry in entries]
    for winner in winners:
        TUNINGS.replace(winner.key, winner.text().encode())
    _known.cache_clear()
    return len(winners)
