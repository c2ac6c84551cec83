"""Tensors and numbers of torch as arrays with element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from einalg.frontends.torch.nodes.tensors import (  # noqa: E402
    arrays_and_types,
    memory_key,
    shape_and_dtype,
)


def test_a_nested_result_is_a_row_of_arrays() -> None:
    result = {"a": torch.ones(2, dtype=torch.bfloat16), "b": [3, (True, 0.5, None, "text")]}
    arrays = arrays_and_types(result)
    assert [kind for _, kind in arrays] == ["bf16", "i64", "bool", "f64"]
    assert [array.tolist() for array, _ in arrays] == [[1.0, 1.0], 3, True, 0.5]
    ((array, kind),) = arrays_and_types(torch.tensor([1 + 2j]))
    assert kind == "complex64" and array.tolist() == [1 + 2j]


def test_one_memory_has_one_key() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert memory_key(x) == memory_key(x.view(2, 3)) != memory_key(x.t())
    assert memory_key(x[0]) != memory_key(x[1]) and memory_key(x[:0]) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.ones(2, 3), ((2, 3), "f32")),
        (np.int8(3), ((), "i8")),
        (True, ((), "bool")),
        (0.5, ((), "f64")),
        (torch.ones(2, dtype=torch.complex64), None),
        (None, None),
    ],
)
def test_shapes_and_types_that_the_language_has(value: Any, expected: Any) -> None:
    assert shape_and_dtype(value) == expected
