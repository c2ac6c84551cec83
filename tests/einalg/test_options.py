"""Kinds of options: what each accepts, and how a message says what it must be."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from einalg.errors import DeviceError, EinalgError, UseError
from einalg.options import (
    ACCURACY,
    EXECUTOR,
    FLAG,
    NEW_FILE,
    PATH,
    PROGRESS,
    Kind,
    checked,
    checked_fields,
    either,
    one_of,
    optional,
    real,
    several,
    shown,
    text,
    whole,
)


class Hostile:
    """A value whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError


NAMES = several(text("h"), "names in a list", "e.g. {name}=['h']")
ACCEPTED: list[tuple[Kind, Any, Any]] = [
    (whole(), 0, 0),
    (whole(), np.int8(3), 3),
    (whole(), 10**30, 10**30),
    (whole(None), -4, -4),
    (whole(1, 5), 5, 5),
    (real("1"), 0, 0.0),
    (real("1"), math.inf, math.inf),
    (real("1"), 10**400, math.inf),
    (real("1"), Fraction(1, 2), 0.5),
    (real("1"), np.float32(0.5), 0.5),
    (real("1", above=0, most=3600), 3600, 3600.0),
    (FLAG, False, False),
    (one_of("c", "cuda"), "c", "c"),
    (text("c"), "c", "c"),
    (optional(whole()), None, None),
    (either(FLAG, whole()), 2, 2),
    (NAMES, ["h", "w"], ("h", "w")),
    (NAMES, iter("hw"), ("h", "w")),
    (PROGRESS, print, print),
    (PROGRESS, True, True),
    (ACCURACY, 1e-4, 1e-4),
    (PATH, "model", Path("model")),
    (PATH, Path("model"), Path("model")),
]
REFUSED: list[tuple[Kind, Any]] = [
    *((whole(), value) for value in (-1, 2.0, True, np.True_, "2", None, math.nan, [1], Hostile())),
    *((whole(1, 5), value) for value in (0, 6)),
    *((real("1"), value) for value in (-1e-9, -(10**400), math.nan, False, "1", None, 1j)),
    *((real("1", above=0, most=3600), value) for value in (0, 3601)),
    *((FLAG, value) for value in (1, 0, None, "yes", np.True_)),
    *((one_of("c", "cuda"), value) for value in ("C", "", None, ["c"], b"c")),
    *((text("c"), value) for value in ("", None, 3, b"c")),
    *((optional(whole()), value) for value in (-1, "")),
    *((either(FLAG, whole()), value) for value in (-1, "a", None)),
    *((NAMES, value) for value in ("h", {"h": 1}, 3, [""], [3], None)),
    *((PROGRESS, value) for value in (3, "a")),
    *((EXECUTOR, value) for value in (3, "a", object())),
    *((PATH, value) for value in (None, 3, "", "a\0b", b"model")),
    *((NEW_FILE, value) for value in ("no folder/file", "x" * 5000, ".", None)),
]


@pytest.mark.parametrize(("kind", "value", "expected"), ACCEPTED)
def test_what_a_kind_accepts(kind: Kind, value: Any, expected: Any) -> None:
    result = kind.check("option", value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_what_a_kind_refuses(kind: Kind, value: Any) -> None:
    with pytest.raises(kind.error) as refused:
        kind.check("option", value)
    what, remedy = str(refused.value).split("\n")
    assert what.startswith(f"option must be {kind.description}, not ")
    assert remedy.startswith("  ")
    assert "{" not in remedy


def test_a_value_is_shown_on_one_short_line() -> None:
    assert shown(2.5) == "2.5"
    assert shown("two\nlines") == r"'two\nlines'"
    assert shown(np.zeros((3, 3))).count("\n") == 0
    assert len(shown("a" * 10**6)) < 100
    assert shown(Path("model.json")) == "'model.json'"
    assert shown(10**5000) == "a value of type int"
    assert shown(Hostile()) == "a value of type Hostile"


@checked(depth=whole(), target=one_of("cpu", error=DeviceError), rest=text("A"))
def searched(
    subject: Any, depth: Any = 1, *rest: Any, target: Any = "cpu", **more: Any
) -> tuple[Any, ...]:
    return subject, depth, rest, target, more


def test_options_are_checked_wherever_they_stand() -> None:
    assert searched(None) == (None, 1, (), "cpu", {})
    assert searched("s", np.int64(2), "A", "B", target="cpu", other=-1) == (
        *("s", 2, ("A", "B"), "cpu"),
        {"other": -1},
    )
    for arguments, named in [
        (("s", -1), {}),
        (("s",), {"depth": "a"}),
        (("s", 1, "A", 3), {}),
        (("s",), {"target": "gpu"}),
    ]:
        with pytest.raises(EinalgError):
            searched(*arguments, **named)


def test_a_kind_without_its_option_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="has no option depth"):
        checked(depth=whole())(lambda width: width)


def test_fields_are_checked_where_a_value_is_made() -> None:
    @checked_fields(size=whole(1))
    class Box:
        def __init__(self, size: int):
            self.size = size

    assert Box(np.int32(2)).size == 2  # type: ignore[arg-type]
    with pytest.raises(UseError, match="size must be a whole number of at least 1, not 0"):
        Box(0)
