"""Recurrent networks, unrolled: a program with a few statements for every step."""

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

MOST_STEPS = 32
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
        self.x, self.w, self.r, self.bias = (
            node.tensor(0),
            node.tensor(1),
            node.tensor(2),
            node.optional(3),
        )
        self.by_batch = bool(node.integer("layout", 0))
        steps, batch = self.x.shape[:2][:: -1 if self.by_batch else 1]
        self.steps, self.batch, self.size = steps, batch, self.r.shape[-1]
        self.functions = _functions(node, direction)
        self.bound = node.number("clip")

    def say(self, name: str, scope: Any) -> Tensor:
        """A statement, whose name nothing else has."""
        name = f"{name}{self.direction}_"
        self.statements.append((name, scope))
        return statement_tensor(name, scope)

    def clipped(self, value: Any) -> Any:
        """What an activation takes."""
        return value if self.bound is None else sympy.Max(-self.bound, sympy.Min(self.bound, value))

    def of_inputs(self, recurrent_bias: int) -> Tensor:
        """All gates of all steps, as far as they come from the inputs; the first gates take their recurrent biases here too."""
        count, depth = self.w.shape[1], self.x.shape[-1]
        read = self.x[b, t, k] if self.by_batch else self.x[t, b, k]
        total = Sum[k:depth](read * self.w[self.direction, g, k])
        if self.bias is not None:
            total = total + self.bias[self.direction, g]
            if recurrent_bias == count:
                total = total + self.bias[self.direction, g + count]
        return self.say("x", L[t : self.steps, b : self.batch, g:count](total))

    def recurrent(self, state: Tensor | Any, gate: int, index: Any) -> Any:
        """A gate at `index`, as far as it comes from the state."""
        return Sum[k : self.size](state[b, k] * self.r[self.direction, index + gate * self.size, k])

    def initial(self, position: int) -> Any:
        """The state before the first step: an input, or 0."""
        if not self.node.has(position):
            return None
        given = self.node.tensor(position)
        at = (b, self.direction, j) if self.by_batch else (self.direction, b, j)
        return self.say(f"initial{position}", L[b : self.batch, j : self.size](given[at]))

    def state(self, name: str, body: Any) -> Tensor:
        return self.say(name, L[b : self.batch, j : self.size](body))


def _functions(node: Operator, direction: int) -> tuple[Function, ...]:
    names = node.attribute("activations") or []
    count = len(DEFAULTS[node.type])
    own = [
        n.decode().lower() if isinstance(n, bytes) else str(n).lower()
        for n in names[direction * count :][:count]
    ] or DEFAULTS[node.type]
    unknown = [n for n in own if n not in ACTIVATIONS]
    if unknown or len(own) != count:
        raise NotExpressible(f"the activation {unknown[0] if unknown else 'is missing'}")
    return tuple(ACTIVATIONS[n] for n in own)


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
    steps = x.shape[1 if node.integer("layout", 0) else 0]
    if steps > MOST_STEPS:
        raise NotExpressible(f"{steps} steps, more than the {MOST_STEPS} that are unrolled")
    if node.has(4) and any(n != steps for n in node.integers(4, "sequence_lens")):
        raise NotExpressible("sequences of different lengths")
    statements: list[tuple[str, Any]] = []
    states = [
        _one_direction(_RecurrentDirection(node, d, statements), reverse)
        for d, reverse in enumerate(directions)
    ]
    return _outputs(node, statements, states)


def _one_direction(layer: _RecurrentDirection, reverse: bool) -> list[tuple[Tensor, ...]]:
    """The states after every step, in the order of the inputs."""
    step = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[layer.node.type]
    apart = layer.node.type == "GRU"
    gates = layer.of_inputs(0 if apart else layer.w.shape[1])
    state: tuple[Any, ...] = tuple(
        layer.initial(5 + n) for n in range(2 if layer.node.type == "LSTM" else 1)
    )
    found: dict[int, tuple[Tensor, ...]] = {}
    for position in range(layer.steps)[:: -1 if reverse else 1]:
        state = found[position] = step(layer, gates, position, state)
    return [found[position] for position in range(layer.steps)]


