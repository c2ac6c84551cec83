"""An optimized network as a folder: programs and weights that load and run without the front ends,
and the generated sources to read (design §11).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from derive.cost.backend import Backend
from derive.programs.optimized_program import OptimizedProgram, part_from_record, part_record
from einalg.errors import CodegenError, EinalgError, RecordError, without_remedy
from einalg.frontends.axis_order import Order
from einalg.frontends.graph import Graph, Names, OpaqueNode, ProgramNode
from einalg.language.ir.tensor import Tensor
from einalg.storage import record
from einalg.storage.atomic_file import part_of

KIND = "optimized"
MODEL, WEIGHTS, REPORT = "model.json", "weights.npz", "report.txt"
SUFFIXES = {"c": "c", "cuda": "cu"}
Array = np.ndarray[Any, Any]


def save(
    graph: Graph,
    parts: Mapping[int, OptimizedProgram],
    seconds: float,
    report: str,
    path: Any,
    language: str,
) -> None:
    """Write a network into a new folder, whole or not at all.

    Raises `RecordError` where something stays a call of the framework, or the folder is there and
    holds anything, `CodegenError` for a language that there is no source in.
    """
    require_programs(graph.opaque)
    if language not in SUFFIXES:
        raise CodegenError(
            f"there is no source in {language!r}\n  use one of: {', '.join(SUFFIXES)}"
        )
    folder = Path(path)
    written = part_of(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecordError(f"{folder} is there already\n  give a new folder, or remove it first")
    try:
        written.mkdir(parents=True)
        _write(graph, parts, seconds, written, language)
        (written / REPORT).write_text(f"{report}\n", encoding="utf-8")
        written.replace(folder)
    except OSError as error:
        raise RecordError(f"{folder} cannot be written: {without_remedy(error)}") from None
    finally:
        shutil.rmtree(written, ignore_errors=True)


def require_programs(opaque: Sequence[OpaqueNode]) -> None:
    """Raise `RecordError` where something stays a call of the framework."""
    if opaque:
        operators = ", ".join(dict.fromkeys(node.operator for node in opaque))
        raise RecordError(
            f"the network cannot be saved: calls of the framework are left in it ({operators})\n"
            "  save the model with its framework"
        )


def _write(
    graph: Graph, parts: Mapping[int, OptimizedProgram], seconds: float, folder: Path, language: str
) -> None:
    read = set(graph.outputs)
    rows = []
    for number, (position, part) in enumerate(parts.items()):
        read.update(part.after.inputs)
        if part.slices is not None:  # the whole runs where there are no slices
            read.update(part.before.inputs)
        node = graph.nodes[position]
        rows.append({"operator": node.operator, "outputs": list(node.outputs), **part_record(part)})
        source = folder / f"program_{number}.{SUFFIXES[language]}"
        source.write_text(part.source(language), encoding="utf-8")
    weights = {name: array for name, array in graph.weights.items() if name in read}
    arrays = {f"w{number}": array for number, array in enumerate(weights.values())}
    np.savez(folder / WEIGHTS, allow_pickle=False, **arrays)
    content = {
        "inputs": [_input_row(tensor) for tensor in graph.inputs],
        "outputs": list(graph.outputs),
        "names": graph.names,
        "orders": {name: list(order) for name, order in graph.orders.items()},
        "weights": list(weights),
        "parts": rows,
        "search": seconds,
    }
    record.write(folder / MODEL, KIND, content)


def _input_row(tensor: Tensor) -> dict[str, Any]:
    axes = [list(axis) for axis in tensor.axes]
    return {"name": tensor.name, "axes": axes, "dtype": tensor.dtype}


def _input_from_row(row: Any) -> Tensor:
    return Tensor(row["name"], [tuple(axis) for axis in row["axes"]], row["dtype"])


def load(path: Any, backend: Backend) -> tuple[Graph, dict[int, OptimizedProgram], float]:
    """Return the graph, the parts and the seconds of a saved network, compiled for this machine.

    Raises `RecordError` where the folder is damaged.
    """
    content = record.read(Path(path) / MODEL, KIND)
    weights = _weights(Path(path) / WEIGHTS, content.get("weights"))
    try:
        inputs = tuple(map(_input_from_row, content["inputs"]))
        parts: dict[int, OptimizedProgram] = {}
        nodes = []
        for position, row in enumerate(content["parts"]):
            part = part_from_record(row, None, weights, backend)
            parts[position] = part
            read, outputs = tuple(part.before.inputs), tuple(row["outputs"])
            nodes.append(ProgramNode(row["operator"], read, outputs, part.before))
        outputs = tuple(content["outputs"])
        names = _names(content.get("names"), len(inputs), len(outputs))
        orders = _orders(content.get("orders", {}), inputs)
        graph = Graph(inputs, weights, tuple(nodes), outputs, names, orders)
        return graph, parts, float(content["search"])
    except (KeyError, TypeError, ValueError, AttributeError, EinalgError) as error:
        raise RecordError(f"{path} is damaged: {without_remedy(error)}") from None


def _names(pair: Any, inputs: int, outputs: int) -> Names | None:
    """Return so many names of inputs and outputs; None in folders of older versions too."""
    if pair is None:
        return None
    read, produced = (tuple(map(str, names)) for names in pair)
    if (len(read), len(produced)) != (inputs, outputs):
        raise ValueError("it has other numbers of names than of inputs and outputs")
    return read, produced


def _orders(rows: Any, inputs: Sequence[Tensor]) -> dict[str, Order]:
    """Return orders of the axes of some inputs; folders of older versions have none."""
    ranks = {tensor.name: tensor.rank for tensor in inputs}
    orders: dict[str, Order] = {}
    for name, row in rows.items():
        if sorted(row) != list(range(ranks[name])):
            raise ValueError(f"it has no order of the axes of {name}")
        orders[name] = tuple(row)
    return orders


def _weights(path: Path, names: Any) -> dict[str, Array]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            weights = {str(name): arrays[f"w{k}"] for k, name in enumerate(names)}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecordError(f"{path} cannot be read: {without_remedy(error)}") from None
    for name, array in weights.items():
        if not isinstance(array, np.ndarray):  # NumPy gives other content as bytes
            raise RecordError(f"{path} cannot be read: what it holds for {name} is no array")
    return weights
