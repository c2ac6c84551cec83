"""Questions that several rules ask of a body: reductions by position, reads in context, support."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import chain
from typing import Any, NamedTuple

import islpy as isl
import sympy

from einalg.errors import RuleError
from einalg.language.analysis.simplify import with_padding
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, bounded, domain_set
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce, rebuild
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, map_accesses, reductions
from einalg.options import shown

# Functions of a number that take far more than an addition.
EXPENSIVE = (sympy.exp, sympy.log, sympy.tanh, sympy.erf, sympy.sin, sympy.cos)
MAX_MEMOIZED_SCOPES = 20_000
MAX_MEMOIZED_SETS = 8192  # of isl; the states of a search ask the same of them many times

Ranges = dict[Index, tuple[int, int]]


def indices_of(iterators: Iterable[LoopIndex]) -> list[Index]:
    """Return the indices of iterators, in their order."""
    return [it.index for it in iterators]


def bare_subscripts(iterators: Iterable[LoopIndex]) -> tuple[Affine, ...]:
    """Return the subscripts of a read that walks over every axis by an index alone: `(h, w)`."""
    return tuple(map(affine, indices_of(iterators)))


def names_of(indices: Iterable[Index]) -> list[str]:
    """Return the names of indices, in their order."""
    return [index.name for index in indices]


def is_empty(iterators: Iterable[LoopIndex]) -> bool:
    """Tell whether a box has no points."""
    return any(it.extent <= 0 for it in iterators)


def has_no_points(iterators: Sequence[LoopIndex], where: Sequence[Constraint]) -> bool:
    """Tell whether no point of a box meets the conditions."""
    if is_empty(iterators):
        return True
    return bool(where) and holds_everywhere(lambda: domain_set(iterators, where).is_empty())


def substitute_conditions(
    where: Iterable[Constraint], forms: Mapping[Index, Affine]
) -> tuple[Constraint, ...]:
    """Return conditions with forms in the place of indices."""
    return tuple(condition.substitute(forms) for condition in where)


def index_ranges(iterators: Iterable[LoopIndex]) -> Ranges:
    """Return the half-open range of every index, such as `{h: (0, 7)}`."""
    return {it.index: (it.low, it.high) for it in iterators}


def index_extents(iterators: Iterable[LoopIndex]) -> dict[Index, int]:
    """Return the extent of every index, such as `{h: 7}`."""
    return {it.index: it.extent for it in iterators}


def iterators_by_index(iterators: Iterable[LoopIndex]) -> dict[Index, LoopIndex]:
    """Return the iterators as a table, in their order."""
    return {it.index: it for it in iterators}


def iterator_named(iterators: Iterable[LoopIndex], name: str) -> LoopIndex | None:
    """Return the iterator whose index has a name; None where there is none."""
    for it in iterators:
        if it.index.name == name:
            return it
    return None


def has_reduction(body: Any) -> bool:
    """Tell whether anything is reduced in a body, inner scopes not counted."""
    return next(reductions(body), None) is not None


def counts_with(scope: Scope, index: Index) -> bool:
    """Tell whether an index of a scope stands elsewhere than in subscripts: in a condition, or as
    a number in the body.

    >>> import einalg as ea
    >>> counts_with(ea.parse("O[n,i] = n*(A[n,i] - A[n,0])", A=(4, 5)), Index("n"))
    True
    """
    if any(index in condition.indices for condition in scope.where):
        return True
    # Elements are unlike each other, so that nothing cancels what stands beside them.
    without_reads = map_accesses(scope.body, lambda _: sympy.Dummy(real=True))
    return index in without_reads.free_symbols


def bound_indices(scope: Scope) -> set[Index]:
    """Return the indices that a scope's traversal and its reductions bind."""
    indices = set(scope.indices)
    for node in reductions(scope.body):
        indices.update(node.indices)
    return indices


def reduction_at(scope: Scope, position: Any) -> Reduce:
    """Return the reduction at a position, outer before inner."""
    nodes = list(reductions(scope.body))
    if not isinstance(position, int) or not 0 <= position < len(nodes):
        raise RuleError(f"there is no reduction number {shown(position)}: there are {len(nodes)}")
    return nodes[position]


Domain = tuple[tuple[LoopIndex, ...], tuple[Constraint, ...]]


def enclosing_domain(scope: Scope, node: Reduce) -> Domain:
    """Return the iterators and the conditions under which a reduction of a body is evaluated.

    Raises `RuleError` where it stands, as one and the same node, under different ones.
    """
    domains = dict.fromkeys(_enclosing_domains(scope.body, node, scope.iterators, scope.where))
    if len(domains) != 1:
        raise RuleError("the reduction occurs several times, under different indices")
    return next(iter(domains))


