"""Mistakes that people make in array code, each of which is caught on the smallest inputs; and the
right code, which passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import einalg as ea

T = ea.tensor


class Mistake(NamedTuple):
    """A function with a mistake, the right one, and the shapes of the smallest inputs that tell."""

    expected: Callable[..., Any]
    wrong: Callable[..., Any]
    right: Callable[..., Any]
    smallest: tuple[tuple[int, ...], ...]


def depthwise(x, k, **border):
    rows, columns = k.shape[1:]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), **border)
    out = np.zeros((len(x), x.shape[1] + 3 - rows, x.shape[2] + 3 - columns), x.dtype)
    for r in range(rows):
        for s in range(columns):
            window = padded[:, r : r + out.shape[1], s : s + out.shape[2]]
            out += window * k[:, r, s, None, None]
    return out


def attention(q, k, v, diagonal=0):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(*scores.shape, diagonal, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def pooling(x, ceil=False):
    h, w = [(size + ceil) // 2 for size in x.shape]
    return np.array(
        [[x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max() for j in range(w)] for i in range(h)],
        x.dtype,
    ).reshape(h, w)


def conv1d(x, k, stride=1, dilation=1, start=0):
    reach = (len(k) - 1) * dilation + 1
    places = range(0, len(x) - reach + 1, stride)
    return np.array([x[p + start * (p > 0) :][:reach:dilation] @ k for p in places], x.dtype)


def shifted_conv1d(x, k):
    places = [min(2 * i + (i > 0), len(x) - len(k)) for i in range((len(x) - len(k)) // 2 + 1)]
    return np.array([x[p : p + len(k)] @ k for p in places], x.dtype)


def im2col(x, k, order="C"):
    rows, columns = k.shape
    h, w = x.shape[0] - rows + 1, x.shape[1] - columns + 1
    windows = [x[i : i + rows, j : j + columns].ravel(order) for i in range(h) for j in range(w)]
    return (np.array(windows) @ k.ravel()).reshape(h, w)


def softmax(x, shift=True):
    weights = np.exp(x - x.max(axis=-1, keepdims=True) * shift)
    return weights / weights.sum(axis=-1, keepdims=True)


def layer_norm(x, ddof=0):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(axis=-1, ddof=ddof, keepdims=True) + 1e-5)


def strided(text):
    return lambda x, k: ea.parse(f"O[i] += x[{text}]*k[r]", x=x, k=k)


def u8(text):
    return lambda a, b: ea.parse(text, A=T("A", a, "u8"), B=T("B", b, "u8"))


MISTAKES = {
    "border of a depthwise convolution": Mistake(
        lambda x, k: ea.parse("O[c,h,w] += x.pad(0,1,1)[c,h+r-1,w+s-1]*k[c,r,s]", x=x, k=k),
        lambda x, k: depthwise(x, k, mode="edge"),
        depthwise,
        ((1, 1, 1), (1, 1, 1)),
    ),
    "mask of an attention": Mistake(
        lambda q, k, v: ea.ops.attention(T("q", q), T("k", k), T("v", v), causal=True),
        lambda q, k, v: attention(q, k, v, 1),
        attention,
        ((1, 1), (2, 1), (2, 1)),
    ),
    "rounding of a pooling": Mistake(
        lambda x: ea.parse("O[i,j] = Max[r:2,s:2](x[2*i+r,2*j+s])", x=x),
        lambda x: pooling(x, ceil=True),
        pooling,
        ((2, 3),),
    ),
    "stride": Mistake(
        strided("2*i+r"), shifted_conv1d, lambda x, k: conv1d(x, k, stride=2), ((4,), (1,))
    ),
    "dilation": Mistake(
        strided("i+2*r"), conv1d, lambda x, k: conv1d(x, k, dilation=2), ((3,), (2,))
    ),
    "order of im2col": Mistake(
        lambda x, k: ea.parse("O[i,j] += x[i+r,j+s]*k[r,s]", x=x, k=k),
        lambda x, k: im2col(x, k, "F"),
        im2col,
        ((2, 2), (2, 2)),
    ),
    "transposed weights": Mistake(
        lambda x, w: ea.parse("O[n,f] += x[n,c]*w[f,c]", x=x, w=w),
        lambda x, w: x @ w,
        lambda x, w: x @ w.T,
        ((1, 1), (2, 1)),
    ),
    "swapped indices of einsum": Mistake(
        lambda a, b: ea.parse("O[i,k] += A[i,j]*B[j,k]", A=a, B=b),
        lambda a, b: np.einsum("ij,jk->ki", a, b),
        lambda a, b: np.einsum("ij,jk->ik", a, b),
        ((1, 1), (1, 2)),
    ),
    "softmax without a shift": Mistake(
        lambda x: ea.ops.softmax(T("x", x), axis=-1),
        lambda x: softmax(x, shift=False),
        softmax,
        ((1,),),
    ),
    "layer norm by n - 1": Mistake(
        lambda x: ea.ops.layer_norm(T("x", x)), lambda x: layer_norm(x, 1), layer_norm, ((1,),)
    ),
    "exclusive cumulative sum": Mistake(
        lambda x: ea.ops.cumsum(T("x", x), axis=0),
        lambda x: np.cumsum(x) - x,
        np.cumsum,
        ((1,),),
    ),
    "overflow of bytes": Mistake(
        u8("O[i] = A[i] + B[i]"),
        lambda a, b: a + b,
        lambda a, b: a.astype(np.int64) + b,
        ((1,), (1,)),
    ),
    "difference of bytes": Mistake(
        u8("O[i] = Abs(A[i] - B[i])"),
        lambda a, b: np.abs(a - b),
        lambda a, b: np.abs(a.astype(np.int64) - b),
        ((1,), (1,)),
    ),
    "single precision on the way": Mistake(
        lambda x: ea.parse("O[()] += x[i]", x=T("x", x, "f64")),
        lambda x: x.astype(np.float32).sum(dtype=np.float32).astype(np.float64),
        lambda x: x.sum(),
        ((1,),),
    ),
    "step at 0": Mistake(
        lambda x: ea.parse("O[i] = Piecewise((1.0, x[i] > 0), (0.0, True))", x=x),
        lambda x: np.where(x >= 0, x * 0 + 1, x * 0),
        lambda x: np.where(x > 0, x * 0 + 1, x * 0),
        ((1,),),
    ),
    "broadcast over the other axis": Mistake(
        lambda x, b: ea.parse("O[i,j] = x[i,j] + b[j]", x=x, b=b),
        lambda x, b: x + np.resize(b, len(x))[:, None],
        lambda x, b: x + b,
        ((1, 2), (2,)),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught_on_the_smallest_inputs(name):
    mistake = MISTAKES[name]
    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(mistake.wrong, mistake.expected)
    shapes = tuple(array.shape for array in caught.value.arrays.values())
    assert sum(map(np.prod, shapes)) <= sum(map(np.prod, mistake.smallest))
    assert shapes == mistake.smallest


@pytest.mark.parametrize("name", MISTAKES)
def test_the_right_code_passes(name):
    mistake = MISTAKES[name]
    assert ea.testing.assert_equal(mistake.right, mistake.expected, examples=40) == "tested"


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_shown_can_be_pasted(name):
    """The lines of code of a message make the inputs that are at fault."""
    mistake = MISTAKES[name]
    with pytest.raises(AssertionError) as caught:
        ea.testing.assert_equal(mistake.wrong, mistake.expected)
    lines = f"{caught.value}".partition("that show it:")[2].splitlines()
    code = [line[2:] for line in lines]
    call = next(place for place, line in enumerate(code) if re.match(r"\w+\(", line))
    names: dict[str, Any] = {"np": np}
    exec("\n".join(code[:call]), names)
    for tensor, array in caught.value.arrays.items():
        np.testing.assert_array_equal(names[tensor], array)
        assert names[tensor].dtype == array.dtype
