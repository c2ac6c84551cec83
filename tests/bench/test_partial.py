"""The tables of partly equal programs: the regions are those counted by hand, the cases PET's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bench import partial
from tests.helpers.measurements import exactly


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


def test_all_that_is_compared_is_timed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of each takes the arrays, and makes new ones."""
    results: list[Any] = []

    def measure(calls: Mapping[str, Callable[[], Any]], policy: Any) -> dict[str, Any]:
        results.extend(call() for name, call in calls.items() if name != partial.PEAK)
        return dict.fromkeys(calls, exactly(1.0))

    monkeypatch.setattr(partial, "measure", measure)
    text = "O[i,j] = Sum[k](A[i,k]*B[k,j])"
    case = partial.Case("product", text, {"A": (3, 4), "B": (4, 5)}, 1.0)
    row = partial.measured_case(case, 0.5)
    assert row["optimized, gain"] == row["gain"] == 1.0
    assert [result.shape for result in results] == [(3, 5)] * 4
    assert len({id(result) for result in results}) == 4