def _rnn(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    (h,) = state
    total = gates[position, b, j] + (layer.recurrent(h, 0, j) if h is not None else 0)
    return (layer.state(f"h{position}_", layer.functions[0](layer.clipped(total))),)


def _lstm(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    """Gates in the order input, output, forget, cell; peepholes read the cell before, the one of the output that after."""
    h, c = state
    size = layer.size
    total = gates[position, b, g] + (layer.recurrent(h, 0, g) if h is not None else 0)
    all_gates = layer.say(f"gates{position}_", L[b : layer.batch, g : 4 * size](total))
    peepholes = layer.node.optional(7)
    f, inner, outer = layer.functions

    def gate(number: int, cell: Any = None, peephole: int = 0) -> Any:
        value = all_gates[b, j + number * size]
        if peepholes is not None and cell is not None:
            value = value + peepholes[layer.direction, j + peephole * size] * cell[b, j]
        return layer.clipped(value)

    opened = f(gate(0, c, 0))
    kept = 1 - opened if layer.node.integer("input_forget", 0) else f(gate(2, c, 2))
    new = opened * inner(gate(3))
    cell = layer.state(f"c{position}_", new if c is None else kept * c[b, j] + new)
    hidden = layer.state(f"h{position}_", f(gate(1, cell, 1)) * outer(cell[b, j]))
    return hidden, cell


def _gru(
    layer: _RecurrentDirection, gates: Tensor, position: int, state: tuple[Any, ...]
) -> tuple[Tensor, ...]:
    """Gates in the order update, reset, hidden."""
    (h,) = state
    size, bias, d = layer.size, layer.bias, layer.direction
    f, inner = layer.functions

    def shift(number: int, index: Any) -> Any:
        return bias[d, index + (3 + number) * size] if bias is not None else 0

    def gate(number: int, index: Any) -> Any:
        value = gates[position, b, index + number * size] + shift(number, index)
        return f(layer.clipped(value + (layer.recurrent(h, number, index) if h is not None else 0)))

    own = gates[position, b, j + 2 * size]
    if layer.node.integer("linear_before_reset", 0):
        inside = gate(1, j) * (shift(2, j) + (layer.recurrent(h, 2, j) if h is not None else 0))
    elif h is not None:
        reset = layer.say(f"reset{position}_", L[b : layer.batch, j:size](gate(1, j) * h[b, j]))
        inside = shift(2, j) + layer.recurrent(reset, 2, j)
    else:
        inside = shift(2, j)
    update, new = gate(0, j), inner(layer.clipped(own + inside))
    return (
        layer.state(
            f"h{position}_", (1 - update) * new + (update * h[b, j] if h is not None else 0)
        ),
    )


def _outputs(
    node: Operator,
    statements: list[tuple[str, Any]],
    states: Sequence[Sequence[tuple[Tensor, ...]]],
) -> Program:
    """All hidden states, and the last one of each kind, with an axis for the directions."""
    by_batch, reverse = bool(node.integer("layout", 0)), node.word("direction", "forward")
    last = [own[0 if DIRECTIONS[reverse][d] else -1] for d, own in enumerate(states)]
    every = ops.stack(
        [_stack([step[0] for step in own], "every", d, statements) for d, own in enumerate(states)],
        1,
    )  # (steps, directions, batch, size)
    ends = [
        ops.stack([state[n] for state in last]) for n in range(len(last[0]))
    ]  # (directions, batch, size)
    if by_batch:
        every, ends = (
            ops.transpose(every, (2, 0, 1, 3)),
            [ops.transpose(end, (1, 0, 2)) for end in ends],
        )
    names = ("every_", "last0_", "last1_")[: 1 + len(ends)]
    return Program([*statements, *zip(names, (every, *ends))], names)


def _stack(
    parts: list[Tensor], name: str, direction: int, statements: list[tuple[str, Any]]
) -> Tensor:
    scope = ops.stack(parts)
    statements.append((f"{name}{direction}_", scope))
    return statement_tensor(f"{name}{direction}_", scope)
