"""What a user reads after a mistake of notation, range, shape or element type: every message in
full (design §13).

The messages stand in tests/golden/errors, input by input; what all of them keep to is tested here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg import errors
from einalg.errors import (
    LONGEST,
    EinalgError,
    NotationError,
    RangeError,
    ShapeError,
    UseError,
    underline,
)

A, B, K = ea.tensor("A", (8, 6)), ea.tensor("B", (6, 5)), ea.tensor("K", (3,))
i, j, k, h, r = ea.indices("i j k h r")

TEXTS = [
    "O[n,f] += A[n,c] * Z[f,c]",
    "O[i,j] = A[i,k]",
    "O[i] = A[i]",
    "O[i,j] = A[i,j,0]",
    "O[i] = A[i,0] * B[i,0]",
    "O[h] += A[h+r-1,0]*K[r]",
    "O[i] = A[i+1,0]",
    "O[i:9] = A[i,0]",
    "O[i:8] = K.pad(1)[i]",
    "O[i,j] = A[i+j,0]",
    "O[i] = A[0,0]",
    "O[i] = A[i//2,0]",
    "O[i] = A",
    "O[i] = A*2",
    "O[i,j] = A[i,j] + B",
    "O[i] = exp",
    "O[i] = Sum(A[i,0])",
    "O[i] = max(A[i,0], 0)",
    "O[i] = relu(A[i,0])",
    "O[i] = foo(A[i,0])",
    "O[i] = A(i,0)",
    "O[i] = A[i,0] if i > 2 else 0",
    "O[i] = A[i,0] and A[i,1]",
    "O[i] = not A[i,0]",
    "O[i] = A[i,0]^2",
    "O[i,j] = A @ B",
    "O[i] = [A[i,0]]",
    "O[i] = sum(A[i,j] for j in J)",
    "O[i] = lambda x: x",
    "O[i] = 'A'",
    "O[i] = (x := A[i,0])",
    "O[i] = f'{A}'",
    "O[i] = exp(*A[i,0])",
    "O[i] = A[i,1:3]",
    "O[i] = A[i,:]",
    "O[i] = A[i,...]",
    "O[i] = A[i,None]",
    "O[i] = A[i,0.5]",
    "O[i] = A[i,i*i]",
    "O[i] = A[i,i/2]",
    "O[i] = A[i,A[i,0]]",
    "O[i] = A[i,i//j]",
    "O[i] = A[i,i//0]",
    "O[i] = A[i, i%-2]",
    "O[2*i] = A[i,0]",
    "O[i,i] = A[i,i]",
    "O[i:] = A[i,0]",
    "O[i:2.5] = A[i,0]",
    "O[i:j] = A[i,0]",
    "O[i:5:2] = A[i,0]",
    "O[E] = A[E,0]",
    "O[i] = Sum[i](A[i,0])",
    "O[i] = Sum[j](A[i,j], 2)",
    "O[i] = Sum[j](A[i,j], were=j<2)",
    "O[i] = L[j](A[i,j])",
    "O = L[i](A[i,j])",
    "O = L[i](A[i,0], where=A[i,0] > 0)",
    "O = L[i](A[i,0], where=i != 2)",
    "O = L[i](A[i,0], where=i)",
    "O = L[i](A[i,0], where=(i > 2) | (i < 1))",
    "O = L[i](A[i,0], where=k > 2)",
    "O = L[i](A[i,0], where=i*i > 2)",
    "O[i] = A.pad(1)[i,0]",
    "O[i] = A.pad(1,-1)[i,0]",
    "O[i] = A.pad(1,(1,2,3))[i,0]",
    "O[i] = A.pad(1,0,fill=i)[i,0]",
    "O[i] = A.pad(1,0,value=0)[i,0]",
    "O[i] = A.pad(0.5,0)[i,0]",
    "O[i] = A.T[i,0]",
    "O[i] = A.pad[i,0]",
    "O[i:4,j:4] = (L[i:4,j:4](A[i,j], where=i>=j))[i,j]",
    "T = L[i:4](A[i,0], where=i>=2)\nO[i] = T[i]",
    "O[i] = (A[i,0] > 0)*2",
    "O[i] = A[i,0]/0",
    "O[i] = sqrt(-1)",
    "O[i] = (-8)**(1/3)*A[i,0]",
    "O[i] = A[i,0]**5000",
    "O[i] = gamma(1000)",
    "O[i] = A[i,0] A[i,1]",
    "O[i] = (A[i,0]",
    "O[i] = A[i,0])",
    "T[i] = A[i,0]\nO[i] = T[i\nP[i] = T[i]",
    "",
    "A[i,j]",
    "O[i] -= A[i,0]",
    "O, P = A[i,0]",
    "O = A[0,0]",
    "O += A[0,0]",
    "O[i] == A[i,0]",
    "import numpy",
    "T[i] = A[i,0]\nA[i] = T[i]",
    "T[i] = A[i,0]\nT[i] = A[i,1]",
    "T[i] = A[i,0]\nL[i](T[i])",
    "O[i] = O[i]",
    "O[é] = A[é,0]*ÿ[é]",
    "O[i:5:3] = A[i,0]",
    "O[h] = Sum[r:20](A[h+r,0])",
    "O[i] = Piecewise((A[i,0], A[i,1]), (0, True))",
    "O[i] = 3(A[i,0])",
    "O[i] = 3[i]",
    "O[i] = True + A[i,0]",
    "O[i] = 1j*A[i,0]",
    "O[i] = None",
    "O[i] = A[i,0] < A[i,1] in A",
    "O[i] = Max(A[i,0])[i]",
    "O[i] = A[i,0][0]",
    "O[i] = (A[i,0], A[i,1])",
    "O[i:0-1] = A[0,0]",
    "O[x y] = A[0,0]",
    "O[i] = " + "7" * 310,
    "O[i] = " + "(" * 90 + "A[i,0]" + ")" * 90,
]
CALLS = [
    "ea.L[i](A[i, j])",
    "ea.L[i](A[i])",
    "ea.L[i](A)",
    "ea.L[i](ea.L[i](K[i]))",
    "ea.L[i](A[i, 0] * B[i, 0])",
    "ea.L[h](ea.Sum[r](A[h + r - 1, 0] * K[r]))",
    "ea.L[i:9](A[i, 0] + K[0])",
    "ea.L[i](A[0, 0])",
    "ea.L[i](ea.Sum[i](A[i, 0]))",
    "ea.L[i, i](A[i, i])",
    "ea.L[2 * i](A[i, 0])",
    "ea.L['i'](A[i, 0])",
    "ea.L[0:4](A[0, 0])",
    "ea.L[i:2.5](A[i, 0])",
    "ea.L[i:j](A[i, j])",
    "ea.L[i:5:2](A[i, 0])",
    "ea.L[i]('A')",
    "ea.L[i]((A[i, 0], 1))",
    "ea.L[i](np.ones(3))",
    "ea.L[i](None)",
    "ea.L[i](sympy.Symbol('x') * A[i, 0])",
    "ea.L[i](sympy.sqrt(-1) * A[i, 0])",
    "ea.L[i](A[i, 0], where=i == 2)",
    "ea.L[i](A[i, 0], where=A[i, 0] > 0)",
    "ea.L[i](A[i, 0], where='i > 2')",
    "ea.Sum(A[i, 0])",
    "ea.Max()",
    "A[i]",
    "A[i, j, 0]",
    "A[i, 1:3]",
    "A[i, ...]",
    "A[i, 'j']",
    "A[i, 0.5]",
    "A[i, i * i]",
    "A[i, A[i, 0]]",
    "A[i, sympy.Symbol('n')]",
    "A[i, True]",
    "A[i, i // 0]",
    "A.pad(1)",
    "A.pad(1, -1)",
    "A.pad(1, '2')",
    "A.pad(1, 0, fill=i)",
    "A.pad(1, 0, fill='x')",
    "ea.tensor('N', (3,), 'i8').pad(1, fill=0.5)",
    "ea.indices('')",
    "ea.indices(3)",
    "ea.indices('a-b')",
    "ea.indices('pi')",
    "ea.tensor('a b', (3,))",
    "ea.tensor('lambda', (3,))",
    "ea.tensor('A', 3)",
    "ea.tensor('A', (3, -1))",
    "ea.tensor('A', (3, 2.5))",
    "ea.tensor('A', (3, None))",
    "ea.tensor('A', 'ab')",
    "ea.tensor('A', (3,), 'f8')",
    "ea.tensor('A', (3,), 'complex64')",
    "ea.tensor('A', (3,), role='bias')",
    "bool(A)",
    "len(A)",
    "list(A)",
    "1 in A",
    "A < B",
    "A + B",
    "np.ones(3) * A",
    "ea.einsum('ij,jk->ik', A)",
    "ea.einsum('ij->il', A)",
    "ea.einsum('ij->ii', A)",
    "ea.einsum('i1->i', A)",
    "ea.einsum('i...j...', A)",
    "ea.einsum('...i->i', A)",
    "ea.einsum('ijk->i', A)",
    "ea.einsum('ij,ij->i', A, B)",
    "ea.einsum('ij->i', np.ones((2, 2)))",
    "ea.einsum(A, 'ij')",
    "ea.einsum('...,...->...', A, B)",
    "ea.evaluate(ea.L[i, j](A[i, j]))",
    "ea.evaluate(ea.L[i, j](A[i, j]), A=np.ones((6, 8)))",
    "ea.evaluate(ea.L[i, j](A[i, j]), A=np.ones((8, 6)), B=1)",
    "ea.evaluate(A)",
    "ea.parse(b'O[i] = A[i,0]', A=A)",
    "ea.parse('O[i] = A[i]', A='8')",
    "ea.parse('O[i] = A[i]', A=(8, 'x'))",
    "ea.parse('O[i] = A[i]', A=None)",
    "ea.L[i](A[i,0], where=sympy.Ne(i,2))",
    "ea.Program([])",
    "A @ B",
    "2 - A",
    "A.T",
    "A.sum(axis=1)",
    "A.reshape(6, 8)",
    "A.colour",
    "ea.L(A[i, j])",
    "ea.Sum(A, axis=1)",
    "ea.Sum[j](A[i, j], axis=1)",
    "ea.indices(['i', 'j'])",
    "ea.indices('i', 'j')",
    "ea.tensor('A', np.ones((8, 6)))",
    "ea.tensor('A', shape=(8, 6), type='f32')",
    "ea.parse('O[i] = A[i]', {'A': (8,)})",
    "ea.parse(text='O[i] = A[i]', A=A)",
    "ea.prove('O[i] = A[i,0]', 'O[i] = A[i,0]', A=A, a=A)",
    "ea.parse('O[i] = A[i]', A=np.ones(8))",
    "ea.Tensor('A', (8, 6))",
    "ea.ops.Conv2d(4, 6, 3)",
    "ea.ops.softmax(A, dim=1)",
    "ea.ops.sum(A, axis=1, keepdim=True)",
    "ea.ops.reshape(A, 6, 8)",
    "ea.ops.matmul(A, np.ones((6, 5)))",
    "ea.ops.matmul(A)",
    "ea.derive('O[i] = A[i,0]', A=A, time=3)",
    "ea.derive('O[i] = A[i,0]', A=A, ops=['conv'])",
    "ea.derive('O[i] = A[i,0]', A=A, rules=['stagin'])",
    "ea.distance('O[i] = A[i,0]', 'gemm', A=A)",
    "ea.prove('O[i] = A[i,0]', A=A)",
]
WITHOUT_PLACE = ("", TEXTS[-1])  # nothing to point at


def message_of(call: Callable[[], Any]) -> EinalgError:
    with pytest.raises(EinalgError) as caught:
        call()
    return caught.value


def shown(title: str, error: EinalgError) -> str:
    public = next(kind for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return f"### {title}\n{public.__name__}\n{error.message}\n"


def of_text(text: str) -> EinalgError:
    return message_of(lambda: ea.parse(text, A=A, B=B, K=K))


def of_call(call: str) -> EinalgError:
    known = {
        "ea": ea,
        "np": np,
        "sympy": sympy,
        "A": A,
        "B": B,
        "K": K,
        "i": i,
        "j": j,
        "k": k,
        "h": h,
        "r": r,
    }
    return message_of(lambda: eval(call, known))


def test_every_message_of_the_text_door(golden: Any) -> None:
    golden(
        "errors/text.txt",
        "\n".join(
            shown(text if len(text) < 200 else f"{text[:60]} …", of_text(text)) for text in TEXTS
        ),
    )


def test_every_message_of_the_python_door(golden: Any) -> None:
    golden("errors/python.txt", "\n".join(shown(call, of_call(call)) for call in CALLS))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:50])
def test_a_message_shows_the_place_the_fault_and_a_remedy(text: str) -> None:
    error = of_text(text)
    lines = error.message.split("\n")
    assert lines[-1].startswith("  ") and lines[-1].strip()
    if text in WITHOUT_PLACE:
        return
    assert error.placed and str(error) == f"\n{error.message}"
    assert any(
        lines[0] == line.strip() if len(line) <= LONGEST else lines[0].strip("… ") in line
        for line in text.split("\n")
    )
    assert set(lines[1]) <= {" ", "^"} and len(lines[1]) <= len(lines[0]) + 1
    assert not lines[2].startswith(" ")


@pytest.mark.parametrize("call", CALLS)
def test_a_message_of_the_python_door_has_a_remedy(call: str) -> None:
    assert str(of_call(call)).split("\n")[-1].startswith("  ")


EXACT = [
    (
        "O[n,f] += A[n,c] * Z[f,c]",
        NotationError,
        """
