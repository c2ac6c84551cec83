"""A transposed convolution as contractions, one for each phase of its stride (design §10).

Results that lie a stride apart have the same taps: they are a plain convolution of the data with
these. Phases that read the same data, as all do where windows don't overlap, are one contraction
with more columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from codegen.kernels.contraction.problem import SPACE, TAPS, Contraction, contraction_of
from codegen.kernels.contraction.statements.epilogue import contraction_with_epilogue
from codegen.kernels.epilogue import read_some_results
from codegen.kernels.operand_axes import single_axis
from codegen.kernels.stencil.problem import Phase, PhaseGroup, phase_groups, transposed_phases
from codegen.kernels.strided_axes import StridedAxis
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import Kernel, View
from einalg.language.ir.scope import Scope

OPERATORS = {
    "conv_transpose1d": "conv1d",
    "conv_transpose2d": "conv2d",
    "conv_transpose3d": "conv3d",
}


@dataclass(frozen=True)
class SpacePart:
    """Results of some phases along one axis of space, `count` of each, `step` elements apart.

    `line` are the data along the axis, and `tap` and `letter` its names.
    """

    letter: str
    tap: str
    line: StridedAxis
    group: PhaseGroup
    count: int
    step: int

    @property
    def phase(self) -> Phase:
        return self.group.phases[0]

    @property
    def low(self) -> int:
        """Return the lowest shift of a tap: the element that it meets at the first position."""
        return min(self.phase.shifts)

    @property
    def stop(self) -> int:
        """Return the end of the elements that are met, which may lie beyond the data."""
        return max(self.phase.shifts) + self.count

    @property
    def begin(self) -> int:
        """Return the first element of the data that is met."""
        return max(0, self.low)

    @property
    def used(self) -> int:
        """Return how many elements of the data are met; none or fewer where all is border."""
        return min(self.line.extent, self.stop) - self.begin

    @property
    def pads(self) -> tuple[int, int]:
        """Return how many zeros are met before and after the data."""
        return max(0, -self.low), max(0, self.stop - self.line.extent)

    def ascending_taps(self) -> list[tuple[int, int]]:
        """Return the taps in the order of the elements that they meet; these lie in equal steps."""
        return sorted(self.phase.taps)


def phase_contractions(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    ahead: Collection[str] = (),
    epilogue: tuple[str, Scope] | None = None,
) -> list[Contraction] | None:
    """Return a transposed convolution as contractions that share its results.

    None where it is none, or lies in no strides, or has results that are sums of nothing. With an
    `epilogue`, a statement that reads the results, they store this one; None where they cannot.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> phase_contractions(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    if kernel.op not in OPERATORS or len(kernel.views) != 3:
        return None
    axes = _space_parts(kernel)
    if axes is None:
        return None
    contractions = []
    for parts in product(*axes):
        contraction = _contraction(kernel, scope, dtype, ahead, parts)
        if contraction is not None and epilogue is not None:
            contraction = contraction_with_epilogue(contraction, *epilogue, read_some_results)
        if contraction is None:
            return None
        contractions.append(contraction)
    return contractions


def _space_parts(kernel: Kernel) -> list[list[SpacePart]] | None:
    """Return the parts of each axis of space; None where it has none, or results of nothing."""
    rank = len(kernel.views[0].axes) - 2
    axes = []
    for letter, tap in zip(SPACE[3 - rank :], TAPS[3 - rank :]):
        parts = list(_parts_of_axis(kernel, letter, tap))
        if not parts or any(not part.phase.taps or part.used <= 0 for part in parts):
            return None
        axes.append(parts)
    return axes


def _parts_of_axis(kernel: Kernel, letter: str, tap: str) -> Iterator[SpacePart]:
    data, weights, out = kernel.views
    line, window = single_axis(letter, left=data), single_axis(tap, right=weights)
    place = single_axis(letter, target=out)
    if line is None or window is None or place is None:
        return
    stride = kernel.sizes.get(f"stride_{letter}", 1)
    dilation = kernel.sizes.get(f"dilation_{letter}", 1)
    before = kernel.sizes.get(f"padding_{letter}_before", 0)
    phases = transposed_phases(place, window, stride, dilation, before)
    for count, equal in phases.items():
        for group in phase_groups(equal, 1, Index(f"phase_{letter}")):
            yield SpacePart(letter, tap, line, group, count, place.target * stride)


def _contraction(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    ahead: Collection[str],
    parts: Sequence[SpacePart],
) -> Contraction | None:
    """Return the plain convolution that computes the results of a phase along each axis."""
    sizes = {}
    for part in parts:
        taps = part.ascending_taps()
        if len(taps) > 1:
            sizes[f"dilation_{part.letter}"] = taps[1][0] - taps[0][0]
    plain = replace(kernel, op=OPERATORS[kernel.op], sizes=sizes, views=_views(kernel, parts))
    contraction = contraction_of(plain, scope, dtype, ahead)
    if contraction is None:
        return None
    repeated: list[StridedAxis] = []
    for part in parts:
        repeated += part.group.axes
    return _with_columns(contraction, repeated)


def _with_columns(contraction: Contraction, axes: Sequence[StridedAxis]) -> Contraction:
    """Return a contraction with more columns, also without a written border."""
    bare = contraction.bare
    return replace(
        contraction,
        columns=(*contraction.columns, *axes),
        bare=bare and _with_columns(bare, axes),
    )


def _views(kernel: Kernel, parts: Sequence[SpacePart]) -> tuple[View, ...]:
    """Return what a phase reads of the data and the weights, and where it stores its results."""
    data, weights, out = kernel.views
    data_begin, weights_begin, out_begin = data.offset, weights.offset, out.offset
    lines: dict[str, Any] = {}
    windows: dict[str, Any] = {}
    places: dict[str, Any] = {}
    pads: dict[str, tuple[int, int]] = {}
    for part in parts:
        taps = part.ascending_taps()
        weight_step = 0
        if len(taps) > 1:
            weight_step = taps[1][1] - taps[0][1]
        lines[part.letter] = ((part.used, part.line.left),)
        windows[part.tap] = ((len(taps), weight_step),)
        places[part.letter] = ((part.count, part.step),)
        pads[part.letter] = part.pads
        data_begin += part.begin * part.line.left
        weights_begin += taps[0][1]
        out_begin += part.phase.begin[0]
    return (
        _moved(data, data_begin, lines, pads),
        _moved(weights, weights_begin, windows),
        _moved(out, out_begin, places),
    )


def _moved(
    view: View, offset: int, axes: Mapping[str, Any], pads: Mapping[str, tuple[int, int]] = {}
) -> View:
    """Return a view that begins elsewhere and has other axes of space."""
    return replace(view, offset=offset, axes={**view.axes, **axes}, pads=dict(pads))
