"""The operators and subgraphs of Ansor's benchmark, each in four shapes (its authors' list).

Images have their channels last, as there; torch gets them first, in its own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import einalg as ea
from bench.kernel_cases import Array, Arrays, Case, matmul
from einalg.language import ops
from einalg.language.ir.program import Program, statement_tensor

LETTERS = "DHW"
CAPSULE = 4  # rows and columns of the matrix in each place of a capsule's image
SCALE = 0.05  # of weights, so that results stay in range


# Convolutions.


def convolution(
    name: str,
    batch: int,
    space: Sequence[int],
    channels: int,
    filters: int,
    taps: int,
    **options: int,
) -> Case:
    """Return a convolution of any rank; `options` are `stride`, `padding`, `dilation`, `groups`."""
    rank, groups = len(space), options.get("groups", 1)
    letters = LETTERS[3 - rank :]
    A = ea.tensor("A", (batch, *space, channels))
    K = ea.tensor("K", (*[taps] * rank, channels // groups, filters), role="weight")
    make = getattr(ops, f"conv{rank}d")
    expression = make(A, K, layout=f"N{letters}C", weight_layout=f"{letters}IO", **options)
    words = [name, "x".join(map(str, space)), f"{channels}→{filters}", f"k{taps}"]
    words += [f"{option[0]}{value}" for option, value in options.items()]
    function = partial(_convolution, rank=rank, **options)
    return _case(words, batch, expression, function, rank)


def _convolution(torch: Any, A: Any, K: Any, *, rank: int, **options: int) -> Any:
    return getattr(torch.nn.functional, f"conv{rank}d")(A, K, **options)


def _case(
    words: Sequence[str], batch: int, expression: Any, function: Callable[..., Any], rank: int
) -> Case:
    return Case(
        " ".join([*words, f"b{batch}"]),
        expression,
        function,
        ("K",),
        partial(_channels_first, rank=rank),
        _channels_last,
        derives=True,
        scale={"K": SCALE},
    )


def _channels_first(arrays: Arrays, rank: int) -> Arrays:
    data, weights = arrays["A"], arrays["K"]
    return {
        **arrays,
        "A": np.ascontiguousarray(np.moveaxis(data, -1, 1)),
        "K": np.ascontiguousarray(weights.transpose(rank + 1, rank, *range(rank))),
    }


def _channels_last(array: Array) -> Array:
    return np.moveaxis(array, 1, -1)


def depthwise(batch: int, size: int, channels: int, stride: int) -> Case:
    options = {"stride": stride, "padding": 1, "groups": channels}
    return convolution("DEP", batch, (size, size), channels, channels, 3, **options)


def transposed(batch: int, size: int, channels: int, filters: int) -> Case:
    """Return a transposed convolution of 4 x 4 taps, stride 2 and padding 1."""
    A = ea.tensor("A", (batch, size, size, channels))
    K = ea.tensor("K", (channels, filters, 4, 4), role="weight")
    expression = ops.conv_transpose2d(A, K, stride=2, padding=1, layout="NHWC")
    words = ["T2D", f"{size}x{size}", f"{channels}→{filters}", "k4 s2 p1"]

    def function(torch: Any, A: Any, K: Any) -> Any:
        return torch.nn.functional.conv_transpose2d(A, K, stride=2, padding=1)

    case = _case(words, batch, expression, function, 2)
    return Case(
        case.name,
        expression,
        function,
        case.weights,
        lambda arrays: {**arrays, "A": np.ascontiguousarray(np.moveaxis(arrays["A"], -1, 1))},
        _channels_last,
        derives=True,
        scale=case.scale,
    )


def capsule(batch: int, size: int, channels: int, filters: int, stride: int) -> Case:
    """Return a convolution of images of matrices, whose taps are matrices too."""
    results = (size - 1) // stride + 1
    text = (
        f"O[n,h:{results},w:{results},i,j,f] += "
        f"A.pad(0,1,1,0,0,0)[n,{stride}*h+r-1,{stride}*w+s-1,i,k,c]*K[r,s,k,j,c,f]"
    )
    shapes = (CAPSULE, CAPSULE)
    A = ea.tensor("A", (batch, size, size, *shapes, channels))
    K = ea.tensor("K", (3, 3, *shapes, channels, filters), role="weight")

    def function(torch: Any, A: Any, K: Any) -> Any:
        return torch.nn.functional.conv2d(A, K, stride=stride, padding=1)

    def given(arrays: Arrays) -> Arrays:
        data = arrays["A"].transpose(0, 3, 4, 5, 1, 2)  # n i k c h w
        weights = arrays["K"].transpose(3, 5, 2, 4, 0, 1)  # j f k c r s
        inner = CAPSULE * channels
        return {
            "A": np.ascontiguousarray(data).reshape(batch * CAPSULE, inner, size, size),
            "K": np.ascontiguousarray(weights).reshape(CAPSULE * filters, inner, 3, 3),
        }

    def result(array: Array) -> Array:
        split = array.reshape(batch, *shapes, filters, results, results)  # n i j f h w
        return split.transpose(0, 4, 5, 1, 2, 3)

    name = f"CAP {size}x{size} {channels}→{filters} k3 s{stride} b{batch}"
    weights = ("K",)
    scale = {"K": SCALE}
    expression = ea.parse(text, A=A, K=K)
    return Case(name, expression, function, weights, given, result, derives=True, scale=scale)


def layer(
    batch: int, size: int, channels: int, filters: int, taps: int, stride: int, padding: int
) -> Case:
    """Return a convolution with bias, batch normalization in two constants, and ReLU."""
    options = {"stride": stride, "padding": padding}
    plain = convolution("ConvLayer", batch, (size, size), channels, filters, taps, **options)
    vectors = {name: ea.tensor(name, (filters,), role="weight") for name in ("B", "S", "T")}
    C = statement_tensor("C", plain.expression)
    after = ea.parse("O[n,h,w,f] = Max((C[n,h,w,f] + B[f])*S[f] + T[f], 0)", C=C, **vectors)
    program = Program([("C", plain.expression), ("O", after)])

    def function(torch: Any, A: Any, K: Any, B: Any, S: Any, T: Any) -> Any:
        bias, scale, shift = (vector.reshape(1, -1, 1, 1) for vector in (B, S, T))
        total = torch.nn.functional.conv2d(A, K, **options)
        return torch.relu((total + bias) * scale + shift)

    names = ("K", "B", "S", "T")
    return Case(
        plain.name,
        program,
        function,
        names,
        plain.given,
        _channels_last,
        derives=True,
        scale=plain.scale,
    )


# Products, norms and attention.


def product(batch: int, rows: int, columns: int, inner: int) -> Case:
    case = matmul(rows, inner, columns, batch, weights=False)
    name = f"GMM {rows}x{columns}x{inner} b{batch}"
    return Case(name, case.expression, case.torch, derives=True)


def norm(batch: int, rows: int, columns: int) -> Case:
    """Return the norm of each matrix of a batch."""
    expression = ea.parse("O[b] = sqrt(Sum[i,j](A[b,i,j]**2))", A=(batch, rows, columns))

    def function(torch: Any, A: Any) -> Any:
        return torch.linalg.vector_norm(A, dim=(1, 2))

    return Case(f"NRM {rows}x{columns} b{batch}", expression, function, derives=True)


def attention_weights(batch: int, sequence: int, heads: int, size: int) -> Case:
    """Return the softmax of the products of two transposed operands."""
    text = (
        "S[b,h,i,j] += Q[b,i,h,d]*K[b,j,h,d]\n"
        "M[b,h,i] = Max[j](S[b,h,i,j])\n"
        "E[b,h,i,j] = exp(S[b,h,i,j] - M[b,h,i])\n"
        "N[b,h,i] += E[b,h,i,j]\n"
        "O[b,h,i,j] = E[b,h,i,j]/N[b,h,i]"
    )
    shape = (batch, sequence, heads, size)

    def function(torch: Any, Q: Any, K: Any) -> Any:
        return torch.softmax(Q.permute(0, 2, 1, 3) @ K.permute(0, 2, 3, 1), -1)

    name = f"TBS seq{sequence} heads{heads} dim{size} b{batch}"
    return Case(name, ea.parse(text, Q=shape, K=shape), function, derives=True)


# The list.

# Space, channels, filters and taps, with stride and padding, of images of two axes.
IMAGES = (
    (224, 3, 64, 7, {"stride": 2, "padding": 3}),
    (56, 64, 64, 1, {}),
    (14, 256, 256, 3, {"padding": 1}),
    (7, 512, 512, 3, {"padding": 1}),
)
LINES = (
    (256, 64, 128, 3, {"stride": 2, "padding": 1}),
    (128, 128, 256, 1, {}),
    (64, 256, 256, 5, {"padding": 2}),
    (32, 512, 512, 3, {"padding": 1}),
)
GROUPED = ((56, 64, 128, 3, {"stride": 2, "padding": 1}), *IMAGES[1:])
DEPTH = 16  # of images of three axes
SHAPES: dict[Callable[..., Case], tuple[tuple[int, ...], ...]] = {
    product: ((128, 128, 128), (32, 512, 512), (512, 512, 512), (1024, 1024, 1024)),
    depthwise: ((112, 32, 1), (112, 64, 2), (14, 512, 2), (7, 1024, 1)),
    transposed: ((4, 512, 256), (8, 256, 128), (16, 128, 64), (32, 64, 3)),
    capsule: ((16, 32, 32, 2), (8, 32, 32, 1), (16, 8, 16, 2), (8, 16, 16, 1)),
    norm: ((256, 256), (512, 512), (1024, 1024), (4096, 1024)),
    layer: (
        (224, 3, 64, 7, 2, 3),
        (56, 64, 128, 3, 2, 1),
        (28, 128, 256, 1, 2, 0),
        (7, 512, 512, 3, 1, 1),
    ),
    attention_weights: ((128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)),
}


def cases(batch: int) -> Iterator[Callable[[], Case]]:
    """Yield what makes each case of a batch size."""
    for size, *sizes, options in LINES:
        yield partial(convolution, "C1D", batch, (size,), *sizes, **options)
    for size, *sizes, options in IMAGES:
        yield partial(convolution, "C2D", batch, (size, size), *sizes, **options)
    for size, *sizes, options in IMAGES:
        yield partial(convolution, "C3D", batch, (DEPTH, size, size), *sizes, **options)
    for size, *sizes, options in GROUPED:
        yield partial(convolution, "GRP", batch, (size, size), *sizes, **options, groups=4)
    for size, *sizes, options in IMAGES:
        yield partial(convolution, "DIL", batch, (size, size), *sizes, **options, dilation=2)
    for make, shapes in SHAPES.items():
        for shape in shapes:
            yield partial(make, batch, *shape)
