"""The Python door: binders, bodies, equality, misuse; einsum against NumPy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sympy
from opt_einsum import get_symbol

import einalg as ea
from einalg.errors import NotationError, ShapeError, UseError
from einalg.language.index.affine import Index
from einalg.language.ir.body import Reduce
from einalg.language.ir.functions import FUNCTIONS
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.notation.grammar import BINDERS, CONSTANTS

h, w, i, j, k, r = ea.indices("h w i j k r")
A, B, K = ea.tensor("A", (8, 6)), ea.tensor("B", (6, 5)), ea.tensor("K", (3,), role="weight")


def test_indices() -> None:
    assert ea.indices("h w") == ea.indices("h, w") == (Index("h"), Index("w"))
    assert ea.indices("h") == Index("h")
    with pytest.raises(NotationError, match="at least one name"):
        ea.indices("")


def test_tensor() -> None:
    weight = ea.tensor("K", (3, (-1, 4)), "float16", "weight")
    assert (weight.shape, weight.box, weight.dtype, weight.role, weight.rank) == (
        (3, 5),
        ((0, 3), (-1, 4)),
        "f16",
        "weight",
        2,
    )
    assert ea.tensor("S", ()).shape == ()
    assert ea.tensor("A", np.array([8, 6])) == A
    assert ea.tensor("A", (8, 6), role="weight") != A


DOORS = [
    ("O[i,j] = A[i,j]*2", lambda: ea.L[i, j](A[i, j] * 2)),
    ("O[i,j] += A[i,k]*B[k,j]", lambda: ea.L[i, j](ea.Sum[k](A[i, k] * B[k, j]))),
    ("O[i,j] = Sum[k](A[i,k]*B[k,j])", lambda: ea.L[i, j](ea.Sum[k](A[i, k] * B[k, j]))),
    ("L[i, j](A[i, j])", lambda: ea.L[i, j](A[i, j])),
    ("O[i:4, j:-1:3] = A.pad(0, (1, 0))[i, j]", lambda: ea.L[i:4, j:-1:3](A.pad(0, (1, 0))[i, j])),
    (
        "O[h,j] += A.pad(1,0)[h+r-1,j]*K[r]",
        lambda: ea.L[h, j](ea.Sum[r](A.pad(1, 0)[h + r - 1, j] * K[r])),
    ),
    (
        "O[h,j] = Max[r:3](A.pad(1, 0, fill=-inf)[h+r-1,j])",
        lambda: ea.L[h, j](ea.Max[r:3](A.pad(1, 0, fill=-sympy.oo)[h + r - 1, j])),
    ),
    ("O[i:4] = A[2*i, i//2]", lambda: ea.L[i:4](A[2 * i, i // 2])),
    ("O[i] = A[i, i%6]", lambda: ea.L[i](A[i, i % 6])),
    ("O = L[i, j:6](A[i, j], where=i >= j)", lambda: ea.L[i, j:6](A[i, j], where=i >= j)),
    (
        "O = L[i, j:6](A[i, j], where=(i >= j, Eq(i, 3)))",
        lambda: ea.L[i, j:6](A[i, j], where=(i >= j) & sympy.Eq(i, 3)),
    ),
    ("O[i] = Sum[j](A[i,j], where=j <= i)", lambda: ea.L[i](ea.Sum[j](A[i, j], where=j <= i))),
    (
        "O[i, j] = Max(A[i,j], 0) + Min(A[i,j], 1)",
        lambda: ea.L[i, j](ea.Max(A[i, j], 0) + ea.Min(A[i, j], 1)),
    ),
    ("O[i, j] = exp(-A[i,j]**2)/3", lambda: ea.L[i, j](sympy.exp(-(A[i, j] ** 2)) / 3)),
    (
        "O[i, j] = Piecewise((A[i,j], A[i,j] > 0), (0, True))",
        lambda: ea.L[i, j](sympy.Piecewise((A[i, j], A[i, j] > 0), (0, True))),
    ),
    ("O[i, j] = A[i,j]*(2*i + 1)", lambda: ea.L[i, j](A[i, j] * (2 * i + 1))),
    ("O[i, j] = A[i,j] + 2*i - j//2", lambda: ea.L[i, j](A[i, j] + 2 * i - j // 2)),
    ("O[j, i] = (L[i, j](A[i, j] + 1))[i, j]", lambda: ea.L[j, i](ea.L[i, j](A[i, j] + 1)[i, j])),
    (
        "O[i:9] = (L[i, j](A[i, j])).pad(1, 0)[i - 1, 0]",
        lambda: ea.L[i:9](ea.L[i, j](A[i, j]).pad(1, 0)[i - 1, 0]),
    ),
    ("O[()] += A[i, j]", lambda: ea.L[()](ea.Sum[i, j](A[i, j]))),
    ("O[i:4] = Prod[j:2](A[i, j] + i)", lambda: ea.L[i:4](ea.Prod[j:2](A[i, j] + i))),
]


@pytest.mark.parametrize("text, make", DOORS, ids=[text for text, _ in DOORS])
def test_both_doors_agree(text: str, make: Any) -> None:
    one, other = ea.parse(text, A=A, B=B, K=K), make()
    assert one == other and hash(one) == hash(other) and str(one) == str(other)


@pytest.mark.parametrize("make", [make for _, make in DOORS], ids=[text for text, _ in DOORS])
def test_scopes_survive_pickling(make: Any) -> None:
    scope = make()
    made = pickle.loads(pickle.dumps(scope))
    assert made == scope and hash(made) == hash(scope) and str(made) == str(scope)
    assert scope.func(*scope.args) == scope


SAME_UP_TO_NAMES = [
    ("O[i,j] += A[i,k]*B[k,j]", "P[x,y] += A[x,z]*B[z,y]"),
    ("O[i,j] += A[i,k]*B[k,j]", "P[k,j] += A[k,i]*B[i,j]"),
    ("O[i] += A[i,j]", "O[r] += A[r,s]"),
    ("O = L[i, j:6](A[i, j], where=i >= j)", "O = L[j, i:6](A[j, i], where=j >= i)"),
    ("O[i] = Sum[j](Sum[k](A[i,j]*B[j,k]))", "O[k] = Sum[i](Sum[j](A[k,i]*B[i,j]))"),
    ("O[i:3] = (L[i, j](A[i, j]))[i+1, 2]", "O[x:3] = (L[y, z](A[y, z]))[x+1, 2]"),
    ("O[i, j] = A[i,j]*i", "O[j, i] = A[j,i]*j"),
]
DIFFERENT = [
    ("O[i,j] = A[i,j]", "O[j,i] = A[i,j]"),
    ("O[i:3] = A[i,0]", "O[i:4] = A[i,0]"),
    ("O[i:3] = A[i,0]", "O[i:1:4] = A[i,0]"),
    ("O[i:3] = A[i,0]", "O[i:3] = A[i,1]"),
    ("O[i] = Max[j](A[i,j])", "O[i] = Min[j](A[i,j])"),
    ("O[i:3] = A.pad(1,0)[i,0]", "O[i:3] = A.pad(1,0,fill=1)[i,0]"),
    ("O = L[i, j:6](A[i, j], where=i >= j)", "O = L[i, j:6](A[i, j])"),
    ("O[i:6,j:5] = A[i,j]", "O[i:6,j:5] = B[i,j]"),
]


@pytest.mark.parametrize("one, other", SAME_UP_TO_NAMES)
def test_names_of_indices_mean_nothing(one: str, other: str) -> None:
    left, right = (ea.parse(t, A=A, B=B) for t in (one, other))
    assert left == right and hash(left) == hash(right)
    assert len({left, right}) == 1


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_everything_else_counts(one: str, other: str) -> None:
    left, right = (ea.parse(t, A=A, B=B) for t in (one, other))
    assert left != right


def test_equality_is_structural_and_a_truth_value() -> None:
    scope = ea.L[i, j](A[i, j])
    assert (scope == 3) is False and (scope != 3) is True
    assert (A == A) is True and (A == B) is False
    assert A[i, j] == A[i, j] and A[i, j] != A[j, i]


MISUSE = [
    ("bool of a tensor", lambda: bool(A)),
    ("bool of a scope", lambda: bool(ea.L[i, j](A[i, j]))),
    ("bool of a view", lambda: bool(A.pad(1, 0))),
    ("if scope", lambda: 1 if ea.L[i, j](A[i, j]) else 2),
    ("len", lambda: len(A)),
    ("iteration", lambda: list(A)),
    ("unpacking", lambda: dict(A)),
    ("in", lambda: 3 in A),
    ("less", lambda: A < B),
    ("at least", lambda: A >= 0),
    ("sum of tensors", lambda: A + B),
    ("product with a number", lambda: 2 * A),
    ("power", lambda: A**2),
    ("matrix product", lambda: A @ B),
    ("number divided", lambda: 1 / A),
    ("scope minus", lambda: ea.L[i, j](A[i, j]) - 1),
    ("array times tensor", lambda: np.ones((8, 6)) * A),
    ("array plus scope", lambda: np.ones((8, 6)) + ea.L[i, j](A[i, j])),
]


@pytest.mark.parametrize("use", [use for _, use in MISUSE], ids=[name for name, _ in MISUSE])
def test_a_tensor_is_no_python_value(use: Any) -> None:
    with pytest.raises(UseError, match=r"has no meaning\n  \w+"):
        use()


@pytest.mark.parametrize(
    "use",
    [
        lambda: np.ones(3) * A[i, j],
        lambda: A[i, j] * np.ones(3),
        lambda: np.ones(3) + A[i, j],
        lambda: np.ones(3) / ea.Sum[i](A[i, j]),
        lambda: ea.Sum[i](A[i, j]) - np.ones(3),
        lambda: np.exp(A[i, j]),
        lambda: list(A[i, j]),
        lambda: len(A[i, j]),
    ],
)
def test_an_array_does_not_broadcast_over_an_element(use: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        use()


def test_numpy_numbers_are_numbers() -> None:
    assert ea.L[i, j](np.float64(0.5) * A[i, j]) == ea.L[i, j](0.5 * A[i, j])
    assert ea.L[i, j](np.int64(2) * A[i, j]) == ea.L[i, j](2 * A[i, j])
    assert ea.L[np.s_[i : np.int64(4)], j](A[i, j]).shape == (4, 6)


def test_comparing_elements_is_an_expression() -> None:
    assert isinstance(A[i, j] < 0, sympy.Rel)
    with pytest.raises(TypeError):
        bool(A[i, j] < 0)


@pytest.mark.parametrize(
    "use",
    [
        lambda text: A.pad(1, 0, fill=text),
        lambda text: i < text,
        lambda text: i >= text,
        lambda text: ea.L[i](text),
        lambda text: ea.Max(A[i, j], text),
        lambda text: ea.L[i](A[i, 0], where=text),
        lambda text: A[i, text],
        lambda text: ea.tensor("X", text),
        lambda text: Reduce("Sum", [(i, 0, 2)], None, text),
        lambda text: Scope([(i, 0, 2)], None, text),
    ],
)
def test_text_is_never_evaluated(use: Any, capsys: Any) -> None:
    """SymPy would run it."""
    with pytest.raises((ea.EinalgError, sympy.SympifyError)):
        use("print('run')")
    assert "run" not in capsys.readouterr().out


def test_a_truth_value_of_python_is_no_condition() -> None:
    with pytest.raises(NotationError, match=r"sympy\.Eq\(i, j\)"):
        ea.L[i:4, j:4](A[i, j], where=i == j)


def test_subscripts_of_a_scope_are_absolute() -> None:
    inner = ea.L[i:2:5](A[i, 0])
    assert ea.L[i:2:5](inner[i]).box == ((2, 5),)
    with pytest.raises(ea.RangeError, match=r"reads \[0,3\)"):
        ea.L[i:3](inner[i])


def test_padding_twice_with_one_fill_is_one_padding() -> None:
    assert A.pad(1, 0).pad((0, 2), 1) == A.pad((1, 3), 1)
    assert A.pad(1, 0).pad(1, 0, fill=2) != A.pad(2, 0)
    assert isinstance(A.pad(0, 0), Padded) and A.pad(0, 0).shape == A.shape


def test_shape_and_dtype() -> None:
    scope = ea.L[i:-1:3, j](A.pad(1, 0)[i, j])
    assert (scope.shape, scope.box, scope.rank, scope.dtype) == (
        (4, 6),
        ((-1, 3), (0, 6)),
        2,
        "f32",
    )
    assert scope.tensors == {"A": A}
    assert scope.free_symbols == set()


def test_nodes_are_sympy_objects() -> None:
    body = ea.Sum[k](A[i, k] * B[k, j])
    assert isinstance(body, sympy.Expr) and isinstance(A[i, j], sympy.Expr)
    assert body.free_symbols == {i, j} and A[i + r, j].free_symbols == {i, r, j}
    assert (A[i, j] + 1).atoms(Access) == {A[i, j]}
    assert sympy.expand((A[i, j] + 1) ** 2) == A[i, j] ** 2 + 2 * A[i, j] + 1


@pytest.mark.parametrize(
    "op, empty", [("Sum", 0), ("Prod", 1), ("Max", -sympy.oo), ("Min", sympy.oo)]
)
def test_a_reduction_without_indices_or_points(op: str, empty: Any) -> None:
    reduction = Reduce(op, (), None, A[i, j])
    assert reduction.identity == empty
    scope = Scope([(i, 0, 2), (j, 0, 2)], None, reduction)
    assert str(scope) == f"L[i:2, j:2]({op}[()](A[i, j]))"
    assert ea.parse(str(scope), A=A) == scope


# --- einsum


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ij,jk->", (3, 4), (4, 5)),
    ("ij->ji", (3, 4)),
    ("ji", (3, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->ij", (3, 3, 2)),
    ("i,j", (3,), (2,)),
    ("i,i", (3,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("ij,ij->j", (3, 2), (3, 2)),
    ("abc,cd,bd->da", (2, 3, 4), (4, 5), (3, 5)),
    ("ba,cb", (3, 2), (4, 3)),
    ("zA,aA", (3, 2), (4, 2)),
    ("EC,CF->EF", (2, 3), (3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk", (2, 3, 4), (2, 4, 5)),
    ("...ij,jk->...ik", (2, 7, 3, 4), (4, 5)),
    ("...i,...i->...", (2, 3, 4), (3, 4)),
    ("...i,...i->...", (2, 1, 4), (3, 4)),
    ("i...,i...->...", (4, 2, 1), (4, 1, 3)),
    ("...", (2, 3)),
    ("...->...", (2, 3)),
    ("i...j->j...i", (2, 3, 4)),
    ("a...b->b", (2, 4)),
    (" i j , j k -> i k ", (3, 4), (4, 5)),
    ("->", ()),
    ("", ()),
    (",i->i", (), (3,)),
    ("i->", (0,)),
    ("i,j->ij", (1,), (3,)),
]


@pytest.mark.parametrize(
    "equation, shapes", [(case[0], case[1:]) for case in EINSUMS], ids=[case[0] for case in EINSUMS]
)
def test_einsum_is_numpys(equation: str, shapes: Any) -> None:
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-3, 4, shape) for name, shape in zip("XYZ", shapes)}
    scope = ea.einsum(equation, *(ea.tensor(name, array.shape) for name, array in arrays.items()))
    expected = np.einsum(equation, *arrays.values())
    result = ea.evaluate(scope, **arrays) if scope.tensors else expected
    assert scope.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


def test_einsum_takes_the_letters_that_opt_einsum_counts_with() -> None:
    letters = [get_symbol(number) for number in range(80)]
    terms = [letters[number] + letters[number + 1] for number in range(79)]
    matrix = ea.tensor("M", (2, 2))
    scope = ea.einsum(f"{','.join(terms)}->{letters[0]}{letters[79]}", *[matrix] * 79)
    assert scope.shape == (2, 2) and len(scope.body.iterators) == 78
    assert ea.parse(str(scope), M=(2, 2)) == scope


def test_einsum_reads_scopes_and_offset_boxes() -> None:
    inner = ea.L[i:2:5, j:4](A[i, j])
    scope = ea.einsum("ij->ji", inner)
    assert scope.box == ((0, 4), (2, 5))
    array = np.arange(48).reshape(8, 6)
    np.testing.assert_array_equal(ea.evaluate(scope, A=array), array[2:5, :4].T)


@pytest.mark.parametrize(
    "equation, operands, kind",
    [
        ("ij,jk->ik", (A,), NotationError),
        ("ij->ij", (A, B), NotationError),
        ("ij->il", (A,), NotationError),
        ("ij->ii", (A,), NotationError),
        ("ij->i->j", (A,), NotationError),
        ("i1->i", (A,), NotationError),
        ("i.j", (A,), NotationError),
        ("...i...", (A,), NotationError),
        ("ij,j€->i€", (A, B), NotationError),
        ("...i->i", (A,), NotationError),
        ("ijk->i", (A,), ShapeError),
        ("i->i", (A,), ShapeError),
        ("ii->i", (A,), ShapeError),
        ("ij,ij->i", (A, B), ShapeError),
        ("ij,jk->ik", (np.ones((2, 3)), B), NotationError),
        (A, (B,), NotationError),
        ("...,...->...", (A, B), ShapeError),
    ],
)
def test_einsum_refuses(equation: Any, operands: Any, kind: Any) -> None:
    with pytest.raises(kind, match=r"\n  \w+"):
        ea.einsum(equation, *operands)


def test_tensor_is_what_the_text_makes_of_a_shape() -> None:
    scope = ea.parse("O[i] = A[i]", A=5)
    assert scope.tensors == {"A": Tensor("A", (5,))}


# Words of the notation as names, functions, and numbers of NumPy.


@pytest.mark.parametrize("word", [*FUNCTIONS, *BINDERS, *CONSTANTS])
def test_words_of_the_notation_name_tensors(word):
    T, A = ea.tensor(word, (3, 4)), ea.tensor("A", (4,))
    i, k = ea.indices("i k")
    scope = ea.L[i](ea.Sum[k](T[i, k] * A[k]) + ea.Max[k](T.pad(0, 1)[i, k]) + sympy.exp(T[i, 0]))
    assert ea.parse(str(scope), A=A, **{word: T}) == scope


@pytest.mark.parametrize("word", [*FUNCTIONS, *BINDERS])
def test_words_of_the_notation_name_indices(word):
    index = ea.indices(word)
    scope = ea.L[index](sympy.Max(ea.tensor("A", (4,))[index], index))
    assert ea.parse(str(scope), A=(4,)) == scope


@pytest.mark.parametrize(
    "function",
    [lambda x: sympy.besselj(0, x), sympy.Heaviside, sympy.sec, lambda x: sympy.exp(sympy.zeta(x))],
)
def test_functions_that_nothing_computes_are_refused(function):
    i = ea.indices("i")
    with pytest.raises(ea.NotationError, match=r"is not a function of the notation\n  known: Abs"):
        ea.L[i](function(ea.tensor("A", (4,))[i]))


def test_functions_of_numpy_say_how_they_are_written():
    A, i, k = ea.tensor("A", (4, 5)), *ea.indices("i k")
    for element in (A[i, k], ea.Sum[k](A[i, k])):
        for function, spelt in ((np.exp, "exp"), (np.arctan, "atan"), (np.abs, "Abs")):
            with pytest.raises(ea.NotationError, match=rf"use SymPy's functions: sympy\.{spelt}\("):
                function(element)
        with pytest.raises(ea.NotationError, match=r"use SymPy's functions: sympy\.Max\("):
            np.maximum(element, 0)
        with pytest.raises(ea.NotationError, match="an array is an input"):
            np.ones(3) * element


def test_numbers_of_numpy_meet_elements():
    A, i = ea.tensor("A", (4,)), ea.indices("i")
    half = np.float64(0.5)
    for one, two in (
        (half + A[i], 0.5 + A[i]),
        (half - A[i], 0.5 - A[i]),
        (half / A[i], 0.5 / A[i]),
        (half ** A[i], 0.5 ** A[i]),
    ):
        assert one == two
    assert (half < A[i]) == (A[i] > 0.5) and half != A[i]
    assert A[i] * half == 0.5 * A[i] and np.add(A[i], 1) == A[i] + 1
