"""Writing an expression out as a polynomial: every scope inlined, padding and Piecewise as guards (design §9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import gcd
from typing import Any

import sympy

from derive.proof.exact.guards import (
    Conjunction,
    both,
    cells,
    conjunctions,
    failing,
    index_form,
    inside,
    is_index_condition,
    needed,
    outside,
)
from derive.proof.exact.polynomial import (
    ConstantFactor,
    ElementFactor,
    Factor,
    FunctionFactor,
    IndexValue,
    ConstantElements,
    OutsideFragment,
    Polynomial,
    constant,
    constant_value,
    guarded,
    multiplied,
    of_factor,
    single_factor,
    summed,
)
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Indexable, Padded, Tensor, padded_box
from einalg.language.ir.tensor import Constant as ConstantTensor

MOST_TERMS = 512  # of one polynomial
MOST_NODES = 20_000  # of the bodies that are written out, repetitions counted
LARGEST_POWER = 8
COMMUTATIVE = (sympy.Max, sympy.Min, sympy.And, sympy.Or, sympy.Xor, sympy.Eq, sympy.Ne)
MIRRORED = {sympy.StrictGreaterThan: "StrictLessThan", sympy.GreaterThan: "LessThan"}
Names = Mapping[Index, Affine]


def output_indices(rank: int) -> tuple[Index, ...]:
    """The names of the axes of an output, in which everything is written."""
    return tuple(Index(f"x{k}") for k in range(rank))


class Inliner:
    """Writes scopes out over the points of an output; `ranges` are those of every index that was introduced."""

    def __init__(self) -> None:
        self.ranges: dict[Index, tuple[int, int]] = {}
        self._fresh = (Index(f"s{k}") for k in count())
        self._nodes = 0

    def output(self, scope: Scope) -> Polynomial:
        """The value at every point of the output, counted from 0 on every axis; 0 where the scope has none."""
        indices = output_indices(scope.rank)
        self.ranges.update({i: (0, it.extent) for i, it in zip(indices, scope.iterators)})
        point = tuple(
            affine(i) + it.low if it.extent != 1 else affine(it.low)
            for i, it in zip(indices, scope.iterators)
        )
        return self.under(scope, point, ())

    def under(self, scope: Scope, point: Sequence[Affine], conditions: Conjunction) -> Polynomial:
        """The value of a scope at a point, 0 where a condition or the scope's own fails."""
        names = dict(zip(scope.indices, point))
        where = needed((*conditions, *(c.substitute(names) for c in scope.where)), self.ranges)
        return () if where is None else guarded(self.body(scope.body, names), where)

    def body(self, body: Any, names: Names) -> Polynomial:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise OutsideFragment(f"more than {MOST_NODES} nodes once everything is inlined")
        polynomial = self._body(body, names)
        if len(polynomial) > MOST_TERMS:
            raise OutsideFragment(f"more than {MOST_TERMS} terms")
        return polynomial

    def _body(self, body: Any, names: Names) -> Polynomial:
        if isinstance(body, Access):
            return self.read(body.base, tuple(s.substitute(names) for s in body.subscripts))
        if isinstance(body, Reduce):
            return self._reduction(body, names)
        form = index_form(body)
        if form is not None:
            return _index_value(form.substitute(names))
        if isinstance(body, sympy.Add):
            return self._sum(body, names)
        if isinstance(body, sympy.Mul):
            return multiplied([self.body(part, names) for part in body.args], MOST_TERMS)
        if (
            isinstance(body, sympy.Pow)
            and body.exp.is_Integer
            and 0 < abs(body.exp) <= LARGEST_POWER
        ):
            return self._power(body, names)
        if isinstance(body, sympy.Piecewise) and all(
            is_index_condition(pair.args[1]) for pair in body.args
        ):
            return self._piecewise(body, names)
        return _number(body) if not body.args else self._function(body, names)

    def _sum(self, body: Any, names: Names) -> Polynomial:
        """Index arithmetic among the summands is one number."""
        numbers = [part for part in body.args if index_form(part) is not None]
        others = [part for part in body.args if part not in numbers]
        parts = [*others, sympy.Add(*numbers)] if numbers else others
        return tuple(term for part in parts for term in self.body(part, names))

    def _power(self, body: Any, names: Names) -> Polynomial:
        """Written out anew for every factor, so that no two factors sum over the same index."""
        if body.exp > 0:
            return multiplied(
                [self.body(body.base, names) for _ in range(int(body.exp))], MOST_TERMS
            )
        inverses = [
            self.opaque("inverse", (self.body(body.base, names),)) for _ in range(-int(body.exp))
        ]
        return multiplied(inverses, MOST_TERMS)

    def _piecewise(self, body: sympy.Piecewise, names: Names) -> Polynomial:
        """Conditions on indices split the domain; where none of them holds, the value is undefined."""
        found: list[Any] = []
        left: list[Conjunction] = [()]
        for value, condition in (pair.args for pair in body.args):
            holding = conjunctions(condition, lambda form: form.substitute(names))
            found += self._where(both(left, holding), value, names)
            left = both(left, failing(holding))
        return (*found, *self._where(left, sympy.nan, names))

    def _where(self, parts: list[Conjunction], value: Any, names: Names) -> Iterable[Any]:
        for part in parts:
            where = needed(part, self.ranges)
            if where is not None:
                yield from guarded(self.body(value, names), where)

    def read(self, base: Indexable, point: tuple[Affine, ...]) -> Polynomial:
        """The value of a tensor, a scope or a padded view at a point where it has one."""
        if isinstance(base, Tensor):
            head = _known(base) if isinstance(base, ConstantTensor) else ElementFactor(base.name)
            return of_factor(Factor(head, tuple(s - low for s, (low, _) in zip(point, base.box))))
        if isinstance(base, Scope):
            return self.under(base, point, ())
        held = needed(self._held(base, point), self.ranges)
        if held is None:
            return _number(base.fill)
        value = self.read(base.base, point)
        filled = (
            [
                term
                for part in outside(held, self.ranges)
                for term in guarded(_number(base.fill), part)
            ]
            if base.fill != 0
            else []
        )
        return (*guarded(value, held), *filled)

    def _held(self, view: Padded, point: tuple[Affine, ...]) -> Conjunction:
        """The conditions under which a view holds a value of what it is a view of."""
        inner = view.base
        own = inner.where if isinstance(inner, Scope) else ()
        names = dict(zip(inner.indices, point)) if isinstance(inner, Scope) else {}
        return (*inside(point, padded_box(inner)), *(c.substitute(names) for c in own))

    def _bound(self, iterators: Sequence[LoopIndex]) -> tuple[Names, tuple[LoopIndex, ...]]:
        """Iterators with names that occur nowhere else, counted from 0; one of a single value is replaced by it."""
        names: dict[Index, Affine] = {
            it.index: affine(it.low) for it in iterators if it.extent == 1
        }
        fresh = []
        for it in iterators:
            if it.extent == 1:
                continue
            index = next(self._fresh)
            self.ranges[index] = (0, it.extent)
            fresh.append(LoopIndex(index, 0, it.extent))
            names[it.index] = affine(index) + it.low
        return names, tuple(fresh)

    def _reduction(self, node: Reduce, names: Names) -> Polynomial:
        own, iterators = self._bound(node.iterators)
        names = {**names, **own}
        where = needed([c.substitute(names) for c in node.where], self.ranges)
        elements = self.body(node.body, names) if where is not None else ()
        if node.op == "Sum":
            return summed(guarded(elements, where or ()), iterators)
        collected = self._collection(elements, node.op, where) if where is not None else ()
        return self._reduced(node, summed(collected, iterators))

    def _collection(self, elements: Polynomial, op: str, where: Conjunction) -> Polynomial:
        """The values that a reduction meets, as a sum of single factors; its identity does not count."""
        identity = Factor(ConstantFactor(str(IDENTITY[op])))
        found: list[Any] = []
        for part, (element,) in cells((elements,), self.ranges, where):
            for term in _met(element, op):
                if term.factors != (identity,):
                    found.append(term.guarded(part))
        return tuple(found)

    def _reduced(self, node: Reduce, values: Polynomial) -> Polynomial:
        """A reduction of values that are given as a sum of single factors, so that their relation has a multiplicity."""
        found: list[Any] = []
        for where, (part,) in cells((values,), self.ranges):
            reduced = FunctionFactor(
                _reduction_name(node.op), (part,), idempotent=node.op in ("Max", "Min")
            )
            found += guarded(
                of_factor(_factor_of(reduced)) if part else _number(node.identity), where
            )
        return tuple(found)

    def _function(self, body: Any, names: Names) -> Polynomial:
        """A function of which nothing is known but its arguments."""
        parts = (
            [a for pair in body.args for a in pair.args]
            if isinstance(body, sympy.Piecewise)
            else list(body.args)
        )
        name = type(body).__name__
        if type(body) in MIRRORED:
            name, parts = MIRRORED[type(body)], parts[::-1]
        return self.opaque(
            name,
            tuple(self.body(part, names) for part in parts),
            commutative=isinstance(body, COMMUTATIVE),
            build=body.func,
        )

    def opaque(
        self,
        name: str,
        arguments: tuple[Polynomial, ...],
        commutative: bool = False,
        build: Any = None,
    ) -> Polynomial:
        """The value of a function, apart for every cell of its arguments' guards; a number where all of them are numbers."""
        found: list[Any] = []
        for where, parts in cells(arguments, self.ranges):
            value = _folded(name, [constant_value(part) for part in parts], build)
            found += guarded(
                of_factor(_factor_of(FunctionFactor(name, parts, commutative)))
                if value is None
                else _number(value),
                where,
            )
        return tuple(found)


