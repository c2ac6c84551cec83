"""Entries of maxima among the values of others: `A[i]` is one of `A[k]` over all k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from derive.proof.identities.forms.conditions import index_at_least
from derive.proof.identities.forms.entries import (
    Entry,
    Guard,
    atom_order,
    canonical,
    renamed,
    substituted,
)
from derive.proof.identities.forms.polynomials.atoms import elements_of
from derive.proof.identities.forms.polynomials.laurent import Poly, of_atom, spend
from derive.proof.identities.forms.signs import Knowledge, interval, knowing, knowledge
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent

MAX_COMPARED = 16  # entries
Values = dict[Index, Affine]  # of iterators


def without_covered(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries without those whose values are among the values of another one; a value beside
    the range of another entry is joined to it.
    """
    if len(entries) > MAX_COMPARED:
        return list(entries)
    left = list(entries)
    for entry in sorted(entries, key=_rank):
        others = [other for other in left if other is not entry and other[0]]
        if any(_is_covered(entry, other) for other in others):
            left.remove(entry)
    return _with_values_joined(left)


def _rank(entry: Entry) -> int:
    return len(entry[0])


def _is_covered(entry: Entry, other: Entry) -> bool:
    """Return whether all values of an entry are values of another one."""
    iterators, guards, value = entry
    its, conditions, general = renamed(*other, 0)
    known = knowledge()
    ranges = {index: (low, high) for index, low, high in iterators}
    with knowing(Knowledge({**known.ranges, **ranges}, known.facts)):
        for values in _matches(general, value, [index for index, _, _ in its], {}):
            if not set(substituted(conditions, values)) <= set(guards):
                continue
            if all(_is_between(values[index], low, high) for index, low, high in its):
                return True
    return False


def _is_between(value: Affine, low: Extent, high: Extent) -> bool:
    least, _ = interval(affine(value - low))
    most, _ = interval(affine(high - 1 - value))
    return least is not None and least >= 0 and most is not None and most >= 0


def _matches(
    general: Poly, value: Poly, indices: Sequence[Index], values: Values
) -> Iterator[Values]:
    """Yield the values of indices at which a polynomial is another one."""
    spend(4)
    if not indices:
        if substituted(general, values) == value:
            yield values
        return
    for form in _candidates(general, value, indices, values):
        yield from _matches(general, value, indices[1:], {**values, indices[0]: form})


def _candidates(
    general: Poly, value: Poly, indices: Sequence[Index], values: Values
) -> Iterable[Affine]:
    """Return what the first of some indices may be: what elements of a tensor read in its place."""
    candidates: dict[Affine, None] = {}
    for atom in sorted(elements_of(general), key=atom_order):
        for axis, subscript in enumerate(atom.fields[1]):
            scale = subscript.coefficient(indices[0])
            rest = affine(subscript - affine(indices[0]).scaled(scale)).substitute(values)
            if abs(scale) != 1 or not rest.indices.isdisjoint(indices):
                continue
            for other in sorted(elements_of(value), key=atom_order):
                if other.fields[0] == atom.fields[0]:
                    candidates[affine(other.fields[1][axis] - rest).scaled(scale)] = None
    return candidates


def _with_values_joined(entries: list[Entry]) -> list[Entry]:
    """Return entries with single values as parts of ranges that they are beside of."""
    for value in entries:
        for other in entries:
            longer = _joined(value, other)
            if longer is not None:
                rest = [entry for entry in entries if entry is not value and entry is not other]
                return _with_values_joined([*rest, longer])
    return entries


def _joined(single: Entry, entry: Entry) -> Entry | None:
    """Return an entry of one iterator with one more value; None where that is not beside it."""
    if single[0] or len(entry[0]) != 1:
        return None
    iterators, guards, general = renamed(*entry, 0)
    ((index, low, high),) = iterators
    if set(guards) - _has_points(low, high) != set(single[1]):
        return None
    for values in _matches(general, single[2], [index], {}):
        place = values[index]
        if place == high or place == low - 1:
            longer = (index, low, high + 1) if place == high else (index, low - 1, high)
            return canonical(((longer,), single[1], general))
    return None


def _has_points(low: Extent, high: Extent) -> set[Guard]:
    """Return the guard that a range has points."""
    holds = index_at_least(affine(high - low - 1))
    return {(atom, holds == of_atom(atom)) for atom in holds.atoms()}
