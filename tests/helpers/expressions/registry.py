"""Where the expressions are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EXPRESSIONS: dict[str, Callable[[], Any]] = {}


def expression(make: Callable[[], Any]) -> Callable[[], Any]:
    EXPRESSIONS[make.__name__] = make
    return make
