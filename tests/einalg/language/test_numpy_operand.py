"""Numbers, arrays and functions of NumPy beside indices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import UseError

I = ea.indices("i")


@pytest.mark.parametrize("function", [np.exp, np.sqrt, np.absolute, np.isnan, np.arcsin])
@pytest.mark.parametrize("operand", [I, I + 1, I // 2, 2 * I % 3])
def test_a_function_of_an_index_is_refused(function: Callable[[Any], Any], operand: Any) -> None:
    with pytest.raises(UseError, match=r"has no value for an index\n  use SymPy's functions"):
        function(operand)


@pytest.mark.parametrize("function", [np.positive, np.isnan, np.exp2, np.exp, np.arctanh])
def test_a_remedy_names_a_function_that_there_is(function: Callable[[Any], Any]) -> None:
    with pytest.raises(UseError) as caught:
        function(I)
    match = re.search(r"sympy\.(\w+)\(i\)$", caught.value.message)
    assert match and hasattr(sympy, match[1])


def test_an_array_is_refused() -> None:
    for join in (lambda: np.arange(3) + I, lambda: np.maximum(np.arange(3), I)):
        with pytest.raises(UseError, match="has no value for an index"):
            join()


@pytest.mark.parametrize("two", [np.int64(2), np.int8(2), np.array(2)])
def test_a_whole_number_joins(two: Any) -> None:
    assert two + I == I + 2 and two - I == 2 - I and two * I == 2 * I
    assert (two <= I) == (I >= 2) and I // two == I // 2 and I % two == I % 2


def test_a_fraction_makes_a_body() -> None:
    assert ea.L[I:4](np.float64(0.5) * I) == ea.L[I:4](0.5 * I)
