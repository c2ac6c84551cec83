"""Fragments of tensor cores as CUDA.

They are the matrices that the threads of a warp hold, read, multiply and write together.
"""

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
from codegen.ir.types import computed

MATRIX_ALIGNMENT_BYTES = 32  # of the first element of a matrix in memory
# Rows, columns and depth, by the types of factors and sums.
FRAGMENT_SIZES = {
    ("f16", "f32"): (16, 16, 16),
    ("bf16", "f32"): (16, 16, 16),
    ("f32", "f32"): (16, 16, 8),
}
FRAGMENT_STATEMENTS = (FragmentFill, FragmentLoad, FragmentMma, FragmentStore)
NAMESPACE = "nvcuda::wmma"


def uses_tensor_cores(function: Function) -> bool:
    """Return whether a kernel multiplies fragments."""
    return any(isinstance(node, FragmentMma) for node in walk(function))


class FragmentPrinter(Protocol):
    """The part of the printer of kernels that fragments need."""

    source: Function

    @property
    def types(self) -> Mapping[str, str]:
        """Return the types of C by element type."""
        ...

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
    """The part of a printer that knows fragments.

    Products of f32 are those of tf32, which has 10 bits of each factor.
    """

    def __init__(self, printer: FragmentPrinter):
        self.printer = printer
        self.size: tuple[int, ...] = ()  # rows, columns and depth of all fragments
        self.transposed: dict[str, bool] = {}  # by the names of the fragments of factors
        for node in walk(printer.source):
            if isinstance(node, FragmentMma) and not self.size:
                self.size = (*node.sums.buf.shape[-2:], node.left.buf.shape[-1])
            elif isinstance(node, FragmentLoad):
                self.transposed[node.fragment.buf.name] = node.turned

    def declaration(self, buf: Buf) -> str:
        """Return the declaration of a buffer of fragments."""
        parameters = [f"{NAMESPACE}::{buf.space}", *map(str, self.size), self.element_type(buf)]
        if buf.space != "accumulator":
            parameters.append(f"{NAMESPACE}::{self.layout(buf)}")
        count = "".join(f"[{n}]" for n in buf.shape[:-2])
        name = self.printer.names("buf", buf.name)
        return f"{NAMESPACE}::fragment<{', '.join(parameters)}> {name}{count};"

    def element_type(self, buf: Buf) -> str:
        if self.is_reduced(buf):
            return f"{NAMESPACE}::precision::tf32"
        return self.printer.types[buf.dtype]

    def layout(self, buf: Buf) -> str:
        """Return the order in which a factor lies in memory."""
        if self.transposed[buf.name]:
            return "col_major"
        return "row_major"

    def is_reduced(self, buf: Buf) -> bool:
        """Return whether the elements of a fragment have less precision than memory."""
        return buf.dtype == "f32" and buf.space != "accumulator"

    def statement(self, statement: Any) -> None:
        """Print a statement about fragments."""
        ref = self.printer.ref
        if isinstance(statement, FragmentFill):
            fragment = statement.fragment
            number = self.printer.operand(statement.value, computed(fragment.dtype))
            self.call("fill_fragment", ref(fragment), number)
        elif isinstance(statement, FragmentMma):
            sums = ref(statement.sums)
            self.call("mma_sync", sums, ref(statement.left), ref(statement.right), sums)
        elif isinstance(statement, FragmentStore):
            target, step = statement.target, statement.target.buf.shape[-1]
            layout = f"{NAMESPACE}::mem_row_major"
            self.call(
                "store_matrix_sync", f"&{ref(target)}", ref(statement.fragment), str(step), layout
            )
        else:
            self.load(statement.fragment, statement.source)

    def load(self, fragment: Ref, source: Ref) -> None:
        """Print what reads a fragment, and rounds its elements where it has less precision."""
        target, step = self.printer.ref(fragment), source.buf.shape[-1]
        self.call("load_matrix_sync", target, f"&{self.printer.ref(source)}", str(step))
        if self.is_reduced(fragment.buf):
            name = self.printer.names("index", "element")
            element = f"{target}.x[{name}]"
            self.printer.line(
                f"for (int {name} = 0; {name} < {target}.num_elements; ++{name}) "
                f"{element} = {NAMESPACE}::__float_to_tf32({element});"
            )

    def call(self, function: str, *arguments: str) -> None:
        """Print a call of the library of fragments."""
        self.printer.line(f"{NAMESPACE}::{function}({', '.join(arguments)});")
