"""The node cases of the onnx package: models of one operator, with inputs and the outputs that ONNX
expects.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from einalg.errors import EinalgError
from einalg.frontends.graph import Graph
from einalg.frontends.onnx import load
from einalg.frontends.onnx.nodes.shape_inference import is_random

onnx = pytest.importorskip("onnx", reason="the cases come with the package onnx")

EXPECTED = Path(__file__).parent / "onnx_expected.txt"
AT_RUN_TIME = "({}) is known at run time only"
HALF = {
    "float16": 3e-3,
    "bfloat16": 2e-2,
}  # relative tolerance of short floats, whose sums ONNX rounds elsewhere
ANY = float(np.finfo(np.float64).max)  # a tolerance for all values
PARAMETERS = 6  # inputs of one node that may turn out to be parameters


@dataclass
class Outcome:
    """What became of a case: `expressed`, `opaque` (right, with calls), `random` (other values, by
    chance), `refused` or `differs`, and why.
    """

    kind: str
    why: str = ""
    operators: tuple[str, ...] = ()
    known: list[str] = field(default_factory=list)  # parameters, which a file of a real model knows


@cache
def cases() -> dict[str, Any]:
    """The cases by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def expected() -> tuple[str, dict[str, str]]:
    """The version of onnx that the table is for, and the cases that are not `expressed`, with what
    they are.
    """
    version, *lines = EXPECTED.read_text().splitlines()
    return version.rpartition(" ")[2], {
        name: kind for name, kind, *_ in (line.split(" | ") for line in lines if line)
    }


def outcome(case: Any) -> Outcome:
    """Load a case, with parameters as known inputs where an expression needs them, run it, and
    compare.
    """
    model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
    operators = tuple(dict.fromkeys(node.op_type for node in model.graph.node))
    inputs, outputs = ([_plain(v) for v in values] for values in _data(case, model))
    given = {
        i.name: np.asarray(v)
        for i, v in zip(model.graph.input, inputs)
        if i.type.HasField("tensor_type")
    }
    try:
        graph, known = loaded(model, given)
        found = graph(*(given[i.name] for i in model.graph.input if i.name not in known))
    except EinalgError as error:
        return Outcome("refused", str(error).splitlines()[0], operators)
    why = "; ".join(dict.fromkeys(f"{node.operator}: {node.why}" for node in graph.opaque))
    wrong = [
        text for a, b in zip(found, outputs) if (text := difference(a, b, case.rtol, case.atol))
    ]
    if not wrong:
        return Outcome("opaque" if why else "expressed", why, operators, known)
    if any(is_random(node.operator) for node in graph.opaque) and not any(
        difference(a, b, 0, ANY) for a, b in zip(found, outputs)
    ):
        return Outcome("random", why, operators, known)
    return Outcome("differs", wrong[0], operators, known)


def is_as(found: Outcome, wanted: str) -> bool:
    """Whether a case is what the table says; a random one may be right, too."""
    return found.kind == wanted or (wanted == "random" and found.kind == "opaque")


def loaded(model: Any, given: dict[str, Any]) -> tuple[Graph, list[str]]:
    """The graph, and the names of the inputs that it takes as known because some node is opaque
    otherwise.
    """
    known: dict[str, Any] = {}
    for _ in range(PARAMETERS):
        graph = load(model, {name: v for name, v in given.items() if name not in known}, known)
        more = [
            name
            for name in given
            if name not in known
            and any(AT_RUN_TIME.format(name) in node.why for node in graph.opaque)
        ]
        if not more:
            break
        known.update((name, given[name]) for name in more)
    return graph, list(known)


def _data(case: Any, model: Any) -> tuple[list[Any], list[Any]]:
    if case.data_sets is not None:
        return case.data_sets[0]
    folder = Path(case.model_dir) / "test_data_set_0"
    return tuple(
        [_read(folder / f"{name}_{k}.pb", v.type) for k, v in enumerate(values)]
        for name, values in (("input", model.graph.input), ("output", model.graph.output))
    )  # pyright: ignore


def _read(path: Path, kind: Any) -> Any:
    proto = {
        "tensor_type": onnx.TensorProto,
        "sequence_type": onnx.SequenceProto,
        "optional_type": onnx.OptionalProto,
    }
    return proto[kind.WhichOneof("value")].FromString(path.read_bytes())


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(value)
    return onnx.numpy_helper.to_optional(value) if isinstance(value, onnx.OptionalProto) else value


def difference(found: Any, wanted: Any, rtol: float, atol: float) -> str:
    """How a value differs from the expected one; empty where it does not. Within `ANY`, how its
    type or shape does.
    """
    if isinstance(wanted, list):
        same = isinstance(found, list) and len(found) == len(wanted)
        return (
            "another list"
            if not same
            else next((d for a, b in zip(found, wanted) if (d := difference(a, b, rtol, atol))), "")
        )
    found, wanted = np.asarray(found), np.asarray(wanted)
    short = HALF.get(wanted.dtype.name, 0.0)
    if wanted.dtype.name == "bfloat16":
        wanted = wanted.astype(np.float32)
    if found.shape != wanted.shape or (found.dtype != wanted.dtype and wanted.dtype.kind in "biuf"):
        return f"{found.dtype}{list(found.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind == "V" or wanted.dtype.name.startswith(
        ("int", "uint", "float")
    ):  # the short types of ml_dtypes too
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    if wanted.dtype.kind not in "biuf":
        return "" if (found.astype(str) == wanted.astype(str)).all() else "other elements"
    close = np.allclose(
        found, wanted, rtol=max(rtol, short), atol=max(atol, short / 3), equal_nan=True
    )
    return "" if close else f"{found.ravel()[:3]}, expected {wanted.ravel()[:3]}"
