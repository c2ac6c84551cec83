"""The operator for which a model deviates from its framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from derive.cost.model import operations
from derive.programs import OptimizedNetwork, OptimizedProgram
from derive.programs.optimization.optimize import reference_outputs_of
from derive.programs.optimized_program import compiled, spreading_layers
from derive.programs.passes.weights.weighted_sums import adds_weights
from derive.rules.inter.lifting_nesting import lifted
from einalg.api.verification.deviation import Deviation, deviation, tolerance_of
from einalg.api.verification.examples import FrameworkCall
from einalg.errors import EinalgError, first_line
from einalg.frontends.graph import Graph, GraphNode, ProgramNode
from einalg.frontends.reading import Reading
from einalg.frontends.special_inputs import roughened
from einalg.language.ir.program import Program

MAX_REACH_OPERATIONS = 1 << 33  # of a program that NumPy computes to see how far a NaN may reach
Array = np.ndarray[Any, Any]
Values = Mapping[str, Array]


@dataclass(frozen=True)
class Faults:
    """What is wrong: `nodes` of the framework, each with what; or a network in which a form is
    `replaced`. Both are empty where every program computes what it may.
    """

    nodes: Mapping[str, str]
    replaced: OptimizedNetwork | None = None


@dataclass(frozen=True)
class Localisation:
    """A model operator by operator on an example, on which a call deviates."""

    reading: Reading
    example: FrameworkCall
    network: Any  # what runs: an `OptimizedNetwork`, or another function of arrays
    accuracy: float | None
    may_spread: bool
    # Operators for which the framework has other NaNs and infinities than their definition.
    undefined: set[str] = field(default_factory=set, init=False)
    # Programs, by name of an output, with other results for infinities than the framework has.
    adding: set[str] = field(default_factory=set, init=False)

    @cached_property
    def values(self) -> Values:
        """The framework's values, by their names in the graph."""
        return self._framework_values(lambda array, _: array)

    @cached_property
    def rough_values(self) -> Values:
        """The framework's values where what the inputs' types round off is other."""
        return self._framework_values(roughened)

    def _framework_values(self, change: Callable[[Array, str], Array]) -> Values:
        original = self.example.original
        arrays = list(original.arrays(self.example.arguments))
        for position, tensor in enumerate(self.reading.graph.inputs):
            array = np.asarray(arrays[position])
            if array.dtype.kind == "f":
                arrays[position] = change(array, tensor.dtype)
        return self.reading.framework_values(arrays)

    @cached_property
    def _types(self) -> dict[str, str]:
        types: dict[str, str] = {}
        for node in self.reading.graph.nodes:
            if isinstance(node, ProgramNode):
                types.update((name, node.program[name].dtype) for name in node.outputs)
        return types

    def faults(self) -> Faults:
        """Return what is at fault: operators that are misread, or code that computes otherwise."""
        misread = self.reading.misread(self.values, self._judged_operator)
        if misread or not isinstance(self.network, OptimizedNetwork):
            return Faults(misread)
        for position, part in self.network.parts.items():
            node = self.network.graph.nodes[position]
            fault = self._fault_of(node, part, part.run)
            if fault:
                return self._of_part(position, node, part, fault)
        return Faults({})

    @property
    def is_model(self) -> bool:
        """Whether the graph is the model: its results, by the framework, are those of the model."""
        expected = self.example.expected or []
        names = self.reading.graph.outputs
        if len(names) != len(expected):
            return True
        for name, (array, kind) in zip(names, expected):
            if name not in self.values or name not in self.rough_values:
                continue
            gap = deviation(array, self.values[name])
            noise = deviation(self.values[name], self.rough_values[name])
            if not (gap.is_within(tolerance_of(kind, self.accuracy)) or gap.is_noise(noise)):
                return False
        return True

    @property
    def is_spread(self) -> bool:
        """Whether other elements may be NaN than there are in the framework: forms may have made
        them so, or the framework lost them.
        """
        if not self.may_spread or not isinstance(self.network, OptimizedNetwork):
            return False
        return any(self._is_spreading(part) for part in self.network.parts.values())

    def are_of_added_weights(self, outputs: Iterable[int]) -> bool:
        """Tell whether all these outputs of the model are computed of what has other results for
        infinities, as forms multiply them by the sum of several weights.
        """
        if not self.adding:
            return False
        reached, graph = set(self.adding), self.network.graph
        for node in graph.nodes:
            if not reached.isdisjoint(node.inputs):
                reached.update(node.outputs)
        if len(graph.outputs) != len(self.example.expected or []):  # some are no tensors
            return False
        return all(graph.outputs[place] in reached for place in outputs)

    def _is_spreading(self, part: OptimizedProgram) -> bool:
        return bool(self.undefined) or bool(spreading_layers(part.layers))

    def _of_part(
        self, position: int, node: GraphNode, part: OptimizedProgram, fault: str
    ) -> Faults:
        """Return a node at fault in a program, or the network with that program as it was."""
        unchanged = _unchanged(part, self._compiled(part.before), fault)
        if not self._fault_of(node, unchanged, unchanged.run):
            network = self.network
            parts = {**network.parts, position: unchanged}
            replaced = OptimizedNetwork(
                network.graph, parts, network.seconds, network.key, False, network.backend
            )
            return Faults({}, replaced)
        origin = self._bisected(node)
        return Faults({} if origin is None else {origin: fault})

    def _fault_of(self, node: GraphNode, part: OptimizedProgram, run: Any) -> str:
        """Return what is wrong in the outputs of a program, computed of the framework's values."""
        read = [name for name in part.before.inputs if name not in self.network.graph.weights]
        if any(name not in self.values for name in read):
            return ""
        try:
            outputs = run(**{name: self.values[name] for name in read})
        except EinalgError as error:
            return f"einalg has no result on {self.example.name}: {first_line(error)}"
        results = outputs if isinstance(outputs, dict) else {part.before.outputs[0]: outputs}
        for name in node.outputs:
            if name not in self.values:
                continue
            fault = self._judged(name, self.values[name], np.asarray(results[name]))
            if not fault:
                continue
            result = np.asarray(results[name])
            difference = deviation(self.values[name], result)
            if self._is_spreading(part) and self._may_reach(part, difference, name, result):
                continue
            if self._is_of_infinities(part, name, result):
                self.adding.add(name)
                continue
            return fault
        return ""

    def _may_reach(
        self, part: OptimizedProgram, difference: Deviation, name: str, result: Array
    ) -> bool:
        """Tell whether NaNs and infinities are where a form, as it is written, has them too, and
        nothing else is wrong.
        """
        is_finite = replace(difference, lost=0, spread=0, changed=0)
        if not self.may_spread or not self._is_right(name, is_finite):
            return False
        if difference.lost and not self._is_lost_as_read(part, name, result):
            return False
        written = self._written(part, part.after, name)
        return written is None or not np.any(~np.isfinite(result) & np.isfinite(written))

    def _is_lost_as_read(self, part: OptimizedProgram, name: str, result: Array) -> bool:
        """Tell whether a result has numbers for NaNs and infinities of the framework as they follow
        from operators that the framework computes otherwise than they are defined.
        """
        read = self._written(part, part.before, name) if self.undefined else None
        if read is None:
            return False
        lost = np.isfinite(result) & ~np.isfinite(self.values[name])
        return self._is_right(name, deviation(read[lost], result[lost]))

    def _is_of_infinities(self, part: OptimizedProgram, name: str, result: Array) -> bool:
        """Tell whether a result has something else where the framework adds infinities up to NaN,
        as a form has that multiplies them by the sum of their weights, and nothing else is wrong.
        """
        if not self.may_spread or not adds_weights(part.after):
            return False
        read = [self.values[label] for label in part.before.inputs if label in self.values]
        floats = [array for array in read if array.dtype.kind == "f"]
        has_infinities = any(np.isinf(array).any() for array in floats)
        if not has_infinities or any(np.isnan(array).any() for array in floats):
            return False
        expected = self.values[name]
        if expected.dtype.kind != "f" or expected.shape != result.shape:
            return False
        lost = np.isnan(expected)
        others = deviation(expected, np.where(lost, expected, result))
        if self._is_spreading(part):
            others = replace(others, spread=0)
        if not self._is_right(name, others):
            return False
        written = self._written(part, part.after, name)
        if written is None:
            return False
        return self._is_right(name, deviation(written[lost], result[lost]))

    def _written(self, part: OptimizedProgram, form: Program, name: str) -> Array | None:
        """Return an output of a form as it is written; None of one that would take long."""
        if sum(operations(scope) for _, scope in form.statements) > MAX_REACH_OPERATIONS:
            return None
        known = {**self.network.graph.weights, **self.values}
        inputs = {read: known[read] for read in part.before.inputs}
        with np.errstate(all="ignore"):
            slices = part.slices if form is part.after else None
            return reference_outputs_of(form, inputs, slices)[name]

    def _is_right(self, name: str, difference: Deviation) -> bool:
        if difference.is_within(tolerance_of(self._types.get(name, ""), self.accuracy)):
            return True
        if name not in self.rough_values:
            return False
        return difference.is_noise(deviation(self.values[name], self.rough_values[name]))

    def _judged_operator(self, name: str, expected: Array, result: Array) -> str:
        """Return what is wrong in an output of an operator, computed of the framework's values.

        Where the framework has other NaNs and infinities than the definition, nothing is.
        """
        fault, origin = self._judged(name, expected, result), self.reading.origins.get(name)
        if fault and origin is not None and self._is_as_defined(name, origin, expected, result):
            self.undefined.add(origin)
            return ""
        return fault

    def _is_as_defined(self, name: str, origin: str, expected: Array, result: Array) -> bool:
        """Tell whether a result deviates only where the framework has other NaNs and infinities
        than the definition of the operator, which the result has.
        """
        is_finite = replace(deviation(expected, result), lost=0, spread=0, changed=0)
        if not self.may_spread or not self._is_right(name, is_finite):
            return False
        defined = self.reading.definition(origin, self.values).get(name)
        return defined is not None and self._is_right(name, deviation(defined, result))

    def _judged(self, name: str, expected: Array, result: Array) -> str:
        difference = deviation(expected, result)
        if self._is_right(name, difference):
            return ""
        example = self.example
        return f"einalg deviates from {example.original.name} on {example.name}: {difference}"

    def _compiled(self, program: Any) -> Any:
        backend = self.network.backend
        return compiled(program, backend, self.network.graph.weights)

    def _bisected(self, node: GraphNode) -> str | None:
        """Return the framework's node up to which a program is computed right, and with which it is
        not any more.
        """
        nodes = _nodes_of(self.reading.graph, node)
        right, wrong = 0, len(nodes)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._is_prefix_right(nodes[:middle]):
                right = middle
            else:
                wrong = middle
        origins = [self.reading.origins.get(name) for name in nodes[wrong - 1].outputs]
        return next((origin for origin in origins if origin is not None), None)

    def _is_prefix_right(self, nodes: Sequence[GraphNode]) -> bool:
        graph = self.reading.graph
        inner = {name for node in nodes for name in node.outputs}
        read_later = set(graph.outputs)
        for node in graph.nodes:
            if not inner.issuperset(node.outputs):
                read_later.update(node.inputs)
        outputs = tuple(sorted(inner & read_later & self.values.keys()))
        merged = replace(graph, nodes=tuple(nodes), outputs=outputs).merged()
        for node in merged.nodes:
            assert isinstance(node, ProgramNode)
            try:
                run = self._compiled(node.program)
            except EinalgError:
                return False
            part = OptimizedProgram(node.program, lifted(node.program), run=run)
            if self._fault_of(node, part, run):
                return False
        return True


def _unchanged(part: OptimizedProgram, run: Any, fault: str) -> OptimizedProgram:
    """Return a program as it was before it was optimized."""
    changes = (f"as it was: its faster form is not taken ({fault})",)
    before = part.before
    times = None
    if part.times is not None:
        times = part.times[0], part.times[0]
    return OptimizedProgram(before, lifted(before), list, times, run=run, changes=changes)


def _nodes_of(graph: Graph, whole: GraphNode) -> list[GraphNode]:
    """Return the nodes of a graph that a merged node is made of, in order."""
    needed = set(whole.outputs)
    inputs = set(whole.inputs) - needed
    nodes: list[GraphNode] = []
    for node in reversed(graph.nodes):
        if isinstance(node, ProgramNode) and not needed.isdisjoint(set(node.outputs) - inputs):
            nodes.append(node)
            needed.update(set(node.inputs) - inputs)
    return nodes[::-1]
