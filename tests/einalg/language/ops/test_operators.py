"""Every operator against another implementation, on random parameters; an operator without a case
fails.
"""

from __future__ import annotations

import pkgutil
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language.ir.scope import Scope
from einalg.language.ops import OPERATORS
from tests.helpers.operators.harness import CASES, compare, load_cases, parameter_sets, run_case

NIGHTLY_SETS = 100
load_cases()


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator(name: str, record_property: Any) -> None:
    assert name in CASES, (
        f"operator {name} has no case\n  add one in tests/helpers/operators/cases_*.py: "
        f"@case({name!r})"
    )
    checked = sum(run_case(name, function) for function in CASES[name].values())
    record_property("parameter_sets", (name, checked))


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(OPERATORS) & set(CASES)))
def test_operator_on_more_parameters(name: str) -> None:
    for function in CASES[name].values():
        run_case(name, function, NIGHTLY_SETS)


def test_every_case_has_an_operator() -> None:
    assert set(CASES) <= set(OPERATORS)


def test_no_module_has_the_name_of_an_operator() -> None:
    """`einalg.ops.name` would be the one or the other, depending on what was imported last."""
    modules = {module.name for module in pkgutil.iter_modules(ea.ops.__path__)}
    assert not modules & set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_docstring_has_an_example(name: str) -> None:
    assert ">>> " in (OPERATORS[name].__doc__ or ""), (
        f"operator {name} has no example in its docstring"
    )


@pytest.mark.parametrize("name", sorted(set(OPERATORS) & set(CASES)))
def test_text_of_the_expression_reads_back(name: str) -> None:
    for function in CASES[name].values():
        for label, (expression, _, _) in parameter_sets(name, function, 3):
            if isinstance(expression, Scope):
                assert ea.parse(str(expression), **expression.tensors) == expression, label


def test_a_wrong_result_is_found() -> None:
    x = ea.tensor("x", (2, 3))
    expression, array = ea.ops.linear(x, ea.tensor("W", (2, 3))), np.arange(6).reshape(2, 3)
    right = array @ array.T
    compare("right", expression, {"x": array, "W": array}, right)
    for wrong in (right + np.eye(2, dtype=int), right[:1], right + 1e-6):
        with pytest.raises(AssertionError):
            compare("wrong", expression, {"x": array, "W": array}, wrong)
