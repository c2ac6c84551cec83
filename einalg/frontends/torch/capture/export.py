"""Modules as ATen graphs, through `torch.export`: what einalg has whole is not taken apart."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from einalg.errors import NotationError, ShapeError
from einalg.frontends.torch.capture.call_trace import (
    Call,
    describe_call,
    named_tensors,
    record_calls,
    repeats_calls,
)
from einalg.frontends.torch.capture.functionalize import (
    allocates_result,
    is_expressed,
    replace_writes,
)
from einalg.frontends.torch.capture.graph_json import (
    ExportedGraph,
    NotRecordable,
    Weight,
    graph_from_record,
    graph_record,
)
from einalg.frontends.torch.capture.recurrent_ops import without_unrolling
from einalg.frontends.torch.nodes.registry import ATEN, TrainingMode
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import code_digest, text_digest

LOG = logging.getLogger("einalg")
GRAPHS = DiskCache("graphs", ".json", "graphs of models")


def export_module(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> ExportedGraph:
    """A graph of operators of the table where these are all, else taken apart into core ATen but for these; shapes are the arguments'.

    What was exported once is found again while the module calls the same operators. Raises `ShapeError` for arguments that the module does not
    take, `NotationError` for what torch cannot export, and for a module that writes to its buffers.
    """
    _require_arguments(module, arguments, keywords)
    seen = describe_call(module, arguments, keywords)
    if seen is None:
        return _exported(module, arguments, keywords)
    key = text_digest("graph", code_digest(), seen)
    known = _known(key, module, arguments, keywords)
    if known is None:
        known = _exported(module, arguments, keywords)
        _keep(key, known, lambda: record_calls(module, arguments, keywords))
    return known


def _known(
    key: str, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> ExportedGraph | None:
    """What was kept of a module that still makes the same calls."""
    content = GRAPHS.read(key)
    if content is None:
        return None
    try:
        row = json.loads(content)
        return (
            graph_from_record(row["graph"], named_tensors(module))
            if repeats_calls(row["calls"], module, arguments, keywords)
            else None
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        LOG.warning(
            "einalg: a graph in the cache is damaged (%s); the model is exported again", error
        )
        return None


def _keep(key: str, found: ExportedGraph, record: Callable[[], Sequence[Call] | None]) -> None:
    """Keep a graph beside the calls that it stands for; these are not made for another one, with whose branches torch could do nothing later."""
    try:
        graph = graph_record(found)
    except NotRecordable as error:
        LOG.debug("einalg: the graph of a module is not kept: %s", error)
        return
    calls = record()
    if calls is not None:
        GRAPHS.replace(key, json.dumps({"calls": calls, "graph": graph}).encode())


def _exported(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> ExportedGraph:
    program = _by_torch(module, arguments, keywords)
    signature = program.graph_signature
    _refuse_state(signature, type(module).__name__)
    tensors = {**program.constants, **program.state_dict}
    weights = {
        spec.arg.name: Weight(spec.target, tensors[spec.target], "CONSTANT" in spec.kind.name)
        for spec in signature.input_specs
        if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")
    }
    return ExportedGraph(
        program.graph,
        weights,
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        program.graph_module,
    )


def _refuse_state(signature: Any, name: str) -> None:
    for spec in signature.output_specs:
        if "MUTATION" in spec.kind.name:
            what = f"buffer {spec.target}" if "BUFFER" in spec.kind.name else f"input {spec.target}"
            raise NotationError(
                f"{name} writes to its {what}, and a graph has no state\n  return the new value instead, or call model.eval() first"
            )


def _by_torch(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A program of `torch.export`."""
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            with without_unrolling():
                program = torch.export.export(
                    module, tuple(arguments), dict(keywords), strict=False
                )
            # The graph calls what the module calls; to take that apart takes longer than to trace it.
            is_functional = replace_writes(program.graph_module)
            if is_functional and is_expressed(program.graph):
                return program
            return program.run_decompositions(
                decomposition_table() if is_functional else decomposition_table(allocates_result)
            )
        except TrainingMode:
            raise
        except Exception as error:  # of many kinds, none of which torch names as its own
            message = f"torch.export has no graph of {type(module).__name__}: {first_line(error)}"
            remedy = "compile what can be traced: torch.compile(module, backend='einalg')"
            raise NotationError(f"{message}\n  {remedy}") from error


def first_line(error: Exception) -> str:
    """What an error of torch says first, or else its kind."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _require_arguments(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    try:
        parameters = signature(module.forward)
    except (TypeError, ValueError):  # of code without one
        return
    try:
        parameters.bind(*arguments, **keywords)
    except TypeError as error:
        takes = f"{type(module).__name__} takes the arguments ({', '.join(parameters.parameters)})"
        raise ShapeError(
            f"{takes}, and the example inputs do not fit: {error}\n  give the arguments of one call, as a tuple"
        ) from None


def decomposition_table(kept: Callable[[Any], bool] = lambda operator: True) -> Any:
    """Torch's table for core ATen, without what einalg has an expression for and is `kept`."""
    import torch

    table = torch.export.default_decompositions()
    for known in filter(None, map(find_operator, ATEN)):
        if kept(known):
            table.pop(known, None)
    return table


def find_operator(name: str) -> Any:
    """The operator of an entry of the table; None where this version of torch has no such one."""
    import torch

    base, overload = name.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, base, None), overload, None)
