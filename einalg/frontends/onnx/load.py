"""A whole ONNX file as a graph: its inputs with their shapes, its nodes, its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from einalg.errors import EinalgError, NotationError, RecordError, ShapeError
from einalg.frontends.graph import Graph
from einalg.frontends.import_cache import ImportRecord, Origin, import_cached
from einalg.frontends.onnx.importer import Converter, given
from einalg.frontends.onnx.nodes.model_file import DAMAGED, onnx_package, read_model
from einalg.frontends.onnx.nodes.values import (
    Value,
    array_of,
    dtype_of,
    element_of,
    is_too_large,
    tensor_type,
)
from einalg.storage.fingerprint import array_digest, text_digest

OPEN = "?"  # a size without a name


def load(
    source: Any, shapes: Mapping[str, Any] | None = None, known: Mapping[str, Any] | None = None
) -> Graph:
    """The graph of an ONNX model, given by its path, its bytes, or as a `ModelProto`.

    `shapes` sets sizes that the file leaves open: the shape or an example array of an input by its name, or a size by the
    name that the file gives it, `{"images": (1, 3, 224, 224)}` or `{"batch": 1}`. `known` gives arrays for inputs that are
    always the same, which are then no inputs of the graph; what depends on them alone is computed now. Operators that the
    language cannot say stay calls (`Graph.opaque`), run by onnxruntime where it is installed, else by the onnx package.
    Raises `RecordError` for a file that is broken or too new, `ShapeError` where a size stays open or does not fit,
    `NotationError` for a name that is no input, and `EinalgError` where the package onnx is not installed.

    >>> graph = load("model.onnx", {"images": (1, 3, 224, 224)})  # doctest: +SKIP
    >>> graph.opaque, graph(images)  # doctest: +SKIP
    """
    model = read_model(source)
    values = {
        value.name: value
        for value in _Inputs(model.graph, dict(shapes or {}), dict(known or {})).values()
    }
    return import_cached(_origin(model, values), lambda: _read(model, values)).graph


def _origin(model: Any, values: Mapping[str, Value]) -> Origin:
    """What decides how a model is read: its operators, the types of its tensors, what is known of its inputs, and its stored tensors."""
    graph, stored = model.graph, {t.name: t for t in model.graph.initializer}
    parts = (
        *graph.node,
        *graph.output,
        *graph.value_info,
        *model.opset_import,
        *model.functions,
        *(value.type for value in values.values()),
    )
    known = array_digest((value.name, value.array) for value in values.values() if value.is_known)
    kinds = [(t.name, t.data_type, list(t.dims)) for t in graph.initializer]
    structure = text_digest(
        onnx_package().__version__,
        known,
        repr([*values]),
        repr(kinds),
        *(sha256(_bytes(part)).hexdigest() for part in parts),
    )

    def digest() -> str:
        return text_digest(
            *(sha256(t.raw_data or _bytes(t)).hexdigest() for t in graph.initializer)
        )

    return Origin(structure, digest, lambda name: array_of(stored[name], f"initializer {name}"))


def _bytes(part: Any) -> bytes:
    found: bytes = part.SerializeToString(deterministic=True)
    return found


def _read(model: Any, values: Mapping[str, Value]) -> ImportRecord:
    converter, environment = Converter(model), _stored(model.graph)
    names = {id(value.array): name for name, value in environment.items()}
    inputs = [value for value in values.values() if value.array is None]
    for value in inputs:
        value.place = converter.builder.unique(value.name)
        converter.builder.input(value.place, value.shape or (), dtype_of(value.type) or "")
        value.tensor = converter.builder.values[value.place]
    environment.update(values)
    converter.run(model.graph, environment)
    outputs = [given(environment, output.name, "the graph") for output in model.graph.output]
    told = (
        tuple(value.name for value in inputs),
        tuple(output.name for output in model.graph.output),
    )
    found = converter.builder.graph([converter.reference(value) for value in outputs], told)
    return ImportRecord(
        found,
        {place: names[id(array)] for place, array in found.weights.items() if id(array) in names},
    )


def _stored(graph: Any) -> dict[str, Value]:
    found = {
        t.name: Value(
            t.name, tensor_type(t.data_type, tuple(t.dims)), array_of(t, f"initializer {t.name}")
        )
        for t in graph.initializer
    }
    if graph.sparse_initializer:
        raise RecordError(
            "the model has sparse initializers, which cannot be read\n  store them as dense ones"
        )
    return found


class _Inputs:
    """The inputs of a graph, with their sizes settled."""

    def __init__(self, graph: Any, shapes: dict[str, Any], known: dict[str, Any]):
        stored = {t.name for t in graph.initializer}
        self.inputs = [i for i in graph.input if i.name not in stored]
        self.known, self.sizes = (
            known,
            {name: int(v) for name, v in shapes.items() if isinstance(v, (int, np.integer))},
        )
        self.shapes = {
            name: _shape(name, v) for name, v in shapes.items() if name not in self.sizes
        }
        names = [i.name for i in self.inputs]
        wrong = [name for name in (*self.shapes, *known) if name not in names]
        if wrong:
            raise NotationError(
                f"the model has no input {wrong[0]}; its inputs are {', '.join(names) or 'none'}\n  give one of these names"
            )
        for i in self.inputs:
            self._bind(i)

    def _bind(self, i: Any) -> None:
        """Take the sizes that have a name from a shape that is given."""
        dims, given = self._dims(i), self._given(i.name)
        if given is None or dims is None:
            return
        if len(given) != len(dims):
            raise ShapeError(
                f"input {i.name} has {len(dims)} axes, and {given} is given\n  give one size an axis"
            )
        for axis, (dim, size) in enumerate(zip(dims, given)):
            if isinstance(dim, int) and dim != size:
                raise ShapeError(
                    f"input {i.name} has size {dim} on axis {axis}, and {size} is given\n  give {dim} there"
                )
            if isinstance(dim, str) and dim != OPEN:
                self.sizes.setdefault(dim, size)

    def _given(self, name: str) -> tuple[int, ...] | None:
        return np.shape(self.known[name]) if name in self.known else self.shapes.get(name)

    @staticmethod
    def _dims(i: Any) -> list[Any] | None:
        """The sizes of an input: numbers, names, or "?" for what has neither; None where not even their number is known."""
        if not i.type.HasField("tensor_type") or not i.type.tensor_type.HasField("shape"):
            return None
        dims = i.type.tensor_type.shape.dim
        return [
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or OPEN
            for d in dims
        ]

    def values(self) -> list[Value]:
        return [self._value(i) for i in self.inputs]

    def _value(self, i: Any) -> Value:
        if dtype_of(i.type) is None:
            raise EinalgError(
                f"input {i.name} is no tensor of numbers, which a graph has no input for\n  give its value: load(…, known={{{i.name!r}: …}})"
            )
        if i.name in self.known:
            element = element_of(i.type)
            array = np.asarray(
                self.known[i.name], onnx_package().helper.tensor_dtype_to_np_dtype(element)
            )
            return Value(i.name, tensor_type(element or 0, array.shape), array)
        dims, given = self._dims(i), self._given(i.name)
        if given is None:
            if dims is None:
                raise ShapeError(
                    f"the shape of input {i.name} is not known\n  give it: load(…, shapes={{{i.name!r}: (1, 3, 224, 224)}})"
                )
            given = tuple(d if isinstance(d, int) else self.sizes.get(d, d) for d in dims)
        open_sizes = [str(d) for d in given if not isinstance(d, int)]
        if open_sizes:
            example = tuple(d if isinstance(d, int) else 1 for d in given)
            what = f"input {i.name} has the shape ({', '.join(map(str, given))}), of which {', '.join(dict.fromkeys(open_sizes))} is not known"
            raise ShapeError(f"{what}\n  give it: load(…, shapes={{{i.name!r}: {example}}})")
        sizes = tuple(d for d in given if d is not None)
        if is_too_large(sizes):
            raise RecordError(
                f"input {i.name} has the shape {sizes}, which is too large to compute\n  {DAMAGED}, or give shapes="
            )
        return Value(i.name, tensor_type(element_of(i.type) or 0, sizes))


def _shape(name: str, given: Any) -> tuple[int, ...]:
    """A shape, or that of an example array."""
    found = given.shape if hasattr(given, "shape") else given
    if not isinstance(found, (tuple, list)) or not all(
        isinstance(s, (int, np.integer)) and s >= 0 for s in found
    ):
        raise ShapeError(
            f"shapes[{name!r}] must be a shape or an array, not {given!r}\n  e.g. {{{name!r}: (1, 3, 224, 224)}}"
        )
    return tuple(int(s) for s in found)
