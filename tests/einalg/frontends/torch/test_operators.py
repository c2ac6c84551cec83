"""Every operator of the torch front end against torch, on random shapes and parameters."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from einalg.frontends.torch.capture.export import find_operator  # noqa: E402
from einalg.frontends.torch.module import import_exported  # noqa: E402
from einalg.frontends.torch.nodes.registry import ATEN, TAKES_CONSTANT_INTEGERS, TrainingMode  # noqa: E402
from tests.helpers.torch_graphs import agree, graph_of  # noqa: E402

SETS = 2  # random parameters for each operator
Case = Callable[["Draw"], Any]
CASES: dict[str, Case] = {}


class Draw:
    """Random parameters of one case."""

    def __init__(self, seed: int):
        self.random = torch.Generator().manual_seed(seed)
        self.dtype = torch.float64 if self.int(0, 2) else torch.float32

    def int(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, the ends included."""
        return int(torch.randint(low, high + 1, (), generator=self.random))

    def ints(self, count: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(count)]

    def coin(self) -> bool:
        return bool(self.int(0, 1))

    def one_of(self, *values: Any) -> Any:
        return values[self.int(0, len(values) - 1)]

    def shape(self, least: int = 0, most: int = 4) -> list[int]:
        return [self.one_of(1, 2, 3, 5) for _ in range(self.int(least, most))]

    def float(self, *shape: int) -> Any:
        return torch.randn(shape, generator=self.random, dtype=torch.float64).to(self.dtype)

    def positive(self, *shape: int) -> Any:
        return self.float(*shape).abs() + 0.1

    def whole(self, *shape: int) -> Any:
        return torch.randint(-5, 6, shape, generator=self.random)

    def truth(self, *shape: int) -> Any:
        return torch.rand(shape, generator=self.random) < 0.5

    def tensor(self, *shape: int) -> Any:
        return self.one_of(self.float, self.float, self.whole)(*shape)

    def any(self, *shape: int) -> Any:
        return self.one_of(self.float, self.whole, self.truth)(*shape)

    def broadcast(self) -> tuple[Any, Any]:
        """Two tensors that broadcast."""
        shape = self.shape(1, 3)
        other = [1 if self.coin() else s for s in shape][self.int(0, len(shape)) :]
        return (
            (self.float(*shape), self.float(*other))
            if self.coin()
            else (self.float(*other), self.float(*shape))
        )

    def axis(self, rank: int) -> int:
        return self.int(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        chosen = torch.randperm(rank, generator=self.random)[: self.int(least, rank)].tolist()
        return [a - rank * self.coin() for a in chosen]


def case(*names: str) -> Callable[[Case], Case]:
    """Register a case: it gives the positional arguments, and in a dictionary at the end the
    others.
    """

    def register(function: Case) -> Case:
        for name in names:
            assert name not in CASES
            CASES[name] = function
        return function

    return register


def table(names: str, function: Case) -> None:
    case(*(n if "." in n else f"{n}.default" for n in names.split()))(function)


def arguments(made: Any) -> tuple[list[Any], dict[str, Any]]:
    values = list(made) if isinstance(made, tuple) else [made]
    return (values[:-1], values[-1]) if values and isinstance(values[-1], dict) else (values, {})


# One element.
table("neg exp sin cos tanh erf relu sigmoid silu square", lambda d: d.float(*d.shape()))
table(
    "tan sinh cosh asinh atan erfc expm1 exp2 relu6 deg2rad rad2deg mish log_sigmoid "
    "log_sigmoid_forward",
    lambda d: d.float(*d.shape()),
)
table("hardsigmoid hardswish selu", lambda d: d.float(*d.shape()) * 4)
table("abs sign sgn floor ceil trunc", lambda d: d.tensor(*d.shape()) * 3)
table("round", lambda d: d.one_of(d.tensor(*d.shape()) * 3, d.whole(*d.shape()) / 2))
table("frac", lambda d: d.float(*d.shape()) * 3)
table("log sqrt rsqrt reciprocal log2 log10 log1p", lambda d: d.positive(*d.shape()))
table("asin acos atanh", lambda d: torch.tanh(d.float(*d.shape())))
table("acosh", lambda d: 1 + d.positive(*d.shape()))
table("logical_not", lambda d: d.one_of(d.truth, d.whole)(*d.shape()))
table("bitwise_not", lambda d: d.truth(*d.shape()))
table("gelu", lambda d: (d.float(*d.shape()), {"approximate": d.one_of("none", "tanh")}))
table("leaky_relu celu", lambda d: (d.float(*d.shape()), d.one_of(0.5, 1.5)))
table("elu", lambda d: (d.float(*d.shape()), d.one_of(1, 0.5), d.one_of(1, 2), d.one_of(1.0, 0.25)))
table("softplus", lambda d: (d.float(*d.shape()), d.one_of(1, 2.5)))
table("hardtanh", lambda d: (d.float(*d.shape()), d.one_of(-1, -0.5), d.one_of(0.25, 1.0)))
table("threshold", lambda d: (d.float(*d.shape()), d.one_of(0, 0.5), d.one_of(-1, 0.25)))
table("isnan isinf isfinite", lambda d: (d.float(*d.shape()),))
table("hardshrink softshrink", lambda d: (d.float(*d.shape()), d.one_of(0.5, 1)))


@case("glu.default")
def glu(d: Draw) -> Any:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape))
    shape[axis] *= 2
    return d.float(*shape), axis


