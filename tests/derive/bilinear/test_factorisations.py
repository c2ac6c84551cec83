"""Bilinear factorisations: exact identities of every size, records, and that every changed entry is
noticed.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.bilinear import (
    STRASSEN,
    Factorisation,
    correlation,
    correlation_tensor,
    matmul,
    matmul_tensor,
    named,
)
from tests.helpers.factorisations import COMPLEX, KARATSUBA, mutants, small_rationals


@pytest.mark.parametrize("m", range(1, 9))
@pytest.mark.parametrize("r", range(1, 8))
def test_correlations_of_every_size(m, r):
    f = correlation(m, r)
    assert f.rank == m + r - 1 and f.computes(correlation_tensor(m, r))
    assert all(v.is_Integer for v in f.U.values)


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_correlations_at_any_points(m, r, data):
    points = tuple(
        data.draw(st.lists(small_rationals, min_size=m + r - 2, max_size=m + r - 2, unique=True))
    )
    assert correlation(m, r, points).computes(correlation_tensor(m, r))


def test_winograds_minimal_filter():
    f = correlation(2, 3)
    assert (
        ea.constant("F_2_3_U", [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]) == f.U
    )
    assert ea.constant("F_2_3_W", [[1, 1, 1, 0], [0, 1, -1, 1]]) == f.W


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=27)
def test_trivial_products(a, b, c):
    assert matmul(a, b, c).rank == a * b * c and matmul(a, b, c).computes(matmul_tensor(a, b, c))


def test_strassen():
    assert (
        STRASSEN.rank == 7
        and STRASSEN.computes(matmul_tensor(2, 2, 2))
        and named("strassen") is STRASSEN
    )


@pytest.mark.parametrize(
    ("f", "tensor"),
    [
        (correlation(4, 3), correlation_tensor(4, 3)),
        (STRASSEN, matmul_tensor(2, 2, 2)),
        (KARATSUBA, COMPLEX),
    ],
)
def test_every_changed_entry_is_noticed(f, tensor):
    assert f.computes(tensor) and not any(mutant.computes(tensor) for mutant in mutants(f))


@pytest.mark.parametrize(
    "f",
    [correlation(3, 2), correlation(2, 2, ("1/3", 2)), STRASSEN, KARATSUBA],
    ids=lambda f: f.name,
)
def test_records(f):
    assert Factorisation.from_record(json.loads(json.dumps(f.as_record()))) == f


BROKEN = [
    {},
    None,
    [],
    {"name": "x", "U": "1", "V": "1", "W": "1"},
    {**KARATSUBA.as_record(), "U": [["x"]]},
    {**KARATSUBA.as_record(), "name": "a b"},
]


@pytest.mark.parametrize(
    "record", [*BROKEN, {**KARATSUBA.as_record(), "V": [["1", "0"], ["1/0", "0"]]}]
)
def test_broken_records(record):
    with pytest.raises(ea.RecordError, match="the record holds no factorisation"):
        Factorisation.from_record(record)
