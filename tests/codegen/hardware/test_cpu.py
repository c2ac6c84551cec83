"""What is known of this machine, and what the model makes of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen.hardware import cpu as module
from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import Buf
from codegen.kernels.contraction.cost_model import plan, products_per_cycle
from codegen.kernels.contraction.partition import Partition
from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.strided_axes import StridedAxis, StridedOperand
from codegen.lowering.parallel import pays
from einalg.language.index.affine import Index
from einalg.runtime.processors import thread_count

NARROW = CpuModel(64, 32, turns=2)
MACHINES = (
    CpuModel(),
    CpuModel(32, 16),
    CpuModel(64, 32, 48 << 10, 2 << 20),
    CpuModel(16, 32),
    NARROW,
)


def product(rows: int, columns: int, depth: int) -> Contraction:
    sizes = (rows, depth), (depth, columns), (rows, columns)
    a, b, c = (StridedOperand(Buf(name, shape, "f32"), 0) for name, shape in zip("ABC", sizes))
    m, n, k = (
        StridedAxis(Index("m"), rows, depth, 0, columns),
        StridedAxis(Index("n"), columns, 0, 1, 1),
        StridedAxis(Index("k"), depth, 1, columns, 0),
    )
    return Contraction(a, b, c, (), (m,), (n,), (k,), "f32")


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("sizes", [(512, 512, 512), (49, 512, 4608), (64, 196, 64), (7, 1000, 33)])
def test_tiles_fit_the_registers(target: CpuModel, sizes: tuple[int, int, int]) -> None:
    best = plan(product(*sizes), target)
    assert best is not None
    contraction, tiling = best
    assert tiling.fits(contraction) and tiling.lanes in target.widths(4)
    assert (
        tiling.rows * tiling.vectors * tiling.lines + tiling.vectors * tiling.lines
        < target.registers
    )
    assert products_per_cycle(contraction, tiling, target) <= 2 * target.widths(4)[-1]


@pytest.mark.parametrize(
    "columns, lanes",
    [(16, 16), (24, 8), (21, 8), (12, 16), (40, 8), (64, 16), (60, 16), (65, 8), (1000, 8)],
)
def test_vectors_are_as_wide_as_the_units_where_wider_ones_are_filled_less(
    columns: int, lanes: int
) -> None:
    """Of one turn, the widest vectors do most; of two, 24 columns in three of 8 do more than in two
    of 16, which take a turn for nothing.
    """
    for target, expected in ((NARROW, lanes), (CpuModel(64, 32), 16)):
        _, tiling = plan(product(196, columns, 500), target) or pytest.fail()
        assert tiling.lanes == expected


@pytest.mark.parametrize("depth", [1024, 4096])
def test_rows_a_page_apart_fit_their_set_of_the_cache(depth: int) -> None:
    """With 14 rows read in place, each line was driven out before its next element was read: a
    third more of the time, or twice as much.
    """
    target = CpuModel(64, 32, level2=1 << 20)
    (_, apart), (_, aside) = (
        plan(product(1024, 1024, size), target) or pytest.fail() for size in (depth, depth + 16)
    )
    assert not apart.pack_left and apart.rows <= target.level1 // 4096 < aside.rows


def test_this_machine() -> None:
    found = machine()
    assert found.vector in (16, 32, 64) and found.registers in (16, 32)
    assert 1 << 10 <= found.level1 <= found.level2 and found.cores == thread_count() >= 1


def test_caches_that_the_system_does_not_tell(monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "index0").mkdir()
    (tmp_path / "index0" / "level").write_text("1")
    monkeypatch.setattr(module, "CACHES", tmp_path)
    assert module._cache("1") == module._cache("2") == 0
    for name, text in (("type", "Data"), ("size", "48K")):
        (tmp_path / "index0" / name).write_text(f"{text}\n")
    assert module._cache("1") == 48 << 10


@pytest.mark.parametrize(("m", "k", "n"), [(49, 22528, 21), (1, 25088, 10), (8, 40000, 16)])
def test_threads_share_steps_of_depth_where_results_are_few(m: int, k: int, n: int) -> None:
    """Three tiles of rows, or one, keep two cores less busy than steps of a long sum do; one core
    has nothing to share.
    """
    for count in (1, 2, 4):
        way, found = (
            plan(product(m, n, k), CpuModel(64, 32, level2=1 << 20, cores=count)) or pytest.fail()
        )
        assert found.apart == (count > 1)
        assert Partition(way, found).core_utilization(count) > 0.9


@pytest.mark.parametrize(("m", "k", "n"), [(512, 512, 512), (64, 4096, 448), (3, 64, 5)])
def test_threads_share_results_where_these_are_many_or_sums_short(m: int, k: int, n: int) -> None:
    _, found = plan(product(m, n, k), CpuModel(64, 32, level2=1 << 20, cores=2)) or pytest.fail()
    assert not found.apart


@pytest.mark.parametrize(
    ("m", "k", "n", "shared"),
    [(1, 256, 1024, True), (128, 96, 96, True), (61, 67, 71, False), (1, 128, 512, False)],
)
def test_threads_share_what_takes_long_by_its_products_or_by_its_weights(
    m: int, k: int, n: int, shared: bool
) -> None:
    found = product(m, n, k)
    assert pays(found.work, found.left.buf, found.right.buf) == shared
