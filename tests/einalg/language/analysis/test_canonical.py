"""The canonical key: equal for the same mathematics in other words, different for everything else."""

from __future__ import annotations

import pytest
import sympy

import einalg as ea
from einalg.language.analysis.canonical import key
from einalg.language.interning import InternedTuple

CONV = dict(A=(2, 8, 8, 4), K=(3, 3, 5, 4))


def k(text, **tensors):
    return key(ea.parse(text, **tensors))


@pytest.mark.parametrize(
    ("one", "two", "tensors"),
    [
        ("O[i,j] += A[i,k]*B[k,j]", "O[x,y] += B[z,y]*A[x,z]", dict(A=(4, 5), B=(5, 6))),
        (
            "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]",
            "O[a,b,d,e] = Sum[x,v,u](K[u,v,e,x]*A.pad(0,1,1,0)[a,b+u-1,d+v-1,x])",
            CONV,
        ),
        ("O[i:1:5] = X[i-1]", "O[i:4] = X[i]", dict(X=(9,))),
        ("O[i:4] = Sum[r:2:5](X[i+r])", "O[i:4] = Sum[r:3](X[i+r+2])", dict(X=(9,))),
        ("O[i] = Sum[r:1](X[i+r])", "O[i] = X[i]", dict(X=(9,))),
        ("O[i:4] = Sum[r:4:5, s:3](X[i+r-4+s])", "O[i:4] = Sum[s:3](X[i+s])", dict(X=(9,))),
        (
            "O[i] = (L[t:-1:8](X.pad(1)[t]))[i-1] + 1",
            "O[i] = (L[t:9](X.pad(1)[t-1]))[i] + 1",
            dict(X=(9,)),
        ),
        ("O[i:4] = (L[t:1, u:5](X[u]*2))[0, i]", "O[i:4] = (L[u:5](X[u]*2))[i]", dict(X=(9,))),
        ("T[i] = X[i] + 1\nO[i] = T[i]*T[i]", "S[j] = 1 + X[j]\nR[x] = S[x]**2", dict(X=(9,))),
        ("O[i] = Max(X[i], Y[i]) + X[i]", "O[i] = X[i] + Max(Y[i], X[i])", dict(X=(9,), Y=(9,))),
        (
            "O = L[i:4, j:4](A[i,j], where=j<=i)",
            "O = L[a:4, b:4](A[a,b], where=(a - b >= 0))",
            dict(A=(4, 4)),
        ),
        (
            "O[i:4] = Sum[a:2,b:2,c:2,d:2](X[i,a,b,c,d])",
            "O[i:4] = Sum[d:2,c:2,b:2,a:2](X[i,a,b,c,d])",
            dict(X=(4, 2, 2, 2, 2)),
        ),
        ("O[i:4] = X.pad(1)[i+1]", "O[i:4] = X.pad(5)[i+1]", dict(X=(4,))),
        ("O[i:4] = X.pad(0,fill=3)[i]", "O[i:4] = X[i]", dict(X=(4,))),
        (
            "O[i:4] = X.pad(1,fill=3).pad(0,fill=2)[i+1]",
            "O[i:4] = X.pad(2,fill=3)[i+1]",
            dict(X=(4,)),
        ),
        (
            "O[i:4] = X.pad(1,fill=3).pad(0).pad(1,fill=3)[i+2]",
            "O[i:4] = X.pad(9,fill=3)[i+2]",
            dict(X=(4,)),
        ),
        (
            "O[i:4] = X.pad(1,fill=3).pad(1,fill=2)[i+2]",
            "O[i:4] = X.pad(1,fill=3).pad((7,4),fill=2)[i+2]",
            dict(X=(4,)),
        ),
        (
            "O[i:6] = (L[t:1, u:4](X[u]*2)).pad(0,1,fill=3).pad(0,1)[0, i-1]",
            "O[i:6] = (L[u:1:5](X[u-1]*2)).pad(1,fill=3).pad(2)[i]",
            dict(X=(4,)),
        ),
        (
            "O[i:6] = (L[t:1, s:1, u:4](Sum[r:2](X[u]*r))).pad(1,0,1)[i//3, 0, i-1]",
            "O[i:6] = (L[t:1, u:4](Sum[r:2](X[u]*r))).pad(1,1)[i//3, i-1]",
            dict(X=(4,)),
        ),
    ],
)
def test_same_mathematics_same_key(one, two, tensors):
    assert k(one, **tensors) == k(two, **tensors)
    assert hash(k(one, **tensors)) == hash(k(two, **tensors))


