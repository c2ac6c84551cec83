"""Reading scopes as polynomials over atoms, and what their values require (design §2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import reduce
from hashlib import blake2b
from itertools import product
from math import prod
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.proof.exact.guards import index_form, inside
from derive.proof.identities.forms.binders import total, total_product
from derive.proof.identities.forms.conditions import at_least, index_at_least, index_equal
from derive.proof.identities.forms.entries import Entry, canonical, may_be_empty, order_of_use
from derive.proof.identities.forms.extremes import maximum, minimum
from derive.proof.identities.forms.functions import (
    PI,
    absolute,
    cosine,
    exponential,
    hyperbolic,
    logarithm,
    other_function,
    power,
    sine,
)
from derive.proof.identities.forms.polynomials.atoms import (
    Extreme,
    Infinity,
    TensorElement,
    WholeElement,
    content,
    indices_of,
    of_index,
)
from derive.proof.identities.forms.polynomials.laurent import (
    ONE,
    ZERO,
    NoValue,
    Poly,
    number,
    of_atom,
    of_mono,
    spend,
    summed,
)
from derive.proof.identities.forms.polynomials.laurent import product as product_of
from derive.proof.identities.forms.rounding import rounded_down, rounded_up
from derive.proof.identities.forms.signs import (
    NEGATIVE,
    NONNEGATIVE,
    POSITIVE,
    Knowledge,
    is_almost_never_zero,
    knowing,
    knowledge,
    sign,
)
from einalg.language.conditions import TESTS, isfinite
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.size import is_always_at_most, is_number
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Indexable, Padded, Tensor, padded_box
from einalg.language.ir.tensor import Constant as ConstantTensor

TOTAL = ("erf", "atan", "asinh")
HYPERBOLIC = ("sinh", "cosh", "tanh")
Names = Mapping[Index, Affine]
Requirement = tuple[str, Entry]  # its kind, and where it is not met


class Reader:
    """Reads scopes; reductions of at most `limit` points are written out.

    `cuts` are scopes that are read as tensors of their names. `requirements` says where the values
    read so far have none.
    """

    def __init__(self, limit: int, cuts: Mapping[Scope, str]):
        self.limit = limit
        self.cuts = cuts
        self.divides = False  # by what is not known to have a sign
        self._bound_indices = 0  # of the reductions around what is read
        self._memo: dict[Any, tuple[Poly, frozenset[Requirement]]] = {}
        self._frames: list[set[Requirement]] = [set()]

    @property
    def requirements(self) -> frozenset[Requirement]:
        """Where the values read so far have none."""
        return frozenset(self._frames[0])

    def scope(self, scope: Scope, point: Sequence[Affine]) -> Poly:
        """Return the value of a scope at a point, 0 where a condition of it fails."""
        names = dict(zip(scope.indices, point))
        holds = _all_hold(scope.where, names)
        if not holds:
            return ZERO
        ranges = knowledge().ranges
        free = sorted(indices_of(tuple(point)), key=lambda index: index.name)
        key = scope, tuple(point), tuple(ranges[index] for index in free)
        if key not in self._memo:
            with self._frame() as frame:
                value = self.body(scope.body, names)
            self._memo[key] = value, frozenset(frame)
        value, requirements = self._memo[key]
        self._require(requirements, holds)
        return holds * value

    @contextmanager
    def _frame(self) -> Iterator[set[Requirement]]:
        """Collect the requirements of what is read inside apart."""
        frame: set[Requirement] = set()
        self._frames.append(frame)
        try:
            yield frame
        finally:
            self._frames.pop()

    def _require(
        self, requirements: Iterable[Requirement], holds: Poly, iterators: Any = ()
    ) -> None:
        """Add requirements of what counts where a condition holds."""
        for kind, (its, guards, where) in requirements:
            violated = where * holds
            if violated:
                entry = canonical(((*its, *iterators), guards, violated))
                self._frames[-1].add((kind, entry))

    def _needs(self, kind: str, violated: Poly) -> None:
        if violated:
            self._frames[-1].add((kind, ((), (), violated)))

    def body(self, body: Any, names: Names) -> Poly:
        """Return the value of a body where its indices are these forms."""
        spend(1)
        if isinstance(body, Access):
            return self._read(body.base, tuple([s.substitute(names) for s in body.subscripts]))
        if isinstance(body, Reduce):
            return self._reduction(body, names)
        form = index_form(body)
        if form is not None:
            return of_index(form.substitute(names))
        if not body.args:
            return _number(body)
        return self._operation(body, names)

    def _operation(self, body: Any, names: Names) -> Poly:
        if isinstance(body, sympy.Add):
            parts = [self.body(part, names) for part in body.args]
            if sum(map(_is_infinite_somewhere, parts)) > 1:
                raise NoValue
            return summed(parts)
        if isinstance(body, sympy.Mul):
            return self._product(body, names)
        if isinstance(body, sympy.Piecewise):
            return self._piecewise(body, names)
        if isinstance(body, (Relational, sympy.logic.boolalg.BooleanFunction)):
            return self.condition(body, names)
        if isinstance(body, sympy.Pow):
            return self._power(body, names)
        if isinstance(body, sympy.log):
            return self._logarithm(body.args[0], names)
        return self._function(body, names)

    def _product(self, body: Any, names: Names) -> Poly:
        parts = [self.body(part, names) for part in body.args]
        if any(map(_is_infinite_somewhere, parts)):
            finite = [part for part in parts if not _is_infinite_somewhere(part)]
            if len(finite) < len(parts) - 1 or not all(map(_is_never_zero, finite)):
                raise NoValue
        return product_of(parts)

    def _function(self, body: Any, names: Names) -> Poly:
        name = type(body).__name__
        arguments = [self.body(argument, names) for argument in body.args]
        if isinstance(body, (sympy.Max, sympy.Min)):
            extreme = maximum if isinstance(body, sympy.Max) else minimum
            return self._extreme(extreme([((), (), value) for value in arguments]))
        if name == "tan":
            return self._tangent(arguments[0])
        if name in ("Mod", "Quotient"):
            return self._rounded_division(name, *arguments)
        if name in UNARY:
            return UNARY[name](arguments[0])
        if name in HYPERBOLIC:
            return hyperbolic(name, arguments[0])
        if name not in TOTAL:
            for argument in arguments:
                self._needs(name, argument)
        return other_function(name, arguments)

    def _tangent(self, argument: Poly) -> Poly:
        divisor = cosine(argument)
        self._is_not_zero(divisor)
        return sine(argument) * power(divisor, -1)

    def _rounded_division(self, name: str, dividend: Poly, divisor: Poly) -> Poly:
        self._is_not_zero(divisor)
        quotient = rounded_down(dividend * power(divisor, -1))
        if name == "Quotient":
            return quotient
        return dividend - divisor * quotient

    def _extreme(self, value: Poly) -> Poly:
        """Return an extreme; that it has a value at all is a requirement."""
        for atom in value.atoms():
            if isinstance(atom, Extreme) and may_be_empty(atom):
                self._needs("empty", of_atom(atom))
        return value

    def _factors(self, body: Any, names: Names) -> list[tuple[Poly, int]]:
        """Return the factors of a body, with exponents."""
        if isinstance(body, sympy.Mul):
            factors = []
            for part in body.args:
                factors += self._factors(part, names)
            return factors
        if isinstance(body, sympy.Pow) and body.exp.is_Integer:
            exponent = int(body.exp)
            inner = self._factors(body.base, names)
            return [(factor, its_exponent * exponent) for factor, its_exponent in inner]
        return [(self.body(body, names), 1)]

    def _factors_apart(self, body: Any, names: Names) -> tuple[list[tuple[Poly, int]], Poly]:
        """Return the factors of a body that are not negative, or absolute values for even powers,
        with exponents, and the product of the others.
        """
        parts, left = [], ONE
        for factor, exponent in self._factors(body, names):
            if exponent % 2 == 0 or sign(factor) in (POSITIVE, NONNEGATIVE):
                parts.append((absolute(factor), exponent))
            else:
                left = left * power(factor, exponent)
        return parts, left

    def _logarithm(self, body: Any, names: Names) -> Poly:
        """Return a logarithm: apart for the factors that are not negative."""
        factors, left = self._factors_apart(body, names)
        parts = []
        for factor, exponent in factors:
            self._is_not_zero(factor)
            parts.append(logarithm(factor).scaled(exponent))
        if left != ONE:
            self._is_not_zero(left)
            self._needs("log", ONE - at_least(left, False))
            parts.append(logarithm(left))
        return summed(parts)

    def _is_not_zero(self, value: Poly) -> None:
        """Note that a value must not be 0: a requirement where it may be 0 in more than single
        points.
        """
        if sign(value) in (POSITIVE, NEGATIVE):
            return
        self.divides = True
        if not is_almost_never_zero(value):
            _, mono, rest = content(value)
            for factor in (rest, *(of_atom(atom) for atom, _ in mono)):
                if not is_almost_never_zero(factor):
                    self._needs("divisor", factor)

    def _power(self, body: Any, names: Names) -> Poly:
        base = self.body(body.base, names)
        if _is_infinite_somewhere(base):
            raise NoValue
        exponent = _rational(body.exp)
        if exponent is None:
            count = index_form(body.exp)
            if count is not None and _is_count(count) and sign(base) != POSITIVE:
                factor = Index(f"s{self._bound_indices}")
                return total_product(base, factor, (affine(0), count))
            return self._power_of_any(base, self.body(body.exp, names))
        if exponent < 0:
            self._is_not_zero(base)
        if exponent.denominator == 1:
            return power(base, int(exponent))
        return self._root(body.base, exponent, names)

    def _power_of_any(self, base: Poly, exponent: Poly) -> Poly:
        """Return a power whose exponent is no number."""
        if exponent.is_number and isinstance(exponent.number, int):
            if exponent.number < 0:
                self._is_not_zero(base)
            return power(base, exponent.number)
        if sign(base) == POSITIVE:
            return exponential(exponent * logarithm(base))
        self._needs("power", base)
        return other_function("power", [base, exponent])

    def _root(self, body: Any, exponent: Fraction, names: Names) -> Poly:
        """Return a root: apart for the factors that are not negative."""
        factors, left = self._factors_apart(body, names)
        parts, under_root = [power(left, exponent)], left
        for factor, its_exponent in factors:
            parts.append(power(factor, its_exponent * exponent))
            if not is_almost_never_zero(factor):
                under_root = under_root * factor  # where it is 0, the others may be negative
        self._needs("root", ONE - at_least(under_root, False))
        return product_of(parts)

    def _piecewise(self, body: sympy.Piecewise, names: Names) -> Poly:
        parts, left = [], ONE
        for pair in body.args:
            value, condition = pair.args
            here = left * self.condition(condition, names)
            left = left - here
            if here:
                parts.append(here * self._guarded(value, names, here))
            if not left:
                return summed(parts)
        raise NoValue

    def _guarded(self, body: Any, names: Names, holds: Poly) -> Poly:
        """Return the value of a body that counts where a condition holds."""
        with self._frame() as frame:
            value = self.body(body, names)
        self._require(frame, holds)
        return value

    def condition(self, condition: Any, names: Names) -> Poly:
        """Return 1 where a condition holds, and 0 elsewhere."""
        if condition in (sympy.true, sympy.false):
            return ONE if condition is sympy.true else ZERO
        if isinstance(condition, Relational):
            return self._comparison(condition, names)
        if isinstance(condition, TESTS):
            return self._test(condition, names)
        if isinstance(condition, sympy.Not):
            return ONE - self.condition(condition.args[0], names)
        parts = [self.condition(part, names) for part in condition.args]
        if isinstance(condition, sympy.And):
            return product_of(parts)
        if isinstance(condition, sympy.Or):
            return ONE - product_of([ONE - part for part in parts])
        assert isinstance(condition, sympy.Xor)
        return reduce(_exclusive, parts)

    def _test(self, condition: Any, names: Names) -> Poly:
        """Return a test for NaN or infinities: numbers are neither."""
        if _is_infinite_somewhere(self.body(condition.args[0], names)):
            raise NoValue
        return number(int(isinstance(condition, isfinite)))

    def _comparison(self, condition: Any, names: Names) -> Poly:
        left, right = condition.args
        if isinstance(condition, (sympy.StrictGreaterThan, sympy.GreaterThan)):
            left, right = right, left
        low, high = index_form(left), index_form(right)
        is_equation = isinstance(condition, (sympy.Eq, sympy.Ne))
        is_strict = isinstance(condition, (sympy.StrictLessThan, sympy.StrictGreaterThan))
        if low is not None and high is not None:
            difference = (high - low).substitute(names)
            if is_equation:
                holds = index_equal(difference)
            else:
                holds = index_at_least(difference - int(is_strict))
        else:
            difference = self.body(right, names) - self.body(left, names)
            if is_equation:
                holds = at_least(difference, False) - at_least(difference, True)
            else:
                holds = at_least(difference, is_strict)
        return ONE - holds if isinstance(condition, sympy.Ne) else holds

    def _read(self, base: Indexable, point: tuple[Affine, ...]) -> Poly:
        if isinstance(base, Tensor):
            return _element(base, point)
        if isinstance(base, Scope):
            if base in self.cuts:
                lows = [low for low, _ in base.box]
                subscripts = tuple([form - low for form, low in zip(point, lows)])
                holds = _all_hold(base.where, dict(zip(base.indices, point)))
                value = of_atom(TensorElement(self.cuts[base], subscripts))
                self._needs("shared value", value * holds)
                return holds * value
            return self.scope(base, point)
        assert isinstance(base, Padded)
        holds = _held(base, point)
        parts = []
        if holds:
            with self._frame() as frame:
                value = self._read(base.base, point)
            self._require(frame, holds)
            parts.append(holds * value)
        if holds != ONE and base.fill != 0:
            parts.append((ONE - holds) * _number(base.fill))
        return summed(parts)

    def _reduction(self, node: Reduce, names: Names) -> Poly:
        extents = [it.extent for it in node.iterators]
        if 0 in extents:
            return _number(node.identity)
        if all(map(is_number, extents)) and prod(extents) <= self.limit:
            return self._written_out(node, names)
        return self._bound(node, names)

    def _written_out(self, node: Reduce, names: Names) -> Poly:
        values = []
        for point in product(*[range(it.low, it.low + it.extent) for it in node.iterators]):
            here = {it.index: affine(value) for it, value in zip(node.iterators, point)}
            inner = {**names, **here}
            holds = _all_hold(node.where, inner)
            if not holds:
                continue
            if holds == ONE:
                values.append((holds, self.body(node.body, inner)))
            else:
                values.append((holds, self._guarded(node.body, inner, holds)))
        return self._reduced(node.op, values)

    def _reduced(self, op: str, values: Sequence[tuple[Poly, Poly]]) -> Poly:
        if op in ("Sum", "Prod") and any(_is_infinite_somewhere(value) for _, value in values):
            raise NoValue
        if op == "Sum":
            return summed([holds * value for holds, value in values])
        if op == "Prod":
            return product_of([ONE - holds + holds * value for holds, value in values])
        infinity = of_atom(Infinity())
        identity = -infinity if op == "Max" else infinity
        entries = []
        for holds, value in values:
            entries.append(((), (), holds * value + (ONE - holds) * identity))
        return self._extreme(maximum(entries) if op == "Max" else minimum(entries))

    def _bound(self, node: Reduce, names: Names) -> Poly:
        """Return a reduction over indices that stay such."""
        inner, ranges = dict(names), []
        for it in node.iterators:
            if it.extent == 1:
                inner[it.index] = affine(it.low)
                continue
            index = Index(f"s{self._bound_indices + len(ranges)}")
            inner[it.index] = affine(index)
            ranges.append((index, it.low, it.low + it.extent))
        known = knowledge()
        more = {index: (low, high) for index, low, high in ranges}
        with knowing(Knowledge({**known.ranges, **more}, known.facts)):
            holds = _all_hold(node.where, inner)
            self._bound_indices += len(ranges)
            with self._frame() as frame:
                value = self.body(node.body, inner)
            self._bound_indices -= len(ranges)
            has_points = _all_hold([Constraint(it.extent - 1, ">=") for it in node.iterators], {})
            self._require(frame, holds * has_points, tuple(ranges))
            if node.op in ("Max", "Min"):
                holds = holds * has_points
            return self._reduced_over(node.op, ranges, holds, value)

    def _reduced_over(self, op: str, ranges: Any, holds: Poly, value: Poly) -> Poly:
        if op in ("Max", "Min"):
            infinity = of_atom(Infinity())
            identity = -infinity if op == "Max" else infinity
            entry = tuple(ranges), (), holds * value + (ONE - holds) * identity
            return self._extreme(maximum([entry]) if op == "Max" else minimum([entry]))
        if _is_infinite_somewhere(value):
            raise NoValue
        order = order_of_use(value, [index for index, _, _ in ranges])
        join = total
        if op == "Sum":
            value = holds * value
        else:
            value = ONE - holds + holds * value
            join = total_product
        for index, low, high in sorted(ranges, key=lambda it: -order[it[0]]):
            value = join(value, index, (affine(low), affine(high)))
        return value


def _is_infinite_somewhere(value: Poly) -> bool:
    return Infinity() in value.atoms()


def _is_never_zero(value: Poly) -> bool:
    return sign(value) in (POSITIVE, NEGATIVE)


def _sign(argument: Poly) -> Poly:
    return at_least(argument, True) - at_least(-argument, True)


def _exclusive(one: Poly, other: Poly) -> Poly:
    return one + other - one * other.scaled(2)


def _erfc(argument: Poly) -> Poly:
    return ONE - other_function("erf", [argument])


UNARY = {
    "exp": exponential,
    "Abs": absolute,
    "sign": _sign,
    "erfc": _erfc,
    "sin": sine,
    "cos": cosine,
    "floor": rounded_down,
    "ceiling": rounded_up,
}


def _all_hold(conditions: Iterable[Constraint], names: Names) -> Poly:
    """Return 1 where all conditions on indices hold."""
    holds = ONE
    for condition in conditions:
        form = condition.form.substitute(names)
        if condition.relation == "==":
            holds = holds * index_equal(form)
        else:
            holds = holds * index_at_least(form)
        if not holds:
            break
    return holds


def _held(view: Padded, point: Sequence[Affine]) -> Poly:
    """Return 1 where a view holds a value of what it is a view of."""
    inner = view.base
    holds = _all_hold(inside(point, padded_box(inner)), {})
    if isinstance(inner, Scope):
        holds = holds * _all_hold(inner.where, dict(zip(inner.indices, point)))
    return holds


def _element(tensor: Tensor, point: Sequence[Affine]) -> Poly:
    """Return the element of a tensor at a point."""
    subscripts = tuple([form - low for form, (low, _) in zip(point, tensor.box)])
    if not isinstance(tensor, ConstantTensor):
        if is_float(tensor.dtype):
            return of_atom(TensorElement(tensor.name, subscripts))
        element = of_atom(WholeElement(tensor.name, subscripts))
        if tensor.dtype == "bool":
            return at_least(element - ONE, False)  # a condition of its own
        return element
    if any(form.terms for form in subscripts):
        text = f"{tensor.shape} {tensor.values}".encode()
        name = f"constant {blake2b(text, digest_size=12).hexdigest()}"
        return of_atom(TensorElement(name, subscripts))
    place = 0
    for form, extent in zip(subscripts, tensor.shape):
        if not 0 <= form.const < extent:
            return ZERO
        place = place * extent + form.const
    return _number(tensor.values[place])


def _is_count(form: Affine) -> bool:
    """Return whether a form of sizes is never below 0."""
    return not form.indices and is_always_at_most(0, form)


def _rational(value: Any) -> Fraction | None:
    if value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    if value.is_Float:
        return Fraction(float(value))
    return None


def _number(value: Any) -> Poly:
    """Return a number of a body."""
    if value in (sympy.true, sympy.false):
        return number(int(value is sympy.true))
    rational = _rational(value)
    if rational is not None:
        return number(rational)
    if value is sympy.oo:
        return of_atom(Infinity())
    if value is -sympy.oo:
        return -of_atom(Infinity())
    if value is sympy.E:
        return exponential(ONE)
    if value is sympy.pi:
        return of_mono(PI)
    raise NoValue
