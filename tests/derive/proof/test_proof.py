"""Proofs of equality and of difference: the derivations of the paper at their real sizes, exactly
and fast.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import islpy as isl
import numpy as np
import pytest

import einalg as ea
from derive.proof import DIFFERENT, PROVED, TESTED, Proof, prove
from einalg.display.results.proof import proof_html
from einalg.errors import NotationError, UseError
from einalg.language.ir.tensor import Tensor
from tests.helpers.regions import points

SECONDS = 2.0
IMAGES, KERNEL = (8, 224, 224, 64), (3, 3, 64, 64)
CONV = "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]"
G2BMM = {"Q": (8, 10000, 64), "K": (8, 10000, 64)}
BAND = "O = L[b:8, i:10000, w:2001](Sum[k](Q[b,i,k] * K.pad(0,4000,0)[b, i + 4*(w-1000), k]))"
SOFTMAX = "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j] / Sum[k](E[i,k])"


def quickly(one: Any, two: Any) -> Proof:
    began = process_time()
    proof = prove(one, two)
    assert process_time() - began < SECONDS
    return proof


def same(one: str, two: str, **shapes: Any) -> None:
    proof = quickly(ea.parse(one, **shapes), ea.parse(two, **shapes))
    assert (proof.verdict, proof.error_probability, proof.region) == (PROVED, 0.0, None), proof


def differ(one: str, two: str, region: str | None = None, **shapes: Any) -> None:
    proof = quickly(ea.parse(one, **shapes), ea.parse(two, **shapes))
    assert proof.verdict == DIFFERENT and not proof.holds, proof
    assert proof.region is not None and not proof.region.is_empty()
    if region is not None:
        assert proof.region.is_equal(isl.Set(region)), proof


# Convolutions


@pytest.mark.parametrize(
    ("conv", "derived", "shapes"),
    [
        (
            CONV,
            """T = L[r:3, s:3, n:8, t1:-1:225, t2:-1:225, f:64](Sum[c](A.pad(0,1,1,0)[n,t1,t2,c] * K[r,s,f,c]))
               O[n,h,w,f] = Sum[r,s](T[r,s,n,h+r-1,w+s-1,f])""",
            {"A": IMAGES, "K": KERNEL},
        ),
        (
            "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]",
            """T[r,s,n,f,t1,t2] = Sum[c](A[n,c,t1,t2] * K[f,c,r,s])
               O[n,f,h,w] = Sum[s,r](T.pad(0,0,0,0,1,1)[r,s,n,f,h+r-1,w+s-1])""",
            {"A": (8, 64, 224, 224), "K": (64, 64, 3, 3)},
        ),
        (
            "O[n,h,w,f] += A.pad(0,(2,1),(0,3),0)[n,h+r-2,w+s,c] * K[r,s,f,c]",
            """T = L[r:4, s:4, n:1, y:-2:14, x:0:14, f:5](Sum[c](A.pad(0,(2,1),(0,3),0)[n,y,x,c] * K[r,s,f,c]))
               O[n,h,w,f] = Sum[s,r](T[r,s,n,h+r-2,w+s,f])""",
            {"A": (1, 13, 11, 7), "K": (4, 4, 5, 7)},
        ),
    ],
    ids=["nhwc", "nchw", "asymmetric padding, odd sizes"],
)
def test_convolution_is_a_product_and_an_offset_add(conv: str, derived: str, shapes: Any) -> None:
    same(conv, derived, **shapes)


def test_convolution_with_one_offset_wrong() -> None:
    derived = """T = L[r:3, s:3, n:8, t1:-1:225, t2:-1:225, f:64](Sum[c](A.pad(0,1,1,0)[n,t1,t2,c] * K[r,s,f,c]))
                 O[n,h,w,f] = Sum[r,s](T[r,s,n,h+r-1,w-s+1,f])"""
    differ(
        CONV,
        derived,
        "{ [n,h,w,f] : 0 <= n < 8 and 0 <= h < 224 and 0 <= w < 224 and 0 <= f < 64 }",
        A=IMAGES,
        K=KERNEL,
    )


def test_convolution_without_its_last_row_of_padding() -> None:
    cut = """T = L[r:3, s:3, n:8, t1:-1:224, t2:-1:225, f:64](Sum[c](A.pad(0,1,1,0)[n,t1,t2,c] * K[r,s,f,c]))
             O[n,h,w,f] = Sum[r,s](T.pad(0,0,0,(0,1),0,0)[r,s,n,h+r-1,w+s-1,f])"""
    same(CONV, cut, A=IMAGES, K=KERNEL)
    narrower = cut.replace("t1:-1:224", "t1:-1:223").replace("(0,1),0,0)", "(0,2),0,0)")
    differ(
        CONV,
        narrower,
        "{ [n,h,w,f] : 0 <= n < 8 and 222 <= h < 224 and 0 <= w < 224 and 0 <= f < 64 }",
        A=IMAGES,
        K=KERNEL,
    )


def test_flipped_kernel() -> None:
    flipped = CONV.replace("K[r,s,f,c]", "K[2-r,2-s,f,c]")
    differ(CONV, flipped, A=IMAGES, K=KERNEL)
    same(
        CONV,
        "F[r,s,f,c] = K[2-r,2-s,f,c]\n" + CONV.replace("K[r,s,f,c]", "F[2-r,2-s,f,c]"),
        A=IMAGES,
        K=KERNEL,
    )


def test_transposed_convolution_by_remainders() -> None:
    """4×4, stride 2, padding 1: an output point reads the kernel's taps of its own parity."""
    plain = """U = L[n:2, y:13, x:13, c:8](Sum[h:7, w:7](A[n,h,w,c], where=(Eq(2*h, y), Eq(2*w, x))))
               O[n,y:14,x:14,f] = Sum[r,s,c](U.pad(0,2,2,0)[n,y+r-2,x+s-2,c] * K[3-r,3-s,f,c])"""
    split = """T[n,h,w,r,s,f] = Sum[c](A[n,h,w,c] * K[r,s,f,c])
               O[n,y:14,x:14,f] = Sum[i:2, j:2](T.pad(0,1,1,0,0,0)[n, (y+1)//2 - i, (x+1)//2 - j, (y+1)%2 + 2*i, (x+1)%2 + 2*j, f])"""
    scattered = """O = L[n:2, y:14, x:14, f:6](Sum[h:7, w:7, r:4, s:4, c:8](A[n,h,w,c] * K[r,s,f,c], where=(Eq(2*h+r-1, y), Eq(2*w+s-1, x))))"""
    shapes: dict[str, Any] = {"A": (2, 7, 7, 8), "K": (4, 4, 6, 8)}
    same(scattered, split, **shapes)
    same(plain, split, **shapes)
    differ(scattered, split.replace("(x+1)%2", "x%2"), **shapes)


