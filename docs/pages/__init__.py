"""The pages that are made from the code: a function for each, which returns Markdown."""

from __future__ import annotations

from docs.pages import (
    api,
    command_line,
    errors,
    notebooks,
    operators,
    performance,
    rules,
    schedules,
)

PAGES = {
    "reference/api.md": api.page,
    "reference/command-line.md": command_line.page,
    "reference/errors.md": errors.page,
    "reference/operators.md": operators.page,
    "reference/performance.md": performance.page,
    "reference/rules.md": rules.page,
    "reference/schedules.md": schedules.page,
    **notebooks.pages(),
}
