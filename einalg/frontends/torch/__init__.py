"""PyTorch modules and graphs as einalg graphs (design §11).

`capture` turns modules into ATen graphs, `importer` turns these into graphs of programs with the
table of `operators`, `nodes` has what these share, and `module` converts arguments and results.
`einalg.api` imports from here. A new operator is an entry in a module of `operators`. Torch is
imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from einalg.frontends.graph import Graph
from einalg.frontends.torch.module import Model, import_exported, import_fx
from einalg.frontends.torch.operators.layers import (
    convolution,
    normalization,
    pooling,
    recurrent,
    resize,
)
from einalg.frontends.torch.operators.math import arithmetic, elementwise, matmul, reductions
from einalg.frontends.torch.operators.shape import concatenation, indexing, replacement

__all__ = ["Model", "load", "load_fx", "load_model"]
# Modules whose import registers operators.
OPERATORS = (
    *(arithmetic, elementwise, matmul, reductions),
    *(concatenation, indexing, replacement),
    *(convolution, normalization, pooling, recurrent, resize),
)


def load(
    module: Any, example_inputs: Sequence[Any], example_keywords: Mapping[str, Any] | None = None
) -> Graph:
    """Return a `torch.nn.Module` as a graph.

    Parameters and buffers are weights, and share memory with the module. `example_inputs` are the
    positional arguments of a call, whose shapes and dtypes the graph has; inputs and outputs of the
    graph are the tensors among arguments and results, in order. Raises `TrainingMode`, a
    `NotationError`, for a module in training mode, and `NotationError` for one that torch cannot
    export or that writes to its buffers.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> graph = load(layers, (torch.ones(2, 3),))
    >>> [node.operator for node in graph.nodes], sorted(graph.weights), graph.opaque
    (['linear.default', 'relu.default'], ['v_0_bias', 'v_0_weight'], [])
    """
    return load_model(module, example_inputs, example_keywords).graph


def load_model(
    module: Any, example_inputs: Sequence[Any], example_keywords: Mapping[str, Any] | None = None
) -> Model:
    """Return a module as a graph, with conversions between tensors and the graph's arrays.

    The arguments are those of `load`.
    """
    return import_exported(module, example_inputs, example_keywords or {})


def load_fx(graph_module: Any, example_inputs: Sequence[Any], weights: Sequence[int] = ()) -> Graph:
    """Return a `torch.fx.GraphModule` as a graph, with its inputs in order.

    The inputs at the positions `weights` are constant. A graph of torch's functions and modules,
    as Dynamo makes them, is traced to ATen first.
    """
    return import_fx(graph_module, example_inputs, weights)[0].graph
