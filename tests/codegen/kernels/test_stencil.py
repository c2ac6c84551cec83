"""Generated convolutions with few filters: every layout, stride, dilation, padding and phase,
against NumPy in double precision.
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
from codegen.kernels.stencil.kernel import tiled_stencils
from codegen.kernels.stencil.problem import (
    Phase,
    Stencil,
    StencilAxis,
    phase_groups,
    stencils_of,
    tap_runs,
)
from codegen.kernels.stencil.tile_choice import choose_tile
from codegen.kernels.strided_axes import StridedAxis
from codegen.program.building.generated_kernels import best_candidate
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.source_file import c_source
from codegen.tuning.spaces.unit import CodeUnit
from derive.matching import kernels_of, match, templates
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK, mutants
from tests.helpers.epilogues import Finished, check_finished, statements
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

CONVOLUTIONS = tuple(
    t
    for name in ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
    for t in templates(name)
)
SMALL = CpuModel(vector=16, registers=12, level1=512, level2=4096, cores=2)
WIDE = CpuModel(64, 32, cores=2)
NARROW = CpuModel(64, 32, cores=2, turns=2)


@dataclass(frozen=True)
class Case:
    scope: Scope
    dtype: str = "f32"
    parallel: bool = False
    machine: CpuModel = SMALL

    def function(self) -> Function | None:
        kernel = match(self.scope, "O", CONVOLUTIONS)
        if kernel is None:
            return None
        return self.written(stencils_of(kernel, self.scope, self.dtype))

    def written(self, stencils: Sequence[Stencil] | None) -> Function | None:
        if not stencils:
            return None
        tiles = [choose_tile(stencil, self.machine)[0] for stencil in stencils]
        return tiled_stencils(stencils, tiles, str(self.scope), self.parallel)

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


@st.composite
def convolutions(draw: Any) -> Case:
    rank, transposed = draw(st.sampled_from((1, 2, 2))), draw(st.booleans())
    letters = "HW"[2 - rank :]
    few = st.integers(1, 3)
    groups, taps = draw(st.sampled_from((1, 1, 2))), [draw(st.integers(1, 4)) for _ in letters]
    stride, dilation = [draw(few) for _ in letters], [draw(st.integers(1, 2)) for _ in letters]
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in letters]
    space = [
        draw(st.sampled_from((1, 2, 3, 5, 7, 9, 16, 19) if transposed else (8, 9, 11, 16, 21)))
        for _ in letters
    ]
    sizes = {
        "N": draw(few),
        "C": groups * draw(st.sampled_from((1, 2, 5))),
        "O": groups * draw(few),
        **dict(zip(letters, space)),
    }
    first = draw(st.booleans())
    layout = f"NC{letters}" if first else f"N{letters}C"
    orders = ("IO", letters) if transposed else ("OI", letters)
    weights = "".join(orders) if first else "".join(reversed(orders))
    A = ea.tensor("A", [sizes[x] for x in layout])
    inside = (
        {"I": sizes["C"], "O": sizes["O"] // groups}
        if transposed
        else {"I": sizes["C"] // groups, "O": sizes["O"]}
    )
    K = ea.tensor("K", [{**inside, **dict(zip(letters, taps))}[x] for x in weights])
    options = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "groups": groups,
        "layout": layout,
        "weight_layout": weights,
    }
    try:
        scope = getattr(ops, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")(
            A, K, **options
        )
    except ea.EinalgError:  # an axis would be empty
        scope = ops.conv1d(ea.tensor("A", (2, 3, 9)), ea.tensor("K", (1, 3, 3)), padding=1)
    return Case(
        scope, parallel=draw(st.booleans()), machine=draw(st.sampled_from((SMALL, WIDE, NARROW)))
    )


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(
    st.lists(
        convolutions().filter(lambda case: case.function() is not None), min_size=4, max_size=6
    )
)
def test_convolutions(cases: list[Case]) -> None:
    check(cases)


class OfFewFilters(Finished):
    """A convolution as a stencil, and the statement that reads its results."""

    def function(self) -> Function | None:
        kernel, case = match(self.case.scope, "T", CONVOLUTIONS), self.case
        assert kernel is not None
        return case.written(stencils_of(kernel, case.scope, case.dtype, ("O", self.reader)))


@st.composite
def finished(draw: Any) -> OfFewFilters:
    case = draw(convolutions().filter(lambda case: case.function() is not None))
    return OfFewFilters(case, draw(statements(case.scope, case.dtype)))


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(
    st.lists(finished().filter(lambda case: case.function() is not None), min_size=4, max_size=6)
)
def test_what_reads_every_result_once(found: list[OfFewFilters]) -> None:
    check_finished(found)


@pytest.mark.parametrize("stride, taps", [(1, 3), (2, 4), (3, 5)])
def test_biases_activations_and_residuals_of_phases(stride: int, taps: int) -> None:
    results = transposed(taps, stride, 1)
    n, f, h, w = ea.indices("n f h w")
    T, B, R = (
        ea.tensor("T", results.box, role="intermediate"),
        ea.tensor("B", (2,)),
        ea.tensor("R", results.shape),
    )
    ranges = [slice(index, size) for index, size in zip((n, f, h, w), results.shape)]
    plain, last = ea.L[tuple(ranges)], ea.L[ranges[0], ranges[2], ranges[3], ranges[1]]
    bodies = [L(ea.Max(T[n, f, h, w] + B[f], 0) - R[n, f, h, w]) for L in (plain, last)]
    check_finished(
        [
            OfFewFilters(Case(results, machine=machine), body)
            for body in bodies
            for machine in (SMALL, WIDE, NARROW)
        ],
        quick_compiler(),
    )


def test_results_that_are_read_in_parts_are_stored() -> None:
    results = transposed(4, 2, 1)
    h, w, T = *ea.indices("h w"), ea.tensor("T", results.box, role="intermediate")
    part = ea.L[h : results.shape[2] - 1, w : results.shape[3]](T[0, 1, h, w] * 2)
    assert OfFewFilters(Case(results), part).function() is None


def transposed(taps: int, stride: int, padding: int, more: int = 0, size: int = 7) -> Scope:
    A, K = ea.tensor("A", (1, 5, size, size + 1)), ea.tensor("K", (5, 2, taps, taps))
    return ops.conv_transpose2d(A, K, stride=stride, padding=padding, output_padding=more)


@pytest.mark.parametrize(
    "scope",
    [
        transposed(4, 2, 1),
        transposed(9, 4, 4, 3),
        transposed(2, 3, 0),
        transposed(5, 3, 2, size=17),
    ],
    ids=range(4),
)
def test_phases(scope: Scope) -> None:
    """Phases with as many taps as others, with fewer and with none; positions that fill vectors,
    and that do not.
    """
    check([Case(scope), Case(scope, machine=WIDE, parallel=True)], quick_compiler())


@pytest.mark.parametrize("taps, stride, together", [(9, 4, 4), (3, 3, 3), (5, 1, 1)])
def test_phases_are_computed_together(taps: int, stride: int, together: int) -> None:
    """What is read of a line serves all of them, where there are registers for their sums."""
    A, K = ea.tensor("A", (1, 8, 32, 32)), ea.tensor("K", (8, 1, taps, taps))
    scope = ops.conv_transpose2d(A, K, stride=stride, padding=taps // 2, output_padding=stride - 1)
    kernel = match(scope, "O", CONVOLUTIONS)
    assert kernel is not None
    assert {
        choose_tile(stencil, WIDE)[0].phases for stencil in stencils_of(kernel, scope, "f32") or ()
    } == {together}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8", "u16", "i32", "f64"])
def test_types(dtype: str) -> None:
    kinds = {"f16": "f32", "bf16": "f32", "i8": "i32", "u16": "i32"}
    scope = ops.conv2d(
        ea.tensor("A", (1, 3, 9, 10), dtype), ea.tensor("K", (2, 3, 3, 3), dtype), padding=1
    )
    check([Case(scope, kinds.get(dtype, dtype))])


def test_tiles_of_this_machine() -> None:
    """One more and one less than a register tile's lines and vectors."""
    sizes = [(25, 17), (26, 16), (27, 15), (28, 65)]
    check(
        [
            Case(
                ops.conv2d(ea.tensor("A", (1, 2, *size)), ea.tensor("K", (1, 2, 5, 5)), padding=2),
                machine=machine,
            )
            for size in sizes
            for machine in (WIDE, NARROW)
        ]
    )


