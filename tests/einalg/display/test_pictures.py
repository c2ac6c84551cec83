"""Trees, proofs and cost bars as HTML."""

from __future__ import annotations

import re

import pytest

import einalg as ea
from derive.results.costs import BESIDES, TOGETHER, Bar, Costs
from einalg.api.representations import HTML
from einalg.display.html import asset, style_of
from einalg.display.results.costs import costs_html
from einalg.display.tree_svg import COLUMN, LINE, TreeNode, layout, tree_html


def node(number, parent, **more):
    return TreeNode(number, parent, f"state {number}", "", "#fff", **more)


def test_a_tree_has_a_column_for_each_depth_and_a_line_for_each_leaf():
    places = layout([node(0, None), node(1, 0), node(2, 1), node(3, 1), node(4, 0)])
    assert [(x // COLUMN, y // LINE) for x, y in places.values()] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
        (1, 2),
    ]


@pytest.mark.parametrize(
    "nodes",
    [[node(1, 7)], [node(1, 1)], [node(1, None), node(2, None)]],
    ids=["orphan", "loop", "forest"],
)
def test_odd_trees_have_a_place_for_every_node(nodes):
    assert len(set(layout(nodes).values())) == len(nodes)


def test_a_deep_tree_does_not_recurse():
    assert len(layout([node(0, None), *(node(n, n - 1) for n in range(1, 5000))])) == 5000


def test_texts_are_escaped():
    html = tree_html([TreeNode(0, None, "<b>", '"note"', "#fff", text="A[i] < 1")])
    assert "<b>" not in html and "&lt;b&gt;" in html and "A[i] &lt; 1" in html


def test_every_tree_has_an_id_of_its_own():
    one, two = (re.findall(r'<div id="([^"]+)"', tree_html([node(0, None)])) for _ in range(2))
    assert len(one) == len(two) == 1 and one != two


def test_a_derivation_is_a_proof_read_downwards():
    s = ea.Session(ea.parse("O[h] += A.pad(1)[h+r-1]*K[r,c]", A=(8,), K=(3, 4)))
    s.apply(s.moves("summation splitting")[0])
    html = s.history._repr_html_()
    assert (
        html.count("<li>") == 2
        and "<strong>summation splitting</strong>" in html
        and "proved" in html
        and "einalg-changed" in html
    )


def test_the_steps_of_a_candidate_lead_to_it():
    d = ea.derive(
        ea.parse("O[h] += A.pad(2)[h+r-2]*K[r]", A=(9,), K=(5,)), states=10, measure=False
    )
    chosen = next(c for c in d.candidates if c.moves)
    steps = d.steps(chosen)
    assert steps.moves == chosen.moves and {step.verdict for step in steps.steps} == {"proved"}
    assert (
        steps.start == d.expression
        and str(steps.program) == str(steps.replay())
        and len(d.steps(d.original)) == 0
    )


BARS = [
    Bar("as it is", 0.004, True, (("O = conv2d(A, K)", 0.002),)),
    Bar(
        "after 3 moves",
        0.002,
        True,
        (("T = eop(K)", 0.0), ("U = matmul(A, T)", 0.001), ("O = eop(<U>)", 0.003)),
    ),
]


def test_bars_have_one_scale_and_parts_that_add_up():
    html = costs_html(Costs(BARS))
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", html)]
    assert widths == [50.0, 12.5, 37.5] and "&lt;U&gt;" in html and "once, from weights" in html


def test_bars_as_text():
    lines = str(Costs(BARS)).splitlines()
    assert (
        lines[0].count("█") == 2 * lines[3].count("█")
        and "4.000 ms  as it is" in lines[0]
        and "once, from weights  T = eop(K)" in lines[4]
    )
    assert lines[2].split(maxsplit=2) == ["+2.000", "ms", BESIDES] and lines[-1].split(
        maxsplit=2
    ) == ["-2.000", "ms", TOGETHER]
    assert BESIDES in costs_html(Costs(BARS)) and TOGETHER in costs_html(Costs(BARS))
    assert str(Costs([])) == ""


def test_the_costs_of_a_derivation_are_those_of_its_candidates():
    d = ea.derive(
        ea.parse("O[h] += A.pad(2)[h+r-2]*K[r]", A=(9,), K=(5,)), states=10, measure=False
    )
    bars = d.costs().bars
    assert [bar.seconds for bar in bars] == [
        d.original.cost,
        next(c.cost for c in d.candidates if c.moves),
    ]
    for bar, candidate in zip(d.costs(d.candidates).bars, d.candidates, strict=True):
        assert (
            sum(bar.widths())
            == pytest.approx(candidate.cost)
            == pytest.approx(sum(s for _, s in bar.kernels))
        )
        assert [kernel for kernel, _ in bar.kernels] == list(map(str, candidate.kernels))


def test_what_is_wide_scrolls_inside_its_cell() -> None:
    """A table of formulas is as wide as its output at most."""
    style = asset("style.css")
    for selector in (".einalg table", ".einalg-formula"):
        (rules,) = re.findall(rf"^{re.escape(selector)} {{(.*)}}$", style, re.M)
        assert "max-width: 100%" in rules and "overflow-x: auto" in rules


def test_every_kind_of_result_has_its_picture_in_jupyter():
    assert len(HTML) == 20 and all(kind._repr_html_ is html for kind, html in HTML.items())


def test_a_page_brings_the_rules_along_that_concern_it():
    whole = asset("style.css")
    assert whole.count("{") == whole.count("}")
    tree = tree_html([node(0, None, end=True, text="A")])
    style = re.search(r"<style>(.*?)</style>", tree, re.S)[1]
    assert style.count("{") == style.count("}") and "/*" not in style
    assert ".einalg-canvas g.chosen" in style and "--ea-text" in style
    assert ".einalg-heat" not in style and ".einalg-session" not in style
    for kind in ("einalg-pair", "einalg-sides", "einalg-columns"):
        assert "@container" in style_of(kind)  # a rule around others is whole
    every = style_of(" ".join(re.findall(r"einalg-[\w-]+", whole)))
    assert every.count("{") == whole.count("{")