# Several elements.
table("maximum minimum atan2 hypot logaddexp", lambda d: d.broadcast())
table(
    "mul.Tensor",
    lambda d: d.one_of(
        d.broadcast, lambda: (d.truth(3, 1), d.any(4)), lambda: (d.any(3, 4), d.truth(4))
    )(),
)
table(
    "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor",
    lambda d: (d.whole(3, 5), d.one_of(d.whole, d.truth, d.float)(5)),
)
table(
    "eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar",
    lambda d: (d.tensor(3, 5), d.one_of(0, 1, 0.5)),
)
table("mul.Scalar div.Scalar", lambda d: (d.any(*d.shape()), d.one_of(2, 0.1)))
table(
    "add.Scalar sub.Scalar rsub.Scalar",
    lambda d: (d.tensor(*d.shape()), d.one_of(2, 0.1), d.one_of(1, 3)),
)
table("sub.Tensor rsub.Tensor", lambda d: (*d.broadcast(), {"alpha": d.one_of(1, 0.5, 2)}))
table(
    "add.Tensor",
    lambda d: (
        (*d.broadcast(), {"alpha": d.one_of(1, 0.5, 2)})
        if d.coin()
        else (d.truth(3, 1), d.any(2, 1, 4), {"alpha": 1})
    ),
)
table(
    "div.Tensor true_divide.Tensor",
    lambda d: (d.whole(3, 1), 1 + d.whole(4).abs()) if d.coin() else (d.float(3, 1), d.positive(4)),
)
table("pow.Tensor_Tensor", lambda d: (d.positive(2, 3), d.one_of(d.float, d.truth)(3)))
table("pow.Scalar", lambda d: (d.one_of(2, 1.5), d.float(2, 3)))
table("pow.Tensor_Scalar", lambda d: (d.positive(2, 3), d.one_of(2, -1, 0.5, 3.0, 1.7)))
table(
    "div.Tensor_mode",
    lambda d: (d.float(3, 1), d.positive(4), {"rounding_mode": d.one_of(None, "floor", "trunc")}),
)
table(
    "div.Scalar_mode",
    lambda d: (
        d.float(3, 1),
        d.one_of(2, 0.3),
        {"rounding_mode": d.one_of(None, "floor", "trunc")},
    ),
)
table("floor_divide", lambda d: (d.float(3, 1), d.positive(4)))
table("floor_divide.Scalar", lambda d: (d.float(3, 1), 0.3))
table("remainder.Tensor fmod.Tensor", lambda d: (d.float(3, 1), d.positive(4)))
table("remainder.Scalar fmod.Scalar", lambda d: (d.float(3, 4), d.one_of(2, 0.7)))
table(
    "logical_and logical_or logical_xor", lambda d: (d.one_of(d.truth, d.whole)(3, 1), d.truth(4))
)
table(
    "bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor", lambda d: (d.truth(3, 1), d.truth(4))
)
table(
    "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar", lambda d: (d.truth(3, 4), d.coin())
)
table(
    "where.self",
    lambda d: (
        (d.truth(3, 1), *d.broadcast()[:1], d.float(1, 1))
        if d.coin()
        else (d.truth(3), d.float(2, 3), d.float(3))
    ),
)
table("where.ScalarOther", lambda d: (d.truth(3), d.float(2, 3), 0.5))
table("where.ScalarSelf", lambda d: (d.truth(3), 0.5, d.float(2, 3)))
table("masked_fill.Scalar", lambda d: (d.float(2, 3), d.truth(3), d.one_of(0, 1.5, float("-inf"))))
table("masked_fill.Tensor", lambda d: (d.float(2, 3), d.truth(3), d.float()))
table(
    "index_put.default",
    lambda d: (
        d.float(2, 3, 4),
        *d.one_of(
            ([d.truth(2)], d.float(4)),
            ([None, d.truth(3, 4)], d.float()),
            ([d.truth(2, 3, 4)], d.float(1)),
        ),
    ),
)
table("clamp", lambda d: (d.tensor(3, 5), *d.one_of((0, None), (None, 1), (-1, 1))))
table(
    "clamp.Tensor",
    lambda d: (
        d.float(3, 5),
        *d.one_of((d.float(5), None), (None, d.float(3, 1)), (-d.positive(5), d.positive(5))),
    ),
)
table("clamp_min clamp_max", lambda d: (d.float(3, 5), d.one_of(0, 0.25)))
table("clamp_min.Tensor clamp_max.Tensor", lambda d: (d.float(3, 5), d.float(5)))
table("addcmul", lambda d: (d.float(3), d.float(2, 3), d.float(3), {"value": d.one_of(1, 0.5)}))
table("addcdiv", lambda d: (d.float(3), d.float(2, 3), d.positive(3), {"value": d.one_of(1, 0.5)}))
table("lerp.Scalar", lambda d: (d.float(2, 3), d.float(3), 0.3))
table("lerp.Tensor", lambda d: (d.float(2, 3), d.float(3), d.float(3)))
table("prelu", lambda d: (d.float(2, 3, 5), d.float(d.one_of(1, 3))))
table("_prelu_kernel", lambda d: (d.float(2, 3, 5), d.float(3, 1)))


