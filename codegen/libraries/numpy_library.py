"""NumPy's matrix product as the `matmul` of a program: views of the operands where BLAS can read them, copies elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import sympy

from codegen.scalar import computed
from einalg.access import Access, Padded, unpadded
from einalg.affine import Index
from einalg.dtypes import numpy_dtype, promote
from einalg.kernel import Kernel
from einalg.scope import Reduce, Scope
from einalg.traverse import result_dtype

Array = np.ndarray[Any, Any]
Axis = tuple[int, int]  # extent and stride, in elements


@dataclass(frozen=True)
class View:
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
    """A call of `np.matmul` for `L[b, m, n](Sum[k](left[b, m, k] * right[b, k, n]))`; None where the scope is not of that form."""
    operands = _operands(kernel, scope)
    if operands is None:
        return None
    left, right = operands
    target = View(kernel.output, *_output(kernel, scope))
    size = (*target.sizes, left.sizes[2])
    work = numpy_dtype(_computed_in(scope))
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


def _matrices(view: View, array: Array, dtype: np.dtype[Any]) -> Array:
    axes = view.matrices()
    found = view.of(array, axes) if axes else np.ascontiguousarray(view.whole(array)).reshape(view.sizes)
    return found.astype(dtype, copy=False)


def _computed_in(scope: Scope) -> str:
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


def _operands(kernel: Kernel, scope: Scope) -> tuple[View, View] | None:
    """`left[b, m, k]` and `right[b, n, k]`."""
    body = scope.body
    factors = _factors(body)
    if not factors or scope.where or (isinstance(body, Reduce) and (body.op != "Sum" or body.where)):
        return None
    ranges = {it.index: (it.low, it.high) for it in (*scope.iterators, *(body.iterators if isinstance(body, Reduce) else ()))}
    covered = {i for group in kernel.groups.values() for i in group}
    if any(high - low != 1 and i not in covered for i, (low, high) in ranges.items()):
        return None
    b, m, n, k = (_in_order(kernel, name, scope) for name in "bmnk")
    for one, two in (factors, factors[::-1]):
        if (one.tensor.name, two.tensor.name) == tuple(kernel.inputs[:2]):
            left, right = _view(one, (b, m, k), ranges), _view(two, (b, n, k), ranges)
            if left is not None and right is not None:
                return left, right
    return None


def _in_order(kernel: Kernel, group: str, scope: Scope) -> tuple[Index, ...]:
    """The indices of a group in the order in which the output has them."""
    members = kernel.groups.get(group, ())
    place = {index: position for position, index in enumerate(scope.indices)}
    return tuple(sorted(members, key=lambda i: place.get(i, 0))) if group != "k" else tuple(members)


def _view(access: Access, groups: tuple[tuple[Index, ...], ...], ranges: Mapping[Index, tuple[int, int]]) -> View | None:
    base = unpadded(access.base)
    steps: dict[Index, int] = dict.fromkeys((i for group in groups for i in group), 0)
    offset = 0
    for form, stride, (low, high) in zip(access.subscripts, _strides(base.shape), base.box):
        first, last = form.interval(ranges)
        if isinstance(access.base, Padded) and (first < low or last >= high):
            return None
        live = [i for i in form.indices if ranges[i][1] - ranges[i][0] != 1]
        if len(live) > 1 or not form.is_affine() or any(i not in steps for i in live):
            return None
        offset += (first - low) * stride
        for i in live:
            step = form.coefficient(i)
            if step < 0:
                return None
            steps[i] += step * stride
    if any(not steps[i] and ranges[i][1] - ranges[i][0] != 1 for group in groups for i in group):
        return None
    first_group, second_group, third_group = (tuple((ranges[i][1] - ranges[i][0], steps[i]) for i in group) for group in groups)
    return View(base.name, (first_group, second_group, third_group), offset)


def _strides(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis of a contiguous array."""
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * max(1, size))
    return steps if shape else []


def _output(kernel: Kernel, scope: Scope) -> tuple[Any, int]:
    strides = dict(zip(scope.indices, _strides(scope.shape)))
    extents = {it.index: it.extent for it in scope.iterators}
    return tuple(tuple((extents[i], strides[i]) for i in _in_order(kernel, name, scope)) for name in "bmn"), 0


BINDINGS = {"matmul": matmul}
