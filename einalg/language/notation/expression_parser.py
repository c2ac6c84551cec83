"""Bodies, accesses and scopes from the grammar tree of a text (design §4)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy
from sympy import Integer
from sympy.logic.boolalg import Boolean

from einalg.errors import EinalgError, NotationError
from einalg.language.index.affine import Index
from einalg.language.index.constraint import constraints
from einalg.language.index.convert import affine
from einalg.language.index.iterator import BoundTwice, LoopIndex
from einalg.language.index.remainder import applied
from einalg.language.ir.body import Reduce
from einalg.language.ir.functions import FUNCTIONS, SPELT, known_functions
from einalg.language.ir.tensor import Access, Indexable
from einalg.language.notation.builders import as_body, binder
from einalg.language.notation.grammar import (
    BINARY,
    BINDERS,
    COMPARE,
    CONSTANTS,
    MAX_ARGUMENTS,
    MAX_EXPONENT,
    MAX_NESTED,
    MAX_NUMBER,
    MAX_PARTS,
    UNARY,
    not_in_notation,
)
from einalg.language.notation.range_inference import build_scope
from einalg.language.notation.source import SourceText

EXTREMA = (sympy.Max, sympy.Min)
GROWING = (sympy.gamma, sympy.loggamma)  # SymPy computes them of whole numbers, digit for digit


class ExpressionParser:
    """Reads the expressions of one statement; remembers where every access stands."""

    def __init__(self, source: SourceText, tensors: Mapping[str, Any], statement: ast.AST):
        self.source, self.tensors = source, tensors
        parts = list(ast.walk(statement))
        if len(parts) > MAX_PARTS:
            raise NotationError(
                f"the statement has {len(parts)} parts; at most {MAX_PARTS} are read\n"
                "  name some of them: T[i] = ..."
            )
        self.words = sorted(
            (n for n in parts if isinstance(n, ast.Name)), key=lambda n: (n.lineno, n.col_offset)
        )
        self.bindings = [
            name
            for part in parts
            for key in _bound_by(part)
            for name in ast.walk(key)
            if isinstance(name, ast.Name)
        ]
        self.bindings.sort(key=lambda n: (n.lineno, n.col_offset))
        self.bound = {name.id for name in self.bindings}
        self.read: list[tuple[Access, ast.Subscript]] = []

    def guard(self, node: Any, call: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call into the language; its errors get the place in the text."""
        try:
            return call(*values, **named)
        except EinalgError as error:
            raise self.source.placed(error, self.place(error.about) or node) from None
        except (
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            NotImplementedError,
        ) as error:
            if any(isinstance(value, Boolean) for value in values):
                message = "a comparison is no number\n  write Piecewise((a, condition), (0, True))"
                raise self.source.error(node, message) from None
            reason = " ".join(str(error).split())
            raise self.source.error(
                node,
                (
                    f"this has no value: {reason}\n"
                    "  compute with elements, indices and numbers, and compare them"
                ),
            ) from None

    def place(self, about: Any) -> Any:
        """The part of the grammar tree that an error is about."""
        if isinstance(about, Index):
            return next((n for n in self.words if n.id == about.name), None)
        if isinstance(about, BoundTwice):
            return ([n for n in self.bindings if n.id == about.index.name] + [None, None])[1]
        access, axis = about if isinstance(about, tuple) else (about, None)
        node = next((n for a, n in self.read if a == access), None)
        if node is None or axis is None:
            return node
        return node.slice.elts[axis] if isinstance(node.slice, ast.Tuple) else node.slice

    def value(self, node: ast.expr) -> Any:
        """The value of an expression; indices and whole numbers stay such, so that their sums are
        index arithmetic.
        """
        reader = getattr(self, f"read_{type(node).__name__}", None)
        if reader is None:
            raise self.source.error(node, not_in_notation(type(node)))
        return reader(node)

    def body(self, node: ast.expr) -> Any:
        return self.guard(node, as_body, self.value(node))

    def iterators(self, key: ast.expr) -> list[LoopIndex]:
        """What stands between the brackets of `L[...]`, `Sum[...]` and of a left side."""
        entries = key.elts if isinstance(key, ast.Tuple) else [key]
        for entry in entries:
            self.guard(entry, binder, self._entry(entry))
        return self.guard(key, binder, tuple(self._entry(entry) for entry in entries))

    def _entry(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(
                *(
                    None if part is None else self._entry(part)
                    for part in (node.lower, node.upper, node.step)
                )
            )
        if isinstance(node, ast.Name):
            return self.guard(node, Index, node.id)
        return self.value(node)

    def read_Name(self, node: ast.Name) -> Any:
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        if node.id in self.tensors and node.id not in self.bound:
            axes = ", ".join("ijklmnpq"[: self.tensors[node.id].rank]) or "()"
            raise self.source.error(
                node,
                (
                    f"{node.id} is a tensor, and here stands a number\n"
                    f"  give it its subscripts: {node.id}[{axes}]"
                ),
            )
        if (node.id in FUNCTIONS or node.id in BINDERS) and node.id not in self.bound:
            raise self.source.error(
                node,
                (
                    f"{node.id} is a function of the notation, and here stands a number\n"
                    f"  call it: {node.id}(...)"
                ),
            )
        return self.guard(node, Index, node.id)

    def read_Constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, bool):
            return sympy.true if value else sympy.false
        if not isinstance(value, (int, float)):
            message = (
                f"{ast.unparse(node)} is not a number of the notation\n"
                "  numbers are whole (3), decimal (0.5) or fractions (1/3)"
            )
            raise self.source.error(node, message)
        return self.checked(node, value)

    def checked(self, node: Any, value: Any) -> Any:
        """The value, whose numbers have grown no further than is sensible; its parts were checked
        before.
        """
        numbers: list[Any] = (
            [value.as_coeff_Mul()[0], value.as_coeff_Add()[0]]
            if isinstance(value, sympy.Expr)
            else [sympy.sympify(value)]
        )
        if any(max(abs(n.p), n.q) > MAX_NUMBER for n in numbers if n.is_Rational):
            raise self.source.error(
                node,
                "a number here has more than 300 digits\n  write it as a decimal number, e.g. 1e40",
            )
        return value

    def read_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if type(node.op) not in UNARY:
            raise self.source.error(node, not_in_notation(type(node.op)))
        return self.guard(node, UNARY[type(node.op)], self.value(node.operand))

    def read_BinOp(self, node: ast.BinOp) -> Any:
        """A chain of one operator is read in a loop, for it may be longer than Python can nest."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        for link in chain:
            if type(link.op) not in BINARY:
                raise self.source.error(link, not_in_notation(type(link.op)))
        total = self.value(chain[-1].left)
        for link in reversed(chain):
            total = self.combined(link, total, self.value(link.right))
        return total

    def combined(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(node.op, (ast.Div, ast.Pow)):
            left = Integer(left)  # exact, where Python's own result is a float
        if isinstance(node.op, ast.Pow):
            self.check_power(node, left, right)
        return self.checked(node, self.guard(node, BINARY[type(node.op)], left, right))

    def check_power(self, node: ast.BinOp, left: Any, right: Any) -> None:
        exponent = sympy.sympify(right)
        if isinstance(exponent, sympy.Number) and abs(exponent) > MAX_EXPONENT:
            raise self.source.error(
                node.right,
                (
                    f"exponents up to {MAX_EXPONENT} are read\n"
                    "  write a larger power as exp(exponent*log(base))"
                ),
            )

    def read_Compare(self, node: ast.Compare) -> Any:
        for op in node.ops:
            if type(op) not in COMPARE:
                raise self.source.error(node, not_in_notation(type(op)))
        values = [self.value(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, left, right in zip(node.ops, values, values[1:]):
            parts.append(
                self.guard(
                    node,
                    lambda *sides, op=op: sympy.sympify(COMPARE[type(op)](*sides)),
                    left,
                    right,
                )
            )
        return parts[0] if len(parts) == 1 else self.guard(node, sympy.And, *parts)

    def read_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(e) for e in node.elts)

    def read_Subscript(self, node: ast.Subscript) -> Any:
        base = self.base(node.value)
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for entry in entries:
            if isinstance(entry, ast.Slice):
                raise self.source.error(
                    entry,
                    (
                        "a slice cannot stand in a subscript\n"
                        "  bind an index that has this range: L[i:1:3](A[i])"
                    ),
                )
        subscripts = tuple(self.guard(entry, affine, self.value(entry)) for entry in entries)
        access = self.guard(node, Access, base, subscripts)
        self.read.append((access, node))
        return access

    def base(self, node: ast.expr) -> Any:
        """What is indexed or padded."""
        if isinstance(node, ast.Name):
            if node.id in self.tensors:
                return self.tensors[node.id]
            known = ", ".join(self.tensors)
            facts = f"  known: {known}\n" if known else ""
            raise self.source.error(
                node,
                (
                    f"unknown tensor {node.id!r}\n"
                    f"{facts}  give its shape: parse(..., {node.id}=(8, 64))"
                ),
            )
        value = self.value(node)
        if not isinstance(value, Indexable):
            raise self.source.error(
                node,
                "only a tensor or a scope can be indexed\n  write A[i, j], or (L[i](...))[i+1]",
            )
        return value

    def read_Attribute(self, node: ast.Attribute) -> Any:
        raise self.source.error(
            node,
            (
                f".{node.attr} is not part of the notation\n"
                "  tensors and scopes have .pad(amounts, fill=0), and nothing else"
            ),
        )

    def read_Call(self, node: ast.Call) -> Any:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise self.source.error(node, not_in_notation(ast.Starred))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "pad":
            return self.padded(node, node.func.value)
        if (
            isinstance(node.func, ast.Subscript)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in BINDERS
        ):
            return self.binding(node, node.func.value.id, node.func.slice)
        return self.function(node)

    def padded(self, node: ast.Call, base: ast.expr) -> Any:
        named = self.named(node, "fill", ".pad(amounts, fill=0)")
        return self.guard(node, self.base(base).pad, *map(self.value, node.args), **named)

    def binding(self, node: ast.Call, name: str, key: ast.expr) -> Any:
        iterators = self.iterators(key)
        where = self.named(node, "where", f"{name}[...](body, where=condition)").get("where")
        where = self.guard(node.keywords[0].value if node.keywords else node, constraints, where)
        if len(node.args) != 1:
            raise self.source.error(
                node,
                (
                    f"{name}[...] takes one body, and here are {len(node.args)}\n"
                    f"  {name}[...](body, where=condition)"
                ),
            )
        body = self.body(node.args[0])
        if name == "L":
            return self.guard(node, build_scope, iterators, body, where)
        return self.guard(node, Reduce, name, iterators, where, body)

    def named(self, node: ast.Call, known: str, usage: str) -> dict[str, Any]:
        found = {}
        for keyword in node.keywords:
            if keyword.arg != known:
                raise self.source.error(keyword, f"{keyword.arg}= is not known here\n  {usage}")
            found[known] = self.value(keyword.value)
        return found

    def function(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            raise self.source.error(
                node.func, "this is not a function\n  write a product with *: 3*(a + b)"
            )
        name = node.func.id
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.source.error(
                node.func, f"{name} is not a function of the notation\n  {self.instead_of(name)}"
            )
        self.named(node, "", f"write {name}(...) without names")
        if not node.args:
            raise self.source.error(node, f"{name} has no arguments\n  e.g. {name}(A[i])")
        if len(node.args) > MAX_ARGUMENTS:
            message = (
                f"{name} has {len(node.args)} arguments; at most {MAX_ARGUMENTS} are read\n"
                f"  write a reduction: {name}[i](A[i])"
            )
            raise self.source.error(node, message)
        values = [self.value(a) for a in node.args]
        if function in GROWING and any(
            isinstance(v, (int, Integer)) and abs(v) > 170 for v in values
        ):
            raise self.source.error(
                node,
                f"{name} of so large a whole number is not read\n  write it as a decimal number",
            )
        if function in EXTREMA and max(map(_nested_extrema, values)) >= MAX_NESTED:
            raise self.source.error(
                node,
                (
                    f"more than {MAX_NESTED} of Max and Min in each other are not read\n"
                    "  name the inner ones: T[i] = ..."
                ),
            )
        return self.checked(
            node,
            self.guard(
                node, lambda *given: _applied(function, list(map(_argument, given))), *values
            ),
        )

    def instead_of(self, name: str) -> str:
        """What to write for a function that the notation has not."""
        if name in self.tensors:
            return f"a tensor takes its subscripts in square brackets: {name}[i, j]"
        if name in BINDERS:
            return f"write it with its indices: {name}[i](...)"
        return f"write {SPELT[name]}" if name in SPELT else f"known: {known_functions()}"


def _applied(function: Any, given: list[Any]) -> Any:
    """A function of its arguments; SymPy would compare those of an extremum in pairs, which takes
    long and tells apart numbers alone.
    """
    others = [
        value
        for value in given
        if isinstance(value, sympy.Expr) and not value.is_number and not isinstance(value, EXTREMA)
    ]
    finite = [
        value
        for value in given
        if getattr(sympy.sympify(value), "is_finite", False) and sympy.sympify(value).is_number
    ]
    apart = (
        function in EXTREMA
        and len(set(others)) == len(others) == len(given) - len(finite)
        and len(finite) <= 1 < len(given)
    )
    return function(*given, evaluate=False) if apart else applied(function, given)


def _argument(value: Any) -> Any:
    """An argument of a SymPy function; a tuple is a case of Piecewise."""
    return tuple(map(_argument, value)) if isinstance(value, tuple) else as_body(value)


def _nested_extrema(value: Any) -> int:
    """How many `Max` and `Min` of elements stand in each other at most."""
    if not isinstance(value, sympy.Basic) or isinstance(value, (Access, Reduce)) or not value.args:
        return 0
    return isinstance(value, EXTREMA) + max(map(_nested_extrema, value.args))


def _bound_by(node: ast.AST) -> Iterable[ast.expr]:
    """The brackets in which a part of the grammar tree binds indices."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and getattr(node.func.value, "id", None) in BINDERS
    ):
        yield node.func.slice
    if isinstance(node, ast.Assign):
        yield from (target.slice for target in node.targets if isinstance(target, ast.Subscript))
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        yield node.target.slice
