"""The layers of a program: statements that reduce, each searched by itself, equal ones once (design §11)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from derive.cost.backend import Backend
from derive.cost.model import operations
from derive.matching import with_operator_names
from derive.programs.passes.constant_slices import ConstantSlice, on_slabs, on_tensors, slabs
from derive.results.candidates import Candidate
from derive.results.history import replay
from derive.results.pipeline import find_derivation
from derive.results.selection import SELECTION
from derive.rewriting.moves import Move
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget, kernels_of
from einalg.errors import EinalgError
from einalg.frontends.graph import unique_name
from einalg.language.analysis.compile_time import is_weight, settled
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ir.traversal import reductions
from einalg.language.notation.program_json import program_record
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

log = logging.getLogger("einalg")

LAYERS = DiskCache("layers", ".json", "derived layers")
NEAR, OTHERS = (
    1.25,
    2,
)  # times the seconds of the best candidate of a layer, up to which others may be better in the whole, and how many
LEAST = 1 << 14  # operations from which on a layer is searched
VERSION = 4  # of what is kept; up to 3, moves could rest on keys that left paddings out
UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EinalgError,
)  # what a damaged record raises


@dataclass
class Layer:
    """A statement as a program of its own, with inputs `A0`, `A1`, … in order of first use, and what was found for it.

    `weights` are the largest weights of the network that these statements depend on. `others` are as good as the best candidate, or nearly, and
    may be better among the layers around. Where time ended the search, `cut` says how many seconds there were.
    """

    names: list[str]  # the statements that are it
    program: Program
    candidate: Candidate | None = None
    original: float | None = None  # seconds of the statement as it is; none before a search
    states: int = 0
    stored: bool = False
    cut: float | None = None
    weights: list[str] = field(default_factory=list)
    others: list[Candidate] = field(default_factory=list)

    @property
    def text(self) -> str:
        return str(self.program)

    @cached_property
    def identity(self) -> str:
        """What it is but for names: its text, its tensors, and the values of its constants."""
        return json.dumps(program_record(self.program))

    @property
    def work(self) -> int:
        return operations(self.program.result)


def layers_of(program: Program) -> list[Layer]:
    """The distinct statements that reduce enough to be worth a search, the largest share of the work first."""
    known = settled(program)
    found: dict[str, Layer] = {}
    for name, scope in program.statements:
        if (
            name not in known
            and any(True for _ in reductions(scope.body))
            and operations(scope) >= LEAST
        ):
            layer = Layer([], _alone(scope, known))
            layer = found.setdefault(layer.identity, layer)
            layer.names.append(name)
            largest = max(
                _weights(program, scope, known), key=lambda tensor: prod(tensor.shape), default=None
            )
            layer.weights += [] if largest is None else [largest.name]
    return sorted(found.values(), key=lambda layer: -layer.work * len(layer.names))


def _weights(program: Program, scope: Scope, known: frozenset[str]) -> Iterator[Tensor]:
    """The weights that a statement reads, or that what it reads was computed from ahead."""
    for name, tensor in scope.tensors.items():
        if is_weight(tensor):
            yield tensor
        elif name in known:
            yield from _weights(program, program[name], known)


def _alone(scope: Scope, known: frozenset[str]) -> Program:
    given = {}
    for label, slab in _labelled(scope).items():
        role = "weight" if is_weight(slab.tensor) or slab.tensor.name in known else "input"
        given[slab.tensor.name] = slab, slab.called(label, role)
    return Program([("O", on_slabs(scope, given))])


def _labelled(scope: Scope) -> dict[str, ConstantSlice]:
    """What a statement reads, by its name in a program of its own."""
    return {f"A{number}": slab for number, slab in enumerate(slabs(scope).values())}


def known_layer(
    layer: Layer, seconds: float, backend: Backend, cache: DiskCache | None = LAYERS
) -> bool:
    """Whether the best candidate of a layer was found before on such a machine, and not in less time than there is now; it is then the layer's."""
    content = cache.read(layer_key(layer, backend)) if cache is not None else None
    if content is not None:
        try:
            row = json.loads(content)
            if not is_too_short(row["cut"], seconds):
                take_record(layer, row, backend)
        except UNREADABLE as error:
            log.warning(
                "einalg: a derived layer in the cache is damaged (%s); it is searched again", error
            )
    return layer.stored


