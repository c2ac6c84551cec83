"""Rules of tensor compilers' algebraic simplifiers, at all sizes: those that hold are proved.

They are written after XLA's AlgebraicSimplifier, TVM's SimplifyExpr, ONNX Runtime's graph
transformers and the passes of torch's inductor; beside some stands one that is nearly the same.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy

import einalg as ea
from derive.substitutions import Rule, verify

PROVED, DIFFERENT = "proved", "different"
ops = ea.ops
N, M, K = (ea.size(name) for name in "NMK")

# By family: the rule, one element before and after, and the verdict.
OF_ELEMENTS: dict[str, list[tuple[str, str, str, str]]] = {
    "arithmetic": [
        ("add 0", "A[i] + 0", "A[i]*1", PROVED),
        ("subtract itself", "A[i] - A[i]", "0*A[i]", PROVED),
        ("constants", "(A[i] + 3) + 4", "A[i] + 7", PROVED),
        ("common factor", "A[i]*C[i] + B[i]*C[i]", "(A[i] + B[i])*C[i]", PROVED),
        ("square", "A[i]**2", "A[i]*A[i]", PROVED),
        ("quotient by a quotient", "A[i]/(B[i]/C[i])", "A[i]*C[i]/B[i]", PROVED),
        ("quotient of a quotient", "(A[i]/B[i])/C[i]", "A[i]/(B[i]*C[i])", PROVED),
        ("remainder", "A[i] - B[i]*floor(A[i]/B[i])", "Mod(A[i], B[i])", PROVED),
        ("rounding up", "ceiling(A[i])", "-floor(-A[i])", PROVED),
    ],
    "exponentials": [
        ("product", "exp(A[i])*exp(B[i])", "exp(A[i] + B[i])", PROVED),
        ("quotient", "exp(A[i])/exp(B[i])", "exp(A[i] - B[i])", PROVED),
        ("divisor", "A[i]/exp(B[i])", "A[i]*exp(-B[i])", PROVED),
        ("power", "exp(A[i])**B[i]", "exp(A[i]*B[i])", PROVED),
        ("logarithm", "log(exp(A[i]))", "A[i]", PROVED),
        ("logarithm of a power", "log(exp(A[i])**3)", "3*A[i]", PROVED),
        ("root", "A[i]/sqrt(exp(B[i]))", "A[i]*exp(B[i])**(-1/2)", PROVED),
        ("sum is no product", "exp(A[i]) + exp(B[i])", "exp(A[i] + B[i])", DIFFERENT),
    ],
    "absolute values": [
        ("square", "Abs(A[i])*Abs(A[i])", "A[i]*A[i]", PROVED),
        ("twice", "Abs(Abs(A[i]))", "Abs(A[i])", PROVED),
        ("opposite", "Abs(-A[i])", "Abs(A[i])", PROVED),
        ("root of a square", "sqrt(A[i]**2)", "Abs(A[i])", PROVED),
        ("root of a square is not it", "sqrt(A[i]**2)", "A[i]", DIFFERENT),
        ("sign", "sign(A[i])*Abs(A[i])", "A[i]", PROVED),
        ("compared", "Piecewise((A[i], A[i] >= 0), (-A[i], True))", "Abs(A[i])", PROVED),
    ],
    "extremes": [
        ("itself", "Max(A[i], A[i])", "A[i]*1", PROVED),
        ("clamp", "Min(Max(A[i], 1), 4)", "Max(Min(A[i], 4), 1)", PROVED),
        ("clamp of crossed bounds", "Min(Max(A[i], 5), 2)", "Max(Min(A[i], 2), 5)", DIFFERENT),
        ("clamps", "Min(Max(Min(Max(A[i], 0), 8), 1), 6)", "Min(Max(A[i], 1), 6)", PROVED),
        ("wider clamp", "Min(Max(Min(Max(A[i], 0), 5), -2), 7)", "Min(Max(A[i], 0), 5)", PROVED),
        ("clamps that cross", "Min(Max(Min(Max(A[i], 0), 8), 1), 9)", "Min(Max(A[i], 1), 9)",
         DIFFERENT),
        ("relu6 of relu", "Min(Max(Max(A[i], 0), 0), 6)", "Min(Max(A[i], 0), 6)", PROVED),
        ("absorption", "Min(A[i], Max(A[i], B[i]))", "A[i] + 0*B[i]", PROVED),
        ("lattice", "Max(Min(A[i], B[i]), Min(A[i], C[i]))", "Min(A[i], Max(B[i], C[i]))", PROVED),
        ("sum", "Max(A[i], B[i]) + Min(A[i], B[i])", "A[i] + B[i]", PROVED),
        ("leaky relu", "Piecewise((A[i], A[i] > 0), (A[i]/10, True))", "Max(A[i], A[i]/10)", PROVED),
        ("relu by choice", "Piecewise((A[i], A[i] > 0), (0, True))", "Max(A[i], 0)", PROVED),
    ],
    "choices": [
        ("same", "Piecewise((A[i], B[i] > 0), (A[i], True))", "A[i] + 0*B[i]", PROVED),
        ("negated", "Piecewise((A[i], ~(B[i] > 0)), (C[i], True))",
         "Piecewise((C[i], B[i] > 0), (A[i], True))", PROVED),
        ("negated with the bound", "Piecewise((A[i], ~(B[i] > 0)), (C[i], True))",
         "Piecewise((C[i], B[i] >= 0), (A[i], True))", DIFFERENT),
        ("of a choice",
         "Piecewise((Piecewise((A[i], B[i] > 0), (C[i], True)), B[i] > 0), (D[i], True))",
         "Piecewise((A[i], B[i] > 0), (D[i], True)) + 0*C[i]", PROVED),
        ("conjunction",
         "Piecewise((Piecewise((A[i], C[i] > 0), (D[i], True)), B[i] > 0), (D[i], True))",
         "Piecewise((A[i], (B[i] > 0) & (C[i] > 0)), (D[i], True))", PROVED),
        ("maximum", "Piecewise((A[i], A[i] > B[i]), (B[i], True))", "Max(A[i], B[i])", PROVED),
        ("function", "exp(Piecewise((A[i], B[i] > 0), (C[i], True)))",
         "Piecewise((exp(A[i]), B[i] > 0), (exp(C[i]), True))", PROVED),
    ],
    "activations": [
        ("sigmoid of an opposite", "1/(1 + exp(A[i]))", "1 - 1/(1 + exp(-A[i]))", PROVED),
        ("sigmoid by tanh", "1/(1 + exp(-A[i]))", "(tanh(A[i]/2) + 1)/2", PROVED),
        ("tanh by sigmoid", "2/(1 + exp(-2*A[i])) - 1", "tanh(A[i])", PROVED),
        ("tanh by another sigmoid", "2/(1 + exp(-A[i])) - 1", "tanh(A[i])", DIFFERENT),
        ("odd tanh", "tanh(-A[i])", "-tanh(A[i])", PROVED),
        ("log of sigmoid", "-log(1 + exp(-A[i]))", "log(1/(1 + exp(-A[i])))", PROVED),
        ("softplus", "log(1 + exp(A[i])) - log(1 + exp(-A[i]))", "A[i]", PROVED),
        ("gelu", "A[i]*(1 + erf(A[i]/sqrt(2)))/2", "A[i]/2 + A[i]*erf(A[i]/sqrt(2))/2", PROVED),
        ("erfc", "1 - erf(A[i])", "erfc(A[i])", PROVED),
        ("swish", "A[i]/(1 + exp(-A[i]))", "A[i]*exp(A[i])/(exp(A[i]) + 1)", PROVED),
        ("hard swish", "A[i]*Min(Max(A[i] + 3, 0), 6)/6", "A[i]*Min(Max(A[i]/6 + 1/2, 0), 1)", PROVED),
        ("elu", "Piecewise((A[i], A[i] > 0), (exp(A[i]) - 1, True))",
         "Max(A[i], 0) + Min(exp(A[i]) - 1, 0)", PROVED),
        ("sine of a double", "sin(2*A[i])", "2*sin(A[i])*cos(A[i])", PROVED),
    ],
}  # fmt: skip

Shapes = dict[str, Any]
OF_REDUCTIONS: list[tuple[str, str, str, Shapes, str]] = [
    ("sum of a broadcast", "T[i:N,j:M] = x[j]\nO[j] = Sum[i](T[i,j])", "O[j] = N*x[j]",
     {"x": ("M",), "N": N}, PROVED),
    ("mean of a broadcast", "T[i:N,j:M] = x[j]\nO[j] = Sum[i](T[i,j])/N", "O[j] = x[j]*1",
     {"x": ("M",)}, PROVED),
    ("maximum of a broadcast", "T[i:N,j:M] = x[j]\nO[j] = Max[i](T[i,j])", "O[j] = x[j]*1",
     {"x": ("M",)}, PROVED),
    ("product of a broadcast", "O[j] = Prod[i:N](exp(x[j]))", "O[j] = exp(N*x[j])",
     {"x": ("M",), "N": N}, PROVED),
    ("sums", "T[i,j] = Sum[k](A[i,j,k])\nO[i] = Sum[j](T[i,j])", "O[i] = Sum[j,k](A[i,j,k])",
     {"A": ("N", "M", "K")}, PROVED),
    ("maxima", "T[i,j] = Max[k](A[i,j,k])\nO[i] = Max[j](T[i,j])", "O[i] = Max[j,k](A[i,j,k])",
     {"A": ("N", "M", "K")}, PROVED),
    ("shifted maximum", "O[i] = Max[k](A[i,k] + B[i])", "O[i] = Max[k](A[i,k]) + B[i]",
     {"A": ("N", "M"), "B": ("N",)}, PROVED),
    ("scaled maximum", "O[i] = Max[k](A[i,k]*exp(B[i]))", "O[i] = Max[k](A[i,k])*exp(B[i])",
     {"A": ("N", "M"), "B": ("N",)}, PROVED),
    ("relu of a maximum", "O[i] = Max(Max[k](A[i,k]), 0)", "O[i] = Max[k](Max(A[i,k], 0))",
     {"A": ("N", "M")}, PROVED),
    ("maximum of exponentials", "O[i] = Max[k](exp(A[i,k]))", "O[i] = exp(Max[k](A[i,k]))",
     {"A": ("N", "M")}, PROVED),
    ("product of what is repeated", "O[j] = Prod[i:N](x[j])", "O[j] = x[j]**N",
     {"x": ("M",), "N": N}, PROVED),
    ("one factor too many", "O[j] = Prod[i:N](x[j])", "O[j] = x[j]**(N + 1)",
     {"x": ("M",), "N": N}, DIFFERENT),
    ("products of what is repeated", "O[j] = Prod[i:N](2*x[j])*Prod[i:M](2*x[j])",
     "O[j] = 2**(N + M)*x[j]**(N + M)", {"x": ("M",), "N": N}, PROVED),
    ("product of a sum that is repeated", "O[j] = Prod[i:N](x[j]**2 + 1)",
     "O[j] = (x[j]**2 + 1)**N", {"x": ("M",), "N": N}, PROVED),
    ("product of exponentials", "O[i] = Prod[k](exp(A[i,k]))", "O[i] = exp(Sum[k](A[i,k]))",
     {"A": ("N", "M")}, PROVED),
    ("minimum", "O[i] = Min[k](A[i,k])", "O[i] = -Max[k](-A[i,k])", {"A": ("N", "M")}, PROVED),
    ("an element of the range", "O[i] = Max(A[i], Max[k:N](A[k]))", "O[i:N] = Max[k:N](A[k])",
     {"A": ("N",)}, PROVED),
    ("the last element", "O[i] = Max(Max[k:M-1](exp(A[i,k])), exp(A[i,M-1]))",
     "O[i] = Max[k](exp(A[i,k]))", {"A": ("N", ea.size("M", 2))}, PROVED),
    ("a maximum from the end", "O[i] = Max[k](exp(A[i,M-1-k]))", "O[i] = exp(Max[k](A[i,k]))",
     {"A": ("N", "M")}, PROVED),
    ("a maximum without its end", "O[i] = exp(Max[k:M-1](A[i,k]))", "O[i] = Max[k](exp(A[i,k]))",
     {"A": ("N", ea.size("M", 2))}, DIFFERENT),
    ("softmax of what is shifted", "O[i,k] = exp(A[i,k] - B[i])/Sum[m](exp(A[i,m] - B[i]))",
     "O[i,k] = exp(A[i,k])/Sum[m](exp(A[i,m]))", {"A": ("N", "M"), "B": ("N",)}, PROVED),
    ("safe softmax", "X[i] = Max[k](A[i,k])\nS[i] = Sum[k](exp(A[i,k] - X[i]))\n"
     "O[i,k] = exp(A[i,k] - X[i])/S[i]", "O[i,k] = exp(A[i,k])/Sum[m](exp(A[i,m]))",
     {"A": ("N", "M")}, PROVED),
    ("logarithm of softmax", "S[i] = Sum[k](exp(A[i,k]))\nO[i,k] = log(exp(A[i,k])/S[i])",
     "S[i] = Sum[k](exp(A[i,k]))\nO[i,k] = A[i,k] - log(S[i])", {"A": ("N", "M")}, PROVED),
    ("safe log-sum-exp", "X[i] = Max[k](A[i,k])\nO[i] = X[i] + log(Sum[k](exp(A[i,k] - X[i])))",
     "O[i] = log(Sum[k](exp(A[i,k])))", {"A": ("N", "M")}, PROVED),
    ("softmax sums to 1", "S[i] = Sum[k](exp(A[i,k]))\nT[i,k] = exp(A[i,k])/S[i]\n"
     "O[i] = Sum[k](T[i,k])", "O[i:N] = 1 + 0*A[i,0]", {"A": ("N", "M")}, PROVED),
    ("variance", "U[i] = Sum[k](A[i,k])/M\nO[i] = Sum[k]((A[i,k] - U[i])**2)/M",
     "U[i] = Sum[k](A[i,k])/M\nO[i] = Sum[k](A[i,k]**2)/M - U[i]**2", {"A": ("N", "M")}, PROVED),
    ("wrong variance", "U[i] = Sum[k](A[i,k])/M\nO[i] = Sum[k]((A[i,k] - U[i])**2)/M",
     "U[i] = Sum[k](A[i,k])/M\nO[i] = Sum[k](A[i,k]**2)/M + U[i]**2", {"A": ("N", "M")}, DIFFERENT),
    ("rms norm", "V[i] = Sum[k](A[i,k]**2)/M\nO[i,k] = A[i,k]/sqrt(V[i] + 1)",
     "V[i] = Sum[k](A[i,k]**2)\nO[i,k] = A[i,k]*sqrt(1.0*M)/sqrt(V[i] + M)",
     {"A": ("N", "M")}, PROVED),
    ("batch norm in weights", "Y[i,j] += x[i,k]*w[k,j]\n"
     "O[i,j] = (Y[i,j] - m[j])*g[j]/sqrt(exp(v[j])) + b[j]",
     "U[k,j] = w[k,j]*g[j]/sqrt(exp(v[j]))\n"
     "O[i,j] = Sum[k](x[i,k]*U[k,j]) + b[j] - m[j]*g[j]/sqrt(exp(v[j]))",
     {"x": ("N", "K"), "w": ("K", "M"), **dict.fromkeys("mgvb", ("M",))}, PROVED),
    ("running sum of ones", "O[i:N] = Sum[k:N](1, where=k <= i)", "O[i:N] = i + 1", {"N": N}, PROVED),
    ("running sum of indices", "O[i:N] = Sum[k:N](k, where=k <= i)", "O[i:N] = i*(i + 1)/2",
     {"N": N}, PROVED),
    ("sum of all indices", "O[i:1] = Sum[k:N](k)", "O[i:1] = N*(N - 1)/2", {"N": N}, PROVED),
    ("one-hot rows", "T[i:N,j:N] = Piecewise((1, Eq(i, j)), (0, True))\n"
     "O[i] = Sum[j](T[i,j]*A[j])", "O[i] = A[i]*1", {"A": ("N",)}, PROVED),
    ("scaled queries", "S[i,j] = exp(Sum[k](Q[i,k]*K[j,k])/8)\nO[i,j] = S[i,j]/Sum[m](S[i,m])",
     "R[i,k] = Q[i,k]/8\nS[i,j] = exp(Sum[k](R[i,k]*K[j,k]))\nO[i,j] = S[i,j]/Sum[m](S[i,m])",
     {"Q": ("N", "D"), "K": ("M", "D")}, PROVED),
    ("attention divided at the end", "S[i,j] = exp(Sum[k](Q[i,k]*K[j,k]))\n"
     "E[i] = Sum[j](S[i,j])\nO[i,d] = Sum[j](S[i,j]/E[i]*V[j,d])",
     "S[i,j] = exp(Sum[k](Q[i,k]*K[j,k]))\nE[i] = Sum[j](S[i,j])\n"
     "O[i,d] = Sum[j](S[i,j]*V[j,d])/E[i]",
     {"Q": ("N", "D"), "K": ("M", "D"), "V": ("M", "D")}, PROVED),
]  # fmt: skip


def check(rule: Rule, expected: str) -> None:
    result = verify(rule)
    assert result.verdict == expected and result.condition is None and not result.coverage, result


@pytest.mark.parametrize("family", OF_ELEMENTS)
def test_rules_of_elements(family: str) -> None:
    for name, before, after, expected in OF_ELEMENTS[family]:
        shapes = {letter: ("N",) for letter in "ABCD" if f"{letter}[" in before + after}
        check(Rule(name, f"O[i:N] = {before}", f"O[i:N] = {after}", **shapes), expected)


@pytest.mark.parametrize("row", OF_REDUCTIONS, ids=lambda row: row[0])
def test_rules_of_reductions(row: tuple[str, str, str, Shapes, str]) -> None:
    name, before, after, shapes, expected = row
    check(Rule(name, before, after, **shapes), expected)


def unchanged(scope: Any) -> Any:
    return ops.mul(scope, 1)


x, y, z = (ea.tensor(name, (rows, "M")) for name, rows in zip("xyz", "NKB"))
v, wide = ea.tensor("v", ("M",)), ea.tensor("q", ("N", 3, 4))
a, b, c = (ea.tensor(name, ("B", *shape)) for name, shape in zip("abc", ("NK", "KM", "KM")))
image, kernel = ea.tensor("image", ("N", "C", "H", "W")), ea.tensor("kernel", ("F", "C", 3, 3))
scale = ea.tensor("scale", ("F",))
rows, point, many = ea.tensor("z", ("N", 6, "M")), ea.tensor("k", ("F", "C")), ea.size("P", 8)
long = ea.tensor("l", (many,))
left, right, rest = (
    ea.tensor(name, tuple(shape)) for name, shape in zip("dec", ("NK", "PK", "KM"))
)
even = ea.size("H2", at_least=2, multiple_of=2)
halves = ea.tensor("h", (even, "M"))
other, images = ea.tensor("p", ("N", "M")), ea.tensor("i", ("N", 4, "H", "W"))
PADDED = ops.pad(x, [(1, 0), (0, 2)])
JOINED = ops.concat([x, y], axis=0)
OF_OPERATORS = {
    "slice of a concatenation": (ops.slice(JOINED, 0, N, axes=0), unchanged(x), PROVED),
    "its other part": (ops.slice(JOINED, [N], [N + K], axes=[0]), unchanged(y), PROVED),
    "concatenation of slices": (
        ops.concat([ops.slice(x, [0], [1], axes=[0]), ops.slice(x, [1], [N], axes=[0])], axis=0),
        unchanged(x), PROVED,
    ),
    "concatenations": (
        ops.concat([JOINED, z], axis=0), ops.concat([x, ops.concat([y, z], axis=0)], axis=0), PROVED
    ),
    "pads": (ops.pad(PADDED, [(2, 1), (0, 1)]), ops.pad(x, [(3, 1), (0, 3)]), PROVED),
    "pads by sizes": (ops.pad(PADDED, [(N, M), (0, 1)]), ops.pad(x, [(N + 1, M), (0, 3)]), PROVED),
    "slice of a pad": (ops.slice(PADDED, [1, 0], [N + 1, M], axes=[0, 1]), unchanged(x), PROVED),
    "relu of a pad": (ops.relu(PADDED), ops.pad(ops.relu(x), [(1, 0), (0, 2)]), PROVED),
    "exp of a pad": (ops.exp(PADDED), ops.pad(ops.exp(x), [(1, 0), (0, 2)]), DIFFERENT),
    "maximum of a pad": (
        ops.max(ops.pad(x, [(0, 0), (1, 0)]), axes=1), ops.maximum(ops.max(x, axes=1), 0), PROVED
    ),
    "sum of a concatenation": (
        ops.sum(JOINED, axes=0), ops.add(ops.sum(x, axes=0), ops.sum(y, axes=0)), PROVED
    ),
    "maximum of a concatenation": (
        ops.max(JOINED, axes=0), ops.maximum(ops.max(x, axes=0), ops.max(y, axes=0)), PROVED
    ),
    "maximum of a repetition": (ops.max(ops.concat([x, x], axis=0), axes=0), ops.max(x, axes=0),
                                PROVED),
    "maximum of what is repeated in part": (
        ops.max(ops.concat([v, ops.slice(v, [0], [1], axes=[0])], axis=0), axes=0),
        ops.max(v, axes=0), PROVED,
    ),
    "log-sum-exp of a concatenation": (
        ops.log(ops.sum(ops.exp(JOINED), axes=0)),
        ops.log(ops.add(ops.sum(ops.exp(x), axes=0), ops.sum(ops.exp(y), axes=0))), PROVED,
    ),
    "sigmoid of a concatenation": (
        ops.sigmoid(JOINED), ops.concat([ops.sigmoid(x), ops.sigmoid(y)], axis=0), PROVED
    ),
    "transposes": (ops.transpose(ops.transpose(a, (1, 2, 0)), (2, 0, 1)), unchanged(a), PROVED),
    "reshapes": (
        ops.reshape(ops.reshape(wide, (N, 12)), (N, 2, 6)), ops.reshape(wide, (N, 2, 6)), PROVED
    ),
    "reshape and back": (
        ops.reshape(ops.reshape(wide, (3*N, 4)), (N, 3, 4)), unchanged(wide), PROVED
    ),
    "transpose of a reshape": (
        ops.transpose(ops.reshape(wide, (N, 12)), (1, 0)),
        ops.reshape(ops.transpose(wide, (1, 2, 0)), (12, N)), PROVED,
    ),
    "reshape of a transpose": (
        ops.reshape(ops.transpose(wide, (0, 2, 1)), (N, 12)), ops.reshape(wide, (N, 12)), DIFFERENT
    ),
    "transposed products": (
        ops.transpose(ops.matmul(a, b), (0, 2, 1)),
        ops.matmul(ops.transpose(b, (0, 2, 1)), ops.transpose(a, (0, 2, 1))), PROVED,
    ),
    "products of a sum": (
        ops.matmul(a, ops.add(b, c)), ops.add(ops.matmul(a, b), ops.matmul(a, c)), PROVED
    ),
    "products of a concatenation": (
        ops.matmul(a, ops.concat([b, c], axis=2)),
        ops.concat([ops.matmul(a, b), ops.matmul(a, c)], axis=2), PROVED,
    ),
    "products that share an input": (
        ops.matmul(ops.concat([a, a], axis=2), ops.concat([b, c], axis=1)),
        ops.matmul(a, ops.add(b, c)), PROVED,
    ),
    "softmax of a transpose": (
        ops.transpose(ops.softmax(x, axis=1), (1, 0)),
        ops.softmax(ops.transpose(x, (1, 0)), axis=0), PROVED,
    ),
    "softmax of what is flipped": (
        ops.flip(ops.softmax(x, axis=1), axes=1), ops.softmax(ops.flip(x, axes=1), axis=1), PROVED
    ),
    "clip of relu": (ops.clip(ops.relu(x), 0, 6), ops.clip(x, 0, 6), PROVED),
    "layer norm of what is shifted": (
        ops.layer_norm(ops.add(x, 1), axes=1), ops.layer_norm(x, axes=1), PROVED
    ),
    "broadcasts": (
        ops.broadcast_to(ops.broadcast_to(v, ("K", "M")), ("N", "K", "M")),
        ops.broadcast_to(v, ("N", "K", "M")), PROVED,
    ),
    "maximum of a broadcast": (
        ops.max(ops.broadcast_to(v, ("N", "M")), axes=0), unchanged(v), PROVED
    ),
    "convolution of a pad": (
        ops.conv2d(ops.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)]), kernel),
        ops.conv2d(image, kernel, padding=1), PROVED,
    ),
    "convolution of another pad": (
        ops.conv2d(ops.pad(image, [(0, 0), (0, 0), (1, 1), (2, 0)]), kernel),
        ops.conv2d(image, kernel, padding=1), DIFFERENT,
    ),
    "scaled convolution": (
        ops.mul(ops.conv2d(image, kernel), ops.reshape(scale, (1, ea.size("F"), 1, 1))),
        ops.conv2d(image, ops.mul(kernel, ops.reshape(scale, (ea.size("F"), 1, 1, 1)))), PROVED,
    ),
    "slice across a pad": (
        ops.slice(ops.pad(x, [(2, 3), (0, 0)]), [1], [N + 4], axes=[0]),
        ops.pad(x, [(1, 2), (0, 0)]), PROVED,
    ),
    "slice across another pad": (
        ops.slice(ops.pad(x, [(2, 3), (0, 0)]), [1], [N + 4], axes=[0]),
        ops.pad(x, [(2, 1), (0, 0)]), DIFFERENT,
    ),
    "slices with strides": (
        ops.slice(ops.slice(long, [1], [many], axes=[0], steps=[2]),
                  [0], [3], axes=[0], steps=[2]),
        ops.slice(long, [1], [6], axes=[0], steps=[4]), PROVED,
    ),
    "slice of a transpose": (
        ops.slice(ops.transpose(x, (1, 0)), [1, 0], [M, N], axes=[0, 1]),
        ops.transpose(ops.slice(x, [1], [M], axes=[1]), (1, 0)), PROVED,
    ),
    "flipped concatenation": (
        ops.flip(JOINED, axes=0),
        ops.concat([ops.flip(y, axes=0), ops.flip(x, axes=0)], axis=0), PROVED,
    ),
    "flipped concatenation in order": (
        ops.flip(JOINED, axes=0),
        ops.concat([ops.flip(x, axes=0), ops.flip(y, axes=0)], axis=0), DIFFERENT,
    ),
    "concatenation of broadcasts": (
        ops.concat([ops.broadcast_to(v, (size, "M")) for size in (N, K)], axis=0),
        ops.broadcast_to(v, (N + K, "M")), PROVED,
    ),
    "product of a broadcast": (
        ops.matmul(a, ops.broadcast_to(y, ("B", "K", "M"))),
        ops.matmul(a, y), PROVED,
    ),
    "product of merged axes": (
        ops.matmul(ops.reshape(rows, (6 * N, "M")), ops.transpose(y, (1, 0))),
        ops.reshape(ops.matmul(rows, ops.transpose(y, (1, 0))), (6 * N, "K")), PROVED,
    ),
    "sum of products of slices": (
        ops.add(
            ops.matmul(ops.slice(a, [0], [1], axes=[2]), ops.slice(b, [0], [1], axes=[1])),
            ops.matmul(ops.slice(a, [1], [K], axes=[2]), ops.slice(b, [1], [K], axes=[1])),
        ),
        ops.matmul(a, b), PROVED,
    ),
    "convolution of a point": (
        ops.conv2d(image, ops.reshape(point, ("F", "C", 1, 1))),
        ea.parse("O[n,f,h,w] = Sum[c](image[n,c,h,w]*k[f,c])", image=image, k=point), PROVED,
    ),
    "sum of merged axes": (
        ops.sum(ops.reshape(wide, (3 * N, 4)), axes=0), ops.sum(wide, axes=(0, 1)), PROVED
    ),
    "split of a split": (
        ops.split(ops.split(rows, 2, axis=1)[1], 3, axis=1)[1],
        ops.slice(rows, [4], [5], axes=[1]), PROVED,
    ),
    "last running sum": (
        ops.slice(ops.cumsum(x, axis=0), [N - 1], [N], axes=[0]),
        ops.reshape(ops.sum(x, axes=0), (1, "M")), PROVED,
    ),
    "relu of a pool": (
        ops.relu(ops.max_pool2d(image, 2)), ops.max_pool2d(ops.relu(image), 2), PROVED
    ),
    "slice across a concatenation": (
        ops.slice(JOINED, [N - 1], [N + 1], axes=[0]),
        ops.concat([ops.slice(x, [N - 1], [N], axes=[0]), ops.slice(y, [0], [1], axes=[0])],
                   axis=0), PROVED,
    ),
    "concatenation of halves": (
        ops.concat([ops.slice(halves, [0], [even // 2], axes=[0]),
                    ops.slice(halves, [even // 2], [even], axes=[0])], axis=0),
        unchanged(halves), PROVED,
    ),
    "concatenation of halves in another order": (
        ops.concat([ops.slice(halves, [even // 2], [even], axes=[0]),
                    ops.slice(halves, [0], [even // 2], axes=[0])], axis=0),
        unchanged(halves), DIFFERENT,
    ),
    "pads of other values": (
        ops.pad(ops.pad(x, [(1, 1), (0, 0)], value=2), [(1, 0), (0, 0)], value=3),
        ops.pad(x, [(2, 1), (0, 0)], value=2), DIFFERENT,
    ),
    "sum of a pad": (
        ops.sum(ops.pad(x, [(1, 2), (0, 0)], value=5), axes=0), ops.add(ops.sum(x, axes=0), 15),
        PROVED,
    ),
    "maximum of a pad by 0": (
        ops.max(ops.pad(x, [(1, 2), (0, 0)]), axes=0), ops.max(x, axes=0), DIFFERENT
    ),
    "product of pads": (
        ops.matmul(ops.pad(left, [(0, 0), (0, 1)]), ops.pad(rest, [(0, 1), (0, 0)], value=7)),
        ops.matmul(left, rest), PROVED,
    ),
    "sum of pads beside each other": (
        ops.add(ops.pad(x, [(0, K), (0, 0)]), ops.pad(y, [(N, 0), (0, 0)])), JOINED, PROVED
    ),
    "sum of a broadcast": (
        ops.sum(ops.broadcast_to(v, ("N", "M")), axes=0), ops.mul(v, N), PROVED
    ),
    "product over a broadcast": (
        ops.prod(ops.broadcast_to(v, ("N", "M")), axes=0), ops.pow(v, N), PROVED
    ),
    "mean by a size": (ops.mean(x, axes=1), ops.div(ops.sum(x, axes=1), M), PROVED),
    "clip by a size": (ops.clip(x, 0, N), ops.minimum(ops.relu(x), N), PROVED),
    "slice of a product": (
        ops.slice(ops.matmul(left, rest), [0], [1], axes=[0]),
        ops.matmul(ops.slice(left, [0], [1], axes=[0]), rest), PROVED,
    ),
    "concatenation of products": (
        ops.matmul(ops.concat([left, right], axis=0), rest),
        ops.concat([ops.matmul(left, rest), ops.matmul(right, rest)], axis=0), PROVED,
    ),
    "flipped convolution": (
        ops.conv2d(image, kernel, padding=1),
        ops.flip(ops.conv2d(ops.flip(image, axes=2), ops.flip(kernel, axes=2), padding=1), axes=2),
        PROVED,
    ),
    "strided convolution": (
        ops.conv2d(image, kernel, stride=2, padding=1),
        ops.slice(ops.conv2d(image, kernel, padding=1), [0, 0], [ea.size("H"), ea.size("W")],
                  axes=[2, 3], steps=[2, 2]), PROVED,
    ),
    "attention of scaled queries": (
        ops.attention(*[ea.tensor(name, ("B", rows, "K")) for name, rows in zip("QRV", "NMM")]),
        ops.attention(
            ops.div(ea.tensor("Q", ("B", "N", "K")), sympy.sqrt(K)),
            *[ea.tensor(name, ("B", "M", "K")) for name in "RV"], scale=1,
        ), PROVED,
    ),
    "softmax of a broadcast": (
        ops.softmax(ops.broadcast_to(v, ("N", "M")), axis=0),
        ops.div(ops.broadcast_to(ops.add(ops.mul(v, 0), 1), ("N", "M")), N), PROVED,
    ),
    "pool of a pool": (ops.avg_pool2d(ops.avg_pool2d(images, 2), 2), ops.avg_pool2d(images, 4),
                       PROVED),
    "exp of a pool": (
        ops.exp(ops.max_pool2d(image, 2)), ops.max_pool2d(ops.exp(image), 2), PROVED
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_OPERATORS)
def test_rules_of_operators(name: str) -> None:
    before, after, expected = OF_OPERATORS[name]
    check(Rule(name, before, after), expected)


square, table = ea.tensor("s", ("N", "N")), ea.tensor("t", ("N", "N"))
UNDER_CONDITIONS = {
    "slice across a concatenation, one off": (
        ops.slice(JOINED, [N - 1], [N + 1], axes=[0]),
        ops.concat([ops.slice(x, [0], [1], axes=[0]), ops.slice(y, [0], [1], axes=[0])], axis=0),
        "N = 1", {"K": 1, "M": 1, "N": 2},
    ),
    "product of slices": (
        ops.matmul(ops.slice(left, [0], [1], axes=[1]), ops.slice(rest, [0], [1], axes=[0])),
        ops.matmul(left, rest), "K = 1", {"K": 2, "M": 1, "N": 1},
    ),
    "exchanged factors": (
        ops.matmul(square, table), ops.matmul(table, square), "N = 1", {"N": 2}
    ),
    "what is flipped": (ops.flip(x, axes=0), unchanged(x), "N = 1", {"M": 1, "N": 2}),
    "flipped image": (
        ops.conv2d(image, kernel, padding=1),
        ops.flip(ops.conv2d(ops.flip(image, axes=2), kernel, padding=1), axes=2),
        "H = 1", {"C": 1, "F": 1, "H": 2, "N": 1, "W": 1},
    ),
    "strided convolution of a strided image": (
        ops.conv2d(image, kernel, stride=2, padding=1),
        ops.conv2d(
            ops.slice(image, [0, 0], [ea.size("H"), ea.size("W")], axes=[2, 3], steps=[2, 2]),
            kernel, padding=1,
        ), "H = 1 and W = 1", {"C": 1, "F": 1, "H": 1, "N": 1, "W": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDER_CONDITIONS)
def test_rules_under_conditions(name: str) -> None:
    before, after, condition, counterexample = UNDER_CONDITIONS[name]
    result = verify(Rule(name, before, after))
    assert (result.verdict, result.condition_text) == (PROVED, condition), result
    assert result.counterexample == counterexample
