"""ONNX files: their bytes, the data that lie beside them, and whether they are whole.

Nothing is executed or written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from einalg.errors import EinalgError, RecordError

DAMAGED = "the file is damaged or no ONNX file: fetch it anew"


def read_model(source: Any) -> Any:
    """Return a complete `ModelProto` from a path, the bytes of a file, or a `ModelProto`.

    Data beside the file are read in. Raises `RecordError` where the model is broken, or made for a
    newer version of ONNX.
    """
    onnx = onnx_package()
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model = _parsed(bytes(source))
    else:
        folder = Path(source).resolve().parent
        model = _parsed(_content(source))
    check_versions(model)
    for graph in (model.graph, *model.functions):
        _check_names(graph)
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _read_beside(tensor, folder)
    return model


def _content(source: Any) -> bytes:
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise RecordError(
            f"{source} cannot be read: {error.strerror or error}\n  give the path of an ONNX file"
        ) from None


def _parsed(content: bytes) -> Any:
    model = onnx_package().ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's errors have no common public base
        raise RecordError(f"this is no ONNX model: {error}\n  {DAMAGED}") from None
    if not model.HasField("graph") or not model.graph.output:
        raise RecordError(f"the model has no graph with outputs\n  {DAMAGED}")
    return model


def check_versions(model: Any) -> None:
    """Refuse operator sets that the onnx package does not know."""
    newest = onnx_package().defs.onnx_opset_version()
    if not model.opset_import:
        raise RecordError(f"the model does not say which operator set it uses\n  {DAMAGED}")
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= newest:
            raise RecordError(
                f"the model uses operator set {entry.version}, "
                f"and the installed onnx package knows 1 to {newest}\n"
                "  pip install --upgrade onnx"
            )


def _check_names(graph: Any) -> None:
    """Refuse names that are no text, which is what protobuf makes of damaged ones."""
    names: list[Any] = []
    for value in (*graph.input, *graph.output, *getattr(graph, "initializer", ())):
        names.append(getattr(value, "name", value))
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            names.append(attribute.name)
            for inner in _graphs(attribute):
                _check_names(inner)
    for name in names:
        if not isinstance(name, str):
            raise RecordError(f"{name!r} is no name\n  {DAMAGED}")


def _graphs(attribute: Any) -> Iterator[Any]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every stored tensor, also in attributes and inner graphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in _graphs(attribute):
                yield from _tensors(inner)


def _read_beside(tensor: Any, folder: Path | None) -> None:
    """Replace a reference to a file in the folder of the model, or below, by the bytes there."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    place = entries.get("location", "")
    if folder is None:
        raise RecordError(
            f"tensor {tensor.name} lies in the file {place!r} beside the model\n"
            "  load the model by its path"
        )
    path = (folder / place).resolve()
    if not place or os.path.isabs(place) or not path.is_relative_to(folder):
        raise RecordError(
            f"tensor {tensor.name} lies in {place!r}, outside the folder of the model\n"
            "  move the file into that folder"
        )
    try:
        offset = int(entries.get("offset", 0))
        size = path.stat().st_size
        length = int(entries.get("length", size - offset))
        with path.open("rb") as file:
            if offset < 0 or length < 0 or offset + length > size:
                raise RecordError(
                    f"tensor {tensor.name} is {length} bytes at {offset} of {place!r}, "
                    f"which is shorter\n  {DAMAGED}"
                )
            file.seek(offset)
            tensor.raw_data = file.read(length)
    except (OSError, ValueError) as error:
        raise RecordError(
            f"tensor {tensor.name} lies in {place!r}, which cannot be read: {error}\n"
            "  put the file beside the model"
        ) from None
    del tensor.external_data[:]
    tensor.data_location = onnx_package().TensorProto.DEFAULT


def onnx_package() -> Any:
    """Return the module `onnx`; an `EinalgError` with the remedy where it is not installed."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        raise EinalgError(
            "reading ONNX files needs the package onnx, which is not installed\n"
            "  pip install 'einalg[onnx]'"
        ) from error
    return onnx


def onnxruntime_package() -> Any:
    """Return the module `onnxruntime`, or None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime
