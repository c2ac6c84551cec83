"""The random expressions that other tests rely on: valid, varied, small, and shrinking to something
short.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import einalg as ea
from einalg.language.analysis.validate import check
from einalg.language.index.affine import Index
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.traversal import accesses, reductions
from einalg.testing import strategies

MANY_CALLS = 5_000  # of functions, which take about a millisecond
SILENT = (HealthCheck.too_slow, HealthCheck.data_too_large)


def drawn(strategy: Any, count: int = 200) -> list[Any]:
    """So many examples, the same in every run."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        derandomize=True,
        suppress_health_check=SILENT,
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


@cache  # once in the worker that needs them, not where tests are collected
def random_scopes() -> list[Scope]:
    return drawn(strategies.scopes())


VARIETY: dict[str, Any] = {
    "one index": lambda scope: scope.rank == 1,
    "three indices": lambda scope: scope.rank == 3,
    "a negative start": lambda scope: any(it.low < 0 for it in scope.iterators),
    "no reduction": lambda scope: not list(reductions(scope.body)),
    "a reduction": lambda scope: bool(list(reductions(scope.body))),
    "a reduction in a reduction": lambda scope: any(
        list(reductions(r.body)) for r in reductions(scope.body)
    ),
    "a sum": lambda scope: "Sum[" in str(scope),
    "a product": lambda scope: "Prod[" in str(scope),
    "a maximum": lambda scope: "Max[" in str(scope),
    "a minimum": lambda scope: "Min[" in str(scope),
    "an inner scope": lambda scope: len(list(all_scopes(scope))) > 1,
    "an inner scope in an inner scope": lambda scope: len(list(all_scopes(scope))) > 2,
    "two reads": lambda scope: len(list(accesses(scope.body))) > 1,
    "one tensor twice": lambda scope: any(
        str(scope).count(f"{name}[") + str(scope).count(f"{name}.pad") > 1 for name in scope.tensors
    ),
    "padding": lambda scope: ".pad(" in str(scope),
    "padding with a fill": lambda scope: "fill=" in str(scope),
    "padding by infinity": lambda scope: "inf" in str(scope),
    "a quotient": lambda scope: "//" in str(scope),
    "a remainder": lambda scope: "%" in str(scope),
    "a stride": lambda scope: any(
        abs(c) > 1 for a in accesses(scope.body) for s in a.subscripts for _, c in s.terms
    ),
    "a negative stride": lambda scope: any(
        c < 0 for a in accesses(scope.body) for s in a.subscripts for _, c in s.terms
    ),
    "a window": lambda scope: any(
        len(s.terms) > 1 for a in accesses(scope.body) for s in a.subscripts
    ),
    "a cut domain": lambda scope: bool(scope.where),
    "a cut reduction": lambda scope: any(r.where for r in reductions(scope.body)),
    "a weight": lambda scope: any(t.role == "weight" for t in scope.tensors.values()),
}


@pytest.mark.parametrize("feature", VARIETY)
def test_variety(feature: str) -> None:
    """Everything occurs in at least one of fifty examples."""
    scopes = random_scopes()
    assert sum(map(bool, map(VARIETY[feature], scopes))) >= len(scopes) / 50


def test_examples_are_valid_and_differ() -> None:
    for scope in random_scopes():
        check(scope)
    texts = list(map(str, random_scopes()))
    assert len(set(texts)) > 0.6 * len(texts)


