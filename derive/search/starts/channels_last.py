"""Channels of convolutions, and the moves that bring them last in memory.

Channels are what a convolution sums over beside its windows, and what only its weights have. The
transforms, the products and the direct form of a convolution walk over neighbouring channels where
these lie last in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from derive.rewriting.body_queries import bound_indices
from derive.rewriting.moves import Move, Rule, apply
from derive.rules.algebra import staging
from derive.rules.intra import variable_substitution
from derive.rules.intra.variable_substitution import substitution_move
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.text import form_text
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses, reductions

MIN_CHANNELS = 8  # that are worth a copy


class Channels(NamedTuple):
    """The channels of a convolution: axes of its data, and axes of its result.

    `access` reads the data by windows, `summed` are its axes that are summed one by one, `produced`
    those axes of the result that only the weights have.
    """

    access: Access
    summed: tuple[int, ...]
    produced: tuple[int, ...]


def convolution_channels(scope: Scope) -> Iterator[Channels]:
    """Yield the channels of every convolution in a scope.

    >>> import einalg as ea
    >>> convolution = ea.parse("O[f,h:6] += A[c,h+r]*K[f,c,r]", A=(4, 8), K=(5, 4, 3))
    >>> [(c.summed, c.produced) for c in convolution_channels(convolution)]
    [((0,), (0,))]
    """
    for node in reductions(scope.body):
        factors = list(dict.fromkeys(accesses(node.body)))
        if node.op != "Sum" or len(factors) != 2:
            continue
        for data, weights in (factors, factors[::-1]):
            if _reads_by_windows(data, node, set(scope.indices)):
                yield _channels(scope, node, data, weights)


def _channels(scope: Scope, node: Reduce, data: Access, weights: Access) -> Channels:
    in_data, in_weights = data.free_symbols, set(axis_indices(weights))
    summed = []
    for axis, index in enumerate(axis_indices(data)):
        if index in in_weights and index in node.indices:
            summed.append(axis)
    produced = []
    for axis, index in enumerate(scope.indices):
        if index in in_weights and index not in in_data:
            produced.append(axis)
    return Channels(data, tuple(summed), tuple(produced))


def axis_indices(access: Access) -> list[Index | None]:
    """Return the index that walks over each axis one by one; None where none does.

    It may begin anywhere, as in what is joined of several tensors.
    """
    return [(s - s.const).as_index() for s in access.subscripts]


def _reads_by_windows(access: Access, node: Reduce, outputs: set[Index]) -> bool:
    for subscript in access.subscripts:
        if any(is_window(subscript, it, outputs) for it in node.iterators):
            return True
    return False


def is_window(subscript: Affine, it: LoopIndex, outputs: set[Index]) -> bool:
    """Tell whether a subscript adds an index of the result and a summed one.

    The digits of a number, as in `4*h + r` with r below 4, are no window.
    """
    moving = subscript.indices & outputs
    if it.index not in subscript.indices or not moving:
        return False
    if it.extent == 1 or not subscript.is_affine():
        return True
    reach = abs(subscript.coefficient(it.index)) * it.extent
    return any(abs(subscript.coefficient(index)) < reach for index in moving)


def last(axes: Sequence[int], rank: int) -> list[int]:
    """Return the order of axes in which some come last.

    >>> last([1], 4)
    [0, 2, 3, 1]
    """
    return sorted(range(rank), key=lambda axis: axis in axes)


def reorder_move(scope: Scope, name: str, order: Sequence[int]) -> Move:
    """Return the move that walks over a statement's axes in another order."""
    used = bound_indices(scope)
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    for axis in order:
        old = scope.indices[axis]
        new = fresh_index(old.name, used)
        used.add(new)
        forward[new.name] = old.name
        backward[old.name] = new.name
    return substitution_move((name,), variable_substitution.TRAVERSAL, forward, backward)


def channels_last(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, list[Move]]:
    """Return the program with the channels of its convolutions last, and the moves.

    They read copies of inputs in which channels are last, and make such results.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> p = ea.parse("O[f,h:64] += A[c,h+r]*K[f,c,r]", A=(16, 66), K=(32, 16, 3))
    >>> for move in channels_last(Program([("O", p)]), ALL)[1]:
    ...     print(move)
    staging at O: access=0, axes=(h + r, c), subscripts=(y1, y0)
    variable substitution at O: target=traversal, forward={h1: h, f1: f}, backward={h: h1, f: f1}
    """
    steps = list[Move]()
    for name, scope in program.statements:
        convolutions = [one for one in convolution_channels(scope) if _is_worth(scope, one)]
        if len(convolutions) == 1:
            for move in _moves(program, name, convolutions[0]):
                program = apply(program, move, rules)
                steps.append(move)
    return program, steps


def _is_worth(scope: Scope, channels: Channels) -> bool:
    """Tell whether an input has many channels, and the result too."""
    tensor = channels.access.tensor
    if not isinstance(tensor, Tensor) or tensor.role != "input":
        return False
    summed = prod(tensor.shape[axis] for axis in channels.summed)
    produced = prod(scope.shape[axis] for axis in channels.produced)
    return min(summed, produced) >= MIN_CHANNELS


def _moves(program: Program, name: str, channels: Channels) -> Iterator[Move]:
    """Yield a copy of the data, and another order of the result, where these are not so already."""
    scope = program[name]
    order = last(channels.summed, len(channels.access.subscripts))
    if order != sorted(order):
        yield Move(staging.RULE.name, (name,), _copy_arguments(scope, channels.access, order))
    order = last(channels.produced, scope.rank)
    if order != sorted(order):
        yield reorder_move(scope, name, order)


def _copy_arguments(scope: Scope, access: Access, order: Sequence[int]) -> dict[str, Any]:
    """Return the arguments of the staging that copies a tensor with its axes in another order."""
    axes: list[str] = []
    staged = list(access.subscripts)
    for axis in order:
        if access.subscripts[axis].terms:
            staged[axis] = affine(Index(f"y{len(axes)}"))
            axes.append(form_text(access.subscripts[axis]))
    distinct = [equal_reads[0].access for equal_reads in staging.distinct_reads(scope)]
    subscripts = list(map(form_text, staged))
    return {"access": distinct.index(access), "axes": axes, "subscripts": subscripts}
