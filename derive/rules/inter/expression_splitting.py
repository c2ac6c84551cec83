"""Expression splitting: a domain is cut in two, or into its phases, and each part is an expression of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd
from typing import Any

from derive.rewriting.body_queries import memoized_per_scope, reads
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

MOST_CUTS = 2  # proposed for one index; where nothing suggests one, the middle
MOST_PHASES = 64  # proposed for a scope


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Phases of the strides that occur; cuts where a read enters or leaves its box, where a condition changes, and in the middle."""
    yield from _phases(scope)
    for it in scope.iterators:
        if it.extent > 1:
            cuts = list(dict.fromkeys(v for v in _cuts(scope, it) if it.low < v < it.high))[
                :MOST_CUTS
            ]
            for at in sorted(cuts) or [it.low + it.extent // 2]:
                yield {"index": it.index.name, "at": at}


def _cuts(scope: Scope, it: LoopIndex) -> Iterator[int]:
    for read in reads(scope):
        ranges = {i: r for i, r in read.ranges.items() if i != it.index}
        for subscript, (low, high) in zip(read.access.subscripts, unpadded(read.access.base).box):
            if isinstance(read.access.base, Padded):
                yield from _crossings(subscript - low, it, ranges)
                yield from _crossings(subscript - high, it, ranges)
    for condition in scope.where:
        yield from _crossings(
            condition.form, it, {o.index: (o.low, o.high) for o in scope.iterators if o is not it}
        )


def _crossings(form: Affine, it: LoopIndex, ranges: Any) -> Iterator[int]:
    """Values of the index from which `form >= 0` may hold, and from which it must."""
    coefficient = form.coefficient(it.index)
    rest = form - affine(it.index) * coefficient
    if coefficient == 0 or it.index in rest.indices or not rest.indices <= set(ranges):
        return
    for bound in rest.interval(ranges):
        yield -(bound // coefficient) if coefficient > 0 else bound // -coefficient + 1


def _phases(scope: Scope) -> Iterator[dict[str, Any]]:
    """The numbers of phases after which a quotient or a condition repeats: of each index, and of all together."""
    found = {
        it.index.name: sorted({n for n in _periods(scope, it.index) if n < it.extent})
        for it in scope.iterators
    }
    several = {index: counts[0] for index, counts in found.items() if counts}
    if len(several) > 1 and _count(several.values()) <= MOST_PHASES:
        yield {"index": list(several), "phases": list(several.values())}
    for index, counts in found.items():
        yield from ({"index": index, "phases": count} for count in counts if count <= MOST_PHASES)


def _count(phases: Any) -> int:
    total = 1
    for count in phases:
        total *= count
    return total


def _periods(scope: Scope, index: Index) -> Iterator[int]:
    """The divisors of quotients and remainders that the index occurs in, as far as its coefficient does not cancel them."""
    forms = [s for read in reads(scope) for s in read.access.subscripts]
    forms += [
        c.form
        for where in (scope.where, *(node.where for node in reductions(scope.body)))
        for c in where
    ]
    for atom in (atom for form in forms for atom in _quotients(form)):
        period = atom.divisor // gcd(atom.divisor, atom.argument.coefficient(index))
        if period > 1:
            yield period


def _quotients(form: Affine) -> Iterator[Any]:
    for atom, _ in form.terms:
        if not isinstance(atom, Index):
            yield atom
            yield from _quotients(atom.argument)


def split(scope: Scope, index: Any, at: int | None = None, phases: Any = None) -> Scope:
    """Cut the range of an index before the value `at`, or into its residue classes modulo `phases`; the whole is the sum of the parts.

    `index` and `phases` may be lists, for the phases of several indices at once.
    """
    if (at is None) == (phases is None):
        raise RuleError("expression splitting takes either at= or phases=")
    if phases is None:
        return _split_at(scope, _iterator(scope, index), at)
    names, counts = ([index], [phases]) if isinstance(index, str) else (list(index), list(phases))
    if (
        len(names) != len(counts)
        or len(set(names)) != len(names)
        or any(not isinstance(n, int) or n < 2 for n in counts)
    ):
        raise RuleError("give a number of phases, 2 or more, for each of the indices")
    return _split_phases(
        scope, {_iterator(scope, name): count for name, count in zip(names, counts)}
    )


def _iterator(scope: Scope, index: str) -> LoopIndex:
    found = next((it for it in scope.iterators if it.index.name == index), None)
    if found is None:
        raise RuleError(
            f"there is no index {index} in the traversal; it has {', '.join(map(str, scope.indices))}"
        )
    return found


def _split_at(scope: Scope, it: LoopIndex, at: Any) -> Scope:
    if not it.low < at < it.high:
        raise RuleError(
            f"{it.index} ranges over [{it.low},{it.high}): a cut at {at} leaves one part empty"
        )
    subscripts = tuple(affine(i) for i in scope.indices)
    parts = []
    for low, high in ((it.low, at), (at, it.high)):
        part = Scope(
            [LoopIndex(o.index, low, high) if o is it else o for o in scope.iterators],
            scope.where,
            scope.body,
        )
        amounts = [(low - it.low, it.high - high) if o is it else (0, 0) for o in scope.iterators]
        parts.append(Access.of(Padded(simplify_scope(part), amounts), subscripts))
    return Scope(scope.iterators, scope.where, parts[0] + parts[1])


def _split_phases(scope: Scope, counts: Mapping[LoopIndex, int]) -> Scope:
    if any(it.extent < 1 for it in scope.iterators):
        raise RuleError("a scope without points has no phases")
    parts = [
        _phase(scope, dict(zip(counts, zip(counts.values(), rests))))
        for rests in product(*(range(n) for n in counts.values()))
    ]
    return Scope(scope.iterators, scope.where, sum(part for part in parts if part is not None))


def _phase(scope: Scope, chosen: Mapping[LoopIndex, Sequence[int]]) -> Reduce | None:
    """The scope at the points with the given remainders, read under the condition that it is their phase; None if there are none."""
    inner = {
        it: LoopIndex(it.index, -((rest - it.low) // count), (it.high - 1 - rest) // count + 1)
        for it, (count, rest) in chosen.items()
    }
    if any(it.extent < 1 for it in inner.values()):
        return None
    forms = {it.index: affine(it.index) * count + rest for it, (count, rest) in chosen.items()}
    where = [c.substitute(forms) for c in scope.where]
    part = simplify_scope(
        Scope([inner.get(it, it) for it in scope.iterators], where, substitute(scope.body, forms))
    )
    read = [
        affine(it.index) // chosen[it][0] if it in chosen else affine(it.index)
        for it in scope.iterators
    ]
    guard = [
        Constraint(affine(it.index) % count - rest, "==") for it, (count, rest) in chosen.items()
    ]
    return Reduce("Sum", (), guard, Access.of(part, tuple(read)))


RULE = Rule(
    name="expression splitting",
    before="L[X] f",
    after="L[X] ({L[X0] f}.pad + {L[X1] f}.pad);  L[x] Σ[p] [x%k == p]·{L[y] f(k·y + p)}[x//k]",
    requires="X0 and X1, or the phases, cover X and are disjoint",
    find=find,
    rewrite=split,
    example=Example("O[h] += A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
