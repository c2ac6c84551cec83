"""Identities of operators that graph optimizers assume, for all sizes; and spoilt ones, of which the
smallest sizes are true counterexamples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import einalg as ea

ops = ea.ops
Sides = Callable[..., tuple[Any, Any]]


def _tensor(name: str, *shape: Any) -> Any:
    return ea.tensor(name, shape)


x, x2 = _tensor("x", "N", "C", "H", "W"), _tensor("x2", "N", "C", "H", "W")
z, batch = _tensor("z", "N", "D", "H", "W"), _tensor("q", "Q", "C", "H", "W")
k, k2 = _tensor("k", "F", "C", 3, 3), _tensor("k2", "F", "C", 3, 3)
wide, more = _tensor("w", "F", "D", 3, 3), _tensor("u", "G", "C", 3, 3)
a, b, e = _tensor("a", "N", "M"), _tensor("b", "M", "K"), _tensor("e", "K", "L")
c, d, f = _tensor("c", "N", "P"), _tensor("d", "P", "K"), _tensor("f", "M", "L")


def conv(image: Any, kernel: Any) -> Any:
    return ops.conv2d(image, kernel, padding=1)


def pool(image: Any) -> Any:
    return ops.max_pool2d(image, 3, stride=1, padding=1)


EQUAL: dict[str, Sides] = {
    "place of a shifted maximum": lambda: (ops.argmax(ops.add(a, 1), 1), ops.argmax(a, 1)),
    "place of an opposite": lambda: (ops.argmin(ops.mul(a, -1), 1), ops.argmax(a, 1)),
    "sums of kernels": lambda: (conv(x, ops.add(k, k2)), ops.add(conv(x, k), conv(x, k2))),
    "sums of images": lambda: (conv(ops.add(x, x2), k), ops.add(conv(x, k), conv(x2, k))),
    "channels one after another": lambda: (
        ops.add(conv(x, k), conv(z, wide)),
        conv(ops.concat([x, z], 1), ops.concat([k, wide], 1)),
    ),
    "images one after another": lambda: (
        ops.concat([conv(x, k), conv(batch, k)], 0),
        conv(ops.concat([x, batch], 0), k),
    ),
    "filters one after another": lambda: (
        ops.concat([conv(x, k), conv(x, more)], 1),
        conv(x, ops.concat([k, more], 0)),
    ),
    "an enlarged kernel": lambda: (
        ops.conv2d(x, _tensor("p", "F", "C", 1, 1)),
        conv(x, ops.pad(_tensor("p", "F", "C", 1, 1), (0, 0, 1, 1))),
    ),
    "pools of channels": lambda: (
        ops.concat([pool(x), pool(z)], 1),
        pool(ops.concat([x, z], 1)),
    ),
    "blocks of matrices": lambda: (
        ops.add(ops.matmul(a, b), ops.matmul(c, d)),
        ops.matmul(ops.concat([a, c], 1), ops.concat([b, d], 0)),
    ),
    "columns of matrices": lambda: (
        ops.matmul(a, ops.concat([b, f], 1)),
        ops.concat([ops.matmul(a, b), ops.matmul(a, f)], 1),
    ),
    "products of products": lambda: (
        ops.matmul(a, ops.matmul(b, e)),
        ops.matmul(ops.matmul(a, b), e),
    ),
    "functions of rows": lambda: (
        ops.relu(ops.concat([a, c], 1)),
        ops.concat([ops.relu(a), ops.relu(c)], 1),
    ),
    "softmax of rows": lambda: (
        ops.softmax(ops.concat([a, _tensor("g", "G", "M")], 0), 1),
        ops.concat([ops.softmax(a, 1), ops.softmax(_tensor("g", "G", "M"), 1)], 0),
    ),
    "a slice of a concatenation": lambda: (
        ops.slice(ops.concat([a, c], 1), ea.size("M"), None, axes=1),
        ops.slice(c, 0, None),
    ),
}
UNEQUAL: dict[str, Sides] = {
    "kernels exchanged": lambda: (
        ops.add(conv(x, k), conv(x2, k2)),
        conv(ops.concat([x, x2], 1), ops.concat([k2, k], 1)),
    ),
    "filters exchanged": lambda: (
        ops.concat([conv(x, k), conv(x, more)], 1),
        conv(x, ops.concat([more, k], 0)),
    ),
    "an enlarged kernel off its middle": lambda: (
        ops.conv2d(x, _tensor("p", "F", "C", 1, 1)),
        conv(x, ops.pad(_tensor("p", "F", "C", 1, 1), (0, 0, 1, (0, 2)))),
    ),
    "filters of two groups": lambda: (
        ops.concat([_grouped(4, "k"), _grouped(4, "u")], 1),
        ops.conv2d(
            _tensor("x", "N", 4, "H", "W"),
            ops.concat([_tensor("k", 4, 2, 3, 3), _tensor("u", 4, 2, 3, 3)], 0),
            groups=2,
        ),
    ),
    "a slice that begins one later": lambda: (
        ops.slice(ops.concat([a, c], 1), ea.size("M") + 1, None, axes=1),
        ops.slice(c, 0, -1, axes=1),
    ),
}


def _grouped(filters: int, name: str) -> Any:
    image = _tensor("x", "N", 4, "H", "W")
    return ops.conv2d(image, _tensor(name, filters, 2, 3, 3), groups=2)


@pytest.mark.parametrize("name", EQUAL)
def test_identities_hold_for_all_sizes(name: str) -> None:
    proof = ea.prove(*EQUAL[name]())
    assert proof.verdict == "proved"
    assert proof.sizes.is_empty()


@pytest.mark.parametrize("name", UNEQUAL)
def test_spoilt_identities_have_true_counterexamples(name: str) -> None:
    one, two = UNEQUAL[name]()
    proof = ea.prove(one, two)
    assert proof.verdict == "different"
    assert proof.is_region_exact
    assert proof.counterexample is not None
    sides = []
    for side in (one, two):
        sizes = {size: proof.counterexample[size] for size in side.sizes}
        sides.append(side.at(**sizes))
    assert ea.prove(*sides).verdict == "different"


def test_places_of_maxima_differ_where_the_order_of_values_does() -> None:
    assert ea.prove(ops.argmax(ops.mul(a, -1), 1), ops.argmax(a, 1)).verdict == "different"
