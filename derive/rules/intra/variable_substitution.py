"""Variable substitution: a bijective map renames the points of a traversal or of a reduction.

`substitution_maps` proposes the maps; a user may give any isl map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import islpy as isl

from derive.rewriting.arguments import parse_form
from derive.rewriting.body_queries import (
    bound_indices,
    enclosing_domain,
    index_ranges,
    indices_of,
    is_empty,
    memoized_per_scope,
    reads,
    reduction_at,
    replace_reduction,
    substitute_conditions,
)
from derive.rewriting.moves import Example, Move, Rule
from derive.rewriting.paths import Path
from derive.rules.intra.substitution_maps import Forms, Map, proposed_maps
from einalg.errors import RuleError
from einalg.language.analysis.simplify import needed_conditions, simplify, simplify_scope
from einalg.language.index.affine import Index
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
    """Propose skews, splits, merges and shifts of the traversal and of every reduction.

    The traversal has reorders too.
    """
    if is_empty(scope.iterators):
        return
    for maps, target in _targets(scope):
        seen: set[Any] = set()
        for forward, backward in maps:
            texts = _texts(forward)
            if target == TRAVERSAL:
                identity = tuple(texts.items())
            else:
                identity = tuple(sorted(texts.values()))
            if identity not in seen:
                seen.add(identity)
                yield {"target": target, "forward": texts, "backward": _texts(backward)}


def _targets(scope: Scope) -> Iterator[tuple[Iterator[Map], Any]]:
    """Yield the maps that are proposed for the traversal, and for each reduction (its position)."""
    contexts = list(reads(scope))
    used = bound_indices(scope)
    yield proposed_maps(scope.iterators, scope.where, contexts, used, ordered=True), TRAVERSAL
    for position, node in enumerate(reductions(scope.body)):
        if node.iterators and not is_empty(node.iterators):
            inside = [read for read in contexts if node in read.enclosing_reductions]
            yield proposed_maps(node.iterators, (), inside, used, ordered=False), position


def _texts(forms: Forms) -> dict[str, str]:
    return {index.name: form_text(form) for index, form in forms.items()}


def _parsed(texts: Mapping[str, str]) -> Forms:
    return {Index(name): parse_form(text) for name, text in texts.items()}


def substituted(
    scope: Scope, target: Any, forward: Mapping[str, str], backward: Mapping[str, str]
) -> Scope:
    """Rename the points of the traversal, or of a reduction, by a map and its inverse.

    `forward` gives every new index as a form in the old ones, `backward` every old one.
    """
    new_forms, old_forms = _parsed(forward), _parsed(backward)
    if target == TRAVERSAL:
        return _substitute_traversal(scope, new_forms, old_forms)
    node = reduction_at(scope, target)
    outer, _ = enclosing_domain(scope, node)
    _check_names(new_forms, outer)
    iterators, where = _image(node.iterators, node.where, new_forms, old_forms, outer)
    renamed = Reduce(node.op, iterators, where, substitute(node.body, old_forms))
    return simplify_scope(replace_reduction(scope, node, renamed))


def _substitute_traversal(scope: Scope, new_forms: Forms, old_forms: Forms) -> Scope:
    iterators, where = _image(scope.iterators, scope.where, new_forms, old_forms, ())
    moved = simplify_scope(Scope(iterators, where, substitute(scope.body, old_forms)))
    read = Access.of(moved, tuple(new_forms[it.index] for it in iterators))
    return simplify_scope(Scope(scope.iterators, scope.where, read))


def _check_names(new_forms: Forms, outer: tuple[LoopIndex, ...]) -> None:
    clash = {it.index.name for it in outer if it.index in new_forms}
    if clash:
        raise RuleError(
            f"index {min(clash)} is already bound around the reduction\n"
            "  give the new index another name"
        )


def _image(
    iterators: tuple[LoopIndex, ...],
    where: Any,
    new_forms: Forms,
    old_forms: Forms,
    outer: tuple[LoopIndex, ...],
) -> tuple[list[LoopIndex], tuple[Constraint, ...]]:
    """Return the box and the conditions of the image of a domain under a bijective map."""
    if not _are_inverse_names(iterators, new_forms, old_forms):
        raise RuleError(
            f"the map must go from the indices {_names(iterators)} to new ones and back\n"
            "  give forward={new: form in the old indices} "
            "and backward={old: form in the new indices}"
        )
    _check_bijective(iterators, where, new_forms, old_forms, outer)
    box = _image_box(iterators, new_forms)
    conditions = list(substitute_conditions(where, old_forms))
    for it in iterators:
        conditions.append(Constraint(old_forms[it.index] - it.low, ">="))
        conditions.append(Constraint(-old_forms[it.index] + (it.high - 1), ">="))
    for index, form in new_forms.items():
        conditions.append(Constraint(form.substitute(old_forms) - index, "=="))
    return box, needed_conditions(conditions, index_ranges((*outer, *box)))


def _names(iterators: Iterable[LoopIndex]) -> str:
    return ", ".join(map(str, indices_of(iterators)))


def _are_inverse_names(
    iterators: tuple[LoopIndex, ...], new_forms: Forms, old_forms: Forms
) -> bool:
    """Tell whether both directions of a map are forms in the indices of the other side."""
    old = index_ranges(iterators).keys()
    if old_forms.keys() != old or not all(form.indices <= old for form in new_forms.values()):
        return False
    return all(form.indices <= new_forms.keys() for form in old_forms.values())


def _image_box(iterators: tuple[LoopIndex, ...], new_forms: Forms) -> list[LoopIndex]:
    if is_empty(iterators):
        return [LoopIndex(index, 0, 0) for index in new_forms]
    ranges = index_ranges(iterators)
    box = []
    for index, form in new_forms.items():
        low, high = simplify(form, ranges).interval(ranges)
        box.append(LoopIndex(index, low, high + 1))
    return box


def _check_bijective(
    iterators: Any, where: Any, new_forms: Forms, old_forms: Forms, outer: Any
) -> None:
    """Raise `RuleError` unless going there and back is the identity on the whole domain."""
    ranges = index_ranges(iterators)
    undecided = []
    for it in iterators:
        returned = simplify(old_forms[it.index].substitute(new_forms), ranges, where)
        if returned.as_index() != it.index:
            undecided.append(returned - it.index)
    if not undecided:
        return
    space = Space(indices_of((*outer, *iterators)))
    points = space.set((*outer, *iterators), where)
    for difference in undecided:
        if not points.is_subset(space.where(Constraint(difference, "=="))):
            raise RuleError(
                "the map is not a bijection with that inverse: "
                f"it returns to a point {difference} away"
            )


def from_isl(scope: Scope, mapping: Any, target: Any = TRAVERSAL) -> dict[str, Any]:
    """Return the arguments of a move for any isl map (text or `islpy.Map`) on a scope.

    It renames the traversal, or a reduction (its position). The input dimensions are the indices in
    order; output dimensions without a name get fresh ones. Raises `RuleError` where the map is no
    bijection on the domain or its inverse is not one quasi-affine form a dimension.
    """
    if target == TRAVERSAL:
        iterators, where = scope.iterators, scope.where
    else:
        iterators, where = reduction_at(scope, target).iterators, ()
    try:
        with bounded():
            relation = isl.Map(mapping) if isinstance(mapping, str) else mapping
            return {"target": target, **_from_isl(scope, relation, iterators, where)}
    except isl.Error as error:
        raise RuleError(
            f"isl cannot read the map: {error}\n  write it as '{{ [h, w] -> [w, h] }}'"
        ) from None


def _from_isl(
    scope: Scope, relation: isl.Map, iterators: tuple[LoopIndex, ...], where: Any
) -> dict[str, Any]:
    count = relation.dim(isl.dim_type.in_)
    if count != len(iterators):
        raise RuleError(
            f"the map takes {count} indices, but there are {len(iterators)}: {_names(iterators)}"
        )
    inputs = indices_of(iterators)
    points = Space(inputs).set(iterators, where)
    on_domain = relation.intersect_domain(points)
    if not on_domain.is_bijective() or not points.is_subset(on_domain.domain()):
        raise RuleError("the map is not a bijection on the domain, so it cannot rename its points")
    outputs = _output_indices(relation, bound_indices(scope))
    forward = _forms(on_domain, inputs, outputs)
    backward = _forms(on_domain.reverse(), outputs, inputs)
    return {"forward": forward, "backward": backward}


def _output_indices(relation: isl.Map, used: set[Index]) -> list[Index]:
    outputs: list[Index] = []
    for dimension in range(relation.dim(isl.dim_type.out)):
        name = relation.get_dim_name(isl.dim_type.out, dimension)
        if name:
            outputs.append(fresh_index(name, set(outputs)))
        else:
            outputs.append(fresh_index("t", used.union(outputs)))
    return outputs


def _forms(relation: isl.Map, indices: list[Index], outputs: list[Index]) -> dict[str, str]:
    """Return each output of a single-valued map as the text of one form over the inputs."""
    function = isl.PwMultiAff.from_map(relation)
    forms = {}
    for dimension, output in enumerate(outputs):
        pieces: dict[isl.Set, isl.Aff] = {}
        # No Python code is called, in which an interrupt would be lost.
        function.get_pw_aff(dimension).foreach_piece(pieces.__setitem__)
        if len(set(map(str, pieces.values()))) != 1:
            raise RuleError(
                f"dimension {dimension} of the map, or of its inverse, needs {len(pieces)} cases\n"
                "  use a map that is one quasi-affine form a dimension"
            )
        forms[output.name] = str(affine_of(next(iter(pieces.values())), indices))
    return forms


def substitution_move(
    path: Path, target: Any, forward: Mapping[str, str], backward: Mapping[str, str]
) -> Move:
    """Return the move that renames the points of a traversal or of a reduction (its position)."""
    args = {"target": target, "forward": forward, "backward": backward}
    return Move(RULE.name, path, args)


RULE = Rule(
    name="variable substitution",
    before="L[x∈X] f(x)",
    after="L[x∈X] {L[y∈Φ(X)] f(Φ⁻¹(y))}[Φ(x)]",
    requires="Φ bijective on X",
    find=find,
    rewrite=substituted,
    example=Example("O[r:3,h:8] = A.pad(1)[h+r-1]*K[r]", {"A": 8, "K": 3}),
)
