"""Variable substitution: the points of a traversal or of a reduction are named anew by a bijective map.

The maps are found (`substitution_maps`); a user may give any isl map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import islpy as isl

from derive.rewriting.arguments import parse_form
from derive.rewriting.body_queries import (
    ReadContext,
    enclosing_domain,
    memoized_per_scope,
    reads,
    reduction_at,
    replace_reduction,
)
from derive.rewriting.moves import Example, Rule
from derive.rules.intra.substitution_maps import Forms, Map, proposed_maps
from einalg.errors import RuleError
from einalg.language.analysis.simplify import needed_conditions, simplify, simplify_scope
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import Space, affine_of, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.text import form_text
from einalg.language.ir.body import Reduce, fresh_index, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

TRAVERSAL = "traversal"


@memoized_per_scope
def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Skews, splits, merges and shifts of the traversal and of every reduction, and reorders of the traversal."""
    found = list(reads(scope))
    taken = _names(scope)
    for proposed, target in _targets(scope, found, taken):
        seen: set[Any] = set()
        for forward, backward in proposed:
            texts = _texts(forward)
            what = tuple(texts.items()) if target == TRAVERSAL else tuple(sorted(texts.values()))
            if what not in seen:
                seen.add(what)
                yield {"target": target, "forward": texts, "backward": _texts(backward)}


def _targets(
    scope: Scope, found: list[ReadContext], taken: set[Index]
) -> Iterator[tuple[Iterator[Map], Any]]:
    yield proposed_maps(scope.iterators, scope.where, found, taken, ordered=True), TRAVERSAL
    for position, node in enumerate(reductions(scope.body)):
        if node.iterators:
            inside = [r for r in found if node in r.enclosing_reductions]
            yield proposed_maps(node.iterators, (), inside, taken, ordered=False), position


def _names(scope: Scope) -> set[Index]:
    return {*scope.indices, *(i for node in reductions(scope.body) for i in node.indices)}


def _texts(forms: Forms) -> dict[str, str]:
    return {i.name: form_text(f) for i, f in forms.items()}


def substituted(
    scope: Scope, target: Any, forward: Mapping[str, str], backward: Mapping[str, str]
) -> Scope:
    """Rename the points of the traversal, or of a reduction, by `forward` (new index: form in the old) and its inverse."""
    ahead = {Index(name): parse_form(text) for name, text in forward.items()}
    back = {Index(name): parse_form(text) for name, text in backward.items()}
    if target == TRAVERSAL:
        return _substitute_traversal(scope, ahead, back)
    node = reduction_at(scope, target)
    outer, _ = enclosing_domain(scope, node)
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
        raise RuleError(
            f"index {clash[0]} is already bound around the reduction\n  give the new index another name"
        )


def _renamed(
    iterators: tuple[LoopIndex, ...],
    where: Any,
    ahead: Forms,
    back: Forms,
    outer: tuple[LoopIndex, ...],
) -> tuple[list[LoopIndex], tuple[Constraint, ...], Forms]:
    """Ranges and conditions of the image of a domain under a bijective map, and the substitution for its body."""
    own = {it.index for it in iterators}
    if (
        set(back) != own
        or any(f.indices - own for f in ahead.values())
        or any(f.indices - set(ahead) for f in back.values())
    ):
        raise RuleError(
            f"the map must go from the indices {', '.join(str(it.index) for it in iterators)} to new ones and back\n"
            "  give forward={new: form in the old indices} and backward={old: form in the new indices}"
        )
    _check_bijective(iterators, where, ahead, back, outer)
    box = _image_box(iterators, ahead)
    ranges = {it.index: (it.low, it.high) for it in (*outer, *box)}
    conditions = [c.substitute(back) for c in where]
    for it in iterators:
        conditions += [
            Constraint(back[it.index] - it.low, ">="),
            Constraint(-back[it.index] + (it.high - 1), ">="),
        ]
    conditions += [Constraint(f.substitute(back) - i, "==") for i, f in ahead.items()]
    return box, needed_conditions(conditions, ranges), back


def _image_box(iterators: tuple[LoopIndex, ...], ahead: Forms) -> list[LoopIndex]:
    ranges = {it.index: (it.low, it.high) for it in iterators}
    if any(it.extent <= 0 for it in iterators):
        return [LoopIndex(i, 0, 0) for i in ahead]
    bounds = {i: simplify(f, ranges).interval(ranges) for i, f in ahead.items()}
    return [LoopIndex(i, low, high + 1) for i, (low, high) in bounds.items()]


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
            raise RuleError(
                f"the map is not a bijection with that inverse: it returns to a point {difference} away"
            )


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
        raise RuleError(
            f"isl cannot read the map: {error}\n  write it as '{{ [h, w] -> [w, h] }}'"
        ) from None


def _from_isl(
    scope: Scope, given: isl.Map, iterators: tuple[LoopIndex, ...], where: Any
) -> dict[str, Any]:
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
    example=Example("O[r:3,h:8] = A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
