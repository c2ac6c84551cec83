"""Branches of a derivation by hand: what was done stays, is gone to, saved, loaded and printed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.interactive.branches import Branches
from derive.results.history import History, HistoryStep
from derive.rewriting.moves import Move
from einalg.language.ir.program import as_program

PRODUCT = "O[i] += A[i,j,k]*x[k]"
SHAPES = dict(A=(4, 5, 6), x=(6,))


def session():
    return ea.Session(PRODUCT, **SHAPES)


def branched():
    """A session of three branches: two steps, another second one, and another first one."""
    s = session()
    s.apply(0)
    s.apply(0)
    s.undo().apply(1)
    s.undo(2).apply(1)
    return s


def numbers(states):
    return [state.number for state in states]


def test_another_move_after_a_step_back_loses_nothing():
    s = session()
    first, second = s.apply(0), s.apply(0)
    third = s.undo().apply(1)
    assert numbers(s.branches) == [0, 1, 2, 3] and s.branches.current == 3
    assert numbers(s.branches.ends) == [2, 3]
    assert s.history.steps == [first, third]
    assert s.go_to(2).history.steps == [first, second] and s.expr is second.program
    with pytest.raises(ea.RuleError, match="no step was taken back"):
        s.redo()


def test_a_step_back_and_forth_stays_on_the_branch_that_was_left_last():
    s = branched()
    s.go_to(2).undo(2).redo()
    assert s.branches.current == 1 and s.redo().branches.current == 2
    s.go_to(3).undo(2).redo().redo()
    assert s.branches.current == 3
    s.go_to(4).undo()
    assert numbers(s.branches.future()) == [4] and len(s.timeline) == 1


def test_the_same_move_again_is_the_same_state():
    s = session()
    step = s.apply(0)
    s.apply(0)
    assert s.undo(2).apply(0) is step and len(s.branches) == 3
    assert s.redo().branches.current == 2


def test_the_script_leads_to_the_present_state():
    s = branched()
    for state in s.branches:
        names: dict[str, object] = {}
        exec(s.go_to(state.number).script(), names)
        assert str(names["s"].expr) == str(state.program)
        assert len(names["s"].branches) == len(s.history) + 1


def test_branches_are_saved_and_loaded(tmp_path):
    s = branched().go_to(1)
    s.save(tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text() == s.to_json()
    again = ea.Session.load(tmp_path / "s.json")
    assert str(again.branches) == str(s.branches) and again.branches.current == 1
    assert again.redo().branches.current == s.redo().branches.current
    assert again.history.moves == s.history.moves and again.to_json() == s.to_json()
    history = History.load(tmp_path / "s.json")
    assert str(history.program) == str(s.branches[1].program)
    s.history.save(tmp_path / "history.json")
    assert ea.Session.load(tmp_path / "history.json").history.moves == s.history.moves


def test_a_broken_tree_is_refused(tmp_path):
    path = tmp_path / "s.json"
    whole = json.loads(branched().to_json())
    for name, value in (("state", 7), ("parent", 9), ("parent", -1), ("state", True), ("args", 3)):
        broken = json.loads(json.dumps(whole))
        broken["branches"][-1][name] = value
        path.write_text(json.dumps(broken))
        with pytest.raises(ea.RecordError):
            ea.Session.load(path)
    for branches in (3, [3], [{}]):
        path.write_text(json.dumps({**whole, "branches": branches}))
        with pytest.raises(ea.RecordError):
            ea.Session.load(path)


def test_the_tree_as_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    s = branched().go_to(3)
    lines = str(s.branches).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["*", "0.", "given"],
        ["*", "├", "1."],
        ["│", "├", "2."],
        ["*", "│", "└"],
        ["└", "4.", "summation"],
    ]
    assert lines[3].endswith("← here") and max(map(len, lines)) <= 60
    assert str(s).startswith("2 steps; state 3 of 3 branches, see s.branches\n")
    assert str(session()).startswith("0 steps\n")


def test_states_are_gone_to_by_number_or_by_themselves():
    s = branched()
    for state in s.branches:
        assert s.go_to(state).expr is state.program is s.go_to(state.number).expr
    for wrong in (-1, 5):
        with pytest.raises(ea.RuleError, match=r"there is no state .*\n  see s.branches"):
            s.go_to(wrong)
    for wrong in ("1", None, 1.0):
        with pytest.raises(ea.RuleError, match="state must be a whole number or a state"):
            s.go_to(wrong)


def test_a_failed_sequence_leaves_no_states():
    s = session()
    moves = [s.moves()[0].move, Move("lifting", ("O", 7), {"name": "T"})]
    s.apply(1)
    for _ in range(2):
        with pytest.raises(ea.RuleError):
            s.follow(moves)
        assert numbers(s.branches) == [0, 1] and s.branches.current == 1


def test_the_picture_has_all_branches():
    s = branched()
    tree = s.plot()
    assert [row.parent for row in tree.rows] == [state.parent for state in s.branches]
    assert tree.programs(tree.rows) == [str(state.program) for state in s.branches]


@given(st.lists(st.tuples(st.sampled_from("abu<>g"), st.integers(0, 30)), max_size=25))
def test_a_tree_of_states_is_what_was_done(actions):
    """Go along with a list of the ways to all states, each by the names of its moves."""
    start = as_program(ea.parse("O[i] = A[i]", A=(2,)))
    tree, ways = Branches(start), [""]
    for action, number in actions:
        way = ways[tree.current]
        if action == "<" and way:
            tree.go_to(tree.path()[-1].parent)
        elif action == ">":
            for state in tree.future()[:1]:
                tree.go_to(state.number)
        elif action == "g":
            tree.go_to(number % len(tree))
        elif action in "abu":
            step = HistoryStep(Move(action, ("O",), {}), start, "proved")
            state = tree.child(tree.current, step.move)
            if state is None:
                ways.append(way + action)
                state = tree.add(step, tree.current)
            tree.go_to(state.number)
    assert len(set(ways)) == len(ways) == len(tree)
    for state in tree:
        assert (
            "".join(step.step.move.rule for step in tree.path(state.number)) == ways[state.number]
        )
    leads = [ways[state.number] for state in tree.future()]
    assert all(way.startswith(ways[tree.current]) for way in leads)
    assert sorted(state.number for state, _ in tree.rows()) == list(range(len(tree)))
    assert len(str(tree).splitlines()) == len(tree)
