"""Modules as ATen graphs, through `torch.export`.

An operator that einalg has an expression for is not decomposed.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from einalg.errors import NotationError, ShapeError, first_line
from einalg.frontends.torch.capture.call_trace import (
    Call,
    describe_call,
    named_tensors,
    record_calls,
    repeats_calls,
)
from einalg.frontends.torch.capture.decisions import export_deciding
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
from einalg.storage.fingerprint import IMPORT_CODE, Fingerprint

LOG = logging.getLogger("einalg")
GRAPHS = DiskCache("graphs", ".json", "graphs of models")


def export_module(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> ExportedGraph:
    """Return a module as a graph, for the shapes of the arguments.

    Where not all operators are in einalg's table, the others are decomposed into core ATen.

    The graph comes from the cache while the module calls the same operators. Raises `ShapeError`
    for arguments that the module does not take, and `NotationError` for what torch cannot export
    and for a module that writes to its buffers.

    Arguments that are one tensor, or share elements, are exported as different ones: those of
    another call may be.
    """
    arguments, keywords = _with_own_memory(arguments, keywords)
    _require_arguments(module, arguments, keywords)
    description = describe_call(module, arguments, keywords)
    if description is None:
        return _export(module, arguments, keywords)
    key = Fingerprint(IMPORT_CODE).key("graph", description)
    graph = _cached_graph(key, module, arguments, keywords)
    if graph is None:
        graph = _export(module, arguments, keywords)
        _store(key, graph, lambda: record_calls(module, arguments, keywords))
    return graph


def _with_own_memory(
    arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return arguments of which no two tensors share memory."""
    import torch
    from torch.utils._pytree import tree_map

    known: set[int] = set()

    def copied_if_known(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        memory = value.untyped_storage().data_ptr()
        if memory in known:
            return value.detach().clone()
        known.add(memory)
        return value

    copied: tuple[Sequence[Any], Mapping[str, Any]] = tree_map(
        copied_if_known, (tuple(arguments), dict(keywords))
    )
    return copied


def _cached_graph(
    key: str, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> ExportedGraph | None:
    """Return the cached graph of a module that still makes the same calls."""
    content = GRAPHS.read(key)
    if content is None:
        return None
    try:
        row = json.loads(content)
        if not repeats_calls(row["calls"], module, arguments, keywords):
            return None
        return graph_from_record(row["graph"], named_tensors(module))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        LOG.warning(
            "einalg: a graph in the cache is damaged (%s); the model is exported again", error
        )
        return None


def _store(key: str, exported: ExportedGraph, record: Callable[[], Sequence[Call] | None]) -> None:
    """Store a graph beside the calls that it stands for.

    For a graph without a record they are not made: torch could do nothing with its branches later.
    """
    try:
        graph = graph_record(exported)
    except NotRecordable as error:
        LOG.debug("einalg: the graph of a module is not kept: %s", error)
        return
    calls = record()
    if calls is not None:
        GRAPHS.replace(key, json.dumps({"calls": calls, "graph": graph}).encode())


def _export(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> ExportedGraph:
    program = _torch_program(module, arguments, keywords)
    signature = program.graph_signature
    _refuse_state(signature, type(module).__name__)
    tensors = {**program.constants, **program.state_dict}
    weights: dict[str, Weight] = {}
    for spec in signature.input_specs:
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            is_constant = "CONSTANT" in kind
            weights[spec.arg.name] = Weight(spec.target, tensors[spec.target], is_constant)
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
            kind = "input"
            if "BUFFER" in spec.kind.name:
                kind = "buffer"
            raise NotationError(
                f"{name} writes to its {kind} {spec.target}, and a graph has no state\n"
                "  return the new value instead, or call model.eval() first"
            )


def _torch_program(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return a program of `torch.export`."""
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            with without_unrolling():
                program = export_deciding(
                    lambda: torch.export.export(
                        module, tuple(arguments), dict(keywords), strict=False
                    )
                )
            # Decomposing what the module calls takes longer than tracing it.
            is_functional = replace_writes(program.graph_module)
            if is_functional and is_expressed(program.graph):
                return program
            table = decomposition_table()
            if not is_functional:
                table = decomposition_table(allocates_result)
            return program.run_decompositions(table)
        except TrainingMode:
            raise
        except Exception as error:  # of many kinds, none of which torch names as its own
            message = f"torch.export has no graph of {type(module).__name__}: {first_line(error)}"
            remedy = "compile what can be traced: torch.compile(module, backend='einalg')"
            raise NotationError(f"{message}\n  {remedy}") from error


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
            f"{takes}, and the example inputs do not fit: {error}\n"
            "  give the arguments of one call, as a tuple"
        ) from None


def decomposition_table(is_excluded: Callable[[Any], bool] = lambda operator: True) -> Any:
    """Return torch's table for core ATen.

    Operators that einalg has an expression for are left out where `is_excluded(operator)`.
    """
    import torch

    table = torch.export.default_decompositions()
    for name in ATEN:
        operator = find_operator(name)
        if operator is not None and is_excluded(operator):
            table.pop(operator, None)
    return table


def find_operator(name: str) -> Any:
    """Return the operator of an entry of the table; None where this version of torch has none."""
    import torch

    base, overload = name.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, base, None), overload, None)
