"""Convolutions as stencils: each result is a sum over a window of lines (design §10).

Neighbouring results along a line are computed side by side. Where few results share a position (one
filter, or three), registers hold positions rather than filters, and what is read of a line serves
all lines and filters of a tile. The results of a transposed convolution lie in phases of its
stride, each with taps of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from operator import sub

from codegen.kernels.epilogue import read_each_result_once
from codegen.kernels.operand_axes import group_axes, single_axis, view_buffers
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


Taps = tuple[tuple[int, int], ...]  # a shift, and where its weight lies


@dataclass(frozen=True)
class StencilAxis:
    """One axis of space: position l meets element `step*l + shift` of the data for some shifts.

    `low` is the lowest shift, and `reach` elements lie between the first and the last that a
    position meets. There are `extent` positions, `stored` elements apart in the result and in what
    an epilogue reads, and `data` elements, `left` apart in memory; outside is 0.
    """

    extent: int
    step: int
    stored: tuple[int, ...]
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

    @property
    def shifts(self) -> list[int]:
        return [shift for shift, _ in self.taps]

    @property
    def weights(self) -> list[int]:
        """Return where the weights of the taps lie."""
        return [weight for _, weight in self.taps]


@dataclass(frozen=True)
class PhaseGroup:
    """Phases along one axis that are computed at once.

    `axes` repeat them along others, whose weights and results lie in equal steps.
    """

    phases: tuple[Phase, ...]
    axes: tuple[StridedAxis, ...]


def stored_steps(axis: StridedAxis) -> tuple[int, ...]:
    """Return the steps of an axis in the result, and in what an epilogue reads."""
    return (axis.target, *axis.epilogue_steps)


@dataclass(frozen=True)
class Stencil(EpilogueStore):
    """`target[batch, filters, lines, positions] = Σ[channels, taps] data · weights`.

    Or what an epilogue computes from each. Lines and positions lie in the phases `above` and
    `along`.
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
        """Return the number of products, those with zeros outside of the data among them."""
        lines = self.lines.extent * sum(len(phase.taps) for phase in self.above)
        positions = self.positions.extent * sum(len(phase.taps) for phase in self.along)
        return extent((*self.batch, self.filters, *self.channels)) * lines * positions

    def parts(self, number: int) -> Iterator[tuple[Phase, PhaseGroup]]:
        """Yield phases of lines, each with so many of positions that are computed at once."""
        line_groups = phase_groups(self.above, 1, Index("phase_h"))
        position_groups = phase_groups(self.along, number, Index("phase_w"))
        for above, along in product(line_groups, position_groups):
            yield above.phases[0], PhaseGroup(along.phases, (*above.axes, *along.axes))


# Kernels as stencils.


def stencils_of(
    kernel: Kernel, scope: Scope, dtype: str, epilogue: tuple[str, Scope] | None = None
) -> list[Stencil] | None:
    """Return a kernel as stencils computed in `dtype`, which share its results.

    None where it is no convolution, or lies in no strides. With an `epilogue`, a statement that
    reads the results, they store this one; None where they cannot.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> stencils_of(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    results = _results(kernel, scope, dtype, epilogue)
    bufs = view_buffers(kernel, scope)
    if results is None or bufs is None:
        return None
    spans = _space(kernel, results)
    if spans is None:
        return None
    data, weights, _ = kernel.views
    channels = group_axes("c", left=data, right=weights)
    stencils = []
    for (lines, above), (positions, along) in product(*spans):
        if lines.extent and positions.extent:
            stencil = Stencil(
                StridedOperand(bufs[0], data.offset),
                StridedOperand(bufs[1], weights.offset),
                results.target,
                results.batch,
                results.filters,
                channels,
                lines,
                positions,
                above,
                along,
                dtype,
                results.epilogue,
            )
            stencils.append(stencil)
    return stencils


@dataclass(frozen=True)
class _Results:
    """Where the results of a convolution lie: the axes of space by letter, and the others."""

    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    filters: StridedAxis
    space: dict[str, StridedAxis]
    epilogue: Epilogue | None = None


def _results(
    kernel: Kernel, scope: Scope, dtype: str, epilogue: tuple[str, Scope] | None
) -> _Results | None:
    """Return where results lie, or those of an epilogue; None where they lie in no strides."""
    bufs = view_buffers(kernel, scope)
    if kernel.op not in OPERATORS or bufs is None:
        return None
    data, weights, out = kernel.views
    filters = single_axis("f", right=weights, target=out)
    space: dict[str, StridedAxis] = {}
    for letter in "hw":
        if letter in data.axes:
            axis = single_axis(letter, target=out)
            if axis is None:
                return None
            space[letter] = axis
    if filters is None:
        return None
    batch = (*group_axes("n", left=data, target=out), *_operator_batch(data, weights, out))
    results = _Results(StridedOperand(bufs[2], out.offset), batch, filters, space)
    if epilogue is None:
        return results
    return _results_of_epilogue(results, dtype, *epilogue)


def _operator_batch(data: View, weights: View, out: View) -> tuple[StridedAxis, ...]:
    """Return the axes that stand beside the operator's own."""
    views = {}
    for side, view in (("left", data), ("right", weights), ("target", out)):
        views[side] = View(view.name, 0, {"g": view.batch})
    return group_axes("g", **views)


