"""Generated contractions: every order of axes, edge and blocking, against NumPy in double
precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import Buf, For, Function, MinMax, Prefetch, Ref, Store, Transpose, walk
from codegen.kernels.contraction.blocking import balanced_group
from codegen.kernels.contraction.cost_model import (
    ordered,
    orders,
    plan,
    tilings,
)
from codegen.kernels.contraction.nest.loop_nest import contraction_function
from codegen.kernels.contraction.partition import Partition, Tiling
from codegen.kernels.contraction.problem import Contraction, contraction_of
from codegen.kernels.strided_axes import (
    StridedAxis,
    StridedOperand,
    even_tiles,
    used_tap_fraction,
)
from codegen.program.compile import compile_program
from codegen.runtime import kernel_call
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.source_file import c_source
from codegen.tuning.kernel_choice import NO_LIBRARY
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest
from derive.matching import match
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import (
    SMALL,
    UNSHRUNK,
    Case,
    convolutions,
    k,
    m,
    mutants,
    n,
    p,
    products,
    q,
)
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler


def check(
    cases: Sequence[Case],
    machine: CpuModel = SMALL,
    cc: Compiler | Callable[[str], Compiler] = spread_compiler,
) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    functions, arrays = [case.function(machine) for case in cases], [c.arrays() for c in cases]
    outputs = run_functions(functions, arrays, cc=cc)
    for case, given_arrays, output in zip(cases, arrays, outputs):
        exact = {name: a.astype(np.float64) for name, a in given_arrays.items()}
        expected = execute(as_program(case.scope), exact)["O"]
        assert np.array_equal(output.astype(np.float64), expected), (
            f"{case}\n{c_source([case.function(machine)])}"
        )


def is_plain(case: Case) -> bool:
    """Whether the scope is matched as an operator that is a contraction with something to lay side
    by side.
    """
    kernel = match(case.scope, "O")
    found = contraction_of(kernel, case.scope, case.dtype) if kernel else None
    return (
        found is not None
        and plan(found, SMALL) is not None
        and (case.choice < 0 or bool(found.columns or found.rows))
    )


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(st.lists(products().filter(is_plain), min_size=6, max_size=12))
def test_products(cases: list[Case]) -> None:
    check(cases)


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(st.lists(convolutions().filter(is_plain), min_size=4, max_size=8))
def test_convolutions(cases: list[Case]) -> None:
    check(cases)


def test_lanes_across_small_axes() -> None:
    """A vector that runs along several axes, of the output or of an operand, whose elements are
    therefore apart.
    """
    u, v = ea.indices("u v")
    a, w = ea.tensor("A", (5, 6, 2, 2)), ea.tensor("B", (6, 3, 4, 4))
    body = a[m, k, p, q] * w[k, n, u, v]
    orders = ([u, v, m, n, p, q], [m, p, u, n, q, v], [n, q, u, m, v, p])
    check(
        [
            Case(ea.L[tuple(order)](ea.Sum[k](body)), choice)
            for order in orders
            for choice in (-1, *range(12))
        ],
        cc=quick_compiler(),
    )


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u16", "i32", "i64"])
def test_types(dtype: str) -> None:
    """Half precision is summed in single precision, small integers in larger ones; results are
    rounded or wrap once, at the end.
    """
    A, B = ea.tensor("A", (5, 9), dtype), ea.tensor("B", (9, 11), dtype)
    kinds = {"f16": "f32", "bf16": "f32", "i8": "i32", "u16": "i32"}
    check(
        [
            Case(ea.L[m, n](ea.Sum[k](A[m, k] * B[k, n])), choice, kinds.get(dtype, dtype))
            for choice in (-1, 3, 50)
        ]
    )


def test_edges_of_this_machine() -> None:
    """One less and one more than a register tile and a block of the machine at hand."""
    shapes = [(15, 33, 7), (17, 31, 9), (1, 65, 300), (29, 1, 40), (30, 47, 401), (200, 5, 3)]
    cases = [
        Case(ea.L[m, n](ea.Sum[k](ea.tensor("A", (x, z))[m, k] * ea.tensor("B", (z, y))[k, n])))
        for x, y, z in shapes
    ]
    kernels = [match(case.scope, "O") for case in cases]
    assert all(kernel is not None and kernel.op == "matmul" for kernel in kernels)
    check(cases, CpuModel(64, 32, 4096, 16384))
    check(cases, CpuModel(64, 32, 4096, 16384, turns=2))


@given(st.integers(1, 500), st.integers(1, 30))
def test_shared_covers_everything_once(size: int, most: int) -> None:
    parts = even_tiles(size, most)
    assert sum(rows * count for rows, count in parts) == size
    assert (
        max(rows for rows, _ in parts) <= most
        and len({rows for rows, _ in parts}) == len(parts) <= 2
    )


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 8))
def test_groups_keep_all_cores_busy(panels: int, most: int, cores: int) -> None:
    """No other size of a group has its last core done earlier."""

    def last(size: int) -> int:
        groups = -(-panels // size)
        return -(-groups // cores) * size

    found = balanced_group(panels, most, cores)
    assert 1 <= found <= most and last(found) == min(last(size) for size in range(1, most + 1))


@pytest.mark.parametrize("width", [1, 2, 4, 16])
def test_transposed_squares(width: int) -> None:
    """Every number of rows, inside a wider matrix."""
    source, target = Buf("A", (width, width + 3), "f64"), Buf("O", (width * width,), "f64")
    flat = Buf("A", (width * (width + 3),), "f64")
    turns = [
        Transpose(Ref(flat, (affine(3),)), width + 3, rows, width, Ref(target, (affine(0),)), width)
        for rows in range(1, width + 1)
    ]
    functions = [Function("O", (source,), target, (turn,)) for turn in turns]
    matrix = np.arange(width * (width + 3), dtype=np.float64).reshape(width, width + 3)
    outputs = run_functions(functions, [{"A": matrix}] * width, cc=quick_compiler())
    for rows, found in enumerate(outputs, 1):
        expected = np.zeros((width, width))
        expected[:, :rows] = matrix[:rows, 3:].T
        assert np.array_equal(found.reshape(width, width), expected)


def test_rounding_is_that_of_single_precision() -> None:
    """Within `k + 1` roundings of the sum of absolute products."""
    case = Case(ops.matmul(ea.tensor("A", (19, 331)), ea.tensor("B", (331, 21))))
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.standard_normal(t.shape).astype(np.float32)
        for name, t in case.scope.tensors.items()
    }
    (found,) = run_functions([case.function()], [arrays])
    exact, size = (
        f(arrays["A"]).astype(np.float64) @ f(arrays["B"]).astype(np.float64)
        for f in (np.asarray, np.abs)
    )
    assert np.all(np.abs(found - exact) <= 332 * 2.0**-24 * size)


# What is wrong is noticed.

MUTATED = (
    Case(ops.matmul(ea.tensor("A", (9, 13)), ea.tensor("B", (13, 11))), 30),
    Case(
        ops.conv2d(
            ea.tensor("A", (2, 3, 7, 9)), ea.tensor("K", (5, 3, 3, 3)), padding=1, stride=(2, 1)
        ),
        11,
    ),
)


def sums(node: Any) -> bool:
    return isinstance(node, For) and any(
        isinstance(n, Store) and (n.op == "+=" or n.ref.buf.name == "O") for n in walk(node)
    )


def shorter(node: Any) -> Any:
    """A loop without its last step; lanes are kept whole, for those past the end do not count."""
    if not sums(node) or node.kind == "lanes" or not hasattr(node.high, "terms"):
        return None
    return replace(node, high=node.high - 1) if node.extent != 0 else None


def dropped(node: Any) -> Any:
    """A body without one of its parts that store results: a remainder."""
    if not isinstance(node, For) or len(node.body) < 2 or not sums(node.body[-1]):
        return None
    return replace(node, body=node.body[:-1])


@pytest.mark.parametrize("change", [shorter, dropped])
@pytest.mark.parametrize("case", MUTATED)
def test_mutants_are_noticed(case: Case, change: Any) -> None:
    found = list(mutants(case.function(), change))[:10]
    assert found
    arrays = case.arrays()
    expected = execute(
        as_program(case.scope), {name: a.astype(np.float64) for name, a in arrays.items()}
    )["O"]
    outputs = run_functions(found, [arrays] * len(found), cc=quick_compiler())
    for mutant, out in zip(found, outputs):
        assert not np.array_equal(out, expected), c_source([mutant])


# As a library.


def compiled(scope: Scope) -> Any:
    kernel = match(scope, "O")
    assert kernel is not None
    return compile_program(scope, [kernel], compiler=quick_compiler())


def test_convolutions_are_contractions() -> None:
    scope = ops.conv2d(
        ea.tensor("A", (2, 12, 9, 10)), ea.tensor("K", (8, 6, 3, 3)), padding=1, groups=2
    )
    run = compiled(scope)
    assert "einalg" in repr(run) and "f32x" in run.source("c") and "f32x" in run.kernels[0].source
    arrays = Case(scope).arrays()
    assert np.array_equal(run(**arrays), execute(as_program(scope), arrays)["O"])


def test_weights_are_packed_once(monkeypatch: Any, tmp_path: Path) -> None:
    """By `bind`; a program that is given them at each run packs them at each run."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr("codegen.program.building.fusion.library_for", lambda *_: NO_LIBRARY)
    packed, fill = [], kernel_call.PackedOperand.filled
    monkeypatch.setattr(
        kernel_call.PackedOperand,
        "filled",
        lambda self, *rest: packed.append(self.function.output.name) or fill(self, *rest),
    )
    run = compiled(ops.matmul(ea.tensor("A", (33, 31)), ea.tensor("K", (31, 37), role="weight")))
    one = Case(run.program["O"]).arrays()
    bound, other = run.bind(K=one["K"]), np.ones((31, 37), np.float32)
    assert packed == ["K_for_O"]
    assert [len(step.run.packs) for step in bound._running] == [0] and [
        len(step.run.packs) for step in run._running
    ] == [1]
    for _ in range(2):
        assert np.array_equal(bound(A=one["A"]), one["A"] @ one["K"])
    for weights in (other, one["K"]):
        assert np.array_equal(run(A=one["A"], K=weights), one["A"] @ weights)
    assert packed == ["K_for_O"]  # the runs of the program itself pack in the same call