def calls_of(function: Callable[[], Any]) -> int:
    """The number of calls that a call leads to: its work, whatever the machine does besides."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def test_examples_are_evaluated_quickly() -> None:
    random = np.random.default_rng(0)
    work = []
    for scope in random_scopes()[:100]:
        arrays = {
            name: random.integers(-3, 4, tensor.shape) for name, tensor in scope.tensors.items()
        }
        work.append(calls_of(partial(ea.evaluate, scope, **arrays)))
    assert median(work) < MANY_CALLS


LEFT_OUT = {
    "nested": lambda scope: len(list(all_scopes(scope))) == 1,
    "quotients": lambda scope: "//" not in str(scope) and "%" not in str(scope),
    "padding": lambda scope: all(not any(map(any, view)) for view in _paddings(scope)),
    "where": lambda scope: "where" not in str(scope),
}


def _paddings(scope: Scope) -> Any:
    for node in all_scopes(scope):
        for access in accesses(node.body):
            yield getattr(access.base, "amounts", ())


@pytest.mark.parametrize("option", LEFT_OUT)
def test_what_an_option_leaves_out(option: str) -> None:
    left_out: dict[str, Any] = {option: False}
    for scope in drawn(strategies.scopes(**left_out), 60):
        assert LEFT_OUT[option](scope), scope


def test_limits() -> None:
    for scope in drawn(
        strategies.scopes(max_indices=2, max_points=20, reductions=("Max",), nested=False), 60
    ):
        bound = [it for r in reductions(scope.body) for it in r.iterators]
        assert scope.rank <= 2 and int(np.prod(scope.shape)) <= 20
        assert (
            all(r.op == "Max" for r in reductions(scope.body))
            and scope.rank + (len(bound) > 0) <= 2
        )


def test_programs() -> None:
    programs = drawn(strategies.programs(max_statements=3), 60)
    assert {len(program.names) for program in programs} == {1, 2, 3}
    assert any(len(program.outputs) < len(program.names) for program in programs)
    for program in programs:
        check(program)


@given(st.data())
def test_arrays_fit(data: st.DataObject) -> None:
    program = data.draw(strategies.programs())
    arrays = data.draw(strategies.arrays_for(program, magnitude=5))
    assert set(arrays) == set(program.tensors)
    for name, tensor in program.tensors.items():
        assert arrays[name].shape == tensor.shape and arrays[name].dtype.kind == "i"
        assert (np.abs(arrays[name]) <= 5).all()


def test_arrays_of_other_types() -> None:
    for dtype, kinds in (("bool", "b"), ("u8", "iu")):
        scope = ea.parse("O[i] = A[i]", A=ea.tensor("A", (30,), dtype))
        (arrays,) = drawn(strategies.arrays_for(scope), 1)
        assert arrays["A"].dtype.kind in kinds and (arrays["A"] >= 0).all()


def test_ranges_and_forms() -> None:
    ranges = drawn(strategies.ranges(max_extent=4))
    assert {high - low for low, high in ranges} == {1, 2, 3, 4} and any(
        low < 0 for low, _ in ranges
    )
    assert any(low == high for low, high in drawn(strategies.ranges(empty=True)))
    i, j = Index("i"), Index("j")
    forms = drawn(strategies.affine_forms([i, j], quotients=False, strides=False))
    assert all(
        form.is_affine() and all(abs(c) == 1 for _, c in form.terms) and form.indices <= {i, j}
        for form in forms
    )


def shortest(strategy: Any, condition: Any) -> Any:
    """What hypothesis shrinks to."""
    from hypothesis import find

    try:
        return find(
            strategy,
            condition,
            settings=settings(
                max_examples=300,
                phases=[Phase.generate, Phase.shrink],  # nobody reads an explanation
                database=None,
                derandomize=True,
                suppress_health_check=SILENT,
            ),
        )
    except NoSuchExample:
        pytest.fail("no example was found")


@pytest.mark.parametrize(
    "condition, length",
    [
        (lambda scope: True, 25),
        (lambda scope: len(list(all_scopes(scope))) > 1, 60),
    ],
    ids=["anything", "an inner scope"],
)
def test_examples_shrink(condition: Any, length: int) -> None:
    assert len(str(shortest(strategies.scopes(), condition))) <= length


def test_hypothesis_is_needed_only_when_a_strategy_is_made() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import einalg as ea; ea.testing.strategies.ranges()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith(
        "ImportError: einalg.testing.strategies needs hypothesis\n  pip install einalg[test]\n"
    )


def test_check_rule_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import einalg as ea; ea.testing.check_rule(ea.rules['nesting'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("pip install einalg[test]\n")


def test_names_of_the_module() -> None:
    names = {"assert_equal", "check_rule", "strategies"}
    assert set(ea.testing.__all__) == names <= set(dir(ea.testing))
    assert ea.testing.strategies is strategies and ea.testing.check_rule is ea.check_rule
    with pytest.raises(AttributeError, match="no attribute 'strategy'"):
        _ = ea.testing.strategy


def test_inputs_have_edge_values() -> None:
    expr = ea.parse("O[i] = A[i] + B[i]", A=(3,), B=ea.tensor("B", (3,), "u8"))
    examples = drawn(strategies.inputs_for(expr, layouts=True), 300)
    floats = np.concatenate([example["A"] for example in examples])
    assert {0.0, 1.0, -1.0} <= set(floats.tolist()) and np.isfinite(floats).all()
    assert np.abs(floats).max() > 100 and np.signbit(floats[floats == 0]).any()
    assert 0 < np.abs(floats[floats != 0]).min() < 0.01
    bytes_ = np.concatenate([example["B"] for example in examples])
    assert bytes_.dtype == np.uint8 and {0, 255} <= set(bytes_.tolist())
    assert any(not example["A"].flags.c_contiguous for example in examples)


def test_inputs_have_nan_and_infinities_on_request() -> None:
    expr = ea.parse("O[i] = A[i] + B[i]", A=(3,), B=ea.tensor("B", (3,), "u8"))
    examples = drawn(strategies.inputs_for(expr, nonfinite=True), 300)
    floats = np.concatenate([example["A"] for example in examples])
    assert {np.inf, -np.inf} <= set(floats.tolist()) and np.isnan(floats).any()
    assert np.isfinite(floats).sum() > len(floats) / 2
    empty = ea.parse("O[i] = A[i]*2", A=(0,))
    assert all(not one["A"].size for one in drawn(strategies.inputs_for(empty, True, True), 30))


def test_axes_have_size_0_on_request() -> None:
    text = "O[i,k] += A[i,j]*B[j,k]"
    assert not any(0 in a + b for a, b in drawn(strategies.shapes(text), 100))
    examples = drawn(strategies.shapes(text, empty=True), 100)
    assert {(0 in a, 0 in b) for a, b in examples} == {
        *((False, False), (True, True), (True, False), (False, True)),
    }
    assert all(a[1] == b[0] for a, b in examples)


def test_shapes_fit_and_shrink() -> None:
    made: list[Any] = []

    def expected(a, b):
        made.append((a, b))
        return ea.parse("O[i,k] += A[i,j]*B[j,k]", A=a, B=b)

    examples = drawn(strategies.shapes(expected), 100)
    assert all(a[1] == b[0] for a, b in examples) and len(set(examples)) > 10
    assert ((1, 1), (1, 1)) in examples
