"""Torch's recurrent networks as programs.

The share of the inputs in all steps of a layer is one statement; then each step has a few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from einalg.frontends.torch.nodes.registry import Handler, NotExpressed, aten, training_error
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import map_accesses
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.math.elementwise import logistic

t, b, j, k, g = indices("t b j k g")
Element = Callable[..., Any]  # of subscripts


@dataclass
class _StatementBuilder:
    """Statements of a program under construction.

    Their names end in `_`, as no input's does, for example `gates_3_`.
    """

    pairs: list[tuple[str, Scope]] = field(default_factory=list)

    def add(self, name: str, scope: Scope) -> Tensor:
        named = f"{name}_{len(self.pairs)}_"
        self.pairs.append((named, scope))
        return statement_tensor(named, scope)


@dataclass(frozen=True)
class _RecurrentLayer:
    """One direction of one layer: its weights, the number of units, and its first states."""

    weights: Sequence[Any]  # w_ih, w_hh, and perhaps b_ih, b_hh
    batch: int
    size: int
    states: Sequence[Element]  # the states before the first step, as functions of (batch, unit)
    tied: bool  # whether the two biases are only ever added up

    def inputs(self, made: _StatementBuilder, x: Element, steps: int, depth: int) -> Tensor:
        """Add the share of the inputs in the gates of every step."""
        w, _, *biases = self.weights
        if not self.tied:
            biases = biases[:1]
        total = Sum[k:depth](x(t, b, k) * w[g, k]) + sum(bias[g] for bias in biases)
        return made.add("inputs", L[t:steps, b : self.batch, g : w.shape[0]](total))

    def recurrent(self, state: Element) -> Any:
        """Return the share of the state in a gate."""
        _, u, *biases = self.weights
        total = Sum[k : self.size](state(b, k) * u[g, k])
        if self.tied or not biases:
            return total
        return total + biases[1][g]


Cell = Callable[[_StatementBuilder, _RecurrentLayer, Tensor, int, Sequence[Element]], list[Tensor]]


def _scope(body: Any, **ranges: tuple[int, int]) -> Scope:
    """Return a scope whose accesses are known to fit.

    There are thousands of these, of which no range is inferred and no access checked.
    """
    return Scope([(Index(name), *ends) for name, ends in ranges.items()], None, body)


def _placed(layer: _RecurrentLayer, step: int, body: Any) -> Scope:
    """Return the units after a step, as a scope at that step of all."""
    return _scope(body, t=(step, step + 1), b=(0, layer.batch), j=(0, layer.size))


def _gates(layer: _RecurrentLayer, count: int, body: Any) -> Scope:
    return _scope(body, b=(0, layer.batch), g=(0, count * layer.size))


def _reader(tensor: Tensor, step: int) -> Element:
    return lambda row, unit: tensor[step, row, unit]


def _lstm_step(
    made: _StatementBuilder,
    layer: _RecurrentLayer,
    inputs: Tensor,
    step: int,
    states: Sequence[Element],
) -> list[Tensor]:
    gates = made.add("gates", _gates(layer, 4, inputs[step, b, g] + layer.recurrent(states[0])))
    entry, forget, new, out = (gates[b, j + part * layer.size] for part in range(4))
    cell = logistic(forget) * states[1](b, j) + logistic(entry) * sympy.tanh(new)
    memory = made.add("memory", _placed(layer, step, cell))
    state = logistic(out) * sympy.tanh(memory[step, b, j])
    return [made.add("state", _placed(layer, step, state)), memory]


def _gru_step(
    made: _StatementBuilder,
    layer: _RecurrentLayer,
    inputs: Tensor,
    step: int,
    states: Sequence[Element],
) -> list[Tensor]:
    gates = made.add("gates", _gates(layer, 3, layer.recurrent(states[0])))
    of_x = [inputs[step, b, j + part * layer.size] for part in range(3)]
    of_h = [gates[b, j + part * layer.size] for part in range(3)]
    reset, update = logistic(of_x[0] + of_h[0]), logistic(of_x[1] + of_h[1])
    new = sympy.tanh(of_x[2] + reset * of_h[2])
    return [made.add("state", _placed(layer, step, (1 - update) * new + update * states[0](b, j)))]


def _plain_step(function: Callable[[Any], Any]) -> Cell:
    def step(
        made: _StatementBuilder,
        layer: _RecurrentLayer,
        inputs: Tensor,
        at: int,
        states: Sequence[Element],
    ) -> list[Tensor]:
        gates = made.add("gates", _gates(layer, 1, inputs[at, b, g] + layer.recurrent(states[0])))
        return [made.add("state", _placed(layer, at, function(gates[b, j])))]

    return step


def _network(cell: Cell, tied: bool, several: bool) -> Handler:
    """Return the handler of a kind of network, `several` with more than one state."""

    def handler(
        x: Any,
        states: Any,
        weights: Sequence[Any],
        biased: bool,
        layers: int,
        dropout: float,
        in_training: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> Program:
        if dropout and in_training:
            raise training_error("dropout between layers")
        if not several:
            states = [states]
        network = _Network(cell, tied, states, weights, biased, both_ways)
        if len(weights) != layers * network.directions * network.weights_per_direction:
            raise NotExpressed("projections of the states")
        return network.program(x, layers, batch_first)

    return handler


@dataclass(frozen=True)
class _Network:
    """Layers of a recurrent network: the cell of a step, first states, and all weights in a row."""

    cell: Cell
    tied: bool
    states: Sequence[Any]  # each of the shape (layers · directions, batch, size)
    weights: Sequence[Any]
    biased: bool
    both_ways: bool

    @property
    def directions(self) -> int:
        return 1 + self.both_ways

    @property
    def weights_per_direction(self) -> int:
        return 2 + 2 * self.biased

    def program(self, x: Any, layers: int, batch_first: bool) -> Program:
        steps, batch, depth = x.shape
        if batch_first:
            batch, steps, depth = x.shape
        made, read = _StatementBuilder(), _input_reader(x, batch_first)
        last: list[list[Tensor]] = []  # of each layer and direction, the states after all steps
        outputs = ""
        for number in range(layers):
            hidden: list[list[Tensor]] = []
            for direction in range(self.directions):
                layer = self._layer(number * self.directions + direction, batch)
                inputs = layer.inputs(made, read, steps, depth)
                order = list(range(steps))
                if direction:
                    order.reverse()
                states = _run(self.cell, made, layer, inputs, order)
                hidden.append([state[0] for state in states])
                last.append(states[-1])
            is_output = number == layers - 1
            joined = _joined(made, hidden, steps, batch_first and is_output)
            outputs, depth = joined.name, joined.shape[-1]
            read = _input_reader(joined, batch_first=False)
        finals = [_final(made, kind) for kind in zip(*last)]
        return Program(made.pairs, [outputs, *(final.name for final in finals)])

    def _layer(self, number: int, batch: int) -> _RecurrentLayer:
        """Return one direction of one layer by its number in the row of all."""
        count = self.weights_per_direction
        weights = self.weights[number * count : (number + 1) * count]
        first = [_first(states, number) for states in self.states]
        return _RecurrentLayer(weights, batch, self.states[0].shape[-1], first, self.tied)


def _input_reader(x: Any, batch_first: bool) -> Element:
    if batch_first:
        return lambda step, row, unit: x[row, step, unit]
    return lambda step, row, unit: x[step, row, unit]


def _first(states: Any, n: int) -> Element:
    return lambda row, unit: states[n, row, unit]


def _run(
    cell: Cell,
    made: _StatementBuilder,
    layer: _RecurrentLayer,
    inputs: Tensor,
    order: Sequence[int],
) -> list[list[Tensor]]:
    """Return the states after every step, in the order in which they are computed.

    The cell is called once, for a step 0 with placeholders for the states; every step has the same
    statements with other elements in the places of what they read.
    """
    begin: list[Tensor] = []
    for number in range(len(layer.states)):
        begin.append(Tensor(f"begin{number}_", (layer.batch, layer.size), inputs.dtype))
    once, every = _StatementBuilder(), Tensor("every_", (1, *inputs.shape[1:]), inputs.dtype)
    after = cell(once, layer, every, 0, [_element_reader(tensor) for tensor in begin])
    states, results = layer.states, list[list[Tensor]]()
    for step in order:
        elements: dict[str, Element] = dict(zip((tensor.name for tensor in begin), states))
        elements[every.name] = _moved(inputs, step)
        added: dict[str, Tensor] = {}
        for name, scope in once.pairs:
            added[name] = made.add(name.partition("_")[0], _at_step(scope, step, elements))
            offset = 0
            if t in scope.indices:
                offset = step
            elements[name] = _moved(added[name], offset)
        results.append([added[tensor.name] for tensor in after])
        states = [_reader(tensor, step) for tensor in results[-1]]
    return results


def _element_reader(tensor: Tensor) -> Element:
    return lambda *at: tensor[at]


def _at_step(scope: Scope, step: int, elements: Mapping[str, Element]) -> Scope:
    """Return a statement of step 0 as that of another one, which reads these elements."""

    def change(access: Access) -> Any:
        element = elements.get(access.tensor.name)
        if element is None:
            return access
        return element(*access.subscripts)

    ranges: dict[str, tuple[int, int]] = {}
    for iterator in scope.iterators:
        ranges[iterator.index.name] = (iterator.low, iterator.high)
        if iterator.index == t:
            ranges[iterator.index.name] = (step, step + 1)
    return _scope(map_accesses(scope.body, change), **ranges)


def _moved(tensor: Tensor, step: int) -> Element:
    """Return the elements of a tensor that begins at a step, as if that were the step 0."""
    return lambda first, *others: tensor[(first + step, *others)]


def _joined(
    made: _StatementBuilder, runs: Sequence[Sequence[Tensor]], steps: int, batch_first: bool
) -> Tensor:
    """Add the states of all steps, with those of the two directions one after the other."""
    batch, size = runs[0][0].shape[1:]
    parts = []
    for order, run in enumerate(runs):
        around = (order * size, (len(runs) - 1 - order) * size)
        for v in run:
            step = v.box[0][0]
            parts.append(v.pad((step, steps - 1 - step), 0, around)[t, b, affine(j) - order * size])
    size_of_all = size * len(runs)
    if batch_first:
        return made.add("states", L[b:batch, t:steps, j:size_of_all](sympy.Add(*parts)))
    return made.add("states", L[t:steps, b:batch, j:size_of_all](sympy.Add(*parts)))


def _final(made: _StatementBuilder, states: Sequence[Tensor]) -> Tensor:
    """Add the states after the last step of every layer."""
    _, batch, size = states[0].shape
    layers = []
    for n, v in enumerate(states):
        one = made.add("last", L[t : n : n + 1, b:batch, j:size](v[v.box[0][0], b, j]))
        layers.append(one.pad((n, len(states) - 1 - n), 0, 0)[t, b, j])
    return made.add("final", L[t : len(states), b:batch, j:size](sympy.Add(*layers)))


aten("lstm.input")(_network(_lstm_step, tied=True, several=True))
aten("gru.input")(_network(_gru_step, tied=False, several=False))
aten("rnn_tanh.input")(_network(_plain_step(sympy.tanh), tied=True, several=False))
aten("rnn_relu.input")(_network(_plain_step(lambda v: sympy.Max(v, 0)), tied=True, several=False))
