"""Laws that the prover was not built on: written before it, of the same families."""

from __future__ import annotations

from tests.helpers.laws.law import Law

EXTREMES = [
    ("O[i] = Max[j](A[i,j])", "O[i] = Max(Max[j:2](A[i,j]), Max[j:2:7](A[i,j]))", {"A": (3, 7)}),
    ("O[i] = Min[j,k](A[i,j,k])", "O[i] = Min[k](Min[j](A[i,j,k]))", {"A": (3, 4, 5)}),
    ("O[i] = Max[j](A[i,j] - c[i]) + c[i]", "O[i] = Max[j](A[i,j])", {"A": (6, 9), "c": (6,)}),
    ("O[i] = Min[j](5*A[i,j])", "O[i] = -5*Max[j](-A[i,j])", {"A": (2, 8)}),
    ("O[i] = Max(x[i], y[i]) + Min(x[i], y[i])", "O[i] = x[i] + y[i]", {"x": (7,), "y": (7,)}),
    ("O[i] = Min(Max(x[i], -1), 1)", "O[i] = Max(Min(x[i], 1), -1)", {"x": (11,)}),
    ("O[i] = Abs(x[i] - y[i])", "O[i] = Max(x[i], y[i]) - Min(x[i], y[i])", {"x": (5,), "y": (5,)}),
    ("O[i] = Max[j](Abs(A[i,j]))", "O[i] = Max(Max[j](A[i,j]), -Min[j](A[i,j]))", {"A": (2, 5)}),
    ("O[i] = Max(Max[j](A[i,j]), 0)", "O[i] = Max[j](Max(A[i,j], 0))", {"A": (4, 100)}),
]
PIECEWISE = [
    (
        "O[i] = Piecewise((x[i], x[i] > y[i]), (y[i], True))",
        "O[i] = Piecewise((y[i], x[i] <= y[i]), (x[i], True))",
        {"x": (6,), "y": (6,)},
    ),
    (
        "O[i] = z[i]*Piecewise((x[i], y[i] >= 2), (0, True))",
        "O[i] = Piecewise((z[i]*x[i], y[i] >= 2), (0, True))",
        {"x": (6,), "y": (6,), "z": (6,)},
    ),
    (
        "O[i] += Piecewise((A[i,j], B[i,j] > 0), (0, True))",
        "O[i] = Sum[j](A[i,j]) - Sum[j](Piecewise((A[i,j], B[i,j] <= 0), (0, True)))",
        {"A": (3, 6), "B": (3, 6)},
    ),
    (
        "O[i] = Piecewise((x[i], x[i] > 0), (3*x[i], True))",
        "O[i] = Max(x[i], 0) + 3*Min(x[i], 0)",
        {"x": (9,)},
    ),
]
EXP_AND_LOG = [
    ("O[i] = exp(2*x[i] + y[i])", "O[i] = exp(x[i])**2*exp(y[i])", {"x": (6,), "y": (6,)}),
    ("O[i] = log(Sum[j](exp(A[i,j] + 3)))", "O[i] = log(Sum[j](exp(A[i,j]))) + 3", {"A": (4, 6)}),
    (
        "O[i,j] = exp(S[i,j] - 7)/Sum[k](exp(S[i,k] - 7))",
        "O[i,j] = exp(S[i,j])/Sum[k](exp(S[i,k]))",
        {"S": (3, 50)},
    ),
    ("O[i] = exp(x[i])/(1 + exp(x[i]))", "O[i] = 1/(1 + exp(-x[i]))", {"x": (8,)}),
    ("O[i] = (exp(2*x[i]) - 1)/(exp(2*x[i]) + 1)", "O[i] = tanh(x[i])", {"x": (8,)}),
    ("O[i] = log(1 + exp(-x[i]))", "O[i] = log(1 + exp(x[i])) - x[i]", {"x": (8,)}),
    ("O[i] = Min[j](exp(A[i,j]))", "O[i] = exp(Min[j](A[i,j]))", {"A": (3, 5)}),
    ("O[i] = tanh(Max[j](A[i,j]))", "O[i] = Max[j](tanh(A[i,j]))", {"A": (3, 4)}),
]
ATTENTION = [
    (
        "O[i,d] = Sum[j](exp(S[i,j] - 2)*V[j,d])/Sum[j](exp(S[i,j] - 2))",
        "O[i,d] = Sum[j](exp(S[i,j])/Sum[k:6](exp(S[i,k]))*V[j,d])",
        {"S": (3, 6), "V": (6, 4)},
    ),
    (
        "M[i] = Max[j](S[i,j])\nO[i,d] = Sum[j](exp(S[i,j] - M[i])*V[j,d])/Sum[j](exp(S[i,j] - M[i]))",
        "O[i,d] = Sum[j](exp(S[i,j])*V[j,d])/Sum[j](exp(S[i,j]))",
        {"S": (4, 8), "V": (8, 3)},
    ),
    (
        "M[i] = Max[j](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        "M[i] = Max[j:3](S[i,j])\nN[i] = Max[j:3:8](S[i,j])\nP[i] = Max(M[i], N[i])\n"
        "O[i] = exp(M[i] - P[i])*Sum[j:3](exp(S[i,j] - M[i])) + exp(N[i] - P[i])*Sum[j:3:8](exp(S[i,j] - N[i]))",
        {"S": (4, 8)},
    ),
    (
        "O[i,d] = Sum[j](exp(S[i,j])*V[j,d])/Sum[j](exp(S[i,j]))",
        "D[i] = Sum[j:4](exp(S[i,j]))\nE[i] = Sum[j:4:8](exp(S[i,j]))\n"
        "U[i,d] = Sum[j:4](exp(S[i,j])*V[j,d])/D[i]\nW[i,d] = Sum[j:4:8](exp(S[i,j])*V[j,d])/E[i]\n"
        "O[i,d] = (D[i]*U[i,d] + E[i]*W[i,d])/(D[i] + E[i])",
        {"S": (4, 8), "V": (8, 3)},
    ),
]
RATIONAL = [
    (
        "O[i] = x[i]/y[i] + z[i]/w[i]",
        "O[i] = (x[i]*w[i] + z[i]*y[i])/(y[i]*w[i])",
        dict.fromkeys("xyzw", (5,)),
    ),
    ("O[i] = A[i]/Sum[j:5](A[j])", "O[i] = 3*A[i]/Sum[j:5](3*A[j])", {"A": (5,)}),
    ("O[i] = Sum[j](A[i,j]/b[i])", "O[i] = Sum[j](A[i,j])/b[i]", {"A": (4, 6), "b": (4,)}),
    ("O[i] = 1/(1/x[i] + 1/y[i])", "O[i] = x[i]*y[i]/(x[i] + y[i])", {"x": (5,), "y": (5,)}),
]
NORMS = [
    ("O[i] = 3*x[i]/sqrt(Sum[j:6](9*x[j]**2))", "O[i] = x[i]/sqrt(Sum[j:6](x[j]**2))", {"x": (6,)}),
    (
        "O[i] = Sum[j](2*A[i,j]*B[i,j])/(sqrt(Sum[j](4*A[i,j]**2))*sqrt(Sum[j](B[i,j]**2)))",
        "O[i] = Sum[j](A[i,j]*B[i,j])/(sqrt(Sum[j](A[i,j]**2))*sqrt(Sum[j](B[i,j]**2)))",
        {"A": (3, 5), "B": (3, 5)},
    ),
    ("O[i] = sqrt(Sum[j](A[i,j]**2/25))", "O[i] = sqrt(Sum[j](A[i,j]**2))/5", {"A": (4, 7)}),
    (
        "M[i] = Sum[j](A[i,j])/8\nO[i] = Sum[j]((A[i,j] - M[i])**2)/8",
        "O[i] = Sum[j](A[i,j]**2)/8 - (Sum[j](A[i,j])/8)**2",
        {"A": (3, 8)},
    ),
]
INDICES = [
    ("O[i:9] = (i+2)**2*x[i]", "O[i:9] = (i*i + 4*i + 4)*x[i]", {"x": (9,)}),
    ("O[i:7] = x[i]*(i-1)*(i+1)", "O[i:7] = x[i]*(i**2 - 1)", {"x": (7,)}),
    ("O[i:8] = x[i]*Sum[k:6](k)", "O[i:8] = 15*x[i]", {"x": (8,)}),
    ("O[i:9] = x[i]*((i+4)//2)", "O[i:9] = x[i]*(i//2 + 2)", {"x": (9,)}),
]
PRODUCTS = [
    ("O[i] = Prod[j](2*A[i,j])", "O[i] = 16*Prod[j](A[i,j])", {"A": (3, 4)}),
    ("O[i] = Prod[j](A[i,j])", "O[i] = Prod[j:2](A[i,j])*Prod[j:2:6](A[i,j])", {"A": (3, 6)}),
    (
        "O[i] = Prod[j](A[i,j]*B[i,j])",
        "O[i] = Prod[j](A[i,j])*Prod[j](B[i,j])",
        {"A": (3, 5), "B": (3, 5)},
    ),
    ("O[i] = Prod[j](exp(A[i,j]))", "O[i] = exp(Sum[j](A[i,j]))", {"A": (3, 5)}),
]
RELU = [
    (
        "R[i] = Max(x[i], 0)\nO[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        "O[i:8] = Max(Max[r:3](x.pad(1)[i+r-1]), 0)",
        {"x": (8,)},
    ),
    (
        "R[i] = Max(x[i], 0)\nO[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        "M[i:8] = Max[r:3](x.pad(1, fill=-inf)[i+r-1])\nO[i] = Max(M[i], 0)",
        {"x": (8,)},
    ),
    (
        "R[i] = Max(x[i], 0)\nO[i:6] = Sum[r:3](R.pad(1)[i+r-1]*w[r])",
        "O[i:6] = Sum[r:3](Max(x.pad(1)[i+r-1], 0)*w[r])",
        {"x": (6,), "w": (3,)},
    ),
    (
        "O[i:6] = Sum[r:3](Max(x.pad(1)[i+r-1], 0))",
        "O[i:6] = Sum[r:3](Abs(x.pad(1)[i+r-1]) + x.pad(1)[i+r-1])/2",
        {"x": (6,)},
    ),
]
MANY_FACTORS = [
    ("O[i] = Sum[j](A[i,j])**4", "O[i] = Sum[j,k,l,m](A[i,j]*A[i,k]*A[i,l]*A[i,m])", {"A": (3, 3)}),
    ("O[i:5] = x[i]*x[i+1]*x[i+2]*x[i+3]", "O[i:5] = x[i+3]*x[i+1]*x[i]*x[i+2]", {"x": (8,)}),
    (
        "O[i] = (x[i] + x[2]*x[3])**4",
        "O[i] = (x[i]**2 + 2*x[i]*x[2]*x[3] + x[2]**2*x[3]**2)**2",
        {"x": (5,)},
    ),
    (
        "O[i,j] = Sum[k](A[i,k]*A[k,j])*A[j,i]*A[i,j]",
        "O[i,j] = A[i,j]*A[j,i]*Sum[k](A[k,j]*A[i,k])",
        {"A": (4, 4)},
    ),
]
MASKS = [
    (
        "S[i:5,j:5] = Piecewise((A[i,j], j <= i), (-inf, True))\nO[i,j] = exp(S[i,j])/Sum[k:5](exp(S[i,k]))",
        "E[i:5,j:5] = Piecewise((exp(A[i,j]), j <= i), (0, True))\nO[i,j] = E[i,j]/Sum[k:5](E[i,k])",
        {"A": (5, 5)},
    ),
    (
        "S[i,j] = Piecewise((A[i,j], M[i,j] > 0), (-inf, True))\nO[i] = Sum[j](exp(S[i,j]))",
        "O[i] = Sum[j](Piecewise((exp(A[i,j]), M[i,j] > 0), (0, True)))",
        {"A": (4, 6), "M": (4, 6)},
    ),
    (
        "O[i:5] = Max[j:5](Piecewise((A[i,j], j <= i), (-inf, True)))",
        "O[i:5] = Max[j:5](A[i,j], where=j <= i)",
        {"A": (5, 5)},
    ),
    (
        "S[i:6,j:6] = Piecewise((A[i,j], j <= i), (-inf, True))\nO[i,d] = Sum[j](exp(S[i,j])*V[j,d])",
        "O[i:6,d:2] = Sum[j:6](exp(A[i,j])*V[j,d], where=i >= j)",
        {"A": (6, 6), "V": (6, 2)},
    ),
]


