"""Convolutions as stencils: each result is a sum over a window of lines, and neighbouring results along a line are computed side by side.

Where few results share a position (one filter, or three), registers hold positions rather than filters, and what is read of a line serves
all lines and filters of a tile. The results of a transposed convolution lie in phases of its stride, each with taps of its own (design §10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import sub

from codegen.ir.nodes import Buf
from codegen.kernels.epilogue import read_each_result_once
from codegen.kernels.operand_axes import group_axes, single_axis
from codegen.kernels.strided_axes import (
    Epilogue,
    EpilogueStore,
    StridedAxis,
    StridedOperand,
    extent,
)
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope

TAP = {"h": "r", "w": "s"}  # of a window, by the axis of space
OPERATORS = ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")


Taps = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StencilAxis:
    """One axis of space: position l meets element `step*l + shift` of the data for some shifts, the lowest of which is `low`.

    There are `extent` positions, `stored_steps` elements apart in the result and in what an epilogue reads, and `data` elements, `left` apart in
    memory; outside is 0. `reach` elements lie between the first and the last that a position meets.
    """

    extent: int
    step: int
    stored_steps: tuple[int, ...]
    data: int
    left: int
    low: int = 0
    reach: int = 1

    @property
    def target(self) -> int:
        return self.stored[0]


@dataclass(frozen=True)
class Phase:
    """Results along one axis with the same taps, each a shift and where its weight lies.

    `begin` is the element of the result at which they begin, and where an epilogue begins to read.
    """

    begin: tuple[int, ...]
    taps: Taps


@dataclass(frozen=True)
class PhaseGroup:
    """Phases along one axis that are computed at once; `group_axes` repeat them along others, whose weights and results lie in equal steps."""

    phases: tuple[Phase, ...]
    group_axes: tuple[StridedAxis, ...]


def stored_steps(axis: StridedAxis) -> tuple[int, ...]:
    """The steps of an axis in the result, and in what an epilogue reads."""
    return (axis.target, *axis.beside)


@dataclass(frozen=True)
class Stencil(EpilogueStore):
    """`target[batch, filters, lines, positions] = Σ[channels, taps] data · weights`, or what an epilogue makes of each.

    Lines and positions lie in the phases `above` and `along`.
    """

    left: StridedOperand
    right: StridedOperand
    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    filters: StridedAxis
    channels: tuple[StridedAxis, ...]
    lines: StencilAxis
    positions: StencilAxis
    above: tuple[Phase, ...]
    along: tuple[Phase, ...]
    dtype: str
    epilogue: Epilogue | None = None

    @property
    def work(self) -> int:
        """Products, those with zeros outside of the data among them."""
        lines, positions = (
            sum(len(phase.taps) for phase in phases) for phases in (self.above, self.along)
        )
        return (
            extent((*self.batch, self.filters, *self.channels))
            * self.lines.extent
            * self.positions.extent
            * lines
            * positions
        )

    def parts(self, number: int) -> Iterator[tuple[Phase, PhaseGroup]]:
        """Phases of the lines, each with so many of the positions that are computed together."""
        for above, along in product(
            phase_groups(self.above, 1, Index("phase_h")),
            phase_groups(self.along, number, Index("phase_w")),
        ):
            yield above.phases[0], PhaseGroup(along.phases, (*above.axes, *along.axes))


def stencils_of(
    kernel: Kernel, scope: Scope, dtype: str, epilogue: tuple[str, Scope] | None = None
) -> list[Stencil] | None:
    """A kernel as stencils computed in `dtype`, which share its results; None where it is no convolution, or lies in no strides.

    With an `epilogue`, a statement that reads the results, they store this one; None where they cannot.

    >>> import einalg as ea
    >>> stencils_of(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)), "f32") is None
    True
    """
    if kernel.op not in OPERATORS or len(kernel.views) != 3:
        return None
    data, weights, out = kernel.views
    bufs = {name: Buf(name, t.shape, t.dtype) for name, t in scope.tensors.items()}
    bufs[kernel.output] = Buf(kernel.output, scope.shape, scope.dtype)
    if any(view.name not in bufs for view in kernel.views):
        return None
    left, right, target = (StridedOperand(bufs[view.name], view.offset) for view in kernel.views)
    batch = (*group_axes("n", left=data, target=out), *_groups(data, weights, out))
    filters, channels = single_axis("f", right=weights, target=out), group_axes("c", left=data, right=weights)
    letters = [letter for letter in "hw" if letter in data.axes]
    places, finish = [single_axis(letter, target=out) for letter in letters], None
    if filters is None or None in places:
        return None
    if epilogue:
        alone = [filters, *(place for place in places if place)]
        reading = read_each_result_once([*alone, *batch], target, dtype, *epilogue)
        if reading is None:
            return None
        filters, *places = (reading.whole(position, axis) for position, axis in enumerate(alone))
        batch = tuple(piece for pieces in reading.pieces[len(alone) :] for piece in pieces)
        target, finish = reading.target, reading.epilogue
    found = [_phases(kernel, letter, place) for letter, place in zip(letters, places) if place]
    if filters is None or len(found) < len(letters) or any(phases is None for phases in found):
        return None
    nowhere = (0,) * len(stored_steps(filters))
    point = StencilAxis(1, 1, nowhere, 1, 0), (Phase(nowhere, ((0, 0),)),)
    spans = [
        *([[point]] if len(found) == 1 else []),
        *(phases for phases in found if phases is not None),
    ]
    return [
        Stencil(
            left,
            right,
            target,
            batch,
            filters,
            channels,
            lines,
            positions,
            above,
            along,
            dtype,
            finish,
        )
        for (lines, above), (positions, along) in product(*spans)
        if lines.extent and positions.extent
    ]


def _groups(data: View, weights: View, out: View) -> tuple[StridedAxis, ...]:
    """The axes that stand beside the operator's own."""
    return group_axes(
        "g",
        **{
            side: View(v.name, 0, {"g": v.batch})
            for side, v in (("left", data), ("right", weights), ("target", out))
        },
    )


