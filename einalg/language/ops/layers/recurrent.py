"""Cells of recurrent networks: programs of a few statements."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.errors import ShapeError
from einalg.language.index.affine import Index
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor, unpadded
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.definition.operands import (
    ArrayView,
    expect_shape,
    operand,
    optional_operand,
    spans,
)
from einalg.language.ops.definition.registry import operator
from einalg.language.ops.math.elementwise import logistic
from einalg.language.ops.math.matmul import batch_indices

g, j, k = indices("g j k")


@operator
def lstm_cell(
    x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Program:
    """One step of an LSTM: a program with the outputs `h` and `c`, the next state.

    `x` is `(…, I)`, `h` and `c` are `(…, H)`, `w_ih` is `(4·H, I)`, `w_hh` is `(4·H, H)`, the
    biases are `(4·H,)` or None; all of a float dtype. The gates are stacked as in
    `torch.nn.LSTMCell`: input, forget, cell, output. `c = f·c + i·g`, `h = o·tanh(c)`. A statement
    whose name an input has already gets a `_` behind it. Raises `ShapeError` where shapes or dtypes
    do not fit.

    >>> import einalg as ea
    >>> shapes = dict(x=(2, 3), state=(2, 4), memory=(2, 4), W=(16, 3), U=(16, 4))
    >>> cell = lstm_cell(*(ea.tensor(name, shape) for name, shape in shapes.items()))
    >>> cell.outputs, cell["gates"].shape, cell["h"].shape
    (('h', 'c'), (2, 16), (2, 4))
    """
    data = operand(x, "x", least=1, dtype="float")
    state = operand(h, "h", least=1, dtype="float")
    memory = operand(c, "c", least=1, dtype="float")
    size = _check_state(data, state)
    expect_shape(memory, state.shape, "the shape of h")
    weights = _weights(w_ih, w_hh, b_ih, b_hh, 4 * size, data.shape[-1], size)
    names = _FreeNames(x, h, c, w_ih, w_hh, b_ih, b_hh)
    row, shape = batch_indices(state.rank - 1), state.shape[:-1]
    gates = L[spans((*row, g), (*shape, 4 * size))](
        _projected(data, weights[0], weights[2], row)
        + _projected(state, weights[1], weights[3], row)
    )
    gate = [statement_tensor(names["gates"], gates)[(*row, j + part * size)] for part in range(4)]
    points = spans((*row, j), (*shape, size))
    next_c = L[points](
        logistic(gate[1]) * memory[(*row, j)] + logistic(gate[0]) * sympy.tanh(gate[2])
    )
    next_h = L[points](
        logistic(gate[3]) * sympy.tanh(statement_tensor(names["c"], next_c)[(*row, j)])
    )
    return Program(
        [(names["gates"], gates), (names["c"], next_c), (names["h"], next_h)],
        (names["h"], names["c"]),
    )


@operator
def gru_cell(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Program:
    """One step of a GRU: a program with the output `h`, the next state.

    `x` is `(…, I)`, `h` is `(…, H)`, `w_ih` is `(3·H, I)`, `w_hh` is `(3·H, H)`, the biases are
    `(3·H,)` or None; all of a float dtype. The gates are stacked as in `torch.nn.GRUCell`: reset,
    update, new. `n = tanh(x_n + r·h_n)`, `h = (1 - z)·n + z·h`. A statement whose name an input has
    already gets a `_` behind it. Raises `ShapeError` where shapes or dtypes do not fit.

    >>> import einalg as ea
    >>> shapes = dict(x=(2, 3), state=(2, 4), W=(12, 3), U=(12, 4))
    >>> gru_cell(*(ea.tensor(name, shape) for name, shape in shapes.items())).result.shape
    (2, 4)
    """
    data, state = operand(x, "x", least=1, dtype="float"), operand(h, "h", least=1, dtype="float")
    size = _check_state(data, state)
    weights = _weights(w_ih, w_hh, b_ih, b_hh, 3 * size, data.shape[-1], size)
    names = _FreeNames(x, h, w_ih, w_hh, b_ih, b_hh)
    row, shape = batch_indices(state.rank - 1), state.shape[:-1]
    stacked = spans((*row, g), (*shape, 3 * size))
    of_x = L[stacked](_projected(data, weights[0], weights[2], row))
    of_h = L[stacked](_projected(state, weights[1], weights[3], row))
    from_x = statement_tensor(names["x_gates"], of_x)
    from_h = statement_tensor(names["h_gates"], of_h)
    first, second, third = (*row, j), (*row, j + size), (*row, j + 2 * size)
    reset = logistic(from_x[first] + from_h[first])
    update = logistic(from_x[second] + from_h[second])
    new = sympy.tanh(from_x[third] + reset * from_h[third])
    next_h = L[spans((*row, j), (*shape, size))]((1 - update) * new + update * state[(*row, j)])
    return Program(
        [(names["x_gates"], of_x), (names["h_gates"], of_h), (names["h"], next_h)], (names["h"],)
    )


class _FreeNames(dict[str, str]):
    """Names of statements that no input has: `name`, else `name_`, `name__`, …"""

    def __init__(self, *operands: Any):
        super().__init__()
        self.used: set[str] = set()
        for value in operands:
            if value is not None:
                self.used |= _tensor_names(unpadded(value))

    def __missing__(self, name: str) -> str:
        free = name
        while free in self.used:
            free += "_"
        self.used.add(free)
        self[name] = free
        return free


def _tensor_names(value: Tensor | Scope) -> set[str]:
    if isinstance(value, Tensor):
        return {value.name}
    return set(value.tensors)


def _check_state(data: ArrayView, state: ArrayView) -> int:
    """Return the number of elements of a state; the leading axes of input and state are equal."""
    if data.shape[:-1] != state.shape[:-1]:
        raise ShapeError(
            f"h has the leading axes {state.shape[:-1]}, but x has {data.shape[:-1]}\n"
            "  make the two equal"
        )
    return state.shape[-1]


def _weights(
    w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, rows: int, inputs: int, size: int
) -> tuple[Any, ...]:
    of_x = operand(w_ih, "w_ih", rank=2, dtype="float")
    of_h = operand(w_hh, "w_hh", rank=2, dtype="float")
    gates = rows // size if size else 0
    expect_shape(of_x, (rows, inputs), f"{gates} gates of h's size, x's last axis")
    expect_shape(of_h, (rows, size), "gates of h's size, h's last axis")
    why = "an element for each row of the weights"
    bias_x = optional_operand(b_ih, "b_ih", (rows,), why)
    bias_h = optional_operand(b_hh, "b_hh", (rows,), why)
    return of_x, of_h, bias_x, bias_h


def _projected(
    data: ArrayView, weight: ArrayView, bias: ArrayView | None, row: tuple[Index, ...]
) -> Any:
    """Return a linear layer at gate `g`."""
    total = Sum[k : data.shape[-1]](data[(*row, k)] * weight[g, k])
    if bias is None:
        return total
    return total + bias[g]
