"""Torch's softmax, normalizations and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy

from einalg.frontends.torch.nodes.arguments import as_dtype
from einalg.frontends.torch.nodes.registry import aten, register, training_error
from einalg.language import ops
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ops.layers.attention import attention_of_some
from einalg.language.ops.math.broadcasting import broadcast
from einalg.language.ops.math.cast import in_single

register(
    {
        "softmax.int": lambda x, dim, dtype: ops.softmax(as_dtype(x, dtype), dim),
        "_softmax.default": lambda x, dim, _: ops.softmax(x, dim),
        "log_softmax.int": lambda x, dim, dtype: ops.log_softmax(as_dtype(x, dtype), dim),
        "_log_softmax.default": lambda x, dim, _: ops.log_softmax(x, dim),
    }
)


def _last(x: Any, shape: Any) -> tuple[int, ...]:
    """Return the axes of a normalized shape: as many, the last ones."""
    return tuple(range(x.rank - len(shape), x.rank))


@aten("layer_norm.default")
def _layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float, _: bool) -> Any:
    return ops.layer_norm(x, weight, bias, _last(x, shape), eps)


@aten("native_layer_norm.default")
def _native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return ops.layer_norm(x, weight, bias, _last(x, shape), eps), None, None


def _rms(x: Any, shape: Any, weight: Any, eps: float | None) -> Any:
    if eps is None:
        eps = float(np.finfo(numpy_dtype(x.dtype)).eps)
    return ops.rms_norm(x, weight, _last(x, shape), eps)


@aten("rms_norm.default")
def _rms_norm(x: Any, shape: Any, weight: Any, eps: float | None) -> Any:
    return _rms(x, shape, weight, eps)


@aten("_fused_rms_norm.default")
def _fused_rms_norm(x: Any, shape: Any, weight: Any, eps: float | None) -> Any:
    return _rms(x, shape, weight, eps), None


@aten("group_norm.default")
def _group_norm(x: Any, groups: int, weight: Any, bias: Any, eps: float, _: bool) -> Any:
    return ops.group_norm(x, groups, weight, bias, eps)


@aten("native_group_norm.default")
def _native_group_norm(
    x: Any, weight: Any, bias: Any, _n: int, _c: int, _hw: int, groups: int, eps: float
) -> Any:
    return ops.group_norm(x, groups, weight, bias, eps), None, None


@aten("instance_norm.default")
def _instance_norm(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    of_input: bool,
    _momentum: float,
    eps: float,
    _: bool,
) -> Any:
    if not of_input:
        return ops.batch_norm(x, mean, variance, weight, bias, eps=eps)
    if mean is not None:
        raise training_error("instance norm")
    return ops.instance_norm(x, weight, bias, eps)


def _of_batch(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Normalize by mean and variance of every channel in the batch itself.

    That is for modules without statistics.
    """
    normal = ops.layer_norm(x, axes=(0, *range(2, x.rank)), eps=eps)
    if weight is not None:
        normal = ops.mul(normal, _by_channel(weight, x))
    if bias is not None:
        normal = ops.add(normal, _by_channel(bias, x))
    return normal


def _by_channel(vector: Any, x: Any) -> Any:
    return ops.reshape(vector, (-1, *(1,) * (x.rank - 2)))


@aten("batch_norm.default")
def _batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    in_training: bool,
    _momentum: float,
    eps: float,
    _: bool,
) -> Any:
    if not in_training:
        return ops.batch_norm(x, mean, variance, weight, bias, eps=eps)
    if mean is not None:
        raise training_error("batch norm")
    return _of_batch(x, weight, bias, eps)


@aten("_native_batch_norm_legit_no_training.default")
def _native_batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, _: float, eps: float
) -> Any:
    return ops.batch_norm(x, mean, variance, weight, bias, eps=eps), None, None


@aten("_native_batch_norm_legit.no_stats")
def _native_batch_norm_of_batch(
    x: Any, weight: Any, bias: Any, _training: bool, _momentum: float, eps: float
) -> Any:
    return _of_batch(x, weight, bias, eps), None, None


@aten(
    "_native_batch_norm_legit.default",
    "_native_batch_norm_legit_functional.default",
    "native_batch_norm.default",
)
def _native_batch_norm_in_training(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    in_training: bool,
    _: float,
    eps: float,
) -> Any:
    if in_training:
        raise training_error("batch norm")
    return ops.batch_norm(x, mean, variance, weight, bias, eps=eps), None, None, None, None


@aten(
    "dropout.default",
    "feature_dropout.default",
    "alpha_dropout.default",
    "feature_alpha_dropout.default",
)
def _dropout(x: Any, p: float, in_training: bool) -> Any:
    if in_training and p:
        raise training_error("dropout")
    return x


@aten("native_dropout.default")
def _native_dropout(x: Any, p: float, in_training: bool | None) -> Any:
    return _dropout(x, p, in_training is not False), None


@in_single
def _attention(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: Any) -> Any:
    """Return attention, of 16 bits too with scores and sums in single precision."""
    if dropout:
        raise training_error("dropout in attention")
    if mask is not None and mask.dtype == "bool":
        mask = broadcast(
            lambda seen: sympy.Piecewise((0, sympy.Ne(seen, 0)), (-sympy.oo, True)),
            "any",
            mask=mask,
        )
    if mask is not None and mask.rank < 2:
        mask = ops.unsqueeze(mask, tuple(range(2 - mask.rank)))
    return attention_of_some(q, k, v, scale, causal, mask)


@aten("scaled_dot_product_attention.default")
def _scaled_dot_product_attention(
    q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> Any:
    if grouped:
        k = ops.repeat(k, q.shape[-3] // k.shape[-3], -3)
        v = ops.repeat(v, q.shape[-3] // v.shape[-3], -3)
    return _attention(q, k, v, mask, dropout, causal, scale)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(
    q: Any, k: Any, v: Any, dropout: float, causal: bool, mask: Any, scale: Any
) -> Any:
    return _attention(q, k, v, mask, dropout, causal, scale), None


@aten("_safe_softmax.default")
def _safe_softmax(x: Any, dim: int, dtype: Any) -> Any:
    """Return a softmax that is 0 in rows that are masked altogether."""
    x = as_dtype(x, dtype)
    hidden = ops.max(x, dim, keepdims=True)
    return ops.where(ops.equal(hidden, -math.inf), 0, ops.softmax(x, dim))
