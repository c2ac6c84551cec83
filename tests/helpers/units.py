"""Statements of every kind that there is code for, as units of code generation; points of spaces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import numpy as np

import einalg as ea
from codegen.tuning.spaces.space import SearchSpace
from codegen.tuning.spaces.unit import CodeUnit
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope

KINDS = ("matmul", "conv2d", "transposed", "depthwise", "band", "banded", "order", "sum", "extreme")


def scope_of(kind: str, a: int, b: int, c: int) -> Scope:
    """Return a statement of a kind whose sizes grow with three numbers."""
    if kind == "matmul":
        return ops.matmul(ea.tensor("A", (8 + a, 16 + b)), ea.tensor("K", (16 + b, 32 + c)))
    if kind == "conv2d":
        data, weights = ea.tensor("A", (1, 2 + a, 7 + b, 9)), ea.tensor("K", (3 + c, 2 + a, 3, 3))
        return ops.conv2d(data, weights, padding=1)
    if kind == "transposed":
        data, weights = ea.tensor("A", (1, 5, 4 + a, 3 + b)), ea.tensor("K", (3 + b, 8 + c, 4, 4))
        return ops.conv_transpose2d(data, weights, stride=2, padding=1, layout="NHWC")
    if kind == "depthwise":
        channels = 8 + c
        data = ea.tensor("A", (1, 5 + a, 7 + b, channels))
        weights = ea.tensor("K", (3, 3, 1, channels))
        options = {"layout": "NHWC", "weight_layout": "HWIO"}
        return ops.conv2d(data, weights, padding=1, groups=channels, **options)
    if kind == "band":
        rows, inner = 9 + a, 4 + b
        return ops.g2bmm(ea.tensor("A", (2, rows, inner)), ea.tensor("K", (2, rows, inner)), 1 + c)
    if kind == "banded":
        width = 1 + c
        band = ea.tensor("A", (2, 9 + a, 2 * width + 1))
        return ops.gbmm(band, ea.tensor("K", (2, 9 + a, 5 + b)))
    if kind == "order":
        return ea.parse("O[i,j] = A[j,i] + K[i,j]", A=(17 + a, 19 + b), K=(19 + b, 17 + a))
    if kind == "sum":
        text = "O[i,j] += Abs(A[i,k] - K[k,j])"
        return ea.parse(text, A=(3 + a, 20 + b), K=(20 + b, 9 + c))
    text = "O[c,h] = Max[r:3](A.pad(0,1)[c,h+r-1]*K[c,h])"
    return ea.parse(text, A=(4 + a, 9 + b), K=(4 + a, 9 + b))


@cache
def unit_of(kind: str, a: int = 0, b: int = 0, c: int = 0) -> CodeUnit:
    scope = scope_of(kind, a, b, c)
    kernel = match(scope, "O") or Kernel(EOP, {}, tuple(scope.tensors), "O")
    return CodeUnit(kernel, scope)


def arrays_of(scope: Scope) -> dict[str, Any]:
    """Return small whole numbers for what a statement reads."""
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {}
    for name, tensor in scope.tensors.items():
        arrays[name] = rng.integers(-3, 4, tensor.shape).astype(np.float32)
    return arrays


def drawn(space: SearchSpace, rng: Random) -> Iterator[Any]:
    """Yield the start, points by chance, crossed ones, and neighbours of one of these."""
    start, one, other = space.start(), space.sample(rng), space.sample(rng)
    yield from (start, one, other, space.cross(one, other, rng))
    yield from islice(space.neighbours(one), 4)
