"""The tables of partly equal programs: the regions are those counted by hand, the cases PET's."""

from __future__ import annotations

import pytest

from bench import partial


def test_the_regions_are_those_that_are_counted_by_hand() -> None:
    rows = list(partial.regions())
    assert [row["mutant"] for row in rows] == [region.name for region in partial.REGIONS]
    for row in rows:
        assert row["differs, %"] == pytest.approx(row["by hand, %"], abs=1e-9)
        assert row["corrected"] == "proved"
    row, *others = partial.sizes()
    assert [other["mutant"] for other in others] == [region.name for region in partial.REGIONS]
    assert row["differs where"] == "[W] -> { [n = 1, w = 0] : W > 0; [n = 0, w = -1 + W] : W > 0 }"


SHAPES = {
    "conv": [(1, 64, 38, 38)],
    "dilatedconv": [(1, 256, 14, 14)],
    "groupconv": [(1, 192, 18, 18), (1, 192, 18, 18), (1, 160, 18, 18), (1, 160, 18, 18)],
    "batchmatmul": [(512, 768)] * 3,
    "CSRNet": [(1, 64, 14, 14)],
}


@pytest.mark.parametrize("case", partial.cases(), ids=lambda case: case.name)
def test_the_cases_have_the_outputs_of_pet(case: partial.Case) -> None:
    program = case.program()
    outputs = [scope.shape for name, scope in program.statements if name in program.outputs]
    assert outputs == SHAPES[case.name]
