"""Staging: what a body reads is gathered first, by an inner scope of its own; a copy in another layout, or a part of a product.

It is the inverse of traversal merging on a copy or on a subterm, and where padding, strides, windows and layouts go that an
operator does not take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import gcd, prod
from typing import Any

import islpy as isl
import sympy

from derive.rewriting.arguments import parse_form
from derive.rewriting.body_queries import (
    ReadContext,
    enclosing_domain,
    holds_everywhere,
    memoized_per_scope,
    reads,
    reduction_at,
    replace_reduction,
    with_padded_reads,
)
from derive.rewriting.moves import Example, Rule
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify, simplify_scope
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.text import form_text
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, reductions

MOST_FACTORS = 4  # of which pairs are taken
MOST_CHOICES = 4  # divisors tried for one access
MOST_REPEATS = 64  # of an element, on average, in a proposed copy


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Copies that make a read bare, copies by the digits of its strides, and the parts of products that are worth their own scope."""
    if all(it.extent > 0 for it in scope.iterators) and not isinstance(scope.body, Access):
        for position, places in enumerate(distinct_reads(scope)):
            yield from _copies(position, places[0])
        yield from subterms(scope)
        yield from _pairs(scope)


def stage(
    scope: Scope,
    access: int | None = None,
    axes: Sequence[str] = (),
    subscripts: Sequence[str] = (),
    factors: Sequence[int] | None = None,
    terms: Sequence[int] | None = None,
    reduction: int | None = None,
) -> Scope:
    """Read through an inner scope: one access (`access`, `axes`, `subscripts`), or some `factors` or `terms` (with their `axes`).

    `access` is a position in `distinct_reads`. `axes` are forms in the indices around it, one for each axis of the inner scope;
    `subscripts` are those of the copied tensor, in `y0`, `y1`, … for the axes. `factors` and `terms` are positions in the product
    or the sum that is the body of a reduction (`reduction`, by position) or of the scope; there `axes` are names of indices.
    """
    if [access, factors, terms].count(None) != 2:
        raise RuleError("staging takes one of access=, factors= and terms=")
    if access is not None:
        return _stage_access(scope, access, axes, subscripts)
    return (
        _stage_operands(scope, sympy.Mul, factors, reduction, axes)
        if terms is None
        else _stage_operands(scope, sympy.Add, terms, reduction, axes)
    )


def distinct_reads(scope: Scope) -> list[list[ReadContext]]:
    """The reads of a body in order of first occurrence; those that are equal stand together."""
    found: dict[Access, list[ReadContext]] = {}
    for read in reads(scope):
        found.setdefault(read.access, []).append(read)
    return list(found.values())


def _stage_access(
    scope: Scope, access: Any, axes: Sequence[str], subscripts: Sequence[str]
) -> Scope:
    found = distinct_reads(scope)
    if not isinstance(access, int) or not 0 <= access < len(found):
        raise RuleError(f"there is no read number {access}: there are {len(found)}")
    places = found[access]
    old = places[0].access
    components = [parse_form(a) for a in axes]
    names = [Index(f"y{k}") for k in range(len(components))]
    staged = tuple(parse_form(s) for s in subscripts)
    _check_same(places, components, names, staged)
    intervals = [_hull([exact_interval(c, read) for read in places]) for c in components]
    iterators = [LoopIndex(y, low, high + 1) for y, (low, high) in zip(names, intervals)]
    inner = simplify_scope(
        Scope(iterators, (), with_padded_reads(Access.of(old.base, staged), iterators))
    )
    read = Access.of(inner, tuple(components))
    return simplify_scope(
        Scope(
            scope.iterators,
            scope.where,
            map_accesses(scope.body, lambda a: read if a == old else a),
        )
    )


