"""What must be proved, and what must be found different with the exact region: the derivations of
EinNet, right and wrong.
"""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import einalg as ea

CONV = {"A": (8, 224, 224, 64), "K": (3, 3, 64, 64)}
BANDS = {"Q": (8, 10000, 64), "K": (8, 10000, 64)}
BAND = "O[b,i,w:2001] = Sum[k](Q[b,i,k]*K.pad(0,4000,0)[b,i+4*(w-1000),k])"
INTO_BATCH = """Qf[b:32,i:2500,k:64] = Q[b//4, 4*i + b%4, k]
Kf[b:32,i:2500,k:64] = K[b//4, 4*i + b%4, k]
D[b,i,w:2001] = Sum[k](Qf[b,i,k]*Kf.pad(0,1000,0)[b,i+w-1000,k])
O[b:8,i:10000,w:2001] = D[4*b + i%4, i//4, w]"""
INTO_SEQUENCE = """Qf[b:8,i:10000,k:64] = Q[b, 4*(i%2500) + i//2500, k]
Kf[b:8,i:10000,k:64] = K[b, 4*(i%2500) + i//2500, k]
D[b,i,w:2001] = Sum[k](Qf[b,i,k]*Kf.pad(0,1000,0)[b,i+w-1000,k])
O[b:8,i:10000,w:2001] = D[b, (i%4)*2500 + i//4, w]"""


def test_the_paper_convolution():
    conv = ea.parse("O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]", **CONV)
    inner = "(L[r:3,s:3,n:8,t:-1:225,u:-1:225,f:64](Sum[c:64](A.pad(0,1,1,0)[n,t,u,c]*K[r,s,f,c])))"
    tight = "(L[r:3,s:3,n:8,t:224,u:224,f:64](Sum[c:64](A[n,t,u,c]*K[r,s,f,c]))).pad(0,0,0,1,1,0)"
    for derived in (inner, tight):
        two = ea.parse(
            f"O[n:8,h:224,w:224,f:64] = Sum[r:3,s:3]({derived}[r,s,n,h+r-1,w+s-1,f])", **CONV
        )
        assert ea.prove(conv, two).verdict == "proved"


def test_dilation_classes_of_a_band_fold_into_the_batch():
    assert ea.prove(ea.parse(BAND, **BANDS), ea.parse(INTO_BATCH, **BANDS)).verdict == "proved"


def test_dilation_classes_of_a_band_do_not_fold_into_the_sequence():
    """The region is exactly the outputs whose windows cross the border of a class: where zero is
    right, a neighbour is read.
    """
    proof = ea.prove(ea.parse(BAND, **BANDS), ea.parse(INTO_SEQUENCE, **BANDS))
    assert proof.verdict == "different"
    i, w = np.arange(10000)[:, None], np.arange(2001)[None, :]
    within = i // 4 + w - 1000  # position inside the class
    folded = (i % 4) * 2500 + within
    crosses = ((within < 0) | (within >= 2500)) & (folded >= 0) & (folded < 10000)
    assert proof.region.count_val().to_python() == 8 * crosses.sum() and 0.1 < crosses.mean() < 0.2
    rng = np.random.default_rng(0)
    for row, tap in zip(rng.integers(0, 10000, 300), rng.integers(0, 2001, 300)):
        point = isl.Set(f"{{ [3, {row}, {tap}] }}")
        assert (not proof.region.intersect(point).is_empty()) == crosses[row, tap]


PROVED = [
    ("O[i:4] = Sum[r:2](X[i])", "O[i:4] = 2*X[i]", {"X": (9,)}),
    ("O[i:4] = Sum[r:3](X[i+r])/9", "O[i:4] = X[i]/9 + X[i+1]/9 + X[i+2]/9", {"X": (9,)}),
    (
        "O[i] = Sum[k](Sum[j](A[i,j]*B[j,k])*v[k])",
        "O[i] = Sum[j](A[i,j]*(L[j:6](Sum[k](B[j,k]*v[k])))[j])",
        {"A": (5, 6), "B": (6, 7), "v": (7,)},
    ),
    ("O[i] = Sum[j,k](A[i,j]*A[i,k])", "O[i] = Sum[j](A[i,j])**2", {"A": (4, 5)}),
    ("O[i,j] = Sum[k](A[i,k]*A[j,k])", "O[i,j] = Sum[k](A[j,k]*A[i,k])", {"A": (4, 5)}),
    (
        "O[i:9] = X[i]",
        "O[i:9] = (L[i:4](X[i])).pad((0,5))[i] + (L[i:4:9](X[i])).pad((4,0))[i]",
        {"X": (9,)},
    ),
    (
        "O[h,w] = Max(0, Sum[c](A[h,c]*B[c,w]) + b[w])",
        "T[w,h] = Sum[c](B[c,w]*A[h,c])\nO[h,w] = Max(b[w] + T[w,h], 0)",
        {"A": (4, 5), "B": (5, 6), "b": (6,)},
    ),
    (
        "M[i] = Max[j](S[i,j])\nX[i,j] = exp(S[i,j] - M[i])\nO[i,j] = X[i,j]/Sum[k:7](X[i,k])",
        "M[a] = Max[z](S[a,z])\nO[i,j] = exp(S[i,j] - M[i])/Sum[q:7](exp(S[i,q] - M[i]))",
        {"S": (5, 7)},
    ),
    ("O[i] = A[i]*0.5 + 0.25", "O[i] = (2*A[i] + 1)/4", {"A": (5,)}),
]


