"""The three rules of range inference, and every way in which they can fail (design §4)."""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from einalg.errors import NotationError, RangeError
from einalg.language.ir.scope import all_scopes
from einalg.language.ir.traversal import reductions

A, B, K = ea.tensor("A", (8, 6)), ea.tensor("B", (6, 5)), ea.tensor("K", (3,))
SHIFTED = ea.tensor("S", ((-2, 5),))


def ranges(text: str, **tensors: Any) -> str:
    """The ranges that inference finds, of `L` and of every reduction."""
    scope = ea.parse(text, **{"A": A, "B": B, "K": K, "S": SHIFTED, **tensors})
    found = [*scope.iterators, *(it for r in reductions(scope.body) for it in r.iterators)]
    return ", ".join(map(str, found))


@pytest.mark.parametrize(
    "text, expected",
    [
        # (i) a bare subscript takes the axis
        ("O[i,j] = A[i,j]", "i:8, j:6"),
        ("O[j,i] = A[i,j]", "j:6, i:8"),
        ("O[i] = S[i]", "i:-2:5"),
        ("O[i] = A[i,0] + A[i,1]", "i:8"),
        ("O[i,j] += A[i,k]*B[k,j]", "i:8, j:5, k:6"),
        ("O[i] = Max[k](A[i,k]) - Min[k](B[k,0])", "i:8, k:6, k:6"),
        ("O[j] = Sum[i](A[i,j]*Sum[k](B[k,0]))", "j:6, i:8, k:6"),
        ("O[i] = A[i,0] + A[i+1,0]", None),
        ("O[i,j] = A.pad(2,3)[i,j]", "i:8, j:6"),
        ("O[i] = (L[i:2:5](A[i,0]))[i]", "i:2:5"),
        ("O[j] = A[2*j, j]", None),
        # (ii) one unresolved index in an axis takes the widest range that stays inside
        ("O[i] = A[2*i,0]", "i:4"),
        ("O[i] = A[3*i+1,0]", "i:3"),
        ("O[i] = A[7-i,0]", "i:8"),
        ("O[i] = A[i,0] + A[7-i,0]", "i:8"),
        ("O[h] += A[h+r,0]*K[r]", "h:6, r:3"),
        ("O[h] += A.pad(1,0)[h+r-1,0]*K[r]", "h:8, r:3"),
        ("O[h] += A.pad((0,2),0)[h+r,0]*K[r]", "h:8, r:3"),
        ("O[h] += A.pad(1,0)[2*h+r-1,0]*K[r]", "h:4, r:3"),
        ("O[h] += A.pad(2,0)[h+2*r-2,0]*K[r]", "h:8, r:3"),
        ("O[h] += A[h+2*r,0]*K[r]", "h:4, r:3"),
        ("O[h,w] += A[h+r,w+s]*K[r]*K[s]", "h:6, w:4, r:3, s:3"),
        ("O[h] = Sum[r:5](A[h+r,0])", "h:4, r:5"),
        ("O[h] = Sum[r](A[h+r,r])", "h:3, r:6"),
        ("O[x] += A[x+y,y]*A[x+y+z,0]*K[z]", "x:1, y:6, z:3"),
        ("O[x,y] = A[x+y,0] + B[y,0]", "x:3, y:6"),
        # given ranges win
        ("O[i:4,j] = A[i,j]", "i:4, j:6"),
        ("O[i:1:4,j] = A[i,j]", "i:1:4, j:6"),
        ("O[i:-1:8] = A.pad(1,0)[i,0]", "i:-1:8"),
        ("O[i:5] = A[i,0]*B[i,0]", "i:5"),
        ("O[i:9] = A[i//2, i%3]", "i:9"),
        ("O[i:0] = A[i,0]", "i:0"),
        ("O[i] = A[i%8,i]", "i:6"),
        ("O[i] = A[i,0] + E[0]", "i:8"),
        ("O[z] = E[z]", "z:0"),
    ],
)
def test_inferred(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(RangeError):
            ranges(text, E=(1,))
    else:
        assert ranges(text, E=(0,) if "z" in text else (1,)) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "O[i] = A[i,0]*B[i,0]",
            r"index i has two sizes: 8 \(A axis 0\) and 6 \(B axis 0\)\n  write i:6 "
            r"where it is bound",
        ),
        ("O[i] = A[i,i]", r"index i has two sizes: 8 \(A axis 0\) and 6 \(A axis 1\)"),
        (
            "O[i] = A[i,0]*S[i]",
            r"index i has two ranges: \[0,8\) \(A axis 0\) and \[-2,5\) \(S axis 0\)\n  "
            r"write i:5 where",
        ),
        (
            "O[i] = S[i] + Z[i]",
            r"two ranges: \[-2,5\) \(S axis 0\) and \[6,9\) \(Z axis 0\)\n  use two indices",
        ),
        (
            "O[i] = A[i+1,0]",
            r"index i would range over \[-1,7\) \(A axis 0\), not from 0\n  write i:7 "
            r"\(0 to 7\) or i:-1:7 where it is bound",
        ),
        (
            "O[i] = A[i-2,0]",
            r"index i would range over \[2,10\) \(A axis 0\), not from 0\n  write i:2:10 where",
        ),
        ("O[i] = A[-i,0]", r"would range over \[-7,1\)"),
        (
            "O[i] = A[-i-1,0]",
            r"would range over \[-8,0\) \(A axis 0\), not from 0\n  write i:-8:0 where",
        ),
        (
            "O[h] = Sum[r:9](A[h+r,0])",
            r"index h has no value at which every read stays inside \(A axis 0\)\n  pad that axis",
        ),
        ("O[h] = Sum[r:20](A[h+r,0])", "index h has no value at which"),
        (
            "O[i,j:9] = A[i,0]+A[i+j,0]",
            r"reads \[0,16\) of A axis 0, which holds \[0,8\)\n  pad it: A.pad\(\(0, 8\), 0\)",
        ),
        (
            "O[i] = A[0,0]",
            r"cannot infer the range of i: no subscript uses it\n  write i:SIZE where it is bound",
        ),
        ("O[i,j] = A[0,0]", "cannot infer the range of i, j: no subscript uses them"),
        (
            "O[i,j] = A[i+j,0]",
            r"cannot infer the range of i, j: each appears only beside another "
            r"unresolved index, or under // or %",
        ),
        ("O[i] = A[i//2,0]", "cannot infer the range of i: each appears only beside"),
        ("O[i] = A[i%3,0] + B[0,0]*i", "cannot infer the range of i"),
        (
            "O[i,k] = A[i//2,k]",
            r"cannot infer the range of i: .*\n  known: k in \[0,6\) \(A axis 1\)\n  write i:SIZE",
        ),
        (
            "O[i] = A[i,6]",
            r"6 reads \[6,7\) of A axis 1, which holds \[0,6\)\n  pad it: A.pad\(0, \(0, "
            r"1\)\), or narrow an index",
        ),
        ("O[i:9] = A[i,0]", r"i reads \[0,9\) of A axis 0, which holds \[0,8\)"),
        ("O[i:-1:8] = A[i,0]", r"i reads \[-1,8\) of A axis 0"),
        (
            "O[i:9] = A.pad((1,0),0,fill=3)[i,0]",
            r"which holds \[-1,8\)\n  pad it: A.pad\(1, 0, fill=3\)",
        ),
        (
            "O[i:8] = (L[i:3](A[i,0]))[i//2]",
            r"i//2 reads \[0,4\) of the inner scope axis 0, which holds \[0,3\)\n  pad "
            r"it: \(...\).pad\(\(0, 1\)\)",
        ),
    ],
)
def test_what_cannot_be_inferred(text: str, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        ranges(text, Z=ea.tensor("Z", ((6, 9),)))


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "O = L[i](A[i, j])",
            r"index j is not bound\n  add it to L\[...\] or to a reduction, e.g. Sum\[j\]\(...\)",
        ),
        ("O[i] = Sum[i](A[i, 0])", "index i is bound twice\n  rename one of the two"),
        ("O[i] = Sum[k](Sum[k](A[i, k]))", "index k is bound twice"),
        ("O[i, i] = A[i, i]", "index i is bound twice"),
        ("O = L[i](A[i, 0], where=i >= j)", "index j in i >= j is not bound"),
        ("O = L[i](A[i, 0]*Sum[k:3](Sum[j:2](i, where=m >= 0)))", "index m in m >= 0 is not bound"),
        ("O = L[i:4](A[i, 0]*m)", "index m in m is not bound"),
    ],
)
def test_indices_that_are_not_bound_once(text: str, message: str) -> None:
    with pytest.raises(NotationError, match=message):
        ranges(text)


