"""Exported graphs without writes to memory.

An operator that writes to memory which no other value shares becomes one that returns a new value.
Then nothing has to be decomposed.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from einalg.frontends.torch.nodes.opaque_call import nodes_in
from einalg.frontends.torch.nodes.registry import ATEN

if TYPE_CHECKING:
    from torch import fx

# Composite operators whose last part always allocates new memory.
ALLOCATING = {
    *("batch_norm", "group_norm", "instance_norm", "layer_norm"),
    *("conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("linear", "matmul"),
}


def operator_names(target: Any) -> tuple[str, str]:
    """Return an operator's name without that of its library, with and without its overload.

    For example `("relu.default", "relu")`.
    """
    text = str(target).removeprefix("aten.").removeprefix("einalg.")
    return text, text.rsplit(".", 1)[0]


DROPOUT = {
    *("dropout.default", "feature_dropout.default"),
    *("alpha_dropout.default", "feature_alpha_dropout.default"),
}
CONCATENATIONS = {"cat.default", "concat.default"}


def replace_writes(module: fx.GraphModule) -> bool:
    """Replace operators that write to an operand by those that return a new value.

    That is possible where the memory is of that operand alone. Returns whether none is left.
    """
    graph = module.graph
    _drop_dropout(graph)
    places = {node: place for place, node in enumerate(graph.nodes)}
    is_functional = True
    for node in list(filter(_writes, graph.nodes)):
        target = _functional(node.target)
        if target is None or not _is_alone(node, places):
            is_functional = False
            continue
        with graph.inserting_before(node):
            new = graph.call_function(target, node.args, node.kwargs)
        new.meta, places[new] = node.meta, places[node]
        node.replace_all_uses_with(new)
        operand: Any = node.args[0]
        graph.erase_node(node)
        for user in list(operand.users):
            if places[user] > places[new]:
                user.replace_input_with(operand, new)
    module.recompile()
    return is_functional


def _is_alone(node: fx.Node, places: Mapping[fx.Node, int]) -> bool:
    """Return whether a node writes to new memory, of which no earlier node has made a view."""
    operand: Any = node.args[0]
    if not allocates_result(getattr(operand, "target", None)):
        return False
    for user in operand.users:
        if places[user] < places[node] and not allocates_result(getattr(user, "target", None)):
            return False
    return True


def _drop_dropout(graph: fx.Graph) -> None:
    """Replace dropouts outside training by their operands.

    Torch would copy these where it decomposes graphs.
    """
    for node in _calls_of(graph, DROPOUT):
        operand, _, training = node.args
        if not training:
            node.replace_all_uses_with(operand)
            graph.erase_node(node)


def drop_empty_parts(graph: fx.Graph) -> None:
    """Leave out operands of concatenations that have no elements, if that changes no type.

    An example are the tokens before a sequence where there are none.
    """
    for node in _calls_of(graph, CONCATENATIONS):
        operands, *others = node.args
        parts: list[Any] = []
        dtypes: set[Any] = set()
        for operand in operands:
            example = getattr(operand, "meta", {}).get("val")
            dtypes.add(getattr(example, "dtype", None))
            if not _is_empty(example):
                parts.append(operand)
        if 0 < len(parts) < len(operands) and len(dtypes) == 1:
            node.args = (parts, *others)


def _calls_of(graph: fx.Graph, names: Container[str]) -> list[Any]:
    """Return the calls of operators with these names, which have overloads."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return [node for node in calls if operator_names(node.target)[0] in names]


def _is_empty(example: Any) -> bool:
    """Return whether a size is the number 0; sizes may be symbols."""
    return any(type(size) is int and size == 0 for size in getattr(example, "shape", ()))


def is_expressed(graph: fx.Graph) -> bool:
    """Return whether einalg has an expression for every operator that matters.

    Operators that check something, or read no tensor, do not.
    """
    return all(_is_known(node) for node in graph.nodes if node.op == "call_function")


def is_check(node: fx.Node) -> bool:
    """Return whether a node only checks something, such as a shape that depends on data."""
    return operator_names(node.target)[0].startswith(("_assert", "sym_constrain_range"))


def _is_known(node: fx.Node) -> bool:
    if node.target is operator.getitem or is_check(node):
        return True
    if not hasattr(node.target, "_schema"):
        return False
    return operator_names(node.target)[0] in ATEN or not nodes_in(node.args, node.kwargs)


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _functional(target: Any) -> Any:
    """Return the operator that returns what this one writes to its first operand.

    None where it writes to anything else, and where einalg's table has no such operator.
    """
    import torch

    schema = target._schema
    first, *others = schema.arguments
    base, overload = operator_names(target)[1], target._overloadname
    writes_first_only = (
        first.alias_info is not None
        and first.alias_info.is_write
        and not any(argument.alias_info for argument in others)
        and len(schema.returns) == 1
    )
    functional_base = base.removesuffix("_")
    if not writes_first_only or functional_base == base:
        return None
    if f"{functional_base}.{overload}" not in ATEN:
        return None
    return getattr(getattr(torch.ops.aten, functional_base, None), overload, None)


def allocates_result(target: Any) -> bool:
    """Return whether results of an operator share no memory with anything else.

    For composite operators torch claims that even where it is not so.
    """
    schema = getattr(target, "_schema", None)
    if schema is None or schema.is_mutable or any(result.alias_info for result in schema.returns):
        return False
    return not _is_composite(target) or operator_names(target)[1] in ALLOCATING


def _is_composite(target: Any) -> bool:
    """Return whether an operator is composed of others."""
    from torch import _C

    return target.has_kernel_for_dispatch_key(_C.DispatchKey.CompositeImplicitAutograd)
