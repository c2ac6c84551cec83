"""Random programs of torch operators are computed as torch computes them, on NaN and infinities too."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea

torch = pytest.importorskip("torch")

from tests.helpers.random_torch import (  # noqa: E402
    Several,
    difference,
    random_arrays,
    random_program,
)

BATCH = 8  # programs that are compiled together
SHARES = (0.0, 0.0, 0.1, 0.4)  # of numbers that are special


def check(seed: int) -> None:
    """Compile programs for ordinary numbers, and call them with special ones among these."""
    random = Random(seed)
    arrays = random_arrays(random, random.choice(SHARES))
    programs = [random_program(random, arrays) for _ in range(BATCH)]
    generator = torch.Generator().manual_seed(seed)
    example = [torch.rand(a.shape, generator=generator).add(0.5).to(a.dtype) for a in arrays]
    optimized = ea.optimize(Several(programs), tuple(example), seconds=0, prefer="einalg")
    exact = list(map(_in_double_precision, arrays))
    for program, result in zip(programs, optimized(*arrays), strict=True):
        wrong = difference(result, program(*arrays), program(*exact))
        assert wrong is None, f"{program}: {wrong}"


def _in_double_precision(array: Any) -> Any:
    return array.double() if array.is_floating_point() else array


@settings(max_examples=1, phases=[Phase.generate], deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@settings(max_examples=200, phases=[Phase.generate], deadline=None, derandomize=False)
@given(st.integers(0, 2**32))
def test_many_random_programs(seed: int) -> None:
    check(seed)
