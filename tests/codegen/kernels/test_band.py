"""Generated band products: every layout, width, dilation and size, against NumPy in double
precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import For, Function, Store, walk
from codegen.kernels.band.kernel import choose_band_tile, tiled_bands
from codegen.kernels.band.problem import band_products_of
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.source_file import c_source
from derive.matching import match, templates
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK, mutants
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

SMALL = CpuModel(vector=16, registers=9, level1=512, level2=2048, cores=2)
BANDS = (*templates("g2bmm"), *templates("gbmm"))
b, i, w, k, p = ea.indices("b i w k p")


@dataclass(frozen=True)
class Case:
    scope: Scope
    dtype: str = "f32"
    parallel: bool = False
    machine: CpuModel = SMALL

    def function(self) -> Function | None:
        kernel = match(self.scope, "O", BANDS)
        if kernel is None:
            return None
        bands = band_products_of(kernel, self.scope, self.dtype)
        if not bands:
            return None
        tiles = [choose_band_tile(band, self.machine) for band in bands]
        return tiled_bands(bands, tiles, str(self.scope), self.machine, self.parallel)

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        return {
            name: rng.integers(0 if t.dtype[0] == "u" else -3, 4, t.shape).astype(
                numpy_dtype(t.dtype)
            )
            for name, t in self.scope.tensors.items()
        }


def check(
    cases: Sequence[Case], cc: Compiler | Callable[[str], Compiler] = spread_compiler
) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    functions, arrays = [case.function() for case in cases], [case.arrays() for case in cases]
    assert all(functions)
    outputs = run_functions(functions, arrays, cc=cc)
    for case, given_arrays, output in zip(cases, arrays, outputs):
        expected = execute(
            as_program(case.scope), {name: a.astype(np.float64) for name, a in given_arrays.items()}
        )["O"]
        assert np.array_equal(output.astype(np.float64), expected), (
            f"{case}\n{c_source([case.function()])}"
        )


def band_scope(
    op: str,
    sizes: Any,
    width: int,
    dilation: int,
    orders: Any = ("biw", "bik", "bik"),
    dtype: str = "f32",
    shift: int = 0,
) -> Scope:
    """A band product with the axes of the band, of the other matrix beside it and of the right
    operand in some orders.
    """
    batch, rows, depth = sizes
    letters = {"b": b, "i": i, "w": w, "k": k}
    extents = {"b": batch, "i": rows, "w": 2 * width + 1, "k": depth}
    banded, beside, other = orders
    first = ea.tensor(
        "X", [extents[x] + shift for x in (beside if op == "g2bmm" else banded)], dtype
    )
    left = first[tuple(letters[x] + shift for x in (beside if op == "g2bmm" else banded))]
    around = ea.tensor("V", [extents[x] for x in other], dtype).pad(
        *(dilation * width if x == "i" else 0 for x in other)
    )
    right = around[tuple(i + dilation * (w - width) if x == "i" else letters[x] for x in other)]
    out, summed = (banded, "k") if op == "g2bmm" else (beside, "w")
    return ea.L[tuple(slice(letters[x], extents[x]) for x in out)](
        ea.Sum[slice(letters[summed], extents[summed])](left * right)
    )


@st.composite
def bands(draw: Any) -> Case:
    op = draw(st.sampled_from(("g2bmm", "gbmm")))
    sizes = (
        draw(st.sampled_from((1, 2, 3))),
        draw(st.sampled_from((2, 3, 5, 7, 11, 13, 16, 29))),
        draw(st.sampled_from((2, 3, 4, 5, 9))),
    )
    width, dilation = (
        draw(st.sampled_from((1, 1, 2, 3, 5, 9, 17))),
        draw(st.sampled_from((1, 1, 2, 3, 5, 31))),
    )
    orders = tuple("".join(draw(st.permutations(x))) for x in ("biw", "bik", "bik"))
    dtype = draw(st.sampled_from(("f32", "f32", "f64")))
    machine = draw(
        st.sampled_from(
            (SMALL, replace(SMALL, vector=32, registers=16), CpuModel(64, 32, cores=2, turns=2))
        )
    )
    return Case(
        band_scope(op, sizes, width, dilation, orders, dtype, draw(st.integers(0, 1))),
        dtype,
        draw(st.booleans()),
        machine,
    )


def is_band(case: Case) -> bool:
    kernel = match(case.scope, "O", BANDS)
    return kernel is not None and kernel.op in ("g2bmm", "gbmm")


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(st.lists(bands().filter(is_band), min_size=5, max_size=8))
def test_bands(cases: list[Case]) -> None:
    check(cases)


@pytest.mark.parametrize("op", ["g2bmm", "gbmm"])
def test_edges(op: str) -> None:
    """A band wider than the sequence, a dilation beyond it, one row or column, and one more or less
    than a vector.
    """
    shapes = [
        ((1, 5, 3), 9, 1),
        ((2, 5, 3), 2, 7),
        ((1, 1, 4), 2, 1),
        ((2, 7, 1), 2, 2),
        ((1, 15, 17), 3, 1),
        ((1, 17, 15), 7, 2),
        ((1, 33, 16), 8, 1),
        ((1, 33, 21), 8, 1),
    ]
    check(
        [
            case
            for case in (
                Case(band_scope(op, *shape), machine=m)
                for shape in shapes
                for m in (SMALL, CpuModel(64, 32, turns=2))
            )
            if is_band(case)
        ],
        quick_compiler(),
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u16", "i32", "i64"])
def test_types(dtype: str) -> None:
    kinds = {"f16": "f32", "bf16": "f32", "i8": "i32", "u16": "i32"}
    check(
        [
            Case(band_scope(op, (2, 11, 5), 2, 2, dtype=dtype), kinds.get(dtype, dtype))
            for op in ("g2bmm", "gbmm")
        ]
    )


@pytest.mark.parametrize("op", ["g2bmm", "gbmm"])
def test_dilation_classes_as_a_batch(op: str) -> None:
    """What folding the classes of a dilation into the batch leaves: operands that are walked in
    steps.
    """
    x, v = ea.tensor("X", (24, 5)), ea.tensor("V", (24, 5))
    inner = ea.L[p:3, i:8, k:5](v[3 * i + p, k])
    around = ea.tensor("T", inner.shape).pad(0, 2, 0)
    if op == "g2bmm":
        scope = ea.L[p:3, i:8, w:5](ea.Sum[k:5](x[3 * i + p, k] * around[p, i + w - 2, k]))
    else:
        scope = ea.L[p:3, i:8, k:5](ea.Sum[w:5](x[3 * i + p, w] * around[p, i + w - 2, k]))
    assert is_band(Case(scope))
    check([Case(scope), Case(scope, parallel=True)])


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_step_of_the_sums_divides_nothing(dilation: int) -> None:
    """Asking ahead for rows that lie apart took as long as the products of the step."""
    function = Case(band_scope("gbmm", (2, 90, 16), 24, dilation)).function()
    assert function is not None
    ahead = [line for line in c_source([function]).splitlines() if "__builtin_prefetch(&X" in line]
    assert ahead and not any("floor_" in line or "/" in line for line in ahead)


@pytest.mark.parametrize(("width", "copied"), [(1, False), (40, True)])
def test_rows_that_are_read_often_are_copied(width: int, copied: bool) -> None:
    function = Case(band_scope("gbmm", (2, 200, 16), width, 1)).function()
    assert function is not None
    assert (
        any(isinstance(node, Store) and node.ref.buf.name == "lines" for node in walk(function))
        is copied
    )


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 12))
def test_classes_cover_every_row_once(rows: int, width: int, dilation: int) -> None:
    scope = band_scope("g2bmm", (2, rows, 3), width, dilation)
    kernel = match(scope, "O", BANDS)
    found = band_products_of(kernel, scope, "f32") if kernel is not None else None
    if found is None:
        return
    starts = [
        (band, c)
        for band in found
        for c in range(next((a.extent for a in band.batch if a.index.name == "c"), 1))
    ]
    step = dilation * 3
    seen = sorted(
        band.left.offset + c * 3 + q * step for band, c in starts for q in range(band.rows.extent)
    )
    assert seen == [3 * row for row in range(rows)]


# What is wrong is noticed.


def counts(node: Any) -> bool:
    """Whether a loop sums or stores results."""
    return isinstance(node, For) and any(
        isinstance(n, Store) and (n.op == "+=" or n.ref.buf.name == "O") for n in walk(node)
    )


def shorter(node: Any) -> Any:
    if not counts(node) or node.kind == "lanes" or not hasattr(node.high, "terms"):
        return None
    return replace(node, high=node.high - 1) if node.extent != 0 else None


def later(node: Any) -> Any:
    if not counts(node) or node.kind == "lanes" or not hasattr(node.low, "terms"):
        return None
    return replace(node, low=node.low + 1) if node.extent != 0 else None


@pytest.mark.parametrize(
    ("op", "change"), [("g2bmm", shorter), ("gbmm", shorter), ("g2bmm", later), ("gbmm", later)]
)
def test_mutants_are_noticed(op: str, change: Any) -> None:
    case = Case(band_scope(op, (2, 29, 9), 7, 1))
    function = case.function()
    assert function is not None
    found = list(mutants(function, change))[:10]
    assert found
    arrays = case.arrays()
    expected = execute(
        as_program(case.scope), {name: a.astype(np.float64) for name, a in arrays.items()}
    )["O"]
    outputs = run_functions(found, [arrays] * len(found), cc=quick_compiler())
    for mutant, out in zip(found, outputs):
        assert not np.array_equal(out, expected), c_source([mutant])


# As a library.


@pytest.mark.parametrize("op", ["g2bmm", "gbmm"])
def test_compiled_programs_have_them(op: str) -> None:
    scope = band_scope(op, (2, 40, 16), 6, 2)
    kernel = match(scope, "O", BANDS)
    assert kernel is not None
    run = compile_program(scope, [kernel], compiler=quick_compiler())
    arrays = Case(scope).arrays()
    assert np.array_equal(run(**arrays), execute(as_program(scope), arrays)["O"])


def test_other_operators_are_refused() -> None:
    scope = ops.matmul(ea.tensor("A", (3, 4)), ea.tensor("B", (4, 5)))
    kernel = match(scope, "O", templates("matmul"))
    assert kernel is not None and not band_products_of(kernel, scope, "f32")


def test_depth_of_several_axes() -> None:
    """Axes that lie apart, in either order, around the rows."""
    reads = ("X[b,i,w]*V.pad(0,2,0,0)[b,i+w-2,k,l]", (2, 13, 4, 3))
    apart = ("X[b,i,w]*V.pad(0,0,2,0)[b,l,i+w-2,k]", (2, 3, 13, 4))
    bodies = {
        "b:2,i:13,k:4,l:3": reads,
        "b:2,i:13,l:3,k:4": reads,
        "b:2,l:3,i:13,k:4": reads,
        "b:2,k:4,i:13,l:3": apart,
    }
    cases = []
    for axes, (body, shape) in bodies.items():
        scope = ea.parse(f"O[{axes}] = Sum[w:5]({body})", X=(2, 13, 5), V=shape)
        cases.append(Case(scope))
    text = "O[b:2,i:13,w:5] = Sum[k:4,l:3](Y[b,i,k,l]*V.pad(0,2,0,0)[b,i+w-2,k,l])"
    cases.append(Case(ea.parse(text, Y=(2, 13, 4, 3), V=(2, 13, 4, 3))))
    check(cases)
