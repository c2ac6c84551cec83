"""The cache of imported graphs, for networks whose import takes long (design §11).

Those are networks of hundreds of statements and more. An entry holds the expressions, and the names
of the model's weights, whose values stay in the model. The size of a network decides, not the time
that its import took, so that a model has one graph on every machine.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from einalg.errors import EinalgError
from einalg.frontends.graph import Graph, ProgramNode
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_record_with_heads,
)
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import IMPORT_CODE, Fingerprint

LOG = logging.getLogger("einalg")
IMPORTS = DiskCache("readings", ".json", "graphs as they were read")
MIN_CACHED_STATEMENTS = 300  # whose import takes half a second; less is not worth an entry
MAX_FOREIGN_WEIGHT_BYTES = 1 << 20  # of a weight that is none of the model's
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ImportRecord:
    """An imported graph.

    `sources` has the model's names of weights, by the graph's names. `extra` is what else the front
    end needs, as JSON values. `read_ahead` are the weights on whose elements the graph itself
    depends.
    """

    graph: Graph
    sources: Mapping[str, str]
    extra: Any = None
    read_ahead: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Origin:
    """Return all that the import of a model depends on.

    `structure` is available at once; `digest()` goes through the values of the model's weights,
    which `array(name)` returns.
    """

    structure: str
    digest: Callable[[], str]
    array: Callable[[str], Array]


def import_cached(origin: Origin, read: Callable[[], ImportRecord]) -> ImportRecord:
    """Return what `read()` returns, or returned for the same origin.

    A graph that is stored is merged, at the first import too.
    """
    key = Fingerprint(IMPORT_CODE).key("reading", origin.structure)
    cached = _cached_record(key, origin)
    if cached is not None:
        return cached
    imported = read()
    if imported.graph.statement_count < MIN_CACHED_STATEMENTS:
        return imported
    merged = replace(imported, graph=imported.graph.merged())
    row = _to_json(merged)
    if row is None:
        return imported
    IMPORTS.replace(key, json.dumps({**row, "values": origin.digest()}).encode())
    return merged


def _cached_record(key: str, origin: Origin) -> ImportRecord | None:
    content = IMPORTS.read(key)
    if content is None:
        return None
    try:
        row = json.loads(content)
        if row["values"] != origin.digest():
            return None
        return _from_json(row, origin)
    except (ValueError, KeyError, TypeError, AttributeError, EinalgError) as error:
        LOG.warning(
            "einalg: what was read of a graph is damaged in the cache (%s); it is read again", error
        )
        return None


def _to_json(imported: ImportRecord) -> dict[str, Any] | None:
    """Return a merged graph as JSON values.

    None for a graph with opaque calls, and for one with large weights that are none of the model's.
    """
    graph = imported.graph
    read, programs = set(graph.outputs), list[Any]()
    for node in graph.nodes:
        if not isinstance(node, ProgramNode):
            return None
        read.update(node.inputs)
        programs.append(
            [node.operator, node.inputs, node.outputs, program_record_with_heads(node.program)]
        )
    weights: dict[str, Any] = {}
    for name, array in graph.weights.items():
        if name in read:
            weights[name] = _weight_to_json(imported.sources.get(name), array)
    if None in weights.values():
        return None
    return {
        "inputs": [[tensor.name, tensor.shape, tensor.dtype] for tensor in graph.inputs],
        "weights": weights,
        "nodes": programs,
        "outputs": graph.outputs,
        "names": graph.names,
        "told": imported.extra,
        "read ahead": sorted(imported.read_ahead),
    }


def _from_json(row: Any, origin: Origin) -> ImportRecord:
    inputs = tuple(Tensor(name, shape, dtype) for name, shape, dtype in row["inputs"])
    nodes: list[ProgramNode] = []
    for operator, read, outputs, program in row["nodes"]:
        nodes.append(
            ProgramNode(operator, tuple(read), tuple(outputs), lazy_program_from_record(program))
        )
    weights: dict[str, Array] = {}
    sources: dict[str, str] = {}
    for name, weight in row["weights"].items():
        if isinstance(weight, str):
            sources[name] = weight
            weights[name] = origin.array(weight)
        else:
            weights[name] = _foreign_weight(*weight)
    names = None
    if row["names"]:
        names = (tuple(row["names"][0]), tuple(row["names"][1]))
    graph = Graph(inputs, weights, tuple(nodes), tuple(row["outputs"]), names)
    return ImportRecord(graph, sources, row["told"], frozenset(row["read ahead"]))


def _weight_to_json(source: str | None, array: Array) -> str | Sequence[Any] | None:
    """Return the model's name of a weight; of another one its dtype, shape and elements.

    That is one element where all are the same in memory.
    """
    if source is not None:
        return source
    elements = array
    if not any(array.strides):
        elements = array.ravel()[:1]
    if elements.nbytes > MAX_FOREIGN_WEIGHT_BYTES:
        return None
    return [array.dtype.str, array.shape, b64encode(np.ascontiguousarray(elements).data).decode()]


def _foreign_weight(dtype: str, shape: Sequence[int], elements: str) -> Array:
    array = np.frombuffer(b64decode(elements), np.dtype(dtype))
    if array.size == 1:
        return np.broadcast_to(array, shape)
    return array.reshape(shape)
