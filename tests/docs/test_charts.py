"""Charts show the figures of the files in `bench/results`."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.pages import charts, speed

RATIOS = st.floats(0.01, 100)


def circles(chart):
    """The centres of the dots, without those of the legend."""
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>', chart)
    return [(float(x), float(y)) for x, y in found]


@settings(max_examples=30)
@given(st.lists(RATIOS, min_size=1, max_size=6))
def test_a_dot_is_farther_right_where_its_ratio_is_larger(ratios):
    chart = charts.dots("a", [(f"row {k}", {"one": r}) for k, r in enumerate(ratios)], "times")
    centres = circles(chart)
    assert len(centres) == len(ratios)
    order = sorted(range(len(ratios)), key=lambda k: ratios[k])
    assert [centres[k][0] for k in order] == sorted(x for x, _ in centres)
    assert all(charts.LABEL <= x <= charts.LABEL + charts.PLOT for x, _ in centres)
    ElementTree.fromstring(chart)


@settings(max_examples=30)
@given(st.lists(RATIOS, min_size=1, max_size=6))
def test_bars_are_as_long_as_their_figures(ratios):
    chart = charts.bars("a", [(f"row <{k}>", r) for k, r in enumerate(ratios)], "times")
    lengths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', chart)]
    assert lengths == pytest.approx(
        [charts.PLOT * ratio / max(ratios) for ratio in ratios], abs=0.06
    )
    ElementTree.fromstring(charts.alone(chart))


def test_a_series_has_the_colour_of_its_place_in_all_charts():
    names = ["one", "two"]
    both = charts.dots("a", [("row", {"one": 1.0, "two": 2.0})], "times", names)
    second = charts.dots("a", [("row", {"two": 2.0})], "times", names)
    assert charts.COLOURS[0] in both and charts.COLOURS[1] in both
    assert charts.COLOURS[0] not in second and charts.COLOURS[1] in second


@pytest.mark.parametrize("batch, threads", [(1, 1), (16, 1), (1, 2)])
def test_every_network_that_was_measured_has_its_dot(batch, threads):
    measured = 0
    for path in speed.RESULTS.glob("models*.json"):
        for row in json.loads(path.read_text())["models"]:
            measured += (row["batch"], row["threads"]) == (batch, threads)
    assert len(circles(speed.network_chart(batch, threads))) == measured > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_every_kernel_that_was_measured_has_its_dot(threads):
    measured = 0
    for path in speed.RESULTS.glob("kernels*.json"):
        rows = json.loads(path.read_text()).get("kernels", [])
        measured += sum(row["threads"] == threads for row in rows)
    assert len(circles(speed.kernel_chart(threads))) == measured > 0


@pytest.mark.parametrize(
    "chart, name, series",
    [
        (speed.depthwise_chart, "depthwise", 1),
        (speed.contraction_chart, "contractions", 1),
        (speed.filter_chart, "filters", 2),
    ],
)
def test_every_row_of_a_benchmark_has_its_dots(chart, name, series):
    record = json.loads((speed.RESULTS / f"{name}.json").read_text())
    rows = max((value for value in record.values() if isinstance(value, list)), key=len)
    assert len(circles(chart())) == series * len(rows) > 0


def test_the_machines_have_names_of_their_own():
    kernels, models = speed.records("kernels"), speed.records("models")
    assert list(kernels) == list(models)
    assert len(kernels) == len(list(speed.RESULTS.glob("kernels-*.json"))) + 1
