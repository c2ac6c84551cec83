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
from einalg.errors import CodegenError, EinalgError, RecordError
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
        raise RecordError(f"{folder} cannot be written: {error}") from None
    finally:
        shutil.rmtree(written, ignore_errors=True)


def require_programs(opaque: Sequence[OpaqueNode]) -> None:
    """Raise `RecordError` where something stays a call of the framework."""
    if opaque:
        operators = ", ".join(dict.fromkeys(node.operator for node in opaque))
        raise RecordError(
            f"the network cannot be saved: calls of the framework are left in it ({operators})\n  save the model with its framework"
        )


def _write(
    graph: Graph, parts: Mapping[int, OptimizedProgram], seconds: float, folder: Path, language: str
) -> None:
    read = {name for part in parts.values() for name in part.after.inputs} | set(graph.outputs)
    weights = {name: array for name, array in graph.weights.items() if name in read}
    inputs = [
        {"name": t.name, "axes": [list(axis) for axis in t.axes], "dtype": t.dtype}
        for t in graph.inputs
    ]
    rows = []
    for number, (position, part) in enumerate(parts.items()):
        node = graph.nodes[position]
        rows.append({"operator": node.operator, "outputs": list(node.outputs), **part_record(part)})
        (folder / f"program_{number}.{SUFFIXES[language]}").write_text(
            part.source(language), encoding="utf-8"
        )
    np.savez(
        folder / WEIGHTS,
        allow_pickle=False,
        **{f"w{k}": array for k, array in enumerate(weights.values())},
    )
    outputs, names = list(graph.outputs), graph.names
    content = {
        "inputs": inputs,
        "outputs": outputs,
        "names": names,
        "weights": list(weights),
        "parts": rows,
        "search": seconds,
    }
    record.write(folder / MODEL, KIND, content)


def load(path: Any, backend: Backend) -> tuple[Graph, dict[int, OptimizedProgram], float]:
    """The graph, the parts and the seconds of a saved network, compiled for this machine;
    `RecordError` where the folder is damaged.
    """
    content = record.read(Path(path) / MODEL, KIND)
    weights = _weights(Path(path) / WEIGHTS, content.get("weights"))
    try:
        inputs = tuple(
            Tensor(row["name"], [tuple(axis) for axis in row["axes"]], row["dtype"])
            for row in content["inputs"]
        )
        parts = {
            k: part_from_record(row, None, weights, backend)
            for k, row in enumerate(content["parts"])
        }
        programs = [(row, parts[k].before) for k, row in enumerate(content["parts"])]
        nodes = tuple(
            ProgramNode(row["operator"], tuple(p.inputs), tuple(row["outputs"]), p)
            for row, p in programs
        )
        graph = Graph(
            inputs,
            weights,
            nodes,
            tuple(content["outputs"]),
            _names(content.get("names"), len(inputs), len(content["outputs"])),
        )
        return graph, parts, float(content["search"])
    except (KeyError, TypeError, ValueError, AttributeError, EinalgError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None


def _names(pair: Any, inputs: int, outputs: int) -> Names | None:
    """So many names of inputs and outputs; None in folders of older versions too."""
    if pair is None:
        return None
    read, given = (tuple(map(str, names)) for names in pair)
    if (len(read), len(given)) != (inputs, outputs):
        raise ValueError("it has other numbers of names than of inputs and outputs")
    return read, given


def _weights(path: Path, names: Any) -> dict[str, Array]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {str(name): arrays[f"w{k}"] for k, name in enumerate(names)}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecordError(f"{path} cannot be read: {error}") from None
    wrong = next(
        (name for name, array in found.items() if not isinstance(array, np.ndarray)), None
    )  # NumPy gives other content as bytes
    if wrong is not None:
        raise RecordError(f"{path} cannot be read: what it holds for {wrong} is no array")
    return found
