"""Models of 16 bits: sums and statistics are kept in f32, and what torch rounds is rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

import einalg as ea

torch = pytest.importorskip("torch")
F = torch.nn.functional

DTYPES = ("float16", "bfloat16")
UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # relative, of the last place
STATISTICS: dict[str, Callable[[Any], Any]] = {
    "layer norm": lambda x: F.layer_norm(x, (48,)),
    "layer norm with factors": lambda x: F.layer_norm(x, (48,), x[0, 0] / 400, x[1, 1] / 400),
    "norm by the root of the mean square": lambda x: F.rms_norm(x, (48,)),
    "group norm": lambda x: F.group_norm(x, 3),
    "instance norm": F.instance_norm,
    "deviation": lambda x: x.std(-1),
    "deviation of all": lambda x: x.std(),
    "mean": lambda x: x.mean((0, 2)),
    "mean of all": lambda x: x.abs().mean(),
    "variance": lambda x: torch.var_mean(x / 64, -1)[0],
    "norm of rows": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x / 64, ord=3, dim=-1),
    "softmax": lambda x: (x / 400).softmax(1),
    "logarithms of softmax": lambda x: (x / 400).log_softmax(-1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.flip(0), x / 64),
    "attention to some keys": lambda x: F.scaled_dot_product_attention(
        x, x.flip(1), x / 64, attn_mask=(x.abs() < 300)[..., :6]
    ),
    "attention with shifted scores": lambda x: F.scaled_dot_product_attention(
        x, x.flip(1), x / 64, attn_mask=x[..., :6]
    ),
    "causal attention": lambda x: F.scaled_dot_product_attention(x, x, x / 64, is_causal=True),
    "pooling": lambda x: F.avg_pool1d(x.abs() * 20, 4),
    "adaptive pooling": lambda x: F.adaptive_avg_pool1d(x.abs() * 20, 5),
}
ROUNDED: dict[str, Callable[[Any, Any], Any]] = {
    "a product that does not fit": lambda x, y: (x * 300 * (x * 300)).float(),
    "a conversion": lambda x, y: (x.float() * y.float() * 1e4).to(x.dtype).float(),
    "sums and products": lambda x, y: ((x * y + x) * 0.3 - y).sigmoid() * x,
    "numbers": lambda x, y: (0.3 - x) / (y + 0.3) - 0.1,
    "an activation": lambda x, y: F.gelu(x * 1.7) + y,
    "a gate": lambda x, y: F.silu(x) * y + x,
    "a quotient": lambda x, y: x / (y.abs() + 0.3) - x,
    "softshrink": lambda x, y: F.softshrink(x, 0.3) + y,
    "squares": lambda x, y: ((x - 1) ** 2).mean() + y.mean(),
    "interpolation": lambda x, y: torch.addcmul(x, x, y, value=0.3),
}


class Several(torch.nn.Module):
    """Several functions of the same arrays."""

    def __init__(self, functions: Iterable[Callable[..., Any]]):
        super().__init__()
        self.functions = tuple(functions)

    def forward(self, *arrays: Any) -> Any:
        return tuple(function(*arrays) for function in self.functions)


def both(functions: dict[str, Callable[..., Any]], *arrays: Any) -> dict[str, tuple[Any, Any]]:
    """The results of einalg, of one network of all functions, and torch's, in f32."""
    model = ea.optimize(Several(functions.values()), arrays, seconds=0, prefer="einalg")
    pairs = {}
    for (name, function), result in zip(functions.items(), model(*arrays), strict=True):
        pairs[name] = torch.as_tensor(result).float(), function(*arrays).float()
    return pairs


def large(dtype: str) -> Any:
    """Numbers whose squares and sums a type of 16 bits does not hold."""
    x = torch.randn(2, 6, 48, generator=torch.Generator().manual_seed(0)) * 400
    return x.to(getattr(torch, dtype))


def ordinary(dtype: str) -> Any:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(3, 5, 17, generator=generator).to(getattr(torch, dtype)) for _ in range(2)]


@cache
def statistics(dtype: str) -> dict[str, tuple[Any, Any]]:
    return both(STATISTICS, large(dtype))


@cache
def rounded(dtype: str) -> dict[str, tuple[Any, Any]]:
    return both(ROUNDED, *ordinary(dtype))


def near(found: Any, expected: Any, units: float) -> None:
    scale = float(expected.nan_to_num(0, 0, 0).abs().max())
    torch.testing.assert_close(found, expected, rtol=units, atol=units * scale, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_kept_in_single_precision(name: str, dtype: str) -> None:
    """Also of numbers whose squares and sums a type of 16 bits does not hold."""
    found, expected = statistics(dtype)[name]
    assert expected.isfinite().all()
    near(found, expected, 2 * UNIT[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROUNDED)
def test_each_operator_rounds(name: str, dtype: str) -> None:
    """The same elements, down to the last bit."""
    found, expected = rounded(dtype)[name]
    assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*STATISTICS, *ROUNDED])
def test_alone(name: str, dtype: str) -> None:
    """A network of one function gives what the network of all gives."""
    if name in STATISTICS:
        found, expected = both({name: STATISTICS[name]}, large(dtype))[name]
        near(found, expected, 2 * UNIT[dtype])
    else:
        found, expected = both({name: ROUNDED[name]}, *ordinary(dtype))[name]
        assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_network_of_16_bits(dtype: str) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(32, 8)).to(getattr(torch, dtype)).eval()
    x = torch.randn(5, 24).to(getattr(torch, dtype))
    model = ea.optimize(module, (x,), seconds=0, prefer="einalg")
    with torch.no_grad():
        near(torch.as_tensor(model(x)).float(), module(x).float(), 4 * UNIT[dtype])
