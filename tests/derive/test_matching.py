"""Index groups, the distance to a matrix multiplication with its reasons, and the roofline estimate."""

from __future__ import annotations

import pytest

import einalg as ea
from derive.cost import Roofline, operations, total, traffic
from derive.matching import contraction, distance, index_groups, match, reasons
from derive.search import kernels_of
from einalg.program import as_program


def groups(text, **tensors):
    found = contraction(ea.parse(text, **tensors))
    assert found is not None
    return {k: " ".join(map(str, v)) for k, v in index_groups(found).items()}


def test_the_iterator_mapping_table_tells_the_groups():
    found = groups("O[b,h,f,w] += A[b,h,w,c]*K[b,f,c]", A=(2, 3, 4, 5), K=(2, 6, 5))
    assert found == {"b": "b", "m": "h w", "n": "f", "k": "c", "stray": ""}


def test_indices_of_extent_one_are_in_no_group():
    found = groups("O[b,i,j] += A[b,i,k]*B[k,j]", A=(1, 3, 4), B=(4, 1))
    assert found == {"b": "", "m": "i", "n": "", "k": "k", "stray": ""}


@pytest.mark.parametrize(
    ("text", "tensors", "sizes"),
    [
        ("O[i,j] += A[i,k]*B[k,j]", dict(A=(3, 4), B=(4, 5)), {"b": 1, "m": 3, "n": 5, "k": 4}),
        ("O[j,i] += A[k,i]*B[j,k]", dict(A=(4, 3), B=(5, 4)), {"b": 1, "m": 3, "n": 5, "k": 4}),
        ("O[x,b,i,j] += A[b,i,k,x]*B[b,k,j]", dict(A=(2, 3, 4, 7), B=(2, 4, 5)), {"b": 2, "m": 21, "n": 5, "k": 4}),
        ("O[n,f,h,w] += A[n,c,h,w]*K[f,c]", dict(A=(2, 3, 4, 7), K=(5, 3)), {"b": 1, "m": 56, "n": 5, "k": 3}),
        ("O[i] += A[i,k]*B[k]", dict(A=(3, 4), B=(4,)), {"b": 1, "m": 3, "n": 1, "k": 4}),
    ],
)
def test_every_layout_matches(text, tensors, sizes):
    kernel = match(ea.parse(text, **tensors), "O")
    assert kernel is not None and kernel.op == "matmul" and kernel.sizes == sizes and set(kernel.inputs) == set(tensors)


@pytest.mark.parametrize(
    ("text", "tensors", "why"),
    [
        ("O[i] = A[i]", dict(A=(3,)), "the body is not a sum of products of exactly two reads"),
        ("O[i] = Max[k](A[i,k]*B[k])", dict(A=(3, 4), B=(4,)), "the body is not a sum of products of exactly two reads"),
        ("O[i] += A[i,j]*B[j,k]*C[k]", dict(A=(3, 4), B=(4, 5), C=(5,)), "the body is not a sum of products of exactly two reads"),
        ("O[h] += A.pad((0,2))[h+r]*K[r]", dict(A=(5,), K=(3,)), "the subscript h + r of A is not a bare index"),
        ("O[i:5] += A.pad(1)[k]*B[i,k]", dict(A=(5,), B=(5, 5)), None),
        ("O[i] += A[i,k,k]*B[k]", dict(A=(3, 4, 4), B=(4,)), "k stands twice in A"),
        ("O[i,j] += A[i,k]*B[j]", dict(A=(3, 4), B=(5,)), "k belongs to no index group of a product"),
        ("O[i,j] = Sum[k](A[i,k]*B[k,j], where=k>=1)", dict(A=(3, 4), B=(4, 5)), "the domain has the condition k >= 1"),
    ],
)
def test_each_reason_has_words_and_a_weight(text, tensors, why):
    found = reasons(ea.parse(text, **tensors))
    if why is not None:
        assert why in [r.text for r in found]
    assert found and all(r.weight > 0 for r in found)
    assert match(ea.parse(text, **tensors), "O") is None


def test_distance_is_zero_exactly_for_a_match():
    matmul = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))
    conv = ea.parse("O[h,f] += A.pad(1,0)[h+r-1,c]*K[r,f,c]", A=(6, 3), K=(3, 2, 3))
    assert distance([matmul]) == 0 < distance([conv])


def test_the_estimate_counts_operations_and_bytes():
    matmul = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(30, 40), B=(40, 50))
    assert operations(matmul) == 2 * 30 * 40 * 50
    assert traffic(matmul) == 4 * (30 * 40 + 40 * 50 + 30 * 50)
    model = Roofline(library=1e9, generated=1e8, bandwidth=1e12, call=0.0)
    assert total(model, kernels_of(as_program(matmul))) == pytest.approx(operations(matmul) / 1e9)
    half = ea.parse("O[i] = A[i] + 1", A=ea.tensor("A", (10,), dtype="f16"))
    assert traffic(half) == 2 * 20
