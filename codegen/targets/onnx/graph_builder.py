"""An ONNX graph under construction (https://onnx.ai/onnx/operators).

Arrays are buffers whose names are its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from codegen.ir.nodes import Buf
from einalg.frontends.graph import unique_name
from einalg.frontends.onnx.nodes.model_file import onnx_package
from einalg.language.ir.dtypes import numpy_dtype

Array = np.ndarray[Any, Any]
OPSET_VERSION, IR_VERSION = 18, 8  # of 2022: what every runtime reads that is in use

# The types for which onnxruntime has no kernel of an operator that has one for other types.
NARROW = ("bool", "i8", "i16", "u8", "u16")
UNKNOWN_TO_RUNTIMES = {
    "Where": ("bool", "i16", "u16", "u64"),
    "Max": ("bool", "i16", "u16"),
    "Min": ("bool", "i16", "u16"),
    "Pad": ("bool", "i16", "u16"),
    "Neg": ("u32", "u64"),
    "Pow": (*NARROW, "u32", "u64"),
    "ReduceMax": ("bool", "i16", "u16", "u32", "u64"),
    "ReduceMin": ("bool", "i16", "u16", "u32", "u64"),
    "ReduceSum": (*NARROW, "u32", "u64"),
    "ReduceProd": (*NARROW, "u32", "u64"),
}
WIDER = {**dict.fromkeys(NARROW, "i32"), "u32": "i64", "u64": "i64"}


class OnnxGraphBuilder:
    """Adds nodes, each with the shape and type of its result, and stores equal constants once."""

    def __init__(self, used_names: Sequence[str] = ()):
        self.onnx = onnx_package()
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self._constants: dict[Any, Buf] = {}
        self._names = set(used_names)

    def name(self, like: str) -> str:
        """Return a name like this one that no value has yet."""
        name = unique_name(like, self._names)
        self._names.add(name)
        return name

    def constant(self, array: Any, dtype: str, name: str = "constant") -> Buf:
        """Return a stored array."""
        values = np.asarray(array, numpy_dtype(dtype), order="C")
        key = values.tobytes(), values.shape, dtype
        if key not in self._constants:
            self._constants[key] = buf = Buf(self.name(name), values.shape, dtype)
            self.stored.append(self.onnx.numpy_helper.from_array(values, buf.name))
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> Buf:
        """Return a list of integers, as operators have shapes, axes and bounds."""
        return self.constant(np.asarray(values, np.int64).reshape(-1), "i64", "integers")

    def add(
        self,
        operator: str,
        inputs: Sequence[Buf],
        shape: Sequence[int],
        dtype: str,
        name: str = "",
        **attributes: Any,
    ) -> Buf:
        """Add a node with one result, and return that.

        It computes in a wider type where runtimes lack the operator for this one.
        """
        if dtype in UNKNOWN_TO_RUNTIMES.get(operator, ()):
            return self._added_wider(operator, inputs, shape, dtype, **attributes)
        result = Buf(name or self.name(operator.lower()), tuple(shape), dtype)
        self.nodes.append(
            self.onnx.helper.make_node(
                operator, [buf.name for buf in inputs], [result.name], **attributes
            )
        )
        return result

    def _added_wider(
        self,
        operator: str,
        inputs: Sequence[Buf],
        shape: Sequence[int],
        dtype: str,
        **attributes: Any,
    ) -> Buf:
        """Add a node that computes in a wider type, and return its result."""
        wider = WIDER[dtype]
        arguments = list(inputs)
        for position, array in enumerate(inputs):
            is_condition = operator == "Where" and position == 0
            if array.dtype == dtype and not is_condition:
                arguments[position] = self.cast(array, wider)
        return self.cast(self.add(operator, arguments, shape, wider, **attributes), dtype)

    @contextmanager
    def body(self) -> Iterator[list[Any]]:
        """Collect the nodes that are added inside: a graph in this one, whose values it reads."""
        around, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = around

    def scan(
        self,
        arrays: Sequence[Buf],
        results: Sequence[Buf],
        body: Sequence[Any],
        slices: Sequence[Buf],
        result_slices: Sequence[Buf],
    ) -> None:
        """Add a node that computes each slice of the results from one of the arrays.

        Slices are those along the first axis; `body` computes `result_slices` from `slices`.
        """
        helper = self.onnx.helper
        graph = helper.make_graph(body, "slice", self.infos(slices), self.infos(result_slices))
        names = [[buf.name for buf in bufs] for bufs in (arrays, results)]
        self.nodes.append(helper.make_node("Scan", *names, body=graph, num_scan_inputs=len(arrays)))

    def element_type(self, dtype: str) -> int:
        """Return the number by which ONNX knows an element type."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(dtype)))

    def infos(self, bufs: Sequence[Buf]) -> list[Any]:
        """Return inputs or outputs of a graph."""
        infos = []
        for buf in bufs:
            kind = self.element_type(buf.dtype)
            infos.append(self.onnx.helper.make_tensor_value_info(buf.name, kind, buf.shape))
        return infos

    # The same elements in another type, shape or order.

    def cast(self, array: Buf, dtype: str) -> Buf:
        """Return an array in another element type; bf16 is held as f32, rounded."""
        if array.dtype == dtype:
            return array
        if dtype == "bf16":
            kinds = self.onnx.TensorProto
            array = self.cast(array, "f32")
            half = self.add("Cast", [array], array.shape, dtype, to=kinds.BFLOAT16)
            return self.add("Cast", [half], array.shape, dtype, to=kinds.FLOAT)
        if (array.dtype, dtype) == ("bf16", "f32"):
            return Buf(array.name, array.shape, dtype)
        return self.add("Cast", [array], array.shape, dtype, to=self.element_type(dtype))

    def reshape(self, array: Buf, shape: Sequence[int]) -> Buf:
        """Return the elements in the same order, in another shape."""
        shape = tuple(shape)
        if array.shape == shape:
            return array
        return self.add("Reshape", [array, self.integers(shape)], shape, array.dtype)

    def transpose(self, array: Buf, order: Sequence[int]) -> Buf:
        """Return the axes in another order: a reshape where only axes of one element move."""
        shape = tuple(array.shape[axis] for axis in order)
        moved = [axis for axis in order if array.shape[axis] != 1]
        if moved == sorted(moved):
            return self.reshape(array, shape)
        return self.add("Transpose", [array], shape, array.dtype, perm=list(order))

    def expand(self, array: Buf, shape: Sequence[int]) -> Buf:
        """Return an array repeated along axes of one element."""
        shape = tuple(shape)
        if array.shape == shape:
            return array
        return self.add("Expand", [array, self.integers(shape)], shape, array.dtype)

    def slice(self, array: Buf, axis: int, start: int, steps: int, step: int) -> Buf:
        """Return so many elements along an axis, from `start` on."""
        extent = array.shape[axis]
        if (start, steps, step) == (0, extent, 1):
            return array
        end = start + steps * step
        if end < 0:  # a slice that goes down to the first element; -1 would mean the last one
            end = -extent - 1
        bounds = map(self.integers, ([start], [end], [axis], [step]))
        shape = (*array.shape[:axis], steps, *array.shape[axis + 1 :])
        return self.add("Slice", [array, *bounds], shape, array.dtype)

    def pad(self, array: Buf, amounts: Sequence[tuple[int, int]], fill: Any) -> Buf:
        """Return an array with elements `fill` before and after each axis."""
        if not any(map(any, amounts)):
            return array
        befores, afters = zip(*amounts)
        shape = []
        for extent, before, after in zip(array.shape, befores, afters):
            shape.append(before + extent + after)
        around = self.integers([*befores, *afters])
        padding = self.constant(fill, array.dtype)
        return self.add("Pad", [array, around, padding], shape, array.dtype)

    def model(self, inputs: Sequence[Buf], outputs: Sequence[Buf]) -> Any:
        """Return the `ModelProto`."""
        helper = self.onnx.helper
        graph = helper.make_graph(
            self.nodes, "einalg", self.infos(inputs), self.infos(outputs), self.stored
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET_VERSION)],
            ir_version=IR_VERSION,
            producer_name="einalg",
        )
        self.onnx.checker.check_model(model, full_check=True)
        return model
