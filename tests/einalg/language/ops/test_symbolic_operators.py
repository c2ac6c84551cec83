"""Operators of tensors with symbolic sizes: at concrete sizes they are the concrete operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy

import einalg as ea
from einalg.errors import ShapeError
from einalg.language.analysis.canonical import key

ops = ea.ops
Build = Callable[..., Any]


def _image(N: Any, H: Any, W: Any, channels: Any = 4) -> Any:
    return ea.tensor("A", (N, channels, H, W))


def _matrix(N: Any, M: Any, name: str = "X") -> Any:
    return ea.tensor(name, (N, M))


KERNEL = ea.tensor("K", (6, 4, 3, 3))
CASES: dict[str, Build] = {
    "matmul": lambda N, M, H, W: ops.matmul(_matrix(N, M), _matrix(M, H, "Y")),
    "matmul, batched": lambda N, M, H, W: ops.matmul(
        ea.tensor("A", (N, 1, M, H)), ea.tensor("B", (3, W, H)), transpose_b=True
    ),
    "linear": lambda N, M, H, W: ops.linear(
        _matrix(N, M), _matrix(H, M, "w"), ea.tensor("b", (H,))
    ),
    "conv2d": lambda N, M, H, W: ops.conv2d(_image(N, H, W), KERNEL),
    "conv2d, padded": lambda N, M, H, W: ops.conv2d(_image(N, H, W), KERNEL, padding=1),
    "conv2d, stride": lambda N, M, H, W: ops.conv2d(_image(N, H, W), KERNEL, stride=2, padding=1),
    "conv2d, same": lambda N, M, H, W: ops.conv2d(
        _image(N, H, W), KERNEL, padding="same", dilation=2
    ),
    "conv2d, same, strides beyond the kernel": lambda N, M, H, W: ops.conv2d(
        _image(N, H, W, M), ea.tensor("K", (W, M, 1, 1)), stride=3, padding="same"
    ),
    "conv2d, channels": lambda N, M, H, W: ops.conv2d(
        _image(N, H, W, M), ea.tensor("K", (W, M, 1, 1))
    ),
    "conv2d, groups": lambda N, M, H, W: ops.conv2d(
        _image(N, H, W), ea.tensor("K", (6, 2, 3, 3)), groups=2, padding=(1, (0, 2))
    ),
    "depthwise_conv2d": lambda N, M, H, W: ops.depthwise_conv2d(
        _image(N, H, W, M), ea.tensor("K", (2 * M, 1, 3, 3)), padding=1
    ),
    "instance_norm": lambda N, M, H, W: ops.instance_norm(_image(N, H, W, M)),
    "group_norm of one group": lambda N, M, H, W: ops.group_norm(
        _image(N, H, W, M), 1, ea.tensor("w", (M,)), ea.tensor("b", (M,))
    ),
    "conv_transpose2d": lambda N, M, H, W: ops.conv_transpose2d(
        _image(N, H, W), ea.tensor("K", (4, 3, 3, 3)), stride=2
    ),
    "max_pool2d": lambda N, M, H, W: ops.max_pool2d(_image(N, H, W), 2),
    "avg_pool2d": lambda N, M, H, W: ops.avg_pool2d(_image(N, H, W), 2),
    "avg_pool2d, padded": lambda N, M, H, W: ops.avg_pool2d(
        _image(N, H, W), 3, stride=1, padding=1
    ),
    "global_avg_pool": lambda N, M, H, W: ops.global_avg_pool(_image(N, H, W)),
    "batch_norm": lambda N, M, H, W: ops.batch_norm(
        _image(N, H, W), *[ea.tensor(name, (4,)) for name in "abcd"]
    ),
    "group_norm": lambda N, M, H, W: ops.group_norm(_image(N, H, W), 2),
    "layer_norm": lambda N, M, H, W: ops.layer_norm(
        _matrix(N, M), ea.tensor("g", (M,)), ea.tensor("b", (M,))
    ),
    "softmax": lambda N, M, H, W: ops.softmax(_matrix(N, M), 1),
    "attention": lambda N, M, H, W: ops.attention(
        *[ea.tensor(name, (N, 2, M, 4)) for name in "qkv"], causal=True
    ),
    "sum": lambda N, M, H, W: ops.sum(_matrix(N, M), 0),
    "mean": lambda N, M, H, W: ops.mean(_image(N, H, W), (2, 3)),
    "variance": lambda N, M, H, W: ops.variance(_matrix(N, M), 1),
    "cumsum": lambda N, M, H, W: ops.cumsum(_matrix(N, M), 1),
    "argmax": lambda N, M, H, W: ops.argmax(_matrix(N, M), 1),
    "add": lambda N, M, H, W: ops.add(_matrix(N, M), ea.tensor("b", (M,))),
    "a size in the place of a number": lambda N, M, H, W: ops.maximum(
        ops.div(ops.sub(N, ops.mul(_matrix(N, M), M * H)), sympy.sqrt(W)), N - 1
    ),
    "a comparison with a size": lambda N, M, H, W: ops.where(
        ops.less(N, _matrix(N, M)), ops.clip(_matrix(N, M), 0, N + M), M
    ),
    "leaky_relu": lambda N, M, H, W: ops.leaky_relu(_matrix(N, M), 2 * N),
    "broadcast_to": lambda N, M, H, W: ops.broadcast_to(ea.tensor("b", (M, 1)), (N, M, H)),
    "transpose": lambda N, M, H, W: ops.transpose(_matrix(N, M)),
    "flip": lambda N, M, H, W: ops.flip(_matrix(N, M), 1),
    "repeat": lambda N, M, H, W: ops.repeat(_matrix(N, M), 2, 0),
    "tile": lambda N, M, H, W: ops.tile(_matrix(N, M), (2, 3, 1)),
    "roll": lambda N, M, H, W: ops.roll(_matrix(N, M), (1, -1), (0, 1)),
    "tril": lambda N, M, H, W: ops.tril(_matrix(N, M), 1),
    "pad": lambda N, M, H, W: ops.pad(_matrix(N, M), ((1, 2), (0, N)), value=3),
    "pad, less": lambda N, M, H, W: ops.pad(_matrix(N, M), ((-1, 0), (2, -1))),
    "concat": lambda N, M, H, W: ops.concat(
        [_matrix(N, M), _matrix(H, M, "Y"), _matrix(2, M, "Z")]
    ),
    "stack": lambda N, M, H, W: ops.stack([_matrix(N, M), _matrix(N, M, "Y")], 1),
    "split": lambda N, M, H, W: ops.split(_matrix(N + M, H), (N, M))[1],
    "slice": lambda N, M, H, W: ops.slice(_matrix(N, M), (1, None), (-1, None), (1, -1)),
    "slice, steps": lambda N, M, H, W: ops.slice(_matrix(N, M), (1, -1), (None, None), (2, -2)),
    "reshape, one axis in two": lambda N, M, H, W: ops.reshape(_matrix(N, 6), (N, 2, -1)),
    "reshape, two axes in one": lambda N, M, H, W: ops.reshape(
        ea.tensor("x", (N, 2, 3)), (2 * N, 3)
    ),
    "flatten": lambda N, M, H, W: ops.flatten(ea.tensor("x", (N, 2, 3)), 1),
    "unsqueeze": lambda N, M, H, W: ops.unsqueeze(_matrix(N, M), 1),
    "depth_to_space": lambda N, M, H, W: ops.depth_to_space(_image(N, H, W), 2),
    "upsample_linear": lambda N, M, H, W: ops.upsample_linear(ea.tensor("A", (N, 2, W)), 2),
    "upsample_cubic": lambda N, M, H, W: ops.upsample_cubic(ea.tensor("A", (1, 1, W)), 3),
    "upsample_nearest": lambda N, M, H, W: ops.upsample_nearest(_image(N, H, W), (2, 0.75)),
    "lstm_cell": lambda N, M, H, W: ops.lstm_cell(
        *[ea.tensor(name, (N, size)) for name, size in (("x", 3), ("h", 2), ("c", 2))],
        ea.tensor("u", (8, 3)),
        ea.tensor("w", (8, 2)),
    ),
}
SIZES = ({"N": 3, "M": 5, "H": 8, "W": 7}, {"N": 4, "M": 3, "H": 5, "W": 6})


@pytest.mark.parametrize("name", CASES)
def test_the_concrete_operator_at_concrete_sizes(name: str) -> None:
    build = CASES[name]
    symbolic = build(*map(ea.size, "NMHW"))
    assert symbolic.sizes
    for sizes in SIZES:
        concrete = build(*sizes.values())
        at = symbolic.at(**{size: sizes[size] for size in symbolic.sizes})
        assert key(at) == key(concrete) or ea.prove(at, concrete).verdict == "proved"
        assert at.shape == concrete.shape if hasattr(at, "shape") else at.names == concrete.names


@pytest.mark.parametrize(
    "build",
    [
        lambda N, M: ops.flatten(_matrix(N, M)),
        lambda N, M: ops.reshape(_matrix(N, M), (N * M,)),
        lambda N, M: ops.reshape(_matrix(N, M), (-1,)),
        lambda N, M: ops.reshape(_matrix(N, M), (M, N)),
        lambda N, M: ops.reshape(_matrix(N, 6), (N, 5)),
        lambda N, M: ops.matmul(_matrix(N, M), _matrix(N, M)),
        lambda N, M: ops.add(_matrix(N, M), _matrix(M, N)),
        lambda N, M: ops.split(_matrix(N, M), 2),
        lambda N, M: ops.slice(_matrix(N, M), 0, 4),
        lambda N, M: ops.diagonal(_matrix(N, M)),
        lambda N, M: ops.depthwise_conv2d(_image(1, 3, 3, N), ea.tensor("K", (N + 1, 1, 1, 1))),
        lambda N, M: ops.depthwise_conv2d(_image(1, 3, 3, N), ea.tensor("K", (M, 1, 1, 1))),
        lambda N, M: ops.group_norm(_image(1, 3, 3, N), 2),
        lambda N, M: ops.space_to_depth(_image(1, N, M), 2),
        lambda N, M: ops.adaptive_avg_pool(_image(1, N, M), 2),
        lambda N, M: ops.unfold(_image(1, N, M), 3),
        lambda N, M: ops.upsample_linear(_image(1, N, M), 1.5),
        lambda N, M: ops.upsample_linear(_image(1, N, M), 2, align_corners=True),
        lambda N, M: ops.upsample_nearest(_image(1, N, M), size=5),
    ],
)
def test_what_is_not_affine_in_sizes(build: Build) -> None:
    with pytest.raises(ShapeError, match=r"\n  "):
        build(ea.size("N"), ea.size("M"))


def test_a_product_of_sizes_is_no_size() -> None:
    N, M = ea.size("N"), ea.size("M")
    for build in (ops.reshape, ops.broadcast_to):
        with pytest.raises(ShapeError, match=r"M\*N is no form of sizes.*\n.*\.at\("):
            build(_matrix(N, M), (N * M,))


def test_multiples() -> None:
    N = ea.size("N", multiple_of=2)
    halves = ops.split(_matrix(N, 3), 2)
    assert [str(half) for half in halves] == [
        "L[i:N//2, j:3](X[i, j])",
        "L[i:N//2, j:3](X[i + N//2, j])",
    ]
    again = ops.concat(halves)
    proof = ea.prove(again.at(N=6), ea.parse("O[i,j] = X[i,j]", X=(6, 3)))
    assert proof.verdict == "proved"
    assert ops.space_to_depth(_image(1, N, 4), 2).at(N=6).shape == (1, 16, 3, 2)


def test_reshapes_to_exact_parts() -> None:
    N = ea.size("N", multiple_of=4)
    x = ea.tensor("x", (N,))
    assert str(ops.reshape(x, (N // 4, 4))) == "L[i:N//4, j:4](x[4*i + j])"
    assert ops.reshape(x, (N // 4, 2, 2)).shape == (N // 4, 2, 2)
    assert ea.prove(ops.reshape(ops.reshape(x, (N // 2, 2)), (N,)), x).verdict == "proved"
    with pytest.raises(ShapeError, match=r"holds 8\*\(N//8\) elements"):
        ops.reshape(x, (N // 8, 8))


EQUATIONS: dict[str, tuple[Build, Build]] = {
    "a product of products": (
        lambda A, B, C: ops.matmul(ops.matmul(A, B), C),
        lambda A, B, C: ops.matmul(A, ops.matmul(B, C)),
    ),
    "a transposed product": (
        lambda A, B, C: ops.transpose(ops.matmul(A, B)),
        lambda A, B, C: ops.matmul(ops.transpose(B), ops.transpose(A)),
    ),
    "a slice of a concatenation": (
        lambda A, B, C: ops.slice(ops.concat([B, B]), ea.size("M"), None),
        lambda A, B, C: ops.slice(B, 0, None),
    ),
    "a concatenation of columns": (
        lambda A, B, C: ops.matmul(A, ops.concat([B, B], 1)),
        lambda A, B, C: ops.concat([ops.matmul(A, B), ops.matmul(A, B)], 1),
    ),
    "a pad of a pad": (
        lambda A, B, C: ops.pad(ops.pad(A, ((1, 0), (0, 2))), ((1, 1), (0, 0))),
        lambda A, B, C: ops.pad(A, ((2, 1), (0, 2))),
    ),
    "a reduction of a broadcast": (
        lambda A, B, C: ops.sum(ops.broadcast_to(A, ("H", "N", "M")), 0),
        lambda A, B, C: ea.parse("O[i,j] = H*A[i,j]", A=A, H=ea.size("H")),
    ),
    "a roll there and back": (
        lambda A, B, C: ops.roll(ops.roll(A, 1, 0), -1, 0),
        lambda A, B, C: ops.slice(A, 0, None),
    ),
    "movements that are their own inverse": (
        lambda A, B, C: ops.transpose(ops.transpose(A)),
        lambda A, B, C: ops.flip(ops.flip(A)),
    ),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_equations_for_all_sizes(name: str) -> None:
    tensors = _matrix("N", "M", "A"), _matrix("M", "K", "B"), _matrix("K", 3, "C")
    one, two = (build(*tensors) for build in EQUATIONS[name])
    assert ea.prove(one, two).verdict == "proved"


def test_windows_for_all_sizes() -> None:
    A, K = _image("N", "H", "W"), ea.tensor("K", (6, 4, 3, 3))
    conv = ops.conv2d(A, K, padding=1)
    assert ea.prove(conv, ops.conv2d(ops.pad(A, (0, 0, 1, 1)), K)).verdict == "proved"
    proof = ea.prove(conv, ops.conv2d(ops.pad(A, (0, 0, 1, (0, 2))), K))
    assert proof.verdict == "different"
    pooled = ops.avg_pool2d(A, 2)
    weights = ea.constant("P", [[[[0.25, 0.25], [0.25, 0.25]]]] * 4)
    depthwise = ops.depthwise_conv2d(A, weights, stride=2)
    assert ea.prove(pooled, depthwise).verdict in ("proved", "tested")
