"""The layers of a program: statements that reduce, each searched by itself, equal ones once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from derive.cost.accuracy import tolerance
from derive.cost.backend import Backend
from derive.cost.model import operations
from derive.matching import kernels_of, with_operator_names
from derive.programs.passes.constant_slices import ConstantSlice, on_slabs, on_tensors, slabs
from derive.results.candidates import Candidate
from derive.results.history import replay
from derive.results.pipeline import find_derivation
from derive.results.selection import SELECTION, ranked
from derive.results.verification import ShortlistCheck
from derive.rewriting.moves import Move, Rule
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget
from derive.search.candidates import Stats
from einalg.errors import EinalgError
from einalg.frontends.graph import unique_name
from einalg.language.analysis.compile_time import compile_time_statements, is_weight
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ir.traversal import reductions
from einalg.language.notation.program_json import program_record
from einalg.runtime.clock import Clock
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint, text_digest

log = logging.getLogger("einalg")

LAYERS = DiskCache("layers", ".json", "derived layers")
VERSION = 4  # of what is kept; up to 3, moves could rest on keys that left paddings out
MIN_LAYER_OPERATIONS = 1 << 14  # a smaller layer is not worth a search
MAX_ALTERNATIVES = 2  # of a layer's best candidate, that may be better in the whole
MAX_ALTERNATIVE_COST = 1.25  # times the seconds of the best candidate
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, EinalgError)  # by damaged records

Row = tuple[str, Scope]
Rules = Sequence[Rule] | None  # of a search; None for all


@dataclass(frozen=True)
class Layer:
    """A statement as a program of its own, with inputs `A0`, `A1`, … in order of first use.

    `names` are the statements that are it; `weights` are the largest weights of the network that
    these depend on.
    """

    names: tuple[str, ...]
    program: Program
    weights: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return str(self.program)

    @cached_property
    def identity(self) -> str:
        """The layer without its names: its text, its tensors, and the values of its constants."""
        return json.dumps(program_record(self.program))

    @property
    def work(self) -> int:
        """The operations of one of its statements."""
        return operations(self.program.result)


@dataclass(frozen=True)
class SearchedLayer(Layer):
    """A layer with what a search found for it: the best candidate, and those nearly as good.

    `original` are the seconds of the statement as it is, None where it was not searched. The
    `alternatives` may be better among the layers around. Where time ended the search,
    `timed_out_after` says how many seconds there were. `stored` ones were found by an earlier run.
    The candidate of one that `is_adapted` was derived for a similar layer, of other sizes, in
    another layout or before einalg was installed; it and the `original` are estimates unless it is
    measured.
    """

    candidate: Candidate | None = None
    original: float | None = None
    states: int = 0
    stored: bool = False
    timed_out_after: float | None = None
    alternatives: tuple[Candidate, ...] = ()
    is_adapted: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether it was searched: not where its form was derived for a similar layer."""
        return self.original is not None and not self.is_adapted

    @classmethod
    def of(cls, layer: Layer, **result: Any) -> SearchedLayer:
        """Return a layer with a result; with none it was not searched."""
        return cls(layer.names, layer.program, layer.weights, **result)


def layers_of(program: Program) -> list[Layer]:
    """Return the distinct statements that are worth a search, the largest share of work first."""
    constants = compile_time_statements(program)
    programs: dict[str, Program] = {}
    names: dict[str, list[str]] = {}
    weights: dict[str, list[str]] = {}
    for name, scope in program.statements:
        if name in constants or not _is_worth_a_search(scope):
            continue
        alone = _alone(scope, constants)
        identity = Layer((name,), alone).identity
        programs.setdefault(identity, alone)
        names.setdefault(identity, []).append(name)
        weights.setdefault(identity, []).extend(_largest_weight(program, scope, constants))
    layers = []
    for identity, alone in programs.items():
        layers.append(Layer(tuple(names[identity]), alone, tuple(weights[identity])))
    return sorted(layers, key=lambda layer: -layer.work * len(layer.names))


def _is_worth_a_search(scope: Scope) -> bool:
    has_reductions = next(iter(reductions(scope.body)), None) is not None
    return has_reductions and operations(scope) >= MIN_LAYER_OPERATIONS


def _largest_weight(program: Program, scope: Scope, constants: frozenset[str]) -> list[str]:
    """Return the name of the largest weight that a statement depends on; none where it has none."""
    weights = list(_weights(program, scope, constants))
    if not weights:
        return []
    return [max(weights, key=lambda tensor: prod(tensor.shape)).name]


