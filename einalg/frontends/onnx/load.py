"""A whole ONNX file as a graph: its inputs with their shapes, its nodes, its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import numpy as np

from einalg.errors import EinalgError, NotationError, RecordError, ShapeError
from einalg.frontends.graph import Graph, OpaqueNode
from einalg.frontends.import_cache import ImportRecord, Origin, import_cached
from einalg.frontends.onnx.importer import OnnxImporter, first_output, required_value
from einalg.frontends.onnx.nodes.model_file import DAMAGED, onnx_package, read_model
from einalg.frontends.onnx.nodes.opaque_call import OnnxCall
from einalg.frontends.onnx.nodes.values import (
    Value,
    array_of,
    dtype_of,
    element_of,
    is_too_large,
    tensor_type,
)
from einalg.frontends.reading import Exclusions, Reading
from einalg.language.ir.dtypes import numpy_dtype
from einalg.storage.fingerprint import array_digest, text_digest

# From a model to a function from arrays by name to its outputs.
SessionMaker = Callable[[Any], Callable[[Mapping[str, Any]], Sequence[Any]]]
OPEN = "?"  # a size without a name
DEFINED = "computed as ONNX defines it"
MAX_DEFINED_ELEMENTS = 1 << 16  # of results that are computed as ONNX defines them, which is slow


def load(
    source: Any, shapes: Mapping[str, Any] | None = None, known: Mapping[str, Any] | None = None
) -> Graph:
    """Return the graph of an ONNX model, given by its path, its bytes, or as a `ModelProto`.

    `shapes` sets sizes that the file leaves open: the shape or an example array of an input by its
    name, or a size by the name that the file gives it, `{"images": (1, 3, 224, 224)}` or
    `{"batch": 1}`. `known` gives arrays for inputs that are always the same, which are then no
    inputs of the graph; what depends on them alone is computed now. Operators that the language
    cannot say stay calls (`Graph.opaque`), run by onnxruntime where it is installed, else by the
    onnx package. Raises `RecordError` for a file that is broken or too new, `ShapeError` where a
    size stays open or does not fit, `NotationError` for a name that is no input, and `EinalgError`
    where the package onnx is not installed.

    >>> graph = load("model.onnx", {"images": (1, 3, 224, 224)})  # doctest: +SKIP
    >>> graph.opaque, graph(images)  # doctest: +SKIP
    """
    model = read_model(source)
    inputs = _Inputs(model.graph, dict(shapes or {}), dict(known or {}))
    values = {value.name: value for value in inputs.values()}
    return import_cached(_origin(model, values), lambda: _import(model, values)).graph


def load_again(
    model: Any, shapes: Mapping[str, Any], excluded: Exclusions, session_of: SessionMaker
) -> Reading:
    """Return a model read as `load` reads it, with some nodes as calls, beside the values that a
    session of onnxruntime computes.

    `session_of(model)` makes such a session.
    """
    model = read_model(model)

    def read(excluded: Exclusions) -> tuple[ImportRecord, dict[str, str]]:
        inputs = _Inputs(model.graph, dict(shapes), {})
        return _read(model, {value.name: value for value in inputs.values()}, excluded)

    record, places = read(excluded)
    names = record.graph.names
    assert names is not None
    names_of = dict(zip(record.graph.inputs, names[0]))
    owners: dict[str, str] = {}
    for node in model.graph.node:
        owners.update(dict.fromkeys(node.output, first_output(node)))
    computed = {place: name for place, name in places.items() if name in owners}
    sessions: list[Any] = []

    def framework_values(arrays: Sequence[Any]) -> dict[str, Any]:
        if not sessions:
            sessions.append(session_of(with_outputs(model, computed.values())))
        values: dict[str, Any] = {}
        inputs: dict[str, Any] = {}
        for (tensor, name), array in zip(names_of.items(), arrays):
            values[tensor.name] = array
            inputs[name] = np.asarray(array, numpy_dtype(tensor.dtype))
        results = sessions[0](inputs)
        by_name = dict(zip(computed, results))
        values.update((place, value) for place, value in by_name.items() if hasattr(value, "dtype"))
        return values

    def definition(origin: str, values: Mapping[str, Any]) -> dict[str, Any]:
        outputs = [place for place, name in computed.items() if owners[name] == origin]
        if any(np.size(values.get(place, ())) > MAX_DEFINED_ELEMENTS for place in outputs):
            return {}
        by_name = {name: values[place] for place, name in places.items() if place in values}
        defined = _defined(origin, by_name, *read({**excluded, origin: DEFINED}))
        return {place: defined[name] for place, name in computed.items() if name in defined}

    origins = {place: owners[name] for place, name in computed.items()}
    return Reading(record.graph, origins, framework_values, definition, lambda _: "ONNX")


def _defined(
    origin: str, values: Mapping[str, Any], record: ImportRecord, places: Mapping[str, str]
) -> dict[str, Any]:
    """Return the outputs of a node as ONNX defines them, by name.

    The record is of a model read with that node as a call. Nothing where the value of an input is
    not known, or no definition can be computed.
    """
    for node in record.graph.nodes:
        outputs = [places.get(name, name) for name in node.outputs]
        if not isinstance(node, OpaqueNode) or origin not in outputs:
            continue
        reads = [places.get(name, name) for name in node.inputs]
        if all(name in values for name in reads) and isinstance(node.call, OnnxCall):
            with suppress(EinalgError):
                results = node.call.by_definition(*[values[name] for name in reads])
                return dict(zip(outputs, results, strict=True))
    return {}


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """Return a model that returns these values, in order."""
    other = type(model)()
    other.CopyFrom(model)
    declared = {value.name: value for value in model.graph.output}
    del other.graph.output[:]
    for name in names:
        if name in declared:
            other.graph.output.append(declared[name])
        else:
            other.graph.output.add().name = name
    return other


def _origin(model: Any, values: Mapping[str, Value]) -> Origin:
    """Return what decides how a model is imported.

    That is its operators, the types of its tensors, constant inputs, and its stored tensors.
    """
    graph = model.graph
    constants = [(value.name, value.array) for value in values.values() if value.is_constant]
    parts = [*graph.node, *graph.output, *graph.value_info, *model.opset_import, *model.functions]
    parts += [value.type for value in values.values()]
    structure = text_digest(
        onnx_package().__version__,
        array_digest(constants),
        repr([*values]),
        repr([(t.name, t.data_type, list(t.dims)) for t in graph.initializer]),
        *(sha256(_bytes(part)).hexdigest() for part in parts),
    )
    stored = {tensor.name: tensor for tensor in graph.initializer}

    def digest() -> str:
        digests: list[str] = []
        for tensor in graph.initializer:
            digests.append(sha256(tensor.raw_data or _bytes(tensor)).hexdigest())
        return text_digest(*digests)

    return Origin(structure, digest, lambda name: array_of(stored[name], f"initializer {name}"))


def _bytes(part: Any) -> bytes:
    return part.SerializeToString(deterministic=True)


def _import(model: Any, values: Mapping[str, Value]) -> ImportRecord:
    return _read(model, values, {})[0]


def _read(
    model: Any, values: Mapping[str, Value], excluded: Exclusions
) -> tuple[ImportRecord, dict[str, str]]:
    """Return a model read, and the names in it of the graph's values."""
    importer, environment = OnnxImporter(model, excluded), _stored_values(model.graph)
    stored_names = {id(value.array): name for name, value in environment.items()}
    inputs = [value for value in values.values() if value.array is None]
    for value in inputs:
        value.place = importer.builder.unique(value.name)
        dtype = dtype_of(value.type) or ""
        importer.builder.input(value.place, value.shape or (), dtype)
        value.tensor = importer.builder.values[value.place]
    environment.update(values)
    importer.run(model.graph, environment)
    output_names = tuple(output.name for output in model.graph.output)
    outputs: list[str] = []
    for name in output_names:
        outputs.append(importer.reference(required_value(environment, name, "the graph")))
    names = (tuple(value.name for value in inputs), output_names)
    graph = importer.builder.graph(outputs, names)  # expansions replace the builder
    sources: dict[str, str] = {}
    for place, array in graph.weights.items():
        if id(array) in stored_names:
            sources[place] = stored_names[id(array)]
    places: dict[str, str] = {}
    for name, value in environment.items():
        if value.place is not None and not value.is_constant:
            places.setdefault(value.place, name)
    return ImportRecord(graph, sources), places


