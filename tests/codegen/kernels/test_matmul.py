"""NumPy's matrix product as `matmul`: every order of axes, views and copies, types and sizes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.libraries import library_kernels
from codegen.libraries.operands import OperandView
from codegen.program.compile import compile_program
from derive.matching import match, templates
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.kernels import agrees, evaluated, quick_compiler

b, m, n, k, p, q = ea.indices("b m n k p q")
SIZES = {b: 2, m: 3, n: 4, k: 5, p: 2, q: 3}


def scope_of(left: Any, right: Any, out: Any, summed: Any, dtype: str = "f64") -> Scope:
    """`L[out](Sum[summed](A[left] * B[right]))`."""
    a, w = (
        ea.tensor(name, tuple(SIZES[i] for i in axes), dtype)
        for name, axes in (("A", left), ("B", right))
    )
    body = a[tuple(left)] * w[tuple(right)]
    return ea.L[tuple(out)](ea.Sum[tuple(summed)](body) if summed else body)


def check_scope(scope: Scope, library: str | None = "numpy") -> None:
    program = as_program(scope)
    rng = np.random.default_rng(3)
    given = {}
    for name, tensor in program.tensors.items():
        values = (
            rng.integers(0, 2, tensor.shape)
            if tensor.dtype == "bool"
            else rng.integers(0 if tensor.dtype[0] == "u" else -3, 4, tensor.shape)
        )
        given[name] = values.astype(numpy_dtype(tensor.dtype))
    kernel = match(scope, "O", templates("matmul")) or Kernel(
        EOP, {}, tuple(scope.tensors), "O", scope=scope
    )
    run = library_kernels(kernel, scope).get("numpy")
    assert (run is not None) == (library == "numpy")
    found = np.full(scope.shape, 77, numpy_dtype(scope.dtype))
    if run:
        run({**given, "O": found})
    else:
        found = compile_program(program, [kernel], compiler=quick_compiler())(**given)
    assert found.dtype == numpy_dtype(scope.dtype)
    exact = {name: a.astype(np.int64) if a.dtype.kind == "f" else a for name, a in given.items()}
    assert agrees(found, evaluated(program, exact)["O"], scope.dtype)


@pytest.mark.parametrize("left", list(permutations((b, m, k))))
@pytest.mark.parametrize("right", [(b, k, n), (n, b, k), (k, n, b)])
def test_orders_of_operands(left: Any, right: Any) -> None:
    check_scope(scope_of(left, right, (b, m, n), (k,)))


@pytest.mark.parametrize("out", list(permutations((b, m, n))))
def test_orders_of_the_output(out: Any) -> None:
    check_scope(scope_of((b, m, k), (b, k, n), out, (k,)))


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        ((m, p, k, q), (k, q, n), (m, p, n)),
        ((p, m, q, k), (k, q, n), (m, n, p)),
        ((m, k, p, q), (n, q, k), (n, m, p)),
        ((q, k, m, p), (q, n, k), (p, n, m)),
    ],
)
def test_groups_of_several_indices(left: Any, right: Any, out: Any) -> None:
    check_scope(scope_of(left, right, out, (k, q)))


@pytest.mark.parametrize("empty", [m, n, b])
def test_groups_without_an_index(empty: Any) -> None:
    def axes(*indices: Any) -> tuple[Any, ...]:
        return tuple(i for i in indices if i != empty)

    check_scope(scope_of(axes(b, m, k), axes(b, k, n), axes(b, m, n), axes(k)))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "i32", "i64", "u16", "bool"])
def test_types(dtype: str) -> None:
    check_scope(scope_of((b, m, k), (b, k, n), (b, m, n), (k,), dtype))


def test_mixed_types() -> None:
    a, w = ea.tensor("A", (3, 5), "i8"), ea.tensor("B", (5, 4), "f32")
    check_scope(ea.L[m, n](ea.Sum[k](a[m, k] * w[k, n])))


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 4, 5),
        (3, 0, 5),
        (3, 4, 0),
        (1, 4, 5),
        (3, 1, 5),
        (3, 4, 1),
        (1, 1, 1),
        (1, 1, 7),
        (17, 1, 1),
    ],
)
def test_empty_and_unit_sizes(sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    a, w = ea.tensor("A", (rows, depth)), ea.tensor("B", (depth, columns))
    check_scope(
        ea.L[m:rows, n:columns](ea.Sum[k:depth](a[m, k] * w[k, n])),
        library=None if 0 in sizes or depth == 1 else "numpy",
    )


def test_parts_constants_and_negative_boxes() -> None:
    a, w = ea.tensor("A", ((-2, 9), 3, (-1, 6))), ea.tensor("B", (2, 7, 9))
    check_scope(ea.L[m:-1:4, n:2:8](ea.Sum[k:1:6](a[m, 2, k] * w[1, k, n])))


def test_indices_of_extent_1_are_in_no_group() -> None:
    a, w = ea.tensor("A", (3, 1, 5)), ea.tensor("B", (1, 5, 4))
    check_scope(ea.L[m, p:1, n](ea.Sum[k, q:1](a[m, p, k] * w[q, k, n])))


def test_one_tensor_as_both_operands() -> None:
    a = ea.tensor("A", (4, 5))
    check_scope(ea.L[m:4, n:4](ea.Sum[k](a[m, k] * a[n, k])))
    check_scope(ea.L[b:4](ea.Sum[k](a[b, k] * a[b, k])), library=None)  # a square, not a product


def test_operands_in_the_other_order() -> None:
    a, w = ea.tensor("A", (3, 5)), ea.tensor("B", (5, 4))
    check_scope(ea.L[n, m](ea.Sum[k](w[k, n] * a[m, k])))


def test_digits_of_an_axis_are_axes() -> None:
    a, w = ea.tensor("A", (2, 15)), ea.tensor("B", (12, 5))
    check_scope(ea.L[p, m:3, q:4](ea.Sum[k:5](a[p, 5 * m + k] * w[4 * m + q, k])))


def test_steps_and_reversed_axes() -> None:
    a, w = ea.tensor("A", (7, 5)), ea.tensor("B", (9, 4))
    check_scope(ea.L[m:3, n](ea.Sum[k:5](a[2 * m + 1, 4 - k] * w[2 * k, n])))


def test_a_condition_on_one_index_is_a_part_of_the_operands() -> None:
    body = ea.Sum[k](ea.tensor("A", (3, 5))[m, k] * ea.tensor("B", (5, 4))[k, n], where=k >= 1)
    check_scope(ea.L[m, n](body))


def test_diagonal() -> None:
    a, w = ea.tensor("A", (4, 4, 5)), ea.tensor("B", (5, 3))
    check_scope(ea.L[m, n](ea.Sum[k](a[m, m, k] * w[k, n])), library=None)


@pytest.mark.parametrize("reach", [0, 1])
def test_padding_that_is_read_is_generated_instead(reach: int) -> None:
    a, w = ea.tensor("A", (3, 5)), ea.tensor("B", (7, 4))
    scope = ea.L[m:3, n](ea.Sum[k : 5 + reach](a.pad(0, (0, reach))[m, k] * w[k, n]))
    check_scope(scope, library=None if reach else "numpy")


@pytest.mark.parametrize(
    "make",
    [
        lambda a, w: ea.Max[k](a * w),
        lambda a, w: ea.Sum[k](a + w),
        lambda a, w: ea.Sum[k](a * w, where=k + m >= 2),
    ],
)
def test_what_is_no_matrix_product_is_generated(make: Any) -> None:
    body = make(ea.tensor("A", (3, 5))[m, k], ea.tensor("B", (5, 4))[k, n])
    check_scope(ea.L[m, n](body), library=None)


@pytest.mark.parametrize(
    ("groups", "direct"),
    [
        ((((2, 12),), ((3, 4),), ((4, 1),)), True),
        ((((2, 12),), ((3, 1),), ((4, 3),)), True),
        ((((2, 12),), ((3, 8),), ((4, 2),)), False),
        (((), ((2, 12), (3, 4)), ((4, 1),)), True),
        (((), ((2, 4), (3, 8)), ((4, 1),)), False),
        (((), ((3, 0),), ((4, 1),)), False),
        (((), ((3, 1),), ((1, 9),)), True),
        (((), ((1, 9),), ((4, 1),)), True),
    ],
)
def test_views_that_blas_can_walk(groups: Any, direct: bool) -> None:
    assert (OperandView("A", groups, 0).matrices() is not None) == direct
