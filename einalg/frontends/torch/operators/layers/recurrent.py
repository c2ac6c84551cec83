"""Torch's recurrent networks as programs: the inputs of all steps of a layer in one statement, then a few statements a step."""

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
    """Statements of a program so far; their names end in `_`, as no input's does."""

    pairs: list[tuple[str, Scope]] = field(default_factory=list)

    def add(self, name: str, scope: Scope) -> Tensor:
        named = f"{name}_{len(self.pairs)}_"
        self.pairs.append((named, scope))
        return statement_tensor(named, scope)


@dataclass(frozen=True)
class _RecurrentLayer:
    """One direction of one layer: its weights, the number of units, and where it begins."""

    weights: Sequence[Any]  # w_ih, w_hh, and perhaps b_ih, b_hh
    batch: int
    size: int
    states: Sequence[Element]  # the states before the first step, as functions of (batch, unit)
    tied: bool  # whether the two biases are only ever added up

    def inputs(self, made: _StatementBuilder, x: Element, steps: int, depth: int) -> Tensor:
        """What the inputs give to the gates of every step."""
        w, _, *biases = self.weights
        total = Sum[k:depth](x(t, b, k) * w[g, k])
        return made.add(
            "inputs",
            L[t:steps, b : self.batch, g : w.shape[0]](
                total + sum(v[g] for v in (biases if self.tied else biases[:1]))
            ),
        )

    def recurrent(self, state: Element) -> Any:
        """What the state gives to a gate."""
        _, u, *biases = self.weights
        total = Sum[k : self.size](state(b, k) * u[g, k])
        return total if self.tied or not biases else total + biases[1][g]


Cell = Callable[[_StatementBuilder, _RecurrentLayer, Tensor, int, Sequence[Element]], list[Tensor]]


def _scope(body: Any, **ranges: tuple[int, int]) -> Scope:
    """A scope whose accesses are known to fit: thousands of them, of which no range is inferred and no access checked."""
    return Scope([(Index(name), *ends) for name, ends in ranges.items()], None, body)


def _placed(layer: _RecurrentLayer, step: int, body: Any) -> Scope:
    """The units after a step, as a scope that lies at that step of all."""
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
    memory = made.add(
        "memory",
        _placed(
            layer, step, logistic(forget) * states[1](b, j) + logistic(entry) * sympy.tanh(new)
        ),
    )
    return [
        made.add("state", _placed(layer, step, logistic(out) * sympy.tanh(memory[step, b, j]))),
        memory,
    ]


def _gru_step(
    made: _StatementBuilder,
    layer: _RecurrentLayer,
    inputs: Tensor,
    step: int,
    states: Sequence[Element],
) -> list[Tensor]:
    own = made.add("gates", _gates(layer, 3, layer.recurrent(states[0])))
    of_x, of_h = (
        [v[(*at, j + part * layer.size)] for part in range(3)]
        for v, at in ((inputs, (step, b)), (own, (b,)))
    )
    reset, update = (logistic(of_x[part] + of_h[part]) for part in range(2))
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
    def handler(
        x: Any, states: Any, weights: Sequence[Any], biased: bool, layers: int, dropout: float, in_training: bool, both_ways: bool, batch_first: bool
    ) -> Program:  # fmt: skip
        if dropout and in_training:
            raise training_error("dropout between layers")
        ways, each, begin = 1 + both_ways, 4 if biased else 2, states if several else [states]
        if len(weights) != layers * ways * each:
            raise NotExpressed("projections of the states")
        batch, steps, depth = x.shape if batch_first else (x.shape[1], x.shape[0], x.shape[2])
        size, made, last, outputs = begin[0].shape[-1], _StatementBuilder(), [], []
        read: Element = (
            (lambda step, row, unit: x[row, step, unit])
            if batch_first
            else (lambda step, row, unit: x[step, row, unit])
        )
        for layer in range(layers):
            found = []
            for way in range(ways):
                n = layer * ways + way
                first = [_first(s, n) for s in begin]
                one = _RecurrentLayer(weights[n * each : (n + 1) * each], batch, size, first, tied)
                found.append(
                    _run(
                        cell,
                        made,
                        one,
                        one.inputs(made, read, steps, depth),
                        list(range(steps))[:: -1 if way else 1],
                    )
                )
            last += [states_at[-1] for states_at in found]
            joined = _joined(
                made,
                [[s[0] for s in run] for run in found],
                steps,
                batch_first and layer == layers - 1,
            )
            outputs, depth, read = (
                [joined.name],
                size * ways,
                lambda step, row, unit, y=joined: y[step, row, unit],
            )
        finals = [_final(made, [run[which] for run in last]) for which in range(len(begin))]
        return Program(made.pairs, [*outputs, *(v.name for v in finals)])

    return handler


def _first(states: Any, n: int) -> Element:
    return lambda row, unit: states[n, row, unit]


def _run(
    cell: Cell,
    made: _StatementBuilder,
    layer: _RecurrentLayer,
    inputs: Tensor,
    order: Sequence[int],
) -> list[list[Tensor]]:
    """The states after every step, in the order in which they are computed.

    The cell is asked once, for a step 0 with states of no origin; every step has these statements with what it reads in the places of that.
    """
    begin = [
        Tensor(f"begin{n}_", (layer.batch, layer.size), inputs.dtype)
        for n in range(len(layer.states))
    ]
    once, every = _StatementBuilder(), Tensor("every_", (1, *inputs.shape[1:]), inputs.dtype)
    after = cell(once, layer, every, 0, [lambda *at, v=v: v[at] for v in begin])
    states, found = layer.states, []
    for step in order:
        elements: dict[str, Element] = {v.name: state for v, state in zip(begin, states)}
        elements[every.name] = _moved(inputs, step)
        own: dict[str, Tensor] = {}
        for name, scope in once.pairs:
            own[name] = made.add(name.partition("_")[0], _at_step(scope, step, elements))
            elements[name] = _moved(own[name], step if t in scope.indices else 0)
        found.append([own[v.name] for v in after])
        states = [_reader(v, step) for v in found[-1]]
    return found


def _at_step(scope: Scope, step: int, elements: Mapping[str, Element]) -> Scope:
    """A statement of step 0 as that of another one, which reads these elements."""

    def change(access: Access) -> Any:
        element = elements.get(access.tensor.name)
        return access if element is None else element(*access.subscripts)

    ranges = {
        it.index.name: (step, step + 1) if it.index == t else (it.low, it.high)
        for it in scope.iterators
    }
    return _scope(map_accesses(scope.body, change), **ranges)


def _moved(tensor: Tensor, step: int) -> Element:
    """What begins at a step, read as if that were the step 0."""
    return lambda first, *others: tensor[(first + step, *others)]


def _joined(
    made: _StatementBuilder, runs: Sequence[Sequence[Tensor]], steps: int, batch_first: bool
) -> Tensor:
    """The states of all steps, those of the two directions after one another."""
    batch, size = runs[0][0].shape[1:]
    parts = []
    for way, run in enumerate(runs):
        around = (way * size, (len(runs) - 1 - way) * size)
        for v in run:
            step = v.box[0][0]
            parts.append(v.pad((step, steps - 1 - step), 0, around)[t, b, affine(j) - way * size])
    axes = [slice(t, steps), slice(b, batch)]
    return made.add(
        "states",
        L[(*(axes[::-1] if batch_first else axes), slice(j, size * len(runs)))](sympy.Add(*parts)),
    )


def _final(made: _StatementBuilder, states: Sequence[Tensor]) -> Tensor:
    """The states after the last step of every layer."""
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
