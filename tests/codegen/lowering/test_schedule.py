"""Which sums are computed side by side, and which each by itself."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import Alloc, For, walk
from codegen.lowering.lower import lower
from codegen.lowering.schedule import Schedule
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import find_compiler
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double


@pytest.mark.parametrize(
    ("text", "shape", "side_by_side"),
    [
        ("S[c] = Sum[h,w](X[c,h,w])", (64, 4, 5), False),  # 20 neighbours
        ("S[c] = Sum[w,h](X[c,h,w])", (64, 14, 14), False),
        ("S[c] = Sum[a:8,h,w](X[c,2*a,h,w])", (64, 16, 3, 5), True),  # rows of 15 terms
        ("S[c] = Sum[h:14,w:14](X[c,h,w])", (64, 14, 15), True),  # rows with gaps
        ("S[c] = Sum[h,w](X[h,w,c])", (14, 14, 64), True),
        ("S[c] = Sum[h](X[c,h])", (64, 196), False),
    ],
)
def test_rows_of_several_axes_are_summed_each_by_itself(
    text: str, shape: tuple[int, ...], side_by_side: bool
) -> None:
    scope = ea.parse(text, X=shape)
    accumulators = [node.buf for node in walk(lower("S", scope)) if isinstance(node, Alloc)]
    assert any(buf.shape for buf in accumulators) is side_by_side


@pytest.mark.parametrize(
    ("text", "shapes", "widths"),
    [
        ("O[j] += a[k]*B[k,j]", {"a": (1000,), "B": (1000, 4096)}, {4096}),
        ("O[j] += a[k]*B[k,j]", {"a": (1000,), "B": (1000, 4100)}, {4100}),
        ("O[j] += a[k]*B[k,j]", {"a": (100,), "B": (100, 10000)}, {4992, 16}),
        ("O[j] += a[k]*B[k,j]", {"a": (90,), "B": (90, 1000)}, {64, 40}),  # in a cache
        ("S[c] = Sum[h](X[h,c])", {"X": (3000, 250)}, {250}),
        ("S[i,c] = Sum[r:31,s:31](X[i+r,c+s])", {"X": (400, 1030)}, {64, 40}),  # of few rows
    ],
)
def test_rows_of_sums_are_long_where_their_terms_come_from_memory(
    text: str, shapes: dict[str, tuple[int, ...]], widths: set[int]
) -> None:
    function = lower("O", ea.parse(text, **shapes))
    accumulators = [node.buf for node in walk(function) if isinstance(node, Alloc)]
    assert {width for buf in accumulators for width in buf.shape} == widths


def test_threads_share_long_rows() -> None:
    scope = ea.parse("O[j] += a[k]*B[k,j]", a=(1000,), B=(1000, 1031))
    function = lower("O", scope, schedule=Schedule(long_row_parts=3))
    assert {node.kind for node in walk(function) if isinstance(node, For)} >= {"par"}
    accumulators = [node.buf.shape for node in walk(function) if isinstance(node, Alloc)]
    assert accumulators == [(336,), (23,)]


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("O[i,j] += A[i,k]*B[k,j]", {"A": (1, 701), "B": (701, 1031)}),
        ("O[j] = Max[k](a[k] + B[k,j])", {"a": (701,), "B": (701, 1031)}),
        ("S[c] = Sum[h](X[h,c]**2)", {"X": (5003, 37)}),
        ("S[b,c] = Sum[h](X[b,h,c])/7 + Max[h](X[b,h,c])", {"X": (2, 499, 541)}),
    ],
)
def test_long_rows_are_right(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    program = as_program(ea.parse(text, **shapes))
    expected = execute(in_double(program), arrays)[program.outputs[0]]
    found = compile_program(program)(**arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
