"""Modules and tensors in the memory of the host and of a device; calls of networks on a device."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from einalg.errors import NotationError
from einalg.frontends.network import IN_FRAMEWORK, Arguments, FrameworkRun
from einalg.frontends.torch.direct_call import TensorSignature
from einalg.language.ir.dtypes import numpy_dtype
from einalg.runtime.direct_call import HOST, DirectCall, Layout

LOG = logging.getLogger("einalg")


def device_of(value: Any) -> Any:
    """Return the device of the first tensor in nested values that does not lie on the host.

    None where all of them do.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> device_of([torch.ones(2), {"b": torch.ones(2, device="meta")}])
    device(type='meta')
    """
    import torch
    from torch.utils._pytree import tree_leaves

    if isinstance(value, torch.Tensor):
        return None if value.is_cpu else value.device
    if isinstance(value, (tuple, list)):
        found = (device_of(part) for part in value)
    else:
        found = (device_of(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return next((device for device in found if device is not None), None)


def device_of_module(module: Any) -> Any:
    """Return the device of a module's parameters and buffers; None where all lie on the host."""
    return device_of([*module.parameters(), *module.buffers()])


def moved(value: Any, device: Any) -> Any:
    """Return nested values with their tensors on a device; those that lie there are the same.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> moved((torch.ones(2), [3]), "cpu")
    (tensor([1., 1.]), [3])
    """
    import torch
    from torch.utils._pytree import tree_map

    def placed(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.to(device)

    with torch.no_grad():
        return tree_map(placed, value)


def module_on(module: Any, device: Any) -> Any:
    """Return a copy of a module whose parameters and buffers lie on a device.

    Raises `NotationError` where it cannot be copied.
    """
    import torch

    memo: dict[int, Any] = {}
    with torch.no_grad():
        for parameter in module.parameters():
            own = torch.nn.Parameter(parameter.detach().to(device), parameter.requires_grad)
            memo[id(parameter)] = own
        for buffer in module.buffers():
            memo[id(buffer)] = buffer.detach().to(device)
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # whatever a class raises that cannot be copied
        raise NotationError(
            f"the module cannot be copied to {device}: {error}\n"
            f"  give it there: ea.optimize(module.to({str(device)!r}), ...)"
        ) from None


def wait_for(device: Any) -> Callable[[Any], Any]:
    """Return a function that returns its argument when a device has done all that it was asked for.

    `device` is None for the host, which does it at once.
    """
    import torch

    if device is None:
        return lambda result: result
    synchronize = getattr(torch, device.type).synchronize

    def wait(result: Any) -> Any:
        synchronize(device)
        return result

    return wait


@dataclass(frozen=True)
class PlacedModule:
    """A module and the arguments of a call, wherever they lie; called as a function of tensors."""

    module: Any
    arguments: Arguments

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        import torch

        with torch.no_grad():
            return self.module(*arguments, **named)

    @cached_property
    def device(self) -> Any:
        """The device that the module or an argument lies on; None where all lie on the host."""
        return device_of_module(self.module) or device_of(self.arguments)

    def on_host(self) -> PlacedModule:
        """Return the same in the memory of the host: itself where it lies there."""
        return self if self.device is None else self._copied_to(HOST)

    def run_for(self, target: str) -> FrameworkRun:
        """Return how torch runs the module for a user who wants it fast on a target.

        A module that lies on a device is run there. For a device as target, one of the host is
        copied to it, and a call takes arguments there and results to where these come from, as
        einalg does; where that cannot be, it runs on the host.
        """
        import torch

        if self.device is not None:
            own = self if device_of_module(self.module) else self._copied_to(self.device)
            where = f"{IN_FRAMEWORK} on {self.device}"
            return FrameworkRun(own, self.arguments, wait_for(self.device), where)
        on_host = FrameworkRun(self, self.arguments)
        if target == HOST or not torch.cuda.is_available():
            return on_host
        device = torch.device(target, 0)
        try:
            copied = self._copied_to(device)
        except (NotationError, RuntimeError) as error:  # the device may have no room
            LOG.info("einalg: torch runs the module on the host: %s", error)
            return on_host

        def call(*arguments: Any, **named: Any) -> Any:
            result = copied(*moved(arguments, device), **moved(named, device))
            return moved(result, device_of((arguments, named)) or HOST)

        return FrameworkRun(call, self.arguments, where=f"{IN_FRAMEWORK} on {device}")

    def _copied_to(self, device: Any) -> PlacedModule:
        return PlacedModule(module_on(self.module, device), moved(self.arguments, device))


def device_function(
    direct: DirectCall, signature: TensorSignature, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function of tensors in order on a device, whose results are new tensors there.

    Kernels read tensors where they lie; those of other strides are copied there first. Arguments
    that are no tensors of the right shape and dtype on the first device go to `otherwise`.
    """
    import torch

    kernel_dtypes = [_torch_dtype(tensor.dtype) for tensor in (*direct.inputs, *direct.outputs)]
    if [*signature.inputs, *signature.outputs] != kernel_dtypes:
        return otherwise
    place = torch.device(direct.device, 0)
    layouts = list(map(Layout.of, (tensor.shape for tensor in direct.inputs), signature.orders))
    expected = list(zip(layouts, signature.inputs))
    results_like = list(zip((tensor.shape for tensor in direct.outputs), signature.outputs))

    def is_expected(value: Any, layout: Layout, dtype: Any) -> bool:
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return False
        is_there = value.device.type == place.type and value.get_device() <= place.index
        is_strided = value.layout is torch.strided
        return is_there and is_strided and value.shape == layout.shape and value.dtype is dtype

    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords or len(arguments) != len(expected):
            return otherwise(*arguments, **keywords)
        for value, (layout, dtype) in zip(arguments, expected):
            if not is_expected(value, layout, dtype):
                return otherwise(*arguments)
        with torch.no_grad():
            read = [_laid_out(*both, direct.alignment) for both in zip(arguments, layouts)]
        results = [torch.empty(shape, dtype=dtype, device=place) for shape, dtype in results_like]
        with _in_order(place):
            direct.run([tensor.data_ptr() for tensor in (*read, *results)])
        return signature.nest(iter(results))

    return call


def _laid_out(tensor: Any, layout: Layout, alignment: int) -> Any:
    """Return a tensor whose elements lie in memory as a layout says: a copy where they do not.

    They begin at a multiple of some bytes.
    """
    import torch

    if layout.has(tensor.stride()) and not tensor.is_neg() and tensor.data_ptr() % alignment == 0:
        return tensor
    fresh = torch.empty_strided(
        layout.shape, layout.strides, dtype=tensor.dtype, device=tensor.device
    )
    return fresh.copy_(tensor)


def _torch_dtype(dtype: str) -> Any:
    """Return the dtype of torch for elements in the memory of a device."""
    import torch

    return getattr(torch, "bfloat16" if dtype == "bf16" else numpy_dtype(dtype).name)


@contextmanager
def _in_order(place: Any) -> Iterator[None]:
    """Have kernels run after what torch started before, and before what it starts next.

    Kernels run on the default stream. Another one, which torch may use meanwhile, knows nothing of
    it.
    """
    import torch

    waits = place.type == "cuda"
    if waits:
        waits = torch.cuda.current_stream(place) != torch.cuda.default_stream(place)
    if waits:
        torch.cuda.synchronize(place)
    yield
    if waits:
        torch.cuda.synchronize(place)
