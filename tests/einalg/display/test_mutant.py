"""The picture of a mutant: the cells of the output that differ, along the axes on which some do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import einalg as ea
from einalg.display.results.mutant import mutant_html, mutants_html, region_svg

BLUR = "O[n,h,w] = Sum[r:3](A.pad(0,1,0)[n,h+r-1,w])"


def mutants() -> Sequence[ea.Mutant]:
    return ea.mutants(BLUR, A=(2, 8, 5))


def test_the_cells_that_differ_are_drawn() -> None:
    tiles = next(m for m in mutants() if m.mutations[0]["kind"] == "tile" and not m.is_equal)
    picture = region_svg(tiles.original["O"], tiles.region)
    svg = ElementTree.fromstring(picture[: picture.index("</svg>") + len("</svg>")])
    rows = [rect for rect in svg.iter("rect") if rect.get("fill") == "#d1495b"]
    assert [(rect.get("x"), rect.get("y"), rect.get("width")) for rect in rows] == [
        ("0", "36", "60"),
        ("0", "48", "60"),
    ]
    (title,) = svg.iter("title")
    assert title.text == "h down, w across: 10 of 40 places differ"


def test_every_mutant_is_shown_in_words() -> None:
    for mutant in mutants():
        html = mutant_html(mutant)
        assert ("<svg" in html) != mutant.is_equal
        assert re.sub("<[^>]*>", "", html).count("mutant at O") == 1
        assert mutant._repr_html_() == html  # type: ignore[attr-defined]


def test_what_is_too_large_or_of_any_size_is_not_drawn() -> None:
    wide = ea.mutants("O[h] = Sum[r:3](A.pad(1)[h+r-1])", A=(999,))[-1]
    assert "<svg" not in mutant_html(wide) and "differs where" in mutant_html(wide)
    sized = ea.mutants("O[n:N,h:H] = Sum[r:3](A.pad(0,1)[n,h+r-1])", A=("N", "H"))[-1]
    assert "<svg" not in mutant_html(sized) and "differs where" in mutant_html(sized)


def test_a_list_of_mutants_is_a_line_and_a_row_for_each() -> None:
    many = ea.mutants(BLUR, A=(2, 8, 5), depth=2)
    assert len(many) > 12
    assert str(many).splitlines()[0].split() == ["differs", "at", "mutations"]
    assert len(str(many).splitlines()) == 1 + len(many)
    html = mutants_html(many)
    assert many._repr_html_() == html  # type: ignore[attr-defined]
    assert html.count('scope="row"') == len(many) and f"{len(many) - 12} more" in html
    assert [m.is_equal for m in many[:3]] == [m.difference == "none" for m in many[:3]]
    assert str(many[:0]) == "no mutant" and "no mutant" in mutants_html(many[:0])
