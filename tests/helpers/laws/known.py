"""Known laws of tensor expressions, by family: the prover is built to prove them."""

from __future__ import annotations

import einalg as ea
from tests.helpers.laws.law import Law

XY = {"x": (6,), "y": (6,)}
XYZ = {"x": (5,), "y": (5,), "z": (5,)}
EXTREMES = [
    (
        "associativity",
        "O[i] = Max(Max(x[i], y[i]), z[i])",
        "T[i] = Max(y[i], z[i])\nO[i] = Max(x[i], T[i])",
        XYZ,
    ),
    (
        "splitting",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(Max[j:4](A[i,j]), Max[j:4:9](A[i,j]))",
        {"A": (4, 9)},
    ),
    (
        "splitting a long row",
        "O[i] = Min[j](A[i,j])",
        "O[i] = Min(Min[j:300](A[i,j]), Min[j:300:1000](A[i,j]))",
        {"A": (32, 1000)},
    ),
    (
        "even and odd",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(Max[j:4](A[i,2*j]), Max[j:4](A[i,2*j+1]))",
        {"A": (3, 8)},
    ),
    (
        "unrolling",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(A[i,0], A[i,1], A[i,2], A[i,3])",
        {"A": (5, 4)},
    ),
    (
        "overlapping parts",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(Max[j:5](A[i,j]), Max[j:2:7](A[i,j]))",
        {"A": (5, 7)},
    ),
    (
        "shift",
        "O[i] = Max[j](A[i,j] + c[i])",
        "O[i] = Max[j](A[i,j]) + c[i]",
        {"A": (64, 128), "c": (64,)},
    ),
    (
        "shift by a number",
        "O[i] = Min[j](A[i,j] - 3/2)",
        "O[i] = Min[j](A[i,j]) - 3/2",
        {"A": (6, 5)},
    ),
    ("positive scale", "O[i] = Max[j](7*A[i,j])", "O[i] = 7*Max[j](A[i,j])", {"A": (6, 5)}),
    (
        "scale by exp",
        "O[i] = Max[j](exp(c[i])*A[i,j])",
        "O[i] = exp(c[i])*Max[j](A[i,j])",
        {"A": (6, 5), "c": (6,)},
    ),
    ("negative scale", "O[i] = Max[j](-2*A[i,j])", "O[i] = -2*Min[j](A[i,j])", {"A": (6, 200)}),
    ("negation", "O[i] = Max[j](A[i,j])", "O[i] = -Min[j](-A[i,j])", {"A": (6, 5)}),
    ("absorption", "O[i] = Max(x[i], Min(x[i], y[i]))", "O[i] = x[i]", XY),
    (
        "absorption of a reduction",
        "O[i] = Max(Max[j](A[i,j]), A[i,2])",
        "O[i] = Max[j](A[i,j])",
        {"A": (6, 5)},
    ),
    (
        "distributivity",
        "O[i] = Max(x[i], Min(y[i], z[i]))",
        "O[i] = Min(Max(x[i], y[i]), Max(x[i], z[i]))",
        XYZ,
    ),
    ("clip", "O[i] = Min(Max(x[i], 2), 5)", "O[i] = Max(Min(x[i], 5), 2)", XY),
    (
        "clip by Piecewise",
        "O[i] = Min(Max(x[i], 0), 6)",
        "O[i] = Piecewise((0, x[i] < 0), (6, x[i] > 6), (x[i], True))",
        XY,
    ),
    ("absolute value", "O[i] = Abs(x[i])", "O[i] = Max(x[i], -x[i])", XY),
    ("absolute value of parts", "O[i] = Abs(x[i])", "O[i] = Max(x[i], 0) + Max(-x[i], 0)", XY),
    ("parts", "O[i] = Max(x[i], 0) - Max(-x[i], 0)", "O[i] = x[i]", XY),
    (
        "maximum by absolute value",
        "O[i] = Max(x[i], y[i])",
        "O[i] = (x[i] + y[i] + Abs(x[i] - y[i]))/2",
        XY,
    ),
    ("square of absolute value", "O[i] = Abs(x[i])**2", "O[i] = x[i]**2", XY),
    ("absolute value of a product", "O[i] = Abs(x[i]*y[i])", "O[i] = Abs(x[i])*Abs(y[i])", XY),
    ("sign", "O[i] = sign(x[i])*x[i]", "O[i] = Abs(x[i])", XY),
    ("ReLU twice", "O[i] = Max(Max(x[i], 0), 0)", "O[i] = Max(x[i], 0)", XY),
    ("leaky ReLU", "O[i] = Max(x[i], x[i]/10)", "O[i] = Max(x[i], 0) - Max(-x[i], 0)/10", XY),
    ("sum and product", "O[i] = Max(x[i], y[i])*Min(x[i], y[i])", "O[i] = x[i]*y[i]", XY),
    (
        "order of reductions",
        "O[i] = Max[j](Max[k](A[i,j,k]))",
        "O[i] = Max[j,k](A[i,j,k])",
        {"A": (3, 4, 6)},
    ),
    (
        "maximum of a sum of two",
        "O[i] = Max[j,k](A[i,j] + B[i,k])",
        "O[i] = Max[j](A[i,j]) + Max[k](B[i,k])",
        {"A": (3, 4), "B": (3, 5)},
    ),
    (
        "clip of a reduction",
        "O[i] = Min(Max[j](A[i,j]), c[i])",
        "O[i] = Max[j](Min(A[i,j], c[i]))",
        {"A": (3, 4), "c": (3,)},
    ),
    (
        "median of three",
        "O[i] = Max(Min(x[i], y[i]), Min(y[i], z[i]), Min(x[i], z[i]))",
        "O[i] = Min(Max(x[i], y[i]), Max(y[i], z[i]), Max(x[i], z[i]))",
        XYZ,
    ),
    (
        "tiles",
        "O[i] = Max[j](A[i,j])",
        "T[i:4,a:5] = Max[b:4](A[i,4*a+b])\nO[i] = Max[a](T[i,a])",
        {"A": (4, 20)},
    ),
]
PIECEWISE = [
    (
        "negated condition",
        "O[i] = Piecewise((x[i], y[i] > 0), (z[i], True))",
        "O[i] = Piecewise((z[i], ~(y[i] > 0)), (x[i], True))",
        XYZ,
    ),
    (
        "opposite comparison",
        "O[i] = Piecewise((x[i], y[i] >= 1), (z[i], True))",
        "O[i] = Piecewise((z[i], y[i] < 1), (x[i], True))",
        XYZ,
    ),
    (
        "factor moved in",
        "O[i] = x[i]*Piecewise((y[i], z[i] > 0), (1, True))",
        "O[i] = Piecewise((x[i]*y[i], z[i] > 0), (x[i], True))",
        XYZ,
    ),
    (
        "summand moved in",
        "O[i] = x[i] + Piecewise((y[i], z[i] > 0), (0, True))",
        "O[i] = Piecewise((x[i] + y[i], z[i] > 0), (x[i], True))",
        XYZ,
    ),
    (
        "factor of a reduction",
        "O[i] = c[i]*Sum[j](Piecewise((A[i,j], A[i,j] > 0), (0, True)))",
        "O[i] = Sum[j](Piecewise((c[i]*A[i,j], A[i,j] > 0), (0, True)))",
        {"A": (40, 50), "c": (40,)},
    ),
    (
        "function moved in",
        "O[i] = exp(Piecewise((x[i], y[i] > 0), (z[i], True)))",
        "O[i] = Piecewise((exp(x[i]), y[i] > 0), (exp(z[i]), True))",
        XYZ,
    ),
    ("equal branches", "O[i] = Piecewise((x[i], y[i] > 0), (x[i], True))", "O[i] = x[i]", XY),
    ("ReLU", "O[i] = Piecewise((x[i], x[i] > 0), (0, True))", "O[i] = Max(x[i], 0)", XY),
    (
        "ReLU with equality",
        "O[i] = Piecewise((x[i], x[i] >= 0), (0, True))",
        "O[i] = Piecewise((x[i], x[i] > 0), (0, True))",
        XY,
    ),
    ("absolute value", "O[i] = Piecewise((x[i], x[i] > 0), (-x[i], True))", "O[i] = Abs(x[i])", XY),
    (
        "nested conditions",
        "O[i] = Piecewise((Piecewise((x[i], y[i] > 0), (0, True)), z[i] > 0), (0, True))",
        "O[i] = Piecewise((x[i], (y[i] > 0) & (z[i] > 0)), (0, True))",
        XYZ,
    ),
    (
        "De Morgan",
        "O[i] = Piecewise((x[i], (y[i] > 0) | (z[i] > 0)), (0, True))",
        "O[i] = Piecewise((0, (y[i] <= 0) & (z[i] <= 0)), (x[i], True))",
        XYZ,
    ),
    (
        "scaled condition",
        "O[i] = Piecewise((x[i], 2*y[i] > 6), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > 3), (0, True))",
        XY,
    ),
    (
        "conditions on indices",
        "O[i:9] = x[i]*Piecewise((2, i < 4), (3, True))",
        "O[i:9] = Piecewise((3*x[i], i >= 4), (2*x[i], True))",
        {"x": (9,)},
    ),
    (
        "product of masks",
        "O[i] = Piecewise((x[i], y[i] > 0), (0, True))*Piecewise((x[i], y[i] <= 0), (0, True))",
        "O[i:6] = 0",
        XY,
    ),
    (
        "implied condition",
        "O[i] = Piecewise((x[i], (y[i] > 0) & (y[i] > 2)), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > 2), (0, True))",
        XY,
    ),
]
EXP_AND_LOG = [
    (
        "exp of a sum",
        "O[i] = exp(x[i] + y[i])",
        "T[i] = exp(x[i])\nU[i] = exp(y[i])\nO[i] = T[i]*U[i]",
        XY,
    ),
    (
        "exp of a difference",
        "T[i] = exp(y[i])\nO[i] = exp(x[i])/T[i]",
        "O[i] = exp(x[i] - y[i])",
        XY,
    ),
    (
        "exp of a total",
        "O[i] = exp(Sum[j:3](A[i,j]))",
        "O[i] = exp(A[i,0])*exp(A[i,1])*exp(A[i,2])",
        {"A": (4, 3)},
    ),
    ("log of exp", "T[i] = exp(x[i] + y[i])\nO[i] = log(T[i])", "O[i] = x[i] + y[i]", XY),
    (
        "log of a product",
        "T[i] = exp(x[i])\nO[i] = log(T[i]*(1 + y[i]**2))",
        "O[i] = x[i] + log(1 + y[i]**2)",
        XY,
    ),
    ("log of a square", "O[i] = log(x[i]**2)", "O[i] = 2*log(Abs(x[i]))", XY),
    (
        "log-sum-exp shifted",
        "M[i] = Max[j](A[i,j])\nO[i] = M[i] + log(Sum[j](exp(A[i,j] - M[i])))",
        "O[i] = log(Sum[j](exp(A[i,j])))",
        {"A": (16, 100)},
    ),
    (
        "log-sum-exp in two parts",
        "O[i] = log(Sum[j](exp(A[i,j])))",
        "T[i] = log(Sum[j:4](exp(A[i,j])))\nU[i] = log(Sum[j:4:10](exp(A[i,j])))\nO[i] = log(exp(T[i]) + exp(U[i]))",
        {"A": (5, 10)},
    ),
    (
        "softmax shifted",
        "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j]/Sum[k:7](E[i,k])",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7)},
    ),
    (
        "long softmax shifted",
        "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j]/Sum[k:512](E[i,k])",
        "O[i,j] = exp(S[i,j])/Sum[k:512](exp(S[i,k]))",
        {"S": (128, 512)},
    ),
    (
        "softmax shifted by anything",
        "O[i,j] = exp(S[i,j] - c[i])/Sum[k:7](exp(S[i,k] - c[i]))",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7), "c": (5,)},
    ),
    (
        "log-softmax",
        "O[i,j] = log(exp(S[i,j])/Sum[k:6](exp(S[i,k])))",
        "O[i,j] = S[i,j] - log(Sum[k:6](exp(S[i,k])))",
        {"S": (5, 6)},
    ),
    ("sigmoid", "O[i] = 1/(1 + exp(-x[i]))", "O[i] = exp(x[i])/(exp(x[i]) + 1)", XY),
    ("sigmoid by tanh", "O[i] = 1/(1 + exp(-x[i]))", "O[i] = (1 + tanh(x[i]/2))/2", XY),
    ("sigmoid of the opposite", "O[i] = 1 - 1/(1 + exp(-x[i]))", "O[i] = 1/(1 + exp(x[i]))", XY),
    (
        "tanh by exp",
        "O[i] = tanh(x[i])",
        "O[i] = (exp(x[i]) - exp(-x[i]))/(exp(x[i]) + exp(-x[i]))",
        XY,
    ),
    ("tanh by sigmoid", "O[i] = tanh(x[i])", "O[i] = 2/(1 + exp(-2*x[i])) - 1", XY),
    ("tanh is odd", "O[i] = tanh(-x[i] - y[i])", "O[i] = -tanh(x[i] + y[i])", XY),
    ("softplus", "O[i] = log(1 + exp(x[i]))", "O[i] = x[i] + log(1 + exp(-x[i]))", XY),
    (
        "stable softplus",
        "O[i] = Max(x[i], 0) + log(1 + exp(-Abs(x[i])))",
        "O[i] = log(1 + exp(x[i]))",
        XY,
    ),
    ("softplus difference", "O[i] = log(1 + exp(x[i])) - log(1 + exp(-x[i]))", "O[i] = x[i]", XY),
    ("swish", "O[i] = x[i]/(1 + exp(-x[i]))", "O[i] = x[i]*(1 + tanh(x[i]/2))/2", XY),
    (
        "exp of a maximum",
        "O[i] = exp(Max[j](A[i,j]))",
        "O[i] = Max[j](exp(A[i,j]))",
        {"A": (5, 300)},
    ),
    (
        "exp of a maximum of two",
        "O[i] = exp(Max(x[i], y[i]))",
        "O[i] = Max(exp(x[i]), exp(y[i]))",
        XY,
    ),
    ("tanh of a minimum", "O[i] = tanh(Min(x[i], y[i]))", "O[i] = Min(tanh(x[i]), tanh(y[i]))", XY),
    (
        "sigmoid of a maximum",
        "O[i] = 1/(1 + exp(-Max[j](A[i,j])))",
        "O[i] = Max[j](1/(1 + exp(-A[i,j])))",
        {"A": (5, 6)},
    ),
    ("erf is odd", "O[i] = erf(-x[i])", "O[i] = -erf(x[i])", XY),
    (
        "exp of the opposite maximum",
        "O[i] = exp(-Max[j](A[i,j]))",
        "O[i] = Min[j](exp(-A[i,j]))",
        {"A": (5, 6)},
    ),
    ("cosh", "O[i] = (exp(x[i])**2 + 1)/(2*exp(x[i]))", "O[i] = cosh(x[i])", XY),
    ("power by exp", "O[i] = exp(3*log(1 + x[i]**2))", "O[i] = (1 + x[i]**2)**3", XY),
]
SV = {"S": (4, 6), "V": (6, 3)}
QKV = {"Q": (4, 2), "K": (6, 2), "V": (6, 3)}
SAFE = "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nD[i] = Sum[j](E[i,j])\n"
PLAIN = "O[i,d] = Sum[j](exp(S[i,j])*V[j,d])/Sum[j](exp(S[i,j]))"
ATTENTION = [
    ("shift", SAFE + "O[i,d] = Sum[j](E[i,j]*V[j,d])/D[i]", PLAIN, SV),
    (
        "shift at size",
        SAFE + "O[i,d] = Sum[j](E[i,j]*V[j,d])/D[i]",
        PLAIN,
        {"S": (64, 256), "V": (256, 64)},
    ),
    (
        "division before the product",
        SAFE + "P[i,j] = E[i,j]/D[i]\nO[i,d] = Sum[j](P[i,j]*V[j,d])",
        PLAIN,
        SV,
    ),
    (
        "scores of queries",
        "S[i,j] = Sum[c](Q[i,c]*K[j,c])\n" + SAFE + "O[i,d] = Sum[j](E[i,j]*V[j,d])/D[i]",
        "O[i,d] = Sum[j](exp(Sum[c](Q[i,c]*K[j,c]))*V[j,d])/Sum[j](exp(Sum[c](Q[i,c]*K[j,c])))",
        QKV,
    ),
    (
        "scaled queries",
        "O[i,j] = exp(Sum[c](Q[i,c]*K[j,c])/4)",
        "P[i,c] = Q[i,c]/4\nO[i,j] = exp(Sum[c](P[i,c]*K[j,c]))",
        {"Q": (4, 2), "K": (6, 2)},
    ),
    (
        "online rescaling",
        "M[i] = Max[j:3](S[i,j])\nP[i] = Max(M[i], Max[j:3:6](S[i,j]))\nO[i] = exp(M[i] - P[i])*Sum[j:3](exp(S[i,j] - M[i])) + Sum[j:3:6](exp(S[i,j] - P[i]))",
        "M[i] = Max[j](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        {"S": (4, 6)},
    ),
    (
        "online rescaling at size",
        "M[i] = Max[j:128](S[i,j])\nP[i] = Max(M[i], Max[j:128:256](S[i,j]))\nO[i] = exp(M[i] - P[i])*Sum[j:128](exp(S[i,j] - M[i])) + Sum[j:128:256](exp(S[i,j] - P[i]))",
        "M[i] = Max[j](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        {"S": (64, 256)},
    ),
    (
        "two blocks",
        "M[i] = Max[j:3](S[i,j])\nN[i] = Max[j:3:6](S[i,j])\nP[i] = Max(M[i], N[i])\na[i] = exp(M[i] - P[i])\nb[i] = exp(N[i] - P[i])\nD[i] = a[i]*Sum[j:3](exp(S[i,j] - M[i])) + b[i]*Sum[j:3:6](exp(S[i,j] - N[i]))\nO[i,d] = (a[i]*Sum[j:3](exp(S[i,j] - M[i])*V[j,d]) + b[i]*Sum[j:3:6](exp(S[i,j] - N[i])*V[j,d]))/D[i]",
        PLAIN,
        SV,
    ),
    (
        "two blocks by log-sum-exp",
        "A[i] = log(Sum[j:2](exp(S[i,j])))\nB[i] = log(Sum[j:2:6](exp(S[i,j])))\nU[i,d] = Sum[j:2](exp(S[i,j] - A[i])*V[j,d])\nW[i,d] = Sum[j:2:6](exp(S[i,j] - B[i])*V[j,d])\nO[i,d] = (exp(A[i])*U[i,d] + exp(B[i])*W[i,d])/(exp(A[i]) + exp(B[i]))",
        PLAIN,
        SV,
    ),
    (
        "two blocks by sigmoid",
        "A[i] = log(Sum[j:2](exp(S[i,j])))\nB[i] = log(Sum[j:2:6](exp(S[i,j])))\nU[i,d] = Sum[j:2](exp(S[i,j] - A[i])*V[j,d])\nW[i,d] = Sum[j:2:6](exp(S[i,j] - B[i])*V[j,d])\ng[i] = 1/(1 + exp(B[i] - A[i]))\nO[i,d] = g[i]*U[i,d] + (1 - g[i])*W[i,d]",
        PLAIN,
        SV,
    ),
]
RATIONAL = [
    (
        "total of fractions",
        "O[i] = Sum[j](1/(1 + A[i,j]))",
        "O[i] = Sum[j](1 - A[i,j]/(1 + A[i,j]))",
        {"A": (3, 40)},
    ),
    ("common denominator", "O[i] = x[i]/y[i] + z[i]/y[i]", "O[i] = (x[i] + z[i])/y[i]", XYZ),
    ("different denominators", "O[i] = 1/x[i] + 1/y[i]", "O[i] = (x[i] + y[i])/(x[i]*y[i])", XY),
    (
        "sums as denominators",
        "O[i] = x[i]/(y[i] + 1) + y[i]/(x[i] + 1)",
        "O[i] = (x[i]*(x[i] + 1) + y[i]*(y[i] + 1))/((x[i] + 1)*(y[i] + 1))",
        XY,
    ),
    (
        "a total over itself",
        "T[i] = Sum[j](A[i,j])\nU[i] = Sum[j](2*A[i,j])\nO[i] = U[i]/T[i]",
        "O[i:5] = 2",
        {"A": (5, 6)},
    ),
    (
        "normalised rows have total 1",
        "P[i,j] = A[i,j]/Sum[k:6](A[i,k])\nO[i] = Sum[j](P[i,j])*x[i]",
        "O[i] = x[i]",
        {"A": (5, 6), "x": (5,)},
    ),
    (
        "scaled total",
        "O[i,j] = 2*A[i,j]/Sum[k:6](2*A[i,k])",
        "O[i,j] = A[i,j]/Sum[k:6](A[i,k])",
        {"A": (5, 6)},
    ),
    ("mean", "O[i] = Sum[j](A[i,j]/6)", "O[i] = Sum[j](A[i,j])/6", {"A": (5, 6)}),
    (
        "division of a total",
        "O[i] = Sum[j](A[i,j]/(1 + b[i]))",
        "O[i] = Sum[j](A[i,j])/(1 + b[i])",
        {"A": (50, 60), "b": (50,)},
    ),
    ("nested fractions", "O[i] = 1/(1 + 1/x[i])", "O[i] = x[i]/(x[i] + 1)", XY),
    ("partial fractions", "O[i] = 1/(x[i]*(x[i] + 1))", "O[i] = 1/x[i] - 1/(x[i] + 1)", XY),
    ("difference of squares", "O[i] = (x[i]**2 - y[i]**2)/(x[i] - y[i])", "O[i] = x[i] + y[i]", XY),
    (
        "weighted mean in two parts",
        "D[i] = Sum[j:3](w[j])\nE[i] = Sum[j:3:6](w[j])\nO[i:4] = (D[i]*(Sum[j:3](w[j]*A[i,j])/D[i]) + E[i]*(Sum[j:3:6](w[j]*A[i,j])/E[i]))/(D[i] + E[i])".replace(
            "D[i] =", "D[i:4] ="
        ).replace("E[i] =", "E[i:4] ="),
        "O[i] = Sum[j](w[j]*A[i,j])/Sum[j:6](w[j])",
        {"A": (4, 6), "w": (6,)},
    ),
]
NORMS = [
    (
        "scale",
        "O[i] = 2*x[i]/sqrt(Sum[j:6](4*x[j]**2))",
        "O[i] = x[i]/sqrt(Sum[j:6](x[j]**2))",
        {"x": (6,)},
    ),
    (
        "scale by exp",
        "T[i,j] = exp(c[i])*A[i,j]\nO[i,j] = T[i,j]/sqrt(Sum[k:6](T[i,k]**2))",
        "O[i,j] = A[i,j]/sqrt(Sum[k:6](A[i,k]**2))",
        {"A": (4, 6), "c": (4,)},
    ),
    (
        "scale by an absolute value",
        "O[i] = sqrt(Sum[j](c[i]**2*A[i,j]**2))",
        "O[i] = Abs(c[i])*sqrt(Sum[j](A[i,j]**2))",
        {"A": (40, 60), "c": (40,)},
    ),
    (
        "cosine",
        "O[i] = Sum[j](3*A[i,j]*5*B[i,j])/(sqrt(Sum[j](9*A[i,j]**2))*sqrt(Sum[j](25*B[i,j]**2)))",
        "O[i] = Sum[j](A[i,j]*B[i,j])/(sqrt(Sum[j](A[i,j]**2))*sqrt(Sum[j](B[i,j]**2)))",
        {"A": (4, 6), "B": (4, 6)},
    ),
    (
        "cosine by one root",
        "O[i] = Sum[j](A[i,j]*B[i,j])/sqrt(Sum[j](A[i,j]**2)*Sum[j](B[i,j]**2))",
        "O[i] = Sum[j](A[i,j]*B[i,j])/(sqrt(Sum[j](A[i,j]**2))*sqrt(Sum[j](B[i,j]**2)))",
        {"A": (4, 6), "B": (4, 6)},
    ),
    (
        "cosine of unit rows",
        "P[i,j] = A[i,j]/sqrt(Sum[k:6](A[i,k]**2))\nR[i,j] = B[i,j]/sqrt(Sum[k:6](B[i,k]**2))\nO[i] = Sum[j](P[i,j]*R[i,j])",
        "O[i] = Sum[j](A[i,j]*B[i,j])/(sqrt(Sum[j](A[i,j]**2))*sqrt(Sum[j](B[i,j]**2)))",
        {"A": (4, 6), "B": (4, 6)},
    ),
    (
        "square of a norm",
        "O[i] = sqrt(Sum[j](A[i,j]**2))**2",
        "O[i] = Sum[j](A[i,j]**2)",
        {"A": (4, 6)},
    ),
    (
        "norm of a unit row",
        "P[i,j] = A[i,j]/sqrt(Sum[k:6](A[i,k]**2))\nO[i] = x[i]*Sum[j](P[i,j]**2)",
        "O[i] = x[i]",
        {"A": (4, 6), "x": (4,)},
    ),
    (
        "variance",
        "M[i] = Sum[j](A[i,j])/6\nO[i] = Sum[j]((A[i,j] - M[i])**2)/6",
        "O[i] = Sum[j](A[i,j]**2)/6 - (Sum[j](A[i,j])/6)**2",
        {"A": (4, 6)},
    ),
    (
        "layer norm of shifted rows",
        "B[i,j] = A[i,j] + c[i]\nM[i] = Sum[j](B[i,j])/5\nO[i,j] = (B[i,j] - M[i])/sqrt(Sum[k:5]((B[i,k] - M[i])**2)/5 + 1/1000)",
        "M[i] = Sum[j](A[i,j])/5\nO[i,j] = (A[i,j] - M[i])/sqrt(Sum[k:5]((A[i,k] - M[i])**2)/5 + 1/1000)",
        {"A": (4, 5), "c": (4,)},
    ),
    (
        "RMS norm by totals",
        "O[i,j] = A[i,j]/sqrt(Sum[k:6](A[i,k]**2)/6 + 1/10)",
        "O[i,j] = A[i,j]*sqrt(6)/sqrt(Sum[k:6](A[i,k]**2) + 6/10)",
        {"A": (4, 6)},
    ),
    ("L1 norm", "O[i] = Sum[j](Abs(-3*A[i,j]))", "O[i] = 3*Sum[j](Abs(A[i,j]))", {"A": (4, 600)}),
    (
        "largest norm",
        "O[i] = Max[j](Abs(c[i]*A[i,j]))",
        "O[i] = Abs(c[i])*Max[j](Abs(A[i,j]))",
        {"A": (4, 6), "c": (4,)},
    ),
]
X = {"x": (9,)}
INDICES = [
    ("square of a successor", "O[i:9] = (i+1)**2*x[i]", "O[i:9] = (i**2 + 2*i + 1)*x[i]", X),
    ("product of neighbours", "O[i:9] = i*(i-1)*x[i]", "O[i:9] = (i**2 - i)*x[i]", X),
    ("triangular numbers", "O[i:9] = x[i]*Sum[k:9](k, where=k <= i)", "O[i:9] = x[i]*i*(i+1)/2", X),
    ("total of indices", "O[i:9] = x[i]*Sum[k:10](k)", "O[i:9] = 45*x[i]", X),
    ("total of squares", "O[i:9] = x[i]*Sum[k:10](k**2)", "O[i:9] = 285*x[i]", X),
    ("half of an index shifted", "O[i:9] = x[i]*((i+2)//2)", "O[i:9] = x[i]*(i//2 + 1)", X),
    ("half and remainder", "O[i:9] = x[i]*(2*(i//2) + i%2)", "O[i:9] = x[i]*i", X),
    ("parity squared", "O[i:9] = x[i]*(i%2)**2", "O[i:9] = x[i]*(i%2)", X),
    ("half of the square", "O[i:9] = x[i]*(i//2)*2", "O[i:9] = x[i]*(i - i%2)", X),
    (
        "weighted total",
        "O[i] = Sum[j](A[i,j]*(j+1)**2)",
        "O[i] = Sum[j](A[i,j]*j**2) + 2*Sum[j](A[i,j]*j) + Sum[j](A[i,j])",
        {"A": (40, 70)},
    ),
    ("cube", "O[i:9] = x[i]*(i-2)**3", "O[i:9] = x[i]*(i**3 - 6*i**2 + 12*i - 8)", X),
    ("geometric", "O[i:9] = x[i]*2**(i+1)", "O[i:9] = 2*x[i]*2**i", X),
    ("shifted half", "O[i:9] = x[i]*(i/2 + 1)", "O[i:9] = x[i]*(i + 2)/2", X),
]
PRODUCTS = [
    ("scale", "O[i] = Prod[j](3*A[i,j])", "O[i] = 81*Prod[j](A[i,j])", {"A": (3, 4)}),
    (
        "scale by an element",
        "O[i] = Prod[j](c[i]*A[i,j])",
        "O[i] = c[i]**4*Prod[j](A[i,j])",
        {"A": (3, 4), "c": (3,)},
    ),
    (
        "split",
        "O[i] = Prod[j](A[i,j])",
        "O[i] = Prod[j:3](A[i,j])*Prod[j:3:8](A[i,j])",
        {"A": (3, 8)},
    ),
    (
        "split at size",
        "O[i] = Prod[j](A[i,j])",
        "O[i] = Prod[j:300](A[i,j])*Prod[j:300:800](A[i,j])",
        {"A": (3, 800)},
    ),
    (
        "unroll",
        "O[i] = Prod[j](A[i,j])",
        "O[i] = A[i,0]*A[i,1]*A[i,2]*A[i,3]*A[i,4]",
        {"A": (3, 5)},
    ),
    (
        "product of two",
        "O[i] = Prod[j](A[i,j]*B[i,j])",
        "O[i] = Prod[j](A[i,j])*Prod[j](B[i,j])",
        {"A": (30, 50), "B": (30, 50)},
    ),
    ("power", "O[i] = Prod[j](A[i,j]**2)", "O[i] = Prod[j](A[i,j])**2", {"A": (3, 5)}),
    (
        "quotient",
        "O[i] = Prod[j](A[i,j]/B[i,j])",
        "O[i] = Prod[j](A[i,j])/Prod[j](B[i,j])",
        {"A": (3, 5), "B": (3, 5)},
    ),
    ("exp", "O[i] = Prod[j](exp(A[i,j]))", "O[i] = exp(Sum[j](A[i,j]))", {"A": (3, 500)}),
    ("absolute value", "O[i] = Abs(Prod[j](A[i,j]))", "O[i] = Prod[j](Abs(A[i,j]))", {"A": (3, 4)}),
    (
        "order of reductions",
        "O[i] = Prod[j](Prod[k](A[i,j,k]))",
        "O[i] = Prod[k](Prod[j](A[i,j,k]))",
        {"A": (3, 2, 4)},
    ),
    (
        "shift by one",
        "O[i] = Prod[j:4](A[i,j+1])*A[i,0]",
        "O[i] = Prod[j:5](A[i,j])",
        {"A": (3, 5)},
    ),
]
RELU_FIRST = "R[i] = Max(x[i], 0)\n"
RELU = [
    (
        "maximum pooling",
        RELU_FIRST + "O[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        "O[i:8] = Max[r:3](Max(x.pad(1)[i+r-1], 0))",
        {"x": (8,)},
    ),
    (
        "zeros in the place of -inf",
        RELU_FIRST + "O[i:8] = Max[r:3](R.pad(1, fill=-inf)[i+r-1])",
        RELU_FIRST + "O[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        {"x": (8,)},
    ),
    (
        "ReLU after pooling",
        "M[i:8] = Max[r:3](x.pad(1, fill=-inf)[i+r-1])\nO[i] = Max(M[i], 0)",
        RELU_FIRST + "O[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        {"x": (8,)},
    ),
    (
        "two axes",
        "R[i,j] = Max(A[i,j], 0)\nO[i:4,j:4] = Max[r:3,s:3](R.pad(1,1)[i+r-1,j+s-1])",
        "O[i:4,j:4] = Max(Max[r:3,s:3](A.pad(1,1)[i+r-1,j+s-1]), 0)",
        {"A": (4, 4)},
    ),
    (
        "total of a window",
        RELU_FIRST + "O[i:8] = Sum[r:3](R.pad(1)[i+r-1])",
        "O[i:8] = Sum[r:3](Max(x.pad(1)[i+r-1], 0))",
        {"x": (8,)},
    ),
    (
        "convolution",
        RELU_FIRST + "O[i:50] = Sum[r:3](R.pad(1)[i+r-1]*w[r])",
        "O[i:50] = Sum[r:3](Max(x.pad(1)[i+r-1], 0)*w[r])",
        {"x": (50,), "w": (3,)},
    ),
    (
        "asymmetric padding",
        RELU_FIRST + "O[i:7] = Max[r:4](R.pad((2,1))[i+r-2])",
        "O[i:7] = Max[r:4](Max(x.pad((2,1))[i+r-2], 0))",
        {"x": (7,)},
    ),
    (
        "average by absolute values",
        RELU_FIRST + "O[i:6] = Sum[r:2](R.pad((0,1))[i+r])/2",
        "O[i:6] = Sum[r:2](x.pad((0,1))[i+r] + Abs(x.pad((0,1))[i+r]))/4",
        {"x": (6,)},
    ),
]
MANY_FACTORS = [
    (
        "four in another order",
        "O[i:6] = x[i]*x[i+1]*x[i+2]*x[i+3]",
        "O[i:6] = x[i+2]*x[i]*x[i+3]*x[i+1]",
        {"x": (9,)},
    ),
    (
        "five in two statements",
        "O[i:5] = x[i]*x[i+1]*x[i+2]*x[i+3]*x[i+4]",
        "T[i:8] = x[i]*x[i+1]\nO[i:5] = T[i]*T[i+2]*x[i+4]",
        {"x": (9,)},
    ),
    (
        "fourth power of a total",
        "O[i] = Sum[j](A[i,j])**4",
        "T[i] = Sum[j,k](A[i,j]*A[i,k])\nO[i] = T[i]**2",
        {"A": (3, 5)},
    ),
    (
        "four totals",
        "O[i] = Sum[j](A[i,j])**4",
        "O[i] = Sum[j,k,l,m](A[i,j]*A[i,k]*A[i,l]*A[i,m])",
        {"A": (20, 30)},
    ),
    (
        "binomial",
        "O[i] = (x[i] + x[1])**4",
        "O[i] = x[i]**4 + 4*x[i]**3*x[1] + 6*x[i]**2*x[1]**2 + 4*x[i]*x[1]**3 + x[1]**4",
        {"x": (5,)},
    ),
    (
        "determinant of a product",
        "O[i:1] = (A[0,0]*A[1,1] - A[0,1]*A[1,0])**2",
        "O[i:1] = A[0,0]**2*A[1,1]**2 - 2*A[0,0]*A[1,1]*A[0,1]*A[1,0] + A[0,1]**2*A[1,0]**2",
        {"A": (2, 2)},
    ),
    (
        "chain of products",
        "O[i,j] = Sum[k,l,m](A[i,k]*A[k,l]*A[l,m]*A[m,j])",
        "T[i,j] = Sum[k](A[i,k]*A[k,j])\nO[i,j] = Sum[k](T[i,k]*T[k,j])",
        {"A": (3, 3)},
    ),
    (
        "trace of a cycle",
        "O[i:2] = Sum[a:3,b:3,c:3,d:3](A[a,b]*A[b,c]*A[c,d]*A[d,a])",
        "O[i:2] = Sum[a:3,b:3,c:3,d:3](A[b,c]*A[c,d]*A[d,a]*A[a,b])",
        {"A": (3, 3)},
    ),
]
CAUSAL = "S[i:6,j:6] = Piecewise((A[i,j], j <= i), (-inf, True))\n"
MASKS = [
    (
        "exp of a masked score",
        CAUSAL + "O[i,j] = exp(S[i,j])",
        "O[i:6,j:6] = Piecewise((exp(A[i,j]), j <= i), (0, True))",
        {"A": (6, 6)},
    ),
    (
        "masked total",
        CAUSAL + "O[i] = Sum[j](exp(S[i,j]))",
        "O[i:6] = Sum[j:6](exp(A[i,j]), where=j <= i)",
        {"A": (6, 6)},
    ),
    (
        "masked softmax",
        CAUSAL + "O[i,j] = exp(S[i,j])/Sum[k:6](exp(S[i,k]))",
        "E[i:6,j:6] = Piecewise((exp(A[i,j]), j <= i), (0, True))\nO[i,j] = E[i,j]/Sum[k:6](E[i,k])",
        {"A": (6, 6)},
    ),
    (
        "shifted masked softmax",
        CAUSAL
        + "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j]/Sum[k:6](E[i,k])",
        "E[i:6,j:6] = Piecewise((exp(A[i,j]), j <= i), (0, True))\nO[i,j] = E[i,j]/Sum[k:6](E[i,k])",
        {"A": (6, 6)},
    ),
    (
        "masked maximum",
        CAUSAL + "O[i] = Max[j](S[i,j])",
        "O[i:6] = Max[j:6](A[i,j], where=j <= i)",
        {"A": (6, 6)},
    ),
    (
        "masked attention",
        CAUSAL + "O[i,d] = Sum[j](exp(S[i,j])*V[j,d])/Sum[j](exp(S[i,j]))",
        "O[i:6,d:2] = Sum[j:6](exp(A[i,j])*V[j,d], where=j <= i)/Sum[j:6](exp(A[i,j]), where=j <= i)",
        {"A": (6, 6), "V": (6, 2)},
    ),
    (
        "a mask that is a tensor",
        "S[i,j] = Piecewise((A[i,j], M[i,j] > 1/2), (-inf, True))\nO[i,j] = exp(S[i,j])/Sum[k:5](exp(S[i,k]))",
        "E[i,j] = Piecewise((exp(A[i,j]), M[i,j] > 1/2), (0, True))\nO[i,j] = E[i,j]/Sum[k:5](E[i,k])",
        {"A": (4, 5), "M": (4, 5)},
    ),
    (
        "maximum with a mask",
        "O[i] = Max[j](Piecewise((A[i,j], M[i,j] > 0), (-inf, True)))",
        "O[i] = Max[j](Piecewise((-inf, M[i,j] <= 0), (A[i,j], True)))",
        {"A": (4, 50), "M": (4, 50)},
    ),
    (
        "a band",
        "S[i:20,j:20] = Piecewise((A[i,j], (j <= i) & (j >= i - 3)), (-inf, True))\nO[i] = Sum[j](exp(S[i,j]))",
        "O[i:20] = Sum[j:20](exp(A[i,j]), where=(j <= i, j >= i-3))",
        {"A": (20, 20)},
    ),
    (
        "padded keys",
        "S[i:4,j:8] = Piecewise((A[i,j], j < 6), (-inf, True))\nO[i] = log(Sum[j](exp(S[i,j])))",
        "O[i:4] = log(Sum[j:6](exp(A[i,j])))",
        {"A": (4, 8)},
    ),
]


