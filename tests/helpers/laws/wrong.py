"""Pairs that look like laws and are none: wrong by a sign, a number, an index or a condition."""

from __future__ import annotations

from tests.helpers.laws.known import (
    CAUSAL,
    INTEGERS,
    PLAIN,
    QKV,
    SAFE,
    SV,
    TRUTHS,
    XY,
    XYZ,
    X,
    lstm,
    lstm_shapes,
)
from tests.helpers.laws.law import Law

EXTREMES = [
    (
        "a part is missing",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(Max[j:4](A[i,j]), Max[j:5:9](A[i,j]))",
        {"A": (4, 9)},
    ),
    (
        "a long row without its end",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Max(Max[j:300](A[i,j]), Max[j:300:999](A[i,j]))",
        {"A": (4, 1000)},
    ),
    ("negative scale", "O[i] = Max[j](-2*A[i,j])", "O[i] = -2*Max[j](A[i,j])", {"A": (6, 5)}),
    (
        "scale of unknown sign",
        "O[i] = Max[j](c[i]*A[i,j])",
        "O[i] = c[i]*Max[j](A[i,j])",
        {"A": (6, 5), "c": (6,)},
    ),
    (
        "shift twice",
        "O[i] = Max[j](A[i,j] + c[i])",
        "O[i] = Max[j](A[i,j]) + 2*c[i]",
        {"A": (6, 5), "c": (6,)},
    ),
    (
        "negation without the outer sign",
        "O[i] = Max[j](A[i,j])",
        "O[i] = Min[j](-A[i,j])",
        {"A": (6, 5)},
    ),
    ("absorption of the other", "O[i] = Max(x[i], Min(x[i], y[i]))", "O[i] = y[i]", XY),
    (
        "clip with crossed bounds",
        "O[i:6] = Min(Max(x[i], 5), 2)",
        "O[i:6] = Max(Min(x[i], 2), 5)",
        XY,
    ),
    (
        "clip between elements",
        "O[i] = Min(Max(x[i], y[i]), z[i])",
        "O[i] = Max(Min(x[i], z[i]), y[i])",
        XYZ,
    ),
    ("absolute value of a sum", "O[i] = Abs(x[i] + y[i])", "O[i] = Abs(x[i]) + Abs(y[i])", XY),
    (
        "maximum of differences",
        "O[i] = Max[j](A[i,j] - B[i,j])",
        "O[i] = Max[j](A[i,j]) - Max[j](B[i,j])",
        {"A": (3, 4), "B": (3, 4)},
    ),
    (
        "maximum of a sum on one axis",
        "O[i] = Max[j](A[i,j] + B[i,j])",
        "O[i] = Max[j](A[i,j]) + Max[j](B[i,j])",
        {"A": (3, 4), "B": (3, 4)},
    ),
    ("square of a maximum", "O[i] = Max(x[i], y[i])**2", "O[i] = Max(x[i]**2, y[i]**2)", XY),
    ("ReLU is not linear", "O[i] = Max(x[i] + y[i], 0)", "O[i] = Max(x[i], 0) + Max(y[i], 0)", XY),
    ("sign squared", "O[i] = sign(x[i])**2*y[i]", "O[i] = y[i]", XY),
    (
        "reciprocal turns the order only of one sign",
        "O[i] = Max(1/x[i], 1/y[i])",
        "O[i] = 1/Min(x[i], y[i])",
        XY,
    ),
    (
        "leaky ReLU of the other slope",
        "O[i] = Max(x[i], 2*x[i])",
        "O[i] = Max(x[i], 0) - 2*Max(-x[i], 0)",
        XY,
    ),
]
PIECEWISE = [
    (
        "same branches of the opposite",
        "O[i] = Piecewise((x[i], y[i] > 0), (z[i], True))",
        "O[i] = Piecewise((x[i], y[i] <= 0), (z[i], True))",
        XYZ,
    ),
    (
        "at equality",
        "O[i] = Piecewise((x[i], y[i] > 0), (z[i], True))",
        "O[i] = Piecewise((x[i], y[i] >= 0), (z[i], True))",
        XYZ,
    ),
    (
        "factor of one branch",
        "O[i] = x[i]*Piecewise((y[i], z[i] > 0), (1, True))",
        "O[i] = Piecewise((x[i]*y[i], z[i] > 0), (1, True))",
        XYZ,
    ),
    (
        "or for and",
        "O[i] = Piecewise((x[i], (y[i] > 0) | (z[i] > 0)), (0, True))",
        "O[i] = Piecewise((x[i], (y[i] > 0) & (z[i] > 0)), (0, True))",
        XYZ,
    ),
    (
        "a condition of the wrong bound",
        "O[i:9] = Piecewise((2*x[i], i < 4), (3*x[i], True))",
        "O[i:9] = Piecewise((2*x[i], i < 5), (3*x[i], True))",
        X,
    ),
    (
        "ReLU of the opposite",
        "O[i] = Piecewise((x[i], x[i] < 0), (0, True))",
        "O[i] = Max(x[i], 0)",
        XY,
    ),
    (
        "negated factor in a condition",
        "O[i] = Piecewise((x[i], -y[i] > 0), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > 0), (0, True))",
        XY,
    ),
    ("a value at one point", "O[i] = Piecewise((1, Eq(x[i], 0)), (0, True))", "O[i:6] = 0", XY),
]
EXP_AND_LOG = [
    ("exp of a product", "O[i] = exp(x[i]*y[i])", "O[i] = exp(x[i])*exp(y[i])", XY),
    ("log of a sum", "O[i] = log(exp(x[i]) + exp(y[i]))", "O[i] = x[i] + y[i]", XY),
    (
        "log of a product of any sign",
        "O[i] = log(x[i]*y[i])",
        "T[i] = log(x[i])\nU[i] = log(y[i])\nO[i] = T[i] + U[i]",
        XY,
    ),
    ("exp of log of any sign", "T[i] = log(x[i])\nO[i] = exp(T[i])", "O[i] = x[i]", XY),
    ("log of a square of any sign", "O[i] = log(x[i]**2)", "O[i] = 2*log(x[i])", XY),
    ("square of a root", "T[i] = sqrt(x[i])\nO[i] = T[i]*T[i]", "O[i] = x[i]", XY),
    ("root of a square", "O[i] = sqrt(x[i]**2)", "O[i] = x[i]", XY),
    (
        "softmax of another total",
        "O[i,j] = exp(S[i,j])/Sum[k:6](exp(S[i,k]))",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7)},
    ),
    (
        "softmax shifted in one place",
        "O[i,j] = exp(S[i,j] - c[i])/Sum[k:7](exp(S[i,k]))",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7), "c": (5,)},
    ),
    (
        "softmax shifted by columns",
        "O[i,j] = exp(S[i,j] - c[j])/Sum[k:7](exp(S[i,k] - c[k]))",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7), "c": (7,)},
    ),
    (
        "softmax scaled",
        "O[i,j] = exp(2*S[i,j])/Sum[k:7](exp(2*S[i,k]))",
        "O[i,j] = exp(S[i,j])/Sum[k:7](exp(S[i,k]))",
        {"S": (5, 7)},
    ),
    (
        "log-sum-exp without the shift",
        "M[i] = Max[j](A[i,j])\nO[i] = log(Sum[j](exp(A[i,j] - M[i])))",
        "O[i] = log(Sum[j](exp(A[i,j])))",
        {"A": (4, 6)},
    ),
    ("sigmoid of the opposite", "O[i] = 1/(1 + exp(-x[i]))", "O[i] = 1/(1 + exp(x[i]))", XY),
    ("sigmoid by tanh of the whole", "O[i] = 1/(1 + exp(-x[i]))", "O[i] = (1 + tanh(x[i]))/2", XY),
    ("tanh of another exponent", "O[i] = tanh(x[i])", "O[i] = 2/(1 + exp(-x[i])) - 1", XY),
    (
        "softplus without its argument",
        "O[i] = log(1 + exp(x[i]))",
        "O[i] = log(1 + exp(-x[i]))",
        XY,
    ),
    (
        "stable softplus of the wrong sign",
        "O[i] = Max(x[i], 0) + log(1 + exp(Abs(x[i])))",
        "O[i] = log(1 + exp(x[i]))",
        XY,
    ),
    (
        "exp of the opposite maximum",
        "O[i] = exp(-Max[j](A[i,j]))",
        "O[i] = Max[j](exp(-A[i,j]))",
        {"A": (5, 6)},
    ),
    (
        "cosh is not monotone",
        "O[i] = cosh(Max(x[i], y[i]))",
        "O[i] = Max(cosh(x[i]), cosh(y[i]))",
        XY,
    ),
    (
        "log of a maximum of any sign",
        "O[i] = log(Max(x[i], y[i]))",
        "O[i] = Max(log(x[i]), log(y[i]))",
        XY,
    ),
]
ATTENTION = [
    (
        "total without the shift",
        "M[i] = Max[j](S[i,j])\nO[i,d] = Sum[j](exp(S[i,j] - M[i])*V[j,d])/Sum[j](exp(S[i,j]))",
        PLAIN,
        SV,
    ),
    (
        "a key less",
        SAFE.replace("D[i] = Sum[j](E", "D[i] = Sum[j:5](E")
        + "O[i,d] = Sum[j](E[i,j]*V[j,d])/D[i]",
        PLAIN,
        SV,
    ),
    (
        "online rescaling of the wrong sign",
        "M[i] = Max[j:3](S[i,j])\nP[i] = Max(M[i], Max[j:3:6](S[i,j]))\nO[i] = exp(P[i] - M[i])*Sum[j:3](exp(S[i,j] - M[i])) + Sum[j:3:6](exp(S[i,j] - P[i]))",
        "M[i] = Max[j](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        {"S": (4, 6)},
    ),
    (
        "online maximum of one block",
        "M[i] = Max[j:3](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        "M[i] = Max[j](S[i,j])\nO[i] = Sum[j](exp(S[i,j] - M[i]))",
        {"S": (4, 6)},
    ),
    (
        "mean of two blocks",
        "A[i] = Sum[j:2](exp(S[i,j]))\nB[i] = Sum[j:2:6](exp(S[i,j]))\nO[i,d] = (Sum[j:2](exp(S[i,j])*V[j,d])/A[i] + Sum[j:2:6](exp(S[i,j])*V[j,d])/B[i])/2",
        PLAIN,
        SV,
    ),
    (
        "keys scaled twice",
        "O[i,j] = exp(Sum[c](Q[i,c]*K[j,c])/4)",
        "P[i,c] = Q[i,c]/2\nO[i,j] = exp(Sum[c](P[i,c]*K[j,c]))",
        {n: QKV[n] for n in "QK"},
    ),
]
RATIONAL = [
    ("sum of denominators", "O[i] = x[i]/y[i] + x[i]/z[i]", "O[i] = x[i]/(y[i] + z[i])", XYZ),
    ("mean over one less", "O[i] = Sum[j](A[i,j]/6)", "O[i] = Sum[j](A[i,j])/5", {"A": (5, 6)}),
    (
        "total of quotients",
        "O[i] = Sum[j](A[i,j]/B[i,j])",
        "O[i] = Sum[j](A[i,j])/Sum[j](B[i,j])",
        {"A": (3, 4), "B": (3, 4)},
    ),
    (
        "partial fractions of the wrong sign",
        "O[i] = 1/(x[i]*(x[i] + 1))",
        "O[i] = 1/x[i] + 1/(x[i] + 1)",
        XY,
    ),
    ("a total over another", "O[i] = Sum[j](A[i,j])/Sum[j:5](A[i,j])", "O[i:5] = 1", {"A": (5, 6)}),
]
NORMS = [
    (
        "scale of a norm",
        "O[i] = sqrt(Sum[j](4*A[i,j]**2))",
        "O[i] = 4*sqrt(Sum[j](A[i,j]**2))",
        {"A": (4, 6)},
    ),
    (
        "scale of unknown sign",
        "O[i] = sqrt(Sum[j](c[i]**2*A[i,j]**2))",
        "O[i] = c[i]*sqrt(Sum[j](A[i,j]**2))",
        {"A": (4, 6), "c": (4,)},
    ),
    (
        "unit rows of scale -1",
        "O[i] = -x[i]/sqrt(Sum[j:6](x[j]**2))",
        "O[i] = x[i]/sqrt(Sum[j:6](x[j]**2))",
        {"x": (6,)},
    ),
    (
        "norm of a sum",
        "O[i] = sqrt(Sum[j]((A[i,j] + B[i,j])**2))",
        "O[i] = sqrt(Sum[j](A[i,j]**2)) + sqrt(Sum[j](B[i,j]**2))",
        {"A": (3, 4), "B": (3, 4)},
    ),
    (
        "variance without its square",
        "O[i] = Sum[j](A[i,j]**2)/6 - Sum[j](A[i,j])/6",
        "M[i] = Sum[j](A[i,j])/6\nO[i] = Sum[j]((A[i,j] - M[i])**2)/6",
        {"A": (4, 6)},
    ),
    (
        "RMS with a scaled epsilon",
        "O[i,j] = 2*A[i,j]/sqrt(Sum[k:6](4*A[i,k]**2) + 1)",
        "O[i,j] = A[i,j]/sqrt(Sum[k:6](A[i,k]**2) + 1)",
        {"A": (4, 6)},
    ),
    (
        "roots of a product of any sign",
        "O[i] = sqrt(x[i]*y[i])",
        "T[i] = sqrt(x[i])\nU[i] = sqrt(y[i])\nO[i] = T[i]*U[i]",
        XY,
    ),
]
INDICES = [
    ("square of a successor", "O[i:9] = (i+1)**2*x[i]", "O[i:9] = (i**2 + i + 1)*x[i]", X),
    ("triangular numbers", "O[i:9] = x[i]*Sum[k:9](k, where=k <= i)", "O[i:9] = x[i]*i*(i-1)/2", X),
    ("half of an index shifted by one", "O[i:9] = x[i]*((i+1)//2)", "O[i:9] = x[i]*(i//2 + 1)", X),
    ("half", "O[i:9] = x[i]*(i//2)", "O[i:9] = x[i]*i/2", X),
    ("total of one less", "O[i:9] = x[i]*Sum[k:9](k)", "O[i:9] = 45*x[i]", X),
]
PRODUCTS = [
    ("scale", "O[i] = Prod[j](3*A[i,j])", "O[i] = 3*Prod[j](A[i,j])", {"A": (3, 4)}),
    (
        "split with a gap",
        "O[i] = Prod[j](A[i,j])",
        "O[i] = Prod[j:3](A[i,j])*Prod[j:4:8](A[i,j])",
        {"A": (3, 8)},
    ),
    (
        "product of sums",
        "O[i] = Prod[j](A[i,j] + B[i,j])",
        "O[i] = Prod[j](A[i,j]) + Prod[j](B[i,j])",
        {"A": (3, 4), "B": (3, 4)},
    ),
    (
        "signs of an odd number of factors",
        "O[i] = Prod[j](-A[i,j])",
        "O[i] = Prod[j](A[i,j])",
        {"A": (3, 5)},
    ),
]
RELU = [
    (
        "ReLU after a filled window",
        "M[i:8] = Max[r:3](x.pad(1, fill=1)[i+r-1])\nO[i] = Max(M[i], 0)",
        "R[i] = Max(x[i], 0)\nO[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        {"x": (8,)},
    ),
    (
        "a padded total",
        "O[i:8] = Max(Sum[r:3](x.pad(1)[i+r-1]), 0)",
        "O[i:8] = Sum[r:3](Max(x.pad(1)[i+r-1], 0))",
        {"x": (8,)},
    ),
    (
        "zeros for -inf without ReLU",
        "O[i:8] = Max[r:3](x.pad(1)[i+r-1])",
        "O[i:8] = Max[r:3](x.pad(1, fill=-inf)[i+r-1])",
        {"x": (8,)},
    ),
    (
        "a window shifted",
        "R[i] = Max(x[i], 0)\nO[i:8] = Max[r:3](R.pad(1)[i+r-1])",
        "O[i:8] = Max[r:3](Max(x.pad((0,2))[i+r], 0))",
        {"x": (8,)},
    ),
]
MANY_FACTORS = [
    (
        "another place",
        "O[i:6] = x[i]*x[i+1]*x[i+2]*x[i+3]",
        "O[i:6] = x[i]*x[i+1]*x[i+2]*x[i+2]",
        {"x": (9,)},
    ),
    (
        "totals of a fourth power",
        "O[i] = Sum[j](A[i,j])**4",
        "O[i] = Sum[j](A[i,j]**4)",
        {"A": (3, 3)},
    ),
    (
        "binomial",
        "O[i] = (x[i] + x[1])**4",
        "O[i] = x[i]**4 + 4*x[i]**3*x[1] + 4*x[i]**2*x[1]**2 + 4*x[i]*x[1]**3 + x[1]**4",
        {"x": (5,)},
    ),
]
MASKS = [
    (
        "zeros are no mask",
        "S[i:6,j:6] = Piecewise((A[i,j], j <= i), (0, True))\nO[i] = Sum[j](exp(S[i,j]))",
        "O[i:6] = Sum[j:6](exp(A[i,j]), where=j <= i)",
        {"A": (6, 6)},
    ),
    (
        "a strict mask",
        CAUSAL + "O[i] = Sum[j](exp(S[i,j]))",
        "O[i:6] = Sum[j:6](exp(A[i,j]), where=j < i)",
        {"A": (6, 6)},
    ),
    (
        "a finite number for -inf",
        "S[i:4,j:4] = Piecewise((A[i,j], j <= i), (-10000, True))\nO[i] = Sum[j](exp(S[i,j]))",
        "O[i:4] = Sum[j:4](exp(A[i,j]), where=j <= i)",
        {"A": (4, 4)},
    ),
    (
        "maximum with zeros",
        "O[i:5] = Max[j:5](Piecewise((A[i,j], j <= i), (0, True)))",
        "O[i:5] = Max[j:5](A[i,j], where=j <= i)",
        {"A": (5, 5)},
    ),
]
RECURRENCE = [
    (
        "LSTM with another gate",
        lstm(2, False),
        lstm(2, True).replace("c2[n:2] = f1[n]*c1[n]", "c2[n:2] = (2*f1[n] - i1[n])*c1[n]"),
        lstm_shapes(2),
    ),
    (
        "LSTM without a tanh",
        lstm(2, False),
        lstm(2, True).replace("h1[n:2] = o0[n]*tanh(c1[n])", "h1[n:2] = o0[n]*c1[n]"),
        lstm_shapes(2),
    ),
    (
        "LSTM of another half",
        lstm(3, False),
        lstm(3, True).replace("tanh(zi1[n]/2)", "tanh(zi1[n])"),
        lstm_shapes(3),
    ),
]
ROOTS = [
    (
        "a factor that may be 0 beside one that may be negative",
        "T[i] = Max(x[i], 0)\nO[i] = sqrt(T[i]*y[i])",
        "T[i] = Max(x[i], 0)\nO[i] = sqrt(T[i])*sqrt(y[i])",
        XY,
    ),
    (
        "root of a choice at the other branch",
        "O[i] = sqrt(Piecewise((1 + x[i]**2, y[i] > 0), (0, True)))",
        "O[i] = Piecewise((sqrt(1 + x[i]**2), y[i] > 0), (1, True))",
        XY,
    ),
    (
        "a power of a root, once too few",
        "T[i] = sqrt(x[i]*y[i])\nO[i] = 1/(T[i]*T[i]*T[i])",
        "T[i] = sqrt(x[i]*y[i])\nO[i] = T[i]/(x[i]*y[i])",
        XY,
    ),
    (
        "a maximum of falling roots",
        "O[i] = Max[j](sqrt(1 + exp(-A[i,j])))",
        "O[i] = sqrt(1 + exp(-Max[j](A[i,j])))",
        {"A": (4, 6)},
    ),
]
MONOTONE_FUNCTIONS = [
    (
        "a function that falls and rises",
        "O[i] = Max[j](sin(A[i,j]))",
        "O[i] = sin(Max[j](A[i,j]))",
        {"A": (4, 6)},
    ),
    (
        "a function that is not defined between",
        "O[i] = Max[j](log(A[i,j]**2 + A[i,j]))",
        "T[i] = Max[j](A[i,j])\nO[i] = log(T[i]**2 + T[i])",
        {"A": (4, 6)},
    ),
    (
        "a comparison of two functions",
        "O[i] = Piecewise((x[i], y[i]**3 > 2*z[i]**3), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (0, True))",
        XYZ,
    ),
    (
        "a comparison of even powers",
        "O[i] = Piecewise((x[i], y[i]**2 > z[i]**2), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (0, True))",
        XYZ,
    ),
    (
        "a product with exp",
        "O[i] = Max[j](A[i,j]*exp(A[i,j]))",
        "M[i] = Max[j](A[i,j])\nO[i] = M[i]*exp(M[i])",
        {"A": (4, 6)},
    ),
    (
        "a sum with exp of the opposite in a comparison",
        "O[i] = Piecewise((x[i], y[i] + exp(-y[i]) > z[i] + exp(-z[i])), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (0, True))",
        XYZ,
    ),
    (
        "a quotient by a difference from an absolute value",
        "O[i] = Max(x[i]/(1 - Abs(x[i])), y[i]/(1 - Abs(y[i])), z[i]/(1 - Abs(z[i])))",
        "T[i] = Max(x[i], y[i], z[i])\nO[i] = T[i]/(1 - Abs(T[i]))",
        XYZ,
    ),
    (
        "a quotient of absolute values",
        "O[i] = Max[j](Abs(A[i,j])/(1 + Abs(A[i,j])))",
        "M[i] = Max[j](A[i,j])\nO[i] = Abs(M[i])/(1 + Abs(M[i]))",
        {"A": (4, 6)},
    ),
]
ANGLES = [
    (
        "sine of a difference with the sign of a sum",
        "O[i] = sin(x[i] - y[i])",
        "O[i] = sin(x[i])*cos(y[i]) + cos(x[i])*sin(y[i])",
        XY,
    ),
    (
        "a quarter turn, the other way",
        "T[i] = x[i] - pi/2\nO[i] = sin(T[i])",
        "O[i] = cos(x[i])",
        XY,
    ),
    (
        "many angles with the sign of a cosine",
        "T[i] = -9*x[i] - 8*y[i]\nO[i] = sin(T[i])",
        "O[i] = sin(9*x[i] + 8*y[i])",
        XY,
    ),
    ("an inverse is not bounded", "O[i] = Abs(2 + 1/cos(x[i]))", "O[i] = 2 + 1/cos(x[i])", XY),
]
CONDITIONS = [
    (
        "not both for neither",
        "O[i] = Piecewise((x[i], ~((y[i] > 0) & (z[i] > 0))), (0, True))",
        "O[i] = Piecewise((x[i], (y[i] <= 0) & (z[i] <= 0)), (0, True))",
        XYZ,
    ),
    (
        "a negative denominator",
        "O[i] = Piecewise((x[i], y[i]/(sin(z[i]) - 2) > 0), (0, True))",
        "O[i] = Piecewise((x[i], y[i] > 0), (0, True))",
        XYZ,
    ),
    (
        "a maximum of three in the wrong order",
        "O[i] = Max(x[i], y[i], z[i])",
        "O[i] = Piecewise((x[i], (x[i] >= y[i]) & (x[i] >= z[i])), (y[i], y[i] < z[i]), (z[i], True))",
        XYZ,
    ),
    (
        "half of the quarters",
        "O[()] = Max(Max[j:2,k:3](A[j,k]), Max[j:2:4,k:3:6](A[j,k]))",
        "O[()] = Max[j,k](A[j,k])",
        {"A": (4, 6)},
    ),
]
MASK = "M[i] = Piecewise((x[i], y[i] > 0), (-inf, True))\n"
FACTORS_OF_INFINITY = [
    (
        "a factor of unknown sign",
        MASK + "O[i] = exp(z[i]*M[i])",
        "O[i] = Piecewise((exp(x[i]*z[i]), y[i] > 0), (0, True))",
        XYZ,
    ),
    (
        "positive factors and no limit",
        MASK + "O[i] = exp((2 + sin(z[i]))*(2 + cos(x[i]))*M[i])",
        "O[i] = Piecewise((exp((2 + sin(z[i]))*(2 + cos(x[i]))*x[i]), y[i] > 0), (1, True))",
        XYZ,
    ),
    ("infinity over itself", MASK + "U[i] = 1/M[i]\nO[i] = M[i]*U[i]", "O[i:6] = 1", XY),
    (
        "a square of infinity",
        MASK + "U[i] = M[i]**2\nO[i] = exp(-U[i])",
        "O[i] = Piecewise((exp(-x[i]**2), y[i] > 0), (1, True))",
        XY,
    ),
]
FUNCTIONS_OF_INFINITY = [
    (
        "an absolute value",
        MASK + "O[i] = Abs(M[i])",
        "O[i] = Piecewise((Abs(x[i]), y[i] > 0), (0, True))",
        XY,
    ),
    (
        "a sine",
        MASK + "O[i] = sin(M[i])",
        "O[i] = Piecewise((sin(x[i]), y[i] > 0), (0, True))",
        XY,
    ),
    (
        "an error function",
        MASK + "O[i] = erf(M[i])",
        "O[i] = Piecewise((erf(x[i]), y[i] > 0), (1, True))",
        XY,
    ),
    (
        "a logarithm of 0",
        "O[i] = log(Piecewise((exp(x[i]), y[i] > 0), (0, True)))",
        "O[i] = Piecewise((x[i], y[i] > 0), (0, True))",
        XY,
    ),
]
VALUES_AT_AN_END = [
    (
        "the largest value of all",
        "T[i] = Piecewise((x[i], y[i] > 0), (inf, True))\nO[i] = Max(T[i], z[i])",
        "O[i] = Piecewise((Max(x[i], z[i]), y[i] > 0), (z[i], True))",
        XYZ,
    ),
    (
        "a root of a negative number",
        "T[i] = Piecewise((exp(x[i]), y[i] > 0), (-1, True))\nO[i] = sqrt(T[i])",
        "O[i] = Piecewise((exp(x[i]/2), y[i] > 0), (0, True))",
        XY,
    ),
    (
        "an inverse of a root of 0",
        "T[i] = Piecewise((exp(x[i]), y[i] > 0), (0, True))\nU[i] = sqrt(T[i])\nO[i] = 1/U[i]",
        "O[i] = Piecewise((exp(-x[i]/2), y[i] > 0), (0, True))",
        XY,
    ),
    (
        "a product of many choices, doubled",
        "O[()] = Prod[j](floor(Abs(x[j])))",
        "O[()] = 2*Prod[j](floor(Abs(x[j])))",
        {"x": (16,)},
    ),
]
ROUNDED_NUMBERS = [
    (
        "a real number beside",
        "O[i] = floor(x[i] + y[i])",
        "O[i] = floor(x[i]) + y[i]",
        XYZ,
    ),
    (
        "a sum of rounded numbers",
        "O[i] = floor(x[i]) + floor(y[i])",
        "O[i] = floor(x[i] + y[i])",
        XYZ,
    ),
    (
        "rounding twice by no integer",
        "O[i] = floor(3*floor(x[i])/2)",
        "O[i] = floor(3*x[i]/2)",
        XYZ,
    ),
    (
        "rounding twice with a fraction between",
        "O[i] = floor((floor(x[i]) + 1/2)/2)",
        "O[i] = floor((x[i] + 1/2)/2)",
        XYZ,
    ),
    (
        "rounding up by too little",
        "O[i] = ceiling(n[i]/6)",
        "O[i] = floor((n[i] + 4)/6)",
        INTEGERS,
    ),
    ("halves of a real number", "O[i] = floor(x[i]/2) + floor((x[i] + 1)/2)", "O[i] = x[i]", XYZ),
    (
        "remainder of another modulus",
        "O[i] = Mod(Mod(n[i], 12), 5)",
        "O[i] = Mod(n[i], 5)",
        INTEGERS,
    ),
    ("remainder of the opposite", "O[i] = Mod(-n[i], 3)", "O[i] = -Mod(n[i], 3)", INTEGERS),
    (
        "remainder of a product of fractions",
        "O[i] = Mod(x[i]*y[i], 3)",
        "O[i] = Mod(Mod(x[i], 3)*Mod(y[i], 3), 3)",
        XYZ,
    ),
    (
        "reciprocal of an integer",
        "O[i] = floor(1/n[i] + x[i])",
        "O[i] = 1/n[i] + floor(x[i])",
        {**XYZ, **INTEGERS},
    ),
    (
        "maximum of remainders",
        "O[i] = Max[j](A[i,j] - floor(A[i,j]))",
        "T[i] = Max[j](A[i,j])\nO[i] = T[i] - floor(T[i])",
        {"A": (4, 6)},
    ),
]
TRUTH_VALUES = [
    ("either as a sum", "O[i] = exp(p[i] + q[i])", "O[i] = exp(Max(p[i], q[i]))", TRUTHS),
    ("a mask that hides", "O[i] = exp(x[i]*p[i])", "O[i] = exp(x[i])*p[i]", {**XYZ, **TRUTHS}),
    (
        "integers are no truth values",
        "O[i] = exp(n[i]*m[i])",
        "O[i] = exp(Min(n[i], m[i]))",
        INTEGERS,
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
    "monotone functions": MONOTONE_FUNCTIONS,
    "rounded numbers": ROUNDED_NUMBERS,
    "truth values": TRUTH_VALUES,
    "angles": ANGLES,
    "conditions": CONDITIONS,
    "factors of infinity": FACTORS_OF_INFINITY,
    "functions of infinity": FUNCTIONS_OF_INFINITY,
    "values at an end": VALUES_AT_AN_END,
}
WRONG = [Law(family, *row) for family, rows in FAMILIES.items() for row in rows]
