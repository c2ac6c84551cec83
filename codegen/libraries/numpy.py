"""NumPy's ways to run operators: views of the operands where it can read them, copies elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from codegen.ir.types import computed, computed_in
from codegen.ir.window import SpatialAxes, reduction, window
from codegen.libraries.operands import Array, OperandView, operand
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses

Run = Callable[[Mapping[str, Array]], None]
COMBINED: dict[str, np.ufunc] = {
    "Sum": np.add,
    "Max": np.maximum,
    "Min": np.minimum,
    "Prod": np.multiply,
}


def matmul(kernel: Kernel, scope: Scope) -> Run | None:
    """A call of `np.matmul` for `L[b, m, n](Sum[k](left[b, m, k] * right[b, k, n]))`; None where
    the kernel has no such views.
    """
    if len(kernel.views) != 3:
        return None
    left, right, target = (
        operand(view, *letters) for view, letters in zip(kernel.views, ("bmk", "bnk", "bmn"))
    )
    size = (*target.sizes, left.sizes[2])
    work = numpy_dtype(computed_in(scope))
    result = numpy_dtype(scope.dtype)

    def run(buffers: Mapping[str, Array]) -> None:
        out = buffers[kernel.output]
        if 0 in size[:3]:
            return
        if size[3] == 0:
            out.fill(0)
            return
        a, b = (
            _matrices(left, buffers[left.name], work),
            _matrices(right, buffers[right.name], work).swapaxes(1, 2),
        )
        axes = target.matrices() if work == result else None
        if axes is not None:
            np.matmul(a, b, out=target.of(out, axes))
        else:
            whole = target.whole(out)
            whole[...] = np.matmul(a, b).reshape(whole.shape)

    return run


def _matrices(view: OperandView, array: Array, dtype: np.dtype[Any]) -> Array:
    axes = view.matrices()
    if axes:
        matrices = view.of(array, axes)
    else:
        matrices = np.ascontiguousarray(view.whole(array)).reshape(view.sizes)
    return matrices.astype(dtype, copy=False)


def reduce(kernel: Kernel, scope: Scope) -> Run | None:
    """A ufunc's reduction of the axes `k` of a view; None where values change their type on the
    way.
    """
    how = reduction(scope)
    if how is None or len(kernel.views) != 2 or not _plain(scope, how[1]):
        return None
    data, target = (operand(view, *letters) for view, letters in zip(kernel.views, ("ik", "i")))
    work, summed, combine = numpy_dtype(computed(scope.dtype)), data.places(1), COMBINED[how[0]]

    def run(buffers: Mapping[str, Array]) -> None:
        result = combine.reduce(data.whole(buffers[data.name]), axis=summed, dtype=work)
        if how[1] != 1:
            result = result * work.type(how[1])
        target.whole(buffers[kernel.output])[...] = result

    return run


def pool(kernel: Kernel, scope: Scope) -> Run | None:
    """Windows combined tap by tap, each tap for all points at once."""
    how = reduction(scope)
    if how is None or len(kernel.views) != 2 or not _plain(scope, how[1]):
        return None
    view, axes = kernel.views[0], window(kernel)
    pads = [view.pads.get(letter, (0, 0)) for letter in axes.space]
    if how[0] != "Sum" and any(map(any, pads)) and not is_float(scope.dtype):
        return None  # no integer is infinite
    data, target = (
        operand(view, "n", "c", *axes.space),
        operand(kernel.views[1], "n", "f", *axes.space),
    )
    combine, work = COMBINED[how[0]], numpy_dtype(computed(scope.dtype))

    def run(buffers: Mapping[str, Array]) -> None:
        padded = with_border(
            data.read(buffers[data.name]),
            ((0, 0), (0, 0), *pads),
            0 if how[0] == "Sum" else -np.inf,
        )
        parts = (padded[part] for part in tapped(axes, target.sizes[2:]))
        total = next(parts).astype(work)
        for part in parts:
            combine(total, part, out=total)
        whole = target.whole(buffers[kernel.output])
        whole[...] = (total if how[1] == 1 else total * work.type(how[1])).reshape(whole.shape)

    return run


def with_border(array: Array, pads: Sequence[tuple[int, int]], fill: float) -> Array:
    """An array with a border; itself where that has no width."""
    if not any(map(any, pads)):
        return array
    bordered = np.full(
        [before + n + after for n, (before, after) in zip(array.shape, pads)], fill, array.dtype
    )
    bordered[tuple(slice(before, before + n) for n, (before, _) in zip(array.shape, pads))] = array
    return bordered


def tapped(axes: SpatialAxes, points: Sequence[int]) -> list[tuple[Any, ...]]:
    """For each tap of a window, what it reads for all points."""
    slices = [
        [slice(tap * apart, tap * apart + (n - 1) * step + 1, step) for tap in range(taps)]
        for taps, apart, step, n in zip(axes.sizes, axes.dilation, axes.stride, points)
    ]
    return [(..., *part) for part in product(*slices)]


def _plain(scope: Scope, scale: float) -> bool:
    """Whether elements are combined in the type of the result, and scaled only where it has
    fractions.
    """
    (read,) = accesses(scope.body)
    return result_dtype(read) == scope.dtype != "bool" and (scale == 1 or is_float(scope.dtype))


POOLS = [f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]
BINDINGS = {"matmul": matmul, "reduce": reduce, **dict.fromkeys(POOLS, pool)}
