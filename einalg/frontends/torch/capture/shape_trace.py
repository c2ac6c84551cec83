"""Calls of torch operators on tensors without values: each operator is asked for its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

Row = Any
"""A result as JSON values.

A tensor is its shape, strides and dtype, `[[2, 3], [3, 1], "torch.float32"]`; a tensor that an
earlier operator returned is its number; a list or tuple is `{"list": rows}`.
"""
Answer = Callable[[str, Callable[[], Row]], Row]
"""Called with an operator and its arguments as text, and a function that computes the row."""


class Unrecorded(Exception):
    """A call does what shapes do not decide, or what is not recorded."""


class ShapeTrace:
    """Tensors without values by name, and the results of operators on them.

    `names` has the names of weights by the identity of the tensor; `answer` gives the row of each
    operator, and computes it on torch's device for shapes where it has to.
    """

    def __init__(self, names: Mapping[int, str], answer: Answer):
        self.names, self.answer = dict(names), answer
        # Retained so that no new tensor takes the place in memory, and with it the name, of one.
        self.tensors: list[Any] = []
        self.weights: dict[str, Any] = {}  # on the device for shapes

    def add_input(self, tensor: Any) -> Any:
        """Return a tensor without values for an argument of the call."""
        return self._new_tensor(shape_row(tensor), _on_meta(tensor))

    def text(self, value: Any) -> str:
        """Return arguments as text, with tensors by their names."""
        return argument_text(value, self.names)

    def dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the results of one operator, as `answer` describes them."""
        inners: list[Any] = []  # of the results, in order, where these are computed

        def compute() -> Row:
            return self._row(self._computed(func, args, kwargs), func, inners)

        row = self.answer(f"{func} {self.text(args)} {self.text(kwargs)}", compute)
        return self._result(row, iter(inners))

    def _new_tensor(self, row: Row, inner: Any) -> Any:
        shape_tensor, _ = _torch_classes()
        tensor = shape_tensor(row, inner)
        self.names[id(tensor)] = f"%{len(self.tensors)}"
        self.tensors.append(tensor)
        return tensor

    def _computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the results on torch's device for shapes."""
        meta_args, meta_kwargs = _map_tensors(self._inner, (args, kwargs))
        if any(argument.name == "device" for argument in func._schema.arguments):
            meta_kwargs = {**meta_kwargs, "device": "meta"}
        result = func(*meta_args, **meta_kwargs)
        if func._schema.is_mutable:
            _map_tensors(_require_unchanged, (args, kwargs))
        return result

    def _inner(self, tensor: Any) -> Any:
        """Return the like of a tensor on torch's device for shapes."""
        shape_tensor, _ = _torch_classes()
        if isinstance(tensor, shape_tensor):
            return tensor.inner
        name = self.text(tensor)
        if name not in self.weights:
            shape_row(tensor)  # refuses what is not recorded
            self.weights[name] = _on_meta(tensor)
        return self.weights[name]

    def _row(self, result: Any, func: Any, inners: list[Any]) -> Row:
        """Describe a result, and add the tensors that are new to `inners`."""
        import torch

        if isinstance(result, torch.Tensor):
            for number, tensor in enumerate(self.tensors):
                if tensor.inner is result:
                    return number
            inners.append(result)
            return shape_row(result)
        if isinstance(result, (list, tuple)):
            return {type(result).__name__: [self._row(one, func, inners) for one in result]}
        if result is None:
            return None
        raise Unrecorded(f"{func} gives a {type(result).__name__}")

    def _result(self, row: Row, inners: Iterator[Any]) -> Any:
        """Return the tensors without values that a row describes."""
        if row is None:
            return None
        if isinstance(row, int):
            return self.tensors[row]
        if not isinstance(row, dict):
            return self._new_tensor(row, next(inners, None))
        ((kind, rows),) = row.items()
        parts = [self._result(one, inners) for one in rows]
        if kind == "tuple":
            return tuple(parts)
        return parts


def dispatch_mode(trace: ShapeTrace) -> Any:
    """Return a context in which every torch operator is answered by a trace."""
    _, mode = _torch_classes()
    return mode(trace)


def shape_row(tensor: Any) -> list[Any]:
    """Return shape, strides and dtype of a tensor of the CPU; `Unrecorded` for any other one."""
    import torch

    if (
        tensor.device.type not in ("cpu", "meta")
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        raise Unrecorded(f"a tensor of {tensor.device}, {tensor.layout}, {tensor.dtype}")
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype)]


def argument_text(value: Any, names: Mapping[int, str]) -> str:
    """Return arguments as text, tensors by their names: `[%0, weight, 1]`."""
    import torch

    if isinstance(value, torch.Tensor):
        if id(value) not in names:
            raise Unrecorded("a tensor that is no weight, input or result")
        return names[id(value)]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(argument_text(one, names) for one in value)}]"
    if isinstance(value, dict):
        pairs = [f"{key}={argument_text(one, names)}" for key, one in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if value is None or isinstance(value, _plain_types()):
        return repr(value)
    raise Unrecorded(f"an argument of the kind {type(value).__name__}")


@cache
def _plain_types() -> tuple[type, ...]:
    import torch

    of_torch = (torch.dtype, torch.device, torch.layout, torch.memory_format)
    return (bool, int, float, complex, str, *of_torch)


@cache
def _torch_classes() -> tuple[Any, Any]:
    """Return the class of a tensor without values, and the mode that a `ShapeTrace` answers.

    They are subclasses of torch's, which is imported with the first call.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class ShapeTensor(torch.Tensor):
        """A tensor of the CPU that has no values.

        `inner` is its like on torch's device for shapes, None where nothing is computed.
        """

        __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
        inner: Any

        @staticmethod
        def __new__(cls: Any, row: Row, inner: Any) -> Any:
            shape, strides, dtype = row
            kind = getattr(torch, dtype.removeprefix("torch."))
            tensor = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, shape, strides=strides, dtype=kind, device=torch.device("cpu")
            )
            tensor.inner = inner
            return tensor

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise Unrecorded(f"{func} outside of the call")

    class ShapeMode(TorchDispatchMode):
        def __init__(self, trace: ShapeTrace):
            super().__init__()
            self.trace = trace

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # which would import all of it

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return self.trace.dispatch(func, args, kwargs or {})

    return ShapeTensor, ShapeMode


def _map_tensors(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to every tensor in nested lists, tuples and dictionaries."""
    import torch
    from torch.utils._pytree import tree_map

    def on_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return function(leaf)
        return leaf

    return tree_map(on_leaf, tree)


def _require_unchanged(tensor: Any) -> None:
    """Raise `Unrecorded` for a weight, and for a tensor whose shape an operator has changed."""
    shape_tensor, _ = _torch_classes()
    if not isinstance(tensor, shape_tensor) or shape_row(tensor) != shape_row(tensor.inner):
        raise Unrecorded("an operator writes to a weight, or gives memory another shape")


def _on_meta(tensor: Any) -> Any:
    import torch

    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