@pytest.mark.parametrize(("one", "two", "tensors"), PROVED)
def test_proved(one, two, tensors):
    proof = ea.prove(ea.parse(one, **tensors), ea.parse(two, **tensors))
    assert proof.verdict == "proved" and proof.region is None and not proof.error_probability, proof


DIFFERENT = [
    ("O[i:4] = Sum[r:2](X[i])", "O[i:4] = Sum[r:5](X[i])", {"X": (9,)}, "{ [i] : 0 <= i < 4 }"),
    ("O[i:4] = X[i%2]", "O[i:4] = X[i%4]", {"X": (9,)}, "{ [i] : 2 <= i < 4 }"),
    ("O[i:4] = X[(i+1)//2]", "O[i:4] = X[(i+4)//2]", {"X": (9,)}, "{ [i] : 0 <= i < 4 }"),
    ("O[i:9] = X[i]", "O[i:9] = X.pad(1)[i - i//8]", {"X": (9,)}, "{ [i] : i = 8 }"),
    ("O[i:-2:2] = X[i+2]", "O[i:4] = X[i + i%2]", {"X": (9,)}, "{ [i] : i = 1 or i = 3 }"),
    (
        "O[i,j] += A[i,k]*B[k,j]",
        "O[i,j] = Sum[k:1:5](A[i,k]*B[k,j])",
        {"A": (4, 5), "B": (5, 3)},
        "{ [i, j] : 0 <= i < 4 and 0 <= j < 3 }",
    ),
]


@pytest.mark.parametrize(("one", "two", "tensors", "region"), DIFFERENT)
def test_different_with_the_exact_region(one, two, tensors, region):
    proof = ea.prove(ea.parse(one, **tensors), ea.parse(two, **tensors))
    assert proof.verdict == "different" and proof.region.is_equal(isl.Set(region)), proof


def test_laws_of_functions_are_proved():
    one = ea.parse("O[i] = Max[r:3](X.pad(1,fill=-inf)[i+r-1])", X=(9,))
    two = ea.parse("O[i] = Max(X.pad(1,fill=-inf)[i-1], X[i], X.pad(1,fill=-inf)[i+1])", X=(9,))
    assert ea.prove(one, two).verdict == "proved"
    safe = ea.parse(
        "M[i] = Max[j](S[i,j])\nX[i,j] = exp(S[i,j] - M[i])\nO[i,j] = X[i,j]/Sum[k:7](X[i,k])",
        S=(5, 7),
    )
    plain = "O[i,j] = exp(S[i,j])/Sum[k:{}](exp(S[i,k]))"
    assert ea.prove(safe, ea.parse(plain.format(7), S=(5, 7))).verdict == "proved"
    assert ea.prove(safe, ea.parse(plain.format(6), S=(5, 7))).verdict == "different"


def test_a_transposed_convolution_in_two_scopes():
    plain = ea.ops.conv_transpose2d(
        ea.tensor("A", (2, 3, 4, 4)), ea.tensor("K", (3, 5, 4, 4)), stride=2, padding=1
    )
    inner = "(L[n:2,c:5,x1:5,x2:2,y1:5,y2:2](Sum[f:3,r:2,s:2](A.pad(0,0,1,1)[n,f,x1+r-1,y1+s-1]*K[f,c,2-2*r+x2,2-2*s+y2])))"
    two = ea.parse(
        f"O[n:2,c:5,h:8,w:8] = {inner}[n,c,(h+1)//2,(h+1)%2,(w+1)//2,(w+1)%2]",
        A=(2, 3, 4, 4),
        K=(3, 5, 4, 4),
    )
    assert ea.prove(plain, two).verdict == "proved"
    shifted = ea.parse(
        f"O[n:2,c:5,h:8,w:8] = {inner}[n,c,h//2,h%2,(w+1)//2,(w+1)%2]",
        A=(2, 3, 4, 4),
        K=(3, 5, 4, 4),
    )
    assert ea.prove(plain, shifted).verdict == "different"
