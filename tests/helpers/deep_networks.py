"""Networks of any number of layers, hardly two of which are of one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import einalg as ea
from einalg.language import ops
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from tests.helpers.networks import weight

CHANNELS, SPACE = 16, 20
FEATURES, TOKENS = 64, 24
ATTENTION_LAYERS = 6  # of one block, with weights or as a product


class _Statements:
    """The statements of a program that is being written."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Scope]] = []
        self._weights = 0

    def add(self, scope: Scope) -> Tensor:
        self.rows.append((f"T{len(self.rows)}", scope))
        return statement_tensor(*self.rows[-1])

    def weight(self, *shape: int) -> Tensor:
        self._weights += 1
        return weight(f"W{self._weights}", *shape)

    def convolved(self, read: Tensor, channels: int) -> Tensor:
        kernel = self.weight(channels, read.shape[1], 3, 3)
        return self.add(ops.conv2d(read, kernel, padding=1))

    def multiplied(self, read: Tensor, columns: int) -> Tensor:
        return self.add(ops.matmul(read, self.weight(read.shape[1], columns)))

    def program(self) -> Program:
        return Program(self.rows, [self.rows[-1][0]])


def convolutions(layers: int) -> Program:
    """Return convolutions with other numbers of channels, each with an activation."""
    made = _Statements()
    read = ea.tensor("A", (1, CHANNELS, SPACE, SPACE))
    for number in range(layers):
        read = made.add(ops.relu(made.convolved(read, CHANNELS + 5 * number % 37)))
    return made.program()


def residual(layers: int) -> Program:
    """Return pairs of convolutions, added to what the first of them reads."""
    made = _Statements()
    read = ea.tensor("A", (1, CHANNELS, SPACE, SPACE))
    for number in range(layers // 2):
        inner = made.add(ops.relu(made.convolved(read, CHANNELS + 3 * number % 23)))
        read = made.add(ops.relu(made.add(ops.add(read, made.convolved(inner, CHANNELS)))))
    return made.program()


def perceptron(layers: int) -> Program:
    """Return products with weights, each with an activation."""
    made = _Statements()
    read = ea.tensor("A", (8, FEATURES))
    for number in range(layers):
        read = made.add(ops.relu(made.multiplied(read, FEATURES + 7 * number % 101)))
    return made.program()


def attention(layers: int) -> Program:
    """Return blocks of attention with other numbers of features, added to what they read."""
    made = _Statements()
    read = ea.tensor("A", (TOKENS, FEATURES))
    for number in range(max(1, layers // ATTENTION_LAYERS)):
        width = 32 + 8 * number % 40
        query, key, value = (made.multiplied(read, width) for _ in range(3))
        scores = made.add(ops.matmul(query, made.add(ops.transpose(key))))
        mixed = made.add(ops.matmul(made.add(ops.softmax(scores, 1)), value))
        read = made.add(ops.add(read, made.multiplied(mixed, FEATURES)))
    return made.program()


KINDS: Mapping[str, Callable[[int], Program]] = {
    "convolutions": convolutions,
    "residual": residual,
    "perceptron": perceptron,
    "attention": attention,
}
