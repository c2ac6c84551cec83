"""Limits of devices in tests of compilation."""

from __future__ import annotations

import einalg as ea

LARGE = {
    "product": lambda: ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(1024, 1000), B=(1000, 1030)),
    "products": lambda: ea.parse("O[b,i,j] += A[b,i,k]*B[b,j,k]", A=(16, 250, 64), B=(16, 250, 64)),
    "convolution": lambda: ea.parse(
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
        A=(2, 64, 56, 56),
        K=(64, 64, 3, 3),
    ),
    "map": lambda: ea.parse("O[i] = exp(A[i]) + A[i]", A=(1 << 20,)),
    "row sums": lambda: ea.parse("O[i] += A[i,j]", A=(100, 100000)),
    "wide": lambda: ea.parse("O[i] = A[i,7]", A=(1 << 18, 1 << 14)),
}
