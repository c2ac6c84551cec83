"""Nodes that stay calls: a model of one node, run by onnxruntime where it is installed, else by the onnx package."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from einalg.errors import EinalgError
from einalg.frontends.onnx.nodes.model_file import onnx_package, onnxruntime_package
from einalg.frontends.onnx.nodes.values import Value, element_of

logger = logging.getLogger(__name__)
OLDEST_IR = 8  # from which on initializers need not be inputs
QUIET = 4  # fatal errors only
FATAL = ("LSTM", "GRU")  # with which onnxruntime ends the process where an input has no elements


class OnnxCall:
    """`call(*arrays)`: the outputs of one node, for its inputs that are not known yet.

    `values` are those that the node reads, by the names that it has for them. Nothing is prepared before the first call. It
    can be pickled.
    """

    def __init__(
        self,
        node: Any,
        opsets: Mapping[str, int],
        values: Mapping[str, Value],
        functions: Sequence[Any] = (),
    ):
        self._node, self._opsets, self._functions = (
            node.SerializeToString(),
            dict(opsets),
            [f.SerializeToString() for f in functions],
        )
        self._operator = node.op_type
        self._reads = [
            (name, None if v.type is None else v.type.SerializeToString())
            for name, v in values.items()
            if not v.is_known
        ]
        self._constants = [(name, v.array) for name, v in values.items() if v.is_known]
        self._sized = all(
            value.shape is not None and 0 not in value.shape for value in values.values()
        )
        self._run: Any = None

    @property
    def may_end_process(self) -> bool:
        """Whether it is an operator with which onnxruntime does that for some arrays, which may be those that are given."""
        return self._operator in FATAL and not self._sized

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs that the node names, in order."""
        given = {
            name: self._as_declared(array, kind)
            for (name, kind), array in zip(self._reads, arrays, strict=True)
        }
        try:
            if self.may_end_process and any(
                np.size(array) == 0
                for array in (*given.values(), *(array for _, array in self._constants))
            ):
                run = self._evaluated(given)
            else:
                run = self._run = self._run or self._prepared(given)
            with np.errstate(all="ignore"):
                return [_plain(value) for value in run(given)]
        except Exception as error:  # whatever the framework raises
            raise EinalgError(f"{self._operator} could not be computed: {error}") from error

    @staticmethod
    def _as_declared(array: Any, kind: bytes | None) -> Any:
        if kind is None or not isinstance(array, (np.ndarray, np.generic)):
            return array
        onnx = onnx_package()
        element = element_of(onnx.TypeProto.FromString(kind))
        return (
            np.asarray(array, onnx.helper.tensor_dtype_to_np_dtype(element))
            if element and element != onnx.TensorProto.STRING
            else np.asarray(array)
        )

    def _prepared(self, given: dict[str, Any]) -> Any:
        """A function from arrays by name to outputs: onnxruntime's if it can run the node on these, else onnx's own."""
        model = self._model(given)
        runtime = onnxruntime_package()
        if runtime is not None:
            try:
                options = runtime.SessionOptions()
                options.log_severity_level = QUIET
                session = runtime.InferenceSession(
                    model.SerializeToString(), options, providers=["CPUExecutionProvider"]
                )
                session.run(None, given)
                return lambda arrays: session.run(None, arrays)
            except Exception as error:
                logger.debug("onnxruntime does not take %s: %s", self._operator, error)
        return self._evaluated(given)

    def _evaluated(self, given: dict[str, Any]) -> Any:
        """A function from arrays by name to outputs, as the onnx package computes them."""
        evaluator = onnx_package().reference.ReferenceEvaluator(self._model(given))
        return lambda arrays: evaluator.run(None, arrays)

    def _model(self, given: dict[str, Any]) -> Any:
        onnx = onnx_package()
        node = onnx.NodeProto.FromString(self._node)
        inputs = [
            onnx.helper.make_value_info(name, self._type(kind, given[name]))
            for name, kind in self._reads
        ]
        outputs = [
            onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name
        ]
        stored = [onnx.numpy_helper.from_array(array, name) for name, array in self._constants]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs, stored)
        opsets = [
            onnx.helper.make_opsetid(domain, version) for domain, version in self._opsets.items()
        ]
        functions = [onnx.FunctionProto.FromString(f) for f in self._functions]
        ir = max(OLDEST_IR, onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True))
        return onnx.helper.make_model(
            graph, opset_imports=opsets, functions=functions, ir_version=ir
        )

    @staticmethod
    def _type(kind: bytes | None, array: Any) -> Any:
        """The declared type; where none is declared, that of the array."""
        onnx = onnx_package()
        declared = onnx.TypeProto.FromString(kind) if kind else None
        if declared is not None and (not declared.HasField("tensor_type") or element_of(declared)):
            return declared
        return onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), None
        )


def _plain(value: Any) -> Any:
    """A value of the framework as arrays hold it here: bfloat16 as f32."""
    if isinstance(value, (list, dict)) or value is None:
        return value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
