"""One program of a network, optimized, and kept on disk for the next run of the same network."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from derive.cost.backend import Backend, Runnable
from derive.matching import kernel_of, kernels_of
from derive.programs.early_end import EarlyEnd
from derive.programs.forms.layers import (
    UNREADABLE,
    Layer,
    SearchedLayer,
    is_too_short,
    layer_from_record,
    layer_record,
)
from derive.rules.algebra import bilinear_factorisation
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError, RecordError
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_from_record,
    program_record,
    program_record_with_heads,
)
from einalg.runtime.measurement import Comparison, Measurement
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint, array_digest, text_digest

log = logging.getLogger("einalg")

SPREADING = frozenset({bilinear_factorisation.RULE.name})  # rules that transform tiles of an input
PARTS = DiskCache("parts", ".json", "optimized programs")
REPEATS = 3  # of a program whose kernels are timed in order to be shown
Weights = Mapping[str, Any]


@dataclass
class OptimizedProgram:
    """One program of the graph, as it was `before` and as it is now, flat.

    `times` are those of a call before and after, `error` is the largest relative one. `verdict` is
    the weakest one of its layers: "proved" where every change is. `changes` says in words what was
    changed in the whole, beside its layers; `read_layers` gives these. Where there are `slices`,
    the program as it is now computes one of them. It `is_right` where it was checked against the
    reference. `identity` is a digest of what runs, kernel by kernel; None where that is not known.
    Where time ended before all was done, `early_end` says what was not.
    """

    before: Program
    after: Program
    read_layers: Callable[[], list[SearchedLayer]] = field(default=list, repr=False)
    times: tuple[Measurement, Measurement] | None = None
    error: float = 0.0
    verdict: str = "proved"
    run: Runnable | None = field(default=None, repr=False)
    changes: tuple[str, ...] = ()
    slices: Slices | None = None
    is_right: bool = True
    identity: str | None = None
    early_end: EarlyEnd | None = None

    @cached_property
    def layers(self) -> list[SearchedLayer]:
        """The layers that were searched, with the results."""
        return self.read_layers()

    @property
    def seconds(self) -> tuple[float, float]:
        """The shortest times of a call before and after; zero where nothing was measured."""
        if self.times is None:
            return 0.0, 0.0
        before, after = self.times
        return before.seconds, after.seconds

    @property
    def comparison(self) -> Comparison | None:
        """How many times as fast a call is as before; None where nothing was measured."""
        if self.times is None:
            return None
        before, after = self.times
        return Comparison(after, before)

    @property
    def workspace(self) -> int:
        """The bytes that a call keeps for what is between its kernels."""
        assert self.run is not None
        return self.run.workspace

    def source(self, language: str) -> str:
        """Return the text of its generated kernels."""
        assert self.run is not None
        return self.run.source(language)


def spreading_layers(layers: Sequence[SearchedLayer]) -> list[str]:
    """Return the layers whose form makes all of a tile NaN where one of its elements is."""
    names: list[str] = []
    for layer in layers:
        moves = layer.candidate.moves if layer.candidate is not None else ()
        if any(move.rule in SPREADING for move in moves):
            names += layer.names
    return names


def verdict(layers: Sequence[SearchedLayer]) -> str:
    """Return the weakest verdict of some layers: "tested" where one is."""
    for layer in layers:
        if layer.candidate is not None and layer.candidate.verdict == "tested":
            return "tested"
    return "proved"


def compiled(
    program: Program,
    backend: Backend,
    weights: Weights,
    slices: Slices | None = None,
    record: Any = None,
    inputs: Mapping[str, Tensor] | None = None,
    compares: bool = True,
    optimizes: bool = True,
) -> Runnable:
    """Compile a program, or find it by the record of when it was, and bind the weights it reads.

    A program of one slice becomes one of all `slices`. Of the `inputs` that a call gives, it
    ignores those that it does not read. It `compares` kernels with libraries, or leaves that out.
    Unless it `optimizes` the code in full, that is compiled sooner.
    """
    run = backend.known(record, program, kernel_of)
    if run is None:
        flat = lifted(program)
        run = backend.compile(flat, kernels_of(flat), compares=compares, optimizes=optimizes)
    read = [name for name in program.inputs if name in weights]
    run = backend.bound(run, {name: weights[name] for name in read})
    if slices is not None:
        run = backend.in_slices(run, slices)
    return run.accepting(inputs or {})


def statement_seconds(
    part: OptimizedProgram, backend: Backend, weights: Weights
) -> tuple[dict[str, float], dict[str, float]]:
    """Measure the kernels of a program as it was and as it is, on random inputs.

    Returns the seconds of each by its output; nothing for a program that is not timed kernel by
    kernel, as one in slices.
    """
    try:
        before = _seconds_by_output(compiled(part.before, backend, weights))
    except EinalgError as error:
        log.info("einalg: a program as it was is not timed: %s", error)
        before = {}
    return before, _seconds_by_output(part.run)


def _seconds_by_output(run: Runnable | None) -> dict[str, float]:
    time = getattr(run, "time", None)
    return {} if time is None else dict(time(REPEATS))


def part_key(program: Program, weights: Weights, backend: Backend, *wishes: object) -> str:
    """Return what an optimized program depends on.

    That is the program, the values of its weights, the machine, what was asked for, and einalg's
    own code. Under the same key the same text is compiled again, so that its check against the
    reference holds.
    """
    text = json.dumps(program_record(program))
    return Fingerprint(SEARCH_CODE).key(
        "part",
        text,
        array_digest(weights.items()),
        backend.identity(),
        *map(repr, wishes),
    )


def part_record(part: OptimizedProgram) -> dict[str, Any]:
    """Return a part as JSON values, but for the program as it was."""
    slices = None
    if part.slices is not None:
        slices = {
            "count": part.slices.count,
            "names": sorted(part.slices.names),
            "whole": program_record(part.before),
        }
    return {
        "program": program_record(part.after),
        "times": [measured.as_record() for measured in part.times or ()],
        "error": part.error,
        "verdict": part.verdict,
        "changes": part.changes,
        "layers": [_layer_row(layer) for layer in part.layers],
        "unfinished": part.early_end and part.early_end.as_record(),
        "slices": slices,
    }


def _layer_row(layer: SearchedLayer) -> dict[str, Any]:
    return {
        "names": layer.names,
        "weights": layer.weights,
        "program": program_record(layer.program),
        **layer_record(layer),
    }


def part_from_record(
    row: Any, before: Program | None, weights: Weights, backend: Backend
) -> OptimizedProgram:
    """Compile a part again; raises one of `UNREADABLE` for a damaged record.

    Where the program as it was is not known, that in the record takes its place. In the place of
    slices that the backend does not offer, the program is what it was.
    """
    read = lazy_program_from_record if "heads" in row["program"] else program_from_record
    after, cut = read(row["program"]), row.get("slices")
    slices = None
    if cut:
        slices = Slices(int(cut["count"]), frozenset(map(str, cut["names"])))
    if before is None:
        before = program_from_record(cut["whole"]) if cut else after
    _require_alike(before, after, slices)
    run_record = row.get("run")
    if slices and not backend.has_slices:
        after, slices, run_record = before, None, None
    error, weakest = float(row["error"]), str(row["verdict"])
    return OptimizedProgram(
        before,
        after,
        lambda: _read_layers(row.get("layers", []), backend),
        _times(row.get("times")),
        error,
        weakest,
        compiled(after, backend, weights, slices, run_record, before.inputs),
        tuple(map(str, row.get("changes", ()))),
        slices,
        early_end=EarlyEnd.from_record(row.get("unfinished")),
    )


def _times(rows: Any) -> tuple[Measurement, Measurement] | None:
    """Return the times before and after; None in older records."""
    times = [Measurement.from_record(row) for row in rows or ()]
    if len(times) != 2 or times[0] is None or times[1] is None:
        return None
    return times[0], times[1]


def _require_alike(before: Program, after: Program, slices: Slices | None) -> None:
    """Raise `RecordError` where two programs read or give memory of other sizes.

    What runs on addresses relies on these.
    """
    difference = difference_of_memory(before, after, slices)
    if difference is not None:
        raise RecordError(
            f"a program that was optimized {difference}, unlike the one it was made of\n"
            "  optimize the model again"
        )


def difference_of_memory(before: Program, after: Program, slices: Slices | None) -> str | None:
    """Say what a program reads or gives that is of another size or type than in the one it was made
    of; None where nothing is.

    >>> import einalg as ea
    >>> from einalg.language.ir.program import as_program
    >>> one = as_program(ea.parse("O[i] = 2*A[i]", A=(4,)))
    >>> two = as_program(ea.parse("O[i] = 2*A[i]", A=ea.tensor("A", (4,), "f64")))
    >>> difference_of_memory(one, two, None)
    'reads A as f64 of shape (4,) in the place of f32 of shape (4,)'
    """
    known, own = _tensors(before), _tensors(after)
    cut = slices.names if slices else frozenset[str]()
    for name in (*own, *before.outputs, *cut):
        if not _is_alike(known.get(name), own.get(name), slices, name in cut):
            word = "gives" if name in before.outputs else "reads"
            return (
                f"{word} {name} as {_kind(own.get(name))} in the place of {_kind(known.get(name))}"
            )
    return None


def _kind(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.dtype} of shape {tensor.shape}"


def _tensors(program: Program) -> dict[str, Tensor]:
    """Return the inputs and outputs of a program."""
    tensors = dict(program.inputs)
    for name in program.outputs:
        tensors[name] = statement_tensor(name, program[name])
    return tensors


def _is_alike(
    known: Tensor | None, read_back: Tensor | None, slices: Slices | None, is_cut: bool
) -> bool:
    """Say whether two tensors have one size and type; one that is cut has a single sample."""
    if known is None or read_back is None:
        return False
    if is_cut and read_back.shape[:1] != (1,):
        return False
    whole = slices.of_all(read_back) if slices else read_back
    return (whole.shape, whole.dtype) == (known.shape, known.dtype)


def keep_part(key: str, part: OptimizedProgram) -> OptimizedProgram:
    """Keep a part on disk, with what finds its kernels again; return it with its identity.

    Where time ended a search, the seconds that there were are kept too.
    """
    assert part.run is not None
    limits = [layer.timed_out_after for layer in part.layers if layer.timed_out_after is not None]
    if part.early_end is not None:
        limits.append(0.0 if part.early_end.is_interrupted else part.early_end.seconds)
    row = part_record(part)
    row["program"] = program_record_with_heads(part.after)
    row["run"] = part.run.record()
    row["cut"] = min(limits, default=None)
    _keep(key, row)
    return replace(part, identity=_identity(row, part.run))


def _identity(row: Mapping[str, Any], run: Runnable) -> str | None:
    """Return a digest of a part's program and kernels; None where these are not known."""
    kernels = run.identity()
    if kernels is None:
        return None
    return text_digest(json.dumps([row["program"], row["slices"]]), kernels)


