"""Kinds of expressions whose text was refused, or read as another expression."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from einalg.errors import NotationError, RangeError
from einalg.language.index.constraint import Constraint
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from tests.helpers.random_derivations import check_reading, reread

A, B, C = ea.tensor("A", (5,)), ea.tensor("B", (5, 6)), ea.tensor("C", (7,))
TENSORS = {"A": A, "B": B, "C": C}
i, j, k = ea.indices("i j k")
ARRAYS = {"A": np.arange(5) - 2, "B": np.arange(30).reshape(5, 6) % 7 - 3}


def agrees(scope: Scope) -> None:
    """The text of a scope is read as the same scope, with the same values."""
    check_reading(Program([("O", scope)]))
    arrays = {name: ARRAYS[name] for name in scope.tensors}
    again = ea.parse(str(scope), **scope.tensors)
    np.testing.assert_array_equal(ea.evaluate(again, **arrays), ea.evaluate(scope, **arrays))


# Cases in conditions.

POSITIVE = ea.Piecewise((A[i], A[i] > 0), (0, True))
NESTED: dict[str, Any] = {
    "compared with a number": POSITIVE > 1,
    "on the right": A[i] < POSITIVE,
    "an equation": sympy.Eq(POSITIVE, 2),
    "an inequation": sympy.Ne(POSITIVE, A[i]),
    "joined": (POSITIVE > 1) & (A[i] < 2),
    "contrary": sympy.Not(sympy.And(POSITIVE > 1, A[i] < 2)),
    "in a sum of terms": 2 * POSITIVE + A[i] > 1,
    "of an index": ea.Piecewise((i, A[i] > 0), (0, True)) > 1,
    "in a reduction": ea.Sum[k](ea.Piecewise((B[i, k], B[i, k] > 0), (0, True))) > 1,
    "in an extreme": ea.Max(POSITIVE, 1) > A[i],
    "in a function": sympy.Abs(POSITIVE - 1) >= 1,
    "in cases in cases": ea.Piecewise((1, POSITIVE > 1), (A[i], True)) > 0,
}


@pytest.mark.parametrize("name", NESTED)
def test_cases_in_a_condition(name: str) -> None:
    condition = NESTED[name]
    agrees(ea.L[i](ea.Piecewise((1, condition), (A[i], True))))
    agrees(ea.L[i](condition))
    agrees(ea.L[i](ea.Piecewise((A[i], condition), (2, True)) ** 2))
    agrees(ea.L[i](ea.Sum[j](ea.Piecewise((B[i, j], condition), (0, True)))))


def test_cases_of_a_condition_stay_in_their_sum() -> None:
    text = (
        "O[i] = Piecewise((1, Sum[k](Piecewise((B[i,k], B[i,k] > 0), (0, True))) > 5), (2, True))"
    )
    scope = ea.parse(text, B=B)
    sums = np.maximum(ARRAYS["B"], 0).sum(axis=1)
    assert ea.evaluate(scope, B=ARRAYS["B"]).tolist() == np.where(sums > 5, 1, 2).tolist()


def test_a_fused_program_is_read_back() -> None:
    program = ea.parse(
        """T[i] = Piecewise((A[i], A[i] > 0), (0, True))
        O[i] = Piecewise((1, T[i] > 1), (2, True))""",
        A=A,
    )
    session = ea.Session(program)
    session.apply(next(move for move in session.moves() if "fusion" in str(move)))
    assert session.expr.names == ("O",)
    check_reading(session.expr)


def test_records_of_a_fused_start(tmp_path: Any) -> None:
    program = Program([("O", ea.L[i](ea.Piecewise((1, POSITIVE > 1), (2, True))))])
    session = ea.Session(program)
    session.save(tmp_path / "session.json")
    assert ea.Session.load(tmp_path / "session.json").expr == program
    exec(session.script(), {})
    derivation = ea.derive(program, seconds=1, measure=False)
    derivation.save(tmp_path / "derivation.json")
    assert ea.Derivation.load(tmp_path / "derivation.json").expression == program


def test_cases_are_values() -> None:
    assert pickle.loads(pickle.dumps(POSITIVE)) == POSITIVE
    assert isinstance(POSITIVE, sympy.Piecewise) and POSITIVE.func(*POSITIVE.args) == POSITIVE
    assert ea.Piecewise((A[i], True), (1, A[i] > 0)) == A[i]
    assert ea.Piecewise((1, False), (A[i], True)) == A[i]
    plain = sympy.Piecewise((A[i], A[i] > 0), (0, True))
    assert ea.L[i](plain) == ea.L[i](POSITIVE)


def test_cases_in_a_condition_of_sympy() -> None:
    with pytest.raises(NotationError, match=r"write cases with ea.Piecewise\(\(a"):
        sympy.Piecewise((1, POSITIVE > 1), (2, True))


@pytest.mark.parametrize(
    "pairs", ["A[i]", "(A[i], A[i])", "(A[i], i)", "(A[i], A[i] > 0, 3)", "((1, 2), A[i] > 0)"]
)
def test_what_is_no_case(pairs: str) -> None:
    with pytest.raises(NotationError, match=r"write Piecewise\(\(a, condition\), \(b, True\)\)"):
        ea.parse(f"O[i] = Piecewise({pairs}, (0, True))", A=A)
    with pytest.raises(NotationError, match="has no value"):
        ea.parse("O[i] = Piecewise((A[i], False))", A=A)


# Comparisons.


@pytest.mark.parametrize(
    "condition",
    [
        sympy.StrictGreaterThan(0, A[i]),
        sympy.LessThan(sympy.Rational(1, 2), A[i], evaluate=False),
        sympy.StrictLessThan(sympy.oo, A[i], evaluate=False),
        sympy.GreaterThan(sympy.Float(0.25), A[i], evaluate=False),
        sympy.StrictGreaterThan(0, i + j + 1),
        sympy.Xor(A[i] > 0, A[j] > 0),
        sympy.ITE(A[i] > 0, A[j] > 0, A[j] > 1),
        sympy.Not(sympy.Or(A[i] > 0, A[j] > 0)),
    ],
    ids=str,
)
def test_comparisons(condition: Any) -> None:
    agrees(ea.L[i:5, j:5](condition))
    agrees(ea.L[i:5, j:5](ea.Piecewise((1, condition), (A[i], True))))
    # Moves put numbers in the place of reads.
    program = Program([("O", ea.L[i:5, j:5](condition))])
    assert reread(program) == program


@pytest.mark.parametrize("text", ["3 <= 0", "Eq(2, 0)", "-1 >= 0", "i - i < -2"])
def test_conditions_that_never_hold_are_one(text: str) -> None:
    scope = ea.parse(f"L[i:5](A[i], where={text})", A=A)
    assert scope.where == (Constraint(-1, ">="),)
    agrees(scope)
    built = Scope(scope.iterators, [Constraint(-7, ">=")], scope.body)
    assert built == scope and ea.parse(str(built), A=A) == built


def test_python_reads_texts_too() -> None:
    known = {"i": i, "j": j, "A": A, "Piecewise": ea.Piecewise, "Mod": ea.Mod}
    known |= {name: getattr(ea, name) for name in ("L", "Sum", "Max", "Min", "Prod")}
    known |= {name: getattr(sympy, name) for name in ("Eq", "Ne", "Xor", "floor", "Abs")}
    bodies = [*NESTED.values(), sympy.Xor(A[i] > 0, A[j] > 1), A[i] / (3 * (sympy.Abs(A[j]) + 1))]
    bodies += [sympy.StrictGreaterThan(0, A[i]), ea.Mod(A[i], 3) * 2, sympy.floor(A[i] / 3 + i / 3)]
    scopes = [ea.L[i:5, j:5](body) for body in bodies if "Sum" not in str(body)]
    scopes.append(ea.parse("L[i:5](A[i], where=3 <= 0)", A=A))
    for scope in scopes:
        assert eval(str(scope), dict(known)) == scope, str(scope)


def test_conditions_that_always_hold_are_one() -> None:
    assert Constraint(4, ">=") == Constraint(0, "==")
    assert ea.parse("L[i:5](A[i], where=-3 <= 0)", A=A).where == ()


# What is written and has no effect.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("O[i] = 0*A[i]", "L[i:5](0)"),
        ("O[i] = A[i] - A[i]", "L[i:5](0)"),
        ("O[i] = A[i]**0", "L[i:5](1)"),
        ("O = L[i](0*A[i] + 1)", "L[i:5](1)"),
        ("O[i] += 0*B[i,k]", "L[i:5](Sum[k:6](0))"),
        ("O[i] = Sum[k](0*B[i,k] + 1)", "L[i:5](Sum[k:6](1))"),
        ("O[i] = 0*Sum[k](B[i,k])", "L[i:5](0)"),
        ("O[i] = 2*Max[k](0*B[i,k]) + Max[k](0*C[k])", None),
        ("O[i] = (L[j](0*A[j]))[i]", "L[i:5]((L[j:5](0))[i])"),
        ("O[i] = Piecewise((1, True), (A[i], A[i] > 0))", "L[i:5](1)"),
        ("O[i:3] = 0*A[i]", "L[i:3](0)"),
    ],
)
def test_reads_without_effect_give_ranges(text: str, expected: str | None) -> None:
    if expected is None:  # one reduction is written twice, with two ranges
        with pytest.raises(RangeError):
            ea.parse(text, **TENSORS)
        return
    scope = ea.parse(text, **TENSORS)
    assert str(scope) == expected
    assert ea.parse(str(scope)) == scope


def test_reads_without_effect_are_checked_like_others() -> None:
    with pytest.raises(RangeError, match="two sizes: 5"):
        ea.parse("O[i] = A[i] + 0*C[i]", **TENSORS)
    with pytest.raises(NotationError, match="on the right only"):
        ea.parse("O[i] = 0*B[i,k]", **TENSORS)


@pytest.mark.parametrize(
    "last", ["0*T[i]", "A[i] + T[i] - T[i]", "Piecewise((A[i], True), (T[i], A[i] > 0))"]
)
def test_a_statement_that_is_read_without_effect_is_no_result(last: str) -> None:
    program = ea.parse(f"T[i] = 2*A[i]\nO[i] = {last}", A=A)
    assert program.outputs == ("O",)
    check_reading(program)
    values = ea.evaluate(program, A=ARRAYS["A"]) if program.inputs else ea.evaluate(program)
    assert np.shape(values) == (5,)


# Extremes in each other.


def clipped(times: int) -> Any:
    body = A[i]
    for _ in range(times):
        body = ea.Max(ea.Min(2 * body + 1, 5), -5)
    return body


@pytest.mark.parametrize("times", [1, 3, 4, 5, 12])
def test_extremes_in_each_other(times: int) -> None:
    """SymPy compares them in time that is exponential in their number."""
    scope = ea.L[i](clipped(times))
    agrees(scope)
    values = ARRAYS["A"]
    for _ in range(times):
        values = np.maximum(np.minimum(2 * values + 1, 5), -5)
    assert ea.evaluate(scope, A=ARRAYS["A"]).tolist() == values.tolist()


def test_a_fused_chain_of_clips_is_read_back() -> None:
    lines = ["T0[i] = Max(Min(2*A[i] + 1, 5), -5)"]
    for number in range(1, 8):
        lines.append(f"T{number}[i] = Max(Min(2*T{number - 1}[i] + 1, 5), -5)")
    fused = Program([("O", ea.L[i](clipped(8)))])
    chain = ea.parse("\n".join(lines), A=A)
    for number in range(7):
        move = Move("expression fusion", (f"T{number + 1}",), {"producer": f"T{number}"})
        chain = apply(chain, move, ALL)
    assert chain["T7"] == fused["O"]
    check_reading(chain)


# Numbers.


@pytest.mark.parametrize(
    "body",
    [
        A[i] / (3 * (A[j] + 1)),
        1 / (3 * (A[j] + 1)),
        2 * A[i] / (3 * (A[j] + 1) * (A[i] + 2)),
        -A[i] / (3 * A[j] * (A[j] + 1)),
        A[i] / (3 * (A[j] + 1) ** 2),
        A[i] / (5 * sympy.sqrt(A[j] + 1)),
        A[i] / (3 * (i + 1)),
        sympy.Abs(sympy.Abs(A[i]) * A[j]),
        sympy.Abs(A[i] * sympy.Abs(A[j]) * sympy.tanh(A[i]) ** 2),
        sympy.Mod(A[i] / (3 * (A[j] ** 2 + 1)), 2),
    ],
    ids=str,
)
def test_quotients_and_sizes(body: Any) -> None:
    check_reading(Program([("O", ea.L[i:5, j:5](body))]))


@pytest.mark.parametrize("number", [sympy.GoldenRatio, sympy.EulerGamma, sympy.E, sympy.pi])
def test_constants_of_mathematics(number: Any) -> None:
    scope = ea.L[i](number * A[i])
    assert ea.parse(str(scope), A=A) == scope
    found = ea.evaluate(scope, A=ARRAYS["A"])
    np.testing.assert_allclose(np.asarray(found, float), float(number) * ARRAYS["A"])


def test_index_arithmetic_that_sympy_makes_anew() -> None:
    """`2*i` as a row of indices, and as SymPy's product."""
    form = sympy.Add(A[i], 2 * i, evaluate=False)
    plain = sympy.Add(A[i], sympy.Mul(2, i))
    one, other = (Scope([(i, 0, 5)], None, body) for body in (form, plain))
    assert one == other and hash(one) == hash(other)
    agrees(one)


def test_quotients_and_remainders_that_sympy_adds_are_one_row() -> None:
    parts = 2 * (i // 2), i % 2
    for around in (
        lambda body: body,
        sympy.Abs,
        lambda body: body * A[i],
        lambda body: body + A[i],
    ):
        built = Scope([(i, 0, 5)], None, around(sympy.Add(*parts, evaluate=False)))
        assert built == Scope([(i, 0, 5)], None, around(sympy.Add(i)))
        agrees(built)
