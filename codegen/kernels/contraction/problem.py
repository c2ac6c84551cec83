"""A contraction: a sum of products of two tensors along strided axes, as a matched operator describes it (design §10).

`target[batch, rows, columns] = Σ[depth] left[batch, rows, depth] · right[batch, columns, depth]`, each of the four groups any number
of axes. The axes of an operand may overlap in memory, as a window and its positions do, so a convolution is one too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from codegen.ir.nodes import Buf
from codegen.kernels.strided_axes import (
    Border,
    BorderWindow,
    Epilogue,
    EpilogueStore,
    StridedAxis,
    StridedOperand,
    extent,
)
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope

SPACE, TAPS = "dhw", "qrs"
LINES_APART, GAP = 1024, 16  # elements of which multiples are avoided, and what is left free
COPIED = 1 << 18  # elements up to which all images are copied together


@dataclass(frozen=True)
class Contraction(EpilogueStore):
    """Operands and axes by group; `dtype` is the type of products and sums.

    `windows` are those of which what only reads zeros may be left out, so that their axes stay as they are. `bare` is the same
    without a written border.
    """

    left: StridedOperand
    right: StridedOperand
    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    rows: tuple[StridedAxis, ...]
    columns: tuple[StridedAxis, ...]
    depth: tuple[StridedAxis, ...]
    dtype: str
    epilogue: Epilogue | None = None
    windows: tuple[BorderWindow, ...] = ()
    bare: Contraction | None = None

    @property
    def is_bare(self) -> bool:
        """Whether there is a border that is not written, so that all that would read it must be left out."""
        return not all(window.written for window in self.windows)

    def swapped(self) -> Contraction:
        """The same sums with the operands in the other order."""
        turned = {
            name: tuple(a.swapped() for a in axes)
            for name, axes in (("batch", self.batch), ("depth", self.depth))
        }
        rows, columns = (tuple(a.swapped() for a in axes) for axes in (self.columns, self.rows))
        return replace(self, left=self.right, right=self.left, rows=rows, columns=columns, **turned)

    @property
    def work(self) -> int:
        """Products."""
        return extent((*self.batch, *self.rows, *self.columns, *self.depth))


def contraction_of(
    kernel: Kernel, scope: Scope, dtype: str, ahead: Collection[str] = ()
) -> Contraction | None:
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
    left, right = (
        replace(o, ahead=o.buf.name in ahead and not o.borders)
        for o in (contraction.left, contraction.right)
    )
    return replace(
        contraction,
        left=left,
        right=right,
        bare=contraction.bare and _known(contraction.bare, ahead),
    )


def _product(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    left, right, target = kernel.views
    batch = _axes("b", left=left.axes["b"], right=right.axes["b"], target=target.axes["b"])
    rows = _axes("m", left=left.axes["m"], target=target.axes["m"])
    columns = _axes("n", right=right.axes["n"], target=target.axes["n"])
    depth = _axes("k", left=left.axes["k"], right=right.axes["k"])
    one, other, result = (StridedOperand(buf, view.offset) for buf, view in zip(bufs, kernel.views))
    return Contraction(one, other, result, batch, rows, columns, depth, dtype)


def _convolution(kernel: Kernel, bufs: Sequence[Buf], dtype: str) -> Contraction:
    data = kernel.views[0]
    space = SPACE[5 - len(data.axes) :]
    found = _convolved(
        kernel, bufs, dtype, *_padded(StridedOperand(bufs[0], data.offset), data, space)
    )
    padded = [letter for letter in space if any(data.pads.get(letter, ()))]
    if not padded or len(found.windows) < len(padded):
        return found
    before = sum(data.pads[letter][0] * data.axes[letter][0][1] for letter in padded)
    return replace(
        found,
        bare=_convolved(
            kernel, bufs, dtype, StridedOperand(bufs[0], data.offset - before), dict(data.axes)
        ),
    )


def _convolved(
    kernel: Kernel,
    bufs: Sequence[Buf],
    dtype: str,
    left: StridedOperand,
    steps: Mapping[str, Sequence[tuple[int, int]]],
) -> Contraction:
    """A convolution of an operand with its axes by letter."""
    data, weights, target = kernel.views
    rank = len(data.axes) - 2
    batch = _axes("g", left=data.batch, right=weights.batch, target=target.batch)
    images = _axes("n", left=steps["n"], target=target.axes["n"])
    channels = _axes("c", left=steps["c"], right=weights.axes["c"])
    positions, window, windows = list[StridedAxis](), list[StridedAxis](), list[BorderWindow]()
    for letter, tap in zip(SPACE[3 - rank :], TAPS[3 - rank :]):
        ((_, step),), ((inside, _),) = steps[letter], data.axes[letter]
        stride, dilation = (
            kernel.sizes.get(f"{name}_{letter}", 1) for name in ("stride", "dilation")
        )
        places = _axes(
            letter,
            left=[(n, step * stride) for n, _ in target.axes[letter]],
            target=target.axes[letter],
        )
        taps = _axes(
            tap, left=[(n, step * dilation) for n, _ in weights.axes[tap]], right=weights.axes[tap]
        )
        before, after = data.pads.get(letter, (0, 0))
        if (before or after) and len(places) == len(taps) == 1:
            (place,), (offset,) = places, taps
            numbers = place.extent, offset.extent, stride, dilation, before, inside
            windows.append(
                BorderWindow(place.index, offset.index, *numbers, written=bool(left.borders))
            )
        positions += places
        window += taps
    columns = _axes("f", right=weights.axes["f"], target=target.axes["f"])
    if left.borders and len(left.borders) < sum(
        map(len, steps.values())
    ):  # each image is copied by itself
        batch, images = (*batch, *images), ()
    right, result = StridedOperand(bufs[1], weights.offset), StridedOperand(bufs[2], target.offset)
    rows, depth = (*images, *positions), (*channels, *window)
    return Contraction(
        left, right, result, batch, rows, columns, depth, dtype, windows=tuple(windows)
    )


def _padded(
    data: StridedOperand, view: View, space: str
) -> tuple[StridedOperand, dict[str, tuple[tuple[int, int], ...]]]:
    """An operand with its zeros, and the extents and strides of its axes by letter with these included."""
    if not any(map(any, view.pads.values())):
        return data, dict(view.axes)
    sides = {letter: view.pads.get(letter, (0, 0)) for letter in view.axes}
    elements = prod(n + sum(sides[letter]) for letter, group in view.axes.items() for n, _ in group)
    axes = {
        letter: view.axes[letter] for letter in ("c", *space, *("n" if elements <= COPIED else ""))
    }
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
    found = {
        letter: tuple((n, steps[letter, k]) for k, (n, _) in enumerate(group))
        for letter, group in axes.items()
    }
    return replace(data, borders=tuple(borders)), {**view.axes, **found}


def _axes(letter: str, **strides: Sequence[tuple[int, int]]) -> tuple[StridedAxis, ...]:
    """The axes of a group, given in each operand that it walks along; those of extent 1 are left out."""
    groups = list(zip(*strides.values()))
    found = []
    for number, group in enumerate(groups):
        steps = {operand: step for operand, (_, step) in zip(strides, group)}
        found.append(
            StridedAxis(
                Index(letter if len(groups) == 1 else f"{letter}{number}"), group[0][0], **steps
            )
        )
    return tuple(a for a in found if a.extent != 1)


OPERATORS = {"matmul": _product, **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution)}
