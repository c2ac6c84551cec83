"""torch's operators on a CUDA device (cuBLAS, cuDNN), as ways to run kernels of programs whose
arrays lie there (design §10).

The bindings are those of the CPU. Half precision is multiplied as it is and summed in single
precision; single precision is
computed in full, whatever the process allows torch, unless `reduced` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from codegen.libraries.operands import OperandView
from codegen.libraries.torch import BINDINGS, CHANNELS_LAST, TorchKernel, torch, types
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor

Flat = Callable[[str], Any]  # the memory of a buffer, by its name, as a tensor of one axis
WAYS = {"torch on the device": BINDINGS, "torch on the device, channels last": CHANNELS_LAST}
HALVES = ({"f16"}, {"bf16"})


@dataclass(frozen=True)
class DeviceCall:
    """A function of tensors on views of the memory of a device."""

    call: TorchKernel
    reduced: bool = False

    def __call__(self, memory: Flat) -> None:
        call = self.call
        with torch().inference_mode(), precision("tf32" if self.reduced else "ieee"):
            out = _whole(call.target, memory)
            with in_order(out):
                out.copy_(
                    call.compute(
                        *(_whole(o, memory).reshape(o.sizes) for o in call.operands)
                    ).reshape(out.shape)
                )


def in_order(tensor: Any) -> AbstractContextManager[Any]:
    """On a device, the default stream, where generated kernels run, whatever stream torch uses
    meanwhile.
    """
    cuda = torch().cuda
    return cuda.stream(cuda.default_stream(tensor.device)) if tensor.is_cuda else nullcontext()


def ways(kernel: Kernel, scope: Scope, reduced: bool = False) -> dict[str, DeviceCall]:
    """Every way in which torch runs a kernel on a device, by its name."""
    wide = _single(scope) if types(scope) in HALVES else scope
    calls: dict[str, DeviceCall] = {}
    for name, bindings in WAYS.items():
        binding: Callable[[Kernel, Scope], TorchKernel | None] | None = bindings.get(kernel.op)
        call = binding(kernel, wide) if binding else None
        if call is not None and all(
            step >= 0
            for o in (*call.operands, call.target)
            for group in o.groups
            for _, step in group
        ):
            calls[name] = DeviceCall(call, reduced)
    return calls


def on_device(array: Any, dtype: str) -> Any:
    """An array of a device as a tensor, in the same memory."""
    tensor = torch().as_tensor(array, device="cuda")
    return tensor.view(torch().bfloat16) if dtype == "bf16" else tensor


def _whole(view: OperandView, memory: Flat) -> Any:
    """A view with one axis for each index."""
    axes = [axis for group in view.groups for axis in group]
    return memory(view.name).as_strided(
        [n for n, _ in axes], [step for _, step in axes], view.offset
    )


def _single(scope: Scope) -> Scope:
    """The same scope with its elements in single precision."""
    wide: Mapping[str, Tensor] = {
        name: Tensor(name, t.axes, "f32", t.role) for name, t in scope.tensors.items()
    }
    return substitute_tensors(scope, wide)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Products of f32 in full ("ieee") or with 10 bits of each factor ("tf32"), and sums of half
    precision in f32; then as before.
    """
    backends = torch().backends
    matmul, conv = backends.cuda.matmul, getattr(backends.cudnn, "conv", None)
    wanted = [
        (matmul, f"allow_{dtype}_reduced_precision_reduction", False) for dtype in ("fp16", "bf16")
    ]
    if conv is not None and hasattr(matmul, "fp32_precision"):
        wanted += [(matmul, "fp32_precision", name), (conv, "fp32_precision", name)]
    else:
        wanted += [
            (matmul, "allow_tf32", name == "tf32"),
            (backends.cudnn, "allow_tf32", name == "tf32"),
        ]
    before = [(owner, setting, getattr(owner, setting)) for owner, setting, _ in wanted]
    try:
        for owner, setting, value in wanted:
            setattr(owner, setting, value)
        yield
    finally:
        for owner, setting, value in before:
            setattr(owner, setting, value)