def _stored_values(graph: Any) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for tensor in graph.initializer:
        array = array_of(tensor, f"initializer {tensor.name}")
        kind = tensor_type(tensor.data_type, tuple(tensor.dims))
        values[tensor.name] = Value(tensor.name, kind, array)
    if graph.sparse_initializer:
        raise RecordError(
            "the model has sparse initializers, which cannot be read\n  store them as dense ones"
        )
    return values


class _Inputs:
    """The inputs of a graph, with sizes from the file and from the arguments of `load`."""

    def __init__(self, graph: Any, shapes: dict[str, Any], constants: dict[str, Any]):
        stored = {tensor.name for tensor in graph.initializer}
        self._inputs = [entry for entry in graph.input if entry.name not in stored]
        self._constants = constants
        self._sizes: dict[str, int] = {}  # by the name that the file gives them
        self._shapes: dict[str, tuple[int, ...]] = {}  # by the name of the input
        for name, value in shapes.items():
            if isinstance(value, (int, np.integer)):
                self._sizes[name] = int(value)
            else:
                self._shapes[name] = _shape(name, value)
        self._require_inputs((*self._shapes, *constants))
        for entry in self._inputs:
            self._take_named_sizes(entry)

    def _require_inputs(self, used: tuple[str, ...]) -> None:
        names = [entry.name for entry in self._inputs]
        for name in used:
            if name not in names:
                raise NotationError(
                    f"the model has no input {name}; its inputs are {', '.join(names) or 'none'}\n"
                    "  give one of these names"
                )

    def _take_named_sizes(self, entry: Any) -> None:
        """Take the sizes that have a name from the shape that the caller set."""
        dims, shape = _dimensions(entry), self._shape_of(entry.name)
        if shape is None or dims is None:
            return
        if len(shape) != len(dims):
            raise ShapeError(
                f"input {entry.name} has {len(dims)} axes, and {shape} is given\n"
                "  give one size an axis"
            )
        for axis, (dim, size) in enumerate(zip(dims, shape)):
            if isinstance(dim, int) and dim != size:
                raise ShapeError(
                    f"input {entry.name} has size {dim} on axis {axis}, and {size} is given\n"
                    f"  give {dim} there"
                )
            if isinstance(dim, str) and dim != OPEN:
                self._sizes.setdefault(dim, size)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape that the caller set for an input."""
        if name in self._constants:
            return np.shape(self._constants[name])
        return self._shapes.get(name)

    def values(self) -> list[Value]:
        return [self._value(entry) for entry in self._inputs]

    def _value(self, entry: Any) -> Value:
        name, element = entry.name, element_of(entry.type) or 0
        if dtype_of(entry.type) is None:
            raise EinalgError(
                f"input {name} is no tensor of numbers, which a graph has no input for\n"
                f"  give its value: load(…, known={{{name!r}: …}})"
            )
        if name in self._constants:
            dtype = onnx_package().helper.tensor_dtype_to_np_dtype(element)
            array = np.asarray(self._constants[name], dtype)
            return Value(name, tensor_type(element, array.shape), array)
        shape = self._complete_shape(entry)
        if is_too_large(shape):
            raise RecordError(
                f"input {name} has the shape {shape}, which is too large to compute\n"
                f"  {DAMAGED}, or give shapes="
            )
        return Value(name, tensor_type(element, shape))

    def _complete_shape(self, entry: Any) -> tuple[int, ...]:
        """Return the shape of an input; `ShapeError` where a size is open."""
        shape = self._shape_of(entry.name)
        if shape is not None:
            return shape
        dims = _dimensions(entry)
        if dims is None:
            raise ShapeError(
                f"the shape of input {entry.name} is not known\n"
                f"  give it: load(…, shapes={{{entry.name!r}: (1, 3, 224, 224)}})"
            )
        sizes: list[Any] = [self._sizes.get(dim, dim) for dim in dims]
        names = [str(size) for size in sizes if not isinstance(size, int)]
        if not names:
            return tuple(sizes)
        example: list[int] = []
        for size in sizes:
            example.append(size if isinstance(size, int) else 1)
        raise ShapeError(
            f"input {entry.name} has the shape ({', '.join(map(str, sizes))}), "
            f"of which {', '.join(dict.fromkeys(names))} is not known\n"
            f"  give it: load(…, shapes={{{entry.name!r}: {tuple(example)}}})"
        )


def _dimensions(entry: Any) -> list[Any] | None:
    """Return the sizes of an input: numbers, names, or "?" for one that has neither.

    None where not even their number is known.
    """
    if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
        return None
    dims: list[Any] = []
    for dim in entry.type.tensor_type.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param or OPEN)
    return dims


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and bool(size >= 0)


def _shape(name: str, value: Any) -> tuple[int, ...]:
    """Return a shape, or that of an example array."""
    shape = getattr(value, "shape", value)
    if isinstance(shape, (tuple, list)) and all(map(_is_size, shape)):
        return tuple(int(size) for size in shape)
    raise ShapeError(
        f"shapes[{name!r}] must be a shape or an array, not {value!r}\n"
        f"  e.g. {{{name!r}: (1, 3, 224, 224)}}"
    )
