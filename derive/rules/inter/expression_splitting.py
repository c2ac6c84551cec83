"""Expression splitting: the parts of a domain, cut in two or into phases, become expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

from derive.rewriting.body_queries import (
    index_ranges,
    is_empty,
    iterator_named,
    memoized_per_scope,
    reads,
    substitute_conditions,
)
from derive.rewriting.moves import Example, Rule
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import reductions

MAX_CUTS = 2  # proposed for one index; where nothing suggests one, the middle
MAX_PHASES = 64  # proposed for a scope


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose phases of the strides that occur, and cuts.

    There are cuts where a read enters or leaves its box, where a condition changes, and in the
    middle.
    """
    if is_empty(scope.iterators):
        return
    yield from _phases(scope)
    for it in scope.iterators:
        if it.extent > 1:
            cuts = dict.fromkeys(at for at in _cuts(scope, it) if it.low < at < it.high)
            middle = it.low + it.extent // 2
            for at in sorted(list(cuts)[:MAX_CUTS]) or [middle]:
                yield {"index": it.index.name, "at": at}


def _cuts(scope: Scope, it: LoopIndex) -> Iterator[int]:
    for read in reads(scope):
        if not isinstance(read.access.base, Padded):
            continue
        ranges = read.ranges
        ranges.pop(it.index, None)
        for subscript, (low, high) in zip(read.access.subscripts, unpadded(read.access.base).box):
            yield from _crossings(subscript - low, it, ranges)
            yield from _crossings(subscript - high, it, ranges)
    ranges = index_ranges(other for other in scope.iterators if other is not it)
    for condition in scope.where:
        yield from _crossings(condition.form, it, ranges)


