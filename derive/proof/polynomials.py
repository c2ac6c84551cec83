"""Expressions as polynomials: sums over integer domains of products of elements, nested scopes inlined (design §9).

What is no polynomial (`exp`, a maximum, a quotient) becomes an element of a *symbol*: a tensor of its own, the same one
wherever the same function is applied to arguments that are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import sympy

from einalg.access import Access, Padded, Tensor
from einalg.affine import Affine, Index, IndexArithmetic, affine
from einalg.program import Program
from einalg.scope import Constraint, Reduce, Scope
from einalg.scope import Iterator as Range

MOST_TERMS = 256
INDEX = "index"  # the symbol whose element at i is the number i


class OutsideFragment(Exception):
    """The expression is no polynomial that can be written out."""


@dataclass(frozen=True)
class Term:
    """`coefficient · Σ[iterators, where] Π factors`, a factor being a tensor's name and its subscripts."""

    coefficient: Any = sympy.S.One
    iterators: tuple[Range, ...] = ()
    where: tuple[Constraint, ...] = ()
    factors: tuple[tuple[str, tuple[Affine, ...]], ...] = ()

    def __mul__(self, other: Term) -> Term:
        return Term(
            self.coefficient * other.coefficient,
            (*self.iterators, *other.iterators),
            (*self.where, *(c for c in other.where if c not in self.where)),
            (*self.factors, *other.factors),
        )


Polynomial = tuple[Term, ...]


@dataclass
class Symbol:
    """A function of some arguments (or a reduction of one), at every point of a box."""

    name: str
    function: str
    box: tuple[tuple[int, int], ...]
    arguments: tuple[Polynomial, ...]
    iterators: tuple[Range, ...] = ()
    where: tuple[Constraint, ...] = ()


@dataclass
class Symbols:
    """The symbols of both sides; `same` decides whether two have equal arguments."""

    same: Any
    found: list[Symbol] = field(default_factory=list)

    def name(self, symbol: Symbol) -> str:
        for known in self.found:
            if known.function == symbol.function and known.box == symbol.box and self.same(known, symbol):
                return known.name
        symbol.name = f"{symbol.function}#{len(self.found)}"
        self.found.append(symbol)
        return symbol.name