def test_blocks_that_do_not_divide_the_lines() -> None:
    """The last block has fewer tiles; and phases of a line that lie outside of the data."""
    roomy = CpuModel(vector=16, registers=12, level1=2048, level2=1 << 16, cores=1)
    K = ea.tensor("K", (1, 2, 3, 3))
    cases, rests = [], []
    for size, stride in (((1, 2, 101, 9), 2), ((2, 2, 59, 11), 1)):
        scope = ops.conv2d(ea.tensor("A", size), K, padding=1, stride=stride)
        kernel = match(scope, "O", CONVOLUTIONS)
        assert kernel is not None
        for stencil in stencils_of(kernel, scope, "f32") or ():
            tile = choose_tile(stencil, roomy)[0]
            rests.append(-(-stencil.lines.extent // tile.lines) % tile.block)
        cases.append(Case(scope, machine=roomy))
    assert any(rests)
    cases.append(Case(ops.conv2d(ea.tensor("A", (1, 2, 7, 2)), K, padding=4, stride=3)))
    check(cases)


TAPS = st.dictionaries(st.integers(-5, 9), st.integers(0, 99), min_size=1, max_size=6)


@given(st.lists(TAPS, min_size=1, max_size=3), st.integers(1, 4))
def test_runs_are_all_taps_once(taps: list[dict[int, int]], step: int) -> None:
    low = min(shift for some in taps for shift in some)
    span = StencilAxis(4, step, (1,), 9, 1, low=low)
    found = [
        (phase, (run.first + k * run.step) * step + run.phase + low, begin + k * apart)
        for run in tap_runs(span, [Phase((0,), tuple(some.items())) for some in taps])
        for phase, begin, apart in run.weights
        for k in range(run.count)
    ]
    assert sorted(found) == sorted(
        (phase, shift, at) for phase, some in enumerate(taps) for shift, at in some.items()
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.dictionaries(st.integers(-1, 1), st.integers(0, 9), max_size=2)
        ),
        min_size=1,
        max_size=7,
    ),
    st.integers(1, 8),
)
def test_phases_together_are_all_phases_once(
    phases: list[tuple[int, dict[int, int]]], number: int
) -> None:
    given_phases = [Phase((begin, 2 * begin), tuple(taps.items())) for begin, taps in phases]
    found = []
    for some in phase_groups(given_phases, number, Index("p")):
        (axis,) = some.axes or (StridedAxis(Index("p"), 1, 0, 0, 0, (0,)),)
        assert len(some.phases) <= number
        for k in range(axis.extent):
            for phase in some.phases:
                begin = (
                    phase.begin[0] + k * axis.target,
                    phase.begin[1] + k * axis.epilogue_steps[0],
                )
                found.append(
                    Phase(begin, tuple((shift, at + k * axis.right) for shift, at in phase.taps))
                )
    assert found == given_phases


