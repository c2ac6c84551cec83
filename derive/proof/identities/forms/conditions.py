"""Normal forms of conditions, as numbers that are 1 where they hold and 0 elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derive.proof.identities.forms.atoms import (
    Condition,
    Exp,
    IndexCondition,
    arguments_of,
    content,
    leaves,
    replaced,
)
from derive.proof.identities.forms.calculus import monotone
from derive.proof.identities.forms.functions import by_conditions, infinite_sign, logarithm
from derive.proof.identities.forms.laurent import ONE, ZERO, Atom, Poly, of_atom, of_mono
from derive.proof.identities.forms.signs import NEGATIVE, POSITIVE, interval, sign, sign_of_power
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint


def at_least(argument: Poly, strict: bool) -> Poly:
    """Return 1 where a polynomial is at least 0, or above 0, and 0 elsewhere."""
    return by_conditions((argument,), lambda parts: _at_least(parts[0], strict))


def _at_least(argument: Poly, strict: bool) -> Poly:
    infinite = infinite_sign(argument)
    if infinite:
        return ONE if infinite > 0 else ZERO
    decided = _decided(argument, strict)
    if decided is not None:
        return decided
    value, mono, rest = content(argument)
    left = rest if value > 0 else -rest
    for atom, exponent in mono:
        its_sign = sign_of_power(atom, exponent)
        if its_sign == NEGATIVE:
            left = -left
        elif its_sign != POSITIVE:
            left = left * of_atom(atom, exponent)
    reduced_argument = difference_of_arguments(left)
    if reduced_argument is not None:
        return _at_least(reduced_argument, strict)
    decided = _decided(left, strict)
    if decided is not None:
        return decided
    if left.sorted_terms()[0][1] < 0:
        return ONE - of_atom(Condition(-left, not strict))
    return of_atom(Condition(left, strict))


def _decided(argument: Poly, strict: bool) -> Poly | None:
    its_sign = sign(argument)
    if its_sign is None:
        return None
    if its_sign == POSITIVE or (its_sign >= 0 and not strict):
        return ONE
    if its_sign == NEGATIVE or (its_sign <= 0 and strict):
        return ZERO
    return None


def difference_of_arguments(argument: Poly) -> Poly | None:
    """Return `u - v` for `f(u) - f(v)` with an increasing f, `v - u` with a decreasing one; None
    for anything else.
    """
    logs = _difference_of_logs(argument)
    if logs is not None:
        return logs
    for inside in (leaves, arguments_of):
        ends = sorted(inside(argument), key=lambda atom: atom.order)
        if len(ends) == 2 and isinstance(ends[0], Exp) == isinstance(ends[1], Exp):
            return _difference_of_ends(argument, ends[0], ends[1], inside)
    return None


def _difference_of_ends(
    argument: Poly, one: Atom, two: Atom, inside: Callable[[Any], frozenset[Atom]]
) -> Poly | None:
    """Return the difference of the only leaves of two functions, as above."""
    ours, theirs = {}, {}
    for mono, value in argument.terms.items():
        present = inside(of_mono(mono))
        if len(present) != 1:
            return None
        (ours if one in present else theirs)[mono] = value
    swapped = replaced(-Poly(theirs), {two: of_atom(one)})
    if swapped != Poly(ours):
        return None
    direction = monotone(Poly(ours), one)
    if direction is None or (ours and one == two):
        return None
    difference = _logs_of_leaf(one) - _logs_of_leaf(two)
    if difference == argument or -difference == argument:
        return None
    return difference.scaled(direction)


def _logs_of_leaf(atom: Atom) -> Poly:
    return atom.fields[0] if isinstance(atom, Exp) else of_atom(atom)


def _difference_of_logs(argument: Poly) -> Poly | None:
    """Return `log u - log v` of a difference `u - v` of products of exponentials."""
    if len(argument.terms) != 2:
        return None
    (one, a), (two, b) = argument.terms.items()
    if a < 0:
        (one, a), (two, b) = (two, b), (one, a)
    if a < 0 or b > 0:
        return None
    if not all(isinstance(atom, Exp) for atom, _ in (*one, *two)):
        return None
    return logarithm(of_mono(one, a)) - logarithm(of_mono(two, -b))


def index_at_least(form: Affine) -> Poly:
    """Return 1 where an index form is at least 0, and 0 elsewhere."""
    low, high = interval(form)
    if low is not None and low >= 0:
        return ONE
    if high is not None and high < 0:
        return ZERO
    condition = Constraint(form, ">=").form
    if condition.terms[0][1] < 0:
        opposite = Constraint(-condition - 1, ">=").form
        return ONE - of_atom(IndexCondition(opposite))
    return of_atom(IndexCondition(condition))


def index_equal(form: Affine) -> Poly:
    """Return 1 where an index form is 0, and 0 elsewhere."""
    return index_at_least(form) - index_at_least(form - 1)
