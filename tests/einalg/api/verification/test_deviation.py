"""How far arrays are from expected ones: finite elements, others, and those that are no floats."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.api.verification.deviation import Deviation, deviation

NAN, INF = np.nan, np.inf
FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=8)


@given(FLOATS)
def test_an_array_does_not_deviate_from_itself(elements: list[float]) -> None:
    array = np.array(elements, np.float32)
    assert deviation(array, array.copy()) == Deviation()


@given(FLOATS, st.integers(0, 7), st.sampled_from([NAN, INF, -INF, 7.5e30]))
def test_one_other_element_is_seen(elements: list[float], position: int, other: float) -> None:
    array = np.array(elements, np.float32)
    changed = array.copy()
    changed[position % array.size] = other
    is_same = np.array_equal(array, changed, equal_nan=True)
    assert deviation(array, changed).is_within(0.0) == is_same


@pytest.mark.parametrize(
    ("expected", "result", "found"),
    [
        ([NAN, 1.0], [0.0, 1.0], Deviation(lost=1)),
        ([2.0, 1.0], [NAN, INF], Deviation(spread=2)),
        ([INF, -INF, NAN], [NAN, INF, NAN], Deviation(changed=2)),
        ([4.0, 2.0], [4.0, 1.0], Deviation(relative=0.25)),
        ([1, 2, 3], [1, 0, 0], Deviation(unequal=2)),
        ([1.0], [[1.0]], Deviation(relative=INF)),
        ([3 + 4j], [3 + 3j], Deviation(relative=0.25)),
    ],
)
def test_what_differs(expected: list, result: list, found: Deviation) -> None:
    assert deviation(np.array(expected), np.array(result)) == found
    assert not found.is_within(0.1)


def test_noise_is_what_other_rounding_changes() -> None:
    assert Deviation(relative=1e-3).is_noise(Deviation(relative=1e-4))
    assert not Deviation(relative=1e-3).is_noise(Deviation(relative=1e-6))
    assert Deviation(unequal=2).is_noise(Deviation(unequal=1))
    assert not Deviation(unequal=2).is_noise(Deviation())
    assert not Deviation(lost=1).is_noise(Deviation(lost=1, relative=1.0))
