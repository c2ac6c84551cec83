"""ONNX recurrent networks, unrolled: a program with a few statements for every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.math.elementwise import logistic

MAX_UNROLLED_STEPS = 32
b, g, j, k, t = indices("b g j k t")
Function = Callable[[Any], Any]
ACTIVATIONS: dict[str, Function] = {
    "sigmoid": logistic,
    "tanh": sympy.tanh,
    "relu": lambda v: sympy.Max(v, 0),
    "softsign": lambda v: v / (1 + sympy.Abs(v)),
    "softplus": lambda v: sympy.Max(v, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(v))),
}
DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class _RecurrentDirection:
    """One direction of a recurrent layer: its weights, and the statements of its steps."""

    def __init__(self, node: Operator, direction: int, statements: list[tuple[str, Any]]):
        self.node, self.direction, self.statements = node, direction, statements
        self.x, self.w, self.r = node.tensor(0), node.tensor(1), node.tensor(2)
        self.bias = node.optional(3)
        self.by_batch = bool(node.integer("layout", 0))
        self.steps, self.batch = self.x.shape[:2]
        if self.by_batch:
            self.batch, self.steps = self.x.shape[:2]
        self.size = self.r.shape[-1]
        self.functions = _functions(node, direction)
        self.bound = node.number("clip")

    def say(self, name: str, scope: Any) -> Tensor:
        """Add a statement, whose name nothing else has."""
        name = f"{name}{self.direction}_"
        self.statements.append((name, scope))
        return statement_tensor(name, scope)

    def clipped(self, value: Any) -> Any:
        """Return the argument of an activation, within the bounds of `clip`."""
        if self.bound is None:
            return value
        return sympy.Max(-self.bound, sympy.Min(self.bound, value))

    def of_inputs(self, recurrent_bias: int) -> Tensor:
        """Add the share of the inputs in all gates of all steps.

        Their recurrent biases are a part of it where `recurrent_bias` is the number of gates.
        """
        count, depth = self.w.shape[1], self.x.shape[-1]
        read = self.x[t, b, k]
        if self.by_batch:
            read = self.x[b, t, k]
        total = Sum[k:depth](read * self.w[self.direction, g, k])
        if self.bias is not None:
            total = total + self.bias[self.direction, g]
            if recurrent_bias == count:
                total = total + self.bias[self.direction, g + count]
        return self.say("x", L[t : self.steps, b : self.batch, g:count](total))

    def recurrent(self, state: Any, gate: int, index: Any) -> Any:
        """Return the share of the state in a gate at `index`: 0 where there is none."""
        if state is None:
            return 0
        return Sum[k : self.size](state[b, k] * self.r[self.direction, index + gate * self.size, k])

    def initial(self, position: int) -> Any:
        """Return the state before the first step; None for zeros."""
        if not self.node.has(position):
            return None
        state = self.node.tensor(position)
        element = state[self.direction, b, j]
        if self.by_batch:
            element = state[b, self.direction, j]
        return self.say(f"initial{position}", L[b : self.batch, j : self.size](element))

    def state(self, name: str, body: Any) -> Tensor:
        return self.say(name, L[b : self.batch, j : self.size](body))


def _functions(node: Operator, direction: int) -> tuple[Function, ...]:
    names = node.attribute("activations") or []
    count = len(DEFAULTS[node.type])
    own: Sequence[Any] = names[direction * count :][:count] or DEFAULTS[node.type]
    functions: list[Function] = []
    for name in own:
        if isinstance(name, bytes):
            name = name.decode()
        if str(name).lower() not in ACTIVATIONS:
            raise NotExpressible(f"the activation {str(name).lower()}")
        functions.append(ACTIVATIONS[str(name).lower()])
    if len(functions) != count:
        raise NotExpressible("the activation is missing")
    return tuple(functions)


@onnx_operator(
    "LSTM",
    "GRU",
    "RNN",
    ignoring="hidden_size clip input_forget linear_before_reset output_sequence",
)
def recurrent(node: Operator) -> Any:
    x, w = node.tensor(0), node.tensor(1)
    directions = DIRECTIONS.get(node.word("direction", "forward"))
    if (
        directions is None
        or x.rank != 3
        or w.rank != 3
        or w.shape[0] != len(directions)
        or w.shape[1] != GATES[node.type] * node.tensor(2).shape[-1]
    ):
        raise NotExpressible("weights that do not fit")
    steps = x.shape[0]
    if node.integer("layout", 0):
        steps = x.shape[1]
    if steps > MAX_UNROLLED_STEPS:
        raise NotExpressible(f"{steps} steps, more than the {MAX_UNROLLED_STEPS} that are unrolled")
    if node.has(4) and any(n != steps for n in node.integers(4, "sequence_lens")):
        raise NotExpressible("sequences of different lengths")
    statements: list[tuple[str, Any]] = []
    states: list[list[tuple[Tensor, ...]]] = []
    for direction, is_reverse in enumerate(directions):
        layer = _RecurrentDirection(node, direction, statements)
        states.append(_one_direction(layer, is_reverse))
    return _outputs(node, statements, states)


def _one_direction(layer: _RecurrentDirection, is_reverse: bool) -> list[tuple[Tensor, ...]]:
    """Add the statements of all steps; return the states after each, in the order of the inputs."""
    kind = layer.node.type
    step = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[kind]
    recurrent_bias = layer.w.shape[1]
    if kind == "GRU":  # which multiplies one of them by a gate
        recurrent_bias = 0
    gates = layer.of_inputs(recurrent_bias)
    state: tuple[Any, ...] = (layer.initial(5),)
    if kind == "LSTM":
        state = (*state, layer.initial(6))
    positions = list(range(layer.steps))
    if is_reverse:
        positions.reverse()
    states: dict[int, tuple[Tensor, ...]] = {}
    for position in positions:
        state = states[position] = step(layer, gates, position, state)
    return [states[position] for position in range(layer.steps)]


def _rnn(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    (h,) = state
    total = gates[position, b, j] + layer.recurrent(h, 0, j)
    return (layer.state(f"h{position}_", layer.functions[0](layer.clipped(total))),)


def _lstm(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    """Return the states after a step of an LSTM, whose gates are input, output, forget, cell.

    Peepholes read the cell before the step, the one of the output that after it.
    """
    h, c = state
    size = layer.size
    total = gates[position, b, g] + layer.recurrent(h, 0, g)
    all_gates = layer.say(f"gates{position}_", L[b : layer.batch, g : 4 * size](total))
    peepholes = layer.node.optional(7)
    f, inner, outer = layer.functions

    def gate(number: int, cell: Any = None, peephole: int = 0) -> Any:
        value = all_gates[b, j + number * size]
        if peepholes is not None and cell is not None:
            value = value + peepholes[layer.direction, j + peephole * size] * cell[b, j]
        return layer.clipped(value)

    entry, forget = f(gate(0, c, 0)), f(gate(2, c, 2))
    if layer.node.integer("input_forget", 0):
        forget = 1 - entry
    memory = entry * inner(gate(3))
    if c is not None:
        memory = forget * c[b, j] + memory
    cell = layer.state(f"c{position}_", memory)
    hidden = layer.state(f"h{position}_", f(gate(1, cell, 1)) * outer(cell[b, j]))
    return hidden, cell


def _gru(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    """Return the state after a step of a GRU, whose gates are update, reset, hidden."""
    (h,) = state
    size, bias, d = layer.size, layer.bias, layer.direction
    f, inner = layer.functions

    def shift(number: int, index: Any) -> Any:
        if bias is None:
            return 0
        return bias[d, index + (3 + number) * size]

    def gate(number: int, index: Any) -> Any:
        value = gates[position, b, index + number * size] + shift(number, index)
        return f(layer.clipped(value + layer.recurrent(h, number, index)))

    hidden = gates[position, b, j + 2 * size]
    if layer.node.integer("linear_before_reset", 0):
        inside = gate(1, j) * (shift(2, j) + layer.recurrent(h, 2, j))
    elif h is not None:
        reset = layer.say(f"reset{position}_", L[b : layer.batch, j:size](gate(1, j) * h[b, j]))
        inside = shift(2, j) + layer.recurrent(reset, 2, j)
    else:
        inside = shift(2, j)
    update, new = gate(0, j), inner(layer.clipped(hidden + inside))
    state = (1 - update) * new
    if h is not None:
        state = state + update * h[b, j]
    return (layer.state(f"h{position}_", state),)


def _outputs(
    node: Operator,
    statements: list[tuple[str, Any]],
    states: Sequence[Sequence[tuple[Tensor, ...]]],
) -> Program:
    """Return all hidden states, and the last one of each kind, with an axis for directions."""
    last: list[tuple[Tensor, ...]] = []
    hidden: list[Tensor] = []
    is_reverse = DIRECTIONS[node.word("direction", "forward")]
    for direction, steps in enumerate(states):
        last.append(steps[0] if is_reverse[direction] else steps[-1])
        parts = [state[0] for state in steps]
        hidden.append(_stack(parts, "every", direction, statements))
    every: Any = ops.stack(hidden, 1)  # (steps, directions, batch, size)
    ends: list[Any] = [ops.stack(kind) for kind in zip(*last)]  # (directions, batch, size)
    if node.integer("layout", 0):
        every = ops.transpose(every, (2, 0, 1, 3))
        ends = [ops.transpose(end, (1, 0, 2)) for end in ends]
    names = ("every_", "last0_", "last1_")[: 1 + len(ends)]
    return Program([*statements, *zip(names, (every, *ends))], names)


def _stack(
    parts: list[Tensor], name: str, direction: int, statements: list[tuple[str, Any]]
) -> Tensor:
    scope = ops.stack(parts)
    statements.append((f"{name}{direction}_", scope))
    return statement_tensor(f"{name}{direction}_", scope)