def recurrence(steps: int, by_tanh: bool) -> str:
    """Return the text of a gated recurrent layer of so many steps."""
    lines = []
    for t in range(steps):
        before = f"h{t}"
        lines.append(f"a{t}[i:3] = Sum[j:2](W[i,j]*x[{t},j]) + Sum[k:3](U[i,k]*{before}[k])")
        lines.append(f"b{t}[i:3] = Sum[j:2](P[i,j]*x[{t},j]) + Sum[k:3](Q[i,k]*{before}[k])")
        gate = f"1/(1 + exp(-a{t}[i]))"
        if by_tanh:
            gate = f"(tanh(a{t}[i]/2) + 1)/2"
        lines.append(f"g{t}[i:3] = {gate}")
        lines.append(f"h{t + 1}[i:3] = g{t}[i]*{before}[i] + (1 - g{t}[i])*tanh(b{t}[i])")
    return "\n".join(lines)


def _recurrent(steps: int) -> tuple[str, str, dict[str, tuple[int, ...]]]:
    shapes = {"W": (3, 2), "U": (3, 3), "P": (3, 2), "Q": (3, 3), "x": (steps, 2), "h0": (3,)}
    return recurrence(steps, False), recurrence(steps, True), shapes


RECURRENCE = [_recurrent(1), _recurrent(3), _recurrent(8), _recurrent(15)]

FAMILIES = {
    "extremes": EXTREMES,
    "Piecewise": PIECEWISE,
    "exp and log": EXP_AND_LOG,
    "attention": ATTENTION,
    "rational functions": RATIONAL,
    "norms": NORMS,
    "polynomials of indices": INDICES,
    "products": PRODUCTS,
    "ReLU under a padded reduction": RELU,
    "many factors of one tensor": MANY_FACTORS,
    "masks": MASKS,
    "recurrent networks": RECURRENCE,
}
HELD_OUT = [
    Law(family, f"held out {number}", *row)
    for family, rows in FAMILIES.items()
    for number, row in enumerate(rows)
]