def test_what_is_small_is_generated() -> None:
    assert "generated" in repr(compiled(ops.matmul(ea.tensor("A", (3, 4)), ea.tensor("B", (4, 5)))))


def test_what_does_not_fit_is_refused() -> None:
    case = Case(ops.conv2d(ea.tensor("A", (1, 4, 6, 6)), ea.tensor("K", (5, 4, 3, 3))))
    kernel = match(case.scope, "O")
    assert kernel is not None
    best = plan(contraction_of(kernel, case.scope, "f32"), SMALL)
    assert best is not None
    with pytest.raises(ea.CodegenError, match="does not fit"):
        contraction_function(best[0], replace(best[1], vectors=0))


def test_sums_of_a_register_tile_stay_loops() -> None:
    """Written out, gcc keeps what neighbouring taps share in registers, and the sums no longer fit."""
    scope = ops.conv2d(
        ea.tensor("A", (1, 16, 12, 12)), ea.tensor("K", (16, 16, 3, 3), role="weight"), padding=1
    )
    function = Case(scope, ahead=("K",)).function(CpuModel(vector=32, registers=16))
    loops = [node for node in walk(function) if isinstance(node, For) and node.kind == "rolled"]
    assert {node.extent for node in loops} == {
        16,
        3,
        None,
    }  # taps of a line, the others only where they meet the image
    lines = [line.strip() for line in c_source([function]).splitlines()]
    assert lines.count("#pragma GCC unroll 1") == len(loops)
    assert all(
        after.startswith("for (")
        for line, after in pairwise(lines)
        if line == "#pragma GCC unroll 1"
    )


