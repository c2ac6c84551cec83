"""Entries of maxima: values over ranges, under guards, in normal form.

An entry is `(iterators, guards, polynomial)`: the values of a polynomial at all points of the
iterators at which the guards, conditions with truth values, hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from derive.proof.identities.forms.polynomials.atoms import (
    Extreme,
    IndexAtom,
    IndexCondition,
    elements_of,
    indices_of,
    of_index,
    simple_power,
    with_fields,
)
from derive.proof.identities.forms.polynomials.laurent import Atom, Poly, mapped, of_atom
from derive.proof.identities.forms.signs import interval
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, is_always_at_most, ordered_extent, settled

MAX_GUARDS = 6  # conditions under which a maximum may have no value
Iterator_ = tuple[Index, Extent, Extent]
Guard = tuple[Atom, bool]
Entry = tuple[tuple[Iterator_, ...], tuple[Guard, ...], Poly]


def bounded(iterators: Any, guards: dict[Atom, bool], value: Poly) -> list[Entry]:
    """Return an entry whose guards are bounds of its iterators, where they can be."""
    bounds = {index: (low, high) for index, low, high in iterators}
    left = {}
    for condition, truth in guards.items():
        if not (isinstance(condition, IndexCondition) and _narrow(bounds, condition, truth)):
            left[condition] = truth
    ranges = []
    for index, (low, high) in bounds.items():
        if is_always_at_most(high, low):
            return []
        ranges.append((index, low, high))
    ordered = sorted(left.items(), key=lambda guard: guard[0].order)
    return [(tuple(ranges), tuple(ordered), value)]


def _narrow(bounds: dict[Index, tuple[Extent, Extent]], condition: Atom, truth: bool) -> bool:
    """Narrow the bounds of an iterator by a condition on it alone; not where it depends on sizes
    whether any points are left.
    """
    form: Affine = condition.fields[0] if truth else -condition.fields[0] - 1
    if len(form.indices) != 1:
        return False
    (index,) = form.indices
    coefficient = form.coefficient(index)
    rest = form - affine(index).scaled(coefficient)
    if index not in bounds or rest.indices:
        return False
    low, high = bounds[index]
    if coefficient > 0:
        low = _larger(low, -(rest // coefficient))
    else:
        high = _smaller(high, rest // -coefficient + 1)
    if low is None or high is None:
        return False
    if is_always_at_most(low + 1, high) or is_always_at_most(high, low):
        bounds[index] = low, high
        return True
    return False


def _larger(one: Extent, two: Extent) -> Extent | None:
    """Return the larger extent; None where that depends on sizes."""
    if is_always_at_most(one, two):
        return settled(two)
    return settled(one) if is_always_at_most(two, one) else None


def _smaller(one: Extent, two: Extent) -> Extent | None:
    """Return the smaller extent; None where that depends on sizes."""
    if is_always_at_most(one, two):
        return settled(one)
    return settled(two) if is_always_at_most(two, one) else None


def renamed(iterators: Any, guards: Any, value: Poly, first: int) -> Entry:
    """Return an entry whose iterators have names from a number on."""
    mapping = {}
    renamed = []
    for offset, (index, low, high) in enumerate(iterators):
        fresh = Index(f"t{first + offset}")
        mapping[index] = affine(fresh)
        renamed.append((fresh, low, high))
    moved = substituted((guards, value), mapping)
    return tuple(renamed), moved[0], moved[1]


def substituted(value: Any, mapping: dict[Index, Affine]) -> Any:
    """Return a field with index forms in the places of indices, which must not be bound in it."""
    return _Substitution(mapping).field(value)


def substituted_poly(value: Poly, mapping: dict[Index, Affine]) -> Poly:
    """Return a polynomial with index forms in the places of indices."""
    return _Substitution(mapping).poly(value)


class _Substitution:
    """Index forms in the places of indices, written once into each atom, wherever it occurs."""

    def __init__(self, mapping: dict[Index, Affine]) -> None:
        self.mapping = mapping
        self.images: dict[Atom, Poly | None] = {}

    def field(self, value: Any) -> Any:
        if not self.mapping or indices_of(value).isdisjoint(self.mapping):
            return value
        return with_fields(value, self.poly, self.form)

    def poly(self, part: Poly) -> Poly:
        return mapped(part, self.image, simple_power)

    def form(self, form: Any) -> Any:
        if isinstance(form, Index) and form not in self.mapping:
            return form
        return form.as_affine().substitute(self.mapping)

    def image(self, atom: Atom) -> Poly | None:
        """Return what an atom becomes; None where it stays."""
        if indices_of(atom).isdisjoint(self.mapping):
            return None
        if atom not in self.images:
            self.images[atom] = self._image(atom)
        return self.images[atom]

    def _image(self, atom: Atom) -> Poly:
        if isinstance(atom, IndexAtom):
            return of_index(atom.fields[0].as_affine().substitute(self.mapping))
        return of_atom(type(atom)(*self.field(atom.fields)))


def canonical(entry: Entry) -> Entry:
    """Return an entry with iterators in order of use, counted so that the first element that has
    one reads from 0 on; without those of one value.
    """
    iterators, guards, value = _without_single_values(entry)
    used = indices_of(value) | indices_of(guards)
    iterators = [it for it in iterators if it[0] in used]
    order = order_of_use(value, [index for index, _, _ in iterators])
    iterators.sort(key=lambda it: order[it[0]])
    mapping, renamed = {}, []
    height = _height((guards, value))
    for position, (index, low, high) in enumerate(iterators):
        fresh = bound_index(height, position)
        form, first, last = counted_from_first_use(value, index, fresh, low, high)
        mapping[index] = form
        renamed.append((fresh, first, last))
    moved_guards, moved = substituted((guards, value), mapping)
    return tuple(renamed), moved_guards, moved


def _without_single_values(entry: Entry) -> Entry:
    iterators, guards, value = entry
    mapping = {index: affine(low) for index, low, high in iterators if high == low + 1}
    guards, value = substituted((guards, value), mapping)
    return tuple([it for it in iterators if it[0] not in mapping]), guards, value


def bound_index(height: int, position: int) -> Index:
    """Return the name of an iterator of a maximum in which others are nested so deep: no inner one
    has the same.
    """
    return Index(f"m{height}_{position}")


def _height(value: Any) -> int:
    """Return how deep maxima are nested."""
    if isinstance(value, Poly):
        return max(map(_height, value.atoms()), default=0)
    if isinstance(value, tuple):
        return max(map(_height, value), default=0)
    if not isinstance(value, Atom):
        return 0
    if "height" not in value.facts:
        value.facts["height"] = _height(value.fields) + isinstance(value, Extreme)
    return value.facts["height"]


def order_of_use(value: Poly, indices: Iterable[Index]) -> dict[Index, int]:
    """Return the ranks of bound indices by where elements use them; their names do not count, but
    where indices are used alike.
    """
    left = sorted(indices, key=lambda index: (len(index.name), index.name))
    colours: dict[Index, int] = dict.fromkeys(left, 0)
    uses = {index: _uses(value, index) for index in left}
    ranks: dict[Index, int] = {}
    while left:
        colours = _refined(colours, uses)
        first = min(left, key=lambda index: colours[index])
        ranks[first] = len(ranks)
        left.remove(first)
        colours[first] = -len(ranks)
    return ranks


def _uses(value: Poly, index: Index) -> list[tuple[Any, int, Atom]]:
    """Return how elements use an index: their order, the axis, and the element."""
    uses = []
    for atom in elements_of(value):
        for axis, form in enumerate(atom.fields[1]):
            if index in form.indices:
                uses.append((_element_order(atom), axis, atom))
    return uses


def _refined(colours: dict[Index, int], uses: dict[Index, Any]) -> dict[Index, int]:
    """Return a number for each index, equal for those that are used alike, beside others that are
    used alike.
    """
    while True:
        signatures = {}
        for index, colour in colours.items():
            around = [(*use[:2], _coloured(use[2], index, colours)) for use in uses[index]]
            signatures[index] = (colour >= 0, colour, not around, sorted(around))
        order = sorted({repr(it): it for it in signatures.values()}.values())
        numbers = {repr(signature): number for number, signature in enumerate(order)}
        refined = {}
        for index, colour in colours.items():
            refined[index] = colour if colour < 0 else numbers[repr(signatures[index])]
        if refined == colours:
            return colours
        colours = refined


def _coloured(atom: Atom, index: Index, colours: dict[Index, int]) -> list[Any]:
    """Return the subscripts of an element with numbers in the places of bound indices."""
    forms = []
    for form in atom.fields[1]:
        terms = []
        for unit, coefficient in form.terms:
            own = unit == index
            colour = colours.get(unit)
            name = "" if colour is not None else str(unit)
            terms.append((not own, colour or 0, name, coefficient))
        forms.append(sorted(terms))
    return forms


def _element_order(atom: Atom) -> Any:
    name, forms = atom.fields
    return name, [len(form.terms) for form in forms], [form.const for form in forms]


def counted_from_first_use(
    value: Poly, index: Index, fresh: Index, low: Extent, high: Extent
) -> tuple[Affine, Extent, Extent]:
    """Return an index of a range as a form of a fresh one, and the range of that: the first
    subscript that counts with the index, up or down, counts with the fresh one alone.
    """
    form = _first_subscript(value, index)
    if form is None:
        return affine(fresh), low, high
    terms = tuple([(atom, scale) for atom, scale in form.terms if _is_of_sizes(atom)])
    offset = Affine.from_normal_form(terms, form.const)
    if form.coefficient(index) == 1:
        return affine(fresh) - offset, settled(low + offset), settled(high + offset)
    return offset - fresh, settled(offset - high + 1), settled(offset - low + 1)


def _is_of_sizes(atom: Any) -> bool:
    return not indices_of(atom)


def _first_subscript(value: Poly, index: Index) -> Affine | None:
    """Return the first subscript that an index is added to or subtracted from; None where it is in
    no such subscript.
    """
    subscripts = []
    for order, axis, atom in _uses(value, index):
        form = atom.fields[1][axis]
        if abs(form.coefficient(index)) == 1:
            subscripts.append((order, axis, form.sort_tuple, form))
    return min(subscripts)[3] if subscripts else None


def joined(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries of one polynomial with one iterator in common as one, where their ranges
    touch.
    """
    groups: dict[Any, list[Any]] = {}
    order: list[Any] = []
    for iterators, guards, value in entries:
        key = len(iterators), guards, value
        if key not in groups:
            order.append(key)
        groups.setdefault(key, []).append(tuple((low, high) for _, low, high in iterators))
    joined = []
    for key in order:
        _, guards, value = key
        for box in _joined_boxes(groups[key]):
            its = []
            for position, (low, high) in enumerate(box):
                its.append((bound_index(_height((guards, value)), position), low, high))
            joined.append((tuple(its), guards, value))
    return joined


