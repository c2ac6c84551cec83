"""An ONNX graph under construction: arrays are buffers whose names are its values (https://onnx.ai/onnx/operators)."""

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
OPSET, IR = 18, 8  # of 2022: what every runtime reads that is in use


class OnnxGraphBuilder:
    """Adds nodes, each with the shape and element type of its result, and stores equal constants once."""

    def __init__(self, taken: Sequence[str] = ()):
        self.onnx = onnx_package()
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self._constants: dict[Any, Buf] = {}
        self._names = set(taken)

    def name(self, like: str) -> str:
        """A name like this one that no value has yet."""
        found = unique_name(like, self._names)
        self._names.add(found)
        return found

    def constant(self, array: Any, dtype: str, name: str = "constant") -> Buf:
        """A stored array."""
        values = np.asarray(array, numpy_dtype(dtype), order="C")
        key = values.tobytes(), values.shape, dtype
        if key not in self._constants:
            self._constants[key] = buf = Buf(self.name(name), values.shape, dtype)
            self.stored.append(self.onnx.numpy_helper.from_array(values, buf.name))
        return self._constants[key]

    def integers(self, values: Sequence[int]) -> Buf:
        """A list of integers, as operators take shapes, axes and bounds."""
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
        """A node with one result."""
        result = Buf(name or self.name(operator.lower()), tuple(shape), dtype)
        self.nodes.append(
            self.onnx.helper.make_node(
                operator, [buf.name for buf in inputs], [result.name], **attributes
            )
        )
        return result

    @contextmanager
    def body(self) -> Iterator[list[Any]]:
        """The nodes that are added inside, as those of a graph in this one, which reads what is around it."""
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
        given: Sequence[Buf],
        made: Sequence[Buf],
    ) -> None:
        """A node that computes each slice of the results, along the first axis, from one of the arrays: `made` from `given`, by `body`."""
        graph = self.onnx.helper.make_graph(
            body, "slice", [self.info(buf) for buf in given], [self.info(buf) for buf in made]
        )
        names = [[buf.name for buf in bufs] for bufs in (arrays, results)]
        self.nodes.append(
            self.onnx.helper.make_node("Scan", *names, body=graph, num_scan_inputs=len(arrays))
        )

    def element_type(self, dtype: str) -> int:
        """The number by which ONNX knows an element type."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(dtype)))

    def info(self, buf: Buf) -> Any:
        """An input or output of the graph."""
        return self.onnx.helper.make_tensor_value_info(
            buf.name, self.element_type(buf.dtype), buf.shape
        )

    # The same elements, elsewhere.

    def cast(self, array: Buf, dtype: str) -> Buf:
        """In another element type; bf16 is held as f32, rounded."""
        if array.dtype == dtype:
            return array
        if dtype == "bf16":
            half = self.add(
                "Cast",
                [self.cast(array, "f32")],
                array.shape,
                dtype,
                to=self.onnx.TensorProto.BFLOAT16,
            )
            return self.add("Cast", [half], array.shape, dtype, to=self.onnx.TensorProto.FLOAT)
        if (array.dtype, dtype) == ("bf16", "f32"):
            return Buf(array.name, array.shape, dtype)
        return self.add("Cast", [array], array.shape, dtype, to=self.element_type(dtype))

    def reshape(self, array: Buf, shape: Sequence[int]) -> Buf:
        shape = tuple(shape)
        return (
            array
            if array.shape == shape
            else self.add("Reshape", [array, self.integers(shape)], shape, array.dtype)
        )

    def transpose(self, array: Buf, order: Sequence[int]) -> Buf:
        """The axes in another order: a reshape where only axes of one element move."""
        shape = tuple(array.shape[axis] for axis in order)
        moved = [axis for axis in order if array.shape[axis] != 1]
        if moved == sorted(moved):
            return self.reshape(array, shape)
        return self.add("Transpose", [array], shape, array.dtype, perm=list(order))

    def expand(self, array: Buf, shape: Sequence[int]) -> Buf:
        """Repeated along axes of one element."""
        shape = tuple(shape)
        return (
            array
            if array.shape == shape
            else self.add("Expand", [array, self.integers(shape)], shape, array.dtype)
        )

    def slice(self, array: Buf, axis: int, start: int, steps: int, step: int) -> Buf:
        """So many elements along an axis, from `start` on."""
        if (start, steps, step) == (0, array.shape[axis], 1):
            return array
        end = start + steps * step
        bounds = map(
            self.integers, ([start], [end if end >= 0 else -array.shape[axis] - 1], [axis], [step])
        )
        shape = (*array.shape[:axis], steps, *array.shape[axis + 1 :])
        return self.add("Slice", [array, *bounds], shape, array.dtype)

    def pad(self, array: Buf, amounts: Sequence[tuple[int, int]], fill: Any) -> Buf:
        """Elements `fill` before and after each axis."""
        if not any(map(any, amounts)):
            return array
        shape = [before + extent + after for extent, (before, after) in zip(array.shape, amounts)]
        around = self.integers(
            [*(before for before, _ in amounts), *(after for _, after in amounts)]
        )
        if array.dtype == "bool":  # which not every runtime pads
            return self.cast(self.pad(self.cast(array, "i32"), amounts, fill), "bool")
        return self.add(
            "Pad", [array, around, self.constant(fill, array.dtype)], shape, array.dtype
        )

    def model(self, inputs: Sequence[Buf], outputs: Sequence[Buf]) -> Any:
        """The `ModelProto`."""
        helper = self.onnx.helper
        graph = helper.make_graph(
            self.nodes,
            "einalg",
            [self.info(buf) for buf in inputs],
            [self.info(buf) for buf in outputs],
            self.stored,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="einalg",
        )
        self.onnx.checker.check_model(model, full_check=True)
        return model
