"""The README's chart and figures, which are made from the files in `bench/results`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from docs.pages import speed
from docs.pages.charts import alone
from docs.pictures.gallery import IMAGES, ROOT

README = ROOT / "README.md"
CHART = IMAGES / "speed.svg"
BLOCKS: Mapping[str, Callable[[], str]] = {
    "speed": speed.readme_table,
    "demo": speed.readme_demo,
}
BLOCK = re.compile(r"<!-- (?P<name>\w+) -->(?P<line>\n?).*?<!-- end -->", re.DOTALL)


def with_figures(text: str) -> str:
    """Return a text with what stands between its marks made anew.

    Marks on lines of their own stay so.
    """
    return BLOCK.sub(_made, text)


def _made(block: re.Match[str]) -> str:
    name, line = block["name"], block["line"]
    return f"<!-- {name} -->{line}{BLOCKS[name]()}{line}<!-- end -->"


def chart() -> str:
    """Return the README's chart, as a file of its own."""
    return alone(speed.readme_chart())


def write() -> None:
    """Write the chart, and the figures between their marks."""
    IMAGES.mkdir(exist_ok=True)
    CHART.write_text(chart(), encoding="utf-8")
    README.write_text(with_figures(README.read_text(encoding="utf-8")), encoding="utf-8")
