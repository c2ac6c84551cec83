"""Derivation by hand: numbered moves, proven steps, undo, records that replay, and the paper's
convolution.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from derive.results.history import History
from derive.rewriting.moves import Move

CONV = "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]"
SHAPES = dict(A=(1, 6, 5, 3), K=(3, 3, 4, 3))


def session(text=CONV, **shapes):
    return ea.Session(ea.parse(text, **(shapes or SHAPES)))


def step(s, rule, path=("O",), **wanted):
    """Apply the first move of a rule at a place whose arguments hold what is wanted."""
    for choice in s.moves(rule, path):
        args = choice.move.args
        if all(
            v in args[k].values() if hasattr(args[k], "values") else args[k] == v
            for k, v in wanted.items()
        ):
            return s.apply(choice)
    raise AssertionError(f"no {rule} with {wanted} among\n{s.moves(rule, path)}")


def paper(s):
    """EinNet's derivation of a convolution: matrix multiplication and OffsetAdd."""
    step(s, "summation splitting", outer=("r", "s"))
    step(s, "variable substitution", ("O", 0), forward="h + r - 1", backward="t - r + 1")
    step(s, "variable substitution", ("O", 0, 0), forward="s + w - 1", backward="t1 - s + 1")
    step(s, "traversal merging", ("O", 0))
    step(s, "traversal merging")
    step(s, "boundary relaxing", where=())
    step(s, "boundary tightening")
    return s


def test_the_paper_derivation_by_hand():
    s = paper(session())
    assert str(s.expr) == (
        "O[n:1, h:6, w:5, f:4] = Sum[r:3, s:3]((L[r:3, s:3, n:1, t:6, t1:5, "
        "f:4](Sum[c:3](A[n, t, t1, c]*K[r, s, f, c])))"
        ".pad(0, 0, 0, 1, 1, 0)[r, s, n, h + r - 1, s + w - 1, f])"
    )
    assert [k.op for k in s.kernels] == ["matmul", "eop"]
    assert {x.verdict for x in s.history.steps} == {"proved"}
    assert ea.prove(s.history.start, s.expr).verdict == "proved"


def test_the_derived_program_runs():
    s = paper(session())
    rng = np.random.default_rng(0)
    arrays = {k: rng.standard_normal(v).astype(np.float32) for k, v in SHAPES.items()}
    np.testing.assert_allclose(
        s.compile()(**arrays), ea.evaluate(s.history.start, **arrays), rtol=1e-5, atol=1e-5
    )


def test_moves_are_numbered_and_show_before_and_after():
    s = session()
    choices = s.moves("summation splitting")
    assert [c.number for c in choices] == list(range(len(choices))) and len(choices) == 6
    assert str(choices[0]).startswith(
        "  0. summation splitting at O: "
    ) and "⇒ L[n:1, h:6, w:5, f:4](Sum[" in str(choices[0])
    assert "<table>" in choices._repr_html_() and not hasattr(choices, "_repr_latex_")
    number = next(c.number for c in choices if c.move.args["outer"] == ("r",))
    assert s.apply(number).move.args["outer"] == ("r",)


