"""Properties of element-wise, reducing, normalizing and moving operators besides their values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Padded, Tensor
from tests.helpers.operators.harness import integers
from tests.helpers.operators.operands import readable

TYPES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("f16", ops.gelu, "f16"),
    ("f16", lambda x: ops.gelu(x, "tanh"), "f16"),
    ("bf16", lambda x: ops.mul(x, 0.5), "bf16"),
    ("f64", lambda x: ops.layer_norm(x), "f64"),
    ("f16", lambda x: ops.softmax(x), "f16"),
    ("i8", lambda x: ops.mean(x), "f32"),
    ("i8", lambda x: ops.sqrt(x), "f32"),
    ("i8", lambda x: ops.add(x, 1), "i8"),
    ("i8", lambda x: ops.add(x, 0.5), "f32"),
    ("i8", lambda x: ops.relu(x), "i8"),
    ("i8", lambda x: ops.max(x, 0), "i8"),
    ("f16", lambda x: ops.greater(x, 0), "bool"),
    ("bool", lambda x: ops.logical_not(x), "bool"),
    ("bool", lambda x: ops.sum(x), "i64"),
    ("bool", lambda x: ops.concat([x, x], 1), "bool"),
    ("bool", lambda x: ops.where(x, ea.tensor("y", (4,), "f16"), 0), "f16"),
    ("i16", lambda x: ops.pad(x, 1, "reflect"), "i16"),
]


@pytest.mark.parametrize(
    ("given", "call", "expected"), TYPES, ids=[str(k) for k in range(len(TYPES))]
)
def test_element_type(given: str, call: Callable[[Any], Any], expected: str) -> None:
    assert call(ea.tensor("x", (4, 4), given)).dtype == expected


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        (ops.softmax(ea.tensor("x", (3, 4))), 3),
        (ops.layer_norm(ea.tensor("x", (3, 4))), 3),
        (ops.group_norm(ea.tensor("x", (1, 4, 3, 3)), 2), 3),
        (ops.concat([ea.tensor("x", (3,)), ea.tensor("y", (4,))]), 1),
        (ops.transpose(ea.tensor("x", (3, 4))), 1),
        (ops.reshape(ea.tensor("x", (3, 4)), (2, 6)), 1),
        (ops.unfold(ea.tensor("x", (1, 2, 5, 5)), 3, 2, 1), 1),
        (ops.batch_norm(ea.tensor("x", (3, 4)), ea.tensor("m", (4,)), ea.tensor("v", (4,))), 1),
    ],
    ids=str,
)
def test_no_more_scopes_than_needed(expression: Scope, most: int) -> None:
    assert len(list(all_scopes(expression))) == most


def test_plain_forms() -> None:
    x = ea.tensor("x", (2, 12, 5))
    i, j, k, m = ea.indices("i j k m")
    assert ops.reshape(x, (2, 3, 4, 5)) == ea.L[i:2, j:3, k:4, m:5](x[i, 4 * j + k, m])
    assert ops.reshape(x, (2, 60)) == ea.L[i:2, j:60](x[i, j // 5, j % 5])
    assert ops.reshape(x, (2, 12, 5, 1)) == ea.L[i:2, j:12, k:5, m:1](x[i, j, k])
    assert ops.reshape(x, (8, 3, 5)) == ea.L[i:8, j:3, k:5](x[i // 4, 3 * (i % 4) + j, k])
    assert ops.slice(x, 1, None, 2, axes=1) == ea.L[i:2, j:6, k:5](x[i, 2 * j + 1, k])
    assert (
        ops.concat([x])
        == ops.broadcast_to(x, (2, -1, 5))
        == ops.pad(x, 0, "reflect")
        == ea.L[i:2, j:12, k:5](x[i, j, k])
    )


def test_softmax_of_large_numbers() -> None:
    x = np.array([[1000.0, 1001.0], [-2000.0, -2000.0]])
    found = ea.evaluate(ops.softmax(ea.tensor("x", (2, 2))), x=x)
    assert np.allclose(found, [[1 / (1 + np.e), np.e / (1 + np.e)], [0.5, 0.5]])


def test_exact_on_fractions() -> None:
    x = np.array([Fraction(1, 3), Fraction(1, 6)], dtype=object)
    assert ea.evaluate(ops.mean(ea.tensor("x", (2,))), x=x).item() == Fraction(1, 4)
    assert ea.evaluate(ops.variance(ea.tensor("x", (2,))), x=x).item() == Fraction(1, 144)


@pytest.mark.parametrize("scalar", [2, 2.0, np.float32(2), np.int64(2), np.array(2)])
def test_numbers_of_every_kind(scalar: Any) -> None:
    x = ea.tensor("x", (2,))
    assert np.array_equal(ea.evaluate(ops.sub(scalar, x), x=[1.5, 5]), [0.5, -3])


def test_results_begin_at_zero() -> None:
    """Operators see arrays: where an operand's axes begin is not part of a result."""
    moved = Tensor("x", ((-1, 3), (2, 5)))
    plain = ea.tensor("x", (4, 3))
    calls: list[Callable[[Any], Any]] = [
        *(
            ops.relu,
            ops.sum,
            ops.softmax,
            ops.cumsum,
            ops.transpose,
            ops.flatten,
            ops.flip,
            ops.tril,
            ops.layer_norm,
        ),
        lambda x: ops.concat([x, x]),
        lambda x: ops.pad(x, 1, "reflect"),
        lambda x: ops.slice(x, 1, None),
        lambda x: ops.stack([x, x], 1),
        lambda x: ops.split(x, 2)[1],
        lambda x: ops.roll(x, 1, 0),
        lambda x: ops.add(x, ea.tensor("y", (3,))),
        lambda x: ops.upsample_nearest(ops.unsqueeze(x, 0), 2),
    ]
    values = {"x": np.arange(12).reshape(4, 3), "y": np.arange(3)}
    for call in calls:
        given = {name: values[name] for name in call(plain).tensors}
        assert call(moved).box == call(plain).box
        assert np.array_equal(ea.evaluate(call(moved), **given), ea.evaluate(call(plain), **given))


