"""An optimized network: what `einalg.optimize` gives (design §11)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod

import numpy as np

from derive.cost.accuracy import relative_error, tolerance
from derive.cost.backend import Backend, Runnable
from derive.cost.memory import memory
from derive.programs.layers import Layer, known_layer, layers_of, search_layer, with_layers
from derive.programs.optimized import Array, OptimizedNetwork
from derive.programs.optimized_program import (
    OptimizedProgram,
    compiled,
    keep_part,
    known_part,
    part_key,
    verdict,
)
from derive.programs.passes.batch_splitting import one_of, sliced
from derive.programs.passes.horizontal_fusion import joined
from derive.programs.passes.layout_selection import channels_last
from derive.programs.passes.normalise import shaped, with_epilogues
from derive.programs.passes.weight_folding import folded
from derive.results.selection import SELECTION
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget
from einalg.errors import CodegenError, EinalgError
from einalg.frontends.constant_folding import fold_constants
from einalg.frontends.graph import Graph, ProgramNode
from einalg.language.analysis.batching import Slices
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double
from einalg.storage.fingerprint import text_digest

log = logging.getLogger("einalg")

Progress = Callable[[Layer, int, int], None]
SHARE = 0.25  # of the seconds that are left, that one layer may take
LEAST = 1.0  # seconds that it may take at least
RESERVED = 0.5  # of all seconds, that may be left for compiling the whole
PART = 0.125  # of the memory of a machine
ROUNDING = 16.0  # times the error of NumPy in the same types, that compiled code may have, which sums in another order
UNSOUND = "code for a program has other values than the reference (by %.1e of the largest), and no other form of it is right"


@dataclass
class Task:
    """How to optimize: for what, until when, with which budget a layer, and how far the results may deviate.

    `reserved` are the seconds that the search leaves for what comes after it.
    """

    backend: Backend
    seconds: float
    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None
    accuracy: float | None = None
    began: float = field(default_factory=time.perf_counter)
    reserved: float = 0.0

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.reserved - self.spent)

    def reserve(self, seconds: float) -> None:
        """Leave these, but no more than a part of all, for what comes after the search."""
        self.reserved = min(seconds, RESERVED * self.seconds)


def optimized(
    graph: Graph,
    arrays: Sequence[Array],
    backend: Backend,
    seconds: float = 300.0,
    budget: Budget | None = None,
    progress: Progress | None = None,
    accuracy: float | None = None,
    began: float | None = None,
) -> OptimizedNetwork:
    """Optimize every program of a graph on the arrays of a call; an interrupt keeps what was found until then.

    The seconds count from `began` on, of `perf_counter`: now, if it is not given.
    """
    task = Task(
        backend,
        seconds,
        budget or Budget(),
        progress,
        accuracy,
        time.perf_counter() if began is None else began,
    )
    graph = _bearable(fold_constants(graph).merged())
    values = cache(lambda: _values(graph, arrays))
    parts, keys, is_known = (
        {},
        list[str](),
        not graph.opaque,
    )  # of whose calls nothing is known but their names
    for position, node in enumerate(graph.nodes):
        if isinstance(node, ProgramNode):
            weights = {
                name: graph.weights[name] for name in node.program.inputs if name in graph.weights
            }
            keys.append(part_key(node.program, weights, backend, task.budget, accuracy))
            known = known_part(keys[-1], node.program, weights, seconds, backend)
            if known is None:
                known = _part(node.program, weights, values(), task)
                keep_part(keys[-1], known)
                is_known = False
            parts[position] = known
    return OptimizedNetwork(graph, parts, task.spent, text_digest(*keys), is_known)


def _bearable(graph: Graph) -> Graph:
    """The graph, its programs as `shaped` makes them where what is between their statements would not fit in memory: gathered windows, say."""
    nodes = [
        replace(node, program=shaped(node.program)[0])
        if isinstance(node, ProgramNode) and _bytes(node.program) > memory() * PART
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def _bytes(program: Program) -> int:
    """Of all results of statements, in double precision."""
    return sum(8 * prod(scope.shape) for _, scope in program.statements)


def _values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """Every value of the graph for a call, by the reference executor in double precision."""
    values: dict[str, Array] = {}

    def compute(program: Program, known: Mapping[str, Array]) -> Mapping[str, Array]:
        values.update(known)
        found = _exact(program, known)
        values.update(found)
        return found

    graph.run(arrays, compute)
    return values


def _exact(program: Program, known: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a program; slice by slice, where it has slices and all at once would hardly fit in memory."""
    cut = one_of(lifted(program)) if _bytes(program) > memory() * PART else None
    if cut is None:
        return execute(in_double(program), known)
    one, slices = cut
    parts = [execute(in_double(one), slices.of(known, k)) for k in range(slices.count)]
    return {name: np.concatenate([part[name] for part in parts]) for name in program.outputs}