O[n,f] += A[n,c] * Z[f,c]
                   ^
unknown tensor 'Z'
  known: A, B, K
  give its shape: parse(..., Z=(8, 6))""",
    ),
    (
        "T[i] = A[i,0]\n  O[i] = T[i] * B[i+1, 2]",
        RangeError,
        """
O[i] = T[i] * B[i+1, 2]
                ^^^
i + 1 reads [1,9) of B axis 0, which holds [0,6)
  pad it: B.pad((0, 3), 0), or narrow an index""",
    ),
    (
        "O[i] = A[i]",
        ShapeError,
        """
O[i] = A[i]
       ^^^^
A has 2 axes, but is indexed with 1: [i]
  give one subscript an axis: [i, j]""",
    ),
    (
        "O[i] = A[i,0]*(A[i,1] + Ä[j])",
        NotationError,
        """
O[i] = A[i,0]*(A[i,1] + Ä[j])
                        ^
unknown tensor 'Ä'
  known: A, B, K
  give its shape: parse(..., Ä=(8,))""",
    ),
    (
        "O[i] = Max[j](A[i,j]) +\\\n  Sum[k](A[k,i])",
        RangeError,
        """
Sum[k](A[k,i])
           ^
index i has two sizes: 8 (A axis 0) and 6 (A axis 1)
  write i:6 where it is bound, or use two indices""",
    ),
]


@pytest.mark.parametrize("text, kind, message", EXACT, ids=[case[0] for case in EXACT])
def test_exact(text: str, kind: Any, message: str) -> None:
    error = of_text(text)
    assert type(error) is kind
    assert error.message == message.strip("\n")


def test_the_family() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EinalgError)
    ]
    names = "EinalgError NotationError UseError RangeError ShapeError RuleError MatchError CodegenError DeviceError RecordError"
    assert {kind.__name__ for kind in kinds} >= set(names.split())
    assert (
        issubclass(NotationError, ValueError)
        and issubclass(RangeError, ValueError)
        and issubclass(UseError, TypeError)
    )
    assert all(getattr(ea, name) is getattr(errors, name) for name in names.split())


def test_errors_survive_pickling() -> None:
    error = of_text("O[i] = A[i,9]")
    made = pickle.loads(pickle.dumps(error))
    assert (
        type(made) is type(error)
        and str(made) == str(error)
        and made.placed
        and made.about == error.about
    )


def test_nothing_of_the_inside_is_shown() -> None:
    """The chain of exceptions ends at the message: a user mends the call without reading our code."""
    error = of_text("O[i] = A[i,9]")
    assert error.__suppress_context__ or error.__context__ is None


def test_underline() -> None:
    assert underline("a + b", 4) == "a + b\n    ^"
    assert underline("x\na + b\ny", 0, 3, 2) == "a + b\n^^^"
    assert underline("", 0, 0) == "\n^"


@pytest.mark.parametrize("column", [0, 40, 500, 2000, 4998])
def test_a_long_line_is_shown_around_the_place(column: int) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(5000))
    shown, carets = underline(text, column, 2).split("\n")
    assert (
        len(shown) < 260
        and shown[carets.index("^") :][:2] == text[column : column + 2]
        and carets.count("^") == 2
    )
    assert shown.startswith("… ") == (column > 100) and shown.endswith(" …") == (column < 4000)
    assert underline(text, column, 5000).count("^") <= 240
    assert underline("x", 0, line=9) == "x\n^"
