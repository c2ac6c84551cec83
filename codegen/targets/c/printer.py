"""The loop IR as C that a person can read, with the index names of the expression (design §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

from codegen.ir.early_loads import with_early_loads
from codegen.ir.extremes import ExtremeStore, is_register, with_extremes
from codegen.ir.half_rows import converted_row, with_half_rows
from codegen.ir.names import used_names
from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    Outlined,
    Prefetch,
    Ref,
    Statement,
    Store,
    Sync,
    Transpose,
    walk,
)
from codegen.ir.paired_sums import loop_over_pairs_of_terms
from codegen.ir.types import bytes_of, computed
from codegen.targets.c.expressions import ExpressionPrinter
from codegen.targets.c.extreme_loops import ExtremeLoops, float_extremes
from codegen.targets.c.functions.names import C_TYPES
from codegen.targets.c.names import Names
from codegen.targets.c.vectors import Vectors, is_tile, unrolled_bodies, unrolled_nest
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint

REDUCTION_CLAUSES = {"+=": "+", "*=": "*", "max": "max", "min": "min"}  # of OpenMP
ARENA_ALIGNMENT_BYTES = 64
MIN_ARENA_ELEMENTS = 2048  # from which on a local buffer of one axis is not on the stack
MAX_LINE = 100  # columns, from which on the terms of an extreme are on lines of their own
DEFAULT_UNROLLING = 8  # steps of a loop whose extent is not known
KERNEL_NAME = "@"  # stands for the name of a kernel in those of its outlined functions
MAX_INT_OFFSET = 2**30  # products of sizes and coefficients below it are offsets of type int


def index_type(function: Function, nodes: Sequence[Any] = ()) -> str:
    """Return `int` where every offset and index value fits, else `int64_t`.

    `nodes` are those of the function, where they have been listed already.
    """
    nodes = nodes or list(walk(function))
    largest = 1
    for buf in (*function.inputs, function.output):
        largest = max(largest, prod(max(1, n) for n in buf.shape))
    factor = 1
    forms: set[Affine] = set()
    for node in nodes:
        if isinstance(node, For):
            largest = max(largest, *map(abs, node.range))
        elif isinstance(node, Constraint):
            forms.add(node.form)
        elif isinstance(node, Affine):
            forms.add(node)
    for form in forms:
        factor = max(factor, *map(abs, _numbers(form)))
    if largest * factor < MAX_INT_OFFSET:
        return "int"
    return "int64_t"


def _numbers(form: Affine) -> Iterator[int]:
    """Yield the constants and coefficients of an index expression."""
    yield form.const
    for atom, coefficient in form.terms:
        yield coefficient
        if not isinstance(atom, Index):
            yield from _numbers(atom.argument)


class Printer(ExpressionPrinter):
    """One kernel as C."""

    def __init__(self, function: Function):
        function = self.prepared(replace(function, packs=()))
        nodes = list(walk(function))
        super().__init__(function, index_type(function, nodes), Names())
        self.called = {(node.op, node.dtype) for node in nodes if isinstance(node, Apply)}
        self.flat = _flat_buffers(nodes, self.shapes)
        self.used = used_names(function)
        self.lines: list[str] = []
        self.outlined: list[str] = []  # functions of statements
        self.depth = 1
        self.arena_bytes = 0
        self.arena_offsets: dict[Buf, int] = {}
        self.vectors = Vectors(self)
        self.extremes = ExtremeLoops(self)

    def prepared(self, function: Function) -> Function:
        """Return a function as it is printed."""
        return with_half_rows(function)

    def function(self, position: str) -> str:
        """Return the kernel and its entry, with its position in a file."""
        self.arguments()  # these have their names first
        name = f"{self.names('buf', self.source.output.name)}_{position}"
        passed = ", ".join(f"buffers[{k}]" for k in range(len(self.source.inputs) + 1))
        entry = f"void kernel_{position}(void *const *buffers) {{\n  {name}({passed});\n}}\n"
        return self.definition(name) + entry

    def definition(self, name: str) -> str:
        """Return the kernel as a static function."""
        function = self.source
        arguments = self.arguments()
        if not self.lines:
            self.statements(function.body)
        arguments += self.more_arguments()
        comment = ""
        if function.comment:
            comment = f"/* {function.output.name} = {function.comment} */\n"
            comment = comment.replace("*/ */", "*/")
        body = "".join(f"{line}\n" for line in self.lines)
        text = f"static void {name}({', '.join(arguments)}) {{\n{body}}}\n"
        return comment + "".join([*self.outlined, text]).replace(KERNEL_NAME, name)

    def arguments(self) -> list[str]:
        """Return the declarations of what a kernel takes: its inputs, then the output."""
        function = self.source
        return [
            *(self.argument(buf, True) for buf in function.inputs),
            self.argument(function.output, False),
        ]

    def more_arguments(self) -> list[str]:
        """Return the declarations of what the printed body takes beside its buffers."""
        return []

    def more_names(self) -> list[str]:
        """Return the names of these."""
        return []

    def argument(self, buf: Buf, is_read: bool) -> str:
        """Return the declaration of a buffer that a kernel is given."""
        inner = self.inner_axes(buf)
        declared = f"*restrict {self.names('buf', buf.name)}"
        if inner:
            declared = f"({declared}){inner}"
        if is_read:
            return f"const {self.types[buf.dtype]} {declared}"
        return f"{self.types[buf.dtype]} {declared}"

    def inner_axes(self, buf: Buf) -> str:
        """Return the axes but the first in a declaration; none of a buffer that is flat."""
        if buf.name in self.flat:
            return ""
        return "".join(f"[{max(1, n)}]" for n in buf.shape[1:])

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def need(self, text: str) -> None:
        """Have a declaration printed at the head of the file."""
        self.helpers.add(text)

    # Statements.

    def statements(self, body: Sequence[Statement]) -> None:
        """Print statements; a declaration and the assignment after it are one line."""
        joined = self.joined(body)
        pairs = iter(zip(joined, [*joined[1:], None]))
        for statement, following in pairs:
            initialiser = _initialiser(statement, following)
            if initialiser is None:
                self.statement(statement)
                continue
            next(pairs)
            buf = initialiser.ref.buf
            declared = f"{self.types[buf.dtype]} {self.names('buf', buf.name)}"
            if isinstance(initialiser, ExtremeStore):
                self.extreme(declared, initialiser)
            else:
                self.line(f"{declared} = {self.operand(initialiser.value, computed(buf.dtype))};")

    def joined(self, body: Sequence[Statement]) -> Sequence[Statement | ExtremeStore]:
        """Return statements, those as one that are one in C."""
        return with_extremes(body)

    def statement(self, statement: Statement | ExtremeStore) -> None:
        if isinstance(statement, For):
            self.loop(statement)
        elif isinstance(statement, If):
            self.branch(statement, "if")
        elif isinstance(statement, ExtremeStore):
            self.extreme(self.ref(statement.ref), statement)
        elif isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Transpose):
            self.vectors.turn(statement)
        elif isinstance(statement, Outlined):
            self.call_outlined(statement)
        elif isinstance(statement, Prefetch):
            locality = 4 - statement.level
            address = f"&{self.ref(statement.ref)}"
            self.line(f"__builtin_prefetch({address}, {int(statement.write)}, {locality});")
        elif isinstance(statement, Alloc):
            self.declare(statement.buf)
        elif not isinstance(statement, Sync):  # threads are steps of a loop, one after the other
            raise TypeError(
                f"{type(statement).__name__} is a step of a warp, which C does not have"
            )

    def call_outlined(self, outlined: Outlined) -> None:
        """Print statements as a function that takes the indices and buffers that it reads."""
        arguments: dict[str, str] = {}  # declarations by the names that are passed
        for index in _free_indices(outlined):
            name = self.names("index", index.name)
            arguments[name] = f"{self.index} {name}"
        for buf in _outer_buffers(outlined):
            name = self.names("buf", buf.name)
            if buf.space == "global":
                whole = replace(buf, shape=self.shapes[buf.name])
                arguments[name] = self.argument(whole, buf.name != self.source.output.name)
            else:
                arguments[name] = f"{C_TYPES[buf.dtype]} *restrict {name}"
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 1
        self.statements(outlined.body)
        body = "".join(f"{line}\n" for line in self.lines)
        self.lines, self.depth = lines, depth
        declared = [*arguments.values(), *self.more_arguments()]
        passed = [*arguments, *self.more_names()]
        name = f"{KERNEL_NAME}_part_{len(self.outlined)}"
        head = f"static __attribute__((noinline)) void {name}({', '.join(declared)})"
        self.outlined.append(f"{head} {{\n{body}}}\n")
        self.line(f"{name}({', '.join(passed)});")

    def store(self, store: Store) -> None:
        if store.ref.buf in self.extremes.parts:
            self.extremes.put(store)
        else:
            self.line(self.put(store))

    def declare(self, buf: Buf) -> None:
        """Declare a local buffer: in registers, on the stack, or in memory that a thread keeps."""
        if is_tile(buf):
            return self.vectors.tile(buf)
        c, name = C_TYPES[buf.dtype], self.names("buf", buf.name)
        if len(buf.shape) != 1 or buf.shape[0] < MIN_ARENA_ELEMENTS:
            shape = "".join(f"[{n}]" for n in buf.shape)
            return self.line(f"{c} {name}{shape};")
        if buf not in self.arena_offsets:
            self.arena_offsets[buf] = self.arena_bytes
            size = buf.shape[0] * bytes_of(computed(buf.dtype))
            self.arena_bytes += -(-size // ARENA_ALIGNMENT_BYTES) * ARENA_ALIGNMENT_BYTES
        address = f"({c} *)({self.arena()} + {self.arena_offsets[buf]})"
        self.line(f"{c} *const restrict {name} = {address};")

    def arena(self) -> str:
        """Return the memory that the thread keeps for local buffers."""
        return "arena"

    def put(self, put: Store) -> str:
        """Return an assignment."""
        ref, dtype = self.ref(put.ref), computed(put.ref.dtype)
        value = self.operand(put.value, dtype)
        if put.op in ("max", "min"):
            return f"{ref} = {self.call(put.op, dtype)}({value}, {ref});"
        if put.ref.dtype in self.stores:
            value = f"{self.stores[put.ref.dtype]}({value})"
        elif put.ref.dtype == "bool" and put.value.dtype != "bool":
            value = f"({value}) != 0"
        return f"{ref} {put.op} {value};"

    def branch(self, statement: If, word: str) -> None:
        self.line(f"{word} ({self.expression(statement.test)}) {{")
        self.body(statement.then)
        if len(statement.orelse) == 1 and isinstance(statement.orelse[0], If):
            return self.branch(statement.orelse[0], "} else if")
        if statement.orelse:
            self.line("} else {")
            self.body(statement.orelse)
        self.line("}")

    def body(self, body: Sequence[Statement]) -> None:
        """Print statements one level deeper."""
        self.depth += 1
        self.statements(body)
        self.depth -= 1

    # Loops.

    def loop(self, loop: For, inside: bool = False) -> None:
        """Print a loop; `inside` says that the pragma of the loop around it holds for it too."""
        if loop.kind == "lanes":
            with self.index_range(loop):
                return self.vectors.loop(loop)
        if loop.kind == "vec":
            row = converted_row(loop)
            if row is not None:
                return self.convert(loop, *row)
            extremes = float_extremes(_shared_registers(loop))
            if extremes:
                return self.extremes.loop(loop, extremes)
            loop = loop_over_pairs_of_terms(loop)
        nest = None
        if loop.kind == "unroll":
            nest = unrolled_nest(loop)
        if nest is not None:
            for body in unrolled_bodies(*nest):
                self.statements(body)
            return
        pragma = ""
        if not inside:
            pragma = self.pragma(loop)
        if pragma:
            self.line(pragma)
        self.counting_loop(loop)

    def convert(self, loop: For, target: Ref, source: Ref) -> None:
        """Print the copy of a row of halves to floats, or back, from its first elements on."""
        name = "load_halves"
        if target.dtype == "f16":
            name = "store_halves"
        count = str(loop.extent)
        if loop.extent is None:
            count = f"{self.bound(loop.high)} - ({self.bound(loop.low)})"
        self.line(f"{name}(&{self.ref(source)}, &{self.ref(target)}, {count});")

    def counting_loop(self, loop: For) -> None:
        """Print a loop as `for`."""
        if loop.kind in ("vec", "par"):
            loop = with_early_loads(loop, self.used)
        self.line(f"{self.loop_head(loop)}{{")
        with self.index_range(loop):
            nested = _collapsed_loop(loop)
            if nested is None:
                self.body(loop.body)
            else:
                self.depth += 1
                self.loop(nested, inside=True)
                self.depth -= 1
        self.line("}")

    def loop_head(self, loop: For) -> str:
        """Return what stands before the braces of a loop."""
        low, high = self.bound(loop.low), self.bound(loop.high)
        name = self.names("index", loop.index.name)
        return f"for ({self.index} {name} = {low}; {name} < {high}; ++{name}) "

    @contextmanager
    def braces(self, head: str = "") -> Iterator[None]:
        """Stand around statements, which are printed one level deeper."""
        self.line(f"{head}{{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def index_range(self, loop: For) -> Iterator[None]:
        """Hold the range of a loop's index while its body is printed."""
        before = self.ranges.get(loop.index)
        self.ranges[loop.index] = loop.range
        yield
        if before is not None:
            self.ranges[loop.index] = before

    def pragma(self, loop: For) -> str:
        """Return what tells the compiler how to run a loop, or nothing."""
        if loop.kind == "par":
            return _parallel_pragma(loop)
        if loop.kind == "vec":
            return self.vector_pragma(loop)
        if loop.kind == "unroll":
            return f"#pragma GCC unroll {loop.extent or DEFAULT_UNROLLING}"
        if loop.kind == "rolled":
            return "#pragma GCC unroll 1"
        return ""

    def vector_pragma(self, loop: For) -> str:
        """Return the pragma of a loop of steps that share nothing but sums in registers."""
        pragma = "#pragma omp simd"
        for buf, op in _shared_registers(loop).items():
            if op not in REDUCTION_CLAUSES:
                return ""
            if buf in self.extremes.parts:
                pragma += f" {self.extremes.parts[buf].clauses()}"
            else:
                pragma += f" reduction({REDUCTION_CLAUSES[op]}:{self.names('buf', buf.name)})"
        return pragma

    # Maxima and minima.

    def extreme(self, target: str, extreme: ExtremeStore) -> None:
        """Print an assignment of a maximum or minimum, each term on a line where they are long."""
        dtype = computed(extreme.ref.dtype)
        terms = [self.operand(term, dtype) for term in extreme.terms]
        text = f"{target} = {self.largest(extreme.op, terms, dtype)};"
        if len(text) + 2 * self.depth <= MAX_LINE:
            return self.line(text)
        *terms, last = terms
        self.line(f"{target} = {self.extreme_of(extreme.op, len(extreme.terms), dtype)}(")
        for term in terms:
            self.line(f"  {term},")
        self.line(f"  {last});")


