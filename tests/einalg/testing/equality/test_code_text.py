"""Arrays as code: what is pasted makes the array again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einalg.testing.equality.code_text import WIDTH, assignment, wrapped
from einalg.testing.input_values import LAYOUTS, PLAIN, in_layout

RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "number": np.array(2.5),
    "zeros": np.zeros((2, 3), np.float32),
    "long row": RNG.standard_normal(30).astype(np.float32),
    "rows": RNG.integers(-9, 9, (5, 7)),
    "truth": np.array([True, False, True]),
    "nearly zeros": np.eye(9, 40)[:3],
    "negative zeros": np.array([-0.0, -0.0]),
    "NaN and infinities": np.array([np.nan, 2.0, np.inf, -np.inf]),
    "NaN among zeros": np.where(np.eye(9, 40)[:3] > 0, np.nan, 0),
    "no rows": np.zeros((0, 4), np.float32),
    "no columns": np.zeros((3, 0)),
}


def made(lines: list[str], **names: Any) -> Any:
    values: dict[str, Any] = {"np": np, **names}
    exec("\n".join(lines), values)
    return values["x"]


@pytest.mark.parametrize("layout", [PLAIN, *LAYOUTS])
@pytest.mark.parametrize("name", ARRAYS)
def test_the_code_makes_the_array(name: str, layout: str) -> None:
    array = in_layout(ARRAYS[name], layout)
    if not array.ndim:
        layout = PLAIN
    lines = assignment("x", array, layout, "numpy")
    assert max(map(len, lines)) <= WIDTH
    again = made(lines)
    np.testing.assert_array_equal(again, array, strict=True)
    assert again.strides == array.strides and np.signbit(again).all() == np.signbit(array).all()


@pytest.mark.parametrize("name", ARRAYS)
def test_the_code_makes_the_tensor(name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = made(assignment("x", ARRAYS[name], PLAIN, "torch"), torch=torch)
    np.testing.assert_array_equal(tensor.numpy(), ARRAYS[name], strict=True)


def test_a_large_array_is_taken_from_the_error() -> None:
    array = RNG.standard_normal((9, 9))
    lines = assignment("x", array, PLAIN, "numpy")
    assert lines == ["x = error.arrays['x']  # too large to print, shape (9, 9)"]


def test_a_long_line_is_broken_between_words() -> None:
    words = ", ".join(str(number) for number in range(100, 150))
    lines = wrapped(f"x = [{words}]")
    assert len(lines) > 2 and max(map(len, lines)) <= WIDTH
    assert " ".join(line.strip() for line in lines) == f"x = [{words}]"
    assert wrapped(f"{words}  # {words}") == [f"{words}  # {words}"]
