"""Staging: an inner scope gathers what a body reads: a copy in another layout, a part of a product.

It is the inverse of traversal merging on a copy or on a subterm, and where padding, strides,
windows and layouts go that an operator does not take.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd, prod
from typing import Any

import islpy as isl
import sympy

from derive.rewriting.arguments import parse_form
from derive.rewriting.body_queries import (
    EXPENSIVE,
    ReadContext,
    bare_subscripts,
    enclosing_domain,
    holds_everywhere,
    is_empty,
    memoized_per_scope,
    names_of,
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

MAX_FACTORS = 4  # of which pairs are proposed
MAX_DIVISOR_CHOICES = 4  # tried for one access
MAX_REPEATS = 64  # of an element, on average, in a proposed copy

Args = dict[str, Any]


@dataclass(frozen=True)
class _Copy:
    """A copy: the forms that walk over its axes, and the subscripts of the tensor in `y0`, `y1`, …

    The copy of `A[2*h + r]` by the digits of its stride has the axes h and r, and reads
    `A[2*y0 + y1]`.
    """

    axes: tuple[Affine, ...]
    subscripts: tuple[Affine, ...]


@memoized_per_scope
def find(scope: Scope) -> Iterator[Args]:
    """Propose copies that make a read bare, copies by the digits of its strides, and subterms.

    These are the parts of products that are worth a scope of their own.
    """
    if isinstance(scope.body, Access) or is_empty(scope.iterators):
        return
    for position, equal_reads in enumerate(distinct_reads(scope)):
        with_points = next((read for read in equal_reads if not _is_empty(read)), None)
        if with_points is not None:
            yield from _copies(position, with_points)
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
    """Read through an inner scope: one access, or some `factors` or `terms`.

    `access` is a position in `distinct_reads`. `axes` are forms in the indices around it, one for
    each axis of the inner scope; `subscripts` are those of the copied tensor, in `y0`, `y1`, … for
    the axes. `factors` and `terms` are positions in the product or the sum that is the body of a
    reduction (`reduction`, by position) or of the scope; there `axes` are names of indices.
    """
    if [access, factors, terms].count(None) != 2:
        raise RuleError("staging takes one of access=, factors= and terms=")
    if access is not None:
        return _stage_access(scope, access, axes, subscripts)
    if terms is None:
        return _stage_operands(scope, sympy.Mul, factors, reduction, axes)
    return _stage_operands(scope, sympy.Add, terms, reduction, axes)


def distinct_reads(scope: Scope) -> list[list[ReadContext]]:
    """Return the reads of a body in order of first occurrence, equal ones together."""
    groups: dict[Access, list[ReadContext]] = {}
    for read in reads(scope):
        groups.setdefault(read.access, []).append(read)
    return list(groups.values())


def _stage_access(
    scope: Scope, access: Any, axes: Sequence[str], subscripts: Sequence[str]
) -> Scope:
    groups = distinct_reads(scope)
    if not isinstance(access, int) or not 0 <= access < len(groups):
        raise RuleError(f"there is no read number {access}: there are {len(groups)}")
    equal_reads = groups[access]
    old = equal_reads[0].access
    copy = _Copy(tuple(map(parse_form, axes)), tuple(map(parse_form, subscripts)))
    names = _axis_names(len(copy.axes))
    _check_same(equal_reads, copy, names)
    iterators = []
    for name, component in zip(names, copy.axes):
        low, high = _common_interval(component, equal_reads)
        iterators.append(LoopIndex(name, low, high + 1))
    body = with_padded_reads(Access.of(old.base, copy.subscripts), iterators)
    new = Access.of(simplify_scope(Scope(iterators, (), body)), copy.axes)
    staged = map_accesses(scope.body, lambda read: new if read == old else read)
    return simplify_scope(Scope(scope.iterators, scope.where, staged))


def _axis_names(count: int) -> list[Index]:
    return [Index(f"y{axis}") for axis in range(count)]


def _check_same(equal_reads: list[ReadContext], copy: _Copy, names: list[Index]) -> None:
    """Raise `RuleError` unless the staged subscripts at the axes are those that are read."""
    access = equal_reads[0].access
    if len(copy.subscripts) != len(access.subscripts):
        raise RuleError(
            f"{len(copy.subscripts)} subscripts for {access}, which has {len(access.subscripts)}"
        )
    unknown = _first_unknown(copy.subscripts, names)
    if unknown:
        raise RuleError(
            f"the staged subscripts speak of {unknown}, "
            f"but the axes are {', '.join(map(str, names))}"
        )
    mapping = dict(zip(names, copy.axes))
    for read in equal_reads:
        unknown = _first_unknown(copy.axes, read.ranges)
        if unknown:
            raise RuleError(f"index {unknown} is not bound where {read.access} is read")
        for wanted, staged in zip(access.subscripts, copy.subscripts):
            value = staged.substitute(mapping)
            difference = simplify(value - wanted, read.ranges, read.where)
            if difference != 0 and not _vanishes(difference, read):
                raise RuleError(f"the axes give {value} where {wanted} is read")


def _first_unknown(forms: Iterable[Affine], known: Collection[Index]) -> str:
    """Return the first name, in order, of an index of the forms that is not known; else ""."""
    unknown: set[str] = set()
    for form in forms:
        unknown.update(index.name for index in form.indices if index not in known)
    return min(unknown, default="")


def _vanishes(difference: Affine, read: ReadContext) -> bool:
    def question() -> bool:
        space, points = read.points()
        return points.is_subset(space.where(Constraint(difference, "==")))

    return difference.terms != () and holds_everywhere(question)


def exact_interval(component: Affine, read: ReadContext) -> tuple[int, int]:
    """Return the least and the greatest value of a form over the points of a read."""
    bounds = component.interval(read.ranges)
    if _is_empty(read):
        raise RuleError(f"{read.access} is never read")
    if component.is_affine() and not read.where:
        return bounds
    try:
        with bounded():
            space, points = read.points()
            values = space.aff(component)
            return int(points.min_val(values).to_python()), int(points.max_val(values).to_python())
    except isl.Error:
        return bounds


def _is_empty(read: ReadContext) -> bool:
    """Tell whether a read has no points, or none that meets its conditions."""
    if any(low >= high for low, high in read.ranges.values()):
        return True
    return bool(read.where) and holds_everywhere(lambda: read.points()[1].is_empty())


def _common_interval(component: Affine, equal_reads: list[ReadContext]) -> tuple[int, int]:
    """Return the least and the greatest value over all reads, of which one at least has points."""
    with_points = [read for read in equal_reads if not _is_empty(read)]
    lows, highs = zip(*(exact_interval(component, read) for read in with_points or equal_reads))
    return min(lows), max(highs)


# --- copies that are proposed


def _copies(position: int, read: ReadContext) -> Iterator[Args]:
    access = read.access
    if not _copies_nothing_computed(access.tensor) or not access.free_symbols:
        return
    seen: set[_Copy] = set()
    for copy in (*_gathers(read), *_digit_copies(read)):
        if copy not in seen and not _is_idle(access, copy.subscripts):
            seen.add(copy)
            axes, subscripts = (
                list(map(form_text, copy.axes)),
                list(map(form_text, copy.subscripts)),
            )
            yield {"access": position, "axes": axes, "subscripts": subscripts}


def _copies_nothing_computed(tensor: Any) -> bool:
    """Tell whether what is read is a tensor, or a copy of one."""
    if isinstance(tensor, Tensor):
        return True
    return isinstance(tensor.body, Access) and isinstance(tensor.body.tensor, Tensor)


def _is_idle(access: Access, subscripts: Sequence[Affine]) -> bool:
    """Tell whether the copy is the tensor as it is, or a part of it."""
    if isinstance(access.base, Padded):
        return False
    indices: set[Index] = set()
    for subscript in subscripts:
        index = (subscript - subscript.const).as_index()
        if index is None or index in indices:
            return False
        indices.add(index)
    return True


def _gathers(read: ReadContext) -> Iterator[_Copy]:
    """Yield the copy that is read bare: every index that occurs is an axis.

    It is left out where it would hold an element too often, as the windows of a convolution do.
    """
    access = read.access
    points = 1
    for index, (low, high) in read.ranges.items():
        if index in access.free_symbols:
            points *= high - low
    if points / max(1, prod(access.tensor.shape)) > MAX_REPEATS:
        return
    indices: dict[Index, None] = {}
    for subscript in access.subscripts:
        indices.update(dict.fromkeys(_indices_in_order(subscript)))
    names: dict[Index, Affine] = {}
    for index, name in zip(indices, _axis_names(len(indices))):
        names[index] = affine(name)
    subscripts = tuple(subscript.substitute(names) for subscript in access.subscripts)
    yield _Copy(tuple(map(affine, indices)), subscripts)


def _indices_in_order(subscript: Affine) -> list[Index]:
    indices: list[Index] = []
    for atom, _ in subscript.terms:
        if isinstance(atom, Index):
            indices.append(atom)
        else:
            indices += _indices_in_order(atom.argument)
    return indices


Cut = list[tuple[Affine, int]]  # components of a subscript, with their coefficients


def _digit_copies(read: ReadContext) -> Iterator[_Copy]:
    """Yield copies by subscripts that are cut by divisors of their coefficients.

    A cut is `d·component + rest` with every value of the rest in a class of its own modulo `d`.
    """
    cuts = [_cuts(subscript, read) for subscript in read.access.subscripts]
    for choice in _cut_choices(cuts)[:MAX_DIVISOR_CHOICES]:
        if any(cut is not None for cut in choice):
            yield _copy_by_cuts(choice, read.access.subscripts)


def _cuts(subscript: Affine, read: ReadContext) -> dict[int, Cut]:
    """Return the cuts of a subscript by divisor, in order."""
    divisors = sorted({abs(c) for _, c in subscript.terms if abs(c) > 1})
    cuts = {}
    for divisor in divisors:
        cut = _cut(subscript, divisor, read)
        if cut is not None:
            cuts[divisor] = cut
    return cuts


def _cut_choices(cuts: list[dict[int, Cut]]) -> list[list[Cut | None]]:
    """Return choices of a cut, or none, for every subscript: by one divisor, or by the largest."""
    divisors: set[int] = set()
    for of_subscript in cuts:
        divisors.update(of_subscript)
    choices: list[list[Cut | None]] = []
    for divisor in sorted(divisors):
        choices.append([of_subscript.get(divisor) for of_subscript in cuts])
    largest: list[Cut | None] = []
    for of_subscript in cuts:
        largest.append(of_subscript[max(of_subscript)] if of_subscript else None)
    choices.append(largest)
    return choices


def _cut(subscript: Affine, divisor: int, read: ReadContext) -> Cut | None:
    """Return components with coefficients; None where two values of the rest are one modulo `d`.

    An element would then stand in the copy twice.
    """
    whole, rest = [], []
    for atom, coefficient in subscript.terms:
        if coefficient % divisor:
            rest.append((atom, coefficient))
        else:
            whole.append((atom, coefficient // divisor))
    quotient = Affine.from_normal_form(tuple(whole), 0)
    if not rest:
        return [(quotient, divisor)]
    common = gcd(*(coefficient for _, coefficient in rest))
    component = Affine.from_normal_form(tuple((atom, c // common) for atom, c in rest), 0)
    low, high = component.interval(read.ranges)
    if high - low >= divisor // gcd(common, divisor):
        return None
    return [(quotient, divisor), (component, common)]


def _copy_by_cuts(cuts: Sequence[Cut | None], subscripts: Sequence[Affine]) -> _Copy:
    axes: list[Affine] = []
    staged: list[Affine] = []
    for cut, subscript in zip(cuts, subscripts):
        components = cut or []
        if cut is None and subscript.terms:
            components = [(subscript - subscript.const, 1)]
        total = affine(subscript.const)
        for component, coefficient in components:
            total = total + affine(Index(f"y{len(axes)}")) * coefficient
            axes.append(component)
        staged.append(total)
    return _Copy(tuple(axes), tuple(staged))


# --- parts of a product or a sum


def _stage_operands(
    scope: Scope, kind: Any, chosen: Any, reduction: int | None, axes: Sequence[str]
) -> Scope:
    body, iterators = _place(scope, reduction)
    operands = kind.make_args(body)
    what = "factors" if kind is sympy.Mul else "terms"
    _check_positions(chosen, len(operands), what)
    parts = [operands[position] for position in dict.fromkeys(chosen)]
    part = parts[0] if len(parts) == 1 else kind(*parts)  # a comparison alone is no product
    rest = [operand for position, operand in enumerate(operands) if position not in chosen]
    inner_iterators = _checked_iterators(iterators, part, what, axes)
    body = with_padded_reads(part, inner_iterators)
    inner = simplify_scope(Scope(inner_iterators, (), body))
    staged = kind(Access.of(inner, bare_subscripts(inner_iterators)), *rest)
    if reduction is None:
        return simplify_scope(Scope(scope.iterators, scope.where, staged))
    node = reduction_at(scope, reduction)
    new = Reduce(node.op, node.iterators, node.where, staged)
    return simplify_scope(replace_reduction(scope, node, new))


def _check_positions(chosen: Any, count: int, what: str) -> None:
    valid = bool(chosen)
    for position in chosen or ():
        valid = valid and isinstance(position, int) and 0 <= position < count
    if not valid:
        raise RuleError(
            f"there are {count} {what}, not all of {', '.join(map(str, chosen)) or 'none'}"
        )


def _checked_iterators(
    iterators: Iterable[LoopIndex], part: Any, what: str, axes: Sequence[str]
) -> list[LoopIndex]:
    """Return the iterators of the inner scope, which are those that a subterm uses."""
    by_name = {it.index.name: it for it in iterators}
    used = set(map(str, part.free_symbols))
    if used != set(axes) or len(set(axes)) != len(axes) or not used <= set(by_name):
        raise RuleError(
            f"the {what} {part} use the indices {', '.join(sorted(used)) or '()'}, "
            f"not {', '.join(axes)}"
        )
    return [by_name[name] for name in axes]


def _place(scope: Scope, reduction: int | None) -> tuple[Any, tuple[LoopIndex, ...]]:
    """Return the body of a reduction, or of the scope, and the iterators under which it stands."""
    if reduction is None:
        return scope.body, scope.iterators
    node = reduction_at(scope, reduction)
    return node.body, (*enclosing_domain(scope, node)[0], *node.iterators)


@memoized_per_scope
def subterms(scope: Scope) -> Iterator[Args]:
    """Propose factors or terms that read weights alone, and those that compute something, of
    elements or of indices.

    Fewer indices must occur in them than around them.
    """
    for position, body, iterators in _bodies(scope):
        what, operands = "factors", sympy.Mul.make_args(body)
        if isinstance(body, sympy.Add):
            what, operands = "terms", body.args
        groups = _operand_groups(operands)
        yield from _with_fewer_indices(what, operands, groups, position, iterators)


def _operand_groups(operands: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return positions of operands: all that read weights alone, and each that computes."""
    weights = tuple(k for k, operand in enumerate(operands) if _reads_only_weights(operand))
    groups: list[tuple[int, ...]] = []
    if len(weights) > 1 or (weights and not isinstance(operands[weights[0]], Access)):
        groups.append(weights)
    if len(operands) > 1:
        for position, operand in enumerate(operands):
            if _computes(operand) and (position,) not in groups:
                groups.append((position,))
    return groups


