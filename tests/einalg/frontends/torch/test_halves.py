"""Models of 16 bits: sums and statistics are kept in f32, and what torch rounds is rounded."""

from __future__ import annotations

from collections.abc import Callable
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


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *arrays: Any) -> Any:
        return self.function(*arrays)


def both(function: Callable[..., Any], *arrays: Any) -> tuple[Any, Any]:
    """The result of einalg, and torch's, in f32."""
    model = ea.optimize(Model(function), arrays, seconds=0, prefer="einalg")
    return torch.as_tensor(model(*arrays)).float(), function(*arrays).float()


def near(found: Any, expected: Any, units: float) -> None:
    scale = float(expected.nan_to_num(0, 0, 0).abs().max())
    torch.testing.assert_close(found, expected, rtol=units, atol=units * scale, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_kept_in_single_precision(name: str, dtype: str) -> None:
    """Also of numbers whose squares and sums a type of 16 bits does not hold."""
    x = torch.randn(2, 6, 48, generator=torch.Generator().manual_seed(0)) * 400
    found, expected = both(STATISTICS[name], x.to(getattr(torch, dtype)))
    assert expected.isfinite().all()
    near(found, expected, 2 * UNIT[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROUNDED)
def test_each_operator_rounds(name: str, dtype: str) -> None:
    """The same elements, down to the last bit."""
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(3, 5, 17, generator=generator).to(kind) for _ in range(2))
    found, expected = both(ROUNDED[name], x, y)
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
