"""With operands alone, an operator is what torch makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import compare, integers, torch_module

SIZES = (5, 4, 3)


def _agree(name: str, arrays: dict[str, Any], *parameters: Any) -> None:
    torch = torch_module()
    function = getattr(torch.nn.functional, name)
    expected = function(
        *(torch.from_numpy(a.astype(np.float64)) for a in arrays.values()), *parameters
    ).numpy()
    expression = ops.OPERATORS[name](
        *(ea.tensor(key, a.shape) for key, a in arrays.items()), *parameters
    )
    compare(name, expression, arrays, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank: int) -> None:
    rng = np.random.default_rng(rank)
    data, taps = integers(rng, (1, 3, *SIZES[:rank])), (3, 2, 2)[:rank]
    _agree(f"conv{rank}d", {"A": data, "K": integers(rng, (4, 3, *taps))})
    _agree(f"conv_transpose{rank}d", {"A": data, "K": integers(rng, (3, 2, *taps))})


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_depthwise_convolutions(rank: int) -> None:
    rng = np.random.default_rng(rank)
    arrays = {
        "A": integers(rng, (1, 3, *SIZES[:rank])),
        "K": integers(rng, (3, 1, *(3, 2, 2)[:rank])),
    }
    A, K = (ea.tensor(name, array.shape) for name, array in arrays.items())
    expected = ea.evaluate(ops.OPERATORS[f"conv{rank}d"](A, K, groups=3), **arrays)
    compare("depthwise", ops.OPERATORS[f"depthwise_conv{rank}d"](A, K), arrays, expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_poolings(rank: int, kind: str) -> None:
    data = integers(np.random.default_rng(rank), (1, 3, *SIZES[:rank]))
    _agree(f"{kind}_pool{rank}d", {"A": data}, 2)
    _agree(f"{kind}_pool{rank}d", {"A": data}, 3, 2, 1)
    whole = data.reshape(1, 3, -1)
    expected = whole.mean(-1) if kind == "avg" else whole.max(-1)
    compare(
        kind,
        ops.OPERATORS[f"global_{kind}_pool"](ea.tensor("A", data.shape)),
        {"A": data},
        expected.reshape(1, 3, *(1,) * rank),
    )


def test_bands() -> None:
    q, k = ea.tensor("Q", (2, 5, 3)), ea.tensor("K", (2, 5, 3))
    assert ops.g2bmm(q, k, 2) == ops.g2bmm(q, k, 2, 1)
    assert ops.gbmm(q, k) == ops.gbmm(q, k, 1, 1)
    assert ops.banded_attention(q, k, k, 2) == ops.banded_attention(
        q, k, k, 2, 1, 1 / sympy.sqrt(3)
    )