def _flat_buffers(nodes: Sequence[Any], shapes: dict[str, tuple[int, ...]]) -> set[str]:
    """Return the buffers of a kernel whose every reference sees them as one axis."""
    flat: set[str] = set()
    shaped: set[str] = set()
    for node in nodes:
        if isinstance(node, Ref) and node.buf.space == "global":
            flat.add(node.buf.name)
            if node.buf.shape == shapes[node.buf.name]:
                shaped.add(node.buf.name)
    return flat - shaped


def _free_indices(outlined: Outlined) -> list[Index]:
    """Return the indices of the loops around some statements that are read in these."""
    read: dict[Index, None] = {}
    bound: set[Index] = set()
    for node in walk(outlined):
        if isinstance(node, For):
            bound.add(node.index)
        elif isinstance(node, (Affine, Constraint)):
            read |= dict.fromkeys(sorted(node.indices, key=str))
    return [index for index in read if index not in bound]


def _outer_buffers(outlined: Outlined) -> list[Buf]:
    """Return the buffers that some statements read or write, but do not declare."""
    used: dict[str, Buf] = {}
    own: set[str] = set()
    for node in walk(outlined):
        if isinstance(node, Alloc):
            own.add(node.buf.name)
        elif isinstance(node, Ref):
            used.setdefault(node.buf.name, node.buf)
    return [buf for name, buf in used.items() if name not in own]


