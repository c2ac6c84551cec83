"""Programs: order, names, outputs; statements and nested scopes as two spellings of one thing."""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import NotationError
from einalg.language.ir.program import (
    Program,
    as_program,
    inlined,
    statement_tensor,
    substitute_tensors,
)
from einalg.language.ir.tensor import Tensor
from einalg.testing import strategies

i, j = ea.indices("i j")
A, W = ea.tensor("A", (4, 3)), ea.tensor("W", (3,), role="weight")
TEXT = "T[i] += A[i,j]*W[j]\nU[i] = T[i] + 1\nO[i] = T[i]*U[i]"


def program(text: str = TEXT, **tensors: Any) -> Program:
    return ea.parse(text, **{"A": A, "W": W, **tensors})


def test_parts() -> None:
    made = program()
    assert made.names == ("T", "U", "O") and made.outputs == ("O",)
    assert made.tensors == {"A": A, "W": W}
    assert made["U"] == ea.L[i](Tensor("T", (4,), "f32", "intermediate")[i] + 1)
    assert made.result == made["O"]
    assert [name for name, _ in made] == ["T", "U", "O"]
    assert made.free_symbols == set()


def test_what_nothing_reads_is_an_output() -> None:
    assert program("T[i] = A[i,0]\nU[i] = A[i,1]\nO[i] = T[i]").outputs == ("U", "O")
    assert Program(program().statements, ["T", "O"]).outputs == ("T", "O")


def test_equality_copies_and_text() -> None:
    made = program()
    other = program("T[x] += A[x,y]*W[y]\nU[y] = T[y] + 1\nO[j] = T[j]*U[j]")
    assert made == other and hash(made) == hash(other)
    assert made != program(TEXT.replace("+ 1", "+ 2")) and made != Program(
        made.statements, ["T", "O"]
    )
    assert made != program(TEXT.replace("U", "V"))
    assert pickle.loads(pickle.dumps(made)) == made
    assert Program(*cast(Any, made.args)) == made
    assert (
        str(made)
        == repr(made)
        == "T[i:4] = Sum[j:3](A[i, j]*W[j])\nU[i:4] = T[i] + 1\nO[i:4] = T[i]*U[i]"
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Program([]), "a program needs at least one statement"),
        (
            lambda: Program([*program().statements, ("U", program()["U"])]),
            "U is assigned twice\n  give the second statement a name of its own",
        ),
        (
            lambda: Program(program().statements, ["X"]),
            r"output X is not a statement\n  the statements are T, U, O",
        ),
        (lambda: Program(program().statements[1:]), "statement U reads T before it is assigned"),
        (lambda: Program(program().statements[::-1]), "statement O reads T before it is assigned"),
        (
            lambda: Program([("T", ea.L[i:3](A[i, 0])), *program().statements[1:]]),
            "statement U reads T with another shape or dtype than it has",
        ),
        (
            lambda: Program([("T", ea.L[i:4](A[i, 0] > 0)), *program().statements[1:]]),
            "statement U reads T with another shape or dtype than it has",
        ),
        (
            lambda: Program([("A", ea.L[i, j](A[i, j]))]),
            "A is an input of statement A and also the name of a statement\n  rename one of them",
        ),
        (lambda: program()["X"], r"the program has no statement 'X'\n  the statements are T, U, O"),
        (
            lambda: Program(program().statements, ["T", "O"]).result,
            r"the program has 2 outputs: T, O\n  name one: program\['T'\]",
        ),
        (lambda: as_program(3), r"expected a tensor expression \(a scope or a program\), not int"),
        (
            lambda: as_program(A[i, j]),
            r"expected a tensor expression \(a scope or a program\), not Access",
        ),
    ],
)
def test_what_is_no_program(make: Any, message: str) -> None:
    with pytest.raises(NotationError, match=message):
        make()


def test_a_scope_is_a_program_of_one_statement() -> None:
    scope = ea.L[i](A[i, 0])
    assert as_program(scope).statements == (("O", scope),)
    assert as_program(scope, "X").names == ("X",)
    assert as_program(ea.parse("P[i] = O[i] + O_[i]", O=(3,), O_=(3,))).names == ("O__",)
    assert as_program(program()) == program()


def test_a_statement_replaced() -> None:
    made = program().replaced("U", ea.L[i](statement_tensor("T", program()["T"])[i] - 1))
    assert made == program(TEXT.replace("+ 1", "- 1"))