def test_a_listing_fits_the_terminal_and_says_what_is_there_once(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    s = session()
    s.apply(s.moves("summation splitting")[-1])
    choices = s.moves()
    text, whole = str(choices), " ".join(str(choices).split())
    assert max(map(len, text.splitlines())) <= 70 and all(
        f"{c.number}. {c.move.rule}: {c.move.arguments}" in whole for c in choices
    )
    here = {(c.move.place, c.before) for c in choices}
    assert len(here) > 1 and all(
        whole.count(f"at {place}: {before}") == 1 for place, before in here
    )
    assert (
        "⇒ L[…](Sum[" in text
        and repr(choices[:2]) == str(choices[:2])
        and max(map(len, str(choices[0]).splitlines())) <= 70
    )


def test_a_session_says_what_separates_it_from_operators(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    s = session()
    listed = s.distances()
    text = str(listed)
    assert repr(listed) == text and max(map(len, text.splitlines())) <= 70
    assert (
        "0  conv2d: it is one" in text
        and "of another form: reduce, " in text
        and "conv2d" in listed._repr_html_()
    )
    assert s.why_not("matmul").startswith(
        "O is not a matmul:\n  - the subscript h + r - 1 of A is not a bare index\n"
    )
    assert (
        "Sum[r, s, c](A.pad(0, 1, 1, 0)[n, h + r - 1, s + w - 1, c]*K[r, s, f, c]) is "
        "not of the form Sum[r](x[i, r])" in s.why_not("reduce")
    )
    with pytest.raises(ea.MatchError):
        s.why_not("nothing")


def test_a_session_is_a_script_and_a_picture():
    s = paper(session())
    assert s.script() == s.history.script()
    rows = s.plot().rows
    assert [row.steps for row in rows] == [(), *((move,) for move in s.history.moves)] and rows[
        0
    ].distance == 0
    assert rows[-1].distance == s.distance and s.plot().programs(rows)[-1] == str(s.expr)


def test_a_number_means_the_last_listing_of_this_program():
    s = session()
    every = s.moves()
    s.apply(len(every) - 1)
    fresh = session()
    assert str(fresh.apply(len(every) - 1).program) == str(s.expr)
    with pytest.raises(ea.RuleError, match="there is no move number 10000"):
        s.apply(10000)
    with pytest.raises(ea.RuleError, match="there is no rule 'magic'"):
        s.moves("magic")


def test_undo_and_redo():
    s = session()
    start = s.expr
    step(s, "summation splitting", outer=("r",))
    after = s.expr
    assert s.undo().expr == start and s.redo().expr == after
    with pytest.raises(ea.RuleError, match="2 steps cannot be taken back: the history has 1 step"):
        s.undo(2)
    with pytest.raises(ea.RuleError, match="no step was taken back"):
        s.redo()
    s.undo()
    step(s, "summation splitting", outer=("s",))
    with pytest.raises(ea.RuleError, match="no step was taken back"):
        s.redo()


def test_a_history_saves_loads_and_replays(tmp_path):
    s = paper(session())
    s.save(tmp_path / "conv.json")
    loaded = History.load(tmp_path / "conv.json")
    assert loaded.moves == s.history.moves and str(loaded.program) == str(s.expr) == str(
        loaded.replay()
    )
    more = ea.Session.load(tmp_path / "conv.json")
    step(more, "traversal merging")
    assert len(more.history) == len(s.history) + 1
    assert str(loaded).startswith(
        "given\n    O[n:1, h:6, w:5, f:4] = Sum[r:3, s:3, c:3]("
    ) and "7. boundary tightening" in str(loaded)


def test_lifting_names_an_inner_scope():
    s = session()
    step(s, "summation splitting", outer=("r", "s"))
    assert s.lift(("O", 0), "T").program.names == ("T", "O")
    s.apply(Move("nesting", ("O",), {"producer": "T"}))
    assert s.expr.names == ("O",)


def test_search_goes_on_from_where_the_hand_stopped():
    s = session()
    step(s, "summation splitting", outer=("r", "s"))
    found = s.search(states=60, measure=False)
    assert any("matmul" in [k.op for k in c.kernels] for c in found.candidates)


def test_every_step_in_latex():
    s = session()
    step(s, "summation splitting", outer=("r", "s"))
    text = s.latex()
    assert (
        text.startswith("\\begin{align*}")
        and "summation splitting" in text
        and text.count("\\\\") == 1
    )
    assert r"O[" not in text and r"O &= \mathop{L}_{n, h, w, f}" in text


def test_jumps_keep_the_steps_that_are_taken_back():
    s = paper(session())
    line = [s.history.start, *(x.program for x in s.history.steps)]
    for number in (3, 0, len(s.timeline), 5):
        assert s.go_to(number).expr is line[number] and len(s.timeline) == len(line) - 1
    for wrong in (-1, len(line)):
        with pytest.raises(ea.RuleError, match="there is no state"):
            s.go_to(wrong)
    for wrong in (True, "1"):
        with pytest.raises(
            ea.RuleError, match=r"state must be a whole number or a state, not .*\n  e\.g\."
        ):
            s.go_to(wrong)
    s.go_to(2).apply(s.moves()[0])
    assert len(s.timeline) == 3


def test_the_moves_of_a_candidate_are_followed_or_none_of_them():
    found = paper(session())
    s = session()
    s.apply(0)
    s.undo()
    assert s.follow(found.history.moves).expr == found.expr and not s.branches.future()
    candidate = session().search(measure=False, states=4).candidates[1]
    assert candidate.moves and session().follow(candidate).history.moves == candidate.moves
    again = session()
    with pytest.raises(ea.RuleError):
        again.follow([*found.history.moves[:2], Move("lifting", ("O", 7), {"name": "T"})])
    assert len(again.history) == 0 and again.expr == again.history.start


def test_watchers_are_told_of_every_change():
    s, told = session(), []
    s.watchers.append(lambda: told.append(str(s.expr)))
    s.apply(0)
    s.undo().redo().go_to(0)
    assert len(told) == 4 and told[0] == told[2] and told[1] == told[3] == str(s.history.start)


def test_in_a_notebook_without_widgets_it_is_html():
    s = session()
    forms = s._repr_mimebundle_()
    assert set(forms) == {"text/plain", "text/html"} and forms["text/plain"] == str(s)
    assert "summation splitting at O" in forms["text/html"]
    assert f"Moves: {len(s.moves())}" in forms["text/html"]


def test_kernels_are_named_as_in_a_derivation():
    expression = ea.parse("O[i,j] = A[j,i]", A=(4, 5))
    (found,) = ea.derive(expression, measure=False).best.kernels
    assert ea.Session(expression).kernels[0].op == found.op == "transpose"


def test_moves_of_a_statement_of_truths():
    """Cut up and added again it was a number, which what reads it could not take."""
    s = session("m[i] = A[i] > 1\nO[i] = Piecewise((B[i], Ne(m[i], 0)), (0, True))", A=(4,), B=(4,))
    for choice in s.moves():
        assert ea.prove(s.expr, choice.made).verdict != "different"
    assert any(
        choice.move.path == ("m",) and choice.made["m"].dtype == "bool"
        for choice in s.moves("expression splitting")
    )


def test_an_input_that_no_step_left_is_ignored():
    s = session("T[i] = A[i] + B[i]\nO[i] = T[i] - A[i]", A=(4,), B=(4,))
    step(s, "expression fusion")
    assert set(s.expr.inputs) == {"B"}
    a, b = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    run = s.compile()
    assert (run(A=a, B=b) == b).all() and (run(B=b) == b).all()
    assert (run.bind(A=a, B=b)() == b).all() and (run.bind(B=b)(A=a) == b).all()
    with pytest.raises(ea.ShapeError, match=r"A has shape \(4,\)"):
        run(A=np.ones(5), B=b)
    with pytest.raises(ea.ShapeError, match="C is not an input"):
        run(A=a, B=b, C=a)