def _results_of_epilogue(results: _Results, dtype: str, name: str, scope: Scope) -> _Results | None:
    """Return where the statement `name = scope` stores what it computes from results.

    None where it does not read each of these once, or in parts of filters, lines or positions.
    """
    single = [results.filters, *results.space.values()]
    axes = (*single, *results.batch)
    reading = read_each_result_once(axes, results.target, dtype, name, scope)
    if reading is None:
        return None
    parts = reading.whole_and_cut(single)
    if parts is None:
        return None
    (filters, *space), batch = parts
    by_letter = dict(zip(results.space, space))
    return _Results(reading.target, batch, filters, by_letter, reading.epilogue)


# Axes of space.

Span = tuple[StencilAxis, tuple[Phase, ...]]  # positions of equal extent with their phases


def _space(kernel: Kernel, results: _Results) -> list[list[Span]] | None:
    """Return the spans of the lines and of the positions; None where data lie in no strides."""
    spans: list[list[Span]] = []
    if len(results.space) == 1:  # one line
        nowhere = (0,) * len(stored_steps(results.filters))
        line = StencilAxis(1, 1, nowhere, 1, 0)
        spans.append([(line, (Phase(nowhere, ((0, 0),)),))])
    for letter, axis in results.space.items():
        axis_spans = _axis_spans(kernel, letter, axis)
        if axis_spans is None:
            return None
        spans.append(axis_spans)
    return spans


def _axis_spans(kernel: Kernel, letter: str, place: StridedAxis) -> list[Span] | None:
    """Return one axis of space, whose results lie along `place`, as spans with their phases.

    There is one phase for a convolution, and one for each step of a transposed one.
    """
    data, weights, _ = kernel.views
    line, window = single_axis(letter, left=data), single_axis(TAP[letter], right=weights)
    if line is None or window is None:
        return None
    stride = kernel.sizes.get(f"stride_{letter}", 1)
    dilation = kernel.sizes.get(f"dilation_{letter}", 1)
    steps = stored_steps(place)
    if "transpose" in kernel.op:
        before = kernel.sizes.get(f"padding_{letter}_before", 0)
        groups = transposed_phases(place, window, stride, dilation, before)
        step, stored = 1, tuple(step * stride for step in steps)
    else:
        before = data.pads.get(letter, (0, 0))[0]
        taps = tuple((dilation * t - before, t * window.right) for t in range(window.extent))
        groups = {place.extent: [Phase((0,) * len(steps), taps)]}
        step, stored = stride, steps
    spans = []
    for count, phases in groups.items():
        axis = StencilAxis(count, step, stored, line.extent, line.left)
        spans.append((_with_reach(axis, phases), tuple(phases)))
    return spans