def _check_same(
    places: list[ReadContext],
    components: list[Affine],
    names: list[Index],
    staged: tuple[Affine, ...],
) -> None:
    """The staged subscripts at the components must be the subscripts that are read."""
    subscripts = places[0].access.subscripts
    if len(staged) != len(subscripts):
        raise RuleError(
            f"{len(staged)} subscripts for {places[0].access}, which has {len(subscripts)}"
        )
    loose = sorted(i.name for s in staged for i in s.indices if i not in names)
    if loose:
        raise RuleError(
            f"the staged subscripts speak of {loose[0]}, but the axes are {', '.join(map(str, names))}"
        )
    mapping = dict(zip(names, components))
    for read in places:
        loose = sorted(i.name for c in components for i in c.indices if i not in read.ranges)
        if loose:
            raise RuleError(f"index {loose[0]} is not bound where {read.access} is read")
        for wanted, given in zip(subscripts, staged):
            difference = simplify(given.substitute(mapping) - wanted, read.ranges, read.where)
            if difference != 0 and not _vanishes(difference, read):
                raise RuleError(f"the axes give {given.substitute(mapping)} where {wanted} is read")


def _vanishes(difference: Affine, read: ReadContext) -> bool:
    def question() -> bool:
        space, points = read.points()
        return points.is_subset(space.where(Constraint(difference, "==")))

    return difference.terms != () and holds_everywhere(question)


def exact_interval(component: Affine, read: ReadContext) -> tuple[int, int]:
    """The smallest and the largest value of a form over the points at which a read is evaluated."""
    bounds = component.interval(read.ranges)
    if any(low >= high for low, high in read.ranges.values()):
        raise RuleError(f"{read.access} is never read")
    if component.is_affine() and not read.where:
        return bounds
    try:
        with bounded():
            space, points = read.points()
            if points.is_empty():
                raise RuleError(f"{read.access} is never read")
            values = space.aff(component)
            return int(points.min_val(values).to_python()), int(points.max_val(values).to_python())
    except isl.Error:
        return bounds


def _hull(intervals: list[tuple[int, int]]) -> tuple[int, int]:
    return min(low for low, _ in intervals), max(high for _, high in intervals)


# --- copies that are proposed


def _copies(position: int, read: ReadContext) -> Iterator[dict[str, Any]]:
    if (
        not _is_given(read.access.tensor)
        or not read.access.free_symbols
        or any(lo >= hi for lo, hi in read.ranges.values())
    ):
        return
    seen: set[Any] = set()
    gather = _gather(read.access)
    repeats = prod(
        high - low for i, (low, high) in read.ranges.items() if i in read.access.free_symbols
    ) / max(1, prod(read.access.tensor.shape))
    for axes, subscripts in (*([gather] if repeats <= MOST_REPEATS else []), *_digits(read)):
        if (tuple(axes), tuple(subscripts)) not in seen and not _idle(read.access, subscripts):
            seen.add((tuple(axes), tuple(subscripts)))
            yield {
                "access": position,
                "axes": [form_text(a) for a in axes],
                "subscripts": [form_text(s) for s in subscripts],
            }


def _is_given(tensor: Any) -> bool:
    """Whether a tensor is read, or a copy of one."""
    return isinstance(tensor, Tensor) or (
        isinstance(tensor.body, Access) and isinstance(tensor.body.tensor, Tensor)
    )


def _idle(access: Access, subscripts: Sequence[Affine]) -> bool:
    """Whether the copy is the tensor as it is, or a part of it."""
    bare = [s.as_index() for s in (s - s.const for s in subscripts)]
    return not isinstance(access.base, Padded) and None not in bare and len(set(bare)) == len(bare)


def _gather(access: Access) -> tuple[list[Affine], list[Affine]]:
    """Every index that occurs is an axis, so that the copy is read bare."""
    order = list(dict.fromkeys(i for s in access.subscripts for i in _indices_in_order(s)))
    names = {i: affine(Index(f"y{k}")) for k, i in enumerate(order)}
    return [affine(i) for i in order], [s.substitute(names) for s in access.subscripts]


