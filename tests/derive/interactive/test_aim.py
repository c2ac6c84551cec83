"""Derivation towards an operator: the moves that lessen the distance to it come first."""

from __future__ import annotations

import pytest

import einalg as ea
from derive.rewriting.moves import Rule

CONV = "O[f,h] += A.pad(0,1)[c,h+r-1] * K[f,c,r]"
SHAPES = dict(A=(4, 9), K=(5, 4, 3))


def session():
    return ea.Session(CONV, **SHAPES)


@pytest.mark.parametrize("operator", ["matmul", "conv2d", "reduce"])
def test_the_moves_that_lead_nearer_come_first(operator):
    s = session()
    plain = s.moves()
    now = ea.distance(s.expr, operator)
    listed = s.aim(operator).moves()
    after = [ea.distance(choice.made, operator) for choice in listed]
    assert [choice.distance_to_aim for choice in listed] == after == sorted(after)
    assert [choice.is_nearer for choice in listed] == [distance < now for distance in after]
    assert [choice.number for choice in listed] == list(range(len(plain)))
    assert {choice.move for choice in listed} == {choice.move for choice in plain}
    for choice in listed:
        if choice.is_nearer:
            assert choice.nearness == f"{operator} {now:g} → {choice.distance_to_aim:g}"
        assert choice.nearness in str(choice).replace("\n", "").replace("     ", "")


def test_a_number_means_the_move_that_is_listed():
    s = session().aim("matmul")
    choices = s.moves()
    for number in (0, len(choices) - 1):
        assert s.apply(number).move == choices[number].move
        s.undo()
    nearer = [choice for choice in s.moves("summation splitting") if choice.is_nearer]
    assert s.apply(0).move == nearer[0].move


def test_towards_a_product_by_the_first_moves():
    s = session().aim("matmul")
    before = [float(s.aimed.distance)]
    for rule in ("summation splitting", "variable substitution", "boundary relaxing"):
        s.apply(s.moves(rule)[0])
        before.append(float(s.aimed.distance))
    s.apply(s.moves("boundary tightening")[0])
    assert before == sorted(before, reverse=True) and s.aimed.distance == 0
    assert "towards matmul, which is reached" in str(s)
    assert "matmul" in [kernel.op for kernel in s.kernels]


def test_the_list_says_what_leads_nearer(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    s = session().aim("matmul")
    assert str(s).startswith("0 steps; towards matmul, which is 6 away\n")
    text = str(s.moves())
    numbers = [int(line[:3]) for line in text.splitlines() if line[:3].strip().isdigit()]
    assert numbers == list(range(len(s.moves())))
    assert (
        text.startswith("nearer to matmul than 6:\nat O: ") and "\nno nearer to matmul:\n" in text
    )
    assert max(map(len, text.splitlines())) <= 80
    assert "nearer" not in str(s.aim(None).moves()) and "towards" not in str(s)


def test_an_operator_that_is_not_there_is_refused():
    s = session().aim("matmul")
    with pytest.raises(ea.MatchError, match=r"there is no template 'conv'\n  write 'conv2d'"):
        s.aim("conv")
    with pytest.raises(ea.MatchError, match="operator must be text"):
        s.aim(3)
    assert s.aimed.operator == "matmul"


def test_a_move_that_cannot_be_applied_comes_last():
    def refuse(scope):
        raise ea.RuleError("not here\n  take another place")

    rule = Rule("refused", "L[x] f", "L[x] f", "", lambda scope: iter([{}]), refuse)
    choices = ea.Session(CONV, rules=[rule], **SHAPES).aim("matmul").moves()
    assert [choice.move.rule for choice in choices].index("refused") == len(choices) - 1
    assert choices[-1].distance_to_aim is None and not choices[-1].is_nearer
