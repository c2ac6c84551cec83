"""Depthwise convolutions in vectors of channels: every layout of weights, stride, dilation, padding
and number of channels, against NumPy in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import For, Function, Store, walk
from codegen.kernels.depthwise.kernel import depthwise_function
from codegen.kernels.depthwise.problem import Depthwise, SpaceWindow, depthwise_of
from codegen.kernels.depthwise.tile_choice import DepthwiseTile, choose_tile, tile_runs
from codegen.kernels.strided_axes import BorderWindow
from codegen.targets.c.source_file import c_source
from derive.matching import match, templates
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.contractions import UNSHRUNK, mutants
from tests.helpers.epilogues import Finished, check_finished
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

CONVOLUTIONS = (*templates("conv1d"), *templates("conv2d"), *templates("conv3d"))
SMALL = CpuModel(vector=16, registers=12, level1=512, level2=4096, cores=2)
WIDE = CpuModel(64, 32, cores=2)
NARROW = CpuModel(64, 32, cores=2, turns=2)


@dataclass(frozen=True)
class Case:
    scope: Scope
    dtype: str = "f32"
    ahead: tuple[str, ...] = ()
    parallel: bool = False
    machine: CpuModel = SMALL

    def problem(self) -> Depthwise | None:
        kernel = match(self.scope, "O", CONVOLUTIONS)
        if kernel is None:
            return None
        return depthwise_of(kernel, self.scope, self.dtype, self.ahead)

    def function(self) -> Function | None:
        problem = self.problem()
        if problem is None:
            return None
        return depthwise_function(problem, target=self.machine, parallel=self.parallel)

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        arrays: dict[str, Any] = {}
        for name, tensor in self.scope.tensors.items():
            arrays[name] = rng.integers(-3, 4, tensor.shape).astype(numpy_dtype(tensor.dtype))
        return arrays

    def expected(self) -> Any:
        doubles = {name: array.astype(np.float64) for name, array in self.arrays().items()}
        return execute(as_program(self.scope), doubles)["O"]


def check(cases: Sequence[Case]) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    functions = []
    for case in cases:
        function = case.function()
        assert function is not None
        functions.append(function)
    results = run_functions(functions, [case.arrays() for case in cases], cc=spread_compiler)
    for case, function, result in zip(cases, functions, results):
        expected = case.expected()
        assert np.array_equal(result.astype(np.float64), expected), c_source([function])


def depthwise(
    space: Sequence[int],
    channels: int,
    taps: Sequence[int],
    *,
    images: int = 2,
    filters: int = 1,
    tap_major: bool = True,
    dtype: str = "f32",
    **options: Any,
) -> Scope:
    """Return a depthwise convolution, channels last; the weights of a tap together, or a filter's."""
    letters = "DHW"[3 - len(space) :]
    data = ea.tensor("A", (images, *space, channels), dtype=dtype)
    shape, layout = (*taps, 1, channels * filters), f"{letters}IO"
    if not tap_major:
        shape, layout = (channels * filters, 1, *taps), f"OI{letters}"
    weights = ea.tensor("K", shape, dtype=dtype)
    convolution = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[len(space)]
    return convolution(
        data,
        weights,
        groups=channels,
        layout=f"N{letters}C",
        weight_layout=layout,
        **options,
    )


@st.composite
def convolutions(draw: Any) -> Case:
    rank = draw(st.sampled_from((1, 2, 2, 2, 3)))
    small, few = st.integers(1, 3), st.sampled_from((5, 7, 8, 11))
    scope = depthwise(
        [draw(few) for _ in range(rank)],
        draw(st.sampled_from((4, 5, 8, 13, 17))),
        [draw(st.integers(1, 4)) for _ in range(rank)],
        images=draw(small),
        tap_major=draw(st.booleans()),
        stride=[draw(small) for _ in range(rank)],
        dilation=[draw(st.integers(1, 2)) for _ in range(rank)],
        padding=[(draw(st.integers(2, 4)), draw(st.integers(2, 4))) for _ in range(rank)],
    )
    return Case(
        scope,
        ahead=draw(st.sampled_from(((), ("K",)))),
        parallel=draw(st.booleans()),
        machine=draw(st.sampled_from((SMALL, WIDE, NARROW))),
    )


def is_depthwise(case: Case) -> bool:
    return case.function() is not None


@settings(max_examples=3, phases=UNSHRUNK)
@given(st.lists(convolutions().filter(is_depthwise), min_size=3, max_size=5))
def test_convolutions(cases: list[Case]) -> None:
    check(cases)


@dataclass(frozen=True)
class OfChannels(Finished):
    """A depthwise convolution, and the statement that reads its results."""

    def function(self) -> Function | None:
        kernel, case = match(self.case.scope, "T", CONVOLUTIONS), self.case
        assert kernel is not None
        epilogue = "O", self.reader
        problem = depthwise_of(kernel, case.scope, case.dtype, case.ahead, epilogue)
        if problem is None:
            return None
        return depthwise_function(problem, target=case.machine, parallel=case.parallel)


def test_biases_activations_and_residuals() -> None:
    case = Case(depthwise((6, 10), 11, (3, 3), images=1, padding=1))
    sizes = {"T": case.scope.shape, "b": (11,), "R": case.scope.shape}
    readers = [
        "O[n,h,w,c] = Max(T[n,h,w,c] + b[c], 0)",
        "O[n,h,w,c] = T[n,h,w,c]*2 + R[n,h,w,c]",
        "O[h,n,w,c] = Min(T[n,h,w,c], 3)",
    ]
    finished = []
    for reader in readers:
        used = {name: size for name, size in sizes.items() if f"{name}[" in reader}
        used["T"] = ea.tensor("T", case.scope.shape, role="intermediate")
        finished.append(OfChannels(case, ea.parse(reader, **used)))
    assert all(case.function() for case in finished)
    check_finished(finished)