def _indices_in_order(subscript: Affine) -> list[Index]:
    found: list[Index] = []
    for atom, _ in subscript.terms:
        found += [atom] if isinstance(atom, Index) else _indices_in_order(atom.argument)
    return found


def _digits(read: ReadContext) -> Iterator[tuple[list[Affine], list[Affine]]]:
    """Subscripts cut by divisors of their coefficients: `d·component + rest` with every value of the rest in a class of its own modulo `d`."""
    subscripts = read.access.subscripts
    choices = [[d for d in _divisors(s) if _cut(s, d, read) is not None] for s in subscripts]
    common = sorted({d for found in choices for d in found})
    together = [[d if d in found else None for found in choices] for d in common]
    largest = [found[-1] if found else None for found in choices]
    for divisors in (*together, largest)[:MOST_CHOICES]:
        if any(divisors):
            yield _assembled(
                [_cut(s, d, read) if d else None for s, d in zip(subscripts, divisors)], subscripts
            )


def _divisors(subscript: Affine) -> list[int]:
    return sorted({abs(c) for _, c in subscript.terms if abs(c) > 1})


def _cut(subscript: Affine, divisor: int, read: ReadContext) -> list[tuple[Affine, int]] | None:
    """Components with their coefficients; None where several values of the rest are one modulo the divisor, and so one element twice."""
    whole = Affine.from_normal_form(
        tuple((a, c // divisor) for a, c in subscript.terms if c % divisor == 0), 0
    )
    rest = tuple((a, c) for a, c in subscript.terms if c % divisor)
    if not rest:
        return [(whole, divisor)]
    common = gcd(*(c for _, c in rest))
    component = Affine.from_normal_form(tuple((a, c // common) for a, c in rest), 0)
    low, high = component.interval(read.ranges)
    return (
        [(whole, divisor), (component, common)]
        if high - low < divisor // gcd(common, divisor)
        else None
    )


def _assembled(cuts: list[Any], subscripts: Sequence[Affine]) -> tuple[list[Affine], list[Affine]]:
    axes: list[Affine] = []
    staged: list[Affine] = []
    for cut, subscript in zip(cuts, subscripts):
        parts = cut or ([(subscript - subscript.const, 1)] if subscript.terms else [])
        total = affine(subscript.const)
        for component, coefficient in parts:
            total = total + affine(Index(f"y{len(axes)}")) * coefficient
            axes.append(component)
        staged.append(total)
    return axes, staged


# --- parts of a product or a sum


def _stage_operands(
    scope: Scope, kind: Any, chosen: Any, reduction: int | None, axes: Sequence[str]
) -> Scope:
    body, iterators = _place(scope, reduction)
    operands = kind.make_args(body)
    what = "factors" if kind is sympy.Mul else "terms"
    if not chosen or any(not isinstance(k, int) or not 0 <= k < len(operands) for k in chosen):
        raise RuleError(
            f"there are {len(operands)} {what}, not all of {', '.join(map(str, chosen)) or 'none'}"
        )
    part = kind(*(operands[k] for k in dict.fromkeys(chosen)))
    rest = [a for k, a in enumerate(operands) if k not in chosen]
    by_name = {it.index.name: it for it in iterators}
    used = {str(i) for i in part.free_symbols}
    if used != set(axes) or len(set(axes)) != len(axes) or not used <= set(by_name):
        raise RuleError(
            f"the {what} {part} use the indices {', '.join(sorted(used)) or '()'}, not {', '.join(axes)}"
        )
    own = [by_name[name] for name in axes]
    inner = simplify_scope(Scope(own, (), with_padded_reads(part, own)))
    staged = kind(Access.of(inner, tuple(affine(it.index) for it in own)), *rest)
    if reduction is None:
        return simplify_scope(Scope(scope.iterators, scope.where, staged))
    node = reduction_at(scope, reduction)
    return simplify_scope(
        replace_reduction(scope, node, Reduce(node.op, node.iterators, node.where, staged))
    )


def _place(scope: Scope, reduction: int | None) -> tuple[Any, tuple[LoopIndex, ...]]:
    """The body of a reduction, or of the scope, and the iterators under which it stands."""
    if reduction is None:
        return scope.body, scope.iterators
    node = reduction_at(scope, reduction)
    return node.body, (*enclosing_domain(scope, node)[0], *node.iterators)


@memoized_per_scope
def subterms(scope: Scope) -> Iterator[dict[str, Any]]:
    """Factors or terms that read weights alone, and those that compute something, where fewer indices occur than around them."""
    for position, body, iterators in _bodies(scope):
        what, operands = (
            ("terms", body.args)
            if isinstance(body, sympy.Add)
            else ("factors", sympy.Mul.make_args(body))
        )
        known = tuple(k for k, a in enumerate(operands) if _weights_only(a))
        groups = (
            [known]
            if len(known) > 1 or (known and not isinstance(operands[known[0]], Access))
            else []
        )
        groups += [
            (k,)
            for k, a in enumerate(operands)
            if _computes(a) and (k,) not in groups and len(operands) > 1
        ]
        yield from _with_fewer_indices(what, operands, groups, position, iterators)


def _pairs(scope: Scope) -> Iterator[dict[str, Any]]:
    """Two of several factors that a reduction reads, where fewer indices occur than around them."""
    for position, body, iterators in _bodies(scope):
        factors = sympy.Mul.make_args(body)
        if (
            position is not None
            and 2 < len(factors) <= MOST_FACTORS
            and all(isinstance(a, Access) for a in factors)
        ):
            yield from _with_fewer_indices(
                "factors", factors, combinations(range(len(factors)), 2), position, iterators
            )


def _bodies(scope: Scope) -> Iterator[tuple[int | None, Any, tuple[LoopIndex, ...]]]:
    """The body of the scope (None) and of each reduction (its position), with the iterators under which it stands, none of them empty."""
    for position in (None, *range(len(list(reductions(scope.body))))):
        try:
            body, iterators = _place(scope, position)
        except RuleError:  # several places at once
            continue
        if all(it.extent > 0 for it in iterators):
            yield position, body, iterators


def _with_fewer_indices(
    what: str, operands: Any, groups: Iterable[tuple[int, ...]], position: int | None, outside: Any
) -> Iterator[dict[str, Any]]:
    """The stagings of those groups of operands in which fewer indices occur than `outside` of them."""
    for chosen in groups:
        order = _order([operands[k] for k in chosen])
        if len(order) < len(outside):
            yield {what: list(chosen), "reduction": position, "axes": [i.name for i in order]}


def _computes(operand: Any) -> bool:
    """Whether something is done, by no reduction, with what an operand of a product or a sum reads."""
    return not isinstance(operand, (Access, Reduce)) and any(True for _ in accesses(operand))


def _weights_only(factor: Any) -> bool:
    found = list(accesses(factor))
    return bool(found) and all(_is_weight(a.tensor) for a in found)


def _is_weight(tensor: Any) -> bool:
    read = [tensor] if isinstance(tensor, Tensor) else tensor.tensors.values()
    return all(t.role in ("weight", "constant") for t in read)


def _order(factors: list[Any]) -> list[Index]:
    """The indices of a subterm in the order of its largest read, then of the others."""
    found = sorted((a for f in factors for a in accesses(f)), key=lambda a: -len(a.subscripts))
    free: set[Any] = set().union(*(f.free_symbols for f in factors))
    order = dict.fromkeys(
        i for a in found for s in a.subscripts for i in _indices_in_order(s) if i in free
    )
    return [*order, *sorted((i for i in free if i not in order), key=str)]


RULE = Rule(
    name="staging",
    before="L[x] …f(e(x))…",
    after="L[x] …{L[y] f(y)}[e(x)]…",
    requires="the subscripts are those that were read; what the copy holds besides is never read",
    find=find,
    rewrite=stage,
    section="beyond EinNet",
    example=Example("O[h] += A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
