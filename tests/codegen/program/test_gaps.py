"""Scopes without a value at some points, which are read through padding of any fill: as one
expression, they run as their statements do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.kernel import EOP
from einalg.language.ir.program import Program, as_program, inlined
from tests.helpers.cuda_kernels import run_programs

ARRAYS = {"A": np.arange(1.0, 7.0), "B": np.arange(36.0).reshape(6, 6) % 7 - 3}
SHAPES = {name: values.shape for name, values in ARRAYS.items()}
TEXTS = {
    "a fill": """
        T = L[j:6](2*A[j], where=j >= 2)
        O[i:8] = T.pad(1, fill=3)[i-1]""",
    "two fills": """
        T = L[j:6](2*A[j], where=Eq(j%2, 1))
        O[i:10] = T.pad(1, fill=3).pad(1, fill=-2)[i-2]*A[i//2]""",
    "a sum that is matched": """
        T = L[i:6, k:6](B[i, k], where=i >= k)
        O[i:6, j:6] = Sum[k:6](T.pad(0, 0, fill=2)[i, k]*B[k, j])""",
    "a maximum over what may be missing": """
        T = L[i:6, k:6](B[i, k], where=i >= k)
        O[i:6] = Max[k:6](T.pad(0, 0, fill=-inf)[i, k])""",
    "gaps in gaps": """
        S = L[i:6](A[i], where=i >= 1)
        T = L[i:6](S.pad(0, fill=5)[i] + 1, where=i <= 3)
        O[i:8] = T.pad((0, 2), fill=7)[i]""",
    "one scope under two fills": """
        T = L[i:6](A[i], where=i >= 3)
        O[i:6] = T.pad(0)[i] + T.pad(0, fill=4)[i]""",
    "no point at all": """
        T = L[i:6](A[i], where=i >= 9)
        O[i:6] = T.pad(0, fill=4)[i]""",
}


def program(name: str) -> Program:
    shapes = {tensor: shape for tensor, shape in SHAPES.items() if f"{tensor}[" in TEXTS[name]}
    return ea.parse(TEXTS[name], **shapes)


def nested(name: str) -> Program:
    return as_program(inlined(program(name)))


def arrays_for(expression: Program) -> dict[str, Any]:
    return {name: ARRAYS[name] for name in expression.inputs}


@pytest.mark.parametrize("name", TEXTS)
def test_one_expression_runs_as_its_statements_do(name: str) -> None:
    statements, expression = program(name), nested(name)
    arrays = arrays_for(statements)
    expected = ea.evaluate(statements, **arrays)
    np.testing.assert_array_equal(ea.evaluate(expression, **arrays), expected)
    for flat in (statements, lifted(expression)):
        result = compile_program(flat, kernels_of(flat))(**arrays)
        np.testing.assert_array_equal(result, np.asarray(expected, np.float32))


def test_as_cuda_too() -> None:
    programs = [lifted(nested(name)) for name in TEXTS]
    arrays = [arrays_for(flat) for flat in programs]
    for name, flat, found in zip(TEXTS, programs, run_programs(programs, arrays)):
        expected = ea.evaluate(program(name), **arrays_for(flat))
        np.testing.assert_array_equal(found["O"], np.asarray(expected, np.float32), name)


def test_no_library_of_a_device_fills_gaps() -> None:
    flat = program("a sum that is matched")
    kernels = kernels_of(flat)
    assert kernels[1].op != EOP
    assert compile_program(flat, kernels, target="cuda").kernels[1].op == EOP


def test_a_derivation_compiles() -> None:
    for name in ("a fill", "gaps in gaps"):
        expression = nested(name)
        best = ea.derive(expression, seconds=1, measure=False).best
        arrays = arrays_for(expression)
        np.testing.assert_array_equal(best.compile()(**arrays), ea.evaluate(expression, **arrays))
        assert "__global__" in best.source("cuda")