def test_inlined() -> None:
    made = inlined(program())
    t = ea.L[i](ea.Sum[j](A[i, j] * W[j]))
    assert made == ea.L[i](t[i] * ea.L[i](t[i] + 1)[i])
    assert inlined(program(), "U") == ea.L[i](t[i] + 1)
    with pytest.raises(NotationError, match="has 2 outputs"):
        inlined(Program(program().statements, ["T", "O"]))


def test_tensors_substituted_at_any_depth() -> None:
    scope = ea.L[i](ea.L[j](W[j] + 1).pad(1)[i - 1] * A[i, 0])
    replaced = substitute_tensors(scope, {"W": ea.tensor("V", (3,))})
    assert str(replaced) == str(scope).replace("W", "V")
    assert substitute_tensors(scope, {"X": W}) is scope and substitute_tensors(scope, {}) is scope


def test_shared_inner_scopes_stay_shared() -> None:
    t = ea.L[i:4](A[i, 0])
    replaced = substitute_tensors(ea.L[i:4](t[i] * t[3 - i]), {"A": ea.tensor("B", (4, 3))})
    one, other = (access.base for access in replaced.body.args)
    assert one is other


def test_a_long_chain_of_shared_statements_is_not_exponential() -> None:
    text = "\n".join(["T0[i] = A[i,0]", *(f"T{k + 1}[i] = T{k}[i] + T{k}[3-i]" for k in range(40))])
    made = program(text)
    assert inlined(made).shape == (4,)
    assert list(made.tensors) == ["A"]


@given(st.data())
def test_inlining_keeps_the_values(data: st.DataObject) -> None:
    made = data.draw(strategies.programs(max_points=60))
    arrays = data.draw(strategies.arrays_for(made))
    values = ea.evaluate(Program(made.statements, made.names), **arrays)
    for name in made.names:
        scope = inlined(made, name)
        known = {t: a for t, a in arrays.items() if t in scope.tensors}
        np.testing.assert_array_equal(
            ea.evaluate(scope, **known), values[name] if isinstance(values, dict) else values
        )
        assert inlined(made, name, in_order=False) == scope


def test_inlining_out_of_order_compares_no_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["T[i] = exp(A[i,0])", "U[i] = exp(A[i,1])", "O[i] = T[i]*U[i] + T[i] + U[i]"]
    made = program("\n".join(lines))
    monkeypatch.setattr(ea.Scope, "alpha", property(lambda scope: pytest.fail("it is compared")))
    assert inlined(made, in_order=False).rank == 1


def test_the_last_line_names_results_that_other_statements_read() -> None:
    made = ea.parse("T[i] = 2*A[i]\nO[i] = T[i] + 1\nO, T", A=(3,))
    assert made.outputs == ("O", "T") and str(made).endswith("\nO, T")
    assert ea.parse(str(made), A=(3,)) == made
    assert ea.parse("T[i] = A[i]\nT", A=(3,)).outputs == ("T",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("T[i] = A[i]\nT, U", "there is no statement U"),
        ("T[i] = A[i]\nT, T", "names a result twice"),
        ("T\nT[i] = A[i]", "this has no name"),
    ],
)
def test_a_last_line_that_names_no_results(text: str, why: str) -> None:
    with pytest.raises(NotationError, match=why):
        ea.parse(text, A=(3,))


def test_a_cell_of_several_results_reads_back() -> None:
    sizes = {"x": (2, 3), "h": (2, 4), "c": (2, 4), "w_ih": (16, 3), "w_hh": (16, 4)}
    cell = ea.ops.lstm_cell(*(ea.tensor(name, shape) for name, shape in sizes.items()))
    assert len(cell.outputs) == 2 and ea.parse(str(cell), **cell.tensors) == cell


def test_no_chain_of_scopes_is_too_deep() -> None:
    """A network unrolled over many steps is nested so deeply once it is one scope."""
    lines = ["T0[i] = x[i] + 1", *(f"T{k}[i] = T{k - 1}[i] + x[i]" for k in range(1, 500))]
    chain = inlined(ea.parse("\n".join(lines), x=("N",)))
    assert (chain.dtype, list(chain.tensors), list(chain.sizes)) == ("f32", ["x"], ["N"])
    again = chain.at(N=3)
    assert (again.dtype, list(again.tensors), list(again.sizes)) == ("f32", ["x"], [])
