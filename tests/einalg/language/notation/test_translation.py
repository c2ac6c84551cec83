"""What a message says to write, for functions and signs of other languages, can be pasted: it parses
there, and has the values that the other language gives."""

from __future__ import annotations

import ast
import re
from math import erf
from typing import Any

import numpy as np
import pytest

import einalg as ea
from einalg.language.notation.foreign_functions import (
    ELEMENTWISE,
    OF_WHOLE_TENSORS,
    REDUCTIONS,
    SOFTMAX,
)

RNG = np.random.default_rng(0)
ARRAYS = {
    "A": RNG.standard_normal((4, 6)),
    "M": RNG.standard_normal((4, 6)),
    "B": RNG.standard_normal((6, 5)),
    "x": RNG.standard_normal(6),
    "P": RNG.standard_normal((2, 4, 6)),
    "Q": RNG.standard_normal((2, 6, 5)),
}
SHAPES = {name: array.shape for name, array in ARRAYS.items()}
A, M, B, x, P, Q = ARRAYS.values()


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def softmax(values: Any, axis: int) -> Any:
    return np.exp(values) / np.exp(values).sum(axis, keepdims=True)


SUM = A.sum(1)
CASES: list[tuple[str, str, Any]] = [
    ("O[i,j] = max(A[i,j], 0)", "Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[i,j] = max(A, 0)", "Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[j] = max(A, 0)", "Max[k](A[k, j])", A.max(0)),
    ("O[h,w] = relu(A)", "Max(A[h, w], 0)", np.maximum(A, 0)),
    ("O = relu(A)", "O[i, j] = Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[i,j] = np.maximum(A[i,j], M[i,j])", "Max(A[i, j], M[i, j])", np.maximum(A, M)),
    ("O[i,j] = torch.nn.functional.relu(A[i,j])", "Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[i,j] = A[i,j].relu()", "Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[i] = sum(A[i,j])", "Sum[j](A[i, j])", SUM),
    ("O[i] = A[i,j].sum()", "Sum[j](A[i, j])", SUM),
    ("O[i] = A.sum(axis=1)", "Sum[k](A[i, k])", SUM),
    ("O[i] = A.sum(dim=-1, keepdim=True)", "Sum[k](A[i, k])", SUM),
    ("O[j] = A.sum(0)", "Sum[k](A[k, j])", A.sum(0)),
    ("O[i] = sum(A[i,:])", "Sum[k](A[i, k])", SUM),
    ("O[i] = sum(A[i,0])", "Sum[k](A[i, k])", SUM),
    ("O[i] = sum(A[i,j] for j in range(6))", "Sum[j:6](A[i, j])", SUM),
    ("O[i] = sum([A[i,j] for j in range(1, 3)])", "Sum[j:1:3](A[i, j])", A[:, 1:3].sum(1)),
    ("O[i] = mean(A[i,j])", "Sum[j](A[i, j]) / 6", A.mean(1)),
    ("O[i] = torch.mean(A, dim=1)", "Sum[k](A[i, k]) / 6", A.mean(1)),
    ("O[i] = norm(A[i,j])", "sqrt(Sum[j](A[i, j] ** 2))", np.linalg.norm(A, axis=1)),
    ("O[i] = logsumexp(A[i,j])", "log(Sum[j](exp(A[i, j])))", np.log(np.exp(A).sum(1))),
    ("O[i,j] = A @ B", "Sum[k](A[i, k] * B[k, j])", A @ B),
    ("O[m,n] = np.dot(A, B)", "Sum[k](A[m, k] * B[k, n])", A @ B),
    ("O = A @ B", "O[i, j] = Sum[k](A[i, k] * B[k, j])", A @ B),
    ("O[i] = A @ x", "Sum[k](A[i, k] * x[k])", A @ x),
    ("O[j] = x @ B", "Sum[k](x[k] * B[k, j])", x @ B),
    ("O[b,i,j] = np.matmul(P, Q)", "Sum[k](P[b, i, k] * Q[b, k, j])", P @ Q),
    ("O[b,i,j] = P @ B", "Sum[k](P[b, i, k] * B[k, j])", P @ B),
    ("O[i,j] = A[i,k] @ B[k,j]", "Sum[k](A[i, k] * B[k, j])", A @ B),
    ("O[i,j] = A[i,j]^2", "A[i, j] ** 2", A**2),
    ("O[i,j] = A[i,j] if i > j else 0", "Piecewise((A[i, j], i > j), (0, True))", np.tril(A, -1)),
    ("O[i,j] = where(A > 0, A, 0)", "Piecewise((A[i, j], A[i, j] > 0), (0, True))", np.maximum(A, 0)),
    ("O[i,j] = softmax(A[i,j])", "exp(A[i, j]) / Sum[k](exp(A[i, k]))", softmax(A, 1)),
    ("O[i,j] = softmax(x[j] + A[i,j], 0)", "exp(x[j] + A[i, j]) / Sum[k](exp(x[j] + A[k, j]))", softmax(x + A, 0)),
    ("O[i,j] = relu(A.pad(0,0)[i,j])", "Max(A.pad(0, 0)[i, j], 0)", np.maximum(A, 0)),
    ("O[i,j] = relu(A.pad(0,0))", "Max(A.pad(0, 0)[i, j], 0)", np.maximum(A, 0)),
    ("O[i] = sum(A.pad(0,1)[i,j])", "Sum[j](A.pad(0, 1)[i, j])", SUM),
    ("O[i,j] = where(A>0 and (M>0 or not M>-1), 1, 0)", "Piecewise((1, (A[i, j] > 0) & ((M[i, j] > 0) | ~(M[i, j] > -1))), (0, True))", (A > 0) & ((M > 0) | (M <= -1))),
    ("O[i,j] = torch.softmax(A, dim=0)", "exp(A[i, j]) / Sum[k](exp(A[k, j]))", softmax(A, 0)),
    ("O[i,j] = sigmoid(A[i,j] + x[j])", "1 / (1 + exp(-(A[i, j] + x[j])))", sigmoid(A + x)),
    ("O[i,j] = relu(A[i,j] - sigmoid(M[i,j]))", "Max(A[i, j] - 1 / (1 + exp(-M[i, j])), 0)", np.maximum(A - sigmoid(M), 0)),
    ("O[i] = sum(relu(A[i,j]))", "Sum[j](Max(A[i, j], 0))", np.maximum(A, 0).sum(1)),
    ("O[i] = relu(sum(A[i,j]*x[j]))", "Max(Sum[j](A[i, j] * x[j]), 0)", np.maximum(A @ x, 0)),
    ("O[i,j] = clip(A[i,j], 0, 1)", "Min(Max(A[i, j], 0), 1)", np.clip(A, 0, 1)),
    ("O[i,j] = A[i,j].clamp(min=0)", "Max(A[i, j], 0)", np.maximum(A, 0)),
    ("O[i,j] = torch.clamp(A, max=1)", "Min(A[i, j], 1)", np.minimum(A, 1)),
    ("O[j,i] = A.T[j,i]", "A[i, j]", A.T),
    ("O[i,j] = A(i,j)", "A[i, j]", A),
    ("O[i] = ea.Sum[k](A[i,k])", "Sum[k](A[i, k])", SUM),
    ("O[i] = sum[k](A[i,k])", "Sum[k](A[i, k])", SUM),
    ("O[i] = Σ[k](A[i,k])", "Sum[k](A[i, k])", SUM),
    ("O[i,j] = np.exp(A[i,j])", "exp(A[i, j])", np.exp(A)),
    ("O[i,j] = Exp(A[i,j])", "exp(A[i, j])", np.exp(A)),
    ("O[i,j] = leaky_relu(A, 0.5)", "Piecewise((A[i, j], A[i, j] > 0), (0.5 * A[i, j], True))", np.where(A > 0, A, A / 2)),
    ("O[i,j] = F.gelu(A[i,j])", "A[i, j] * (1 + erf(A[i, j] / sqrt(2))) / 2", A * (1 + np.vectorize(erf)(A / 2**0.5)) / 2),
    ("O[i,j] = abs(A[i,j] - M[i,j])", "Abs(A[i, j] - M[i, j])", np.abs(A - M)),
]  # fmt: skip


