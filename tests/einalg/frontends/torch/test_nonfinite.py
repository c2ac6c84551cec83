"""Operators of torch on NaN, infinities, zeros and huge numbers: einalg computes what torch does."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einalg as ea

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

NAN, INF = math.nan, math.inf
SPECIAL = [1.0, NAN, INF, -INF, -2.0, 0.0, 1e20, -1e20, 0.5, 2.5, -2.5, 7.0, -7.0]
Function = Callable[..., Any]


class Several(torch.nn.Module):
    """Several functions of the same arrays."""

    def __init__(self, functions: list[Function]):
        super().__init__()
        self.functions = functions

    def forward(self, *arrays: Any) -> Any:
        return tuple(function(*arrays) for function in self.functions)


def agree(functions: dict[str, Function], *arrays: Any) -> Any:
    """Compare functions with torch: made for ordinary numbers, called with special ones."""
    module = Several(list(functions.values()))
    generator = torch.Generator().manual_seed(1)
    example = []
    for array in arrays:
        ordinary = torch.rand(array.shape, generator=generator).add(0.5).to(array.dtype)
        example.append(ordinary)
    optimized = ea.optimize(module, tuple(example), seconds=0, prefer="einalg")
    results, expected = optimized(*arrays), module(*arrays)
    for name, found, right in zip(functions, results, expected, strict=True):
        close = np.allclose(
            found.double().numpy(), right.double().numpy(), rtol=1e-4, atol=1e-6, equal_nan=True
        )
        assert close, f"{name}\n{right}\n{found}"
    return optimized


def row(size: int, seed: int = 0) -> Any:
    """Numbers of which some are special."""
    draw = np.random.default_rng(seed)
    numbers = np.where(
        draw.random(size) < 0.4, draw.choice(SPECIAL, size), draw.normal(size=size) * 3
    )
    return torch.tensor(numbers, dtype=torch.float32)


TESTS: dict[str, Function] = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "x != x": lambda x: x != x,
    "x == x": lambda x: x == x,
    "where": lambda x: torch.where(x == x, x, torch.zeros_like(x)),
    "not less": lambda x: ~(x < 0),
    "either": lambda x: (x < 0) | (x >= 0),
    "where after where": lambda x: torch.where(
        x < 0, -x, torch.where(x >= 0, 2 * x, torch.full_like(x, 5.0))
    ),
    "nan_to_num": lambda x: x.nan_to_num(),
    "nanmean": lambda x: x.nanmean(),
    "nansum": lambda x: x.nansum(),
    "isnan of exp": lambda x: torch.where(torch.isnan(x.log()), -1.0, x),
    "finite exp": lambda x: torch.isfinite(x.exp()),
    "exp is infinite": lambda x: x.exp() == INF,
    "below infinity": lambda x: x.abs() < INF,
    "masked": lambda x: x * (x > 0),
    "by a condition": lambda x: x / (x > 0),
    "power of a condition": lambda x: (x > 1).float() ** -1.5,
    "difference of inverse conditions": lambda x: 1 / (x > 1).float() - 1 / (x > 2).float(),
    "any": lambda x: torch.isnan(x).any(),
}
CANCELLING: dict[str, Function] = {
    "x*0": lambda x: x * 0,
    "x-x": lambda x: x - x,
    "x/x": lambda x: x / x,
    "x+1-x": lambda x: (x + 1) - x,
    "2x-x": lambda x: 2 * x - x,
    "exp log": lambda x: x.log().exp(),
    "root squared": lambda x: x.sqrt() ** 2,
    "square >= 0": lambda x: x**2 >= 0,
    "x < x+1": lambda x: x < x + 1,
    "x+1 == x": lambda x: (x + 1) == x,
    "relu(x)-x": lambda x: torch.relu(x) - x,
    "alpha 0": lambda x: torch.add(torch.ones_like(x), x, alpha=0),
    "power 0": lambda x: x**0,
}
ELEMENTS: dict[str, Function] = {
    "relu": torch.relu,
    "threshold": lambda x: F.threshold(x, 1, 9),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "elu": F.elu,
    "celu": F.celu,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25])),
    "silu": F.silu,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "deg2rad": torch.deg2rad,
    "trunc": torch.trunc,
    "round": torch.round,
    "frac": torch.frac,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "sign": torch.sign,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp_min(0.5),
    "sqrt": torch.sqrt,
    "log1p": torch.log1p,
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "largest": lambda x: torch.linalg.vector_norm(x, INF),
    "max_pool": lambda x: F.max_pool1d(x[None, None], 3, 1, 1),
}


@pytest.mark.parametrize("functions", [TESTS, CANCELLING, ELEMENTS], ids=["tests", "sums", "rest"])
@pytest.mark.parametrize("size", [17])
def test_functions_of_one_element(functions: dict[str, Function], size: int) -> None:
    agree(functions, row(size, 3))


@pytest.mark.nightly
@pytest.mark.parametrize("functions", [TESTS, CANCELLING, ELEMENTS], ids=["tests", "sums", "rest"])
@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_functions_of_one_element_in_rows_of_other_lengths(
    functions: dict[str, Function], size: int
) -> None:
    for seed in range(3):
        agree(functions, row(size, seed))


PAIRS: dict[str, Function] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp by a tensor": lambda a, b: torch.clamp(a, min=b),
    "clamp between": lambda a, b: torch.clamp(a, a - 1, b),
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "a-b+b": lambda a, b: a - b + b,
    "a*b/b": lambda a, b: a * b / b,
    "where": lambda a, b: torch.where(a < b, a, b),
    "not less": lambda a, b: ~(a < b),
    "prelu": lambda a, b: F.prelu(a[None], b),
    "max of min": lambda a, b: torch.maximum(a, torch.minimum(a, b)),
}


def test_functions_of_two_elements() -> None:
    agree(PAIRS, row(33, 1), row(33, 2))


@pytest.mark.parametrize("size", [1, 16, 33])
def test_extremes_of_rows(size: int) -> None:
    rows = torch.arange(size * (size + 1), dtype=torch.float32).reshape(size + 1, size)
    rows[torch.arange(size), torch.arange(size)] = NAN
    functions: dict[str, Function] = {
        "max": lambda x: x.max(1).values,
        "min": lambda x: x.min(1).values,
        "amax": lambda x: x.amax(),
        "amin of columns": lambda x: x.amin(0),
        "argmax": lambda x: x.argmax(1),
        "argmin": lambda x: x.argmin(),
    }
    agree(functions, rows)


DIVISIONS: dict[str, Function] = {
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_divide": torch.floor_divide,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "remainder by a number": lambda a, b: torch.remainder(a, 0.1),
    "fmod by a number": lambda a, b: torch.fmod(a, -3),
    "quotient by a number": lambda a, b: a // 0.1,
}
DIVIDENDS = [1.0, 0.5, 6, 40000, 1e20, 5.5, -5.5, 2.0**31, 7, -7, 7, NAN, INF, 1]
DIVISORS = [0.1, 0.1, 0.2, 0.1, 3, INF, INF, 3, -3, -INF, 0, 2, 2, NAN]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_divisions_with_remainder(dtype: Any) -> None:
    a, b = (torch.tensor(values, dtype=dtype) for values in (DIVIDENDS, DIVISORS))
    optimized = agree(DIVISIONS, a[:9], b[:9])  # where torch has one result for rows of any length
    assert not optimized.opaque
    agree(dict(list(DIVISIONS.items())[:4]), a, b)


def test_remainders_of_many_numbers_are_not_negative() -> None:
    x = torch.rand(3000, generator=torch.Generator().manual_seed(0)) * 36000
    functions = {"remainder": lambda x: torch.remainder(x, 0.1), "quotient": lambda x: x // 0.1}
    agree(functions, x)


class Attention(torch.nn.Module):
    def __init__(self, **options: Any):
        super().__init__()
        self.options = options

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)


MASKS = {
    "truth values": lambda m: m,
    "numbers": lambda m: torch.zeros(m.shape).masked_fill(~m, -INF),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(
    ("queries", "keys", "heads", "shared"),
    [(3, 4, 2, 2), (1, 5, 4, 2), (4, 1, 2, 1)],
    ids=["plain", "one query", "one key"],
)
def test_a_query_that_sees_nothing_gives_0(
    kind: str, queries: int, keys: int, heads: int, shared: int
) -> None:
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(2, heads, queries, 8, generator=draw)
    k, v = (torch.randn(2, shared, keys, 8, generator=draw) for _ in range(2))
    seen = torch.ones(2, 1, queries, keys, dtype=torch.bool)
    example = MASKS[kind](seen)
    seen[1, 0, queries - 1] = False
    seen[0, 0, 0, 0] = keys == 1
    module = Attention(enable_gqa=heads != shared)
    optimized = ea.optimize(module, (q, k, v, example), seconds=0, prefer="einalg")
    mask = MASKS[kind](seen)
    assert torch.allclose(optimized(q, k, v, mask), module(q, k, v, mask), atol=1e-5)


@pytest.mark.parametrize("nonfinite", ["spread", "exact"])
@pytest.mark.parametrize("layer", [torch.nn.Identity(), torch.nn.Sigmoid()], ids=["end", "inside"])
def test_values_of_whole_vectors_alone_are_not_held_against_einalg(
    layer: Any, nonfinite: str
) -> None:
    """Torch's GELU of an infinity is NaN where it computes vectors, and an infinity elsewhere."""
    module = torch.nn.Sequential(torch.nn.Linear(5, 33), torch.nn.GELU(), layer).eval()
    x = torch.randn((4, 5), generator=torch.Generator().manual_seed(0))
    optimized = ea.optimize(module, (x,), seconds=0, prefer="einalg", nonfinite=nonfinite)
    x[2, 2] = INF
    expected, defined = module(x), copy.deepcopy(module).double()(x.double()).float()
    if torch.equal(expected.isnan(), defined.isnan()):
        pytest.skip("this torch is consistent")
    if nonfinite == "exact":
        assert [call.operator for call in optimized.opaque] == ["gelu.default"]
    else:
        torch.testing.assert_close(optimized(x), defined, equal_nan=True)
        assert not optimized.opaque
        notes = " ".join(str(optimized.report).split())
        assert "gelu.default: on one infinity, torch deviates from its own results in f64" in notes


