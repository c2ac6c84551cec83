"""A second evaluator, to compare the first one with: it shares no line with that, and knows the
nodes by their public fields alone.

Every element is asked for by name and point, and computed when it is: a program is a function from
points to fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy

from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor

Point = tuple[int, ...]
Places = Mapping[Index, int]
NOTHING = object()  # what a tensor holds outside its box, and a scope outside its domain


def values_of(
    expression: Scope | Program, arrays: Mapping[str, Any]
) -> dict[str, dict[Point, Any]]:
    """The value of every output at every point that has one; arrays are nested lists or what has
    `tolist`.
    """
    program = expression if isinstance(expression, Program) else Program([("O", expression)])
    naive = Naive(program, arrays)
    return {name: naive.all_of(name) for name in program.outputs}


class Naive:
    """A program on given arrays."""

    def __init__(self, program: Program, arrays: Mapping[str, Any]):
        self.scopes = dict(program.statements)
        self.arrays = {
            name: array.tolist() if hasattr(array, "tolist") else array
            for name, array in arrays.items()
        }
        self.known: dict[tuple[str, Point], Any] = {}

    def all_of(self, name: str) -> dict[Point, Any]:
        scope = self.scopes[name]
        points = grid([range(low, high) for low, high in scope.box])
        found = ((point, self.element(name, point)) for point in points)
        return {point: value for point, value in found if value is not NOTHING}

    def element(self, name: str, point: Point) -> Any:
        """An element of a statement, computed once."""
        if (name, point) not in self.known:
            self.known[name, point] = self.of_scope(self.scopes[name], point)
        return self.known[name, point]

    def of_scope(self, scope: Scope, point: Point) -> Any:
        if not lies_in(point, scope.box):
            return NOTHING
        places = dict(zip((it.index for it in scope.iterators), point))
        return self.of_body(scope.body, places) if holds(scope.where, places) else NOTHING

    def of_tensor(self, tensor: Tensor, point: Point) -> Any:
        if tensor.name in self.scopes:
            return self.element(tensor.name, point)
        if not lies_in(point, tensor.axes):
            return NOTHING
        if isinstance(tensor, Constant):
            position = 0
            for place, (low, high) in zip(point, tensor.axes):
                position = position * (high - low) + place - low
            return of_number(tensor.values[position])
        value = self.arrays[tensor.name]
        for place, (low, _) in zip(point, tensor.axes):
            value = value[place - low]
        return value if isinstance(value, bool) else Fraction(value)

    def of_view(self, view: Any, point: Point) -> Any:
        """What is read: of the tensor, else of the first padding, from the inside, that reaches so
        far.
        """
        if isinstance(view, Tensor):
            return self.of_tensor(view, point)
        if isinstance(view, Scope):
            return self.of_scope(view, point)
        value = self.of_view(view.base, point)
        if value is not NOTHING:
            return value
        return of_number(view.fill) if lies_in(point, reach(view)) else NOTHING

    def of_body(self, body: Any, places: Places) -> Any:
        if isinstance(body, Access):
            value = self.of_view(
                body.base, tuple(of_index(form, places) for form in body.subscripts)
            )
            assert value is not NOTHING, f"{body} reads where there is nothing"
            return value
        if isinstance(body, Reduce):
            return self.of_reduction(body, places)
        if isinstance(body, (Affine, Index, FloorDiv, Modulo)):
            return Fraction(of_index(body, places))
        if isinstance(body, sympy.Piecewise):
            for value, condition in body.args:
                if self.of_body(condition, places):
                    return self.of_body(value, places)
            return math.nan
        if not body.args:
            return of_number(body)
        return of_operation(body, [self.of_body(part, places) for part in body.args])

    def of_reduction(self, node: Reduce, places: Places) -> Any:
        terms = []
        for point in grid([range(it.low, it.high) for it in node.iterators]):
            inside = {**places, **dict(zip((it.index for it in node.iterators), point))}
            if holds(node.where, inside):
                terms.append(self.of_body(node.body, inside))
        if node.op == "Sum":
            return sum(terms, Fraction(0))
        if node.op == "Prod":
            return math.prod(terms, start=Fraction(1))
        if node.op == "Max":
            return extreme(max, [-math.inf, *terms])
        assert node.op == "Min"
        return extreme(min, [math.inf, *terms])


def grid(axes: Sequence[range]) -> Iterator[Point]:
    """Every point of a box, the last axis fastest."""
    if not axes:
        yield ()
        return
    for place in axes[0]:
        for rest in grid(axes[1:]):
            yield (place, *rest)


def lies_in(point: Point, box: Sequence[tuple[int, int]]) -> bool:
    return all(low <= place < high for place, (low, high) in zip(point, box))


def reach(view: Any) -> list[tuple[int, int]]:
    """How far a view may be read along each axis."""
    if not isinstance(view, Padded):
        return list(view.box)
    return [
        (low - before, high + after)
        for (low, high), (before, after) in zip(reach(view.base), view.amounts)
    ]


def extreme(of: Any, values: Sequence[Any]) -> Any:
    """The largest or smallest value; NaN where one is."""
    return of(values) if all(value == value for value in values) else math.nan


def of_index(form: Any, places: Places) -> int:
    """The value of index arithmetic: floors, never truncation."""
    if isinstance(form, Index):
        return places[form]
    if isinstance(form, FloorDiv):
        return math.floor(Fraction(of_index(form.argument, places), form.divisor))
    if isinstance(form, Modulo):
        inner = of_index(form.argument, places)
        return inner - form.divisor * math.floor(Fraction(inner, form.divisor))
    return form.const + sum(
        coefficient * of_index(atom, places) for atom, coefficient in form.terms
    )


def holds(conditions: Any, places: Places) -> bool:
    values = ((of_index(c.form, places), c.relation) for c in conditions)
    return all(value >= 0 if relation == ">=" else value == 0 for value, relation in values)


def of_number(value: Any) -> Any:
    if value == sympy.oo or value == -sympy.oo:
        return math.inf if value == sympy.oo else -math.inf
    if value == sympy.true or value == sympy.false:
        return value == sympy.true
    return Fraction(str(value)) if value.is_Rational else Fraction(float(value))


def of_operation(body: Any, values: list[Any]) -> Any:
    """An operation on values, by the name that SymPy gives it."""
    first, last = values[0], values[-1]
    match type(body).__name__:
        case "Add":
            return sum(values, Fraction(0))
        case "Mul":
            return math.prod(values, start=Fraction(1))
        case "Pow":
            return (
                Fraction(first) ** int(last)
                if first == first and abs(first) != math.inf
                else first ** int(last)
            )
        case "Max":
            return extreme(max, values)
        case "Min":
            return extreme(min, values)
        case "Abs":
            return first if first >= 0 else -first
        case "sign" if first != first:
            return first
        case "sign":
            return (first > 0) - (first < 0)
        case "floor" | "ceiling" if not math.isfinite(first):
            return first
        case "floor":
            return Fraction(math.floor(first))
        case "ceiling":
            return Fraction(math.ceil(first))
        case "Mod" if not (math.isfinite(first) and math.isfinite(last)):
            return math.nan
        case "Mod":
            return first - last * math.floor(Fraction(first) / last)
        case "Equality":
            return first == last
        case "Unequality":
            return first != last
        case "StrictGreaterThan":
            return first > last
        case "GreaterThan":
            return first >= last
        case "StrictLessThan":
            return first < last
        case "LessThan":
            return first <= last
        case "And":
            return all(values)
        case "Or":
            return any(values)
        case "Xor":
            return sum(map(bool, values)) % 2 == 1
        case "Not":
            return not first
    raise AssertionError(f"the second evaluator has no value for {body}")