class Expansion:
    """Writes the outputs of a program out as polynomials over the output's points (positional names, from origin 0)."""

    def __init__(self, program: Program, symbols: Symbols):
        self.scopes = dict(program.statements)
        self.symbols = symbols
        self.fresh = (Index(f"s{k}") for k in count())

    def output(self, name: str) -> tuple[tuple[Range, ...], Polynomial]:
        """The box of an output, and its polynomial."""
        scope = self.scopes[name]
        box = tuple(Range(Index(f"x{k}"), 0, it.extent) for k, it in enumerate(scope.iterators))
        subscripts = tuple(affine(place.index) + it.low for place, it in zip(box, scope.iterators))
        return box, self.at(scope, subscripts, _ranges(box))

    def at(self, scope: Scope, subscripts: Sequence[Affine], ranges: Mapping[Index, tuple[int, int]]) -> Polynomial:
        """A scope's value at a point, 0 where it has none."""
        names = dict(zip(scope.indices, subscripts))
        where = tuple(c.substitute(names) for c in scope.where)
        return tuple(_guard(self.expand(scope.body, names, ranges), where))

    def expand(self, body: Any, names: Mapping[Index, Affine], ranges: Mapping[Index, tuple[int, int]]) -> Polynomial:
        terms = self._expand(body, names, ranges)
        if len(terms) > MOST_TERMS:
            raise OutsideFragment(f"more than {MOST_TERMS} terms")
        return terms

    def _expand(self, body: Any, names: Any, ranges: Any) -> Polynomial:
        if isinstance(body, Access):
            return tuple(self.read(body.base, tuple(s.substitute(names) for s in body.subscripts), ranges))
        if isinstance(body, IndexArithmetic):
            return self._number(affine(body).substitute(names))
        if isinstance(body, sympy.Add):
            return tuple(t for a in body.args for t in self.expand(a, names, ranges))
        if isinstance(body, sympy.Mul):
            return self._product([self.expand(a, names, ranges) for a in body.args])
        if isinstance(body, sympy.Pow) and body.exp.is_Integer and 0 < body.exp <= 4:
            return self._product([self.expand(body.base, names, ranges) for _ in range(int(body.exp))])
        if isinstance(body, Reduce):
            return self._reduction(body, names, ranges)
        if not body.args:
            return self._constant(body)
        return self._function(body, names, ranges)

    def _constant(self, value: Any) -> Polynomial:
        if value.is_Float:
            value = sympy.Rational(float(value))
        if value in (sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
            return (Term(factors=((str(value), ()),)),)
        return (Term(value),) if value != 0 else ()

    def _number(self, form: Affine) -> Polynomial:
        if not form.terms:
            return self._constant(sympy.Integer(form.const))
        return (Term(factors=((INDEX, (form,)),)),)

    def _product(self, parts: Sequence[Polynomial]) -> Polynomial:
        total: Polynomial = (Term(),)
        for part in parts:
            if len(total) * len(part) > MOST_TERMS:
                raise OutsideFragment(f"more than {MOST_TERMS} terms")
            total = tuple(a * self._renamed(b) for a in total for b in part)
        return total

    def _renamed(self, term: Term) -> Term:
        """The term with names of its own for what it sums over."""
        if not term.iterators:
            return term
        names = {it.index: affine(next(self.fresh)) for it in term.iterators}
        iterators = tuple(Range(names[it.index].as_index(), it.low, it.high) for it in term.iterators)  # type: ignore[arg-type]
        factors = tuple((name, tuple(s.substitute(names) for s in subscripts)) for name, subscripts in term.factors)
        return Term(term.coefficient, iterators, tuple(c.substitute(names) for c in term.where), factors)

    def read(self, base: Any, subscripts: tuple[Affine, ...], ranges: Any) -> Iterator[Term]:
        if isinstance(base, Tensor):
            if base.name in self.scopes:
                yield from self.at(self.scopes[base.name], subscripts, ranges)
            else:
                yield Term(factors=((base.name, subscripts),))
        elif isinstance(base, Scope):
            yield from self.at(base, subscripts, ranges)
        else:
            inside = self._inside(base, subscripts, ranges)
            yield from _guard(self.read(base.base, subscripts, ranges), inside)
            if base.fill != 0:
                for fill in self._constant(base.fill):
                    for piece in _outside(inside):
                        yield from _guard([fill], piece)

    def _inside(self, base: Padded, subscripts: Any, ranges: Any) -> tuple[Constraint, ...]:
        conditions = []
        for subscript, (low, high) in zip(subscripts, base.box):
            first, last = subscript.interval(ranges)
            conditions += [Constraint(subscript - low, ">=")] if first < low else []
            conditions += [Constraint(-subscript + (high - 1), ">=")] if last >= high else []
        if isinstance(base.base, Padded):
            outer = zip(subscripts, base.base.box, base.base.amounts)
            bounds = [(s, low - a, high + b) for s, (low, high), (a, b) in outer]
            conditions = [Constraint(s - low, ">=") for s, low, _ in bounds] + [Constraint(-s + (high - 1), ">=") for s, _, high in bounds]
        if isinstance(base.base, Scope):
            names = dict(zip(base.base.indices, subscripts))
            conditions += [c.substitute(names) for c in base.base.where]
        return tuple(c for c in conditions if c.truth is not True)

    def _reduction(self, node: Reduce, names: Any, ranges: Any) -> Polynomial:
        own = {it.index: affine(next(self.fresh)) for it in node.iterators}
        inner = {**names, **own}
        iterators = tuple(Range(own[it.index].as_index(), it.low, it.high) for it in node.iterators)  # type: ignore[arg-type]
        where = tuple(c.substitute(inner) for c in node.where)
        body = self.expand(node.body, inner, {**ranges, **_ranges(iterators)})
        if node.op == "Sum":
            return tuple(replace(t, iterators=(*iterators, *t.iterators)) for t in _guard(body, where))
        return self._symbol(node.op, (body,), ranges, iterators, where)

    def _function(self, body: Any, names: Any, ranges: Any) -> Polynomial:
        if isinstance(body, sympy.Piecewise):
            return self._piecewise(body, names, ranges)
        if isinstance(body, sympy.Pow):
            if not body.exp.is_number:
                return self._symbol("Pow", (self.expand(body.base, names, ranges), self.expand(body.exp, names, ranges)), ranges)
            return self._symbol(f"Pow {body.exp}", (self.expand(body.base, names, ranges),), ranges)
        arguments = [self.expand(a, names, ranges) for a in body.args]
        return self._symbol(type(body).__name__, tuple(arguments), ranges)

    def _piecewise(self, body: sympy.Piecewise, names: Any, ranges: Any) -> Polynomial:
        parts: list[Polynomial] = []
        for value, condition in body.args:
            parts += [self.expand(value, names, ranges), self._condition(condition, names, ranges)]
        return self._symbol("Piecewise", tuple(parts), ranges)

    def _condition(self, condition: Any, names: Any, ranges: Any) -> Polynomial:
        if condition in (sympy.true, sympy.false):
            return (Term(sympy.Integer(1 if condition == sympy.true else 0)),) if condition == sympy.true else ()
        return self._function(condition, names, ranges)

    def _symbol(self, function: str, arguments: tuple[Polynomial, ...], ranges: Any, iterators: Any = (), where: Any = ()) -> Polynomial:
        """An element of the symbol that a function of these arguments is: its axes are the indices that occur, in order."""
        used = {i for polynomial in arguments for t in polynomial for i in _free(t)} | {i for c in where for i in c.indices}
        axes = [i for i in ranges if i in used and i not in {it.index for it in iterators}]
        names = {i: affine(Index(f"y{k}")) for k, i in enumerate(axes)}
        placed = tuple(tuple(_placed(t, names) for t in polynomial) for polynomial in arguments)
        symbol = Symbol("", function, tuple(ranges[i] for i in axes), placed, iterators, tuple(c.substitute(names) for c in where))
        return (Term(factors=((self.symbols.name(symbol), tuple(affine(i) for i in axes)),)),)


def _ranges(iterators: Sequence[Range]) -> dict[Index, tuple[int, int]]:
    return {it.index: (it.low, it.high) for it in iterators}


def _guard(terms: Any, where: Sequence[Constraint]) -> Iterator[Term]:
    """The terms under conditions; none where a condition never holds."""
    if any(c.truth is False for c in where):
        return
    needed = tuple(c for c in where if c.truth is None)
    for term in terms:
        yield replace(term, where=(*term.where, *(c for c in needed if c not in term.where))) if needed else term


def _outside(inside: Sequence[Constraint]) -> Iterator[list[Constraint]]:
    """The points at which not all conditions hold, as disjoint pieces."""
    held: list[Constraint] = []
    for condition in inside:
        opposites = (
            [Constraint(-condition.form - 1, ">=")]
            if condition.relation == ">="
            else [Constraint(condition.form - 1, ">="), Constraint(-condition.form - 1, ">=")]
        )
        for opposite in opposites:
            yield [*held, opposite]
        held.append(condition)


def _free(term: Term) -> set[Index]:
    used = {i for _, subscripts in term.factors for s in subscripts for i in s.indices} | {i for c in term.where for i in c.indices}
    return used - {it.index for it in term.iterators}


def _placed(term: Term, names: Mapping[Index, Affine]) -> Term:
    factors = tuple((name, tuple(s.substitute(names) for s in subscripts)) for name, subscripts in term.factors)
    return Term(term.coefficient, term.iterators, tuple(c.substitute(names) for c in term.where), factors)
