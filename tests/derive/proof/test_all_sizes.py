"""Proofs for all symbolic sizes: verdicts, regions, the sizes at which two programs differ."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea

EQUAL: list[tuple[str, str, dict[str, Any]]] = [
    ("O[i] += A[i,j]*x[j]", "T[i,j]=A[i,j]*x[j]\nO[i] += T[i,j]", {"A": ("N", "M"), "x": ("M",)}),
    ("O[i] += A[i,j]", "O[i] += A[i,M-1-j]", {"A": ("N", "M")}),
    ("O[i] = Sum[k:3](A[i+k])", "O[i:N-2] = A[i+1]+A[i]+A[i+2]", {"A": (ea.size("N", 3),)}),
    ("O[i] = Sum[k:3](A[i+k])", "O[i:N-2] = A[i+1]+A[i]+A[i+2]", {"A": ("N",)}),
    ("O[i] = A[i]", "T[i] = A[N-1-i]\nO[i] = T[N-1-i]", {"A": ("N",)}),
    (
        "O[i:N+M] = A.pad((0,M))[i] + B.pad((N,0))[i-N]",
        "T[i:N+M] = A.pad((0,M))[i]\nO[i:N+M] = B.pad((N,0))[i-N] + T[i]",
        {"A": ("N",), "B": ("M",)},
    ),
    ("O[i] += A[i,j]", "O[i] = Sum[j:1:M](A[i,j]) + A[i,0]", {"A": ("N", "M")}),
    ("O[i:N] = Sum[k:N-1](A[i])", "O[i] = N*A[i] - A[i]", {"A": ("N",)}),
    ("O[i:N] = Sum[k:N](Sum[j:M](A[i]))", "O[i:N] = Sum[j:M](N*A[i])", {"A": ("N",)}),
    ("O[i] = Sum[k](A[i,k])/M", "O[i] = Sum[k](A[i,k]/M)", {"A": ("N", "M")}),
    ("O[i] = exp(A[i] + A[N-1-i])", "O[i] = exp(A[N-1-i] + A[i])", {"A": ("N",)}),
    ("O[i] = Max[k](A[i,k])", "O[i] = Max[k](A[i,M-1-k])", {"A": ("N", "M")}),
    (
        "O[i] = exp(A[i])/Sum[k](exp(A[k]))",
        "E[i] = exp(A[i])\nO[i] = E[i]/Sum[k](E[N-1-k])",
        {"A": ("N",)},
    ),
    ("O[i:N//2] = A[2*i]+A[2*i+1]", "O[i:N//2] = Sum[k:2](A[2*i+k])", {"A": ("N",)}),
    ("O[i,j] = A[i]*B[j]", "T[j,i] = A[i]*B[j]\nO[i,j] = T[j,i]", {"A": ("N",), "B": ("N",)}),
    ("O[i] = A[i]*(N//2)", "O[i] = A[i]*N/2", {"A": (ea.size("N", multiple_of=2),)}),
    (
        "O[i] = exp(A[i]*((N+2)//2))",
        "O[i] = exp(A[i]*N/2 + A[i])",
        {"A": (ea.size("N", multiple_of=4),)},
    ),
]


@pytest.mark.parametrize("one, two, shapes", EQUAL)
def test_equal_for_all_sizes(one: str, two: str, shapes: dict[str, Any]) -> None:
    proof = ea.prove(one, two, **shapes)
    assert proof.verdict == "proved"
    assert proof.sizes.is_empty()
    assert proof.counterexample is None
    assert "all sizes" in str(proof)


DIFFERENT: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "O[i] = A[i]",
        "O[i] = A[N-1-i]",
        {"A": ("N",)},
        "[N] -> { [i] : 0 <= i < N and not (2i = N - 1) }",
        "[N] -> { : N >= 2 }",
    ),
    (
        "O[i] += A[i,j]",
        "O[i] = Sum[j:1:M](A[i,j])",
        {"A": ("N", "M")},
        "[N, M] -> { [i] : 0 <= i < N and M >= 1 }",
        "[N, M] -> { : M >= 1 and N >= 1 }",
    ),
    (  # two rows one behind the other: at their border a window reads into the other one
        "O[n:2,w:W] = Sum[k:3](A.pad(0,1)[n,w+k-1])",
        "T[x:2*W] = A.pad(0,(0,W))[0,x] + A.pad(0,(W,0))[1,x-W]\n"
        "S[x:2*W] = Sum[k:3](T.pad(1)[x+k-1])\n"
        "O[n:2,w:W] = Piecewise((S[w], n < 1), (S[w+W], True))",
        {"A": (2, "W")},
        "[W] -> { [0, W - 1] : W >= 1; [1, 0] : W >= 1 }",
        "[W] -> { : W >= 1 }",
    ),
    (
        "O[i] = A[i]*B[0]",
        "O[i] = A[i]*B[M-1]",
        {"A": ("N",), "B": ("M",)},
        "[N, M] -> { [i] : 0 <= i < N and M >= 2 }",
        "[N, M] -> { : M >= 2 and N >= 1 }",
    ),
    (
        "O[i] = A[i] + Sum[k:4:M](B[k])",
        "O[i] = A[i]",
        {"A": ("N",), "B": ("M",)},
        "[N, M] -> { [i] : 0 <= i < N and M >= 5 }",
        "[N, M] -> { : M >= 5 and N >= 1 }",
    ),
]


@pytest.mark.parametrize("one, two, shapes, region, sizes", DIFFERENT)
def test_region_and_sizes(
    one: str, two: str, shapes: dict[str, Any], region: str, sizes: str
) -> None:
    proof = ea.prove(one, two, **shapes)
    assert proof.verdict == "different"
    assert proof.is_region_exact
    unnamed = proof.region.reset_tuple_id() if proof.region.has_tuple_id() else proof.region
    assert unnamed.is_equal(isl.Set(region))
    assert proof.sizes.is_equal(isl.Set(sizes).params())
    assert "smallest" in str(proof)


def test_shapes_that_differ_at_some_sizes() -> None:
    one, two = ea.parse("O[i] = A[i]", A=("N",)), ea.parse("O[i] = A[i]", A=("M",))
    proof = ea.prove(one, two)
    assert proof.verdict == "different"
    assert proof.sizes.is_equal(isl.Set("[N, M] -> { : N >= 1 and M >= 1 and N != M }").params())
    assert proof.are_sizes_exact
    assert ea.prove(one, ea.parse("O[i,j] = A[i]*B[j]", A=("N",), B=(2,))).verdict == "different"
    assert ea.prove(one, ea.parse("O[i] = A[i]", A=(3,))).counterexample == {"N": 1}


def test_values_that_are_only_tested_may_differ_where_shapes_are_equal() -> None:
    sizes = {"N": ea.size("N"), "M": ea.size("M"), "A": (1,)}
    proof = ea.prove(
        "O[i:N] = atan(exp(A[0])) + atan(exp(-A[0]))", "O[i:M] = pi/2 + 0*A[0]", **sizes
    )
    assert proof.verdict == "different" and not proof.are_sizes_exact


@pytest.mark.parametrize(
    "one, two, verdict",
    [
        ("A[i]/(N-2)", "2*A[i]/(2*N-4)", "proved"),
        ("A[i]*log(N-2)", "A[i]*log(N-1)", "different"),
        ("A[i]*sqrt(N-2)", "A[i]*sqrt(N-1)", "different"),
        ("A[i]*(N-1)**(-N)", "A[i]*(N-1)**(-N-1)*(N-1)", "tested"),
    ],
)
def test_sizes_at_which_a_constant_has_no_value(one: str, two: str, verdict: str) -> None:
    assert ea.prove(f"O[i] = {one}", f"O[i] = {two}", A=("N",)).verdict == verdict


def test_what_is_not_decided_for_all_sizes_is_tested_at_some() -> None:
    proof = ea.prove("O[i] = atan(exp(A[i])) + atan(exp(-A[i]))", "O[i] = pi/2 + 0*A[i]", A=("N",))
    assert (proof.verdict, bool(proof), proof.holds) == ("tested", False, True)
    assert "N = 1; N = 2" in proof.coverage
    assert proof.sizes.is_empty()
    proof = ea.prove("O[i] = exp(A[i])", "O[i] = exp(A[N-1-i])", A=("N",))
    assert proof.verdict == "different"
    assert not proof.is_region_exact and not proof.are_sizes_exact
    assert proof.counterexample == {"N": 2}
    assert proof.region.is_equal(isl.Set("[N] -> { [i] : N = 2 and 0 <= i <= 1 }"))


PADDED_SUM = (
    "O[i:N] = Sum[j:N](Sum[k:N](x.pad(4)[(j+2)//3], where=j<k), where={0}) "
    "+ Sum[j:N](x.pad(4)[N-2-j], where=i<1)"
)


@pytest.mark.parametrize(
    ("one", "two", "example"),
    [
        ("O[()] = log(Sum[i:N](exp(x[i]), where=i<9))", "O[()] = log(Sum[i:N](exp(x[i])))", 10),
        ("O[()] = Sum[i:N](Max(x[i], 0), where=i<20)", "O[()] = Sum[i:N](Max(x[i], 0))", 21),
        (
            "O[i:N] = log(Sum[j:N](exp(x[j]), where=(j<=i, i-j<=16)))",
            "O[i:N] = log(Sum[j:N](exp(x[j]), where=j<=i))",
            18,
        ),
        (PADDED_SUM.format("3*i>=N-1"), PADDED_SUM.format("3*i>N-1"), 4),
        (
            "O[i:N//2] = Sum[k:N](exp(x[k])*x[2*i]**2, where=i//4<5)",
            "O[i:N//2] = Sum[k:N](exp(x[k])*x[2*i]**2)",
            42,
        ),
        ("O[i:N] = Max(N, 12)*atan(exp(x[i]))", "O[i:N] = 12*atan(exp(x[i]))", 13),
        (
            "O[i:N] = Piecewise((atan(exp(x[i])), i<30), (Max(x[i], 0), True))",
            "O[i:N] = atan(exp(x[i])) + 0*Max(x[i], 0)",
            31,
        ),
        ("O[i:N] = Max[j:41](x.pad(20)[i+j-20])", "O[i:N] = Max(Max[j:N](x[j]), 0)", 22),
    ],
)
def test_sizes_that_are_tried_are_those_of_the_program(one: str, two: str, example: int) -> None:
    """The two agree at all smaller sizes."""
    proof = ea.prove(one, two, x=("N",))
    assert proof.verdict == "different"
    assert proof.counterexample == {"N": example}


@pytest.mark.parametrize(
    ("where", "is_enough"),
    [("k<11", lambda n, m: m > 11), ("k+i<14", lambda n, m: n + m > 15)],
)
def test_choices_of_several_sizes_are_those_of_the_program(where: str, is_enough: Any) -> None:
    text = "O[()] = log(Sum[i:N](Sum[k:M](exp(x[i,k]){0})))"
    proof = ea.prove(text.format(f", where={where}"), text.format(""), x=("N", "M"))
    assert proof.verdict == "different"
    assert proof.counterexample is not None
    assert is_enough(proof.counterexample["N"], proof.counterexample["M"])


def test_sizes_with_few_points_are_tried() -> None:
    """And those of a condition that a program has, the most telling one first."""
    text = "O[i:N] = Sum[j:N]({0}, where=(j<=i, i-j<={1}))"
    one, two = "atan(exp(x[j])) + atan(exp(-x[j]))", "pi/2 + 0*x[j]"
    tried = ea.prove(text.format(one, 12), text.format(two, 12), x=("N",)).coverage
    assert tried.endswith("N = 8; N = 9; N = 11; N = 12; N = 13; N = 14; N = 15")
    tried = ea.prove(text.format(one, 600), text.format(two, 600), x=("N",)).coverage
    assert tried.endswith("N = 8; N = 9; N = 602")


def test_reductions_over_sizes_that_may_be_0() -> None:
    M = ea.size("M", at_least=0)
    B = ea.tensor("B", (M,), "u8")
    one = ea.parse("O[i:3] = Max(Max[k:M](B[k]), 0)", B=B)
    proof = ea.prove(one, ea.parse("O[i:3] = Max[k:M](B[k])", B=B))
    assert proof.counterexample == {"M": 0}
    assert ea.prove("O[i:N] = Max[k:M](A[i])", "O[i] = Max[k:2](A[i])", A=("N",))
    twice = ea.parse("O[i] = Max[k:M](A[i])", A=(3,), M=M)
    assert ea.prove(twice, ea.parse("O[i] = A[i]*1", A=(3,))).counterexample == {"M": 0}


def test_sizes_are_shown() -> None:
    proof = ea.prove("O[i] = A[i]", "O[i:N] = A[0]", A=("N",))
    assert "at sizes: [N] -> {  : N >= 2 }; the smallest N = 2" in str(proof)
    assert "the smallest N = 2" in proof._repr_html_()
    assert "at sizes" not in ea.prove("O[i] = A[i]", "O[i:N] = A[i]", A=("N",))._repr_html_()


def test_sizes_that_are_tried_are_allowed() -> None:
    N = ea.size("N", multiple_of=3)
    one, two = (
        ea.parse(f"O[i:N-20, j:M] = {body}", A=(N,), M=ea.size("M", at_most=2))
        for body in ("atan(exp(A[i])) + atan(exp(-A[i]))", "pi/2 + 0*A[i]")
    )
    proof = ea.prove(one, two)
    assert proof.verdict == "tested"
    assert proof.coverage.startswith("at sizes M = 1, N = 21; M = 2, N = 21; M = 1, N = 24; ")


def test_bounds_may_be_long_numbers() -> None:
    N = ea.size("N", at_least=10**20, at_most=10**30, multiple_of=10**19)
    assert ea.prove("O[i] = A[i] + A[i]", "O[i] = 2*A[i]", A=(N,))
    proof = ea.prove("O[i] = A[i]", "O[i:N] = A[0]", A=(N,))
    assert proof.counterexample == {"N": 10**20}


def test_one_name_is_one_size() -> None:
    one, two = ea.parse("O[i] = A[i]", A=("N",)), ea.parse("O[i] = A[i]", A=(ea.size("N", 2),))
    with pytest.raises(ea.NotationError, match="two sizes are called N"):
        ea.prove(one, two)


# Spellings of the same value at `i` of `0..N`, and values that are nearly the same.
KINDS: list[list[str]] = [
    ["A[i]", "A[N-1-(N-1-i)]", "Sum[k:N](A[k], where=Eq(k, i))", "A[N-1-i]"],
    [
        "Sum[k:N](A[k])",
        "Sum[k:N](A[N-1-k])",
        "A[0] + Sum[k:1:N](A[k])",
        "Sum[k:N//2](A[k]) + Sum[k:N//2:N](A[k])",
        "Sum[k:N](A[k], where=k<=i) + Sum[k:N](A[k], where=k>i)",
        "Sum[k:N-1](A[k])",
        "Sum[k:1:N](A[k]) + A[1]",
        "Sum[k:N](A[k], where=k<=i) + Sum[k:N](A[k], where=k>i+1)",
    ],
    [
        "A.pad(1)[i+1]",
        "Sum[k:1:N](A[k], where=Eq(k, i+1))",
        "(L[j:-1:N-1](A[j+1])).pad((0,1))[i]",
        "A.pad((0,2))[i+2]",
        "A.pad(1)[i-1]",
    ],
    [
        "Sum[k:M](B[k]*A[i])",
        "A[i]*Sum[k:M](B[M-1-k])",
        "A[i]*B[0] + Sum[k:1:M](B[k])*A[i]",
        "Sum[k:M-1](B[k]*A[i]) + A[i]*B[M-1]",
        "Sum[k:M](B[k]*A[i]) - A[i]*B[M-1]",
    ],
    ["M*A[i]", "Sum[k:M](A[i])", "Sum[k:M-1](A[i]) + A[i]", "Sum[k:M-1](A[i])"],
]
SHAPES = {"A": (ea.size("N", 2),), "B": ("M",)}
SIDES = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.integers(0, 20), st.integers(0, 20)),
    min_size=1,
    max_size=3,
)


@cache
def _statement(terms: tuple[str, ...]) -> Any:
    return ea.parse(f"O[i:N] = {' + '.join(terms)}", **SHAPES)


# Values with functions in them, and values that are nearly the same, at `i` of `0..N`.
OF_FUNCTIONS: list[list[str]] = [
    [
        "Max[k:N](A[k])",
        "Max(A[i], Max[k:N](A[N-1-k]))",
        "Max(Max[k:N](A[k], where=k<=i), Max[k:N](A[k], where=k>=i))",
        "Max(Max[k:N-1](A[k]), A[N-1])",
        "-Min[k:N](-A[k])",
        "Max[k:N-1](A[k])",
        "Max(Max[k:N](A[k], where=k<=i), A[0])",
    ],
    [
        "Piecewise((A[i], A[i] > B[0]), (B[0], True))",
        "(A[i] + B[0] + Abs(A[i] - B[0]))/2",
        "Max[k:M](Max(A[i], B[0]))",
        "Max[k:M](Max(A[i], B[k]))",
        "Piecewise((A[i], ~(A[i] > B[M-1])), (B[M-1], True))",
    ],
    [
        "Sum[k:N](Max(A[k], 0), where=k<i) + Max(A[i], 0)",
        "Sum[k:N]((A[k] + Abs(A[k]))/2, where=k<=i)",
        "Sum[k:N](Max(A[N-1-k], 0), where=k>=N-1-i)",
        "Sum[k:N](Max(A[k], 0), where=k<=i+1)",
        "Sum[k:1:N](Max(A[k], 0), where=k<=i) + Max(A[0], 0)",
    ],
    [
        "Piecewise((A[i], i < N - 1), (A[N-1], True))",
        "Max(A[i], 0) + Min(A[i], 0)",
        "Piecewise((A[i], N > 2), (A[0], True))",
        "Piecewise((A[i], N > 1), (A[0], True))",
        "Sum[k:M](sign(A[i])*Abs(A[i]))/M",
    ],
]


@pytest.mark.parametrize("spellings", OF_FUNCTIONS, ids=lambda spellings: spellings[0])
def test_functions_agree_with_the_reference_at_some_sizes(spellings: list[str]) -> None:
    sides = [_statement((spelling,)) for spelling in spellings]
    values = [_values_at_some_sizes(side) for side in sides]
    for (one, ours), (two, theirs) in combinations(zip(sides, values), 2):
        are_equal = all(np.array_equal(a, b) for a, b in zip(ours, theirs))
        assert ea.prove(one, two).holds == are_equal, (one, two)


def _values_at_some_sizes(side: Any) -> list[Any]:
    """Return what the reference computes at a few sizes, of three inputs each."""
    rng = np.random.default_rng(7)
    values = []
    for n, m in ((2, 1), (3, 2), (4, 3)):
        concrete = side.at(**{name: {"N": n, "M": m}[name] for name in side.sizes})
        for _ in range(3):
            arrays = {"A": rng.integers(-9, 9, n), "B": rng.integers(-9, 9, m)}
            inputs = {name: arrays[name] for name in concrete.tensors}
            values.append(ea.evaluate(concrete, **inputs))
    return values


@settings(max_examples=30)
@given(SIDES, st.integers(0, 2**20))
def test_agrees_with_the_reference_at_every_size(sides: Any, seed: int) -> None:
    _compare_with_the_reference(sides, seed)


@pytest.mark.nightly
@settings(max_examples=600)
@given(SIDES, st.integers(0, 2**20))
def test_agrees_with_the_reference_in_many_cases(sides: Any, seed: int) -> None:
    _compare_with_the_reference(sides, seed)


def _compare_with_the_reference(sides: Any, seed: int) -> None:
    one = _statement(tuple(KINDS[kind][first % len(KINDS[kind])] for kind, first, _ in sides))
    two = _statement(tuple(KINDS[kind][second % len(KINDS[kind])] for kind, _, second in sides))
    proof = ea.prove(one, two)
    rng = np.random.default_rng(seed)
    for n in (2, 3, 6):
        for m in (1, 4):
            arrays = {
                "A": rng.integers(1, 10**6, n),
                "B": rng.integers(1, 10**6, m),
            }
            values = []
            for side in (one, two):
                sizes = {name: {"N": n, "M": m}[name] for name in side.sizes}
                concrete = side.at(**sizes)
                inputs = {name: arrays[name] for name in concrete.tensors}
                values.append(ea.evaluate(concrete, **inputs))
            differing = set(np.flatnonzero(values[0] != values[1]).tolist())
            _check(proof, n, m, differing)


def _check(proof: Any, n: int, m: int, differing: set[int]) -> None:
    """A region is that of the reference where it is exact, and holds no other points where not."""
    if proof.verdict != "different":
        assert not differing
        return
    at = isl.Set(f"[N, M] -> {{ : N = {n} and M = {m} }}").params()
    points = set()
    proof.region.intersect_params(at).foreach_point(
        lambda point: points.add(int(point.get_coordinate_val(isl.dim_type.set, 0).to_python()))
    )
    if proof.is_region_exact:
        assert points == differing
        assert bool(differing) == (not proof.sizes.intersect(at).is_empty())
    else:
        assert points <= differing
    assert proof.counterexample is not None


DIVIDED = "P[i] = Sum[k:{0}](exp(C[k])*A[i])/A[i]", "P[i:3] = Sum[k:{0}](exp(C[k]))"
LARGEST = "O[i] = Max[k:{0}](exp(C[k]))*B[i]", "O[i] = exp(Max[k:{0}](C[k]))*B[i]"


@pytest.mark.parametrize("size", ["N", 5])
@pytest.mark.parametrize("rows", [(DIVIDED, LARGEST), (LARGEST, DIVIDED), (DIVIDED,), (LARGEST,)])
def test_the_condition_of_any_output_is_told(rows: Any, size: Any) -> None:
    """Also where only one of several needs it."""
    outputs = ", ".join(one[0] for one, _ in rows)
    shapes = {"A": (3,), "B": (3,), "C": (size,)}
    programs = []
    for side in zip(*rows):
        text = "\n".join([*(row.format(size) for row in side), outputs])
        read = {name: shape for name, shape in shapes.items() if f"{name}[" in text}
        programs.append(ea.parse(text, **read))
    proof = ea.prove(*programs)
    assert proof.verdict == "proved"
    assert ("where no denominator is 0" in proof.method) == (DIVIDED in rows)
