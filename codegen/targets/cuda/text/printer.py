"""The loop IR as CUDA (design §10): block and thread loops become indices.

A block has one axis of threads. A nest of thread loops takes as many of them as it has steps; where
these are fewer, the others pass by. Threads wait for each other where they must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from codegen.hardware.gpu import WARP_THREADS
from codegen.ir.nodes import (
    Buf,
    For,
    Function,
    Ref,
    Statement,
    Store,
    Sync,
    WarpReduce,
    walk,
)
from codegen.ir.scalars.functions import ROUND
from codegen.ir.types import WIDE
from codegen.targets.c.functions.names import C_TYPES
from codegen.targets.c.helpers import RESERVED
from codegen.targets.c.names import Names
from codegen.targets.c.printer import Printer
from codegen.targets.cuda.launch import MAX_GRID, VECTOR_BYTES, Grid
from codegen.targets.cuda.text.barriers import THREADED, nest_extents, nest_threads, with_barriers
from codegen.targets.cuda.text.geometry import block_loops, launch, resident_blocks
from codegen.targets.cuda.text.vectors import VectorAccess, copied_row, vector_rows
from codegen.targets.cuda.text.warp_ops import is_fragment
from codegen.targets.cuda.text.wmma import (
    FRAGMENT_STATEMENTS,
    MATRIX_ALIGNMENT_BYTES,
    Fragments,
    uses_tensor_cores,
)
from einalg.errors import CodegenError
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

CUDA_TYPES = {**C_TYPES, "f16": "__half", "bf16": "__nv_bfloat16"}
HEADERS = {"f16": "#include <cuda_fp16.h>", "bf16": "#include <cuda_bf16.h>"}
LOADS = {"f16": "__half2float", "bf16": "__bfloat162float"}
STORES = {"f16": "__float2half", "bf16": "__float2bfloat16"}
CUDA_RESERVED = RESERVED.union(
    """
alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class compl concept
const_cast consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast
explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public reinterpret_cast requires static_assert static_cast template this
thread_local throw true try typeid typename using virtual wchar_t xor xor_eq threadIdx blockIdx
blockDim gridDim warpSize min max abs dim3 uint uint2 uint4 int2 int4 float2 float4 double2 ushort
uchar ulong assert printf clock isnan isinf signbit norm rsqrt div malloc free memcpy memset std
round trunc ceil floor remainder exchanged shim cuda unix linux
""".split()  # noqa: SIM905
)
WIDE_SHUFFLE = """
static inline __int128 exchanged(__int128 a, int distance) {
  const uint64_t low = __shfl_xor_sync(0xffffffffu, (uint64_t)a, distance);
  const uint64_t high = __shfl_xor_sync(0xffffffffu, (uint64_t)(a >> 64), distance);
  return (__int128)((unsigned __int128)high << 64 | low);
}""".strip()
MAX_UNROLLED_STEPS = 64
MAX_INT = 2**31  # values below it are of type int


def cuda_source(functions: Sequence[Function], max_grid: Grid = MAX_GRID) -> str:
    """Return a CUDA file with the kernels `kernel_<position>`.

    The arguments of each are its inputs in order, then its output. Raises `CodegenError` as
    `launch` does.
    """
    printers = [
        CudaPrinter(function, position, max_grid) for position, function in enumerate(functions)
    ]
    texts = [printer.function() for printer in printers]
    return "\n".join(_head(functions, printers)) + "\n\n" + "\n".join(texts)


def _head(functions: Sequence[Function], printers: Sequence[CudaPrinter]) -> list[str]:
    """Return what stands before printed kernels: headers and helper functions."""
    dtypes: set[str] = set()
    for function in functions:
        dtypes |= {buf.dtype for buf in (*function.inputs, function.output)}
    for printer in printers:
        dtypes |= {op.removeprefix(ROUND) for op, _ in printer.called}
    head = ["#include <math.h>", "#include <stdint.h>"]
    head += [header for dtype, header in HEADERS.items() if dtype in dtypes]
    if any(map(uses_tensor_cores, functions)):
        head.append("#include <mma.h>")
    helpers: dict[str, None] = {}  # a set that keeps its order
    for printer in printers:
        helpers |= dict.fromkeys(sorted(printer.helpers))
    for helper in helpers:
        head.append(helper.replace("static inline", "static __device__ __forceinline__"))
    return head


def uses(body: Sequence[Statement], index: Index) -> bool:
    """Return whether an index occurs in statements."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, (Affine, Constraint)) and index in node.indices:
                return True
    return False


