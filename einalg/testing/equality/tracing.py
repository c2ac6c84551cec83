"""The expression of a torch function: what torch traces it to, where all of it can be expressed."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from derive.proof import PROVED, prove
from einalg.frontends.graph import Graph, ProgramNode
from einalg.language.ir.program import Program, substitute_tensors
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.constant import constant
from einalg.testing.equality.problem import Problem, named_like
from einalg.testing.input_values import values
from einalg.testing.subject import TORCH, Subject

LOG = logging.getLogger("einalg")
MAX_CONSTANTS = 4096  # elements of weights that become part of an expression
MAX_ELEMENTS = 2**16  # of all inputs


def is_proved(subject: Subject, problem: Problem) -> bool:
    """Tell whether a torch function is proved equal to an expression, as torch traces it.

    The proof is about what is traced for the shapes of the inputs: it takes torch's operators for
    what they are documented to be.
    """
    if subject.library != TORCH or sum(_sizes(problem)) > MAX_ELEMENTS:
        return False
    names = {name: f"argument_{place}" for place, name in enumerate(problem.order)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = _traced(subject.function, problem)
        if traced is None:
            return False
        return prove(traced, named_like(problem.program, names)).verdict == PROVED
    except Exception as error:  # of torch, or of the function, which is called with no values
        LOG.debug("einalg: %s has no expression: %s", subject.name, error)
        return False


def _sizes(problem: Problem) -> list[int]:
    return [int(np.prod(tensor.shape)) for tensor in problem.tensors]


def _traced(function: Callable[..., Any], problem: Problem) -> Program | None:
    """Return a function as a program of inputs `argument_0`, …; None where it is more than that."""
    from einalg.frontends.torch import load

    torch = sys.modules[TORCH]
    module = function
    if not isinstance(function, torch.nn.Module):

        class Traced(torch.nn.Module):
            def forward(self, *arguments: Any) -> Any:
                return function(*arguments)

        module = Traced().eval()
    subject = Subject(function, TORCH)
    examples = [
        subject.argument(values(tensor, "positive", place), tensor.dtype)
        for place, tensor in enumerate(problem.tensors)
    ]
    with torch.no_grad():
        graph = load(module, examples).merged()
    return _as_program(graph, len(examples))


def _as_program(graph: Graph, count: int) -> Program | None:
    """Return a graph that is one program, with its weights as constants."""
    if len(graph.nodes) != 1 or len(graph.inputs) != count:
        return None
    (node,) = graph.nodes
    if not isinstance(node, ProgramNode) or not set(graph.outputs) <= set(node.program.names):
        return None
    tensors: dict[str, Any] = {}
    for place, tensor in enumerate(graph.inputs):
        tensors[tensor.name] = Tensor(f"argument_{place}", tensor.axes, tensor.dtype, tensor.role)
    for name, array in graph.weights.items():
        if name in node.program.inputs:
            if array.size > MAX_CONSTANTS:
                return None
            tensors[name] = constant(name, array)
    statements = []
    for name, scope in node.program.statements:
        statements.append((name, substitute_tensors(scope, tensors)))
    return Program(statements, graph.outputs)
