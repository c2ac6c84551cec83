"""Text of random expressions is read back as the same expression, with the same value, by both
doors.
"""

from __future__ import annotations

import pickle
from typing import Any, cast

import numpy as np
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.analysis.validate import check
from einalg.language.index.affine import Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.program import Program, as_program, inlined
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.traversal import accesses, reductions
from einalg.testing import strategies
from tests.helpers.random_derivations import reread

scopes = strategies.scopes(functions=True, truths=True, rounding=True)
programs = strategies.programs(functions=True, truths=True, rounding=True)


@given(scopes)
def test_a_scope_is_read_back(scope: Scope) -> None:
    assert ea.parse(str(scope), **scope.tensors) == scope


@given(programs)
def test_a_program_is_read_back(program: Program) -> None:
    again = reread(program)
    assert again == program and hash(again) == hash(program) and str(again) == str(program)


@given(st.data())
def test_what_is_read_back_has_the_same_value(data: st.DataObject) -> None:
    program = data.draw(strategies.programs(functions=True, truths=True, max_points=80))
    arrays = data.draw(strategies.arrays_for(program))
    found, expected = ea.evaluate(reread(program), **arrays), ea.evaluate(program, **arrays)
    for name in program.outputs if isinstance(expected, dict) else [""]:
        one, other = (found[name], expected[name]) if name else (found, expected)
        np.testing.assert_array_equal(one, other)


def renamed(scope: Scope, suffix: str) -> Scope:
    """The scope with other names for all indices, its own and those of its reductions and inner
    scopes.
    """
    names = {it.index: Index(f"{suffix}{k}") for k, it in enumerate(scope.iterators)}
    iterators = [LoopIndex(names[it.index], it.low, it.high) for it in scope.iterators]
    where = [
        condition.substitute({old: new.as_affine() for old, new in names.items()})
        for condition in scope.where
    ]
    return Scope(iterators, where, _renamed_reductions(substitute(scope.body, names), suffix))


def _renamed_reductions(body: Any, suffix: str) -> Any:
    for reduction in list(reductions(body))[:1]:
        names = {it.index: Index(f"{suffix}_{it.index.name}") for it in reduction.iterators}
        iterators = [LoopIndex(names[it.index], it.low, it.high) for it in reduction.iterators]
        where = [
            c.substitute({old: new.as_affine() for old, new in names.items()})
            for c in reduction.where
        ]
        body = body.xreplace(
            {reduction: Reduce(reduction.op, iterators, where, substitute(reduction.body, names))}
        )
    return body


@given(scopes)
def test_names_of_indices_mean_nothing(scope: Scope) -> None:
    other = renamed(scope, "z")
    assert other == scope and hash(other) == hash(scope)
    assert ea.parse(str(other), **scope.tensors) == scope


@given(programs)
def test_random_programs_are_well_formed(program: Program) -> None:
    check(program)
    for _, scope in program:
        for node in all_scopes(scope):
            assert node.free_symbols == set()
            bound = set(node.indices) | {i for r in reductions(node.body) for i in r.indices}
            assert all(access.free_symbols <= bound for access in accesses(node.body))


@given(programs)
def test_copies_are_equal(program: Program) -> None:
    assert pickle.loads(pickle.dumps(program)) == program
    assert Program(*cast(Any, program.args)) == program
    assert as_program(program) is program


@given(strategies.scopes(nested=False, where=False, max_points=60))
def test_python_reads_the_text_too(scope: Scope) -> None:
    names = {
        i.name: i
        for node in all_scopes(scope)
        for i in (*node.indices, *(i for r in reductions(node.body) for i in r.indices))
    }
    known = {
        **names,
        **scope.tensors,
        "inf": sympy.oo,
        **{n: getattr(ea, n) for n in ("L", "Sum", "Max", "Min", "Prod")},
    }
    assert eval(str(scope), known) == scope


@given(strategies.programs(max_points=60))
def test_inlining_is_read_back(program: Program) -> None:
    for name in program.names:
        scope = inlined(program, name)
        if len(str(scope)) < 5000:
            assert ea.parse(str(scope), **scope.tensors) == scope


@given(
    strategies.scopes(
        nested=False,
        quotients=False,
        padding=False,
        strides=False,
        where=False,
        reductions=("Sum",),
    )
)
def test_options_leave_out_what_they_say(scope: Scope) -> None:
    text = str(scope)
    assert not any(
        sign in text for sign in ("//", "%", ".pad", "where", "Max", "Min", "Prod", "(L[")
    )
    assert all(
        abs(c) == 1
        for a in accesses(scope.body)
        for s in a.subscripts
        for _, c in s.terms
        if len(s.terms) == 1
    )
