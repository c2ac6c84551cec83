"""Concatenation, stacking, splitting and padding against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.language import ops
from einalg.language.ir.program import Program
from tests.helpers.operators.cases_movement import compared
from tests.helpers.operators.harness import case, flip, floats, integers, size
from tests.helpers.operators.operands import readable, some_shape


def _several(rng: Any, shapes: Any) -> tuple[list[Any], dict[str, Any], list[Any]]:
    tensors, arrays, values = [], {}, []
    whole = flip(rng)
    for position, shape in enumerate(shapes):
        array = (
            integers(rng, shape)
            if whole
            else np.where(rng.random(shape) < 0.2, -np.inf, floats(rng, shape))
        )
        tensor, arrays[f"x{position}"], value = readable(rng, array, f"x{position}")
        tensors.append(tensor)
        values.append(value)
    return tensors, arrays, values


@case("concat")
def concat(rng: Any) -> Any:
    shape = list(some_shape(rng, 1, 3))
    axis = int(rng.integers(-len(shape), len(shape)))
    shapes = []
    for _ in range(size(rng, 1, 4)):
        shape[axis] = size(rng, 0, 3)
        shapes.append(tuple(shape))
    tensors, arrays, values = _several(rng, shapes)
    return ops.concat(tensors, axis), arrays, np.concatenate(values, axis)


@case("stack")
def stack(rng: Any) -> Any:
    shape = some_shape(rng)
    tensors, arrays, values = _several(rng, [shape] * size(rng, 1, 4))
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return ops.stack(tensors, axis), arrays, np.stack(values, axis)


def _split(rng: Any, shape: Any, parts: Any, axis: int, expected: Any) -> Any:
    def program(x: Any) -> Program:
        return Program((f"part{k}", part) for k, part in enumerate(ops.split(x, parts, axis)))

    def arrays(values: Any) -> Any:
        found = expected(values)
        return {f"part{k}": part for k, part in enumerate(found)} if len(found) > 1 else found[0]

    return compared(rng, shape, program, arrays)


@case("split")
def into_sizes(rng: Any) -> Any:
    shape = list(some_shape(rng, 1, 3))
    axis, sizes = (
        int(rng.integers(-len(shape), len(shape))),
        [size(rng, 0, 3) for _ in range(size(rng, 1, 4))],
    )
    shape[axis] = sum(sizes)
    return _split(rng, shape, sizes, axis, lambda v: np.split(v, np.cumsum(sizes)[:-1], axis))


@case("split")
def into_equal_parts(rng: Any) -> Any:
    shape = list(some_shape(rng, 1, 3))
    axis, count = int(rng.integers(-len(shape), len(shape))), size(rng, 1, 4)
    shape[axis] = count * size(rng, 0, 3)
    return _split(rng, shape, count, axis, lambda v: np.split(v, count, axis))


def _pad(values: Any, amounts: Any, **how: Any) -> Any:
    return np.pad(values, amounts, **how) if values.ndim else values


@case("pad")
def constant(rng: Any) -> Any:
    shape = some_shape(rng)
    amounts = [(size(rng, 0, 3), size(rng, 0, 3)) for _ in shape]
    value = int(rng.integers(-2, 3))
    return compared(
        rng,
        shape,
        lambda x: ops.pad(x, amounts, value=value),
        lambda v: _pad(v, amounts, constant_values=value),
    )


@case("pad")
def negative_amounts(rng: Any) -> Any:
    shape = some_shape(rng, 1, 3)
    amounts = [
        (before, int(rng.integers(-s - before, 4)))
        for s in shape
        for before in [int(rng.integers(-s, 4))]
    ]

    def expected(v: Any) -> Any:
        wide = np.pad(v, [(max(a, 0), max(b, 0)) for a, b in amounts], constant_values=-3)
        return wide[
            tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(wide.shape, amounts))
        ]

    return compared(rng, shape, lambda x: ops.pad(x, amounts, "constant", -3), expected)


@case("pad")
def infinity(rng: Any) -> Any:
    x, stored, values = readable(rng, floats(rng, (size(rng), size(rng))))
    return ops.pad(x, 1, value=-np.inf), {"x": stored}, np.pad(values, 1, constant_values=-np.inf)


@case("pad")
def other_modes(rng: Any) -> Any:
    mode = str(rng.choice(["reflect", "symmetric", "edge", "replicate", "circular", "wrap"]))
    shape = tuple(size(rng, 1, 4) for _ in range(size(rng, 0, 3)))
    most = [s - 1 if mode == "reflect" else s if mode == "symmetric" else 6 for s in shape]
    amounts = [(size(rng, 0, m), size(rng, 0, m)) if flip(rng, 0.8) else 0 for m in most]
    pairs = [a if isinstance(a, tuple) else (a, a) for a in amounts]
    name = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return compared(
        rng, shape, lambda x: ops.pad(x, amounts, mode), lambda v: _pad(v, pairs, mode=name)
    )


@case("concat")
def truth_values(rng: Any) -> Any:
    values = [rng.random((2, size(rng, 0, 3))) < 0.5 for _ in range(size(rng, 1, 3))]
    tensors, arrays = [], {}
    for position, array in enumerate(values):
        tensor, arrays[f"x{position}"], _ = readable(rng, array, f"x{position}")
        tensors.append(tensor)
    return ops.concat(tensors, 1), arrays, np.concatenate(values, 1)
