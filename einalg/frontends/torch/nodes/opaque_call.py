"""Calls of torch operators on arrays: what stays opaque, and what is computed while a model is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from einalg.frontends.torch.nodes.tensors import Array, array_of, tensor_of

if TYPE_CHECKING:
    from torch import fx


def map_nodes(value: Any, change: Callable[[Any], Any]) -> Any:
    """The nodes in nested arguments replaced."""
    from torch import fx

    return fx.map_arg(value, change)


def nodes_in(*arguments: Any) -> list[fx.Node]:
    """The nodes in nested arguments, each once, in order."""
    found: dict[Any, None] = {}
    map_nodes(arguments, lambda node: found.setdefault(node))
    return list(found)


def flat_results(result: Any) -> list[Any]:
    """The results of an operator, one by one."""
    return (
        [leaf for part in result for leaf in flat_results(part)]
        if isinstance(result, (tuple, list))
        else [result]
    )


class TorchCall:
    """`call(*arrays)` runs a node's operator on arrays of its `inputs`, without gradients, and gives the results at `wanted`.

    `fixed` holds arguments that are no arrays, such as the modules of a branch.
    """

    def __init__(
        self,
        node: fx.Node,
        inputs: Sequence[fx.Node],
        wanted: Sequence[int],
        fixed: dict[fx.Node, Any],
    ):
        self._target, self._args, self._kwargs = node.target, node.args, node.kwargs
        self._inputs = [(given, given.meta.get("val")) for given in inputs]
        self._wanted, self._fixed = tuple(wanted), fixed

    def __call__(self, *arrays: Any) -> list[Array]:
        import torch

        values = dict(self._fixed)
        for (node, example), array in zip(self._inputs, arrays, strict=True):
            values[node] = _given(example, array)
        with torch.no_grad():
            result = self._target(
                *map_nodes(self._args, values.__getitem__), **map_nodes(self._kwargs, values.__getitem__)
            )  # type: ignore[operator]
        found = flat_results(result)
        return [array_of(torch.as_tensor(found[position])) for position in self._wanted]


def _given(example: Any, array: Any) -> Any:
    """An array as what the trace had in its place: a tensor, or a number."""
    return tensor_of(array, example.dtype) if hasattr(example, "dtype") else array.item()
