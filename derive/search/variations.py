"""Variations: the steps by which the search leaves an expression for a different one, before repairs converge again (design §8).

All of them are read off the expression: the extents of windows, the strides and dilations beside an index, the sums that nest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any

import sympy

from derive.rewriting.moves import Move, Rule, moves
from derive.rewriting.paths import Path
from derive.rules.algebra import distribution, staging
from derive.rules.inter import expression_merging, expression_splitting
from derive.rules.intra import traversal_merging, variable_substitution
from derive.search.repairs import mixed_axes, split_move
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, unpadded
from einalg.language.ir.traversal import accesses, reductions

MOST_FACTORS = 4  # of a product that merging may make
MOST_BLOCKS = (
    3  # sizes of blocks that are tried for one window, those that cover it with the least overhang
)
BILINEAR = "bilinear factorisation"


def program_variations(program: Program, rules: Mapping[str, Rule]) -> Iterator[Move]:
    """Steps that concern several statements: siblings that merge, statements that fuse."""
    if expression_merging.RULE.name in rules and len(program.statements) > 1:
        yield from moves(program, [expression_merging.RULE])


def scope_variations(path: Path, scope: Scope, rules: Mapping[str, Rule]) -> Iterator[Move]:
    """Steps at one scope."""
    yield from _window_splits(path, scope)
    yield from _output_splits(path, scope)
    for rule in (expression_splitting.RULE, rules.get(BILINEAR)):
        if rule is not None and rule.name in rules:
            for args in rule.find(scope):
                if rule.name == BILINEAR or _interleaved(scope, args):
                    yield Move(rule.name, path, args)
    if any(True for _ in reductions(scope.body)):
        for args in distribution.RULE.find(scope):
            yield Move(distribution.RULE.name, path, args)
        for args in staging.RULE.find(scope):
            if args.get("factors") is not None:
                yield Move(staging.RULE.name, path, args)


def merging_moves(path: Path, scope: Scope) -> Iterator[Move]:
    """A sum of products joins the product that reads it, or the sum whose other terms share a factor with it.

    The factors can then be taken in another order, or out of the sum.
    """
    summed = _factors(scope.body)
    for position, inner in enumerate(inner_scopes(scope)):
        own = _factors(inner.body)
        if own and (
            summed + own - 1 <= MOST_FACTORS
            if summed
            else _has_fellow(scope, inner) or _scaled(scope, inner)
        ):
            yield Move(traversal_merging.RULE.name, path, {"inner": position})


def _has_fellow(scope: Scope, inner: Scope) -> bool:
    """Whether another sum, inside or outside of an inner scope, has a factor in common with one."""
    others = [s.body for s in inner_scopes(scope) if s is not inner] + list(reductions(scope.body))
    own = set(_operands(inner.body))
    return any(_factors(body) and own & set(_operands(body)) for body in others)


def _operands(body: Any) -> list[Any]:
    """What is read."""
    return [unpadded(a.base) for a in accesses(body)]


def _scaled(scope: Scope, inner: Scope) -> bool:
    """Whether an inner scope is read once for each point, and what it is a term of is multiplied by something."""
    found = [a for a in accesses(scope.body) if a.tensor == inner]
    if (
        len(found) != 1
        or any(True for _ in reductions(scope.body))
        or any(s.as_index() is None for s in found[0].subscripts if s.terms)
    ):
        return False
    products = (
        node for node in sympy.preorder_traversal(scope.body) if isinstance(node, sympy.Mul)
    )
    return any(
        found[0] in sympy.Add.make_args(factor)
        for node in products
        for factor in node.args
        if len(node.args) > 1
    )


def _interleaved(scope: Scope, args: Mapping[str, Any]) -> bool:
    """Whether the index of a splitting by phases stands with another one under a quotient, as in a transposed convolution."""
    if "phases" not in args:
        return False
    names = [args["index"]] if isinstance(args["index"], str) else args["index"]
    forms = [s for a in accesses(scope.body) for s in a.subscripts]
    forms += [c.form for node in reductions(scope.body) for c in node.where]
    together = [
        atom.argument.indices
        for form in forms
        for atom, _ in form.terms
        if not isinstance(atom, Index)
    ]
    return all(any(Index(name) in group and len(group) > 1 for group in together) for name in names)


def _factors(body: Any) -> int:
    """Reads that a sum multiplies; 0 where the body is none."""
    if not isinstance(body, Reduce) or body.op != "Sum":
        return 0
    factors = sympy.Mul.make_args(body.body)
    return len(factors) if all(isinstance(f, Access) for f in factors) else 0


def _windows(
    scope: Scope,
) -> Iterator[tuple[Affine, list[tuple[Index, int]], list[tuple[Index, int]]]]:
    """The subscripts that output and summed indices share: each with the (index, coefficient) of both."""
    outputs = {it.index for it in scope.iterators if it.extent > 1}
    summed = {it.index for node in reductions(scope.body) for it in node.iterators if it.extent > 1}
    for _, axis in mixed_axes(scope):
        steps = [(a, c) for a, c in axis.form.terms if isinstance(a, Index)]
        out = [(a, c) for a, c in steps if a in outputs]
        taps = [(a, c) for a, c in steps if a in summed]
        if len(out) + len(taps) == len(axis.form.terms):
            yield axis.form, out, taps


def _window_splits(path: Path, scope: Scope) -> Iterator[Move]:
    """Summed indices of windows in blocks: by the strides of the output beside them, and into any number of equal parts."""
    if not isinstance(scope.body, Reduce):
        return
    extents = {it.index: it.extent for it in scope.body.iterators}
    taps: dict[tuple[int, tuple[int, ...]], list[Index]] = {}
    for _, out, own in _windows(scope):
        for index, coefficient in own:
            if extents.get(index, 1) > 2 and len(own) == 1:
                strides = tuple(
                    sorted({abs(c) // abs(coefficient) for _, c in out if c % coefficient == 0})
                )
                taps.setdefault((extents[index], strides), []).append(index)
    for (extent, strides), indices in taps.items():
        blocks = [s for s in strides if 1 < s < extent]
        parts = sorted(range(2, extent // 2 + 1), key=lambda n: (-(-extent // n) * n - extent, n))
        blocks += [-(-extent // n) for n in parts]
        for block in list(dict.fromkeys(blocks))[:MOST_BLOCKS]:
            yield split_move(
                path, scope.body.iterators, dict.fromkeys(indices, block), 0, _names(scope)
            )


def _output_splits(path: Path, scope: Scope) -> Iterator[Move]:
    """Output indices by the dilation of the window beside them, so that every class of the dilation stands alone.

    With a stride that has a factor in common with the dilation, there are fewer classes.
    """
    extents = {it.index: it.extent for it in scope.iterators}
    by: dict[Index, int] = {}
    for _, out, taps in _windows(scope):
        steps = taps or [(i, c) for i, c in out if abs(c) > 1]
        dilations = {abs(c) for _, c in steps}
        if len(dilations) == 1:
            (dilation,) = dilations
            beside = [(i, c) for i, c in out if c % dilation]
            classes = dilation // gcd(dilation, beside[0][1]) if len(beside) == 1 else 1
            if 1 < classes < extents.get(beside[0][0], 0):
                by[beside[0][0]] = classes
    if by:
        yield split_move(path, scope.iterators, by, variable_substitution.TRAVERSAL, _names(scope))


def _names(scope: Scope) -> set[Index]:
    return {*scope.indices, *(i for node in reductions(scope.body) for i in node.indices)}
