"""Generated C: what it looks like, its names, and its integer arithmetic."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from codegen.ir.nodes import For, content_hash, text, walk
from codegen.lowering.lower import lower
from codegen.lowering.schedule import Schedule
from codegen.targets.c.helpers import RESERVED, index_function, index_helper
from codegen.targets.c.printer import index_type
from codegen.targets.c.source_file import c_source
from einalg.language.ir.program import as_program
from tests.helpers.kernels import check, compiler, evaluated, run_functions

n, h, w, f, r, s, i, j, k = ea.indices("n h w f r s i j k")

OFFSET_ADD = """\
/* O = L[h:9, f:64](Sum[r:2](T.pad((1, 0), 0, 0)[h + r - 1, r, f])) */
static void O_0(const float (*restrict T)[2][64], float (*restrict O)[64]) {
  #pragma omp simd
  for (int f = 0; f < 64; ++f) {
    O[0][f] = T[0][1][f];
  }
  for (int h = 1; h < 9; ++h) {
    #pragma omp simd
    for (int f = 0; f < 64; ++f) {
      float total = T[h - 1][0][f];
      total += T[h][1][f];
      O[h][f] = total;
    }
  }
}
"""


def offset_add(rows: int = 9) -> Any:
    return ea.L[h:rows, f:64](
        ea.Sum[r:2](ea.tensor("T", (rows, 2, 64)).pad((1, 0), 0, 0)[h + r - 1, r, f])
    )


def test_offset_add_reads_well() -> None:
    assert OFFSET_ADD in c_source([lower("O", offset_add())])


def test_large_reductions_are_bounded_and_not_guarded() -> None:
    scope = ea.L[h:60, f:70](
        ea.Sum[r:90](ea.tensor("A", (60, 70)).pad(45, 0)[h + r - 45, f] * ea.tensor("K", (90,))[r])
    )
    source = c_source([lower("O", scope)])
    assert "for (int r = index_max(0, -h + 45); r < index_min(90, -h + 105); ++r)" in source
    assert "if" not in source.partition("static void")[2]


def test_names_that_c_reserves() -> None:
    """Tensors and indices may have any names: C's, the library's, each other's, and letters beyond
    ASCII.
    """
    double, exp, accent = ea.indices("double exp é")
    a, b = ea.tensor("double", (4, 5, 6)), ea.tensor("float", (6,))
    scope = ea.L[double, exp](
        ea.Sum[accent:6](ea.Max(a[double, exp, accent], b[accent])) * ea.tensor("exp", (5,))[exp]
        + ea.tensor("total", (5,))[exp]
    )
    program = as_program(scope, "main")
    rng = np.random.default_rng(0)
    given = {name: rng.integers(-5, 5, t.shape) for name, t in program.tensors.items()}
    found = run_functions([lower("main", scope)], [given])[0]
    check(program, evaluated(program, given), {"main": found})


@pytest.mark.parametrize(
    "name", ["int", "INFINITY", "expf", "restrict", "half", "floor_div", "linux"]
)
def test_a_reserved_name_is_not_taken(name: str) -> None:
    scope = ea.L[i:4](ea.tensor(name, (4,))[i] + 1)
    source = c_source([lower("O", scope)])
    assert f"restrict {name}{'_' if name in RESERVED else ''}," in source


def test_index_type_is_wide_where_offsets_are() -> None:
    small = ea.L[i](ea.tensor("A", (1000,))[i])
    large = ea.L[i:3](ea.tensor("A", (2**20, 2**20))[i * 1000, i])
    assert index_type(lower("O", small)) == "int"
    assert index_type(lower("O", large)) == "int64_t"


def test_content_hash_is_of_the_content() -> None:
    one, same, other = (
        lower("O", offset_add()),
        lower("O", offset_add()),
        lower("O", offset_add(10)),
    )
    assert text(one) == text(same) and content_hash(one) == content_hash(same) != content_hash(
        other
    )
    assert content_hash(one) != content_hash(lower("O", offset_add(), schedule=Schedule(unroll=1)))


def test_kinds_of_loops() -> None:
    scope = ea.L[n:64, h:64, w:64](ea.Max(ea.tensor("A", (64, 64, 64))[n, h, w], 0))
    kinds = {
        node.index.name: node.kind for node in walk(lower("O", scope)) if isinstance(node, For)
    }
    assert kinds == {"n": "par", "h": "seq", "w": "vec"}
    assert "collapse" in c_source([lower("O", scope, schedule=Schedule(chunks=1000))])


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 5, 7, 8, 16, 56])
@pytest.mark.parametrize("operation", ["//", "%"])
def test_floor_semantics_in_vectors_and_scalars(divisor: int, operation: str) -> None:
    """Quotients and remainders of negative and positive numbers, in loops of several lengths."""
    scopes, bodies = [], []
    for extent in (1, 2, 3, 8, 17, 40):
        for sign, offset in ((1, -20), (-1, 3)):
            form = sign * i + offset
            body = form // divisor if operation == "//" else form % divisor
            scopes.append(ea.L[i:extent](body))
            bodies.append(
                [
                    (sign * p + offset) // divisor
                    if operation == "//"
                    else (sign * p + offset) % divisor
                    for p in range(extent)
                ]
            )
    found = run_functions([lower("O", scope) for scope in scopes], [{}] * len(scopes))
    assert [a.tolist() for a in found] == bodies


@pytest.mark.parametrize("c", ["int", "int64_t"])
def test_index_helpers(c: str) -> None:
    """Exhaustively on small numbers, alone and as the subscript of a gather in a vector loop."""
    helpers = "\n".join(
        index_helper(name, c) for name in ("floor_div", "floor_mod", "index_max", "index_min")
    )
    gathers = "\n".join(
        f"void gather{d}_{size}(const float *restrict a, float *restrict out) {{\n"
        f"  #pragma omp simd\n  for ({c} i = 0; i < {size}; ++i) out[i] = "
        f"a[{index_function('floor_mod', c)}(-i, {d})];\n}}"
        for d in (2, 3, 5)
        for size in (2, 4, 9)
    )
    floor_div, floor_mod, index_max, index_min = (
        index_function(name, c) for name in ("floor_div", "floor_mod", "index_max", "index_min")
    )
    exported = f"{c} divided({c} a, {c} b) {{ return {floor_div}(a, b); }}\n{c} rest({c} a, {c} b) {{ return {floor_mod}(a, b); }}\n"
    exported += f"{c} larger({c} a, {c} b) {{ return {index_max}(a, b); }}\n{c} smaller({c} a, {c} b) {{ return {index_min}(a, b); }}\n"
    library = compiler().load(f"#include <stdint.h>\n{helpers}\n{gathers}\n{exported}")
    for a in range(-40, 41):
        for b in range(1, 12):
            assert (library.divided(a, b), library.rest(a, b)) == (a // b, a % b)
            assert (library.larger(a, b), library.smaller(a, b)) == (max(a, b), min(a, b))
    source = np.arange(10, 20, dtype=np.float32)
    for d in (2, 3, 5):
        for size in (2, 4, 9):
            out = np.zeros(size, np.float32)
            getattr(library, f"gather{d}_{size}")(
                ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(out.ctypes.data)
            )
            assert out.tolist() == [10 + (-p) % d for p in range(size)]


def test_loops_whose_bounds_depend_on_others_are_not_shared_together() -> None:
    """With no cut allowed, the last block of a split loop is shorter than the others."""
    schedule = Schedule(regions=1, parallel=1, chunks=1000)
    scope = ea.L[i:7, j:5, k:9](ea.tensor("A", (4, 5, 9), "i64")[i // 2, j, k] + i % 2)
    (found,) = run_functions(
        [lower("O", scope, schedule=schedule)], [{"A": np.arange(180).reshape(4, 5, 9)}]
    )
    assert np.array_equal(
        found,
        np.arange(180).reshape(4, 5, 9)[np.arange(7) // 2] + (np.arange(7) % 2)[:, None, None],
    )


def test_blocks_of_a_sum_with_one_block_left() -> None:
    scope = ea.L[i:4](
        ea.Sum[k:7](ea.tensor("A", (3, 7), "i64")[k // 3, k] * i, where=sympy.Eq(k // 3, 2))
    )
    given = np.arange(21).reshape(3, 7)
    (found,) = run_functions([lower("O", scope, schedule=Schedule(unroll=1))], [{"A": given}])
    assert found.tolist() == [20 * row for row in range(4)]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("O[i,j] += A[i,k]*B[j,k]", 1),  # rows of both: a loop over the terms, in vectors
        ("O[i] += A[i,k]*B[i,k]", 1),
        (
            "O[i,j:30] += A[i,k]*C[k,j]",
            32,
        ),  # neighbouring results lie side by side too, and terms are written out
    ],
)
def test_terms_that_lie_side_by_side_are_not_written_out_for_results_that_do_not(
    expression: str, count: int
) -> None:
    """Vectors of results would gather their terms one by one, and a compiler takes half a minute
    over that where these lie far apart.
    """
    shapes = {"A": (30, 32), "B": (30, 32), "C": (32, 30)}
    program = as_program(
        ea.parse(
            expression,
            **{name: shape for name, shape in shapes.items() if f"{name}[" in expression},
        )
    )
    written = c_source([lower("O", program.result)])
    assert (
        len(
            [
                line
                for line in written.splitlines()
                if line.strip().startswith(("total +=", "float total = A"))
            ]
        )
        == count
    )
