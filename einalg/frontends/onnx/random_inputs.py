"""Example inputs of an ONNX model, drawn in the shapes that it states."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.random_inputs import random_array

Array = np.ndarray[Any, Any]


def declared(model: Any) -> dict[str, Any]:
    """The tensor types of a model's inputs, by their names."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return {
        entry.name: entry.type.tensor_type
        for entry in model.graph.input
        if entry.name not in stored
    }


def stated_shape(name: str, kind: Any) -> tuple[int, ...]:
    """The shape of an input; `ShapeError` where the model leaves a size open."""
    sizes = kind.shape.dim
    if not kind.HasField("shape") or not all(size.HasField("dim_value") for size in sizes):
        text = ",".join(
            str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?"
            for size in sizes
        )
        raise ShapeError(
            f"the model leaves the shape of {name} open ({text})\n  give an example of each input: {{{name!r}: array, …}}"
        )
    return tuple(size.dim_value for size in sizes)


def element_type(kind: Any) -> Any:
    """NumPy's element type of an input."""
    return onnx_package().helper.tensor_dtype_to_np_dtype(kind.elem_type)


def drawn_inputs(model: Any, seed: int = 0) -> dict[str, Array]:
    """An array for every input by its name, at random; `ShapeError` where the model leaves a shape open."""
    rng = np.random.default_rng(seed)
    return {
        name: random_array(stated_shape(name, kind), element_type(kind), rng)
        for name, kind in declared(model).items()
    }
