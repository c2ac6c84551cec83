"""A plugin of pytest that shows the verdicts of a run: which tests proved what they compare, and
which tested it.

It is found by pytest where einalg is installed (`-p no:einalg` leaves it out), and does nothing
where no test asks for a verdict. It imports `verdict_log`, which imports nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from einalg.testing.verdict_log import Verdict, listening

PROPERTY = "einalg_verdict"  # of a report, which travels from the processes of pytest-xdist
VERDICTS = pytest.StashKey[list[Verdict]]()
ROWS = pytest.StashKey[list[tuple[str, Verdict]]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the verdicts while a test and its fixtures run."""
    verdicts = item.stash.setdefault(VERDICTS, [])
    verdicts.clear()  # of an earlier run, where a failed test is run again

    def note(verdict: Verdict) -> None:
        verdicts.append(verdict)
        text = json.dumps([verdict.name, verdict.verdict, verdict.extent])
        item.user_properties.append((PROPERTY, text))

    with listening(note):
        return (yield)


@pytest.fixture
def einalg_verdicts(request: pytest.FixtureRequest) -> list[Verdict]:
    """The verdicts of this test so far: a list of values with `name`, `verdict` and `extent`."""
    return request.node.stash.setdefault(VERDICTS, [])


class _VerdictRows:
    """The verdicts of all tests, in the process that prints them."""

    def __init__(self, config: pytest.Config):
        self._rows: list[tuple[str, Verdict]] = config.stash.setdefault(ROWS, [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._rows.append((report.nodeid, Verdict(*json.loads(str(value)))))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_VerdictRows(config), "einalg-verdicts")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a line for each verdict, and how many there are of each kind."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("einalg verdicts")
    for line in table(rows):
        terminalreporter.write_line(line)


def table(rows: list[tuple[str, Verdict]]) -> list[str]:
    """Return the lines of a table.

    >>> table([("test_a.py::test_b", Verdict("softmax", "tested", "100 examples"))])
    ['tested  test_a.py::test_b  softmax, 100 examples', '1 tested']
    """
    first = max(len(verdict.verdict) for _, verdict in rows)
    second = max(len(test) for test, _ in rows)
    lines: list[str] = []
    for test, verdict in rows:
        what = ", ".join(filter(None, (verdict.name, verdict.extent)))
        lines.append(f"{verdict.verdict:{first}}  {test:{second}}  {what}".rstrip())
    counts = Counter(verdict.verdict for _, verdict in rows)
    return [*lines, ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
