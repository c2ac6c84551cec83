"""The graph of a network before and after: its statements, their times, the lines between them."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from derive.rules.inter.lifting_nesting import lifted
from einalg.display.network_graph import (
    ESTIMATED,
    INSIDE,
    GraphSide,
    GraphStatement,
    NetworkGraph,
    lanes,
)
from einalg.display.results.network import network_html
from einalg.text.terminal import COLUMNS

PROGRAM = """
T[i,j] += X[i,k] * W[k,j]
R[i,j] = Max(T[i,j] + b[j], 0)
S[i,j] += R[i,k] * V[k,j]
O[i,j] = S[i,j] + R[i,j]
"""


@pytest.fixture(scope="module")
def network():
    weights = {
        "W": ea.tensor("W", (24, 24), role="weight"),
        "V": ea.tensor("V", (24, 24), role="weight"),
        "b": ea.tensor("b", (24,), role="weight"),
    }
    program = ea.parse(PROGRAM, X=(32, 24), **weights)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(t.shape) for name, t in program.inputs.items()}
    return ea.optimize(program, arrays, seconds=5)


def statement(name, *reads, seconds=1e-3, is_measured=True, **more):
    scope = ea.parse("O[i] = A[i]", A=(3,))
    return GraphStatement(
        name, "<eop>", reads, (3,), scope, seconds, is_measured, text=f"{name} < 1", **more
    )


def test_every_statement_is_there_with_what_it_reads(network):
    (part,) = network.parts.values()
    graph = network.plot()
    for side, program in zip(graph.sides, (part.before, part.after)):
        flat = lifted(program)
        assert [s.name for s in side.statements] == list(flat.names)
        for row, text in zip(side.statements, str(flat).splitlines()):
            assert row.text == text and row.shape == flat[row.name].shape
            assert set(row.reads) == flat[row.name].tensors.keys() - {"W", "V", "b"}
            assert row.once or row.seconds is None or (row.is_measured and row.seconds > 0)
        assert side.whole == part.seconds[graph.sides.index(side)]
        assert any(row.seconds for row in side.statements)


def test_estimates_are_marked_and_measure_nothing(network, monkeypatch):
    def refuse(*_):
        raise AssertionError("something is timed")

    (part,) = network.parts.values()
    monkeypatch.setattr(type(part.run), "time", refuse)
    graph = network.plot(measure=False)
    assert ESTIMATED in graph.remarks() and INSIDE not in graph.remarks()
    assert all(s.time.startswith("~") for side in graph.sides for s in side.statements)
    assert "~" in str(graph)


def test_jupyter_shows_all_statements_and_the_terminal_the_longest(network):
    graph = network.plot(measure=False)
    html = graph._repr_html_()
    balance(html)
    for side in graph.sides:
        for row in side.statements:
            assert f"<strong>{row.name}</strong>" in html
            assert row.time in html
    lines = str(graph).splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= COLUMNS
    assert "o.plot()" in network._repr_html_()
    with pytest.raises(ea.UseError):
        network.plot(measure="no")


def balance(html):
    opened = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in ("br", "input"):
                opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Balance().feed(html)
    assert not opened


def graph_of(*statements):
    side = GraphSide("before", statements, 0.0)
    return NetworkGraph(side, GraphSide("after", (), 0.0))


def test_layers_fold_and_what_is_done_once_stands_apart():
    side = GraphSide(
        "after",
        (
            statement("W2", once=True, seconds=None),
            statement("a"),
            statement("L_1", "a", layer="L"),
            statement("L", "L_1", layer="L", seconds=3e-3),
            statement("z", "L"),
        ),
        0.0,
    )
    assert [(layer, [m.name for m in group]) for layer, group in side.groups()] == [
        ("", ["a"]),
        ("L", ["L_1", "L"]),
        ("", ["z"]),
    ]
    html = network_html(NetworkGraph(GraphSide("before", (), 0.0), side))
    balance(html)
    assert "1 statement done once, from weights" in html and "2 statements: &lt;eop&gt;" in html
    assert "4.000 ms <small>67%</small>" in html  # of the layer: 4 of 6 ms


def test_texts_are_escaped_and_times_that_are_not_known_have_no_colour():
    opaque = GraphStatement("<o>", "framework: <sort>", ("a",), text="no <order>")
    html = network_html(graph_of(statement("a"), statement("b", "a", seconds=None), opaque))
    balance(html)
    for text in ("<o>", "<sort>", "<order>", "<eop>"):
        assert text not in html and text.replace("<", "&lt;").replace(">", "&gt;") in html
    assert html.count("einalg-heat unknown") == 2 and "what framework" in html
    assert re.findall(r'data-reads="([^"]*)"', html) == ["", "a", "a"]
    assert unescape(re.findall(r'data-text="([^"]*)"', html)[0]) == "<eop> 3 a < 1"


def test_long_names_keep_what_tells_them_apart():
    names = [f"native_batch_norm_legit_no_training_{k}_0" for k in range(12)]
    text = str(graph_of(*[statement(name, *names[:k]) for k, name in enumerate(names)]))
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "training_9_0" in text and "and 2 more that take less" in text


@given(st.lists(st.sets(st.integers(0, 11)), max_size=12))
def test_every_value_has_one_lane_from_its_maker_to_its_last_reader(sources):
    rows = [
        ((str(number),), [str(source) for source in read if source < number])
        for number, read in enumerate(sources)
    ]
    drawn = lanes(rows)
    assert len(drawn) == len(rows)
    readers = {
        number: [k for k, (_, r) in enumerate(rows) if str(number) in r] for number in range(12)
    }
    for number, row in enumerate(drawn):
        alive = [k for k in range(number) if readers[k] and max(readers[k]) > number]
        assert sorted(row.passing) == sorted(drawn[k].own for k in alive)
        assert len(set(row.passing)) == len(row.passing)
        assert set(row.ending) == {drawn[int(source)].own for source in rows[number][1]}
        assert row.own not in row.passing and row.goes_on == bool(readers[number])


def test_a_layer_that_reads_itself_ends():
    assert [row.own for row in lanes([(("a", "b"), ("a", "x")), (("c",), ("b",))])] == [0, 0]
