"""Calls of torch operators on arrays: opaque nodes, and constants of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from einalg.frontends.torch.nodes.tensors import Array, array_of, tensor_of, with_strides
from einalg.storage.fingerprint import text_digest

if TYPE_CHECKING:
    from torch import fx


def map_nodes(value: Any, change: Callable[[Any], Any]) -> Any:
    """Replace the nodes in nested arguments."""
    from torch import fx

    return fx.map_arg(value, change)


def nodes_in(*arguments: Any) -> list[fx.Node]:
    """Return the nodes in nested arguments, each once, in order."""
    nodes: dict[Any, None] = {}
    map_nodes(arguments, lambda node: nodes.setdefault(node))
    return list(nodes)


def flat_results(result: Any) -> list[Any]:
    """Return the results of an operator, which may be nested, in a row."""
    if not isinstance(result, (tuple, list)):
        return [result]
    results: list[Any] = []
    for part in result:
        results += flat_results(part)
    return results


class TorchCall:
    """A node's operator as a function of arrays of its `inputs`, without gradients.

    It returns the results at the positions `wanted`. `constants` has arguments that are no arrays,
    such as the modules of a branch.
    """

    def __init__(
        self,
        node: fx.Node,
        inputs: Sequence[fx.Node],
        wanted: Sequence[int],
        constants: dict[fx.Node, Any],
    ):
        self._target, self._args, self._kwargs = node.target, node.args, node.kwargs
        self._inputs = [(node, node.meta.get("val")) for node in inputs]
        self._wanted, self._constants = tuple(wanted), constants
        self._place = _in_strides if _reads_memory(node.target) else _like

    def identity(self) -> str | None:
        """Return a digest of the operator and its arguments; None where a module is among them."""
        if any(value is not None for value in self._constants.values()):
            return None
        numbers = {node: f"%{number}" for number, (node, _) in enumerate(self._inputs)}
        arguments = map_nodes((self._args, self._kwargs), lambda node: numbers.get(node, "None"))
        kinds = [str(getattr(example, "dtype", None)) for _, example in self._inputs]
        strides = [_strides(example) for _, example in self._inputs]
        layout = str(strides) if self._place is _in_strides else ""
        return text_digest(
            str(self._target), repr(arguments), str(kinds), str(self._wanted), layout
        )

    def __call__(self, *arrays: Any) -> list[Array]:
        import torch

        values = dict(self._constants)
        for (node, example), array in zip(self._inputs, arrays, strict=True):
            values[node] = self._place(example, array)
        args = map_nodes(self._args, values.__getitem__)
        kwargs = map_nodes(self._kwargs, values.__getitem__)
        with torch.no_grad():
            results = flat_results(self._target(*args, **kwargs))  # type: ignore[operator]
        return [array_of(torch.as_tensor(results[position])) for position in self._wanted]


def _reads_memory(target: Any) -> bool:
    """Tell whether an operator reads elements by their places in memory, as `as_strided` does."""
    schema = getattr(target, "_schema", None)
    return schema is not None and any(part.name == "storage_offset" for part in schema.arguments)


def _strides(example: Any) -> tuple[int, ...] | None:
    return tuple(example.stride()) if hasattr(example, "stride") else None


def _in_strides(example: Any, array: Any) -> Any:
    """Return an array as the kind of value that the trace had, which lies in memory as that did."""
    value, strides = _like(example, array), _strides(example)
    if strides is None or strides == tuple(value.stride()):
        return value
    return with_strides(value, strides)


def _like(example: Any, array: Any) -> Any:
    """Return an array as the kind of value that the trace had: a tensor, or a number."""
    if hasattr(example, "dtype"):
        return tensor_of(array, example.dtype)
    return array.item()
