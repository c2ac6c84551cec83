"""Rules whose sides are functions, which reshape axes of symbolic sizes to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.substitutions import Rule, verify
from derive.substitutions.verification.comparing import differs_at

ops = ea.ops
Side = Callable[..., Any]
ROWS = "BNK"
SHAPES = {"a": tuple(ROWS), "b": ("K", "M"), "c": ("B", "K", "M")}


def rows(x: Any) -> Any:
    """Return a batch of matrices as one."""
    return ops.flatten(x, 0, 1)


def batch(x: Any, like: Any) -> Any:
    """Return a matrix as the batch that it was."""
    return ops.reshape(x, (*like.shape[:2], x.shape[1]))


RULES: dict[str, tuple[Side, Side, str]] = {
    "products of rows": (
        lambda a, b: ops.matmul(rows(a), b), lambda a, b: rows(ops.matmul(a, b)), "ab"
    ),
    "products by reshapes": (
        lambda a, b: batch(ops.matmul(rows(a), b), a), lambda a, b: ops.matmul(a, b), "ab"
    ),
    "there and back": (lambda a: batch(rows(a), a), lambda a: ops.mul(a, 1), "a"),
    "elements": (lambda a: ops.relu(rows(a)), lambda a: rows(ops.relu(a)), "a"),
    "sums": (lambda a: ops.sum(rows(a), axes=0), lambda a: ops.sum(a, axes=(0, 1)), "a"),
    "softmax": (
        lambda a: ops.softmax(rows(a), axis=1), lambda a: rows(ops.softmax(a, axis=2)), "a"
    ),
    "size of a batch": (
        lambda a: ops.mean(rows(a), axes=0),
        lambda a: ops.div(ops.sum(a, axes=(0, 1)), a.shape[0] * a.shape[1]), "a",
    ),
}  # fmt: skip


def rule_of(before: Side, after: Side, names: str) -> Rule:
    return Rule.of_functions("rule", before, after, {name: SHAPES[name] for name in names})


@pytest.mark.parametrize("name", RULES)
def test_rules_of_merged_axes(name: str) -> None:
    result = verify(rule_of(*RULES[name]))
    assert result.verdict == "tested" and result.coverage.startswith("proved at N = 1; N = 2")


WRONG: dict[str, tuple[Side, Side, str, dict[str, int]]] = {
    "rows in another order": (
        lambda a: rows(ops.transpose(a, (1, 0, 2))), lambda a: rows(a), "a",
        {"B": 2, "N": 2, "K": 1},
    ),
    "products by the first of a batch": (
        lambda a, c: rows(ops.matmul(a, c)),
        lambda a, c: ops.matmul(rows(a), ops.squeeze(ops.slice(c, 0, 1, axes=0), 0)), "ac",
        {"B": 2, "N": 1, "K": 1, "M": 1},
    ),
    "columns": (
        lambda a: ops.flatten(a, 1, 2),
        lambda a: ops.flatten(ops.flip(a, axes=1), 1, 2), "a", {"B": 1, "N": 2, "K": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_have_small_counterexamples(name: str) -> None:
    before, after, names, counterexample = WRONG[name]
    rule = rule_of(before, after, names)
    result = verify(rule)
    assert result.counterexample == counterexample, result
    assert rule.functions is not None
    assert differs_at(rule.functions.at(counterexample), {})


@settings(max_examples=10)
@given(st.sampled_from(sorted(RULES)), st.tuples(*[st.integers(1, 4)] * 4))
def test_rules_hold_at_numbers(name: str, numbers: tuple[int, ...]) -> None:
    before, after, names = RULES[name]
    rule = rule_of(before, after, names)
    assert rule.functions is not None
    sizes = {size: n for size, n in zip("BNKM", numbers) if size in rule.functions.sizes}
    one, two = rule.functions.at(sizes)
    rng = np.random.default_rng(0)
    arrays = {key: rng.integers(-9, 9, tensor.shape) for key, tensor in one.inputs.items()}
    assert np.allclose(
        np.asarray(ea.evaluate(one, **arrays), float), np.asarray(ea.evaluate(two, **arrays), float)
    )


def test_all_sizes_stay_open_where_they_can() -> None:
    rule = Rule.of_functions(
        "sum", lambda x: ops.sum(x, axes=0), lambda x: ops.sum(ops.flip(x, axes=0), axes=0),
        {"x": ("N", "M")},
    )  # fmt: skip
    result = verify(rule)
    assert result.verdict == "proved" and not result.coverage
    assert set(rule.before.sizes) == {"N", "M"}


def test_numbers_for_some_sizes() -> None:
    rule = rule_of(*RULES["there and back"])
    assert verify(rule, sizes={"N": 3}).verdict == "proved"
    assert rule.before.sizes.keys() == {"B", "K"} and "rule" in repr(rule)
    with pytest.raises(ea.UseError, match="no size Z"):
        verify(rule, sizes={"Z": 3})
    with pytest.raises(ea.ShapeError, match="no form of sizes"):
        verify(rule, sizes={"K": 3})


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ea.UseError, match="no function"):
        Rule.of_functions("rule", "O[i] = A[i]", lambda A: A, {"A": ("N",)})  # pyright: ignore


def test_functions_take_the_tensors_of_the_shapes() -> None:
    with pytest.raises(ea.UseError, match="rule turned is no function of a"):
        Rule.of_functions("turned", lambda a: ops.neg(a), lambda b: ops.neg(b), {"a": ("N",)})
    with pytest.raises(ea.UseError, match="is no function of a, b"):
        Rule.of_functions("one", lambda a: a, lambda a, b: a, {"a": ("N",), "b": ("N",)})


def test_a_side_returns_a_tensor_as_it_is() -> None:
    turned = Rule.of_functions(
        "turned", lambda a: a, lambda a: ops.transpose(ops.transpose(a)), {"a": ("N", "M")}
    )
    assert verify(turned).verdict == "proved"
