"""Cases of operators: random parameters, arrays, and what another implementation makes of them.

A module `tests/helpers/operators/cases_*.py` registers them:

    @case("matmul")
    def matmul(rng):
        ...
        return ops.matmul(A, B), {"A": a, "B": b}, np.matmul(a, b)

`expected` is an array, or a dict of arrays by output name for a program of several outputs. Integer
and bool arrays must be met
exactly, others to 1e-9. `tests/einalg/language/ops/test_operators.py` runs every case of every
operator, and fails where there is none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope, all_scopes

Case = Callable[[np.random.Generator], tuple[Any, dict[str, Any], Any]]
CASES: dict[str, dict[str, Case]] = {}
SETS = 12  # parameter sets for each case; the nightly run takes more
MOST_POINTS = 20_000  # that the reference evaluator visits for one expression
TOLERANCE = 1e-9


def case(name: str) -> Callable[[Case], Case]:
    """Register a function `rng -> (expression, arrays by name, expected)` for the operator `name`."""

    def register(function: Case) -> Case:
        CASES.setdefault(name, {})[function.__name__] = function
        return function

    return register


def load_cases() -> None:
    """Import every module of cases."""
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        import_module(f"tests.helpers.operators.{path.stem}")


def run_case(name: str, function: Case, sets: int = SETS) -> int:
    """Compare `sets` random parameter sets; the number that was checked."""
    for label, (expression, arrays, expected) in parameter_sets(name, function, sets):
        compare(label, expression, arrays, expected)
    return sets


def parameter_sets(
    name: str, function: Case, sets: int
) -> Iterator[tuple[str, tuple[Any, dict[str, Any], Any]]]:
    """The first random parameter sets of a case, the same in every run, each with a label."""
    for k in range(sets):
        rng = np.random.default_rng([zlib.crc32(f"{name}.{function.__name__}".encode()), k])
        yield f"{name}, {function.__name__}, parameter set {k}", function(rng)


def compare(label: str, expression: Any, arrays: dict[str, Any], expected: Any) -> None:
    """Fail where the expression has another value than `expected`."""
    visited = points(expression)
    assert visited <= MOST_POINTS, (
        f"{label}: {visited} points are too many for a fast test\n{expression}"
    )
    found = ea.evaluate(expression, **arrays)
    if not isinstance(expected, dict):
        found, expected = {"the result": found}, {"the result": expected}
    assert list(found) == list(expected), (
        f"{label}: outputs {list(found)}, expected {list(expected)}"
    )
    for output, values in expected.items():
        _compare_arrays(_Label(label, output, expression), found[output], np.asarray(values))


@dataclass(frozen=True)
class _Label:
    """The output that is compared: a text that is made where a comparison fails."""

    case: str
    output: str
    expression: Any

    def __str__(self) -> str:
        return f"{self.case}: {self.output} of\n{self.expression}\n"


def _compare_arrays(label: _Label, found: Any, expected: Any) -> None:
    assert found.shape == expected.shape, (
        f"{label} has shape {found.shape}, expected {expected.shape}"
    )
    if expected.dtype.kind in "iub" and expected.size:
        assert found.dtype.kind in "iubO", f"{label} is {found.dtype}, expected integers"
        assert np.array_equal(found, expected), f"{label} is\n{found}\nexpected\n{expected}"
    else:
        close = np.allclose(found.astype(float), expected, rtol=TOLERANCE, atol=TOLERANCE)
        assert close, f"{label} is\n{found}\nexpected\n{expected}"


def points(expression: Any) -> int:
    """How many times the reference evaluator evaluates a body, those of reductions included."""
    return sum(
        _scope_points(node)
        for _, scope in as_program(expression).statements
        for node in all_scopes(scope)
    )


def _scope_points(scope: Scope) -> int:
    return prod(scope.shape) * max(1, _body_points(scope.body))


def _body_points(body: Any) -> int:
    total = 0

    def leaf(node: Any) -> Any:
        nonlocal total
        if isinstance(node, Reduce):
            total += prod(it.extent for it in node.iterators) * max(1, _body_points(node.body))
        return node

    rebuild(body, leaf)
    return total


def size(rng: np.random.Generator, low: int = 1, high: int = 5) -> int:
    """A size from `low` to `high`, the ends included."""
    return int(rng.integers(low, high + 1))


def flip(rng: np.random.Generator, probability: float = 0.5) -> bool:
    return bool(rng.random() < probability)


def integers(
    rng: np.random.Generator, shape: Any, low: int = -9, high: int = 9
) -> np.ndarray[Any, Any]:
    """Random integers, to be compared exactly."""
    return rng.integers(low, high + 1, tuple(shape))


def floats(rng: np.random.Generator, shape: Any) -> np.ndarray[Any, Any]:
    """Random float64 of a normal distribution."""
    return rng.normal(size=tuple(shape))


def torch_module() -> Any:
    """torch, or a skip that says what is missing."""
    return pytest.importorskip(
        "torch", reason="torch is the reference of this operator and is not installed"
    )
