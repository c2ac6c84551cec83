"""Arguments of element-wise, reducing, normalizing and moving operators that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language import ops


def t(*shape: int, dtype: str = "f32") -> Any:
    return ea.tensor("T", shape, dtype)


IMAGE, FLAGS = t(2, 6, 4, 5), t(3, dtype="bool")

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("relu", ([1, 2],), {}, "x must be a tensor or a scope, not list"),
    ("relu", (3.0,), {}, "x must be a tensor or a scope, not float"),
    ("exp", (FLAGS,), {}, "x has dtype bool"),
    ("leaky_relu", (t(3),), {"slope": "much"}, "slope must be a number, not 'much'"),
    ("leaky_relu", (t(3),), {"slope": float("nan")}, "slope is nan, which is not a finite number"),
    ("elu", (t(3),), {"alpha": float("inf")}, "alpha is inf, which is not a finite number"),
    ("softplus", (t(3),), {"beta": 0}, "beta must be above 0, not 0"),
    ("gelu", (t(3),), {"approximate": "erf"}, "approximate must be 'none' or 'tanh', not 'erf'"),
    ("clip", (t(3),), {"low": 2, "high": 1}, "low is 2, which is above high, 1"),
    ("clip", (t(3),), {"low": t(3)}, "low must be a number"),
    ("clip", (t(3),), {"high": float("nan")}, "high is nan"),
    (
        "add",
        (t(2, 3), t(2)),
        {},
        "a of shape (2, 3) and b of shape (2,) do not broadcast: axis -1 has the sizes 3 and 2",
    ),
    ("add", (t(0), t(2)), {}, "do not broadcast: axis -1 has the sizes 0 and 2"),
    ("add", (1, 2.5), {}, "a and b are all numbers"),
    ("add", (t(3), None), {}, "b must be a tensor or a scope, not NoneType"),
    ("mul", (FLAGS, t(3)), {}, "a has dtype bool"),
    ("less", (t(3), FLAGS), {}, "b has dtype bool"),
    ("div", (t(3), 0), {}, "b is 0, by which nothing can be divided"),
    ("div", (t(3), np.float64(0)), {}, "b is 0"),
    ("maximum", (t(3), float("nan")), {}, "b is nan"),
    ("where", (FLAGS, t(2, 3), t(2, 1, 4)), {}, "do not broadcast: axis -1 has the sizes 3 and 4"),
    (
        "bias_add",
        (IMAGE, t(5)),
        {},
        "bias has shape (5,); it must be (6,) (the size of axis 1 of x)",
    ),
    ("bias_add", (IMAGE, t(6, 1)), {}, "bias has 2 axes"),
    (
        "bias_add",
        (IMAGE, t(6)),
        {"axis": 4},
        "axis is 4, but there are 4 axes\n  give an axis from -4 to 3",
    ),
    ("sum", (IMAGE, 4), {}, "axes is 4, but there are 4 axes"),
    ("sum", (IMAGE, (1, -3)), {}, "axes is (1, -3), which names axis 1 twice"),
    ("sum", (IMAGE, 1.0), {}, "axes must be an integer, not 1.0"),
    ("sum", (t(), 0), {}, "axes is 0, but there are 0 axes\n  a scalar has no axis"),
    ("prod", (FLAGS,), {}, "x has dtype bool"),
    ("max", (t(2, 0, 3), 1), {}, "axis 1 of x has no elements, so it has no largest element"),
    ("min", (t(0),), {}, "axis 0 of x has no elements, so it has no smallest element"),
    ("mean", (t(0, 2), 0), {}, "axis 0 of x has no elements, so it has no mean"),
    (
        "variance",
        (t(2, 3), 1),
        {"correction": 3},
        "correction is 3, but the axes hold 3 elements only",
    ),
    ("norm", (t(3),), {"order": 3}, "order must be 1, 2 or float('inf'), not 3"),
    ("norm", (t(0),), {"order": np.inf}, "no largest element"),
    ("cumsum", (t(3), 1), {}, "axis is 1, but there are 1 axes"),
    ("cumsum", (t(),), {}, "x has 0 axes"),
    ("softmax", (IMAGE, -5), {}, "axis is -5, but there are 4 axes"),
    ("layer_norm", (IMAGE, t(4)), {}, "weight has shape (4,); it must be (5,)"),
    ("layer_norm", (IMAGE, t(5), t(4)), {}, "bias has shape (4,); it must be (5,)"),
    ("layer_norm", (IMAGE,), {"eps": -1}, "eps must not be negative, but is -1"),
    ("layer_norm", (t(2, 0),), {}, "axis 1 of x has no elements, so it has no mean"),
    ("rms_norm", (IMAGE, t(5)), {"axes": (2, 3)}, "weight has 1 axes"),
    ("batch_norm", (IMAGE, t(5), t(6)), {}, "mean has shape (5,); it must be (6,)"),
    ("batch_norm", (IMAGE, t(6), None), {}, "variance must be a tensor or a scope, not NoneType"),
    ("batch_norm", (IMAGE, t(6), t(6)), {"weight": t(2)}, "weight has shape (2,); it must be (6,)"),
    ("group_norm", (IMAGE, 4), {}, "groups is 4, which does not divide the 6 channels of x"),
    ("group_norm", (t(2, 6, 0), 3), {}, "so a group has no elements and no mean"),
    ("instance_norm", (t(2, 6),), {}, "x has 2 axes"),
    ("instance_norm", (IMAGE,), {"bias": t(2)}, "bias has shape (2,); it must be (6,)"),
    ("transpose", (IMAGE, (0, 1, 2)), {}, "axes is (0, 1, 2), but x has 4 axes"),
    ("transpose", (IMAGE, (0, 1, 2, 2)), {}, "which names axis 2 twice"),
    (
        "reshape",
        (t(2, 6), (5, 2)),
        {},
        "shape is (5, 2), which holds 10 elements, but x, of shape (2, 6), has 12\n  "
        "e.g. shape=(12,)",
    ),
    (
        "reshape",
        (t(2, 6), (5, -1)),
        {},
        "shape is (5, -1), but 5 does not divide the 12 elements of x",
    ),
    ("reshape", (t(2, 6), (-1, -1)), {}, "one may be -1"),
    ("reshape", (t(2, 6), (-2, 6)), {}, "its sizes must be 0 or more"),
    ("reshape", (t(0), (0, -1)), {}, "0 does not divide the 0 elements"),
    ("reshape", (t(2, 6), (3.0, 4)), {}, "shape must be an integer, not 3.0"),
    ("flatten", (IMAGE, 2, 1), {}, "end is axis 1, which is before start, axis 2"),
    ("squeeze", (t(1, 3), 1), {}, "axis 1 of x has size 3, not 1"),
    ("unsqueeze", (t(3), 2), {}, "axes is 2, but there are 2 axes"),
    ("slice", (t(5), 0, 3, 0), {}, "steps is 0"),
    ("slice", (t(5), (0, 1), 3), {}, "axes is 1, but there are 1 axes"),
    ("slice", (t(5, 6), (0, 1), (3,)), {}, "stops has 1 entries, but there are 2 axes"),
    ("slice", (t(5), "a", 3), {}, "starts must be an integer, not 'a'"),
    ("flip", (t(5), 1), {}, "axes is 1, but there are 1 axes"),
    ("roll", (t(5, 2), (1, 2, 3), (0, 1)), {}, "shifts has 3 entries, but there are 2 axes"),
    ("repeat", (t(5), -1, 0), {}, "repeats must be an integer of at least 0, not -1"),
    ("tile", (t(5), (2, -1)), {}, "repeats must be an integer of at least 0, not -1"),
    (
        "broadcast_to",
        (t(2, 3), (2, 4)),
        {},
        "axis 1 of x has size 3, which does not broadcast to 4",
    ),
    ("broadcast_to", (t(2, 3), (3,)), {}, "shape is (3,), but x has shape (2, 3)"),
    ("broadcast_to", (t(3), (-1, 3)), {}, "sizes of 0 or more for new axes in front"),
    ("broadcast_to", (t(1), (-2,)), {}, "axis 0 of x has size 1, which does not broadcast to -2"),
    ("diagonal", (t(3, 4), 0, 1, -1), {}, "axis1 and axis2 are both axis 1"),
    ("diagonal", (t(3),), {}, "x has 1 axes"),
    ("tril", (t(3, 3), 0.5), {}, "k must be an integer, not 0.5"),
    ("triu", (t(3),), {}, "x has 1 axes"),
    ("concat", ([],), {}, "tensors must be a list of tensors or scopes, and not an empty one"),
    ("concat", (t(3),), {}, "tensors must be a list of tensors or scopes"),
    (
        "concat",
        ([t(2, 3), t(3, 3)], 1),
        {},
        "axis 0 of tensors[1] has size 3, but that of tensors[0] has size 2",
    ),
    ("concat", ([t(2, 3), t(3)],), {}, "tensors[1] has 1 axes, but tensors[0] has 2"),
    ("concat", ([t(), t()],), {}, "tensors[0] has 0 axes"),
    ("stack", ([t(2), t(3)],), {}, "axis 0 of tensors[1] has size 3"),
    ("split", (t(7), 2), {}, "parts is 2, which does not divide size 7 of axis 0 of x"),
    (
        "split",
        (t(7), (3, 3)),
        {},
        "parts is (3, 3), which adds up to 6, but axis 0 of x has size 7",
    ),
    ("split", (t(7), 0), {}, "parts must be an integer of at least 1, not 0"),
    ("pad", (t(5, 6), (1, 2, 3)), {}, "amounts has 3 entries, but there are 2 axes"),
    (
        "pad",
        (t(5), [(1, 2, 3)]),
        {},
        "amounts takes for an axis a number or (before, after), not (1, 2, 3)",
    ),
    ("pad", (t(5), -3), {}, "amounts takes (-3, -3) from axis 0 of x, of size 5"),
    ("pad", (t(5), 1), {"mode": "mirror"}, "mode is 'mirror'\n  use one of: constant, reflect"),
    ("pad", (t(5), 5), {"mode": "reflect"}, "mode 'reflect' has at most 4 elements there"),
    ("pad", (t(5), 6), {"mode": "symmetric"}, "mode 'symmetric' has at most 5 elements there"),
    ("pad", (t(0), 1), {"mode": "replicate"}, "mode 'edge' has at most 0 elements there"),
    ("pad", (t(0), 1), {"mode": "wrap"}, "mode 'circular' has at most 0 elements there"),
    ("pad", (t(5), -1), {"mode": "reflect"}, "mode 'reflect' takes no element away"),
    ("pad", (t(5), 1), {"value": float("nan")}, "value is nan"),
    (
        "depth_to_space",
        (IMAGE, 2),
        {},
        "block asks for the number of channels to be a multiple of 4, not 6",
    ),
    ("depth_to_space", (t(1, 4, 2, 2), 2, "CDR"), {}, "mode is 'CDR'\n  use 'DCR'"),
    ("space_to_depth", (IMAGE, 2), {}, "block asks for the width to be a multiple of 2, not 5"),
    ("pixel_shuffle", (t(3, 2), 1), {}, "x has 2 axes"),
    ("pixel_unshuffle", (IMAGE, 4), {}, "factor asks for the width to be a multiple of 4, not 5"),
    (
        "space_to_batch",
        (IMAGE, (2, 3)),
        {"axes": (2, 3)},
        "block asks for the padded size of axis 3 to be a multiple of 3, not 5",
    ),
    ("space_to_batch", (IMAGE, 2), {"axes": (0, 1)}, "axes names axis 0, which is the batch"),
    (
        "space_to_batch",
        (IMAGE, (2, 2, 2)),
        {"axes": (2, 3)},
        "block must be one integer, or one entry for each of the axes axis 2, axis 3",
    ),
    ("batch_to_space", (IMAGE, 2), {}, "block asks for the batch to be a multiple of 4, not 2"),
    (
        "batch_to_space",
        (t(4, 1, 1), 2, 3),
        {},
        "crops takes (3, 3) from axis 1, which has 2 elements",
    ),
    ("upsample_nearest", (IMAGE,), {}, "one of scale and size must be given"),
    ("upsample_nearest", (IMAGE, 2, 8), {}, "one of scale and size must be given"),
    ("upsample_nearest", (IMAGE, 0), {}, "scale must be above 0"),
    ("upsample_nearest", (IMAGE, (2, 2, 2)), {}, "scale must be one number"),
    ("upsample_nearest", (IMAGE, 0.1), {}, "scale is 0.1, which leaves no element of (4, 5)"),
    ("upsample_nearest", (IMAGE, 1e30), {}, "a scale of 1e+30 is no small fraction"),
    ("upsample_linear", (IMAGE, 1e30), {}, "a scale of 1e+30 is no small fraction"),
    (
        "upsample_nearest",
        (t(1, 1, 1000), 0.0031234567),
        {},
        "a scale of 0.00312346 is no small fraction",
    ),
    ("upsample_nearest", (t(1, 1, 0), 2), {}, "with no elements to repeat"),
    (
        "take",
        (IMAGE, [4], 2),
        {},
        "positions lie from 4 to 4, outside of axis 2, which has 4 elements",
    ),
    ("take", (IMAGE, [-5], 2), {}, "positions lie from -5 to -5, outside of axis 2"),
    ("take", (IMAGE, [0.5], 2), {}, "positions must be integers, not float64"),
    ("take", (IMAGE, [0], 4), {}, "axis"),
    ("take", (t(40), [k * k % 37 for k in range(40)]), {}, "runs\n  give at most 16 runs"),
    ("argmax", (t(2, 0), 1), {}, "axis 1 of x has no elements, so it has no largest element"),
    ("argmin", (IMAGE, 4), {}, "axis"),
    (
        "unfold",
        (IMAGE, 5),
        {},
        "kernel has size 5 along axis 2, more than x, of shape (2, 6, 4, 5), has with its padding",
    ),
    ("unfold", (IMAGE, (2, 2, 2)), {}, "kernel must be one integer"),
]


@pytest.mark.parametrize(
    ("name", "given", "named", "problem"),
    WRONG,
    ids=[f"{row[0]}-{k}" for k, row in enumerate(WRONG)],
)
def test_error(name: str, given: tuple[Any, ...], named: dict[str, Any], problem: str) -> None:
    with pytest.raises(ea.ShapeError) as caught:
        ops.OPERATORS[name](*given, **named)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert problem in message
    _, remedy = message.split("\n")
    assert remedy.startswith("  ")
