"""Attention against torch in float64; banded attention against a NumPy loop over queries."""

from __future__ import annotations

from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, size, torch_module


def _tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: ea.tensor(name, array.shape) for name, array in arrays.items()}


@case("attention")
def against_torch(rng: Any) -> Any:
    torch = torch_module()
    batch = [size(rng, 1, 3) for _ in range(rng.integers(0, 3))]
    rows, keys, depth, features = size(rng, 1, 7), size(rng, 1, 7), size(rng, 1, 5), size(rng, 1, 5)
    leading = [[1 if flip(rng, 0.2) else b for b in batch] for _ in range(4)]
    shapes = {
        "Q": (*leading[0], rows, depth),
        "K": (*leading[1], keys, depth),
        "V": (*leading[2], keys, features),
    }
    if flip(rng):
        shapes["T"] = (*leading[3], 1 if flip(rng, 0.2) else rows, 1 if flip(rng, 0.2) else keys)
    arrays = {name: 3 * floats(rng, shape) for name, shape in shapes.items()}
    scale, causal = None if flip(rng) else float(rng.random()), flip(rng)
    full = np.broadcast_shapes(*(shape[:-2] for shape in shapes.values()))
    q, k, v = (
        torch.from_numpy(np.broadcast_to(arrays[name], (*full, *shapes[name][-2:])).copy())
        for name in "QKV"
    )
    mask = None
    if "T" in arrays:
        mask = torch.from_numpy(
            np.broadcast_to(arrays["T"], (*full, rows, keys))
            + (np.triu(np.full((rows, keys), -np.inf), 1) if causal else 0)
        )
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal and mask is None, scale=scale
    )
    tensors = _tensors(arrays)
    return (
        ops.attention(tensors["Q"], tensors["K"], tensors["V"], scale, causal, tensors.get("T")),
        arrays,
        expected.numpy(),
    )


@case("attention")
def hidden_keys_and_large_scores(rng: Any) -> Any:
    """Scores of hundreds, whose exponentials have no float64, and `-inf` in the mask."""
    rows, keys = size(rng, 1, 5), size(rng, 1, 7)
    arrays = {
        "Q": 100 * floats(rng, (rows, 3)),
        "K": 10 * floats(rng, (keys, 3)),
        "V": floats(rng, (keys, 2)),
    }
    hidden = rng.random((rows, keys)) < 0.3
    hidden[:, rng.integers(0, keys)] = False
    arrays["T"] = np.where(hidden, -np.inf, 0.0)
    scores = arrays["Q"] @ arrays["K"].T + arrays["T"]
    weights = np.exp(scores - scores.max(1, keepdims=True))
    tensors, expected = _tensors(arrays), weights / weights.sum(1, keepdims=True) @ arrays["V"]
    return (
        ops.attention(tensors["Q"], tensors["K"], tensors["V"], 1, mask=tensors["T"]),
        arrays,
        expected,
    )


@case("banded_attention")
def windows_of_keys(rng: Any) -> Any:
    batch, rows, depth, features = (
        [size(rng, 1, 2) for _ in range(rng.integers(0, 3))],
        size(rng, 1, 11),
        size(rng, 1, 4),
        size(rng, 1, 4),
    )
    width, dilation, scale = (
        size(rng, 0, 4),
        size(rng, 1, 4),
        None if flip(rng) else float(rng.random()),
    )
    arrays = {
        "Q": floats(rng, (*batch, rows, depth)),
        "K": floats(rng, (*batch, rows, depth)),
        "V": floats(rng, (*batch, rows, features)),
    }
    expected = np.zeros((*batch, rows, features))
    for i in range(rows):
        seen = [
            j
            for j in range(i - dilation * width, i + dilation * width + 1, dilation)
            if 0 <= j < rows
        ]
        scores = np.einsum(
            "...k,...jk->...j", arrays["Q"][..., i, :], arrays["K"][..., seen, :]
        ) * (depth**-0.5 if scale is None else scale)
        weights = np.exp(scores)
        expected[..., i, :] = np.einsum(
            "...j,...je->...e", weights / weights.sum(-1, keepdims=True), arrays["V"][..., seen, :]
        )
    tensors = _tensors(arrays)
    return (
        ops.banded_attention(tensors["Q"], tensors["K"], tensors["V"], width, dilation, scale),
        arrays,
        expected,
    )
