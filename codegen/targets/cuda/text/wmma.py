"""Fragments of tensor cores as CUDA: the matrices that the threads of a warp hold, read, multiply and write together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from codegen.ir.nodes import (
    Buf,
    FragmentFill,
    FragmentLoad,
    FragmentMma,
    FragmentStore,
    Function,
    Ref,
    walk,
)
from codegen.ir.scalar import computed

MATRIX_ALIGNMENT_BYTES = 32  # bytes, of the first element of a matrix in memory
FRAGMENT_SIZES = {
    ("f16", "f32"): (16, 16, 16),
    ("bf16", "f32"): (16, 16, 16),
    ("f32", "f32"): (16, 16, 8),
}  # rows, columns, depth
FRAGMENT_STATEMENTS = (FragmentFill, FragmentLoad, FragmentMma, FragmentStore)
NAMESPACE = "nvcuda::wmma"


def uses_tensor_cores(function: Function) -> bool:
    return any(isinstance(node, FragmentMma) for node in walk(function))


class FragmentPrinter(Protocol):
    """What fragments need of the printer that writes the rest of a kernel."""

    source: Function
    types: Mapping[str, str]

    def names(self, kind: str, name: str) -> str:
        """Return the identifier of a buffer or an index in the text."""
        ...

    def ref(self, ref: Ref) -> str:
        """Return the text of an element of a buffer."""
        ...

    def operand(self, value: Any, dtype: str) -> str:
        """Return the text of a value as an operand of that type."""
        ...

    def line(self, text: str) -> None:
        """Write a line."""
        ...


class Fragments:
    """The part of a printer that knows fragments. Products of f32 are those of tf32, which has 10 bits of each factor."""

    def __init__(self, printer: FragmentPrinter):
        self.printer = printer
        nodes = list(walk(printer.source))
        products = [node for node in nodes if isinstance(node, FragmentMma)]
        self.size = (
            (*products[0].sums.buf.shape[-2:], products[0].left.buf.shape[-1]) if products else ()
        )
        self.turned = {
            node.fragment.buf.name: node.turned for node in nodes if isinstance(node, FragmentLoad)
        }

    def declaration(self, buf: Buf) -> str:
        size = ", ".join(map(str, self.size))
        kind = (
            f"{NAMESPACE}::precision::tf32"
            if self.is_reduced(buf)
            else self.printer.types[buf.dtype]
        )
        layout = (
            ""
            if buf.space == "accumulator"
            else f", {NAMESPACE}::{'col' if self.turned[buf.name] else 'row'}_major"
        )
        count = "".join(f"[{n}]" for n in buf.shape[:-2])
        return f"{NAMESPACE}::fragment<{NAMESPACE}::{buf.space}, {size}, {kind}{layout}> {self.printer.names('buf', buf.name)}{count};"

    def is_reduced(self, buf: Buf) -> bool:
        """Whether the elements of a fragment have less precision than memory."""
        return buf.dtype == "f32" and buf.space != "accumulator"

    def statement(self, statement: Any) -> None:
        ref, line = self.printer.ref, self.printer.line
        if isinstance(statement, FragmentFill):
            line(
                f"{NAMESPACE}::fill_fragment({ref(statement.fragment)}, {self.printer.operand(statement.value, computed(statement.fragment.dtype))});"
            )
        elif isinstance(statement, FragmentMma):
            sums = ref(statement.sums)
            line(
                f"{NAMESPACE}::mma_sync({sums}, {ref(statement.left)}, {ref(statement.right)}, {sums});"
            )
        elif isinstance(statement, FragmentStore):
            target = statement.target
            line(
                f"{NAMESPACE}::store_matrix_sync(&{ref(target)}, {ref(statement.fragment)}, {target.buf.shape[-1]}, {NAMESPACE}::mem_row_major);"
            )
        else:
            self.load(statement.fragment, statement.source)

    def load(self, fragment: Ref, source: Ref) -> None:
        target, line = self.printer.ref(fragment), self.printer.line
        line(
            f"{NAMESPACE}::load_matrix_sync({target}, &{self.printer.ref(source)}, {source.buf.shape[-1]});"
        )
        if self.is_reduced(fragment.buf):
            name = self.printer.names("index", "element")
            element = f"{target}.x[{name}]"
            line(
                f"for (int {name} = 0; {name} < {target}.num_elements; ++{name}) {element} = {NAMESPACE}::__float_to_tf32({element});"
            )
