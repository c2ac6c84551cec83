"""Conditions on indices: as disjoint conjunctions, and as cells on each of which a polynomial has no guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.proof.exact.polynomial import OutsideFragment, Polynomial
from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import ROUNDING

Conjunction = tuple[Constraint, ...]
Ranges = Mapping[Index, tuple[int, int]]
MOST_CELLS = 64


def negated(condition: Constraint) -> list[Constraint]:
    """The opposite of a condition, as disjoint conditions."""
    below = Constraint(-condition.form - 1, ">=")
    return [below] if condition.relation == ">=" else [below, Constraint(condition.form - 1, ">=")]


def inside(forms: Sequence[Affine], box: Sequence[tuple[int, int]]) -> Conjunction:
    """`low <= form < high` for every axis."""
    pairs = (
        (Constraint(f - low, ">="), Constraint(-f + (high - 1), ">="))
        for f, (low, high) in zip(forms, box)
    )
    return tuple(c for pair in pairs for c in pair)


def needed(conditions: Sequence[Constraint], ranges: Ranges) -> Conjunction | None:
    """The conditions without those that the ranges imply; None where the ranges exclude one."""
    kept = []
    for condition in conditions:
        low, high = condition.form.interval(ranges)
        if high < 0 or (condition.relation == "==" and low > 0):
            return None
        if not (low >= 0 and (condition.relation == ">=" or high <= 0)):
            kept.append(condition)
    return tuple(kept)


def outside(conditions: Sequence[Constraint], ranges: Ranges) -> Iterator[Conjunction]:
    """The points at which some condition fails, as disjoint conjunctions."""
    for position, condition in enumerate(conditions):
        for opposite in negated(condition):
            part = needed((*conditions[:position], opposite), ranges)
            if part is not None:
                yield part


def index_form(body: Any) -> Affine | None:
    """The quasi-affine form that a body is; None where it is none."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return affine(body)
    if isinstance(body, sympy.Add):
        total = affine(0)
        for part in body.args:
            form = index_form(part)
            if form is None:
                return None
            total = total + form
        return total
    if isinstance(body, sympy.Mul):
        coefficient, rest = body.as_coeff_Mul()
        form = index_form(rest) if coefficient.is_Integer and rest is not body else None
        return None if form is None else form.scaled(int(coefficient))
    return _rounded_form(body) if isinstance(body, ROUNDING) else None


def _rounded_form(body: Any) -> Affine | None:
    """Return the quotient or the remainder of quasi-affine forms that a body is, as a form."""
    try:
        return affine(body)
    except NotationError:
        return None


def is_index_condition(condition: Any) -> bool:
    """Whether a condition compares quasi-affine forms of indices only."""
    if condition in (sympy.true, sympy.false):
        return True
    if isinstance(condition, Relational):
        return all(index_form(side) is not None for side in condition.args)
    return isinstance(condition, (sympy.And, sympy.Or, sympy.Not)) and all(
        map(is_index_condition, condition.args)
    )


def conjunctions(condition: Any, form: Callable[[Affine], Affine]) -> list[Conjunction]:
    """An index condition as disjoint conjunctions; `form` replaces the indices."""
    if isinstance(condition, (sympy.And, sympy.Or, sympy.Not)):
        parts = [conjunctions(part, form) for part in condition.args]
        if isinstance(condition, sympy.Not):
            return failing(parts[0])
        return reduce(both if isinstance(condition, sympy.And) else _either, parts)
    if condition in (sympy.true, sympy.false):
        return [()] if condition is sympy.true else []
    left, right = (form(affine(side)) for side in condition.args)
    if isinstance(condition, (sympy.Eq, sympy.Ne)):
        equal = Constraint(left - right, "==")
        return (
            [(equal,)]
            if isinstance(condition, sympy.Eq)
            else [(opposite,) for opposite in negated(equal)]
        )
    if isinstance(condition, (sympy.GreaterThan, sympy.StrictGreaterThan)):
        left, right = right, left
    strict = isinstance(condition, (sympy.StrictLessThan, sympy.StrictGreaterThan))
    return [(Constraint(right - left - int(strict), ">="),)]


def both(one: list[Conjunction], two: list[Conjunction]) -> list[Conjunction]:
    """The points in both, as disjoint conjunctions."""
    if len(one) * len(two) > MOST_CELLS:
        raise OutsideFragment("a condition of too many parts")
    return [(*a, *b) for a in one for b in two]


def _either(one: list[Conjunction], two: list[Conjunction]) -> list[Conjunction]:
    return one + both(failing(one), two)


def failing(parts: list[Conjunction]) -> list[Conjunction]:
    """The points at which every conjunction fails, as disjoint conjunctions."""
    opposites = [
        [
            (*part[:k], opposite)
            for k, condition in enumerate(part)
            for opposite in negated(condition)
        ]
        for part in parts
    ]
    return reduce(both, opposites, [()])


def cells(
    arguments: tuple[Polynomial, ...], ranges: Ranges, known: Conjunction = ()
) -> list[tuple[Conjunction, tuple[Polynomial, ...]]]:
    """Disjoint parts of the index space, with the arguments as they are there: without guards on outer indices.

    Guards that concern a term's own reduction stay. All in one part where there would be more than `MOST_CELLS`.
    """
    found: list[tuple[Conjunction, tuple[Polynomial, ...]]] = []
    todo = [(known, arguments)]
    while todo:
        where, parts = todo.pop()
        split = _outer_guard(parts)
        if split is None:
            found.append((where, parts))
        else:
            todo += _split(split, where, parts, ranges)
        if len(found) + len(todo) > MOST_CELLS:
            return [(known, arguments)]
    return found


def _outer_guard(arguments: tuple[Polynomial, ...]) -> Constraint | None:
    for polynomial in arguments:
        for term in polynomial:
            for condition in term.where:
                if condition.indices.isdisjoint(term.bound):
                    return condition
    return None


def _split(
    guard: Constraint, where: Conjunction, arguments: tuple[Polynomial, ...], ranges: Ranges
) -> Iterator[tuple[Conjunction, tuple[Polynomial, ...]]]:
    for fact in (guard, *negated(guard)):
        part = needed((fact,), ranges)
        if part is not None:
            yield (
                (*where, *part),
                tuple(tuple(_given(fact, polynomial)) for polynomial in arguments),
            )


def _given(fact: Constraint, polynomial: Polynomial) -> Iterator[Any]:
    """The terms that are left where a fact holds, without the guards that follow from it."""
    for term in polynomial:
        verdicts = [follows(fact, condition) for condition in term.where]
        if False not in verdicts:
            open_guards = tuple(c for c, verdict in zip(term.where, verdicts) if verdict is None)
            yield term if len(open_guards) == len(term.where) else replace(term, where=open_guards)


def follows(fact: Constraint, condition: Constraint) -> bool | None:
    """Whether a condition holds (True) or fails (False) wherever a fact about the same sum of indices does."""
    for sign in (1, -1):
        if fact.form.scaled(sign).terms == condition.form.terms:
            offset = (
                condition.form.const - sign * fact.form.const
            )  # condition's form is sign * fact's form + offset
            if fact.relation == "==":
                return offset == 0 if condition.relation == "==" else offset >= 0
            if sign > 0:
                return (
                    True
                    if condition.relation == ">=" and offset >= 0
                    else False
                    if condition.relation == "==" and offset > 0
                    else None
                )
            return False if offset < 0 else None
    return None
