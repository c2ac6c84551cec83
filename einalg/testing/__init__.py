"""Tools for property-based tests of expressions and rules: ours, and a user's own (design §1, §6).

`assert_equal` compares a function with an expression, and lives in `equality`; `strategies` makes
random expressions for hypothesis; `check_rule` tries a rule on them. All are imported on first use,
so that nothing here needs hypothesis before it is used. `pytest_plugin` shows the verdicts of a
run; `verdict_log` is how they reach it. `draws` and `random_scopes` are behind the strategies,
`shape_space`, `input_values` and `subject` know shapes, arrays and the functions of users.

>>> import einalg as ea
>>> from derive.rules import RULES
>>> ea.testing.check_rule(RULES["summation splitting"], examples=10).programs >= 10
True
>>> ea.testing.assert_equal(lambda A: A.sum(), ea.parse("O[()] += A[i]", A=(5,)))
'tested'
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from einalg.boundary import missing_attribute, public

__all__ = ["assert_equal", "check_rule", "strategies"]  # pyright: ignore


@public
def __getattr__(name: str) -> Any:
    if name == "strategies":
        return import_module("einalg.testing.strategies")
    if name == "check_rule":
        return import_module("einalg.api.questions").check_rule
    if name == "assert_equal":
        return import_module("einalg.testing.equality.assertion").assert_equal
    raise missing_attribute("ea.testing", name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
