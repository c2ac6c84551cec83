"""Expressions with symbolic sizes: both doors, printing, keys, concrete sizes."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.errors import EinalgError, NotationError, RangeError, ShapeError, UseError
from einalg.language.analysis.canonical import key
from einalg.language.analysis.sizes import allowed_sizes

TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("O[i] += A[i,j]*x[j]", {"A": ("N", "M"), "x": ("M",)}),
    ("O[n:N, i:H-2] = Sum[k:3](A[n, i+k, 0])", {"A": ("N", "H", 64)}),
    ("O[i,j] = A.pad(0,1)[i,j] + A.pad(0,1)[i,j+1]/N", {"A": ("N", "H")}),
    ("O[i:N+M] = A.pad((0,M))[i] + B.pad((N,0))[i-N]", {"A": ("N",), "B": ("M",)}),
    ("O[i:N//2] = A[2*i] + A[2*i+1]", {"A": ("N",)}),
    ("O[i] = Max[j](A[i,j], where=j<=i)", {"A": ("N", "N")}),
    ("O[i] = Piecewise((A[i], i < N-1), (0, True))", {"A": ("N",)}),
    ("O[i,j:M] = A[N-1-i]*2", {"A": ("N",)}),
    ("O[i:-1:N] = A.pad(1)[i]", {"A": "N"}),
    ("T[i,j] = 2*A[i,j]\nO[i] += T[i,j]", {"A": ("N", 4)}),
]


@pytest.mark.parametrize("text, shapes", TEXTS)
def test_text_round_trip(text: str, shapes: dict[str, Any]) -> None:
    expression = ea.parse(text, **shapes)
    again = ea.parse(str(expression), **shapes)
    assert again == expression
    assert key(again) == key(expression)
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert expression.func(*expression.args) == expression
    assert expression._repr_latex_()
    assert expression.tree()


@pytest.mark.parametrize("text, shapes", TEXTS)
@pytest.mark.parametrize("sizes", [{"N": 4, "M": 3, "H": 5}, {"N": 7, "M": 1, "H": 2}])
def test_concrete_sizes(text: str, shapes: dict[str, Any], sizes: dict[str, int]) -> None:
    expression = ea.parse(text, **shapes)
    concrete = expression.at(**{name: sizes[name] for name in expression.sizes})
    numbers = {}
    for name, shape in shapes.items():
        axes = (shape,) if isinstance(shape, str) else shape
        numbers[name] = tuple(sizes.get(axis, axis) for axis in axes)
    for name, value in sizes.items():
        text = re.sub(rf"\b{name}\b", str(value), text)
    assert concrete == ea.parse(text, **numbers)
    assert not concrete.sizes
    assert key(concrete) == key(ea.parse(text, **numbers))


def test_both_doors() -> None:
    N, (i, k) = ea.size("N"), ea.indices("i k")
    A = ea.tensor("A", ("N", 3))
    built = ea.L[i](ea.Sum[k](A[N - 1 - i, k]))
    assert A.shape == (N, 3)
    assert built.shape == (N,)
    assert built == ea.parse("O[i:N] += A[N-1-i, k]", A=A)


def test_a_size_may_stay() -> None:
    expression = ea.parse("O[i] += A[i,j]", A=("N", "M"))
    partly = expression.at(N=3)
    assert list(partly.sizes) == ["M"]
    assert partly.at(M=2) == expression.at(M=2).at(N=3) == expression.at(N=3, M=2)
    assert expression.at() is expression


def test_sizes_with_bounds_are_named_in_the_text() -> None:
    N = ea.size("N", at_least=4)
    expression = ea.parse("O[i:N-3] = A[i+3]", A=(N,))
    assert expression.sizes == {"N": N}
    assert ea.parse("O[i:N-3] = 2*i", N=N).sizes == {"N": N}


def test_ranges_are_inferred() -> None:
    expression = ea.parse("O[i] = Sum[k:3](A[i+k])", A=("N",))
    assert str(expression) == "L[i:N - 2](Sum[k:3](A[i + k]))"
    assert str(allowed_sizes(expression)) == "[N] -> {  : N >= 2 }"


@pytest.mark.parametrize(
    "error, text, shapes",
    [
        (RangeError, "O[i:N] = A[i+1]", {"A": ("N",)}),
        (RangeError, "O[i] = A[i] + B[i]", {"A": ("N",), "B": ("M",)}),
        (RangeError, "O[i:M] = A[i]", {"A": ("N",)}),
        (RangeError, "O[i] = A[2*i] + B[2*i]", {"A": ("N",), "B": ("M",)}),
        (NotationError, "O[N] = A[N]", {"A": ("N",)}),
        (NotationError, "O[i] = A[i*N]", {"A": ("N",)}),
        (NotationError, "O[i] = A[i//N]", {"A": ("N",)}),
        (ShapeError, "O[i] = A[i]", {"A": ("N-1",)}),
        (NotationError, "O[i,j] = A[i]*B[j]", {"A": ("N",), "B": (ea.size("N", 2),)}),
    ],
)
def test_refused(error: type[EinalgError], text: str, shapes: dict[str, Any]) -> None:
    with pytest.raises(error, match=r"\n  "):
        ea.parse(text, **shapes)


@pytest.mark.parametrize(
    "error, sizes",
    [
        (UseError, {"Q": 3}),
        (ShapeError, {"N": 0}),
        (ShapeError, {"N": 2.5}),
        (ShapeError, {"N": "4"}),
        (RangeError, {"N": 1}),
    ],
)
def test_sizes_that_are_none(error: type[EinalgError], sizes: dict[str, Any]) -> None:
    with pytest.raises(error, match=r"\n  "):
        ea.parse("O[i:N-2] = A[i]", A=("N",)).at(**sizes)


@pytest.mark.parametrize(
    "use",
    [
        lambda e: ea.evaluate(e, A=np.ones(3)),
        lambda e: ea.derive(e),
        lambda e: ea.optimize(e),
        lambda e: ea.Session(e),
        lambda e: ea.distance(e, "matmul"),
        lambda e: ea.mapping_table(e),
    ],
)
def test_what_needs_numbers_says_so(use: Any) -> None:
    with pytest.raises(UseError, match=r"\.at\(N=1\)"):
        use(ea.parse("O[i] = 2*A[i]", A=("N",)))


def test_equal_up_to_names_of_indices_alone() -> None:
    one = ea.parse("O[i] += A[i,j]", A=("N", "M"))
    assert one == ea.parse("O[x] += A[x,y]", A=("N", "M"))
    assert one != ea.parse("O[x] += A[x,y]", A=("N", "K"))
    two = ea.parse("O[i] += A[i,j]*A[i,k]", A=("N", "M"))
    assert key(two) == key(ea.parse("O[i] += A[i,k]*A[i,j]", A=("N", "M")))
    assert key(one) != key(ea.parse("O[x] += A[x,y]", A=("N", "K")))
    i, j, k = ea.indices("i j k")
    A = ea.tensor("A", ("N", 3, ea.size("N") + 1))
    sums = [ea.L[()](ea.Sum[order](A[i, j, k])) for order in ((i, j, k), (k, i, j), (j, k, i))]
    assert len(set(map(key, sums))) == 1
