"""Writing an expression out as a polynomial: every scope inlined, padding and Piecewise as guards
(design §9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
    ConstantElements,
    ConstantFactor,
    ElementFactor,
    Factor,
    FunctionFactor,
    IndexValue,
    OutsideFragment,
    Polynomial,
    Term,
    collected,
    constant,
    constant_value,
    guarded,
    multiplied,
    of_factor,
    of_sizes,
    output_index,
    single_factor,
    summed,
)
from derive.proof.exact.ranges import in_one_form, needed_arguments, value_in_range
from einalg.language.conversion import Conversion
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import IDENTITY, Reduce
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Indexable, Padded, Tensor, padded_box, unpadded
from einalg.language.ir.tensor import Constant as ConstantTensor

MAX_TERMS = 512  # of one polynomial
MAX_NODES = 20_000  # of the bodies that are written out, repetitions counted
MAX_REPEATED_NODES = 8 * MAX_NODES  # counted ahead; what conditions exclude is not written out
TOO_MANY_NODES = f"more than {MAX_NODES} nodes once everything is inlined"
MAX_POWER = 8
EXTREMES = ("Max", "Min")
COMMUTATIVE = (sympy.Max, sympy.Min, sympy.And, sympy.Or, sympy.Xor, sympy.Eq, sympy.Ne)
MIRRORED = {sympy.StrictGreaterThan: "StrictLessThan", sympy.GreaterThan: "LessThan"}
FOLDED = (  # functions whose value at rational numbers may be a rational number
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
)
Names = Mapping[Index, Affine]


def output_indices(rank: int) -> tuple[Index, ...]:
    """Return the names of the axes of an output, in which everything is written."""
    return tuple(map(output_index, range(rank)))


class Inliner:
    """Writes scopes out over the points of an output; `ranges` are those of every index that was
    introduced.
    """

    def __init__(self) -> None:
        self.ranges: dict[Index, tuple[Any, Any]] = {}
        self._fresh = (Index(f"s{k}") for k in count())
        self._nodes = 0

    def output(self, scope: Scope) -> Polynomial:
        """Return the value at every point of the output, counted from 0 on every axis; 0 where the
        scope has none.
        """
        if written_nodes(scope) > MAX_REPEATED_NODES:
            raise OutsideFragment(TOO_MANY_NODES)
        point = []
        for index, it in zip(output_indices(scope.rank), scope.iterators):
            self.ranges[index] = (0, it.extent)
            point.append(affine(it.low) if it.extent == 1 else affine(index) + it.low)
        return self.under(scope, point)

    def under(self, scope: Scope, point: Sequence[Affine]) -> Polynomial:
        """Return the value of a scope at a point, 0 where a condition of it fails."""
        names = dict(zip(scope.indices, point))
        where = needed(_substituted(scope.where, names), self.ranges)
        return () if where is None else guarded(self.body(scope.body, names), where)

    def body(self, body: Any, names: Names) -> Polynomial:
        """Return the value of a body where its indices are these forms."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise OutsideFragment(TOO_MANY_NODES)
        polynomial = self._body(body, names)
        if len(polynomial) > MAX_TERMS:
            raise OutsideFragment(f"more than {MAX_TERMS} terms")
        return polynomial

    def _body(self, body: Any, names: Names) -> Polynomial:
        if isinstance(body, Access):
            return self.read(body.base, tuple([s.substitute(names) for s in body.subscripts]))
        if isinstance(body, Reduce):
            return self._reduction(body, names)
        if isinstance(body, Conversion):
            return self._body(body.args[0], names)
        form = index_form(body)
        if form is not None:
            return _index_value(form.substitute(names))
        return self._operation(body, names)

    def _operation(self, body: Any, names: Names) -> Polynomial:
        """Return the value of a number or of an operation on bodies."""
        if not body.args:
            return _number(body)
        if isinstance(body, sympy.Add):
            return self._sum(body, names)
        if isinstance(body, sympy.Mul):
            return _product([self.body(part, names) for part in body.args])
        if _is_small_power(body):
            return self._power(body, names)
        if _is_index_piecewise(body):
            return self._piecewise(body, names)
        return self._function(body, names)

    def _sum(self, body: Any, names: Names) -> Polynomial:
        """Write out a sum; index arithmetic among the summands is one number."""
        numbers, parts = [], []
        for part in body.args:
            if index_form(part) is None:
                parts.append(part)
            else:
                numbers.append(part)
        if numbers:
            parts.append(sympy.Add(*numbers))
        terms: list[Term] = []
        for part in parts:
            terms += self.body(part, names)
        return tuple(terms)

    def _power(self, body: Any, names: Names) -> Polynomial:
        """Write a power out anew for every factor, so that no two factors sum over the same
        index.
        """
        factors = []
        for _ in range(abs(int(body.exp))):
            factor = self.body(body.base, names)
            factors.append(factor if body.exp > 0 else self.opaque("inverse", (factor,)))
        return _product(factors)

    def _piecewise(self, body: sympy.Piecewise, names: Names) -> Polynomial:
        """Split the domain by conditions on indices; where none of them holds, the value is
        undefined.
        """
        terms: list[Term] = []
        left: list[Conjunction] = [()]
        for pair in body.args:
            value, condition = pair.args
            holding = conjunctions(condition, lambda form: form.substitute(names))
            terms += self._where(both(left, holding), value, names)
            left = both(left, failing(holding))
        return (*terms, *self._where(left, sympy.nan, names))

    def _where(self, parts: list[Conjunction], value: Any, names: Names) -> Iterable[Term]:
        for part in parts:
            where = needed(part, self.ranges)
            if where is not None:
                yield from guarded(self.body(value, names), where)

    def read(self, base: Indexable, point: tuple[Affine, ...]) -> Polynomial:
        """Return the value of a tensor, a scope or a padded view at a point where it has one."""
        if isinstance(base, Tensor):
            return _element(base, point)
        if isinstance(base, Scope):
            return self.under(base, point)
        assert isinstance(base, Padded)
        held = needed(_held(base, point), self.ranges)
        if held is None:
            return _number(base.fill)
        terms = list(guarded(self.read(base.base, point), held))
        if base.fill != 0:
            for part in outside(held, self.ranges):
                terms += guarded(_number(base.fill), part)
        return tuple(terms)

    def _renamed(self, iterators: Sequence[LoopIndex]) -> tuple[Names, tuple[LoopIndex, ...]]:
        """Return iterators with names that occur nowhere else, counted from 0, and the old indices
        as forms of these; one of a single value is replaced by it.
        """
        names: dict[Index, Affine] = {}
        fresh = []
        for it in iterators:
            if it.extent == 1:
                names[it.index] = affine(it.low)
                continue
            index = next(self._fresh)
            self.ranges[index] = (0, it.extent)
            fresh.append(LoopIndex(index, 0, it.extent))
            names[it.index] = affine(index) + it.low
        return names, tuple(fresh)

    def _reduction(self, node: Reduce, names: Names) -> Polynomial:
        renamed, iterators = self._renamed(node.iterators)
        names = {**names, **renamed}
        where = needed(_substituted(node.where, names), self.ranges)
        elements: Polynomial = ()
        if where is not None:
            elements = self.body(node.body, names)
        if node.op == "Sum":
            return summed(guarded(elements, where or ()), iterators)
        values: Polynomial = ()
        if where is not None:
            values = self._collection(elements, node.op, where)
        return self._reduced(node, collected(values, iterators))

    def _collection(self, elements: Polynomial, op: str, where: Conjunction) -> Polynomial:
        """Return the values that a reduction meets, as a sum of single factors."""
        terms: list[Term] = []
        for part, (element,) in cells((elements,), self.ranges, where):
            terms += guarded(_met(element, op), part)
        return tuple(terms)

    def _reduced(self, node: Reduce, values: Polynomial) -> Polynomial:
        """Return a reduction of values that are a sum of single factors, so that their relation has
        a multiplicity.
        """
        terms: list[Term] = []
        for where, (part,) in cells((values,), self.ranges):
            value = _number(node.identity)
            if part:
                is_idempotent = node.op in EXTREMES
                name = _reduction_name(node.op)
                value = _opaque_value(FunctionFactor(name, (part,), idempotent=is_idempotent))
            terms += guarded(value, where)
        return tuple(terms)

    def _function(self, body: Any, names: Names) -> Polynomial:
        """Return a function of which nothing is known but its arguments."""
        arguments = list(body.args)
        if isinstance(body, sympy.Piecewise):
            arguments = [argument for pair in body.args for argument in pair.args]
        name = type(body).__name__
        if type(body) in MIRRORED:
            name, arguments = MIRRORED[type(body)], arguments[::-1]
        parts = tuple([self.body(argument, names) for argument in arguments])
        return self.opaque(name, parts, isinstance(body, COMMUTATIVE), body.func)

    def opaque(
        self,
        name: str,
        arguments: tuple[Polynomial, ...],
        commutative: bool = False,
        build: Any = None,
    ) -> Polynomial:
        """Return the value of a function, apart for every cell of its arguments' guards; a number
        where all of them are numbers.
        """
        terms: list[Term] = []
        for where, parts in cells(arguments, self.ranges):
            parts = needed_arguments(name, parts, self.ranges)
            value = value_in_range(name, parts, self.ranges)
            if value is None:
                value = _opaque_or_number(name, parts, commutative, build)
            terms += guarded(value, where)
        return tuple(terms)


