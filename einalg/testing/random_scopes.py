"""Random scopes and programs: reads first, then tensors and paddings of the sizes that the reads
need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import prod
from string import ascii_uppercase
from typing import Any

import sympy

from einalg.language.conversion import HALVES, converted
from einalg.language.index.affine import Affine, modulo
from einalg.language.index.cases import Piecewise
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.remainder import Mod, applied, as_number
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import holds
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.notation.builders import as_body
from einalg.testing.draws import (
    Domain,
    Draws,
    Options,
    draw_conditions,
    draw_form,
    draw_iterators,
)

NAMES = "ijkmhwrs"  # inner scopes draw from the same names, so that renaming is exercised
MOST_ELEMENTS = 1000  # of one tensor
MOST_VALUES = 6  # that are drawn of a constant tensor, which repeats them
BOUNDED_FUNCTIONS = (sympy.tanh, sympy.erf, sympy.sin, sympy.cos, sympy.atan, sympy.sign)
NUMBERS = (0.5, -1.25, 1e-3, sympy.Rational(1, 3), sympy.Rational(-7, 2), sympy.pi, sympy.sqrt(2))
FAR_NUMBERS = (100, 127, -128, 200, 255, 256, -300, 2**15, 2**31 - 1)
FILLS = (0, 0, 0, 1, -1, 5, -2, 3)
Pads = tuple[int, int]


@dataclass
class _Expression:
    """The tensors, statements and inner scopes that can be read so far.

    `gaps` are those that have no value at some points.
    """

    choices: Draws
    tensors: list[Any] = field(default_factory=list)
    inner: list[Scope] = field(default_factory=list)
    gaps: set[Any] = field(default_factory=set)
    used_names: set[str] = field(default_factory=set)

    def fresh_name(self, letters: str = ascii_uppercase) -> str:
        name = next(
            n
            for n in (*letters, *(f"{a}{b}" for a in letters for b in letters))
            if n not in self.used_names
        )
        self.used_names.add(name)
        return name


def draw_scope(choices: Draws, options: Options) -> Scope:
    return _scope(_Expression(choices), options, depth=2 if options.nested else 0, outermost=True)


def draw_program(choices: Draws, options: Options, max_statements: int) -> Program:
    expression = _Expression(choices)
    statements = []
    names = [f"T{k}" for k in range(choices.integer(1, max_statements))]
    for name in names:
        is_last = options.infinite and name == names[-1]
        scope = _scope(expression, options, 1 if options.nested else 0, outermost=is_last)
        statements.append((name, scope))
        tensor = statement_tensor(name, scope)
        expression.tensors.append(tensor)
        if scope.where:
            expression.gaps.add(tensor)
    return Program(statements)


def _scope(expression: _Expression, options: Options, depth: int, outermost: bool = False) -> Scope:
    choices = expression.choices
    fewest = 0 if options.scalars and choices.chance(6) else 1
    count = choices.integer(fewest, min(3, options.max_indices))
    first = choices.one_of((0, 0, 1, 2))
    domain = Domain(
        draw_iterators(choices, NAMES[first:], count, options.max_points, options.empty)
    )
    domain = domain.extended((), draw_conditions(choices, domain, options))
    drawing = _BodyDraw(expression, options, depth)
    if outermost and drawing.may_pool(domain) and choices.chance(8):
        return Scope(domain.iterators, domain.where, drawing.pooling(domain))
    if options.truths and choices.chance(3):
        return Scope(domain.iterators, domain.where, drawing.condition(domain))
    body = drawing.body(domain, choices.integer(1, options.max_reads))
    return Scope(domain.iterators, domain.where, as_body(body))


class _BodyDraw:
    def __init__(self, expression: _Expression, options: Options, depth: int):
        self.expression, self.options, self.depth = expression, options, depth
        self.choices = expression.choices

    def body(self, domain: Domain, reads: int, reduced: bool = False) -> Any:
        """A polynomial of about so many reads, with reductions in any place; one right inside
        another is rarer.
        """
        if self.may_reduce(domain) and self.choices.one_of(
            (False, False, False, True) if reduced else (False, True)
        ):
            return self.reduction(domain, reads)
        if reads <= 1:
            return self.element(domain)
        functions, truths = (
            (("function",) if self.options.functions else ()),
            (("choice", "choice") if self.options.truths else ()),
        )
        rounding = ("rounded", "rounded") if self.options.rounding else ()
        inexact = ("inexact", "inexact") if self.options.inexact else ()
        kinds = ["product", "product", "sum", "scaled", *functions, *truths, *rounding, *inexact]
        kind = self.choices.one_of(kinds)
        if kind == "scaled":
            return self.scaled(domain, reads)
        if kind == "function":
            return self.function(domain, reads)
        if kind == "rounded":
            return self.rounded(domain, reads)
        if kind == "inexact":
            return self.inexact(domain, reads)
        if kind == "choice":
            chosen = as_body(self.body(domain, reads - 1))
            condition = self.asked(domain)
            return Piecewise((chosen, condition), (as_body(self.element(domain)), True))
        part = self.choices.integer(1, reads - 1)
        left, right = self.body(domain, part), self.body(domain, reads - part)
        return left * right if kind == "product" else left + right

    def scaled(self, domain: Domain, reads: int) -> Any:
        """A multiple, or with numbers that are far from 0 also a sum with one."""
        one = self.body(domain, reads - 1)
        if not self.options.far or self.choices.chance(2):
            return self.choices.one_of((2, -1, 3)) * one
        number = self.choices.one_of(FAR_NUMBERS)
        return one + number if self.choices.chance(2) else number * one

    def may_reduce(self, domain: Domain) -> bool:
        room = (
            len(domain.iterators) < self.options.max_indices
            and domain.box_size * 2 <= self.options.max_points
        )
        return room and bool(self.options.reductions)

    def reduction(self, domain: Domain, reads: int) -> Any:
        choices = self.choices
        op = choices.one_of(self.options.reductions)
        own = self.iterators(domain, 4 if op == "Prod" else self.options.max_points)
        inner = domain.extended(own)
        where = draw_conditions(choices, inner, self.options)
        if where and op in ("Max", "Min") and inner.extended((), where).is_empty_somewhere(domain):
            where = ()  # the largest of no element is -inf, which is not an integer
        return Reduce(
            op, own, where, as_body(self.body(inner.extended((), where), reads, reduced=True))
        )

    def iterators(self, domain: Domain, most: int) -> tuple[LoopIndex, ...]:
        """Those of a reduction at a place of `domain`, with at most so many points."""
        names = [n for n in NAMES[::-1] if n not in {i.name for i in domain.indices}]
        points = max(1, self.options.max_points // max(1, domain.box_size))
        room = self.options.max_indices - len(domain.iterators)
        return draw_iterators(
            self.choices,
            names,
            self.choices.integer(1, min(2, room)),
            min(most, points),
            self.options.empty,
        )

    def may_pool(self, domain: Domain) -> bool:
        return (
            self.may_reduce(domain)
            and self.options.padding
            and {"Max", "Min"} <= set(self.options.reductions)
        )

    def pooling(self, domain: Domain) -> Any:
        """The largest or smallest of a window, padded by what never is; as nothing is computed from
        it, it may be infinite.
        """
        op, fill = self.choices.one_of((("Max", -sympy.oo), ("Min", sympy.oo)))
        own = self.iterators(domain, self.options.max_points)
        access = self.read(domain.extended(own))
        pads = [(self.choices.integer(0, 2), self.choices.integer(0, 1)) for _ in access.subscripts]
        _shifted = tuple(
            subscript - self.choices.integer(0, before)
            for subscript, (before, _) in zip(access.subscripts, pads)
        )
        return Reduce(op, own, None, access.base.pad(*pads, fill=fill)[_shifted])

    def function(self, domain: Domain, reads: int) -> Any:
        one, other = as_body(self.body(domain, reads - 1)), as_body(self.element(domain))
        kind = self.choices.one_of(("Max", "Min", "Abs", "power", "Piecewise"))
        if kind == "Abs":
            return sympy.Abs(one)
        if kind == "power":
            return one**2
        if kind == "Piecewise":
            return Piecewise((one, sympy.Gt(other, 0)), (other, True))
        return (sympy.Max if kind == "Max" else sympy.Min)(one, other)

    def rounded(self, domain: Domain, reads: int) -> Any:
        """A remainder or a whole part, of elements or of a polynomial of indices."""
        if self.choices.chance(2) or not domain.indices:
            value = as_body(self.body(domain, reads - 1))
        else:
            forms = [draw_form(self.choices, domain.indices, self.options) for _ in range(2)]
            value = as_body(as_number(forms[0]) * as_number(forms[1]))
        divisor = self.choices.integer(2, 6)
        if self.choices.chance(2):
            return applied(Mod, (value, sympy.Integer(self.choices.one_of((divisor, -divisor)))))
        rounding = self.choices.one_of((sympy.floor, sympy.ceiling))
        return applied(rounding, (value / sympy.Integer(divisor),))

    def inexact(self, domain: Domain, reads: int) -> Any:
        """A function of real numbers, which is finite for all of these, a quotient, or a decimal
        multiple.
        """
        one = as_body(self.body(domain, reads - 1))
        conversions = ("conversion", "conversion") if self.options.conversions else ()
        kinds = ("function", "root", "quotient", "angle", "number", *conversions)
        kind = self.choices.one_of(kinds)
        if kind == "conversion":
            return converted(one, self.choices.one_of(HALVES))
        if kind == "function":
            return self.choices.one_of(BOUNDED_FUNCTIONS)(one)
        if kind == "root":
            power = self.choices.one_of((1, -1, 3)) * sympy.Rational(1, 2)
            return (one**2 + 1) ** power
        if kind == "quotient":
            return as_body(self.element(domain)) / (sympy.Abs(one) + self.choices.integer(1, 3))
        if kind == "angle":
            return sympy.atan2(one, as_body(self.element(domain)) ** 2 + 1)
        return self.choices.one_of(NUMBERS) * one + self.choices.one_of(NUMBERS)

    def condition(self, domain: Domain) -> Any:
        """A comparison of elements, what joins two of them, or the contrary of that."""
        if self.choices.chance(3):
            join = self.choices.one_of((sympy.And, sympy.Or, sympy.And, sympy.Or, sympy.Xor))
            joined = join(self.asked(domain), self.asked(domain))
            if self.choices.chance(4):
                joined = sympy.Not(joined)
            return joined if joined.args else self.asked(domain)
        return self.asked(domain)

    def asked(self, domain: Domain) -> Any:
        """Whether an element is 1 or 0, or how it compares with another one."""
        one, other = self.read(domain), as_body(self.element(domain))
        if self.options.functions and self.choices.chance(4):
            other = as_body(self.function(domain, 2))
        kind = self.choices.one_of(("is", "is not", "more", "equal"))
        if kind == "is" or one == other:
            return sympy.Ne(one, 0)
        if kind == "is not":
            return sympy.Eq(one, 0)
        if kind == "more":
            return one > other
        return sympy.Eq(one, other)

    def element(self, domain: Domain) -> Any:
        kind = self.choices.one_of(("read", "read", "read", "read", "read", "number"))
        if kind == "number":
            return draw_form(self.choices, domain.indices, self.options)
        return self.read(domain)

    def read(self, domain: Domain) -> Access:
        base = self.base()
        forms = [
            draw_form(self.choices, domain.indices, self.options)
            for _ in range(self.choices.integer(1, 3) if base is None else base.rank)
        ]
        if base is None:
            base, fitted = self.new_tensor(domain, forms)
        else:
            fitted = [self.fit(domain, form, axis) for form, axis in zip(forms, base.box)]
        return self.padded(base, [pads for _, pads in fitted])[tuple(form for form, _ in fitted)]

    def base(self) -> Any:
        """Draw the source to read; None for a new tensor."""
        expression, choices = self.expression, self.choices
        known = [*expression.tensors, *expression.inner]
        kinds = ["new", "new", *(("known",) if known else ()), *(("inner",) * self.depth)]
        kind = choices.one_of(kinds)
        if kind == "inner":
            scope = _scope(expression, self.options.for_inner_scope(), self.depth - 1)
            expression.inner.append(scope)
            if scope.where:
                expression.gaps.add(scope)
            return scope
        return choices.one_of(known[::-1]) if kind == "known" else None

    def new_tensor(
        self, domain: Domain, forms: Sequence[Affine]
    ) -> tuple[Tensor, list[tuple[Affine, Pads]]]:
        sizes: list[int] = []
        fitted: list[tuple[Affine, Pads]] = []
        elements = 1
        for form in forms:
            low, high = domain.bounds(form)
            if elements * (high - low + 2) > MOST_ELEMENTS:
                form, low, high = affine(0), 0, 0
            form, size, pads = self.new_axis(form, low, high)
            elements *= size
            sizes.append(size)
            fitted.append((form, pads))
        role, dtype = (
            self.choices.one_of(("input", "input", "weight")),
            self.choices.one_of(self.options.dtypes),
        )
        name = self.expression.fresh_name()
        if self.options.constants and self.choices.chance(5):
            tensor: Tensor = self.constant(name, sizes, dtype)
        else:
            tensor = Tensor(name, sizes, dtype, role)
        self.expression.tensors.append(tensor)
        return tensor, fitted

    def constant(self, name: str, sizes: Sequence[int], dtype: str) -> Constant:
        """A tensor of small known values, of which some are 0."""
        values = (0, 1) if dtype == "bool" or dtype.startswith("u") else (0, 1, -1, 2)
        count = prod(sizes)
        drawn = [self.choices.one_of(values) for _ in range(min(count, MOST_VALUES))]
        return Constant(name, sizes, dtype, list(islice(cycle(drawn), count)))

    def new_axis(self, form: Affine, low: int, high: int) -> tuple[Affine, int, Pads]:
        """A subscript that starts at 0, later, or in the padding; with the size of its axis and its
        padding.
        """
        extent = high - low + 1
        if self.options.padding and self.choices.chance(3):
            before = self.choices.integer(0, min(2, extent - 1))
            after = self.choices.integer(0, min(2, extent - 1 - before))
            return form - low - before, extent - before - after, (before, after)
        start = self.choices.one_of((0, 0, 0, 1))
        return form - low + start, extent + start + self.choices.one_of((0, 0, 0, 2)), (0, 0)

    def fit(self, domain: Domain, form: Affine, axis: tuple[int, int]) -> tuple[Affine, Pads]:
        """The subscript moved to where the axis, or its padding, holds what it reads."""
        low, high = domain.bounds(form)
        room = (axis[1] - axis[0]) - (high - low + 1)
        if room < 0 and not self.options.padding:
            form = modulo(form, axis[1] - axis[0]) if self.options.quotients else affine(0)
            low, high = domain.bounds(form)
            room = (axis[1] - axis[0]) - (high - low + 1)
        reach = 2 if self.options.padding and self.choices.chance(3) else 0
        if not (reach == 0 and axis[0] <= low and high < axis[1]):
            start = axis[0] + self.choices.integer(min(room, 0) - reach, max(room, 0) + reach)
            form, low, high = form + (start - low), start, start + high - low
        return form, (max(0, axis[0] - low), max(0, high + 1 - axis[1]))

    def padded(self, base: Any, pads: Sequence[Pads]) -> Any:
        """The base, or a view with that padding, at times in several steps of different fills, some
        of no elements.
        """
        if not any(map(any, pads)) and base not in self.expression.gaps:
            return base
        count = self.choices.one_of((1, 1, 1, 1, 1, 2, 2, 3, 4)) if self.options.padding else 1
        left = list(pads)
        for _ in range(count - 1):
            layer = [
                (self.choices.integer(0, before), self.choices.integer(0, after))
                for before, after in left
            ]
            left = [(before - b, after - a) for (before, after), (b, a) in zip(left, layer)]
            base = base.pad(*layer, fill=self.fill(base))
        return base.pad(*left, fill=self.fill(base))

    def fill(self, base: Any) -> int:
        """Draw the fill of a padding: a number that the element type has."""
        return self.choices.one_of(
            [fill for fill in FILLS if fill == 0 or holds(base.dtype, sympy.Integer(fill))]
        )
