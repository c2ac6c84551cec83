"""The reference evaluator against NumPy written by hand, one feature at a time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import NotationError, RangeError, ShapeError, UndefinedError
from einalg.language.ir.program import Program

i, j, k = ea.indices("i j k")
RANDOM = np.random.default_rng(7)
A, B, C = (
    RANDOM.integers(-9, 10, (5, 7)),
    RANDOM.integers(-9, 10, (7, 3)),
    RANDOM.integers(-9, 10, 5),
)
P = np.pad(A, ((1, 2), (0, 3)))


def value(text: str, **arrays: Any) -> Any:
    """The value of a text on `A`, `B`, `C` as far as it reads them, and on `arrays`."""
    known = {name: np.asarray(array) for name, array in {"A": A, "B": B, "C": C, **arrays}.items()}
    expression = ea.parse(text, **{name: array.shape for name, array in known.items()})
    return ea.evaluate(expression, **{name: known[name] for name in expression.tensors})


FEATURES = [
    ("a copy", "O[i,j] = A[i,j]", A),
    ("a transpose", "O[j,i] = A[i,j]", A.T),
    ("a diagonal", "O[i:5] = A[i,i]", A[range(5), range(5)]),
    ("a slice", "O[i:1:3] = A[i,2]", A[1:3, 2]),
    ("a slice that starts at 0", "O[i:2] = A[i+1,2]", A[1:3, 2]),
    ("a reversal", "O[i:5] = C[4-i]", C[::-1]),
    ("a stride", "O[i,j:4] = A[i,2*j]", A[:, ::2]),
    ("a broadcast", "O[i,j] = A[i,j] + C[i]", A + C[:, None]),
    ("an outer product", "O[i,j] = C[i]*C[j]", np.outer(C, C)),
    ("a matrix product", "O[i,j] += A[i,k]*B[k,j]", A @ B),
    ("a trace", "O[()] = Sum[i:5](A[i,i])", np.trace(A)),
    ("a sum of all", "O[()] += A[i,j]", A.sum()),
    ("a product", "O[i] = Prod[j](A[i,j])", A.prod(1)),
    ("a maximum", "O[i] = Max[j](A[i,j])", A.max(1)),
    ("a minimum", "O[j] = Min[i](A[i,j])", A.min(0)),
    ("a reduction in a reduction", "O[()] = Max[i](Sum[j](A[i,j]))", A.sum(1).max()),
    (
        "a reduction of a difference",
        "O[i] = Sum[j](A[i,j] - Min[k](A[i,k]))",
        (A - A.min(1, keepdims=True)).sum(1),
    ),
    ("padding", "O[i:-1:7,j:10] = A.pad((1,2),(0,3))[i,j]", P),
    (
        "padding with another fill",
        "O[i:-1:6] = C.pad(1,fill=-4)[i]",
        np.pad(C, 1, constant_values=-4),
    ),
    (
        "padding twice",
        "O[i:-2:6] = C.pad(1,fill=3).pad((1,0),fill=8)[i]",
        np.pad(np.pad(C, 1, constant_values=3), (1, 0), constant_values=8),
    ),
    (
        "padding three times",
        "O[i:-4:9] = C.pad(1,fill=2).pad((2,1),fill=5).pad((1,2),fill=3)[i]",
        np.pad(
            np.pad(np.pad(C, 1, constant_values=2), (2, 1), constant_values=5),
            (1, 2),
            constant_values=3,
        ),
    ),
    (
        "padding twice, the inner one wins",
        "O[i:-2:5] = C.pad((1,0),fill=3).pad((2,0),fill=8)[i]",
        [8, 3, *C],
    ),
    ("a window", "O[i:5] = Sum[r:3](C.pad(1)[i+r-1])", np.convolve(C, [1, 1, 1])[1:-1]),
    (
        "a dilated window",
        "O[i:5] = Sum[r:3](C.pad(2)[i+2*r-2])",
        np.convolve(C, [1, 0, 1, 0, 1])[2:-2],
    ),
    ("a quotient", "O[i:10] = C[i//2]", np.repeat(C, 2)),
    ("a remainder", "O[i:10] = C[i%5]", np.tile(C, 2)),
    ("a quotient of negatives", "O[i:-4:6] = C.pad(2)[i//2]", np.repeat(np.pad(C, (2, 0))[:5], 2)),
    ("a reshape", "O[i:35] = A[i//7, i%7]", A.ravel()),
    ("a reshape back", "O[i:7,j:5] = A[(5*i+j)//7, (5*i+j)%7]", A.reshape(7, 5)),
    (
        "an index as a number",
        "O[i,j] = A[i,j]*i - 2*j + 1",
        A * np.arange(5)[:, None] - 2 * np.arange(7) + 1,
    ),
    ("an index alone", "O[i:-2:3] = i*i", np.arange(-2, 3) ** 2),
    ("a constant", "O[i:2,j:3] = 7", np.full((2, 3), 7)),
    ("a sum of a constant", "O[i:2] = Sum[j:-3:4](2)", [14, 14]),
    ("a triangle", "O = L[i,j](A[i,j], where=j <= i)", np.tril(A)),
    ("a triangle from a sum", "O[i] = Sum[j:7](A[i,j], where=j <= i)", np.tril(A).sum(1)),
    ("every other element", "O = L[i](C[i], where=i%2 == 0)", C * [1, 0, 1, 0, 1]),
    (
        "a maximum of a triangle",
        "O[i] = Max[j](A[i,j], where=j <= i)",
        [A[n, : n + 1].max() for n in range(5)],
    ),
    ("a condition that never holds", "O = L[i](C[i], where=i >= 9)", np.zeros(5, int)),
    (
        "a gap that is padded",
        "O[i] = (L[i:5](C[i], where=i >= 2)).pad(0, fill=-1)[i]",
        [-1, -1, *C[2:]],
    ),
    ("an inner scope", "O[i] = (L[i](C[i] + 1))[4-i]", (C + 1)[::-1]),
    ("an inner scope with an origin", "O[i:3] = (L[t:-1:4](C[t+1]))[i-1]", C[:3]),
    (
        "an inner scope read through padding",
        "O[i:7] = (L[i](C[i]*2)).pad(1, fill=5)[i-1]",
        np.pad(C * 2, 1, constant_values=5),
    ),
    (
        "an inner scope of two",
        "O[i,j] = (L[i,j](Sum[k](A[i,k]*B[k,j])))[i,j] + C[i]",
        A @ B + C[:, None],
    ),
    ("a power", "O[i] = C[i]**3", C**3),
    ("absolute values and signs", "O[i] = Abs(C[i]) - sign(C[i])", np.abs(C) - np.sign(C)),
    (
        "elementwise maximum",
        "O[i] = Max(C[i], 0) + Min(C[i], 1, A[i,0])",
        np.maximum(C, 0) + np.minimum(np.minimum(C, 1), A[:, 0]),
    ),
    (
        "cases",
        "O[i] = Piecewise((1, C[i] > 3), (-1, C[i] < -3), (0, True))",
        (C > 3) * 1 - (C < -3) * 1,
    ),
    (
        "cases of indices",
        "O[i] = Piecewise((C[i], (i > 0) & (i < 3)), (0, True))",
        C * [0, 1, 1, 0, 0],
    ),
    ("a comparison", "O[i,j] = A[i,j] >= C[i]", C[:, None] <= A),
    ("logic", "O[i] = (C[i] > 0) & ~(C[i] > 3) | (C[i] == -9)", (C > 0) & ~(C > 3) | (C == -9)),
    ("rounding", "O[i] = floor(C[i]/2) + ceiling(C[i]/3)", C // 2 - -C // 3),
    ("a remainder of an element", "O[i] = Mod(C[i], 3)", C % 3),
    ("a quotient of elements", "O[i] = Quotient(C[i], A[i,0]**2 + 2)", C // (A[:, 0] ** 2 + 2)),
    ("halves of whole numbers", "O[i] = f16(C[i] + 2049)", (C + 2049).astype(np.float16)),
    ("floats of whole numbers", "O[i] = f32(C[i] + 2049)", C + 2049),
    ("division of whole numbers that is whole", "O[i] = 6*C[i]/3", 2 * C),
    ("nothing", "O[i:0] = C[i]", np.zeros(0, int)),
    ("a sum of nothing", "O[i] = Sum[j:0](A[i,j]) + Prod[j:0](A[i,j])", np.ones(5, int)),
    ("a maximum of nothing", "O[i:2] = Max[j:0](A[i,j])", [-np.inf, -np.inf]),
    ("one element", "O[()] = C[3]", C[3]),
]


@pytest.mark.parametrize(
    "text, expected", [case[1:] for case in FEATURES], ids=[case[0] for case in FEATURES]
)
def test_feature(text: str, expected: Any) -> None:
    found = value(text)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == np.shape(expected)


def test_statements() -> None:
    found = value("T[i] += A[i,j]\nU[i] = T[i]*T[i]\nO[i,j] = A[i,j] - U[i]")
    np.testing.assert_array_equal(found, A - A.sum(1, keepdims=True) ** 2)


def test_several_outputs() -> None:
    program = ea.parse("T[i] += A[i,j]\nU[i] = T[i] + 1", A=A.shape)
    found = ea.evaluate(Program(program.statements, ["T", "U"]), A=A)
    assert list(found) == ["T", "U"]
    np.testing.assert_array_equal(found["U"], A.sum(1) + 1)


def test_fractions_are_exact() -> None:
    found = value("O[i] = C[i]/3 + 1/7", C=[1, 2, 3, 4, 5])
    assert found.tolist() == [Fraction(n, 3) + Fraction(1, 7) for n in range(1, 6)]
    assert value("O[i] = C[i]**-2", C=[1, 2, 3]).tolist() == [1, Fraction(1, 4), Fraction(1, 9)]
    given = np.array([Fraction(1, 3), Fraction(2, 3)], dtype=object)
    assert value("O[()] += C[i]", C=given).item() == 1


def test_big_integers_are_exact() -> None:
    found = value("O[()] = Prod[i](C[i])", C=[2**40] * 5)
    assert found.item() == 2**200 and found.dtype == object
    assert value("O[i] = C[i]*C[i]", C=[2**31]).dtype == np.int64


def test_a_third_of_floats_and_integers_is_rounded_once() -> None:
    x, n = np.array([3.0, -6.0, 7.0]), np.array([-14, 7, 5])
    for text, expected in (
        ("O[i] = x[i]*n[i]/3", x * n / 3),
        ("O[i] = ceiling(x[i]*n[i]/3)", [-14, -14, 12]),
        ("O[i] = x[i]*(n[i]/7)*3", x * (3 * n) / 7),
    ):
        assert np.array_equal(value(text, x=x, n=n), expected), text


def test_floats_are_computed_in_double_precision() -> None:
    x = RANDOM.standard_normal(5)
    found = value(
        "O[i] = exp(C[i])*tanh(C[i]) + erf(C[i]) - sqrt(Abs(C[i])) + log(C[i]**2) + C[i]**0.5*0",
        C=np.abs(x),
    )
    from math import erf

    y = np.abs(x)
    np.testing.assert_allclose(
        found, np.exp(y) * np.tanh(y) + [erf(v) for v in y] - np.sqrt(y) + np.log(y**2), rtol=1e-14
    )
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    "name",
    [
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "atanh",
        "erfc",
        "gamma",
        "loggamma",
    ],
)
def test_functions(name: str) -> None:
    x = np.array([0.1, 0.5, 0.9])
    expected = [float(getattr(sympy, name)(sympy.Float(v, 30))) for v in x]
    np.testing.assert_allclose(value(f"O[i] = {name}(C[i])", C=x), expected, rtol=1e-13)


def test_functions_of_two_arguments_and_their_domains() -> None:
    np.testing.assert_allclose(
        value("O[i] = atan2(C[i], 2)", C=[-1.0, 0.0, 3.0]), np.arctan2([-1.0, 0.0, 3.0], 2)
    )
    np.testing.assert_allclose(value("O[i] = acosh(C[i])", C=[1.0, 2.0]), np.arccosh([1.0, 2.0]))


def test_no_case_applies() -> None:
    found = value("O[i] = Piecewise((C[i], C[i] > 0))", C=[1, -1])
    assert found[0] == 1 and np.isnan(found[1])


def test_comparisons_give_truth_values() -> None:
    assert value("O[i] = C[i] > 0").dtype == bool
    assert value("O[()] = Sum[i](C[i] > 0)", C=[1, -1, 2]).item() == 2


def test_boolean_inputs() -> None:
    found = value("O[i] = C[i]*3", C=np.array([True, False]))
    assert found.tolist() == [3, 0]


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({}, r"no array is given for A, of shape \(5, 7\)\n  pass A=array"),
        ({"A": A.T}, r"A has shape \(5, 7\), but an array of shape \(7, 5\) is given"),
        ({"A": A, "Z": A}, "Z is not an input of the expression; the inputs are A"),
        ({"A": 3}, r"A has shape \(5, 7\), but an array of shape \(\) is given"),
    ],
)
def test_arrays_that_do_not_fit(arrays: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        ea.evaluate(ea.parse("O[i,j] = A[i,j]", A=(5, 7)), **arrays)


def test_what_has_no_value() -> None:
    f = sympy.Function("f")
    with pytest.raises(NotationError, match="the reference evaluator has no value for f"):
        ea.evaluate(ea.Scope([(i, 0, 5)], (), f(ea.tensor("C", (5,))[i])), C=C)
    with pytest.raises(NotationError, match="expected a tensor expression"):
        ea.evaluate(ea.tensor("C", (5,))[i], C=C)


def test_reads_of_nothing_are_found_when_they_happen() -> None:
    """A program that was put together unchecked is still refused."""
    cut = ea.parse("T = L[i:4](C[i], where=i >= 2)", C=(5,))
    statements = ea.parse("T[i:4] = C[i]\nO[i] = T[i]", C=(5,)).statements
    with pytest.raises(RangeError, match=r"T\[i\] reads \(0,\), where there is no value"):
        ea.evaluate(Program([("T", cut), *statements[1:]]), C=C)


def test_names_mean_nothing_while_evaluating() -> None:
    """The same names inside and outside are different indices."""
    found = value(
        "O[i,j] = (L[j,i](A[j,i]))[i,j] * (L[i](C[i]))[i] + Sum[k]((L[k,i](A[k,i]))[i,k])"
    )
    np.testing.assert_array_equal(found, A * C[:, None] + A.sum(1)[:, None])


@pytest.mark.parametrize("factor", ["1/(N - 2)", "sqrt(N - 3)", "log(N - 2)"])
def test_a_size_that_leaves_no_value(factor: str) -> None:
    scope = ea.parse(f"O[i] = A[i]*{factor}", A=("N",)).at(N=2)
    with pytest.raises(UndefinedError, match="a size makes a denominator 0, or a root imaginary"):
        ea.evaluate(scope, A=[1, 2])


def test_a_root_of_what_is_negative_has_no_value() -> None:
    """Not even where a function of the imaginary root would be real."""
    with pytest.raises(UndefinedError, match="has no value at i = 0: it is not defined for -4"):
        ea.evaluate(ea.parse("O[i] = Abs(sqrt(A[i]))", A=(1,)), A=[-4])


WITHOUT_VALUE = {
    "1/A[i]": (0, "it divides by 0"),
    "B[i]/(A[i] - 2.0)": (2.0, "it divides by 0"),
    "A[i]**(-1/2)": (0.0, "it divides by 0"),
    "Mod(B[i], A[i])": (0, "it divides by 0"),
    "B[i]//A[i]": (0, "it divides by 0"),
    "log(A[i])": (0, "it is not defined for 0"),
    "A[i]**(1/3)": (-8.0, "it is not defined for -8.0"),
    "acos(A[i])": (2, "it is not defined for 2"),
    "atanh(A[i])": (1.0, "it is not defined for 1.0"),
    "gamma(A[i])": (0, "it is not defined for 0"),
    "exp(A[i])": (1000, "of 1000 it is too large for a float"),
}


@pytest.mark.parametrize("body", WITHOUT_VALUE)
def test_what_has_no_value_says_where_and_why(body: str) -> None:
    number, reason = WITHOUT_VALUE[body]
    shapes = {name: (2,) for name in "AB" if f"{name}[" in body}
    scope = ea.parse(f"O[i] = {body}", **shapes)
    arrays = {name: [3, 3] for name in shapes} | {"A": [1, number]}
    if body == "atanh(A[i])":
        arrays["A"] = [0, number]
    with pytest.raises(UndefinedError, match=r"has no value at i = 1: ") as caught:
        ea.evaluate(scope, **arrays)
    assert reason in str(caught.value) and "Piecewise" in str(caught.value).splitlines()[-1]


def test_rows_of_different_lengths() -> None:
    with pytest.raises(ShapeError, match="A cannot be read as an array"):
        ea.evaluate(ea.parse("O[i,j] = A[i,j]", A=(2, 2)), A=[[1, 2], [3]])