def written_nodes(scope: Scope) -> int:
    """Return how many nodes the bodies have once everything is inlined, repetitions counted.

    >>> import einalg as ea
    >>> from einalg.language.ir.program import inlined
    >>> x = ea.tensor("x", (3,))
    >>> written_nodes(inlined(ea.parse("T[i] = x[i] + 1\\nO[i] = T[i]*T[2-i]", x=x)))
    9
    """
    nodes: dict[Scope, int] = {}
    for inner in all_scopes(scope):
        nodes[inner] = _written_nodes(inner.body, nodes)
    return nodes[scope]


def _written_nodes(body: Any, nodes: Mapping[Scope, int]) -> int:
    if isinstance(body, Access):
        return 1 + nodes.get(unpadded(body.base), 0)
    if isinstance(body, Reduce):
        return 1 + _written_nodes(body.body, nodes)
    if index_form(body) is not None:
        return 1
    return 1 + sum(_written_nodes(part, nodes) for part in body.args)


def _substituted(conditions: Iterable[Constraint], names: Names) -> list[Constraint]:
    return [condition.substitute(names) for condition in conditions]


def _is_small_power(body: Any) -> bool:
    return isinstance(body, sympy.Pow) and body.exp.is_Integer and 0 < abs(body.exp) <= MAX_POWER


