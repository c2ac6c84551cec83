"""Operators applied to tensors: the shapes of their results, and these as expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from derive.substitutions.generation.programs.operators import OperatorChoice
from derive.substitutions.graphs.axes import Axes, Axis
from derive.substitutions.graphs.kinds import KINDS, SCALAR_INPUTS, WrongOperation
from derive.substitutions.sizes.building import (
    BUILDERS,
    AppliedOperator,
    BuiltValue,
    NoExpression,
)
from derive.substitutions.sizes.sizing import Sizing
from einalg.errors import EinalgError
from einalg.language.index.size import Extent
from einalg.language.ir.scope import Scope

History = tuple[Any, ...]  # of an axis: the sizes of the parts it was joined of, with theirs
NO_HISTORY: History = ()


class NotApplicable(Exception):
    """An operator does not take tensors of these shapes."""


class JoinedShape(NamedTuple):
    """The shape of a tensor, the history of each of its axes: where a split would cut it, and the
    type of its elements.
    """

    shape: tuple[int, ...]
    history: tuple[History, ...]
    dtype: str = "f32"


class AppliedResults(NamedTuple):
    """The results of an operator, and the histories of their axes."""

    scopes: tuple[Scope, ...]
    histories: tuple[tuple[History, ...], ...]


def apply(
    operator: OperatorChoice, values: Sequence[Any], histories: Sequence[Sequence[History]]
) -> AppliedResults:
    """Apply an operator to tensors or scopes, whose axes have histories. Raises `NotApplicable`
    where it does not take these.

    >>> import einalg as ea
    >>> from derive.substitutions.generation.programs.operators import operators_of
    >>> (concat,) = operators_of([("concat", {"axis": [1]})], ())
    >>> x, y = ea.tensor("x", (2, 3)), ea.tensor("y", (2, 4))
    >>> result = apply(concat, [x, y], [((), ()), ((), ())])
    >>> result.scopes[0].shape, result.histories[0]
    ((2, 7), ((), ((3, ()), (4, ()))))
    """
    try:
        if operator.function is not None:
            return _function_applied(operator, values)
        return _kind_applied(operator, values, histories)
    except (WrongOperation, NoExpression, EinalgError) as error:
        raise NotApplicable(str(error)) from None


def _function_applied(operator: OperatorChoice, values: Sequence[Any]) -> AppliedResults:
    assert operator.function is not None
    result = operator.function(*values, **dict(operator.parameters))
    if not isinstance(result, Scope):
        raise NotApplicable(f"{operator} gives no expression")
    return AppliedResults((result,), ((NO_HISTORY,) * len(result.shape),))


def _kind_applied(
    operator: OperatorChoice, values: Sequence[Any], histories: Sequence[Sequence[History]]
) -> AppliedResults:
    shapes = [value.shape for value in values]
    _check_ranks(operator, [len(shape) for shape in shapes])
    axes = Axes()
    extents: dict[Axis, Extent] = {}
    inputs = []
    for shape, history in zip(shapes, histories):
        inputs.append([_axis(axes, extents, *pair) for pair in zip(shape, history)])
    parameters = dict(operator.parameters)
    if operator.shape is not None:
        parameters["ndim"] = len(operator.shape)
    results = KINDS[operator.name].axes(axes, parameters, inputs)
    if operator.shape is not None:
        if len(results[0]) != len(operator.shape):
            raise WrongOperation("has another rank")
        for axis, size in zip(results[0], operator.shape):
            if extents.setdefault(axis, size) != size:
                raise WrongOperation("has two axes of one size")
    sizes = _sizes(axes, extents)
    sizing = Sizing(axes, {axis: (size,) for axis, size in sizes.items()})
    applied = AppliedOperator(
        operator.name,
        tuple(parameters.items()),
        tuple([BuiltValue(value, sizing.all_digits(row)) for value, row in zip(values, inputs)]),
        tuple(map(sizing.all_digits, results)),
    )
    scopes = tuple(BUILDERS[operator.name](applied))
    given = []
    for result in results:
        given.append(tuple([_history(axes, sizes, axis) for axis in result]))
    return AppliedResults(scopes, tuple(given))


def _check_ranks(operator: OperatorChoice, ranks: Sequence[int]) -> None:
    kind = KINDS[operator.name]
    if kind.inputs is not None:
        if tuple(ranks) != kind.inputs:
            raise WrongOperation("reads tensors of other ranks")
        return
    scalar = SCALAR_INPUTS.get(operator.name)
    others = [rank for place, rank in enumerate(ranks) if place != scalar]
    if scalar is not None and ranks[scalar] != 0:
        raise WrongOperation("reads a number there")
    wanted = kind.rank(dict(operator.parameters)) or others[0]
    if any(rank != wanted for rank in others):
        raise WrongOperation("reads tensors of one rank")


def _axis(axes: Axes, extents: dict[Axis, Extent], extent: Extent, history: History) -> Axis:
    if not history:
        axis = axes.new()
    else:
        axis = axes.join([_axis(axes, extents, size, inner) for size, inner in history])
    extents[axis] = extent
    return axis


def _sizes(axes: Axes, extents: Mapping[Axis, Extent]) -> dict[Axis, Extent]:
    """Return the extent of each class of axes that has one."""
    sizes: dict[Axis, Extent] = {}
    for axis, extent in [*extents.items(), *axes.numbers]:
        if sizes.setdefault(axes.root(axis), extent) != extent:
            raise WrongOperation("reads tensors of other sizes")
    for whole, parts in axes.sums:
        if any(axes.root(part) not in sizes for part in parts):
            raise WrongOperation("is split where it was joined, but was not joined")
        total = sum([sizes[axes.root(part)] for part in parts], start=0)
        if sizes.setdefault(axes.root(whole), total) != total:
            raise WrongOperation("reads tensors of other sizes")
    for window in axes.windows:
        length, taps = sizes[axes.root(window.axis)], sizes[axes.root(window.taps)]
        sizes.setdefault(axes.root(window.positions), window.number(length, taps))
    return sizes


def _history(axes: Axes, sizes: Mapping[Axis, Extent], axis: Axis) -> History:
    entries = []
    for part in axes.history(axis):
        entries.append((sizes[axes.root(part)], _history(axes, sizes, part)))
    return tuple(entries)
