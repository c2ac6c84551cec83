"""Convolutions as stencils: each result is a sum over a window of lines, and neighbouring results along a line are computed side by side.

Where few results share a position (one filter, or three), registers hold positions rather than filters, and what is read of a line serves
all lines and filters of a tile. The results of a transposed convolution lie in phases of its stride, each with taps of its own (design §10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import add

from codegen.contraction import Axis, Epilogue, Operand, Stored, extent
from codegen.epilogue import read_once
from codegen.ir import Buf
from codegen.views import axes, joined
from einalg.affine import Index
from einalg.kernel import Kernel, View
from einalg.scope import Scope

TAP = {"h": "r", "w": "s"}  # of a window, by the axis of space
OPERATORS = ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")


Taps = tuple[tuple[int, int], ...]
OnePhase = tuple[tuple[int, ...], tuple[Axis, ...], Taps]  # of one axis: where its results begin, repetitions, and taps


@dataclass(frozen=True)
class Span:
    """One axis of space: position l meets element `step*l + shift` of the data for some shifts, the lowest of which is `low`.

    There are `extent` positions, `stored` elements apart in the result and in what an epilogue reads, and `data` elements, `left` apart in
    memory; outside is 0. `reach` elements lie between the first and the last that a position meets.
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
    """Results with the same taps, each a shift and where its weight lies: those from an element of the result on, the first of `begin`.

    The others are where an epilogue begins to read. `axes` repeat them along phases whose weights and results lie in equal steps.
    """

    begin: tuple[int, ...]
    axes: tuple[Axis, ...]
    lines: Taps
    positions: Taps

    @property
    def taps(self) -> int:
        return len(self.lines) * len(self.positions)


def stored(axis: Axis) -> tuple[int, ...]:
    """The steps of an axis in the result, and in what an epilogue reads."""
    return (axis.target, *axis.beside)


@dataclass(frozen=True)
class Stencil(Stored):
    """`target[batch, filters, lines, positions] = Σ[channels, taps] data · weights`, or what an epilogue makes of each."""

    left: Operand
    right: Operand
    target: Operand
    batch: tuple[Axis, ...]
    filters: Axis
    channels: tuple[Axis, ...]
    lines: Span
    positions: Span
    phases: tuple[Phase, ...]
    dtype: str
    epilogue: Epilogue | None = None

    @property
    def work(self) -> int:
        """Products, those with zeros outside of the data among them."""
        taps = sum(extent(phase.axes) * phase.taps for phase in self.phases)
        return extent((*self.batch, self.filters, *self.channels)) * self.lines.extent * self.positions.extent * taps


def stencils_of(kernel: Kernel, scope: Scope, dtype: str, epilogue: tuple[str, Scope] | None = None) -> list[Stencil] | None:
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
    left, right, target = (Operand(bufs[view.name], view.offset) for view in kernel.views)
    batch = (*axes("n", left=data, target=out), *_groups(data, weights, out))
    filters, channels = joined("f", right=weights, target=out), axes("c", left=data, right=weights)
    letters = [letter for letter in "hw" if letter in data.axes]
    places, finish = [joined(letter, target=out) for letter in letters], None
    if filters is None or None in places:
        return None
    if epilogue:
        alone = [filters, *(place for place in places if place)]
        reading = read_once([*alone, *batch], target, dtype, *epilogue)
        if reading is None:
            return None
        filters, *places = (reading.whole(position, axis) for position, axis in enumerate(alone))
        batch = tuple(piece for pieces in reading.pieces[len(alone) :] for piece in pieces)
        target, finish = reading.target, reading.epilogue
    found = [_phases(kernel, letter, place) for letter, place in zip(letters, places) if place]
    if filters is None or len(found) < len(letters) or any(phases is None for phases in found):
        return None
    nowhere = (0,) * len(stored(filters))
    point: tuple[Span, list[OnePhase]] = (Span(1, 1, nowhere, 1, 0), [(nowhere, (), ((0, 0),))])
    spans = [*([[point]] if len(found) == 1 else []), *(phases for phases in found if phases is not None)]
    return [
        Stencil(
            left, right, target, batch, filters, channels, lines, positions, tuple(_joint(*pair) for pair in product(above, along)), dtype, finish
        )
        for (lines, above), (positions, along) in product(*spans)
        if lines.extent and positions.extent
    ]


def _joint(line: OnePhase, position: OnePhase) -> Phase:
    """A phase of the lines with one of the positions."""
    return Phase(tuple(map(add, line[0], position[0])), (*line[1], *position[1]), line[2], position[2])


def _groups(data: View, weights: View, out: View) -> tuple[Axis, ...]:
    """The axes that stand beside the operator's own."""
    return axes("g", **{side: View(v.name, 0, {"g": v.batch}) for side, v in (("left", data), ("right", weights), ("target", out))})