def refused(text: str, **tensors: Any) -> ea.NotationError:
    with pytest.raises(ea.NotationError) as caught:
        ea.parse(text, **tensors)
    return caught.value


def remedy(error: ea.NotationError) -> str:
    match = re.search(r"\n  write (.*)$", error.message)
    assert match, error.message
    return match[1]


def pasted(text: str, written: str) -> str:
    """Return the text in which the part that carets point at, or all, is what is written."""
    if " = " in written:
        return written
    _, carets, *_ = refused(text, **SHAPES).message.split("\n")
    column = carets.index("^")
    parts: list[Any] = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
    for part in parts:
        start = len(text.encode()[: part.col_offset].decode())
        if start == column:
            end = len(text.encode()[: part.end_col_offset].decode())
            return f"{text[:start]}({written}){text[end:]}"
    raise AssertionError(f"nothing begins at column {column}")


@pytest.mark.parametrize("text, written, value", CASES, ids=[case[0] for case in CASES])
def test_the_remedy_has_the_operands_of_the_user_and_works(
    text: str, written: str, value: Any
) -> None:
    assert remedy(refused(text, **SHAPES)) == written
    correct = pasted(text, written)
    scope = ea.parse(correct, **SHAPES)
    arrays = {name: array for name, array in ARRAYS.items() if name in scope.tensors}
    assert np.allclose(ea.evaluate(scope, **arrays).astype(float), value)


def test_both_sides_of_a_condition() -> None:
    text = "O[i,j] = Piecewise((A[i,j], i > 2 and not j < 3), (0, True))"
    assert remedy(refused(text, **SHAPES)) == "(i > 2) & ~(j < 3)"


