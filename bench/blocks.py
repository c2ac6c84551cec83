"""Blocks of networks as programs, on which rules for whole programs are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import einalg as ea
from einalg.language import ops
from einalg.language.ir.program import Program, as_program


def _weight(name: str, *shape: int) -> Any:
    return ea.tensor(name, shape, role="weight")


def fire(size: int = 27, squeezed: int = 16, expanded: int = 64) -> Program:
    """Return a block of SqueezeNet: a 1x1 convolution, and 1x1 and 3x3 ones of its result."""
    data = ea.tensor("x", (1, 2 * expanded, size, size))
    inner = ops.relu(ops.conv2d(data, _weight("s", squeezed, 2 * expanded, 1, 1)))
    one = ops.relu(ops.conv2d(inner, _weight("e1", expanded, squeezed, 1, 1)))
    three = ops.relu(ops.conv2d(inner, _weight("e3", expanded, squeezed, 3, 3), padding=1))
    return as_program(ops.concat([one, three], axis=1))


def resnext(size: int = 28, channels: int = 128, groups: int = 32) -> Program:
    """Return a block of ResNeXt: a convolution of groups between two 1x1 ones, and its input."""
    data = ea.tensor("x", (1, channels, size, size))
    first = ops.relu(ops.conv2d(data, _weight("a", channels, channels, 1, 1)))
    kernel = _weight("b", channels, channels // groups, 3, 3)
    second = ops.relu(ops.conv2d(first, kernel, padding=1, groups=groups))
    third = ops.conv2d(second, _weight("c", channels, channels, 1, 1))
    return as_program(ops.relu(ops.add(data, third)))


def nasrnn(size: int = 256, batch: int = 8) -> Program:
    """Return a cell of NasRNN without its state: sums and products of sixteen matrix products."""
    data, state = ea.tensor("x", (batch, size)), ea.tensor("h", (batch, size))
    gates = []
    for number in range(8):
        one = ops.matmul(data, _weight(f"w{number}", size, size))
        other = ops.matmul(state, _weight(f"u{number}", size, size))
        join = ops.mul if number == 3 else ops.add
        function = (ops.sigmoid, ops.relu, ops.tanh)[number % 3]
        gates.append(function(join(one, other)))
    while len(gates) > 1:
        pairs = zip(gates[::2], gates[1::2])
        gates = [ops.tanh(ops.mul(one, other)) for one, other in pairs]
    return as_program(gates[0])


def attention(rows: int = 64, width: int = 256) -> Program:
    """Return three projections of one tensor, of which two are multiplied, and the third by it."""
    data = ea.tensor("x", (rows, width))
    q, k, v = (ops.matmul(data, _weight(name, width, width)) for name in "qkv")
    return as_program(ops.matmul(ops.softmax(ops.matmul(q, ops.transpose(k))), v))


BLOCKS: Mapping[str, Callable[[], Program]] = {
    "SqueezeNet": fire,
    "ResNeXt": resnext,
    "NasRNN": nasrnn,
    "attention": attention,
}