def _joined_boxes(boxes: Sequence[Any]) -> list[Any]:
    """Return boxes with those as one that differ on one axis and touch there."""
    boxes = sorted(set(boxes), key=_box_order)
    changed = True
    while changed:
        changed = False
        for a in range(len(boxes)):
            for b in range(a + 1, len(boxes)):
                union = _union_of_boxes(boxes[a], boxes[b])
                if union is not None:
                    others = {*boxes[:a], *boxes[a + 1 : b], *boxes[b + 1 :]}
                    boxes = sorted({*others, union}, key=_box_order)
                    changed = True
                    break
            if changed:
                break
    return boxes


def _union_of_boxes(one: Any, two: Any) -> Any:
    axes = [axis for axis, (a, b) in enumerate(zip(one, two)) if a != b]
    if len(axes) != 1:
        return None
    (axis,) = axes
    (low, high), (low2, high2) = one[axis], two[axis]
    if not (is_always_at_most(low2, high) and is_always_at_most(low, high2)):
        return None
    first, last = _smaller(low, low2), _larger(high, high2)
    if first is None or last is None:
        return None
    return (*one[:axis], (first, last), *one[axis + 1 :])


def _box_order(box: Any) -> Any:
    return [(ordered_extent(low), ordered_extent(high)) for low, high in box]


