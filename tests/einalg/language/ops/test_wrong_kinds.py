"""Options of operators, fed with what is no number and no axis: a `ShapeError` with a remedy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import einalg as ea

WRONG = (
    *(None, True, 2.5, math.nan, math.inf, 1j, "nonsense", "", b"a"),
    *(object(), [object()], {}, np.array(["a"]), np.array([1, 2])),
)
X = ea.tensor("X", (1, 4, 8, 8))
K = ea.tensor("K", (4, 4, 3, 3))
OPTIONS: list[tuple[str, tuple[Any, ...], str]] = [
    ("adaptive_avg_pool", (X, 2), "axes"),
    ("adaptive_max_pool", (X, 2), "axes"),
    ("max_pool2d", (X,), "kernel"),
    ("max_pool2d", (X, 2), "dilation"),
    ("conv2d", (X, K), "dilation"),
    ("conv2d", (X, K), "groups"),
    ("softmax", (X,), "axis"),
    ("cumsum", (X,), "axis"),
    ("split", (X,), "parts"),
    ("flatten", (X,), "start"),
    ("tril", (X,), "k"),
    ("diagonal", (X,), "offset"),
    ("depth_to_space", (X,), "block"),
    ("broadcast_to", (X,), "shape"),
]


@pytest.mark.parametrize(("name", "arguments", "option"), OPTIONS)
def test_a_wrong_kind_is_an_error_with_a_remedy(
    name: str, arguments: tuple[Any, ...], option: str
) -> None:
    operator = getattr(ea.ops, name)
    for value in WRONG:
        with pytest.raises(ea.ShapeError, match=rf"^{name}: .*\n  "):
            operator(*arguments, **{option: value})
            pytest.fail(f"{option}={value!r} is accepted")


def test_no_new_axis() -> None:
    assert ea.ops.unsqueeze(X, None) == ea.ops.unsqueeze(X, ()) == ea.ops.unsqueeze(X, [])
