"""torch's operators on the CPU, as ways to run kernels (design §10).

torch is imported at the first kernel that it could run, and none of its settings is changed: it
uses as many threads as
`OMP_NUM_THREADS` says, like generated code. Tensors share the memory of NumPy's arrays. Weights
that are known ahead are
packed by oneDNN once, where it can; a kernel whose weights are not known ahead is a plain call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codegen.ir.types import computed_in
from codegen.ir.window import SpatialAxes, reduction, setting, window
from codegen.libraries.numpy import POOLS
from codegen.libraries.operands import Array, OperandView, operand, writable
from codegen.runtime.foreign_call import call_function
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses

Tensor = Any
Compute = Callable[..., Tensor]  # of the operands' tensors
FLOATS = ("f32", "f64")
PLAIN = "none", [], ""  # no epilogue


def torch() -> Any:
    """The module."""
    import torch as module

    return module


@dataclass(frozen=True)
class TorchKernel:
    """A function of tensors, one axis for each group of an operand, as a run.

    `pack` makes of the weights, the last operand, what `packed` computes with instead of `compute`.
    """

    operands: tuple[OperandView, ...]
    target: OperandView
    compute: Compute
    pack: Callable[[Tensor], Tensor] | None = None
    packed: Compute | None = None
    weights: Tensor = None
    packed_inputs: frozenset[str] = frozenset()

    def __call__(self, buffers: Mapping[str, Array]) -> None:
        call_function(self._run, buffers)

    def prepared(self, known: Mapping[str, Array], _: Any) -> TorchKernel:
        """The same call with its weights packed, where they are known."""
        last = self.operands[-1]
        if (
            self.pack is None
            or last.name not in known
            or any(o.name == last.name for o in self.operands[:-1])
        ):
            return self
        weights = call_function(self.pack, tensor(last, known))
        assert self.packed is not None
        return replace(
            self,
            operands=self.operands[:-1],
            compute=self.packed,
            weights=weights,
            packed_inputs=frozenset((last.name,)),
        )

    def _run(self, buffers: Mapping[str, Array]) -> None:
        inputs = [tensor(o, buffers) for o in self.operands]
        if self.weights is not None:
            inputs.append(self.weights)
        out = tensor_of(self.target.whole(buffers[self.target.name]))
        with torch().inference_mode():
            out.copy_(self.compute(*inputs).reshape(out.shape))


def tensor(view: OperandView, buffers: Mapping[str, Array]) -> Tensor:
    """An operand as a tensor in the memory of its buffer, or a copy where strides do not let it be
    one.
    """
    return tensor_of(view.read(writable(buffers[view.name])))


def tensor_of(array: Array) -> Tensor:
    return torch().from_numpy(array.copy() if any(step < 0 for step in array.strides) else array)


def is_exact(dtype: str, kind: str) -> bool:
    """Whether torch computes `kind` ("matmul" or "conv") in full: a process may ask it for less."""
    if dtype not in FLOATS:
        return False
    settings = torch().backends.mkldnn
    return all(
        getattr(part, "fp32_precision", "none") in ("none", "ieee")
        for part in (settings, getattr(settings, kind, None))
    )


def types(scope: Scope) -> set[str]:
    """The types of what a scope reads, computes and gives."""
    return {scope.dtype, *(result_dtype(read) for read in accesses(scope.body))}


def _packs(dtype: str) -> bool:
    """Whether oneDNN is there, and has operators for weights of its own layout."""
    return (
        dtype == "f32"
        and torch().backends.mkldnn.is_available()
        and hasattr(torch().ops.mkldnn, "_linear_pointwise")
    )


def matmul(kernel: Kernel, scope: Scope) -> TorchKernel | None:
    """`torch.matmul`; of one matrix that is known ahead, a linear layer with packed weights."""
    if (
        len(kernel.views) != 3
        or types(scope) != {computed_in(scope)}
        or not is_exact(scope.dtype, "matmul")
    ):
        return None
    left, right, target = (
        operand(view, *letters) for view, letters in zip(kernel.views, ("bmk", "bkn", "bmn"))
    )
    module = torch()
    plain = TorchKernel((left, right), target, module.matmul)
    if target.sizes[0] != 1 or not _packs(scope.dtype):
        return plain
    rows = target.sizes[1]

    def pack(weights: Tensor) -> Tensor:
        return module.ops.mkldnn._reorder_linear_weight(weights[0].t().contiguous(), rows)

    def packed(data: Tensor, weights: Tensor) -> Tensor:
        return module.ops.mkldnn._linear_pointwise(data[0].contiguous(), weights, None, *PLAIN)

    return replace(plain, pack=pack, packed=packed)


Layer = tuple[
    Compute, Callable[[Tensor], Tensor] | None, Compute | None
]  # plain; packs weights; with packed ones


def convolution(kernel: Kernel, scope: Scope) -> TorchKernel | None:
    """`conv2d` or `conv3d`; one axis is two, one of which has size 1."""
    return _windowed(kernel, scope, "f", "c", _convolution)


def transposed(kernel: Kernel, scope: Scope) -> TorchKernel | None:
    """`conv_transpose2d` or `conv_transpose3d`."""
    return _windowed(kernel, scope, "c", "f", _transposed)


def channels_last(
    binding: Callable[[Kernel, Scope], TorchKernel | None],
) -> Callable[[Kernel, Scope], TorchKernel | None]:
    """The same operator with channels as the innermost axis; None where they are already."""

    def bound(kernel: Kernel, scope: Scope) -> TorchKernel | None:
        call = binding(kernel, scope)
        if call is None or [step for n, step in call.operands[0].groups[1] if n > 1][-1:] in (
            [],
            [1],
        ):
            return None
        module = torch()
        form = (
            module.channels_last if len(call.operands[0].groups) == 4 else module.channels_last_3d
        )

        def turned(compute: Compute | None) -> Any:
            return compute and (
                lambda data, weights: compute(data.contiguous(memory_format=form), weights)
            )

        return replace(call, compute=turned(call.compute), packed=turned(call.packed))

    return bound


def _windowed(
    kernel: Kernel, scope: Scope, first: str, second: str, make: Callable[..., Layer]
) -> TorchKernel | None:
    """A convolution of either kind, whose weights have the axes `first` (of all groups) and
    `second`.
    """
    if (
        len(kernel.views) != 3
        or types(scope) != {computed_in(scope)}
        or not is_exact(scope.dtype, "conv")
    ):
        return None
    axes = window(kernel, 2)  # oneDNN packs no weights of one axis
    data = operand(kernel.views[0], "n", "*c", *axes.space)
    weights = operand(kernel.views[1], f"*{first}", second, *axes.taps)
    target = operand(kernel.views[2], "n", "*f", *axes.space)
    compute, pack, packed = make(kernel, axes, data.sizes, target.sizes)
    call = TorchKernel((data, weights), target, compute)
    return replace(call, pack=pack, packed=packed) if _packs(scope.dtype) else call


def _convolution(
    kernel: Kernel, axes: SpatialAxes, sizes: Sequence[int], points: Sequence[int]
) -> Layer:
    module, groups = torch(), kernel.sizes.get("groups", 1)
    pads = [kernel.views[0].pads.get(letter, (0, 0)) for letter in axes.space]
    even = all(before == after for before, after in pads)
    padding = [before if even else 0 for before, _ in pads]
    shape = [n + (0 if even else sum(pad)) for n, pad in zip(sizes, ((0, 0), (0, 0), *pads))]
    options = (padding, list(axes.stride), list(axes.dilation), groups)

    def padded(data: Tensor) -> Tensor:
        return (
            data
            if even
            else module.nn.functional.pad(data, [n for pad in reversed(pads) for n in pad])
        )

    def compute(data: Tensor, weights: Tensor) -> Tensor:
        function = module.nn.functional.conv2d if len(pads) == 2 else module.nn.functional.conv3d
        return function(padded(data), weights, None, axes.stride, padding, axes.dilation, groups)

    def pack(weights: Tensor) -> Tensor:
        made = (
            module._C._nn.mkldnn_reorder_conv2d_weight
            if len(pads) == 2
            else module._C._nn.mkldnn_reorder_conv3d_weight
        )
        return made(weights.contiguous().to_mkldnn(), *options, shape)

    def packed(data: Tensor, weights: Tensor) -> Tensor:
        return module.ops.mkldnn._convolution_pointwise(
            padded(data), weights, None, *options, *PLAIN
        )

    return compute, pack, packed


def _transposed(
    kernel: Kernel, axes: SpatialAxes, sizes: Sequence[int], points: Sequence[int]
) -> Layer:
    module, groups = torch(), kernel.sizes.get("groups", 1)
    padding, extra, cut = _fitting(
        setting(kernel, "padding", axes.space, 0, "before"), axes, sizes[2:], points[2:]
    )
    options = (padding, extra, list(axes.stride), list(axes.dilation), groups)

    def compute(data: Tensor, weights: Tensor) -> Tensor:
        function = (
            module.nn.functional.conv_transpose2d
            if len(padding) == 2
            else module.nn.functional.conv_transpose3d
        )
        return function(data, weights, None, axes.stride, padding, extra, groups, axes.dilation)[
            cut
        ]

    def pack(weights: Tensor) -> Tensor:
        return module.ops.mkldnn._reorder_convolution_transpose_weight(
            weights.contiguous(), *options, list(sizes)
        )

    def packed(data: Tensor, weights: Tensor) -> Tensor:
        return module.ops.mkldnn._convolution_transpose_pointwise(
            data, weights, None, *options, *PLAIN
        )[cut]

    return (compute, pack, packed) if len(padding) == 2 else (compute, None, None)


def _fitting(
    before: Sequence[int], axes: SpatialAxes, sizes: Sequence[int], points: Sequence[int]
) -> tuple[list[int], list[int], Any]:
    """Padding of both sides, elements to add after it, and the part of the result that is wanted.

    torch pads both sides alike, and adds fewer elements than a stride or dilation; without padding
    that is always enough.
    """
    whole = [
        (n - 1) * step + (taps - 1) * apart + 1
        for n, step, taps, apart in zip(sizes, axes.stride, axes.sizes, axes.dilation)
    ]
    for padding in (list(before), [0] * len(before)):
        starts = [pad - both for pad, both in zip(before, padding)]
        lengths = [n - 2 * both for n, both in zip(whole, padding)]
        extra = [max(0, start + n - length) for start, n, length in zip(starts, points, lengths)]
        if min(lengths) > 0 and all(
            n < max(steps) for n, *steps in zip(extra, axes.stride, axes.dilation)
        ):
            break
    return padding, extra, (..., *(slice(start, start + n) for start, n in zip(starts, points)))


def reduce(kernel: Kernel, scope: Scope) -> TorchKernel | None:
    """A sum, mean, largest or smallest element, or product over an axis."""
    how = reduction(scope)
    if (
        how is None
        or len(kernel.views) != 2
        or types(scope) != {scope.dtype}
        or scope.dtype not in FLOATS
    ):
        return None
    module = torch()
    combine = {"Sum": module.sum, "Max": module.amax, "Min": module.amin, "Prod": module.prod}[
        how[0]
    ]
    data, target = operand(kernel.views[0], "i", "k"), operand(kernel.views[1], "i")
    return TorchKernel(
        (data,),
        target,
        lambda values: combine(values, 1) if how[1] == 1 else combine(values, 1).mul_(how[1]),
    )


def pool(kernel: Kernel, scope: Scope) -> TorchKernel | None:
    """Largest elements of windows, or their means where no taps are left out."""
    how = reduction(scope)
    if (
        how is None
        or len(kernel.views) != 2
        or types(scope) != {scope.dtype}
        or scope.dtype not in FLOATS
    ):
        return None
    axes, module = window(kernel), torch()
    rank, mean = len(axes.space), how[0] == "Sum"
    if mean and max(axes.dilation) > 1:
        return None
    pads = [kernel.views[0].pads.get(letter, (0, 0)) for letter in axes.space]
    data = operand(kernel.views[0], "n", "c", *axes.space)
    function = getattr(module.nn.functional, f"{'avg' if mean else 'max'}_pool{rank}d")
    outside = 0.0 if mean else -float("inf")
    scale = how[1] * axes.count

    def compute(values: Tensor) -> Tensor:
        if any(map(any, pads)):
            values = module.nn.functional.pad(
                values, [n for pad in reversed(pads) for n in pad], value=outside
            )
        if mean:
            values = function(values, axes.sizes, axes.stride)
            return values if abs(scale - 1) < 1e-12 else values * scale
        return function(values, axes.sizes, axes.stride, 0, axes.dilation)

    return TorchKernel((data,), operand(kernel.views[1], "n", "f", *axes.space), compute)


CONVOLUTIONS = {f"conv{rank}d": convolution for rank in (1, 2, 3)} | {
    f"conv_transpose{rank}d": transposed for rank in (1, 2, 3)
}
BINDINGS = {"matmul": matmul, "reduce": reduce, **dict.fromkeys(POOLS, pool), **CONVOLUTIONS}
CHANNELS_LAST = {op: channels_last(binding) for op, binding in CONVOLUTIONS.items()}
