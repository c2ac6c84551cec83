"""One program of a network, optimized, and kept on disk for the next run of the same network (design §11)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from derive.cost.backend import Backend, Runnable
from derive.programs.layers import UNREADABLE, Layer, is_too_short, layer_record, take_record
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import kernel_of, kernels_of
from einalg.errors import RecordError
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_from_record,
    program_record,
    program_record_with_heads,
)
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import array_digest, code_digest, text_digest

log = logging.getLogger("einalg")

PARTS = DiskCache("parts", ".json", "optimized programs")
Weights = Mapping[str, Any]


@dataclass
class OptimizedProgram:
    """One program of the graph: as it was, as it is now (flat), its layers, its seconds before and after, and the largest relative error.

    `verdict` is the weakest one of its layers: "proved" where every change is. `changes` says in words what was changed in the
    whole, beside its layers. `told` gives the layers. Where there are `slices`, the program as it is now computes one of them.
    """

    before: Program
    after: Program
    told: Callable[[], list[Layer]] = field(default=list, repr=False)
    seconds: tuple[float, float] = (0.0, 0.0)
    error: float = 0.0
    verdict: str = "proved"
    run: Runnable | None = field(default=None, repr=False)
    changes: tuple[str, ...] = ()
    slices: Slices | None = None

    @cached_property
    def layers(self) -> list[Layer]:
        """What was searched, and what was found for it."""
        return self.told()

    @property
    def workspace(self) -> int:
        """The bytes that a call keeps for what is between its kernels."""
        assert self.run is not None
        return self.run.workspace

    def source(self, language: str) -> str:
        """The text of its generated kernels."""
        assert self.run is not None
        return self.run.source(language)


def verdict(layers: Sequence[Layer]) -> str:
    """The weakest verdict of some layers."""
    return (
        "tested"
        if any(
            layer.candidate is not None and layer.candidate.verdict == "tested" for layer in layers
        )
        else "proved"
    )


def compiled(
    program: Program,
    backend: Backend,
    weights: Weights,
    slices: Slices | None = None,
    record: Any = None,
) -> Runnable:
    """A program compiled, or found by the record of when it was, with those weights given that it reads; one of a slice as one of all slices."""
    run = backend.known(record, program, kernel_of)
    if run is None:
        flat = lifted(program)
        run = backend.compile(flat, kernels_of(flat))
    run = run.bind(**{name: weights[name] for name in program.inputs if name in weights})
    return run if slices is None else backend.in_slices(run, slices)


def part_key(program: Program, weights: Weights, backend: Backend, *wishes: object) -> str:
    """What an optimized program depends on: the program, the values of its weights, the machine, what was asked for, and einalg's own code.

    Under the same key the same text is compiled again, so that its check against the reference holds.
    """
    given = json.dumps(program_record(program))
    return text_digest(
        "part",
        code_digest(),
        given,
        array_digest(weights.items()),
        backend.identity(),
        *map(repr, wishes),
    )


def part_record(part: OptimizedProgram) -> dict[str, Any]:
    """A part as JSON values, but for the program as it was."""
    figures = {
        "seconds": list(part.seconds),
        "error": part.error,
        "verdict": part.verdict,
        "changes": part.changes,
    }
    layers = [
        {
            "names": layer.names,
            "weights": layer.weights,
            "program": program_record(layer.program),
            **layer_record(layer),
        }
        for layer in part.layers
    ]
    slices = part.slices and {
        "count": part.slices.count,
        "names": sorted(part.slices.names),
        "whole": program_record(part.before),
    }
    return {"program": program_record(part.after), **figures, "layers": layers, "slices": slices}


def part_from_record(
    row: Any, before: Program | None, weights: Weights, backend: Backend
) -> OptimizedProgram:
    """A part compiled again, with its program as it is for what it was where this is not known; raises one of `UNREADABLE` for a damaged record.

    In the place of slices that the backend does not offer, the program is what it was.
    """
    read = lazy_program_from_record if "heads" in row["program"] else program_from_record
    after, cut = read(row["program"]), row.get("slices")
    slices = Slices(int(cut["count"]), frozenset(map(str, cut["names"]))) if cut else None
    before = before or (program_from_record(cut["whole"]) if cut else after)
    _require_alike(before, after, slices)
    run = row.get("run")
    if slices and not backend.has_slices:
        after, slices, run = before, None, None
    first, now = map(float, row["seconds"])
    figures = float(row["error"]), str(row["verdict"])
    runs = compiled(after, backend, weights, slices, run)
    changes = tuple(map(str, row.get("changes", ())))
    return OptimizedProgram(
        before,
        after,
        lambda: _layers(row.get("layers", []), backend),
        (first, now),
        *figures,
        runs,
        changes,
        slices,
    )


def _require_alike(before: Program, after: Program, slices: Slices | None) -> None:
    """Raise `RecordError` where two programs read or give memory of other sizes: what runs on addresses relies on these."""

    def tensors(program: Program) -> dict[str, Tensor]:
        return {
            **program.inputs,
            **{name: statement_tensor(name, program[name]) for name in program.outputs},
        }

    known, found = tensors(before), tensors(after)
    cut = slices.names if slices else frozenset[str]()
    for name in (*found, *before.outputs, *cut):
        alike = (
            name in found and name in known and (name not in cut or found[name].shape[:1] == (1,))
        )
        if alike:
            one, other = (slices.of_all(found[name]) if slices else found[name]), known[name]
            alike = (one.shape, one.dtype) == (other.shape, other.dtype)
        if not alike:
            raise RecordError(
                f"a program that was optimized reads or gives another {name} than the one it was made of\n  optimize the model again"
            )


def keep_part(key: str, part: OptimizedProgram) -> None:
    """Keep a part on disk, with the seconds that there were where time ended the search of a layer, and what finds its kernels again."""
    assert part.run is not None
    cut = min((layer.cut for layer in part.layers if layer.cut is not None), default=None)
    _keep(
        key,
        {
            **part_record(part),
            "program": program_record_with_heads(part.after),
            "run": part.run.record(),
            "cut": cut,
        },
    )


def _keep(key: str, row: Mapping[str, Any]) -> None:
    PARTS.replace(key, json.dumps(row).encode())


def known_part(
    key: str, program: Program, weights: Weights, seconds: float, backend: Backend
) -> OptimizedProgram | None:
    """The part that was kept, and not found in less time than there is now, compiled; None where there is none."""
    content = PARTS.read(key)
    if content is None:
        return None
    try:
        row = json.loads(content)
        if is_too_short(row["cut"], seconds):
            return None
        part = part_from_record(row, program, weights, backend)
    except UNREADABLE as error:
        log.warning(
            "einalg: an optimized program in the cache is damaged (%s); it is searched again", error
        )
        return None
    assert part.run is not None
    is_as_kept = (
        part.slices is not None or not row["slices"]
    )  # else it runs what the program was before
    if is_as_kept and (record := part.run.record()) is not None and record is not row["run"]:
        _keep(key, {**row, "run": record})
    return part


def _layers(rows: Any, backend: Backend) -> list[Layer]:
    """The layers of a part; none where their records are damaged."""
    layers = []
    try:
        for row in rows:
            weights = [str(name) for name in row["weights"]]
            layers.append(
                Layer(
                    [str(name) for name in row["names"]],
                    program_from_record(row["program"]),
                    weights=weights,
                )
            )
            take_record(layers[-1], row, backend)
    except UNREADABLE as error:
        log.warning(
            "einalg: the record of what was found for the layers of a program is damaged: %s", error
        )
        return []
    return layers