# Dilated band products


def test_band_product_folded_into_the_batch() -> None:
    folded = """Q2 = L[b:32, i:2500, k:64](Q[b//4, 4*i + b%4, k])
                K2 = L[b:32, i:2500, k:64](K[b//4, 4*i + b%4, k])
                G = L[b:32, i:2500, w:2001](Sum[k](Q2[b,i,k] * K2.pad(0,1000,0)[b, i+w-1000, k]))
                O = L[b:8, i:10000, w:2001](G[4*b + i%4, i//4, w])"""
    same(BAND, folded, **G2BMM)


def test_band_product_folded_into_the_sequence_crosses_the_borders_of_classes() -> None:
    folded = """Q2 = L[b:8, i:10000, k:64](Q[b, 4*(i%2500) + i//2500, k])
                K2 = L[b:8, i:10000, k:64](K[b, 4*(i%2500) + i//2500, k])
                G = L[b:8, i:10000, w:2001](Sum[k](Q2[b,i,k] * K2.pad(0,1000,0)[b, i+w-1000, k]))
                O = L[b:8, i:10000, w:2001](G[b, (i%4)*2500 + i//4, w])"""
    place, row = "2500*(i - 4*floor(i/4)) + floor(i/4) + w - 1000", "floor(i/4) + w - 1000"
    crossing = f"(({row} < 0 or {row} >= 2500) and 0 <= {place} < 10000)"
    differ(
        BAND,
        folded,
        f"{{ [b,i,w] : 0 <= b < 8 and 0 <= i < 10000 and 0 <= w < 2001 and {crossing} }}",
        **G2BMM,
    )