@pytest.mark.parametrize("name", sorted({*ELEMENTWISE, *REDUCTIONS, *SOFTMAX}))
def test_every_row_parses(name: str) -> None:
    """With as many operands as its template has letters."""
    template = {**ELEMENTWISE, **REDUCTIONS, **SOFTMAX}[name]
    letters = {n.id for n in ast.walk(ast.parse(template)) if isinstance(n, ast.Name)} & set("abc")
    operands = ["A[i,j]", "M[i,j]", "x[j]"][: len(letters)]
    if name in ("where", "select"):
        operands[0] = "A[i,j] > 0"
    if name.startswith("logical"):
        operands = [f"{operand} > 0" for operand in operands]
    left = "O[i]" if name in REDUCTIONS else "O[i,j]"
    error = refused(f"{left} = {name}({', '.join(operands)})", **SHAPES)
    written = remedy(error)
    body = f"Piecewise((1, {written}), (0, True))"
    is_condition = name.startswith("logical") or template[1:3] in (" >", " <") or "q(" in template
    is_condition |= template.startswith("Ne(")
    ea.parse(f"{left} = {body if is_condition else written}", **SHAPES)


def test_operators_of_tensors_are_named() -> None:
    assert set(ea.ops.OPERATORS) >= OF_WHOLE_TENSORS
    error = refused("O[i] = conv2d(A, B, padding=1)", **SHAPES)
    assert error.message.endswith("outside of text: ea.ops.conv2d(A, B, padding=1)")


def test_every_operator_of_elements_has_a_row() -> None:
    known = {*ELEMENTWISE, *REDUCTIONS, *SOFTMAX, *OF_WHOLE_TENSORS}
    of_notation = {"exp", "log", "erf", "sin", "cos", "tanh", "sqrt", "sign", "floor"}
    others = {name for name in ea.ops.OPERATORS if name not in known | of_notation}
    needs_tensors = {"matmul", "bias_add", "slice"}
    layouts = {name for name in others if "space" in name or "pool" in name or "upsample" in name}
    assert others - layouts - needs_tensors <= {"lstm_cell", "gru_cell"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("O[i] = foo(A[i,0])", "known: Abs"),
        ("O[i] = argmax(A[i,j])", r"ea\.ops\.argmax\(A\[i, j\]\)"),
        ("O[i] = A[i,0].foo", "nothing else"),
        ("O[i] = 3(A[i,0])", "write a product"),
        ("O[i] = relu()", r"e\.g\. Max\(a, 0\)"),
        ("O = tanh(A[i,j])", r"write O\[i, j\] = tanh\(A\[i, j\]\)"),
        ("O[h,w] = tanh(A)", r"its subscripts: A\[h, w\]"),
        ("O[i,j] = A[i,:]", r"write A\[i, j\]$"),
        ("O[i] = sum(A[i,j] for j in range(6) if j > 2)", r"e\.g\. Sum\[i\]\(A\[i\]\)"),
        ("O[i] = sum(A[i,j] for j in range(0, 6, 2))", r"e\.g\. Sum\[i\]\(A\[i\]\)"),
        ("O[i] = np.sum()", r"e\.g\. Sum\[i\]\(A\[i\]\)"),
        ("O[i] = sum(3)", r"e\.g\. Sum\[i\]\(A\[i\]\)"),
        ("O[i] = mean(A[i,j+1])", r"e\.g\. Sum\[i:8\]\(A\[i\]\)/8"),
        ("O[i] = mean(A[i,j]*B[k,k+j])", r"write Sum\[j, k\]\(A\[i, j\] \* B\[k, k \+ j\]\) / 36"),
        ("O[i] = mean(A.pad(0,1)[i,j])", r"e\.g\. Sum\[i:8\]\(A\[i\]\)/8"),
        ("O[i] = mean(A[i,j] for j in range(6))", r"e\.g\. Sum\[i:8\]\(A\[i\]\)/8"),
        ("O[i,j] = relu((A + M).pad(1,1))", r"e\.g\. Max\(a, 0\)"),
        ("O[i,j] = softmax()", "known: Abs"),
        ("O[i,j] = softmax(A[i,j], 5)", "known: Abs"),
        ("O[i,j] = softmax(A[i,0])", "known: Abs"),
        ("O[i,j] = softmax(3)", "known: Abs"),
        ("O[i,j] = np.dot(A, B, A)", "known: Abs"),
        ("O[i] = np.dot(x, s)", "known: Abs"),
        ("O[i,j] = A[i,j] and M[i,j]", "& and | between comparisons in brackets"),
        ("O[i,j] = where(not A[i,j] + 1, 1, 2)", r"e\.g\. Piecewise"),
        ("O[i] = A[i,1:3]", r"write A\[i, k\], and k:1:3 where that is bound"),
    ],
)
def test_what_has_no_translation(text: str, message: str) -> None:
    with pytest.raises(ea.NotationError, match=message):
        ea.parse(text, **SHAPES, s=())