@lru_cache(maxsize=256)
def _known(tensor: ConstantTensor) -> ConstantElements:
    return ConstantElements(tensor.shape, tuple(Fraction(int(v.p), int(v.q)) for v in tensor.values))


def _factor_of(opaque: FunctionFactor) -> Factor:
    """An opaque value as an element of a tensor of its own, whose axes are the indices that it depends on."""
    return Factor(opaque, tuple(affine(i) for i in opaque.free))


def _reduction_name(op: str) -> str:
    return f"{op}[]"


def _met(element: Polynomial, op: str) -> Polynomial:
    """What a reduction meets in one element: the factors of a product, what an inner reduction of its kind meets, or a value."""
    value = constant_value(element)
    if value is not None:
        return of_factor(Factor(ConstantFactor(str(value))))
    if op == "Prod" and len(element) == 1 and not element[0].iterators and not element[0].where:
        numbers = constant(element[0].coefficient) if element[0].coefficient != 1 else None
        parts = (
            [of_factor(factor) for factor in element[0].factors]
            if numbers is None
            else [numbers, *map(of_factor, element[0].factors)]
        )
        if len(parts) > 1:
            return tuple(term for part in parts for term in _met(part, op))
    factor = single_factor(element)
    if factor is None or isinstance(factor.head, ConstantElements):
        return of_factor(_factor_of(FunctionFactor("value", (element,))))
    if isinstance(factor.head, FunctionFactor) and factor.head.function == _reduction_name(op):
        return factor.head.arguments[0]
    return of_factor(factor)