def test_region_of_a_small_band_by_hand() -> None:
    """The same on 8 rows, dilation 2, with the crossing windows listed point by point."""
    shapes = {"Q": (8, 1), "K": (8, 1)}
    band = "O = L[i:8, w:3](Sum[k](Q[i,k] * K.pad(2,0)[i + 2*(w-1), k]))"
    folded = """K2 = L[i:8, k:1](K[2*(i%4) + i//4, k])
                G = L[i:8, w:3](Sum[k](Q[2*(i%4) + i//4, k] * K2.pad(1,0)[i+w-1, k]))
                O = L[i:8, w:3](G[(i%2)*4 + i//2, w])"""
    proof = prove(ea.parse(band, **shapes), ea.parse(folded, **shapes))
    expected = {
        (i, w)
        for i in range(8)
        for w in range(3)
        if not 0 <= i + 2 * (w - 1) < 8 and 0 <= (i % 2) * 4 + i // 2 + w - 1 < 8
    }
    assert points(proof.region) == expected == {(6, 2), (1, 0)}


# Multiplicity, quotients, coefficients


def test_multiplicity_counts() -> None:
    differ("O[i] = Sum[r:2](X[i])", "O[i] = Sum[r:5](X[i])", "{ [i] : 0 <= i < 7 }", X=(7,))
    same("O[i] = Sum[r:5](X[i])", "O[i] = 5*X[i]", X=(7,))
    same("O[i:7] = Sum[r:6](X[i + r//3])", "O[i:7] = 3*X[i] + 3*X[i+1]", X=(8,))
    differ("O[i:7] = Sum[r:6](X[i + r//3])", "O[i:7] = Sum[r:6](X[i + r//4])", X=(8,))
    differ("O[i:4] = Sum[r:3, s:3](X[i+r+s])", "O[i:4] = Sum[t:5](X[i+t])", X=(8,))
    same(
        "O[i:4] = Sum[r:3, s:3](X[i+r+s])",
        "O[i:4] = X[i] + 2*X[i+1] + 3*X[i+2] + 2*X[i+3] + X[i+4]",
        X=(8,),
    )


def test_counts_of_padding() -> None:
    """How many elements a window holds depends on its place."""
    count = "O = L[i:9](Sum[r:3](X[i], where=(i+r-1 >= 0, i+r-1 <= 8)))"
    same(
        count,
        "O = L[i:9](3*X[i] - Sum[j:1](X[i], where=Eq(i, 0)) - Sum[j:1](X[i], where=Eq(i, 8)))",
        X=(9,),
    )
    differ(count, "O[i] = 3*X[i]", "{ [i] : i = 0 or i = 8 }", X=(9,))


def test_quotients() -> None:
    differ("O[i:8] = X[i%2]", "O[i:8] = X[i%4]", "{ [i] : 0 <= i < 8 and i mod 4 >= 2 }", X=(4,))
    differ("O[i:8] = X[(i+1)//2]", "O[i:8] = X[(i+4)//2]", "{ [i] : 0 <= i < 8 }", X=(6,))
    same("O[i:8] = X[(i+4)//2]", "O[i:8] = X[i//2 + 2]", X=(6,))
    same(
        "O[i:24] = X[i]",
        "T = L[a:2, b:3, c:4](X[12*a + 4*b + c])\nO[i:24] = T[i//12, (i//4)%3, i%4]",
        X=(24,),
    )
    same("O[i:7] = X[6-i]", "O[i:7] = X[(-i-1)%7]", X=(7,))


def test_products_associate_and_commute() -> None:
    shapes = {"A": (30, 40), "B": (40, 50), "v": (50,)}
    same(
        "T[i,k] += A[i,j]*B[j,k]\nO[i] += T[i,k]*v[k]",
        "T[j] += B[j,k]*v[k]\nO[i] += T[j]*A[i,j]",
        **shapes,
    )
    same("O[i] += A[i,j]*A[i,k]*v[j]", "O[x] += v[k]*A[x,j]*A[x,k]", A=(5, 6), v=(6,))
    same("O[i] += (A[i,j] + 1)**2", "O[i] = Sum[j](A[i,j]*A[i,j]) + 2*Sum[k](A[i,k]) + 6", A=(5, 6))
    differ("O[i] += A[i,j]*A[i,k]*v[j]", "O[i] += A[i,j]*A[i,j]*v[j]", A=(5, 6), v=(6,))
    differ("O[i] += A[i,j]*A[j,i]", "O[i] += A[i,j]*A[i,j]", "{ [i] : 0 <= i < 6 }", A=(6, 6))
    same("O[i,j] = A[i,j]*A[j,i]", "O[i,j] = A[j,i]*A[i,j]", A=(6, 6))
    same("O[i] = A[i]**3*B[i]", "O[i] = A[i]*B[i]*A[i]*A[i]", A=(6,), B=(6,))