@pytest.mark.parametrize("images", [1, 5])
def test_an_image_is_not_copied_where_zeros_are_left_out(images: int) -> None:
    """Tiles of positions that all read the same lines of the image take the taps that meet it, and
    no border is written.
    """
    A, K = ea.tensor("A", (images, 6, 6, 8)), ea.tensor("K", (5, 1, 8, 16), role="weight")
    case = Case(ops.conv2d(A, K, padding=(2, 0), layout="NHWC", weight_layout="HWIO"), ahead=("K",))
    function = case.function(CpuModel(vector=32, registers=16))
    assert not any(
        isinstance(node, Buf) and node.name.startswith("bordered") for node in walk(function)
    )
    assert any(
        isinstance(node, For) and node.kind == "rolled" and isinstance(node.low, MinMax)
        for node in walk(function)
    )
    check([case], CpuModel(vector=32, registers=16))


def test_a_tile_that_would_read_a_border_that_is_not_written_is_refused() -> None:
    scope = ops.conv2d(ea.tensor("A", (1, 4, 6, 6)), ea.tensor("K", (5, 4, 3, 3)), padding=1)
    kernel = match(scope, "O")
    found = kernel and contraction_of(kernel, scope, "f32")
    assert found and found.bare
    bare = ordered(found.bare)
    tiling = next(t for t in tilings(bare, SMALL))
    assert tiling.rows == 1
    with pytest.raises(ea.CodegenError, match="does not fit"):
        contraction_function(bare, replace(tiling, rows=2))


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"padding": [(2, 1), (3, 1)]},
        {"padding": 2, "stride": 2},
        {"padding": [(0, 1), (4, 2)], "dilation": (1, 2)},
    ],
    ids=["same", "asymmetric", "strided", "dilated"],
)
def test_rows_that_read_zeros_are_left_out_tap_by_tap(options: Any) -> None:
    """A tile that has all positions of a line sums, for each tap, those that it meets the image."""
    scope = ops.conv2d(
        ea.tensor("A", (1, 7, 6, 9)),
        ea.tensor("K", (3, 4, 9, 9), role="weight"),
        layout="NHWC",
        weight_layout="HWIO",
        **options,
    )
    kernel = match(scope, "O")
    found = kernel and contraction_of(kernel, scope, "f32")
    assert found
    chosen: dict[bool, list[Function]] = {True: [], False: []}  # whether a border is written
    for order in orders(found):
        for tiling in tilings(order, CpuModel(vector=32, registers=16)):
            window = Partition(order, tiling).row_window
            if window is not None and len(chosen[window.written]) < 12:
                assert len(window.tap_runs) > 1 and used_tap_fraction(window, 1) < 1
                chosen[window.written].append(contraction_function(order, tiling))
    assert all(chosen.values())
    functions = [function for own in chosen.values() for function in own]
    case = Case(scope)
    arrays = case.arrays()
    expected = execute(as_program(scope), {k: a.astype(np.float64) for k, a in arrays.items()})
    for output in run_functions(functions, [arrays] * len(functions), cc=spread_compiler):
        assert np.array_equal(output.astype(np.float64), expected["O"])