def _folded(name: str, values: list[Fraction | None], build: Any) -> Any:
    """The number that a function of rational numbers is; None where it is not known."""
    if any(v is None for v in values):
        return None
    numbers = [sympy.Rational(v.numerator, v.denominator) for v in values if v is not None]
    if name == "inverse":
        return 1 / numbers[0]
    if build not in (
        sympy.exp,
        sympy.tanh,
        sympy.Max,
        sympy.Min,
        sympy.Abs,
        sympy.sign,
        sympy.sqrt,
        sympy.Pow,
        sympy.erf,
        sympy.log,
    ):
        return None
    result = build(*numbers)
    return result if result.is_Rational else None


def _number(value: Any) -> Polynomial:
    if value is sympy.true or value is sympy.false:
        return constant(int(bool(value)))
    if value.is_Rational:
        return constant(Fraction(int(value.p), int(value.q)))
    if value.is_Float:
        return constant(Fraction(float(value)))
    return of_factor(Factor(ConstantFactor(str(value))))


def _index_value(form: Affine) -> Polynomial:
    """Write an index form in the place of a number: its content times one factor, so that spellings of one function agree."""
    if not form.terms:
        return constant(form.const)
    times = gcd(form.const, *(coefficient for _, coefficient in form.terms))
    primitive = Affine.from_normal_form(
        tuple((a, c // times) for a, c in form.terms), form.const // times
    )
    value = of_factor(Factor(IndexValue(), (primitive,)))
    return value if times == 1 else multiplied([constant(times), value], MOST_TERMS)