def _initialiser(
    statement: Statement | ExtremeStore, following: Statement | ExtremeStore | None
) -> Store | ExtremeStore | None:
    """Return the statement after a declaration, where it sets the variable."""
    if not isinstance(statement, Alloc) or not isinstance(following, (Store, ExtremeStore)):
        return None
    if following.ref.buf != statement.buf:
        return None
    if isinstance(following, Store) and following.op != "=":
        return None
    return following


def _shared_registers(loop: For) -> dict[Buf, str]:
    """Return the registers that the steps of a loop share, and how they add to each."""
    nodes = [n for statement in loop.body for n in walk(statement)]
    private = {n.buf for n in nodes if isinstance(n, Alloc)}
    registers: dict[Buf, str] = {}
    for node in nodes:
        if isinstance(node, Store) and is_register(node.ref.buf) and node.ref.buf not in private:
            registers[node.ref.buf] = node.op
    return registers


def _collapsed_loop(loop: For) -> For | None:
    """Return the loop directly inside, where threads share both together."""
    if loop.kind != "par" or len(loop.body) != 1:
        return None
    inner = loop.body[0]
    if isinstance(inner, For) and inner.kind == "par":
        return inner
    return None


def _parallel_pragma(loop: For) -> str:
    """Return the pragma of a loop whose steps threads share, with those of the loops inside it."""
    count, inner = 1, _collapsed_loop(loop)
    while inner is not None:
        count, inner = count + 1, _collapsed_loop(inner)
    has_loops = any(isinstance(n, For) for statement in loop.body for n in walk(statement))
    pragma = "#pragma omp parallel for"
    if not has_loops:
        pragma += " simd"
    if count > 1:
        pragma += f" collapse({count})"
    return f"{pragma} schedule(static)"