def test_coefficients() -> None:
    pooled = "O[n,h:5,w:5] = Sum[r:3,s:3](A.pad(0,1,1)[n,h+r-1,w+s-1])/9"
    same(
        pooled,
        "T[n,h,w:5] = Sum[s:3](A.pad(0,0,1)[n,h,w+s-1])/3\nO[n,h:5,w:5] = "
        "Sum[r:3](T.pad(0,1,0)[n,h+r-1,w])/3",
        A=(2, 5, 5),
    )
    differ(
        pooled,
        pooled.replace("/9", "/8"),
        "{ [n,h,w] : 0 <= n < 2 and 0 <= h < 5 and 0 <= w < 5 }",
        A=(2, 5, 5),
    )
    same(
        "O[i,j] = Sum[k](A[i,k]*B[k,j] + c[j]/7)",
        "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j] + c[j]",
        A=(3, 7),
        B=(7, 5),
        c=(5,),
    )
    same("O[i] = A[i] - Sum[j](A[j])/5", "O[i] = Sum[j](A[i] - A[j])/5", A=(5,))
    same("O[i] = 0.5*A[i]", "O[i] = A[i]/2", A=(5,))


def test_splitting_into_padded_reads() -> None:
    same(
        "O[i] = A[i]*B[i]",
        "P[i:4] = A[i]*B[i]\nR = L[i:4:9](A[i]*B[i])\nO[i:9] = P.pad((0,5))[i] + R.pad((4,0))[i]",
        A=(9,),
        B=(9,),
    )
    overlapping = (
        "P[i:5] = A[i]*B[i]\nR = L[i:4:9](A[i]*B[i])\nO[i:9] = P.pad((0,4))[i] + R.pad((4,0))[i]"
    )
    differ("O[i] = A[i]*B[i]", overlapping, "{ [i] : i = 4 }", A=(9,), B=(9,))


def test_fills() -> None:
    same(
        "O[i:7] = A.pad(1, fill=3)[i-1]",
        "O[i:7] = A.pad(1)[i-1] + Piecewise((3, i < 1), (3, i >= 6), (0, True))",
        A=(5,),
    )
    differ(
        "O[i:7] = A.pad(1, fill=3)[i-1]",
        "O[i:7] = A.pad(1)[i-1]",
        "{ [i] : i = 0 or i = 6 }",
        A=(5,),
    )
    same(
        "O[i:9] = A.pad(1, fill=3).pad(1, fill=4)[i-2]",
        "T[i:7] = A.pad(1, fill=3)[i-1]\nO[i:9] = T.pad(1, fill=4)[i-1]",
        A=(5,),
    )


def test_points_without_a_value_are_zero() -> None:
    same(
        "O = L[i:5, j:5](A[i,j], where=j <= i)",
        "O[i,j] = Piecewise((A[i,j], j <= i), (0, True))",
        A=(5, 5),
    )
    differ(
        "O = L[i:5, j:5](A[i,j], where=j <= i)",
        "O[i,j] = A[i,j]",
        "{ [i,j] : 0 <= i < j < 5 }",
        A=(5, 5),
    )


def test_indices_as_numbers() -> None:
    same("O[i] = i*A[i]", "T[a:3,b:4] = (4*a+b)*A[4*a+b]\nO[i:12] = T[i//4,i%4]", A=(12,))
    proof = prove(
        ea.parse("O[i] = i*A[i]", A=(12,)), ea.parse("O[i] = (i//4)*A[i] + (i%4)*A[i]", A=(12,))
    )
    assert proof.verdict == DIFFERENT and points(proof.region) == {(i,) for i in range(4, 12)}


# Functions


def test_functions_of_equal_arguments() -> None:
    derived = """T = L[r:3, s:3, n:8, t1:-1:225, t2:-1:225, f:64](Sum[c](A.pad(0,1,1,0)[n,t1,t2,c] * K[r,s,f,c]))
                 O[n,h,w,f] = Max(0, Sum[r,s](T[r,s,n,h+r-1,w+s-1,f]) + B[f])"""
    relu = "C[n,h,w,f] = Sum[r,s,c](A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c])\nO[n,h,w,f] = Max(C[n,h,w,f] + B[f], 0)"
    same(relu, derived, A=IMAGES, K=KERNEL, B=(64,))
    wrong = quickly(
        ea.parse(relu, A=IMAGES, K=KERNEL, B=(64,)),
        ea.parse(derived.replace("w+s-1,f]) +", "w-s+1,f]) +"), A=IMAGES, K=KERNEL, B=(64,)),
    )
    assert wrong.verdict == DIFFERENT and wrong.is_region_exact


