"""Functions in normal form again, after atoms in them were replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from derive.proof.identities.forms.conditions import absolute_in_case, at_least
from derive.proof.identities.forms.functions import (
    cosine,
    exponential,
    logarithm,
    other_function,
    power,
    sine,
)
from derive.proof.identities.forms.polynomials.atoms import (
    Abs,
    Base,
    Condition,
    Exp,
    OpaqueFunction,
)
from derive.proof.identities.forms.polynomials.integers import FLOOR
from derive.proof.identities.forms.polynomials.laurent import Atom, Poly, mapped
from derive.proof.identities.forms.rounding import rounded_down

OF_ONE = {"log": logarithm, "sin": sine, "cos": cosine, FLOOR: rounded_down}


def rebuilt(
    polynomial: Poly,
    change: Callable[[Atom], Poly | None],
    other: Callable[[Atom], Poly | None] | None = None,
) -> Poly:
    """Return a polynomial with others in the places of atoms, its functions in normal form again;
    `other` rebuilds the atoms that are no functions.
    """
    done: dict[Atom, Poly | None] = {}

    def inside(part: Poly) -> Poly:
        return mapped(part, of_one, power)

    def of_one(atom: Atom) -> Poly | None:
        if atom not in done:
            image = change(atom)
            if image is None:
                image = _rebuilt_function(atom, inside)
            if image is None and other is not None:
                image = other(atom)
            done[atom] = image
        return done[atom]

    return inside(polynomial)


def _rebuilt_function(atom: Atom, inside: Callable[[Poly], Poly]) -> Poly | None:
    """Return a function of arguments that were rebuilt; None where they stay or it is none."""
    if isinstance(atom, OpaqueFunction):
        name, arguments = atom.fields
        parts = tuple(map(inside, arguments))
        return None if parts == arguments else applied(name, parts)
    if not isinstance(atom, (Exp, Base, Abs, Condition)):
        return None
    (argument, *rest) = atom.fields
    part = inside(argument)
    if part == argument and not (rest or isinstance(atom, Abs)):
        return None
    if isinstance(atom, Exp):
        return exponential(part)
    if isinstance(atom, Base):
        return part
    if isinstance(atom, Abs):
        return absolute_in_case(part)
    return at_least(part, *rest)


def applied(name: str, arguments: Sequence[Poly]) -> Poly:
    """Return a function by its name."""
    if name in OF_ONE:
        return OF_ONE[name](arguments[0])
    return other_function(name, arguments)