def test_operators_nest() -> None:
    """A residual block of operators only, against NumPy."""
    rng = np.random.default_rng(3)
    x, weight = rng.normal(size=(2, 3, 4)), rng.normal(size=(3,))
    X, W = ea.tensor("x", x.shape), ea.tensor("w", weight.shape, role="weight")
    block = ops.add(
        X,
        ops.relu(
            ops.bias_add(
                ops.concat([ops.slice(X, 1, None, axes=2), ops.mean(X, 2, keepdims=True)], 2), W
            )
        ),
    )
    shifted = np.concatenate([x[:, :, 1:], x.mean(2, keepdims=True)], 2)
    assert np.allclose(
        ea.evaluate(block, x=x, w=weight), x + np.maximum(shifted + weight[:, None], 0)
    )


def test_every_kind_of_operand_is_drawn() -> None:
    rng = np.random.default_rng(0)
    kinds: set[tuple[Any, ...]] = set()
    for _ in range(100):
        array = integers(rng, (3, 4))
        x, stored, value = readable(rng, array)
        kinds.add((type(x), x.box[0][0] == 0, type(x) is Scope and bool(x.where)))
        assert np.array_equal(ea.evaluate(ops.neg(x), x=stored), -value)
    assert {kind for kind, _, _ in kinds} == {Tensor, Scope, Padded}
    assert (
        (Tensor, False, False) in kinds
        and (Scope, False, False) in kinds
        and (Scope, True, True) in kinds
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("flatten", ()), ("tile", ((1,) * 11,)), ("transpose", ()), ("sum", ()), ("unsqueeze", (0,))],
)
def test_many_axes(name: str, arguments: tuple[Any, ...]) -> None:
    """More axes than there are letters for their indices."""
    array = np.arange(8).reshape((1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1))
    reference = {
        "flatten": array.reshape(-1),
        "tile": array,
        "transpose": array.T,
        "sum": array.sum(),
        "unsqueeze": array[None],
    }[name]
    assert np.array_equal(
        ea.evaluate(getattr(ops, name)(ea.tensor("x", array.shape), *arguments), x=array), reference
    )


def test_many_axes_of_space() -> None:
    x = np.random.default_rng(5).normal(size=(1, 2, 1, 2, 1, 1, 1, 1, 2))
    X = ea.tensor("x", x.shape)
    mean, variance = (
        x.mean(tuple(range(2, 9)), keepdims=True),
        x.var(tuple(range(2, 9)), keepdims=True),
    )
    assert np.allclose(
        ea.evaluate(ops.instance_norm(X, eps=0), x=x), (x - mean) / np.sqrt(variance)
    )
    assert np.allclose(ea.evaluate(ops.upsample_nearest(X, (2, *(1,) * 6)), x=x), x.repeat(2, 2))


def test_indices_of_a_result_are_named_alike() -> None:
    assert ops.relu(ea.tensor("x", (2, 3))).indices == (Index("i"), Index("j"))
