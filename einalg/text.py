"""The text door: a subset of Python's grammar, read with `ast` (design §4)."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import sympy

from einalg import notation
from einalg.affine import Index, IndexArithmetic
from einalg.errors import EinalgError, NotationError, underline
from einalg.program import Program, statement_tensor
from einalg.scope import Scope
from einalg.access import Indexable, Tensor
from einalg.traverse import accesses, reductions

FUNCTIONS: dict[str, Any] = {
    "exp": sympy.exp, "log": sympy.log, "tanh": sympy.tanh, "sqrt": sympy.sqrt, "erf": sympy.erf, "Abs": sympy.Abs,
    "sign": sympy.sign, "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "sinh": sympy.sinh, "cosh": sympy.cosh,
    "asin": sympy.asin, "acos": sympy.acos, "atan": sympy.atan, "atan2": sympy.atan2, "asinh": sympy.asinh, "acosh": sympy.acosh, "atanh": sympy.atanh,
    "floor": sympy.floor, "ceiling": sympy.ceiling, "erfc": sympy.erfc, "gamma": sympy.gamma, "loggamma": sympy.loggamma,
    "Piecewise": sympy.Piecewise, "Eq": sympy.Eq, "Ne": sympy.Ne, "Mod": sympy.Mod, "And": sympy.And, "Or": sympy.Or, "Not": sympy.Not,
    "L": notation.L, "Sum": notation.Sum, "Max": notation.Max, "Min": notation.Min, "Prod": notation.Prod,
}  # fmt: skip
CONSTANTS: dict[str, Any] = {"inf": sympy.oo, "oo": sympy.oo, "pi": sympy.pi, "E": sympy.E, "True": sympy.true, "False": sympy.false}
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne,
}  # fmt: skip
MAX_TEXT = 100_000  # characters
MAX_DEPTH = 80  # nested brackets
MAX_NUMBER = 10**12  # of an integer constant or exponent that is folded


def parse(text: str, **tensors: Any) -> Any:
    """Read an expression or a program from text; `tensors` gives the shape, or the tensor, for each free name.

    One statement or expression gives a scope, several lines a program. Raises `NotationError` with a caret under the
    place, or `RangeError` where the ranges do not fit.

    >>> parse("O[n,f] += A[n,c] * K[f,c]", A=(8, 3), K=(4, 3)).shape
    (8, 4)
    """
    if not isinstance(text, str):
        raise NotationError(f"parse() takes text, not {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise NotationError(f"the text has {len(text)} characters; at most {MAX_TEXT} are read")
    lines = text.strip("\n")
    module = _syntax(lines)
    reader = _Reader(lines, {name: _as_tensor(name, value) for name, value in tensors.items()})
    try:
        return reader.module(module)
    except RecursionError:
        raise NotationError("the expression is nested too deeply to be read") from None


def parse_value(text: str) -> Any:
    """An index form or a condition from text; every name is an index.

    >>> parse_value("2*h + r - 1")
    2*h + r - 1
    """
    (statement,) = _syntax(text).body
    called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    names = {node.id: Index(node.id) for node in ast.walk(statement) if isinstance(node, ast.Name) and id(node) not in called}
    return _Reader(text, names).value(statement.value)  # pyright: ignore


def _as_tensor(name: str, value: Any) -> Any:
    if isinstance(value, Indexable):
        return value
    return Tensor(name, (value,) if isinstance(value, int) else value)


def _syntax(text: str) -> ast.Module:
    import warnings

    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise NotationError(f"the expression has {deepest} nested brackets; at most {MAX_DEPTH} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(_dedented(text))
    except SyntaxError as error:
        line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
        raise NotationError(f"{underline(_dedented(text), column, line=line)} {error.msg}") from None
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        raise NotationError(f"the text cannot be read: {error}") from None


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines()) if "\n" in text and not _open_bracket(text) else text.strip()


def _open_bracket(text: str) -> bool:
    """Whether some line ends inside a bracket, so that its indentation is free anyway."""
    depth = 0
    for line in text.splitlines()[:-1]:
        depth += sum((c in "([{") - (c in ")]}") for c in line.split("#")[0])
        if depth > 0:
            return True
    return False


class _Reader:
    def __init__(self, text: str, names: dict[str, Any]):
        self.text, self.names = _dedented(text), names

    def error(self, node: Any, message: str) -> NotationError:
        end = getattr(node, "end_col_offset", None)
        same_line = getattr(node, "end_lineno", None) == node.lineno
        width = end - node.col_offset if same_line and end else 1
        line = self.text.splitlines()[node.lineno - 1]
        column = len(line.encode()[: node.col_offset].decode(errors="ignore"))
        return NotationError(f"{underline(self.text, column, width, node.lineno)} {message}")

    def module(self, module: ast.Module) -> Any:
        if not module.body:
            raise NotationError("the text is empty\n  write a statement, e.g. O[i] += A[i,j]*x[j]")
        statements: list[tuple[str, Scope]] = []
        for position, node in enumerate(module.body):
            last = position == len(module.body) - 1
            if isinstance(node, ast.Expr):
                if not last or statements:
                    raise self.error(node, "a program is made of statements: name it, e.g. T = L[...](...)")
                return self.result(node)
            name, scope = self.statement(node)
            if name in self.names:
                raise self.error(node, f"{name} is already the name of an input or of an earlier statement")
            statements.append((name, scope))
            self.names[name] = statement_tensor(name, scope)
        return statements[0][1] if len(statements) == 1 else Program(statements)

    def result(self, node: ast.Expr) -> Any:
        value = self.value(node.value)
        if not isinstance(value, Scope):
            raise self.error(node, "this is not a whole expression\n  write O[i, ...] = ..., or L[i, ...](...)")
        return value

    def statement(self, node: ast.stmt) -> tuple[str, Scope]:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target = node.target
        else:
            raise self.error(node, "expected NAME[indices] = body, NAME[indices] += body or NAME = L[...](...)")
        value = node.value
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
            scope = self.value(value)
            if not isinstance(scope, Scope):
                raise self.error(value, f"only a scope can be named without indices\n  write {target.id}[i, ...] = ...")
            return target.id, scope
        if not (isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)):
            raise self.error(target, "the left side is NAME[indices]")
        return target.value.id, self.assigned(node, target, value)

    def assigned(self, node: ast.stmt, target: ast.Subscript, value: ast.expr) -> Scope:
        iterators = self.guard(target, notation.binder, self.value(target.slice))
        body = self.guard(value, notation.as_body, self.value(value))
        if isinstance(node, ast.AugAssign):
            summed = _unbound(body, {it.index for it in iterators})
            body = notation.Sum[tuple(summed)](body) if summed else body
        ranges = ", ".join(map(str, iterators))
        if not isinstance(node, ast.AugAssign):
            loose = _unbound(body, {it.index for it in iterators})
            if loose:
                raise self.error(node, f"index {loose[0]} is on the right only\n  use += to sum over it, or add it to [{ranges}]")
        return self.guard(node, notation.build_scope, iterators, body)

    def guard(self, node: Any, call: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call into the Python door; its errors get the place in the text."""
        try:
            return call(*values, **named)
        except EinalgError as error:
            if getattr(error, "placed", False):
                raise
            placed = type(error)(f"{self.error(node, '')}\n{error}".replace(" \n", "\n"))
            placed.placed = True  # pyright: ignore
            raise placed from None
        except (TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, NotImplementedError) as error:
            raise self.error(node, f"this has no meaning here: {error}") from None

    def value(self, node: ast.expr) -> Any:
        reader = getattr(self, f"read_{type(node).__name__}", None)
        if reader is None:
            raise self.error(node, f"{type(node).__name__} is not part of the notation")
        return reader(node)

    def read_Name(self, node: ast.Name) -> Any:
        for table in (self.names, FUNCTIONS, CONSTANTS):
            if node.id in table:
                return table[node.id]
        return self.guard(node, Index, node.id)

    def read_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool):
            return sympy.true if node.value else sympy.false
        if isinstance(node.value, int):
            if abs(node.value) > MAX_NUMBER:
                raise self.error(node, f"integers up to {MAX_NUMBER} are read")
            return sympy.Integer(node.value)
        if isinstance(node.value, float):
            return sympy.Float(node.value) if abs(node.value) != float("inf") else sympy.oo
        raise self.error(node, f"{node.value!r} is not part of the notation")

    def read_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        signs = {ast.USub: operator.neg, ast.UAdd: lambda v: v, ast.Invert: sympy.Not}
        if type(node.op) not in signs:
            raise self.error(node, "`not` is written ~")
        return self.guard(node, signs[type(node.op)], operand)

    def read_BinOp(self, node: ast.BinOp) -> Any:
        if type(node.op) not in BINARY:
            raise self.error(node, f"the operator {type(node.op).__name__} is not part of the notation")
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Pow):
            self.check_power(node, left, right)
        return self.guard(node, BINARY[type(node.op)], left, right)

    def check_power(self, node: ast.BinOp, left: Any, right: Any) -> None:
        for value in (left, right):
            if isinstance(value, sympy.Number) and abs(value) > 1000:
                raise self.error(node, "base and exponent of a constant power are at most 1000")

    def read_Compare(self, node: ast.Compare) -> Any:
        values = [self.value(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, left, right in zip(node.ops, values, values[1:]):
            if type(op) not in COMPARE:
                raise self.error(node, f"the comparison {type(op).__name__} is not part of the notation")
            parts.append(self.guard(node, COMPARE[type(op)], left, right))
        return parts[0] if len(parts) == 1 else sympy.And(*parts, evaluate=False)  # pyright: ignore

    def read_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def read_Slice(self, node: ast.Slice) -> Any:
        return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))

    def read_Subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        if isinstance(base, IndexArithmetic):
            raise self.error(node.value, f"unknown tensor {str(base)!r}; give its shape, e.g. parse(..., {base}=(8, 64))")
        if not isinstance(base, Indexable) and base not in (notation.L, notation.Sum, notation.Max, notation.Min, notation.Prod):
            raise self.error(node.value, "this cannot be indexed")
        return self.guard(node, operator.getitem, base, self.value(node.slice))

    def read_Attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value)
        if node.attr != "pad" or not isinstance(base, Indexable):
            raise self.error(node, f".{node.attr} is not part of the notation; tensors and scopes have .pad(...)")
        return base.pad

    def read_Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if not callable(function) or isinstance(function, (Indexable, IndexArithmetic)):
            name = ast.unparse(node.func)
            raise self.error(node.func, f"{name!r} is not a function of the notation\n  known: {', '.join(sorted(FUNCTIONS))}")
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise self.error(node, "`*` arguments are not part of the notation")
        named = {str(k.arg): self.value(k.value) for k in node.keywords}
        return self.guard(node, function, *(self.value(a) for a in node.args), **named)


def _unbound(body: Any, bound: set[Index]) -> list[Index]:
    """Free indices of a body in order of first occurrence in its subscripts."""
    inner = {i for r in reductions(body) for i in r.indices} - bound
    free = {i for i in body.free_symbols if isinstance(i, Index)} - bound
    seen: dict[Index, None] = {}
    for access in accesses(body):
        for form in access.subscripts:
            for atom in sorted(form.indices, key=lambda i: i.name):
                if atom in free:
                    seen.setdefault(atom)
    return [*seen, *sorted((i for i in free - set(seen) - inner), key=lambda i: i.name)]


