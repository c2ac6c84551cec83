"""Slopes of functions of one atom: where a function never falls, or never rises."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from derive.proof.identities.forms.atoms import (
    Abs,
    Base,
    OpaqueFunction,
    leaves,
    replaced,
    whole_power,
)
from derive.proof.identities.forms.functions import exponential, power
from derive.proof.identities.forms.laurent import (
    ONE,
    Atom,
    Number,
    Poly,
    TooLarge,
    of_atom,
    of_mono,
    product,
    summed,
)
from derive.proof.identities.forms.signs import POSITIVE, sign, sign_of_power


def monotone(function: Poly, leaf: Atom) -> int | None:
    """Return 1 where a function of a leaf never falls (and is not constant), -1 where it never
    rises, None where neither is known.
    """
    try:
        slope = derivative(function, leaf)
    except TooLarge:
        return None
    its_sign = sign(slope)
    if not its_sign:
        return None
    return 1 if its_sign > 0 else -1


def weakly_monotone(function: Poly, leaf: Atom) -> int | None:
    """Return 1 where a function of a leaf, in which absolute values may stand, never falls, -1
    where it never rises, None where neither is known.

    It is continuous, so that it suffices that all its pieces do, some of them constant.
    """
    for atom in function.atoms():
        if isinstance(atom, Abs) and leaf in leaves(atom):
            return _monotone_in_pieces(function, atom, leaf)
    return monotone(function, leaf)


def _monotone_in_pieces(function: Poly, atom: Abs, leaf: Atom) -> int | None:
    """Return the direction that both pieces of an absolute value have in common."""
    (inner,) = atom.fields
    directions = set()
    for piece in (inner, -inner):
        try:
            part = replaced(function, {atom: piece})
        except TooLarge:
            return None
        if leaf in leaves(part):
            directions.add(weakly_monotone(part, leaf))
    return directions.pop() if len(directions) == 1 else None


def derivative(function: Poly, leaf: Atom) -> Poly:
    """Return the derivative of a function by an atom; raise `TooLarge` where it has none here."""
    parts = []
    for mono, value in function.terms.items():
        for position, (atom, exponent) in enumerate(mono):
            if leaf not in leaves(of_atom(atom)):
                continue
            if not _is_connected(atom, exponent, leaf):
                raise TooLarge
            rest = of_mono((*mono[:position], *mono[position + 1 :]), value)
            outer = of_atom(atom, exponent - 1).scaled(exponent)
            parts.append(product([rest, outer, _derivative_of_atom(atom, leaf)]))
    return summed(parts)


def _is_connected(atom: Atom, exponent: Number, leaf: Atom) -> bool:
    """Return whether a power of an atom is defined at an interval of values of a leaf, so that its
    slope says whether it rises.
    """
    if isinstance(atom, OpaqueFunction):
        (argument, *_) = atom.fields[1]
        return atom.fields[0] != "log" or argument == of_atom(leaf) or sign(argument) == POSITIVE
    if exponent > 0 and isinstance(exponent, int):
        return True
    if atom is leaf and not isinstance(exponent, int):
        return True
    return sign_of_power(atom, 1) == POSITIVE


def _derivative_of_atom(atom: Atom, leaf: Atom) -> Poly:
    if atom is leaf:
        return ONE
    if isinstance(atom, Base):
        return derivative(atom.fields[0], leaf)
    if isinstance(atom, OpaqueFunction) and atom.fields[0] in DERIVATIVES:
        argument = atom.fields[1][0]
        return DERIVATIVES[atom.fields[0]](argument) * derivative(argument, leaf)
    raise TooLarge


DERIVATIVES: dict[str, Callable[[Poly], Poly]] = {
    "log": lambda argument: whole_power(argument, -1),
    "erf": lambda argument: exponential(-(argument * argument)),
    "atan": lambda argument: whole_power(ONE + argument * argument, -1),
    "asinh": lambda argument: power(ONE + argument * argument, Fraction(-1, 2)),
}
