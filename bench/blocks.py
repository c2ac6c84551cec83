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


def inception(size: int = 17, channels: int = 64) -> Program:
    """Return a block of Inception-v3: four branches of one image, three of them from 1x1 taps."""
    data = ea.tensor("x", (1, channels, size, size))

    def convolved(image: Any, name: str, features: int, taps: int) -> Any:
        kernel = _weight(name, features, image.shape[1], taps, taps)
        return ops.relu(ops.conv2d(image, kernel, padding=taps // 2))

    one = convolved(data, "a", 32, 1)
    five = convolved(convolved(data, "b1", 24, 1), "b2", 32, 5)
    three = convolved(convolved(convolved(data, "c1", 32, 1), "c2", 48, 3), "c3", 48, 3)
    pooled = convolved(ops.avg_pool2d(data, 3, stride=1, padding=1), "d", 16, 1)
    return as_program(ops.concat([one, five, three, pooled], axis=1))


def nasnet(size: int = 14, channels: int = 64) -> Program:
    """Return sums of a cell of NasNet-A: depthwise convolutions with a product behind each."""
    shape = (1, channels, size, size)
    older, newer = ea.tensor("h", shape), ea.tensor("x", shape)

    def separable(image: Any, name: str, taps: int) -> Any:
        spread = _weight(f"{name}1", channels, 1, taps, taps)
        mixed = _weight(f"{name}2", channels, channels, 1, 1)
        inner = ops.depthwise_conv2d(ops.relu(image), spread, padding=taps // 2)
        return ops.conv2d(inner, mixed)

    pooled = ops.avg_pool2d(older, 3, stride=1, padding=1)
    sums = [
        ops.add(separable(newer, "a", 5), separable(older, "b", 3)),
        ops.add(separable(older, "c", 5), separable(older, "d", 3)),
        ops.add(pooled, newer),
        ops.add(separable(newer, "e", 3), newer),
    ]
    return as_program(ops.concat([older, *sums], axis=1))


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


def bert(rows: int = 64, width: int = 128) -> Program:
    """Return a layer of BERT of one head: attention and two products, with residuals."""
    data = ea.tensor("x", (rows, width))
    q, k, v = (ops.matmul(data, _weight(name, width, width)) for name in "qkv")
    seen = ops.matmul(ops.softmax(ops.matmul(q, ops.transpose(k))), v)
    first = ops.add(data, ops.matmul(seen, _weight("o", width, width)))
    inner = ops.gelu(ops.matmul(first, _weight("f", width, 4 * width)))
    return as_program(ops.add(first, ops.matmul(inner, _weight("g", 4 * width, width))))


BLOCKS: Mapping[str, Callable[[], Program]] = {
    "Inception-v3": inception,
    "SqueezeNet": fire,
    "ResNeXt": resnext,
    "NasNet-A": nasnet,
    "NasRNN": nasrnn,
    "attention": attention,
    "BERT": bert,
}
