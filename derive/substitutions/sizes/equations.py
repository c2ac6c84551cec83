"""Linear equations between symbolic sizes, solved in whole numbers."""

from __future__ import annotations

from math import gcd
from typing import Any

from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.index.size import Size


class Unsolvable(Exception):
    """No sizes meet the equations."""


class Unsolved(Exception):
    """The equations are of a kind that is not solved here."""


class Equations:
    """Values of sizes as forms of those that stay free. `fixed` ones are never eliminated.

    >>> N, M = Size("N"), Size("M")
    >>> equations = Equations()
    >>> equations.require(N + 1, 2*M)
    >>> equations.value(affine(N))
    2*M - 1
    """

    def __init__(self) -> None:
        self._values: dict[Any, Affine] = {}  # by sizes
        self.fixed: frozenset[Size] = frozenset()

    def copy(self) -> Equations:
        other = Equations()
        other._values, other.fixed = dict(self._values), self.fixed
        return other

    def value(self, form: Affine) -> Affine:
        """Return a form with every size that is known in its place."""
        if not self._values:
            return form
        return affine(form.substitute(self._values))

    def require(self, one: Affine, two: Affine) -> None:
        """Require two forms to be equal. Raises `Unsolvable` where they can't be."""
        rest = self.value(affine(one)) - self.value(affine(two))
        rest = affine(rest)
        if not rest.terms:
            if rest.const:
                raise Unsolvable
            return
        if _has_one_sign(rest):
            raise Unsolvable
        divisor = gcd(*[coefficient for _, coefficient in rest.terms])
        if rest.const % divisor:
            raise Unsolvable
        self._eliminate(_divided(rest, divisor))

    def _eliminate(self, rest: Affine) -> None:
        for atom, coefficient in rest.terms:
            if abs(coefficient) == 1 and atom not in self.fixed:
                self._bind(atom, affine(atom - coefficient * rest))
                return
        if len(rest.terms) != 2 or rest.const:
            raise Unsolved
        (one, a), (two, b) = _terms(rest)
        if one in self.fixed or two in self.fixed:
            raise Unsolved
        common = affine(Size(f"{one.name}_{two.name}"))
        self._bind(one, affine(abs(b) * common))
        self._bind(two, affine(abs(a) * common))

    def _bind(self, size: Any, form: Affine) -> None:
        for other, value in self._values.items():
            self._values[other] = affine(value.substitute({size: form}))
        self._values[size] = form
        for value in self._values.values():
            check_positive(value)


def _terms(form: Affine) -> tuple[tuple[Any, int], ...]:
    """Return the terms of a form, whose atoms are sizes."""
    return form.terms


def check_positive(form: Affine) -> None:
    """Raise `Unsolvable` for a form that is below 1 whatever its sizes are."""
    most = form.const
    for atom, coefficient in _terms(form):
        if coefficient > 0:
            return
        most += coefficient * atom.at_least
    if most < 1:
        raise Unsolvable


def _has_one_sign(form: Affine) -> bool:
    """Return whether a form is above 0, or below, whatever its sizes are."""
    signs = {coefficient > 0 for _, coefficient in form.terms}
    if form.const:
        signs.add(form.const > 0)
    return len(signs) == 1


def _divided(form: Affine, divisor: int) -> Affine:
    total = affine(form.const // divisor)
    for atom, coefficient in form.terms:
        total = total + atom * (coefficient // divisor)
    return affine(total)
