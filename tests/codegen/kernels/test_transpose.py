"""Copies in another order of axes: every order, size and box, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function, Transpose, walk
from codegen.kernels.transpose import transpose_kernel
from codegen.lowering.lower import lower
from codegen.program.compile import compile_program
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

MACHINES = CpuModel(16, 16), CpuModel(32, 16), CpuModel(64, 32)


def copied(
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    low: int = 0,
    before: int = 0,
    after: int = 0,
    dtype: str = "f32",
) -> Scope:
    """A tensor with its axes in another order, whose boxes begin at `low`, without what is `before`
    and `after` along each.
    """
    A = ea.tensor("A", tuple((low, low + before + size + after) for size in sizes), dtype)
    names = ea.indices(" ".join("ijkl"[: len(sizes)]))
    ranges = [slice(name, low + before, low + before + size) for name, size in zip(names, sizes)]
    return ea.L[tuple(ranges[k] for k in order)](A[tuple(names)])


@st.composite
def copies(draw: Any) -> tuple[Scope, CpuModel, bool]:
    rank = draw(st.integers(2, 4))
    order = tuple(draw(st.permutations(range(rank)).filter(lambda order: order[-1] != rank - 1)))
    sizes = tuple(
        draw(st.sampled_from((16, 17, 31) if k in (rank - 1, order[-1]) else (1, 2, 4, 7)))
        for k in range(rank)
    )
    cuts = draw(st.sampled_from((0, 0, 1, 3))), draw(st.sampled_from((0, 0, 2)))
    dtype = draw(st.sampled_from(("f32", "f32", "f64", "i32", "i64", "u32")))
    return (
        copied(sizes, order, draw(st.integers(-5, 5)), *cuts, dtype),
        draw(st.sampled_from(MACHINES)),
        draw(st.booleans()),
    )


@settings(max_examples=batches(3), phases=UNSHRUNK)
@given(st.lists(copies(), min_size=5, max_size=8))
def test_copies(cases: list[tuple[Scope, CpuModel, bool]]) -> None:
    scopes = [scope for scope, _, _ in cases]
    functions = [function for case in cases if (function := transpose_kernel("O", *case))]
    assert len(functions) == len(cases)
    arrays = [
        {
            "A": np.arange(np.prod(scope.tensors["A"].shape))
            .reshape(scope.tensors["A"].shape)
            .astype(_type(scope))
        }
        for scope in scopes
    ]
    results = run_functions(functions, arrays, cc=spread_compiler)
    for scope, given_arrays, found in zip(scopes, arrays, results):
        assert np.array_equal(found, execute(as_program(scope), given_arrays)["O"]), scope


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "text, shape, most",
    [
        ("O[i:40,j:3,k:40] = A[k,i]", (40, 40), 16),
        ("O[f:20,h:6,w:14] = A[h//2,h%2,w//2,w%2,f]", (3, 2, 7, 2, 20), 16),
        ("O[h:1:4,y:2,w:1:8,x:2,c:24] = A[c,2*h+y-2,2*w+x-2]", (24, 6, 14), 16),
        ("O[f:20,h:5,w:18] = A[h//2,h%2,w//2,w%2,f]", (3, 2, 9, 2, 20), 16),
        ("O[f:20,w:-2:16] = A[(w+2)//3,(w+2)%3,f]", (6, 3, 20), 16),
        ("O[i,j:7] = A[j,i]", (7, 20), 4),
        ("O[i,j] = Max(A[j,i] + B[j] - C[i,j], 0)", (20, 24), 16),
        ("O[n,j,i] = A[n,i,j]*A[n,i,j] + A[1,i,j]/(2 + C[j,i])", (3, 20, 24), 16),
        ("O[i:20,j:20] = A[i,j] - A[j,i]", (20, 20), 16),
        (
            "O[n,h,w,c:20] = Piecewise((A[n,c,h,w], A[n,c,h,w] > B[c]), (B[c], True))",
            (2, 20, 4, 6),
            16,
        ),
        ("O[i,j] = A[j,19-i]", (24, 20), 0),
        ("O[i:20,j:24] = A[23-j,i]", (24, 20), 16),
    ],
)
def test_bodies_digits_and_steps(
    text: str, shape: tuple[int, ...], most: int, machine: CpuModel
) -> None:
    """Squares where both sides have as many lanes; other statements are loops."""
    scope = ea.parse(text, A=shape, B=(20,), C=(24, 20))
    function = transpose_kernel("O", scope, machine)
    assert (function is not None) is (machine.vector // 4 <= most)
    compare(scope, function or lower("O", scope))


def compare(scope: Scope, function: Function) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        name: (rng.integers(0, 10, t.shape) ** 2).astype(numpy_dtype(t.dtype))
        for name, t in scope.tensors.items()
    }
    (found,) = run_functions([function], [arrays], cc=spread_compiler)
    np.testing.assert_allclose(found, execute(as_program(scope), arrays)["O"], rtol=1e-6)


@pytest.mark.parametrize("others", [("f64", "f32"), ("f16", "f32"), ("i8", "i32"), ("f32", "f64")])
def test_mixed_types(others: tuple[str, str]) -> None:
    """What is read in order may be of any type; all that is turned is of one."""
    beside, across = others
    A, B = ea.tensor("A", (20, 24), across), ea.tensor("B", (24, 20), beside)
    i, j = ea.indices("i j")
    scope = ea.L[i:24, j:20](A[j, i] + B[i, j])
    function = transpose_kernel("O", scope, MACHINES[-1])
    assert function is not None
    compare(scope, function)
    assert transpose_kernel("O", ea.L[i:20, j:20](A[j, i] + B[j, i]), MACHINES[-1]) is None


def _type(scope: Scope) -> np.dtype[Any]:
    return numpy_dtype(scope.dtype)


@pytest.mark.parametrize(
    "scope",
    [
        copied((40, 50), (0, 1)),
        copied((2, 40, 50), (1, 0, 2)),
        copied((40, 50), (1, 0), dtype="u8"),
        copied((40, 50), (1, 0), dtype="f16"),
        copied((7, 50), (1, 0)),
        copied((0, 50), (1, 0)),
        ea.parse("O[i,j] = A[j,i]*i", A=(40, 50)),
        ea.parse("O[i,j] = A[j,i] + B[i,2*j]", A=(40, 50), B=(50, 80)),
        ea.parse("O[i,j] += A[j,i]*B[k]", A=(40, 50), B=(3,)),
        ea.parse("O[i:20,j:40] = A[j,2*i]", A=(40, 40)),
        ea.parse("O[i:40,j:40] = A.pad(1, 1)[j,i+1]", A=(40, 40)),
        ea.parse("O[i:40] = A[i,i]", A=(40, 40)),
    ],
    ids=str,
)
def test_other_statements_are_none(scope: Scope) -> None:
    assert transpose_kernel("O", scope, MACHINES[-1]) is None


@pytest.mark.parametrize(
    "sizes, order", [((1, 64, 20, 21), (0, 2, 3, 1)), ((64, 64), (1, 0)), ((3, 65, 50), (0, 2, 1))]
)
def test_compiled_programs_have_them(sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
    scope = copied(sizes, order)
    function = transpose_kernel("O", scope)
    assert function is not None and any(isinstance(node, Transpose) for node in walk(function))
    run, array = (
        compile_program(scope, compiler=quick_compiler()),
        np.random.default_rng(0).standard_normal(sizes).astype(np.float32),
    )
    assert "turn_" in run.source() and np.array_equal(run(A=array), array.transpose(order))
