"""The loop IR as C that a person can read, with the index names of the expression (design §10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

from codegen.ir.nodes import (
    Alloc,
    Apply,
    Buf,
    For,
    Function,
    If,
    IndexNumber,
    Number,
    Predicate,
    Prefetch,
    Ref,
    Statement,
    Store,
    Sync,
    Transpose,
    Value,
    walk,
)
from codegen.ir.scalar import WEAK, WEAK_FLOAT, common, computed
from codegen.targets.c.helpers import C_TYPES, MATH, helper, index_function, index_helper
from codegen.targets.c.literals import literal
from codegen.targets.c.names import Names
from codegen.targets.c.vector_math import NAMES
from codegen.targets.c.vectors import Vectors, is_tile, unrolled_bodies, unrolled_nest
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.index.constraint import Constraint
from einalg.language.ir.dtypes import numpy_dtype

SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
C_INDEX = {"int": "i32", "int64_t": "i64"}
CLAUSE = {"+=": "+", "*=": "*", "max": "max", "min": "min"}
ALIGNED = 64  # bytes
LARGE = 2048  # elements from which on a local buffer of one axis is not on the stack
SELECT, LOGIC, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(7)
Text = tuple[str, int]  # C text and how tightly it binds


def index_type(function: Function, nodes: Sequence[Any] = ()) -> str:
    """`int` where every offset and index value fits, else `int64_t`; `nodes` are those of the function, where they are known."""
    nodes = nodes or list(walk(function))
    largest = max(
        (prod(max(1, n) for n in b.shape) for b in (*function.inputs, function.output)), default=1
    )
    bounds = [abs(v) for node in nodes if isinstance(node, For) for v in node.range]
    forms = {
        node.form if isinstance(node, Constraint) else node
        for node in nodes
        if isinstance(node, (Affine, Constraint))
    }
    numbers = [abs(v) for form in forms for v in _numbers(form)]
    return "int" if max([largest, *bounds]) * max([1, *numbers]) < 2**30 else "int64_t"


def _numbers(form: Affine) -> Iterator[int]:
    yield form.const
    for atom, coefficient in form.terms:
        yield coefficient
        if not isinstance(atom, Index):
            yield from _numbers(atom.argument)


class Printer:
    """One kernel as C."""

    types = C_TYPES
    loads, stores = {"f16": "load_half"}, {"f16": "store_half"}
    own = frozenset((name, "f32") for name in NAMES)  # functions that are not the library's

    def __init__(self, function: Function):
        self.source = function = replace(function, packs=())
        every = list(walk(function))
        self.names = Names()
        self.helpers: set[str] = set()
        self.index = index_type(function, every)
        self.called = {(node.op, node.dtype) for node in every if isinstance(node, Apply)}
        self.shapes = {b.name: b.shape for b in (*function.inputs, function.output)}
        nodes = [node for node in every if isinstance(node, Ref) and node.buf.space == "global"]
        self.flat = {r.buf.name for r in nodes} - {
            r.buf.name for r in nodes if r.buf.shape == self.shapes[r.buf.name]
        }
        self.ranges: dict[Index, tuple[int, int]] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.arena, self.held = 0, dict[Buf, int]()
        self.vectors = Vectors(self)

    def function(self, position: str) -> str:
        """The kernel, with its position in a file."""
        function = self.source
        buffers = (*function.inputs, function.output)
        arguments = ", ".join(self.argument(b, b is not function.output) for b in buffers)
        if not self.lines:
            self.statements(function.body)
        name = f"{self.names('buf', function.output.name)}_{position}"
        passed = ", ".join(f"buffers[{k}]" for k in range(len(buffers)))
        comment = (
            f"/* {function.output.name} = {function.comment} */\n".replace("*/ */", "*/")
            if function.comment
            else ""
        )
        entry = f"void kernel_{position}(void *const *buffers) {{\n  {name}({passed});\n}}\n"
        return (
            f"{comment}static void {name}({arguments}) {{\n"
            + "".join(f"{line}\n" for line in self.lines)
            + "}\n"
            + entry
        )

    def argument(self, buf: Buf, read: bool) -> str:
        inner = "" if buf.name in self.flat else "".join(f"[{max(1, n)}]" for n in buf.shape[1:])
        name = self.names("buf", buf.name)
        target = f"(*restrict {name}){inner}" if inner else f"*restrict {name}"
        return f"{'const ' if read else ''}{self.types[buf.dtype]} {target}"

    # Statements.

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def statements(self, body: Sequence[Statement]) -> None:
        skip = False
        for statement, after in zip(body, [*body[1:], None]):
            if skip:
                skip = False
            elif (
                isinstance(statement, Alloc)
                and isinstance(after, Store)
                and after.ref.buf == statement.buf
                and after.op == "="
            ):
                name, value = (
                    self.names("buf", statement.buf.name),
                    self.operand(after.value, computed(statement.buf.dtype)),
                )
                self.line(f"{self.types[statement.buf.dtype]} {name} = {value};")
                skip = True
            else:
                self.statement(statement)

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, For):
            return self.loop(statement)
        if isinstance(statement, If):
            return self.branch(statement, "if")
        if isinstance(statement, Store):
            return self.line(self.put(statement))
        if isinstance(statement, Sync):
            return  # the threads are steps of a loop, one after the other
        if isinstance(statement, Transpose):
            return self.vectors.turn(statement)
        if isinstance(statement, Prefetch):
            return self.line(
                f"__builtin_prefetch(&{self.ref(statement.ref)}, {int(statement.write)}, {4 - statement.level});"
            )
        if isinstance(statement, Alloc):
            return self.declare(statement.buf)
        raise TypeError(f"{type(statement).__name__} is a step of a warp, which C does not have")

    def declare(self, buf: Buf) -> None:
        """A local buffer: in registers, on the stack, or, a large one, in memory that a thread keeps."""
        if is_tile(buf):
            return self.vectors.tile(buf)
        c, name = C_TYPES[buf.dtype], self.names("buf", buf.name)
        if len(buf.shape) != 1 or buf.shape[0] < LARGE:
            return self.line(f"{c} {name}{''.join(f'[{n}]' for n in buf.shape)};")
        if buf not in self.held:
            self.held[buf] = self.arena
            self.arena += (
                -(-buf.shape[0] * numpy_dtype(computed(buf.dtype)).itemsize // ALIGNED) * ALIGNED
            )
        self.line(f"{c} *const restrict {name} = ({c} *)(arena + {self.held[buf]});")

    def put(self, put: Store) -> str:
        ref, dtype = self.ref(put.ref), computed(put.ref.dtype)
        value = self.operand(put.value, dtype)
        if put.op in ("max", "min"):
            return f"{ref} = {self.call(put.op, dtype)}({value}, {ref});"  # which keeps the second where the first is NaN
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
        self.depth += 1
        self.statements(body)
        self.depth -= 1

    def loop(self, loop: For, inside: bool = False) -> None:
        if loop.kind == "lanes":
            with self.known(loop):
                return self.vectors.loop(loop)
        if loop.kind == "unroll" and (nest := unrolled_nest(loop)):
            for body in unrolled_bodies(*nest):
                self.statements(body)
            return
        if not inside and (pragma := self.pragma(loop)):
            self.line(pragma)
        low, high = self.bound(loop.low), self.bound(loop.high)
        name = self.names("index", loop.index.name)
        self.line(f"for ({self.index} {name} = {low}; {name} < {high}; ++{name}) {{")
        with self.known(loop):
            nested = _shared(loop)
            if nested is not None:
                self.depth += 1
                self.loop(nested, inside=True)
                self.depth -= 1
            else:
                self.body(loop.body)
        self.line("}")

    @contextmanager
    def known(self, loop: For) -> Iterator[None]:
        """While a loop's body is printed, the range of its index is known."""
        before = self.ranges.get(loop.index)
        self.ranges[loop.index] = loop.range
        yield
        if before is not None:
            self.ranges[loop.index] = before

    def pragma(self, loop: For) -> str:
        if loop.kind == "par":
            count, inner = 1, _shared(loop)
            while inner is not None:
                count, inner = count + 1, _shared(inner)
            flat = count == 1 and not any(isinstance(n, For) for s in loop.body for n in walk(s))
            return f"#pragma omp parallel for{' simd' if flat else ''}{f' collapse({count})' if count > 1 else ''} schedule(static)"
        if loop.kind == "vec":
            return self.vector_pragma(loop)
        written = {"unroll": loop.extent or 8, "rolled": 1}.get(loop.kind)
        return f"#pragma GCC unroll {written}" if written else ""

    def vector_pragma(self, loop: For) -> str:
        """The pragma of a loop whose steps are independent but for the registers that they reduce into."""
        nodes = [n for s in loop.body for n in walk(s)]
        own = {n.buf for n in nodes if isinstance(n, Alloc)}
        sums = {
            n.ref.buf: n.op
            for n in nodes
            if isinstance(n, Store)
            and not n.ref.buf.shape
            and n.ref.buf.space == "reg"
            and n.ref.buf not in own
        }
        if not set(sums.values()) <= set(CLAUSE):
            return ""
        return "#pragma omp simd" + "".join(
            f" reduction({CLAUSE[op]}:{self.names('buf', buf.name)})" for buf, op in sums.items()
        )

    # Index expressions.

    def bound(self, bound: Any) -> str:
        if isinstance(bound, Affine):
            return self.form(bound)
        first, *others = bound.of
        text = self.bound(first)
        for other in others:
            text = f"{self.index_call(f'index_{bound.op}')}({text}, {self.bound(other)})"
        return text

    def form(self, form: Affine) -> str:
        parts = []
        for atom, coefficient in sorted(form.terms, key=lambda term: -term[1]):
            text = self.atom(atom)
            parts.append(
                (coefficient < 0, text if abs(coefficient) == 1 else f"{abs(coefficient)}*{text}")
            )
        if form.const or not parts:
            parts.append((form.const < 0, str(abs(form.const))))
        (negative, text), *others = parts
        return (
            ("-" if negative else "")
            + text
            + "".join(f" {'-' if minus else '+'} {t}" for minus, t in others)
        )

    def atom(self, atom: Any) -> str:
        if isinstance(atom, Index):
            return self.names("index", atom.name)
        inside = self.form(atom.argument)
        whole = isinstance(atom, FloorDiv)
        if atom.argument.interval(self.ranges)[0] >= 0:
            plain = (
                f"({inside})"
                if len(atom.argument.terms) > 1
                or atom.argument.const
                or " " in inside
                or "*" in inside
                else inside
            )
            return f"({plain} {'/' if whole else '%'} {atom.divisor})"
        if atom.divisor & (atom.divisor - 1) == 0:
            shift = atom.divisor.bit_length() - 1
            return f"(({inside}) >> {shift})" if whole else f"(({inside}) & {atom.divisor - 1})"
        return f"{self.index_call('floor_div' if whole else 'floor_mod')}({inside}, {atom.divisor})"

    def condition(self, condition: Constraint) -> str:
        left, right = condition.sides()
        if condition.relation == "==":
            return f"{self.form(left)} == {self.form(right)}"
        return (
            f"{self.form(left)} >= {self.form(right)}"
            if left.terms
            else f"{self.form(right)} <= {self.form(left)}"
        )

    def index_call(self, name: str) -> str:
        self.helpers.add(index_helper(name, self.index))
        return index_function(name, self.index)

    # Values.

    def ref(self, ref: Ref) -> str:
        name = self.names("buf", ref.buf.name)
        if not ref.buf.shape:
            return f"{name}[0]" if ref.buf.space == "global" else name
        if (
            len(ref.buf.shape) < len(self.shapes.get(ref.buf.name, ()))
            and ref.buf.name not in self.flat
        ):
            read = "" if ref.buf.name == self.source.output.name else "const "
            name = f"(({read}{self.types[ref.buf.dtype]} *){name})"
        return name + "".join(f"[{self.form(s)}]" for s in ref.subscripts)

    def expression(self, value: Value) -> str:
        return self.text(value)[0]

    def operand(self, value: Value, dtype: str, binds: int = SELECT) -> str:
        """A value in type `dtype`, in brackets where it binds less tightly than `binds`."""
        if isinstance(value, Number):
            text = literal(value.value, dtype)
            return f"({text})" if text.startswith("-") and binds > SUM else text
        text, own = self.text(value)
        if isinstance(value, IndexNumber) and dtype == value.dtype != C_INDEX[self.index]:
            return _bracketed(f"(int64_t){_bracketed(text, own, UNARY)}", UNARY, binds)
        if value.dtype in self.loads:
            text, own = f"{self.loads[value.dtype]}({text})", ATOM
        if computed(value.dtype) != dtype and value.dtype not in (WEAK, WEAK_FLOAT):
            text, own = f"({self.types[dtype]}){_bracketed(text, own, UNARY)}", UNARY
        return _bracketed(text, own, binds)

    def text(self, value: Value) -> Text:
        if isinstance(value, Ref):
            return self.ref(value), ATOM
        if isinstance(value, Number):
            return literal(value.value, value.dtype), ATOM
        if isinstance(value, IndexNumber):
            text = self.form(value.form)
            return text, ATOM if text.isidentifier() else SELECT
        if isinstance(value, Predicate):
            return " && ".join(self.condition(c) for c in value.conditions), COMPARE if len(
                value.conditions
            ) == 1 else LOGIC
        return self.apply(value)

    def apply(self, value: Apply) -> Text:
        op, dtype, arguments = value.op, value.dtype, value.arguments
        if op == "add":
            return self.sum(arguments, dtype), SUM
        if op == "mul":
            return " * ".join(self.operand(a, dtype, UNARY) for a in arguments), PRODUCT
        if op == "div":
            return (
                f"{self.operand(arguments[0], dtype, PRODUCT)} / {self.operand(arguments[1], dtype, UNARY)}",
                PRODUCT,
            )
        if op == "neg":
            return f"-{self.operand(arguments[0], dtype, UNARY)}", SUM
        if op == "select":
            test, yes, no = arguments
            return (
                f"{self.operand(test, 'bool', LOGIC)} ? {self.operand(yes, dtype, LOGIC)} : {self.operand(no, dtype, SELECT)}",
                SELECT,
            )
        if op in SIGNS:
            shared = common(arguments)
            return f" {SIGNS[op]} ".join(self.operand(a, shared, SUM) for a in arguments), COMPARE
        if op in ("and", "or"):
            return f" {'&&' if op == 'and' else '||'} ".join(
                self.operand(a, "bool", ATOM) for a in arguments
            ), LOGIC
        if op == "not":
            return f"!{self.operand(arguments[0], 'bool', ATOM)}", UNARY
        if op == "cast":
            return self.operand(arguments[0], dtype, UNARY), UNARY
        return self.function_call(op, arguments, dtype), ATOM

    def sum(self, arguments: Iterable[Value], dtype: str) -> str:
        parts: list[str] = []
        for argument in sorted(arguments, key=_is_negative):
            minus = _is_negative(argument) and bool(parts)
            value = _negated(argument) if minus else argument
            parts.append(("- " if minus else "+ ") + self.operand(value, dtype, PRODUCT))
        return " ".join(parts).removeprefix("+ ")

    def function_call(self, op: str, arguments: Sequence[Value], dtype: str) -> str:
        if op in ("max", "min"):
            text = self.operand(arguments[0], dtype)
            for other in arguments[1:]:
                text = f"{self.call(op, dtype)}({text}, {self.operand(other, dtype)})"
            return text
        if op == "ipow":
            assert isinstance(arguments[1], Number)
            return f"{self.call(f'ipow{arguments[1].value}', dtype)}({self.operand(arguments[0], dtype)})"
        passed = ", ".join(self.operand(a, dtype) for a in arguments)
        if (op, dtype) in self.own:
            return f"{op}_{dtype}({passed})"
        if op in MATH:
            return f"{op}{'f' if dtype == 'f32' else ''}({passed})"
        return f"{self.call(op, dtype)}({passed})"

    def need(self, text: str) -> None:
        """Have a declaration printed at the head of the file."""
        self.helpers.add(text)

    def call(self, name: str, dtype: str) -> str:
        self.helpers.add(helper(name, dtype))
        return f"{name}_{dtype}"


def _shared(loop: For) -> For | None:
    """The loop directly inside, where threads share both together."""
    inner = loop.body[0] if loop.kind == "par" and len(loop.body) == 1 else None
    return inner if isinstance(inner, For) and inner.kind == "par" else None


def _bracketed(text: str, own: int, binds: int) -> str:
    return f"({text})" if own < binds or own == SELECT else text


def _is_negative(value: Value) -> bool:
    return (isinstance(value, Apply) and value.op == "neg") or (
        isinstance(value, Number) and value.value < 0
    )


def _negated(value: Any) -> Value:
    return value.arguments[0] if isinstance(value, Apply) else Number(-value.value, value.dtype)