def may_be_empty(atom: Atom) -> bool:
    """Return whether the guards of a maximum may all fail, so that it has no value."""
    entries = atom.fields[0]
    conditions = sorted({c for _, guards, _ in entries for c, _ in guards}, key=atom_order)
    conditions = [c for c in conditions if not _is_bound(c, entries)]
    if len(conditions) > MAX_GUARDS:
        return True
    for truths in product((True, False), repeat=len(conditions)):
        world = dict(zip(conditions, truths))
        if not any(_is_surely_there(entry, world) for entry in entries):
            return True
    return False


def atom_order(atom: Atom) -> Any:
    """Return what orders atoms."""
    return atom.order


def _is_bound(condition: Atom, entries: Sequence[Entry]) -> bool:
    indices = indices_of(condition)
    return any(index in indices for its, _, _ in entries for index, _, _ in its)


def _is_surely_there(entry: Entry, world: dict[Atom, bool]) -> bool:
    """Return whether an entry has a point at which its guards hold, at the ends of its ranges."""
    iterators, guards, _ = entry
    ends = [((index, low), (index, high - 1)) for index, low, high in iterators]
    for corner in product(*ends):
        mapping = {index: affine(value) for index, value in corner}
        if all(_holds_at(guard, mapping, world) for guard in guards):
            return True
    return False


def _holds_at(guard: Any, mapping: dict[Index, Affine], world: dict[Atom, bool]) -> bool:
    condition, truth = guard
    if condition in world:
        return world[condition] is truth
    if not isinstance(condition, IndexCondition):
        return False
    low, high = interval(condition.fields[0].substitute(mapping))
    if low is None or high is None:
        return False
    return low >= 0 if truth else high < 0
