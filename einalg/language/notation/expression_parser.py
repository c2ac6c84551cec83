"""Bodies, accesses and scopes from the grammar tree of a text (design §4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import cycle
from types import MappingProxyType
from typing import Any

import sympy
from sympy import Integer
from sympy.logic.boolalg import Boolean

from einalg.boundary import similar
from einalg.errors import EinalgError, NotationError, without_remedy
from einalg.language.index.affine import Index
from einalg.language.index.constraint import constraints
from einalg.language.index.convert import affine
from einalg.language.index.iterator import BoundTwice, LoopIndex
from einalg.language.index.remainder import EXTREMES, applied
from einalg.language.index.size import Size, as_typed
from einalg.language.ir.body import REDUCTIONS, Reduce
from einalg.language.ir.functions import FUNCTIONS, REMEDIES, known_functions
from einalg.language.ir.tensor import Access, Indexable
from einalg.language.notation.builders import as_body, read_iterators
from einalg.language.notation.foreign_functions import OF_WHOLE_TENSORS
from einalg.language.notation.grammar import (
    BINARY,
    BINDERS,
    COMPARE,
    CONSTANTS,
    MAX_ARGUMENTS,
    MAX_EXPONENT,
    MAX_GAMMA_ARGUMENT,
    MAX_NUMBER,
    MAX_PARTS,
    UNARY,
    not_in_notation,
)
from einalg.language.notation.range_inference import WrittenParts, build_scope
from einalg.language.notation.source import SourceText
from einalg.language.notation.translation import element, translated, unsliced

EXAMPLE_SIZES = (8, 64, 16, 32)  # of a shape in a remedy
# SymPy computes them of whole numbers, digit for digit.
PYTHON_FUNCTIONS = re.compile(r"\bea\.(?=(Piecewise|Max|Min|Sum|Prod)\b)")
FAST_GROWING = (sympy.gamma, sympy.loggamma)


def _in_text(error: EinalgError) -> EinalgError:
    """Return an error whose remedy names the functions of the notation as text has them."""
    message = PYTHON_FUNCTIONS.sub("", error.message)
    if message == error.message:
        return error
    return type(error)(message).regarding(error.about)


class ExpressionParser:
    """Reads the expressions of one statement; remembers where every access stands."""

    def __init__(
        self,
        source: SourceText,
        tensors: Mapping[str, Any],
        statement: ast.AST,
        sizes: Mapping[str, Size] = MappingProxyType({}),
        unread: Collection[str] = (),
    ):
        self.source, self.tensors = source, tensors
        self.unread = unread  # names of this statement and of those below it
        parts = list(ast.walk(statement))
        if len(parts) > MAX_PARTS:
            raise NotationError(
                f"the statement has {len(parts)} parts; at most {MAX_PARTS} are read\n"
                "  name some of them: T[i] = ..."
            )
        self.parts, self.statement = parts, statement
        self.words = _names_in_order(parts)
        entries = _binding_entries(parts)
        self.bindings = _binding_names(entries)
        self.bound = {name.id for name in self.bindings}
        self.sizes = {**self.sizes_in(entries), **sizes}
        self.read: list[tuple[Access, ast.Subscript]] = []
        self.names_read: set[str] = set()  # of tensors
        self.written = WrittenParts()

    def sizes_in(self, entries: Iterable[ast.expr]) -> dict[str, Size]:
        """Return the sizes that the limits of ranges name."""
        sizes = {}
        for name in _names_in_limits(entries):
            if name.id not in CONSTANTS and name.id not in self.bound | self.tensors.keys():
                sizes[name.id] = self.guard(name, Size, name.id)
        return sizes

    def guard(self, node: Any, call: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call into the language; its errors get the place in the text."""
        try:
            return call(*values, **named)
        except EinalgError as error:
            place = self.place(error.about) or node
            raise self.source.placed(_in_text(error), place) from None
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
                f"this has no value: {reason}\n"
                "  compute with elements, indices and numbers, and compare them",
            ) from None

    def place(self, about: Any) -> Any:
        """Return the part of the grammar tree that an error is about, or None."""
        if isinstance(about, Index):
            return next((name for name in self.words if name.id == about.name), None)
        if isinstance(about, BoundTwice):
            return self.second_binding(about.index)
        access, axis = about if isinstance(about, tuple) else (about, None)
        node = next((place for read, place in self.read if read == access), None)
        if node is None or axis is None:
            return node
        return node.slice.elts[axis] if isinstance(node.slice, ast.Tuple) else node.slice

    def second_binding(self, index: Index) -> ast.Name | None:
        places = [name for name in self.bindings if name.id == index.name]
        if len(places) < 2:
            return None
        return places[1]

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; indices and whole numbers stay such, so that their
        sums are index arithmetic.
        """
        reader = getattr(self, f"read_{type(node).__name__}", None)
        if reader is None:
            raise self.not_in_notation(node, type(node))
        return reader(node)

    def not_in_notation(self, node: Any, kind: type) -> NotationError:
        """Return the error of a part of Python's grammar that the notation has not, with what to
        write for it.
        """
        message = not_in_notation(kind)
        instead = self.translated(node)
        if instead is not None:
            message = f"{message.partition(chr(10))[0]}\n  write {instead}"
        return self.source.error(node, message)

    def translated(self, node: ast.expr) -> str | None:
        """Return a part of the text as the notation has it; None where it has no such thing."""
        return translated(node, self.statement, self.tensors, self.bound)

    def body(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple) and len(node.elts) == 1:
            raise self.source.error(
                node,
                f"the comma at the end makes this no number\n  write {ast.unparse(node.elts[0])}",
            )
        return self.guard(node, as_body, self.value(node))

    def iterators(self, key: ast.expr) -> list[LoopIndex]:
        """Read what stands between the brackets of `L[...]`, `Sum[...]` and of a left side."""
        entries = _entries(key)
        for entry in entries:
            self.guard(entry, read_iterators, self._iterator(entry))
        return self.guard(key, read_iterators, tuple([self._iterator(entry) for entry in entries]))

    def _iterator(self, node: ast.expr | None) -> Any:
        if node is None:
            return None
        if isinstance(node, ast.Slice):
            limits = [None if limit is None else self.value(limit) for limit in _limits(node)]
            return slice(self._iterator(node.lower), *limits)
        if isinstance(node, ast.Name):
            return self.guard(node, Index, node.id)
        return self.value(node)

    def read_Name(self, node: ast.Name) -> Any:
        name = node.id
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in self.bound:
            return self.guard(node, Index, name)
        if name in self.sizes:
            return self.sizes[name]
        if name in self.tensors:
            instead = element(node, self.statement, self.tensors)
            raise self.source.error(
                node,
                f"{name} is a tensor, and here stands a number\n"
                f"  give it its subscripts: {instead}",
            )
        if name in FUNCTIONS or name in BINDERS:
            raise self.source.error(
                node,
                f"{name} is a function of the notation, and here stands a number\n"
                f"  call it: {name}(...)",
            )
        return self.guard(node, Index, name)

    def read_Constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, bool):
            return sympy.sympify(value)
        if not isinstance(value, (int, float)):
            remedy = "numbers are whole (3), decimal (0.5) or fractions (1/3)"
            if isinstance(value, str) and value.isidentifier():
                remedy = f"write it without quotes: {value}"
            raise self.source.error(
                node, f"{ast.unparse(node)} is not a number of the notation\n  {remedy}"
            )
        return self.checked(node, value)

    def checked(self, node: Any, value: Any) -> Any:
        """Return the value, whose numbers have grown no further than is sensible; its parts were
        checked before.
        """
        numbers: list[Any] = []
        if isinstance(value, sympy.Expr):
            numbers += value.as_coeff_Mul()[0], value.as_coeff_Add()[0]
        else:
            numbers.append(sympy.sympify(value))
        for number in numbers:
            if number.is_Rational and max(abs(number.p), number.q) > MAX_NUMBER:
                raise self.source.error(
                    node,
                    "a number here has more than 300 digits\n"
                    "  write it as a decimal number, e.g. 1e40",
                )
        return value

    def read_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if type(node.op) not in UNARY:
            raise self.not_in_notation(node, type(node.op))
        return self.guard(node, UNARY[type(node.op)], self.value(node.operand))

    def read_BinOp(self, node: ast.BinOp) -> Any:
        """A chain of one operator is read in a loop, for it may be longer than Python can nest."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        for link in chain:
            if type(link.op) not in BINARY:
                raise self.not_in_notation(link, type(link.op))
        total = self.value(chain[-1].left)
        for link in reversed(chain):
            total = self.combined(link, total, self.value(link.right))
        return total

    def combined(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(node.op, (ast.Div, ast.Pow)):
            left = Integer(left)  # exact, where Python's own result is a float
        if isinstance(node.op, ast.Pow):
            self.check_power(node, right)
        return self.checked(node, self.guard(node, BINARY[type(node.op)], left, right))

    def check_power(self, node: ast.BinOp, exponent: Any) -> None:
        exponent = sympy.sympify(exponent)
        is_number = isinstance(exponent, sympy.Number) and exponent is not sympy.nan
        if is_number and abs(exponent) > MAX_EXPONENT:
            raise self.source.error(
                node.right,
                f"exponents up to {MAX_EXPONENT} are read\n"
                "  write a larger power as exp(exponent*log(base))",
            )

    def read_Compare(self, node: ast.Compare) -> Any:
        for op in node.ops:
            if type(op) not in COMPARE:
                raise self.not_in_notation(node, type(op))
        values = [self.value(side) for side in (node.left, *node.comparators)]
        parts = []
        for op, left, right in zip(node.ops, values, values[1:]):
            parts.append(self.guard(node, _comparison(COMPARE[type(op)]), left, right))
        if len(parts) == 1:
            return parts[0]
        return self.guard(node, sympy.And, *parts)

    def read_Tuple(self, node: ast.Tuple) -> Any:
        return tuple([self.value(item) for item in node.elts])

    def read_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Attribute):
            raise self.no_attribute(node.value, node)
        base = self.base(node.value)
        if isinstance(node.slice, ast.List):
            raise self.not_in_notation(node, ast.List)
        entries = _entries(node.slice)
        for entry in entries:
            if isinstance(entry, ast.Slice):
                raise self.source.error(
                    entry,
                    "a slice cannot stand in a subscript\n"
                    f"  write {unsliced(node, self.statement, self.bound)}",
                )
        subscripts = tuple([self.subscript(entry) for entry in entries])
        access = self.guard(node, Access, base, subscripts)
        self.read.append((access, node))
        self.written.add(access)
        return access

    def subscript(self, node: ast.expr) -> Any:
        """Read a subscript; where it divides, its error says to divide by `//`."""
        value = self.value(node)
        try:
            return self.guard(node, affine, value)
        except NotationError as error:
            divided = ast.unparse(node)
            if " / " in divided:
                remedy = divided.replace(" / ", "//")
                error.args = (f"{without_remedy(error)}\n  write {remedy}",)
            raise

    def base(self, node: ast.expr) -> Any:
        """Read what is indexed or padded."""
        if isinstance(node, ast.Name):
            return self.tensor(node)
        value = self.value(node)
        if not isinstance(value, Indexable):
            raise self.source.error(
                node,
                "only a tensor or a scope can be indexed\n  write A[i, j], or (L[i](...))[i+1]",
            )
        return value

    def tensor(self, node: ast.Name) -> Any:
        if node.id in self.tensors:
            self.names_read.add(node.id)
            return self.tensors[node.id]
        if node.id in self.unread:
            raise self.source.error(node, self.not_defined_yet(node.id))
        known = ""
        if self.tensors:
            known = f"  known: {', '.join(self.tensors)}\n"
        likely = [name for name in similar(node.id, self.tensors) if name not in self.names_read]
        meant = f"write {likely[0]}, or " if likely else ""
        raise self.source.error(
            node,
            f"unknown tensor {node.id!r}\n{known}"
            f"  {meant}give its shape: parse(..., {node.id}={self.example_shape(node)})",
        )

    def not_defined_yet(self, name: str) -> str:
        """Return why a statement cannot be read that is this one or stands below it."""
        if name == next(iter(self.unread)):
            return (
                f"the statement {name} reads itself\n"
                f"  give what it reads another name: {name}0, as an input or a statement before it"
            )
        return (
            f"{name} is defined below\n"
            f"  statements come before those that read them: move that of {name} up"
        )

    def example_shape(self, tensor: ast.Name) -> tuple[int | str, ...]:
        """Return a shape that an unknown tensor could have, as it is typed: of an axis that an
        index runs over which some known tensor has as well, the size that it has there.
        """
        subscripts = _subscripts_of(self.parts, tensor.id)
        if subscripts is None:
            return EXAMPLE_SIZES[:2]
        sizes: list[int | str] = []
        for entry, example in zip(subscripts, cycle(EXAMPLE_SIZES)):
            size = self.size_over(entry.id) if isinstance(entry, ast.Name) else None
            sizes.append(example if size is None else size)
        return tuple(sizes)

    def size_over(self, index: str) -> int | str | None:
        """Return the size of the first axis of a known tensor that an index runs over alone: a
        number, or a name; None for other forms of sizes.
        """
        for part in self.parts:
            if not isinstance(part, ast.Subscript) or not isinstance(part.value, ast.Name):
                continue
            tensor = self.tensors.get(part.value.id)
            if tensor is None:
                continue
            for entry, size in zip(_entries(part.slice), tensor.shape):
                if isinstance(entry, ast.Name) and entry.id == index:
                    return as_typed(size)
        return None

    def read_Attribute(self, node: ast.Attribute) -> Any:
        raise self.no_attribute(node, node)

    def no_attribute(self, node: ast.Attribute, part: ast.expr) -> NotationError:
        """Return the error of an attribute, with what to write for the part of the text in which
        it stands.
        """
        remedy = "tensors and scopes have .pad(amounts, fill=0), and nothing else"
        instead = self.translated(part)
        if instead is not None:
            remedy = f"write {instead}"
        return self.source.error(node, f".{node.attr} is not part of the notation\n  {remedy}")

    def read_Call(self, node: ast.Call) -> Any:
        has_starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if has_starred or any(keyword.arg is None for keyword in node.keywords):
            raise self.source.error(node, not_in_notation(ast.Starred))
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "pad":
            return self.padded(node, called.value)
        if isinstance(called, ast.Subscript) and _is_binder(called):
            name: Any = called.value
            return self.binding(node, name.id, called.slice)
        return self.function(node)

    def padded(self, node: ast.Call, base: ast.expr) -> Any:
        if isinstance(base, ast.Subscript):
            amounts = node.args
            if len(amounts) == 1:
                amounts = amounts * len(_entries(base.slice))
            call = ast.Call(ast.Attribute(base.value, "pad"), amounts, node.keywords)
            raise self.source.error(
                node,
                "an element cannot be padded, but what it is read from\n"
                f"  write {ast.unparse(ast.Subscript(call, base.slice))}",
            )
        for keyword in node.keywords:
            if keyword.arg in ("value", "constant_values"):
                raise self.source.error(
                    keyword,
                    f"{keyword.arg}= is not known here\n  write fill={ast.unparse(keyword.value)}",
                )
        named = self.named(node, "fill", ".pad(amounts, fill=0)")
        return self.guard(node, self.base(base).pad, *map(self.value, node.args), **named)

    def binding(self, node: ast.Call, name: str, key: ast.expr) -> Any:
        """Read `L[...](body)` or a reduction."""
        iterators = self.iterators(key)
        plain = ast.unparse(ast.Call(node.func, node.args, []))
        where = self.named(node, "where", f"leave it out: {plain}").get("where")
        place = node.keywords[0].value if node.keywords else node
        where = self.guard(place, constraints, where)
        if len(node.args) != 1:
            raise self.source.error(
                node,
                f"{name}[...] takes one body, and here are {len(node.args)}\n"
                f"  {name}[...](body, where=condition)",
            )
        outside = self.written.enter()
        body = self.body(node.args[0])
        if name == "L":
            scope = self.guard(node, build_scope, iterators, body, where, self.written)
            self.written.leave(outside)
            return scope
        reduction = self.guard(node, Reduce, name, iterators, where, body)
        self.written.leave(outside, reduction)
        return reduction

    def named(self, node: ast.Call, known: str, usage: str) -> dict[str, Any]:
        """Read the named arguments of a call, which may be `known` alone."""
        arguments = {}
        for keyword in node.keywords:
            if keyword.arg != known:
                raise self.source.error(keyword, f"{keyword.arg}= is not known here\n  {usage}")
            arguments[known] = self.value(keyword.value)
        return arguments

    def function(self, node: ast.Call) -> Any:
        """Read a function of elements."""
        name = ast.unparse(node.func)
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.no_function(node, name)
        self.named(node, "", f"write {name}(...) without names")
        self.check_number_of_arguments(node, name)
        values = [self.value(argument) for argument in node.args]
        self.check_arguments(node, name, values)

        def call(*arguments: Any) -> Any:
            return _apply(function, [_argument(value) for value in arguments])

        return self.checked(node, self.guard(node, call, *values))

    def check_number_of_arguments(self, node: ast.Call, name: str) -> None:
        if not node.args:
            raise self.source.error(node, f"{name} has no arguments\n  e.g. {name}(A[i])")
        if len(node.args) > MAX_ARGUMENTS:
            raise self.source.error(
                node,
                f"{name} has {len(node.args)} arguments; at most {MAX_ARGUMENTS} are read\n"
                f"  write a reduction: {name}[i](A[i])",
            )

    def check_arguments(self, node: ast.Call, name: str, values: list[Any]) -> None:
        """Refuse what SymPy would compute for a very long time."""
        function = FUNCTIONS[name]
        if function in FAST_GROWING and any(map(_is_large_integer, values)):
            raise self.source.error(
                node,
                f"{name} of so large a whole number is not read\n  write it as a decimal number",
            )

    def no_function(self, node: ast.Call, name: str) -> NotationError:
        """Return the error of a function that the notation has not, with what to write for it."""
        instead = self.translated(node)
        last = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if instead is not None:
            remedy = f"write {instead}"
        elif last in OF_WHOLE_TENSORS:
            arguments = ast.unparse(node).partition("(")[2]
            remedy = f"it is an operator of tensors, outside of text: ea.ops.{last}({arguments}"
        elif last:
            remedy = self.instead_of(last)
        elif self.unknown_reduction(node.func) is not None:
            return self.source.error(
                node.func,
                f"there is no reduction {self.unknown_reduction(node.func)}\n"
                f"  known: {', '.join(REDUCTIONS)}",
            )
        else:
            return self.source.error(
                node.func, "this is not a function\n  write a product with *: 3*(a + b)"
            )
        return self.source.error(node.func, f"{name} is not a function of the notation\n  {remedy}")

    def unknown_reduction(self, called: ast.expr) -> str | None:
        """Return `Mean` of `Mean[j](...)`; None where it is the name of a tensor, or no name."""
        if not isinstance(called, ast.Subscript) or not isinstance(called.value, ast.Name):
            return None
        name = called.value.id
        return None if name in self.tensors or name in BINDERS else name

    def instead_of(self, name: str) -> str:
        """Return what to write for a function that the notation has not."""
        if name in self.tensors:
            return f"a tensor takes its subscripts in square brackets: {name}[i, j]"
        if name in BINDERS:
            return f"write it with its indices: {name}[i](...)"
        if name in REMEDIES:
            return f"e.g. {REMEDIES[name]}"
        return f"known: {known_functions()}"


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison whose value is SymPy's, also of two numbers."""
    return lambda left, right: sympy.sympify(compare(left, right))


