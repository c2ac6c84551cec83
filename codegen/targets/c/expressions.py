"""Values and index expressions of the loop IR as C (design §10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from codegen.ir.nodes import Apply, Function, IndexNumber, Number, Predicate, Ref, Value
from codegen.ir.scalars.functions import ROUND, general_function
from codegen.ir.scalars.shared_factors import shares_factors, two_factors
from codegen.ir.types import WEAK, WEAK_FLOAT, WIDE, common, computed
from codegen.targets.c.functions.elementary import NAMES
from codegen.targets.c.functions.names import C_TYPES, MATH
from codegen.targets.c.helpers import helper, index_function, index_helper
from codegen.targets.c.literals import held, literal
from codegen.targets.c.names import Names
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.index.constraint import Constraint
from einalg.language.ir.dtypes import bounds, is_float

LONG_TYPES = ("i64", "u64", WIDE)  # longer than the literals of small numbers
INDEX_DTYPES = {"int": "i32", "int64_t": "i64"}


class Precedence(IntEnum):
    """How tightly the operators of C bind, the loosest first."""

    SELECT = 0
    LOGIC = 1
    COMPARE = 2
    SUM = 3
    PRODUCT = 4
    UNARY = 5
    ATOM = 6


class Text(NamedTuple):
    """C text, and how tightly its outermost operator binds: `a + b` with `Precedence.SUM`."""

    text: str
    binding: Precedence

    def bracketed(self, binding: Precedence) -> str:
        """Return the text as an operand of an operator that binds so tightly."""
        if self.binding < binding or self.binding == Precedence.SELECT:
            return f"({self.text})"
        return self.text


@dataclass(frozen=True)
class COperator:
    """An operator of C between its operands, or before its only one.

    `dtype` is that of the operands: as the result where it is empty, their common one where None.
    """

    sign: str
    binding: Precedence
    operands: Precedence
    dtype: str | None = ""


INFIX = {
    "mul": COperator("*", Precedence.PRODUCT, Precedence.UNARY),
    "lt": COperator("<", Precedence.COMPARE, Precedence.SUM, None),
    "le": COperator("<=", Precedence.COMPARE, Precedence.SUM, None),
    "gt": COperator(">", Precedence.COMPARE, Precedence.SUM, None),
    "ge": COperator(">=", Precedence.COMPARE, Precedence.SUM, None),
    "eq": COperator("==", Precedence.COMPARE, Precedence.SUM, None),
    "ne": COperator("!=", Precedence.COMPARE, Precedence.SUM, None),
    "and": COperator("&&", Precedence.LOGIC, Precedence.ATOM, "bool"),
    "or": COperator("||", Precedence.LOGIC, Precedence.ATOM, "bool"),
}
BOUNDS = {"max": "at_least", "min": "at_most"}  # the helpers for a number and a value
PREFIX = {
    "neg": COperator("-", Precedence.SUM, Precedence.UNARY),
    "not": COperator("!", Precedence.UNARY, Precedence.ATOM, "bool"),
    "cast": COperator("", Precedence.UNARY, Precedence.UNARY),
}


class ExpressionPrinter:
    """The values of one kernel as C, with the helper functions that they call.

    `types` are those of C by element type; `loads` and `stores` convert elements that C does not
    compute with, `rounds` do both; `generated_functions` are those that stand in the file itself;
    `is_reassociated` says whether the compiler may reassociate sums.
    """

    types: Mapping[str, str] = C_TYPES
    loads: Mapping[str, str] = {"f16": "load_half"}
    stores: Mapping[str, str] = {"f16": "store_half", "bf16": "store_bfloat"}
    rounds: Mapping[str, str] = {"f16": "round_half", "bf16": "store_bfloat"}
    generated_functions = frozenset((name, "f32") for name in NAMES)
    is_reassociated = True

    def __init__(self, function: Function, index: str, names: Names):
        self.source, self.index, self.names = function, index, names
        self.helpers: set[str] = set()
        self.ranges: dict[Index, tuple[int, int]] = {}
        self.shapes = {b.name: b.shape for b in (*function.inputs, function.output)}
        self.flat: set[str] = set()  # the buffers that are read and written as one axis

    # Index expressions.

    def bound(self, bound: Any) -> str:
        """Return a bound of a loop."""
        if isinstance(bound, Affine):
            return self.form(bound)
        first, *others = bound.of
        text = self.bound(first)
        for other in others:
            text = f"{self.index_call(f'index_{bound.op}')}({text}, {self.bound(other)})"
        return text

    def form(self, form: Affine) -> str:
        """Return an index expression, its positive terms first."""
        terms: list[tuple[bool, str]] = []  # whether it is negative, and its absolute value
        for atom, coefficient in sorted(form.terms, key=lambda term: -term[1]):
            text = self.atom(atom)
            if abs(coefficient) != 1:
                text = f"{abs(coefficient)}*{text}"
            terms.append((coefficient < 0, text))
        if form.const or not terms:
            terms.append((form.const < 0, str(abs(form.const))))
        (is_negative, text), *others = terms
        if is_negative:
            text = f"-{text}"
        for is_negative, other in others:
            text = f"{text} {_sign(is_negative)} {other}"
        return text

    def atom(self, atom: Any) -> str:
        """Return an index, or a quotient or remainder that rounds down."""
        if isinstance(atom, Index):
            return self.names("index", atom.name)
        inside, is_quotient = self.form(atom.argument), isinstance(atom, FloorDiv)
        if atom.argument.interval(self.ranges)[0] >= 0:
            sign = "%"
            if is_quotient:
                sign = "/"
            return f"({_factor(atom.argument, inside)} {sign} {atom.divisor})"
        if atom.divisor & (atom.divisor - 1) == 0:
            if is_quotient:
                return f"(({inside}) >> {atom.divisor.bit_length() - 1})"
            return f"(({inside}) & {atom.divisor - 1})"
        if is_quotient:
            return f"{self.index_call('floor_div')}({inside}, {atom.divisor})"
        return f"{self.index_call('floor_mod')}({inside}, {atom.divisor})"

    def condition(self, condition: Constraint) -> str:
        left, right = condition.sides()
        if condition.relation == "==":
            return f"{self.form(left)} == {self.form(right)}"
        if not left.terms:
            return f"{self.form(right)} <= {self.form(left)}"
        return f"{self.form(left)} >= {self.form(right)}"

    def index_call(self, name: str) -> str:
        """Return the name of a helper function of indices, which the file then has."""
        self.helpers.add(index_helper(name, self.index))
        return index_function(name, self.index)

    # Values.

    def ref(self, ref: Ref) -> str:
        """Return an element of a buffer."""
        buf, name = ref.buf, self.names("buf", ref.buf.name)
        if not buf.shape:
            if buf.space == "global":
                return f"{name}[0]"
            return name
        rank = len(self.shapes.get(buf.name, ()))
        if len(buf.shape) < rank and buf.name not in self.flat:
            qualifier = "const "
            if buf.name == self.source.output.name:
                qualifier = ""
            name = f"(({qualifier}{self.types[buf.dtype]} *){name})"
        return name + "".join(f"[{self.form(s)}]" for s in ref.subscripts)

    def expression(self, value: Value) -> str:
        return self.text(value).text

    def operand(self, value: Value, dtype: str, binding: Precedence = Precedence.SELECT) -> str:
        """Return a value in type `dtype` as an operand of an operator that binds so tightly."""
        if not isinstance(value, Number):
            return self._converted(value, dtype).bracketed(binding)
        text = literal(held(value.value, dtype), dtype)
        if text.startswith("-") and binding > Precedence.SUM:
            return f"({text})"
        return text

    def _converted(self, value: Value, dtype: str) -> Text:
        """Return a value in type `dtype`."""
        text = self.text(value)
        if isinstance(value, IndexNumber) and dtype == value.dtype != INDEX_DTYPES[self.index]:
            return Text(f"(int64_t){text.bracketed(Precedence.UNARY)}", Precedence.UNARY)
        if value.dtype in self.loads:
            text = Text(f"{self.loads[value.dtype]}({text.text})", Precedence.ATOM)
        if computed(value.dtype) != dtype and value.dtype not in (WEAK, WEAK_FLOAT):
            inside = text.bracketed(Precedence.UNARY)
            return Text(f"({self.types[dtype]}){inside}", Precedence.UNARY)
        return text

    def text(self, value: Value) -> Text:
        """Return a value in its own type."""
        if isinstance(value, Ref):
            return Text(self.ref(value), Precedence.ATOM)
        if isinstance(value, Number):
            number = held(value.value, value.dtype)
            return Text(literal(number, value.dtype), Precedence.ATOM)
        if isinstance(value, IndexNumber):
            text = self.form(value.form)
            if text.isidentifier():
                return Text(text, Precedence.ATOM)
            return Text(text, Precedence.SELECT)
        if isinstance(value, Predicate):
            return self._predicate(value)
        return self._application(value)

    def _predicate(self, value: Predicate) -> Text:
        text = " && ".join(self.condition(c) for c in value.conditions)
        if len(value.conditions) == 1:
            return Text(text, Precedence.COMPARE)
        return Text(text, Precedence.LOGIC)

    def _application(self, value: Apply) -> Text:
        """Return an operator or a function of some values."""
        if value.op in INFIX:
            return self._infix(INFIX[value.op], value)
        if value.op in PREFIX:
            return self._prefix(PREFIX[value.op], value)
        if value.op == "add":
            return Text(self._sum(value.arguments, value.dtype), Precedence.SUM)
        if value.op == "div":
            return self._quotient(value)
        if value.op == "select":
            return self._select(value)
        return Text(self.function_call(value.op, value.arguments, value.dtype), Precedence.ATOM)

    def _infix(self, operator: COperator, value: Apply) -> Text:
        dtype = operator.dtype
        if dtype is None:
            dtype = common(value.arguments)
        operands = [
            self.operand(a, dtype or value.dtype, operator.operands) for a in value.arguments
        ]
        return Text(f" {operator.sign} ".join(operands), operator.binding)

    def _prefix(self, operator: COperator, value: Apply) -> Text:
        operand = self.operand(value.arguments[0], operator.dtype or value.dtype, operator.operands)
        return Text(operator.sign + operand, operator.binding)

    def _quotient(self, value: Apply) -> Text:
        left, right = value.arguments
        numerator = self.operand(left, value.dtype, Precedence.PRODUCT)
        return Text(
            f"{numerator} / {self.operand(right, value.dtype, Precedence.UNARY)}",
            Precedence.PRODUCT,
        )

    def _select(self, value: Apply) -> Text:
        test, yes, no = value.arguments
        condition = self.operand(test, "bool", Precedence.LOGIC)
        first = self.operand(yes, value.dtype, Precedence.LOGIC)
        second = self.operand(no, value.dtype, Precedence.SELECT)
        if value.dtype in LONG_TYPES and isinstance(yes, Number) and isinstance(no, Number):
            first = f"({self.types[value.dtype]}){self.operand(yes, value.dtype, Precedence.ATOM)}"
        return Text(f"{condition} ? {first} : {second}", Precedence.SELECT)

    def _sum(self, arguments: Iterable[Value], dtype: str) -> str:
        """Return a sum, its negative terms last and subtracted.

        Products are added as they are multiplied where the compiler could take a factor out.
        """
        terms = sorted(arguments, key=_is_negative)
        products: list[tuple[Value, Value]] = []
        if self.is_reassociated and is_float(dtype) and shares_factors(terms):
            products, terms = _products_and_others(terms)
        if products and not terms:
            terms = [Apply("mul", products.pop(), dtype)]
        text = self._plain_sum(terms, dtype)
        for factors in products:
            operands = ", ".join(self.operand(factor, dtype) for factor in factors)
            text = f"{self.call('fused', dtype)}({operands}, {text})"
        return text

    def _plain_sum(self, terms: Sequence[Value], dtype: str) -> str:
        text = ""
        for argument in terms:
            if not text:
                text = self.operand(argument, dtype, Precedence.PRODUCT)
            elif _is_negative(argument) and not _is_least(argument, dtype):
                text = f"{text} - {self.operand(_negated(argument), dtype, Precedence.PRODUCT)}"
            else:
                text = f"{text} + {self.operand(argument, dtype, Precedence.PRODUCT)}"
        return text

    def function_call(self, op: str, arguments: Sequence[Value], dtype: str) -> str:
        """Return the call of a function: of the library, of this file, or of a helper."""
        if op in BOUNDS:
            return self._extreme(op, arguments, dtype)
        if op == "ipow":
            assert isinstance(arguments[1], Number)
            power = self.call(f"ipow{arguments[1].value}", dtype)
            return f"{power}({self.operand(arguments[0], dtype)})"
        operands = ", ".join(self.operand(a, dtype) for a in arguments)
        if (op, dtype) not in self.generated_functions:
            op = general_function(op)
        if op.startswith(ROUND):
            return self.rounded(operands, op.removeprefix(ROUND))
        if (op, dtype) in self.generated_functions:
            return f"{op}_{dtype}({operands})"
        if op not in MATH:
            return f"{self.call(op, dtype)}({operands})"
        if dtype == "f32":
            return f"{op}f({operands})"
        return f"{op}({operands})"

    def _extreme(self, op: str, arguments: Sequence[Value], dtype: str) -> str:
        """Return a maximum or minimum, which is NaN where some argument is.

        A number that comes first bounds the one after it: that is NaN where the latter is.
        """
        first, *others = arguments
        text = self.operand(first, dtype)
        if isinstance(first, Number) and others:
            text = f"{self.call(BOUNDS[op], dtype)}({text}, {self.operand(others.pop(0), dtype)})"
        return self.largest(op, [text, *(self.operand(a, dtype) for a in others)], dtype)

    def largest(self, op: str, texts: Sequence[str], dtype: str) -> str:
        """Return the maximum or minimum of values in C."""
        if len(texts) == 1:
            return texts[0]
        return f"{self.extreme_of(op, len(texts), dtype)}({', '.join(texts)})"

    def extreme_of(self, op: str, count: int, dtype: str) -> str:
        """Return the name of the function for the maximum or minimum of so many values."""
        if count == 2:
            return self.call(op, dtype)
        return self.call(f"{op}{count}", dtype)

    def rounded(self, text: str, dtype: str) -> str:
        """Return a number in single precision, rounded to a type of 16 bits."""
        if dtype in self.rounds:
            return f"{self.rounds[dtype]}({text})"
        return f"{self.loads[dtype]}({self.stores[dtype]}({text}))"

    def call(self, name: str, dtype: str) -> str:
        """Return the name of a helper function of a type, which the file then has."""
        self.helpers.add(helper(name, dtype))
        return f"{name}_{dtype}"


def _products_and_others(
    terms: Sequence[Value],
) -> tuple[list[tuple[Value, Value]], list[Value]]:
    """Return the terms that are products of two values, and those that are none."""
    products: list[tuple[Value, Value]] = []
    others: list[Value] = []
    for term in terms:
        factors = two_factors(term)
        if factors is None:
            others.append(term)
        else:
            products.append(factors)
    return products, others


def _sign(is_negative: bool) -> str:
    if is_negative:
        return "-"
    return "+"


def _factor(form: Affine, text: str) -> str:
    """Return the text of an index expression as a factor of a product."""
    if len(form.terms) > 1 or form.const or " " in text or "*" in text:
        return f"({text})"
    return text


def _is_negative(value: Value) -> bool:
    if isinstance(value, Apply):
        return value.op == "neg"
    return isinstance(value, Number) and value.value < 0


def _is_least(value: Value, dtype: str) -> bool:
    """Return whether a value is the least integer of a type, which has no opposite."""
    if is_float(dtype) or not isinstance(value, Number):
        return False
    return value.value == bounds(dtype)[0]


def _negated(value: Any) -> Value:
    if isinstance(value, Apply):
        return value.arguments[0]
    return Number(-value.value, value.dtype)