# What is wrong is noticed.


def counts(node: Any) -> bool:
    return isinstance(node, For) and any(
        isinstance(n, Store) and (n.op == "+=" or n.ref.buf.name == "O") for n in walk(node)
    )


def shorter(node: Any) -> Any:
    if not counts(node) or node.kind in ("lanes", "unroll") or not hasattr(node.high, "terms"):
        return None
    return replace(node, high=node.high - 1) if node.extent != 0 else None


def later(node: Any) -> Any:
    if not counts(node) or node.kind in ("lanes", "unroll") or not hasattr(node.low, "terms"):
        return None
    return replace(node, low=node.low + 1) if node.extent != 0 else None


@pytest.mark.parametrize("change", [shorter, later])
@pytest.mark.parametrize(
    "scope",
    [
        transposed(4, 2, 1),
        ops.conv2d(ea.tensor("A", (2, 3, 7, 9)), ea.tensor("K", (2, 3, 3, 3)), padding=1),
    ],
    ids=range(2),
)
def test_mutants_are_noticed(scope: Scope, change: Any) -> None:
    case = Case(scope)
    function = case.function()
    assert function is not None
    found = list(mutants(function, change))[:10]
    assert found
    arrays = case.arrays()
    expected = execute(
        as_program(scope), {name: a.astype(np.float64) for name, a in arrays.items()}
    )["O"]
    outputs = run_functions(found, [arrays] * len(found), cc=quick_compiler())
    for mutant, out in zip(found, outputs):
        assert not np.array_equal(out, expected), c_source([mutant])


@pytest.mark.parametrize(
    "scope",
    [
        transposed(4, 2, 1, size=17),
        ops.conv2d(
            ea.tensor("A", (1, 20, 20, 8)),
            ea.tensor("K", (3, 3, 8, 1)),
            layout="NHWC",
            weight_layout="HWIO",
        ),
    ],
    ids=range(2),
)
def test_compiled_programs_have_them(scope: Scope) -> None:
    kernel = match(scope, "O", CONVOLUTIONS)
    assert kernel is not None
    best = best_candidate(CodeUnit(kernel, scope))
    assert best is not None and best.space.name == "stencil"
    run = compile_program(scope, [kernel], compiler=quick_compiler())
    arrays = Case(scope).arrays()
    assert np.array_equal(run(**arrays), execute(as_program(scope), arrays)["O"])


def test_other_operators_are_refused() -> None:
    scope = ops.matmul(ea.tensor("A", (3, 4)), ea.tensor("B", (4, 5)))
    kernel = match(scope, "O", templates("matmul"))
    assert kernel is not None and not stencils_of(kernel, scope, "f32")


def test_compiled_programs_finish_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    results = ops.conv2d(ea.tensor("A", (2, 3, 40, 40)), ea.tensor("K", (1, 3, 5, 5)), padding=2)
    program = Program(
        [("T", results), ("O", ops.relu(ea.tensor("T", results.box, role="intermediate")))], ("O",)
    )
    run = compile_program(program, kernels_of(program), compiler=quick_compiler())
    arrays = Case(results).arrays()
    assert [kernel.epilogue is not None for kernel in run.kernels] == [True]
    assert np.array_equal(run(**arrays), execute(program, arrays)["O"])
