"""Networks from wherever they come, as graphs: torch modules, ONNX files, programs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.runtime import array_arguments
from einalg.errors import NotationError, ShapeError
from einalg.frontends.graph import Array, Graph
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.network import (
    Arguments,
    ChangeOfKind,
    FrameworkRun,
    Network,
    Original,
    bound,
)
from einalg.frontends.random_inputs import random_arrays
from einalg.frontends.reading import Exclusions, Reading
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.dtypes import dtype_name, numpy_dtype
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.options import PATH, Kind, accepting, optional
from einalg.runtime.direct_call import HOST, DirectCall, array_function
from einalg.text.wording import counted

if TYPE_CHECKING:
    from einalg.frontends.torch import Model

LOG = logging.getLogger("einalg")


def _are_examples(value: Any) -> bool:
    """Say whether a value may be the arrays of a call: by name, in order, or a single one."""
    if isinstance(value, (str, bytes)):
        return False
    return isinstance(value, Iterable) or hasattr(value, "__array__")


EXAMPLES = optional(
    Kind(
        "arrays in order, or by name in a dict",
        accepting(_are_examples),
        "e.g. {name}=[numpy.ones((8, 3), 'f4')]",
        ShapeError,
    )
)


def network(model: Any, example_inputs: Any = None) -> Network:
    """Return a model with the inputs of one call.

    The model is a torch module, the path or content of an ONNX file, a program, a scope or a graph.
    `example_inputs` are the arguments of a module, or the arrays of anything else, in order, or by
    name in a dict. Of a program, the arrays of its weights are among them. None draws them where
    the model states all shapes, as a module does not. Raises `NotationError` for anything that is
    no model.
    """
    if isinstance(model, (Program, Scope)):
        return _of_program(as_program(model), example_inputs)
    if isinstance(model, Graph):
        return _of_graph(model, example_inputs)
    if isinstance(model, (str, os.PathLike)):
        PATH.raising(NotationError).check("model", model)
    if isinstance(model, (str, bytes, os.PathLike)) or type(model).__name__ == "ModelProto":
        return _of_onnx(model, example_inputs)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_module(model, example_inputs)
    raise NotationError(
        f"{type(model).__name__} is no model\n"
        "  give a torch module, the path of an ONNX file, or a program"
    )


def plain(
    run: Callable[..., Sequence[Array]], direct: DirectCall | None = None
) -> Callable[..., Any]:
    """Arrays in order; a single array for a single output. What `direct` can read goes there."""

    def call(*arrays: Any) -> Any:
        return _one_or_all(run(*arrays))

    if direct is None or direct.device != HOST:
        return call
    return array_function(direct, call)


def as_called(graph: Graph) -> Callable[..., Callable[..., Any]]:
    """Return `plain` for a graph whose arrays have their axes as a call of the framework has."""
    if not graph.orders:
        return plain

    def around(
        run: Callable[..., Sequence[Array]], direct: DirectCall | None = None
    ) -> Callable[..., Any]:
        return plain(lambda *arrays: run(*graph.in_memory(arrays)))

    return around


def _one_or_all(results: Sequence[Any]) -> Any:
    """Return the only result as it is, several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def _named(names: Sequence[str], examples: Any) -> dict[str, Array]:
    """Return example inputs by name, where they are in order or by name.

    Raises `ShapeError` where one is missing or too much.
    """
    if not isinstance(examples, Mapping):
        examples = _in_order(names, examples)
    arrays = {}
    for name in names:
        if name not in examples:
            known = ", ".join(names)
            raise ShapeError(f"no example is given for input {name}\n  inputs: {known}")
        arrays[name] = _array(name, examples[name])
    return arrays


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except Exception as error:  # of rows of different lengths, or of a class that is not ours
        raise ShapeError(
            f"the example of input {name} cannot be read as an array: {error}\n  give an array"
        ) from None


def _in_a_list(examples: Any) -> list[Any]:
    """Return example inputs in order; a single array is one of them."""
    if examples is None:
        return []
    if hasattr(examples, "__array__"):
        return [examples]
    return list(examples)


def _in_order(names: Sequence[str], examples: Any) -> dict[str, Any]:
    arrays = _in_a_list(examples)
    if len(arrays) != len(names):
        expected = f"{len(names)} example inputs are expected ({', '.join(names)})"
        raise ShapeError(f"{expected}, not {len(arrays)}\n  give one array for each")
    return dict(zip(names, arrays))


def _require_fitting(tensors: Iterable[Tensor], examples: Mapping[str, Array]) -> None:
    """Raise `ShapeError` for an example of another shape or kind of elements than its tensor."""
    for tensor in tensors:
        array_arguments.load(tensor, examples[tensor.name])


def _of_graph(graph: Graph, example_inputs: Any) -> Network:
    if example_inputs is None:
        example_inputs = random_arrays(graph.inputs)
    examples = _named([tensor.name for tensor in graph.inputs], example_inputs)
    _require_fitting(graph.inputs, examples)
    return Network(graph, list(examples.values()), plain)


def _of_program(program: Program, example_inputs: Any) -> Network:
    if example_inputs is None:
        example_inputs = random_arrays([t for t in program.inputs.values() if not is_weight(t)])
    examples = _named(list(program.inputs), example_inputs)
    _require_fitting(program.inputs.values(), examples)
    builder = GraphBuilder()
    for name, tensor in program.inputs.items():
        if is_weight(tensor):
            builder.weight(name, examples[name])
        else:
            builder.input(name, tensor.shape, tensor.dtype)
    builder.express("program", list(examples), program.outputs, lambda *_: program)
    graph = builder.graph(program.outputs)
    return Network(graph, [examples[t.name] for t in graph.inputs], plain)