# Products.
@case("mm.default")
def mm(d: Draw) -> Any:
    m, n, k = d.ints(3, 1, 7)
    return d.float(m, k), d.float(k, n)


table("bmm", lambda d: (d.float(3, 2, 5), d.float(3, 5, 1)))
table("mv", lambda d: (d.float(3, 5), d.float(5)))
table("dot vdot", lambda d: (d.float(5), d.float(5)))
table("outer", lambda d: (d.float(3), d.float(5)))
table(
    "matmul",
    lambda d: d.one_of(
        (d.float(3), d.float(3)),
        (d.float(2, 1, 3, 5), d.float(4, 5, 7)),
        (d.whole(2, 3), d.whole(3, 4)),
    ),
)
table("linear", lambda d: (d.float(*d.shape(0, 2), 5), d.float(3, 5), d.one_of(None, d.float(3))))
table("linalg_vecdot", lambda d: (d.float(2, 3), d.float(2, 3), {"dim": d.axis(2)}))
table(
    "addmm",
    lambda d: (
        d.float(*d.one_of((4,), (3, 4), (3, 1))),
        d.float(3, 5),
        d.float(5, 4),
        {"beta": d.one_of(1, 0, 0.5), "alpha": d.one_of(1, 2)},
    ),
)
table("addmv", lambda d: (d.float(3), d.float(3, 5), d.float(5)))
table(
    "addbmm",
    lambda d: (
        d.float(d.one_of(1, 3), 4),
        d.float(2, 3, 5),
        d.float(2, 5, 4),
        {"beta": d.one_of(0.5, 1), "alpha": d.one_of(2, 1)},
    ),
)
table("baddbmm", lambda d: (d.float(2, 1, 4), d.float(2, 3, 5), d.float(2, 5, 4), {"beta": 0.5}))
table(
    "bilinear",
    lambda d: (d.float(2, 3, 4), d.float(2, 3, 5), d.float(7, 4, 5), d.one_of(None, d.float(7))),
)


@case("einsum.default")
def einsum(d: Draw) -> Any:
    equation, *shapes = d.one_of(
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("...i,ji->...j", (2, 3, 4), (5, 4)),
        ("ii->i", (3, 3)),
        ("ab,cd", (2, 3), (4, 5)),
        ("ij,jk,k->i", (2, 3), (3, 4), (4,)),
    )
    return equation, [d.float(*shape) for shape in shapes]


