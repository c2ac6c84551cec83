"""What the benchmark of trust says of figures that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

import bench
from bench import trust
from einalg.runtime.measurement import Comparison, Measurement


def row(low: float, quartile: float, busy: bool = False) -> bench.Row:
    """What a process tells whose best form takes so long, and the form as it is written a second."""
    own = Measurement(low, quartile, quartile, 9, busy=busy)
    comparison = Comparison(own, Measurement(1.0, 1.02, 1.1, 9))
    return {"beside a loop": busy, "text": comparison.text(), **comparison.as_record()}


SHARP = [row(0.40, 0.41), row(0.42, 0.43, busy=True), row(0.38, 0.39)]


@pytest.mark.parametrize(
    ("rows", "agree", "text"),
    [
        (SHARP, True, "3 figures within 11% of each other, 0 said to be uncertain: they agree"),
        ([*SHARP, row(0.40, 0.90, busy=True)], True, "3 figures within 11%"),
        ([*SHARP, row(0.20, 0.21)], False, "they do not agree"),
        ([*SHARP, row(0.10, 0.20, busy=True)], False, "1 whose range misses the others"),
        ([row(0.1, 0.9), row(0.3, 0.8)], True, "0 figures within 0% of each other, 2 said"),
    ],
)
def test_figures_agree_or_say_that_they_are_uncertain(
    rows: list[bench.Row], agree: bool, text: str
) -> None:
    said, told = trust.verdict(rows)
    assert said == agree and text in told


def test_it_derives_the_convolution_of_the_readme() -> None:
    readme = Path(trust.__file__).parents[1] / "README.md"
    shapes = ", ".join(f"{name}={shape}" for name, shape in trust.SHAPES.items()).replace(" ", "")
    assert trust.CONVOLUTION in readme.read_text(encoding="utf-8")
    assert shapes.replace("),K", "), K") in readme.read_text(encoding="utf-8")
