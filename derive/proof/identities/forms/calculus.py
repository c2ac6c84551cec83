"""Slopes of functions of one atom: where a function never falls, or never rises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from derive.proof.identities.forms.functions import exponential, power
from derive.proof.identities.forms.polynomials.atoms import (
    Abs,
    Base,
    Exp,
    OpaqueFunction,
    TensorElement,
    arguments_of,
    leaves,
    replaced,
    whole_power,
)
from derive.proof.identities.forms.polynomials.integers import is_rounded
from derive.proof.identities.forms.polynomials.laurent import (
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
from derive.proof.identities.forms.signs import (
    NEGATIVE,
    POSITIVE,
    Knowledge,
    knowing,
    knowledge,
    sign,
    sign_of_power,
)

STEP = TensorElement("any step", ())  # in the place of a number that is rounded


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
    atom = _part_of_kind(function, leaf, is_rounded)
    if atom is not None:
        return _monotone_in_steps(function, atom, leaf)
    atom = _part_of_kind(function, leaf, _is_absolute)
    if atom is not None:
        return _monotone_in_pieces(function, atom, leaf)
    return monotone(function, leaf)


def _is_absolute(atom: Atom) -> bool:
    return isinstance(atom, Abs)


def _part_of_kind(value: Any, leaf: Atom, is_of_kind: Callable[[Atom], bool]) -> Atom | None:
    """Return a function of a kind that depends on a leaf, also one inside of another function."""
    parts: Iterable[Any] = ()
    if isinstance(value, Poly):
        parts = value.atoms()
    elif isinstance(value, tuple):
        parts = value
    elif isinstance(value, Atom) and _depends_on(value, leaf):
        if is_of_kind(value):
            return value
        parts = value.fields
    for part in parts:
        atom = _part_of_kind(part, leaf, is_of_kind)
        if atom is not None:
            return atom
    return None


def _monotone_in_steps(function: Poly, atom: Atom, leaf: Atom) -> int | None:
    """Return the direction of a function of a number that is rounded down, which depends on a leaf:
    those of the function and of the number together.
    """
    try:
        outer = replaced(function, {atom: of_atom(STEP)})
    except TooLarge:
        return None
    if leaf in arguments_of(outer) | leaves(outer):
        return None
    directions = weakly_monotone(outer, STEP), weakly_monotone(atom.fields[1][0], leaf)
    if directions[0] is None or directions[1] is None:
        return None
    return directions[0] * directions[1]


def _monotone_in_pieces(function: Poly, atom: Atom, leaf: Atom) -> int | None:
    """Return the direction that both pieces of an absolute value have in common, each where its
    value is not negative.
    """
    (inner,) = atom.fields
    known = knowledge()
    directions = set()
    for piece in (inner, -inner):
        try:
            part = replaced(function, {atom: piece})
        except TooLarge:
            return None
        if leaf in arguments_of(part) | leaves(part):
            with knowing(Knowledge(known.ranges, (*known.facts, (piece, False)))):
                directions.add(weakly_monotone(part, leaf))
    return directions.pop() if len(directions) == 1 else None


def derivative(function: Poly, leaf: Atom) -> Poly:
    """Return the derivative of a function by an atom; raise `TooLarge` where it has none here."""
    parts = []
    for mono, value in function.terms.items():
        for position, (atom, exponent) in enumerate(mono):
            if not _depends_on(atom, leaf):
                continue
            if not _is_connected(atom, exponent, leaf):
                raise TooLarge
            rest = of_mono((*mono[:position], *mono[position + 1 :]), value)
            outer = of_atom(atom, exponent - 1).scaled(exponent)
            parts.append(product([rest, outer, _derivative_of_atom(atom, leaf)]))
    return summed(parts)


def _depends_on(atom: Atom, leaf: Atom) -> bool:
    return leaf in leaves(atom) or leaf in arguments_of(atom)


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
    its_sign = sign_of_power(atom, 1)
    return its_sign == POSITIVE or (its_sign == NEGATIVE and isinstance(exponent, int))


def _derivative_of_atom(atom: Atom, leaf: Atom) -> Poly:
    if atom is leaf:
        return ONE
    if isinstance(atom, Base):
        return derivative(atom.fields[0], leaf)
    if isinstance(atom, Exp):
        return of_atom(atom) * derivative(atom.fields[0], leaf)
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