def lstm(steps: int, by_tanh: bool) -> str:
    """Return the text of an LSTM of so many steps, its sigmoids by exp or by tanh."""
    lines = []
    for t in range(steps):
        for gate in "ifgo":
            lines.append(
                f"z{gate}{t}[n:2] = Sum[k:3](W{gate}[n,k]*x[{t},k]) + Sum[m:2](U{gate}[n,m]*h{t}[m])"
            )
        for gate in "ifo":
            value = f"1/(1 + exp(-z{gate}{t}[n]))"
            if by_tanh:
                value = f"1/2 + tanh(z{gate}{t}[n]/2)/2"
            lines.append(f"{gate}{t}[n:2] = {value}")
        lines.append(f"c{t + 1}[n:2] = f{t}[n]*c{t}[n] + i{t}[n]*tanh(zg{t}[n])")
        lines.append(f"h{t + 1}[n:2] = o{t}[n]*tanh(c{t + 1}[n])")
    return "\n".join(lines)


def lstm_shapes(steps: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs of `lstm`."""
    shapes: dict[str, tuple[int, ...]] = {"x": (steps, 3), "h0": (2,), "c0": (2,)}
    for gate in "ifgo":
        shapes[f"W{gate}"] = (2, 3)
        shapes[f"U{gate}"] = (2, 2)
    return shapes


def running(steps: int, by_exp: bool) -> str:
    """Return the text of a softmax total that is rescaled step by step, or by sums of exp."""
    if by_exp:
        return f"O[i:3] = log(Sum[j:{steps}](exp(S[i,j])))"
    lines = ["m0[i] = S[i,0]", "d0[i:3] = 1"]
    for t in range(1, steps):
        lines.append(f"m{t}[i] = Max(m{t - 1}[i], S[i,{t}])")
        lines.append(f"d{t}[i] = d{t - 1}[i]*exp(m{t - 1}[i] - m{t}[i]) + exp(S[i,{t}] - m{t}[i])")
    return "\n".join([*lines, f"O[i] = m{steps - 1}[i] + log(d{steps - 1}[i])"])


RECURRENCE = [
    *((f"LSTM of {n} steps", lstm(n, False), lstm(n, True), lstm_shapes(n)) for n in (1, 2, 5, 12)),
    *(
        (f"running softmax of {n} steps", running(n, False), running(n, True), {"S": (3, n)})
        for n in (2, 4)
    ),
]
ROOTS = [
    (
        "root of a product",
        "T[i] = 1 + x[i]**2\nU[i] = 2 + y[i]\nO[i] = sqrt(T[i]*U[i])",
        "O[i] = sqrt(1 + x[i]**2)*sqrt(2 + y[i])",
        XY,
    ),
    (
        "root of even powers",
        "T[i] = 1 + x[i]\nU[i] = exp(y[i])\nO[i] = sqrt(T[i]**2*U[i]*z[i])",
        "O[i] = Abs(1 + x[i])*exp(y[i]/2)*sqrt(z[i])",
        XYZ,
    ),
    (
        "root of a choice",
        "O[i] = exp(x[i] + sqrt(Piecewise((1 + x[i]**2, y[i] > 0), (0, True))))",
        "O[i] = exp(x[i])*Piecewise((exp(sqrt(1 + x[i]**2)), y[i] > 0), (1, True))",
        XY,
    ),
    (
        "inverse of a root",
        "T[i] = sqrt(x[i]*y[i])\nO[i] = 1/(T[i]*T[i]*T[i])",
        "T[i] = sqrt(x[i]*y[i])\nO[i] = T[i]/(x[i]*y[i])**2",
        XY,
    ),
]
ABSOLUTE_VALUES = [
    (
        "a positive factor",
        "T[i] = exp(x[i])*y[i]\nO[i] = Abs(T[i])",
        "O[i] = exp(x[i])*Abs(y[i])",
        XY,
    ),
    (
        "a quotient",
        "T[i] = y[i]/(1 + x[i])\nO[i] = Abs(T[i])",
        "O[i] = Abs(y[i])/Abs(1 + x[i])",
        XY,
    ),
    (
        "a bounded function",
        "T[i] = cos(x[i])**2 - 3\nU[i] = 2 - cos(y[i])**2\nO[i] = exp(Abs(T[i]) + Abs(U[i]))",
        "O[i] = exp(3 - cos(x[i])**2)*exp(2 - cos(y[i])**2)",
        XY,
    ),
    (
        "the opposite of a sum with roots",
        "T[i] = y[i]*sqrt(1 + x[i]**2) + z[i]\nO[i] = Abs(T[i])",
        "T[i] = -z[i] - y[i]*sqrt(1 + x[i]**2)\nO[i] = Abs(T[i])",
        XYZ,
    ),
]
ANGLES = [
    (
        "many angles",
        "T[i] = -9*x[i] - 8*y[i]\nO[i] = sin(T[i]) + cos(T[i])",
        "O[i] = cos(9*x[i] + 8*y[i]) - sin(9*x[i] + 8*y[i])",
        XY,
    ),
    (
        "sine of a difference",
        "O[i] = sin(x[i] - y[i])",
        "O[i] = sin(x[i])*cos(y[i]) - cos(x[i])*sin(y[i])",
        XY,
    ),
    ("a quarter turn", "T[i] = x[i] + pi/2\nO[i] = sin(T[i])", "O[i] = cos(x[i])", XY),
    ("half a turn", "T[i] = x[i] - pi\nO[i] = cos(T[i])", "O[i] = -cos(x[i])", XY),
]
LOGARITHMS = [
    (
        "a factor of even power",
        "T[i] = x[i]**2*(1 + y[i]**2)\nO[i] = log(T[i])",
        "O[i] = 2*log(Abs(x[i])) + log(1 + y[i]**2)",
        XY,
    ),
    (
        "a factor that is not negative",
        "T[i] = Abs(x[i])\nO[i] = log(T[i]*y[i])",
        "O[i] = log(Abs(x[i])) + log(y[i])",
        XY,
    ),
    (
        "a positive quotient",
        "T[i] = exp(x[i])/(1 + y[i]**2)\nO[i] = log(T[i])",
        "O[i] = x[i] - log(1 + y[i]**2)",
        XY,
    ),
    (
        "a maximum of logarithms",
        "O[i] = Max[j](log(1 + exp(A[i,j])))",
        "O[i] = log(1 + exp(Max[j](A[i,j])))",
        {"A": (4, 70)},
    ),
]
MONOTONE_FUNCTIONS = [
    (
        "root of a sum",
        "O[i] = Max[j](sqrt(1 + exp(A[i,j])))",
        "O[i] = sqrt(1 + exp(Max[j](A[i,j])))",
        {"A": (4, 6)},
    ),
    (
        "error function and arc tangent",
        "O[i] = Max[j](erf(A[i,j]) + c[i]**2*erf(A[i,j])) + Min[j](atan(A[i,j]))",
        "O[i] = (1 + c[i]**2)*erf(Max[j](A[i,j])) + atan(Min[j](A[i,j]))",
        {"A": (4, 6), "c": (4,)},
    ),
    (
        "area hyperbolic sine of a polynomial",
        "O[i] = Min[j](asinh(A[i,j] + A[i,j]**3))",
        "T[i] = Min[j](A[i,j])\nO[i] = asinh(T[i] + T[i]**3)",
        {"A": (4, 6)},
    ),
    (
        "in a comparison",
        "O[i] = Piecewise((x[i], erf(y[i]) > erf(z[i])), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (0, True))",
        XYZ,
    ),
    (
        "softsign",
        "O[i] = Max[j](A[i,j]/(1 + Abs(A[i,j])))",
        "M[i] = Max[j](A[i,j])\nO[i] = M[i]/(1 + Abs(M[i]))",
        {"A": (4, 6)},
    ),
    (
        "a value times its absolute value",
        "O[i] = Min(x[i]*Abs(x[i]), y[i]*Abs(y[i]), z[i]*Abs(z[i]))",
        "T[i] = Min(x[i], y[i], z[i])\nO[i] = T[i]*Abs(T[i])",
        XYZ,
    ),
    (
        "a sum with exp",
        "O[i] = Max[j](3*A[i,j] + exp(2*A[i,j]))",
        "M[i] = Max[j](A[i,j])\nO[i] = 3*M[i] + exp(M[i])**2",
        {"A": (4, 6)},
    ),
    (
        "a sum with exp in a comparison",
        "O[i] = Piecewise((x[i], y[i] + exp(y[i]) > z[i] + exp(z[i])), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (0, True))",
        XYZ,
    ),
]
ERROR_FUNCTIONS = [
    (
        "of a choice",
        "O[i] = erf(Piecewise((x[i], y[i] > 0), (0, True)))",
        "O[i] = Piecewise((erf(x[i]), y[i] > 0), (0, True))",
        XY,
    ),
    (
        "of the opposite",
        "T[i] = -3*x[i] - y[i]\nO[i] = erf(T[i])",
        "O[i] = -erf(3*x[i] + y[i])",
        XY,
    ),
    (
        "of an absolute value",
        "O[i] = erf(Abs(x[i])) + log(1 + Abs(x[i])**3)",
        "O[i] = Piecewise((erf(x[i]) + log(1 + Abs(x[i]**3)), x[i] > 0), (log(1 + Abs(x[i]**3)) - erf(x[i]), True))",
        XY,
    ),
    (
        "of a sine of an absolute value",
        "O[i] = atan(Abs(x[i])) + sin(Abs(x[i]))",
        "O[i] = sign(x[i])*(atan(x[i]) + sin(x[i]))",
        XY,
    ),
]
CONDITIONS = [
    (
        "not both",
        "O[i] = Piecewise((exp(x[i]), ~((y[i] > 0) & (z[i] > 0))), (0, True))",
        "O[i] = Piecewise((0, (y[i] > 0) & (z[i] > 0)), (exp(x[i]), True))",
        XYZ,
    ),
    (
        "a negative denominator",
        "O[i] = Piecewise((x[i], y[i]/(sin(z[i]) - 2) > 0), (0, True))",
        "O[i] = Piecewise((x[i], y[i] < 0), (0, True))",
        XYZ,
    ),
    (
        "a value that is 0",
        "T[i] = x[i] + x[i]*y[i] + z[i]\nO[i] = Piecewise((exp(x[i])*T[i], Eq(T[i], 0)), (0, True))",
        "O[i:5] = 0",
        XYZ,
    ),
    (
        "a root that never counts",
        "O[i] = Piecewise((exp(x[i])*Piecewise((sqrt(x[i]), y[i] > 0), (1, True)), y[i] <= 0), (x[i], True))",
        "O[i] = Piecewise((exp(x[i]), y[i] <= 0), (x[i], True))",
        XY,
    ),
]
INFINITIES = [
    (
        "a mask that is scaled",
        "M[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\nO[i] = exp((1 + z[i]**2)*M[i])",
        "O[i] = Piecewise((exp(x[i])*exp(x[i]*z[i]**2), y[i] > 0), (0, True))",
        XYZ,
    ),
    (
        "a mask that is compared",
        "M[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\nO[i] = Piecewise((1, M[i] > 3), (0, True))",
        "O[i] = Piecewise((1, (x[i] > 3) & (y[i] > 0)), (0, True))",
        XY,
    ),
    (
        "a mask of a minimum",
        "O[i:6] = Min[j:6](Piecewise((x[j], j <= i), (inf, True)))",
        "O[i:6] = -Max[j:6](-x[j], where=j <= i)",
        XY,
    ),
    (
        "a mask that leaves nothing",
        "O[i:6] = exp(Max[j:6](Piecewise((x[j], j > 10), (-inf, True))))",
        "O[i:6] = 0",
        XY,
    ),
]
RANGES_OF_MAXIMA = [
    (
        "three values by their order",
        "T[i] = Max(Min(x[i], y[i]), Min(y[i], z[i]), Min(x[i], z[i]))\nO[i] = exp(Max(x[i], y[i], z[i])) + exp(T[i]) + exp(Min(x[i], y[i], z[i]))",
        "O[i] = exp(x[i]) + exp(y[i]) + exp(z[i])",
        XYZ,
    ),
    (
        "four quarters",
        "T[()] = Max(Max[j:2,k:3](A[j,k]), Max[j:2:4,k:3:6](A[j,k]))\nO[()] = Max(T[()], Max[j:2,k:3:6](A[j,k]), Max[j:2:4,k:3](A[j,k]))",
        "O[()] = Max[j,k](A[j,k])",
        {"A": (4, 6)},
    ),
    (
        "a masked constant",
        "O[i] = Max[j](Piecewise((c[i], A[i,j] > 0), (-inf, True)))",
        "O[i] = c[i] + Max[j](Piecewise((0, A[i,j] > 0), (-inf, True)))",
        {"A": (4, 6), "c": (4,)},
    ),
    (
        "a part of a maximum",
        "O[i] = Max(Max[j:0](x[j]), exp(x[i]))",
        "O[i] = exp(x[i])",
        XY,
    ),
]
RANGES_OF_SUMS = [
    (
        "a triangle by rows and by columns",
        "O[()] = Sum[j:30](Sum[k:30](exp(x[j] + y[k]), where=k <= j))",
        "O[()] = Sum[k:30](Sum[j:30](exp(x[j])*exp(y[k]), where=j >= k))",
        {"x": (30,), "y": (30,)},
    ),
    (
        "a choice inside of a triangle",
        "O[()] = Sum[j:100](exp(x[j])*Sum[k:100](exp(Abs(c[()])*y[k]), where=k <= j))",
        "P[()] = Sum[j:100](exp(x[j])*Sum[k:100](exp(c[()]*y[k]), where=k <= j))\nN[()] = Sum[j:100](exp(x[j])*Sum[k:100](exp(-c[()]*y[k]), where=k <= j))\nO[()] = Piecewise((P[()], c[()] > 0), (N[()], True))",
        {"x": (100,), "y": (100,), "c": ()},
    ),
    (
        "a factor of powers and halves of an index",
        "O[i] = Sum[k:100](exp(x[i] + y[i])*(k//2)) + Sum[k:100](exp(x[i])*k**9)",
        "O[i] = exp(x[i])*(exp(y[i])*Sum[k:100](k//2) + Sum[k:100](k**9))",
        XY,
    ),
    (
        "no points and few points",
        "O[i] = exp(x[i])*exp(Sum[j:0](x[j]))*Prod[j:0](x[j])*Sum[j:3](x[i]**(j - 2))",
        "O[i] = exp(x[i])*(1 + 1/x[i] + 1/x[i]**2)",
        XY,
    ),
]
INTEGERS = {name: ea.tensor(name, (5,), "i32") for name in "nm"}
ROUNDED_NUMBERS = [
    (
        "an integer beside a real number",
        "O[i] = floor(x[i] + 3*n[i]*m[i] - 7)",
        "O[i] = floor(x[i]) + 3*n[i]*m[i] - 7",
        {**XYZ, **INTEGERS},
    ),
    ("rounding up", "O[i] = ceiling(x[i] - y[i])", "O[i] = -floor(y[i] - x[i])", XYZ),
    (
        "rounding twice",
        "O[i] = floor((floor(x[i]/4) + n[i])/5)",
        "O[i] = floor((x[i] + 4*n[i])/20)",
        {**XYZ, **INTEGERS},
    ),
    ("two halves", "O[i] = floor(n[i]/2) + floor((n[i] + 1)/2)", "O[i] = n[i]", INTEGERS),
    (
        "up by down",
        "O[i] = ceiling((2*n[i] + m[i])/6)",
        "O[i] = floor((2*n[i] + m[i] + 5)/6)",
        INTEGERS,
    ),
    ("remainder", "O[i] = Mod(n[i], 6)", "O[i] = n[i] - 6*floor(n[i]/6)", INTEGERS),
    ("remainder of a multiple", "O[i] = Mod(6*n[i], 15)", "O[i] = 3*Mod(2*n[i], 5)", INTEGERS),
    ("remainder of a remainder", "O[i] = Mod(Mod(n[i], 12), 4)", "O[i] = Mod(n[i], 4)", INTEGERS),
    (
        "remainder of a product",
        "O[i] = Mod(Mod(n[i], 7)*Mod(m[i] + 7, 7), 7)",
        "O[i] = Mod(n[i]*m[i], 7)",
        INTEGERS,
    ),
    (
        "remainder by an element",
        "O[i] = Mod(n[i] + 3*m[i], m[i])",
        "O[i] = Mod(n[i], m[i])",
        INTEGERS,
    ),
    (
        "maximum of rounded numbers",
        "O[i] = Max[j](floor(A[i,j]/3)) - Min[j](ceiling(2*A[i,j]))",
        "O[i] = floor(Max[j](A[i,j])/3) - ceiling(2*Min[j](A[i,j]))",
        {"A": (4, 6)},
    ),
]
TRUTHS = {name: ea.tensor(name, (5,), "bool") for name in "pq"}
TRUTH_VALUES = [
    ("both", "O[i] = exp(p[i]*q[i])", "O[i] = exp(Min(p[i], q[i]))", TRUTHS),
    ("either", "O[i] = sin(p[i] + q[i] - p[i]*q[i])", "O[i] = sin(Max(p[i], q[i]))", TRUTHS),
    (
        "either but not both",
        "O[i] = exp((p[i] - q[i])**2)",
        "O[i] = Piecewise((exp(1), Ne(p[i], q[i])), (1, True))",
        TRUTHS,
    ),
    (
        "a mask",
        "O[i] = exp(x[i])*p[i]",
        "O[i] = Piecewise((exp(x[i]), p[i] > 0), (0, True))",
        {**XYZ, **TRUTHS},
    ),
]

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
    "roots": ROOTS,
    "absolute values": ABSOLUTE_VALUES,
    "angles": ANGLES,
    "logarithms": LOGARITHMS,
    "monotone functions": MONOTONE_FUNCTIONS,
    "rounded numbers": ROUNDED_NUMBERS,
    "truth values": TRUTH_VALUES,
    "error functions": ERROR_FUNCTIONS,
    "conditions": CONDITIONS,
    "infinities": INFINITIES,
    "ranges of maxima": RANGES_OF_MAXIMA,
    "ranges of sums": RANGES_OF_SUMS,
}
KNOWN = [Law(family, *row) for family, rows in FAMILIES.items() for row in rows]
