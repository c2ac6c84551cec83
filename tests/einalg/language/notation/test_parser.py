"""The text door: statements, programs, layout, names, numbers, functions; what it reads and what it
does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import NotationError, ShapeError
from einalg.language.conditions import TESTS
from einalg.language.conversion import CONVERSIONS
from einalg.language.index.affine import Index
from einalg.language.index.constraint import constraints
from einalg.language.ir.functions import FUNCTIONS
from einalg.language.ir.program import Program
from einalg.language.notation.grammar import CONSTANTS, MAX_DEPTH, MAX_TEXT
from einalg.language.notation.parser import parse_value

A, B = ea.tensor("A", (4, 3)), ea.tensor("B", (3, 5))
i, j, k = ea.indices("i j k")


def body(text: str) -> Any:
    """The body of `O[i, j] = text`."""
    return ea.parse(f"O[i, j] = {text}", A=A, B=B).body


# --- statements and programs


def test_one_statement_is_a_scope_and_several_are_a_program() -> None:
    assert isinstance(ea.parse("O[i,j] = A[i,j]", A=A), ea.Scope)
    program = ea.parse("T[i,j] = A[i,j]\nO[i] += T[i,j]", A=A)
    assert (
        isinstance(program, Program) and program.names == ("T", "O") and program.outputs == ("O",)
    )


def test_an_accumulating_statement_sums_what_is_on_the_right_only() -> None:
    assert ea.parse("O[i,k] += A[i,j]*B[j,k]", A=A, B=B) == ea.L[i, k](ea.Sum[j](A[i, j] * B[j, k]))
    assert ea.parse("O[i,j] += A[i,j]", A=A) == ea.L[i, j](A[i, j])
    assert ea.parse("O[i] += Max[j](A[i,j])", A=A) == ea.L[i](ea.Max[j](A[i, j]))
    with pytest.warns(ea.RepeatedTermWarning):
        repeated = ea.parse("O[i] += A[i,j] + B[0,0]", A=A, B=B)
    assert repeated == ea.L[i](ea.Sum[j](A[i, j] + B[0, 0]))
    assert ea.parse("O[k] += A[i,j]*B[j,k]", A=A, B=B) == ea.L[k](ea.Sum[i, j](A[i, j] * B[j, k]))
    assert ea.parse("O[i] += A[i,j]*k*B[0,k]", A=A, B=B) == ea.L[i](
        ea.Sum[j, k](A[i, j] * k * B[0, k])
    )


LAYOUTS = [
    "T[i,j] = A[i,j]\nO[i] += T[i,j]",
    "\n\nT[i,j] = A[i,j]\n\nO[i] += T[i,j]\n\n",
    "    T[i,j] = A[i,j]\n    O[i] += T[i,j]\n    ",
    "\n        T[i,j] = A[i,j]\n    O[i] += T[i,j]",
    "T[i,j] = A[i,j]; O[i] += T[i,j]",
    "T[i,j] = (A[i,\n   j])\n   O[i] += T[i,j]",
    "  T[i,j] = A[\n  i,\nj\n]\n  O[i] += T[i,j]",
    "# a comment (with a bracket\nT[i,j] = A[i,j]  # [ another\nO[i] += T[i,j]",
    "T[i,j] = A[i,j]\r\nO[i] += T[i,j]\r\n",
    "T[i,j] = A[i,j]\rO[i] += T[i,j]",
    "\tT[i,j] = A[i,j]\n\tO[i] += T[i,j]",
    "T[i,j] = \\\n A[i,j]\nO[i] += T[i,j]",
    "T = L[i, j](A[i,j])\nO = L[i](Sum[j](T[i,j]))",
    "T[i:4, j:3] = A[i,j]\nO[i:4] = Sum[j:3](T[i,j])",
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_layout_means_nothing(text: str) -> None:
    assert ea.parse(text, A=A) == ea.parse(LAYOUTS[0], A=A)


def test_names_of_tensors_may_be_anything_and_of_indices_nearly() -> None:
    """What a name means follows from where it stands, so that models may call their tensors as they
    like.
    """
    shapes = {
        "E": (4,),
        "L": (4,),
        "Sum": (4,),
        "gamma": (4,),
        "exp": (4,),
        "pi": (4,),
        "Max": (4,),
        "i": (4,),
        "pad": (4,),
    }
    tensors = {name: ea.tensor(name, shape) for name, shape in shapes.items()}
    text = "L[i:4](E[i] + L[i]*Sum[r:4](Sum[r]) + gamma[i]*gamma(exp[i]) + exp(pi[i])*pi + Max(Max[i], i[i])*i + E*pad.pad(1)[i])"
    scope = ea.parse(text, **tensors)
    assert set(scope.tensors) == set(shapes)
    assert ea.parse(str(scope), **tensors) == scope
    (named_like_a_function,) = (ea.parse("O[exp, L] = A[exp, L]", A=A),)
    assert (
        ea.parse(str(named_like_a_function), A=A)
        == named_like_a_function
        == ea.parse("O[i,j] = A[i,j]", A=A)
    )


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_a_constant_is_no_index(name: str) -> None:
    with pytest.raises(NotationError, match="is a constant of the notation"):
        ea.parse(f"O[{name}] = A[{name}, 0]", A=A)


def test_unicode_names() -> None:
    scope = ea.parse("Ω[α, β] = Ä[α, β] * α", Ä=(4, 3))
    assert list(scope.tensors) == ["Ä"] and ea.parse(str(scope), Ä=(4, 3)) == scope


def test_shapes_may_be_given_in_many_ways() -> None:
    for given in ((4,), [4], 4, np.array([4]), ea.tensor("A", (4,)), ((0, 4),)):
        assert ea.parse("O[i] = A[i]", A=given).shape == (4,)
    scope = ea.L[i:2:5](A[0, i - 2])
    assert ea.parse("O[i] = S[i]", S=scope).box == ((2, 5),)


# --- bodies


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1", sympy.Integer(1)),
        ("-3", sympy.Integer(-3)),
        ("+3", sympy.Integer(3)),
        ("1/3", sympy.Rational(1, 3)),
        ("7//2", sympy.Integer(3)),
        ("-7//2", sympy.Integer(-4)),
        ("-7%3", sympy.Integer(2)),
        ("2**10", sympy.Integer(1024)),
        ("2**-1", sympy.Rational(1, 2)),
        ("2**(1/2)", sympy.sqrt(2)),
        ("0.1", sympy.Float(0.1)),
        ("1e-3", sympy.Float(1e-3)),
        ("1_000", sympy.Integer(1000)),
        ("0x10", sympy.Integer(16)),
        ("1e999", sympy.oo),
        ("-inf", -sympy.oo),
        ("oo", sympy.oo),
        ("pi", sympy.pi),
        ("E", sympy.E),
        ("True", sympy.true),
        ("A[i,j]", A[i, j]),
        ("((A[i,j]))", A[i, j]),
        ("A[i,j]/3", A[i, j] / 3),
        ("2/3*A[i,j]", sympy.Rational(2, 3) * A[i, j]),
        ("-A[i,j]**2", -(A[i, j] ** 2)),
        ("A[i,j]**-1", 1 / A[i, j]),
        ("A[i,j]**(1/2)", sympy.sqrt(A[i, j])),
        ("2**A[i,j]", 2 ** A[i, j]),
        ("1/A[i,j]/A[j,j]", 1 / A[i, j] / A[j, j]),
        ("A[i,j] - (A[j,j] - 1)", A[i, j] - A[j, j] + 1),
        ("i", i),
        ("2*i + j - 1", sympy.Add(-1, sympy.Mul(2, i), j)),
        ("i*j", sympy.Mul(i, j)),
        ("i/2", sympy.Mul(sympy.Rational(1, 2), i)),
        ("i**2", i**2),
        ("A[i,j] > 0", sympy.StrictGreaterThan(A[i, j], 0)),
        ("A[i,j] == 0", sympy.Eq(A[i, j], 0)),
        ("A[i,j] != 0", sympy.Ne(A[i, j], 0)),
        ("0 <= A[i,j] < 2", sympy.And(A[i, j] >= 0, A[i, j] < 2)),
        ("(A[i,j] > 0) & (i < 2)", sympy.And(A[i, j] > 0, i < 2)),
        ("(A[i,j] > 0) | ~(A[j,j] < 2)", sympy.Or(A[i, j] > 0, A[j, j] >= 2)),
        ("1 < 2", sympy.true),
        ("Max(A[i,j], 0, i)", sympy.Max(A[i, j], 0, i)),
        ("Min(A[i,j], 3)", sympy.Min(A[i, j], 3)),
        ("Piecewise((1, A[i,j] > 0), (2, True))", sympy.Piecewise((1, A[i, j] > 0), (2, True))),
        ("atan2(A[i,j], 2)", sympy.atan2(A[i, j], 2)),
        ("exp(0)", sympy.Integer(1)),
        ("sqrt(8)", 2 * sympy.sqrt(2)),
    ],
)
def test_bodies(text: str, expected: Any) -> None:
    found = ea.parse(f"O[i:3, j:3] = {text}", A=(5, 5)).body
    assert (
        found == expected.xreplace({})
        if expected.is_number
        else str(found) == str(ea.L[i:3, j:3](_on(expected)).body)
    )


def _on(expression: Any) -> Any:
    """The expression over a 5 by 5 tensor A."""
    square = ea.tensor("A", (5, 5))
    return expression.xreplace({a: square[a.subscripts] for a in expression.atoms(type(A[i, j]))})


@pytest.mark.parametrize(
    "name",
    sorted(
        set(FUNCTIONS)
        - {"Piecewise", "Eq", "Ne", "And", "Or", "Not", "Mod", "Quotient", "Max", "Min", "atan2"}
        - {test.__name__ for test in TESTS}
        - set(CONVERSIONS)
    ),
)
def test_every_function_of_one_argument(name: str) -> None:
    scope = ea.parse(f"O[i, j] = {name}(A[i, j])", A=A)
    assert scope.body == getattr(sympy, name)(A[i, j])
    assert ea.parse(str(scope), A=A) == scope


@pytest.mark.parametrize(
    "text, expected",
    [
        ("where=j <= i", "j <= i"),
        ("where=i > j", "i - 1 >= j"),
        ("where=(j <= i, i + j >= 2)", "(i + j >= 2, i >= j)"),
        ("where=(j <= i) & (i + j >= 2)", "(i + j >= 2, i >= j)"),
        ("where=0 <= i - j <= 1", "(j + 1 >= i, i >= j)"),
        ("where=Eq(i, j)", "Eq(i, j)"),
        ("where=i == j", "Eq(i, j)"),
        ("where=i%2 == 0", "Eq(i%2, 0)"),
        ("where=i//2 >= j", "i//2 >= j"),
        ("where=2*i >= 4", "i >= 2"),
        ("where=i >= i", None),
        ("where=True", None),
        ("where=None", None),
        ("where=()", None),
        ("where=i < i", "0 <= -1"),
    ],
)
def test_conditions(text: str, expected: str | None) -> None:
    if text == "where=None":
        with pytest.raises(NotationError, match="None is not a number"):
            ea.parse(f"L[i, j](A[i, j], {text})", A=A)
        return
    scope = ea.parse(f"L[i, j](A[i, j], {text})", A=A)
    again = (
        ea.parse(f"L[i, j](A[i, j], where={expected})", A=A)
        if expected
        else ea.parse("L[i, j](A[i, j])", A=A)
    )
    assert scope == again and bool(scope.where) == bool(expected)
    assert ea.parse(str(scope), A=A) == scope


def test_padding() -> None:
    views = {
        "A.pad(1, 2)": A.pad(1, 2),
        "A.pad((1, 0), (0, 2))": A.pad((1, 0), (0, 2)),
        "A.pad(1, 0, fill=-inf)": A.pad(1, 0, fill=-sympy.oo),
        "A.pad(1, 0, fill=1/2)": A.pad(1, 0, fill=sympy.Rational(1, 2)),
        "A.pad(1, 0, fill=0.5)": A.pad(1, 0, fill=0.5),
        "A.pad(1, 0, fill=-1).pad(0, 1)": A.pad(1, 0, fill=-1).pad(0, 1),
        "(L[i, j](A[i, j])).pad(1, 0)": ea.L[i, j](A[i, j]).pad(1, 0),
    }
    for text, view in views.items():
        assert ea.parse(f"O[i:3, j:3] = {text}[i, j]", A=A) == ea.L[i:3, j:3](view[i, j])
        assert str(view) == text.replace("i, j](A[i, j])", "i:4, j:3](A[i, j])")


DIVIDED = [
    ("i//(j+1)", lambda i, j: i // (j + 1)),
    ("(i-4) % (2*j-3)", lambda i, j: (i - 4) % (2 * j - 3)),
    ("(2*i-7)//(2*j-3)", lambda i, j: (2 * i - 7) // (2 * j - 3)),
    ("i//2 % (j+1) - 7//(i+1)", lambda i, j: i // 2 % (j + 1) - 7 // (i + 1)),
    ("Sum[k:4](i//(k+j+1))", lambda i, j: sum(i // (k + j + 1) for k in range(4))),
]


@pytest.mark.parametrize(("text", "value"), DIVIDED)
def test_an_index_divided_by_another_is_a_number(text: str, value: Any) -> None:
    scope = ea.parse(f"O[i:6, j:3] = {text}")
    expected = [[value(i, j) for j in range(3)] for i in range(6)]
    assert ea.evaluate(scope).tolist() == expected
    assert ea.parse(str(scope)) == scope


@pytest.mark.parametrize("place", ["A[i//(j+1), 0]", "Sum[k:6](A[0, 0], where=k % (j+1) == i)"])
def test_an_index_divided_by_another_is_no_subscript(place: str) -> None:
    with pytest.raises(ea.NotationError, match=r"not quasi-affine|not index arithmetic"):
        ea.parse(f"O[i:3, j:3] = {place}", A=A)


# --- what is not read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n  ",
        "# nothing",
        "A[i, j]",
        "O",
        "3",
        "O[i] = ",
        "O[i] == A[i,0]",
        "O[i] -= A[i,0]",
        "O[i] *= A[i,0]",
        "O = P = L[i](A[i,0])",
        "O, P = L[i](A[i,0])",
        "O += L[i](A[i,0])",
        "O[i][j] = A[i,j]",
        "O.x = A[0,0]",
        "O: int = 3",
        "O = A[0,0]",
        "O = A",
        "O[2*i] = A[i,0]",
        "O[i:2:3:4] = A[i,0]",
        "O[:] = A[0,0]",
        "O[i:] = A[i,0]",
        "O[...] = A[0,0]",
        "O[None] = A[0,0]",
        "O['i'] = A[0,0]",
        "O[i:True] = A[i,0]",
        "O[*i] = A[i,0]",
        "O[i] = A[i]",
        "O[i] = A[i,0,0]",
        "O[i] = A[i,:]",
        "O[i] = A[i,None]",
        "O[i] = A[i,...]",
        "O[i] = A[i,'0']",
        "O[i] = A[i,0.5]",
        "O[i] = A[i,1/2]",
        "O[i] = A[i,i*i]",
        "O[i] = A[i,True]",
        "O[i] = A[i,A[i,0]]",
        "O[i] = A[i,0](1)",
        "O[i] = A(i,0)",
        "O[i] = A.T[i,0]",
        "O[i] = A.pad(1,0,2)[i,0]",
        "O[i] = A.pad(-1,0)[i,0]",
        "O[i] = A.pad(1,0,fill=i)[i,0]",
        "O[i] = A.pad(1,0,fil=0)[i,0]",
        "O[i] = A.pad[i,0]",
        "O[i] = 3[i]",
        "O[i] = i[0]",
        "O[i] = (A[i,0])[i]",
        "O[i] = L",
        "O[i] = L[i]",
        "O[i] = L(A[i,0])",
        "O[i] = Sum(A[i,0])",
        "O[i] = Sum[j]",
        "O[i] = Sum[j]()",
        "O[i] = Sum[j](A[i,j], 1, 2)",
        "O[i] = Sum[j](A[i,j], were=i >= j)",
        "O[i] = Sum[2](A[i,0])",
        "O[i] = exp",
        "O[i] = exp()",
        "O[i] = exp(A[i,0], 1)",
        "O[i] = exp(A[i,0], evaluate=False)",
        "O[i] = exp(*A[i,0])",
        "O[i] = exp(**A[i,0])",
        "O[i] = exp(A)",
        "O[i] = foo(A[i,0])",
        "O[i] = A[i,0] if i else 0",
        "O[i] = A[i,0] and 0",
        "O[i] = not A[i,0]",
        "O[i] = A[i,0] in i",
        "O[i] = A[i,0] is i",
        "O[i] = A[i,0] ^ 2",
        "O[i] = A[i,0] @ B[0,0]",
        "O[i] = A[i,0] << 2",
        "O[i] = lambda: A[i,0]",
        "O[i] = [A[i,0] for i in i]",
        "O[i] = {A[i,0]}",
        "O[i] = {1: A[i,0]}",
        "O[i] = [A[i,0]]",
        "O[i] = (A[i,0], A[i,1])",
        "O[i] = f'{A[i,0]}'",
        "O[i] = 'A'",
        "O[i] = b'A'",
        "O[i] = 1j",
        "O[i] = ...",
        "O[i] = None",
        "O[i] = (x := A[i,0])",
        "O[i] = await A[i,0]",
        "O[i] = (yield A[i,0])",
        "O[i] = __import__('os')",
        "O[i] = A.__class__[i,0]",
        "O[i] = A[i,0].subs",
        "O[i] = A[i,0]/0",
        "O[i] = 0**-1",
        "O[i] = i//0",
        "O[i] = i%0",
        "O[i] = sqrt(-1)",
        "O[i] = log(0)*0",
        "O[i] = inf - inf",
        "O[i] = (A[i,0] > 0)*2",
        "O[i] = -(A[i,0] > 0)",
        "O[i] = Piecewise(A[i,0])",
        "O[i] = Piecewise((A[i,0],))",
        "O[i] = Piecewise((A[i,0], A[i,1]), (0, True))",
        "O[i] = 2**10000",
        "O[i] = A[i,0]**100000",
        "O[i] = " + "9" * 400,
        "O[i] = gamma(100000)",
        "import os",
        "def f(): pass",
        "for i in A: pass",
        "return A",
        "assert A",
        "del A",
        "pass",
        "global x",
        "with A: pass",
        "if A: pass",
        "class A: pass",
        "@A\ndef f(): pass",
        "raise A",
        "O[i] = A[i,0]\nA[i] = O[i]",
        "O[i] = A[i,0]\nO[i] = A[i,1]",
        "O[i] = O[i]",
        "O[i] = A[i,0]\nL[i](A[i,0])",
        "L[i](A[i,0])\nO[i] = A[i,0]",
        "O[i] = A[i,0]\n   P[j] = (A[j,0]",
        "O[i] = A[i,0] B[i,0]",
        "O[i] = A[i,0]\x00",
        "O[i] = \ud800",
        "O[i] = A[i,0]; import os",
        "type X = int",
        "print A",
        "O[i] = A[i,0] $ 2",
        "O[i] = 012",
        "O[i] = " + "(" * 300 + "A[i,0]" + ")" * 300,
        "O[i] = " + "-" * 100_000 + "A[i,0]",
        "O[i] = " + "A[i,0]**" * 3000 + "2",
        "O[i] = " + "exp(" * 70 + "A[i,0]",
        "x" * (MAX_TEXT + 1),
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_refused(text: str) -> None:
    with pytest.raises((NotationError, ShapeError), match=r"."):
        ea.parse(text, A=A, B=B)


@pytest.mark.parametrize(
    "text, message",
    [
        ("O[i] = A[i,0].pad(1,\n1)", r"\^{13}\n.*\n  write A\.pad\(1, 1\)\[i, 0\]"),
        ("O[i] = A[i,0].pad(1)", r"write A\.pad\(1, 1\)\[i, 0\]"),
        ("O[i] = (A[i,0]\n B[i,0])", r"\n        \^\n.*\n  write O\[i\] = \(A\[i,0\]\)"),
        ("O[i] = A[i,0] | A[i,1]", "has no bits\n  conditions are joined in brackets"),
        (f"O[i] = Max({', '.join(['A[i,0]'] * 65)})", r"at most 64 are read\n  write a reduction"),
        ("O[i] = A(foo(i), 0)", r"subscripts in square brackets: A\[i, j\]"),
        ("L[i](Z.pad(1))", r"Z=\(8, 64\)"),
        ("O[i] = (Z.pad(1))[i]", r"Z=\(8,\)"),
        ("O[i,j] = A[i,j] + (Z).pad(1,1)[i,j]", r"Z=\(4, 3\)"),
    ],
)
def test_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(NotationError, match=message):
        ea.parse(text, A=A, B=B)


def test_an_infinity_among_the_arguments_of_an_extremum() -> None:
    assert ea.parse("O[i] = Max(A[i,0], -inf, A[i,1])", A=A) == ea.parse(
        "O[i] = Max(A[i,0], A[i,1])", A=A
    )


@pytest.mark.parametrize("value", [None, 3, b"O[i] = A[i,0]", ["O[i] = A[i,0]"], A])
def test_only_text_is_parsed(value: Any) -> None:
    with pytest.raises(NotationError, match=r"parse\(\) takes text, not"):
        ea.parse(value, A=A)


def test_deep_but_allowed() -> None:
    nested = "(" * (MAX_DEPTH - 1) + "A[i,j]" + ")" * (MAX_DEPTH - 1)
    assert body(nested) == A[i, j]


def test_a_long_sum_is_read() -> None:
    assert len(body(" + ".join(f"{n}*A[i,j]**{n}" for n in range(1, 200))).args) == 199


def test_big_numbers_are_read_back() -> None:
    scope = ea.L[i, j](A[i, j] * 10**200 + sympy.Rational(1, 3**200))
    assert ea.parse(str(scope), A=A) == scope


# --- names that are not there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("O[i] = Mean[j](A[i,j])", r"no reduction Mean\n  known: Sum, Max, Min, Prod"),
        ("O[i] = T[i]\nT[i] = A[i,0]", r"T is defined below\n  statements come before"),
        ("O[i] = T[i]\nT[i] = A[i,0]\nO", "T is defined below"),
        ("O[i] = O[i] + A[i,0]", "the statement O reads itself"),
        ("O[i] = Q[i]\nT[i] = A[i,0]", "unknown tensor 'Q'"),
        ("O[i,j] = 3(A[i,j])", "write a product"),
    ],
)
def test_what_is_not_there_is_told(text: str, message: str) -> None:
    with pytest.raises(NotationError, match=message):
        ea.parse(text, A=A)


# --- single values


def test_parse_value() -> None:
    h, r = Index("h"), Index("r")
    assert parse_value("2*h + r - 1") == 2 * h + r - 1
    assert parse_value("(h + 1)//2 % 3") == ((h + 1) // 2) % 3
    assert parse_value("h >= r") == sympy.GreaterThan(h, r)
    assert constraints(parse_value("Eq(h, 2*r)")) == constraints(sympy.Eq(h, 2 * r))
    assert parse_value("exp") == Index("exp")


@pytest.mark.parametrize("text", ["", "h = 2", "h\nr", "h +", "h[0]", "f(h)"])
def test_parse_value_refuses(text: str) -> None:
    with pytest.raises(NotationError):
        parse_value(text)