@pytest.mark.parametrize(
    "text",
    [
        "O[i:8,j:8] = A[(i+j)//2, 0]",
        "O[i:16] = A[i//2, i%6]",
        "O = L[i:9, j:9](A[i+j, 0], where=i+j <= 7)",
        "O = L[i:9, j:9](A[i-j, 0], where=(i >= j, i <= 7))",
        "O[i:9] = Sum[j:9](A[i+j, 0], where=i+j <= 7)",
        "O[i:8] = A[2*(i//2) + i%2, 0]",
        "O = L[i:100](A[i, 0], where=i <= 7)",
        "O[i:5] = A[i*0, 0]",
        "O = L[i:100](A[50, 0], where=i >= 200)",
    ],
)
def test_reads_are_judged_on_the_exact_domain(text: str) -> None:
    """Where the bounds of a box say too little, isl knows."""
    ranges(text)


@pytest.mark.parametrize(
    "text",
    [
        "O = L[i:9, j:9](A[i+j, 0], where=i+j <= 8)",
        "O[i:9,j:9] = A[(i+j)//2, 0]",
        "O[i:17] = A[i//2, 0]",
    ],
)
def test_reads_one_too_far_on_the_exact_domain(text: str) -> None:
    with pytest.raises(RangeError, match=r"reads \[0,9\) of A axis 0"):
        ranges(text)