def index_type(function: Function) -> str:
    """Return `int` where every index value, offset and step towards them fits, else `int64_t`."""
    nodes = list(walk(function))
    ranges = {node.index: node.range for node in nodes if isinstance(node, For)}
    largest = 0
    for buf in (*function.inputs, function.output):
        largest = max(largest, prod(max(1, n) for n in buf.shape))
    for low, high in ranges.values():
        largest = max(largest, 2 * abs(low), 2 * abs(high))
    for node in nodes:
        if isinstance(node, Constraint):
            largest = max(largest, _reach(node.form, ranges))
        elif isinstance(node, Affine):
            largest = max(largest, _reach(node, ranges))
    if largest < MAX_INT:
        return "int"
    return "int64_t"


def _reach(form: Affine, ranges: Mapping[Index, tuple[int, int]]) -> int:
    """Return a bound of all that is computed for the value of a form."""
    total, inner = abs(form.const), 0
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            low, high = ranges.get(atom, (0, 0))
            reach = max(abs(low), abs(high))
        else:
            reach = _reach(atom.argument, ranges)
            inner = max(inner, reach, atom.divisor)
            if not isinstance(atom, FloorDiv):
                reach = min(reach, atom.divisor)
        total += abs(coefficient) * reach
    return max(total, inner)


@dataclass(frozen=True)
class _BlockAxis:
    """The axis of the grid whose blocks are the steps of a loop.

    `is_repeated` says that a block takes several steps, as the grid has fewer blocks.
    """

    name: str
    is_repeated: bool


def _block_axes(function: Function, max_grid: Grid) -> dict[str, _BlockAxis]:
    """Return the axis of each block loop, by the name of its index; the innermost one is `x`."""
    axes: dict[str, _BlockAxis] = {}
    for loop, name, most in zip(reversed(block_loops(function.body)), "xyz", max_grid):
        axes[loop.index.name] = _BlockAxis(name, (loop.extent or 0) > most)
    return axes