def _is_index_piecewise(body: Any) -> bool:
    """Return whether a body is chosen by conditions on indices alone."""
    if not isinstance(body, sympy.Piecewise):
        return False
    return all(is_index_condition(pair.args[1]) for pair in body.args)


def _element(tensor: Tensor, point: Sequence[Affine]) -> Polynomial:
    """Return the element of a tensor at a point, counted from 0."""
    subscripts = tuple([form - low for form, (low, _) in zip(point, tensor.box)])
    if isinstance(tensor, ConstantTensor):
        return of_factor(Factor(_constant_elements(tensor), subscripts))
    return of_factor(Factor(ElementFactor(tensor.name, tensor.dtype), subscripts))


@lru_cache(maxsize=256)
def _constant_elements(tensor: ConstantTensor) -> ConstantElements:
    values = tuple(Fraction(int(value.p), int(value.q)) for value in tensor.values)
    return ConstantElements(tensor.shape, values)


def _held(view: Padded, point: Sequence[Affine]) -> Conjunction:
    """Return the conditions under which a view holds a value of what it is a view of."""
    inner = view.base
    conditions = inside(point, padded_box(inner))
    if isinstance(inner, Scope):
        names = dict(zip(inner.indices, point))
        return (*conditions, *_substituted(inner.where, names))
    return conditions


