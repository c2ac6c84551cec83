"""Nodes that stay calls: models of one node, run by onnxruntime or else by the onnx package."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from einalg.errors import EinalgError
from einalg.frontends.graph import unique_name
from einalg.frontends.onnx.nodes.model_file import onnx_package, onnxruntime_package
from einalg.frontends.onnx.nodes.session import session
from einalg.frontends.onnx.nodes.values import Value, element_of
from einalg.storage.fingerprint import array_digest, text_digest

logger = logging.getLogger(__name__)
MIN_IR_VERSION = 8  # from which on initializers need not be inputs
# Operators with which onnxruntime ends the process where an input has no elements.
ENDING_PROCESS = ("LSTM", "GRU")


class OnnxCall:
    """One node as a function `call(*arrays)` of its inputs that are not constant.

    `values` are those that the node reads, by the names that it has for them. Nothing is prepared
    before the first call. It can be pickled.
    """

    def __init__(
        self,
        node: Any,
        opsets: Mapping[str, int],
        values: Mapping[str, Value],
        functions: Sequence[Any] = (),
    ):
        self._node, self._operator = node.SerializeToString(), node.op_type
        self._opsets = dict(opsets)
        self._functions = [function.SerializeToString() for function in functions]
        self._reads: list[tuple[str, bytes | None]] = []
        self._constants: list[tuple[str, Any]] = []
        self._has_elements = True  # all inputs, as far as that is declared
        for name, value in values.items():
            if value.is_constant:
                self._constants.append((name, value.array))
            else:
                self._reads.append((name, _serialized(value.type)))
            if value.shape is None or 0 in value.shape:
                self._has_elements = False
        self._run: Any = None

    @property
    def may_end_process(self) -> bool:
        """Whether onnxruntime may end the process for some arrays."""
        return self._operator in ENDING_PROCESS and not self._has_elements

    def identity(self) -> str:
        """Return a digest of the node, what it reads, and its constants."""
        rows = [*self._functions, self._node, *(kind or b"" for _, kind in self._reads)]
        names = [self._opsets, [name for name, _ in self._reads]]
        return text_digest(str(names), *map(bytes.hex, rows), array_digest(self._constants))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the outputs that the node names, in order."""
        return self._outputs(arrays, self._runtime)

    def by_definition(self, *arrays: Any) -> list[Any]:
        """Return the outputs as the onnx package computes them, which defines the operators."""
        return self._outputs(arrays, self._evaluator)

    def _outputs(
        self, arrays: Sequence[Any], prepare: Callable[[dict[str, Any]], Any]
    ) -> list[Any]:
        inputs: dict[str, Any] = {}
        for (name, kind), array in zip(self._reads, arrays, strict=True):
            inputs[name] = self._as_declared(array, kind)
        try:
            run = prepare(inputs)
            with np.errstate(all="ignore"):
                return [_plain(value) for value in run(inputs)]
        except Exception as error:  # whatever the framework raises
            raise EinalgError(
                f"{self._operator} could not be computed: {error}\n  give other inputs"
            ) from error

    def _runtime(self, inputs: dict[str, Any]) -> Any:
        """Return what runs the node: the same at every call, unless that may end the process."""
        if self.may_end_process and self._any_is_empty(inputs):
            return self._evaluator(inputs)
        self._run = self._run or self._prepare(inputs)
        return self._run

    def _any_is_empty(self, inputs: Mapping[str, Any]) -> bool:
        arrays = [*inputs.values(), *(array for _, array in self._constants)]
        return any(np.size(array) == 0 for array in arrays)

    @staticmethod
    def _as_declared(array: Any, kind: bytes | None) -> Any:
        if kind is None or not isinstance(array, (np.ndarray, np.generic)):
            return array
        onnx = onnx_package()
        element = element_of(onnx.TypeProto.FromString(kind))
        if not element or element == onnx.TensorProto.STRING:
            return np.asarray(array)
        return np.asarray(array, onnx.helper.tensor_dtype_to_np_dtype(element))

    def _prepare(self, inputs: dict[str, Any]) -> Any:
        """Return a function from arrays by name to outputs.

        It is onnxruntime's if that can run the node on these inputs, else the onnx package's.
        """
        model = self._model(inputs)
        if onnxruntime_package() is not None:
            try:
                run = session(model, is_silent=True)
                run(inputs)
                return run
            except Exception as error:
                logger.debug("onnxruntime does not take %s: %s", self._operator, error)
        return self._evaluator(inputs)

    def _evaluator(self, inputs: dict[str, Any]) -> Any:
        """Return a function from arrays by name to outputs that the onnx package computes."""
        evaluator = onnx_package().reference.ReferenceEvaluator(self._model(inputs))
        return lambda arrays: evaluator.run(None, arrays)

    def _model(self, inputs: dict[str, Any]) -> Any:
        onnx = onnx_package()
        node = onnx.NodeProto.FromString(self._node)
        reads: list[Any] = []
        for name, kind in self._reads:
            reads.append(onnx.helper.make_value_info(name, self._type(kind, inputs[name])))
        outputs: list[Any] = []
        for name in filter(None, node.output):
            outputs.append(onnx.helper.make_value_info(name, onnx.TypeProto()))
        self._name_all_outputs(node)
        stored = [onnx.numpy_helper.from_array(array, name) for name, array in self._constants]
        graph = onnx.helper.make_graph([node], "node", reads, outputs, stored)
        opsets = [onnx.helper.make_opsetid(*entry) for entry in self._opsets.items()]
        functions = [onnx.FunctionProto.FromString(content) for content in self._functions]
        version = onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        return onnx.helper.make_model(
            graph,
            opset_imports=opsets,
            functions=functions,
            ir_version=max(MIN_IR_VERSION, version),
        )

    @staticmethod
    def _name_all_outputs(node: Any) -> None:
        """Name the outputs that nobody reads of a node with a graph inside: a loop, a branch.

        Runtimes compute all of them, and refuse one without a name.
        """
        if not any(attribute.HasField("g") for attribute in node.attribute):
            return
        used = {*node.input, *node.output}
        for position, name in enumerate(node.output):
            if not name:
                node.output[position] = unique_name("unread", used)
                used.add(node.output[position])

    @staticmethod
    def _type(kind: bytes | None, array: Any) -> Any:
        """Return the declared type; where none is declared, that of the array."""
        onnx = onnx_package()
        if kind:
            declared = onnx.TypeProto.FromString(kind)
            if not declared.HasField("tensor_type") or element_of(declared):
                return declared
        return onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), None
        )


def _serialized(kind: Any) -> bytes | None:
    if kind is None:
        return None
    return kind.SerializeToString()


def _plain(value: Any) -> Any:
    """Return a value of the framework as arrays hold it here: bfloat16 as f32."""
    if isinstance(value, (list, dict)) or value is None:
        return value
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array
