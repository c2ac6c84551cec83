"""Variable substitution: the points of a traversal or of a reduction are named anew by a bijective map.

The maps are found from the strides, divisors and axis orders that occur; a user may give any isl map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import islpy as isl

from derive.moves import Rule
from derive.rules.bodies import Read, around, reads, reduction_at, remembered, replace_reduction
from derive.rules.forms import form, text
from einalg.access import Access
from einalg.affine import Affine, FloorDiv, Index, Modulo, affine
from einalg.errors import RuleError
from einalg.facts import known_remainder, needed_conditions, simplify, simplify_scope
from einalg.polyhedra import Space, affine_of, bounded
from einalg.scope import Constraint, Reduce, Scope
from einalg.scope import Iterator as Range
from einalg.traverse import fresh_index, reductions, substitute

TRAVERSAL = "traversal"
WIDEST = 16  # window that is cut into smaller ones
Forms = dict[Index, Affine]
Map = tuple[Forms, Forms]


@remembered
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Skews, splits, merges and shifts of the traversal and of every reduction, and reorders of the traversal."""
    found = list(reads(scope))
    taken = _names(scope)
    for maps, target in _targets(scope, found, taken):
        seen: set[Any] = set()
        for forward, backward in maps:
            texts = _texts(forward)
            what = tuple(texts.items()) if target == TRAVERSAL else tuple(sorted(texts.values()))
            if what not in seen:
                seen.add(what)
                yield {"target": target, "forward": texts, "backward": _texts(backward)}


def _targets(scope: Scope, found: list[Read], taken: set[Index]) -> Iterator[tuple[Iterator[Map], Any]]:
    yield _maps(scope.iterators, scope.where, found, taken, ordered=True), TRAVERSAL
    for position, node in enumerate(reductions(scope.body)):
        if node.iterators:
            inside = [r for r in found if node in r.around]
            yield _maps(node.iterators, (), inside, taken, ordered=False), position


def _names(scope: Scope) -> set[Index]:
    return {*scope.indices, *(i for node in reductions(scope.body) for i in node.indices)}


def _texts(forms: Forms) -> dict[str, str]:
    return {i.name: text(f) for i, f in forms.items()}


def _maps(iterators: tuple[Range, ...], where: Any, found: list[Read], taken: set[Index], ordered: bool) -> Iterator[Map]:
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
        chosen += [*together, *([c] for changes in groups for c in changes if not any(c in other for other in together))]
    for changes in chosen:
        yield _completed(own, changes, taken)
    if ordered:
        yield from _reorders(iterators, found)


def _splits(forms: list[Affine], own: Mapping[Index, Range], windows: bool, taken: set[Index]) -> Iterator[list[list[Change]]]:
    """For every divisor, the indices that it may split, those of one subscript together."""
    parts = list(dict.fromkeys(part for f in forms for part in _parts(f)))
    found: dict[int, list[Index]] = {}
    for index, divisor in (*_divisors(parts, own), *(_windows(parts, own) if windows else ())):
        found.setdefault(divisor, []).append(index)
    for divisor, indices in found.items():
        yield [[_split(i, divisor, taken) for i in dict.fromkeys(indices) if i in f.indices] for f in forms if f.as_index() is None]


class Change(NamedTuple):
    """Old indices with the new ones in their place, the forms of the new, and those of the old."""

    gone: dict[Index, list[Index]]
    forward: Forms
    backward: Forms


def _beside(groups: list[list[Change]], own: Mapping[Index, Range]) -> Iterator[list[Change]]:
    """One change of each group that speaks of other indices: those of the first index of each, and those of the last."""
    order = {index: k for k, index in enumerate(own)}
    for choose in (max, min):
        chosen: list[Change] = []
        spoken: set[Index] = set()
        for changes in groups:
            change = choose((c for c in changes if len(c.gone) == 1), key=lambda c: order[next(iter(c.gone))], default=None)
            indices = set[Index]().union(*(f.indices for f in change.forward.values())) if change else set[Index]()
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


def _replaced(own: Mapping[Index, Range], gone: Mapping[Index, list[Index]]) -> list[Index]:
    """The indices in order, with some replaced by new ones."""
    return [new for index in own for new in gone.get(index, [index])]