def test_softmax() -> None:
    same(
        SOFTMAX,
        "M[a] = Max[k](S[a,k])\nE[i,z] = exp(S[i,z] - M[i])\nO[i,j] = E[i,j] / Sum[z](E[i,z])",
        S=(128, 512),
    )
    in_blocks = """M[i] = Max[a:16, b:32](S[i, 32*a+b])
                   E[i,j] = exp(S[i,j] - M[i])
                   O[i,j] = E[i,j] / Sum[a:128, b:4](E[i, 4*a+b])"""
    same(SOFTMAX, in_blocks, S=(128, 512))
    product = "S[i,j] = Sum[k](Q[i,k]*K[j,k])/8\n"
    transposed = "U[k,j] = K[j,k]/8\nS[i,j] = Sum[k](Q[i,k]*U[k,j])\n"
    same(product + SOFTMAX, transposed + SOFTMAX, Q=(128, 64), K=(512, 64))


def test_maxima_depend_on_the_set_of_elements() -> None:
    window = "O[h:9] = Max[r:5](A.pad(2, fill=-inf)[h+r-2])"
    same(
        window,
        "T[h:9] = Max[r:3](A.pad(1, fill=-inf)[h+r-1])\nO[h:9] = Max[r:3](T.pad(1, "
        "fill=-inf)[h+r-1])",
        A=(9,),
    )
    differ(window, "O[h:9] = Max[r:4](A.pad(2, fill=-inf)[h+r-2])", "{ [h] : 0 <= h < 7 }", A=(9,))
    same("O[i] = Max[j](A[i,j])", "O[i] = Max[j:5, r:3](A[i,(j+r)%5])", A=(4, 5))
    differ(
        "O[i] = Prod[j](A[i,j])", "O[i] = Prod[j, r:2](A[i,j])", "{ [i] : 0 <= i < 4 }", A=(4, 5)
    )


def test_batch_norm_folds_into_the_weights() -> None:
    shapes = {"A": IMAGES, "K": KERNEL, "B": (64,), "V": (64,)}
    after = "C[n,h,w,f] = Sum[r,s,c](A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c])\nO[n,h,w,f] = (C[n,h,w,f] - B[f])/sqrt(V[f] + 0.001)"
    folded = """K2[r,s,f,c] = K[r,s,f,c]/sqrt(V[f] + 0.001)
                C[n,h,w,f] = Sum[r,s,c](A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K2[r,s,f,c])
                O[n,h,w,f] = C[n,h,w,f] - B[f]/sqrt(V[f] + 0.001)"""
    assert quickly(ea.parse(after, **shapes), ea.parse(folded, **shapes)).verdict in (
        PROVED,
        TESTED,
    )
    wrong = quickly(
        ea.parse(after, **shapes),
        ea.parse(folded.replace("- B[f]/sqrt(V[f] + 0.001)", "- B[f]"), **shapes),
    )
    assert wrong.verdict == DIFFERENT


# What is compared


def test_programs_are_compared_output_by_output() -> None:
    one = ea.parse("P[i] = A[i] + B[i]\nQ[i] = A[i]*B[i]", A=(5,), B=(5,))
    two = ea.parse("X[j] = B[j] + A[j]\nY[k] = B[k]*A[k]", A=(5,), B=(5,))
    assert prove(one, two).verdict == PROVED
    three = ea.parse("X[j] = B[j] + A[j]\nY[k] = B[k]*A[4-k]", A=(5,), B=(5,))
    proof = prove(one, three)
    assert (proof.verdict, proof.output, points(proof.region)) == (
        DIFFERENT,
        "Q",
        {(0,), (1,), (3,), (4,)},
    )


def test_origins_do_not_matter() -> None:
    same("O = L[i:-3:4](A[i+3])", "O[i:7] = A[i]", A=(7,))
    differ("O = L[i:-3:4](A[i+3])", "O[i:7] = A[i - i//6]", "{ [i] : i = 6 }", A=(7,))


