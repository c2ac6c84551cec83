"""Libraries on a case or a torch module: torch in its forms, ONNX Runtime and OpenVINO.

Weights are constant for all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.kernel_cases import Array, Arrays, Case
from codegen.libraries import numpy
from codegen.libraries.banded import BINDINGS as BANDS
from codegen.runtime.protocol import Buffers, KernelFunction
from derive.matching import match
from einalg.language.ir.program import Program

Call = Callable[[], Any]
Made = tuple[Call, Callable[[Any], list[Array]]]  # a call, and what makes arrays of what it returns
Maker = Callable[[], Made]
Rival = tuple[str, Call, Callable[[], Array]]  # a name, a call, and what returns its result
Tensors = tuple[Any, ...]
MAX_REASON_CHARACTERS = 160
PACKAGES = {"torch": "torch", "onnxruntime": "onnxruntime", "onnx": "onnx", "openvino": "openvino"}


def missing() -> list[str]:
    """The packages that are not installed here, whose columns are left out."""
    return [name for name, module in PACKAGES.items() if find_spec(module) is None]


def versions() -> dict[str, str]:
    """Those of the packages that are installed here."""
    return {name: version(name) for name, module in PACKAGES.items() if find_spec(module)}


def rivals(
    case: Case, arrays: Arrays, threads: int, without: Sequence[str] = (), exports: bool = False
) -> Iterator[Rival]:
    """Yield each library's name, its call, and a function of its result in the expression's layout.

    What cannot run a case is left out, and so are the names in `without`. Where it `exports`, ONNX
    Runtime has torch's module of a case that is no operator of ONNX.
    """
    tensors = case.given(arrays)
    copies = {name: array.copy() for name, array in arrays.items()}
    makers: dict[str, Maker] = {"numpy": lambda: _numpy(case, copies)}
    if find_spec("torch"):
        module, given = module_of(case, tensors)
        makers |= of_module(module, given, threads)
        if exports:
            makers["onnxruntime"] = lambda: session(*exported(module, given), threads)
    if case.onnx:
        inputs = {name: array for name, array in tensors.items() if name not in case.weights}
        makers["onnxruntime"] = lambda: session(_node(case, tensors), inputs, threads)
    left_out: dict[str, str] = {}
    for name, call, read in running(makers, without, left_out):
        through = case.result
        if name == "numpy":
            through = _unchanged
        yield name, call, lambda read=read, through=through: through(read()[0])
    for name, reason in left_out.items():
        logging.getLogger("einalg").info("bench: %s does not run %s: %s", name, case.name, reason)


def running(
    makers: Mapping[str, Maker],
    without: Sequence[str],
    left_out: dict[str, str],
    trying: Callable[[str], Any] = lambda name: None,
) -> Iterator[tuple[str, Call, Callable[[], list[Array]]]]:
    """Yield what can be made and runs once: its name, its call and a function of the results.

    `left_out` gets the reasons of others. `trying` is called with the name before, and with ""
    after: some library may never come back.
    """
    for name, make in makers.items():
        if name in without or name.split(",")[0] in without:
            continue
        trying(name)
        try:
            call, read = make()
            call()
        except Exception as error:  # whatever a library raises
            left_out[name] = reason(error) or type(error).__name__
            continue
        finally:
            trying("")
        yield name, call, lambda call=call, read=read: read(call())


def reason(error: BaseException) -> str:
    """Return the first line of an error, shortened, with files without folders.

    >>> reason(ValueError("bad tensor in /usr/lib/torch/nn.py:5"))
    'bad tensor in nn.py:5'
    """
    line = next(iter(str(error).strip().splitlines()), "")
    return re.sub(r"(?<![\w.])/(?:[^\s/:]+/)+", "", line)[:MAX_REASON_CHARACTERS]


def of_module(module: Any, inputs: Tensors, threads: int) -> dict[str, Maker]:
    """The libraries that run a torch module on such inputs, but for ONNX Runtime.

    Each has inputs of its own: none finds in a cache what the one before it has read.
    """

    runs: dict[str, Callable[[], Call]] = {
        "torch": lambda: eager(module, deepcopy(inputs)),
        "torch, channels last": lambda: eager(*channels_last(module, inputs)),
        "torch, frozen": lambda: frozen(module, deepcopy(inputs)),
        "torch.compile": lambda: compiled(module, deepcopy(inputs)),
    }
    makers: dict[str, Maker] = {
        name: lambda make=make: (make(), arrays_of) for name, make in runs.items()
    }
    return {**makers, "openvino": lambda: request(module, inputs, threads)}


def _unchanged(array: Array) -> Array:
    return array


def arrays_of(results: Any) -> list[Array]:
    """One tensor, or several, as arrays."""
    if not isinstance(results, (list, tuple)):
        results = [results]
    return [np.asarray(tensor) for tensor in results]


def _numpy(case: Case, arrays: Arrays) -> Made:
    if isinstance(case.expression, Program):
        raise NotImplementedError("a program of several statements")
    kernel = match(case.expression, "O")
    binding = {**numpy.BINDINGS, **BANDS}.get(kernel.op) if kernel else None
    run: KernelFunction | None = binding(kernel, case.expression) if binding and kernel else None
    if run is None:
        raise NotImplementedError("no operator of NumPy")
    buffers: Buffers = {**arrays, "O": np.empty(case.expression.shape, np.float32)}
    return lambda: run(buffers), lambda _: [buffers["O"]]


# torch.


def module_of(case: Case, tensors: Arrays) -> tuple[Any, Tensors]:
    """A module with the weights as parameters, and its inputs."""
    import torch

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in case.weights:
                setattr(
                    self,
                    name,
                    torch.nn.Parameter(
                        torch.from_numpy(tensors[name].copy()).contiguous(), requires_grad=False
                    ),
                )

        def forward(self, *inputs: Any) -> Any:
            names = [name for name in tensors if name not in case.weights]
            return case.torch(
                torch,
                **dict(zip(names, inputs)),
                **{name: getattr(self, name) for name in case.weights},
            )

    return Module().eval(), tuple(
        torch.from_numpy(array.copy()).contiguous()
        for name, array in tensors.items()
        if name not in case.weights
    )


def eager(module: Any, inputs: Tensors) -> Call:
    import torch

    def call() -> Any:
        with torch.inference_mode():
            return module(*inputs)

    return call


def channels_last(module: Any, inputs: Tensors) -> tuple[Any, Tensors]:
    """A copy of the module, and the inputs, with the channels of images and filters last."""
    import torch

    if not any(tensor.ndim == 4 for tensor in (*module.parameters(), *inputs)):
        raise NotImplementedError("no images")
    form = torch.channels_last
    return deepcopy(module).to(memory_format=form), tuple(
        x.contiguous(memory_format=form) if x.ndim == 4 else x for x in inputs
    )


def frozen(module: Any, inputs: Tensors) -> Call:
    import torch

    with torch.no_grad():
        traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, inputs)))
    call = eager(traced, inputs)
    call()  # compiles
    return call


def compiled(module: Any, inputs: Tensors) -> Call:
    import torch
    from torch._inductor import config

    config.freezing = True  # in a process of its own
    # Modules of one class would meet the limit of recompilations, and then not be compiled.
    torch.compiler.reset()
    call = eager(torch.compile(module), inputs)
    call()  # compiles
    return call


# Other runtimes.


def _node(case: Case, tensors: Arrays) -> bytes:
    """A case that is one ONNX operator as a model, with its weights."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    assert case.onnx is not None
    operator, attributes = case.onnx
    inputs = {name: array for name, array in tensors.items() if name not in case.weights}
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in inputs.items()
    ]
    out = helper.make_tensor_value_info(
        "result", TensorProto.FLOAT, [None] * len(case.expression.shape)
    )
    stored = [numpy_helper.from_array(tensors[name], name) for name in case.weights]
    node = helper.make_node(operator, list(tensors), ["result"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "case", values, [out], stored),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


def exported(module: Any, inputs: Tensors) -> tuple[bytes, Arrays]:
    """A torch module as an ONNX model, and its inputs by name."""
    import torch

    names = [f"input{number}" for number in range(len(inputs))]
    with torch.no_grad(), TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, inputs, path, input_names=names, opset_version=17, dynamo=False)
        return path.read_bytes(), {name: x.numpy() for name, x in zip(names, inputs)}