def test_panels_are_copied_as_they_lie_in_memory() -> None:
    """Neighbouring panels one after the other for each element of depth: rows that are a page apart
    displace one another from the cache.
    """
    machine = CpuModel(vector=32, registers=16)
    scope = ea.parse("O[m,n] += A[m,k]*B[k,n]", A=(24, 40), B=(40, 96))
    kernel = match(scope, "O")
    found = kernel and contraction_of(kernel, scope, "f32", ("A",))
    assert found
    tiling = next(t for t in tilings(found, machine) if t.pack_right and t.vectors == 2)
    function = contraction_function(found, replace(tiling, depth=40, group=3))
    copies = [
        node for node in walk(function) if isinstance(node, Store) and node.ref.buf.name == "panels"
    ]
    outer = [
        node.index.name
        for node in walk(function)
        if isinstance(node, For) and copies[0] in walk(node)
    ]
    assert outer.index("k") < outer.index("panel")


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_panels_of_columns_whose_depth_is_a_run_in_memory(dtype: str) -> None:
    """They are copied in squares, and element by element what fills none, however depth is cut."""
    machine, rng = CpuModel(vector=32, registers=16), np.random.default_rng(5)
    lanes = 32 // numpy_dtype(dtype).itemsize
    functions: list[Function] = []
    arrays: list[dict[str, Any]] = []
    for rows, columns, outer, depth, cuts in (
        (9, 2 * lanes + 3, 3, 5 * lanes + 1, (1, 2, 3)),
        (5, 3 * lanes, 2, 2 * lanes, (1,)),
        (7, 4 * lanes - 1, 1, 4 * lanes + 3, (lanes, 3 * lanes)),
    ):
        shapes = {"A": (2, outer, rows, depth), "B": (2, outer, columns, depth)}
        a, b = (ea.tensor(name, shape, dtype) for name, shape in shapes.items())
        total = ea.Sum[q:outer, k:depth](a[p, q, m, k] * b[p, q, n, k])
        scope = ea.L[p:2, m:rows, n:columns](total)
        kernel = match(scope, "O")
        assert kernel is not None
        found = contraction_of(kernel, scope, dtype)
        assert found is not None
        order = ordered(found)
        packed = [t for t in tilings(order, machine) if t.pack_right and t.lanes == lanes]
        for tiling in (packed[0], packed[-1]):
            for cut in cuts:
                tiling = replace(tiling, depth=cut, group=2)
                assert Partition(order, tiling).packs_squares
                functions.append(contraction_function(order, tiling))
                arrays.append(
                    {
                        name: rng.integers(-3, 4, shape).astype(numpy_dtype(dtype))
                        for name, shape in shapes.items()
                    }
                )
    assert all(any(isinstance(node, Transpose) for node in walk(f)) for f in functions)
    outputs = run_functions(functions, arrays, cc=spread_compiler)
    for given_arrays, output in zip(arrays, outputs):
        expected = np.einsum("pqmk,pqnk->pmn", *given_arrays.values())
        assert np.array_equal(output, expected)


