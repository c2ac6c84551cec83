"""Laws that were written without a look at the prover or at the other tables, in its families and
beyond: activations, normalisations, convolutions, series, distances.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.helpers.laws.law import law_of_row

SHAPES: Mapping[str, tuple[int, ...]] = {
    "x": (7,),
    "y": (7,),
    "z": (7,),
    "s": (),
    "t": (),
    "A": (5, 7),
    "B": (7, 6),
    "C": (5, 7),
    "D": (6, 4),
    "S": (7, 7),
    "T3": (3, 4, 5),
    "K": (3,),
    "q": (4, 3),
    "k": (6, 3),
    "v": (6, 2),
}

EXTREMES = [
    (
        "a maximum distributes over a shared summand in two axes",
        "O[i:5] = Max[j:7,k:7](A[i,j] + x[k])",
        "O[i:5] = Max[j:7](A[i,j]) + Max[k:7](x[k])",
    ),
    (
        "tropical product of three matrices is associative",
        "T[i,k] = Min[j](A[i,j] + S[j,k])\nO[i,l] = Min[k](T[i,k] + B[k,l])",
        "T[j,l] = Min[k](S[j,k] + B[k,l])\nO[i,l] = Min[j](A[i,j] + T[j,l])",
    ),
    (
        "minimum of a maximum with a number is clipped inside",
        "O[()] = Min(Max[i](x[i]), 3)",
        "O[()] = Max[i](Min(x[i], 3))",
    ),
    (
        "median of three is symmetric",
        "O[i] = Max(Min(x[i],y[i]), Min(Max(x[i],y[i]), z[i]))",
        "O[i] = Max(Min(x[i],y[i]), Min(y[i],z[i]), Min(x[i],z[i]))",
    ),
    (
        "range is the greatest difference",
        "O[()] = Max[i](x[i]) - Min[i](x[i])",
        "O[()] = Max[i:7,j:7](x[i] - x[j])",
    ),
    (
        "pooling by strides of two stages",
        "T[i:6] = Max(x[i], x[i+1])\nO[i:5] = Max(T[i], T[i+1])",
        "O[i:5] = Max[r:3](x[i+r])",
    ),
    (
        "clamp twice",
        "O[i] = Max(Min(Max(Min(x[i], 4), -1), 2), -3)",
        "O[i] = Min(Max(x[i], -1), 2)",
    ),
    (
        "negative scale turns a maximum",
        "O[i:5] = Max[j](-2*A[i,j] + 1)",
        "O[i:5] = 1 - 2*Min[j](A[i,j])",
    ),
    (
        "greatest modulus",
        "O[()] = Max[i](Abs(x[i]))",
        "O[()] = Max(Max[i](x[i]), -Min[i](x[i]))",
    ),
    (
        "sum of a maximum and a minimum of two",
        "O[i] = Max(x[i],y[i])*Min(x[i],y[i])",
        "O[i] = x[i]*y[i]",
    ),
]

CASES = [
    (
        "leaky unit by cases or by two rectifiers",
        "O[i] = Piecewise((x[i], x[i] > 0), (x[i]/8, True))",
        "O[i] = Max(x[i], 0) - Max(-x[i], 0)/8",
    ),
    (
        "hard sigmoid",
        "O[i] = Max(0, Min(1, x[i]/6 + 1/2))",
        "O[i] = Min(Max(x[i] + 3, 0), 6)/6",
    ),
    (
        "hard swish by cases",
        "O[i] = x[i]*Min(Max(x[i] + 3, 0), 6)/6",
        "O[i] = Piecewise((0, x[i] <= -3), (x[i], x[i] >= 3), (x[i]*(x[i] + 3)/6, True))",
    ),
    (
        "soft threshold",
        "O[i] = Piecewise((x[i] - 1, x[i] > 1), (x[i] + 1, x[i] < -1), (0, True))",
        "O[i] = Max(x[i] - 1, 0) - Max(-x[i] - 1, 0)",
    ),
    (
        "soft threshold is what clipping leaves",
        "O[i] = x[i] - Min(Max(x[i], -1), 1)",
        "O[i] = sign(x[i])*Max(Abs(x[i]) - 1, 0)",
    ),
    (
        "nested choices",
        "O[i] = Piecewise((Piecewise((x[i], y[i] > 0), (z[i], True)), x[i] > 0), (z[i], True))",
        "O[i] = Piecewise((x[i], (x[i] > 0) & (y[i] > 0)), (z[i], True))",
    ),
    (
        "a sum of indicator and its negation",
        "O[i] = Piecewise((1, x[i] < y[i]), (0, True)) + Piecewise((1, x[i] >= y[i]), (0, True))",
        "O[i:7] = 1",
    ),
    (
        "Huber's loss",
        "O[i] = Piecewise((x[i]**2/2, Abs(x[i]) <= 1), (Abs(x[i]) - 1/2, True))",
        "O[i] = Min(Abs(x[i]), 1)*(Abs(x[i]) - Min(Abs(x[i]), 1)/2)",
    ),
    (
        "exponential linear unit",
        "O[i] = Piecewise((x[i], x[i] > 0), (exp(x[i]) - 1, True))",
        "O[i] = Max(x[i], 0) + exp(Min(x[i], 0)) - 1",
    ),
    (
        "softsign by cases",
        "O[i] = x[i]/(1 + Abs(x[i]))",
        "O[i] = Piecewise((x[i]/(1 + x[i]), x[i] >= 0), (x[i]/(1 - x[i]), True))",
    ),
]

EXPONENTIALS = [
    (
        "SiLU of x less SiLU of -x",
        "O[i] = x[i]/(1 + exp(-x[i])) - (-x[i])/(1 + exp(x[i]))",
        "O[i] = x[i]",
    ),
    (
        "SiLU by tanh",
        "O[i] = x[i]/(1 + exp(-x[i]))",
        "O[i] = x[i]/2*(1 + tanh(x[i]/2))",
    ),
    (
        "GELU by erfc",
        "O[i] = x[i]*(1 + erf(x[i]/sqrt(2)))/2",
        "O[i] = x[i]*erfc(-x[i]/sqrt(2))/2",
    ),
    (
        "GELU reflected",
        "O[i] = x[i]*(1 + erf(x[i]/sqrt(2)))/2 - x[i]",
        "O[i] = -x[i]*(1 - erf(x[i]/sqrt(2)))/2",
    ),
    (
        "GELU by tanh is by a sigmoid",
        "U[i] = x[i]*(1 + x[i]**2/20)\nO[i] = x[i]*(1 + tanh(U[i]))/2",
        "O[i] = x[i]/(1 + exp(-2*x[i] - x[i]**3/10))",
    ),
    (
        "derivative of a sigmoid",
        "T[i] = 1/(1 + exp(-x[i]))\nO[i] = T[i]*(1 - T[i])",
        "O[i] = exp(x[i])/(1 + exp(x[i]))**2",
    ),
    (
        "softplus of both signs",
        "O[i] = log(1 + exp(x[i])) - log(1 + exp(-x[i]))",
        "O[i] = x[i]",
    ),
    (
        "stable softplus",
        "O[i] = log(1 + exp(x[i]))",
        "O[i] = Max(x[i], 0) + log(1 + exp(-Abs(x[i])))",
    ),
    (
        "binary cross-entropy of a logit",
        "P[i] = 1/(1 + exp(-x[i]))\nO[i] = -y[i]*log(P[i]) - (1 - y[i])*log(1 - P[i])",
        "O[i] = log(1 + exp(x[i])) - x[i]*y[i]",
    ),
    (
        "stable binary cross-entropy",
        "O[i] = Max(x[i], 0) - x[i]*y[i] + log(1 + exp(-Abs(x[i])))",
        "O[i] = log(1 + exp(x[i])) - x[i]*y[i]",
    ),
    (
        "log-softmax of shifted rows",
        "O[i,j] = A[i,j] - log(Sum[k](exp(A[i,k])))",
        "M[i] = Max[j](A[i,j])\nO[i,j] = A[i,j] - M[i] - log(Sum[k](exp(A[i,k] - M[i])))",
    ),
    (
        "softmax over two axes at once",
        "O[i,j] = exp(A[i,j])/Sum[a:5,b:7](exp(A[a,b]))",
        "R[i] = Sum[j](exp(A[i,j]))\nO[i,j] = exp(A[i,j])/R[i]*(R[i]/Sum[a](R[a]))",
    ),
    (
        "softmax of two is a sigmoid",
        "O[i] = exp(x[i])/(exp(x[i]) + exp(y[i]))",
        "O[i] = 1/(1 + exp(y[i] - x[i]))",
    ),
    (
        "product of exponentials",
        "O[()] = Prod[i](exp(x[i]*y[i]))",
        "O[()] = exp(Sum[i](x[i]*y[i]))",
    ),
    (
        "hyperbolic double angle",
        "O[i] = sinh(2*x[i])",
        "O[i] = 2*sinh(x[i])*cosh(x[i])",
    ),
    (
        "difference of hyperbolic squares",
        "O[i] = cosh(x[i])**2 - sinh(x[i])**2",
        "O[i:7] = 1",
    ),
    (
        "tanh of a sum",
        "O[i] = tanh(x[i] + y[i])",
        "O[i] = (tanh(x[i]) + tanh(y[i]))/(1 + tanh(x[i])*tanh(y[i]))",
    ),
    (
        "geometric mean by logarithms",
        "O[i] = exp((2*x[i] + 4*y[i])/2)",
        "O[i] = exp(x[i])*exp(y[i])**2",
    ),
    (
        "Mish by a rational function of an exponential",
        "O[i] = x[i]*tanh(log(1 + exp(x[i])))",
        "E[i] = exp(x[i])\nO[i] = x[i]*(E[i]**2 + 2*E[i])/(E[i]**2 + 2*E[i] + 2)",
    ),
    (
        "log-sum-exp with temperature",
        "O[i:5] = log(Sum[j](exp(A[i,j]/3)))*3",
        "M[i] = Max[j](A[i,j])\nO[i:5] = M[i] + 3*log(Sum[j](exp((A[i,j] - M[i])/3)))",
    ),
]

TRIGONOMETRY = [
    (
        "rotations compose",
        "O[i] = cos(x[i])*cos(y[i]) - sin(x[i])*sin(y[i])",
        "O[i] = cos(x[i] + y[i])",
    ),
    (
        "a square of a sine",
        "O[i] = sin(x[i])**2",
        "O[i] = (1 - cos(2*x[i]))/2",
    ),
    (
        "a rotation keeps a norm",
        "R[i] = cos(z[i])*x[i] - sin(z[i])*y[i]\nI[i] = sin(z[i])*x[i] + cos(z[i])*y[i]\n"
        "O[i] = R[i]**2 + I[i]**2",
        "O[i] = x[i]**2 + y[i]**2",
    ),
    (
        "rotary embedding depends on a difference",
        "P[i] = cos(x[i])*cos(y[i]) + sin(x[i])*sin(y[i])\nO[i] = z[i]*P[i]",
        "O[i] = z[i]*cos(x[i] - y[i])",
    ),
    (
        "tangent is a quotient",
        "O[i] = tan(x[i])*cos(x[i])",
        "O[i] = sin(x[i])",
    ),
    (
        "a sine is odd and a cosine even",
        "O[i] = sin(-x[i])*cos(-y[i])",
        "O[i] = -sin(x[i])*cos(y[i])",
    ),
]

ATTENTION = [
    (
        "scores shifted by a number of each query",
        "P[i,j] = exp(Sum[c](q[i,c]*k[j,c]))\nO[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
        "P[i,j] = exp(Sum[c](q[i,c]*(k[j,c] + K[c])))\n"
        "O[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
    ),
    (
        "normalise before or after the values",
        "P[i,j] = exp(Sum[c](q[i,c]*k[j,c]))\nW[i,j] = P[i,j]/Sum[l](P[i,l])\n"
        "O[i,d] = Sum[j](W[i,j]*v[j,d])",
        "P[i,j] = exp(Sum[c](q[i,c]*k[j,c]))\nO[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
    ),
    (
        "two blocks of keys, each with its own maximum",
        "Z[i,j] = Sum[c](q[i,c]*k[j,c])\nO[i,d] = Sum[j](exp(Z[i,j])*v[j,d])/Sum[j](exp(Z[i,j]))",
        "Z[i,j] = Sum[c](q[i,c]*k[j,c])\nM[i:4] = Max[j:4](Z[i,j])\nN[i:4] = Max[j:2](Z[i,j+4])\n"
        "G[i] = Max(M[i], N[i])\nU[i:4,d:2] = Sum[j:4](exp(Z[i,j] - M[i])*v[j,d])\n"
        "V[i:4,d:2] = Sum[j:2](exp(Z[i,j+4] - N[i])*v[j+4,d])\n"
        "a[i:4] = Sum[j:4](exp(Z[i,j] - M[i]))\nb[i:4] = Sum[j:2](exp(Z[i,j+4] - N[i]))\n"
        "O[i,d] = (U[i,d]*exp(M[i] - G[i]) + V[i,d]*exp(N[i] - G[i]))"
        "/(a[i]*exp(M[i] - G[i]) + b[i]*exp(N[i] - G[i]))",
    ),
    (
        "a causal mask by -inf or by zeros",
        "P[i:6,j:6] = Sum[c](k[i,c]*k[j,c]) + Piecewise((0, j <= i), (-inf, True))\n"
        "E[i,j] = exp(P[i,j])\nO[i,d] = Sum[j](E[i,j]*v[j,d])/Sum[j](E[i,j])",
        "P[i:6,j:6] = Sum[c](k[i,c]*k[j,c])\nE[i,j] = Piecewise((exp(P[i,j]), j <= i), (0, True))\n"
        "O[i,d] = Sum[j](E[i,j]*v[j,d])/Sum[j](E[i,j])",
    ),
    (
        "keys scaled or queries scaled",
        "P[i:4,j:6] = exp(Sum[c:3](q[i,c]/4*k[j,c]))\nO[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
        "P[i:4,j:6] = exp(Sum[c:3](q[i,c]*k[j,c])/4)\nO[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
    ),
    (
        "linear attention reads the keys once",
        "P[i,j] = Sum[c](q[i,c]*k[j,c])\nO[i,d] = Sum[j](P[i,j]*v[j,d])",
        "W[c,d] = Sum[j](k[j,c]*v[j,d])\nO[i,d] = Sum[c](q[i,c]*W[c,d])",
    ),
    (
        "a sink adds one to the denominator",
        "E[i,j] = exp(A[i,j])\nO[i,j] = E[i,j]/(1 + Sum[k](E[i,k]))",
        "M[i] = Max(Max[j](A[i,j]), 0)\nE[i,j] = exp(A[i,j] - M[i])\n"
        "O[i,j] = E[i,j]/(exp(-M[i]) + Sum[k](E[i,k]))",
    ),
]

RATIONAL = [
    (
        "a telescoping fraction",
        "O[i] = 1/(1 + x[i]**2) - 1/(2 + x[i]**2)",
        "O[i] = 1/((1 + x[i]**2)*(2 + x[i]**2))",
    ),
    (
        "harmonic mean",
        "O[i] = 2/(1/x[i] + 1/y[i])",
        "O[i] = 2*x[i]*y[i]/(x[i] + y[i])",
    ),
    (
        "weights that are normalised twice",
        "T[i,j] = A[i,j]/Sum[k](A[i,k])\nO[i,j] = T[i,j]/Sum[k](T[i,k])",
        "O[i,j] = A[i,j]/Sum[k](A[i,k])",
    ),
    (
        "a quotient of quotients",
        "O[i] = (x[i]/y[i])/(z[i]/y[i])",
        "O[i] = x[i]/z[i]",
    ),
    (
        "difference of cubes",
        "O[i] = (x[i]**3 - y[i]**3)/(x[i] - y[i])",
        "O[i] = x[i]**2 + x[i]*y[i] + y[i]**2",
    ),
    (
        "barycentric weights are translated",
        "O[()] = Sum[i](x[i]*(y[i] + s[()]))/Sum[i](x[i])",
        "O[()] = Sum[i](x[i]*y[i])/Sum[i](x[i]) + s[()]",
    ),
    (
        "Dice and Jaccard",
        "I[()] = Sum[i](x[i]*y[i])\nU[()] = Sum[i](x[i]) + Sum[i](y[i])\n"
        "J[()] = I[()]/(U[()] - I[()])\nO[()] = 2*J[()]/(1 + J[()])",
        "O[()] = 2*Sum[i](x[i]*y[i])/(Sum[i](x[i]) + Sum[i](y[i]))",
    ),
    (
        "inverse of two by two",
        "d[()] = S[0,0]*S[1,1] - S[0,1]*S[1,0]\n"
        "O[i:1] = S[0,0]*(S[1,1]/d[()]) + S[0,1]*(-S[1,0]/d[()])",
        "O[i:1] = 1",
    ),
]

NORMS = [
    (
        "layer norm does not see a shift of its row",
        "X[i:5,j:7] = A[i,j] + y[i]\nm[i:5] = Sum[j](X[i,j])/7\nV[i:5] = Sum[j]((X[i,j] - m[i])**2)/7\n"
        "O[i,j] = (X[i,j] - m[i])/sqrt(V[i] + 1/1000)",
        "m[i:5] = Sum[j](A[i,j])/7\nV[i:5] = Sum[j]((A[i,j] - m[i])**2)/7\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i] + 1/1000)",
    ),
    (
        "layer norm by the mean of squares",
        "m[i:5] = Sum[j](A[i,j])/7\nV[i:5] = Sum[j]((A[i,j] - m[i])**2)/7\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i] + 1/100)*x[j] + y[j]",
        "m[i:5] = Sum[j](A[i,j])/7\nV[i:5] = Sum[j](A[i,j]**2)/7 - m[i]**2\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i] + 1/100)*x[j] + y[j]",
    ),
    (
        "RMS norm of a positive multiple without epsilon",
        "X[i,j] = 3*A[i,j]\nO[i,j] = X[i,j]/sqrt(Sum[k](X[i,k]**2)/7)",
        "O[i,j] = A[i,j]/sqrt(Sum[k](A[i,k]**2)/7)",
    ),
    (
        "batch norm folds into a linear layer",
        "T[i,l] = Sum[j](A[i,j]*B[j,l])\n"
        "O[i,l] = (T[i,l] - D[l,0])/sqrt(D[l,1]**2 + 1/1000)*D[l,2] + D[l,3]",
        "g[l:6] = D[l,2]/sqrt(D[l,1]**2 + 1/1000)\nW[j:7,l:6] = B[j,l]*g[l]\n"
        "O[i,l] = Sum[j](A[i,j]*W[j,l]) + (D[l,3] - D[l,0]*g[l])",
    ),
    (
        "cosine of scaled vectors",
        "O[()] = Sum[i](2*x[i]*5*y[i])/(sqrt(Sum[i]((2*x[i])**2))*sqrt(Sum[i]((5*y[i])**2)))",
        "O[()] = Sum[i](x[i]*y[i])/sqrt(Sum[i](x[i]**2)*Sum[i](y[i]**2))",
    ),
    (
        "a unit vector has length one",
        "T[i] = x[i]/sqrt(Sum[j](x[j]**2))\nO[()] = Sum[i](T[i]**2)",
        "O[()] = 1",
    ),
    (
        "distance of unit vectors by their cosine",
        "U[i] = x[i]/sqrt(Sum[j](x[j]**2))\nV[i] = y[i]/sqrt(Sum[j](y[j]**2))\n"
        "O[()] = Sum[i]((U[i] - V[i])**2)",
        "O[()] = 2 - 2*Sum[i](x[i]*y[i])/sqrt(Sum[i](x[i]**2)*Sum[i](y[i]**2))",
    ),
    (
        "a norm of a sum by an inner product",
        "O[()] = sqrt(Sum[i]((x[i] + y[i])**2))",
        "O[()] = sqrt(Sum[i](x[i]**2) + 2*Sum[i](x[i]*y[i]) + Sum[i](y[i]**2))",
    ),
    (
        "group norm by a view",
        "m[g:2] = Sum[r:3,a:7](S[3*g+r,a])/21\nO[i:6,a:7] = S[i,a] - m[i//3]",
        "m[g:2] = Sum[r:3,a:7](S[3*g+r,a]/21)\nT[g:2,r:3,a:7] = S[3*g+r,a] - m[g]\n"
        "O[i:6,a:7] = T[i//3,i%3,a]",
    ),
]

STATISTICS = [
    (
        "variance by pairs",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)/7",
        "O[()] = Sum[i:7,j:7]((x[i] - x[j])**2)/98",
    ),
    (
        "covariance needs one centred side",
        "m[()] = Sum[i](x[i])/7\nn[()] = Sum[i](y[i])/7\nO[()] = Sum[i]((x[i] - m[()])*(y[i] - n[()]))",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])*y[i])",
    ),
    (
        "variance of two halves",
        "m[()] = Sum[i:6](x[i])/6\nO[()] = Sum[i:6]((x[i] - m[()])**2)",
        "a[()] = Sum[i:3](x[i])/3\nb[()] = Sum[i:3](x[i+3])/3\n"
        "O[()] = Sum[i:3]((x[i] - a[()])**2) + Sum[i:3]((x[i+3] - b[()])**2) + 3*(a[()] - b[()])**2/2",
    ),
    (
        "correlation does not see scale and shift",
        "X[i] = 2*x[i] + 3\nm[()] = Sum[i](X[i])/7\nn[()] = Sum[i](y[i])/7\n"
        "c[()] = Sum[i]((X[i] - m[()])*(y[i] - n[()]))\n"
        "O[()] = c[()]/sqrt(Sum[i]((X[i] - m[()])**2)*Sum[i]((y[i] - n[()])**2))",
        "m[()] = Sum[i](x[i])/7\nn[()] = Sum[i](y[i])/7\n"
        "c[()] = Sum[i]((x[i] - m[()])*(y[i] - n[()]))\n"
        "O[()] = c[()]/sqrt(Sum[i]((x[i] - m[()])**2)*Sum[i]((y[i] - n[()])**2))",
    ),
    (
        "z-scores have unit variance",
        "m[()] = Sum[i](x[i])/7\nV[()] = Sum[i]((x[i] - m[()])**2)/7\n"
        "O[()] = Sum[i](((x[i] - m[()])/sqrt(V[()]))**2)",
        "O[()] = 7",
    ),
]

LINEAR = [
    (
        "trace of a product is cyclic",
        "T[i,k] = Sum[j](A[i,j]*C[k,j])\nO[()] = Sum[i:5](T[i,i])",
        "O[()] = Sum[i:5,j:7](C[i,j]*A[i,j])",
    ),
    (
        "squares of a Gram matrix",
        "G[i,k] = Sum[j](A[i,j]*A[k,j])\nO[()] = Sum[i:5,k:5](G[i,k]**2)",
        "H[j,l] = Sum[i](A[i,j]*A[i,l])\nO[()] = Sum[j:7,l:7](H[j,l]**2)",
    ),
    (
        "mixed products of Kronecker products",
        "K1[i:4,j:4] = S[i//2,j//2]*D[i%2,j%2]\nK2[i:4,j:4] = A[i//2,j//2]*C[i%2,j%2]\n"
        "O[i:4,j:4] = Sum[l:4](K1[i,l]*K2[l,j])",
        "P[a:2,b:2] = Sum[c:2](S[a,c]*A[c,b])\nQ[a:2,b:2] = Sum[c:2](D[a,c]*C[c,b])\n"
        "O[i:4,j:4] = P[i//2,j//2]*Q[i%2,j%2]",
    ),
    (
        "squared distances by norms",
        "O[i:5,k:5] = Sum[j]((A[i,j] - C[k,j])**2)",
        "n[i:5] = Sum[j](A[i,j]**2)\nm[k:5] = Sum[j](C[k,j]**2)\n"
        "O[i,k] = n[i] - 2*Sum[j](A[i,j]*C[k,j]) + m[k]",
    ),
    (
        "a Gaussian kernel of distances by norms",
        "O[i:5,k:5] = exp(-Sum[j]((A[i,j] - C[k,j])**2)/2)",
        "O[i:5,k:5] = exp(Sum[j](A[i,j]*C[k,j]))*exp(-Sum[j](A[i,j]**2)/2)*exp(-Sum[j](C[k,j]**2)/2)",
    ),
    (
        "a quadratic form of the symmetric part",
        "O[()] = Sum[i:7,j:7](x[i]*S[i,j]*x[j])",
        "O[()] = Sum[i:7,j:7](x[i]*(S[i,j] + S[j,i])/2*x[j])",
    ),
    (
        "Householder's reflection twice",
        "c[()] = 2*Sum[j](x[j]*y[j])/Sum[j](x[j]**2)\nR[i] = y[i] - c[()]*x[i]\n"
        "d[()] = 2*Sum[j](x[j]*R[j])/Sum[j](x[j]**2)\nO[i] = R[i] - d[()]*x[i]",
        "O[i] = y[i]",
    ),
    (
        "a low-rank adapter merged",
        "O[i:5,l:6] = Sum[j](A[i,j]*B[j,l]) + 2*Sum[r:4](Sum[j](A[i,j]*S[j,r])*D[l,r])",
        "W[j:7,l:6] = B[j,l] + 2*Sum[r:4](S[j,r]*D[l,r])\nO[i:5,l:6] = Sum[j](A[i,j]*W[j,l])",
    ),
    (
        "polarisation",
        "O[()] = Sum[i](x[i]*y[i])",
        "O[()] = (Sum[i]((x[i] + y[i])**2) - Sum[i]((x[i] - y[i])**2))/4",
    ),
    (
        "four factors of one tensor",
        "O[()] = Sum[i:7,j:7,k:7,l:7](x[i]*x[j]*x[k]*x[l]*S[i,j]*S[k,l])",
        "O[()] = Sum[i:7,j:7](x[i]*S[i,j]*x[j])**2",
    ),
]

SERIES = [
    (
        "a telescoping sum",
        "O[()] = Sum[i:6](x[i+1] - x[i])",
        "O[()] = x[6] - x[0]",
    ),
    (
        "telescoping squares",
        "O[i:5] = Sum[j:6]((A[i,j+1] - A[i,j])*(A[i,j+1] + A[i,j]))",
        "O[i:5] = A[i,6]**2 - A[i,0]**2",
    ),
    (
        "a finite geometric sum",
        "O[()] = (1 - s[()])*(1 + s[()] + s[()]**2 + s[()]**3 + s[()]**4)",
        "O[()] = 1 - s[()]**5",
    ),
    (
        "a geometric sum of powers by an index",
        "O[()] = Sum[i:6](s[()]**i)*(s[()] - 1)",
        "O[()] = s[()]**6 - 1",
    ),
    (
        "differences of cumulative sums",
        "P[i:7] = Sum[j:7](x[j]*Piecewise((1, j <= i), (0, True)))\nO[i:6] = P[i+1] - P[i]",
        "O[i:6] = x[i+1]",
    ),
    (
        "a window sum by cumulative sums",
        "P[i:8] = Sum[j:7](Piecewise((x[j], j < i), (0, True)))\nO[i:5] = P[i+3] - P[i]",
        "O[i:5] = Sum[r:3](x[i+r])",
    ),
    (
        "a cumulative sum by two levels of blocks",
        "O[i:6] = Sum[j:6](Piecewise((x[j], j <= i), (0, True)))",
        "b[c:2] = Sum[r:3](x[3*c+r])\n"
        "O[i:6] = Sum[r:3](Piecewise((x[3*(i//3)+r], r <= i%3), (0, True)))"
        " + Piecewise((b[0], i//3 > 0), (0, True))",
    ),
    (
        "triangular numbers",
        "O[i:9] = Sum[j:9](Piecewise((j, j <= i), (0, True)))",
        "O[i:9] = i*(i + 1)/2",
    ),
    (
        "a sum of odd numbers is a square",
        "O[i:8] = Sum[j:8](Piecewise((2*j + 1, j < i), (0, True)))*x[0]",
        "O[i:8] = i**2*x[0]",
    ),
    (
        "squares of consecutive indices",
        "O[i] = x[i]*((i + 1)**2 - i**2)",
        "O[i] = x[i]*(2*i + 1)",
    ),
    (
        "a polynomial in Horner's form",
        "O[i] = x[0] + y[i]*(x[1] + y[i]*(x[2] + y[i]*x[3]))",
        "O[i] = Sum[j:4](x[j]*y[i]**j)",
    ),
    (
        "a binomial",
        "O[i] = (x[i] - y[i])**4",
        "O[i] = x[i]**4 - 4*x[i]**3*y[i] + 6*x[i]**2*y[i]**2 - 4*x[i]*y[i]**3 + y[i]**4",
    ),
]

PRODUCTS = [
    (
        "a product of quotients telescopes",
        "O[()] = Prod[i:6](x[i+1]/x[i])",
        "O[()] = x[6]/x[0]",
    ),
    (
        "a product over two axes",
        "O[()] = Prod[i:5,j:7](A[i,j])",
        "T[j] = Prod[i](A[i,j])\nO[()] = Prod[j](T[j])",
    ),
    (
        "a product of scaled elements",
        "O[i:5] = Prod[j](A[i,j]*y[j]/2)",
        "O[i:5] = Prod[j](A[i,j])*Prod[j](y[j])/128",
    ),
    (
        "the logarithm of a product of exponentials",
        "O[()] = log(Prod[i](exp(x[i])))",
        "O[()] = Sum[i](x[i])",
    ),
    (
        "a product that is cut in two",
        "O[()] = Prod[i:3](1 + x[i])*Prod[i:4](1 + x[i+3])",
        "O[()] = Prod[i:7](1 + x[i])",
    ),
    (
        "a product of absolute values",
        "O[()] = Abs(Prod[i](x[i]))",
        "O[()] = Prod[i](Abs(x[i]))",
    ),
]

CONVOLUTIONS = [
    (
        "a convolution reversed",
        "O[i:5] = Sum[r:3](x[i+r]*K[r])",
        "O[i:5] = Sum[r:3](x[i+2-r]*K[2-r])",
    ),
    (
        "two small filters are one",
        "T[i:5] = x[i] + 2*x[i+1] + x[i+2]\nO[i:3] = T[i] - T[i+2]",
        "O[i:3] = x[i] + 2*x[i+1] - 2*x[i+3] - x[i+4]",
    ),
    (
        "a rectifier before a padded sum",
        "O[i:7] = Sum[r:3](Max(x.pad(1)[i+r-1], 0))",
        "T[i] = Max(x[i], 0)\nO[i:7] = Sum[r:3](T.pad(1)[i+r-1])",
    ),
    (
        "a convolution with a constant filter is a pooled mean",
        "O[i:3] = Sum[r:3](x[2*i+r]*(1/3))",
        "O[i:3] = Sum[r:3](x[2*i+r])/3",
    ),
    (
        "average pooling that leaves padding out",
        "O[i:7] = Sum[r:3](x.pad(1)[i+r-1])/Sum[r:3](Piecewise((1, (i+r >= 1) & (i+r <= 7)), (0, True)))",
        "O[i:7] = Sum[r:3](x.pad(1)[i+r-1])/Piecewise((2, i < 1), (2, i > 5), (3, True))",
    ),
    (
        "a sigmoid of a padded sum",
        "O[i:7] = 1/(1 + exp(-Sum[r:3](x.pad(1)[i+r-1])))",
        "O[i:7] = 1/2 + tanh(Sum[r:3](x.pad(1)[i+r-1])/2)/2",
    ),
]

RECURRENCES = [
    (
        "a linear recurrence unrolled",
        "a[()] = x[0]\nb[()] = s[()]*a[()] + x[1]\nc[()] = s[()]*b[()] + x[2]\nO[()] = s[()]*c[()] + x[3]",
        "O[()] = Sum[i:4](s[()]**(3 - i)*x[i])",
    ),
    (
        "a moving average of two steps",
        "a[i:5] = (1 - s[()])*A[i,0] + s[()]*A[i,1]\nO[i] = (1 - s[()])*a[i] + s[()]*A[i,2]",
        "a[i:5] = A[i,0] + s[()]*(A[i,1] - A[i,0])\nO[i] = a[i] + s[()]*(A[i,2] - a[i])",
    ),
    (
        "a gated unit written both ways",
        "z1[i] = 1/(1 + exp(-x[i]))\nO[i] = (1 - z1[i])*tanh(y[i]) + z1[i]*z[i]",
        "z1[i] = 1/(1 + exp(x[i]))\nO[i] = z[i] + z1[i]*(tanh(y[i]) - z[i])",
    ),
    (
        "an online maximum and sum",
        "M[()] = Max(x[0], x[1])\nL1[()] = exp(x[0] - M[()]) + exp(x[1] - M[()])\n"
        "N[()] = Max(M[()], x[2])\nO[()] = L1[()]*exp(M[()] - N[()]) + exp(x[2] - N[()])",
        "N[()] = Max[i:3](x[i])\nO[()] = Sum[i:3](exp(x[i] - N[()]))",
    ),
]

FAMILIES = {
    "extremes": EXTREMES,
    "cases": CASES,
    "exponentials": EXPONENTIALS,
    "trigonometry": TRIGONOMETRY,
    "attention": ATTENTION,
    "rational functions": RATIONAL,
    "norms": NORMS,
    "statistics": STATISTICS,
    "linear algebra": LINEAR,
    "series": SERIES,
    "products": PRODUCTS,
    "convolutions": CONVOLUTIONS,
    "recurrences": RECURRENCES,
}


NO_LAWS = [
    (
        "a maximum without its first element",
        "O[i:5] = Max[j:7](A[i,j])",
        "O[i:5] = Max[j:6](A[i,j+1])",
    ),
    (
        "pooling by two stages, one element short",
        "T[i:6] = Max(x[i], x[i+1])\nO[i:4] = Max(T[i], T[i+2])",
        "O[i:4] = Max(x[i], x[i+1], x[i+2])",
    ),
    ("clamp in the wrong order", "O[i] = Max(Min(x[i], -1), 1)", "O[i] = Min(Max(x[i], -1), 1)"),
    (
        "a negative scale kept a maximum",
        "O[i:5] = Max[j](-2*A[i,j])",
        "O[i:5] = -2*Max[j](A[i,j])",
    ),
    (
        "a tropical product of the wrong side",
        "O[i,k] = Min[j](A[i,j] + S[j,k])",
        "O[i:5,k:7] = Min[j](A[i,j] + S[k,j])",
    ),
    (
        "the product of a maximum is not the maximum of products",
        "O[()] = Max[i](x[i])*s[()]",
        "O[()] = Max[i](x[i]*s[()])",
    ),
    (
        "a leaky slope off in its fifth digit",
        "O[i] = Piecewise((x[i], x[i] > 0), (0.01*x[i], True))",
        "O[i] = Max(x[i], 0) - 0.010001*Max(-x[i], 0)",
    ),
    (
        "hard swish with another corner",
        "O[i] = x[i]*Min(Max(x[i] + 3, 0), 6)/6",
        "O[i] = Piecewise((0, x[i] <= -3), (x[i], x[i] >= 2), (x[i]*(x[i] + 3)/6, True))",
    ),
    (
        "soft threshold without its sign",
        "O[i] = x[i] - Min(Max(x[i], -1), 1)",
        "O[i] = Max(Abs(x[i]) - 1, 0)",
    ),
    (
        "an indicator and its negation at equal values",
        "O[i] = Piecewise((1, x[i] < y[i]), (0, True)) + Piecewise((1, x[i] > y[i]), (0, True))",
        "O[i:7] = 1",
    ),
    (
        "Huber's loss without its half",
        "O[i] = Piecewise((x[i]**2/2, Abs(x[i]) <= 1), (Abs(x[i]) - 1/2, True))",
        "O[i] = Min(Abs(x[i]), 1)*(Abs(x[i]) - Min(Abs(x[i]), 1))",
    ),
    (
        "exponential linear unit without -1",
        "O[i] = Piecewise((x[i], x[i] > 0), (exp(x[i]) - 1, True))",
        "O[i] = Max(x[i], 0) + exp(Min(x[i], 0))",
    ),
    (
        "SiLU by tanh of the whole",
        "O[i] = x[i]/(1 + exp(-x[i]))",
        "O[i] = x[i]/2*(1 + tanh(x[i]))",
    ),
    (
        "GELU by tanh is no GELU by erf",
        "O[i] = x[i]*(1 + erf(x[i]/sqrt(2)))/2",
        "O[i] = x[i]/2*(1 + tanh(0.7978845608*(x[i] + 0.044715*x[i]**3)))",
    ),
    (
        "GELU with the wrong root",
        "O[i] = x[i]*(1 + erf(x[i]/1.41421))/2",
        "O[i] = x[i]*(1 + erf(x[i]/sqrt(2)))/2",
    ),
    (
        "a derivative of a sigmoid, not squared",
        "T[i] = 1/(1 + exp(-x[i]))\nO[i] = T[i]*(1 - T[i])",
        "O[i] = exp(x[i])/(1 + exp(x[i]))",
    ),
    (
        "stable softplus without the modulus",
        "O[i] = log(1 + exp(x[i]))",
        "O[i] = Max(x[i], 0) + log(1 + exp(-x[i]))",
    ),
    (
        "log-sum-exp with temperature forgotten",
        "O[i:5] = log(Sum[j](exp(A[i,j]/3)))*3",
        "M[i] = Max[j](A[i,j])\nO[i:5] = M[i] + log(Sum[j](exp((A[i,j] - M[i])/3)))",
    ),
    (
        "softmax over two axes as a product of two",
        "O[i,j] = exp(A[i,j])/Sum[a:5,b:7](exp(A[a,b]))",
        "O[i,j] = exp(A[i,j])/Sum[b](exp(A[i,b]))*exp(A[i,j])/Sum[a](exp(A[a,j]))",
    ),
    (
        "a softmax of products",
        "O[()] = exp(Sum[i](x[i]*y[i]))",
        "O[()] = Sum[i](exp(x[i]*y[i]))",
    ),
    (
        "hyperbolic double angle, one factor short",
        "O[i] = sinh(2*x[i])",
        "O[i] = sinh(x[i])*cosh(x[i])",
    ),
    (
        "tanh of a difference by a wrong sign",
        "O[i] = tanh(x[i] - y[i])",
        "O[i] = (tanh(x[i]) - tanh(y[i]))/(1 + tanh(x[i])*tanh(y[i]))",
    ),
    (
        "cosine of a sum with a wrong sign",
        "O[i] = cos(x[i])*cos(y[i]) + sin(x[i])*sin(y[i])",
        "O[i] = cos(x[i] + y[i])",
    ),
    (
        "square of a sine by a wrong angle",
        "O[i] = sin(x[i])**2",
        "O[i] = (1 - cos(x[i]))/2",
    ),
    (
        "scores shifted by a number of each key",
        "P[i,j] = exp(Sum[c](q[i,c]*k[j,c]))\nO[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
        "P[i,j] = exp(Sum[c](q[i,c]*k[j,c]) + v[j,0])\n"
        "O[i,d] = Sum[j](P[i,j]*v[j,d])/Sum[j](P[i,j])",
    ),
    (
        "two blocks of keys that forget to rescale",
        "Z[i,j] = Sum[c](q[i,c]*k[j,c])\nO[i,d] = Sum[j](exp(Z[i,j])*v[j,d])/Sum[j](exp(Z[i,j]))",
        "Z[i,j] = Sum[c](q[i,c]*k[j,c])\nM[i:4] = Max[j:4](Z[i,j])\nN[i:4] = Max[j:2](Z[i,j+4])\n"
        "U[i:4,d:2] = Sum[j:4](exp(Z[i,j] - M[i])*v[j,d])\n"
        "V[i:4,d:2] = Sum[j:2](exp(Z[i,j+4] - N[i])*v[j+4,d])\n"
        "a[i:4] = Sum[j:4](exp(Z[i,j] - M[i]))\nb[i:4] = Sum[j:2](exp(Z[i,j+4] - N[i]))\n"
        "O[i,d] = (U[i,d] + V[i,d])/(a[i] + b[i])",
    ),
    (
        "a causal mask that leaves the diagonal out",
        "O[i:6] = Sum[j:6](exp(k[j,0] + Piecewise((0, j <= i), (-inf, True))))",
        "O[i:6] = Sum[j:6](Piecewise((exp(k[j,0]), j < i), (0, True)))",
    ),
    (
        "a mask by a large number",
        "O[i:6] = Sum[j:6](exp(k[j,0] + Piecewise((0, j <= i), (-inf, True))))",
        "O[i:6] = Sum[j:6](exp(k[j,0] + Piecewise((0, j <= i), (-10000, True))))",
    ),
    (
        "a mask by a large number in a maximum",
        "O[i:6] = Max[j:6](k[j,0] + Piecewise((0, j <= i), (-inf, True)))",
        "O[i:6] = Max[j:6](Piecewise((k[j,0], j <= i), (-1000000, True)))",
    ),
    (
        "a telescoping fraction, doubled",
        "O[i] = 1/(1 + x[i]**2) - 1/(3 + x[i]**2)",
        "O[i] = 1/((1 + x[i]**2)*(3 + x[i]**2))",
    ),
    (
        "harmonic mean by a sum of squares",
        "O[i] = 2/(1/x[i] + 1/y[i])",
        "O[i] = x[i]*y[i]/(x[i] + y[i])",
    ),
    (
        "weights normalised over the other axis",
        "O[i,j] = A[i,j]/Sum[k](A[i,k])",
        "O[i,j] = A[i,j]/Sum[k](A[k,j])",
    ),
    (
        "layer norm by an unbiased variance",
        "m[i:5] = Sum[j](A[i,j])/7\nV[i:5] = Sum[j]((A[i,j] - m[i])**2)/7\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i] + 1/1000)",
        "m[i:5] = Sum[j](A[i,j])/7\nV[i:5] = Sum[j]((A[i,j] - m[i])**2)/6\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i] + 1/1000)",
    ),
    (
        "layer norm with epsilon outside of the root",
        "V[i:5] = Sum[j](A[i,j]**2)/7\nO[i,j] = A[i,j]/sqrt(V[i] + 0.00001)",
        "V[i:5] = Sum[j](A[i,j]**2)/7\nO[i,j] = A[i,j]/(sqrt(V[i]) + 0.00001)",
    ),
    (
        "RMS norm of a multiple with epsilon",
        "O[i,j] = 3*A[i,j]/sqrt(Sum[k]((3*A[i,k])**2)/7 + 0.001)",
        "O[i,j] = A[i,j]/sqrt(Sum[k](A[i,k]**2)/7 + 0.001)",
    ),
    (
        "batch norm folded without the mean",
        "T[i,l] = Sum[j](A[i,j]*B[j,l])\nO[i,l] = (T[i,l] - D[l,0])*D[l,2] + D[l,3]",
        "W[j:7,l:6] = B[j,l]*D[l,2]\nO[i,l] = Sum[j](A[i,j]*W[j,l]) + (D[l,3] - D[l,0])",
    ),
    (
        "variance by pairs, not halved",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)/7",
        "O[()] = Sum[i:7,j:7]((x[i] - x[j])**2)/49",
    ),
    (
        "trace of three is not that of another order",
        "T[i,k] = Sum[j](S[i,j]*S[k,j])\nO[()] = Sum[i:7,k:7](T[i,k]*S[k,i])",
        "T[i,k] = Sum[j](S[i,j]*S[j,k])\nO[()] = Sum[i:7,k:7](T[i,k]*S[k,i])",
    ),
    (
        "Kronecker factors in the other order",
        "O[i:4,j:4] = S[i//2,j//2]*D[i%2,j%2]",
        "O[i:4,j:4] = S[i%2,j%2]*D[i//2,j//2]",
    ),
    (
        "squared distances without the factor",
        "O[i:5,k:5] = Sum[j]((A[i,j] - C[k,j])**2)",
        "O[i:5,k:5] = Sum[j](A[i,j]**2) - Sum[j](A[i,j]*C[k,j]) + Sum[j](C[k,j]**2)",
    ),
    (
        "Householder's reflection with half the step",
        "c[()] = Sum[j](x[j]*y[j])/Sum[j](x[j]**2)\nR[i] = y[i] - c[()]*x[i]\n"
        "d[()] = Sum[j](x[j]*R[j])/Sum[j](x[j]**2)\nO[i] = R[i] - d[()]*x[i]",
        "O[i] = y[i]",
    ),
    ("a telescoping sum, one short", "O[()] = Sum[i:6](x[i+1] - x[i])", "O[()] = x[5] - x[0]"),
    (
        "triangular numbers, shifted",
        "O[i:9] = Sum[j:9](Piecewise((j, j <= i), (0, True)))",
        "O[i:9] = i*(i - 1)/2",
    ),
    (
        "a window sum by cumulative sums, one too wide",
        "P[i:8] = Sum[j:7](Piecewise((x[j], j < i), (0, True)))\nO[i:4] = P[i+4] - P[i]",
        "O[i:4] = Sum[r:3](x[i+r])",
    ),
    (
        "a product of sums",
        "O[()] = Prod[i](x[i] + 1)",
        "O[()] = Prod[i](x[i]) + 1",
    ),
    (
        "a product that is cut in two, overlapping",
        "O[()] = Prod[i:4](1 + x[i])*Prod[i:4](1 + x[i+3])",
        "O[()] = Prod[i:7](1 + x[i])",
    ),
    (
        "a rectifier after a sum",
        "O[i:7] = Sum[r:3](Max(x.pad(1)[i+r-1], 0))",
        "O[i:7] = Max(Sum[r:3](x.pad(1)[i+r-1]), 0)",
    ),
    (
        "average pooling that counts padding",
        "O[i:7] = Sum[r:3](x.pad(1)[i+r-1])/3",
        "O[i:7] = Sum[r:3](x.pad(1)[i+r-1])/Piecewise((2, i < 1), (2, i > 5), (3, True))",
    ),
    (
        "a linear recurrence with its powers reversed",
        "a[()] = x[0]\nb[()] = s[()]*a[()] + x[1]\nO[()] = s[()]*b[()] + x[2]",
        "O[()] = Sum[i:3](s[()]**i*x[i])",
    ),
    (
        "a gated unit with its gate turned",
        "z1[i] = 1/(1 + exp(-x[i]))\nO[i] = (1 - z1[i])*tanh(y[i]) + z1[i]*z[i]",
        "z1[i] = 1/(1 + exp(-x[i]))\nO[i] = z1[i]*tanh(y[i]) + (1 - z1[i])*z[i]",
    ),
    (
        "a constant off in its sixth digit",
        "O[i] = exp(x[i]*0.693147)",
        "O[i] = 2**x[i]",
    ),
]


UNSEEN = [law_of_row(family, row, SHAPES) for family, rows in FAMILIES.items() for row in rows]
UNSEEN_WRONG = [law_of_row("no law", row, SHAPES) for row in NO_LAWS]