@pytest.mark.parametrize(
    ("one", "two", "tensors"),
    [
        ("O[i:4] = X[i%2]", "O[i:4] = X[i%4]", dict(X=(4,))),
        ("O[i:4] = X[(i+1)//2]", "O[i:4] = X[(i+4)//2]", dict(X=(9,))),
        (
            "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]",
            "O[n,h,w,f] = Sum[r,s,c](A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[s,r,f,c])",
            CONV,
        ),
        ("O[i] = Sum[r:2](X[i])", "O[i] = Sum[r:5](X[i])", dict(X=(9,))),
        ("O[i] += X[i,j]", "O[i] = Max[j](X[i,j])", dict(X=(4, 5))),
        ("O[i,j] = X[i,j]", "O[j,i] = X[i,j]", dict(X=(4, 4))),
        ("O[i] = X[i]*Y[i]", "O[i] = X[i] + Y[i]", dict(X=(4,), Y=(4,))),
        ("O[i] = X[i] - Y[i]", "O[i] = Y[i] - X[i]", dict(X=(4,), Y=(4,))),
        ("O[i:4] = X.pad(1)[i+1]", "O[i:4] = X.pad(1, fill=1)[i+1]", dict(X=(4,))),
        ("O[i:1, j] = X[j]", "O[j] = X[j]", dict(X=(4,))),
        ("O[i] += A[i,j,k]*B[j,k]", "O[i] += A[i,j,k]*B[k,j]", dict(A=(4, 3, 3), B=(3, 3))),
        (
            "O[i] = Sum[a:2,b:2,c:2](X[i,a,b,c])",
            "O[i] = Sum[a:2,b:2,c:2](X[i,a,a,c])",
            dict(X=(4, 2, 2, 2)),
        ),
        (
            "O = L[i:4, j:4](A[i,j], where=j<=i)",
            "O = L[i:4, j:4](A[i,j], where=i<=j)",
            dict(A=(4, 4)),
        ),
        ("O[i] = X[i] + 0.1", "O[i] = X[i] + 0.2", dict(X=(4,))),
        ("O[i] = X[i]*i", "O[i] = X[i]", dict(X=(4,))),
        (
            "O[i:9] = X.pad(1,fill=2).pad(2,fill=5)[i-2]",
            "O[i:9] = X.pad(2,fill=2).pad(1,fill=5)[i-2]",
            dict(X=(5,)),
        ),
        (
            "O[i:9] = X.pad(1,fill=2).pad(2,fill=5)[i-2]",
            "O[i:9] = X.pad((0,1),fill=2).pad(3,fill=5)[i-2]",
            dict(X=(5,)),
        ),
        (
            "O[i:9] = X.pad(1,fill=2).pad(2,fill=5)[i-2]",
            "O[i:9] = X.pad(1,fill=5).pad(2,fill=2)[i-2]",
            dict(X=(5,)),
        ),
        (
            "O[i:9] = (L[a:5](X[a], where=a>=2)).pad(0,fill=2).pad(2,fill=5)[i-2]",
            "O[i:9] = (L[a:5](X[a], where=a>=2)).pad(2,fill=5)[i-2]",
            dict(X=(5,)),
        ),
        (
            "O[i:7,j:3] = (L[a:1,b:1](X[a+b])).pad(1,0,fill=2).pad(2,1,fill=5)[i-3,j-1]",
            "O[i:7,j:3] = (L[a:1,b:1](X[a+b])).pad(2,0,fill=2).pad(1,1,fill=5)[i-3,j-1]",
            dict(X=(5,)),
        ),
        ("O[i] = X[i]*0.30000000000000004", "O[i] = X[i]*0.3", dict(X=(4,))),
        ("O[i] = Max[r:2](X[i])", "O[i] = Min[r:2](X[i])", dict(X=(4,))),
        ("O[i] = X[i] + 1", "O[i] = X[i] + 2", dict(X=(4,))),
    ],
)
def test_different_mathematics_different_key(one, two, tensors):
    assert k(one, **tensors) != k(two, **tensors)