def _opaque_or_number(
    name: str, parts: tuple[Polynomial, ...], commutative: bool, build: Any
) -> Polynomial:
    number = _folded(name, [constant_value(part) for part in parts], build)
    if number is not None:
        return _number(number)
    name, parts = in_one_form(name, parts)
    if name in EXTREMES and any(_is_reduction(single_factor(part), name) for part in parts):
        return _extreme_of_all(name, parts)
    return _opaque_value(FunctionFactor(name, parts, commutative))


def _is_reduction(factor: Factor | None, op: str) -> bool:
    if factor is None or not isinstance(factor.head, FunctionFactor):
        return False
    return factor.head.function == _reduction_name(op)


def _extreme_of_all(op: str, parts: Iterable[Polynomial]) -> Polynomial:
    """Return the extreme of extremes of its kind: one of all that these meet."""
    met = _all_met(parts, op)
    return _opaque_value(FunctionFactor(_reduction_name(op), (met,), idempotent=True))


def _product(polynomials: Iterable[Polynomial]) -> Polynomial:
    """Return the product of polynomials; reductions to products are one in every term of it."""
    return tuple(map(_with_one_product, multiplied(polynomials, MAX_TERMS)))


def _with_one_product(term: Term) -> Term:
    products = [factor for factor in term.factors if _is_reduction(factor, "Prod")]
    if len(products) < 2:
        return term
    met = _all_met(map(of_factor, products), "Prod")
    (joined,) = _opaque_value(FunctionFactor(_reduction_name("Prod"), (met,)))
    others = [factor for factor in term.factors if factor not in products]
    return replace(term, factors=(*others, *joined.factors))


def _opaque_value(opaque: FunctionFactor) -> Polynomial:
    """Return an opaque value as an element of a tensor of its own, whose axes are the indices that
    it depends on.
    """
    return of_factor(Factor(opaque, tuple(map(affine, opaque.free))))


def _reduction_name(op: str) -> str:
    return f"{op}[]"


def _met(element: Polynomial, op: str) -> Polynomial:
    """Return what a reduction meets in one element: the factors of a product, what an inner
    reduction or function of its kind meets, or a value; nothing for its identity.
    """
    value = constant_value(element)
    if value is not None:
        return () if value == IDENTITY[op] else of_factor(Factor(ConstantFactor(str(value))))
    parts = _factors_of_product(element) if op == "Prod" else []
    if len(parts) > 1:
        return _all_met(parts, op)
    factor = single_factor(element)
    if factor is None or isinstance(factor.head, ConstantElements):
        return _opaque_value(FunctionFactor("value", (element,)))
    if factor.head == ConstantFactor(str(IDENTITY[op])):
        return ()
    if isinstance(factor.head, FunctionFactor):
        if factor.head.function == _reduction_name(op):
            return factor.head.arguments[0]
        if factor.head.function == op:
            return _all_met(factor.head.arguments, op)
    return of_factor(factor)


def _all_met(elements: Iterable[Polynomial], op: str) -> Polynomial:
    return tuple([term for element in elements for term in _met(element, op)])


def _factors_of_product(element: Polynomial) -> list[Polynomial]:
    """Return the factors of a single term without sum and guards, its coefficient first; none of
    anything else.
    """
    if len(element) != 1 or element[0].iterators or element[0].where:
        return []
    (term,) = element
    factors = list(map(of_factor, term.factors))
    return factors if term.coefficient == 1 else [constant(term.coefficient), *factors]


def _folded(name: str, values: Sequence[Fraction | None], build: Any) -> Any:
    """Return the number that a function of rational numbers is; None where it is not known."""
    numbers = []
    for value in values:
        if value is None:
            return None
        numbers.append(sympy.Rational(value.numerator, value.denominator))
    if name == "inverse":
        return 1 / numbers[0]
    if build not in FOLDED:
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
    """Write an index form in the place of a number: its content times one factor, so that spellings
    of one function agree.
    """
    if not form.indices:
        return of_sizes(form)
    content = gcd(form.const, *(coefficient for _, coefficient in form.terms))
    terms = tuple((atom, coefficient // content) for atom, coefficient in form.terms)
    primitive = Affine.from_normal_form(terms, form.const // content)
    value = of_factor(Factor(IndexValue(), (primitive,)))
    return value if content == 1 else multiplied([constant(content), value], MAX_TERMS)
