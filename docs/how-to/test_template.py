"""Tests of array code against mathematics: copy this file, and put your own functions in.

Run it with `pytest test_template.py`. It needs NumPy, pytest and `pip install einalg[test]`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings

import einalg as ea
from einalg.language.ir.body import substitute


def depthwise(x, k):  # noqa: ANN001
    """Convolve every channel with a kernel of its own, with a border of one zero."""
    channels, height, width = x.shape
    _, rows, columns = k.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((channels, height + 3 - rows, width + 3 - columns), x.dtype)
    for r in range(rows):
        for s in range(columns):
            window = padded[:, r : r + out.shape[1], s : s + out.shape[2]]
            out += window * k[:, r, s, None, None]
    return out


def causal_attention(q, k, v):  # noqa: ANN001
    """Attend to the keys up to that of the query."""
    scores = q @ k.T / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@ea.rule(
    "backwards",
    before="L[x] Σ[s] f(s)",
    after="L[x] Σ[s] f(low + high - 1 - s)",
    requires="no condition on s",
)
def backwards(scope: ea.Scope) -> Iterator[ea.Scope]:
    """Sum from the last element to the first."""
    total = scope.body
    if isinstance(total, ea.Reduce) and not total.where:
        it = total.iterators[0]
        body = substitute(total.body, {it.index: it.low + it.high - 1 - it.index})
        changed = ea.Reduce(total.op, total.iterators, None, body)
        yield ea.Scope(scope.iterators, scope.where, changed)


def test_depthwise_for_any_shapes() -> None:
    """A formula: einalg draws the shapes of its tensors, and shrinks them."""
    ea.testing.assert_equal(depthwise, "O[c,h,w] += x.pad(0,1,1)[c,h+r-1,w+s-1] * k[c,r,s]")


def test_attention() -> None:
    """An operator of einalg as the reference, made from the shapes of the inputs."""
    ea.testing.assert_equal(
        causal_attention,
        lambda q, k, v: ea.ops.attention(
            ea.tensor("q", q), ea.tensor("k", k), ea.tensor("v", v), causal=True
        ),
    )


def test_two_formulas() -> None:
    """Two expressions are proved equal, for all inputs."""
    mean_of_squares = ea.parse("O[i] = Sum[j](A[i,j]**2) / 6 - (Sum[j](A[i,j]) / 6)**2", A=(4, 6))
    variance = ea.parse(
        "M[i] = Sum[j](A[i,j]) / 6\nO[i] = Sum[j]((A[i,j] - M[i])**2) / 6", A=(4, 6)
    )
    assert ea.testing.assert_equal(mean_of_squares, variance) == "proved"


def test_rule() -> None:
    """A rewriting of your own, on random expressions."""
    assert ea.testing.check_rule(backwards, examples=40).moves > 0


LAYERS = ea.parse("O[i] = Max(Sum[j](A[i,j]*x[j]), 0)", A=(3, 4), x=(4,))


@settings(max_examples=20, deadline=None)
@given(ea.testing.strategies.inputs_for(LAYERS, layouts=True))
def test_a_property(inputs: dict[str, np.ndarray]) -> None:
    """Strategies make inputs for properties that are no equation."""
    assert (ea.evaluate(LAYERS, **inputs) >= 0).all()