def _of_onnx(source: Any, example_inputs: Any) -> Network:
    from einalg.frontends.onnx import load, random_inputs
    from einalg.frontends.onnx.nodes.model_file import read_model

    model = read_model(source)
    names = list(random_inputs.input_types(model))
    if example_inputs is None:
        example_inputs = random_inputs.random_inputs(model)
    named = _named(names, example_inputs)
    return _of_onnx_graph(model, named, load(model, named))


def _of_onnx_graph(model: Any, named: Mapping[str, Array], graph: Graph) -> Network:
    from einalg.frontends.onnx.load import load_again
    from einalg.frontends.onnx.nodes.session import session

    arrays = tuple(named.values())
    itself = _by_onnxruntime(model, named, graph)
    framework, original = version_of("onnxruntime"), None
    if itself is not None:
        framework += f", {_session_in_words()}"

        def again(excluded: Exclusions) -> tuple[Network, Reading]:
            reading = load_again(model, named, excluded, session)
            return _of_onnx_graph(model, named, reading.graph), reading

        original = Original(
            "onnxruntime",
            again,
            lambda change: (tuple(_changed_array(change, array) for array in arrays), {}),
            lambda arguments: list(graph.named_arrays(arguments[0]).values()),
            lambda result: [(array, _kind(array)) for array in _in_row(result)],
        )
    return Network(
        graph, list(arrays), plain, itself, (arrays, {}), framework=framework, original=original
    )


def _session_in_words() -> str:
    from einalg.frontends.onnx.nodes.session import RUNTIMES_CHOICE, session_threads

    threads = session_threads()
    if threads == RUNTIMES_CHOICE:
        return "threads of its choice"
    return counted(threads, "thread")


def _changed_array(change: ChangeOfKind, array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    return change(array, _kind(array))


def _kind(array: Any) -> str:
    """Return the element type of an array, and of one that has none here its name."""
    try:
        return dtype_name(array.dtype)
    except ShapeError:
        return str(array.dtype)


def _in_row(result: Any) -> list[Array]:
    if isinstance(result, tuple):
        return [np.asarray(array) for array in result]
    return [np.asarray(result)]


def _by_onnxruntime(
    model: Any, examples: Mapping[str, Array], graph: Graph
) -> Callable[..., Any] | None:
    """Return a session of onnxruntime, called like the graph.

    None where it is not installed, cannot run the model on the examples, or might end the process.
    """
    from einalg.frontends.onnx.nodes.model_file import onnxruntime_package
    from einalg.frontends.onnx.nodes.session import session

    if onnxruntime_package() is None:
        return None
    if any(getattr(node.call, "may_end_process", False) for node in graph.opaque):
        return None

    def call(*arrays: Any) -> Any:
        inputs = {}
        values = graph.named_arrays(arrays).values()
        for name, tensor, array in zip(examples, graph.inputs, values):
            inputs[name] = np.asarray(array, numpy_dtype(tensor.dtype))
        return _one_or_all(run(inputs))

    try:
        run = session(model)
        call(*examples.values())
    except Exception as error:  # whatever it raises, the model is run without it
        LOG.info("einalg: onnxruntime does not run the model: %s", error)
        return None
    return call


def version_of(name: str) -> str:
    """Return a framework with its version; nothing where it is not loaded."""
    if name not in sys.modules:
        return ""
    return f"{name} {sys.modules[name].__version__}"


def _signature(function: Callable[..., Any]) -> Signature | None:
    """Return the signature of a function; None for code that tells none, as compiled one."""
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None


def _of_module(module: Any, inputs: Any) -> Network:
    from einalg.frontends.torch import load_model
    from einalg.frontends.torch.devices import PlacedModule

    torch = sys.modules["torch"]
    forward = _signature(module.forward)
    given = PlacedModule(module, _module_arguments(inputs, forward, torch.Tensor))
    host = given.on_host()
    model = load_model(host.module, *host.arguments)
    kind = type(module)
    name = f"{kind.__module__}.{kind.__qualname__}"
    framework = f"{version_of('torch')} {torch.get_num_threads()} {name}"
    return torch_network(model, host, host.arguments, forward, framework, given.run_for)


def torch_network(
    model: Model,
    call: Callable[..., Any],
    examples: Arguments,
    forward: Signature | None = None,
    framework: str = "",
    run_for: Callable[[str], FrameworkRun] | None = None,
) -> Network:
    """Return a model of torch, which torch itself runs by `call(*arguments, **keywords)`.

    `run_for(target)` is how a user runs it, where that is another call.
    """
    from einalg.frontends.torch.nodes.tensors import arrays_and_types, changed_tensors

    arguments, keywords = examples
    original = None
    if model.again is not None:
        read_again = model.again

        def again(excluded: Exclusions) -> tuple[Network, Reading]:
            other, reading = read_again(excluded)
            return torch_network(other, call, examples, forward, framework, run_for), reading

        original = Original(
            "torch",
            again,
            partial(changed_tensors, examples),
            lambda inputs: model.arrays(*inputs),
            arrays_and_types,
        )
    return Network(
        model.graph,
        list(model.arrays(arguments, keywords)),
        model.function,
        call,
        examples,
        forward,
        framework,
        original,
        model.read_ahead,
        run_for,
    )


def _module_arguments(examples: Any, forward: Signature | None, tensor_class: type) -> Arguments:
    """Return example inputs as the arguments of a module's call: those in places, then by name."""
    if isinstance(examples, tensor_class):
        return (examples,), {}
    if not isinstance(examples, Mapping) or not examples:
        return tuple(_in_a_list(examples)), {}
    named = dict(examples)
    return bound(forward, (), named) if forward else ((), named)
