"""An optimized network: what `einalg.optimize` gives (design §11)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from derive.backend import Backend, Runnable
from derive.derivation import NOISE, relative_error, tolerance
from derive.matching import named
from derive.optimizer.folding import folded
from derive.optimizer.layers import Layer, known_layer, layers_of, search_layer, with_layers
from derive.optimizer.report import Report
from derive.optimizer.shaping import shaped
from derive.rules.spelling import lifted
from derive.search import Budget, kernels_of
from einalg.errors import CodegenError, EinalgError
from einalg.execute import execute
from einalg.graph import Expressed, Graph, Opaque
from einalg.kernel import Kernel
from einalg.program import Program, in_double

log = logging.getLogger("einalg")

Array = np.ndarray[Any, Any]
Progress = Callable[[Layer, int, int], None]
SHARE = 0.25  # of the seconds that are left, that one layer may take
REPEATS = 5


@dataclass
class Part:
    """One program of the graph: as it was, as it is now, its layers, its seconds before and after, and the largest relative error."""

    before: Program
    after: Program
    layers: list[Layer]
    kernels: tuple[Kernel, ...] = ()
    seconds: tuple[float, float] = (0.0, 0.0)
    error: float = 0.0
    run: Runnable | None = field(default=None, repr=False)

    @property
    def verdict(self) -> str:
        """The weakest verdict of its layers: "proved" where every change is."""
        changed = {layer.candidate.verdict for layer in self.layers if layer.candidate is not None}
        return "tested" if "tested" in changed else "proved"


class Optimized:
    """A network that runs: call it with arrays of its inputs, in order; `parts` and `opaque` say what was done."""

    def __init__(self, graph: Graph, parts: Mapping[int, Part], seconds: float):
        self.graph, self.parts, self.seconds = graph, dict(parts), seconds
        programs = {id(node.program): self.parts[k] for k, node in enumerate(graph.nodes) if isinstance(node, Expressed)}
        self._runs = {key: (part.run, [name for name in part.before.inputs if name not in graph.weights]) for key, part in programs.items()}

    @property
    def report(self) -> Report:
        """What was done, layer by layer: `print` it, or look at it in Jupyter."""
        return Report(self)

    @property
    def opaque(self) -> list[Opaque]:
        """The nodes that stay calls of the framework."""
        return self.graph.opaque

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """The outputs as new arrays; `ShapeError` for inputs of another number or shape."""

        def compute(program: Program, values: Mapping[str, Array]) -> Mapping[str, Array]:
            run, read = self._runs[id(program)]
            assert run is not None
            result = run(**{name: values[name] for name in read})
            return result if isinstance(result, dict) else {program.outputs[0]: result}

        return self.graph.run(arrays, compute)


def optimized(
    graph: Graph,
    arrays: Sequence[Array],
    backend: Backend,
    seconds: float = 300.0,
    budget: Budget | None = None,
    progress: Progress | None = None,
    accuracy: float | None = None,
) -> Optimized:
    """Optimize every program of a graph on the arrays of a call; an interrupt keeps what was found until then."""
    began = time.perf_counter()
    graph = graph.joined()
    values = _values(graph, arrays)
    parts = {}
    for position, node in enumerate(graph.nodes):
        if isinstance(node, Expressed):
            left = max(0.0, seconds - (time.perf_counter() - began))
            parts[position] = _part(node.program, graph, values, backend, left, budget or Budget(), progress, accuracy)
    return Optimized(graph, parts, time.perf_counter() - began)


def _values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """Every value of the graph for a call, by the reference executor in double precision."""
    values: dict[str, Array] = {}

    def compute(program: Program, known: Mapping[str, Array]) -> Mapping[str, Array]:
        values.update(known)
        found = execute(in_double(program), known)
        values.update(found)
        return found

    graph.run(arrays, compute)
    return values


def _part(
    program: Program,
    graph: Graph,
    values: Mapping[str, Array],
    backend: Backend,
    seconds: float,
    budget: Budget,
    progress: Progress | None,
    accuracy: float | None,
) -> Part:
    weights = {name: graph.weights[name] for name in program.inputs if name in graph.weights}
    given = {name: values[name] for name in program.inputs if name not in weights}
    expected = {name: values[name] for name in program.outputs}
    plain, _ = shaped(program)
    ready = folded(plain)
    layers = layers_of(ready)
    _search(layers, backend, seconds, budget, progress)
    original = _compiled(program, backend, weights)
    ways = [(program, original, relative_error(expected, original(**given), program))]
    allowed = tolerance(program) if accuracy is None else accuracy
    for after in dict.fromkeys((ready, with_layers(ready, layers, _is_better))):
        try:
            run = _compiled(after, backend, weights)
        except CodegenError as failure:
            log.warning("einalg: an optimized program does not compile, and is not taken: %s", failure)
            continue
        error = relative_error(expected, run(**given), program)
        if error <= allowed:
            ways.append((after, run, error))
        else:
            log.warning("einalg: an optimized program deviates by %.1e, and is not taken", error)
    times = backend.seconds([run for _, run, _ in ways], given)
    best = min(range(len(ways)), key=lambda k: times[k] * (1 + NOISE * (k == 0)))  # the optimized one, where they are equal
    after, run, error = ways[best]
    if after is not program or len(ways) == 1:
        unused = after is ready
    else:
        log.warning("einalg: a program is not faster than it was (%.3f ms), and stays as it is", times[0] * 1e3)
        unused = True
    if unused:
        layers = [replace(layer, candidate=None) for layer in layers]
    return Part(program, after, layers, named(kernels_of(lifted(after))), (times[0], times[best]), error, run)


def _search(layers: list[Layer], backend: Backend, seconds: float, budget: Budget, progress: Progress | None) -> None:
    """Search the layers that were not searched before, those with most work first, within some seconds."""
    ends = time.perf_counter() + seconds
    unknown = [layer for layer in layers if not known_layer(layer, backend)]
    try:
        for number, layer in enumerate(unknown):
            left = ends - time.perf_counter()
            if left <= 0:
                log.warning("einalg: the time is spent; %d of %d layers stay as they are", len(unknown) - number, len(layers))
                break
            if progress:
                progress(layer, number, len(unknown))
            own = Budget(budget.depth, budget.states, min(budget.seconds, max(1.0, SHARE * left)), budget.candidates, budget.patience, budget.bytes)
            try:
                search_layer(layer, own, backend)
            except EinalgError as error:
                log.warning("einalg: a layer stays as it is: %s", error)
    except KeyboardInterrupt:
        log.warning("einalg: interrupted; layers that were not searched stay as they are")


def _is_better(layer: Layer) -> bool:
    found = layer.candidate
    return found is not None and bool(found.moves) and (layer.original is None or found.cost < layer.original)


def _compiled(program: Program, backend: Backend, weights: Mapping[str, Array]) -> Runnable:
    flat = lifted(program)
    return backend.compile(flat, kernels_of(flat)).bind(**weights)
