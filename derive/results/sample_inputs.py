"""Random inputs on which candidates are checked and timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Tensor

Arrays = dict[str, Any]
SMALL_INTEGERS = {"b": (0, 2), "u": (0, 5)}  # from, to, by the first letter of a dtype
SIGNED_INTEGERS = (-4, 5)


def sample_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random inputs of the right shapes and dtypes: normal floats, small integers."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, tensor in program.inputs.items():
        arrays[name] = _sample(rng, tensor).astype(numpy_dtype(tensor.dtype))
    return arrays


def by_role(program: Program, arrays: Mapping[str, Any]) -> tuple[Arrays, Arrays]:
    """Return the arrays of a program's weights, and those of its other inputs."""
    weights: Arrays = {}
    inputs: Arrays = {}
    for name, array in arrays.items():
        role = weights if is_weight(program.inputs[name]) else inputs
        role[name] = array
    return weights, inputs


def _sample(rng: np.random.Generator, tensor: Tensor) -> np.ndarray[Any, Any]:
    if is_float(tensor.dtype):
        drawn = np.float64 if tensor.dtype == "f64" else np.float32
        return rng.standard_normal(tensor.shape, drawn)
    low, high = SMALL_INTEGERS.get(tensor.dtype[0], SIGNED_INTEGERS)
    return rng.integers(low, high, tensor.shape)