def _pairs(scope: Scope) -> Iterator[Args]:
    """Propose two of several factors that a reduction reads, where fewer indices occur."""
    for position, body, iterators in _bodies(scope):
        factors = sympy.Mul.make_args(body)
        if position is None or not 2 < len(factors) <= MAX_FACTORS:
            continue
        if all(isinstance(factor, Access) for factor in factors):
            pairs = combinations(range(len(factors)), 2)
            yield from _with_fewer_indices("factors", factors, pairs, position, iterators)


def _bodies(scope: Scope) -> Iterator[tuple[int | None, Any, tuple[LoopIndex, ...]]]:
    """Yield the body of the scope (None) and of each reduction (its position).

    With them come the iterators under which they stand, none of which is empty.
    """
    for position in (None, *range(len(list(reductions(scope.body))))):
        try:
            body, iterators = _place(scope, position)
        except RuleError:  # several places at once
            continue
        if not is_empty(iterators):
            yield position, body, iterators


def _with_fewer_indices(
    what: str, operands: Any, groups: Iterable[tuple[int, ...]], position: int | None, outside: Any
) -> Iterator[Args]:
    """Yield the stagings of those groups of operands that have fewer indices than `outside`."""
    for chosen in groups:
        indices = _indices_of([operands[k] for k in chosen])
        if len(indices) < len(outside):
            yield {what: list(chosen), "reduction": position, "axes": names_of(indices)}


