"""Random formulas of integers of mixed types, with their exact values.

A part of a formula has a value at each place, and an element type: the promotion of those of its
operands, or a wider one that holds the constants. It has no value where its type does not hold it,
and none that is certain where a float may have rounded what jumps. Places are those of the index of
the output, and inside of a reduction those of both indices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod
from random import Random
from typing import Any

import numpy as np

import einalg as ea
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype, promote, widened
from einalg.language.ir.program import Program

SIZE = 5
LARGEST_INDEX = 2**31
TERMS = 3  # of a reduction
DTYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
INEXACT = 2.0**-51  # the relative error of a sum or a product in f64
LONGEST = 2**127 - 1  # of which integers are computed exactly
EXACT = 2**53  # up to which f64 holds every integer
EXACT_IN_F32 = 2**24
CONSTANTS = (0, 1, 2, 3, -1, -2, 7, -7, 255, -129, 300, 2**16, 2**24 + 1, 2**30 + 1, 2**33)
RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
TESTS = {"Eq": operator.eq, "Ne": operator.ne}
LOGIC: dict[str, Callable[[int, int], int]] = {"And": min, "Or": max, "Xor": operator.xor}
CONDITIONS: dict[str, Callable[[int, int], bool]] = {  # of a reduction; they hold at first
    "": lambda i, k: True,
    "k <= i": lambda i, k: k <= i,
    "k*i < 3": lambda i, k: k * i < 3,
}
EXTREMES: dict[str, Callable[..., int]] = {"Max": max, "Min": min}
LIMITS: dict[str, Callable[[Sequence[int]], int]] = {
    "add": sum,
    "mul": prod,
    "max": max,
    "min": max,
}
REDUCTIONS: dict[str, tuple[Callable[[int, int], int], str]] = {
    "Sum": (operator.add, "add"),
    "Prod": (operator.mul, "mul"),
    "Max": (max, "max"),
    "Min": (min, "min"),
}


@dataclass(frozen=True)
class Point:
    """The value of a part at a point, how far a float may be from it, and how large a sum of its
    terms may be: SymPy orders them.
    """

    value: int
    error: float = 0
    terms: int = 0

    @property
    def size(self) -> int:
        return max(abs(self.value), self.terms)


Points = list["Point | None"]


@dataclass(frozen=True)
class Part:
    """A part of a formula; a constant has no type. `limit` is what nothing of these types exceeds."""

    text: str
    points: Points
    dtype: str = ""
    limit: int = 0


@dataclass(frozen=True)
class Formula:
    """A program of one statement `O`, its inputs, and its exact values where they are certain."""

    program: Program
    arrays: dict[str, Any]
    points: Points

    @property
    def dtype(self) -> str:
        return self.program["O"].dtype


@dataclass
class Generator:
    """Draws formulas of elements of at most three tensors, of constants and of indices."""

    random: Random
    tensors: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    places: Sequence[dict[str, int]] = tuple({"i": i} for i in range(SIZE))

    def part(self, depth: int) -> Part:
        if depth == 0 or self.random.random() < 0.1:
            return self.random.choices((self.element, self.constant, self.index), (14, 5, 1))[0]()
        kinds = (self.arithmetic, self.division, self.extreme, self.sign, self.cases)
        if "k" not in self.places[0] and self.random.random() < 0.1:
            return self.reduction(depth - 1)
        if self.random.random() < 0.04:
            return self.conversion(depth - 1)
        return self.random.choices(kinds, (5, 3, 3, 2, 2))[0](depth - 1)

    # Leaves.

    def element(self) -> Part:
        name = self.random.choice("ABC")
        if name not in self.tensors:
            self.tensors[name] = self.random.choice(DTYPES)
            self.arrays[name] = self.values(self.tensors[name])
        index = self.random.choice(tuple(self.places[0]))
        points: Points = [Point(int(self.arrays[name][place[index]])) for place in self.places]
        low, high = bounds(self.tensors[name])
        return Part(f"{name}[{index}]", points, self.tensors[name], max(-low, high))

    def values(self, dtype: str) -> Any:
        low, high = bounds(dtype)
        extreme = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, min(high, EXACT + 1)]
        small = list(range(max(low, -9), min(high, 9) + 1))
        pool = self.random.choice((small, small, extreme, [*extreme, *small]))
        return np.array([self.random.choice(pool) for _ in range(SIZE)], numpy_dtype(dtype))

    def constant(self) -> Part:
        number = self.random.choice(CONSTANTS)
        return Part(f"({number})", [Point(number)] * len(self.places), limit=abs(number))

    def index(self) -> Part:
        index = self.random.choice(tuple(self.places[0]))
        return Part(index, [Point(place[index]) for place in self.places], "i64", LARGEST_INDEX)

    # Operations.

    def arithmetic(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(depth)
        sign = self.random.choice("++-*")
        function = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
        op = {"+": "add", "-": "add", "*": "mul"}[sign]
        return _part(f"({left.text} {sign} {right.text})", function, [left, right], op)

    def division(self, depth: int) -> Part:
        left, right = self.part(depth), self.part(depth)
        if not right.dtype and right.points[0] in (Point(0), Point(-1)):
            right = self.element()
        if self.random.random() < 0.5:
            return _division(f"Mod({left.text}, {right.text})", operator.mod, left, right)
        return _division(f"Quotient({left.text}, {right.text})", operator.floordiv, left, right)

    def extreme(self, depth: int) -> Part:
        parts = [self.part(depth) for _ in range(self.random.choice((2, 2, 3)))]
        name = self.random.choice(tuple(EXTREMES))
        text = f"{name}({', '.join(part.text for part in parts)})"
        return _part(text, EXTREMES[name], parts, name.lower(), counts=False)

    def sign(self, depth: int) -> Part:
        part = self.part(depth)
        if self.random.random() < 0.5:
            return _part(f"Abs({part.text})", lambda x: abs(x), [part])
        jumps = [part.points, part.points]
        signs = _at_points(lambda x, _: (x > 0) - (x < 0), jumps, _no_error)
        return Part(f"sign({part.text})", signs, _counted(part.dtype), 1)

    def cases(self, depth: int) -> Part:
        parts = [self.part(depth), self.part(depth)]
        sides = [self.part(max(depth - 1, 0)), self.part(max(depth - 1, 0))]
        test, tests = self.test(sides)
        if self.random.random() < 0.2:
            other, others = self.test(sides[::-1])
            name = self.random.choice(tuple(LOGIC))
            test = f"{name}({test}, {other})"
            tests = _at_points(LOGIC[name], [tests, others], _no_error)
        text = f"Piecewise(({parts[0].text}, {test}), ({parts[1].text}, True))"

        def selected(first: int, second: int, holds: int) -> int:
            return (second, first)[holds]

        columns = [*(part.points for part in parts), tests]
        dtype = _promoted(parts)
        if not dtype:
            dtype = "i64"
        points = _at_points(selected, columns, _rounding(dtype))
        return Part(text, _held(points, dtype), dtype, max(part.limit for part in parts))

    def test(self, sides: Sequence[Part]) -> tuple[str, Points]:
        """Return a comparison, and where it holds."""
        columns, errors = [side.points for side in sides], _jumping(sides)
        if self.random.random() < 0.25:
            name = self.random.choice(tuple(TESTS))
            text = f"{name}({sides[0].text}, {sides[1].text})"
            return text, _at_points(TESTS[name], columns, errors)
        relation = self.random.choice(tuple(RELATIONS))
        text = f"({sides[0].text} {relation} {sides[1].text})"
        return text, _at_points(RELATIONS[relation], columns, errors)

    def conversion(self, depth: int) -> Part:
        part = self.part(depth)
        return Part(f"f32({part.text})", _in_float(part.points), "f32", part.limit)

    def reduction(self, depth: int) -> Part:
        name = self.random.choice(tuple(REDUCTIONS))
        condition = self.random.choice(tuple(CONDITIONS))
        with self.inside():
            part = self.part(depth)
            if not part.dtype:
                part = self.element()
            places, points = self.places, part.points
        rows: dict[int, list[Point | None]] = {}
        for place, point in zip(places, points):
            if CONDITIONS[condition](place["i"], place["k"]):
                rows.setdefault(place["i"], []).append(point)
        text = f"{name}[k:{TERMS}]({part.text})"
        if condition:
            text = f"{name}[k:{TERMS}]({part.text}, where={condition})"
        dtype = part.dtype
        if name in ("Sum", "Prod"):
            dtype = _counted(dtype)
        function, op = REDUCTIONS[name]
        totals = [_reduced(rows[place["i"]], function, op, dtype) for place in self.places]
        return Part(text, _held(totals, dtype), dtype, LIMITS[op]([part.limit] * TERMS))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Draw parts at the places of a reduction."""
        outer = self.places
        self.places = [{**place, "k": k} for place in outer for k in range(TERMS)]
        yield
        self.places = outer


