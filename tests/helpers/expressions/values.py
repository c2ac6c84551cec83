"""Arrays for the expressions that kernels are tested on, and the values that these have."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np

from einalg.language.ir.program import Program, as_program
from tests.helpers.expressions import EXPRESSIONS
from tests.helpers.kernels import evaluated

CASES = {name: as_program(make()) for name, make in EXPRESSIONS.items()}


def arrays_for(name: str, program: Program) -> dict[str, Any]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    arrays: dict[str, Any] = {}
    for key, tensor in program.inputs.items():
        if tensor.dtype == "bool":
            arrays[key] = rng.integers(0, 2, tensor.shape).astype(bool)
        elif tensor.dtype[0] in "iu":
            arrays[key] = rng.integers(0 if tensor.dtype[0] == "u" else -4, 5, tensor.shape).astype(
                np.int64
            )
        else:
            arrays[key] = rng.integers(-16, 17, tensor.shape) / 8.0
    return arrays


ARRAYS = {name: arrays_for(name, program) for name, program in CASES.items()}


@cache
def expected(name: str) -> dict[str, Any]:
    return evaluated(CASES[name], ARRAYS[name])