def fetched(shape: tuple[int, int, int], depth: int | None = None) -> dict[str, list[Prefetch]]:
    """The prefetches of the product of `m` x `k` and `k` x `n` elements, by what they ask for."""
    rows, inner, columns = shape
    scope = ea.parse("O[m,n] += A[m,k]*B[k,n]", A=(rows, inner), B=(inner, columns))
    kernel = match(scope, "O")
    assert kernel is not None
    found = contraction_of(kernel, scope, "f32", ("B",))
    best = found and plan(found, CpuModel(vector=64, registers=32))
    assert best is not None
    order, tiling = best
    function = contraction_function(order, replace(tiling, depth=depth or tiling.depth))
    result: dict[str, list[Prefetch]] = {}
    for node in walk(function):
        if isinstance(node, Prefetch):
            result.setdefault(node.ref.buf.name, []).append(node)
    return result


SHAPES_OF_STEPS = {"A": (21, 420), "B": (420, 37), "c": (21,)}


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_steps_of_depth_have_a_branch_each_where_they_come(steps: int) -> None:
    """With an epilogue, the first of two steps is all that is before the last."""
    text = "T[m,n] += A[m,k]*B[k,n]\nO[m,n] = Max(T[m,n] + c[m], 0)"
    schedule = ea.Schedule(text, tuned=False, **SHAPES_OF_STEPS)
    schedule.set(depth=420 // steps, apart=False)
    source = schedule.source()
    assert ("step == 0" in source) == (steps > 2)
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape) for name, shape in SHAPES_OF_STEPS.items()}
    wanted = np.maximum(arrays["A"] @ arrays["B"] + arrays["c"][:, None], 0)
    computed = schedule.compile()(**{name: a.astype("f4") for name, a in arrays.items()})
    np.testing.assert_allclose(computed, wanted, atol=1e-3)