def formula(random: Random, depth: int = 3) -> Formula | None:
    """Return a random formula; None where it reads nothing or is no text of the notation."""
    generator = Generator(random)
    part = generator.part(random.randint(1, depth))
    dtypes = {name: d for name, d in generator.tensors.items() if f"{name}[" in part.text}
    tensors = {name: ea.tensor(name, (SIZE,), dtype) for name, dtype in dtypes.items()}
    try:
        scope = ea.parse(f"O[i:{SIZE}] = {part.text}", **tensors)
    except ea.NotationError:  # of a quotient by what is 0
        return None
    program = Program([("O", scope)])
    if not program.inputs:
        return None
    return Formula(program, {name: generator.arrays[name] for name in program.inputs}, part.points)


def differences(formula: Formula, results: Any) -> list[str]:
    """Return where results are not the exact values, up to what a float rounds."""
    wrong = []
    for position, (point, result) in enumerate(zip(formula.points, np.asarray(results).tolist())):
        if point is None or not _is_stored(point.value, formula.dtype):
            continue
        distance = abs(_whole(result) - point.value)
        allowed = point.error
        if is_float(formula.dtype) or isinstance(result, float):
            allowed += INEXACT * abs(point.value)
        if distance > allowed:
            wrong.append(f"{result} at {position}, not {point.value}")
    return wrong


