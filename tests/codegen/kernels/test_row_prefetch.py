"""Loops that ask for the next row compute the same, and ask where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import For, Function, Prefetch, walk
from codegen.kernels.expensive_values.rewriting import with_cheaper_values
from codegen.kernels.expensive_values.row_prefetch import with_row_prefetch
from codegen.lowering.lower import lower
from codegen.targets.c.compiler import find_compiler
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program
from tests.helpers.kernels import check, run_functions

MACHINE = CpuModel(32, 16, 32 << 10, 1 << 20)
SOFTMAX = "O[i,j] = exp(A[i,j]-Max[s](A[i,s]))/Sum[r](exp(A[i,r]-Max[s](A[i,s])))"
CENTRED = "O[b,i,j] = A[b,i,j] - Sum[s](A[b,i,s])/Sum[r](A[b,i,r]**2 + 1)"


def rows(text: str, shape: tuple[int, ...], dtype: str = "f32") -> Function:
    scope = ea.parse(text, A=ea.tensor("A", shape, dtype))
    return with_cheaper_values(lower("O", scope), MACHINE)


def asked(function: Function) -> list[Prefetch]:
    return [node for node in walk(function) if isinstance(node, Prefetch)]


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (SOFTMAX, (33, 512)),
        (SOFTMAX, (17, 1031)),
        (SOFTMAX, (1, 70001)),
        (CENTRED, (3, 5, 769)),
        (CENTRED, (2, 7, 1024)),
    ],
)
def test_the_same_is_computed(text: str, shape: tuple[int, ...], dtype: str) -> None:
    program = as_program(ea.parse(text, A=ea.tensor("A", shape, dtype)))
    random = np.random.default_rng(0)
    values: dict[str, Any] = {"A": random.normal(size=shape).astype(f"float{dtype[1:]}")}
    function = with_row_prefetch(rows(text, shape, dtype), MACHINE)
    (result,) = run_functions([function], [values])
    check(program, execute(program, values), {"O": result})


@pytest.mark.parametrize(
    ("text", "shape", "buffers"),
    [
        (SOFTMAX, (64, 1000), {"A", "O"}),
        (CENTRED, (4, 64, 1000), {"A", "O"}),
        ("O[i,j] = exp(A[i,j])", (64, 1000), set()),  # one loop over a row
        (SOFTMAX, (64, 100), set()),  # short
        (SOFTMAX, (3, 1000), set()),  # all of it in the nearest cache
        (SOFTMAX, (64, 9000), set()),  # a row is not
        (SOFTMAX, (1, 4000), set()),  # no next row
    ],
)
def test_rows_that_several_loops_read_are_asked_for(
    text: str, shape: tuple[int, ...], buffers: set[str]
) -> None:
    function = with_row_prefetch(rows(text, shape), MACHINE)
    assert {prefetch.ref.buf.name for prefetch in asked(function)} == buffers
    if not buffers:
        assert function == rows(text, shape)


def test_every_line_of_the_next_row_is_asked_for_once() -> None:
    function = with_row_prefetch(rows(SOFTMAX, (64, 1000)), MACHINE)
    chunks = {n.index: n.extent for n in walk(function) if isinstance(n, For) and n.extent == 7}
    elements: dict[str, list[int]] = {"A": [], "O": []}
    for prefetch in asked(function):
        row, element = prefetch.ref.subscripts
        assert row.const == 1
        (steps,) = [chunks[index] for index in element.indices] or [1]
        for chunk in range(steps):
            at = element.substitute({index: affine(chunk) for index in element.indices})
            elements[prefetch.ref.buf.name].append(at.const)
    assert sorted(elements["A"]) == sorted(elements["O"]) == list(range(0, 1000, 16))
