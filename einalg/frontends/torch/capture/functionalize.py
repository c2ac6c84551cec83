"""Exported graphs as they are, where nothing has to be taken apart; what writes to memory that no other value shares gives new values instead."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from einalg.frontends.torch.nodes.opaque_call import nodes_in
from einalg.frontends.torch.nodes.registry import ATEN

if TYPE_CHECKING:
    from torch import fx

# Made of other operators, each time of ones that give new memory.
NEW = {
    *("batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("group_norm", "instance_norm", "layer_norm", "linear", "matmul"),
}  # fmt: skip


def operator_names(target: Any) -> tuple[str, str]:
    """An operator with its overload, without the name of its library, and without the overload too."""
    text = str(target).removeprefix("aten.").removeprefix("einalg.")
    return text, text.rsplit(".", 1)[0]


DROPOUT = {
    f"{name}.default"
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
}
JOINS = {"cat.default", "concat.default"}


def replace_writes(module: fx.GraphModule) -> bool:
    """Replace operators that write to an operand by those that give a new value, where the memory is of that operand alone; whether none is left."""
    graph = module.graph
    _without_dropout(graph)
    places = {node: place for place, node in enumerate(graph.nodes)}
    done = True
    for node in [node for node in graph.nodes if _writes(node.target)]:
        target = _functional(node.target)
        if target is None or not _is_alone(node, places):
            done = False
            continue
        with graph.inserting_before(node):
            new = graph.call_function(target, node.args, node.kwargs)
        new.meta, places[new] = node.meta, places[node]
        node.replace_all_uses_with(new)
        made: Any = node.args[0]
        graph.erase_node(node)
        for user in [user for user in made.users if places[user] > places[new]]:
            user.replace_input_with(made, new)
    module.recompile()
    return done


def _is_alone(node: fx.Node, places: Mapping[fx.Node, int]) -> bool:
    """Whether what a node writes to is new memory, of which nothing before it has made a view."""
    made: Any = node.args[0]
    earlier = (user for user in made.users if places[user] < places[node])
    return all(allocates_result(getattr(one, "target", None)) for one in (made, *earlier))


def _without_dropout(graph: fx.Graph) -> None:
    """Let what reads a dropout outside training read its operand, which it hands on: torch makes a copy of that where it takes graphs apart."""
    for node in [
        node
        for node in graph.nodes
        if node.op == "call_function" and operator_names(node.target)[0] in DROPOUT
    ]:
        operand, _, training = node.args
        if not training:
            node.replace_all_uses_with(operand)
            graph.erase_node(node)


def drop_empty_parts(graph: fx.Graph) -> None:
    """Leave out what is joined to others and has no elements, as the tokens before a sequence where there are none, if that changes no type."""
    for node in [
        node
        for node in graph.nodes
        if node.op == "call_function" and operator_names(node.target)[0] in JOINS
    ]:
        given, *others = node.args
        examples = [getattr(part, "meta", {}).get("val") for part in given]
        parts = [part for part, example in zip(given, examples) if not _is_empty(example)]
        if (
            0 < len(parts) < len(given)
            and len({getattr(example, "dtype", None) for example in examples}) == 1
        ):
            node.args = (parts, *others)


def _is_empty(example: Any) -> bool:
    return 0 in [size for size in getattr(example, "shape", ()) if type(size) is int]


def is_expressed(graph: fx.Graph) -> bool:
    """Whether einalg has an expression for every operator, or need not look at it: it checks something, or reads no tensor."""
    return all(_is_known(node) for node in graph.nodes if node.op == "call_function")


def is_check(node: fx.Node) -> bool:
    """Whether torch only checks something there, such as a shape that depends on data."""
    return operator_names(node.target)[0].startswith(("_assert", "sym_constrain_range"))


def _is_known(node: fx.Node) -> bool:
    if node.target is operator.getitem or is_check(node):
        return True
    return hasattr(node.target, "_schema") and (
        operator_names(node.target)[0] in ATEN or not nodes_in(node.args, node.kwargs)
    )


def _writes(target: Any) -> bool:
    return bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _functional(target: Any) -> Any:
    """The operator that gives what this one writes to its first operand, and to nothing else; None where there is none of the table."""
    import torch

    schema = target._schema
    first, *others = schema.arguments
    base, overload = operator_names(target)[1], target._overloadname
    single = (
        first.alias_info is not None
        and first.alias_info.is_write
        and not any(a.alias_info for a in others)
        and len(schema.returns) == 1
    )
    named = f"{base.removesuffix('_')}.{overload}"
    if not single or not base.endswith("_") or named not in ATEN:
        return None
    return getattr(getattr(torch.ops.aten, base.removesuffix("_"), None), overload, None)


def allocates_result(target: Any) -> bool:
    """Whether results of an operator share no memory with anything else. Of those that are made of others, torch says it even where they do."""
    schema = getattr(target, "_schema", None)
    if schema is None or schema.is_mutable or any(result.alias_info for result in schema.returns):
        return False
    return not _is_composite(target) or operator_names(target)[1] in NEW


def _is_composite(target: Any) -> bool:
    """Whether an operator is made of others, whatever these give."""
    from torch import _C

    return target.has_kernel_for_dispatch_key(_C.DispatchKey.CompositeImplicitAutograd)
