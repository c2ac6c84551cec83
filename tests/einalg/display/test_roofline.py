"""The roofline as a picture and a table: the figures are those of the candidates."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from derive.cost.roofline_table import Roof, RooflineRow, RooflineTable
from derive.cost.work import Work
from einalg.display.results.tables import roofline_html
from einalg.display.roofline_svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    LogarithmicAxis,
    roofline_svg,
)
from einalg.display.tables import MAX_OPEN_ROWS, long_table

ROOF = Roof(peak=1e11, bandwidth=2e10, is_measured=True)


def table(count, is_measured=True):
    rows = []
    for k in range(count):
        works = (Work(1000 * 3**k, 500 * 2**k),)
        rows.append(RooflineRow(k, "<eop>", works, 1e-6 * 3**k, is_measured, ROOF))
    return RooflineTable(rows, ROOF)


def test_points_lie_below_the_roof_where_the_figures_are():
    drawn = table(4)
    svg = roofline_svg(drawn)
    places = [tuple(map(float, p)) for p in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)]
    corners = re.search(r'polyline points="([^"]+)"', svg)[1].split()
    assert len(places) == 4 and len(corners) == 3
    for x, y in places:
        assert LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM
    assert [x for x, _ in places] == sorted(x for x, _ in places)  # as the intensities are
    assert "&lt;eop&gt;" in svg and "<eop>" not in svg
    assert roofline_svg(table(3, is_measured=False)) == ""


@pytest.mark.parametrize("numbers", [[1.0], [0.0], [0.3, 17], [1e-9, 1e12], [5, 5]])
def test_an_axis_holds_all_its_numbers(numbers):
    axis = LogarithmicAxis.of(numbers, 0.0, 100.0)
    assert axis.low < axis.high and len(axis.ticks()) >= 1
    for number in numbers:
        assert 0 <= axis.place(number) <= 100
    assert axis.place(axis.low) == 0 and axis.place(axis.high) == 100


def test_every_candidate_is_listed_and_many_are_folded():
    many = table(MAX_OPEN_ROWS + 3)
    html = roofline_html(many)
    assert html.count('<th scope="row">') == len(many.rows) and "3 more</summary>" in html
    for cells in many.cells():
        assert all(f">{cell}</td>" in html for cell in cells[1:])
    assert "GFLOP/s, 20.0 GB/s" in html


def test_a_long_table_is_balanced():
    opened = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag, attrs):
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Balance().feed(long_table(("", "a"), [(str(k), "<b>") for k in range(30)], numbers=(1,)))
    assert not opened