def test_nothing_is_shrunk_silently() -> None:
    """A convolution without padding, written as if it had some, is refused rather than made
    smaller.
    """
    with pytest.raises(RangeError, match=r"h would range over \[1,7\)"):
        ea.parse("O[h] += A[h+r-1]*K[r]", A=(8,), K=(3,))


def test_a_gap_is_not_read() -> None:
    text = "O[i:4,j:4] = (L[i:4, j:4](A[i, j], where=i >= j))"
    with pytest.raises(
        RangeError,
        match=r"reads points of the inner scope at which it has no value \(it has where "
        r"i >= j\)\n  pad it: \(...\).pad\(0, 0\)",
    ):
        ranges(f"{text}[i, j]")
    assert ranges(f"{text}.pad(0, 0)[i, j]") == "i:4, j:4"
    assert ranges(f"O = L[i:4,j:4](({text[13:]})[i, j], where=i >= j + 1)") == "i:4, j:4"


def test_a_gap_of_an_earlier_statement_is_not_read() -> None:
    text = "T = L[i:4, j:4](A[i, j], where=i >= j)\nO[i:4,j:4] = "
    with pytest.raises(
        RangeError,
        match=r"T\[i, j\] reads points of T at which it has no value .*\n  pad it: T.pad\(0, 0\)",
    ):
        ea.parse(f"{text}T[i, j]", A=A)
    with pytest.raises(RangeError, match="has no value"):
        ea.parse(f"{text}1 + (L[i:4,j:4](T[i, j]))[i, j]", A=A)
    assert ea.parse(f"{text}T.pad(0, 0, fill=-1)[i, j]", A=A)["O"].shape == (4, 4)


def test_where_the_caret_stands() -> None:
    with pytest.raises(RangeError) as caught:
        ea.parse("T[i] = A[i,0]\nO[i] = T[i] * A[i, 2*i+9]", A=A)
    assert caught.value.message.split("\n")[:2] == ["O[i] = T[i] * A[i, 2*i+9]", " " * 19 + "^" * 5]


def test_two_reductions_may_give_one_name_two_ranges() -> None:
    scope = ea.parse("O[j] = Sum[i](A[i,j]) + Sum[i](B[i,0])", A=A, B=B)
    assert sorted(str(it) for r in reductions(scope.body) for it in r.iterators) == ["i:6", "i:8"]


def test_every_scope_is_closed_after_inference() -> None:
    scope = ea.parse("O[h] += (L[h](Max[r](A.pad(1,0)[h+r-1,r])))[h+s]*K[s]", A=(8, 3), K=K)
    bound = [
        it
        for s in all_scopes(scope)
        for it in (*s.iterators, *(it for r in reductions(s.body) for it in r.iterators))
    ]
    assert all(isinstance(it.low, int) and isinstance(it.high, int) for it in bound)
