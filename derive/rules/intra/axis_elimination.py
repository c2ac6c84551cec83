"""Axis elimination: a traversal is left to the forms of its indices that its body depends on.

It is a variable substitution by a map that is not injective. The inner scope of a separable filter,
`L[r,t,j](Sum[s](A[t,j+s]), where=t>=r)`, loses the axis `r`; `L[i,r,j](Sum[s](A[i+r,j+s]))` has one
axis for `i + r`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import islpy as isl

from derive.rewriting.arguments import parse_form
from derive.rewriting.body_queries import (
    bound_indices,
    bounding_box,
    has_no_points,
    holds_everywhere,
    index_ranges,
    indices_of,
    is_empty,
    memoized_per_scope,
    reduction_at,
    replace_reduction,
)
from derive.rewriting.domains import is_applicable
from derive.rewriting.moves import Example, Rule
from derive.rules.intra.integer_forms import IntegerBasis, Row, independent_forms
from einalg.errors import RuleError
from einalg.language.analysis.simplify import needed_conditions, simplify, simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Affine, Index, IndexArithmetic, as_form
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, affine_of, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.text import form_text
from einalg.language.ir.body import Reduce, as_factor, fresh_index, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

Forms = dict[Index, Affine]


class Dependence(NamedTuple):
    """A form of the body, with the ranges of the reduced indices around it."""

    form: Affine
    ranges: dict[Index, tuple[int, int]]


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Propose the fewest forms that the body depends on, where they take fewer values.

    A reduction loses the indices that stand in nothing that is reduced.
    """
    forms = fewest_forms(scope)
    if forms is not None:
        args = elimination_arguments(*forms)
        if is_applicable(eliminate, scope, args):
            yield args
    for position, node in enumerate(reductions(scope.body)):
        repeated = [it.index.name for it in node.iterators if _is_repeated(node, it)]
        if repeated and not is_empty(node.iterators):
            yield {"reduction": position, "indices": repeated}


def elimination_arguments(forward: Forms, backward: Forms) -> dict[str, Any]:
    """Return the arguments of the move to these forms."""
    return {"forward": _texts(forward), "backward": _texts(backward)}


def _is_repeated(node: Reduce, it: LoopIndex) -> bool:
    """Tell whether a reduction meets the same values at every value of an index, of several."""
    return it.extent > 1 and _is_free_of(node, it.index)


def _is_free_of(node: Reduce, index: Index) -> bool:
    if any(index in condition.indices for condition in node.where):
        return False
    return index not in node.body.free_symbols


def _texts(forms: Forms) -> dict[str, str]:
    return {index.name: form_text(form) for index, form in forms.items()}


def fewest_forms(scope: Scope) -> tuple[Forms, Forms] | None:
    """Return the forms a body depends on, and the indices from these; None where nothing is gained.

    The forms run through the smaller box then.
    """
    if is_empty(scope.iterators):
        return None
    basis = _basis(scope.body, scope.iterators)
    if basis is None or _points(basis, scope.iterators) >= prod(scope.shape):
        return None
    used = bound_indices(scope)
    names: list[Index] = []
    forms: list[Affine] = []
    for row in basis.forms:
        form = _combination(row, scope.indices)
        name = form.as_index()
        if name is None:
            name = fresh_index("t", used)
            used.add(name)
        names.append(name)
        forms.append(form)
    forward: Forms = {}
    for place in _in_order_of_axes(basis.forms, scope.iterators):
        forward[names[place]] = forms[place]
    backward: Forms = {}
    for index, row in zip(scope.indices, basis.inverse):
        backward[index] = _combination(row, names)
    return forward, backward


def _in_order_of_axes(rows: Sequence[Row], iterators: Sequence[LoopIndex]) -> list[int]:
    """Return the places of forms in the order of the axes along which each moves the furthest."""

    def furthest(place: int) -> tuple[int, int]:
        reach = [abs(c) * (it.extent - 1) for c, it in zip(rows[place], iterators)]
        return reach.index(max(reach)), place

    return sorted(range(len(rows)), key=furthest)


def distinct_points(body: Any, iterators: Sequence[LoopIndex]) -> int:
    """Return at how many points of a box a body must be computed, as the fewest forms tell.

    >>> import einalg as ea
    >>> node = ea.parse("O[i:10,j:9] = Sum[r:3](A[i+r])", A=(12,)).body
    >>> i, j, r = ea.indices("i j r")
    >>> distinct_points(node.body, [LoopIndex(i, 0, 10), LoopIndex(j, 0, 9), LoopIndex(r, 0, 3)])
    12
    """
    points = prod(it.extent for it in iterators)
    basis = _basis(body, iterators)
    if basis is None:
        return points
    return min(points, _points(basis, iterators))


def _basis(body: Any, iterators: Sequence[LoopIndex]) -> IntegerBasis | None:
    """Return the fewest forms that a body depends on; None where these are all the indices."""
    rows = coefficient_rows(body, indices_of(iterators))
    if _have_full_rank(rows, len(iterators)):
        return None
    basis = independent_forms(rows, [it.extent for it in iterators])
    if len(basis.forms) == len(iterators):
        return None
    return basis