def _enclosing_domains(
    body: Any, node: Reduce, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> Iterator[Domain]:
    if body is node:
        yield iterators, where
    elif isinstance(body, Reduce):
        inside = (*iterators, *body.iterators)
        yield from _enclosing_domains(body.body, node, inside, (*where, *body.where))
    elif not isinstance(body, (Access, IndexArithmetic)):
        for argument in body.args:
            yield from _enclosing_domains(argument, node, iterators, where)


def with_body(node: Reduce, body: Any) -> Reduce:
    """Return a reduction of another body over the same points; the same object for the same."""
    if body is node.body:
        return node
    return Reduce(node.op, node.iterators, node.where, body)


def replace_reduction(scope: Scope, old: Reduce, new: Any) -> Scope:
    """Return the scope with one reduction replaced."""

    def leaf(node: Any) -> Any:
        if node is old:
            return new
        if isinstance(node, Reduce):
            return with_body(node, rebuild(node.body, leaf))
        return node

    return Scope(scope.iterators, scope.where, rebuild(scope.body, leaf))


def memoized_per_scope(find: Callable[[Scope], Iterator[Any]]) -> Callable[[Scope], Iterator[Any]]:
    """Make a `find` that looks at each scope once: most scopes of a program outlive a move."""
    memo: dict[int, tuple[Scope, list[Any]]] = {}  # holds the scope, so that no other gets its id

    @wraps(find)
    def memoized(scope: Scope) -> Iterator[Any]:
        entry = memo.get(id(scope))
        if entry is None or entry[0] is not scope:
            if len(memo) >= MAX_MEMOIZED_SCOPES:
                memo.clear()
            entry = memo[id(scope)] = (scope, list(find(scope)))
        return iter(entry[1])

    return memoized


def may_vanish(body: Any) -> bool:
    """Tell whether a body has conditions or reads padding: elsewhere it may be anything."""
    return reads_padding(body) or has_conditions(body)


def reads_padding(body: Any) -> bool:
    """Tell whether a body reads anything through padding."""
    return any(isinstance(access.base, Padded) for access in accesses(body))


def has_conditions(body: Any) -> bool:
    """Tell whether a reduction of a body has conditions."""
    return any(node.where for node in reductions(body))


class ReadContext(NamedTuple):
    """An access, the domain on which it is evaluated, and the reductions around it."""

    access: Access
    iterators: tuple[LoopIndex, ...]
    where: tuple[Constraint, ...]
    enclosing_reductions: tuple[Reduce, ...]

    @property
    def ranges(self) -> Ranges:
        return index_ranges(self.iterators)

    def points(self) -> tuple[Space, isl.Set]:
        space = Space(indices_of(self.iterators))
        return space, space.set(self.iterators, self.where)

    def image(self) -> isl.Set:
        """Return the elements that are read, in the coordinates of what is read."""
        return _image(self.access.subscripts, self.iterators, self.where)


@lru_cache(maxsize=MAX_MEMOIZED_SETS)
def _image(
    subscripts: tuple[Affine, ...], iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> isl.Set:
    space = Space(indices_of(iterators))
    return space.map(subscripts).intersect_domain(space.set(iterators, where)).range()


def reads(scope: Scope) -> Iterator[ReadContext]:
    """Return every access of a scope's body with its context."""
    yield from _reads(scope.body, scope.iterators, scope.where, ())


def _reads(
    body: Any, iterators: Any, where: Any, outer: tuple[Reduce, ...]
) -> Iterator[ReadContext]:
    if isinstance(body, Access):
        yield ReadContext(body, iterators, where, outer)
    elif isinstance(body, Reduce):
        inside = (*iterators, *body.iterators)
        yield from _reads(body.body, inside, (*where, *body.where), (*outer, body))
    elif not isinstance(body, IndexArithmetic):
        for argument in body.args:
            yield from _reads(argument, iterators, where, outer)


def reads_of(scope: Scope, inner: Scope) -> list[ReadContext]:
    """Return the reads of one inner scope."""
    contexts = []
    for read in reads(scope):
        tensor = read.access.tensor
        if isinstance(tensor, Scope) and tensor == inner:
            contexts.append(read)
    return contexts


def with_padded_reads(body: Any, iterators: Sequence[LoopIndex], fill: Any = 0) -> Any:
    """Return the body with padding wherever a box of points reads beyond what is there.

    A domain with conditions is padded in any case.
    """

    def leaf_in(ranges: Ranges) -> Callable[[Any], Any]:
        def leaf(node: Any) -> Any:
            if isinstance(node, Access):
                return with_padding(_without_gaps(node, fill), ranges, fill)
            if isinstance(node, Reduce):
                inside = leaf_in({**ranges, **index_ranges(node.iterators)})
                return with_body(node, rebuild(node.body, inside))
            return node

        return leaf

    return rebuild(body, leaf_in(index_ranges(iterators)))


def _without_gaps(access: Access, fill: Any) -> Access:
    """Return a read of a scope with conditions as one through padding, which fills the gaps."""
    if not (isinstance(access.base, Scope) and access.base.where):
        return access
    padded = Padded(access.base, [0] * access.base.rank, fill=fill)
    return Access.of(padded, access.subscripts)


@lru_cache(maxsize=MAX_MEMOIZED_SETS)
def bounding_box(points: isl.Set) -> tuple[tuple[int, int], ...] | None:
    """Return half-open bounds of every dimension; None where the set is empty."""
    if points.is_empty():
        return None
    bounds = []
    for axis in range(points.dim(isl.dim_type.set)):
        low, last = points.dim_min_val(axis).to_python(), points.dim_max_val(axis).to_python()
        bounds.append((low, last + 1))
    return tuple(bounds)


@lru_cache(maxsize=MAX_MEMOIZED_SETS, typed=True)
def may_differ_from(
    value: Any, body: Any, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> isl.Set:
    """Return a set with every point of a domain at which `body` may be something else than `value`.

    `value` is 0 or the identity of a reduction. The set may hold other points too.
    """
    space = Space(indices_of(iterators))
    return _differs(value, body, space).intersect(space.set(iterators, where))


def _differs(value: Any, body: Any, space: Space) -> isl.Set:
    if isinstance(body, Access):
        return _access_differs(value, body, space)
    if body == value:
        return isl.Set.empty(space.space)
    if isinstance(body, Reduce) and value == IDENTITY[body.op]:
        return _reduction_differs(value, body, space)
    if value == 0 and isinstance(body, sympy.Mul):
        return _intersection([_differs(value, a, space) for a in body.args if is_finite(a)], space)
    if value == 0 and isinstance(body, sympy.Pow) and body.exp.is_positive:
        return _differs(value, body.base, space)
    if _keeps(value, body):
        return _union([_differs(value, a, space) for a in body.args], space)
    return space.universe()


VANISHING = (sympy.Add, sympy.Abs, sympy.sign, sympy.tanh)  # functions that are 0 of zeros


def _keeps(value: Any, body: Any) -> bool:
    """Tell whether a body is `value` wherever all its arguments are."""
    if isinstance(body, (sympy.Max, sympy.Min)):
        return True
    return value == 0 and isinstance(body, VANISHING)


def is_finite(body: Any) -> bool:
    """Tell whether a body names no infinity, nor a fill does: then it distributes over sums."""
    return not body.has(sympy.oo, -sympy.oo)


def has_infinite_truths(scopes: Iterable[Scope]) -> bool:
    """Tell whether some of these, or of what they hold, may be an infinity in the type of truth
    values: a fill, or the largest of no elements.
    """
    inner = chain.from_iterable(map(all_scopes, scopes))
    return any(scope.dtype == "bool" and _may_be_infinite(scope.body) for scope in inner)


def _may_be_infinite(body: Any) -> bool:
    extremes = [node for node in reductions(body) if node.op in ("Max", "Min")]
    return not is_finite(body) or any(
        bool(node.where) or is_empty(node.iterators) for node in extremes
    )


def _access_differs(value: Any, access: Access, space: Space) -> isl.Set:
    base = access.base
    if not isinstance(base, Padded) or base.fill != value or isinstance(base.base, Padded):
        return space.universe()
    inside = space.universe()
    for subscript, (low, high) in zip(access.subscripts, base.box):
        inside = inside.intersect(space.between(subscript, low, high))
    inner = unpadded(base)
    if isinstance(inner, Scope) and inner.where:
        mapping = dict(zip(inner.indices, access.subscripts))
        for condition in inner.where:
            inside = inside.intersect(space.where(condition.substitute(mapping)))
    return inside


def _reduction_differs(value: Any, node: Reduce, space: Space) -> isl.Set:
    """Use that a reduction of identities is the identity: it differs only where some term does."""
    inner = Space([*space.indices, *node.indices])
    points = _differs(value, node.body, inner)
    for it in node.iterators:
        points = points.intersect(inner.set([it]))
    for condition in node.where:
        points = points.intersect(inner.where(condition))
    return points.project_out(isl.dim_type.set, len(space.indices), len(node.indices))


def _union(parts: list[isl.Set], space: Space) -> isl.Set:
    total = isl.Set.empty(space.space)
    for part in parts:
        total = total.union(part)
    return total


def _intersection(parts: list[isl.Set], space: Space) -> isl.Set:
    total = space.universe()
    for part in parts:
        total = total.intersect(part)
    return total


def holds_everywhere(question: Any) -> bool:
    """Ask isl a yes/no question within its budget; one that costs too much counts as no."""
    try:
        with bounded():
            return bool(question())
    except isl.Error:
        return False