@dataclass(frozen=True)
class _Variant:
    """A form of a program in which its layers are searched."""

    program: Program
    layers: list[Layer]
    changes: tuple[str, ...] = ()  # in words, to the program as it is
    slices: Slices | None = None

    @property
    def is_searched(self) -> bool:
        """Whether anything was found out about any of its layers, if it has any."""
        return not self.layers or any(layer.original is not None for layer in self.layers)

    @property
    def derived(self) -> Program:
        """The program with what was found for its layers."""
        return with_epilogues(with_layers(self.program, self.layers, _is_better))


@dataclass(frozen=True)
class _CompiledVariant:
    """A form compiled: its program with what was found for its layers, and the largest relative error."""

    form: _Variant
    program: Program
    run: Runnable
    error: float


def _forms(ready: Program, has_slices: bool = False) -> list[_Variant]:
    """The forms of one slice, if the program has slices, then those of the whole, the program as it is last."""
    one = sliced(ready) if has_slices else None
    return [
        *(_changed(one[0], (f"{one[1].count} slices, one by one",), one[1]) if one else ()),
        *_changed(ready),
    ]


def _changed(
    program: Program, changes: tuple[str, ...] = (), slices: Slices | None = None
) -> list[_Variant]:
    """A program as it is, last, and what its products and its layouts can be changed into, before it."""
    found = [(program, changes)]
    for change, words in ((joined, "products joined"), (channels_last, "channels last inside")):
        found = [
            (after, (*done, words))
            for before, done in found
            if (after := change(before)) is not before
        ] + found
    return [_Variant(form, layers_of(form), done, slices) for form, done in found]


def _part(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array], task: Task
) -> OptimizedProgram:
    given = {name: values[name] for name in program.inputs if name not in weights}
    read = {**weights, **given}
    expected = {name: values[name] for name in program.outputs}
    forms = _forms(folded(shaped(program)[0]), task.backend.has_slices)
    began = time.perf_counter()
    original = compiled(program, task.backend, weights)
    first = sum(
        form.slices == forms[0].slices for form in forms
    )  # those that are searched first, and at least compiled
    task.reserve(first * (time.perf_counter() - began))
    _search([layer for form in forms for layer in form.layers], task)
    unchanged = _Variant(program, [replace(layer, candidate=None) for layer in forms[-1].layers])
    allowed = tolerance(program) if task.accuracy is None else task.accuracy

    def checked(form: _Variant) -> _CompiledVariant | None:
        """A form compiled; None where that fails, its values are other ones, or it does not read all that a call gives, which it needs not."""
        after = form.derived
        if not given.keys() <= after.inputs.keys():
            return None
        try:
            run = compiled(after, task.backend, weights, form.slices)
        except CodegenError as failure:
            log.warning(
                "einalg: an optimized program does not compile, and is not taken: %s", failure
            )
            return None
        error = relative_error(expected, run(**given), program, read)
        if error > allowed:
            log.warning("einalg: an optimized program deviates by %.1e, and is not taken", error)
        return _CompiledVariant(form, after, run, error) if error <= allowed else None

    error = relative_error(expected, original(**given), program, read)
    ways = [_CompiledVariant(unchanged, program, original, error)]
    is_right = error <= allowed or error <= _rounding(program, read, expected)
    if not is_right:
        log.warning(
            "einalg: a program as it is deviates by %.1e when it is compiled, and is not taken",
            error,
        )
    took = 0.0
    for form in [form for form in forms if form.is_searched] or forms[-1:]:
        began = time.perf_counter()
        if (way := checked(form)) is not None:
            ways.append(way)
        took = max(took, time.perf_counter() - began)
        if len(ways) > 1 and task.spent + took > task.seconds:  # one more would end too late
            break
    candidates = range(0 if is_right else 1, len(ways))
    if not candidates:
        raise CodegenError(f"{UNSOUND % error}\n  please report it with the model")
    times = task.backend.seconds([way.run for way in ways], given)
    best = min(
        candidates, key=lambda k: times[k] * (1 + SELECTION.noise * (k == 0))
    )  # the optimized one, where they are equal
    if best == 0 and len(ways) > 1:
        log.warning(
            "einalg: a program is not faster than it was (%.3f ms), and stays as it is",
            times[0] * 1e3,
        )
    way, seconds = (
        (ways[0], times[0])
        if best == 0
        else _refined(ways[best], times[best], checked, given, task, took)
    )
    form, layers = way.form, way.form.layers
    return OptimizedProgram(
        program,
        lifted(way.program),
        lambda: layers,
        (times[0], seconds),
        way.error,
        verdict(layers),
        way.run,
        form.changes,
        form.slices,
    )


