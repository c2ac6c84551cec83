"""Numbers, arrays and functions of NumPy beside indices; indices and elements are no numbers."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable
from pathlib import Path
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


J = ea.indices("j")
A, B = ea.tensor("A", (8, 9)), ea.tensor("B", (9, 8))
A_IJ, B_JI = A[I, J], B[J, I]
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "if": (lambda: 1 if A_IJ > 0 else 2, r"ea.Piecewise((a, A[i, j] > 0), (b, True))"),
    "sum in an if": (lambda: 1 if 2 * A_IJ + 1 < B_JI else 2, "(a, 2*A[i, j] + 1 < B[j, i])"),
    "and": (lambda: A_IJ > 0 and B_JI > 0, "& | ~ for and, or, not"),
    "not": (lambda: not (A_IJ > 0), "& | ~ for and, or, not"),
    "chain": (lambda: 0 < A_IJ < 1, "ea.Piecewise((a, A[i, j] > 0)"),
    "max": (lambda: max(A_IJ, 0), "ea.Max(A[i, j], 0)"),
    "sorted": (lambda: sorted([A_IJ, B_JI]), "ea.Min(B[j, i], A[i, j])"),
    "where": (lambda: np.where(A_IJ > 0, A_IJ, 0), "ea.Piecewise((a, A[i, j] > 0)"),
    "reduction": (lambda: ea.Sum[J](A_IJ) > 0 and 1, "(a, Sum[j](A[i, j]) > 0)"),
    "index in an if": (lambda: 1 if I < J else 2, "ea.L[i, j](..., where=i < j)"),
    "mask": (lambda: (A_IJ > 0) * B_JI, "ea.Piecewise((B[j, i], A[i, j] > 0), (0, True))"),
    "mask behind": (
        lambda: (B_JI + 1) * (I >= 1),
        "ea.Piecewise((B[j, i] + 1, i >= 1), (0, True))",
    ),
    "float": (lambda: float(A_IJ + 1), "ea.evaluate(ea.L[i, j](A[i, j] + 1), ...)"),
    "int": (lambda: int(A_IJ), "ea.evaluate(ea.L[i, j](A[i, j]), ...)"),
    "complex": (lambda: complex(A_IJ), "ea.evaluate(ea.L[i, j](A[i, j]), ...)"),
    "round": (lambda: round(A_IJ), "ea.evaluate(ea.L[i, j](A[i, j]), ...)"),
    "math": (lambda: math.sin(A_IJ), "sympy.sin(A[i, j])"),
    "np.float32": (lambda: np.float32(A_IJ), "ea.evaluate(ea.L[i, j](A[i, j]), ...)"),
    "array of numbers": (lambda: np.array([A_IJ], dtype=float), "ea.L[i, j](A[i, j])"),
    "range": (lambda: range(I), "ea.L[i](...), or ea.Sum[i](...)"),
    "range of a form": (lambda: range(2 * I + J), "ea.L[i, j](...), or ea.Sum[i, j](...)"),
    "list": (lambda: [1, 2][I], "ea.L[i](...), or ea.Sum[i](...)"),
    "int of an index": (lambda: int(I), "ea.L[i](...), or ea.Sum[i](...)"),
    "float of a form": (lambda: float(I + J), "ea.L[i, j](...), or ea.Sum[i, j](...)"),
    "np.maximum": (lambda: np.maximum(A_IJ, 0), "sympy.Max(A[i, j], 0)"),
    "conditions without brackets": (lambda: A_IJ > 0 & B_JI > 0, "(A[i] > 0) & (B[i] > 0)"),
    "shift": (lambda: A_IJ << 2, "A[i]*2**n"),
    "matrix product": (lambda: A_IJ @ B_JI, "ea.Sum[k](A[i, k]*B[k, j]), or A[i, j]*B[j, i]"),
    "method": (lambda: A_IJ.sum(), "ea.ops.sum(A, ...)"),
    "assignment": (lambda: A.__setitem__((I, J), 0), "O = ea.L[i, j](...)"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_has_a_remedy_with_its_own_operands(mistake: str) -> None:
    make, remedy = REFUSED[mistake]
    with pytest.raises(UseError) as caught:
        make()
    assert remedy in caught.value.message.rpartition("\n")[2]
    files = [Path(frame.filename) for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert {file.name for file in files} == {Path(__file__).name}  # nothing of the inside


def test_sympy_alone_is_left_alone() -> None:
    x = sympy.Symbol("x")
    for refuse in (lambda: bool(x > 0), lambda: float(x), lambda: (x > 0) * x, lambda: round(x)):
        with pytest.raises(TypeError) as caught:
            refuse()
        assert not isinstance(caught.value, ea.EinalgError)
    assert float(sympy.pi) == math.pi and bool(sympy.pi > 3) and int(sympy.Integer(3)) == 3
