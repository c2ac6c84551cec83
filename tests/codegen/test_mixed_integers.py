"""Compiled code, that of a device, NumPy's evaluator and the reference agree on integers of mixed
types.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from einalg.language.interpreters.numpy import execute
from tests.helpers.cuda_kernels import TIGHT
from tests.helpers.cuda_kernels import run_programs as run_on_shim
from tests.helpers.kernels import run_programs
from tests.helpers.mixed_integers import Formula, differences, formula

BATCH = 40  # formulas that are compiled together
ON_DEVICE = 8  # of them


def formulas(random: Random) -> Iterator[Formula]:
    while True:
        example = formula(random)
        if example is not None and any(example.points):
            yield example


def batch(seed: int) -> list[Formula]:
    source = formulas(Random(seed))
    return [next(source) for _ in range(BATCH)]


def check(seed: int) -> None:
    examples = batch(seed)
    programs, arrays = [e.program for e in examples], [e.arrays for e in examples]
    certain = [np.array([point is not None for point in e.points]) for e in examples]
    on_device = run_on_shim(
        programs[:ON_DEVICE], arrays[:ON_DEVICE], TIGHT, orders=(0,), certain=certain[:ON_DEVICE]
    )
    for example, results in zip(examples, on_device):
        assert not differences(example, results["O"]), f"on a device, {_context(example)}"
    for example, results in zip(examples, run_programs(programs, arrays)):
        context = _context(example)
        assert not differences(example, results["O"]), f"compiled, {context}"
        values = execute(example.program, example.arrays)["O"]
        assert not differences(example, values), f"by NumPy, {context}"
        try:
            values = ea.evaluate(example.program, **example.arrays)
        except ea.UndefinedError:  # where some element has no value
            continue
        assert not differences(example, values), f"by the reference, {context}"


def _context(example: Formula) -> str:
    return f"{example.program} of {example.arrays}"


@given(st.integers(0, 2**32))
@settings(max_examples=1, phases=[Phase.generate], deadline=None)
def test_evaluators_agree(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@given(st.integers(0, 2**32))
@settings(max_examples=60, phases=[Phase.generate], deadline=None)
def test_evaluators_agree_on_many_formulas(seed: int) -> None:
    check(seed)