def _weights(program: Program, scope: Scope, constants: frozenset[str]) -> Iterator[Tensor]:
    """Yield the weights that a statement reads, or that a constant it reads is computed from."""
    for name, tensor in scope.tensors.items():
        if is_weight(tensor):
            yield tensor
        elif name in constants:
            yield from _weights(program, program[name], constants)


def _alone(scope: Scope, constants: frozenset[str]) -> Program:
    """Return a statement as a program of its own."""
    inputs = {}
    for label, slab in _labelled(scope).items():
        is_constant = is_weight(slab.tensor) or slab.tensor.name in constants
        role = "weight" if is_constant else "input"
        inputs[slab.tensor.name] = slab, slab.called(label, role)
    return Program([("O", on_slabs(scope, inputs))])


def _labelled(scope: Scope) -> dict[str, ConstantSlice]:
    """Return what a statement reads, by its name in a program of its own: `A0`, `A1`, …"""
    return {f"A{number}": slab for number, slab in enumerate(slabs(scope).values())}


def known_layer(
    layer: Layer,
    seconds: float,
    backend: Backend,
    rules: Rules = None,
    cache: DiskCache | None = LAYERS,
) -> SearchedLayer | None:
    """Return a layer as it was searched before on such a machine; None where it was not.

    Nor where that took less time than there is now, and time ended it.
    """
    content = cache.read(layer_key(layer, backend, rules)) if cache is not None else None
    if content is None:
        return None
    try:
        row = json.loads(content)
        if is_too_short(row["cut"], seconds):
            return None
        known = layer_from_record(layer, row, backend)
    except UNREADABLE as error:
        log.warning(
            "einalg: a derived layer in the cache is damaged (%s); it is searched again", error
        )
        return None
    return known if known.stored else None


def search_layer(
    layer: Layer,
    budget: Budget,
    seconds: float,
    backend: Backend,
    rules: Rules = None,
    cache: DiskCache | None = LAYERS,
    clock: Clock | None = None,
    accuracy: float | None = None,
) -> SearchedLayer:
    """Search a layer, and keep the result on disk; `seconds` are those that there were for it.

    None stands for all rules of models, and for the accuracy that the types allow.
    """
    searched_rules = rules
    if searched_rules is None:
        searched_rules = list(OF_MODELS.values())
    most = SELECTION.promising
    result = find_derivation(
        layer.program, budget, searched_rules, backend, accuracy=accuracy, most=most, clock=clock
    )
    timed_out_after = seconds if result.stats.is_cut else None
    if clock is not None and clock.course.is_stopped:
        timed_out_after = 0.0  # any other run continues
    searched = SearchedLayer.of(
        layer,
        candidate=result.best,
        original=result.original.cost,
        states=result.stats.states,
        timed_out_after=timed_out_after,
        alternatives=_alternatives(result.best, result.candidates),
    )
    if cache is not None:
        keep_layer(searched, backend, rules, cache)
    return searched


def keep_layer(
    layer: SearchedLayer, backend: Backend, rules: Rules = None, cache: DiskCache = LAYERS
) -> None:
    """Keep the result of a search on disk, for `known_layer`, if its candidate was measured."""
    if layer.candidate is not None and layer.candidate.measured:
        cache.replace(layer_key(layer, backend, rules), json.dumps(layer_record(layer)).encode())


def measure_layer(
    layer: Layer, candidates: Sequence[Candidate], accuracy: float | None, clock: Clock
) -> tuple[SearchedLayer, list[Candidate]]:
    """Check and time candidates for a layer; return it with the best one, and those that are wrong.

    The first of the candidates is the layer as it is. Nothing is searched. Those that time is not
    enough for do not count, nor do those that are wrong: not accurate, or without code.
    """
    original, *forms = candidates
    assert original.backend is not None
    allowed = tolerance(layer.program) if accuracy is None else accuracy
    check = ShortlistCheck(layer.program, original.backend, Stats(), allowed)
    with clock.bounding():
        check.run(candidates, clock)
    wrong = [candidate for candidate in check.wrong if candidate is not original]
    measured = [candidate for candidate in candidates if candidate.measured]
    if not original.measured or not any(form.measured for form in forms):
        return SearchedLayer.of(layer), wrong
    ordered = ranked(measured)
    result = SearchedLayer.of(
        layer,
        candidate=ordered[0],
        original=original.cost,
        alternatives=_alternatives(ordered[0], ordered),
        is_adapted=True,
    )
    return result, wrong