class CudaPrinter(Printer):
    """One kernel as CUDA."""

    types, loads, stores, rounds = CUDA_TYPES, LOADS, STORES, {}
    generated_functions = frozenset()
    is_reassociated = False

    def __init__(self, function: Function, position: int, max_grid: Grid = MAX_GRID):
        self.launch = launch(function, position, max_grid)
        self.axes = _block_axes(function, max_grid)
        repeated = frozenset(name for name, axis in self.axes.items() if axis.is_repeated)
        super().__init__(with_barriers(function, repeated))
        self.index = index_type(function)
        self.names = Names(reserved=CUDA_RESERVED)
        self.is_in_threads = False
        self.rows: dict[Ref, str] = {}  # the private array that stands for elements in memory
        self.row_index: Index | None = None
        self.fragments = Fragments(self)

    def function(self) -> str:
        """Return the kernel."""
        function = self.source
        buffers = (*function.inputs, function.output)
        arguments = ", ".join(self.argument(b, b is not function.output) for b in buffers)
        self.statements(function.body)
        comment = ""
        if function.comment:
            comment = f"/* {function.output.name} = {function.comment} */\n"
        blocks = resident_blocks(function, self.launch)
        bounds = f"__launch_bounds__({self.launch.threads}, {blocks})"
        head = f'extern "C" __global__ void {bounds} {self.launch.name}({arguments})'
        body = "".join(f"{line}\n" for line in self.lines)
        return f"{comment}{head} {{\n{body}}}\n"

    def argument(self, buf: Buf, is_read: bool) -> str:
        return super().argument(buf, is_read).replace("*restrict ", "*__restrict__ ")

    def largest(self, op: str, texts: Sequence[str], dtype: str) -> str:
        """Return the maximum or minimum of values in CUDA: of two at a time."""
        text, *others = texts
        for other in others:
            text = f"{self.call(op, dtype)}({text}, {other})"
        return text

    def prepared(self, function: Function) -> Function:
        """Return a function as it is: nvcc converts halves in registers."""
        return function

    def joined(self, body: Sequence[Statement]) -> Sequence[Statement]:
        """Return statements as they are: an extreme stays one store for each term."""
        return body

    # Statements.

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Sync):
            self.barrier(statement)
        elif isinstance(statement, WarpReduce):
            self.warp_reduce(statement)
        elif isinstance(statement, FRAGMENT_STATEMENTS):
            self.fragments.statement(statement)
        elif isinstance(statement, Store) and not self.is_in_threads and self.launch.threads > 1:
            name = statement.ref.buf.name
            raise CodegenError(f"{name} is set outside of the thread loops of {self.source.name}")
        else:
            super().statement(statement)

    def barrier(self, statement: Sync) -> None:
        if statement.scope == "block":
            self.line("__syncthreads();")
        else:
            self.line("__syncwarp();")

    def declare(self, buf: Buf) -> None:
        """Declare a local buffer."""
        if is_fragment(buf):
            return self.line(self.fragments.declaration(buf))
        shape = "".join(f"[{n}]" for n in buf.shape)
        name = self.names("buf", buf.name)
        self.line(f"{self.specifiers(buf)}{self.types[buf.dtype]} {name}{shape};")

    def specifiers(self, buf: Buf) -> str:
        """Return what a declaration begins with: where a buffer is, and how it is aligned.

        Rows are read and written 16 bytes at a time, matrices begin at multiples of 32 bytes.
        """
        if buf.space == "local":
            return f"alignas({VECTOR_BYTES}) "
        if buf.space != "shared":
            return ""
        alignment = VECTOR_BYTES
        if self.fragments.size:
            alignment = MATRIX_ALIGNMENT_BYTES
        return f"__shared__ __align__({alignment}) "

    def warp_reduce(self, statement: WarpReduce) -> None:
        """Combine the values of threads: of those half as far away in each step."""
        ref, op, distance = self.ref(statement.ref), statement.op, statement.lanes // 2
        while distance:
            other = self.exchanged(ref, statement.ref.dtype, distance)
            if op in ("max", "min"):
                self.line(f"{ref} = {self.call(op, statement.ref.dtype)}({ref}, {other});")
            else:
                self.line(f"{ref} {op} {other};")
            distance //= 2

    def exchanged(self, text: str, dtype: str, distance: int) -> str:
        """Return the value that the thread so far away has."""
        if dtype != WIDE:
            return f"__shfl_xor_sync(0xffffffffu, {text}, {distance})"
        self.helpers.add(WIDE_SHUFFLE)
        return f"exchanged({text}, {distance})"

    def statements(self, body: Sequence[Statement]) -> None:
        """Print statements; the last one needs no braces where it only names a value."""
        if body and _names_value(body[-1]):
            super().statements(body[:-1])
            self.named_value(body[-1])
        else:
            super().statements(body)

    def named_value(self, loop: Statement) -> None:
        """Print a loop of one step, without braces."""
        assert isinstance(loop, For)
        if uses(loop.body, loop.index):
            name = self.names("index", loop.index.name)
            self.line(f"const {self.index} {name} = {self.bound(loop.low)};")
        self.loop_body(loop)

    def loop_body(self, loop: For) -> None:
        """Print the body of a loop."""
        with self.index_range(loop):
            self.statements(loop.body)

    # Loops.

    def loop(self, loop: For, inside: bool = False) -> None:
        if loop.kind == "block":
            self.blocks(loop)
        elif loop.kind in THREADED and not self.is_in_threads:
            self.threads(loop)
        elif _names_value(loop):
            with self.braces():
                self.named_value(loop)
        elif loop.kind == "vec":
            self.vector_loop(loop)
        else:
            self.counting(loop, loop.kind == "unroll" and _is_short(loop))

    def vector_loop(self, loop: For) -> None:
        """Print a loop of independent steps: at once where its elements lie side by side."""
        copied = copied_row(loop)
        if copied is not None:
            target, source, word = copied
            return self.line(
                f"*({word} *)&{self.ref(target)} = *(const {word} *)&{self.ref(source)};"
            )
        rows = vector_rows(loop)
        if not rows:
            return self.counting(loop, _is_short(loop))
        with self.braces():
            self.row_loop(loop, rows)

    def counting(self, loop: For, is_unrolled: bool) -> None:
        """Print a loop as `for`."""
        if is_unrolled:
            self.line("#pragma unroll")
        name = self.names("index", loop.index.name)
        low, high = self.bound(loop.low), self.bound(loop.high)
        with self.braces(f"for ({self.index} {name} = {low}; {name} < {high}; ++{name}) "):
            self.loop_body(loop)

    def blocks(self, loop: For) -> None:
        """Print a block loop: its index is that of a block, or begins there."""
        axis = self.axes.get(loop.index.name)
        if axis is None:
            raise CodegenError(
                f"the block loop {loop.index} of {self.source.name} stands beside other statements"
            )
        name, first = self.names("index", loop.index.name), self.bound(loop.low)
        start = _plus(f"({self.index})blockIdx.{axis.name}", first)
        if axis.is_repeated:
            condition = f"{name} < {self.bound(loop.high)}"
            step = f"{name} += gridDim.{axis.name}"
            with self.braces(f"for ({self.index} {name} = {start}; {condition}; {step}) "):
                return self.loop_body(loop)
        if uses(loop.body, loop.index):
            self.line(f"const {self.index} {name} = {start};")
        self.loop_body(loop)

    def threads(self, loop: For) -> None:
        """Print a nest of thread loops, whose indices are digits of a thread's number.

        For warps it is the number of a thread's warp. Threads beyond the nest pass by.
        """
        extents, threads = nest_extents(loop), nest_threads(loop)
        head = f"if (threadIdx.x < {threads}) "
        if threads == self.launch.threads:
            head = ""
        with self.braces(head):
            inner = loop
            for position in range(len(extents)):
                if position:
                    assert isinstance(inner.body[0], For)
                    inner = inner.body[0]
                self.thread_index(inner, extents, position)
            self.is_in_threads = True
            self.statements(inner.body)
            self.is_in_threads = False

    def thread_index(self, loop: For, extents: Sequence[int], position: int) -> None:
        """Print the index of one loop of a nest with these extents."""
        if uses(loop.body, loop.index):
            name = self.names("index", loop.index.name)
            value = _plus(_digit(_thread_number(loop), extents, position), self.bound(loop.low))
            self.line(f"const {self.index} {name} = {value};")
        self.ranges[loop.index] = loop.range

    def row_loop(self, loop: For, rows: Sequence[VectorAccess]) -> None:
        """Print a loop over elements that lie side by side: all are read and written at once."""
        for row in rows:
            name = self.rows[row.ref] = self.names("row", f"{row.ref.buf.name}_row")
            self.line(f"alignas({VECTOR_BYTES}) {self.types[row.ref.dtype]} {name}[{row.width}];")
            if not row.written:
                first = super().ref(row.first)
                self.line(f"*({row.word} *){name} = *(const {row.word} *)&{first};")
        self.row_index = loop.index
        self.counting(loop, True)
        for row in rows:
            name = self.rows.pop(row.ref)
            if row.written:
                first = super().ref(row.first)
                self.line(f"*({row.word} *)&{first} = *({row.word} *){name};")

    def put(self, put: Store) -> str:
        """Return an assignment; a copy of what has two bytes needs no arithmetic."""
        if put.op == "=" and isinstance(put.value, Ref) and put.value.dtype == put.ref.dtype:
            return f"{self.ref(put.ref)} = {self.ref(put.value)};"
        return super().put(put)

    def ref(self, ref: Ref) -> str:
        if ref in self.rows and self.row_index is not None:
            return f"{self.rows[ref]}[{self.form(affine(self.row_index))}]"
        return super().ref(ref)


def _names_value(statement: Statement) -> bool:
    """Return whether a statement is a loop of one step, whose index names a value."""
    return isinstance(statement, For) and statement.extent == 1 and statement.kind == "seq"


def _is_short(loop: For) -> bool:
    """Return whether a loop has few steps, and their number is known."""
    return loop.extent is not None and loop.extent <= MAX_UNROLLED_STEPS


def _plus(text: str, other: str) -> str:
    if other == "0":
        return text
    return f"{text} + {other}"


def _thread_number(loop: For) -> str:
    """Return the number of a thread in its block, or of its warp."""
    if loop.kind == "warp":
        return f"(int)threadIdx.x / {WARP_THREADS}"
    return "(int)threadIdx.x"


def _digit(number: str, extents: Sequence[int], position: int) -> str:
    """Return a digit of a number, of as many values as its extent.

    >>> [_digit("n", (4, 8, 1), position) for position in range(3)]
    ['n / 8', 'n % 8', '0']
    """
    if extents[position] == 1:
        return "0"
    below = prod(extents[position + 1 :])
    text = number
    if below > 1:
        text = f"{number} / {below}"
    if position and prod(extents) > below * extents[position]:
        text = f"{text} % {extents[position]}"
    return text