@pytest.mark.parametrize("reader", ["O[c,h,w] = T[0,h,w,c] + 1", "O[h,w] = T[0,h,w,2] + 1"])
def test_results_whose_channels_are_read_apart_are_stored(reader: str) -> None:
    case = Case(depthwise((4, 5), 8, (3, 3), images=1))
    assert OfChannels(case, ea.parse(reader, T=case.scope.shape)).function() is None


@pytest.mark.parametrize("channels", [4, 31, 97])
def test_every_channel_whatever_fills_no_vector(channels: int) -> None:
    cases = []
    for machine in (SMALL, WIDE, NARROW):
        cases.append(Case(depthwise((6, 9), channels, (3, 3), padding=1), machine=machine))
    check(cases)


def test_types() -> None:
    scopes = {dtype: depthwise((5, 8), 8, (3, 3), dtype=dtype) for dtype in ("f64", "i32", "i64")}
    check([Case(scope, dtype) for dtype, scope in scopes.items()])


def test_borders_beyond_every_tap() -> None:
    """Results that read nothing but zeros are zero."""
    check([Case(depthwise((4, 5), 8, (3, 3), padding=((6, 5), (7, 4)), stride=(1, 2)))])


def test_weights_are_packed_where_the_channels_of_a_tap_lie_apart() -> None:
    tap_major = Case(depthwise((9, 9), 16, (3, 3)), ahead=("K",)).function()
    filter_major = Case(depthwise((9, 9), 16, (3, 3), tap_major=False), ahead=("K",)).function()
    unknown = Case(depthwise((9, 9), 16, (3, 3), tap_major=False)).function()
    assert tap_major is not None and filter_major is not None and unknown is not None
    assert not tap_major.packs and not unknown.packs
    assert [pack.inputs[0].name for pack in filter_major.packs] == ["K"]
    assert filter_major.inputs[1].name == filter_major.packs[0].output.name


@pytest.mark.parametrize("machine", [SMALL, WIDE, NARROW])
@pytest.mark.parametrize("taps", [2, 3, 7, 15])
def test_tiles_fit_into_the_registers(machine: CpuModel, taps: int) -> None:
    problem = Case(depthwise((20, 20), 64, (taps, taps), padding=taps // 2)).problem()
    assert problem is not None
    choice = choose_tile(problem, machine)
    assert choice is not None
    tile, cycles = choice
    assert tile.vectors * (tile.positions + tile.taps + 1) <= machine.registers
    assert cycles > 0


@given(
    st.integers(1, 30), st.integers(1, 5), st.integers(1, 3), st.integers(0, 6), st.integers(1, 9)
)
def test_runs_are_all_products_once(
    positions: int, taps: int, stride: int, before: int, largest: int
) -> None:
    window = BorderWindow(Index("w"), Index("s"), positions, taps, stride, 2, before, 17)
    axis = SpaceWindow(window, 1, 1, (1,))
    products = set()
    for run in tile_runs(axis, largest):
        assert run.positions <= largest
        for tile in range(run.count):
            first = run.first + tile * run.positions
            for element, uses in run.uses(axis, range(taps)).items():
                for place, tap in uses:
                    assert element == place * stride + tap * 2
                    products.add((first + place, tap))
    expected = set()
    for position in range(positions):
        for tap in range(taps):
            if 0 <= position * stride + tap * 2 - before < 17:
                expected.add((position, tap))
    assert products == expected


def counts(node: Any) -> bool:
    if not isinstance(node, For) or node.kind in ("lanes", "unroll"):
        return False
    return any(isinstance(n, Store) and n.op == "+=" for n in walk(node))


def shorter(node: Any) -> Any:
    if not counts(node) or not hasattr(node.high, "terms"):
        return None
    return replace(node, high=node.high - 1)


def test_mutants_are_noticed() -> None:
    case = Case(depthwise((6, 7), 9, (3, 3), padding=1))
    function = case.function()
    assert function is not None
    changed = list(mutants(function, shorter))[:8]
    assert changed
    results = run_functions(changed, [case.arrays()] * len(changed), cc=quick_compiler())
    for mutant, result in zip(changed, results):
        assert not np.array_equal(result, case.expected()), c_source([mutant])


@pytest.mark.parametrize(
    "scope",
    [
        ops.conv2d(ea.tensor("A", (1, 8, 9, 9)), ea.tensor("K", (8, 1, 3, 3)), groups=8),
        depthwise((9, 9), 8, (3, 3), filters=2),
        depthwise((9, 9), 1, (3, 3)),
    ],
    ids=["channels first", "two filters", "one channel"],
)
def test_channels_that_are_no_neighbours_are_refused(scope: Scope) -> None:
    assert Case(scope).function() is None


def test_a_tile_of_ones_own() -> None:
    case = Case(depthwise((7, 11), 24, (3, 5), padding=2))
    problem = case.problem()
    assert problem is not None
    tiles = [DepthwiseTile(4, 1, 3, 2), DepthwiseTile(8, 3, 1, 5), DepthwiseTile(4, 2, 11, 1)]
    functions = []
    for tile in tiles:
        function = depthwise_function(problem, tile=tile)
        assert function is not None
        functions.append(function)
    for result in run_functions(functions, [case.arrays()] * len(tiles), cc=quick_compiler()):
        assert np.array_equal(result, case.expected())
