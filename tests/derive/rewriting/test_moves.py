"""Moves keep values also where these do not fit the type of what holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.rewriting.element_types import of_type
from derive.rewriting.moves import Move, apply, moves, scopes_of
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.cleanup import fissioned
from einalg.errors import RuleError
from einalg.language.ir.dtypes import bounds, numpy_dtype
from einalg.language.ir.program import Program, as_program, substitute_tensors
from einalg.language.ir.scope import Scope

TRUTHS = ea.tensor("B", (3,), "bool")
MAY_BE_INFINITE = [
    "O[k:9] = Max[s:2](B.pad(5, fill=-inf)[k + s - 5])",
    "O[k:9] = Min[s:2](B.pad(5, fill=inf)[k + s - 5])",
    "O[k:3] = Max[s:3](B[s], where=s < k)",
    "T[k:9] = Max[s:2](B.pad(5, fill=-inf)[k + s - 5])\nO[k:11] = T.pad(1)[k - 1]",
]


@pytest.mark.parametrize("text", MAY_BE_INFINITE)
def test_truth_values_that_may_be_infinite_keep_their_values(text: str) -> None:
    program = as_program(ea.parse(text, B=TRUTHS))
    for move in moves(program, ALL.values()):
        proof = ea.prove(program, apply(program, move, ALL))
        assert proof.holds, f"{move} changes {text}: {proof}"


def test_others_are_still_split() -> None:
    program = as_program(ea.parse("O[k:4] = Max[s:2](B.pad(1)[k + s - 1])", B=TRUTHS))
    names = {move.rule for move in moves(program, ALL.values())}
    assert "expression splitting" in names


def test_a_sum_of_infinite_truth_values_has_no_type() -> None:
    program = as_program(ea.parse(MAY_BE_INFINITE[0], B=TRUTHS))
    scope = program["O"]
    doubled = Scope(scope.iterators, scope.where, 2 * scope.body)
    with pytest.raises(RuleError, match="may be infinite"):
        of_type(doubled, "bool", scopes_of(program))


@pytest.mark.parametrize("operation", ["Sum", "Prod", "Max", "Min"])
def test_moves_hold_where_a_reduction_has_no_points(operation: str) -> None:
    text = f"O[i:2] = {operation}[s:0, r:4](A[i + r//2, s + 2*r])"
    program = as_program(ea.parse(text, A=(4, 9)))
    for move in moves(program, ALL.values()):
        assert ea.prove(program, apply(program, move, ALL)), move


def test_moves_to_other_orders_are_other_moves() -> None:
    """The order of a map's names is that of the new axes; that of the arguments says nothing."""
    scope = as_program(ea.parse("O[n,f,h] += A[n,c,h] * K[f,c]", A=(2, 3, 5), K=(4, 3)))
    offered = list(moves(scope, [ALL["variable substitution"]]))
    results = {str(apply(scope, move, ALL)) for move in offered}
    assert len(offered) == len(set(offered)) == len(results) > 1
    for move in offered:
        again = Move.from_json(move.to_json())
        assert again == move and hash(again) == hash(move)
        turned = Move(move.rule, move.path, dict(reversed(move.args.items())))
        assert turned == move and hash(turned) == hash(move)


UNTYPED = ("Max[j:6](3)", "(b[i]+1)", "Max[j:6](b[j]*2)", "floor(Max[j:6](b[j]+3)/2)")
AROUND = (
    "g[i]*{}",
    "g[i] + {}",
    "Sum[k:3](g[k]*{})",
    "Piecewise((g[i], g[i] > 2), ({}, True))",
    "Min(g[i]*{}, 7)",
)


ARRAYS = {"g": [1, 0, 2, 3, 1, 4], "b": [True, False, True, True, False, True]}


def tensors_of(dtype: str) -> dict[str, Any]:
    """Return numbers of a type and truth values, of which `ARRAYS` are values."""
    return {"g": ea.tensor("g", (6,), dtype), "b": ea.tensor("b", (6,), "bool")}


@pytest.mark.parametrize("dtype", ("u8", "i16", "u32"))
@pytest.mark.parametrize("part", UNTYPED)
def test_a_part_without_a_type_has_that_of_what_is_around_it(dtype: str, part: str) -> None:
    for around in AROUND:
        body = around.format(part)
        read = {name: tensor for name, tensor in tensors_of(dtype).items() if f"{name}[" in body}
        program = as_program(ea.parse(f"O[i:6] = {body}", **read))
        assert program["O"].dtype == dtype
        expected = ea.evaluate(program, **{name: ARRAYS[name] for name in program.inputs})
        results = [apply(program, move, ALL) for move in moves(program, list(ALL.values()))]
        for result in (*results, fissioned(program, ALL)[0]):
            assert result["O"].dtype == dtype, f"{program}\nbecame\n{result}"
            values = ea.evaluate(result, **{name: ARRAYS[name] for name in result.inputs})
            assert values.tolist() == expected.tolist()


def test_values_that_a_type_does_not_hold_do_not_get_it() -> None:
    program = as_program(ea.parse("O[i:6] = A[i]", A=ea.tensor("A", (6,), "i64")))
    with pytest.raises(RuleError, match="the values have the type i64, and not u8"):
        of_type(program["O"], "u8", scopes_of(program))


