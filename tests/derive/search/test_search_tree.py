"""The explored tree as rows, text and Graphviz."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import FrozenInstanceError
from html import escape, unescape

import pytest

import einalg as ea
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.search.search_tree import SearchNode, SearchTree, colour, dot
from einalg.display.results.search_tree import MAX_STATES, search_tree_html

ROWS = [
    SearchNode(0, None, "", 3.0, True, 0.004),
    SearchNode(1, 0, 'split "r"\\', 2.0, False, None),
    SearchNode(2, 0, "substitute", 1.0, True, 0.002),
    SearchNode(3, 1, "merge", 0.0, True, 0.001),
]


def lines_of(text, number):
    return next(line for line in text.splitlines() if line.strip().startswith(f"n{number} ["))


def test_the_path_to_the_cheapest_candidate_is_bold():
    text = dot(ROWS)
    assert all("penwidth" in lines_of(text, n) for n in (0, 1, 3)) and "penwidth" not in lines_of(
        text, 2
    )
    assert "n1 -> n3 [penwidth" in text and "n0 -> n2;" in text
    assert "penwidth" in lines_of(dot(ROWS, best=2), 2) and "penwidth" not in lines_of(
        dot(ROWS, best=2), 3
    )


def test_candidates_are_boxes_with_their_cost():
    text = dot(ROWS)
    assert "shape=box" in lines_of(text, 2) and "2.000 ms" in lines_of(text, 2)
    assert "shape=box" not in lines_of(text, 1) and " ms" not in lines_of(text, 1)
    assert r"split \"r\"\\" in lines_of(text, 1)


def test_colours_go_from_green_to_red_and_stay_light():
    assert (
        len({colour(n / 10) for n in range(11)}) == 11
        and colour(-1) == colour(0)
        and colour(2) == colour(1)
    )
    for n in range(11):
        red, green, blue = (int(colour(n / 10)[at : at + 2], 16) for at in (1, 3, 5))
        assert 0.299 * red + 0.587 * green + 0.114 * blue > 150
    assert lines_of(dot(ROWS), 0).count(colour(1)) == lines_of(dot(ROWS), 3).count(colour(0)) == 1


@pytest.mark.parametrize(
    "rows",
    [[], ROWS[:1], ROWS[1:], [SearchNode(0, 0, "itself", 0.0, False, None)]],
    ids=["none", "one", "no root", "loop"],
)
def test_odd_trees(rows):
    assert dot(rows).startswith("digraph") and str(SearchTree(rows))


def test_text_is_indented_by_depth_and_marks_the_best():
    text = str(SearchTree(ROWS))
    assert [line[0] for line in text.splitlines()] == ["*", "*", "*", " ", "*"]
    assert "*     merge  (distance 0, 1.000 ms)" in text
    many = [
        SearchNode(n, None if n == 0 else 0, f"move {n}", float(n), False, None) for n in range(100)
    ]
    assert re.search(r"… and \d+ more states", str(SearchTree(many))) and "move 1 " in str(
        SearchTree(many)
    )


def test_the_way_to_the_best_comes_first():
    """The best is that of the derivation, which may be another one than the least estimate."""
    text = "O[f,h] += A.pad(0,1)[c,h+r-1]*K[f,c,r]"
    d = ea.derive(text, A=(3, 9), K=(4, 3, 5), states=12, measure=False)
    moves = {}
    for row in d.explored:
        moves[row.number] = (*moves.get(row.parent, ()), *row.steps)
    for candidate in d.candidates:
        tree = SearchTree(d.explored, d.expression, best=candidate.moves)
        ordered, path = tree.nearest(len(d.explored)), tree.best_path
        assert moves[tree.best_number] == candidate.moves
        assert {row.number for row in ordered[: len(path)]} == path
        assert ordered[len(path) - 1].number == tree.best_number
        marked = [line.startswith("*") for line in str(tree).splitlines()]
        assert marked[: len(path)] == [True] * len(path) and len(marked) <= 30
        html = search_tree_html(tree)
        assert html.count('class="bold framed end"') == 1
        chosen = re.search(r'class="einalg-chosen"[^>]*>(.*?)</div><small>', html, re.S)[1]
        program = tree.programs(ordered)[len(path) - 1]
        assert f"<pre>{escape(program)}</pre>" in chosen
    assert d.plot().best == d.best.moves


def test_moves_that_lead_nowhere_leave_the_least_estimate():
    d = ea.derive("O[i] += A[i,j]*B[j]", A=(4, 5), B=(5,), states=4, measure=False)
    unknown = SearchTree(d.explored, best=(*d.candidates[-1].moves, *d.candidates[-1].moves, "x"))
    assert unknown.best_number == SearchTree(d.explored).best_number


def test_rows_are_frozen_and_travel_as_records():
    with pytest.raises(FrozenInstanceError):
        ROWS[0].number = 3
    assert [SearchNode.from_record(row.as_record()) for row in ROWS] == ROWS
    for broken in (
        3,
        {},
        {**ROWS[0].as_record(), "number": "0"},
        {**ROWS[0].as_record(), "parent": "x"},
    ):
        with pytest.raises(ea.RecordError, match="is broken"):
            SearchNode.from_record(broken)


def test_without_graphviz_there_is_no_svg(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert SearchTree(ROWS).svg() is None


def test_without_its_program_there_is_no_svg(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    assert SearchTree(ROWS).svg() is None


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_the_picture_of_graphviz():
    pytest.importorskip("graphviz")
    assert "<svg" in SearchTree(ROWS).svg()


def test_the_picture_has_every_state_in_its_colour():
    html = search_tree_html(SearchTree(ROWS))
    assert html.count("<rect") == len(ROWS) and html.count("<path") == len(ROWS) - 1
    assert html.count(f'fill="{colour(0)}"') == html.count(f'fill="{colour(1)}"') == 1
    assert "split &quot;r&quot;" in html and 'data-note="distance 1, 2.000 ms"' in html


def test_the_picture_says_the_expression_of_every_state():
    d = ea.derive(ea.parse("O[h] += A.pad(2)[h+r-2]*K[r]", A=(9,), K=(5,)), states=8, measure=False)
    programs = [d.expression]
    for row in d.explored[1:]:
        program = programs[row.parent]
        for step in row.steps:
            program = apply(program, step, ALL)
        programs.append(program)
    html = search_tree_html(d.plot())
    shown = re.findall(r'data-number="(\d+)"[^>]* data-text="([^"]*)"', html)
    assert len(shown) == len(d.explored) and {
        int(number): unescape(text) for number, text in shown
    } == dict(enumerate(map(str, programs)))


def test_a_picture_of_many_states_says_how_many_it_leaves_out():
    many = [
        SearchNode(n, None if n == 0 else 0, f"move {n}", float(n), False, None) for n in range(400)
    ]
    html = search_tree_html(SearchTree(many))
    assert html.count("<rect") == MAX_STATES and f"{400 - MAX_STATES} states" in html


def test_a_derivation_plots_what_it_explored():
    d = ea.derive(ea.parse("O[h] += A.pad(2)[h+r-2]*K[r]", A=(9,), K=(5,)), states=3, measure=False)
    assert d.explored and d.explored[0].parent is None and len(d.plot().rows) == len(d.explored)
    assert d.plot().dot.count("->") == len(d.explored) - 1


def test_labels_that_differ_look_different():
    moves = [
        "staging at O.0.0: access=1, axes=(c, f, r, s, n, h, w), subscripts=(y0, y1, "
        f"{k}), more={'x' * 80}{k}"
        for k in range(12)
    ]
    rows = [ROWS[0], *(SearchNode(k, 0, move, 1.0, False, None) for k, move in enumerate(moves, 1))]
    drawn = [
        re.sub(r' [xy]="\d+"', "", label)
        for label in re.findall(r"<text.*?</g>", search_tree_html(SearchTree(rows)))
    ]
    written = [line.partition("  (")[0] for line in str(SearchTree(rows)).splitlines()]
    for labels in (drawn, written, re.findall(r' \[label="([^"]*)"', dot(rows))):
        assert len(set(labels)) == len(rows) and all("staging" in label for label in labels[1:])
    assert all(
        f"{move}: distance 1" in dot(rows) and move in unescape(search_tree_html(SearchTree(rows)))
        for move in moves
    )
