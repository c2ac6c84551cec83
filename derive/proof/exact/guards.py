"""Conditions on indices: as disjoint conjunctions, and as cells on each of which a polynomial has
no guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.proof.exact.polynomial import OutsideFragment, Polynomial, Term
from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.remainder import ROUNDING

Conjunction = tuple[Constraint, ...]
Ranges = Mapping[Index, tuple[Any, Any]]
Cell = tuple[Conjunction, tuple[Polynomial, ...]]  # where it is, and the arguments there
MAX_CELLS = 64


def negated(condition: Constraint) -> list[Constraint]:
    """Return the opposite of a condition, as disjoint conditions."""
    below = Constraint(-condition.form - 1, ">=")
    if condition.relation == ">=":
        return [below]
    return [below, Constraint(condition.form - 1, ">=")]


def inside(forms: Sequence[Affine], box: Sequence[tuple[Any, Any]]) -> Conjunction:
    """Return `low <= form < high` for every axis."""
    conditions = []
    for form, (low, high) in zip(forms, box):
        conditions += [Constraint(form - low, ">="), Constraint(-form + (high - 1), ">=")]
    return tuple(conditions)


def needed(conditions: Sequence[Constraint], ranges: Ranges) -> Conjunction | None:
    """Return the conditions without those that the ranges imply; None where the ranges exclude
    one.
    """
    remaining = []
    for condition in conditions:
        low, high = condition.form.interval_of_numbers(ranges)
        if high < 0 or (condition.relation == "==" and low > 0):
            return None
        if not (low >= 0 and (condition.relation == ">=" or high <= 0)):
            remaining.append(condition)
    return tuple(remaining)


def outside(conditions: Sequence[Constraint], ranges: Ranges) -> Iterator[Conjunction]:
    """Yield the points at which some condition fails, as disjoint conjunctions."""
    for position, condition in enumerate(conditions):
        for opposite in negated(condition):
            part = needed((*conditions[:position], opposite), ranges)
            if part is not None:
                yield part


def index_form(body: Any) -> Affine | None:
    """Return the quasi-affine form that a body is; None where it is none."""
    if isinstance(body, (IndexArithmetic, sympy.Integer)):
        return affine(body)
    if isinstance(body, sympy.Add):
        return _sum_of_forms(body.args)
    if isinstance(body, sympy.Mul):
        return _scaled_form(body)
    return _rounded_form(body) if isinstance(body, ROUNDING) else None


def _sum_of_forms(parts: Sequence[Any]) -> Affine | None:
    total = affine(0)
    for part in parts:
        form = index_form(part)
        if form is None:
            return None
        total = total + form
    return total


def _scaled_form(body: sympy.Mul) -> Affine | None:
    coefficient, rest = body.as_coeff_Mul()
    if not coefficient.is_Integer or rest is body:
        return None
    form = index_form(rest)
    return None if form is None else form.scaled(int(coefficient))


def _rounded_form(body: Any) -> Affine | None:
    """Return the quotient or the remainder of quasi-affine forms that a body is, as a form."""
    try:
        return affine(body)
    except NotationError:
        return None


def is_index_condition(condition: Any) -> bool:
    """Return whether a condition compares quasi-affine forms of indices only."""
    if condition in (sympy.true, sympy.false):
        return True
    if isinstance(condition, Relational):
        return all(index_form(side) is not None for side in condition.args)
    if isinstance(condition, (sympy.And, sympy.Or, sympy.Not)):
        return all(map(is_index_condition, condition.args))
    return False


def conjunctions(condition: Any, form: Callable[[Affine], Affine]) -> list[Conjunction]:
    """Return an index condition as disjoint conjunctions; `form` replaces the indices."""
    if isinstance(condition, (sympy.And, sympy.Or, sympy.Not)):
        parts = [conjunctions(part, form) for part in condition.args]
        if isinstance(condition, sympy.Not):
            return failing(parts[0])
        return reduce(both if isinstance(condition, sympy.And) else _either, parts)
    if condition in (sympy.true, sympy.false):
        return [()] if condition is sympy.true else []
    return [(part,) for part in _comparison(condition, form)]


def _comparison(condition: Any, form: Callable[[Affine], Affine]) -> list[Constraint]:
    """Return a comparison of two forms as disjoint conditions."""
    left, right = [form(affine(side)) for side in condition.args]
    if isinstance(condition, sympy.Eq):
        return [Constraint(left - right, "==")]
    if isinstance(condition, sympy.Ne):
        return negated(Constraint(left - right, "=="))
    if isinstance(condition, (sympy.GreaterThan, sympy.StrictGreaterThan)):
        left, right = right, left
    is_strict = isinstance(condition, (sympy.StrictLessThan, sympy.StrictGreaterThan))
    return [Constraint(right - left - int(is_strict), ">=")]


def both(one: list[Conjunction], two: list[Conjunction]) -> list[Conjunction]:
    """Return the points in both, as disjoint conjunctions."""
    if len(one) * len(two) > MAX_CELLS:
        raise OutsideFragment("a condition of too many parts")
    return [(*a, *b) for a in one for b in two]


def _either(one: list[Conjunction], two: list[Conjunction]) -> list[Conjunction]:
    return one + both(failing(one), two)


def failing(parts: list[Conjunction]) -> list[Conjunction]:
    """Return the points at which every conjunction fails, as disjoint conjunctions."""
    return reduce(both, map(_failing_one, parts), [()])


def _failing_one(conjunction: Conjunction) -> list[Conjunction]:
    """Return the points at which a conjunction fails, by the first condition that does."""
    parts = []
    for k, condition in enumerate(conjunction):
        for opposite in negated(condition):
            parts.append((*conjunction[:k], opposite))
    return parts


def cells(arguments: tuple[Polynomial, ...], ranges: Ranges, known: Conjunction = ()) -> list[Cell]:
    """Return disjoint parts of the index space, with the arguments as they are there: without
    guards on outer indices.

    Guards that concern a term's own reduction stay. All in one part where there would be more than
    `MAX_CELLS`.
    """
    finished: list[Cell] = []
    unfinished = [(known, arguments)]
    while unfinished:
        cell = unfinished.pop()
        guard = _outer_guard(cell[1])
        if guard is None:
            finished.append(cell)
        else:
            unfinished += _split(cell, guard, ranges)
        if len(finished) + len(unfinished) > MAX_CELLS:
            return [(known, arguments)]
    return finished


def _outer_guard(arguments: tuple[Polynomial, ...]) -> Constraint | None:
    for polynomial in arguments:
        for term in polynomial:
            for condition in term.where:
                if condition.indices.isdisjoint(term.bound):
                    return condition
    return None


def _split(cell: Cell, guard: Constraint, ranges: Ranges) -> Iterator[Cell]:
    """Yield the parts of a cell in which a guard holds or fails."""
    where, arguments = cell
    for fact in (guard, *negated(guard)):
        part = needed((fact,), ranges)
        if part is not None:
            yield (*where, *part), tuple(_under(fact, polynomial) for polynomial in arguments)


def _under(fact: Constraint, polynomial: Polynomial) -> Polynomial:
    """Return the terms that are left where a fact holds, without the guards that follow from it."""
    terms = []
    for term in polynomial:
        undecided = _undecided_guards(fact, term)
        if undecided is not None:
            unchanged = len(undecided) == len(term.where)
            terms.append(term if unchanged else replace(term, where=undecided))
    return tuple(terms)


def _undecided_guards(fact: Constraint, term: Term) -> Conjunction | None:
    """Return the guards of a term that do not follow from a fact; None where one fails."""
    undecided = []
    for condition in term.where:
        verdict = follows(fact, condition)
        if verdict is False:
            return None
        if verdict is None:
            undecided.append(condition)
    return tuple(undecided)


def follows(fact: Constraint, condition: Constraint) -> bool | None:
    """Return whether a condition holds (True) or fails (False) wherever a fact about the same sum
    of indices does; None where neither is certain.
    """
    for sign in (1, -1):
        if fact.form.scaled(sign).terms == condition.form.terms:
            # The condition's form is `sign * (the fact's form) + offset`.
            offset = condition.form.const - sign * fact.form.const
            if fact.relation == "==":
                return _holds_at(condition, offset)
            return _holds_from(condition, offset) if sign > 0 else _holds_up_to(offset)
    return None


def _holds_at(condition: Constraint, value: int) -> bool:
    """Return whether a condition holds where its form has a value."""
    return value == 0 if condition.relation == "==" else value >= 0


def _holds_from(condition: Constraint, least: int) -> bool | None:
    """Return whether a condition holds or fails wherever its form is at least something."""
    if condition.relation == ">=" and least >= 0:
        return True
    if condition.relation == "==" and least > 0:
        return False
    return None


def _holds_up_to(most: int) -> bool | None:
    """Return whether a condition fails wherever its form is at most something."""
    return False if most < 0 else None
