"""Causal attention as it is defined: each query with the keys that it sees, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from einalg.frontends.torch.nodes.opaque_call import map_nodes

if TYPE_CHECKING:
    from torch import fx

DEFINED_BY = "its own results for each query and the keys that it sees"
OPERATORS = ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu")


def is_causal_attention(node: fx.Node) -> bool:
    """Tell whether a node is torch's attention, with keys that are hidden from earlier queries."""
    return bool(_arguments(node, lambda read: read).get("is_causal"))


def results_of_seen_keys(node: fx.Node, operand: Callable[[fx.Node], Any]) -> Any:
    """Return the attention of a causal node, each query by itself, for values of what it reads.

    Torch computes many queries at once, and multiplies what is hidden from some of them by 0: a NaN
    in a later row of the values reaches earlier rows of the result, as many as it takes together.
    """
    import torch

    read = _arguments(node, operand)
    query, key, value, mask = (read[name] for name in ("query", "key", "value", "attn_mask"))
    options = {name: read[name] for name in ("scale", "enable_gqa") if name in read}
    rows = []
    for row in range(query.shape[-2]):
        own, seen = slice(row, row + 1), slice(row + 1)
        rows.append(
            torch.nn.functional.scaled_dot_product_attention(
                query[..., own, :],
                key[..., seen, :],
                value[..., seen, :],
                None if mask is None else mask[..., own, seen],
                **options,
            )
        )
    return torch.cat(rows, -2)


def _arguments(node: fx.Node, operand: Callable[[fx.Node], Any]) -> dict[str, Any]:
    """Return the arguments of an attention by name; none of another operator."""
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    if schema is None or schema.name.removeprefix("aten::") not in OPERATORS:
        return {}
    named = {argument.name: argument.default_value for argument in schema.arguments}
    given = dict(zip(named, node.args))
    return map_nodes({**named, **given, **node.kwargs}, operand)