def _have_full_rank(rows: Sequence[Row], count: int) -> bool:
    """Tell at a glance that every index stands alone in some form."""
    alone: set[int] = set()
    for row in rows:
        live = [position for position, coefficient in enumerate(row) if coefficient]
        if len(live) == 1 and abs(row[live[0]]) == 1:
            alone.add(live[0])
    return len(alone) == count


def _points(basis: IntegerBasis, iterators: Sequence[LoopIndex]) -> int:
    """Return the points of the box through which the forms run."""
    points = 1
    for row in basis.forms:
        points *= 1 + sum(abs(c) * (it.extent - 1) for c, it in zip(row, iterators))
    return points


def _combination(row: Sequence[int], indices: Sequence[Index]) -> Affine:
    total = affine(0)
    for coefficient, index in zip(row, indices):
        if coefficient:
            total = total + affine(index).scaled(coefficient)
    return total


def coefficient_rows(body: Any, indices: Sequence[Index]) -> list[Row]:
    """Return the coefficients of some indices in each form of a body, each row once.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i:4,r:3] += A[i+2*r,k]*x[k]", A=(8, 5), x=(5,))
    >>> coefficient_rows(scope.body, scope.indices)
    [(1, 2)]
    """
    rows: dict[Row, None] = {}
    for dependence in dependences(body):
        for form in _linear_parts(dependence.form):
            row = tuple(form.coefficient(index) for index in indices)
            if any(row):
                rows[row] = None
    return list(rows)


def _linear_parts(form: Affine) -> Iterator[Affine]:
    """Yield the form without its quotients, and the arguments of these."""
    yield form
    for atom, _ in form.terms:
        if not isinstance(atom, Index):
            yield from _linear_parts(atom.argument)


def dependences(body: Any) -> list[Dependence]:
    """Return the subscripts of a body, the conditions of its sums, and what else its indices do."""
    return list(_dependences(body, {}))


def _dependences(body: Any, ranges: dict[Index, tuple[int, int]]) -> Iterator[Dependence]:
    if isinstance(body, Access):
        for subscript in body.subscripts:
            yield Dependence(subscript, ranges)
    elif isinstance(body, IndexArithmetic):
        yield Dependence(as_form(body), ranges)
    elif isinstance(body, Reduce):
        inside = {**ranges, **index_ranges(body.iterators)}
        for condition in body.where:
            yield Dependence(condition.form, inside)
        yield from _dependences(body.body, inside)
    else:
        for argument in body.args:
            yield from _dependences(argument, ranges)


def eliminate(
    scope: Scope,
    forward: Mapping[str, str] | None = None,
    backward: Mapping[str, str] | None = None,
    reduction: int | None = None,
    indices: Sequence[str] = (),
) -> Scope:
    """Compute a body once for all points at which some forms of the indices agree.

    `forward` gives the index of every new axis as a form in the old ones, `backward` an old index
    for each point of the new axes: any one at which the body is the same. Or some `indices` of a
    `reduction`, by position, are left out: a sum is then multiplied by the number of their values.
    """
    if (forward is None or backward is None) == (reduction is None):
        raise RuleError("axis elimination takes forward= and backward=, or reduction= and indices=")
    if forward is None or backward is None:
        return _eliminate_reduced(scope, reduction, indices)
    return _eliminate_axes(scope, forward, backward)


def _eliminate_reduced(scope: Scope, reduction: int | None, indices: Sequence[str]) -> Scope:
    node = reduction_at(scope, reduction)
    remaining: list[LoopIndex] = []
    repeats = 1
    for it in node.iterators:
        if it.index.name not in indices:
            remaining.append(it)
        elif it.extent <= 0 or not _is_free_of(node, it.index):
            raise RuleError(f"the values that are reduced are not the same at each value of {it}")
        else:
            repeats *= it.extent
    if not indices or len(remaining) + len(set(indices)) != len(node.iterators):
        raise RuleError(
            f"the reduction has the indices {', '.join(map(str, node.indices))}, "
            f"not all of {', '.join(indices) or 'none'}"
        )
    once = Reduce(node.op, remaining, node.where, node.body)
    if not remaining and not node.where:
        once = as_factor(node.body)
    return simplify_scope(replace_reduction(scope, node, _REPEATED[node.op](once, repeats)))


_REPEATED: dict[str, Callable[[Any, int], Any]] = {
    "Sum": lambda value, count: count * value,
    "Prod": lambda value, count: value**count,
    "Max": lambda value, _: value,
    "Min": lambda value, _: value,
}


def _eliminate_axes(scope: Scope, forward: Mapping[str, str], backward: Mapping[str, str]) -> Scope:
    forms = {Index(name): parse_form(text) for name, text in forward.items()}
    choice = {Index(name): parse_form(text) for name, text in backward.items()}
    if has_no_points(scope.iterators, scope.where):
        raise RuleError("the scope has no points")
    _check_names(scope, forms, choice)
    _check_same_values(scope, forms, choice)
    iterators, where = _image(scope, forms)
    inner = simplify_scope(Scope(iterators, where, substitute(scope.body, choice)))
    check_scope(inner)
    read = Access.of(inner, tuple(forms.values()))
    return simplify_scope(Scope(scope.iterators, scope.where, read))


