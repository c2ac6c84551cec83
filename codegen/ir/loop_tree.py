"""A function of the loop IR as a person reads it: its loops as a tree, with what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from codegen.ir.nodes import (
    Alloc,
    Apply,
    Bound,
    For,
    Function,
    If,
    IndexNumber,
    MinMax,
    Number,
    Outlined,
    Predicate,
    Prefetch,
    Ref,
    Statement,
    Store,
    Transpose,
    Value,
)

INDENT = "  "
MAX_COLUMNS = 100
INFIX = {"add": " + ", "sub": " - ", "mul": "*", "div": "/", "lt": " < ", "eq": " == "}
IN_BRACKETS = ("add", "sub", "lt", "eq")  # beside another operator
ASSIGNED = {"=", "+=", "*="}  # the others are functions of the old value


def loop_tree(function: Function) -> str:
    """Return the loops of a function, and of what it packs ahead, as lines of text.

    >>> from codegen.ir.builder import LoopBuilder
    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.affine import Index
    >>> w = LoopBuilder({"A", "O"})
    >>> target, source = Buf("O", (4,), "f32"), Buf("A", (4,), "f32")
    >>> with w.loop(Index("i"), 4, kind="vec") as i:
    ...     w.put(Ref(target, (i,)), "+=", Ref(source, (i,)))
    >>> print(loop_tree(Function("O", (source,), target, tuple(w.out))))
    for i in 0..4 (vec)
      O[i] += A[i]
    """
    lines: list[str] = []
    for pack in function.packs:
        lines.append(f"once, pack {pack.output.name}:")
        lines += _lines(pack.body, 1)
    lines += _lines(function.body, 0)
    return "\n".join(_cut(line) for line in lines)


def _cut(line: str) -> str:
    if len(line) <= MAX_COLUMNS:
        return line
    return f"{line[: MAX_COLUMNS - 2]} …"


def _lines(body: Sequence[Statement], depth: int) -> Iterator[str]:
    for statement in body:
        yield INDENT * depth + _line(statement)
        if isinstance(statement, For | Outlined):
            yield from _lines(statement.body, depth + 1)
        if isinstance(statement, If):
            yield from _lines(statement.then, depth + 1)
            if statement.orelse:
                yield INDENT * depth + "else"
                yield from _lines(statement.orelse, depth + 1)


def _line(statement: Statement) -> str:
    """Return a statement without those that it holds."""
    if isinstance(statement, For):
        kind = "" if statement.kind == "seq" else f" ({statement.kind})"
        low, high = _bound(statement.low), _bound(statement.high)
        return f"for {statement.index} in {low}..{high}{kind}"
    if isinstance(statement, If):
        return f"if {_value(statement.test)}"
    if isinstance(statement, Alloc):
        buf = statement.buf
        shape = ", ".join(map(str, buf.shape))
        return f"{buf.name}: {buf.dtype}[{shape}] in {buf.space}"
    if isinstance(statement, Store):
        place, value = _value(statement.ref), _value(statement.value)
        if statement.op in ASSIGNED:
            return f"{place} {statement.op} {value}"
        return f"{place} = {statement.op}({place}, {value})"
    if isinstance(statement, Prefetch):
        return f"prefetch {_value(statement.ref)}"
    if isinstance(statement, Transpose):
        square = f"{statement.rows} x {statement.size}"
        return f"{_value(statement.target)} = transpose({square} at {_value(statement.source)})"
    return type(statement).__name__.lower()  # what it holds is shown below it


def _bound(bound: Bound) -> str:
    if isinstance(bound, MinMax):
        return f"{bound.op}({', '.join(map(_bound, bound.of))})"
    return str(bound)


def _value(value: Value) -> str:
    if isinstance(value, Ref):
        subscripts = ", ".join(map(str, value.subscripts))
        return f"{value.buf.name}[{subscripts}]"
    if isinstance(value, Number):
        return str(value.value)
    if isinstance(value, IndexNumber):
        return str(value.form)
    if isinstance(value, Predicate):
        return " and ".join(map(str, value.conditions))
    if value.op == "neg":
        return "-" + next(_operands(value.arguments))
    if value.op in INFIX:
        return INFIX[value.op].join(_operands(value.arguments))
    return f"{value.op}({', '.join(map(_value, value.arguments))})"


def _operands(arguments: Iterable[Value]) -> Iterator[str]:
    """Yield operands, sums among them in brackets."""
    for argument in arguments:
        text = _value(argument)
        if isinstance(argument, Apply) and argument.op in IN_BRACKETS:
            text = f"({text})"
        yield text
