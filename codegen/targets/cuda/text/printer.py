"""The loop IR as CUDA (design §10): block and thread loops become indices, and threads wait where they must.

A block has one axis of threads. A nest of thread loops takes as many of them as it has steps; where these are fewer, the others pass by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from codegen.ir.nodes import (
    Alloc,
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
from codegen.targets.c.helpers import C_TYPES, RESERVED
from codegen.targets.c.names import Names
from codegen.targets.c.printer import Printer
from codegen.targets.c.source_file import entry_name
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import (
    MAX_BLOCK_THREADS,
    MAX_GRID,
    MAX_SHARED_BYTES,
    WARP_THREADS,
    Grid,
    Launch,
)
from codegen.targets.cuda.text.barriers import THREADED, nest_extents, nest_threads, with_barriers
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
    """alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class compl concept const_cast consteval constexpr
constinit co_await co_return co_yield decltype delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this thread_local throw
true try typeid typename using virtual wchar_t xor xor_eq threadIdx blockIdx blockDim gridDim warpSize min max abs dim3 uint uint2 uint4
int2 int4 float2 float4 double2 ushort uchar ulong assert printf clock isnan isinf signbit norm rsqrt div malloc free memcpy memset std
round trunc ceil floor remainder shim cuda unix linux""".split()  # noqa: SIM905
)
MAX_UNROLLED_STEPS = 64  # steps
MULTIPROCESSOR_THREADS = (
    512  # of a multiprocessor: with 128 registers each they take all of its 65536
)
MAX_PRIVATE_BYTES = 256  # bytes of a thread: half of 128 registers, beside what it computes with
ALIGNED_ROW = 16  # bytes


def cuda_source(functions: Sequence[Function], max_grid: Grid = MAX_GRID) -> str:
    """A CUDA file with the kernels `kernel_<position>`, each with its inputs in order, then its output, as arguments.

    Raises `CodegenError` for a kernel that no GPU runs: too many threads in a block, or too much memory shared by them.
    """
    printers = [
        CudaPrinter(function, position, max_grid) for position, function in enumerate(functions)
    ]
    texts = [printer.function() for printer in printers]
    used = {b.dtype for f in functions for b in (*f.inputs, f.output)}
    head = [
        "#include <math.h>",
        "#include <stdint.h>",
        *(line for dtype, line in HEADERS.items() if dtype in used),
    ]
    head += ["#include <mma.h>"] if any(map(uses_tensor_cores, functions)) else []
    helpers = dict.fromkeys(h for printer in printers for h in sorted(printer.helpers))
    head += [h.replace("static inline", "static __device__ __forceinline__") for h in helpers]
    return "\n".join(head) + "\n\n" + "\n".join(texts)


def launch(function: Function, position: int = 0, max_grid: Grid = MAX_GRID) -> Launch:
    """How the kernel at `position` of a CUDA file is started."""
    blocks = [loop.extent or 0 for loop in reversed(_block_loops(function.body))]
    if len(blocks) > 3:
        raise CodegenError(f"{function.name} has {len(blocks)} axes of blocks, and a GPU has 3")
    x, y, z = (min(n, most) for n, most in zip((*blocks, 1, 1, 1), max_grid))
    nests = [nest_threads(nest) for nest in _nests(function.body)]
    shared = sum(
        -(-_bytes(n.buf) // ALIGNED_ROW) * ALIGNED_ROW
        for n in walk(function)
        if isinstance(n, Alloc) and n.buf.space == "shared"
    )
    found = Launch(entry_name(position), (x, y, z), max(nests, default=1), shared)
    if found.threads > MAX_BLOCK_THREADS:
        raise CodegenError(
            f"{function.name} has {found.threads} threads in a block, and a GPU has at most {MAX_BLOCK_THREADS}"
        )
    if shared > MAX_SHARED_BYTES:
        raise CodegenError(
            f"{function.name} shares {shared} bytes in a block, and {MAX_SHARED_BYTES} are allowed"
        )
    return found


def resident_blocks(function: Function, how: Launch) -> int:
    """The blocks that should fit into a multiprocessor at once: what bounds the registers of a thread, 128 but for large private arrays."""
    private = {n.buf for n in walk(function) if isinstance(n, Alloc) and n.buf.space != "shared"}
    held = sum(
        _bytes(buf) // WARP_THREADS
        if is_fragment(buf)
        else prod(buf.shape) * max(4, element_size(buf.dtype))
        for buf in private
    )
    return max(1, MULTIPROCESSOR_THREADS // how.threads) if held <= MAX_PRIVATE_BYTES else 1


def _bytes(buf: Buf) -> int:
    return prod(buf.shape) * element_size(buf.dtype)


def _block_loops(body: Sequence[Statement]) -> list[For]:
    """The block loops, outer first: each is alone in the one around it."""
    loop = body[0] if len(body) == 1 else None
    return (
        [loop, *_block_loops(loop.body)] if isinstance(loop, For) and loop.kind == "block" else []
    )


def _nests(body: Sequence[Statement]) -> Iterator[For]:
    """The outermost loops of threads or warps."""
    for statement in body:
        if isinstance(statement, For) and statement.kind in THREADED:
            yield statement
        else:
            parts = (
                getattr(statement, "body", ()),
                getattr(statement, "then", ()),
                getattr(statement, "orelse", ()),
            )
            for part in parts:
                yield from _nests(part)


def uses(body: Sequence[Statement], index: Index) -> bool:
    """Whether statements say anything of an index."""
    return any(
        index in node.indices
        for s in body
        for node in walk(s)
        if isinstance(node, (Affine, Constraint))
    )


def index_type(function: Function) -> str:
    """`int` where every index value, offset and step towards them fits, else `int64_t`."""
    ranges = {node.index: node.range for node in walk(function) if isinstance(node, For)}
    forms = [node.form if isinstance(node, Constraint) else node for node in walk(function)]
    sizes = [prod(max(1, n) for n in b.shape) for b in (*function.inputs, function.output)]
    ends = [2 * abs(end) for known in ranges.values() for end in known]
    return (
        "int"
        if max(
            [*sizes, *ends, *(_reach(f, ranges) for f in forms if isinstance(f, Affine))], default=0
        )
        < 2**31
        else "int64_t"
    )


def _reach(form: Affine, ranges: Mapping[Index, tuple[int, int]]) -> int:
    """A bound of all that is computed for the value of a form."""
    total, inner = abs(form.const), 0
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            total += abs(coefficient) * max(
                (abs(end) for end in ranges.get(atom, (0, 0))), default=0
            )
        else:
            inside = _reach(atom.argument, ranges)
            inner = max(inner, inside, atom.divisor)
            total += abs(coefficient) * (
                inside if isinstance(atom, FloorDiv) else min(inside, atom.divisor)
            )
    return max(total, inner)


class CudaPrinter(Printer):
    """One kernel as CUDA."""

    types, loads, stores = CUDA_TYPES, LOADS, STORES
    own = frozenset()

    def __init__(self, function: Function, position: int, max_grid: Grid = MAX_GRID):
        self.launch = launch(function, position, max_grid)
        loops = _block_loops(function.body)
        axes = dict(zip((loop.index.name for loop in reversed(loops)), zip("xyz", max_grid)))
        self.axes = {
            loop.index.name: (
                axes[loop.index.name][0],
                (loop.extent or 0) > axes[loop.index.name][1],
            )
            for loop in loops
        }
        super().__init__(
            with_barriers(
                function, frozenset(name for name, (_, repeated) in self.axes.items() if repeated)
            )
        )
        self.index = index_type(function)
        self.names = Names(reserved=CUDA_RESERVED)
        self.threaded = False
        self.rows: dict[Ref, str] = {}
        self.row_index: Index | None = None
        self.fragments = Fragments(self)

    def function(self) -> str:
        function = self.source
        arguments = ", ".join(
            self.argument(b, b is not function.output) for b in (*function.inputs, function.output)
        )
        self.statements(function.body)
        comment = f"/* {function.output.name} = {function.comment} */\n" if function.comment else ""
        head = f'extern "C" __global__ void __launch_bounds__({self.launch.threads}, {resident_blocks(function, self.launch)}) {self.launch.name}({arguments})'
        return f"{comment}{head} {{\n" + "".join(f"{line}\n" for line in self.lines) + "}\n"

    def argument(self, buf: Buf, read: bool) -> str:
        return super().argument(buf, read).replace("*restrict ", "*__restrict__ ")

    # Statements.

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Sync):
            return self.line("__syncthreads();" if statement.scope == "block" else "__syncwarp();")
        if isinstance(statement, Alloc):
            buf = statement.buf
            if is_fragment(buf):
                return self.line(self.fragments.declaration(buf))
            shape = "".join(f"[{n}]" for n in buf.shape)
            return self.line(
                f"{self.space(buf)}{self.types[buf.dtype]} {self.names('buf', buf.name)}{shape};"
            )
        if isinstance(statement, WarpReduce):
            return self.combine(statement)
        if isinstance(statement, FRAGMENT_STATEMENTS):
            return self.fragments.statement(statement)
        if isinstance(statement, Store) and not self.threaded and self.launch.threads > 1:
            raise CodegenError(
                f"{statement.ref.buf.name} is set outside of the thread loops of {self.source.name}"
            )
        super().statement(statement)

    def space(self, buf: Buf) -> str:
        """What a declaration begins with: rows are read and written 16 bytes at a time, matrices begin at multiples of 32."""
        if buf.space != "shared":
            return f"alignas({ALIGNED_ROW}) " if buf.space == "local" else ""
        aligned = MATRIX_ALIGNMENT_BYTES if self.fragments.size else ALIGNED_ROW
        return f"__shared__ __align__({aligned}) "

    def combine(self, statement: WarpReduce) -> None:
        ref, width = self.ref(statement.ref), statement.lanes // 2
        while width:
            other = f"__shfl_xor_sync(0xffffffffu, {ref}, {width})"
            if statement.op in ("max", "min"):
                self.line(
                    f"{ref} = {self.call(statement.op, statement.ref.dtype)}({ref}, {other});"
                )
            else:
                self.line(f"{ref} {statement.op} {other};")
            width //= 2

    def statements(self, body: Sequence[Statement]) -> None:
        """One-step loops name a value: the last one of a body needs no braces."""
        for position, statement in enumerate(body):
            if (
                position == len(body) - 1
                and isinstance(statement, For)
                and statement.extent == 1
                and statement.kind == "seq"
            ):
                super().statements(body[:position])
                return self.named(statement)
        super().statements(body)

    def named(self, loop: For) -> None:
        """A loop of one step, without braces."""
        if uses(loop.body, loop.index):
            self.line(
                f"const {self.index} {self.names('index', loop.index.name)} = {self.bound(loop.low)};"
            )
        self.within(loop)

    def within(self, loop: For) -> None:
        with self.known(loop):
            self.statements(loop.body)

    def loop(self, loop: For, inside: bool = False) -> None:
        if loop.kind == "block":
            return self.blocks(loop)
        if loop.kind in THREADED and not self.threaded:
            return self.threads(loop)
        if loop.extent == 1 and loop.kind == "seq":
            return self.braces(lambda: self.named(loop))
        if loop.kind == "vec" and (copied := copied_row(loop)):
            target, source, word = copied
            return self.line(
                f"*({word} *)&{self.ref(target)} = *(const {word} *)&{self.ref(source)};"
            )
        if loop.kind == "vec" and (rows := vector_rows(loop)):
            return self.braces(lambda: self.vector_loop(loop, rows))
        unrolled = (
            loop.kind in ("unroll", "vec")
            and loop.extent is not None
            and loop.extent <= MAX_UNROLLED_STEPS
        )
        self.counting(loop, unrolled)

    def counting(self, loop: For, unrolled: bool) -> None:
        if unrolled:
            self.line("#pragma unroll")
        name, low, high = (
            self.names("index", loop.index.name),
            self.bound(loop.low),
            self.bound(loop.high),
        )
        self.braces(
            lambda: self.within(loop),
            f"for ({self.index} {name} = {low}; {name} < {high}; ++{name}) ",
        )

    def blocks(self, loop: For) -> None:
        if loop.index.name not in self.axes:
            raise CodegenError(
                f"the block loop {loop.index} of {self.source.name} stands beside other statements"
            )
        axis, repeated = self.axes[loop.index.name]
        name, first = self.names("index", loop.index.name), self.bound(loop.low)
        start = f"{'(int64_t)' if self.index == 'int64_t' else '(int)'}blockIdx.{axis}" + (
            f" + {first}" if first != "0" else ""
        )
        if not repeated and uses(loop.body, loop.index):
            self.line(f"const {self.index} {name} = {start};")
        if not repeated:
            return self.within(loop)
        head = f"for ({self.index} {name} = {start}; {name} < {self.bound(loop.high)}; {name} += gridDim.{axis}) "
        self.braces(lambda: self.within(loop), head)

    def threads(self, loop: For) -> None:
        """A nest of thread loops: the position of a thread, or its warp, among those of the block gives all its indices."""
        extents, threads = nest_extents(loop), nest_threads(loop)
        count, place = (
            prod(extents),
            "(int)threadIdx.x" + (f" / {WARP_THREADS}" if loop.kind == "warp" else ""),
        )
        self.line("{" if threads == self.launch.threads else f"if (threadIdx.x < {threads}) {{")
        self.depth += 1
        inner: For = loop
        for position, extent in enumerate(extents):
            if position:
                assert isinstance(inner.body[0], For)
                inner = inner.body[0]
            below, text = prod(extents[position + 1 :]), place
            text = f"{text} / {below}" if below > 1 else text
            text = (
                "0"
                if extent == 1
                else f"{text} % {extent}"
                if position and count > below * extent
                else text
            )
            low = self.bound(inner.low)
            if uses(inner.body, inner.index):
                self.line(
                    f"const {self.index} {self.names('index', inner.index.name)} = {text}{'' if low == '0' else f' + {low}'};"
                )
            self.ranges[inner.index] = inner.range
        self.threaded = True
        self.statements(inner.body)
        self.threaded = False
        self.depth -= 1
        self.line("}")

    def vector_loop(self, loop: For, rows: Sequence[VectorAccess]) -> None:
        """A loop over elements that lie side by side: all of them are read and written at once."""
        for row in rows:
            name = self.rows[row.ref] = self.names("row", f"{row.ref.buf.name}_row")
            self.line(f"alignas(16) {self.types[row.ref.dtype]} {name}[{row.width}];")
            if not row.written:
                self.line(
                    f"*({row.word} *){name} = *(const {row.word} *)&{super().ref(row.first)};"
                )
        self.row_index = loop.index
        self.counting(loop, True)
        for row in rows:
            name = self.rows.pop(row.ref)
            if row.written:
                self.line(f"*({row.word} *)&{super().ref(row.first)} = *({row.word} *){name};")

    def braces(self, inside: Callable[[], None], head: str = "") -> None:
        self.line(f"{head}{{")
        self.depth += 1
        inside()
        self.depth -= 1
        self.line("}")

    def put(self, put: Store) -> str:
        """An assignment; a copy of what has two bytes needs no arithmetic."""
        if put.op == "=" and isinstance(put.value, Ref) and put.value.dtype == put.ref.dtype:
            return f"{self.ref(put.ref)} = {self.ref(put.value)};"
        return super().put(put)

    # Values.

    def ref(self, ref: Ref) -> str:
        if ref in self.rows and self.row_index is not None:
            return f"{self.rows[ref]}[{self.form(affine(self.row_index))}]"
        return super().ref(ref)
