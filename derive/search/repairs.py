"""Repairs: the moves that a reason suggests, by which an expression converges to an operator.

Design §7, §8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import sympy

from derive.matching import Reason, normal_form
from derive.matching.patterns.normal_form import NormalForm, ReadAxis
from derive.rewriting.body_queries import bound_indices, has_reduction, index_extents, names_of
from derive.rewriting.moves import Move
from derive.rewriting.paths import Path
from derive.rules.algebra import distribution, staging
from derive.rules.intra import summation_splitting, variable_substitution
from derive.rules.intra.variable_substitution import substitution_move
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import unpadded
from einalg.language.ir.traversal import accesses, reductions

GATHERED_KINDS = ("mixed", "quotient", "padded", "twice", "parameters")  # that a copy removes
MIXED_KINDS = ("mixed", "quotient")
MAX_FACTORS = 4  # of a product of which any summed indices are split off

MixedAxis = tuple[Any, Any]  # the number of a read in the normal form, and its axis


def repairs(path: Path, scope: Scope, reasons: Iterable[Reason]) -> Iterator[Move]:
    """Yield moves at one scope that remove some of the reasons, the most telling first."""
    reasons = list(reasons)
    kinds = {reason.kind for reason in reasons}
    if "body" in kinds or "sum" in kinds:
        yield from _body_repairs(path, scope)
        return
    mixed = [(reason.read, reason.axis) for reason in reasons if reason.kind in MIXED_KINDS]
    if mixed:
        yield from _skews(path, scope, mixed)
        yield from _splits(path, scope, mixed)
    yield from _stray_repairs(path, scope, _stray_indices(reasons))
    yield from _stagings(path, scope, reasons)


def _moves_of(path: Path, scope: Scope, rule: Any) -> Iterator[Move]:
    for args in rule.find(scope):
        yield Move(rule.name, path, args)


def _body_repairs(path: Path, scope: Scope) -> Iterator[Move]:
    """Split off a sum with something around it; take longer products and sums of products apart."""
    for position, node in enumerate(reductions(scope.body)):
        if node is not scope.body:
            yield Move(summation_splitting.RULE.name, path, {"reduction": position, "outer": []})
    if has_reduction(scope.body):
        yield from _moves_of(path, scope, distribution.RULE)
        for move in _moves_of(path, scope, staging.RULE):
            if "factors" in move.args:
                yield move
    if isinstance(scope.body, Reduce) and not is_long_product(scope.body):
        yield from _moves_of(path, scope, summation_splitting.RULE)


def is_long_product(node: Reduce) -> bool:
    """Tell whether a sum has too many factors to try one choice of its indices after another.

    The search starts from good orders of such a product.
    """
    return node.op == "Sum" and len(sympy.Mul.make_args(node.body)) > MAX_FACTORS


def _stray_indices(reasons: Iterable[Reason]) -> set[str]:
    strays: set[str] = set()
    for reason in reasons:
        if reason.kind == "stray":
            strays.update(names_of(reason.indices))
    return strays


def _stray_repairs(path: Path, scope: Scope, strays: set[str]) -> Iterator[Move]:
    """Sum first over what stands in one operand alone."""
    if not isinstance(scope.body, Reduce):
        return
    names = names_of(scope.body.indices)
    if not strays.isdisjoint(names):
        outer = [name for name in names if name not in strays]
        yield Move(summation_splitting.RULE.name, path, {"reduction": 0, "outer": outer})


# Mixed subscripts.


def _original(scope: Scope, profile: NormalForm, read: int, axis: int) -> tuple[int, Affine] | None:
    """Return the number of a read in the scope as it is written, and its subscript."""
    tensor = unpadded(profile.reads[read].access.base)
    for number, access in enumerate(accesses(scope.body)):
        if unpadded(access.base) == tensor and access.subscripts[axis].terms:
            return number, access.subscripts[axis]
    return None


def _mixed_forms(scope: Scope, mixed: Iterable[MixedAxis]) -> list[tuple[int, Affine]]:
    profile = normal_form(scope)
    forms = []
    for read, axis in mixed:
        original = _original(scope, profile, read, axis)
        if original is not None:
            forms.append(original)
    return forms


def _splits(path: Path, scope: Scope, mixed: Iterable[MixedAxis]) -> Iterator[Move]:
    """Keep the summed indices of mixed subscripts outside: all, or all but one of each subscript.

    A window `h + r + 2*s` is split with r and s outside, with s alone, and with r alone.
    """
    if not isinstance(scope.body, Reduce):
        return
    seen: list[tuple[str, ...]] = []
    for choice in _window_choices(_windows(scope, scope.body, mixed)):
        names: dict[str, None] = {}
        for indices in choice:
            names.update(dict.fromkeys(names_of(indices)))
        outer = tuple(names)
        if outer and outer not in seen and len(outer) < len(scope.body.iterators):
            seen.append(outer)
            yield Move(summation_splitting.RULE.name, path, {"reduction": 0, "outer": outer})


def _windows(scope: Scope, node: Reduce, mixed: Iterable[MixedAxis]) -> list[list[Index]]:
    """Return the summed indices of each mixed subscript, without the subscripts that have none."""
    extents = index_extents(node.iterators)
    windows = []
    for _, form in _mixed_forms(scope, mixed):
        indices = _summed_indices(form, extents)
        if indices:
            windows.append(indices)
    return windows


def _window_choices(windows: list[list[Index]]) -> list[list[list[Index]]]:
    if all(len(indices) <= 1 for indices in windows):
        return [windows]
    without_first = [indices[1:] for indices in windows]
    without_last = [indices[:-1] for indices in windows]
    return [without_first, without_last, windows]


def _summed_indices(form: Affine, extents: Mapping[Index, int]) -> list[Index]:
    """Return the summed indices of a form, the one with the smallest coefficient first."""

    def rank(index: Index) -> tuple[int, str]:
        return abs(form.coefficient(index)), index.name

    return sorted(_live_indices(form, extents), key=rank)


def _live_indices(form: Affine, extents: Mapping[Index, int]) -> list[Index]:
    """Return the indices of a form that take more than one value in a domain."""
    return [index for index in form.indices if extents.get(index, 1) > 1]


@dataclass(frozen=True)
class _Skew:
    """A form that takes the place of one of its output indices: `t = h + 2*w`, and h from it."""

    index: Index
    name: Index
    forward: Affine
    backward: Affine


def _skews(path: Path, scope: Scope, mixed: Iterable[MixedAxis]) -> Iterator[Move]:
    """Make one index of the output indices that a subscript adds up, for all subscripts at once."""
    used = bound_indices(scope)
    skews: dict[Index, _Skew] = {}
    for number, form in _mixed_forms(scope, mixed):
        if not form.is_affine():
            yield from _quotient_maps(path, scope, form)
            return
        skew = _skew(scope, number, form, skews.keys(), used)
        if skew is not None:
            skews[skew.index] = skew
            used.add(skew.name)
    if skews:
        yield _skew_move(path, scope, skews)


def _skew(
    scope: Scope, number: int, form: Affine, skewed: Set[Index], used: set[Index]
) -> _Skew | None:
    """Return the skew that a mixed subscript of a read suggests, on an index of no other read."""
    extents = index_extents(scope.iterators)
    indices = _live_indices(form, extents)
    if len(indices) < 2:
        return None
    for index in indices:
        sign = form.coefficient(index)
        if abs(sign) == 1 and index not in skewed and _is_only_in(scope, index, number):
            break
    else:
        return None
    # Where no summed index stands beside, the offset goes into the new index too.
    total = affine(form.const if form.indices <= extents.keys() else 0)
    for other in indices:
        total = total + affine(other) * form.coefficient(other)
    total = total * sign
    name = fresh_index("t", used)
    return _Skew(index, name, total, affine(name) - (total - affine(index)))


def _skew_move(path: Path, scope: Scope, skews: Mapping[Index, _Skew]) -> Move:
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    for index in scope.indices:
        skew = skews.get(index)
        if skew is None:
            forward[index.name] = backward[index.name] = str(affine(index))
        else:
            forward[skew.name.name] = str(skew.forward)
            backward[index.name] = str(skew.backward)
    return substitution_move(path, variable_substitution.TRAVERSAL, forward, backward)


def _is_only_in(scope: Scope, index: Index, number: int) -> bool:
    """Tell whether no other read than this one moves with an index."""
    for other, access in enumerate(accesses(scope.body)):
        if other != number and any(index in s.indices for s in access.subscripts):
            return False
    return True


def _quotient_maps(path: Path, scope: Scope, form: Affine) -> Iterator[Move]:
    """Yield the maps that make a subscript with a quotient bare."""
    for args in variable_substitution.find(scope):
        if args["target"] != variable_substitution.TRAVERSAL:
            continue
        if any("//" in text for text in args["forward"].values()):
            yield Move(variable_substitution.RULE.name, path, args)


# Staging.


def _stagings(path: Path, scope: Scope, reasons: list[Reason]) -> Iterator[Move]:
    """Yield copies of the reads that are in the way."""
    wanted = _tensors_to_copy(scope, reasons)
    if not wanted:
        return
    distinct = staging.distinct_reads(scope)
    for args in staging.find(scope):
        number = args.get("access")
        if number is not None and unpadded(distinct[number][0].access.base) in wanted:
            yield Move(staging.RULE.name, path, args)


def _tensors_to_copy(scope: Scope, reasons: list[Reason]) -> set[Any]:
    profile = normal_form(scope)
    wanted = set()
    for reason in reasons:
        if reason.kind in GATHERED_KINDS and reason.read is not None:
            wanted.add(unpadded(profile.reads[reason.read].access.base))
    if any(reason.kind == "parameters" for reason in reasons):
        for read in profile.reads:
            if any(axis.index is None for axis in read.axes):
                wanted.add(unpadded(read.access.base))
    return wanted


def mixed_axes(scope: Scope) -> list[tuple[int, ReadAxis]]:
    """Return the subscripts that several indices share, each with the number of its read.

    The digits of one number, as in `4*i + j` with j below 4, share no subscript.
    """
    profile = normal_form(scope)
    mixed = []
    for number, read in enumerate(profile.reads):
        for axis in read.axes:
            if axis.index is None and not profile.separable(axis):
                mixed.append((number, axis))
    return mixed


def split_move(
    path: Path, iterators: Any, blocks: Mapping[Index, int], target: Any, used: set[Index]
) -> Move:
    """Return the move that makes (block, place inside it) of several indices at once."""
    used = set(used)
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    for it in iterators:
        backward[it.index.name], digits = _digits(it, blocks.get(it.index), used)
        forward.update(digits)
    return substitution_move(path, target, forward, backward)


def _digits(it: LoopIndex, block: int | None, used: set[Index]) -> tuple[str, dict[str, str]]:
    """Return an index from its digits, and its digits: `"4*h1 + h2", {"h1": "h//4", …}`."""
    if block is None:
        return it.index.name, {it.index.name: it.index.name}
    high = fresh_index(it.index.name + "1", used)
    low = fresh_index(it.index.name + "2", used | {high})
    used |= {high, low}
    digits = {
        high.name: str(affine(it.index) // block),
        low.name: str(affine(it.index) % block),
    }
    return str(affine(high) * block + low), digits
