"""A contraction: a sum of products of two tensors along strided axes, as a matched operator describes it (design §10).

`target[batch, rows, columns] = Σ[depth] left[batch, rows, depth] · right[batch, columns, depth]`, each of the four groups any number
of axes. The axes of an operand may overlap in memory, as a window and its positions do, so a convolution is one too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from codegen.ir import Buf
from einalg.access import Access
from einalg.affine import Affine, Index, affine
from einalg.kernel import Kernel, View
from einalg.scope import Scope

SPACE, TAPS = "dhw", "qrs"
LINES_APART, GAP = 1024, 16  # elements of which multiples are avoided, and what is left free
COPIED = 1 << 18  # elements up to which all images are copied together
Side = str | int  # an operand by its name, or what an epilogue reads by its number


@dataclass(frozen=True)
class Axis:
    """An index with its extent, and how far its next value is in each operand (elements; 0 where it does not move).

    `beside` are its steps in what an epilogue reads.
    """

    index: Index
    extent: int
    left: int = 0
    right: int = 0
    target: int = 0
    beside: tuple[int, ...] = ()

    def step(self, side: Side) -> int:
        return self.beside[side] if isinstance(side, int) else getattr(self, side)

    def swapped(self) -> Axis:
        return replace(self, left=self.right, right=self.left)


@dataclass(frozen=True)
class Border:
    """An axis of a tensor, with as many zeros as are read before and after it, and a gap that is not read.

    Without the gap, lines that are a page apart would displace one another from the cache.
    """

    extent: int
    stride: int
    before: int = 0
    after: int = 0
    gap: int = 0

    @property
    def whole(self) -> int:
        return self.before + self.extent + self.after + self.gap


@dataclass(frozen=True)
class Window:
    """Where a convolution reads its border: a tap of a position reads zeros unless `0 <= step*position + apart*tap - before < inside`.

    `positions` and `taps` are how many there are. Only where the border is `written` may zeros be read.
    """

    position: Index
    tap: Index
    positions: int
    taps: int
    step: int
    apart: int
    before: int
    inside: int
    written: bool = True

    def between(self, low: Any, high: Any) -> tuple[Any, Any]:
        """The first tap that reads something else at positions from `low` to `high`, and where such taps end; also beyond the taps there are.

        Of integers, or of index expressions.

        >>> window = Window(Index("h"), Index("r"), 7, 5, 1, 2, 4, 7)
        >>> window.between(0, 0), window.between(5, 6)
        ((2, 6), (-1, 3))
        """
        return -((high * self.step - self.before) // self.apart), (self.before + self.inside - 1 - low * self.step) // self.apart + 1


@lru_cache(maxsize=4096)
def taken(window: Window, together: int) -> float:
    """The part of the taps that tiles of so many neighbouring positions do not leave out.

    >>> window = Window(Index("h"), Index("r"), 7, 3, 1, 1, 1, 7)
    >>> taken(window, 1), taken(window, 7)
    (0.9047619047619048, 1.0)
    """
    lows = range(0, window.positions, together)
    ends = (window.between(low, min(low + together, window.positions) - 1) for low in lows)
    return sum(max(0, min(stop, window.taps) - max(first, 0)) for first, stop in ends) / (len(lows) * window.taps)


@dataclass(frozen=True)
class Operand:
    """A tensor as it lies in memory, and the element where reading begins.

    With `borders`, what is read is a copy of one batch in the order of these axes, zeros included; `offset` and the strides of
    batch axes are still those of the tensor. One that is known `ahead` may be packed before the run.
    """

    buf: Buf
    offset: int
    borders: tuple[Border, ...] = ()
    ahead: bool = False

    @property
    def flat(self) -> Buf:
        return replace(self.buf, shape=(prod(self.buf.shape),))


@dataclass(frozen=True)
class Epilogue:
    """What is made of each result before it is stored: `body`, in which `product` stands for the result; `reads` are its other elements."""

    body: Any
    product: str
    reads: Mapping[Access, Operand]

    @property
    def beside(self) -> tuple[Operand, ...]:
        return tuple(self.reads.values())


class Stored:
    """What stores results, or what an epilogue makes of them."""

    epilogue: Epilogue | None

    @property
    def beside(self) -> tuple[Operand, ...]:
        """What an epilogue reads."""
        return self.epilogue.beside if self.epilogue else ()

    @property
    def stored(self) -> tuple[Side, ...]:
        """The sides that are walked where results are stored."""
        return ("target", *range(len(self.beside)))


@dataclass(frozen=True)
class Contraction(Stored):
    """Operands and axes by group; `dtype` is the type of products and sums.

    `windows` are those of which what only reads zeros may be left out, so that their axes stay as they are. `bare` is the same
    without a written border.
    """

    left: Operand
    right: Operand
    target: Operand
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    dtype: str
    epilogue: Epilogue | None = None
    windows: tuple[Window, ...] = ()
    bare: Contraction | None = None

    @property
    def is_bare(self) -> bool:
        """Whether there is a border that is not written, so that all that would read it must be left out."""
        return not all(window.written for window in self.windows)

    def swapped(self) -> Contraction:
        """The same sums with the operands in the other order."""
        turned = {name: tuple(a.swapped() for a in axes) for name, axes in (("batch", self.batch), ("depth", self.depth))}
        rows, columns = (tuple(a.swapped() for a in axes) for axes in (self.columns, self.rows))
        return replace(self, left=self.right, right=self.left, rows=rows, columns=columns, **turned)

    @property
    def work(self) -> int:
        """Products."""
        return extent((*self.batch, *self.rows, *self.columns, *self.depth))


def extent(axes: Iterable[Axis]) -> int:
    return prod(a.extent for a in axes)


def offset(axes: Iterable[Axis], operand: Side) -> Affine:
    """Where the indices of some axes lead in an operand."""
    return sum((affine(a.index) * a.step(operand) for a in axes), affine(0))


def merged(axes: Sequence[Axis], *operands: Side, but: Collection[Index] = ()) -> tuple[Axis, ...]:
    """Axes of which neighbours that lie like one axis in the given operands are one, `but` these; the others' strides are then of no use."""
    found: list[Axis] = []
    for axis in axes:
        outer = found[-1] if found else None
        if outer and outer.index not in but and axis.index not in but and all(outer.step(o) == axis.step(o) * axis.extent for o in operands):
            found[-1] = replace(axis, extent=outer.extent * axis.extent)
        else:
            found.append(axis)
    return tuple(found)


