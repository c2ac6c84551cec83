"""Numbers beside tensors: torch compares elements with a number of their own type."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from tests.helpers.torch_graphs import agree  # noqa: E402

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
HALVES = ("float16", "bfloat16")


def neighbours(number: float, dtype: Any) -> Any:
    """The elements of a type around a number."""
    nearest = torch.tensor(number, dtype=dtype)
    far = torch.tensor(1e3, dtype=dtype)
    return torch.stack([torch.nextafter(nearest, -far), nearest, torch.nextafter(nearest, far)])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("number", [300, -1, 70_000, 2**33 + 1, 0.5, 300.5, True])
def test_integers_are_compared_with_a_number_that_wraps_round(dtype: str, number: Any) -> None:
    x = torch.tensor([0, 1, 44, 100, 127], dtype=getattr(torch, dtype))
    for name in COMPARISONS:
        agree(f"{name}.Scalar", (x, number), {})


BOUNDS = [(-1, 1), (-3, 100), (-200, None), (None, -2), (2, 44), (-1, 1.5), (-1.5, 3)]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_of_integers_wrap_round(dtype: str, bounds: tuple[Any, Any]) -> None:
    """Where torch takes them at all; beside a bound that is no integer, the result is none."""
    x = torch.tensor([0, 1, 44, 100, 127], dtype=getattr(torch, dtype))
    low, high = bounds
    cases: list[tuple[str, tuple[Any, ...]]] = [("clamp.default", (x, low, high))]
    if low is not None:
        cases += [("clamp_min.default", (x, low)), ("threshold.default", (x, low, high or 0))]
    if high is not None:
        cases.append(("clamp_max.default", (x, high)))
    for name, arguments in cases:
        operator, overload = name.split(".")
        try:
            getattr(getattr(torch.ops.aten, operator), overload)(*arguments)
        except RuntimeError:
            continue
        agree(name, arguments, {})


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("number", [0.1, 0.3, 0.7, 1.1, -0.2, 5, 70_000])
def test_halves_are_compared_with_a_number_of_their_type(dtype: str, number: float) -> None:
    x = neighbours(number, getattr(torch, dtype))
    for name in COMPARISONS:
        agree(f"{name}.Scalar", (x, number), {})


@pytest.mark.parametrize("name", ["hardshrink", "softshrink"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("number", [0.1, 0.3, 0.7, 1.1])
def test_what_is_within_a_limit_of_halves(name: str, dtype: str, number: float) -> None:
    x = neighbours(number, getattr(torch, dtype))
    agree(f"{name}.default", (torch.cat([x, -x]), number), {})


@given(
    st.sampled_from(COMPARISONS),
    st.sampled_from(HALVES),
    st.floats(-1000, 1000, width=32),
)
def test_any_number_beside_halves(name: str, dtype: str, number: float) -> None:
    agree(f"{name}.Scalar", (neighbours(number, getattr(torch, dtype)), number), {})


@given(
    st.sampled_from(COMPARISONS),
    st.sampled_from(INTEGERS),
    st.integers(-(2**40), 2**40),
)
def test_any_number_beside_integers(name: str, dtype: str, number: int) -> None:
    kind = getattr(torch, dtype)
    agree(f"{name}.Scalar", (torch.tensor([number, number + 1, 0, 100]).to(kind), number), {})


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_tensor_without_axes_is_of_the_type_of_the_other(kind: str) -> None:
    """Its value is not known ahead, so that torch compares."""
    alone = torch.tensor(0.1, dtype=getattr(torch, kind))
    for name in COMPARISONS:
        agree(f"{name}.Tensor", (neighbours(0.1, torch.float16), alone), {})
        agree(f"{name}.Tensor", (alone, neighbours(0.1, torch.bfloat16)), {})
