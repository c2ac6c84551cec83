"""Example inputs of an ONNX model: read from the files that are given, or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

import einalg as ea
from einalg.cli.shape_options import Shape
from einalg.errors import first_line
from einalg.frontends.onnx.random_inputs import element_type, input_types, stated_shape
from einalg.frontends.random_inputs import random_array
from einalg.language.ir.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]


def examples(
    model: Any, files: Mapping[str, str], shapes: Mapping[str, Shape], rng: np.random.Generator
) -> dict[str, Array]:
    """Return an array for every input of an ONNX model: read from its file, or drawn.

    It is drawn in the shape that is given or that the model states.
    """
    inputs = input_types(model)
    for name in (*files, *shapes):
        if name not in inputs:
            known = ", ".join(inputs) or "none"
            raise click.UsageError(f"the model has no input {name}; its inputs: {known}")
    arrays = {}
    for name, kind in inputs.items():
        if name in files:
            arrays[name] = _read(files[name])
        else:
            arrays[name] = _drawn(name, kind, shapes.get(name), rng)
    return arrays


def _read(path: str) -> Array:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise click.UsageError(f"{path} is no array of NumPy: {error}") from None
    if not isinstance(array, np.ndarray):
        raise click.UsageError(f"{path} holds several arrays: give one .npy file for each input")
    return array


def _drawn(name: str, kind: Any, chosen: Shape | None, rng: np.random.Generator) -> Array:
    extents, dtype = chosen or (_stated(name, kind), None)
    shape = [extent for extent in extents if isinstance(extent, int)]
    if len(shape) < len(extents):
        raise click.UsageError(
            f"the shape of {name} has a name: write numbers, e.g. --shape {name}=1,3,224,224"
        )
    return random_array(shape, numpy_dtype(dtype) if dtype else element_type(kind), rng)


def _stated(name: str, kind: Any) -> tuple[int, ...]:
    try:
        return stated_shape(name, kind)
    except ea.ShapeError as error:
        what = first_line(error)
        raise click.UsageError(
            f"{what}: give --shape {name}=1,3,224,224 or --input {name}=FILE.npy"
        ) from None
