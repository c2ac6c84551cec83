"""One torch operator as a graph, and what it gives against torch itself."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from einalg.frontends.graph import Graph  # noqa: E402
from einalg.frontends.torch import load_fx  # noqa: E402
from einalg.frontends.torch.capture.export import find_operator  # noqa: E402
from einalg.frontends.torch.nodes.tensors import array_of  # noqa: E402

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10, torch.float16: 2e-2}


def graph_of(name: str, arguments: Any, keywords: Any) -> tuple[Graph, list[Any], list[Any]]:
    """An ATen operator with these arguments, its tensors being the inputs: the graph, the inputs,
    and torch's results that have an expression.
    """
    graph, tensors = fx.Graph(), []

    def placed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            node = graph.placeholder(f"x{len(tensors)}")
            node.meta["val"] = value
            return node
        return type(value)(placed(v) for v in value) if isinstance(value, (list, tuple)) else value

    target = find_operator(name)
    call = graph.create_node(
        "call_function",
        target,
        placed(tuple(arguments)),
        {k: placed(v) for k, v in keywords.items()},
    )
    call.meta["val"] = result = target(*arguments, **keywords)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    wanted = [k for k, value in enumerate(results) if expressible(name, k, value)]
    outputs = (
        [call]
        if results[0] is result
        else [graph.call_function(operator.getitem, (call, k)) for k in wanted]
    )
    for node, k in zip(outputs, wanted):
        node.meta["val"] = results[k]
    graph.output(tuple(outputs))
    return load_fx(fx.GraphModule({}, graph), tensors), tensors, [results[k] for k in wanted]


def expressible(name: str, position: int, value: Any) -> bool:
    """Operators of several parts give all of them; the others values first, then what is for
    gradients, or places.
    """
    return position == 0 or name.startswith(
        ("split", "chunk", "unbind", "var_mean", "lstm", "gru", "rnn")
    )


def agree(name: str, arguments: Any, keywords: Any) -> Graph:
    """The graph of an operator, whose results are torch's."""
    graph, tensors, expected = graph_of(name, arguments, keywords)
    found = graph(*map(array_of, tensors))
    assert len(found) == len(expected)
    for array, tensor in zip(found, expected):
        same(array, tensor, f"{name}{tuple(arguments)}{keywords}")
    return graph


def same(array: Any, tensor: Any, label: str = "") -> None:
    """An array with a tensor's shape and elements: exactly for integers, else within what the dtype
    rounds.
    """
    wanted = array_of(tensor)
    assert array.shape == wanted.shape, f"{label}: shape {array.shape}, torch has {wanted.shape}"
    assert array.dtype == wanted.dtype, f"{label}: {array.dtype}, torch has {wanted.dtype}"
    if tensor.dtype in TOLERANCE:
        tolerance = TOLERANCE[tensor.dtype]
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
        np.testing.assert_allclose(
            array, wanted, rtol=tolerance, atol=tolerance * largest, err_msg=label
        )
    else:
        np.testing.assert_array_equal(array, wanted, err_msg=label)
