"""Repairs: the rule applications that a reason suggests, by which an expression converges towards an operator (design §7, §8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from derive.matching import Reason, normal_form
from derive.matching.patterns.normal_form import NormalForm, ReadAxis
from derive.rewriting.moves import Move
from derive.rewriting.paths import Path
from derive.rules.algebra import distribution, staging
from derive.rules.intra import summation_splitting, variable_substitution
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import unpadded
from einalg.language.ir.traversal import accesses, reductions

GATHERS = ("mixed", "quotient", "padded", "twice", "parameters")
TO_GATHER = ("padded", "twice", "parameters", "quotient")


def repairs(path: Path, scope: Scope, found: Iterable[Reason]) -> Iterator[Move]:
    """Moves at one scope that remove some of the reasons against an operator, the most telling first."""
    found = list(found)
    kinds = {r.kind for r in found}
    if "body" in kinds or "sum" in kinds:
        yield from _of_body(path, scope)
        return
    if kinds & {"mixed", "quotient"}:
        mixed = [(r.read, r.axis) for r in found if r.kind in ("mixed", "quotient")]
        yield from _skews(path, scope, mixed)
        yield from _splits(path, scope, mixed)
    yield from _of_strays(
        path, scope, {i.name for r in found if r.kind == "stray" for i in r.indices}
    )
    yield from _stagings(path, scope, found)


def _found(path: Path, scope: Scope, rule: Any) -> Iterator[Move]:
    for args in rule.find(scope):
        yield Move(rule.name, path, args)


def _of_body(path: Path, scope: Scope) -> Iterator[Move]:
    """A sum with something around it is split off; longer products and sums of products come apart."""
    for position, node in enumerate(reductions(scope.body)):
        if node is not scope.body:
            yield Move(summation_splitting.RULE.name, path, {"reduction": position, "outer": []})
    if any(True for _ in reductions(scope.body)):
        yield from _found(path, scope, distribution.RULE)
        yield from (move for move in _found(path, scope, staging.RULE) if "factors" in move.args)
    if isinstance(scope.body, Reduce):
        yield from _found(path, scope, summation_splitting.RULE)


def _of_strays(path: Path, scope: Scope, strays: set[str]) -> Iterator[Move]:
    """What is summed over one operand alone is summed first."""
    if isinstance(scope.body, Reduce) and strays & {i.name for i in scope.body.indices}:
        outer = [i.name for i in scope.body.indices if i.name not in strays]
        yield Move(summation_splitting.RULE.name, path, {"reduction": 0, "outer": outer})


# Mixed subscripts.


def _original(scope: Scope, profile: NormalForm, read: int, axis: int) -> tuple[int, Affine] | None:
    """The number of the read in the scope as it is written, and its subscript."""
    base = profile.reads[read].access.base
    tensor = unpadded(base)
    for number, access in enumerate(accesses(scope.body)):
        if unpadded(access.base) == tensor and access.subscripts[axis].terms:
            return number, access.subscripts[axis]
    return None


def _mixed_forms(scope: Scope, mixed: Iterable[tuple[Any, Any]]) -> list[tuple[int, Affine]]:
    profile = normal_form(scope)
    return [f for read, axis in mixed if (f := _original(scope, profile, read, axis)) is not None]


def _splits(path: Path, scope: Scope, mixed: Iterable[tuple[Any, Any]]) -> Iterator[Move]:
    """Keep the summed indices of mixed subscripts outside: all of them, or all but one of each subscript."""
    if not isinstance(scope.body, Reduce):
        return
    extents = {it.index: it.extent for it in scope.body.iterators}
    groups = [_summed(form, extents) for _, form in _mixed_forms(scope, mixed)]
    windows = [g for g in groups if g]
    if not windows:
        return
    choices = [windows]
    if any(len(g) > 1 for g in windows):
        choices = [[g[1:] for g in windows], [g[:-1] for g in windows], windows]
    seen: list[tuple[str, ...]] = []
    for choice in choices:
        outer = tuple(dict.fromkeys(i.name for group in choice for i in group))
        if outer and outer not in seen and len(outer) < len(scope.body.iterators):
            seen.append(outer)
            yield Move(summation_splitting.RULE.name, path, {"reduction": 0, "outer": outer})


def _summed(form: Affine, extents: Any) -> list[Index]:
    """The summed indices of a form, the one with the smallest coefficient first."""
    return sorted(
        (i for i in form.indices if extents.get(i, 1) > 1),
        key=lambda i: (abs(form.coefficient(i)), i.name),
    )


def _skews(path: Path, scope: Scope, mixed: Iterable[tuple[Any, Any]]) -> Iterator[Move]:
    """One new index for the output indices that several mixed subscripts add up, for all of these at once."""
    outputs = {it.index: it for it in scope.iterators}
    taken = {*outputs, *(i for node in reductions(scope.body) for i in node.indices)}
    forward: dict[Index, Affine] = {i: affine(i) for i in outputs}
    backward = dict(forward)
    renamed: dict[Index, Index] = {}
    for number, form in _mixed_forms(scope, mixed):
        own = [
            (i, form.coefficient(i)) for i in form.indices if i in outputs and outputs[i].extent > 1
        ]
        if not form.is_affine():
            yield from _quotient_maps(path, scope, form)
            return
        if len(own) < 2:
            continue
        free = [
            (i, c)
            for i, c in own
            if abs(c) == 1 and i not in renamed and _only_in(scope, i, number)
        ]
        if not free:
            continue
        index, sign = free[0]
        alone = all(i in outputs for i in form.indices)
        part = affine(form.const if alone else 0)
        for i, c in own:
            part = part + affine(i) * c
        part = part * sign
        name = fresh_index("t", {*taken, *renamed.values()})
        renamed[index] = name
        forward[name] = part
        backward[index] = affine(name) - (part - affine(index))
    if renamed:
        order = [renamed.get(i, i) for i in outputs]
        texts = {i.name: str(forward[i]) for i in order}
        yield Move(
            variable_substitution.RULE.name,
            path,
            {
                "target": variable_substitution.TRAVERSAL,
                "forward": texts,
                "backward": {i.name: str(backward[i]) for i in outputs},
            },
        )


def _only_in(scope: Scope, index: Index, number: int) -> bool:
    """Whether no other read moves with an index."""
    return all(
        k == number or all(index not in s.indices for s in access.subscripts)
        for k, access in enumerate(accesses(scope.body))
    )


def _quotient_maps(path: Path, scope: Scope, form: Affine) -> Iterator[Move]:
    """The maps that make a subscript with a quotient bare."""
    for args in variable_substitution.find(scope):
        if args["target"] == variable_substitution.TRAVERSAL and any(
            "//" in text for text in args["forward"].values()
        ):
            yield Move(variable_substitution.RULE.name, path, args)


# Staging.


def _stagings(path: Path, scope: Scope, found: list[Reason]) -> Iterator[Move]:
    """Copies of the reads that are in the way."""
    profile = normal_form(scope)
    wanted = {
        unpadded(profile.reads[r.read].access.base)
        for r in found
        if r.kind in GATHERS and r.read is not None
    }
    if any(r.kind == "parameters" for r in found):
        wanted |= {
            unpadded(read.access.base)
            for read in profile.reads
            if any(axis.index is None for axis in read.axes)
        }
    if not wanted:
        return
    distinct = staging.distinct_reads(scope)
    for args in staging.find(scope):
        if (
            "access" in args
            and args["access"] is not None
            and unpadded(distinct[args["access"]][0].access.base) in wanted
        ):
            yield Move(staging.RULE.name, path, args)


def mixed_axes(scope: Scope) -> list[tuple[int, ReadAxis]]:
    """The subscripts that several indices share and that are no digits of one number, with the number of their read."""
    profile = normal_form(scope)
    return [
        (k, axis)
        for k, read in enumerate(profile.reads)
        for axis in read.axes
        if axis.index is None and not profile.separable(axis)
    ]


def split_move(
    path: Path, iterators: Any, blocks: Mapping[Index, int], target: Any, taken: set[Index]
) -> Move:
    """Several indices at once as (block, place inside it)."""
    taken = set(taken)
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    for it in iterators:
        backward[it.index.name], parts = _halves(it, blocks.get(it.index), taken)
        forward.update(parts)
    return Move(
        variable_substitution.RULE.name,
        path,
        {"target": target, "forward": forward, "backward": backward},
    )


def _halves(it: LoopIndex, block: int | None, taken: set[Index]) -> tuple[str, dict[str, str]]:
    if block is None:
        return it.index.name, {it.index.name: it.index.name}
    high = fresh_index(it.index.name + "1", taken)
    low = fresh_index(it.index.name + "2", taken | {high})
    taken |= {high, low}
    return str(affine(high) * block + low), {
        high.name: str(affine(it.index) // block),
        low.name: str(affine(it.index) % block),
    }
