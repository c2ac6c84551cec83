"""ONNX attention over heads, and rotary embeddings."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.frontends.onnx.nodes.registry import NotExpressible, Operator, onnx_operator
from einalg.language import ops
from einalg.language.ops.layers.attention import attention_of_some
from einalg.language.ops.math.broadcasting import broadcast


@onnx_operator(
    "Attention", ignoring="softmax_precision qk_matmul_output_mode q_num_heads kv_num_heads"
)
def attention(node: Operator) -> Any:
    """Return attention in the plain case.

    One with a past, a bound of the scores or other outputs is left to its definition by other
    operators.
    """
    has_past = node.has(4) or node.has(5) or node.has(6)
    has_outputs = node.wants(1) or node.wants(2) or node.wants(3)
    if has_past or has_outputs or node.number("softcap", 0.0):
        raise NotExpressible(
            "an attention with a past, a bound of the scores, or scores as an output"
        )
    q, key, value = node.tensor(0), node.tensor(1), node.tensor(2)
    is_flat = q.rank == 3
    if is_flat:
        q = _split_heads(q, node.integer("q_num_heads"))
        key = _split_heads(key, node.integer("kv_num_heads"))
        value = _split_heads(value, node.integer("kv_num_heads"))
    groups = q.shape[1] // max(key.shape[1], 1)
    if groups > 1:
        key, value = ops.repeat(key, groups, 1), ops.repeat(value, groups, 1)
    result = attention_of_some(
        q,
        key,
        value,
        scale=node.number("scale"),
        causal=bool(node.integer("is_causal", 0)),
        mask=_mask(node),
    )
    if is_flat:
        return _merge_heads(result)
    return result


def _mask(node: Operator) -> Any:
    """Return what is added to the scores: `-inf` where a mask of truth values hides a key."""
    mask: Any = node.optional(3)
    if mask is None or mask.dtype != "bool":
        return mask
    return broadcast(
        lambda seen: sympy.Piecewise((0, sympy.Ne(seen, 0)), (-sympy.oo, True)), "any", mask=mask
    )


@onnx_operator("RotaryEmbedding")
def rotary_embedding(node: Operator) -> Any:
    """Rotate pairs of features by angles.

    Pairs are neighbours where `interleaved`, else one of the first half and one of the second.
    """
    x = node.tensor(0)
    is_interleaved, is_flat = bool(node.integer("interleaved", 0)), x.rank == 3
    count, rotated = node.integer("num_heads", 0), node.integer("rotary_embedding_dim", 0)
    if is_flat:
        x = _split_heads(x, count)
    features = x.shape[-1]
    rotated = rotated or features
    cosines, sines = _angles(node, 1, rotated), _angles(node, 2, rotated)
    if is_interleaved:
        first, second = ops.slice(x, 0, rotated, 2, -1), ops.slice(x, 1, rotated, 2, -1)
    else:
        first = ops.slice(x, 0, rotated // 2, 1, -1)
        second = ops.slice(x, rotated // 2, rotated, 1, -1)
    pair = [
        ops.sub(ops.mul(cosines, first), ops.mul(sines, second)),
        ops.add(ops.mul(sines, first), ops.mul(cosines, second)),
    ]
    if is_interleaved:
        result = ops.reshape(ops.stack(pair, -1), (*x.shape[:-1], rotated))
    else:
        result = ops.concat(pair, -1)
    if rotated < features:
        result = ops.concat([result, ops.slice(x, rotated, features, 1, -1)], -1)
    if is_flat:
        return _merge_heads(result)
    return result


def _angles(node: Operator, position: int, rotated: int) -> Any:
    """Return a table of cosines or sines for the positions of a sequence, with an axis of heads."""
    table: Any = node.tensor(position)
    if node.has(3):
        table = ops.take(table, node.array(3, "position_ids"), 0)
    return ops.unsqueeze(ops.slice(table, 0, rotated // 2, 1, -1), 1)


def _split_heads(x: Any, count: Any) -> Any:
    """Return (batch, rows, heads·size) as (batch, heads, rows, size)."""
    batch, rows, features = x.shape
    if not count or features % count:
        raise NotExpressible(f"{count} heads for {features} features")
    return ops.transpose(ops.reshape(x, (batch, rows, count, features // count)), (0, 2, 1, 3))


def _merge_heads(x: Any) -> Any:
    """Return (batch, heads, rows, size) as (batch, rows, heads·size)."""
    batch, heads, rows, size = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, rows, heads * size))