def _crossings(form: Affine, it: LoopIndex, ranges: Any) -> Iterator[int]:
    """Yield the values of an index from which `form >= 0` may hold, and from which it must."""
    coefficient = form.coefficient(it.index)
    rest = form - affine(it.index) * coefficient
    if coefficient == 0 or it.index in rest.indices or not rest.indices <= set(ranges):
        return
    for bound in rest.interval(ranges):
        if coefficient > 0:
            yield -(bound // coefficient)
        else:
            yield bound // -coefficient + 1


def _phases(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose the numbers of phases after which a quotient or a condition repeats.

    First come those of all indices together, then of each index.
    """
    counts: dict[str, list[int]] = {}
    for it in scope.iterators:
        periods = {period for period in _periods(scope, it.index) if period < it.extent}
        if periods:
            counts[it.index.name] = sorted(periods)
    least = {index: periods[0] for index, periods in counts.items()}
    if len(least) > 1 and prod(least.values()) <= MAX_PHASES:
        yield {"index": list(least), "phases": list(least.values())}
    for index, periods in counts.items():
        for count in periods:
            if count <= MAX_PHASES:
                yield {"index": index, "phases": count}


def _periods(scope: Scope, index: Index) -> Iterator[int]:
    """Yield the divisors of quotients and remainders that an index occurs in.

    What its coefficient has in common with them is cancelled: 2 for h in `(2*h + r)//4`.
    """
    for form in _forms(scope):
        for atom in _quotients(form):
            period = atom.divisor // gcd(atom.divisor, atom.argument.coefficient(index))
            if period > 1:
                yield period


def _forms(scope: Scope) -> Iterator[Affine]:
    """Yield every subscript and condition of a scope."""
    for read in reads(scope):
        subscripts: tuple[Affine, ...] = read.access.subscripts
        yield from subscripts
    conditions = list(scope.where)
    for node in reductions(scope.body):
        conditions += node.where
    for condition in conditions:
        yield condition.form


def _quotients(form: Affine) -> Iterator[Any]:
    for atom, _ in form.terms:
        if not isinstance(atom, Index):
            yield atom
            yield from _quotients(atom.argument)


def split(scope: Scope, index: Any, at: int | None = None, phases: Any = None) -> Scope:
    """Cut the range of an index before the value `at`, or into its residue classes.

    These are modulo `phases`. The whole is the sum of the parts. `index` and `phases` may be lists,
    for the phases of several indices at once.
    """
    if (at is None) == (phases is None):
        raise RuleError("expression splitting takes either at= or phases=")
    if phases is None:
        return _split_at(scope, _iterator(scope, index), at)
    if isinstance(index, str):
        names, counts = [index], [phases]
    else:
        names, counts = list(index), list(phases)
    _check_phases(names, counts)
    iterators = [_iterator(scope, name) for name in names]
    return _split_phases(scope, dict(zip(iterators, counts)))


def _check_phases(names: list[str], counts: list[Any]) -> None:
    valid = len(names) == len(counts) == len(set(names))
    for count in counts:
        valid = valid and isinstance(count, int) and count >= 2
    if not valid:
        raise RuleError("give a number of phases, 2 or more, for each of the indices")


def _iterator(scope: Scope, name: str) -> LoopIndex:
    it = iterator_named(scope.iterators, name)
    if it is None:
        known = ", ".join(map(str, scope.indices))
        raise RuleError(f"there is no index {name} in the traversal; it has {known}")
    return it


def _split_at(scope: Scope, it: LoopIndex, at: Any) -> Scope:
    if not it.low < at < it.high:
        raise RuleError(
            f"{it.index} ranges over [{it.low},{it.high}): a cut at {at} leaves one part empty"
        )
    first, second = _part(scope, it, it.low, at), _part(scope, it, at, it.high)
    return Scope(scope.iterators, scope.where, first + second)


def _part(scope: Scope, it: LoopIndex, low: int, high: int) -> Access:
    """Return the read of a scope with a smaller range of one index, padded to the whole range."""
    iterators: list[LoopIndex] = []
    amounts: list[tuple[int, int]] = []
    for other in scope.iterators:
        if other is it:
            iterators.append(LoopIndex(it.index, low, high))
            amounts.append((low - it.low, it.high - high))
        else:
            iterators.append(other)
            amounts.append((0, 0))
    part = simplify_scope(Scope(iterators, scope.where, scope.body))
    return Access.of(Padded(part, amounts), tuple(map(affine, scope.indices)))


class _Phase(NamedTuple):
    """A residue class of an index: the values `count * y + rest`."""

    count: int
    rest: int


def _split_phases(scope: Scope, counts: Mapping[LoopIndex, int]) -> Scope:
    if is_empty(scope.iterators):
        raise RuleError("a scope without points has no phases")
    total: Any = 0
    for rests in product(*map(range, counts.values())):
        phases = map(_Phase, counts.values(), rests)
        part = _phase_sum(scope, dict(zip(counts, phases)))
        if part is not None:
            total = total + part
    return Scope(scope.iterators, scope.where, total)


def _phase_sum(scope: Scope, phases: Mapping[LoopIndex, _Phase]) -> Reduce | None:
    """Return the part of a scope at the points of some phases, read under their condition.

    None where there are no such points.
    """
    forms: dict[Index, Affine] = {}
    guard: list[Constraint] = []
    for it, (count, rest) in phases.items():
        forms[it.index] = affine(it.index) * count + rest
        guard.append(Constraint(affine(it.index) % count - rest, "=="))
    iterators: list[LoopIndex] = []
    subscripts: list[Affine] = []
    for it in scope.iterators:
        inside, subscript = it, affine(it.index)
        if it in phases:
            inside = _phase_iterator(it, phases[it])
            subscript = subscript // phases[it].count
            if inside.extent < 1:
                return None
        iterators.append(inside)
        subscripts.append(subscript)
    where = substitute_conditions(scope.where, forms)
    part = simplify_scope(Scope(iterators, where, substitute(scope.body, forms)))
    return Reduce("Sum", (), guard, Access.of(part, tuple(subscripts)))


def _phase_iterator(it: LoopIndex, phase: _Phase) -> LoopIndex:
    count, rest = phase
    return LoopIndex(it.index, -((rest - it.low) // count), (it.high - 1 - rest) // count + 1)


RULE = Rule(
    name="expression splitting",
    before="L[X] f",
    after="L[X] ({L[X0] f}.pad + {L[X1] f}.pad);  L[x] Σ[p] [x%k == p]·{L[y] f(k·y + p)}[x//k]",
    requires="X0 and X1, or the phases, cover X and are disjoint",
    find=find,
    rewrite=split,
    example=Example("O[h] += A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
