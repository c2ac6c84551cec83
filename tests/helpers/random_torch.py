"""Random programs of torch operators, and what they give against torch itself.

Inputs are multiples of 1/4, with some NaN, infinities and zeros of both signs, so that sums and
products of few are exact, and torch and einalg take the same branches. A value that is rounded is
`rough`: no operator with a jump reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

Function = Callable[..., Any]
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0)
MAX_ELEMENTS = 3_000
FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Operator:
    """A function of a tensor, with words for it; it may make values `rough`, or have a `jump`."""

    text: str
    function: Function
    rough: bool = False
    jump: bool = False


@dataclass(frozen=True)
class Program:
    """Operators one after the other; those of two operands read an earlier value as well."""

    start: int
    steps: tuple[tuple[Operator, int | None], ...] = ()

    def __call__(self, *arrays: Any) -> Any:
        values = [arrays[self.start]]
        for operator, other in self.steps:
            operands = [values[-1]] if other is None else [values[-1], values[other]]
            values.append(operator.function(*operands))
        return values[-1]

    def __str__(self) -> str:
        texts = [f"{op.text}{'' if o is None else f' of value {o}'}" for op, o in self.steps]
        return f"input {self.start}: " + ", ".join(texts)


class Several(torch.nn.Module):
    """Several programs of the same inputs."""

    def __init__(self, programs: Sequence[Program]):
        super().__init__()
        self.programs = list(programs)

    def forward(self, *arrays: Any) -> Any:
        return tuple(program(*arrays) for program in self.programs)


ANY = [
    Operator("neg", torch.neg),
    Operator("abs", torch.abs),
    Operator("relu", torch.relu),
    Operator("x*x", lambda x: x * x),
    Operator("x + x.abs()", lambda x: x + x.abs()),
    Operator("2*x - 1", lambda x: 2 * x - 1),
    Operator("clamp", lambda x: x.clamp(-1, 2)),
    Operator("clamp above", lambda x: x.clamp(max=1)),
    Operator("where x > 1", lambda x: torch.where(x > 1, x, 2 - x)),
    Operator("where x < 0", lambda x: torch.where(x < 0, torch.zeros_like(x), x)),
    Operator("masked_fill", lambda x: x.masked_fill(x == 0, 3)),
    Operator("sign", torch.sign, jump=True),
    Operator("x > 0", lambda x: (x > 0).to(x.dtype), jump=True),
    Operator("x <= 1", lambda x: (x <= 1).to(x.dtype), jump=True),
    Operator("x != 0", lambda x: (x != 0).to(x.dtype), jump=True),
    Operator("not x < 1", lambda x: (~(x < 1)).to(x.dtype), jump=True),
    Operator("remainder", lambda x: torch.remainder(x, 3), jump=True),
    Operator("fmod", lambda x: torch.fmod(x, 3), jump=True),
    Operator("floor divide", lambda x: torch.div(x, 2, rounding_mode="floor"), jump=True),
]
OF_FLOATS = [
    Operator("floor", torch.floor, jump=True),
    Operator("ceil", torch.ceil, jump=True),
    Operator("round", torch.round, jump=True),
    Operator("trunc", torch.trunc, jump=True),
    Operator("isnan", lambda x: torch.isnan(x).to(x.dtype)),
    Operator("isfinite", lambda x: torch.isfinite(x).to(x.dtype), jump=True),
    Operator("nan_to_num", lambda x: x.nan_to_num(0.5, 2.0, -2.0)),
    Operator("leaky_relu", lambda x: F.leaky_relu(x, 0.25)),
    Operator("hardtanh", F.hardtanh),
    Operator("relu6", F.relu6),
    Operator("softshrink", lambda x: F.softshrink(x, 0.5)),
    Operator("threshold", lambda x: F.threshold(x, 0.5, -1.0), jump=True),
    Operator("half", lambda x: x * 0.5),
    Operator("1/x", lambda x: 1 / x, rough=True, jump=True),
    Operator("x/3", lambda x: x / 3, rough=True),
    Operator("x/(x > 1)", lambda x: x / (x > 1), jump=True),
    Operator("rsqrt of x > 0", lambda x: (x > 0).to(x.dtype).rsqrt(), jump=True),
    Operator("exp", torch.exp, rough=True),
    Operator("expm1", torch.expm1, rough=True),
    Operator("log", torch.log, rough=True, jump=True),
    Operator("log1p of abs", lambda x: torch.log1p(x.abs()), rough=True),
    Operator("sqrt of abs", lambda x: x.abs().sqrt(), rough=True),
    Operator("rsqrt", lambda x: (x * x + 1).rsqrt(), rough=True),
    Operator("sin", torch.sin, rough=True),
    Operator("cos", torch.cos, rough=True),
    Operator("atan", torch.atan, rough=True),
    Operator("tanh", torch.tanh, rough=True),
    Operator("sigmoid", torch.sigmoid, rough=True),
    Operator("logsigmoid", F.logsigmoid, rough=True),
    Operator("erf", torch.erf, rough=True),
    Operator("gelu", F.gelu, rough=True),
    Operator("silu", F.silu, rough=True),
    Operator("mish", F.mish, rough=True),
    Operator("softplus", F.softplus, rough=True),
    Operator("elu", F.elu, rough=True),
    Operator("celu", lambda x: F.celu(x, 0.5), rough=True),
    Operator("hardswish", F.hardswish, rough=True),
    Operator("hardsigmoid", F.hardsigmoid, rough=True),
    Operator("x**3", lambda x: x**3, rough=True),
    Operator("abs**1.5", lambda x: x.abs() ** 1.5, rough=True),
    Operator("2**x", torch.exp2, rough=True),
]
OF_INTEGERS = [
    Operator("x & 3", lambda x: x & 3),
    Operator("x | 4", lambda x: x | 4),
    Operator("x ^ 5", lambda x: x ^ 5),
    Operator("x >> 1", lambda x: x >> 1),
    Operator("float", lambda x: x.float()),
    Operator("x // 3", lambda x: x // 3),
    Operator("x % 4", lambda x: x % 4),
    Operator("x / 2", lambda x: x / 2),
]
OF_TWO = [
    Operator("+", torch.add),
    Operator("-", torch.sub),
    Operator("*", torch.mul),
    Operator("maximum", torch.maximum),
    Operator("minimum", torch.minimum),
    Operator("where", lambda a, b: torch.where(a > b, a, b - a), jump=True),
    Operator("eq", lambda a, b: (a == b).to(a.dtype), jump=True),
    Operator("stack", lambda a, b: torch.stack([a, b], -1)),
    Operator("cat", lambda a, b: torch.cat([a, b], -1) if a.ndim else torch.stack([a, b])),
    Operator("lerp", lambda a, b: torch.lerp(a, b, 0.25), rough=True),
    Operator("hypot", torch.hypot, rough=True),
    Operator("atan2", torch.atan2, rough=True, jump=True),
    Operator("a/(a > b)", lambda a, b: a / (a > b), rough=True, jump=True),
    Operator("a/(|b| + 1)", lambda a, b: a / (b.abs() + 1), rough=True),
]


# torch reads a neighbour whose weight is 0, too, so that its NaN spreads.
BILINEAR = Operator("bilinear", lambda x: F.interpolate(x, (5, 7), mode="bilinear"), rough=True)


def _along(random: Random, axis: int, size: int) -> list[Operator]:
    """Return operators along one axis of a tensor of any type."""
    keep, last = random.random() < 0.5, random.randrange(size)
    step, times = random.randint(1, 3), random.randint(1, 3)
    places = [random.randrange(size) for _ in range(random.randint(1, 4))]
    return [
        Operator(f"sum {axis} {keep}", lambda x: x.sum(axis, keepdim=keep)),
        Operator(f"amax {axis} {keep}", lambda x: x.amax(axis, keepdim=keep)),
        Operator(f"amin {axis} {keep}", lambda x: x.amin(axis, keepdim=keep)),
        Operator(f"max {axis}", lambda x: x.max(axis).values),
        Operator(f"cumsum {axis}", lambda x: x.cumsum(axis)),
        Operator(f"any {axis}", lambda x: (x > 0).any(axis).to(x.dtype), jump=True),
        Operator(f"all {axis}", lambda x: (x > 0).all(axis).to(x.dtype), jump=True),
        Operator(f"nonzero {axis}", lambda x: (x != 0).sum(axis).to(x.dtype), jump=True),
        Operator(f"flip {axis}", lambda x: x.flip(axis)),
        Operator(f"roll {axis} {last}", lambda x: x.roll(last, axis)),
        Operator(f"select {axis} {last}", lambda x: x.select(axis, last)),
        Operator(f"narrow {axis} {last}", lambda x: x.narrow(axis, last, x.shape[axis] - last)),
        Operator(f"take {axis} {places}", lambda x: x.index_select(axis, torch.tensor(places))),
        Operator(f"unsqueeze {axis}", lambda x: x.unsqueeze(axis)),
        Operator(f"repeat {axis} {times}", lambda x: x.repeat_interleave(times, axis)),
        Operator(f"movedim {axis}", lambda x: x.movedim(axis, -1)),
        Operator(f"unfold {axis}", lambda x: x.unfold(axis, min(2, size), step)),
        Operator(f"less its maximum {axis}", lambda x: x - x.amax(axis, keepdim=True)),
        Operator(f"chunk {axis}", lambda x: x.chunk(2, axis)[-1]),
        Operator(f"step {axis} {step}", lambda x: x.movedim(axis, 0)[::step].movedim(0, axis)),
    ]


def _along_of_floats(random: Random, axis: int, size: int) -> list[Operator]:
    keep = random.random() < 0.5
    rows = [
        Operator(f"mean {axis} {keep}", lambda x: x.mean(axis, keepdim=keep), rough=True),
        Operator(f"softmax {axis}", lambda x: x.softmax(axis), rough=True),
        Operator(f"log_softmax {axis}", lambda x: x.log_softmax(axis), rough=True),
        Operator(f"logsumexp {axis}", lambda x: x.logsumexp(axis), rough=True),
        Operator(f"prod {axis}", lambda x: x.prod(axis), rough=True),
        Operator(f"norm {axis}", lambda x: x.norm(dim=axis), rough=True),
        Operator(f"less its mean {axis}", lambda x: x - x.mean(axis, keepdim=True), rough=True),
        Operator(f"nansum {axis}", lambda x: x.nansum(axis)),
        Operator(f"argmax {axis}", lambda x: x.argmax(axis).to(x.dtype), jump=True),
    ]
    if size > 1:
        rows.append(Operator(f"var {axis}", lambda x: x.var(axis, keepdim=keep), rough=True))
    return rows


def _of_any_shape(random: Random, shape: Sequence[int]) -> list[Operator]:
    order = random.sample(range(len(shape)), len(shape))
    low, high = random.randint(0, 2), random.randint(0, 2)
    rows = [
        Operator("flatten", lambda x: x.flatten()),
        Operator(f"permute {order}", lambda x: x.permute(order)),
        Operator(f"pad {low} {high}", lambda x: F.pad(x, (low, high), value=1)),
    ]
    if len(shape) >= 2:
        diagonal = random.randint(-1, 2)
        rows += [
            Operator(f"tril {diagonal}", lambda x: x.tril(diagonal)),
            Operator(f"triu {diagonal}", lambda x: x.triu(diagonal)),
            Operator("transposed product", lambda x: x @ x.transpose(-1, -2)),
            Operator("diagonal", lambda x: x.diagonal(0, -2, -1)),
            Operator("flatten 2", lambda x: x.flatten(-2)),
        ]
    return rows


def _weights(random: Random, *shape: int) -> Any:
    numbers = [random.randint(-4, 4) / 4 for _ in range(math.prod(shape))]
    return torch.tensor(numbers).reshape(shape)


def _of_images(random: Random, shape: Sequence[int]) -> list[Operator]:
    """Return operators on windows of an image of several channels, batch first."""
    channels, *space = shape[1:]
    outputs = random.randint(1, 4)
    taps = [random.randint(1, min(3, size)) for size in space]
    stride, pad = random.randint(1, 2), random.randint(0, min(taps) // 2)
    kernel = _weights(random, outputs, channels, *taps)
    depthwise = _weights(random, channels, 1, *taps)
    back = _weights(random, channels, outputs, *taps)
    bias = _weights(random, outputs)
    text = f"{taps} {stride} {pad}"
    around = [min(1, space[1] - 1)] * 2 + [min(1, space[0] - 1)] * 2

    def dilated(x: Any) -> Any:
        return F.conv2d(x, kernel.to(x.dtype), padding=2, dilation=2)

    return [
        Operator(
            f"conv2d {text}",
            lambda x: F.conv2d(x, kernel.to(x.dtype), bias.to(x.dtype), stride, pad),
        ),
        Operator(
            f"depthwise {text}",
            lambda x: F.conv2d(x, depthwise.to(x.dtype), None, stride, pad, 1, channels),
        ),
        Operator(
            f"conv_transpose2d {text}",
            lambda x: F.conv_transpose2d(x, back.to(x.dtype), bias.to(x.dtype), stride, pad),
        ),
        Operator(f"dilated {text}", dilated),
        Operator(f"max_pool2d {text}", lambda x: F.max_pool2d(x, taps, stride, pad)),
        Operator(
            f"max_pool2d up {text}", lambda x: F.max_pool2d(x, taps, stride, pad, ceil_mode=True)
        ),
        Operator(f"avg_pool2d {text}", lambda x: F.avg_pool2d(x, taps, stride, pad), rough=True),
        Operator(
            f"avg_pool2d inside {text}",
            lambda x: F.avg_pool2d(x, taps, stride, pad, count_include_pad=False),
            rough=True,
        ),
        Operator("adaptive", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), rough=True),
        Operator("nearest", lambda x: F.interpolate(x, scale_factor=2)),
        Operator(f"reflect {around}", lambda x: F.pad(x, around, mode="reflect")),
        Operator(f"replicate {around}", lambda x: F.pad(x, around, mode="replicate")),
        Operator("circular", lambda x: F.pad(x, around, mode="circular")),
        Operator("group_norm", lambda x: F.group_norm(x, 1), rough=True),
    ]


def _of_rows(random: Random, shape: Sequence[int]) -> list[Operator]:
    outputs = random.randint(1, 6)
    matrix, bias = _weights(random, outputs, shape[-1]), _weights(random, outputs)
    return [
        Operator(f"linear {outputs}", lambda x: F.linear(x, matrix.to(x.dtype), bias.to(x.dtype))),
        Operator("layer_norm", lambda x: F.layer_norm(x, shape[-1:]), rough=True),
        Operator("einsum", lambda x: torch.einsum("...a,ba->b...", x, matrix.to(x.dtype))),
    ]


def candidates(random: Random, value: Any) -> list[Operator]:
    """Return operators of one operand, some for each kind that fits a value."""
    is_float, shape = value.is_floating_point(), list(value.shape)
    groups = [ANY, OF_FLOATS if is_float else OF_INTEGERS, _of_any_shape(random, shape)]
    for axis, size in enumerate(shape):
        groups.append(_along(random, axis, size))
        if is_float:
            groups.append(_along_of_floats(random, axis, size))
    if is_float and shape:
        groups.append(_of_rows(random, shape))
    if is_float and len(shape) == 4:
        groups += [_of_images(random, shape)] * 3
        if value.isfinite().all():
            groups.append([BILINEAR])
    return [random.choice(random.choice(groups)) for _ in range(4)]


def random_program(random: Random, arrays: Sequence[Any], most: int = 5) -> Program:
    """Draw a program of one to `most` operators that torch computes for some arrays."""
    start = random.randrange(len(arrays))
    program, values, rough = Program(start), [arrays[start]], [False]
    while len(program.steps) < random.randint(1, most):
        other = random.choice(range(len(values))) if random.random() < 0.3 else None
        if other is None:
            operator = random.choice(candidates(random, values[-1]))
        else:
            operator = random.choice(OF_TWO)
        read_rough = rough[-1] or other is not None and rough[other]
        if operator.jump and read_rough:
            continue
        operands = [values[-1]] if other is None else [values[-1], values[other]]
        try:
            value = operator.function(*operands)
        except (RuntimeError, IndexError, TypeError, ValueError):  # it does not fit these shapes
            continue
        if not 0 < value.numel() <= MAX_ELEMENTS:
            continue
        program = replace(program, steps=(*program.steps, (operator, other)))
        values.append(value)
        rough.append(operator.rough or read_rough)
    return program


def random_arrays(random: Random, share: float) -> list[Any]:
    """Draw inputs of several ranks and types; a `share` of their numbers is special."""
    size = lambda most: random.randint(1, most)  # noqa: E731
    image = (size(2), size(4), random.randint(2, 7), random.randint(2, 7))
    shapes = [image, (size(5), size(7)), (size(9),), (size(3), size(4), size(5))]
    arrays = [
        torch.tensor(_numbers(random, math.prod(shape), share), dtype=dtype).reshape(shape)
        for shape, dtype in zip(shapes, (FLOATS[0], FLOATS[0], FLOATS[0], FLOATS[1]))
    ]
    integers = [random.randint(-9, 9) for _ in range(12)]
    return [
        *arrays,
        torch.tensor(integers).reshape(3, 4),
        torch.tensor(integers, dtype=torch.int32),
    ]


def _numbers(random: Random, count: int, share: float) -> list[float]:
    return [
        random.choice(SPECIAL) if random.random() < share else random.randint(-12, 12) / 4
        for _ in range(count)
    ]


def difference(found: Any, expected: Any, exact: Any) -> str | None:
    """Return in words how a result differs from torch's, more than the rounding of torch's from
    what it gives in double precision; None where it does not.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    ours, torchs, true = (np.asarray(a.detach().double()) for a in (found, expected, exact))
    certain = np.isnan(torchs) == np.isnan(true)
    certain &= np.isinf(torchs) == np.isinf(true)
    size = np.abs(true[np.isfinite(true)]).max(initial=1.0)
    close = np.isclose(ours, torchs, rtol=1e-3, atol=1e-4 * size, equal_nan=True)
    wrong = certain & ~close
    if not wrong.any():
        return None
    places = np.argwhere(wrong)[:3].tolist()
    return f"at {places}: {ours[wrong][:3]} for {torchs[wrong][:3]}"
