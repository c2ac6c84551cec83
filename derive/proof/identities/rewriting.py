"""Polynomials rebuilt with others in the places of atoms, all of them in normal form again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derive.proof.identities.forms.binders import reach_of_prefix, total, total_product, with_range
from derive.proof.identities.forms.entries import Entry
from derive.proof.identities.forms.extremes import maximum
from derive.proof.identities.forms.polynomials.atoms import (
    CONDITIONS,
    Abs,
    Extreme,
    IndexCondition,
    Infinity,
    Prefix,
    indices_of,
    of_index,
)
from derive.proof.identities.forms.polynomials.laurent import ONE, ZERO, Atom, Poly, of_atom
from derive.proof.identities.forms.rebuilding import rebuilt
from derive.proof.identities.forms.signs import implied, knowing
from einalg.language.index.convert import affine

Change = Callable[[Atom], Poly | None]


def rewritten(polynomial: Poly, change: Change) -> Poly:
    """Return a polynomial with others in the places of atoms, inside of extremes and sums too."""

    def inside(part: Poly) -> Poly:
        return rebuilt(part, change, of_binder)

    def of_binder(atom: Atom) -> Poly | None:
        if isinstance(atom, IndexCondition):
            return _decided(atom)
        if isinstance(atom, Extreme):
            return maximum([_rewritten_entry(entry, inside) for entry in atom.fields[0]])
        if isinstance(atom, Prefix):
            return _rewritten_prefix(atom, inside)
        return None

    return inside(polynomial)


def _rewritten_prefix(atom: Atom, inside: Callable[[Poly], Poly]) -> Poly | None:
    op, body, index, upper = atom.fields
    with knowing(with_range(index, *reach_of_prefix(upper))):
        part = inside(body)
    if part == body:
        return None
    reduce = total if op == "Sum" else total_product
    return reduce(part, index, (affine(0), upper))


def _decided(condition: Atom) -> Poly | None:
    """Return what the facts say about a condition on indices."""
    (form,) = condition.fields
    if implied(of_index(form), False):
        return ONE
    if implied(of_index(-form - 1), False):
        return ZERO
    return None


def _rewritten_entry(entry: Entry, inside: Callable[[Poly], Poly]) -> Entry:
    """Return an entry with its guards as conditions of its value, which is infinite elsewhere."""
    iterators, guards, value = entry
    left = []
    for condition, truth in guards:
        holds = inside(of_atom(condition))
        if not truth:
            holds = ONE - holds
        if holds == ONE:
            continue
        left.append((condition, truth, holds))
    rest = []
    for condition, truth, holds in left:
        if holds == ZERO:
            return iterators, (), -of_atom(Infinity())
        rest.append((condition, truth))
    return iterators, tuple(rest), inside(value)


def choices(polynomial: Poly) -> list[Atom]:
    """Return the atoms that stand for a choice between values, the innermost ones first."""
    seen: dict[Atom, int] = {}

    def visit(value: Any) -> int:
        """Return the height of the choices inside a field."""
        if isinstance(value, Poly):
            return max(map(visit, value.atoms()), default=0)
        if isinstance(value, tuple):
            return max(map(visit, value), default=0)
        if not isinstance(value, Atom):
            return 0
        if value in seen:
            return seen[value]
        height = visit(value.fields)
        if isinstance(value, (*CONDITIONS, Abs, Extreme)):
            height += 1
        seen[value] = height
        return height

    visit(polynomial)
    kinds = (*CONDITIONS, Abs, Extreme)
    atoms = [atom for atom in seen if isinstance(atom, kinds) and not is_bound(atom)]
    return sorted(atoms, key=lambda atom: (seen[atom], atom.order))


def is_bound(atom: Atom) -> bool:
    """Return whether an atom stands under a reduction over an index that it depends on, or is
    itself a maximum over a range.
    """
    if isinstance(atom, Extreme) and any(entry[0] for entry in atom.fields[0]):
        return True
    return any(index.name[0] in "pm" for index in indices_of(atom))
