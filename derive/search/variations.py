"""Variations: steps that leave an expression for another one, before repairs converge again.

Design §8.

All of them are read off the expression: the extents of windows, the strides and dilations beside an
index, the sums that nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, gcd
from typing import Any, NamedTuple

import sympy

from derive.rewriting.body_queries import (
    bound_indices,
    has_reduction,
    index_extents,
)
from derive.rewriting.moves import Move, Rule, moves
from derive.rewriting.paths import Path
from derive.rules.algebra import distribution, staging
from derive.rules.inter import expression_merging, expression_splitting
from derive.rules.intra import traversal_merging, variable_substitution
from derive.search.repairs import mixed_axes, split_move
from einalg.language.index.affine import Affine, Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, unpadded
from einalg.language.ir.traversal import accesses, reductions

MAX_FACTORS = 4  # of a product that merging may make
MAX_BLOCKS = 3  # sizes of blocks tried for one window: those with the least overhang
MAX_PHASES_PER_POINT = (
    2  # of an axis: phases of fewer points each are calls that do next to nothing
)
BILINEAR = "bilinear factorisation"

Terms = list[tuple[Index, int]]  # indices with their coefficients


def program_variations(program: Program, rules: Mapping[str, Rule]) -> Iterator[Move]:
    """Yield steps that concern several statements: siblings that merge, statements that fuse."""
    if expression_merging.RULE.name in rules and len(program.statements) > 1:
        yield from moves(program, [expression_merging.RULE])


def scope_variations(path: Path, scope: Scope, rules: Mapping[str, Rule]) -> Iterator[Move]:
    """Yield steps at one scope."""
    yield from _window_splits(path, scope)
    yield from _output_splits(path, scope)
    if expression_splitting.RULE.name in rules:
        for args in expression_splitting.RULE.find(scope):
            if _is_interleaved(scope, args):
                yield Move(expression_splitting.RULE.name, path, args)
    if BILINEAR in rules:
        for args in rules[BILINEAR].find(scope):
            yield Move(BILINEAR, path, args)
    if has_reduction(scope.body):
        yield from _product_variations(path, scope)


def _product_variations(path: Path, scope: Scope) -> Iterator[Move]:
    for args in distribution.RULE.find(scope):
        yield Move(distribution.RULE.name, path, args)
    for args in staging.RULE.find(scope):
        if args.get("factors") is not None:
            yield Move(staging.RULE.name, path, args)


def merging_moves(path: Path, scope: Scope) -> Iterator[Move]:
    """Join a sum of products with the product that reads it, or with a sum of a common factor.

    The factors can then be taken in another order, or out of the sum.
    """
    for position, inner in enumerate(inner_scopes(scope)):
        if _is_worth_merging(scope, inner):
            yield Move(traversal_merging.RULE.name, path, {"inner": position})


def _is_worth_merging(scope: Scope, inner: Scope) -> bool:
    inner_factors, outer_factors = _factor_count(inner.body), _factor_count(scope.body)
    if not inner_factors:
        return False
    if outer_factors:
        return outer_factors + inner_factors - 1 <= MAX_FACTORS
    return _shares_factor(scope, inner) or _is_scaled(scope, inner)


def _shares_factor(scope: Scope, inner: Scope) -> bool:
    """Tell whether another sum, inside or outside of an inner scope, has a factor of that one."""
    others = [other.body for other in inner_scopes(scope) if other is not inner]
    others += reductions(scope.body)
    operands = _operands(inner.body)
    return any(operands & _operands(body) for body in others if _factor_count(body))


def _operands(body: Any) -> set[Any]:
    """Return what a body reads."""
    return {unpadded(access.base) for access in accesses(body)}


def _is_scaled(scope: Scope, inner: Scope) -> bool:
    """Tell whether an inner scope is read once at each point, in a term that is multiplied."""
    reads = [access for access in accesses(scope.body) if access.tensor == inner]
    if len(reads) != 1 or has_reduction(scope.body):
        return False
    if any(s.as_index() is None for s in reads[0].subscripts if s.terms):
        return False
    for node in sympy.preorder_traversal(scope.body):
        if not isinstance(node, sympy.Mul) or len(node.args) == 1:
            continue
        for factor in node.args:
            if reads[0] in sympy.Add.make_args(factor):
                return True
    return False


def _is_interleaved(scope: Scope, args: Mapping[str, Any]) -> bool:
    """Tell whether the indices of a splitting by phases share quotients with other indices.

    So does `h` in `(h - r + 1)//2`, the subscript of a transposed convolution. The many short
    phases of an axis whose digits are read in another order are none of these.
    """
    if "phases" not in args:
        return False
    names, counts = args["index"], args["phases"]
    if isinstance(names, str):
        names, counts = [names], [counts]
    extents = index_extents(scope.iterators)
    for name, count in zip(names, counts):
        points = ceil(extents[Index(name)] / count)
        if count > MAX_PHASES_PER_POINT * points:
            return False
    interleaved: set[Index] = set()
    for form in _forms(scope):
        for atom, _ in form.terms:
            if not isinstance(atom, Index) and len(atom.argument.indices) > 1:
                interleaved |= atom.argument.indices
    return all(Index(name) in interleaved for name in names)


def _forms(scope: Scope) -> Iterator[Affine]:
    """Yield the subscripts of a body, and the conditions of its reductions."""
    for access in accesses(scope.body):
        subscripts: tuple[Affine, ...] = access.subscripts
        yield from subscripts
    for node in reductions(scope.body):
        for condition in node.where:
            yield condition.form


def _factor_count(body: Any) -> int:
    """Return how many reads a sum multiplies; 0 where the body is no such sum.

    A sum without indices is the padding of a copy.
    """
    if not isinstance(body, Reduce) or body.op != "Sum" or not body.iterators:
        return 0
    factors = sympy.Mul.make_args(body.body)
    if not all(isinstance(factor, Access) for factor in factors):
        return 0
    return len(factors)


class _Window(NamedTuple):
    """The output and the summed indices of one subscript, with their coefficients."""

    outputs: Terms
    taps: Terms


def _windows(scope: Scope) -> Iterator[_Window]:
    """Yield the subscripts that output and summed indices, and nothing else, share."""
    moving = _live_indices(scope.iterators)
    summed: set[Index] = set()
    for node in reductions(scope.body):
        summed |= _live_indices(node.iterators)
    for _, axis in mixed_axes(scope):
        outputs: Terms = []
        taps: Terms = []
        for atom, coefficient in axis.form.terms:
            if not isinstance(atom, Index):
                continue
            if atom in moving:
                outputs.append((atom, coefficient))
            if atom in summed:
                taps.append((atom, coefficient))
        if len(outputs) + len(taps) == len(axis.form.terms):
            yield _Window(outputs, taps)


def _live_indices(iterators: Iterable[LoopIndex]) -> set[Index]:
    """Return the indices that take more than one value."""
    return {it.index for it in iterators if it.extent > 1}


def _window_splits(path: Path, scope: Scope) -> Iterator[Move]:
    """Split the summed indices of windows into blocks: by the strides beside them, and equally."""
    if not isinstance(scope.body, Reduce):
        return
    names = bound_indices(scope)
    for (extent, strides), indices in _taps_by_strides(scope, scope.body).items():
        blocks = [stride for stride in strides if 1 < stride < extent]
        blocks += _equal_blocks(extent)
        for block in list(dict.fromkeys(blocks))[:MAX_BLOCKS]:
            sizes = dict.fromkeys(indices, block)
            yield split_move(path, scope.body.iterators, sizes, 0, names)


def _taps_by_strides(scope: Scope, node: Reduce) -> dict[tuple[int, tuple[int, ...]], list[Index]]:
    """Return the only taps of their windows, by extent and the strides of the output beside them.

    `{(3, (2,)): [r, s]}` stands for a window of three by three taps with stride 2.
    """
    extents = index_extents(node.iterators)
    taps: dict[tuple[int, tuple[int, ...]], list[Index]] = {}
    for window in _windows(scope):
        if len(window.taps) != 1:
            continue
        ((index, coefficient),) = window.taps
        if extents.get(index, 1) > 2:
            strides: set[int] = set()
            for _, stride in window.outputs:
                if stride % coefficient == 0:
                    strides.add(abs(stride) // abs(coefficient))
            taps.setdefault((extents[index], tuple(sorted(strides))), []).append(index)
    return taps


def _equal_blocks(extent: int) -> list[int]:
    """Return the sizes that cut an extent into 2, 3, … parts, the least overhang first.

    >>> _equal_blocks(5)
    [3]
    >>> _equal_blocks(6)
    [3, 2]
    """

    def overhang(parts: int) -> tuple[int, int]:
        return -(-extent // parts) * parts - extent, parts

    return [-(-extent // parts) for parts in sorted(range(2, extent // 2 + 1), key=overhang)]


def _output_splits(path: Path, scope: Scope) -> Iterator[Move]:
    """Split output indices by the dilation of their window, so that each class stands alone.

    With a stride that has a factor in common with the dilation, there are fewer classes.
    """
    extents = index_extents(scope.iterators)
    classes: dict[Index, int] = {}
    for window in _windows(scope):
        dilated = _dilation_classes(window)
        if dilated is not None and 1 < dilated[1] < extents.get(dilated[0], 0):
            classes[dilated[0]] = dilated[1]
    if classes:
        target = variable_substitution.TRAVERSAL
        yield split_move(path, scope.iterators, classes, target, bound_indices(scope))


def _dilation_classes(window: _Window) -> tuple[Index, int] | None:
    """Return the output index of a dilated window, and how many classes of it there are.

    None where several indices move through the window, or its taps have several dilations.
    """
    steps = window.taps
    if not steps:
        steps = [(index, c) for index, c in window.outputs if abs(c) > 1]
    dilations = {abs(c) for _, c in steps}
    if len(dilations) != 1:
        return None
    (dilation,) = dilations
    moving = [(index, c) for index, c in window.outputs if c % dilation]
    if len(moving) != 1:
        return None
    ((index, stride),) = moving
    return index, dilation // gcd(dilation, stride)
