"""Arguments and results of the function that is tested, of any library."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einalg.errors import ShapeError
from einalg.testing.subject import (
    NUMPY,
    TORCH,
    Subject,
    as_array,
    as_arrays,
    fixed_random_numbers,
    libraries_of,
)

torch = pytest.importorskip("torch")


class Exchanged:
    """An array that is known by DLPack alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_a_tensor_has_the_elements_of_an_array_of_any_layout() -> None:
    """Torch has no strides below 0, and bf16 is f32 here."""
    array = np.arange(6, dtype=np.float32)[::-1].reshape(2, 3)
    tensor = Subject(len, TORCH).argument(array, "f32")
    assert tensor.tolist() == array.tolist() and tensor.dtype is torch.float32
    short = Subject(len, TORCH).argument(array, "bf16")
    assert short.dtype is torch.bfloat16
    result = as_array(short.requires_grad_())
    assert result.dtype == np.float32 and result.tolist() == array.tolist()


def test_results_of_other_libraries_are_arrays() -> None:
    short = pytest.importorskip("ml_dtypes").bfloat16
    result = as_array(np.array([0.5, -2], short))
    assert result.dtype == np.float32 and result.tolist() == [0.5, -2]
    assert as_array(Exchanged(np.arange(3))).tolist() == [0, 1, 2]


def test_results_by_name_are_those_of_the_outputs() -> None:
    one, other = np.zeros(2), np.ones(3)
    assert as_arrays({"P": other, "O": one}, ["O", "P"])[0] is one
    with pytest.raises(ShapeError, match="it has the keys O, Q\n  return the outputs O, P"):
        as_arrays({"O": one, "Q": other}, ["O", "P"])


def returned(x: int) -> np.ndarray: ...  # pyright: ignore


def of_tensors(x: torch.Tensor) -> Any: ...  # pyright: ignore


def of_arrays(count: int, x: np.ndarray) -> Any: ...  # pyright: ignore


@pytest.mark.parametrize(
    ("function", "library"), [(of_tensors, TORCH), (of_arrays, NUMPY), (torch.nn.ReLU(), TORCH)]
)
def test_an_annotation_names_the_library(function: Callable[..., Any], library: str) -> None:
    assert libraries_of(function) == [library]


def test_what_is_returned_says_nothing_of_the_arguments() -> None:
    assert set(libraries_of(returned)) >= {TORCH, NUMPY}


def test_numbers_are_drawn_anew_where_torch_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    drawn = []
    for _ in range(2):
        with fixed_random_numbers(3):
            drawn.append((random.random(), np.random.rand()))
    assert drawn[0] == drawn[1]


def test_generators_go_on_as_if_nothing_had_been_drawn() -> None:
    def draws() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(()))]

    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    undisturbed = draws()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    with fixed_random_numbers(1):
        inside = draws()
    assert draws() == undisturbed != inside
    with fixed_random_numbers(1):
        assert draws() == inside