def _apply(function: Any, arguments: list[Any]) -> Any:
    """Apply a function of the notation.

    SymPy would compare the arguments of an extremum in pairs, which takes long and decides between
    numbers alone.
    """
    if function in EXTREMES and _are_incomparable(arguments):
        return function(*arguments, evaluate=False)
    return applied(function, arguments)


def _are_incomparable(arguments: list[Any]) -> bool:
    """Return whether several arguments are distinct expressions, with one finite number at most."""
    finite_numbers = 0
    expressions = []
    for argument in arguments:
        value = sympy.sympify(argument)
        if value.is_number and getattr(value, "is_finite", False):
            finite_numbers += 1
        elif isinstance(argument, sympy.Expr) and not value.is_number:
            if isinstance(argument, EXTREMES):
                return False
            expressions.append(argument)
    is_told_apart = finite_numbers <= 1 and len(set(expressions)) == len(expressions)
    return (
        is_told_apart and len(arguments) > 1 and len(arguments) == finite_numbers + len(expressions)
    )


def _argument(value: Any) -> Any:
    """Return an argument of a SymPy function; a tuple is a case of Piecewise."""
    if isinstance(value, tuple):
        return tuple(map(_argument, value))
    return as_body(value)


def _is_large_integer(value: Any) -> bool:
    return isinstance(value, (int, Integer)) and abs(value) > MAX_GAMMA_ARGUMENT