class CausalAttention(torch.nn.Module):
    def __init__(self, heads: int = 3, hidden: int = 33) -> None:
        super().__init__()
        self.heads, self.joined = heads, torch.nn.Linear(hidden, 3 * hidden)

    def forward(self, x: Any) -> Any:
        parts = self.joined(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)


@pytest.mark.parametrize("nonfinite", ["spread", "exact"])
def test_what_a_causal_mask_hides_is_not_held_against_einalg(nonfinite: str) -> None:
    """Torch multiplies hidden values by 0, so that a NaN in one reaches earlier rows."""
    module = CausalAttention().eval()
    x = torch.randn((2, 37, 33), generator=torch.Generator().manual_seed(0))
    optimized = ea.optimize(module, (x,), seconds=0, prefer="einalg", nonfinite=nonfinite)
    if nonfinite == "exact":
        assert any("scaled_dot_product" in call.operator for call in optimized.opaque)
        return
    assert not optimized.opaque
    notes = " ".join(str(optimized.report).split())
    assert "torch deviates from its own results for each query and the keys that it sees" in notes
    x[1, 20] = NAN
    result = optimized(x)
    assert torch.isfinite(result[0]).all() and torch.isfinite(result[1, :, :20]).all()
    assert torch.isnan(result[1, :, 20:]).all()
    torch.testing.assert_close(result[1, :, :20], module(x[:, :20])[1])