def search_layer(
    layer: Layer, budget: Budget, seconds: float, backend: Backend, cache: DiskCache | None = LAYERS
) -> None:
    """Find the best candidate of a layer, and keep it with the seconds that there were, where time ended the search."""
    found = find_derivation(layer.program, budget, None, backend, most=SELECTION.promising)
    layer.candidate, layer.original, layer.states = (
        found.best,
        found.original.cost,
        found.stats.states,
    )
    near = [
        c
        for c in found.candidates
        if c is not found.best and c.measured and c.cost <= NEAR * found.best.cost
    ]
    layer.others = sorted(near, key=lambda candidate: candidate.cost)[:OTHERS]
    layer.cut = seconds if found.stats.seconds >= budget.seconds or found.stats.unmeasured else None
    if cache is not None and found.best.measured:
        cache.replace(layer_key(layer, backend), json.dumps(layer_record(layer)).encode())


def is_too_short(cut: Any, seconds: float) -> bool:
    """Whether a search that was cut, with so many seconds in all, is worth another one with as many as there are now."""
    return cut is not None and float(cut) < seconds


def layer_key(layer: Layer, backend: Backend) -> str:
    return text_digest("layer", str(VERSION), layer.identity, backend.identity())


def layer_record(layer: Layer) -> dict[str, Any]:
    """What was found for a layer, as JSON values."""
    found = layer.candidate
    candidate = found and {
        "moves": [move.as_record() for move in found.moves],
        "cost": found.cost,
        "error": found.error,
        "verdict": found.verdict,
    }
    return {"candidate": candidate, "original": layer.original, "cut": layer.cut}


def take_record(layer: Layer, row: Any, backend: Backend) -> None:
    """Give a layer what was found for it before; raises one of `UNREADABLE` for a damaged record, and changes nothing then."""
    kept, candidate = row["candidate"], None
    if kept is not None:
        moves = tuple(Move.from_record(m) for m in kept["moves"])
        flat = lifted(replay(layer.program, moves)[-1]) if moves else layer.program
        cost, verdict = float(kept["cost"]), str(kept["verdict"])
        candidate = Candidate(
            flat, with_operator_names(kernels_of(flat)), moves, cost, verdict, True, kept["error"], backend
        )
    seconds, cut = (
        None if number is None else float(number) for number in (row["original"], row["cut"])
    )
    layer.candidate, layer.original, layer.cut, layer.stored = (
        candidate,
        seconds,
        cut,
        seconds is not None,
    )


def with_layers(program: Program, layers: list[Layer], chosen: Callable[[Layer], bool]) -> Program:
    """The program with the statements of every chosen layer replaced by those of its candidate."""
    replaced = {
        name: layer
        for layer in layers
        if layer.candidate is not None and chosen(layer)
        for name in layer.names
    }
    taken = {*program.names, *program.tensors}
    statements: list[tuple[str, Scope]] = []
    known: dict[str, Tensor] = {}
    for name, scope in program.statements:
        rows = (
            [(name, scope)] if name not in replaced else _placed(name, scope, replaced[name], taken)
        )
        for label, row in rows:
            placed = substitute_tensors(row, {k: known[k] for k in row.tensors if k in known})
            statements.append((label, placed))
            known[label] = statement_tensor(label, placed)
    return Program(statements, program.outputs)


def _placed(name: str, scope: Scope, layer: Layer, taken: set[str]) -> list[tuple[str, Scope]]:
    """The statements of the layer's candidate, reading what the statement reads, the last one called like it."""
    assert layer.candidate is not None
    flat = layer.candidate.program
    values = _labelled(scope)
    rows = []
    for label, row in flat.statements:
        own = name if label in flat.outputs else unique_name(f"{name}_{label}", taken)
        taken.add(own)
        placed = on_tensors(row, values)
        rows.append((own, placed))
        values[label] = ConstantSlice.whole(statement_tensor(own, placed))
    return rows