def _whole(result: Any) -> float:
    """Return a number of Python; infinity for NaN."""
    if result != result or abs(result) == float("inf"):
        return float("inf")
    return int(result)


def _is_stored(value: int, dtype: str) -> bool:
    return is_float(dtype) or _holds(dtype, value)


def _holds(dtype: str, value: int) -> bool:
    low, high = bounds(dtype)
    return low <= value <= high


# Types.


def _counted(dtype: str) -> str:
    if dtype == "bool":
        return "i64"
    return dtype


def _promoted(parts: Sequence[Part], op: str = "") -> str:
    """Return the type of several parts; of constants alone, none."""
    dtypes = [part.dtype for part in parts if part.dtype]
    if not dtypes:
        return ""
    if "f32" in dtypes:  # in which SymPy may add and multiply the others
        return "f32"
    dtype = promote(*dtypes)
    if is_float(dtype):
        return dtype
    constants = [part.points[0] for part in parts if not part.dtype]
    return widened(dtype, [point.value for point in constants if point], op)


def _held(points: Points, dtype: str) -> Points:
    """Return the values that a type holds, with the sign that integers may have on the way."""
    if not dtype or is_float(dtype):
        return points
    if dtype == "bool":
        dtype = "i64"
    low, high = bounds(dtype)
    if not low:
        low = -high  # of a difference, whose sign counts where it is compared, divided or rounded
    results: Points = []
    for point in points:
        is_held = point and low <= point.value <= high and point.size <= high + 1
        if not is_held:
            point = None
        results.append(point)
    return results