def _entries(key: ast.expr) -> list[ast.expr]:
    """Return what stands between brackets, separated by commas."""
    if isinstance(key, ast.Tuple):
        return key.elts
    return [key]


def _subscripts_of(parts: Iterable[ast.AST], name: str) -> list[ast.expr] | None:
    """Return the first subscripts of a tensor, or of it padded, in the text; None without any."""
    for part in parts:
        if isinstance(part, ast.Subscript):
            base: Any = part.value
            if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
                base = base.func.value
            if isinstance(base, ast.Name) and base.id == name:
                return _entries(part.slice)
    return None


def _names_in_order(parts: Iterable[ast.AST]) -> list[ast.Name]:
    names = [part for part in parts if isinstance(part, ast.Name)]
    return sorted(names, key=_position)


def _position(name: ast.Name) -> tuple[int, int]:
    return name.lineno, name.col_offset


def _binding_entries(parts: Iterable[ast.AST]) -> list[ast.expr]:
    """Return what stands in the brackets that bind indices, e.g. `h` and `t:-1:225`."""
    entries: list[ast.expr] = []
    for part in parts:
        for brackets in _binding_brackets(part):
            entries += _entries(brackets)
    return entries


def _binding_names(entries: Iterable[ast.expr]) -> list[ast.Name]:
    """Return the names of the indices that are bound, in the order of the text."""
    names: list[ast.AST] = []
    for entry in entries:
        bound = entry.lower if isinstance(entry, ast.Slice) else entry
        if bound is not None:
            names.extend(ast.walk(bound))
    return _names_in_order(names)


def _names_in_limits(entries: Iterable[ast.expr]) -> list[ast.Name]:
    """Return the names in the limits of ranges, in the order of the text."""
    names: list[ast.AST] = []
    for entry in entries:
        if isinstance(entry, ast.Slice):
            for limit in _limits(entry):
                if limit is not None and not isinstance(limit, ast.Constant):
                    names.extend(ast.walk(limit))
    return _names_in_order(names)


def _limits(entry: ast.Slice) -> tuple[ast.expr | None, ast.expr | None]:
    """Return what stands behind the colons of a range: `-1` and `N` of `t:-1:N`."""
    return entry.upper, entry.step


def _binding_brackets(node: ast.AST) -> Iterable[ast.expr]:
    """Yield the brackets in which a part of the grammar tree binds indices."""
    if isinstance(node, ast.Call):
        called: Any = node.func
        if _is_binder(called):
            yield called.slice
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    for target in targets:
        if isinstance(target, ast.Subscript):
            yield target.slice


def _is_binder(called: Any) -> bool:
    """Return whether a called expression is `L[...]`, `Sum[...]` and so on."""
    return isinstance(called, ast.Subscript) and getattr(called.value, "id", None) in BINDERS
