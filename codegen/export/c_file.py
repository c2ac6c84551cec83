"""The C file of an exported function: its kernels, what it knows, and the calls in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.export.call_plan import Buffer, CallPlan, Loop, Operand, PlannedCall
from codegen.export.kernel_printer import SCRATCH, KernelPrinter
from codegen.export.numbers import Blob, are_small, array_definition
from codegen.export.types import value_type
from codegen.ir.nodes import Function
from codegen.runtime.memory_planning import CACHE_LINE_BYTES
from codegen.targets.c.source_file import file_head

LINE_WIDTH = 98
DIAGNOSTICS = """\
/* Loops are marked for OpenMP, and are right without it. A compiler may leave some of them scalar.
   Not every helper is called, and empty sums read nothing. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
"""


@dataclass(frozen=True)
class ExportedFunction:
    """A function in C: its name, what it does in words, and its calls."""

    name: str
    summary: tuple[str, ...]
    plan: CallPlan

    @property
    def threads(self) -> str:
        """The macro that says how many threads share a loop."""
        return f"{self.name.upper()}_THREADS"

    @cached_property
    def printers(self) -> dict[int, KernelPrinter]:
        """The printers of the kernels, each once, by the identity of its function."""
        printers: dict[int, KernelPrinter] = {}
        for loop in self.plan.loops:
            for call in loop.calls:
                kernel = call.kernel
                if id(kernel) not in printers:
                    printers[id(kernel)] = KernelPrinter(kernel, self.threads)
        return printers

    @cached_property
    def kernel_names(self) -> dict[int, str]:
        """The names of the kernels, by the identity of the function, such as `compute_O`."""
        names: dict[int, str] = {}
        for loop in self.plan.loops:
            for call in loop.calls:
                kernel = call.kernel
                if id(kernel) not in names:
                    text = f"compute_{call.operands[-1].buffer.name}"
                    names[id(kernel)] = self.plan.names(f"kernel {id(kernel)}", text)
        return names

    @cached_property
    def kernel_texts(self) -> list[str]:
        texts: list[str] = []
        for key, printer in self.printers.items():
            texts.append(printer.definition(self.kernel_names[key]))
        return texts

    @cached_property
    def scratch_bytes(self) -> int:
        """The bytes that each thread needs inside the kernels."""
        assert self.kernel_texts is not None  # printing says what a kernel needs
        return max((printer.arena_bytes for printer in self.printers.values()), default=0)

    @cached_property
    def is_parallel(self) -> bool:
        """Whether threads can share some loop."""
        assert self.kernel_texts is not None
        return any(printer.is_parallel for printer in self.printers.values())

    @property
    def workspace_bytes(self) -> int:
        """The bytes of the workspace for one thread, which the function aligns itself."""
        used = self.plan.bytes + self.scratch_bytes
        return used and used + CACHE_LINE_BYTES

    @property
    def blob(self) -> Blob | None:
        """The arrays that are too large for C text, in a file of bytes."""
        if are_small(self.plan.data):
            return None
        return Blob(f"{self.name}_weights", self.plan.data)

    @property
    def integers_wrap(self) -> bool:
        """Whether sums of integers may overflow, which C leaves undefined without a flag."""
        for printer in self.printers.values():
            buffers = (*printer.source.inputs, printer.source.output)
            if any(buf.dtype[0] in "iu" for buf in buffers):
                return True
        return False

    @cached_property
    def used_buffers(self) -> frozenset[Buffer]:
        """The buffers that some kernel or copy reads or writes."""
        used: set[Buffer] = set()
        for pair in self.plan.copies:
            used.update(pair)
        for loop in self.plan.loops:
            for call in loop.calls:
                used.update(operand.buffer for operand in call.operands)
        return frozenset(used)

    def prototype(self) -> str:
        """Return the head of the function: inputs, outputs, the workspace."""
        parameters: list[str] = []
        for buffer in self.plan.inputs:
            parameters.append(_parameter(buffer))
        for buffer in self.plan.outputs:
            parameters.append(f"{value_type(buffer.dtype)} *{buffer.name}")
        parameters.append("void *workspace")
        text = f"void {self.name}({', '.join(parameters)})"
        if len(text) <= LINE_WIDTH:
            return text
        separator = ",\n    "
        return f"void {self.name}(\n    {separator.join(parameters)})"

    def text(self) -> str:
        """Return the file."""
        printers = list(self.printers.values())
        head = file_head(printers, self.kernel_texts, has_vector_library=False)
        if self.plan.copies:
            head.insert(0, "#include <string.h>")
        parts = [
            f"/* {self.name}.c: generated by einalg; see {self.name}.h. */",
            f'#include "{self.name}.h"\n',
            DIAGNOSTICS,
            "\n".join(head),
            "",
            *self._thread_lines(),
            *self.kernel_texts,
            *self._data_lines(),
            self._size_function(),
            self._function(),
        ]
        return "\n".join(parts)

    def _thread_lines(self) -> Iterable[str]:
        """Yield what kernels need of threads, and the size of their local memory."""
        if self.is_parallel:
            yield f"""\
#ifndef {self.threads}
#define {self.threads} 1
#endif
#ifdef _OPENMP
#include <omp.h>
static inline size_t thread_number(void) {{ return (size_t)omp_get_thread_num(); }}
#elif {self.threads} > 1
#error "{self.threads} is more than 1: compile with -fopenmp"
#else
static inline size_t thread_number(void) {{ return 0; }}
#endif"""
        if self.scratch_bytes:
            yield f"#define SCRATCH_BYTES ((size_t){self.scratch_bytes}) /* of a thread */\n"

    def _data_lines(self) -> Iterable[str]:
        if self.blob is not None:
            yield f"{self.blob.declaration()}\n"
            return
        for data in self.plan.data:
            yield f"{array_definition(data)}\n"

    def _size_function(self) -> str:
        size = str(self.plan.bytes)
        if self.scratch_bytes:
            size = f"{size} + {self._threads_text()}SCRATCH_BYTES"
        if self.workspace_bytes:
            size = f"{size} + {CACHE_LINE_BYTES}"
        return f"size_t {self.name}_workspace_size(void) {{\n  return {size};\n}}\n"

    def _threads_text(self) -> str:
        if self.is_parallel:
            return f"{self.threads} * "
        return ""

    def _function(self) -> str:
        lines = [f"{self.prototype()} {{"]
        if self.workspace_bytes:
            mask = f"~(uintptr_t){CACHE_LINE_BYTES - 1}"
            aligned = f"((uintptr_t)workspace + {CACHE_LINE_BYTES - 1}) & {mask}"
            lines.append(f"  char *const memory = (char *)({aligned});")
        else:
            lines.append("  (void)workspace;")
        for buffer in (*self.plan.inputs, *self.plan.outputs):
            if buffer not in self.used_buffers:
                lines.append(f"  (void){buffer.name};")
        if self.scratch_bytes:
            lines.append(f"  char *const {SCRATCH} = memory + {self.plan.bytes};")
        if self.blob is not None:
            lines += [f"  {line}" for line in self.blob.variables()]
        for workspace in self.plan.between:
            if workspace.buffer in self.used_buffers:
                lines.append(f"  {_variable(workspace.buffer, workspace.offset)}")
        for loop in self.plan.loops:
            lines += self._loop(loop)
        for copy, source in self.plan.copies:
            address = _address(source, self.plan.inputs)
            lines.append(f"  memcpy({copy.name}, {address}, {source.bytes});")
        return "\n".join([*lines, "}", ""])

    def _loop(self, loop: Loop) -> list[str]:
        """Return the lines of a program: its variables and its calls."""
        lines: list[str] = []
        for workspace in loop.workspace:
            if workspace.buffer in self.used_buffers:
                lines.append(_variable(workspace.buffer, workspace.offset))
        sliced: dict[Buffer, str] = {}
        for buffer, step in loop.steps.items():
            if buffer.elements:
                sliced[buffer] = f"{buffer.name} + {step} * sample"
        calls = [self._call(call, sliced) for call in loop.calls]
        if loop.count == 1:
            return [f"  {line}" for line in (*lines, *calls)]
        head = f"for (size_t sample = 0; sample < {loop.count}; ++sample) {{"
        return ["  " + line for line in (*lines, head, *(f"  {call}" for call in calls), "}")]

    def _call(self, call: PlannedCall, sliced: dict[Buffer, str]) -> str:
        printer = self.printers[id(call.kernel)]
        kernel: Function = printer.source
        arguments: list[str] = []
        for operand, buf in zip(call.operands, (*kernel.inputs, kernel.output), strict=True):
            text = self._operand(operand, sliced)
            cast = printer.cast(buf)
            if cast and " " in text:
                text = f"({text})"
            arguments.append(f"{cast}{text}")
        if printer.arena_bytes:
            arguments.append(SCRATCH)
        name = self.kernel_names[id(call.kernel)]
        text = f"{name}({', '.join(arguments)});"
        if len(text) <= LINE_WIDTH - len("    "):
            return text
        separator = ",\n      "
        return f"{name}(\n      {separator.join(arguments)});"

    def _operand(self, operand: Operand, sliced: dict[Buffer, str]) -> str:
        buffer = operand.buffer
        text = sliced.get(buffer) or _address(buffer, self.plan.inputs)
        if operand.first:
            return f"{text} + {operand.first}"
        return text


def _parameter(buffer: Buffer) -> str:
    """Return the declaration of an input: a number by value, an array by address."""
    if not buffer.shape:
        return f"{value_type(buffer.dtype)} {buffer.name}"
    return f"const {value_type(buffer.dtype)} *{buffer.name}"


def _address(buffer: Buffer, inputs: Sequence[Buffer]) -> str:
    """Return where the elements of a buffer lie; a number is an argument of its own."""
    if not buffer.shape and buffer in inputs:
        return f"&{buffer.name}"
    return buffer.name


def _variable(buffer: Buffer, offset: int) -> str:
    kind = value_type(buffer.dtype)
    return f"{kind} *const {buffer.name} = ({kind} *)(memory + {offset});"
