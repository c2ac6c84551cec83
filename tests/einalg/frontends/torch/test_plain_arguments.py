"""Plain arguments of a module: a graph is made for those of the example, and refuses others."""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from einalg.errors import ShapeError
from einalg.frontends.torch import load_model

torch = pytest.importorskip("torch")


class Scaled(torch.nn.Module):
    """A tensor times a number, a mask or nothing, and summed up as a name says."""

    def forward(self, x: Any, factor: Any, mask: Any = None, mode: str = "sum") -> Any:
        scaled = x * factor
        if mask is not None:
            scaled = scaled * mask
        return scaled.sum() if mode == "sum" else scaled.mean()


X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
MASK = torch.tensor([[0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    ("example", "other"),
    [
        ((X, 2.0, None, "sum"), (X, 3.0, None, "sum")),
        ((X, 2.0, None, "sum"), (X, 2, None, "sum")),  # gives integers for integers
        ((X, 0.0, None, "sum"), (X, -0.0, None, "sum")),
        ((X, 1, None, "sum"), (X, True, None, "sum")),
        ((X, 2.0, None, "sum"), (X, 2.0, MASK, "sum")),
        ((X, 2.0, MASK, "sum"), (X, 2.0, None, "sum")),
        ((X, 2.0, None, "sum"), (X, 2.0, None, "mean")),
        ((X, (2.0), None, "sum"), (X, X, None, "sum")),
    ],
)
def test_other_plain_arguments_are_refused(example: Any, other: Any) -> None:
    call = load_model(Scaled(), example).function()
    torch.testing.assert_close(call(*example), Scaled()(*example))
    with pytest.raises((ShapeError, ea.UseError), match="\n  "):
        call(*other)


def test_equal_plain_arguments_and_nested_ones() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: Any, options: Any) -> Any:
            return x * options["factor"] + options["shifts"][1]

    first = {"factor": 2.5, "shifts": [1, 7]}
    o = ea.optimize(Nested().eval(), (X, first), seconds=0, prefer="einalg")
    equal = {"factor": float("2.5"), "shifts": [1, 7]}
    torch.testing.assert_close(o(X, equal), X * 2.5 + 7)
    with pytest.raises(ShapeError, match=r"an argument is 8, and 7 in the example"):
        o(X, {"factor": 2.5, "shifts": [1, 8]})
    with pytest.raises(ShapeError, match=r"an argument is nan, and 2\.5 in the example"):
        o(X, {"factor": float("nan"), "shifts": [1, 7]})
