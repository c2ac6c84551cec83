"""Networks from wherever they come, as graphs: torch modules, ONNX files, programs (design §11)."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from typing import Any

import numpy as np

from einalg.errors import NotationError, ShapeError
from einalg.frontends.graph import Graph
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.random_inputs import random_arrays
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.runtime.direct_call import DirectCall, array_function

Array = np.ndarray[Any, Any]
Arguments = tuple[
    tuple[Any, ...], Mapping[str, Any]
]  # of a call: those in places, and those by name
LOG = logging.getLogger("einalg")


@dataclass(frozen=True)
class Network:
    """A graph, the arrays of its example inputs, and how it is called: `around(run, direct)` is a
    function like the model was.

    `itself` is the model as its framework runs it, None where only einalg can; `examples` are the
    arguments of a call. `signature` gives arguments that are given by name their places.
    `framework` says what the time of a call depends on there besides the graph.
    """

    graph: Graph
    arrays: list[Array] = field(repr=False)
    around: Callable[[Callable[..., Sequence[Array]], DirectCall | None], Callable[..., Any]] = (
        field(repr=False)
    )
    itself: Callable[..., Any] | None = field(default=None, repr=False)
    examples: Arguments = field(default=((), {}), repr=False)
    signature: Signature | None = field(default=None, repr=False)
    framework: str = ""

    def bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
        """The arguments of a call as those of the example are given; `ShapeError` for names that
        the model does not have.
        """
        return bound(self.signature or signature_of(self.graph), arguments, named)


def signature_of(graph: Graph) -> Signature:
    """How a graph is called: by the names that the framework has for its inputs where all of them
    are words, else by those of its tensors.
    """
    own = [tensor.name for tensor in graph.inputs]
    names = graph.names[0] if graph.names else own
    are_words = len(set(names)) == len(names) and all(
        name.isidentifier() and not iskeyword(name) for name in names
    )
    return Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in (names if are_words else own)]
    )


def bound(signature: Signature, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """Arguments in the places of a signature; `ShapeError` where they do not fit it."""
    try:
        found = signature.bind(*arguments, **named)
    except TypeError as error:
        raise ShapeError(
            f"the arguments do not fit: {error}\n  the inputs are {', '.join(signature.parameters)}"
        ) from None
    return found.args, found.kwargs


def network(model: Any, example_inputs: Any = None) -> Network:
    """A model with the inputs of one call: a torch module, the path or content of an ONNX file, a
    program, a scope or a graph.

    `example_inputs` are the arguments of a module, or the arrays of anything else, in order, or by
    name in a dict. Of a program, the arrays of its weights are among them. None draws them where
    the model states all shapes, as a module does not. Raises `NotationError` for anything that is
    no model.
    """
    if isinstance(model, (Program, Scope)):
        return _of_program(as_program(model), example_inputs)
    if isinstance(model, Graph):
        return _of_graph(model, example_inputs)
    if isinstance(model, (str, bytes, os.PathLike)) or type(model).__name__ == "ModelProto":
        return _of_onnx(model, example_inputs)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_module(model, example_inputs)
    raise NotationError(
        f"{type(model).__name__} is no model\n  give a torch module, the path of an ONNX file, or a program"
    )


def plain(
    run: Callable[..., Sequence[Array]], direct: DirectCall | None = None
) -> Callable[..., Any]:
    """Arrays in order; a single array for a single output. What `direct` can read goes there."""

    def call(*arrays: Any) -> Any:
        results = run(*arrays)
        return results[0] if len(results) == 1 else tuple(results)

    return call if direct is None else array_function(direct, call)


def _named(names: Sequence[str], given: Any) -> dict[str, Array]:
    """Example inputs, in order or by name, by name; `ShapeError` where one is missing or too much."""
    if not isinstance(given, Mapping):
        arrays = [given] if isinstance(given, np.ndarray) else list(given or ())
        if len(arrays) != len(names):
            raise ShapeError(
                f"{len(names)} example inputs are expected ({', '.join(names)}), not {len(arrays)}"
            )
        given = dict(zip(names, arrays))
    missing = [name for name in names if name not in given]
    if missing:
        raise ShapeError(
            f"no example is given for input {missing[0]}\n  inputs: {', '.join(names)}"
        )
    return {name: np.asarray(given[name]) for name in names}


def _of_graph(graph: Graph, given: Any) -> Network:
    examples = random_arrays(graph.inputs) if given is None else given
    return Network(graph, list(_named([t.name for t in graph.inputs], examples).values()), plain)


def _of_program(program: Program, given: Any) -> Network:
    inputs = [tensor for tensor in program.inputs.values() if not is_weight(tensor)]
    examples = _named(list(program.inputs), random_arrays(inputs) if given is None else given)
    builder = GraphBuilder()
    for name, tensor in program.inputs.items():
        if is_weight(tensor):
            builder.weight(name, examples[name])
        else:
            builder.input(name, tensor.shape, tensor.dtype)
    builder.express("program", list(examples), program.outputs, lambda *_: program)
    graph = builder.graph(program.outputs)
    return Network(graph, [examples[t.name] for t in graph.inputs], plain)


def _of_onnx(source: Any, given: Any) -> Network:
    from einalg.frontends.onnx import load, random_inputs
    from einalg.frontends.onnx.nodes.model_file import read_model

    model = read_model(source)
    names = list(random_inputs.declared(model))
    named = _named(names, random_inputs.drawn_inputs(model) if given is None else given)
    arrays = list(named.values())
    graph = load(model, named)
    session = _by_onnxruntime(model, named, graph)
    return Network(
        graph, arrays, plain, session, (tuple(arrays), {}), framework=_version_of("onnxruntime")
    )


def _by_onnxruntime(
    model: Any, examples: Mapping[str, Array], graph: Graph
) -> Callable[..., Any] | None:
    """A session of onnxruntime, called like the graph.

    None where it is not installed, cannot run the model on the examples, or might end the process.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    if any(getattr(node.call, "may_end_process", False) for node in graph.opaque):
        return None

    def call(*arrays: Any) -> Any:
        declared = [
            np.asarray(array, numpy_dtype(t.dtype))
            for t, array in zip(graph.inputs, graph.named_arrays(arrays).values())
        ]
        results = session.run(None, dict(zip(examples, declared)))
        return results[0] if len(results) == 1 else tuple(results)

    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        call(*examples.values())
    except Exception as error:  # whatever it raises, the model is run without it
        LOG.info("einalg: onnxruntime does not run the model: %s", error)
        return None
    return call


def _version_of(name: str) -> str:
    """A framework with its version; nothing where it is not loaded."""
    return f"{name} {sys.modules[name].__version__}" if name in sys.modules else ""


def _signature(function: Callable[..., Any]) -> Signature | None:
    """None for code that tells none, as compiled one."""
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None


def _of_module(module: Any, given: Any) -> Network:
    from einalg.frontends.torch import load_model

    torch = sys.modules["torch"]
    forward = _signature(module.forward)
    named = dict(given) if isinstance(given, Mapping) else {}
    arguments = (given,) if isinstance(given, torch.Tensor) else tuple(() if named else given or ())
    arguments, keywords = bound(forward, (), named) if named and forward else (arguments, named)
    model = load_model(module, arguments, keywords)

    def call(*given: Any, **named: Any) -> Any:
        with torch.no_grad():
            return module(*given, **named)

    framework = f"{_version_of('torch')} {torch.get_num_threads()} {type(module).__module__}.{type(module).__qualname__}"
    return Network(
        model.graph,
        list(model.arrays(arguments, keywords)),
        model.function,
        call,
        (arguments, keywords),
        forward,
        framework,
    )
