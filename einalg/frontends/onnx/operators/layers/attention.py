"""Attention over heads, and what turns their queries and keys by position."""

from __future__ import annotations

from typing import Any

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops


@onnx_operator(
    "Attention", ignoring="softmax_precision qk_matmul_output_mode q_num_heads kv_num_heads"
)
def attention(node: Operator) -> Any:
    """The plain case; what has a past, a bound of the scores or other outputs is left to its definition by other operators."""
    if node.has(3) and node.tensor(3).dtype == "bool":
        raise NotExpressible("a mask of truth values may hide every key")
    if (
        any(node.has(k) for k in (4, 5, 6))
        or any(node.wants(k) for k in (1, 2, 3))
        or node.number("softcap", 0.0)
    ):
        raise NotExpressible(
            "an attention with a past, a bound of the scores, or scores as an output"
        )
    given = [node.tensor(k) for k in range(3)]
    flat = given[0].rank == 3
    counts = [node.integer(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    q, key, value = (_heads(x, count) for x, count in zip(given, counts)) if flat else given
    groups = q.shape[1] // max(key.shape[1], 1)
    key, value = (ops.repeat(x, groups, 1) if groups > 1 else x for x in (key, value))
    result = ops.attention(
        q,
        key,
        value,
        scale=node.number("scale"),
        causal=bool(node.integer("is_causal", 0)),
        mask=node.optional(3),
    )
    return _joined(result) if flat else result


@onnx_operator("RotaryEmbedding")
def rotary_embedding(node: Operator) -> Any:
    """Pairs of features turned by angles: neighbours where `interleaved`, else one of the first half and one of the second."""
    x, cosines, sines = node.tensor(0), node.tensor(1), node.tensor(2)
    count, turned = node.integer("num_heads", 0), node.integer("rotary_embedding_dim", 0)
    interleaved, flat = bool(node.integer("interleaved", 0)), x.rank == 3
    if node.has(3):
        positions = node.array(3, "position_ids")
        cosines, sines = (ops.take(table, positions, 0) for table in (cosines, sines))
    whole = _heads(x, count) if flat else x
    turned = turned or whole.shape[-1]
    cosines, sines = (
        ops.unsqueeze(ops.slice(table, 0, turned // 2, 1, -1), 1) for table in (cosines, sines)
    )
    first, second = (
        (
            ops.slice(whole, k, turned, 2, -1)
            if interleaved
            else ops.slice(whole, k * turned // 2, (k + 1) * turned // 2, 1, -1)
        )
        for k in (0, 1)
    )
    pair = [
        ops.sub(ops.mul(cosines, first), ops.mul(sines, second)),
        ops.add(ops.mul(sines, first), ops.mul(cosines, second)),
    ]
    result = (
        ops.reshape(ops.stack(pair, -1), (*whole.shape[:-1], turned))
        if interleaved
        else ops.concat(pair, -1)
    )
    if turned < whole.shape[-1]:
        result = ops.concat([result, ops.slice(whole, turned, whole.shape[-1], 1, -1)], -1)
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
