"""Which code of an operator is the cheapest by the models, on several machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.kernels.contraction import cost_model
from codegen.kernels.stencil import tile_choice
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest, operator_spaces
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.scope import Scope
from einalg.runtime.clock import Clock, OutOfTime

MACHINES = {
    "avx2": CpuModel(32, 16, cores=2),
    "avx512": CpuModel(64, 32, cores=2),
    "zen4": CpuModel(64, 32, 32 << 10, 1 << 20, cores=2, turns=2),
}
LOOPS = "loops"


@pytest.fixture(params=MACHINES)
def machine(request: Any) -> CpuModel:
    return MACHINES[request.param]


def unit(scope: Scope) -> CodeUnit:
    kernel = match(scope, "O")
    assert kernel is not None
    return CodeUnit(kernel, scope, frozenset({"K"}))


def choice(scope: Scope, machine: CpuModel) -> str:
    best = cheapest(unit(scope), machine)
    assert best is not None
    return best.space.name


def convolution(
    size: int,
    channels: int,
    filters: int,
    taps: int,
    layout: str = "NCHW",
    groups: int = 1,
    stride: int = 1,
    dilation: int = 1,
) -> Scope:
    """Return a convolution of squares with the usual borders."""
    data, weights = (1, channels, size, size), (filters, channels // groups, taps, taps)
    weight_layout = "OIHW"
    if layout == "NHWC":
        data, weights = (1, size, size, channels), (taps, taps, channels // groups, filters)
        weight_layout = "HWIO"
    return ops.conv2d(
        ea.tensor("A", data),
        ea.tensor("K", weights, role="weight"),
        layout=layout,
        weight_layout=weight_layout,
        groups=groups,
        stride=stride,
        dilation=dilation,
        padding=dilation * (taps // 2),
    )


def depthwise(
    size: int, channels: int, taps: int = 3, layout: str = "NHWC", **options: int
) -> Scope:
    return convolution(size, channels, channels, taps, layout, channels, **options)


@pytest.mark.parametrize(
    "scope",
    [
        depthwise(56, 128),
        depthwise(14, 512),
        depthwise(56, 64, stride=2),
        depthwise(28, 120, 5),
        depthwise(14, 240, 7),
        depthwise(28, 64, dilation=2),
        depthwise(28, 31),
        depthwise(28, 97),
    ],
    ids=str,
)
def test_vectors_hold_channels_that_are_neighbours(scope: Scope, machine: CpuModel) -> None:
    assert choice(scope, machine) == "depthwise"


@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"stride": 2}], ids=str)
@pytest.mark.parametrize("size, channels", [(56, 32), (14, 256)])
def test_vectors_hold_positions_where_channels_are_apart(
    size: int, channels: int, options: dict[str, int], machine: CpuModel
) -> None:
    assert choice(depthwise(size, channels, layout="NCHW", **options), machine) == "stencil"


@pytest.mark.parametrize(
    "scope",
    [
        ops.matmul(ea.tensor("A", (64, 64)), ea.tensor("K", (64, 64))),
        ops.matmul(ea.tensor("A", (256, 256)), ea.tensor("K", (256, 64))),
        convolution(28, 64, 64, 3),
        convolution(28, 64, 64, 3, "NHWC"),
        convolution(28, 64, 128, 1),
    ],
    ids=str,
)
def test_many_columns_are_a_contraction(scope: Scope, machine: CpuModel) -> None:
    assert choice(scope, machine) == "contraction"


@pytest.mark.parametrize(
    "scope", [convolution(64, 3, 1, 5), convolution(64, 3, 1, 5, "NHWC")], ids=str
)
def test_few_filters_are_a_stencil(scope: Scope, machine: CpuModel) -> None:
    assert choice(scope, machine) == "stencil"


@pytest.mark.parametrize(
    "scope",
    [
        ops.matmul(ea.tensor("A", (1000, 1000)), ea.tensor("K", (1000, 1))),
        ops.matmul(ea.tensor("A", (1, 8)), ea.tensor("K", (8, 4))),
    ],
    ids=str,
)
def test_sums_along_memory_stay_loops(scope: Scope, machine: CpuModel) -> None:
    assert choice(scope, machine) == LOOPS


@pytest.mark.parametrize(
    "matrix, rows, is_long",
    [
        ("B", 1, True),
        ("B", 4, False),
        ("K", 1, False),  # a constant, which is packed ahead
    ],
)
def test_a_vector_times_a_matrix_reads_long_rows(
    matrix: str, rows: int, is_long: bool, machine: CpuModel
) -> None:
    scope = ops.matmul(ea.tensor("A", (rows, 700)), ea.tensor(matrix, (700, 1031)))
    spaces = [space.name for space in operator_spaces(unit(scope), machine)]
    assert spaces == ([] if is_long else ["contraction"])


@pytest.mark.parametrize("size, filters", [(224, 32), (299, 32), (160, 16)])
def test_a_short_sum_does_not_pay_for_results_that_are_transposed(
    size: int, filters: int, machine: CpuModel
) -> None:
    """The first layer of a network, channels first: positions are neighbours in its results."""
    assert choice(convolution(size, 3, filters, 3, stride=2), machine) == "stencil"


def test_the_stencil_of_channels_last_pays_for_its_lines(machine: CpuModel) -> None:
    """A line of the cache comes once for each channel of it, where vectors hold positions."""
    scope = depthwise(112, 32)
    spaces = operator_spaces(unit(scope), machine)
    cycles = {space.name: space.cycles(space.start()) for space in spaces}
    assert cycles["stencil"] > 3 * cycles["depthwise"]


def test_no_further_implementation_is_planned_once_time_is_over():
    convolution = ops.conv2d(ea.tensor("A", (1, 8, 9, 9)), ea.tensor("K", (8, 8, 3, 3)))
    with Clock.of(0.0).limiting(), pytest.raises(OutOfTime):
        choice(convolution, MACHINES["avx2"])


def test_a_unit_is_planned_once(machine: CpuModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is compiled several times, and with an operator's reader after it was priced alone:
    the tilings of one contraction, and the tiles of one stencil, are compared once.
    """
    planned: list[object] = []
    tilings, tiles = cost_model.total_cycles, tile_choice.stencil_cycles
    monkeypatch.setattr(cost_model, "total_cycles", lambda p: planned.append(p) or tilings(p))
    monkeypatch.setattr(tile_choice, "stencil_cycles", lambda *t: planned.append(t) or tiles(*t))
    scope = convolution(size=23, channels=19, filters=29, taps=3)
    alone = unit(scope)
    first = cheapest(alone, machine)
    assert first is not None
    count = len(planned)
    read = ea.tensor("O", scope.shape, role="intermediate")
    reader = "P", ops.relu(read)
    with_reader = cheapest(replace(alone, readers=(reader,)), machine)
    again = cheapest(unit(scope), machine)
    assert again is not None and again.point == first.point
    assert with_reader is not None and with_reader.space.name == first.space.name
    assert len(planned) < 1.1 * count


def test_a_contraction_with_an_epilogue_is_planned_by_itself(machine: CpuModel) -> None:
    """Where its tilings are others, so that no tiling without the epilogue fits."""
    scope = convolution(size=23, channels=19, filters=29, taps=3)
    read = ea.tensor("O", scope.shape, role="intermediate")
    added = ea.tensor("B", scope.shape)
    (space, *_) = operator_spaces(unit(scope), machine)
    candidate = space.with_epilogue(space.start(), ("P", ops.add(read, added)))
    assert candidate is not None and candidate.space.start() == candidate.space.start()
    assert candidate.cycles > 0