def contraction_of(kernel: Kernel, scope: Scope, dtype: str, ahead: Collection[str] = ()) -> Contraction | None:
    """A kernel as a contraction computed in `dtype`; None where it is none, or has no views. `ahead` names what is known before a run."""
    if len(kernel.views) != 3:
        return None
    bufs = {name: Buf(name, t.shape, t.dtype) for name, t in scope.tensors.items()}
    bufs[kernel.output] = Buf(kernel.output, scope.shape, scope.dtype)
    if any(view.name not in bufs for view in kernel.views):
        return None
    make = OPERATORS.get(kernel.op)
    found = make(kernel, [bufs[view.name] for view in kernel.views], dtype) if make else None
    if found is None or not found.work:
        return None
    return _known(found, ahead)


def _known(contraction: Contraction, ahead: Collection[str]) -> Contraction:
    """The contraction with operands that say whether they are known before a run; their copies with borders are not."""
    left, right = (replace(o, ahead=o.buf.name in ahead and not o.borders) for o in (contraction.left, contraction.right))
    return replace(contraction, left=left, right=right, bare=contraction.bare and _known(contraction.bare, ahead))


def _product(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    left, right, target = kernel.views
    batch = _axes("b", left=left.axes["b"], right=right.axes["b"], target=target.axes["b"])
    rows = _axes("m", left=left.axes["m"], target=target.axes["m"])
    columns = _axes("n", right=right.axes["n"], target=target.axes["n"])
    depth = _axes("k", left=left.axes["k"], right=right.axes["k"])
    one, other, result = (Operand(buf, view.offset) for buf, view in zip(bufs, kernel.views))
    return Contraction(one, other, result, batch, rows, columns, depth, dtype)


def _convolution(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    data = kernel.views[0]
    space = SPACE[5 - len(data.axes) :]
    found = _convolved(kernel, bufs, dtype, *_padded(Operand(bufs[0], data.offset), data, space))
    padded = [letter for letter in space if any(data.pads.get(letter, ()))]
    if not padded or len(found.windows) < len(padded):
        return found
    before = sum(data.pads[letter][0] * data.axes[letter][0][1] for letter in padded)
    return replace(found, bare=_convolved(kernel, bufs, dtype, Operand(bufs[0], data.offset - before), dict(data.axes)))


def _convolved(kernel: Kernel, bufs: Sequence[Buf], dtype: str, left: Operand, steps: Mapping[str, Sequence[tuple[int, int]]]) -> Contraction:
    """A convolution of an operand with its axes by letter."""
    data, weights, target = kernel.views
    rank = len(data.axes) - 2
    batch = _axes("g", left=data.batch, right=weights.batch, target=target.batch)
    images = _axes("n", left=steps["n"], target=target.axes["n"])
    channels = _axes("c", left=steps["c"], right=weights.axes["c"])
    positions, window, windows = list[Axis](), list[Axis](), list[Window]()
    for letter, tap in zip(SPACE[3 - rank :], TAPS[3 - rank :]):
        ((_, step),), ((inside, _),) = steps[letter], data.axes[letter]
        stride, dilation = (kernel.sizes.get(f"{name}_{letter}", 1) for name in ("stride", "dilation"))
        places = _axes(letter, left=[(n, step * stride) for n, _ in target.axes[letter]], target=target.axes[letter])
        taps = _axes(tap, left=[(n, step * dilation) for n, _ in weights.axes[tap]], right=weights.axes[tap])
        before, after = data.pads.get(letter, (0, 0))
        if (before or after) and len(places) == len(taps) == 1:
            (place,), (offset,) = places, taps
            numbers = place.extent, offset.extent, stride, dilation, before, inside
            windows.append(Window(place.index, offset.index, *numbers, written=bool(left.borders)))
        positions += places
        window += taps
    columns = _axes("f", right=weights.axes["f"], target=target.axes["f"])
    if left.borders and len(left.borders) < sum(map(len, steps.values())):  # each image is copied by itself
        batch, images = (*batch, *images), ()
    right, result = Operand(bufs[1], weights.offset), Operand(bufs[2], target.offset)
    rows, depth = (*images, *positions), (*channels, *window)
    return Contraction(left, right, result, batch, rows, columns, depth, dtype, windows=tuple(windows))


def _padded(data: Operand, view: View, space: str) -> tuple[Operand, dict[str, tuple[tuple[int, int], ...]]]:
    """An operand with its zeros, and the extents and strides of its axes by letter with these included."""
    if not any(map(any, view.pads.values())):
        return data, dict(view.axes)
    sides = {letter: view.pads.get(letter, (0, 0)) for letter in view.axes}
    elements = prod(n + sum(sides[letter]) for letter, group in view.axes.items() for n, _ in group)
    axes = {letter: view.axes[letter] for letter in ("c", *space, *("n" if elements <= COPIED else ""))}
    places = [(letter, k, *axis) for letter, group in axes.items() for k, axis in enumerate(group)]
    order = sorted(places, key=lambda place: -abs(place[3]))
    borders: list[Border] = []
    steps, step = dict[tuple[str, int], int](), 1
    for letter, k, extent, stride in reversed(order):
        border = Border(extent, stride, *sides[letter])
        if border.whole * step % LINES_APART == 0:
            border = replace(border, gap=-(-GAP // step))
        borders.insert(0, border)
        steps[letter, k] = step
        step *= border.whole
    found = {letter: tuple((n, steps[letter, k]) for k, (n, _) in enumerate(group)) for letter, group in axes.items()}
    return replace(data, borders=tuple(borders)), {**view.axes, **found}


def _axes(letter: str, **strides: Sequence[tuple[int, int]]) -> tuple[Axis, ...]:
    """The axes of a group, given in each operand that it walks along; those of extent 1 are left out."""
    groups = list(zip(*strides.values()))
    found = []
    for number, group in enumerate(groups):
        steps = {operand: step for operand, (_, step) in zip(strides, group)}
        found.append(Axis(Index(letter if len(groups) == 1 else f"{letter}{number}"), group[0][0], **steps))
    return tuple(a for a in found if a.extent != 1)


OPERATORS = {"matmul": _product, **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution)}
