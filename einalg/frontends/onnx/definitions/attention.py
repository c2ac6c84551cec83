"""Attention over heads."""

from __future__ import annotations

from typing import Any

from einalg import ops
from einalg.frontends.onnx.registry import NotExpressible, Operator, onnx_operator


@onnx_operator("Attention", ignoring="softmax_precision qk_matmul_output_mode q_num_heads kv_num_heads")
def attention(node: Operator) -> Any:
    """The plain case; what has a past, a bound of the scores or other outputs is left to its definition by other operators."""
    if node.has(3) and node.tensor(3).dtype == "bool":
        raise NotExpressible("a mask of truth values may hide every key")
    if any(node.has(k) for k in (4, 5, 6)) or any(node.wants(k) for k in (1, 2, 3)) or node.number("softcap", 0.0):
        raise NotExpressible("an attention with a past, a bound of the scores, or scores as an output")
    given = [node.tensor(k) for k in range(3)]
    flat = given[0].rank == 3
    counts = [node.integer(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    q, key, value = (_heads(x, count) for x, count in zip(given, counts)) if flat else given
    groups = q.shape[1] // max(key.shape[1], 1)
    key, value = (ops.repeat(x, groups, 1) if groups > 1 else x for x in (key, value))
    result = ops.attention(q, key, value, scale=node.number("scale"), causal=bool(node.integer("is_causal", 0)), mask=node.optional(3))
    return _joined(result) if flat else result


def _heads(x: Any, count: Any) -> Any:
    """(batch, rows, heads·size) as (batch, heads, rows, size)."""
    batch, rows, features = x.shape
    if not count or features % count:
        raise NotExpressible(f"{count} heads for {features} features")
    return ops.transpose(ops.reshape(x, (batch, rows, count, features // count)), (0, 2, 1, 3))


def _joined(x: Any) -> Any:
    batch, heads, rows, size = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, rows, heads * size))