def transposed_phases(
    place: StridedAxis, window: StridedAxis, stride: int, dilation: int, before: int
) -> dict[int, list[Phase]]:
    """Return the phases of a transposed convolution by the number of positions that they have."""
    groups: dict[int, list[Phase]] = {}
    for phase in range(min(stride, place.extent)):
        taps = []
        for t in range(window.extent):
            element = phase + before - dilation * t
            if element % stride == 0:
                taps.append((element // stride, t * window.right))
        begin = tuple(phase * step for step in stored_steps(place))
        count = -(-(place.extent - phase) // stride)
        groups.setdefault(count, []).append(Phase(begin, tuple(taps)))
    return groups


def _with_reach(axis: StencilAxis, phases: Sequence[Phase]) -> StencilAxis:
    """Return an axis with what the taps of all its phases meet."""
    shifts: list[int] = []
    for phase in phases:
        shifts += phase.shifts
    low, high = min(shifts, default=0), max(shifts, default=0)
    return replace(axis, low=low, reach=high - low + 1)


# Phases that are computed at once.


@dataclass(frozen=True)
class _RepeatedPhases:
    """Phases that repeat `first` so many times; `last` are the last of them.

    `distance` is how far weights and results of one repetition are from those of the next.
    """

    first: Sequence[Phase]
    last: Sequence[Phase]
    count: int = 1
    distance: tuple[int, ...] = ()

    def group(self, index: Index) -> PhaseGroup:
        if self.count == 1:
            return PhaseGroup(tuple(self.first), ())
        weight, target, *others = self.distance
        axis = StridedAxis(index, self.count, 0, weight, target, tuple(others))
        return PhaseGroup(tuple(self.first), (axis,))


def phase_groups(phases: Sequence[Phase], number: int, index: Index) -> list[PhaseGroup]:
    """Return so many neighbouring phases at once.

    Those that have the same shifts as the ones before, in equal steps, repeat these.

    >>> phases = [Phase((k,), ((0, 4 + k), (-1, k))) for k in range(4)]
    >>> (group,) = phase_groups(phases, 2, Index("phase"))
    >>> len(group.phases), group.axes[0].extent, group.axes[0].target
    (2, 2, 2)
    """
    runs: list[_RepeatedPhases] = []
    for start in range(0, len(phases), number):
        some = phases[start : start + number]
        longer = None
        if runs:
            longer = _repeated(runs[-1], some)
        if longer is None:
            runs.append(_RepeatedPhases(some, some))
        else:
            runs[-1] = longer
    return [run.group(index) for run in runs]


def _repeated(run: _RepeatedPhases, some: Sequence[Phase]) -> _RepeatedPhases | None:
    """Return a run with some more phases; None where they do not repeat it."""
    distance = _distance(run.last, some)
    if distance is None or run.count > 1 and distance != run.distance:
        return None
    return _RepeatedPhases(run.first, some, run.count + 1, distance)


def _distance(some: Sequence[Phase], others: Sequence[Phase]) -> tuple[int, ...] | None:
    """Return how far the weights of some phases, and what they store, are from those of others.

    None with other shifts, or more than one distance.
    """
    if len(some) != len(others):
        return None
    weights, begins = set[int](), set[tuple[int, ...]]()
    for one, other in zip(some, others):
        if one.shifts != other.shifts:
            return None
        weights.update(map(sub, other.weights, one.weights))
        begins.add(tuple(map(sub, other.begin, one.begin)))
    if len(weights) > 1 or len(begins) != 1:
        return None
    return (weights.pop() if weights else 0, *begins.pop())


# Taps in equal steps.


@dataclass(frozen=True)
class TapRun:
    """Taps of some phases of an axis that lie in equal steps, in one phase of its positions' step.

    Position l meets element `l + first + number*step` of the phase; `weights` are the phases that
    have these taps, by their number, each with where the weight of the first lies, and how far the
    next one is.
    """

    phase: int
    first: int
    step: int
    count: int
    weights: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class _TapPlace:
    """An element that taps meet, and these: the number of the phase, and where the weight lies."""

    element: int
    uses: tuple[tuple[int, int], ...]

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.uses]

    def moved(self, elements: int, weights: Sequence[int]) -> _TapPlace:
        """Return the place so many elements on, whose weights lie so far from those of this one."""
        uses = []
        for (number, place), distance in zip(self.uses, weights):
            uses.append((number, place + distance))
        return _TapPlace(self.element + elements, tuple(uses))


def tap_runs(span: StencilAxis, phases: Sequence[Phase]) -> Iterator[TapRun]:
    """Yield the taps of phases of an axis as runs.

    Positions that step over elements read each phase of these in order.

    >>> span = StencilAxis(4, 2, (1,), 9, 1, low=-1)
    >>> for run in tap_runs(span, [Phase((0,), ((-1, 0), (0, 5), (1, 10)))]):
    ...     print(run.phase, run.first, run.step, run.count, run.weights)
    0 0 1 2 ((0, 0, 10),)
    1 0 0 1 ((0, 5, 0),)
    """
    uses: dict[int, list[tuple[int, int]]] = {}
    for number, phase in enumerate(phases):
        for shift, weight in phase.taps:
            uses.setdefault(shift - span.low, []).append((number, weight))
    places: dict[int, list[_TapPlace]] = {}
    for element in sorted(uses):
        place = _TapPlace(element // span.step, tuple(uses[element]))
        places.setdefault(element % span.step, []).append(place)
    for phase in sorted(places):
        yield from _runs_in_equal_steps(phase, places[phase])


def _runs_in_equal_steps(phase: int, places: Sequence[_TapPlace]) -> Iterator[TapRun]:
    """Yield runs that are each as long as the first steps are equal."""
    while places:
        first, *others = places
        step, distances, count = 0, [0] * len(first.uses), 1
        if others and others[0].numbers == first.numbers:
            step = others[0].element - first.element
            distances = [
                after - before for (_, before), (_, after) in zip(first.uses, others[0].uses)
            ]
            count = _run_length(places, step, distances)
        weights = []
        for (number, weight), distance in zip(first.uses, distances):
            weights.append((number, weight, distance))
        yield TapRun(phase, first.element, step, count, tuple(weights))
        places = places[count:]


def _run_length(places: Sequence[_TapPlace], step: int, distances: Sequence[int]) -> int:
    """Return how many places follow each other in equal steps of elements and weights."""
    for count, (before, after) in enumerate(pairwise(places), 1):
        if after != before.moved(step, distances):
            return count
    return len(places)
