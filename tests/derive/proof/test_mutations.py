"""No single wrong number passes: every mutant of an expression that has other values is rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from derive.proof import DIFFERENT, PROVED, prove
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.scope import Scope
from tests.helpers.mutations import mutations
from tests.helpers.regions import points

# Each with an equivalent that was derived by hand.
EXPRESSIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "convolution": (
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]",
        "T = L[r:3,s:3,n:1,y:-1:5,x:-1:4,f:2](Sum[c](A.pad(0,1,1,0)[n,y,x,c]*K[r,s,f,c]))\nO[n,h,w,f] "
        "= Sum[r,s](T[r,s,n,h+r-1,w+s-1,f])",
        {"A": (1, 4, 3, 2), "K": (3, 3, 2, 2)},
    ),
    "asymmetric padding": (
        "O[i] += A.pad((2,1))[i+2*r-2]*K[r]",
        "T[i,r] = A[i]*K[r]\nO[i:6] = Sum[r](T.pad((2,1),0)[i+2*r-2,r])",
        {"A": (7,), "K": (3,)},
    ),
    "strides": (
        "O[i:3] = Sum[r:3](A[2*i+r+1]*K[r])",
        "O[i:3] = A[2*i+1]*K[0] + A[2*i+2]*K[1] + A[2*i+3]*K[2]",
        {"A": (9,), "K": (3,)},
    ),
    "dilation": (
        "O[i:5] = Sum[r:3](A.pad(3)[i+3*r-3]*K[r])",
        "O[j:5] = Sum[r:3](A.pad(4)[j-3*r+3]*K[2-r])",
        {"A": (6,), "K": (3,)},
    ),
    "quotients": (
        "O[i:12] = A[i//3, i%3]*B[(i+1)//2]",
        "O[i:12] = A[i//3, (i+3)%3]*B[i - i//2]",
        {"A": (4, 3), "B": (7,)},
    ),
    "nested quotients": (
        "O[i:12] = A[(i//2)%3, i//6, i%2]",
        "T[a:2,b:3,c:2] = A[b,a,c]\nO[i:12] = T[i//6,(i%6)//2,i%2]",
        {"A": (3, 2, 2)},
    ),
    "triangle": (
        "O = L[i:5](Sum[j:5](A[i,j]*x[j], where=j <= i))",
        "O[i] = Sum[j](Piecewise((A[i,j]*x[j], i >= j), (0, True)))",
        {"A": (5, 5), "x": (5,)},
    ),
    "domain": (
        "O = L[i:6](A[i]*A[i], where=(i >= 1, 2*i <= 9))",
        "O[i:6] = Piecewise((A[i]**2, (i >= 1) & (i < 5)), (0, True))",
        {"A": (6,)},
    ),
    "fill": (
        "O[i:8] = A.pad((2,2), fill=3)[i-1]",
        "O[i:8] = A.pad(2)[i-1] + Piecewise((3, i < 1), (3, i > 5), (0, True))",
        {"A": (5,)},
    ),
    "two fills": (
        "O[i:9] = A.pad(1, fill=2).pad(1, fill=5)[i-2]",
        "T = L[i:-1:6](A.pad(1, fill=2)[i])\nO[i:9] = T.pad(1, fill=5)[i-2]",
        {"A": (5,)},
    ),
    "nested scopes": (
        "T = L[y:-1:6](Sum[c](A.pad(1,0)[y,c]*K[c]))\nO[h:5] = T[h+1] + T[h]*T[h-1]",
        "T[y] = Sum[c](A[y,c]*K[c])\nO[h:5] = T.pad(1)[h-1]*T[h] + T.pad(1)[h+1]",
        {"A": (5, 2), "K": (2,)},
    ),
    "transposed convolution": (
        "O = L[h:8](Sum[r:2](A.pad(2)[(h+1)//2-r]*K[(h+1)%2+2*r]))",
        "O = L[h:8](Sum[a:4, r:4](A[a]*K[r], where=Eq(2*a+r-1, h)))",
        {"A": (4,), "K": (4,)},
    ),
    "products of one tensor": (
        "O[i:4] = Sum[j:3](A[i+j]*A[i])",
        "O[i:4] = A[i]**2 + A[i]*A[i+1] + A[i]*A[i+2]",
        {"A": (6,)},
    ),
    "average": (
        "O[i:4] = Sum[j:3](A.pad(1)[i+j-1])/3",
        "T[i] = A[i]/3\nO[i:4] = T.pad(1)[i-1] + T[i] + T.pad(1)[i+1]",
        {"A": (4,)},
    ),
    "multiplicity": (
        "O[i:4] = Sum[r:3, s:2](A[i+r+s])",
        "O[i:4] = A[i] + 2*A[i+1] + 2*A[i+2] + A[i+3]",
        {"A": (7,)},
    ),
    "matrix chain": (
        "T[i,k] = Sum[j](A[i,j]*B[j,k])\nO[i] = Sum[k](T[i,k]*v[k])",
        "T[j] = Sum[k](B[j,k]*v[k])\nO[i] = Sum[j](A[i,j]*T[j])",
        {"A": (2, 3), "B": (3, 4), "v": (4,)},
    ),
    "band": (
        "O[i:6, w:3] = Sum[k](Q[i,k]*K.pad(2,0)[i+2*(w-1),k])",
        "Q2[b:2,i:3,k:2] = Q[2*i+b,k]\nK2[b:2,i:3,k:2] = K[2*i+b,k]\nG[b:2,i:3,w:3] = Sum[k](Q2[b,i,k]*K2.pad(0,1,0)[b,i+w-1,k])\nO[i:6,w:3] = G[i%2,i//2,w]",
        {"Q": (6, 2), "K": (6, 2)},
    ),
    "split": (
        "O[i:9] = A[i]*B[9-i]",
        "P[i:4] = A[i]*B[9-i]\nR = L[i:4:9](A[i]*B[9-i])\nO[i:9] = P.pad((0,5))[i] + "
        "R.pad((4,0))[i]",
        {"A": (11,), "B": (12,)},
    ),
    "indices as numbers": (
        "O[i:6] = (2*i + 1)*A[i]",
        "T[a:2,b:3] = (6*a + 2*b + 1)*A[3*a+b]\nO[i:6] = T[i//3,i%3]",
        {"A": (6,)},
    ),
    "piecewise": (
        "O[i:6] = Piecewise((A[i], i < 2), (2*A[5-i], True))",
        "O[i:6] = Piecewise((2*A[5-i], i >= 2), (A[i], True))",
        {"A": (6,)},
    ),
    "quotient": (
        "O[i:4] = A[i]/(B[i]*B[i] + 1)",
        "T[i] = 1/(B[i]**2 + 1)\nO[i] = T[i]*A[i]",
        {"A": (4,), "B": (4,)},
    ),
    "maximum": (
        "O[h:5] = Max[r:3](A.pad(1, fill=-inf)[h+r-1])",
        "T[h:5] = Max[r:2](A.pad((1,0), fill=-inf)[h+r-1])\nO[h:5] = "
        "Max[r:2](T.pad((0,1), fill=-inf)[h+r])",
        {"A": (5,)},
    ),
    "product": (
        "O[i:4] = Prod[j:3](A.pad(1, fill=1)[i+j-1])",
        "O[i:4] = Prod[j:2, k:2](A.pad(2, fill=1)[i+2*j+k-1], where=2*j+k <= 2)",
        {"A": (4,)},
    ),
    "clipped": (
        "O[i:5] = Max(Sum[j](A[i,j]*x[j]), 0)",
        "O[i:5] = Max(0, Sum[j](x[j]*A[i,j]))",
        {"A": (5, 2), "x": (2,)},
    ),
}
DECIDED_BY_RELATIONS = set(EXPRESSIONS) - {
    "maximum",
    "product",
    "clipped",
    "quotient",
    "indices as numbers",
}


def parsed(name: str) -> tuple[Scope, Scope]:
    one, two, shapes = EXPRESSIONS[name]
    return inlined(as_program(ea.parse(one, **shapes))), inlined(
        as_program(ea.parse(two, **shapes))
    )


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_equals_itself_and_what_is_derived_from_it(name: str) -> None:
    one, two = parsed(name)
    assert prove(one, one).verdict == PROVED
    for a, b in ((one, two), (two, one)):
        proof = prove(a, b)
        assert (proof.verdict, proof.error_probability) == (PROVED, 0.0), proof


def values(scope: Scope, seed: int) -> Any:
    """On integers of which no two products or sums meet by chance, negative and positive."""
    arrays = {}
    for name, tensor in scope.tensors.items():
        rng = np.random.default_rng([seed, *name.encode()])
        arrays[name] = rng.integers(-(10**6), 10**6, tensor.shape)
    return evaluate(scope, **arrays)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_mutant_with_other_values_is_rejected(name: str) -> None:
    one, _ = parsed(name)
    expected = [values(one, seed) for seed in range(3)]
    rejected = 0
    for mutant in mutations(one):
        proof = prove(one, mutant)
        if one.shape != mutant.shape:
            assert proof.verdict == DIFFERENT and proof.reason
            continue
        differing = np.logical_or.reduce(
            [values(mutant, seed) != array for seed, array in enumerate(expected)]
        )
        if differing.any():
            assert proof.verdict == DIFFERENT, f"{proof}\n{one}\n{mutant}"
            rejected += 1
        if name in DECIDED_BY_RELATIONS:
            assert proof.method == "access relations"
            assert points(proof.region) if differing.any() else proof.verdict == PROVED, (
                f"{proof}\n{one}\n{mutant}"
            )
            found = points(proof.region) if proof.region is not None else set()
            assert found == set(map(tuple, np.argwhere(differing).tolist())), (
                f"{proof}\n{one}\n{mutant}"
            )
    assert rejected >= 3, "too few mutants to mean anything"


def test_mutants_cover_every_kind_of_number() -> None:
    one = ea.parse(
        "O = L[i:1:4](Sum[j:2](A.pad((1,2), fill=7)[3*i+j-4]*B[(i+5)//2], where=i >= j))",
        A=(6,),
        B=(6,),
    )
    texts = {str(m) for m in mutations(one)}
    whole = "L[i:1:4](Sum[j:2](A.pad((1, 2), fill=7)[3*i + j - 4]*B[(i + 1)//2 + 2], where=i >= j))"
    assert str(one) == whole and whole not in texts
    for number, other in (
        ("i:1:4", "i:2:4"),
        ("i:1:4", "i:1:3"),
        ("j:2", "j:1"),
        ("j:2", "j:1:2"),
        ("(1, 2)", "(1, 3)"),
        ("(1, 2)", "2"),
        ("fill=7", "fill=8"),
        ("3*i + j - 4", "3*i + 2*j - 4"),
        ("3*i + j - 4", "3*i + j - 3"),
        ("(i + 1)//2", "(i + 1)//3"),
        ("(i + 1)//2 + 2", "(i + 1)//2 + 3"),
        ("i >= j", "i >= j + 1"),
        ("i >= j", "2*i >= j"),
    ):
        assert whole.replace(number, other) in texts, (
            f"{number} -> {other} is not among\n" + "\n".join(sorted(texts))
        )
