"""The maps that variable substitution proposes.

They come from the strides, divisors, windows and axis orders that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from derive.rewriting.body_queries import ReadContext, indices_of, iterators_by_index
from einalg.language.analysis.simplify import known_remainder
from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index

MAX_WINDOW = 16  # that is cut into smaller ones
Forms = dict[Index, Affine]
Map = tuple[Forms, Forms]
Iterators = Mapping[Index, LoopIndex]


class Change(NamedTuple):
    """A part of a map: old indices with the new ones in their place, the forms of both.

    `Change({h: [t]}, {t: h + r}, {h: t - r})` puts t in the place of h.
    """

    replaced: dict[Index, list[Index]]
    forward: Forms
    backward: Forms


def proposed_maps(
    iterators: tuple[LoopIndex, ...],
    where: Any,
    contexts: list[ReadContext],
    used: set[Index],
    ordered: bool,
) -> Iterator[Map]:
    """Yield changes of single indices, of those of `h` and of `w` at once, and orders.

    No iterator is empty.
    """
    live = iterators_by_index(iterators)
    forms: dict[Affine, None] = {}
    for context in contexts:
        forms.update(dict.fromkeys(context.access.subscripts))
    for changes in _combinations(list(forms), live, where, used, ordered):
        yield _completed(live, changes, used)
    if ordered:
        yield from _reorders(iterators, contexts)


def _combinations(
    forms: list[Affine], live: Iterators, where: Any, used: set[Index], ordered: bool
) -> Iterator[list[Change]]:
    """Yield the changes that are made at once: one alone, or one for each of several subscripts."""
    quotients: dict[Affine, list[Change]] = {}
    for form in forms:
        changes = _quotients(form, live, where, used)
        if changes:
            quotients[form] = changes
    others = [form for form in forms if form not in quotients]
    skews = [_skews(part, live, used) for part in _distinct_parts(others)]
    if ordered:
        skews += [_skews_inside(form, live, used) for form in others]
    for group in skews:
        for change in group:
            yield [change]
    yield from _together(skews, live)
    yield from _together_and_alone(list(quotients.values()), live)
    for groups in _splits(forms, live, not ordered, used):
        yield from _together_and_alone(groups, live)
    if not ordered:
        reflections = _reflections(_distinct_parts(others), live, used)
        yield from _together_and_alone(reflections, live)


def _together_and_alone(groups: list[list[Change]], live: Iterators) -> Iterator[list[Change]]:
    """Yield changes that go together, then each of the others alone."""
    together = list(_together(groups, live))
    yield from together
    for changes in groups:
        for change in changes:
            if not any(change in chosen for chosen in together):
                yield [change]


def _splits(
    forms: list[Affine], live: Iterators, with_windows: bool, used: set[Index]
) -> Iterator[list[list[Change]]]:
    """Yield for every divisor the splits of the indices it suits, those of a subscript together."""
    parts = _distinct_parts(forms)
    candidates = list(_divisors(parts, live))
    if with_windows:
        candidates += _windows(parts, live)
    by_divisor: dict[int, dict[Index, None]] = {}
    for index, divisor in candidates:
        by_divisor.setdefault(divisor, {})[index] = None
    for divisor, indices in by_divisor.items():
        groups = []
        for form in forms:
            if form.as_index() is None:
                moving = form.indices
                groups.append([_split(i, divisor, used) for i in indices if i in moving])
        yield groups


def _together(groups: list[list[Change]], live: Iterators) -> Iterator[list[Change]]:
    """Yield one change of each group, all of different indices: of its first one, and of its last.

    In a convolution these are the skews of h by r and of w by s.
    """
    order = {index: position for position, index in enumerate(live)}

    def position(change: Change) -> int:
        return order[next(iter(change.replaced))]

    for choose in (max, min):
        chosen: list[Change] = []
        seen: set[Index] = set()
        for changes in groups:
            single = [change for change in changes if len(change.replaced) == 1]
            if not single:
                continue
            change = choose(single, key=position)
            indices = _indices_of(change.forward)
            if seen.isdisjoint(indices):
                chosen.append(change)
                seen |= indices
        if len(chosen) > 1:
            yield chosen


def _indices_of(forms: Forms) -> set[Index]:
    indices: set[Index] = set()
    for form in forms.values():
        indices |= form.indices
    return indices


def _distinct_parts(forms: Iterable[Affine]) -> list[Affine]:
    """Return the forms and the arguments of their quotients, each once."""
    parts: dict[Affine, None] = {}
    for form in forms:
        parts.update(dict.fromkeys(_parts(form)))
    return list(parts)


def _parts(form: Affine) -> Iterator[Affine]:
    yield form
    for atom, _ in form.terms:
        if not isinstance(atom, Index):
            yield from _parts(atom.argument)


def _live_terms(form: Affine, live: Iterators) -> list[tuple[Index, int]]:
    """Return the terms of a form that are indices of the domain, with their coefficients."""
    terms = []
    for atom, coefficient in form.terms:
        if isinstance(atom, Index) and atom in live:
            terms.append((atom, coefficient))
    return terms


def _skews(part: Affine, live: Iterators, used: set[Index]) -> list[Change]:
    """Put `t = a·h + b·r + c` in the place of one of its indices: the subscript becomes bare."""
    terms = _live_terms(part, live)
    if len(terms) != len(part.terms) or part.as_index() is not None:
        return []
    skews = _merges(part, live, used)
    name = fresh_index("t", used)
    # An index with another coefficient would leave a condition of divisibility.
    smallest = min((abs(coefficient) for _, coefficient in terms), default=0)
    for index, coefficient in terms:
        if abs(coefficient) == smallest:
            rest = part - affine(index) * coefficient
            difference = affine(name) - rest if coefficient > 0 else rest - affine(name)
            skews.append(Change({index: [name]}, {name: part}, {index: difference // smallest}))
    return skews


def _skews_inside(form: Affine, live: Iterators, used: set[Index]) -> list[Change]:
    """Return skews of what the traversal adds to a subscript that has reduced indices as well."""
    terms = _live_terms(form, live)
    part = Affine.from_normal_form(tuple(terms), 0)
    if len(terms) == len(form.terms) or len(terms) < 2 or _merges(part, live, used):
        return []
    return _skews(part, live, used)


def _reflections(parts: list[Affine], live: Iterators, used: set[Index]) -> list[list[Change]]:
    """Read a window forwards that is read backwards, as by `h - r`."""
    reflections: dict[Index, list[Change]] = {}
    for part in parts:
        if len(part.terms) == 1:
            continue
        for index, coefficient in _live_terms(part, live):
            if coefficient < 0:
                name = fresh_index(index.name, used)
                ends = live[index].low + live[index].high - 1
                forward, backward = {name: ends - affine(index)}, {index: ends - affine(name)}
                reflections[index] = [Change({index: [name]}, forward, backward)]
    return list(reflections.values())


def _quotients(subscript: Affine, live: Iterators, where: Any, used: set[Index]) -> list[Change]:
    """Put `u = (h + e)//d` in the place of `h` where a condition fixes `(h + e) % d`."""
    atom = subscript.as_atom() or (subscript - subscript.const).as_atom()
    if not isinstance(atom, FloorDiv) or not atom.argument.is_affine():
        return []
    if not atom.argument.indices <= live.keys():
        return []
    remainder = known_remainder(atom.argument, atom.divisor, where)
    if remainder is None:
        return []
    name = fresh_index("t", used)
    whole = (affine(name) - subscript.const) * atom.divisor + remainder
    changes = []
    for index, coefficient in _live_terms(atom.argument, live):
        if abs(coefficient) == 1:
            rest = atom.argument - affine(index) * coefficient
            backward = {index: (whole - rest) * coefficient}
            changes.append(Change({index: [name]}, {name: subscript}, backward))
    return changes


def _merges(part: Affine, live: Iterators, used: set[Index]) -> list[Change]:
    """Make one index of `k·x + y` with `y` in `[0,k)` and stride 1."""
    terms = sorted(_index_terms(part), key=lambda term: term[1])
    if len(terms) < 2 or any(live[index].low != 0 for index, _ in terms):
        return []
    stride = 1
    for index, coefficient in terms:
        if coefficient != stride:
            return []
        stride *= live[index].extent
    name = fresh_index("t", used)
    backward: Forms = {}
    replaced: dict[Index, list[Index]] = {}
    for index, coefficient in terms:
        backward[index] = affine(name) // coefficient % live[index].extent
        replaced[index] = []
    outermost, coefficient = terms[-1]
    backward[outermost] = affine(name) // coefficient
    replaced[outermost] = [name]
    return [Change(replaced, {name: part - part.const}, backward)]


def _index_terms(form: Affine) -> Iterator[tuple[Index, int]]:
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            yield atom, coefficient


def _divisors(parts: list[Affine], live: Iterators) -> Iterator[tuple[Index, int]]:
    """Yield indices with divisors: of quotients that they occur in, and the strides beside them."""
    for part in parts:
        for atom, _ in part.terms:
            if isinstance(atom, (FloorDiv, Modulo)):
                for index in atom.argument.indices:
                    if index in live and 1 < atom.divisor < live[index].extent:
                        yield index, atom.divisor
        strides = sorted({abs(c) for _, c in _index_terms(part) if abs(c) > 1})
        for index, coefficient in _live_terms(part, live):
            for stride in strides:
                if stride < live[index].extent and coefficient % stride:
                    yield index, stride


def _windows(parts: list[Affine], live: Iterators) -> Iterator[tuple[Index, int]]:
    """Yield the widths of smaller windows of which a window `h + r` is made.

    There are some for each index of a reduction that slides along another.
    """
    sliding: dict[Index, None] = {}
    for part in parts:
        if len(part.terms) > 1:
            sliding.update(dict.fromkeys(index for index, _ in _live_terms(part, live)))
    for index in sliding:
        extent = live[index].extent
        if 3 < extent <= MAX_WINDOW:
            for width in range((extent + 1) // 2, 1, -1):
                yield index, width


def _split(index: Index, divisor: int, used: set[Index]) -> Change:
    high = fresh_index(index.name + "1", used)
    low = fresh_index(index.name + "2", used | {high})
    forward = {high: affine(index) // divisor, low: affine(index) % divisor}
    return Change({index: [high, low]}, forward, {index: affine(high) * divisor + low})


def _reorders(iterators: tuple[LoopIndex, ...], contexts: list[ReadContext]) -> Iterator[Map]:
    """Yield the orders in which a read's indices stand as its axes do, others after or before."""
    original = indices_of(iterators)
    for context in contexts:
        order: list[Index] = []
        for subscript in context.access.subscripts:
            index = subscript.as_index()
            if index in original and index not in order:
                order.append(index)
        others = [index for index in original if index not in order]
        for candidate in (order + others, others + order):
            if order and candidate != original:
                identity = {index: affine(index) for index in candidate}
                yield identity, identity


def _completed(live: Iterators, changes: list[Change], used: set[Index]) -> Map:
    """Return changes as a map: the identity on all other indices, in the order of the iterators."""
    replaced: dict[Index, list[Index]] = {}
    forward: Forms = {}
    backward: Forms = {}
    for change in changes:
        if len(changes) > 1:
            change = _with_fresh_names(change, used | set(forward))
        replaced.update(change.replaced)
        forward.update(change.forward)
        backward.update(change.backward)
    whole: Forms = {}
    for index in live:
        for new in replaced.get(index, [index]):
            whole[new] = forward.get(new, affine(new))
    return whole, {index: backward.get(index, affine(index)) for index in live}


def _with_fresh_names(change: Change, used: set[Index]) -> Change:
    names: dict[Index, Index] = {}
    forms: Forms = {}
    for index in change.forward:
        names[index] = fresh_index(index.name, used)
        if names[index] != index:
            forms[index] = affine(names[index])
    replaced = {old: [names[new] for new in news] for old, news in change.replaced.items()}
    forward = {names[new]: form for new, form in change.forward.items()}
    backward = {old: form.substitute(forms) for old, form in change.backward.items()}
    return Change(replaced, forward, backward)