# Values.

Errors = Callable[[int, Sequence[Point]], "float | None"]


def _part(
    text: str,
    function: Callable[..., int],
    parts: Sequence[Part],
    op: str = "",
    counts: bool = True,
) -> Part:
    dtype = _promoted(parts, op)
    if counts:
        dtype = _counted(dtype)
    columns = [part.points for part in parts]
    points = _at_points(function, columns, _rounding(dtype))
    if op == "add":
        points = [_with_terms(point, terms) for point, *terms in zip(points, *columns)]
    limit = LIMITS[op or "max"]([part.limit for part in parts])
    return Part(text, _held(points, dtype), dtype, limit)


def _reduced(
    row: Sequence[Point | None], function: Callable[..., int], op: str, dtype: str
) -> Point | None:
    """Return a reduction of a row."""
    columns = [[point] for point in row]
    (total,) = _at_points(lambda *values: reduce(function, values), columns, _rounding(dtype))
    if op != "add":
        return total
    return _with_terms(total, row)


def _in_float(points: Points) -> Points:
    """Return the values that single precision holds for certain."""
    results: Points = []
    for point in points:
        if point is not None and (point.error or point.size > EXACT_IN_F32):
            point = None
        results.append(point)
    return results


def _with_terms(point: Point | None, terms: Sequence[Point | None]) -> Point | None:
    if point is None:
        return None
    return replace(point, terms=sum(term.size for term in terms if term))


def _division(text: str, function: Callable[..., int], left: Part, right: Part) -> Part:
    """Return a quotient or a remainder, which has a sign where the divisor is negative."""
    dtype = _counted(_promoted([left, right]))
    points = _at_points(function, [left.points, right.points], _jumping([left, right]))
    if dtype.startswith("u") and any(point and point.value < 0 for point in points):
        dtype = promote(dtype, "i8")
    return Part(text, _held(points, dtype), dtype, max(left.limit, right.limit))


def _at_points(function: Callable[..., Any], columns: Sequence[Points], errors: Errors) -> Points:
    """Return a function of parts at each point where it has a value."""
    results: Points = []
    for row in zip(*columns):
        operands = [point for point in row if point is not None]
        results.append(None)
        if len(operands) < len(row):
            continue
        try:
            value = int(function(*(operand.value for operand in operands)))
        except ZeroDivisionError:
            continue
        error = errors(value, operands)
        if error is not None:
            results[-1] = Point(value, error)
    return results


def _no_error(value: int, operands: Sequence[Point]) -> float | None:
    """Return 0 for a function that jumps, of operands that nothing rounded; else None."""
    if any(operand.error for operand in operands):
        return None
    return 0


def _jumping(parts: Sequence[Part]) -> Errors:
    """Return the errors of a function that jumps: it has values where nothing rounds its operands,
    which are converted where one is a float.
    """
    floats = [part.dtype for part in parts if part.dtype and is_float(part.dtype)]
    if any(part.limit > LONGEST for part in parts):
        floats.append("f64")
    exact = EXACT
    if "f32" in floats:
        exact = EXACT_IN_F32

    def error(value: int, operands: Sequence[Point]) -> float | None:
        if floats and any(abs(operand.value) > exact for operand in operands):
            return None
        return _no_error(value, operands)

    return error


def _rounding(dtype: str) -> Errors:
    """Return how far a value of a type may be from the exact one."""

    def error(value: int, operands: Sequence[Point]) -> float | None:
        sizes = [abs(value), *(abs(operand.value) for operand in operands)]
        if dtype == "f32":
            largest = max(abs(value), sum(operand.size for operand in operands))
            if largest > EXACT_IN_F32:
                return None
        if not is_float(dtype) or max(sizes) <= EXACT:
            return _no_error(value, operands)
        if any(operand.error for operand in operands):
            return None
        return INEXACT * sum(sizes)

    return error
