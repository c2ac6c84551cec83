"""NumPy's matrix product as the `matmul` of a program: views of the operands where BLAS can read them, copies elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import sympy

from codegen.scalar import computed
from einalg.access import Access
from einalg.dtypes import numpy_dtype, promote
from einalg.kernel import Kernel, View
from einalg.scope import Reduce, Scope
from einalg.traverse import result_dtype

Array = np.ndarray[Any, Any]
Axis = tuple[int, int]  # extent and stride, in elements


@dataclass(frozen=True)
class Operand:
    """A strided view of a contiguous array: three groups of axes, and where it begins (in elements)."""

    name: str
    groups: tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]
    offset: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(extent for extent, _ in group) for group in self.groups)

    def matrices(self) -> tuple[Axis, ...] | None:
        """The three groups as single axes that BLAS can walk, or None."""
        batch, row, column = map(_merged, self.groups)
        if batch is None or row is None or column is None:
            return None
        (rows, step), (columns, stride) = row, column
        if columns == 1:
            stride = 1 if step != 1 or rows == 1 else rows
        if rows == 1:
            step = columns if stride == 1 else 1
        ordered = (stride == 1 and step >= columns) or (step == 1 and stride >= rows)
        return (batch, (rows, step), (columns, stride)) if ordered else None

    def of(self, array: Array, axes: Sequence[Axis]) -> Array:
        size = array.itemsize
        return np.ndarray([n for n, _ in axes], array.dtype, array, self.offset * size, [s * size for _, s in axes])

    def whole(self, array: Array) -> Array:
        """The view with one axis for each index."""
        return self.of(array, [axis for group in self.groups for axis in group])


def _merged(group: Sequence[Axis]) -> Axis | None:
    """Axes that lie in memory like a single one, as that one."""
    axes = [axis for axis in group if axis[0] != 1]
    if not axes:
        return 1, 0
    extent, stride = axes[-1]
    for outer, step in reversed(axes[:-1]):
        if step != extent * stride:
            return None
        extent *= outer
    return extent, stride


def matmul(kernel: Kernel, scope: Scope) -> Callable[[Mapping[str, Array]], None] | None:
    """A call of `np.matmul` for `L[b, m, n](Sum[k](left[b, m, k] * right[b, k, n]))`; None where the kernel has no such views."""
    if len(kernel.views) != 3:
        return None
    left, right, target = (_groups(view, letters) for view, letters in zip(kernel.views, ("bmk", "bnk", "bmn")))
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
        a, b = _matrices(left, buffers[left.name], work), _matrices(right, buffers[right.name], work).swapaxes(1, 2)
        axes = target.matrices() if work == result else None
        if axes is not None:
            np.matmul(a, b, out=target.of(out, axes))
        else:
            whole = target.whole(out)
            whole[...] = np.matmul(a, b).reshape(whole.shape)

    return run


def _matrices(view: Operand, array: Array, dtype: np.dtype[Any]) -> Array:
    axes = view.matrices()
    found = view.of(array, axes) if axes else np.ascontiguousarray(view.whole(array)).reshape(view.sizes)
    return found.astype(dtype, copy=False)


def computed_in(scope: Scope) -> str:
    """Half precision is summed in single precision, truth values in integers; BLAS has neither."""
    return computed(promote(scope.dtype, *(result_dtype(f) for f in _factors(scope.body))))


def _factors(body: Any) -> list[Access]:
    """The two reads of which the body is the product or the sum of products; none where it is neither."""
    product = body.body if isinstance(body, Reduce) else body
    factors: Sequence[Any] = sympy.Mul.make_args(product)
    if isinstance(product, sympy.Pow) and product.exp == 2:
        factors = (product.base, product.base)
    accesses = [f for f in factors if isinstance(f, Access)]
    return accesses if len(accesses) == len(factors) == 2 else []


def _groups(view: View, letters: str) -> Operand:
    first, second, third = (view.axes[letter] for letter in letters)
    return Operand(view.name, (first, second, third), view.offset)


BINDINGS = {"matmul": matmul}
