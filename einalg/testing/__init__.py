"""Tools for property-based tests of expressions and rules: ours, and a user's own (design §1, §6).

`strategies` makes random expressions for hypothesis; `check_rule` tries a rule on them. Both are
imported on first use, so that
nothing here needs hypothesis before it is used.

>>> import einalg as ea
>>> from derive.rules import RULES
>>> ea.testing.check_rule(RULES["summation splitting"], examples=10).programs >= 10
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["check_rule", "strategies"]  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name == "strategies":
        return import_module("einalg.testing.strategies")
    if name == "check_rule":
        return import_module("einalg.api.rules").check_rule
    raise AttributeError(f"module 'einalg.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
