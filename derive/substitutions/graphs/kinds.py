"""The operators of rule files: their parameters, the ranks of what they read and give, and what
they demand of axes.

To add one: a class with `ranks` and `axes`, a row of `KINDS`, and a builder in `building.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.substitutions.graphs.axes import Axes, Axis, ConvolutionChannels

MAX_RANK = 8
MAX_NUMBER = 64  # of a tap, a stride, or the parts of a split
ACTIVATIONS = ("none", "relu", "sigmoid", "tanh")
PADDINGS = ("same", "valid")
Parameters = Mapping[str, Any]
AxisLists = list[list[Axis]]
Check = Callable[[Any], bool]


class WrongOperation(Exception):
    """An operation is not one of its kind; the message says why."""


@dataclass(frozen=True)
class OperatorKind:
    """An operator: its parameters with their checks and those that may be left out, how many
    tensors it reads, at least and at most, and the ranks of these and of its results (None: all of
    one rank, which is open).
    """

    axes: Callable[[Axes, Parameters, AxisLists], AxisLists]
    least: int
    most: int
    inputs: tuple[int, ...] | None = None
    result: int | None = None
    required: Mapping[str, tuple[Check, str]] = field(default_factory=dict)
    optional: Mapping[str, tuple[Check, str]] = field(default_factory=dict)

    def check(self, parameters: Parameters, count: int) -> None:
        """Raise `WrongOperation` for parameters or a number of inputs that do not fit."""
        if not self.least <= count <= self.most:
            counts = str(self.least)
            if self.most != self.least:
                counts += f" to {self.most}"
            raise WrongOperation(f"reads {count} tensors, but takes {counts}")
        kinds = {**self.required, **self.optional}
        for name in parameters:
            if name not in kinds:
                raise WrongOperation(
                    f"has a parameter {_shown(name)}, but takes {', '.join(kinds) or 'none'}"
                )
        for name, (fits, description) in kinds.items():
            if name not in parameters:
                if name in self.required:
                    raise WrongOperation(f"has no parameter {name!r}: {description}")
            elif not fits(parameters[name]):
                raise WrongOperation(
                    f"has {name} = {_shown(parameters[name])}, which is not {description}"
                )

    def rank(self, parameters: Parameters) -> int | None:
        """Return the rank that the parameters give to what is read; None where it is open."""
        if "perm" in parameters:
            return len(parameters["perm"])
        return parameters.get("ndim")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]} …"


def is_whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _number(least: int, most: int) -> tuple[Check, str]:
    return lambda value: is_whole(value, least, most), f"a whole number from {least} to {most}"


def _pair(least: int, most: int) -> tuple[Check, str]:
    def fits(value: Any) -> bool:
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        return all(is_whole(number, least, most) for number in value)

    return fits, f"two whole numbers from {least} to {most}"


def _word(*words: str) -> tuple[Check, str]:
    return lambda value: isinstance(value, str) and value in words, f"one of {', '.join(words)}"


def _is_permutation(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) > MAX_RANK:
        return False
    return all(type(axis) is int for axis in value) and sorted(value) == list(range(len(value)))


def _position(parameters: Parameters, axes: Sequence[Axis]) -> int:
    axis = parameters["axis"]
    if axis >= len(axes):
        raise WrongOperation(f"has axis {axis}, but what it reads has {len(axes)} axes")
    return axis


def _elementwise(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    for other in inputs[1:]:
        axes.equate_all(inputs[0], other)
    return [inputs[0]]


def _scaled(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    return [inputs[0]]


def _concat(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    position = _position(parameters, inputs[0])
    for other in inputs[1:]:
        for place, (one, two) in enumerate(zip(inputs[0], other, strict=True)):
            if place != position:
                axes.equate(one, two)
    result = list(inputs[0])
    result[position] = axes.join([part[position] for part in inputs])
    return [result]


def _split(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    position = _position(parameters, inputs[0])
    results = []
    for part in axes.parts(inputs[0][position], parameters["n"]):
        result = list(inputs[0])
        result[position] = part
        results.append(result)
    return results


def _transpose(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    return [[inputs[0][axis] for axis in parameters["perm"]]]


def _matmul(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    (rows, inner), (depth, columns) = inputs
    axes.equate(inner, depth)
    axes.others += [rows, inner, columns]
    return [[rows, columns]]


def _conv2d(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    (batch, data, height, width), (features, depth, *taps) = inputs
    axes.channels.append(ConvolutionChannels(data, depth, features))
    for position, tap in enumerate(taps):
        axes.taps.append(tap)
        if "kernel" in parameters:
            axes.numbers.append((tap, parameters["kernel"][position]))
    space = []
    for axis, tap, stride in zip((height, width), taps, parameters["stride"]):
        space.append(axes.window(axis, tap, stride, parameters["pad"]))
    return [[batch, features, *space]]


def _pool(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    batch, channels, *space = inputs[0]
    positions = []
    for axis, taps, stride in zip(space, parameters["kernel"], parameters["stride"]):
        positions.append(axes.window(axis, axes.number(taps), stride, parameters["pad"]))
    return [[batch, channels, *positions]]


def _enlarge(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    features, depth, *taps = inputs[0]
    axes.taps += taps
    return [[features, depth, *map(axes.number, parameters["kernel"])]]


def _merge(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    features, depth, *taps = inputs[0]
    axes.merged_counts.append(parameters["count"])
    return [[features, axes.join([depth] * parameters["count"]), *taps]]


def _kernel_constant(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    features, depth = axes.several(2)
    axes.diagonals.append((features, depth))
    return [[features, depth, *map(axes.number, parameters["kernel"])]]


def _identity(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    size = axes.new()
    axes.others.append(size)
    return [[size, size]]


def _ones(axes: Axes, parameters: Parameters, inputs: AxisLists) -> AxisLists:
    return [axes.several(parameters.get("ndim", 0))]


AXIS = {"axis": _number(0, MAX_RANK - 1)}
NDIM = {"ndim": _number(0, MAX_RANK)}
ACTIVATION = {"act": _word(*ACTIVATIONS)}
KERNEL = {"kernel": _pair(1, MAX_NUMBER)}
WINDOW = {"stride": _pair(1, MAX_NUMBER), "pad": _word(*PADDINGS)}
KINDS: Mapping[str, OperatorKind] = {
    "ewadd": OperatorKind(_elementwise, 2, 2),
    "ewmul": OperatorKind(_elementwise, 2, 2),
    "relu": OperatorKind(_elementwise, 1, 1),
    "sigmoid": OperatorKind(_elementwise, 1, 1),
    "tanh": OperatorKind(_elementwise, 1, 1),
    "smul": OperatorKind(_scaled, 2, 2),
    "concat": OperatorKind(_concat, 2, MAX_NUMBER, required=AXIS, optional=NDIM),
    "split": OperatorKind(
        _split, 1, 1, required={**AXIS, "n": _number(2, MAX_NUMBER)}, optional=NDIM
    ),
    "transpose": OperatorKind(
        _transpose, 1, 1, required={"perm": (_is_permutation, "a permutation of axes")}
    ),
    "matmul": OperatorKind(_matmul, 2, 2, (2, 2), 2, optional=ACTIVATION),
    "conv2d": OperatorKind(_conv2d, 2, 2, (4, 4), 4, WINDOW, {**KERNEL, **ACTIVATION}),
    "poolavg": OperatorKind(_pool, 1, 1, (4,), 4, {**KERNEL, **WINDOW}, ACTIVATION),
    "poolmax": OperatorKind(_pool, 1, 1, (4,), 4, {**KERNEL, **WINDOW}, ACTIVATION),
    "enlarge": OperatorKind(_enlarge, 1, 1, (4,), 4, KERNEL),
    "merge": OperatorKind(_merge, 1, 1, (4,), 4, required={"count": _number(2, MAX_NUMBER)}),
    "const_iconv": OperatorKind(_kernel_constant, 0, 0, (), 4, KERNEL),
    "const_pool": OperatorKind(_kernel_constant, 0, 0, (), 4, KERNEL),
    "const_imm": OperatorKind(_identity, 0, 0, (), 2),
    "const_one": OperatorKind(_ones, 0, 0, (), None, optional=NDIM),
}
SCALAR_INPUTS = {"smul": 1}  # the input of no axes
