"""The README prints what its examples print, and its figures are those of the results."""

from __future__ import annotations

import re
from functools import partial

import pytest

import einalg as ea
from docs.pages import speed
from docs.readme import figures, transcript
from einalg.text.wording import counted

README = figures.README.read_text(encoding="utf-8")
REPORT = figures.README.parent / "docs" / "how-to" / "read-the-report.md"
STATES = 20  # of the search, which chooses kernels that are not compared


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_examples_print_what_is_stored_of_them(monkeypatch):
    monkeypatch.setattr(ea, "derive", partial(ea.derive, states=STATES, seconds=300))
    different = transcript.differences(README, transcript.with_outputs(README))
    assert not different, "write it anew with `make readme`:\n" + "\n".join(different)


def test_there_are_examples_and_they_show_a_derivation():
    blocks = transcript.BLOCK.findall(README)
    assert len(blocks) == README.count("```python\n>>> ") == 2
    assert "d = ea.derive(" in blocks[0]


def test_the_page_on_reports_explains_the_words_of_the_first_example():
    page = REPORT.read_text(encoding="utf-8")
    excerpt = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    (printed,) = re.findall(r"^>>> d\n(.*?)^>>> ", README, re.DOTALL | re.MULTILINE)
    assert transcript.compared(excerpt) == transcript.compared(printed)


def test_statements_of_several_lines_and_empty_lines_are_written_as_at_a_prompt():
    page = "a\n```python\n>>> for i in (1, 2):\n...     print(i, '')\n>>> print('x\\n\\ny')\n```\nb"
    written = transcript.with_outputs(page)
    assert written == (
        "a\n```python\n>>> for i in (1, 2):\n...     print(i, '')\n1 \n2 \n"
        ">>> print('x\\n\\ny')\nx\n<BLANKLINE>\ny\n```\nb"
    )
    assert transcript.with_outputs(written) == written


def test_what_is_not_printed_today_is_a_difference():
    page = "```python\n>>> x = 2\n>>> x\n2\n```"
    assert transcript.differences(page, transcript.with_outputs(page)) == []
    (sentence,) = transcript.differences(page.replace("\n2\n", "\n3\n"), page)
    assert sentence == "`x` prints ['2'], and ['3'] is stored"


def test_the_figures_of_the_readme_are_those_of_the_results():
    text = figures.README.read_text(encoding="utf-8")
    assert figures.with_figures(text) == text, "write them anew with `make readme`"
    assert {name for name, _ in figures.BLOCK.findall(text)} == set(figures.BLOCKS)
    assert figures.CHART.read_text(encoding="utf-8") == figures.chart()


def test_figures_are_written_between_their_marks():
    text = "a <!-- demo -->1 ms<!-- end --> b\n\n<!-- speed -->\n| old |\n<!-- end -->\n"
    written = figures.with_figures(text)
    assert written.startswith(f"a <!-- demo -->{speed.readme_demo()}<!-- end --> b\n\n")
    assert written.endswith(f"<!-- speed -->\n{speed.readme_table()}\n<!-- end -->\n")


def test_the_chart_of_the_readme_has_every_network():
    record = next(iter(speed.records("models").values()))
    bars = re.findall("<rect", figures.chart())
    assert counted(len(bars), "network") == counted(len(record["models"]), "network")