def test_a_tile_asks_for_the_rows_of_the_next_one_where_they_come_from_memory() -> None:
    """In short runs, which no processor sees coming: each line of all rows of a tile."""
    assert "A" in fetched((20_000, 24, 40))
    assert "A" not in fetched((2_000, 24, 40))  # in a cache
    assert "A" not in fetched((2_000, 1024, 40))  # long runs
    assert "A" not in fetched((20_000, 24, 800))  # which a tile meets many panels with
    assert "A" not in fetched((20_000, 24, 40), depth=9)
    short, long = fetched((20_000, 24, 40)), fetched((20_000, 480, 40))
    assert {p.level for p in short["A"]} == {1} and {p.level for p in long["A"]} == {2}


def test_a_tile_asks_for_its_results_where_these_are_more_than_caches_hold() -> None:
    assert "O" in fetched((40_000, 9, 40)) and "O" not in fetched((4_000, 9, 40))
    assert "O" in fetched((4_000, 90, 40))  # its sums take long enough


def test_sums_along_memory_are_not_tiled() -> None:
    """One filter over the innermost axis has nothing to lay side by side; such sums are left to
    other code.
    """
    scope = ops.conv2d(
        ea.tensor("A", (1, 20, 20, 32)),
        ea.tensor("K", (3, 3, 32, 1)),
        layout="NHWC",
        weight_layout="HWIO",
    )
    kernel = match(scope, "O")
    assert kernel is not None
    best = cheapest(CodeUnit(kernel, scope), machine())
    assert best is not None and best.space.name != "contraction"


M, N, K = Index("m"), Index("n"), Index("k")
OUTER = StridedAxis(Index("o"), 6, 400, 0, 400)
BLOCKED = Tiling(8, 6, 2, depth=24, block=4, group=2)


def partition(
    tiling: Tiling = BLOCKED, *, outer: str = "", rows: int = 20, columns: int = 80
) -> Partition:
    """Return a product of matrices, with one more axis in the batch, the rows or the columns."""
    groups: dict[str, tuple[StridedAxis, ...]] = {
        "batch": (),
        "rows": (StridedAxis(M, rows, 96, 0, 96),),
        "columns": (StridedAxis(N, columns, 0, 1, 1),),
        "depth": (StridedAxis(K, 96, 1, 96, 0),),
    }
    if outer:
        groups[outer] = (OUTER, *groups[outer])
    operands = [StridedOperand(Buf(name, (96, 96), "f32"), 0) for name in "ABC"]
    return Partition(Contraction(*operands, dtype="f32", **groups), tiling)


SHARED = [
    # 4 tiles of rows, 5 panels of 16 columns in groups of 2
    (partition(replace(BLOCKED, apart=True)), "depth", [1, Fraction(2, 3)]),  # 4 steps of 24
    (partition(replace(BLOCKED, block=1)), "blocks", [1, Fraction(2, 3)]),  # 4 blocks
    (partition(outer="batch"), "blocks", [1, 1]),  # 6 batches
    (partition(rows=6, outer="columns"), "columns", [1, 1]),  # 6 outer columns
    (partition(rows=6), "groups", [Fraction(5, 8), Fraction(5, 6)]),  # 3 groups of 2
    (partition(columns=16), "rows", [1, Fraction(2, 3)]),  # 4 tiles of 5 rows
]


@pytest.mark.parametrize(("part", "shared", "used"), SHARED, ids=[row[1] for row in SHARED])
def test_threads_share_the_loop_that_has_turns_for_all(
    part: Partition, shared: str, used: list[Any]
) -> None:
    assert part.shared == shared
    assert [part.core_utilization(cores) for cores in (2, 3)] == pytest.approx(
        list(map(float, used))
    )


def test_one_row_of_an_outer_axis_is_shared() -> None:
    part = partition(replace(BLOCKED, block=6), outer="rows", columns=16)
    assert part.shared == "rows"
    assert part.core_utilization(4) == 6 / 8
