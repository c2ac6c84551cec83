"""What the widget of a session shows and does, without a browser: sections that change, messages
that act.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

import einalg as ea
from einalg.api.interactive.panel import EXPORTS, SessionPanel

CONV = "O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1] * K[f,c,r]"
SHAPES = dict(A=(1, 3, 6), K=(4, 3, 3))


@pytest.fixture
def panel():
    return ea.Session(ea.parse(CONV, **SHAPES)).panel


def rule(panel, name):
    return next(row for row in panel.sections["rules"] if row["name"] == name)


def do(panel, what, **content):
    """A message as a front end sends it: JSON."""
    panel.handle(json.loads(json.dumps({"do": what, **content})))
    json.dumps(panel.sections)
    return panel.sections["message"]


def test_the_sections_say_what_the_session_says(panel):
    sections = panel.sections
    assert sections["program"]["text"] == str(panel.session.expr)
    assert [step["rule"] for step in sections["steps"]] == ["given"] and sections["steps"][0]["now"]
    listed = panel.session.moves()
    assert {row["name"]: row["count"] for row in sections["rules"] if row["count"]} == {
        name: sum(c.move.rule == name for c in listed) for name in {c.move.rule for c in listed}
    }
    assert sections["kernels"]["kernels"] == [str(kernel) for kernel in panel.session.kernels]


def test_the_moves_of_a_rule_are_shown_when_it_is_opened(panel):
    assert (
        rule(panel, "summation splitting")["open"]
        and not rule(panel, "variable substitution")["open"]
    )
    assert rule(panel, "variable substitution")["moves"] == []
    do(panel, "open", rule="variable substitution", opened=True)
    opened = rule(panel, "variable substitution")
    assert opened["open"] and len(opened["moves"]) == opened["count"] > 0
    assert all(move["before"] != move["after"] for move in opened["moves"])
    do(panel, "open", rule="variable substitution", opened=False)
    assert not rule(panel, "variable substitution")["open"]


def test_every_move_that_is_shown_can_be_applied(panel):
    names = [row["name"] for row in panel.sections["rules"] if row["count"]]
    for name in names:
        do(panel, "open", rule=name, opened=True)
    moves = [move for row in panel.sections["rules"] for move in row["moves"]]
    assert [move["number"] for move in moves] and len(moves) == len(panel.session.moves())
    for name in names[1:]:  # the lists of one rule are shown at every step
        do(panel, "open", rule=name, opened=False)
    for move in moves:
        said = do(panel, "apply", number=move["number"], version=panel.version)
        assert said["kind"] == "done" and len(panel.session.history) == 1, said
        assert (
            panel.sections["program"]["text"]
            == str(panel.session.expr)
            != panel.sections["steps"][0]["text"]
        )
        assert panel.sections["program"]["distance"] == move["distance"]
        do(panel, "undo")


def test_a_click_on_a_list_that_is_gone_does_nothing(panel):
    old = panel.version
    do(panel, "apply", number=0, version=old)
    after = str(panel.session.expr)
    do(panel, "apply", number=0, version=old)
    assert str(panel.session.expr) == after and len(panel.session.history) == 1


def test_undo_redo_and_jumps(panel):
    for _ in range(3):
        do(panel, "apply", number=0, version=panel.version)
    texts = [step["text"] for step in panel.sections["steps"]]
    assert len(texts) == 4
    do(panel, "go_to", state=1)
    assert panel.sections["program"]["text"] == texts[1] and [
        s["undone"] for s in panel.sections["steps"]
    ] == [False, False, True, True]
    do(panel, "redo")
    assert panel.sections["program"]["text"] == texts[2]
    do(panel, "go_to", state=0)
    assert (
        panel.sections["program"]["text"] == texts[0]
        and [step["text"] for step in panel.sections["steps"]] == texts
    )
    assert do(panel, "undo")["kind"] == "error"
    do(panel, "go_to", state=3)
    assert panel.sections["program"]["text"] == texts[3] and do(panel, "redo")["kind"] == "error"


def test_another_move_after_a_step_back_begins_a_branch(panel):
    do(panel, "apply", number=0, version=panel.version)
    do(panel, "apply", number=0, version=panel.version)
    texts = [step["text"] for step in panel.sections["steps"]]
    do(panel, "go_to", state=1)
    do(panel, "apply", number=1, version=panel.version)
    steps = panel.sections["steps"]
    assert [step["number"] for step in steps] == [0, 1, 2, 3]
    assert [step["text"] for step in steps[:3]] == texts
    assert [step["number"] for step in steps if step["aside"]] == [2]
    assert [step["number"] for step in steps if step["end"]] == [2, 3]
    assert [(step["first"], step["forks"]) for step in steps] == [
        (False, []),
        (False, []),
        (True, [False]),
        (True, [True]),
    ]
    do(panel, "go_to", state=2)
    assert panel.sections["program"]["text"] == texts[2]
    assert [step["number"] for step in panel.sections["steps"] if step["aside"]] == [3]


def test_an_aim_puts_the_moves_first_that_lead_nearer(panel):
    aim = panel.sections["aim"]
    assert aim["operator"] == "" and {"matmul", "conv2d"} < set(aim["operators"])
    do(panel, "aim", operator="matmul")
    aim = panel.sections["aim"]
    assert aim["operator"] == "matmul" and aim["start"] == aim["distance"] > 0 and aim["reasons"]
    nearer, others = panel.sections["rules"]
    assert nearer["name"].startswith("nearer to matmul") and nearer["open"] and not others["open"]
    assert nearer["count"] == len(nearer["moves"]) and others["moves"] == []
    assert all(move["nearer"] and "→" in move["nearness"] for move in nearer["moves"])
    first = nearer["moves"][0]
    do(panel, "apply", number=first["number"], version=panel.version)
    assert panel.sections["steps"][-1]["rule"] == first["rule"]
    assert panel.sections["aim"]["distance"] < panel.sections["aim"]["start"]
    assert do(panel, "aim", operator="nothing")["kind"] == "error"
    assert panel.sections["aim"]["operator"] == "matmul"
    do(panel, "aim", operator=None)
    assert panel.sections["aim"]["operator"] == "" and len(panel.sections["rules"]) > 2


def test_a_part_of_the_formula_has_its_moves(panel):
    shown = panel.sections["program"]["parts"]
    assert [part["name"] for part in shown] == ["O", "O.Sum", "O.A", "O.K"]
    everything = sum(row["count"] for row in panel.sections["rules"])
    version = panel.version
    do(panel, "part", name="O.Sum")
    part = panel.sections["part"]
    assert part["name"] == "O.Sum" and part["wider"] == "O" and panel.version > version
    assert part["count"] == sum(row["count"] for row in panel.sections["rules"]) < everything
    moves = [move for row in panel.sections["rules"] for move in row["moves"]]
    assert len(moves) == part["count"] == len(panel.session.possible(at="O.Sum"))
    assert do(panel, "part", name="O.Q")["kind"] == "error"
    assert panel.sections["part"]["name"] == "O.Sum"
    do(panel, "aim", operator="matmul")
    assert panel.sections["part"]["name"] == "O.Sum"
    first = panel.sections["rules"][0]["moves"][0]
    do(panel, "apply", number=first["number"], version=panel.version)
    assert panel.sections["steps"][-1]["rule"] == first["rule"]
    assert panel.sections["part"] == {"name": ""}
    do(panel, "part", name="O")
    assert panel.sections["part"]["wider"] == ""
    do(panel, "part", name=None)
    assert panel.sections["part"] == {"name": ""}


def test_of_many_moves_the_first_are_shown(monkeypatch):
    monkeypatch.setattr("einalg.api.interactive.panel.MAX_SHOWN_MOVES", 1)
    panel = ea.Session(CONV, **SHAPES).panel
    row = rule(panel, "summation splitting")
    assert row["open"] and len(row["moves"]) == 1 < row["count"]
    do(panel, "more", rule="summation splitting")
    assert len(rule(panel, "summation splitting")["moves"]) == row["count"]
    do(panel, "apply", number=1, version=panel.version)
    do(panel, "undo")
    assert len(rule(panel, "summation splitting")["moves"]) == 1


def test_a_terminal_takes_text_alone(monkeypatch):
    """What a panel shows is not computed where nobody can see it."""
    session = ea.Session(CONV, **SHAPES)
    shell = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert session._repr_mimebundle_() == {"text/plain": str(session)}
    assert not session.watchers
    shell = None
    assert "text/html" in session._repr_mimebundle_()


def test_what_cannot_be_done_is_said_and_changes_nothing(panel):
    before = str(panel.session.expr)
    for message in (
        {"do": "fly"},
        {},
        {"do": "go_to", "state": 7},
        {"do": "export", "kind": "poem"},
        {"do": "apply", "number": 999, "version": panel.version},
    ):
        panel.handle(message)
        assert panel.sections["message"]["kind"] == "error" and panel.sections["message"]["text"]
    with pytest.raises(TypeError):
        panel.handle({"do": "go_to", "where": 1})
    assert panel.sections["message"]["kind"] == "error" and str(panel.session.expr) == before


def test_code_and_widget_show_the_same(panel):
    told = []
    panel.listeners.append(told.append)
    panel.session.apply(0)
    changed = {name: value for sections in told for name, value in sections.items()}
    assert (
        changed["program"]["text"] == str(panel.session.expr)
        and changed["version"] == panel.version
    )
    assert next(k for k, sections in enumerate(told) if "program" in sections) == 0, (
        "what is quick comes first"
    )
    assert panel.session.panel is panel and len(panel.sections["steps"]) == 2


def test_the_widget_leaves_the_numbers_of_a_listing_alone(panel):
    listed = panel.session.moves("variable substitution")
    do(panel, "open", rule="summation splitting", opened=False)
    assert panel.session.apply(0).move == listed[0].move


def test_distances_are_ordered_with_their_reasons(panel):
    near = panel.sections["distances"]["near"]
    assert near[0]["distance"] == 0 and near[0]["operator"] == "conv1d" and not near[0]["reasons"]
    every = near + panel.sections["distances"]["far"]
    assert [d["distance"] for d in every] == sorted(d["distance"] for d in every)
    for row in every[:4]:
        assert row["distance"] == float(ea.distance(panel.session.expr, row["operator"]))
    assert all(row["reasons"] for row in every if row["distance"])


def test_source_of_the_kernels(panel):
    do(panel, "apply", number=0, version=panel.version)
    do(panel, "source", language="c")
    assert (
        "#include" in panel.sections["kernels"]["source"]
        and panel.sections["kernels"]["language"] == "c"
    )
    do(panel, "undo")
    assert panel.sections["kernels"]["source"] == ""


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports(panel, kind, tmp_path):
    do(panel, "apply", number=0, version=panel.version)
    do(panel, "export", kind=kind)
    export = panel.sections["export"]
    if kind == "script":
        names: dict[str, object] = {}
        exec(export["text"], names)
        assert str(names["s"].expr) == str(panel.session.expr)
    elif kind == "json":
        (tmp_path / export["name"]).write_text(export["text"])
        assert str(ea.Session.load(tmp_path / export["name"]).expr) == str(panel.session.expr)
    else:
        assert (
            export["text"].startswith("\\begin{align*}") and "summation splitting" in export["text"]
        )


def test_panels_are_independent():
    one, two = (ea.Session(ea.parse(CONV, **SHAPES)) for _ in range(2))
    one.panel.handle({"do": "apply", "number": 0, "version": one.panel.version})
    assert isinstance(two.panel, SessionPanel) and len(two.history) == 0
