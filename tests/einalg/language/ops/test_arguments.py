"""Arguments of operators that do not fit: the message names the operator, the argument, and a
remedy.
"""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from einalg.language import ops


def t(*shape: int, dtype: str = "f32") -> Any:
    return ea.tensor("T", shape, dtype)


IMAGE, KERNEL = t(2, 6, 7, 5), t(9, 6, 3, 3)
CELL = (t(2, 3), t(2, 4), t(2, 4))

WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    (
        "matmul",
        (t(2, 3), t(4, 5)),
        {},
        "the summed axis of B has size 4, but the summed axis of A has size 3",
    ),
    ("matmul", (t(2, 3), t(5, 3)), {}, "the summed axis of B"),
    ("matmul", (t(2, 3), t(3, 5)), {"transpose_a": True}, "the summed axis of B"),
    (
        "matmul",
        (t(3), t(3, 5)),
        {"transpose_a": True},
        "transpose_a has no meaning for A, which is a vector",
    ),
    ("matmul", (t(), t(3, 5)), {}, "A has 0 axes"),
    ("matmul", (t(2, 4, 3), t(3, 3, 5)), {}, "leading axis 0 of B has size 3"),
    ("matmul", (t(2, 3, dtype="bool"), t(3, 5)), {}, "A has dtype bool"),
    ("matmul", ([[1, 2]], t(3, 5)), {}, "A must be a tensor or a scope, not list"),
    ("linear", (t(2, 3), t(5, 4)), {}, "the last axis of x has size 3"),
    ("linear", (t(2, 3), t(5, 3), t(3)), {}, "bias has shape (3,); it must be (5,)"),
    ("linear", (t(2, 3), t(5)), {}, "weight has 1 axes"),
    (
        "conv2d",
        (t(6, 7, 5), KERNEL),
        {},
        "A has 3 axes, of sizes (6, 7, 5), but layout='NCHW' names 4",
    ),
    ("conv2d", (IMAGE, t(9, 5, 3, 3)), {}, "axis I of K has size 5"),
    ("conv2d", (IMAGE, KERNEL, t(6)), {}, "bias has shape (6,); it must be (9,)"),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"groups": 5},
        "groups=5 does not divide the 9 channels of K, axis O\n  use one of 1, 3",
    ),
    ("conv2d", (IMAGE, KERNEL), {"groups": 0}, "groups must be an integer of at least 1, not 0"),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"groups": 3},
        "axis I of K has size 6, but axis C of A, divided by groups, has size 2",
    ),
    ("conv2d", (IMAGE, KERNEL), {"stride": 0}, "stride must be an integer of at least 1, not 0"),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"stride": (1, 2, 3)},
        "stride must be one integer, or one entry for each of the axes H, W",
    ),
    ("conv2d", (IMAGE, KERNEL), {"stride": 1.5}, "stride must be one integer"),
    ("conv2d", (IMAGE, KERNEL), {"dilation": True}, "dilation must be one integer"),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"dilation": 3},
        "a window of 7 elements (kernel 3, dilation 3) does not fit axis W, which has 5 "
        "and padding (0, 0)",
    ),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"padding": -1},
        "padding must be an integer of at least 0, not -1",
    ),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"padding": ((1, 2, 3), 0)},
        "padding takes for an axis a number or (before, after), not (1, 2, 3)",
    ),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"padding": "full"},
        "padding must be 'same', 'valid' or numbers, not 'full'",
    ),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"layout": "NCHX"},
        "layout must have each of the letters C, H, W once, and may have N, not 'NCHX'",
    ),
    ("conv2d", (IMAGE, KERNEL), {"layout": "NCHHW"}, "layout must have each of the letters"),
    ("conv2d", (IMAGE, KERNEL), {"layout": None}, "layout must have each of the letters"),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"weight_layout": "OIW"},
        "weight_layout must have each of the letters O, I, H, W once",
    ),
    (
        "conv2d",
        (IMAGE, KERNEL),
        {"out_layout": "CHW"},
        "out_layout must have each of the letters N, C, H, W once",
    ),
    ("conv2d", (IMAGE, t(9, 6, 0, 3)), {}, "the kernel has size 0 on axis H"),
    ("conv2d", (t(2, 6, 7, 5, dtype="bool"), KERNEL), {}, "A has dtype bool"),
    (
        "conv1d",
        (t(1, 2, 9), t(3, 2, 3)),
        {"padding": (1, 2)},
        "padding must be one integer, or one entry for each of the axes W",
    ),
    ("conv3d", (IMAGE, KERNEL), {}, "A has 4 axes"),
    ("depthwise_conv2d", (IMAGE, t(6, 2, 3, 3)), {}, "axis I of K must have size 1, not 2"),
    ("depthwise_conv2d", (IMAGE, t(9, 1, 3, 3)), {}, "does not divide the 9 channels of K"),
    (
        "conv_transpose2d",
        (IMAGE, t(5, 2, 3, 3)),
        {},
        "axis I of K has size 5, but axis C of A has size 6",
    ),
    (
        "conv_transpose2d",
        (IMAGE, t(6, 2, 3, 3)),
        {"groups": 4},
        "groups=4 does not divide the 6 channels",
    ),
    (
        "conv_transpose2d",
        (IMAGE, t(6, 2, 3, 3)),
        {"output_padding": 1},
        "it must be less than stride 1 or dilation 1",
    ),
    (
        "conv_transpose2d",
        (IMAGE, t(6, 2, 3, 3)),
        {"padding": 4},
        "axis W of the result would have -1 elements",
    ),
    ("conv_transpose1d", (t(1, 6, 7), t(6, 2, 0)), {}, "the kernel has size 0 on axis W"),
    (
        "g2bmm",
        (t(2, 5, 3), t(2, 6, 3)),
        {"width": 1},
        "K has shape (2, 6, 3); it must be (2, 5, 3)",
    ),
    ("g2bmm", (t(2, 5, 3), t(2, 5, 3)), {"width": -1}, "width must be an integer of at least 0"),
    (
        "g2bmm",
        (t(2, 5, 3), t(2, 5, 3)),
        {"width": 1, "dilation": 0},
        "dilation must be an integer of at least 1",
    ),
    ("g2bmm", (t(5, 3), t(5, 3)), {"width": 1}, "Q has 2 axes"),
    (
        "gbmm",
        (t(2, 5, 4), t(2, 5, 3)),
        {},
        "axis 2 of P has size 4, but a band is 2*width + 1 columns wide",
    ),
    (
        "gbmm",
        (t(2, 5, 3), t(2, 5, 3)),
        {"width": 2},
        "axis 2 of P has size 3, but the band, 2*width + 1, has size 5",
    ),
    ("gbmm", (t(2, 4, 3), t(2, 5, 3)), {}, "axis 1 of P has size 4"),
    (
        "avg_pool2d",
        (IMAGE, 3),
        {"padding": 3, "count_include_pad": False},
        "a window along axis H holds padding only",
    ),
    ("avg_pool2d", (IMAGE, 0), {}, "kernel must be an integer of at least 1"),
    ("avg_pool2d", (IMAGE, 8), {}, "does not fit axis H"),
    ("max_pool2d", (IMAGE, 2), {"padding": 2}, "a window along axis H holds padding only"),
    ("max_pool1d", (IMAGE, 2), {}, "A has 4 axes"),
    ("global_avg_pool", (t(2, 3),), {}, "A has 2 axes"),
    ("global_avg_pool", (t(2, 3),), {"layout": "NC"}, "it needs a spatial axis"),
    ("global_max_pool", (t(2, 3, 0),), {}, "none may be empty"),
    (
        "attention",
        (t(2, 5, 3), t(2, 6, 4), t(2, 6, 3)),
        {},
        "that of K has size 4, but the last axis of Q has size 3",
    ),
    (
        "attention",
        (t(2, 5, 3), t(2, 6, 3), t(2, 5, 3)),
        {},
        "that of V has size 5, but the number of rows of K has size 6",
    ),
    ("attention", (t(2, 5, 3), t(3, 6, 3), t(2, 6, 3)), {}, "leading axis 0 of K has size 3"),
    ("attention", (t(5, 3), t(0, 3), t(0, 3)), {}, "K has no row"),
    ("attention", (t(5, 0), t(6, 0), t(6, 3)), {}, "Q has no feature"),
    (
        "attention",
        (t(5, 3, dtype="i32"), t(6, 3), t(6, 3)),
        {},
        "Q has dtype i32; it must be a float",
    ),
    (
        "attention",
        (t(5, 3), t(6, 3), t(6, 3)),
        {"mask": t(5, 6, dtype="bool")},
        "mask has dtype bool; it must be a float",
    ),
    (
        "attention",
        (t(5, 3), t(6, 3), t(6, 3)),
        {"mask": t(6, 5)},
        "mask has shape (6, 5); it must be (5, 6)",
    ),
    ("attention", (t(5, 3), t(6, 3), t(6, 3)), {"scale": "1"}, "scale must be a number"),
    (
        "banded_attention",
        (t(5, 3), t(6, 3), t(6, 3)),
        {"width": 1},
        "that of K has size 6, but the number of rows of Q has size 5",
    ),
    ("banded_attention", (t(5, 3), t(5, 3), t(5, 3)), {"width": 1.0}, "width must be an integer"),
    ("lstm_cell", (*CELL, t(16, 4), t(16, 4)), {}, "w_ih has shape (16, 4); it must be (16, 3)"),
    ("lstm_cell", (*CELL, t(16, 3), t(12, 4)), {}, "w_hh has shape (12, 4); it must be (16, 4)"),
    ("lstm_cell", (*CELL, t(16, 3), t(16, 4), t(4)), {}, "b_ih has shape (4,); it must be (16,)"),
    (
        "lstm_cell",
        (*CELL[:2], t(2, 5), t(16, 3), t(16, 4)),
        {},
        "c has shape (2, 5); it must be (2, 4)",
    ),
    (
        "lstm_cell",
        (t(3, 3), *CELL[1:], t(16, 3), t(16, 4)),
        {},
        "h has the leading axes (2,), but x has (3,)",
    ),
    ("gru_cell", (*CELL[:2], t(16, 3), t(12, 4)), {}, "w_ih has shape (16, 3); it must be (12, 3)"),
    (
        "gru_cell",
        (t(2, 3, dtype="i8"), CELL[1], t(12, 3), t(12, 4)),
        {},
        "x has dtype i8; it must be a float",
    ),
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


def test_an_operator_inside_another_is_not_named() -> None:
    """The caller knows the operator that was called, not those it is made of."""

    def nested(x: Any) -> Any:
        return ops.matmul(x, x)

    try:
        outer = ops.operator(nested)
        with pytest.raises(ea.ShapeError, match=r"^nested: the summed axis"):
            outer(t(2, 3))
    finally:
        del ops.OPERATORS["nested"]


def test_a_name_is_taken_once() -> None:
    def matmul() -> None: ...

    with pytest.raises(ValueError, match="matmul is defined twice"):
        ops.operator(matmul)