def _alternatives(best: Candidate, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the measured candidates that are nearly as good as the best one."""
    limit = MAX_ALTERNATIVE_COST * best.cost
    near = []
    for candidate in candidates:
        if candidate is not best and candidate.measured and candidate.cost <= limit:
            near.append(candidate)
    near.sort(key=lambda candidate: candidate.cost)
    return tuple(near[:MAX_ALTERNATIVES])


def is_too_short(timed_out_after: Any, seconds: float) -> bool:
    """Say whether a search that time ended is worth another one with as much as there is now."""
    return timed_out_after is not None and float(timed_out_after) < seconds


def layer_key(layer: Layer, backend: Backend, rules: Rules = None) -> str:
    """Return what the result of a search depends on."""
    names = "" if rules is None else repr(sorted(rule.name for rule in rules))
    parts = ("layer", str(VERSION), layer.identity, backend.identity(), names)
    return Fingerprint(SEARCH_CODE).key(*parts)


def layer_record(layer: SearchedLayer) -> dict[str, Any]:
    """Return the result of a search as JSON values."""
    row = None
    if layer.candidate is not None:
        row = {
            "moves": [move.as_record() for move in layer.candidate.moves],
            "program": text_digest(str(layer.candidate.program)),
            "cost": layer.candidate.cost,
            "error": layer.candidate.error,
            "verdict": layer.candidate.verdict,
        }
    return {"candidate": row, "original": layer.original, "cut": layer.timed_out_after}


def layer_from_record(layer: Layer, row: Any, backend: Backend) -> SearchedLayer:
    """Return a layer with the result of a record; raises one of `UNREADABLE` for a damaged one."""
    candidate = None
    if row["candidate"] is not None:
        candidate = _candidate_from_record(layer.program, row["candidate"], backend)
    original = _number(row["original"])
    return SearchedLayer.of(
        layer,
        candidate=candidate,
        original=original,
        stored=original is not None,
        timed_out_after=_number(row["cut"]),
    )


def _candidate_from_record(program: Program, row: Any, backend: Backend) -> Candidate:
    moves = tuple(Move.from_record(move) for move in row["moves"])
    flat = lifted(replay(program, moves)[-1]) if moves else program
    digest = row.get("program")  # older records have none
    if digest is not None and digest != text_digest(str(flat)):
        raise ValueError("its moves give another program")
    return Candidate(
        flat,
        with_operator_names(kernels_of(flat)),
        moves,
        float(row["cost"]),
        str(row["verdict"]),
        measured=True,
        error=row["error"],
        backend=backend,
        expression=program,
    )


def _number(value: Any) -> float | None:
    if value is None:
        return None
    return float(value)


def with_layers(
    program: Program,
    layers: Sequence[SearchedLayer],
    is_chosen: Callable[[SearchedLayer], bool],
) -> Program:
    """Replace the statements of every chosen layer by those of its candidate."""
    candidates: dict[str, Program] = {}
    for layer in layers:
        if layer.candidate is not None and is_chosen(layer):
            candidates.update(dict.fromkeys(layer.names, layer.candidate.program))
    used_names = {*program.names, *program.tensors}
    statements: list[Row] = []
    results: dict[str, Tensor] = {}
    for name, scope in program.statements:
        rows = [(name, scope)]
        if name in candidates:
            rows = _placed(name, scope, candidates[name], used_names)
        for label, row in rows:
            read = {key: results[key] for key in row.tensors if key in results}
            placed = substitute_tensors(row, read)
            statements.append((label, placed))
            results[label] = statement_tensor(label, placed)
    return Program(statements, program.outputs)


def _placed(name: str, scope: Scope, candidate: Program, used_names: set[str]) -> list[Row]:
    """Return the statements of a candidate, reading what the statement reads.

    The last one is called like the statement; the others get names that are added to `used_names`.
    """
    values = _labelled(scope)
    rows = []
    for label, row in candidate.statements:
        new_name = name
        if label not in candidate.outputs:
            new_name = unique_name(f"{name}_{label}", used_names)
        used_names.add(new_name)
        placed = on_tensors(row, values)
        rows.append((new_name, placed))
        values[label] = ConstantSlice.whole(statement_tensor(new_name, placed))
    return rows
