"""Random example inputs of an ONNX model, in the shapes that it declares."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.frontends.random_inputs import random_array

Array = np.ndarray[Any, Any]


def input_types(model: Any) -> dict[str, Any]:
    """Return the tensor types of a model's inputs, by their names."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in stored]
    return {entry.name: entry.type.tensor_type for entry in inputs}


def stated_shape(name: str, kind: Any) -> tuple[int, ...]:
    """Return the shape of an input; `ShapeError` where the model leaves a size open."""
    sizes: list[int] = []
    texts: list[str] = []
    for size in kind.shape.dim:
        if size.HasField("dim_value"):
            sizes.append(size.dim_value)
            texts.append(str(size.dim_value))
        else:
            texts.append(size.dim_param or "?")
    if not kind.HasField("shape") or len(sizes) < len(texts):
        raise ShapeError(
            f"the model leaves the shape of {name} open ({','.join(texts)})\n"
            f"  give an example of each input: {{{name!r}: array, …}}"
        )
    return tuple(sizes)


def element_type(kind: Any) -> Any:
    """Return NumPy's element type of an input."""
    return onnx_package().helper.tensor_dtype_to_np_dtype(kind.elem_type)


def random_inputs(model: Any, seed: int = 0) -> dict[str, Array]:
    """Return a random array for every input by its name.

    Raises `ShapeError` where the model leaves a shape open.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, kind in input_types(model).items():
        arrays[name] = random_array(stated_shape(name, kind), element_type(kind), rng)
    return arrays
