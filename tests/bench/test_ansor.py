"""The table of Ansor's cases: what has other values than the reference counts for nothing."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest

from bench import ansor

RIGHT = 1e-7


def row(**errors: float) -> Any:
    """A case in which the library takes 2 ms, the program as written 1 and that of the search 0.5."""
    errors = {"torch": RIGHT, ansor.WRITTEN: RIGHT, ansor.DERIVED: RIGHT, **errors}
    medians = {"torch": 2.0, ansor.WRITTEN: 1.0, ansor.DERIVED: 0.5}
    return ansor.row("GMM 2x2 b1", 1.0, {"ms": medians, "least ms": medians, "errors": errors})


@pytest.mark.parametrize("error", [1.0, nan])
@pytest.mark.parametrize(
    "name, ratios, means",
    [
        (ansor.WRITTEN, ("", 4.0), ("", 4.0)),
        (ansor.DERIVED, (2.0, ""), (2.0, 2.0)),
        ("torch", ("", ""), None),
    ],
)
def test_what_is_wrong_is_told_and_counts_for_nothing(
    name: str, ratios: tuple[Any, Any], means: tuple[Any, Any] | None, error: float
) -> None:
    wrong = row(**{name: error})
    assert (wrong["ratio"], wrong["derived ratio"]) == ratios
    lines = ansor.summary([wrong])
    if means is None:
        assert lines == []
        return
    told = {ansor.WRITTEN: wrong["error"], ansor.DERIVED: wrong["derived error"]}
    assert told[name] is error
    for line in lines:
        assert (line["written"], line["best of both"]) == means
        assert line["wrong"] == line["cases"] == 1


def test_of_right_programs_none_is_wrong() -> None:
    line = ansor.summary([row(), row()])[-1]
    assert (line["written"], line["best of both"], line["wrong"]) == (2.0, 4.0, 0)