def _skews(part: Affine, own: Mapping[Index, Range], taken: set[Index]) -> list[Change]:
    """`t = a·h + b·r + c` takes the place of one of its indices, so that the subscript becomes bare."""
    terms = [(a, c) for a, c in part.terms if isinstance(a, Index) and a in own]
    if len(terms) != len(part.terms) or part.as_index() is not None:
        return []
    found = _merge(part, own, taken)
    name = fresh_index("t", taken)
    smallest = min((abs(c) for _, c in terms), default=0)  # another would leave a condition of divisibility
    for index, coefficient in (t for t in terms if abs(t[1]) == smallest):
        rest = part - affine(index) * coefficient
        back = (affine(name) - rest) if coefficient > 0 else (rest - affine(name))
        found.append(Change({index: [name]}, {name: part}, {index: back // abs(coefficient)}))
    return found


def _skews_inside(form: Affine, own: Mapping[Index, Range], taken: set[Index]) -> list[Change]:
    """Skews of what the traversal contributes to a subscript in which reduced indices stand as well."""
    terms = tuple((a, c) for a, c in form.terms if isinstance(a, Index) and a in own)
    part = Affine._make(terms, 0)
    if len(terms) == len(form.terms) or len(terms) < 2 or _merge(part, own, taken):
        return []
    return _skews(part, own, taken)


def _reflections(parts: list[Affine], own: Mapping[Index, Range], taken: set[Index]) -> list[list[Change]]:
    """A window that is read backwards, `h - r`, is read forwards."""
    found: dict[Index, Change] = {}
    for index, coefficient in (term for part in parts if len(part.terms) > 1 for term in part.terms):
        if coefficient < 0 and isinstance(index, Index) and index in own:
            name = fresh_index(index.name, taken)
            ends = own[index].low + own[index].high - 1
            found[index] = Change({index: [name]}, {name: ends - affine(index)}, {index: ends - affine(name)})
    return [[change] for change in found.values()]


def _quotients(subscript: Affine, own: Mapping[Index, Range], where: Any, taken: set[Index]) -> list[Change]:
    """`u = (h + e)//d` takes the place of `h` where a condition fixes `(h + e) % d`."""
    atom = subscript.as_atom() or (subscript - subscript.const).as_atom()
    if not isinstance(atom, FloorDiv) or not atom.argument.is_affine() or not atom.argument.indices <= set(own):
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
            found.append(Change({index: [name]}, {name: subscript}, {index: (whole - rest) * coefficient}))
    return found


def _merge(part: Affine, own: Mapping[Index, Range], taken: set[Index]) -> list[Change]:
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


def _divisors(parts: list[Affine], own: Mapping[Index, Range]) -> Iterator[tuple[Index, int]]:
    """Index and number: the strides beside which it stands, and the divisors of quotients that it occurs in."""
    for part in parts:
        for atom, _ in part.terms:
            if isinstance(atom, (FloorDiv, Modulo)):
                yield from ((i, atom.divisor) for i in atom.argument.indices if i in own and 1 < atom.divisor < own[i].extent)
        strides = {abs(c) for a, c in part.terms if isinstance(a, Index) and abs(c) > 1}
        for index in (a for a, _ in part.terms if isinstance(a, Index) and a in own):
            yield from ((index, stride) for stride in sorted(strides) if stride < own[index].extent and part.coefficient(index) % stride)


def _windows(parts: list[Affine], own: Mapping[Index, Range]) -> Iterator[tuple[Index, int]]:
    """Widths of smaller windows of which a window `h + r` is made: for each index of a reduction that slides along another."""
    sliding = dict.fromkeys(a for part in parts if len(part.terms) > 1 for a, _ in part.terms if isinstance(a, Index) and a in own)
    for index in sliding:
        widest = (own[index].extent + 1) // 2
        if 3 < own[index].extent <= WIDEST:
            yield from ((index, width) for width in range(widest, 1, -1))


def _split(index: Index, divisor: int, taken: set[Index]) -> Change:
    high = fresh_index(index.name + "1", taken)
    low = fresh_index(index.name + "2", taken | {high})
    forward = {high: affine(index) // divisor, low: affine(index) % divisor}
    return Change({index: [high, low]}, forward, {index: affine(high) * divisor + low})


def _reorders(iterators: tuple[Range, ...], found: list[Read]) -> Iterator[Map]:
    """The orders in which a read's own axes stand in the order of what it reads, the other indices after or before."""
    original = tuple(it.index for it in iterators)
    for read in found:
        bare = [s.as_index() for s in read.access.subscripts]
        order = [i for i in dict.fromkeys(bare) if i in original]
        others = [i for i in original if i not in order]
        for candidate in (tuple(order + others), tuple(others + order)):
            if candidate != original and len(order) > 0:
                yield {i: affine(i) for i in candidate}, {i: affine(i) for i in candidate}


def _completed(own: Mapping[Index, Range], changes: list[Change], taken: set[Index]) -> Map:
    """The identity on every index that no change speaks of, in the order of the iterators."""
    gone: dict[Index, list[Index]] = {}
    forward: Forms = {}
    backward: Forms = {}
    for change in changes:
        names = {i: fresh_index(i.name, taken | set(forward)) for i in change.forward} if len(changes) > 1 else {i: i for i in change.forward}
        renaming = {i: affine(j) for i, j in names.items() if i != j}
        gone.update({i: [names[j] for j in new] for i, new in change.gone.items()})
        forward.update({names[i]: f for i, f in change.forward.items()})
        backward.update({i: f.substitute(renaming) for i, f in change.backward.items()})
    order = _replaced(own, gone)
    whole = {i: forward.get(i, affine(i)) for i in order}
    return whole, {i: backward.get(i, affine(i)) for i in own}


def substituted(scope: Scope, target: Any, forward: Mapping[str, str], backward: Mapping[str, str]) -> Scope:
    """Rename the points of the traversal, or of a reduction, by `forward` (new index: form in the old) and its inverse."""
    ahead = {Index(name): form(text) for name, text in forward.items()}
    back = {Index(name): form(text) for name, text in backward.items()}
    if target == TRAVERSAL:
        return _substitute_traversal(scope, ahead, back)
    node = reduction_at(scope, target)
    outer, _ = around(scope, node)
    _check_names(ahead, {i for it in outer for i in [it.index]})
    iterators, where, inner = _renamed(node.iterators, node.where, ahead, back, outer)
    body = substitute(node.body, inner)
    return simplify_scope(replace_reduction(scope, node, Reduce(node.op, iterators, where, body)))


def _substitute_traversal(scope: Scope, ahead: Forms, back: Forms) -> Scope:
    iterators, where, inner = _renamed(scope.iterators, scope.where, ahead, back, ())
    moved = simplify_scope(Scope(iterators, where, substitute(scope.body, inner)))
    read = Access.of(moved, tuple(ahead[it.index] for it in iterators))
    return simplify_scope(Scope(scope.iterators, scope.where, read))


def _check_names(ahead: Forms, outer: set[Index]) -> None:
    clash = sorted(i.name for i in ahead if i in outer)
    if clash:
        raise RuleError(f"index {clash[0]} is already bound around the reduction\n  give the new index another name")


def _renamed(
    iterators: tuple[Range, ...], where: Any, ahead: Forms, back: Forms, outer: tuple[Range, ...]
) -> tuple[list[Range], tuple[Constraint, ...], Forms]:
    """Ranges and conditions of the image of a domain under a bijective map, and the substitution for its body."""
    own = {it.index for it in iterators}
    if set(back) != own or any(f.indices - own for f in ahead.values()) or any(f.indices - set(ahead) for f in back.values()):
        raise RuleError(
            f"the map must go from the indices {', '.join(str(it.index) for it in iterators)} to new ones and back\n"
            "  give forward={new: form in the old indices} and backward={old: form in the new indices}"
        )
    _check_bijective(iterators, where, ahead, back, outer)
    box = _image_box(iterators, ahead)
    ranges = {it.index: (it.low, it.high) for it in (*outer, *box)}
    conditions = [c.substitute(back) for c in where]
    for it in iterators:
        conditions += [Constraint(back[it.index] - it.low, ">="), Constraint(-back[it.index] + (it.high - 1), ">=")]
    conditions += [Constraint(f.substitute(back) - i, "==") for i, f in ahead.items()]
    return box, needed_conditions(conditions, ranges), back


def _image_box(iterators: tuple[Range, ...], ahead: Forms) -> list[Range]:
    ranges = {it.index: (it.low, it.high) for it in iterators}
    if any(it.extent <= 0 for it in iterators):
        return [Range(i, 0, 0) for i in ahead]
    bounds = {i: simplify(f, ranges).interval(ranges) for i, f in ahead.items()}
    return [Range(i, low, high + 1) for i, (low, high) in bounds.items()]


def _check_bijective(iterators: Any, where: Any, ahead: Forms, back: Forms, outer: Any) -> None:
    """Going there and back must be the identity at every point of the domain."""
    ranges = {it.index: (it.low, it.high) for it in iterators}
    open_forms = []
    for it in iterators:
        returned = simplify(back[it.index].substitute(ahead), ranges, where)
        if returned.as_index() != it.index:
            open_forms.append(returned - it.index)
    if not open_forms:
        return
    space = Space([it.index for it in (*outer, *iterators)])
    points = space.set((*outer, *iterators), where)
    for difference in open_forms:
        if not points.is_subset(space.where(Constraint(difference, "=="))):
            raise RuleError(f"the map is not a bijection with that inverse: it returns to a point {difference} away")


def from_isl(scope: Scope, mapping: Any, target: Any = TRAVERSAL) -> dict[str, Any]:
    """The arguments of a move for any isl map (text or `islpy.Map`) on the traversal, or on a reduction, of a scope.

    The input dimensions are the indices in order; output dimensions without a name get fresh ones. Raises `RuleError`
    where the map is no bijection on the domain or its inverse is not one quasi-affine form a dimension.
    """
    iterators = scope.iterators if target == TRAVERSAL else reduction_at(scope, target).iterators
    where = scope.where if target == TRAVERSAL else ()
    try:
        with bounded():
            given = isl.Map(mapping) if isinstance(mapping, str) else mapping
            return {"target": target, **_from_isl(scope, given, iterators, where)}
    except isl.Error as error:
        raise RuleError(f"isl cannot read the map: {error}\n  write it as '{{ [h, w] -> [w, h] }}'") from None


def _from_isl(scope: Scope, given: isl.Map, iterators: tuple[Range, ...], where: Any) -> dict[str, Any]:
    space = Space([it.index for it in iterators])
    if given.dim(isl.dim_type.in_) != len(iterators):
        raise RuleError(
            f"the map takes {given.dim(isl.dim_type.in_)} indices, but there are {len(iterators)}: {', '.join(str(it.index) for it in iterators)}"
        )
    points = space.set(iterators, where)
    on_domain = given.intersect_domain(points)
    if not on_domain.is_bijective() or not points.is_subset(on_domain.domain()):
        raise RuleError("the map is not a bijection on the domain, so it cannot rename its points")
    taken = _names(scope)
    outputs: list[Index] = []
    for k in range(given.dim(isl.dim_type.out)):
        name = given.get_dim_name(isl.dim_type.out, k)
        outputs.append(fresh_index(name or "t", {*outputs, *(() if name else taken)}))
    forward = _forms(on_domain, [it.index for it in iterators], len(outputs))
    backward = _forms(on_domain.reverse(), outputs, len(iterators))
    return {
        "forward": {i.name: str(f) for i, f in zip(outputs, forward)},
        "backward": {it.index.name: str(f) for it, f in zip(iterators, backward)},
    }


def _forms(relation: isl.Map, indices: list[Index], count: int) -> list[Affine]:
    """Each output dimension of a single-valued map as one form over the input dimensions."""
    function = isl.PwMultiAff.from_map(relation)
    forms = []
    for k in range(count):
        pieces = function.get_pw_aff(k).get_pieces()
        if len({str(aff) for _, aff in pieces}) != 1:
            raise RuleError(
                f"dimension {k} of the map, or of its inverse, needs {len(pieces)} cases\n  use a map that is one quasi-affine form a dimension"
            )
        forms.append(affine_of(pieces[0][1], indices))
    return forms


RULE = Rule(
    name="variable substitution",
    before="L[x∈X] f(x)",
    after="L[x∈X] {L[y∈Φ(X)] f(Φ⁻¹(y))}[Φ(x)]",
    requires="Φ bijective on X",
    find=find,
    rewrite=substituted,
)