def _phases(
    kernel: Kernel, letter: str, place: StridedAxis
) -> list[tuple[StencilAxis, tuple[Phase, ...]]] | None:
    """One axis of space, whose results lie along `place`: spans of equal extent, each with its phases.

    There is one phase for a convolution, and one for each step of a transposed one.
    """
    data, weights, _ = kernel.views
    line, window, steps = (
        single_axis(letter, left=data),
        single_axis(TAP[letter], right=weights),
        stored_steps(place),
    )
    if line is None or window is None:
        return None
    stride, dilation = (kernel.sizes.get(f"{name}_{letter}", 1) for name in ("stride", "dilation"))
    if "transpose" not in kernel.op:
        before = data.pads.get(letter, (0, 0))[0]
        taps = tuple((dilation * t - before, t * window.right) for t in range(window.extent))
        return [
            _spanned(
                StencilAxis(place.extent, stride, steps, line.extent, line.left),
                [Phase((0,) * len(steps), taps)],
            )
        ]
    before = kernel.sizes.get(f"padding_{letter}_before", 0)
    found = dict[int, list[Phase]]()
    for phase in range(min(stride, place.extent)):
        at = [(phase + before - dilation * t, t * window.right) for t in range(window.extent)]
        taps = tuple((n // stride, where) for n, where in at if n % stride == 0)
        found.setdefault(-(-(place.extent - phase) // stride), []).append(
            Phase(tuple(phase * step for step in steps), taps)
        )
    apart = tuple(step * stride for step in steps)
    return [
        _spanned(StencilAxis(n, 1, apart, line.extent, line.left), phases)
        for n, phases in found.items()
    ]


def _spanned(span: StencilAxis, phases: Sequence[Phase]) -> tuple[StencilAxis, tuple[Phase, ...]]:
    """A span with what the taps of all its phases meet."""
    shifts = [shift for phase in phases for shift, _ in phase.taps] or [0]
    return replace(span, low=min(shifts), reach=max(shifts) - min(shifts) + 1), tuple(phases)


def phase_groups(phases: Sequence[Phase], number: int, index: Index) -> list[PhaseGroup]:
    """So many neighbouring phases at once; those that have the same shifts as the ones before, in equal steps, as these that repeat.

    >>> phases = [Phase((k,), ((0, 4 + k), (-1, k))) for k in range(4)]
    >>> [(len(found.phases), found.axes[0].extent, found.axes[0].target) for found in phase_groups(phases, 2, Index("phase"))]
    [(2, 2, 2)]
    """
    found: list[
        tuple[Sequence[Phase], Sequence[Phase], int, tuple[int, ...]]
    ] = []  # the first, the last, how many, and their distance
    for start in range(0, len(phases), number):
        some = phases[start : start + number]
        first, last, count, apart = found[-1] if found else (some, some, 0, ())
        distance = _distance(last, some) if count else None
        if distance and (count == 1 or distance == apart):
            found[-1] = first, some, count + 1, distance
        else:
            found.append((some, some, 1, ()))
    return [
        PhaseGroup(tuple(first), (_repeating(index, count, *apart),) if count > 1 else ())
        for first, _, count, apart in found
    ]


def _repeating(index: Index, count: int, weight: int, target: int, *beside: int) -> StridedAxis:
    """An axis of phases, whose weights, results, and what an epilogue reads are so far apart."""
    return StridedAxis(index, count, 0, weight, target, beside)


def _distance(some: Sequence[Phase], others: Sequence[Phase]) -> tuple[int, ...] | None:
    """How far the weights of some phases, and what they store, are from those of others; None with other shifts, or more than one distance."""
    if [[shift for shift, _ in phase.taps] for phase in some] != [
        [shift for shift, _ in phase.taps] for phase in others
    ]:
        return None
    weights = {
        after - before
        for p, q in zip(some, others)
        for (_, before), (_, after) in zip(p.taps, q.taps)
    } or {0}
    begins = {tuple(map(sub, q.begin, p.begin)) for p, q in zip(some, others)}
    return (*weights, *next(iter(begins))) if len(weights) == len(begins) == 1 else None


@dataclass(frozen=True)
class TapRun:
    """Taps of some phases of an axis that lie in equal steps, in one phase of its positions' step.

    Position l meets element `l + first + number*step` of the phase; `weights` are the phases that have these taps, by their number, each
    with where the weight of the first lies, and how far the next one is.
    """

    phase: int
    first: int
    step: int
    count: int
    weights: tuple[tuple[int, int, int], ...]


def tap_runs(span: StencilAxis, phases: Sequence[Phase]) -> Iterator[TapRun]:
    """The taps of phases of an axis as runs: positions that step over elements read each phase of these in order.

    >>> list(tap_runs(StencilAxis(4, 2, (1,), 9, 1, low=-1), [Phase((0,), ((-1, 0), (0, 5), (1, 10)))]))
    [Run(phase=0, first=0, step=1, count=2, weights=((0, 0, 10),)), Run(phase=1, first=0, step=0, count=1, weights=((0, 5, 0),))]
    """
    places = dict[int, list[tuple[int, int]]]()
    for number, phase in enumerate(phases):
        for shift, offset in phase.taps:
            places.setdefault(shift - span.low, []).append((number, offset))
    for phase in sorted({place % span.step for place in places}):
        yield from _in_steps(
            phase,
            [
                (place // span.step, uses)
                for place, uses in sorted(places.items())
                if place % span.step == phase
            ],
        )


def _in_steps(
    phase: int, places: Sequence[tuple[int, Sequence[tuple[int, int]]]]
) -> Iterator[TapRun]:
    while places:
        (first, uses), *others = places
        numbers = [number for number, _ in uses]
        step, weights, count = 0, [0] * len(uses), 1
        if others and [number for number, _ in others[0][1]] == numbers:
            step, weights = (
                others[0][0] - first,
                [after - before for (_, before), (_, after) in zip(uses, others[0][1])],
            )
            while count < len(places) and places[count] == _later(places[0], count, step, weights):
                count += 1
        yield TapRun(
            phase,
            first,
            step,
            count,
            tuple((number, offset, weight) for (number, offset), weight in zip(uses, weights)),
        )
        places = places[count:]


def _later(
    place: tuple[int, Sequence[tuple[int, int]]], times: int, step: int, weights: Sequence[int]
) -> tuple[int, list[tuple[int, int]]]:
    """Where a run is after some steps."""
    return place[0] + times * step, [
        (number, offset + times * weight) for (number, offset), weight in zip(place[1], weights)
    ]
