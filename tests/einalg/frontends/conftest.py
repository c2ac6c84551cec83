"""The last lines of a run say which cases of the installed onnx the table of cases does not know."""

from __future__ import annotations

from typing import Any

from tests.helpers.unknown_operators import UNKNOWN


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.stats.get("passed", [])
    cases = sorted(
        {
            value
            for report in passed
            for key, value in getattr(report, "user_properties", ())
            if key == UNKNOWN
        }
    )
    if cases:
        terminalreporter.write_line(
            f"onnx: {len(cases)} cases are not expressed that the table for another "
            "version does not know"
        )
        for case in cases:
            terminalreporter.write_line(f"  {case}")
