"""Every operator against another implementation, on random parameters; an operator without a case fails."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

from einalg.ops import OPERATORS
from tests.ops.harness import CASES, load_cases, run_case

load_cases()


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator(name: str, record_property: Any) -> None:
    assert name in CASES, f"operator {name} has no case\n  add one in tests/ops/cases_*.py: @case({name!r})"
    checked = sum(run_case(name, function) for function in CASES[name].values())
    record_property("parameter_sets", (name, checked))


def test_every_case_has_an_operator() -> None:
    assert set(CASES) <= set(OPERATORS)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_docstring_example(name: str) -> None:
    """The examples of operators run here, because doctest does not look behind a decorator of another module."""
    function = inspect.unwrap(OPERATORS[name])
    examples = doctest.DocTestFinder(recurse=False).find(function, name, globs=dict(function.__globals__))
    assert any(e.examples for e in examples), f"operator {name} has no example in its docstring"
    for example in examples:
        failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
        assert not failed, f"the docstring example of {name} fails"
