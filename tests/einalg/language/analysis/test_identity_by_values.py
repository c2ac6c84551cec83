"""What is the same for einalg has the same values: keys, equality, and the code that statements
share, for expressions that nearly are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from derive.matching import kernels_of
from einalg.language.analysis.canonical import key
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.program import Program, as_program, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.mutations import is_well_formed, makers, mutations
from tests.helpers.naive_evaluator import grid, values_of
from tests.helpers.paddings import paddings

SLOW = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
SMALL = {"max_indices": 3, "max_points": 24, "functions": True, "truths": True}
MOST = 40  # mutants of one expression
OTHER = {"Sum": "Prod", "Prod": "Sum", "Max": "Min", "Min": "Max"}
DTYPES = ("f32", "i64", "bool")


def inputs_of(scopes: Any, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Integers for all inputs of several scopes."""
    random = np.random.default_rng(seed)
    tensors = {
        name: tensor for scope in scopes for name, tensor in as_program(scope).inputs.items()
    }
    return {
        name: random.integers(0, 2, t.shape)
        if t.dtype == "bool"
        else random.integers(-3, 4, t.shape)
        for name, t in tensors.items()
    }


def in_order(scope: Any, arrays: Any) -> list[Any]:
    """The shape of a scope and its values as they lie in memory; None where it has none."""
    (values,) = values_of(scope, {name: arrays[name] for name in as_program(scope).inputs}).values()
    return [
        scope.shape,
        *(values.get(point) for point in grid([range(low, high) for low, high in scope.box])),
    ]


def of_other_types(scope: Any) -> list[Any]:
    """The scope with one of its tensors of another element type."""
    found = []
    for name, tensor in scope.tensors.items():
        dtype = next(dtype for dtype in DTYPES if dtype != tensor.dtype)
        if "fill" not in str(scope) or dtype != "bool":
            found.append(
                substitute_tensors(scope, {name: Tensor(name, tensor.axes, dtype, tensor.role)})
            )
    return found


def some_mutants(scope: Any, seed: int, most: int = MOST) -> list[Any]:
    """Well-formed mutants, of all kinds; other ones for another seed."""
    every = list(makers(scope))
    step = 1 + len(every) // most
    chosen = [make() for make in every[seed % step :: step]]
    return [other for other in chosen if is_well_formed(other)]


def of_other_reductions(scope: Any) -> list[Any]:
    """The scope with its outermost reductions of another kind."""

    def leaf(node: Any) -> Any:
        return (
            Reduce(OTHER[node.op], node.iterators, node.where, node.body)
            if isinstance(node, Reduce)
            else node
        )

    body = rebuild(scope.body, leaf)
    return [] if body is scope.body else [Scope(scope.iterators, scope.where, body)]


def check_identity(scope: Any, seed: int) -> None:
    others = [*some_mutants(scope, seed), *of_other_types(scope), *of_other_reductions(scope)]
    arrays = inputs_of([scope, *others], seed)
    wanted, expected = key(scope), None
    for other in others:
        same_key, equal = key(other) == wanted, other == scope
        assert same_key or not equal, f"equal, of other keys:\n{scope}\n{other}"
        if same_key:
            expected = expected or in_order(scope, arrays)
            assert other.dtype == scope.dtype, f"one key, other element types:\n{scope}\n{other}"
            assert in_order(other, arrays) == expected, f"one key, other values:\n{scope}\n{other}"


@settings(max_examples=examples(20, at_night=40), suppress_health_check=SLOW)
@given(strategies.scopes(**SMALL, dtypes=DTYPES), st.integers(0, 99))
def test_expressions_of_one_key_have_the_same_values(scope: Any, seed: int) -> None:
    check_identity(scope, seed)


@settings(max_examples=examples(40, at_night=800), suppress_health_check=SLOW)
@given(paddings(), paddings())
def test_paddings_of_one_key_have_the_same_values(one: Any, other: Any) -> None:
    arrays = {
        "A": np.arange(10, 10 + np.prod(one.tensors["A"].shape)).reshape(one.tensors["A"].shape)
    }
    check_identity(one, 0)
    if one.tensors == other.tensors and key(one) == key(other):
        assert in_order(one, arrays) == in_order(other, arrays), f"{one}\n{other}"


@pytest.mark.nightly
@settings(max_examples=2000, suppress_health_check=SLOW)
@given(strategies.scopes(**SMALL, dtypes=DTYPES), st.integers(0, 99))
def test_many(scope: Any, seed: int) -> None:
    check_identity(scope, seed)


def check_sharing(scope: Any, others: Any) -> None:
    """Statements that nearly are one another, compiled in one program."""
    fitting = [
        other
        for other in others
        if all(other.tensors[n] == t for n, t in scope.tensors.items() if n in other.tensors)
    ]
    program = Program(
        [(f"O{k}", one) for k, one in enumerate([scope, *fitting])],
        [f"O{k}" for k in range(1 + len(fitting))],
    )
    arrays = inputs_of([program], 1)
    compiled = compile_program(program, kernels_of(program))(**arrays)
    expected = ea.evaluate(program, **arrays)
    results, wanted = (
        value if isinstance(value, dict) else {"O0": value} for value in (compiled, expected)
    )
    for name, value in wanted.items():
        np.testing.assert_allclose(
            np.asarray(results[name], float),
            np.asarray(value, float),
            rtol=1e-4,
            err_msg=str(program[name]),
        )


@settings(max_examples=4, suppress_health_check=SLOW)
@given(strategies.scopes(**SMALL, nested=False))
def test_statements_that_are_nearly_the_same_have_their_own_values(scope: Any) -> None:
    check_sharing(scope, some_mutants(scope, 0, most=12))


@pytest.mark.parametrize(
    "base",
    [
        "A.pad(1,fill=2).pad((2,1),fill=5)[i-3]",
        "A.pad((1,0),fill=2).pad(1,fill=5).pad(1,fill=2)[i-3]",
    ],
)
def test_statements_that_nearly_pad_alike_have_their_own_values(base: str) -> None:
    scope = ea.parse(f"O[i:10] = {base}*B[i]", A=(5,), B=(10,))
    check_sharing(scope, mutations(scope))


@pytest.mark.nightly
@settings(max_examples=100, suppress_health_check=SLOW)
@given(strategies.scopes(**SMALL, nested=False))
def test_many_statements_that_are_nearly_the_same(scope: Any) -> None:
    check_sharing(scope, mutations(scope))
