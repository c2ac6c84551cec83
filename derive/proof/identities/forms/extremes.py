"""Normal forms of maxima, as sets of entries; a minimum is minus the maximum of the opposites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd
from typing import Any

from derive.proof.identities.forms.calculus import weakly_monotone
from derive.proof.identities.forms.covering import without_covered
from derive.proof.identities.forms.entries import (
    Entry,
    bounded,
    canonical,
    joined,
    may_be_empty,
    renamed,
)
from derive.proof.identities.forms.functions import (
    absolute,
    exponential,
    infinite_sign,
    replaced_condition,
)
from derive.proof.identities.forms.polynomials.atoms import (
    CONDITIONS,
    Abs,
    Exp,
    Extreme,
    Infinity,
    Surd,
    TensorElement,
    arguments_of,
    common_mono,
    divided,
    indices_of,
    leaves,
    rational_content,
    replaced,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    Atom,
    NoValue,
    Number,
    Poly,
    TooLarge,
    number,
    of_atom,
    of_mono,
    product,
    spend,
    summed,
)
from derive.proof.identities.forms.rebuilding import rebuilt
from derive.proof.identities.forms.signs import NONNEGATIVE, POSITIVE, sign
from einalg.language.index.affine import Index

MAX_ENTRIES = 128
MAX_COMPARED = 40  # entries of which the smaller ones are left out
ANY = TensorElement("any value", ())  # in the place of a leaf
ANY_POSITIVE = Exp(of_atom(ANY))


def minimum(entries: Iterable[Entry]) -> Poly:
    """Return a minimum."""
    return -maximum([(its, guards, -value) for its, guards, value in entries])


def maximum(entries: Iterable[Entry]) -> Poly:
    """Return a maximum in normal form."""
    entries = list(entries)
    factor = _common_factor(entries)
    if factor != ONE:
        return factor * maximum(_unscaled(entries, factor))
    flat = _flattened(entries)
    if not flat:
        return -of_atom(Infinity())
    function = _of_leaves(flat)
    if function is not None:
        return function
    flat = without_covered(joined([canonical(entry) for entry in flat]))
    separated = _separated(flat)
    if separated is not None:
        return separated
    return _shifted(_without_smaller(flat))


def _separated(entries: Sequence[Entry]) -> Poly | None:
    """Return a maximum of `f(i) + g(j)`, or of `f(i)*g(j)` that are not negative, as one over i and
    one over j; None for anything else.
    """
    if len(entries) != 1 or entries[0][1]:
        return None
    iterators, _, value = entries[0]
    parts = [of_mono(mono, coefficient) for mono, coefficient in value.terms.items()]
    combine = summed
    if len(parts) == 1:
        ((mono, coefficient),) = value.terms.items()
        parts = [number(coefficient), *(of_atom(atom, exponent) for atom, exponent in mono)]
        if not all(sign(part) in (POSITIVE, NONNEGATIVE) for part in parts):
            return None
        combine = product
    groups = _groups_by_indices(parts, frozenset(index for index, _, _ in iterators))
    if sum(bool(indices) for indices, _ in groups) < 2:
        return None
    extremes = []
    for indices, members in groups:
        its = tuple([it for it in iterators if it[0] in indices])
        part = combine(members)
        extremes.append(maximum([(its, (), part)]) if its else part)
    return combine(extremes)


def _groups_by_indices(
    parts: Sequence[Poly], bound: frozenset[Index]
) -> list[tuple[frozenset[Index], list[Poly]]]:
    """Return polynomials in groups that share no bound index."""
    groups: list[tuple[frozenset[Index], list[Poly]]] = []
    for part in parts:
        indices, members = indices_of(part) & bound, [part]
        others = []
        for group in groups:
            if group[0].isdisjoint(indices) and (group[0] or indices):
                others.append(group)
            else:
                indices = indices | group[0]
                members = [*group[1], *members]
        groups = [*others, (indices, members)]
    return groups


def _flattened(entries: list[Entry]) -> list[Entry]:
    """Return entries without conditions, infinities and extremes in their values."""
    waiting, flat = list(reversed(entries)), []
    while waiting:
        spend(1)
        entry = waiting.pop()
        parts = _taken_apart(entry)
        if parts is None:
            flat.append(entry)
        else:
            waiting += reversed(parts)
        if len(flat) + len(waiting) > MAX_ENTRIES:
            raise TooLarge
    return list(dict.fromkeys(flat))


def _taken_apart(entry: Entry) -> list[Entry] | None:
    """Return the entries that an entry stands for; None where it is simple."""
    value = entry[2]
    infinite = infinite_sign_or_none(value)
    if infinite == -1:
        return []
    if infinite == 1:
        raise NoValue
    for atom in value.atoms():
        if isinstance(atom, CONDITIONS):
            return _split_by(entry, atom)
    for atom in value.atoms():
        if isinstance(atom, (Extreme, Abs)):
            slope = replaced_part(value, atom)
            if slope is not None and sign(slope) in (POSITIVE, NONNEGATIVE):
                return _merged(entry, atom, slope)
    return None


def infinite_sign_or_none(value: Poly) -> int | None:
    """Return the sign of an infinite value, 0 of a finite one; None where conditions decide."""
    if any(isinstance(atom, CONDITIONS) for atom in value.atoms()):
        return None
    return infinite_sign(value)


def _split_by(entry: Entry, condition: Atom) -> list[Entry]:
    iterators, guards, value = entry
    known = dict(guards)
    parts = []
    for truth in (True, False):
        if known.get(condition, truth) is truth:
            part = replaced_condition(value, condition, ONE if truth else ZERO)
            parts += bounded(iterators, {**known, condition: truth}, part)
    return parts


def replaced_part(value: Poly, atom: Atom) -> Poly | None:
    """Return the factor of an atom that occurs in one power and one place only."""
    slope = {}
    for mono, coefficient in value.terms.items():
        powers = dict(mono)
        if atom in powers:
            if powers.pop(atom) != 1:
                return None
            slope[tuple(powers.items())] = coefficient
    factor = Poly(slope)
    rest = value - factor * of_atom(atom)
    if atom in leaves_and_functions(rest) or atom in leaves_and_functions(factor):
        return None
    return factor


def leaves_and_functions(value: Poly) -> frozenset[Atom]:
    """Return the atoms of a polynomial and of the functions in it."""
    return leaves(value) | frozenset(value.atoms())


def _merged(entry: Entry, atom: Atom, slope: Poly) -> list[Entry]:
    """Return the entries of `slope*atom + rest`, of which the atom is a maximum."""
    iterators, guards, value = entry
    rest = value - slope * of_atom(atom)
    if isinstance(atom, Abs):
        inner = atom.fields[0]
        return [(iterators, guards, rest + slope * side) for side in (inner, -inner)]
    merged = []
    for its, more, part in atom.fields[0]:
        its, more, part = renamed(its, more, part, len(iterators))
        joined = tuple(sorted({*guards, *more}, key=lambda guard: guard[0].order))
        merged.append(((*iterators, *its), joined, rest + slope * part))
    return merged


def _of_leaves(entries: Sequence[Entry]) -> Poly | None:
    """Return `f(max(u, v, …))` for `max(f(u), f(v), …)` with a monotone f; None where the entries
    have no such form.
    """
    if len(entries) == 1 and not entries[0][0]:
        return None
    if may_be_empty(Extreme(tuple(entries))):
        return None
    varying = _varying_leaves(entries)
    if varying is None:
        return None
    place = ANY_POSITIVE if all(isinstance(leaf, Exp) for leaf in varying) else ANY
    function = _common_function(entries, varying, place)
    if function is None or (place is ANY and is_linear(function)):
        return None  # a scale and a shift are taken out below
    direction = weakly_monotone(function, place)
    if direction is None:
        return None
    extreme = _extreme_of_leaves(entries, varying, place, direction)
    return rebuilt(function, {place: extreme}.get)


def _common_function(entries: Sequence[Entry], varying: list[Atom], place: Atom) -> Poly | None:
    """Return the function of its leaf that every entry is; None where they are not the same."""
    functions = set()
    for (_, _, value), leaf in zip(entries, varying):
        functions.add(replaced(value, {leaf: of_atom(place)}))
    return functions.pop() if len(functions) == 1 else None


def _extreme_of_leaves(
    entries: Sequence[Entry], varying: list[Atom], place: Atom, direction: int
) -> Poly:
    """Return the maximum of leaves, or the minimum where the function of them falls."""
    inner = []
    for (iterators, guards, _), leaf in zip(entries, varying):
        argument = of_atom(leaf) if place is ANY else leaf.fields[0]
        inner.append((iterators, guards, argument))
    extreme = maximum(inner) if direction > 0 else minimum(inner)
    return exponential(extreme) if place is ANY_POSITIVE else extreme


def is_linear(function: Poly) -> bool:
    """Return whether a function of the value in the place of a leaf is linear in it."""
    slope = replaced_part(function, ANY)
    return slope is not None and ANY not in arguments_of(function - slope * of_atom(ANY))


def _varying_leaves(entries: Sequence[Entry]) -> list[Atom] | None:
    """Return the only leaf of every entry that is not the same in all of them, or that depends on
    its iterators; one that stands under `exp` as well is one leaf.
    """
    for inside in (leaves, arguments_of):
        sets = [inside(value) for _, _, value in entries]
        varying = _differing(entries, sets)
        if varying is not None:
            return varying
    return None


def _differing(entries: Sequence[Entry], sets: Sequence[frozenset[Atom]]) -> list[Atom] | None:
    """Return the only atom of every entry that differs; None where some entry has another
    number of them.
    """
    common = frozenset.intersection(*sets)
    varying = []
    for (iterators, _, _), own in zip(entries, sets):
        bound = {index for index, _, _ in iterators}
        mine = [leaf for leaf in own if leaf not in common or indices_of(leaf) & bound]
        if len(mine) != 1:
            return None
        varying.append(mine[0])
    return varying


def _without_smaller(entries: list[Entry]) -> list[Entry]:
    """Return entries without those that another one is never below."""
    if len(entries) > MAX_COMPARED:
        return entries
    left = list(entries)
    for entry in entries:
        if entry[0]:
            continue
        for other in left:
            if other is entry or other[0] or other[1]:
                continue
            if sign(other[2] - entry[2]) in (POSITIVE, NONNEGATIVE, 0):
                left.remove(entry)
                break
    return left


def _shifted(entries: list[Entry]) -> Poly:
    """Return a maximum with what all entries have in common outside of it."""
    if len(entries) == 1 and not entries[0][0] and not entries[0][1]:
        return entries[0][2]
    shift = _common_shift(entries)
    moved = [(its, guards, value - shift) for its, guards, value in entries]
    if len(moved) == 2 and not any(its or guards for its, guards, _ in moved):
        one, two = moved[0][2], moved[1][2]
        return shift + (one + two + absolute(one - two)).scaled(Fraction(1, 2))
    scale = _common_scale(moved)
    if scale != ONE:
        moved = _unscaled(moved, scale)
        return shift + scale * maximum(moved)
    moved.sort(key=_entry_order)
    return shift + of_atom(Extreme(tuple(moved)))


def _unscaled(entries: Sequence[Entry], scale: Poly) -> list[Entry]:
    """Return entries over a common factor, a single term."""
    ((mono, coefficient),) = scale.terms.items()
    unscaled = []
    for iterators, guards, value in entries:
        rest = divided(value, mono).scaled(Fraction(1) / coefficient)
        unscaled.append((iterators, guards, rest))
    return unscaled


def _entry_order(entry: Entry) -> Any:
    iterators, guards, value = entry
    return len(iterators), str(iterators), len(guards), value.digest, str(guards)


def _common_shift(entries: Sequence[Entry]) -> Poly:
    """Return what is taken out of all entries: the first of plain values, else the terms that all
    have and that no iterator changes.
    """
    if not any(its or guards for its, guards, _ in entries):
        least = entries[0][2]
        for _, _, value in entries[1:]:
            difference = value - least
            if difference and difference.sorted_terms()[0][1] < 0:
                least = value
        return least
    common = {}
    first = entries[0][2]
    for mono, value in first.terms.items():
        if all(other.terms.get(mono) == value for _, _, other in entries):
            indices = indices_of(of_mono(mono))
            if not any(index in indices for its, _, _ in entries for index, _, _ in its):
                common[mono] = value
    return Poly(common)


def _common_factor(entries: Sequence[Entry]) -> Poly:
    """Return the atoms that are not negative, that divide all entries and that no iterator
    changes.
    """
    monos = [dict(common_mono(value)) for _, _, value in entries if value]
    if not monos:
        return ONE
    factor = ONE
    for atom, first in monos[0].items():
        exponents = [mono.get(atom, 0) for mono in monos]
        if all(exponent * first > 0 for exponent in exponents):
            exponent = min(exponents) if first > 0 else max(exponents)
            if _may_be_outside(atom, exponent, entries):
                factor = factor * of_atom(atom, exponent)
    return factor


def _common_scale(entries: Sequence[Entry]) -> Poly:
    """Return the positive factor that leaves entries without common divisor and denominator."""
    values = [value for _, _, value in entries if value]
    if not values:
        return ONE
    common: dict[Atom, Number] = dict(common_mono(values[0]))
    coefficient = Fraction(0)
    for value in values:
        coefficient = _gcd(coefficient, rational_content(value))
        common = _least(common, dict(common_mono(value)))
    scale = number(coefficient)
    for atom, exponent in common.items():
        if not isinstance(atom, Surd) and _may_be_outside(atom, exponent, entries):
            scale = scale * of_atom(atom, exponent)
    return scale


def _may_be_outside(atom: Atom, exponent: Number, entries: Sequence[Entry]) -> bool:
    """Return whether a power is not negative, and the same at all points of the iterators; where
    guards may exclude all entries it must not be 0.
    """
    indices = indices_of(atom)
    if any(index in indices for its, _, _ in entries for index, _, _ in its):
        return False
    its_sign = sign(of_atom(atom, exponent))
    if any(guards for _, guards, _ in entries):
        return its_sign == POSITIVE
    return its_sign in (POSITIVE, NONNEGATIVE)


def _gcd(one: Any, two: Any) -> Fraction:
    one, two = Fraction(one), Fraction(two)
    if not one:
        return two
    above = gcd(one.numerator * two.denominator, two.numerator * one.denominator)
    return Fraction(above, one.denominator * two.denominator)


def _least(one: dict[Atom, Number], two: dict[Atom, Number]) -> dict[Atom, Number]:
    least = {}
    for atom in one.keys() | two.keys():
        a, b = one.get(atom, 0), two.get(atom, 0)
        power = min(a, b)
        if power:
            least[atom] = power
    return dict(sorted(least.items(), key=lambda item: item[0].order))
