"""The search finds the known forms of every case, from any spelling; what it finds is proven, and
exact where that can be computed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import einalg as ea
from bench.cases import CASES
from codegen.program.compile import compile_program
from derive.cost.accuracy import relative_error
from derive.rewriting.moves import apply, moves
from derive.rules import ALL
from derive.search.best_first import Budget
from derive.search.cleanup import MAX_CLEANUP_MOVES, fully_inlined
from derive.search.expansion import ideal_seconds
from einalg.errors import EinalgError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.program import Program, as_program, in_double
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import map_accesses, rebased
from tests.helpers.kernels import quick_compiler
from tests.helpers.searches import first_candidates

QUICK = [
    (name, form)
    for name, case in CASES.items()
    for form in case.real().forms
    if form not in case.slow
]
SLOW = [(name, form) for name, case in CASES.items() for form in case.slow]
AT_REAL_SIZE = (
    "Conv3x3 NHWC",
    "Conv3x3, taps from -1",
    "ConvTranspose 1d stride 3",
    "matmul 256",
    "(A·B)·v",
)
BY_DAY = list(CASES)[::2]  # the others are of their kinds
DEEPER = Budget(depth=40, states=2000, seconds=600, candidates=10**6, patience=2000)
PRE_REWRITTEN_STATES = 60  # beside those that a case takes as it is written
PRE_REWRITTEN = 3  # moves
KEPT_APART = (
    "bilinear factorisation",
    "expression splitting",
    "partial substitution",
)  # what these take apart no move puts together again
MOST_WORK = 8  # times the work of a case, that a spelling of it may have


def budget(name):
    return Budget(states=CASES[name].states, seconds=600, candidates=10**6)


@cache
def first_of_each(name, size):
    """An example as a program, and its candidate of each form that is found soonest, by the name
    of the form.

    The small one is spelled otherwise, with other names and orders: these change nothing.
    """
    example = getattr(CASES[name], size)()
    program = example.program
    if size == "small":
        program = renamed(program, seed=len(name))
    forms = {form: holds for form, holds in example.forms.items() if (name, form) in QUICK}
    return program, first_candidates(program, forms, budget(name))


def first(name, form, size):
    """An example as a program, and the candidate of a form that is found soonest."""
    program, candidates = first_of_each(name, size)
    assert form in candidates, f"no candidate of {name} is {form} from\n{program}"
    return program, candidates[form]


def integers(program, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(*((1, 9) if name == "variance" else (-4, 5)), t.shape)
        for name, t in program.inputs.items()
    }


def outputs(expression, arrays):
    value = ea.evaluate(expression, **arrays)
    return value if isinstance(value, dict) else {as_program(expression).outputs[0]: value}


def assert_equal_values(expression, program, arrays):
    """Exactly, where both compute in integers."""
    expected, values = outputs(expression, arrays), outputs(program, arrays)
    for name, array in expected.items():
        if array.dtype.kind in "iu" and values[name].dtype.kind in "iu":
            assert np.array_equal(array, values[name])
        else:
            np.testing.assert_allclose(
                values[name].astype(float), array.astype(float), rtol=1e-9, atol=1e-9
            )


@pytest.mark.parametrize(("name", "form"), QUICK)
def test_the_form_is_found_and_proven_at_the_real_size(name, form):
    program, hit = first(name, form, "real")
    assert ea.prove(program, hit.program).verdict == "proved"


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "form"), SLOW)
def test_forms_that_take_longer_are_found_too(name, form):
    example = CASES[name].real()
    candidates = first_candidates(example.expression, {form: example.forms[form]}, DEEPER)
    assert form in candidates, f"no candidate of {name} is {form}"
    hit = candidates[form]
    assert ea.prove(example.program, hit.program).verdict == "proved"


AT_SMALL_SIZE = [(name, form) for name, form in QUICK if form in CASES[name].small().forms]
FORMS_BY_DAY = {form for name, form in AT_SMALL_SIZE if name in BY_DAY}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pair
        if pair[0] in BY_DAY or pair[1] not in FORMS_BY_DAY
        else pytest.param(*pair, marks=pytest.mark.nightly)
        for pair in AT_SMALL_SIZE
    ],
)
def test_the_form_has_the_same_values_at_the_small_size(name, form):
    program, hit = first(name, form, "small")
    arrays = integers(program)
    assert_equal_values(program, hit.program, arrays)
    given = {n: a.astype(np.float32) for n, a in arrays.items()}
    expected = {n: a.astype(float) for n, a in outputs(program, arrays).items()}
    compiled = compile_program(hit.program, hit.kernels, compiler=quick_compiler())
    assert relative_error(expected, compiled(**given), program) < 1e-4


def assert_runs(name, form):
    program, hit = first(name, form, "real")
    rng = np.random.default_rng(0)
    given = {
        n: np.abs(a) if n == "variance" else a
        for n, t in program.inputs.items()
        for a in [rng.standard_normal(t.shape, np.float32)]
    }
    expected = execute(in_double(program), given)
    compiled = compile_program(hit.program, hit.kernels)
    assert relative_error(expected, compiled(**given), program) < 1e-4


@pytest.mark.parametrize(("name", "form"), [pair for pair in QUICK if pair[0] in AT_REAL_SIZE])
def test_the_form_runs_at_the_real_size(name, form):
    assert_runs(name, form)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "form"), [pair for pair in QUICK if pair[0] not in AT_REAL_SIZE])
def test_every_form_runs_at_the_real_size(name, form):
    assert_runs(name, form)


# Spellings.


def respelled(scope: Scope, rng: random.Random, axes: bool = False) -> Scope:
    """The scope with other names and, for sums, another order of indices; with `axes` the order of
    its own is another one too.
    """

    def named(iterators):
        return {it.index: Index(f"{rng.choice('xyzuvab')}{next(numbers)}") for it in iterators}

    def leaf(node):
        if not isinstance(node, Reduce):
            return node
        names = named(node.iterators)
        placed = {old: affine(new) for old, new in names.items()}
        iterators = [LoopIndex(names[it.index], it.low, it.high) for it in node.iterators]
        where = tuple(c.substitute(placed) for c in node.where)
        return Reduce(
            node.op,
            rng.sample(iterators, len(iterators)),
            where,
            rebuild(substitute(node.body, placed), leaf),
        )

    numbers: Iterator[int] = iter(range(1000))
    body = map_accesses(
        scope.body,
        lambda a: rebased(a, respelled(a.tensor, rng)) if isinstance(a.tensor, Scope) else a,
    )
    names = named(scope.iterators)
    placed = {old: affine(new) for old, new in names.items()}
    iterators = [LoopIndex(names[it.index], it.low, it.high) for it in scope.iterators]
    where = tuple(c.substitute(placed) for c in scope.where)
    return Scope(
        rng.sample(iterators, len(iterators)) if axes else iterators,
        where,
        rebuild(substitute(body, placed), leaf),
    )


def renamed(program: Program, seed: int) -> Program:
    """Other names everywhere, and another order of what is summed and, where nothing reads the
    result, of its axes.
    """
    rng = random.Random(seed)
    alone = len(program.statements) == 1
    return Program(
        [(name, respelled(scope, rng, alone)) for name, scope in program.statements],
        program.outputs,
    )


def rewritten(program: Program, seed: int) -> Program:
    """The program after a few random moves that do not make it much more work."""
    rng = random.Random(seed)
    least = ideal_seconds(program)
    for _ in range(PRE_REWRITTEN):
        choices = list(
            moves(program, [rule for name, rule in ALL.items() if name not in KEPT_APART])
        )
        rng.shuffle(choices)
        for move in choices:
            try:
                following = apply(program, move, ALL)
            except EinalgError:
                continue
            if ideal_seconds(following) <= MOST_WORK * least:
                program = following
                break
    return program


def assert_found_from(program, name, forms, states):
    """All forms but the slow ones are found within so many states."""
    bounds = Budget(depth=40, states=states, patience=states, seconds=600, candidates=10**6)
    quick = {form: holds for form, holds in forms.items() if form not in CASES[name].slow}
    missing = quick.keys() - first_candidates(program, quick, bounds).keys()
    assert not missing, f"{name} is not found as {missing} from\n{program}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_names_and_orders_change_nothing_at_the_real_size(name):
    example = CASES[name].real()
    assert_found_from(
        renamed(example.program, seed=len(name)), name, example.forms, CASES[name].states
    )


def assert_found_from_rewritten(name, seed):
    example = CASES[name].real()
    assert_found_from(
        rewritten(example.program, seed),
        name,
        example.forms,
        CASES[name].states + PRE_REWRITTEN_STATES,
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name not in BY_DAY)) for name in CASES],
)
def test_a_few_moves_before_are_undone(name):
    assert_found_from_rewritten(name, seed=len(name))


@pytest.mark.parametrize("name", CASES)
def test_flattening_keeps_the_values(name):
    program = CASES[name].real().program
    flat, done = fully_inlined(rewritten(program, seed=len(name)), ALL)
    assert ea.prove(program, flat).verdict == "proved" and len(done) < MAX_CLEANUP_MOVES


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_more_moves_before_are_undone(name, seed):
    assert_found_from_rewritten(name, seed)
