"""Forms of operators of torch at the limits of the language: expressed, or calls that say why."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.helpers.torch_graphs import agree  # noqa: E402

X = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
WHOLE = torch.arange(-6, 6).reshape(3, 4)
TRUTH = X > 0
ONE = torch.tensor(1.5)
BITS = "bits of integers are no arithmetic"
CASES: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "convolution, transposed": (
        "convolution.default",
        (X, torch.ones(3, 2, 3), None, [2], [1], [1], True, [1], 1),
        "",
    ),
    "instance norm with statistics": (
        "instance_norm.default",
        (X, torch.ones(3), None, torch.zeros(3), torch.ones(3), False, 0.1, 1e-5, False),
        "",
    ),
    "norm of a batch, no weight": (
        "batch_norm.default",
        (X, None, torch.ones(3), None, None, True, 0.1, 1e-5, False),
        "",
    ),
    "attention, mask of one axis": (
        "scaled_dot_product_attention.default",
        (X, X, X, torch.tensor([True, False, True]), 0.0),
        "",
    ),
    "average with a divisor": (
        "avg_pool2d.default",
        (X, [2, 2], [1, 1], [0, 0], False, True, 3),
        "an average with a divisor of its own",
    ),
    "number plus elements": ("add.Tensor", (1.5, X), ""),
    "elements times a number that is scaled": ("add.Tensor", (X, 2.0), ""),
    "scaled number": ("sub.Scalar", (X, 2.0, 3.0), ""),
    "number minus elements": ("rsub.Scalar", (X, 2.0, 3.0), ""),
    "root of a cube": ("pow.Tensor_Scalar", (X.abs(), 1.5), ""),
    "any power": ("pow.Tensor_Scalar", (X.abs(), 1.3), ""),
    "quotient of integers": ("div.Tensor", (WHOLE, WHOLE + 20), ""),
    "whole quotient of integers": (
        "floor_divide.default",
        (WHOLE, WHOLE + 20),
        "a whole quotient of integers is left to the framework",
    ),
    "remainder of integers": (
        "remainder.Scalar",
        (WHOLE, 3),
        "a whole quotient of integers is left to the framework",
    ),
    "remainder of integers by a float": ("remainder.Scalar", (WHOLE, 2.5), ""),
    "remainder of integers by a fraction": ("remainder.Scalar", (WHOLE, 0.3), ""),
    "remainder of integers towards 0": ("fmod.Scalar", (WHOLE, -0.7), ""),
    "whole quotient of integers by a fraction": ("floor_divide.default", (WHOLE, 0.3), ""),
    "logarithm of a sum of integers": ("logsumexp.default", (WHOLE, [1], False), ""),
    "logarithm of a sum of truth values": ("logsumexp.default", (TRUTH, [1, 2], True), ""),
    "product of doubles and singles": (
        "addcmul.default",
        (X.double(), X, 3 * X),
        "",
    ),
    "quotient of doubles and singles": (
        "addcdiv.default",
        (X.double(), X, X.abs() + 3),
        "",
    ),
    "halves or a number of singles": ("where.self", (X > 0, X.half(), ONE / 7), ""),
    "padded integers": ("pad.default", (WHOLE, [1, 2], "constant", None), ""),
    "padded by a fraction": ("constant_pad_nd.default", (WHOLE, [1, 0, 0, 2], -1.5), ""),
    "padded truth values": ("pad.default", (TRUTH, [1, 2], "constant", 1.0), ""),
    "truth values filled": ("masked_fill.Scalar", (TRUTH, X > 1, 1.0), ""),
    "bits of integers": ("bitwise_and.Tensor", (WHOLE, WHOLE), BITS),
    "bits and a number": ("bitwise_or.Scalar", (WHOLE, 3), BITS),
    "bits turned": ("bitwise_not.default", (WHOLE,), BITS),
    "linear softplus": (
        "softplus.default",
        (X, 1.0, 2.0),
        "a softplus that is linear from 2.0",
    ),
    "norm of order 0": ("linalg_vector_norm.default", (X, 0.0), "a norm of order 0.0"),
    "least of all": ("linalg_vector_norm.default", (X, -float("inf")), "a norm of order -inf"),
    "pieces of nothing": (
        "split.Tensor",
        (torch.ones(0, 3), 0),
        "a tensor without elements",
    ),
    "elements of two axes": (
        "index.Tensor",
        (X, [torch.tensor([0, 1]), torch.tensor([2, 0])]),
        "positions that are known at run time only",
    ),
    "slice of truth replaced": (
        "slice_scatter.default",
        (TRUTH, ~TRUTH[:, :1], 1, 0, 1, 1),
        "",
    ),
    "slice of halves replaced": ("slice_scatter.default", (X.half(), X[:, :1], 1, 2, 3, 1), ""),
    "truth values at a position": ("select_scatter.default", (TRUTH, TRUTH[:, 1], 1, 0), ""),
    "no slice replaced": ("slice_scatter.default", (X, X[:, :0], 1, 3, 3, 1), ""),
    "copy of fewer axes": ("copy.default", (X, X[0, 0]), ""),
    "copy": ("copy.default", (X, X + 1), ""),
    "copy of singles into halves": ("copy.default", (X.half(), X / 3), ""),
    "copy of integers into singles": ("copy.default", (X[0, 0, :4], WHOLE[0]), ""),
    "elements replaced by a number": ("index_put.default", (X, [X > 0], ONE), ""),
    "rows replaced by a row": ("index_put.default", (X, [X[..., 0] > 0], X[0, 0]), ""),
    "columns replaced by a number": (
        "index_put.default",
        (X, [None, X[0, :, 0] > -9], ONE.reshape(1, 1)),
        "",
    ),
    "some elements replaced by others": (
        "index_put.default",
        (X, [X > 0], X[X > 0]),
        "each element that a mask selects is replaced by its own value",
    ),
    "a number added to elements": (
        "index_put.default",
        (X, [X > 0], ONE, True),
        "numbers are added to elements at positions",
    ),
    "elements at positions replaced": (
        "index_put.default",
        (X, [torch.tensor([0, 1])], ONE),
        "elements at positions are replaced",
    ),
    "transposed number": ("transpose.int", (ONE, 0, 0), ""),
    "squeezed number": ("squeeze.dim", (ONE, 0), ""),
    "whole slice": ("slice.Tensor", (X, 1, 0, 9, 1), ""),
    "repeated elements": ("repeat_interleave.self_int", (X, 2), ""),
    "repeated rows": ("repeat_interleave.self_int", (X, 2, 1), ""),
    "copied": ("clone.default", (X,), ""),
}


@pytest.mark.parametrize("divisor", [WHOLE + 20, WHOLE + 20.5])
def test_a_quotient_that_is_not_rounded(divisor: Any) -> None:
    assert not agree("div.Tensor_mode", (WHOLE, divisor), {"rounding_mode": None}).opaque


@pytest.mark.parametrize("name", CASES)
def test_forms(name: str) -> None:
    operator, arguments, why = CASES[name]
    graph = agree(operator, arguments, {})
    assert [call.why for call in graph.opaque] == [why] * bool(why)