def _rounding(program: Program, read: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """The deviation that a program may have as it is: what its types allow, and several times what rounding makes of it in NumPy."""
    rounded = relative_error(expected, execute(program, read), program, read)
    return max(tolerance(program), ROUNDING * rounded)


def _refined(
    best: _CompiledVariant,
    seconds: float,
    checked: Callable[[_Variant], _CompiledVariant | None],
    given: Mapping[str, Array],
    task: Task,
    took: float,
) -> tuple[_CompiledVariant, float]:
    """The best way and its seconds, with other candidates of its layers where the whole is faster with these, while there is time.

    What is best for a layer alone need not be best where its results are read: what follows may be computed where they are stored. A
    trial takes as long as those before, the first one `took` seconds.
    """
    task.reserved = 0.0
    numbered = sorted(enumerate(best.form.layers), key=lambda pair: -_seconds(pair[1]))
    try:
        for place, other in [(place, other) for place, layer in numbered for other in layer.others]:
            if task.left <= took:
                break
            began = time.perf_counter()
            layers = [
                replace(layer, candidate=other) if number == place else layer
                for number, layer in enumerate(best.form.layers)
            ]
            if way := checked(replace(best.form, layers=layers)):
                before, after = task.backend.seconds([best.run, way.run], given)
                best, seconds = (way, after) if after * (1 + SELECTION.noise) < before else (best, before)
            took = max(took, time.perf_counter() - began)
    except KeyboardInterrupt:
        log.warning("einalg: interrupted; the best program until now is taken")
    return best, seconds


def _seconds(layer: Layer) -> float:
    """Of all statements that are this layer."""
    return len(layer.names) * (layer.candidate.cost if layer.candidate is not None else 0.0)


def _search(layers: list[Layer], task: Task) -> None:
    """Search the layers that are not known, those with most work first, each within its share of the seconds that are left."""
    unknown = [layer for layer in layers if not known_layer(layer, task.seconds, task.backend)]
    for layer in unknown:
        layer.cut = task.seconds
    found: dict[str, Layer] = {}
    try:
        for number, layer in enumerate(unknown):
            if (same := found.get(layer.identity)) is not None:
                layer.candidate, layer.original, layer.states, layer.cut = (
                    same.candidate,
                    same.original,
                    same.states,
                    same.cut,
                )
                layer.others = same.others
                continue
            if task.left <= 0:
                log.warning(
                    "einalg: the time is spent after %d of %d searches; other layers stay as they are",
                    number,
                    len(unknown),
                )
                break
            if task.progress:
                task.progress(layer, number, len(unknown))
            budget = replace(
                task.budget, seconds=min(task.budget.seconds, max(LEAST, SHARE * task.left))
            )
            found[layer.identity] = layer
            try:
                search_layer(layer, budget, task.seconds, task.backend)
            except EinalgError as error:
                log.warning("einalg: a layer stays as it is: %s", error)
                layer.cut = None
    except KeyboardInterrupt:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")
        for layer in unknown:
            layer.cut = layer.cut and 0.0  # another run goes on


def _is_better(layer: Layer) -> bool:
    found = layer.candidate
    return (
        found is not None
        and bool(found.moves)
        and (layer.original is None or found.cost < layer.original)
    )