def test_tensors_with_another_origin() -> None:
    i = ea.indices("i")
    assert (
        prove(ea.L[i](Tensor("A", ((-3, 4),))[i]), ea.parse("O[i] = A[i]", A=(7,))).verdict
        == PROVED
    )


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        (
            ("O[i] = A[i]", {"A": (5,)}),
            ("O[i:4] = A[i]", {"A": (5,)}),
            "output O has shape (5,), and shape (4,) in the other",
        ),
        (
            ("O[i:4] = A[i]", {"A": (5,)}),
            ("O[i:4] = A[i]", {"A": (6,)}),
            "input A has shape (5,), and shape (6,) in the other",
        ),
        (
            ("O[i] = A[i]", {"A": (5,)}),
            ("P[i] = A[i]\nQ[i] = A[i]", {"A": (5,)}),
            "one has 1 outputs, the other 2",
        ),
    ],
)
def test_shapes_that_differ(one: Any, two: Any, reason: str) -> None:
    proof = prove(ea.parse(one[0], **one[1]), ea.parse(two[0], **two[1]))
    assert (proof.verdict, proof.reason, proof.region) == (DIFFERENT, reason, None)
    assert reason in str(proof)


def test_only_expressions_are_compared() -> None:
    with pytest.raises(NotationError, match="expected a tensor expression"):
        prove(np.zeros(3), ea.parse("O[i] = A[i]", A=(3,)))


@pytest.mark.parametrize("shape", [(), (3,), ("N", "M"), (2,) * 9])
def test_a_tensor_stands_for_its_elements(shape: tuple[Any, ...]) -> None:
    x = ea.tensor("x", shape)
    assert prove(ea.ops.mul(x, 1), x).verdict == PROVED
    assert prove(x, ea.ops.add(x, 1)).verdict == DIFFERENT


def test_a_tensor_is_known_to_text() -> None:
    assert prove("O[i] = x[i]", ea.tensor("x", ("N",), "i32")).verdict == PROVED


@pytest.mark.parametrize("shape", [(3,), ("N",)])
def test_an_input_has_one_type(shape: tuple[Any, ...]) -> None:
    one, two = ea.tensor("x", shape, "i32"), ea.tensor("x", shape, "u8")
    with pytest.raises(UseError, match="x is i32 on one side, and u8 on the other"):
        prove(ea.ops.mul(one, 1), ea.ops.relu(two))


def test_empty_domains() -> None:
    same("O[i] = Sum[j:0](A[i])", "O[i:3] = 0*A[0]", A=(3,))
    same("O[i] = A[i]", "O[i] = A[i] + Sum[j:2:2](A[j])", A=(3,))


def test_text_of_a_proof() -> None:
    one, two = ea.parse("O[h] = A[h]", A=(9,)), ea.parse("O[h:9] = A[h - h//8]", A=(9,))
    assert (
        repr(prove(one, one))
        == "proved: equal at every output point, for all inputs (access relations)"
    )
    assert repr(prove(one, two)) == "different: O differs (access relations)\n  where: { [h = 8] }"


def test_only_what_is_proved_is_true() -> None:
    proofs = [Proof(verdict) for verdict in (PROVED, TESTED, DIFFERENT)]
    assert list(map(bool, proofs)) == [True, False, False]
    assert [proof.holds for proof in proofs] == [True, True, False]


def test_a_region_says_whether_it_is_all_that_differs() -> None:
    region = isl.Set("{ [i] : 0 <= i < 4 }")
    exact = Proof(DIFFERENT, region, "access relations", 0.0, "O", is_region_exact=True)
    seen = Proof(DIFFERENT, region, "evaluation", None, "O", coverage="at 9 output points")
    assert "\n  where: " in str(exact) and "where: <code>" in proof_html(exact)
    assert str(seen).startswith("different: O differs (evaluation; at 9 output points)")
    assert "\n  where, at least: " in str(seen) and "where, at least: <code>" in proof_html(seen)


def test_rounded_numbers_without_elements_are_known():
    """Where the padding is read, what is rounded is 0."""
    tensors = {"A": ea.tensor("A", (1,))}
    one = ea.parse("O[j:2] = Sum[s:2](Max[r:2](A[0]*floor(A.pad((0, 1))[j]*s/2)))", **tensors)
    other = ea.parse("O[j:2] = A[0]*floor(A.pad((0, 1))[j]/2)", **tensors)
    assert ea.prove(one, other).verdict == "proved"
    assert (
        ea.prove(one, ea.parse("O[j:2] = A[0]*floor(A[0]/2) + 0*j", **tensors)).verdict
        == "different"
    )