def _keep(key: str, row: Mapping[str, Any]) -> None:
    PARTS.replace(key, json.dumps(row).encode())


def known_part(
    key: str, program: Program, weights: Weights, seconds: float, backend: Backend
) -> OptimizedProgram | None:
    """Return the part that was kept, compiled; None where there is none.

    Nor where it was found in less time than there is now, and time ended that.
    """
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
    _keep_new_run(key, row, part)
    assert part.run is not None
    return replace(part, identity=_identity(row, part.run))


def _keep_new_run(key: str, row: Mapping[str, Any], part: OptimizedProgram) -> None:
    """Keep the record of how a part was compiled where that is a new one."""
    assert part.run is not None
    if part.slices is None and row["slices"]:
        return  # it runs what the program was before
    run_record = part.run.record()
    if run_record is not None and run_record is not row["run"]:
        _keep(key, {**row, "run": run_record})


def _read_layers(rows: Any, backend: Backend) -> list[SearchedLayer]:
    """Return the layers of a part; none where their records are damaged."""
    layers = []
    try:
        for row in rows:
            names, weights = tuple(map(str, row["names"])), tuple(map(str, row["weights"]))
            layer = Layer(names, program_from_record(row["program"]), weights)
            layers.append(layer_from_record(layer, row, backend))
    except UNREADABLE as error:
        log.warning(
            "einalg: the record of what was found for the layers of a program is damaged: %s", error
        )
        return []
    return layers