def test_six_symmetric_indices_are_ordered_at_once():
    text = "O[i] = Sum[a:2,b:2,c:2,d:2,e:2,f:2](X[i])"
    assert k(text, X=(3,)) == k(text.replace("a:2,b:2", "b:2,a:2"), X=(3,))


def test_a_key_is_a_nested_tuple_of_ints_and_names():
    def leaves(node):
        if isinstance(node, tuple):
            for part in node:
                yield from leaves(part)
        else:
            yield node

    found = k("O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]*0.5", **CONV)
    assert isinstance(found, InternedTuple) and {type(leaf) for leaf in leaves(found)} <= {int, str}


def test_shared_inner_scopes_cost_nothing():
    lines = ["T0[i] = X[i] + 1"] + [
        f"T{n}[i] = T{n - 1}[i]*T{n - 1}[i] + T{n - 1}[i]" for n in range(1, 40)
    ]
    assert k("\n".join(lines), X=(3,)) == k("\n".join(lines).replace("i", "j"), X=(3,))


def test_fills_are_told_apart_to_the_last_digit():
    """SymPy prints 15 digits of a float in a product."""
    i, X = ea.indices("i"), ea.tensor("X", (4,))
    fills = [sympy.sqrt(2) * sympy.Float(number) for number in (0.3, 0.30000000000000004)]
    one, two = (ea.L[i:6](X.pad(1, fill=fill)[i - 1]) for fill in fills)
    assert key(one) != key(two)
    assert str(one) != str(two)


@pytest.mark.parametrize("op", ["Sum", "Prod"])
def test_a_number_made_of_one_truth_is_no_truth(op):
    """Their values are equal, and take different room in memory."""
    X = ea.tensor("X", (4,), "bool")
    count, same = ea.parse(f"O[i] = {op}[r:1](X[i])", X=X), ea.parse("O[i] = X[i]", X=X)
    assert (count.dtype, same.dtype) == ("i64", "bool")
    assert key(count) != key(same)
    assert k("O[i] = Max[r:1](X[i])", X=X) == key(same)


def test_a_constant_is_no_input():
    i, values = ea.indices("i"), ea.constant("X", [])
    assert values.shape == (0,)
    assert key(ea.L[i](values[i])) != key(ea.L[i](ea.tensor("X", (0,), values.dtype)[i]))


@pytest.mark.parametrize(
    "text",
    [
        "O[i] = Max(A[i],0) + Max[j](C[i,j])",
        "O[i] = Min(A[i],2) * Min[j](C[i,j])",
        "O[i] = Max(Max(A[i],2), Max[j](C[i,j]))",
        "O[i] = Max(A[i],0)*(1 + Max[j](C[i,j]))",
        "O[i] = Max[k:2](Max(A[i],C[i,k])) + Max[k:2](Max[j](C[k,j])) + Max(A[i],C[i,0])",
    ],
)
def test_extrema_of_elements_stand_beside_those_of_reductions(text):
    tensors = dict(A=(4,), C=(4, 3))
    assert k(text, **tensors) == k(text.replace("j", "x"), **tensors)
    assert k(text, **tensors) != k(text.replace("A[i]", "(A[i]+1)"), **tensors)
