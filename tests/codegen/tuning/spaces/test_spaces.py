"""Points of spaces: whatever is drawn, changed or crossed fits, travels as JSON, and computes the
statement.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import isfinite
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel, machine
from codegen.tuning.cost_model.description import unit_features
from codegen.tuning.spaces import points
from codegen.tuning.spaces.contraction import ContractionSpace, contraction_space
from codegen.tuning.spaces.space import CodeCandidate, ScheduleSpace
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest, unit_spaces
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import agrees, evaluated, quick_compiler, run_functions
from tests.helpers.units import KINDS, arrays_of, drawn, unit_of

POINTS = 3  # of each space in a batch


def spaces_of(kind: str, target: CpuModel | None = None) -> list[ScheduleSpace]:
    return list(unit_spaces(unit_of(kind), target or machine()))


def test_every_space_is_drawn_from() -> None:
    names = {space.name for kind in KINDS for space in spaces_of(kind)}
    expected = {"contraction", "phases", "stencil", "depthwise", "band", "transposition", "loops"}
    assert names == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [CpuModel(32, 16), CpuModel(64, 32, cores=2, turns=2)], ids=str)
def test_points_fit_and_travel_as_text(kind: str, target: CpuModel) -> None:
    for space in spaces_of(kind, target):
        for point in drawn(space, Random(5)):
            assert space.fits(point) and hash(point) == hash(points_copy(space, point))
            if space.name != "loops":  # which are written to be priced
                assert space.cycles(point) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_points_have_the_same_features_in_all_of_a_space(kind: str) -> None:
    """Finite numbers, which travel as text, and of which some tell points from one another."""
    of_unit = unit_features(unit_of(kind), machine().level2)
    assert of_unit["unit points"] > 0 and all(map(isfinite, of_unit.values()))
    for space in spaces_of(kind):
        features = [space.features(point) for point in drawn(space, Random(5))]
        assert len({tuple(sorted(row)) for row in features}) == 1
        for row in features:
            assert json.loads(json.dumps(row)) == row and all(map(isfinite, row.values()))


def product_space(rows: int, columns: int, depth: int) -> ContractionSpace:
    """Return the tilings of a product on a machine with long registers."""
    scope = ops.matmul(ea.tensor("A", (rows, depth)), ea.tensor("B", (depth, columns)))
    kernel = match(scope, "O")
    assert kernel is not None
    space = contraction_space(CodeUnit(kernel, scope), CpuModel(64, 32))
    assert space is not None
    return space


@pytest.mark.parametrize("order", [0, 1])
def test_more_steps_of_depth_cost_more(order: int) -> None:
    """Sums are read and written between them: most where columns of the result lie apart."""
    space = product_space(96, 96, 96)
    tile = replace(space.start(), order=order, rows=1, vectors=2, group=1, pack_right=True)
    costs = [space.cycles(replace(tile, depth=depth)) for depth in (96, 24, 6)]
    assert costs[0] < costs[1] < costs[2]
    apart = space.ordered(tile).columns[-1].target != 1
    assert (costs[2] > 2 * costs[0]) == apart


def test_panels_are_copied_for_each_block_of_rows() -> None:
    space = product_space(96, 96, 96)
    tile = replace(space.start(), pack_right=True)
    assert space.cycles(replace(tile, block=1)) > space.cycles(replace(tile, block=96))


def test_features_tell_the_terms_of_a_cost() -> None:
    """A panel of a tile with a single row is loaded for few products."""
    space = product_space(96, 96, 96)
    narrow, start = replace(space.start(), rows=1), space.start()
    features, others = space.features(narrow), space.features(start)
    assert features["load share"] > others["load share"] > 0
    assert features["operations"] == 0.0 and features["registers"] < others["registers"]


def test_vectors_beyond_a_line_of_positions_cost_nothing() -> None:
    (space,) = (space for space in spaces_of("conv2d") if space.name == "stencil")
    (part,) = space.parts  # type: ignore[attr-defined]
    tile = replace(part.start(), vectors=-(-part.stencil.positions.extent // part.start().lanes))
    assert part.cycles(replace(tile, vectors=tile.vectors + 3)) == part.cycles(tile)


def points_copy(space: ScheduleSpace, point: Any) -> Any:
    row = json.loads(json.dumps(points.point_row(point)))
    copy = space.read(row)
    assert copy == point
    return copy


@settings(max_examples=batches(1), phases=UNSHRUNK)
@given(st.data())
def test_points_by_chance_compute_the_statement(data: Any) -> None:
    """All of them compile, and equal the reference."""
    sizes = st.integers(0, 9)
    candidates: list[CodeCandidate] = []
    scopes: list[Scope] = []
    for kind in KINDS:
        unit = unit_of(kind, data.draw(sizes), data.draw(sizes), data.draw(sizes))
        rng = Random(data.draw(st.integers(0, 1 << 30)))
        for space in unit_spaces(unit, machine()):
            chosen = list(drawn(space, rng))
            rng.shuffle(chosen)
            candidates += [CodeCandidate(space, point) for point in chosen[:POINTS]]
            scopes += [unit.scope] * len(chosen[:POINTS])
    functions = [candidate.build() for candidate in candidates]
    arrays = [arrays_of(scope) for scope in scopes]
    results = run_functions(functions, arrays, cc=quick_compiler())
    for candidate, scope, result in zip(candidates, scopes, results):
        (expected,) = expected_values(scope).values()
        assert agrees(result, expected, scope.dtype), (str(scope), candidate.point)


@cache
def expected_values(scope: Scope) -> dict[str, Any]:
    return evaluated(as_program(scope), arrays_of(scope))


def test_a_row_that_does_not_fit_is_refused() -> None:
    (space, *_) = spaces_of("matmul")
    row = points.point_row(space.start())
    for broken in ({**row, "rows": 99}, {**row, "rows": "4"}, {"rows": 4}, [1], {**row, "x": 1}):
        with pytest.raises(ValueError, match=r"point|numbers|is no"):
            space.read(broken)


@pytest.mark.parametrize(
    "kind, name, broken",
    [
        ("matmul", "contraction", {"lanes": 3}),
        ("matmul", "contraction", {"block": 1 << 40}),
        ("matmul", "contraction", {"order": 99}),
        ("sum", "loops", {"unroll": 1 << 40}),
        ("sum", "loops", {"row": 1 << 40}),
        ("sum", "loops", {"parallel": -1}),
        ("sum", "loops", {"parallel": 0}),
        ("sum", "loops", {"chunks": 1 << 40}),
        ("sum", "loops", {"tile": 0}),
        ("conv2d", "stencil", {"block": 1 << 40}),
        ("conv2d", "stencil", {"vectors": 1 << 40}),
        ("transposed", "phases", {"group": 1 << 40}),
        ("depthwise", "depthwise", {"vectors": 0}),
        ("band", "band", {"block": 1 << 40}),
        ("banded", "band", {"vectors": 0}),
        ("order", "transposition", {"size": 1 << 40}),
    ],
)
def test_numbers_that_no_search_chooses_are_refused(
    kind: str, name: str, broken: dict[str, Any]
) -> None:
    """A file may have been edited before it is imported."""
    (space,) = [space for space in spaces_of(kind) if space.name == name]
    row = points.point_row(space.start())
    if "parts" in row:
        first, *others = row["parts"]
        broken = {"parts": [{**first, **broken}, *others]}
    with pytest.raises(ValueError, match="these numbers"):
        space.read({**row, **broken})


def test_the_cheapest_space_is_that_of_least_cycles() -> None:
    """The figures of all spaces are on one scale."""
    for kind in ("matmul", "depthwise", "order", "band"):
        best = cheapest(unit_of(kind), machine())
        assert best is not None
        assert best.cycles == min(space.cycles(space.start()) for space in spaces_of(kind))