def _check_names(scope: Scope, forms: Forms, choice: Forms) -> None:
    old = set(scope.indices)
    are_forms = all(form.indices <= old for form in forms.values())
    if not are_forms or choice.keys() != old:
        raise RuleError(
            f"the forms must be in the indices {', '.join(map(str, scope.indices)) or '()'}\n"
            "  give forward={new: form in the old indices} "
            "and backward={old: form in the new indices}"
        )
    for form in choice.values():
        if not form.indices <= forms.keys():
            raise RuleError(f"{form} has indices that are none of the new axes")
    for node in reductions(scope.body):
        for index in node.indices:
            if index in forms:
                raise RuleError(
                    f"index {index} is bound in the body\n  give the new axis another name"
                )


def _check_same_values(scope: Scope, forms: Forms, choice: Forms) -> None:
    """Raise `RuleError` unless the body is the same at the point that is chosen for each point."""
    returned = {old: form.substitute(forms) for old, form in choice.items()}
    for dependence in dependences(scope.body):
        ranges = {**scope.ranges, **dependence.ranges}
        difference = dependence.form.substitute(returned) - dependence.form
        difference = simplify(difference, ranges, scope.where)
        if difference != 0 and not _vanishes(difference, scope, ranges):
            raise RuleError(
                f"the body depends on {dependence.form}, which the new axes do not determine"
            )


def _vanishes(difference: Affine, scope: Scope, ranges: Any) -> bool:
    iterators = [LoopIndex(index, low, high) for index, (low, high) in ranges.items()]

    def question() -> bool:
        space = Space(indices_of(iterators))
        points = space.set(iterators, scope.where)
        return points.is_subset(space.where(Constraint(difference, "==")))

    return bool(difference.terms) and holds_everywhere(question)


def _image(scope: Scope, forms: Forms) -> tuple[list[LoopIndex], tuple[Constraint, ...]]:
    """Return the box of the values of some forms on a domain, and the conditions on these."""
    if not scope.where and _is_box_of_values(scope, forms):
        return _box_of_values(scope, forms), ()
    indices = list(forms)
    try:
        with bounded():
            points = Space(scope.indices).map(list(forms.values()))
            image = points.intersect_domain(scope.domain).range().coalesce()
            bounds = bounding_box(image) or ()
            iterators = [LoopIndex(index, *pair) for index, pair in zip(indices, bounds)]
            conditions = _conditions(image, indices)
    except isl.Error as error:
        raise RuleError(f"isl does not tell the domain that is left: {error}") from None
    return iterators, needed_conditions(conditions, index_ranges(iterators))


def _is_box_of_values(scope: Scope, forms: Forms) -> bool:
    """Tell at a glance that independent forms take each value between their least and greatest."""
    seen: set[Index] = set()
    for form in forms.values():
        if not form.is_affine() or not seen.isdisjoint(form.indices):
            return False
        seen |= form.indices
        steps: list[tuple[int, int]] = []
        for index in form.indices:
            low, high = scope.ranges[index]
            steps.append((abs(form.coefficient(index)), high - low - 1))
        reach = 1
        for step, count in sorted(steps):
            if step > reach:
                return False
            reach += step * count
    return True


def _box_of_values(scope: Scope, forms: Forms) -> list[LoopIndex]:
    iterators = []
    for index, form in forms.items():
        low, high = form.interval(scope.ranges)
        iterators.append(LoopIndex(index, low, high + 1))
    return iterators


def _conditions(image: isl.Set, indices: Sequence[Index]) -> list[Constraint]:
    """Return the conditions on the points of a set; of its hull, where it has gaps or parts."""
    basic_sets = image.compute_divs().get_basic_sets()
    whole = basic_sets[0]
    if len(basic_sets) > 1:
        whole = image.remove_divs().simple_hull()
    conditions = []
    for constraint in whole.get_constraints():
        form = affine_of(constraint.get_aff(), indices)
        conditions.append(Constraint(form, "==" if constraint.is_equality() else ">="))
    return conditions


RULE = Rule(
    name="axis elimination",
    before="L[x∈X] f(x);  Σ[s,t] g(s);  Max[s,t] g(s)",
    after="L[x∈X] {L[y∈Φ(X)] f(Ψ(y))}[Φ(x)];  |t|·Σ[s] g(s);  Max[s] g(s)",
    requires=(
        "f(Ψ(Φ(x))) = f(x) on X: the body depends on x through Φ alone; "
        "t takes a value, and no condition holds it"
    ),
    find=find,
    rewrite=eliminate,
    section="beyond EinNet",
    example=Example("O[r:3,i:6,j:8] += A[i+r,j,k]", {"A": (8, 8, 5)}),
)
