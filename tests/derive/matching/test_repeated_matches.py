"""Scopes that are written alike but for the names of their tensors are matched once, and each gets
its own names.
"""

from __future__ import annotations

import pytest
from hypothesis import given

import einalg as ea
from derive.matching import match, matches
from derive.matching.match_cache import _MATCHES, name_free_form
from einalg.language.ir.program import substitute_tensors
from einalg.language.ir.tensor import Constant, Tensor
from einalg.testing import strategies


def with_names(scope, names):
    """The scope with its tensors called otherwise, in order."""
    tensors = dict(zip(scope.tensors.values(), names))
    made = {
        t.name: t if isinstance(t, Constant) else Tensor(name, t.axes, t.dtype, t.role)
        for t, name in tensors.items()
    }
    return substitute_tensors(scope, made)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("O[i,j] += A[i,k]*B[k,j]", dict(A=(3, 4), B=(4, 5))),
        (
            "O[n,f,h,w] += A.pad(0, 0, 1, 1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
            dict(A=(1, 3, 8, 8), K=(4, 3, 3, 3)),
        ),
        ("O[i:3] = Max(A[i], 0) + 2*B[i]", dict(A=(5,), B=(5,))),
        ("O[i,j] = A[j,i]", dict(A=(5, 3))),
        ("O[i:3] = (L[j:5](A[j] + 1))[i]*B[i]", dict(A=(5,), B=(5,))),
    ],
)
def test_a_kernel_has_the_names_of_its_own_scope(text, shapes):
    scope = ea.parse(text, **shapes)
    other = with_names(scope, ["S", "T"])
    _MATCHES.clear()
    first, second = match(scope, "O"), match(other, "P")
    assert len(_MATCHES) == 1
    _MATCHES.clear()
    assert (match(other, "P"), match(scope, "O")) == (second, first)
    if second is not None:
        assert (
            {*second.inputs} <= {"S", "T", "the inner scope"}
            and second.output == "P"
            and second.scope is other
        )
        assert [view.name for view in second.views] == [*second.inputs, "P"]


@given(strategies.scopes())
def test_a_kernel_that_is_found_again_is_the_one_that_would_be_found(scope):
    match(scope, "O")
    other = with_names(scope, [f"S{k}" for k in range(len(scope.tensors))])
    wanted = next(matches(other, "P"), None)
    found = match(other, "P")
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert (found.op, found.sizes, sorted(found.inputs), found.output) == (
            wanted.op,
            wanted.sizes,
            sorted(wanted.inputs),
            wanted.output,
        )


DIFFERENT = [
    "O[i:3] = A[i]*A[i+1]",
    "O[i:3] = A[i]*B[i+1]",
    "O[i:3] = B[i]*A[i+1]",
    "O[j:3] = A[j]*A[j+1]",
    "O[i:3] = A[i]*A[i+2]",
    "O[i:3] = A[i] + A[i+1]",
    "O[i:2] = A[i]*A[i+1]",
    "O[i:2] = A.pad(1)[i]*A[i+1]",
    "O[i:3] += A[i]*A[k]",
    "O[i:3] = Max[k:5](A[i]*A[k])",
    "O[i:3] = (L[j:5](A[j]))[i]*A[i+1]",
]


def test_what_is_written_otherwise_is_told_apart():
    def written(text):
        shape = ea.tensor("A", (5,)), ea.tensor("B", (5,))
        return name_free_form(ea.parse(text, A=shape[0], B=shape[1]))[0]

    found = [written(text) for text in DIFFERENT]
    assert len(set(found)) == len(DIFFERENT)
    kinds = [dict(dtype="f64"), dict(role="weight")]
    plain = name_free_form(ea.parse("O[i:3] = A[i]", A=Tensor("A", (5,))))[0]
    assert all(
        name_free_form(ea.parse("O[i:3] = A[i]", A=Tensor("A", (5,), **kind)))[0] != plain
        for kind in kinds
    )
    assert name_free_form(ea.parse("O[i:3] = A[i]", A=Tensor("A", ((0, 5),))))[0] == plain
    one, other = (
        name_free_form(ea.parse("O[i:3] = A[i]", A=Constant("A", (3,), "f32", values)))[0]
        for values in ((1, 2, 3), (1, 3, 2))
    )
    assert one != other
