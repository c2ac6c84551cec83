"""The layers of a program: statements that reduce, each searched by itself, equal ones once (design §11)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from derive.backend import Backend
from derive.cost import operations
from derive.derivation import Candidate, Derivation, derivation
from derive.history import replay
from derive.matching import named
from derive.moves import Move
from derive.rules.spelling import lifted
from derive.search import Budget, kernels_of
from einalg.access import Tensor
from einalg.cache import Shelf, hashed
from einalg.errors import EinalgError
from einalg.graph import unique
from einalg.program import Program, statement_tensor, substitute_tensors
from einalg.scope import Scope
from einalg.settled import is_weight, settled
from einalg.traverse import reductions

log = logging.getLogger("einalg")

LAYERS = Shelf("layers", ".json", "derived layers")
LEAST = 1 << 14  # operations from which on a layer is searched
VERSION = 1  # of what is kept


@dataclass
class Layer:
    """A statement as a program of its own, with inputs `A0`, `A1`, … in order of first use, and what was found for it."""

    names: list[str]  # the statements that are it
    program: Program
    candidate: Candidate | None = None
    original: float | None = None  # seconds of the statement as it is
    states: int = 0
    stored: bool = False

    @property
    def text(self) -> str:
        return str(self.program)

    @property
    def work(self) -> int:
        return operations(self.program.result)


def layers_of(program: Program) -> list[Layer]:
    """The distinct statements that reduce enough to be worth a search, the largest share of the work first."""
    known = settled(program.statements)
    found: dict[Any, Layer] = {}
    for name, scope in program.statements:
        if name not in known and any(True for _ in reductions(scope.body)) and operations(scope) >= LEAST:
            alone = _alone(scope, known)
            identity = (str(alone), tuple(alone.inputs.values()))
            found.setdefault(identity, Layer([], alone)).names.append(name)
    return sorted(found.values(), key=lambda layer: -layer.work * len(layer.names))


def _alone(scope: Scope, known: frozenset[str]) -> Program:
    given = {}
    for number, (name, tensor) in enumerate(scope.tensors.items()):
        if tensor.role != "constant":
            role = "weight" if is_weight(tensor) or name in known else "input"
            given[name] = Tensor(f"A{number}", tensor.axes, tensor.dtype, role)
    return Program([("O", substitute_tensors(scope, given))])


def known_layer(layer: Layer, backend: Backend, cache: Shelf | None = LAYERS) -> bool:
    """Whether the best candidate of a layer was found before on such a machine; it is then the layer's."""
    kept = _read(cache, _key(layer, backend), layer.program, backend)
    if kept is not None:
        layer.candidate, layer.original, layer.stored = *kept, True
    return layer.stored


def search_layer(layer: Layer, budget: Budget, backend: Backend, cache: Shelf | None = LAYERS) -> None:
    """Find the best candidate of a layer, and keep it."""
    found = derivation(layer.program, budget, None, backend)
    layer.candidate, layer.original, layer.states = found.best, found.original.cost, found.stats.states
    if cache is not None and found.best.measured:
        cache.replace(_key(layer, backend), json.dumps(_record(found)).encode())


def _key(layer: Layer, backend: Backend) -> str:
    return hashed("layer", str(VERSION), layer.text, str(layer.program.inputs), backend.identity())


def _record(found: Derivation) -> dict[str, Any]:
    best = found.best
    return {
        "moves": [move.as_record() for move in best.moves],
        "cost": best.cost,
        "error": best.error,
        "verdict": best.verdict,
        "original": found.original.cost,
    }


def _read(cache: Shelf | None, key: str, program: Program, backend: Backend) -> tuple[Candidate, float] | None:
    content = cache.read(key) if cache is not None else None
    if content is None:
        return None
    try:
        row = json.loads(content)
        moves = tuple(Move.from_record(m) for m in row["moves"])
        flat = lifted(replay(program, moves)[-1]) if moves else program
        candidate = Candidate(flat, named(kernels_of(flat)), moves, float(row["cost"]), str(row["verdict"]), True, row["error"], backend)
        return candidate, float(row["original"])
    except (ValueError, KeyError, TypeError, EinalgError) as error:
        log.warning("einalg: a derived layer in the cache is damaged (%s); it is searched again", error)
        return None


def with_layers(program: Program, layers: list[Layer], chosen: Callable[[Layer], bool]) -> Program:
    """The program with the statements of every chosen layer replaced by those of its candidate."""
    replaced = {name: layer for layer in layers if layer.candidate is not None and chosen(layer) for name in layer.names}
    taken = {*program.names, *program.tensors}
    statements: list[tuple[str, Scope]] = []
    known: dict[str, Tensor] = {}
    for name, scope in program.statements:
        rows = [(name, scope)] if name not in replaced else _placed(name, scope, replaced[name], taken)
        for label, row in rows:
            placed = substitute_tensors(row, {k: t for k, t in known.items() if k in row.tensors})
            statements.append((label, placed))
            known[label] = statement_tensor(label, placed)
    return Program(statements, program.outputs)


def _placed(name: str, scope: Scope, layer: Layer, taken: set[str]) -> list[tuple[str, Scope]]:
    """The statements of the layer's candidate, reading what the statement reads, the last one called like it."""
    assert layer.candidate is not None
    flat = layer.candidate.program
    values: dict[str, Tensor] = {t.name: own for t, own in zip(_given(layer.program), _read_by(scope))}
    rows = []
    for label, row in flat.statements:
        own = name if label in flat.outputs else unique(f"{name}_{label}", taken)
        taken.add(own)
        placed = substitute_tensors(row, {k: v for k, v in values.items() if k in row.tensors})
        rows.append((own, placed))
        values[label] = statement_tensor(own, placed)
    return rows


def _given(program: Program) -> list[Tensor]:
    return [t for t in program.result.tensors.values() if t.role != "constant"]


def _read_by(scope: Scope) -> list[Tensor]:
    return [t for t in scope.tensors.values() if t.role != "constant"]
