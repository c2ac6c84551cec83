"""What libraries make of a case: torch in its forms, ONNX Runtime and OpenVINO, weights known ahead for everybody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench.kernel_cases import Array, Arrays, Case
from codegen.libraries import Buffers, Run, numpy_library
from codegen.libraries.band_library import BINDINGS as BANDS
from derive.matching import match
from einalg.program import Program

Call = Callable[[], Any]
PACKAGES = {"torch": "torch", "onnxruntime": "onnxruntime", "onnx": "onnx", "openvino": "openvino"}


def missing() -> list[str]:
    """The packages that are not installed here, whose columns are left out."""
    return [name for name, module in PACKAGES.items() if find_spec(module) is None]


def rivals(case: Case, arrays: Arrays, threads: int, without: Sequence[str] = ()) -> Iterator[tuple[str, Call, Callable[[], Array]]]:
    """Each library's name, its call, and the result of it in the expression's layout; what cannot run a case is left out, and `without`."""
    given = case.given(arrays)
    makers: list[tuple[str, Callable[[], tuple[Call, Callable[[Any], Array]]]]] = [("numpy", lambda: _numpy(case, arrays))]
    if find_spec("torch"):
        makers += [(name, lambda make=make: (make(case, given), _array)) for name, make in TORCH.items()]
        makers += [("openvino", lambda: _openvino(case, given, threads))] if find_spec("openvino") else []
    if find_spec("onnxruntime") and find_spec("onnx") and case.onnx:
        makers.append(("onnxruntime", lambda: _onnxruntime(case, given, threads)))
    for name, make in makers:
        if name in without or name.split(",")[0] in without:
            continue
        try:
            call, read = make()
            call()
        except Exception as error:  # whatever a library raises
            logging.getLogger("einalg").info("bench: %s does not run %s: %s", name, case.name, error)
            continue
        through = case.result if name != "numpy" else _unchanged
        yield name, call, lambda call=call, read=read, through=through: through(read(call()))


def _unchanged(array: Array) -> Array:
    return array


def _array(tensor: Any) -> Array:
    return np.asarray(tensor)


def _numpy(case: Case, arrays: Arrays) -> tuple[Call, Callable[[Any], Array]]:
    if isinstance(case.expression, Program):
        raise NotImplementedError("a program of several statements")
    kernel = match(case.expression, "O")
    binding = {**numpy_library.BINDINGS, **BANDS}.get(kernel.op) if kernel else None
    run: Run | None = binding(kernel, case.expression) if binding and kernel else None
    if run is None:
        raise NotImplementedError("no operator of NumPy")
    buffers: Buffers = {**arrays, "O": np.empty(case.expression.shape, np.float32)}
    return lambda: run(buffers), lambda _: buffers["O"]


# torch.


def _module(case: Case, given: Arrays, last: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """A module with the weights as parameters, and its inputs."""
    import torch

    form = torch.channels_last if last else torch.contiguous_format

    def tensor(array: Array) -> Any:
        found = torch.from_numpy(array.copy())
        return found.contiguous(memory_format=form) if found.ndim == 4 else found

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in case.weights:
                setattr(self, name, torch.nn.Parameter(tensor(given[name]), requires_grad=False))

        def forward(self, *inputs: Any) -> Any:
            names = [name for name in given if name not in case.weights]
            return case.torch(torch, **dict(zip(names, inputs)), **{name: getattr(self, name) for name in case.weights})

    return Module().eval(), tuple(tensor(array) for name, array in given.items() if name not in case.weights)


def _eager(case: Case, given: Arrays, last: bool = False) -> Call:
    import torch

    module, inputs = _module(case, given, last)

    def call() -> Any:
        with torch.inference_mode():
            return module(*inputs)

    return call


def _channels_last(case: Case, given: Arrays) -> Call:
    if not any(array.ndim == 4 for array in given.values()):
        raise NotImplementedError("no images")
    return _eager(case, given, True)


def _frozen(case: Case, given: Arrays) -> Call:
    import torch

    module, inputs = _module(case, given)
    with torch.no_grad():
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, inputs)))

    def call() -> Any:
        with torch.inference_mode():
            return frozen(*inputs)

    call()  # compiles
    return call


def _compiled(case: Case, given: Arrays) -> Call:
    import torch
    from torch._inductor import config

    config.freezing = True  # in a process of its own
    module, inputs = _module(case, given)
    compiled = torch.compile(module)

    def call() -> Any:
        with torch.inference_mode():
            return compiled(*inputs)

    call()  # compiles
    return call


TORCH = {"torch": _eager, "torch, channels last": _channels_last, "torch, frozen": _frozen, "torch.compile": _compiled}


# Other runtimes.


def _onnxruntime(case: Case, given: Arrays, threads: int) -> tuple[Call, Callable[[Any], Array]]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    assert case.onnx is not None
    operator, attributes = case.onnx
    inputs = {name: array for name, array in given.items() if name not in case.weights}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()]
    out = helper.make_tensor_value_info("result", TensorProto.FLOAT, [None] * len(case.expression.shape))
    stored = [numpy_helper.from_array(given[name], name) for name in case.weights]
    node = helper.make_node(operator, list(given), ["result"], **attributes)
    model = helper.make_model(helper.make_graph([node], "case", values, [out], stored), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept: Sequence[Any] = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()]
    for name, value in zip(inputs, kept):
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("result")

    def call() -> Any:
        session.run_with_iobinding(binding)
        return kept  # the inputs must live as long as the binding

    return call, lambda _: binding.copy_outputs_to_cpu()[0]


def _openvino(case: Case, given: Arrays, threads: int) -> tuple[Call, Callable[[Any], Array]]:
    import openvino

    module, inputs = _module(case, given)
    model = openvino.convert_model(module, example_input=inputs)
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    for place, value in zip(model.inputs, inputs):
        place.get_node().set_partial_shape(openvino.PartialShape(list(value.shape)))
    model.validate_nodes_and_infer_types()
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    for number, value in enumerate(inputs):
        request.set_input_tensor(number, openvino.Tensor(value.numpy(), shared_memory=True))

    def call() -> Any:
        request.infer()
        return request, inputs  # whose memory the request reads

    return call, lambda made: made[0].get_output_tensor(0).data.copy()