def _computes(operand: Any) -> bool:
    """Tell whether an operand does something, by no reduction, with what it reads, or takes a
    function of indices.
    """
    if isinstance(operand, (Access, Reduce)):
        return False
    if next(accesses(operand), None) is not None:
        return True
    powers = any(not power.exp.is_Integer for power in operand.atoms(sympy.Pow))
    return bool(operand.free_symbols) and (powers or bool(operand.atoms(*EXPENSIVE)))


def _reads_only_weights(factor: Any) -> bool:
    read = list(accesses(factor))
    return bool(read) and all(_is_weight(access.tensor) for access in read)


def _is_weight(tensor: Any) -> bool:
    read = [tensor] if isinstance(tensor, Tensor) else tensor.tensors.values()
    return all(t.role in ("weight", "constant") for t in read)


def _indices_of(factors: list[Any]) -> list[Index]:
    """Return the indices of a subterm in the order of its largest read, then of the others."""
    free: set[Any] = set()
    read: list[Access] = []
    for factor in factors:
        free |= factor.free_symbols
        read += accesses(factor)
    order: dict[Index, None] = {}
    for access in sorted(read, key=lambda access: -len(access.subscripts)):
        for subscript in access.subscripts:
            order.update(dict.fromkeys(_indices_in_order(subscript)))
    indices = [index for index in order if index in free]
    return [*indices, *sorted(free - order.keys(), key=str)]


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
