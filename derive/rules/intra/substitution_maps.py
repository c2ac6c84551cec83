"""The maps that variable substitution proposes: from the strides, divisors, windows and axis orders that occur."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from derive.rewriting.body_queries import ReadContext
from einalg.language.analysis.simplify import known_remainder
from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index

WIDEST = 16  # window that is cut into smaller ones
Forms = dict[Index, Affine]
Map = tuple[Forms, Forms]


def proposed_maps(
    iterators: tuple[LoopIndex, ...],
    where: Any,
    found: list[ReadContext],
    taken: set[Index],
    ordered: bool,
) -> Iterator[Map]:
    """Changes of single indices, those that stand side by side (of `h` and of `w`) at once, and orders."""
    own = {it.index: it for it in iterators if it.extent > 0}
    forms = list(dict.fromkeys(s for read in found for s in read.access.subscripts))
    quotients = {f: changes for f in forms if (changes := _quotients(f, own, where, taken))}
    parts = list(dict.fromkeys(part for f in forms for part in _parts(f) if f not in quotients))
    skews = [_skews(part, own, taken) for part in parts]
    if ordered:
        skews += [_skews_inside(form, own, taken) for form in forms if form not in quotients]
    chosen = [*([change] for changes in skews for change in changes), *_beside(skews, own)]
    reflections = [] if ordered else _reflections(parts, own, taken)
    for groups in (list(quotients.values()), *_splits(forms, own, not ordered, taken), reflections):
        together = list(_beside(groups, own))
        chosen += [
            *together,
            *(
                [c]
                for changes in groups
                for c in changes
                if not any(c in other for other in together)
            ),
        ]
    for changes in chosen:
        yield _completed(own, changes, taken)
    if ordered:
        yield from _reorders(iterators, found)


def _splits(
    forms: list[Affine], own: Mapping[Index, LoopIndex], windows: bool, taken: set[Index]
) -> Iterator[list[list[Change]]]:
    """For every divisor, the indices that it may split, those of one subscript together."""
    parts = list(dict.fromkeys(part for f in forms for part in _parts(f)))
    found: dict[int, list[Index]] = {}
    for index, divisor in (*_divisors(parts, own), *(_windows(parts, own) if windows else ())):
        found.setdefault(divisor, []).append(index)
    for divisor, indices in found.items():
        yield [
            [_split(i, divisor, taken) for i in dict.fromkeys(indices) if i in f.indices]
            for f in forms
            if f.as_index() is None
        ]


class Change(NamedTuple):
    """Old indices with the new ones in their place, the forms of the new, and those of the old."""

    gone: dict[Index, list[Index]]
    forward: Forms
    backward: Forms


def _beside(groups: list[list[Change]], own: Mapping[Index, LoopIndex]) -> Iterator[list[Change]]:
    """One change of each group that speaks of other indices: those of the first index of each, and those of the last."""
    order = {index: k for k, index in enumerate(own)}
    for choose in (max, min):
        chosen: list[Change] = []
        spoken: set[Index] = set()
        for changes in groups:
            change = choose(
                (c for c in changes if len(c.gone) == 1),
                key=lambda c: order[next(iter(c.gone))],
                default=None,
            )
            indices = (
                set[Index]().union(*(f.indices for f in change.forward.values()))
                if change
                else set[Index]()
            )
            if change and spoken.isdisjoint(indices):
                chosen.append(change)
                spoken |= indices
        if len(chosen) > 1:
            yield chosen


def _parts(subscript: Affine) -> Iterator[Affine]:
    """A subscript and the arguments of its quotients."""
    yield subscript
    for atom, _ in subscript.terms:
        if not isinstance(atom, Index):
            yield from _parts(atom.argument)


def _replaced(own: Mapping[Index, LoopIndex], gone: Mapping[Index, list[Index]]) -> list[Index]:
    """The indices in order, with some replaced by new ones."""
    return [new for index in own for new in gone.get(index, [index])]


def _skews(part: Affine, own: Mapping[Index, LoopIndex], taken: set[Index]) -> list[Change]:
    """`t = a·h + b·r + c` takes the place of one of its indices, so that the subscript becomes bare."""
    terms = [(a, c) for a, c in part.terms if isinstance(a, Index) and a in own]
    if len(terms) != len(part.terms) or part.as_index() is not None:
        return []
    found = _merge(part, own, taken)
    name = fresh_index("t", taken)
    smallest = min(
        (abs(c) for _, c in terms), default=0
    )  # another would leave a condition of divisibility
    for index, coefficient in (t for t in terms if abs(t[1]) == smallest):
        rest = part - affine(index) * coefficient
        back = (affine(name) - rest) if coefficient > 0 else (rest - affine(name))
        found.append(Change({index: [name]}, {name: part}, {index: back // abs(coefficient)}))
    return found


def _skews_inside(form: Affine, own: Mapping[Index, LoopIndex], taken: set[Index]) -> list[Change]:
    """Skews of what the traversal contributes to a subscript in which reduced indices stand as well."""
    terms = tuple((a, c) for a, c in form.terms if isinstance(a, Index) and a in own)
    part = Affine.from_normal_form(terms, 0)
    if len(terms) == len(form.terms) or len(terms) < 2 or _merge(part, own, taken):
        return []
    return _skews(part, own, taken)


def _reflections(
    parts: list[Affine], own: Mapping[Index, LoopIndex], taken: set[Index]
) -> list[list[Change]]:
    """A window that is read backwards, `h - r`, is read forwards."""
    found: dict[Index, Change] = {}
    for index, coefficient in (
        term for part in parts if len(part.terms) > 1 for term in part.terms
    ):
        if coefficient < 0 and isinstance(index, Index) and index in own:
            name = fresh_index(index.name, taken)
            ends = own[index].low + own[index].high - 1
            found[index] = Change(
                {index: [name]}, {name: ends - affine(index)}, {index: ends - affine(name)}
            )
    return [[change] for change in found.values()]


def _quotients(
    subscript: Affine, own: Mapping[Index, LoopIndex], where: Any, taken: set[Index]
) -> list[Change]:
    """`u = (h + e)//d` takes the place of `h` where a condition fixes `(h + e) % d`."""
    atom = subscript.as_atom() or (subscript - subscript.const).as_atom()
    if (
        not isinstance(atom, FloorDiv)
        or not atom.argument.is_affine()
        or not atom.argument.indices <= set(own)
    ):
        return []
    remainder = known_remainder(atom.argument, atom.divisor, where)
    if remainder is None:
        return []
    name = fresh_index("t", taken)
    whole = (affine(name) - subscript.const) * atom.divisor + remainder
    found = []
    for index, coefficient in atom.argument.terms:
        if isinstance(index, Index) and abs(coefficient) == 1:
            rest = atom.argument - affine(index) * coefficient
            found.append(
                Change({index: [name]}, {name: subscript}, {index: (whole - rest) * coefficient})
            )
    return found


def _merge(part: Affine, own: Mapping[Index, LoopIndex], taken: set[Index]) -> list[Change]:
    """`k·x + y` with `y` in `[0,k)` and stride 1 becomes one index."""
    terms = sorted(((c, a) for a, c in part.terms if isinstance(a, Index)), key=lambda t: t[0])
    if len(terms) < 2 or any(own[a].low != 0 for _, a in terms):
        return []
    stride = 1
    for coefficient, index in terms:
        if coefficient != stride:
            return []
        stride *= own[index].extent
    name = fresh_index("t", taken)
    merged = part - part.const
    backward: Forms = {}
    for position, (coefficient, index) in enumerate(terms):
        quotient = affine(name) // coefficient
        backward[index] = quotient if position == len(terms) - 1 else quotient % own[index].extent
    outermost = terms[-1][1]
    gone: dict[Index, list[Index]] = {index: [] for _, index in terms}
    gone[outermost] = [name]
    return [Change(gone, {name: merged}, backward)]


def _divisors(parts: list[Affine], own: Mapping[Index, LoopIndex]) -> Iterator[tuple[Index, int]]:
    """Index and number: the strides beside which it stands, and the divisors of quotients that it occurs in."""
    for part in parts:
        for atom, _ in part.terms:
            if isinstance(atom, (FloorDiv, Modulo)):
                yield from (
                    (i, atom.divisor)
                    for i in atom.argument.indices
                    if i in own and 1 < atom.divisor < own[i].extent
                )
        strides = {abs(c) for a, c in part.terms if isinstance(a, Index) and abs(c) > 1}
        for index in (a for a, _ in part.terms if isinstance(a, Index) and a in own):
            yield from (
                (index, stride)
                for stride in sorted(strides)
                if stride < own[index].extent and part.coefficient(index) % stride
            )


def _windows(parts: list[Affine], own: Mapping[Index, LoopIndex]) -> Iterator[tuple[Index, int]]:
    """Widths of smaller windows of which a window `h + r` is made: for each index of a reduction that slides along another."""
    sliding = dict.fromkeys(
        a
        for part in parts
        if len(part.terms) > 1
        for a, _ in part.terms
        if isinstance(a, Index) and a in own
    )
    for index in sliding:
        widest = (own[index].extent + 1) // 2
        if 3 < own[index].extent <= WIDEST:
            yield from ((index, width) for width in range(widest, 1, -1))


def _split(index: Index, divisor: int, taken: set[Index]) -> Change:
    high = fresh_index(index.name + "1", taken)
    low = fresh_index(index.name + "2", taken | {high})
    forward = {high: affine(index) // divisor, low: affine(index) % divisor}
    return Change({index: [high, low]}, forward, {index: affine(high) * divisor + low})


def _reorders(iterators: tuple[LoopIndex, ...], found: list[ReadContext]) -> Iterator[Map]:
    """The orders in which a read's own axes stand in the order of what it reads, the other indices after or before."""
    original = tuple(it.index for it in iterators)
    for read in found:
        bare = [s.as_index() for s in read.access.subscripts]
        order = [i for i in dict.fromkeys(bare) if i in original]
        others = [i for i in original if i not in order]
        for candidate in (tuple(order + others), tuple(others + order)):
            if candidate != original and len(order) > 0:
                yield {i: affine(i) for i in candidate}, {i: affine(i) for i in candidate}


def _completed(own: Mapping[Index, LoopIndex], changes: list[Change], taken: set[Index]) -> Map:
    """The identity on every index that no change speaks of, in the order of the iterators."""
    gone: dict[Index, list[Index]] = {}
    forward: Forms = {}
    backward: Forms = {}
    for change in changes:
        names = (
            {i: fresh_index(i.name, taken | set(forward)) for i in change.forward}
            if len(changes) > 1
            else {i: i for i in change.forward}
        )
        renaming = {i: affine(j) for i, j in names.items() if i != j}
        gone.update({i: [names[j] for j in new] for i, new in change.gone.items()})
        forward.update({names[i]: f for i, f in change.forward.items()})
        backward.update({i: f.substitute(renaming) for i, f in change.backward.items()})
    order = _replaced(own, gone)
    whole = {i: forward.get(i, affine(i)) for i in order}
    return whole, {i: backward.get(i, affine(i)) for i in own}