def _phases(kernel: Kernel, letter: str, place: Axis) -> list[tuple[Span, list[OnePhase]]] | None:
    """One axis of space, whose results lie along `place`: spans of equal extent, each with its phases.

    There is one phase for a convolution, and one for each step of a transposed one.
    """
    data, weights, _ = kernel.views
    line, window, steps = joined(letter, left=data), joined(TAP[letter], right=weights), stored(place)
    if line is None or window is None:
        return None
    stride, dilation = (kernel.sizes.get(f"{name}_{letter}", 1) for name in ("stride", "dilation"))
    if "transpose" not in kernel.op:
        before = data.pads.get(letter, (0, 0))[0]
        taps = tuple((dilation * t - before, t * window.right) for t in range(window.extent))
        return [_spanned(Span(place.extent, stride, steps, line.extent, line.left), [((0,) * len(steps), (), taps)])]
    before = kernel.sizes.get(f"padding_{letter}_before", 0)
    found = dict[int, list[tuple[int, Taps]]]()
    for phase in range(min(stride, place.extent)):
        at = [(phase + before - dilation * t, t * window.right) for t in range(window.extent)]
        taps = tuple((n // stride, where) for n, where in at if n % stride == 0)
        found.setdefault(-(-(place.extent - phase) // stride), []).append((phase, taps))
    apart = tuple(step * stride for step in steps)
    return [_spanned(Span(n, 1, apart, line.extent, line.left), _repeated(ps, steps, Index(f"phase_{letter}"))) for n, ps in found.items()]


def _spanned(span: Span, phases: list[OnePhase]) -> tuple[Span, list[OnePhase]]:
    """A span with what the taps of all its phases meet."""
    shifts = [shift for _, _, taps in phases for shift, _ in taps] or [0]
    return replace(span, low=min(shifts), reach=max(shifts) - min(shifts) + 1), phases


def _repeated(phases: Sequence[tuple[int, Taps]], steps: tuple[int, ...], index: Index) -> list[OnePhase]:
    """Phases by their numbers as few: those with the same shifts, in equal steps of results and weights, as one that repeats."""
    found: list[tuple[int, int, int, int, Taps]] = []  # the first, how many, their distance, that of their weights, and taps
    for phase, taps in phases:
        if found and taps and [shift for shift, _ in taps] == [shift for shift, _ in found[-1][4]]:
            first, count, distance, weight, known = found[-1]
            if count == 1:
                distance, weight = phase - first, taps[0][1] - known[0][1]
            if phase == first + count * distance and all(w == v + count * weight for (_, w), (_, v) in zip(taps, known)):
                found[-1] = first, count + 1, distance, weight, known
                continue
        found.append((phase, 1, 0, 0, taps))
    return [
        (tuple(first * step for step in steps), _phase_axis(index, count, weight, [distance * step for step in steps]), taps)
        for first, count, distance, weight, taps in found
    ]


def _phase_axis(index: Index, count: int, weight: int, apart: Sequence[int]) -> tuple[Axis, ...]:
    """Phases that repeat, so far apart in the result and in what an epilogue reads."""
    target, *beside = apart
    return (Axis(index, count, 0, weight, target, tuple(beside)),) if count > 1 else ()


@dataclass(frozen=True)
class Run:
    """Taps of an axis that lie in equal steps, in one phase of its positions' step.

    Position l meets element `l + first + number*step` of the phase, and its weights are `offset + number*weight`.
    """

    phase: int
    first: int
    step: int
    offset: int
    weight: int
    count: int


def runs(span: Span, taps: Taps) -> Iterator[Run]:
    """Some taps of an axis as runs: positions that step over elements read each phase of these in order.

    >>> list(runs(Span(4, 2, (1,), 9, 1, low=-1), ((-1, 0), (0, 5), (1, 10))))
    [Run(phase=0, first=0, step=1, offset=0, weight=10, count=2), Run(phase=1, first=0, step=0, offset=5, weight=0, count=1)]
    """
    places = [(shift - span.low, offset) for shift, offset in taps]
    for phase in sorted({place % span.step for place, _ in places}):
        yield from _in_steps(phase, [(place // span.step, offset) for place, offset in places if place % span.step == phase])


def _in_steps(phase: int, places: Sequence[tuple[int, int]]) -> Iterator[Run]:
    while places:
        (first, offset), *others = places
        step, weight = (others[0][0] - first, others[0][1] - offset) if others else (0, 0)
        count = 1
        while count < len(places) and places[count] == (first + count * step, offset + count * weight):
            count += 1
        yield Run(phase, first, step, offset, weight, count)
        places = places[count:]
