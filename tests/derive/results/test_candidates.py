"""No candidate is wrong: every one has the values of what was searched, and wrong rules are caught
by proof.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.search.best_first import Budget, search
from einalg.errors import EinalgError
from einalg.language import ops
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import map_accesses
from einalg.testing.strategies import programs, scopes
from tests.helpers.batches import examples

RULES = list(ALL.values())
FEW = Budget(depth=8, states=8, seconds=600, candidates=24)
MANY = Budget(depth=12, states=40, seconds=600, candidates=200)


def assert_all_equal(expression, budget, seed=0):
    """Every candidate, evaluated beside the original on integers; fractions are compared to many
    digits.
    """
    program = as_program(expression)
    assume(
        all(
            any(t.role != "weight" for t in scope.tensors.values())
            for _, scope in program.statements
        )
    )
    rng = np.random.default_rng(seed)
    arrays = {n: rng.integers(-3, 4, t.shape) for n, t in program.inputs.items()}
    expected = values_of(program, arrays)
    for found in search(expression, budget)[0]:
        for name, value in values_of(found.program, arrays).items():
            message = f"{found.program}\nis not\n{program}\nafter\n" + "\n".join(
                map(str, found.moves)
            )
            if value.dtype.kind in "iu" and expected[name].dtype.kind in "iu":
                assert np.array_equal(value, expected[name]), message
            else:
                assert np.allclose(
                    value.astype(float),
                    expected[name].astype(float),
                    rtol=1e-9,
                    atol=1e-9,
                    equal_nan=True,
                ), message


def values_of(program, arrays):
    """Return the outputs by name, on those of the arrays that a program reads."""
    value = ea.evaluate(program, **{name: arrays[name] for name in program.inputs})
    return value if isinstance(value, dict) else {program.outputs[0]: value}


# Random expressions.

ANY = st.one_of(scopes(reductions=("Sum",), max_points=120), programs(max_points=80))


@settings(max_examples=examples(15, at_night=300))
@given(ANY, st.integers(0, 99))
def test_candidates_of_random_expressions_are_equal(expression, seed):
    assert_all_equal(expression, FEW, seed)


def assert_all_equal_for_a_thousand(expressions, budget):
    """Other examples at each call: ten calls are ten tests, which end one by one and run side by
    side.
    """

    @settings(
        max_examples=1_000,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(expressions, st.integers(0, 99))
    def check(expression, seed):
        assert_all_equal(expression, budget, seed)

    check()


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_candidates_of_very_many_random_expressions_are_equal(part):
    assert_all_equal_for_a_thousand(ANY, FEW)


@st.composite
def operators(draw):
    """A windowed or banded operator, or a product, of random parameters."""
    number = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    kind = draw(
        st.sampled_from(
            (
                "conv1d",
                "conv2d",
                "conv_transpose1d",
                "conv_transpose2d",
                "g2bmm",
                "gbmm",
                "matmul",
                "pool",
            )
        )
    )
    if kind == "matmul":
        m, k, n, b = (number(1, 4) for _ in range(4))
        return ops.matmul(ea.tensor("A", (b, m, k)), ea.tensor("B", (b, k, n)))
    if kind in ("g2bmm", "gbmm"):
        b, rows, depth, width = number(1, 2), number(3, 7), number(1, 3), number(1, 2)
        first = (b, rows, depth if kind == "g2bmm" else 2 * width + 1)
        return getattr(ops, kind)(
            ea.tensor("X", first),
            ea.tensor("V", (b, rows, depth)),
            width=width,
            dilation=number(1, 3),
        )
    if kind == "pool":
        return ops.avg_pool1d(
            ea.tensor("A", (1, 2, number(4, 7))), number(1, 3), stride=number(1, 3)
        )
    rank = int(kind[-2])
    taps, stride, dilation = (
        [number(1, high) for _ in range(rank)] for high in (4 if rank == 1 else 3, 3, 2)
    )
    space = [(t - 1) * d + 1 + number(0, 2) for t, d in zip(taps, dilation)]
    c, f = number(1, 2), number(1, 2)
    shape = (c, f, *taps) if "transpose" in kind else (f, c, *taps)
    padding = [number(0, t - 1) for t in taps]
    options = {"stride": tuple(stride), "dilation": tuple(dilation), "padding": tuple(padding)}
    try:
        return getattr(ops, kind)(
            ea.tensor("A", (number(1, 2), c, *space)),
            ea.tensor("K", shape, role="weight"),
            **options,
        )
    except EinalgError:  # no window, or no result, is left
        return ops.matmul(ea.tensor("A", (2, 3)), ea.tensor("B", (3, 2)))


@settings(max_examples=examples(15, at_night=300))
@given(operators(), st.integers(0, 99))
def test_candidates_of_random_operators_are_equal(expression, seed):
    assert_all_equal(expression, FEW, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_candidates_of_very_many_random_operators_are_equal(part):
    assert_all_equal_for_a_thousand(operators(), MANY)


def test_what_reads_nothing_is_searched_too():
    search(ea.parse("O = L[i:4](Sum[s:3, r:6](2*i))"), FEW)
    for text in ("O[i:4] = 0", "O[i:4] = 2*i + 1", "O[()] = 3"):
        assert all(
            str(kernel).startswith("O = eop()")
            for kernel in ea.derive(ea.parse(text), measure=False).best.kernels
        )


# Wrong rules.


def wrong(name, function):
    return ea.rule(name, before="L[x] f", after="L[x] g", requires="a mistake")(function)


def shifted(scope):
    """Reads one element further along the last axis."""

    def change(access):
        if not isinstance(access.base, Padded):
            return access
        *others, last = access.subscripts
        return unpadded(access.base).pad(*[2] * len(access.subscripts))[(*others, last + 1)]

    if (body := map_accesses(scope.body, change)) != scope.body:
        yield Scope(scope.iterators, scope.where, body)


def without_padding(scope):
    """Reads the nearest element where the fill is meant."""

    def change(access):
        if not isinstance(access.base, Padded):
            return access
        return Access.of(
            unpadded(access.base),
            tuple(
                s % (high - low)
                for s, (low, high) in zip(access.subscripts, unpadded(access.base).box)
            ),
        )

    if (body := map_accesses(scope.body, change)) != scope.body:
        yield Scope(scope.iterators, scope.where, body)


def _with_reductions(scope, change):
    body = rebuild(scope.body, lambda node: change(node) if isinstance(node, Reduce) else node)
    if body != scope.body:
        yield Scope(scope.iterators, scope.where, body)


def wrong_range(scope):
    """Leaves out the last value of the first summed index."""

    def change(node):
        first, *others = node.iterators
        return (
            Reduce(
                node.op,
                [LoopIndex(first.index, first.low, first.high - 1), *others],
                node.where,
                node.body,
            )
            if first.extent > 1
            else node
        )

    yield from _with_reductions(scope, change)


def off_by_one_split(scope):
    """A summed index in blocks of two, the second of which begins one too early."""

    def change(node):
        *others, last = node.iterators
        if last.extent < 4 or last.extent % 2:
            return node
        block, inside = ea.indices("zz1 zz2")
        half = last.extent // 2
        body = substitute(
            node.body, {last.index: affine(block) * (half - 1) + affine(inside) + last.low}
        )
        return Reduce(
            node.op, [*others, LoopIndex(block, 0, 2), LoopIndex(inside, 0, half)], node.where, body
        )

    yield from _with_reductions(scope, change)


def swapped(scope):
    """a - b as b - a."""

    def change(node):
        return rebuild(node, lambda inner: inner) if isinstance(node, Reduce) else node

    if isinstance(scope.body, sympy.Add) and any(
        a.could_extract_minus_sign() for a in scope.body.args
    ):
        yield Scope(scope.iterators, scope.where, change(-scope.body))


CONV = ea.parse(
    "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", A=(1, 4, 5, 5), K=(4, 4, 3, 3)
)
DIFFERENCE = ea.parse(
    "T[i,j] += A[i,k]*B[k,j]\nU[i,j] += A[i,k]*C[k,j]\nO[i,j] = T[i,j] - U[i,j]",
    A=(5, 4),
    B=(4, 5),
    C=(4, 5),
)


@pytest.mark.parametrize(
    ("function", "expression"),
    [
        (shifted, CONV),
        (without_padding, CONV),
        (wrong_range, CONV),
        (off_by_one_split, CONV),
        (swapped, DIFFERENCE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_wrong_rule_is_caught_by_proof(function, expression):
    rule = wrong(f"wrong: {function.__name__}", function)
    known = {**ALL, rule.name: rule}
    d = ea.derive(expression, rules=[*RULES, rule], states=12, measure=False)
    assert d.stats.rejected["not equal to the original"] > 0
    for candidate in d.candidates:
        assert candidate.verdict == "proved" and not any(
            move.rule == rule.name for move in candidate.moves
        )
        program = d.expression
        for move in candidate.moves:
            program = apply(program, move, known)


def test_what_is_added_to_a_window_of_another_rank() -> None:
    """Found by a user: a bias under `+=`, which has fewer axes than what else is read."""
    text = "O[c,h,w] = Sum[r,s](A.pad(0,1,1)[c,h+r-1,w+s-1]*K[c,r,s] + b[c])"
    assert (
        ea.derive(
            ea.parse(text, A=(5, 9, 9), K=(5, 3, 3), b=(5,)), measure=False, states=3
        ).best.verdict
        == "proved"
    )


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16"])
def test_integers_that_wrap_round(dtype) -> None:
    a, b = ea.tensor("A", (3, 500), dtype), ea.tensor("B", (500,), dtype)
    assert ea.derive(ea.parse("O[i] += A[i,k]*B[k]*9", A=a, B=b), states=3).best.error == 0
