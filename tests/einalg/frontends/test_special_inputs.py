"""Inputs on which a model is compared with its framework beside the given ones."""

from __future__ import annotations

import numpy as np
import pytest

from einalg.frontends.special_inputs import SPECIAL, roughened


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (3, 4, 5)])
def test_a_change_keeps_shape_and_type_and_the_given_array(
    name: str, shape: tuple[int, ...]
) -> None:
    for dtype in (np.float32, np.float16):
        array = np.random.default_rng(0).normal(1, 2, shape).astype(dtype)
        before = array.copy()
        changed = SPECIAL[name](array)
        assert changed.shape == shape and changed.dtype == dtype
        np.testing.assert_array_equal(array, before)


def test_one_element_is_none_of_the_ends() -> None:
    (place,) = np.argwhere(np.isnan(SPECIAL["one NaN"](np.ones((3, 4, 5)))))
    assert place.tolist() == [1, 2, 2]


def test_numbers_that_are_drawn_anew_have_the_same_mean_and_deviation() -> None:
    array = np.random.default_rng(0).normal(3, 2, 10_000)
    drawn = SPECIAL["another seed"](array)
    assert abs(drawn.mean() - 3) < 0.1 and abs(drawn.std() - 2) < 0.1
    assert not np.array_equal(drawn, array)
    infinite = np.full(3, np.inf)
    assert SPECIAL["another seed"](infinite) is infinite


def test_what_a_type_rounds_off_is_changed() -> None:
    array = np.random.default_rng(0).normal(size=100).astype(np.float32)
    rough = roughened(array, "f32")
    assert 0 < np.abs(rough - array).max() < 2e-6
    assert np.isnan(roughened(np.array([np.nan, 0], np.float32), "f32")).tolist() == [True, False]