# Convolutions.
def convolution(d: Draw, axes: int, batched: bool = True) -> dict[str, Any]:
    kernel, dilation, stride, padding = (
        d.ints(axes, low, high) for low, high in ((1, 3), (1, 2), (1, 3), (0, 2))
    )
    groups = d.one_of(1, 1, 2, 3)
    channels, features = groups * d.int(1, 2), groups * d.int(1, 2)
    sizes = [
        d.int(max(1, (k - 1) * step + 1 - 2 * p), 7)
        for k, step, p in zip(kernel, dilation, padding)
    ]
    x = d.float(*([d.int(1, 2)] if batched else []), channels, *sizes)
    return dict(
        x=x, weight=d.float(features, channels // groups, *kernel), bias=d.one_of(None, d.float(features)), stride=stride, padding=padding,
        dilation=dilation, groups=groups, kernel=kernel, features=features,
    )  # fmt: skip


def register_convolutions(axes: int) -> None:
    @case(f"conv{axes}d.default")
    def plain(d: Draw) -> Any:
        c = convolution(d, axes, d.coin())
        return c["x"], c["weight"], c["bias"], c["stride"], c["padding"], c["dilation"], c["groups"]

    @case(f"conv{axes}d.padding")
    def by_a_word(d: Draw) -> Any:
        c = convolution(d, axes)
        if d.coin():
            return c["x"], c["weight"], c["bias"], [1] * axes, "same", c["dilation"], c["groups"]
        return (
            torch.nn.functional.pad(c["x"], [3] * 2 * axes),
            c["weight"],
            c["bias"],
            c["stride"],
            "valid",
            c["dilation"],
            c["groups"],
        )

    @case(f"conv_transpose{axes}d.{'default' if axes == 1 else 'input'}")
    def transposed(d: Draw) -> Any:
        c = convolution(d, axes, d.coin())
        stride = [s + 1 for s in c["stride"]]
        extra = [d.int(0, s - 1) for s in stride]
        x = torch.nn.functional.pad(c["x"], [1] * 2 * axes)
        weight = d.float(
            x.shape[-axes - 1], c["features"] // c["groups"], *[k + 1 for k in c["kernel"]]
        )
        return (
            x,
            weight,
            c["bias"],
            stride,
            [min(p, 1) for p in c["padding"]],
            extra,
            c["groups"],
            c["dilation"],
        )


for _axes in (1, 2, 3):
    register_convolutions(_axes)


@case("convolution.default")
def any_convolution(d: Draw) -> Any:
    c = convolution(d, d.int(1, 3))
    axes = len(c["stride"])
    if d.coin():
        return (
            c["x"],
            c["weight"],
            c["bias"],
            c["stride"],
            c["padding"],
            c["dilation"],
            False,
            [0] * axes,
            c["groups"],
        )
    x = torch.nn.functional.pad(c["x"], [1] * 2 * axes)
    weight = d.float(x.shape[1], c["features"] // c["groups"], *[k + 1 for k in c["kernel"]])
    return (
        x,
        weight,
        c["bias"],
        [s + 1 for s in c["stride"]],
        [0] * axes,
        c["dilation"],
        True,
        [1] * axes,
        c["groups"],
    )


# Poolings.
def register_poolings(axes: int) -> None:
    def windows(d: Draw) -> tuple[Any, list[int], list[int], list[int]]:
        kernel = d.ints(axes, 1, 3)
        x = d.float(*([2] if d.coin() else []), 2, *d.ints(axes, 5, 7))
        return x, kernel, d.one_of([], d.ints(axes, 1, 3)), [d.int(0, k // 2) for k in kernel]

    @case(f"max_pool{axes}d.default", f"max_pool{axes}d_with_indices.default")
    def maximum(d: Draw) -> Any:
        return *windows(d), d.ints(axes, 1, 2), d.coin()

    @case(f"avg_pool{axes}d.default")
    def average(d: Draw) -> Any:
        return *windows(d), d.coin(), d.coin()

    def adaptive(d: Draw) -> Any:
        return d.float(*([2] if d.coin() else []), 2, *d.ints(axes, 1, 7)), d.ints(axes, 1, 5)

    case(f"adaptive_avg_pool{axes}d.default", f"adaptive_max_pool{axes}d.default")(adaptive)
    if axes > 1:
        case(f"_adaptive_avg_pool{axes}d.default")(adaptive)


for _axes in (1, 2, 3):
    register_poolings(_axes)


# Reductions.
table("sum prod", lambda d: (d.any(*d.shape(0, 3)), {"dtype": d.one_of(None, torch.float64)}))
table(
    "mean",
    lambda d: (d.whole(3, 2), {"dtype": torch.float64}) if d.coin() else d.float(*d.shape(0, 3)),
)
table("max min", lambda d: d.tensor(*d.shape(0, 3)))
table("any all", lambda d: d.one_of(d.truth, d.whole)(*d.shape(0, 3)))
table("count_nonzero", lambda d: (d.whole(3, 2), d.one_of(None, 0, -1)))
table(
    "sum.dim_IntList",
    lambda d: (d.one_of(d.truth, d.tensor)(2, 3, 5), d.one_of(None, d.axes(3)), d.coin()),
)
table("mean.dim logsumexp amax amin", lambda d: (d.float(2, 3, 5), d.axes(3, 1), d.coin()))
table("prod.dim_int", lambda d: (d.any(2, 3, 5), d.axis(3), d.coin()))
table("max.dim min.dim", lambda d: (d.tensor(2, 3, 5), d.axis(3), d.coin()))
table("argmax argmin", lambda d: (d.tensor(2, 3, 5), d.one_of(None, d.axis(3)), d.coin()))
table("cumprod", lambda d: (d.float(2, 3, 5), d.axis(3), {"dtype": d.one_of(None, torch.float64)}))
table("any.dim all.dim", lambda d: (d.truth(2, 3, 5), d.axis(3), d.coin()))
table("any.dims all.dims", lambda d: (d.truth(2, 3, 5), d.axes(3, 1), d.coin()))
table("count_nonzero.dim_IntList", lambda d: (d.whole(2, 3, 5), d.axes(3, 1)))
table("cumsum", lambda d: (d.any(2, 3, 5), d.axis(3), {"dtype": d.one_of(None, torch.float64)}))
table(
    "var.correction std.correction var_mean.correction",
    lambda d: (
        d.float(2, 3, 5),
        d.axes(3, 1),
        {"correction": d.one_of(0, 1, None) if d.dtype else 0, "keepdim": d.coin()},
    ),
)
table(
    "linalg_vector_norm",
    lambda d: (
        d.float(2, 3, 5),
        d.one_of(1, 2, 3, 0.5, float("inf")),
        d.one_of(None, d.axes(3, 1)),
        d.coin(),
    ),
)

# Normalizations and attention.
table("softmax.int log_softmax.int", lambda d: (d.float(2, 3, 5), d.axis(3)))
table("_softmax _log_softmax", lambda d: (d.float(2, 3, 5), d.axis(3), False))


@case("_safe_softmax.default")
def safe_softmax(d: Draw) -> Any:
    x = d.float(4, 5).masked_fill(d.truth(4, 5), float("-inf"))
    x[1] = float("-inf")
    return x, 1


table(
    "layer_norm",
    lambda d: (
        d.float(2, 3, 5),
        [3, 5],
        d.one_of(None, d.float(3, 5)),
        d.one_of(None, d.float(3, 5)),
        1e-3,
    ),
)
table("native_layer_norm", lambda d: (d.float(2, 3, 5), [5], d.float(5), d.float(5), 1e-5))
table(
    "rms_norm _fused_rms_norm",
    lambda d: (d.float(2, 3, 5), [5], d.one_of(None, d.float(5)), d.one_of(None, 1e-3)),
)
table(
    "group_norm",
    lambda d: (d.float(2, 6, 5), d.one_of(1, 2, 3, 6), d.float(6), d.one_of(None, d.float(6))),
)
table(
    "native_group_norm",
    lambda d: (d.float(2, 6, 5), d.float(6), d.float(6), 2, 6, 5, d.one_of(2, 3), 1e-5),
)
table(
    "batch_norm",
    lambda d: (
        (
            d.float(2, 3, 5),
            d.one_of(None, d.float(3)),
            d.float(3),
            d.float(3),
            d.positive(3),
            False,
            0.1,
            1e-3,
            False,
        )
        if d.coin()
        else (d.float(2, 3, 5), d.float(3), d.float(3), None, None, True, 0.1, 1e-3, False)
    ),
)
table(
    "_native_batch_norm_legit_no_training",
    lambda d: (d.float(2, 3, 5), d.float(3), None, d.float(3), d.positive(3), 0.1, 1e-3),
)
table(
    "_native_batch_norm_legit.no_stats",
    lambda d: (d.float(2, 3, 5), d.float(3), None, True, 0.1, 1e-3),
)
table(
    "_native_batch_norm_legit native_batch_norm",
    lambda d: (d.float(2, 3, 5), d.float(3), None, d.float(3), d.positive(3), False, 0.1, 1e-3),
)
table(
    "_native_batch_norm_legit_functional",
    lambda d: (d.float(2, 3, 5), d.float(3), None, d.float(3), d.positive(3), False, 0.1, 1e-3),
)
table(
    "instance_norm",
    lambda d: (
        d.float(2, 3, 5),
        d.float(3),
        d.float(3),
        *d.one_of((None, None, True), (d.float(3), d.positive(3), False)),
        0.1,
        1e-3,
        False,
    ),
)
table(
    "dropout feature_dropout alpha_dropout feature_alpha_dropout",
    lambda d: (d.float(2, 3), 0.5, False),
)
table("native_dropout", lambda d: (d.float(2, 3), 0.5, False))


def attention(d: Draw) -> Any:
    heads, rows, keys, depth = d.ints(4, 1, 5)
    mask = d.one_of(None, d.float(rows, keys), d.float(2, 1, 1, keys))
    q, k, v = (
        d.float(2, heads, rows, depth),
        d.float(2, heads, keys, depth),
        d.float(2, heads, keys, depth),
    )
    return q, k, v, mask, 0.0, d.coin() and mask is None


@case("scaled_dot_product_attention.default")
def dot_product_attention(d: Draw) -> Any:
    q, k, v, mask, p, causal = attention(d)
    if d.coin():
        seen = d.truth(q.shape[-2], k.shape[-2])
        seen[:, 0] = True
        return q, k, v, seen, p, False, {"scale": d.one_of(None, 0.3)}
    if d.coin():
        return q.repeat(1, 2, 1, 1), k, v, None, p, causal, {"enable_gqa": True}
    return q, k, v, mask, p, causal


@case("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(d: Draw) -> Any:
    q, k, v, _, p, causal = attention(d)
    return q, k, v, p, causal


# Views and movements.
table(
    "clone contiguous detach alias lift_fresh_copy lift_fresh positive resolve_conj "
    "resolve_neg detach_copy alias_copy",
    lambda d: d.tensor(*d.shape()),
)
table(
    "view reshape _unsafe_view view_copy",
    lambda d: (d.tensor(2, 3, 4), d.one_of([24], [6, -1], [4, 3, 2], [2, 1, 3, 4])),
)
table("_reshape_alias", lambda d: (d.tensor(2, 3, 4), [6, 4], [4, 1]))
table("view_as reshape_as", lambda d: (d.tensor(2, 3, 4), d.tensor(4, 6)))
table(
    "flatten.using_ints",
    lambda d: (d.tensor(2, 3, 4), d.one_of(0, 1), d.one_of(-1, 1)) if d.coin() else d.tensor(),
)
table("unflatten.int", lambda d: (d.tensor(2, 6, 4), -2, d.one_of([2, 3], [3, -1])))
table("permute permute_copy", lambda d: (d.tensor(2, 3, 4), d.one_of([2, 0, 1], [0, -1, 1])))
table("t t_copy numpy_T", lambda d: d.tensor(2, 3))
table("mT", lambda d: d.tensor(2, 3, 4))
table(
    "transpose.int swapaxes transpose_copy.int", lambda d: (d.tensor(2, 3, 4), d.axis(3), d.axis(3))
)
table("movedim.int", lambda d: (d.tensor(2, 3, 4), d.axis(3), d.axis(3)))
table("movedim.intlist", lambda d: (d.tensor(2, 3, 4, 5), [0, -1], [2, 1]))
table("squeeze", lambda d: d.tensor(1, 3, 1))
table("squeeze.dim", lambda d: (d.tensor(1, 3, 1), d.axis(3)))
table("squeeze.dims", lambda d: (d.tensor(1, 3, 1), d.axes(3)))
table("unsqueeze unsqueeze_copy", lambda d: (d.tensor(2, 3), d.axis(3)))
table("expand expand_copy", lambda d: (d.tensor(3, 1), d.one_of([3, 4], [2, -1, 5], [2, 3, 1])))
table("expand_as", lambda d: (d.tensor(3, 1), d.tensor(2, 3, 5)))
table("flip", lambda d: (d.tensor(2, 3, 4), d.axes(3)))
table("repeat tile", lambda d: (d.tensor(2, 3), d.one_of([2, 1], [3, 1, 2])))
table("tril triu", lambda d: (d.one_of(d.tensor, d.truth)(2, 3, 5), d.int(-3, 4)))
table(
    "diagonal diagonal_copy",
    lambda d: (d.tensor(2, 3, 4), d.int(-1, 1), *d.one_of((0, 1), (2, 1), (-1, 0))),
)
table("pixel_shuffle", lambda d: (d.tensor(2, 12, 3, 2), 2))
table("pixel_unshuffle", lambda d: (d.tensor(2, 3, 4, 6), 2))
table(
    "_to_copy",
    lambda d: (
        d.one_of(d.truth, d.whole)(2, 3),
        {"dtype": d.one_of(torch.float32, torch.float64, torch.bool, None)},
    ),
)
table(
    "to.dtype", lambda d: (d.one_of(d.truth, d.whole)(2, 3), d.one_of(torch.float32, torch.int64))
)
table("to.dtype_layout", lambda d: (d.whole(2, 3), {"dtype": torch.float64}))
table("to.device", lambda d: (d.whole(2, 3), "cpu", torch.int64))
table("type_as", lambda d: (d.whole(2, 3), d.float(1)))
table(
    "slice.Tensor slice_copy.Tensor",
    lambda d: (
        d.tensor(5, 7),
        d.axis(2),
        d.one_of(None, 0, 1, -3),
        d.one_of(None, 4, -1, 99),
        d.int(1, 3),
    ),
)
table("narrow", lambda d: (d.tensor(5, 7), d.axis(2), d.one_of(1, -3), 2))
table("select.int select_copy.int", lambda d: (d.tensor(5, 7), d.axis(2), d.one_of(0, 3, -2)))
table("roll", lambda d: (d.tensor(2, 3, 5), *d.one_of(([2], []), ([1, -2], [0, 2]))))
table("repeat_interleave.self_int", lambda d: (d.tensor(2, 3), 2, d.one_of(None, 0, -1)))
table("unfold unfold_copy", lambda d: (d.tensor(2, 7, 3), 1, d.int(1, 4), d.int(1, 3)))
table(
    "im2col",
    lambda d: (d.float(*d.one_of((2, 3, 6, 5), (3, 6, 5))), [2, 3], [1, 2], [1, 0], [2, 1]),
)
table(
    "cat concat",
    lambda d: (
        ([d.float(2, 3), d.float(2, 1), d.float(2, 5)], d.one_of(1, -1))
        if d.coin()
        else ([d.float(0), d.float(3), d.float(2)],)
    ),
)
table("stack", lambda d: ([d.tensor(2, 3)] * d.int(1, 3), d.axis(3)))
table(
    "split_with_sizes split_with_sizes_copy split.sizes",
    lambda d: (d.tensor(7, 3), [2, 4, 1], d.one_of(0, -2)),
)
table("split.Tensor split_copy.Tensor chunk", lambda d: (d.tensor(7, 3), d.int(1, 5), 0))
table("unbind.int unbind_copy.int", lambda d: (d.tensor(3, 2, 1), d.axis(3)))
table(
    "pad",
    lambda d: (
        d.float(3, 4, 5),
        *d.one_of(
            ([1, 2], "constant", 0.5),
            ([1, -1, 0, 2], "constant", None),
            ([1, 2], "reflect"),
            ([2, 1], "replicate"),
            ([2, 1], "circular"),
        ),
    ),
)
table(
    "constant_pad_nd",
    lambda d: (d.tensor(3, 4, 5), d.one_of([1, 2], [0, 1, 2, 0, -1, 3]), d.one_of(0, 2)),
)
table("reflection_pad1d replication_pad1d", lambda d: (d.float(2, 3, 5), [2, 1]))
table("reflection_pad2d replication_pad2d", lambda d: (d.float(2, 3, 5, 4), [2, 1, 0, 3]))
table("reflection_pad3d replication_pad3d", lambda d: (d.float(1, 1, 3, 3, 4), [2, 1, 0, 1, 1, 2]))
table(
    "slice_scatter",
    lambda d: (d.float(7, 3), d.float(2, 3), 0, *d.one_of((1, 3, 1), (2, None, 3), (-2, None, 1))),
)
table("select_scatter", lambda d: (d.float(7, 3), d.float(7), 1, d.one_of(0, -1)))
table("copy", lambda d: (d.float(2, 3), d.float(*d.one_of((2, 3), (3,), (2, 1)))))


# Recurrent networks.
def register_recurrent(name: str, gates: int, states: int) -> None:
    @case(name)
    def network(d: Draw) -> Any:
        layers, ways, batch, steps, inputs, size = *d.ints(2, 1, 2), *d.ints(4, 1, 4)
        biased, batch_first = d.coin(), d.coin()
        weights = []
        for n in range(layers * ways):
            rows, depth = gates * size, inputs if n < ways else size * ways
            weights += [
                d.float(rows, depth),
                d.float(rows, size),
                *([d.float(rows), d.float(rows)] if biased else []),
            ]
        x = d.float(batch, steps, inputs) if batch_first else d.float(steps, batch, inputs)
        begin = [d.float(layers * ways, batch, size) for _ in range(states)]
        return (
            x,
            begin if states > 1 else begin[0],
            weights,
            biased,
            layers,
            0.0,
            False,
            ways > 1,
            batch_first,
        )


register_recurrent("lstm.input", 4, 2)
register_recurrent("gru.input", 3, 1)
register_recurrent("rnn_tanh.input", 1, 1)
register_recurrent("rnn_relu.input", 1, 1)


# Resizing.
def register_resizing(axes: int, name: str, linear: bool) -> None:
    def sizes(d: Draw) -> tuple[Any, list[int] | None, list[float] | None]:
        x = d.float(2, 3, *d.ints(axes, 3, 7))
        return (
            (x, d.ints(axes, 1, 9), None)
            if d.coin()
            else (
                x,
                None,
                [d.one_of(0.5, 1.0, 2.0, 1.7, 1 / 3, 2.25, 5 / 3) * 1.0 for _ in range(axes)],
            )
        )

    @case(f"{name}.vec")
    def vec(d: Draw) -> Any:
        x, size, scales = sizes(d)
        return (x, size, d.coin(), scales) if linear else (x, size, scales)

    @case(f"{name}.default")
    def plain(d: Draw) -> Any:
        x, size, _ = sizes(d)
        size = size or [2 * n for n in x.shape[2:]]
        return (x, size, d.coin()) if linear else (x, size)


register_resizing(2, "upsample_bicubic2d", True)
for _axes, _linear in (
    (1, "upsample_linear1d"),
    (2, "upsample_bilinear2d"),
    (3, "upsample_trilinear3d"),
):
    register_resizing(_axes, _linear, True)
    register_resizing(_axes, f"upsample_nearest{_axes}d", False)
    register_resizing(_axes, f"_upsample_nearest_exact{_axes}d", False)


@pytest.mark.parametrize("name", sorted(set(ATEN) - TAKES_CONSTANT_INTEGERS))
def test_operator(name: str) -> None:
    if find_operator(name) is None:
        pytest.skip("this version of torch has no such operator")
    assert name in CASES, f"{name} has no case"
    for k in range(SETS):
        made, keywords = arguments(CASES[name](Draw(zlib.crc32(name.encode()) + k)))
        graph = agree(name, made, keywords)
        assert not graph.opaque, f"{name}{made}{keywords}: {graph.opaque[0].why}"


def test_every_case_has_an_operator() -> None:
    assert set(CASES) <= set(ATEN)


class Chosen(torch.nn.Module):
    """Channels in another order, and some positions of the last axis, which are a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.tensor([[4, 0], [1, -1]]))

    def forward(self, x: Any, at: Any) -> Any:
        return (
            x[:, [2, 0, 1]],
            x[..., self.places],
            torch.index_select(x, 1, torch.tensor([1, 1])),
            x[:, at],
            x[:, [[0], [-1]], [1, -1, 2]],
            x[[1, 0, 1], :, [4, 4, 1]],
            x[[1, 0], [2, 0], [3, 3]],
            x.tril()[:, *torch.tril_indices(3, 5, -1)],
        )


def test_elements_at_positions_that_are_known_ahead() -> None:
    """Those that are known at run time only are looked up by torch."""
    x, at = torch.randn(2, 3, 5), torch.tensor([2, 0])
    assert {"index.Tensor", "index_select.default"} == TAKES_CONSTANT_INTEGERS
    model = import_exported(Chosen(), (x, at), {})
    assert [node.operator for node in model.graph.opaque] == ["index.Tensor"]
    for found, expected in zip(model.function()(x, at), Chosen()(x, at), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["logaddexp.default", "logsumexp.default"])
def test_logarithms_of_sums_of_infinities(name: str, dtype: Any) -> None:
    """All of two elements: the logarithm of nothing, and differences of infinities, which are no
    numbers.
    """
    ends = [
        -float("inf"),
        float(torch.finfo(dtype).min),
        -5.0,
        0.25,
        float(torch.finfo(dtype).max),
        float("inf"),
    ]
    pairs = torch.tensor([[a, b] for a in ends for b in ends], dtype=dtype)
    given = list(pairs.unbind(1)) if name.startswith("logadd") else [pairs, [1]]
    assert not agree(name, given, {}).opaque


@pytest.mark.parametrize("name, given", [
    ("dropout.default", (torch.ones(3), 0.5, True)),
    ("native_dropout.default", (torch.ones(3), 0.5, True)),
    ("batch_norm.default", (torch.ones(2, 3), None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5, False)),
    ("instance_norm.default", (torch.ones(2, 3, 4), None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5, False)),
    ("scaled_dot_product_attention.default", (torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.ones(1, 2, 3), None, 0.1)),
])  # fmt: skip
def test_training_is_refused(name: str, given: Any) -> None:
    with pytest.raises(TrainingMode, match=r"training mode.*\n.*model\.eval\(\)"):
        graph_of(name, given, {})


class AlongNoAxis(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.ops.aten.index.Tensor(x, [None, None])


def test_positions_along_no_axis_are_left_to_torch() -> None:
    model = import_exported(AlongNoAxis(), (torch.ones(2, 3),), {})
    assert [node.why for node in model.graph.opaque] == ["positions along no axis"]