def session(model: bytes, inputs: Arrays, threads: int) -> Made:
    """An ONNX model in ONNX Runtime, whose inputs and outputs stay where they are."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    runtime = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = runtime.io_binding()
    bound_inputs: Sequence[Any] = [
        onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()
    ]
    for name, value in zip(inputs, bound_inputs):
        binding.bind_ortvalue_input(name, value)
    for output in runtime.get_outputs():
        binding.bind_output(output.name)

    def call() -> Any:
        runtime.run_with_iobinding(binding)
        return bound_inputs  # the inputs must live as long as the binding

    return call, lambda _: binding.copy_outputs_to_cpu()


def request(module: Any, inputs: Tensors, threads: int) -> Made:
    """A torch module in OpenVINO."""
    import openvino

    return asked(
        openvino.convert_model(module, example_input=inputs), [x.numpy() for x in inputs], threads
    )


def asked(model: Any, inputs: Sequence[Array], threads: int) -> Made:
    """A model of OpenVINO as a request that reads the memory of the inputs."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    for place, value in zip(model.inputs, inputs):
        place.get_node().set_partial_shape(openvino.PartialShape(list(value.shape)))
    model.validate_nodes_and_infer_types()
    made = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for number, value in enumerate(inputs):
        made.set_input_tensor(number, openvino.Tensor(value, shared_memory=True))

    def call() -> Any:
        made.infer()
        return made, inputs  # whose memory the request reads

    return call, lambda _: [
        made.get_output_tensor(number).data.copy() for number in range(len(model.outputs))
    ]
