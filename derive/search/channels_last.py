"""Channels of convolutions: what they sum over beside their windows, and what only their weights have; and the moves that bring them last.

The transforms, the products and the direct form of a convolution walk over neighbouring channels where these lie last in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from derive.rewriting.moves import Move, Rule, apply
from derive.rules.algebra import staging
from derive.rules.intra import variable_substitution
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.text import form_text
from einalg.language.ir.body import fresh_index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses, reductions

FEWEST = 8  # channels that are worth a copy


class Channels(NamedTuple):
    """An access by windows, its axes that are summed one by one, and the axes of the result that only the other factor has."""

    access: Access
    summed: tuple[int, ...]
    made: tuple[int, ...]


def convolution_channels(scope: Scope) -> Iterator[Channels]:
    """The channels of every convolution in a scope.

    >>> import einalg as ea
    >>> [(c.summed, c.made) for c in convolution_channels(ea.parse("O[f,h:6] += A[c,h+r]*K[f,c,r]", A=(4, 8), K=(5, 4, 3)))]
    [((0,), (0,))]
    """
    own = {index: k for k, index in enumerate(scope.indices)}
    for node in reductions(scope.body):
        factors = list(dict.fromkeys(accesses(node.body)))
        for access in factors if node.op == "Sum" and len(factors) == 2 else ():
            (other,) = (a for a in factors if a is not access)
            if any(_is_window(s, it, set(own)) for s in access.subscripts for it in node.iterators):
                shared = set(node.indices) & set(axis_indices(other))
                summed = tuple(k for k, index in enumerate(axis_indices(access)) if index in shared)
                yield Channels(
                    access,
                    summed,
                    tuple(
                        sorted(
                            own[i]
                            for i in set(axis_indices(other)) & set(own) - access.free_symbols
                        )
                    ),
                )


def axis_indices(access: Access) -> list[Index | None]:
    """The index that walks over each axis one by one, wherever it begins, as in what is joined of several tensors."""
    return [(s - s.const).as_index() for s in access.subscripts]


def _is_window(subscript: Affine, it: LoopIndex, own: set[Index]) -> bool:
    """Whether an index of the result and a summed one stand in one subscript, and not as the digits of a number."""
    beside = subscript.indices & own
    if it.index not in subscript.indices or not beside:
        return False
    reach = abs(subscript.coefficient(it.index)) * it.extent
    return (
        it.extent == 1
        or not subscript.is_affine()
        or any(abs(subscript.coefficient(index)) < reach for index in beside)
    )


def last(axes: Sequence[int], rank: int) -> list[int]:
    """The order of axes in which some come last.

    >>> last([1], 4)
    [0, 2, 3, 1]
    """
    return sorted(range(rank), key=lambda k: k in axes)


def reorder_move(scope: Scope, name: str, order: Sequence[int]) -> Move:
    """The move that walks over a statement's axes in another order."""
    taken = {*scope.indices, *(i for node in reductions(scope.body) for i in node.indices)}
    names = {}
    for index in (scope.indices[k] for k in order):
        names[index] = fresh_index(index.name, taken)
        taken.add(names[index])
    forward, backward = (
        {new.name: old.name for old, new in names.items()},
        {old.name: new.name for old, new in names.items()},
    )
    return Move(
        variable_substitution.RULE.name,
        (name,),
        {"target": variable_substitution.TRAVERSAL, "forward": forward, "backward": backward},
    )


def channels_last(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, list[Move]]:
    """The program with its convolutions reading copies of inputs in which channels are last, and making such results; the moves.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> p = ea.parse("O[f,h:64] += A[c,h+r]*K[f,c,r]", A=(16, 66), K=(32, 16, 3))
    >>> print(channels_last(Program([("O", p)]), ALL)[0])
    O[f:32, h:64] = (L[h1:64, f1:32](Sum[c:16, r:3]((L[y0:66, y1:16](A[y1, y0]))[h1 + r, c]*K[f1, c, r])))[h, f]
    """
    done = list[Move]()
    for name, scope in program.statements:
        found = [one for one in convolution_channels(scope) if _is_worth(scope, one)]
        if len(found) == 1:
            for move in _moves(program, name, found[0]):
                program = apply(program, move, rules)
                done.append(move)
    return program, done


def _is_worth(scope: Scope, found: Channels) -> bool:
    """Whether there are many channels on both sides, in a tensor that is given, not all last in it."""
    tensor = found.access.tensor
    if not isinstance(tensor, Tensor) or tensor.role != "input":
        return False
    summed, made = (
        prod(extents[k] for k in axes)
        for extents, axes in ((tensor.shape, found.summed), (scope.shape, found.made))
    )
    return min(summed, made) >= FEWEST


def _moves(program: Program, name: str, found: Channels) -> Iterator[Move]:
    """A copy of what is read, and another order of the result, where these are not so already."""
    scope, subscripts = program[name], found.access.subscripts
    order = last(found.summed, len(subscripts))
    if order != sorted(order):
        moving, staged = (
            [(axis, subscripts[axis]) for axis in order if subscripts[axis].terms],
            list(subscripts),
        )
        for number, (axis, _) in enumerate(moving):
            staged[axis] = affine(Index(f"y{number}"))
        position = next(
            number
            for number, same in enumerate(staging.distinct_reads(scope))
            if same[0].access == found.access
        )
        args = {
            "access": position,
            "axes": [form_text(form) for _, form in moving],
            "subscripts": [form_text(s) for s in staged],
        }
        yield Move(staging.RULE.name, (name,), args)
    if (order := last(found.made, scope.rank)) != sorted(order):
        yield reorder_move(scope, name, order)