BEYOND_THEIR_TYPE = (  # `beyond` is above the largest value of the type by 1, `half` a half of it
    "Min(Max[j:6]({beyond}*b[j]), g[i])",
    "Max(Min[j:6](b[j] - 2*{beyond}*b[j]), g[i])",
    "Max(Max[j:6]({half}*b[j])*Max[j:6](2*b[j]), g[i])",
    "Min(Max[j:6, k:6]({half}*b[j] + {half}*b[k]), g[i])",
    "Piecewise((g[i], Max[j:6]({beyond}*b[j]) > g[i]), (0, True))",
)


@pytest.mark.parametrize("dtype", ("i8", "u8", "i16"))
@pytest.mark.parametrize("body", BEYOND_THEIR_TYPE)
def test_no_move_stores_what_was_exact_in_a_type_that_does_not_hold_it(
    body: str, dtype: str
) -> None:
    """Values are wrapped round in every scope, as compiled code stores them."""
    beyond = bounds(dtype)[1] + 1
    text = body.format(beyond=beyond, half=beyond // 2)
    program = as_program(ea.parse(f"O[i:6] = {text}", **tensors_of(dtype)))
    assert program["O"].dtype == dtype
    expected = stored(program, ARRAYS)
    for move in moves(program, list(ALL.values())):
        result = apply(program, move, ALL)
        assert stored(result, ARRAYS).tolist() == expected.tolist(), f"{move} made\n{result}"


def stored(program: Program, arrays: dict[str, Any]) -> Any:
    """Return the values of a program, with those of every scope stored in its type."""
    values = dict(arrays)
    for name, scope in lifted(program).statements:
        inputs = {n: ea.tensor(n, t.axes, t.dtype) for n, t in scope.tensors.items() if n in values}
        alone = Program([(name, substitute_tensors(scope, inputs))])
        exact = ea.evaluate(alone, **{n: values[n] for n in inputs})
        values[name] = np.asarray(exact).astype(numpy_dtype(scope.dtype))
    return values[program.outputs[0]]


MIXED = {
    "b": ea.tensor("b", (6,), "bool"),
    "g": ea.tensor("g", (6,), "i8"),
    "h": ea.tensor("h", (6,), "i8"),
    "u": ea.tensor("u", (6,), "u8"),
    "n": ea.tensor("n", (6,), "i16"),
}
OF_MIXED_TYPES = (
    "O[i:6] = Piecewise(((L[k:4](Ne(b[k], 0))).pad(1)[i - 1], g[i] > 1), (g[i], True))",
    "O[i:6] = Piecewise(((L[k:6](b[k], where=k > 1)).pad(0)[i], g[i] > 1), (g[i], True))",
    "O[i:6] = g[i]*Sum[j:6](Sum[k:6](b[k])*h[j])",
    "O[i:6] = Sum[j:6, k:6](g[j]*b[k], where=k < i)",
    "O[i:6] = Sum[j:6, k:6](u[j]*b[k]) + Max[k:3](2*b[k])",
    "O[i:6] = g[i]*(L[z:1](Prod[k:2](b[k] + z*z)))[0] + 1",
    "T[i:6] = Ne(b[i], 0)\nO[i:8] = T.pad(1)[i - 1]*g[0]",
    "T[i:6] = Ne(b[i], 0)\nO[i:8] = T.pad(1)[i - 1]",
    "T[i:6] = g[i] + 100\nS[i:6] = T[i] + h[i] + 100\nO[i:6] = S[i] + 1",
    "O[i:6] = (L[k:6](100*g[k]))[i] + (L[k:6](100*g[k]))[i]",
    "T[i:6] = 100*g[i]\nO[i:6] = 3*T[i]",
    "O[i:6] = g[i]*(n[i] + 300)",
    "O[i:6] = Abs(u[i]*(g[i] - 1))",
    "T[i:6] = 1\nO[i:8] = (L[k:6](T[k]*u[k])).pad(1, fill=-1)[i - 1]",
)


@pytest.mark.parametrize("text", OF_MIXED_TYPES)
def test_every_proposed_move_keeps_the_types_of_statements(text: str) -> None:
    program = as_program(
        ea.parse(text, **{name: t for name, t in MIXED.items() if f"{name}[" in text})
    )
    arrays = {name: [1, 0, 1, 1, 0, 1] for name in program.inputs}
    expected = ea.evaluate(program, **arrays)
    for move in moves(program, ALL.values()):
        result = apply(program, move, ALL)
        assert result["O"].dtype == program["O"].dtype, f"{move}:\n{program}\nbecame\n{result}"
        values = ea.evaluate(result, **{name: arrays[name] for name in result.inputs})
        assert values.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_moves_of_numbers_of_16_bits_that_are_offered_are_possible(dtype: str) -> None:
    """A number by itself is one of 32 bits: what is taken apart may lose the type."""
    program = as_program(ea.parse(f"O[j:2] = Sum[s:4, r:3:8]({dtype}(r)/3 - 1.25 + j)"))
    for move in moves(program, ALL.values()):
        assert apply(program, move, ALL)["O"].dtype == dtype


@pytest.mark.parametrize("function", ["floor", "ceiling"])
def test_moves_of_rounded_fractions_that_are_offered_are_possible(function: str) -> None:
    """Half of a whole number has a type of floats in a sum that was a factor of it."""
    truths = ea.tensor("B", (3,), "bool")
    program = as_program(ea.parse(f"O[k:3] = {function}(B[k]*Sum[s:2](B[s])/2)", B=truths))
    assert program["O"].dtype == "i64"
    for move in moves(program, ALL.values()):
        assert apply(program, move, ALL)["O"].dtype == "i64"
