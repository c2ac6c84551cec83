"""Kernels as functions of an exported C file: what they need besides buffers is given to them."""

from __future__ import annotations

from codegen.ir.nodes import Buf, For, Function
from codegen.targets.c.printer import Printer

SCRATCH = "scratch"


class KernelPrinter(Printer):
    """One kernel as C without state: its local memory is an argument, and so are its threads.

    `threads` is the macro that says how many threads share a parallel loop; `is_parallel` says
    whether there is such a loop.
    """

    def __init__(self, function: Function, threads: str):
        super().__init__(function)
        self.threads = threads
        self.is_parallel = False
        self._parallel_depth = 0

    def more_arguments(self) -> list[str]:
        if self.arena_bytes:
            return [f"char *restrict {SCRATCH}"]
        return []

    def more_names(self) -> list[str]:
        return [SCRATCH] * bool(self.arena_bytes)

    def arena(self) -> str:
        """Return the memory of a thread: inside a parallel loop each has a part of its own."""
        if self._parallel_depth:
            return f"{SCRATCH} + thread_number() * SCRATCH_BYTES"
        return SCRATCH

    def loop(self, loop: For, inside: bool = False) -> None:
        is_parallel = loop.kind == "par"
        self.is_parallel |= is_parallel
        self._parallel_depth += is_parallel
        super().loop(loop, inside)
        self._parallel_depth -= is_parallel

    def pragma(self, loop: For) -> str:
        pragma = super().pragma(loop)
        if loop.kind == "par":
            return f"{pragma} num_threads({self.threads})"
        return pragma

    def cast(self, buf: Buf) -> str:
        """Return the cast that makes an argument of a pointer to a buffer's elements.

        It is empty where the pointer is one already.
        """
        inner = self.inner_axes(buf)
        if not inner and buf.dtype != "f16":
            return ""
        qualifier = "const "
        if buf.name == self.source.output.name:
            qualifier = ""
        if inner:
            return f"({qualifier}{self.types[buf.dtype]} (*){inner})"
        return f"({qualifier}{self.types[buf.dtype]} *)"
