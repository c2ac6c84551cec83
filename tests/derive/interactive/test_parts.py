"""Parts of a formula that a session is asked about: which there are, and the moves that change them."""

from __future__ import annotations

import pytest

import einalg as ea
from derive.interactive.parts import changes

CONV = "O[f,h] += A.pad(0,1)[c,h+r-1] * K[f,c,r]"
SHAPES = dict(A=(4, 9), K=(5, 4, 3))
INNER = "O[i] += (L[i:4,j:5](Sum[k:6](A[i,j,k]*x[k])))[i,j] * y[j]"
TWICE = "T[i] = exp(A[i])\nO[i] = T[i] + T[3-i]"


def session(text=CONV, **shapes):
    return ea.Session(text, **(shapes or SHAPES))


def nested():
    return session(INNER, A=(4, 5, 6), x=(6,), y=(5,))


def moves_at(s, part):
    return {choice.move for choice in s.moves(at=part)}


def test_the_parts_are_scopes_reductions_and_reads():
    assert [part.name for part in session().parts()] == ["O", "O.Sum", "O.A", "O.K"]
    assert [part.name for part in nested().parts()] == [
        *("O", "O.Sum", "O.y", "O.0", "O.0.Sum", "O.0.A", "O.0.x"),
    ]
    names = [part.name for part in session(TWICE, A=(4,)).parts()]
    assert names == ["T", "T.A", "O", "O.T", "O.T#2"]
    assert "O.0.Sum: Sum[k]" in str(nested().parts()).splitlines()


def test_every_move_is_at_the_scope_that_it_rewrites():
    for s in (session(), nested(), session(TWICE, A=(4,))):
        every = {choice.move for choice in s.moves()}
        for choice in s.moves():
            assert choice.move in moves_at(s, choice.move.place)
        for part in s.parts():
            assert moves_at(s, part) <= every
            assert moves_at(s, part) == moves_at(s, part.name)


def test_a_move_at_a_sum_changes_its_indices():
    s = session()
    rules = {choice.move.rule for choice in s.moves(at="O.Sum")}
    assert "summation splitting" in rules and "variable substitution" not in rules
    splits = {choice.move for choice in s.moves("summation splitting")}
    assert splits <= moves_at(s, "Sum") and not splits & moves_at(s, "A")


def test_a_move_at_a_read_changes_that_read():
    s = session()
    s.apply(s.moves("summation splitting")[-1])
    skew = next(c for c in s.moves("variable substitution") if "h + r - 1" in str(c.move))
    assert skew.move in moves_at(s, "A") and skew.move not in moves_at(s, "O.0.K")
    order = next(c for c in s.moves("variable substitution") if "+" not in str(c.move))
    assert order.move not in moves_at(s, "A") and order.move in moves_at(s, "O.0")


def test_what_is_around_an_inner_scope_is_at_it_where_it_changes_it():
    s = nested()
    merging = s.moves("traversal merging")[0].move
    assert merging.path == ("O",) and merging in moves_at(s, ("O", 0))
    cut = next(c.move for c in s.moves("expression splitting", path=("O", 0)))
    assert cut in moves_at(s, "O.0") and cut not in moves_at(s, "O")


def test_a_read_of_a_statement_has_the_moves_that_take_it_in():
    s = session("T[i] = exp(A[i])\nO[i] = T[i] + B[i]", A=(4,), B=(4,))
    fusion = next(c.move for c in s.moves() if c.move.args.get("producer") == "T")
    assert fusion in moves_at(s, "O.T") and fusion not in moves_at(s, "O.B")


def test_rules_places_and_numbers_go_together():
    s = session()
    choices = s.moves("bilinear factorisation", at="K")
    assert {choice.move.rule for choice in choices} == {"bilinear factorisation"}
    assert s.apply(1).move == choices[1].move
    s = nested()
    outside = s.moves(path=("O",), at="O.0")
    assert outside and all(choice.move.path == ("O",) for choice in outside)
    s.aim("matmul")
    listed = [choice.distance_to_aim for choice in s.moves(at="O.0")]
    assert listed == sorted(listed)


def test_a_part_that_is_not_there_is_refused():
    s = session()
    old = s.parts()[1]
    with pytest.raises(ea.RuleError, match=r"there is no part 'O.Sun'\n  write 'O.Sum'"):
        s.moves(at="O.Sun")
    with pytest.raises(ea.RuleError, match=r"there is no part 'zzz'\n  known: O, O.Sum, O.A, O.K"):
        s.moves(at="zzz")
    s.apply(s.moves("summation splitting")[0])
    with pytest.raises(ea.RuleError, match=r"there is no part 'O\.Sum'"):
        s.moves(at=old)
    for wrong in (3, 1.5, ""):
        with pytest.raises(ea.RuleError, match="at must be a part of the formula"):
            s.moves(at=wrong)


def test_a_scope_that_is_gone_has_changed():
    s = nested()
    (merging,) = s.moves("traversal merging")
    part = next(part for part in s.parts() if part.name == "O.0.A")
    assert changes(part, part.path, s.expr, merging.made)
