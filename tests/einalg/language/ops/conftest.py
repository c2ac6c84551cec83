"""The last lines of a run say how many parameter sets each operator was checked on."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts = sorted(
        value
        for report in terminalreporter.stats.get("passed", [])
        for key, value in getattr(report, "user_properties", ())
        if key == "parameter_sets"
    )
    if counts:
        total = sum(count for _, count in counts)
        terminalreporter.write_line(f"operators: {len(counts)} checked on {total} parameter sets")
        terminalreporter.write_line("  " + ", ".join(f"{name} {count}" for name, count in counts))
