"""Inputs in which one element stands out, at places that the structure of expressions chooses.

A maximum over a row and one without its last element differ only where that element is the largest,
which random inputs meet hardly ever. So each of some elements is far above and far below the others
in turn: the ends of what is read, everywhere and where a condition on indices holds or fails, and
their neighbours. "Far" is beyond every number that stands in the expressions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, zip_longest
from math import isfinite
from typing import Any

import islpy as isl
import numpy as np
import sympy

from derive.proof.exact.guards import conjunctions, is_index_condition, negated
from derive.proof.exact.polynomial import OutsideFragment
from derive.proof.random.batches import stacked, stacked_arrays
from derive.proof.random.blocks import OutputBlock, arrays_of_part, cut_block
from derive.proof.random.inputs import (
    Pattern,
    all_at,
    double_values,
    numbers_in,
    positive,
    typed,
)
from derive.proof.random.precise import unequal_precisely
from derive.proof.random.rounding import unequal_in_double
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import Space, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Tensor

MAX_ISL_OPERATIONS = 200_000  # to choose elements
MAX_CONDITIONS = 8  # of one body, on each side of which what is read has ends
MAX_POINTS = 24  # of one scope
MAX_ELEMENTS = 64  # of all tensors together
MAX_CONFIRMED = 4  # points of one input
NEAR = 4.0  # a distance at which exponentials do not overflow
BEYOND = 10  # times the largest number in the expressions
ONE: Pattern = all_at(Fraction(1))
Array = np.ndarray[Any, Any]
Point = tuple[int, ...]
Element = tuple[str, Point]  # of a tensor: its name and a place, counted from 0


@dataclass(frozen=True)
class _Read:
    """An access, the indices that it depends on, and the conditions under which it counts."""

    access: Access
    iterators: tuple[LoopIndex, ...]
    where: tuple[Constraint, ...]

    @property
    def indices(self) -> tuple[Index, ...]:
        return tuple(it.index for it in self.iterators)


def prominent_elements(block: OutputBlock) -> tuple[list[Element], int]:
    """Return the elements of a block that stand out in turn, at most `MAX_ELEMENTS`, and how many
    there are.

    >>> import einalg as ea
    >>> from derive.proof.random.blocks import cut_block
    >>> A = ea.tensor("A", (2, 10))
    >>> block = cut_block([ea.parse("O[i] = Max[j:9](A[i,j])", A=A)], (0,), (2,))
    >>> prominent_elements(block)[0][:3]
    [('A', (0, 0)), ('A', (1, 8)), ('A', (1, 0))]
    """
    ends: dict[Element, None] = {}
    try:
        with bounded(MAX_ISL_OPERATIONS):
            for scope in block.scopes:
                ends.update(dict.fromkeys(_ends(scope, block.tensors)))
    except isl.Error:
        pass
    boxes = {name: tensor.shape for name, tensor in block.tensors.items()}
    neighbours = [_neighbours(element, boxes[element[0]]) for element in ends]
    elements = list(dict.fromkeys([*ends, *_in_turn(neighbours)]))
    return elements[:MAX_ELEMENTS], len(elements)


def _in_turn(rows: Iterable[Sequence[Element]]) -> Iterator[Element]:
    """Yield the first element of every row, then the second ones, and so on."""
    columns = zip_longest(*rows)
    return (element for element in chain.from_iterable(columns) if element is not None)


def _neighbours(element: Element, shape: Sequence[int]) -> list[Element]:
    """Return what lies next to an element on every axis."""
    name, place = element
    neighbours = []
    for axis, extent in enumerate(shape):
        for step in (1, -1):
            moved = (*place[:axis], place[axis] + step, *place[axis + 1 :])
            if 0 <= moved[axis] < extent:
                neighbours.append((name, moved))
    return neighbours


def _ends(root: Scope, inputs: Collection[str]) -> Iterator[Element]:
    """Yield the elements of inputs at the ends of what a scope reads, also through other scopes."""
    points: dict[Scope, dict[Point, None]] = {}
    for node in reversed(list(all_scopes(root))):
        asked = list(points.get(node, ()))
        for read in _reads(node.body, node.iterators, node.where):
            for assignment in _assignments(node, read, asked):
                place = tuple(form.evaluate(assignment) for form in read.access.subscripts)
                base = read.access.tensor
                if not all(low <= at < high for at, (low, high) in zip(place, base.box)):
                    continue
                if isinstance(base, Scope):
                    known = points.setdefault(base, {})
                    if len(known) < MAX_POINTS:
                        known[place] = None
                elif isinstance(base, Tensor) and base.name in inputs:
                    yield base.name, tuple(at - low for at, (low, _) in zip(place, base.box))


def _reads(
    body: Any, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> Iterator[_Read]:
    """Yield the accesses of a body with the indices of the reductions around them."""
    if isinstance(body, Access):
        yield _Read(body, tuple(iterators), tuple(where))
    elif isinstance(body, Reduce):
        yield from _reads(body.body, (*iterators, *body.iterators), (*where, *body.where))
    elif not isinstance(body, IndexArithmetic):
        for part in getattr(body, "args", ()):
            yield from _reads(part, iterators, where)


def _assignments(node: Scope, read: _Read, asked: Sequence[Point]) -> Iterator[Mapping[Index, int]]:
    """Yield values of all indices of an access: at the ends of its domain, of the parts of it that
    conditions cut, and of what is left at the points that are asked for.
    """
    domain = Space(read.indices).set(read.iterators, read.where)
    parts = [domain]
    for condition in _index_conditions(node.body, frozenset(read.indices)):
        parts.append(domain.intersect(Space(read.indices).where(condition)))
    for point in asked:
        part = domain
        for axis, value in enumerate(point):
            part = part.fix_val(isl.dim_type.set, axis, isl.Val(value))
        parts.append(part)
    for part in parts:
        if part.is_empty():
            continue
        for end in (part.lexmin(), part.lexmax()):
            values = end.sample_point()
            assignment = {}
            for axis, index in enumerate(read.indices):
                value = values.get_coordinate_val(isl.dim_type.set, axis)
                assignment[index] = int(value.to_python())
            yield assignment


def _index_conditions(body: Any, indices: frozenset[Index]) -> list[Constraint]:
    """Return the conditions of a body on some indices, and their opposites."""
    conditions: dict[Constraint, None] = {}
    for condition in _conditions(body):
        if not is_index_condition(condition):
            continue
        try:
            parts = conjunctions(condition, _unchanged)
        except OutsideFragment:
            continue
        for part in parts:
            for constraint in part:
                if constraint.indices <= indices and constraint.truth is None:
                    conditions.update(dict.fromkeys([constraint, *negated(constraint)]))
        if len(conditions) > MAX_CONDITIONS:
            break
    return list(conditions)[:MAX_CONDITIONS]


def _conditions(body: Any) -> Iterator[Any]:
    """Yield the conditions of the choices in a body."""
    if isinstance(body, Reduce):
        yield from _conditions(body.body)
    elif not isinstance(body, (Access, IndexArithmetic)):
        if isinstance(body, (sympy.Rel, sympy.logic.boolalg.BooleanFunction)):
            yield body
        for part in getattr(body, "args", ()):
            yield from _conditions(part)


def _unchanged(form: Affine) -> Affine:
    return form


def far_beyond(scopes: Iterable[Scope]) -> float:
    """Return a distance that takes a number beyond all that stand in some scopes."""
    largest = 1.0
    for scope in scopes:
        for node in all_scopes(scope):
            for number in numbers_in(node.body):
                if isfinite(number):
                    largest = max(largest, abs(float(number)))
    return BEYOND * largest


def prominent_inputs(
    block: OutputBlock, elements: Sequence[Element], distance: float, seed: int
) -> list[dict[str, Array]]:
    """Return inputs in which one element stands out by a distance: from others near 1, on either
    side; from others that are that far below or above 0; and the latter alone.

    At the distance 1 all others are 1, so that the element is 0 or 2.
    """
    if distance == 1:
        return _on_ground(block, elements, ONE, 0, (1, -1), seed)
    inputs = _on_ground(block, elements, positive, 0, (distance, -distance), seed)
    for ground in (-distance, distance):
        inputs += _on_ground(block, elements, positive, ground, (-ground,), seed)
        inputs += _on_ground(block, [None], positive, ground, (0,), seed)
    return inputs


def _on_ground(
    block: OutputBlock,
    elements: Sequence[Element | None],
    pattern: Pattern,
    ground: float,
    moves: Sequence[float],
    seed: int,
) -> list[dict[str, Array]]:
    """Return inputs of numbers that are drawn by a pattern and moved to some ground, from which
    one element is moved further; none where there is no element.
    """
    rng = np.random.default_rng(seed)
    others = {}
    for name, tensor in block.tensors.items():
        # The sum of an array without axes is no array.
        others[name] = np.asarray(double_values(tensor, pattern, rng).astype(np.float64) + ground)
    inputs = []
    for element in elements:
        for move in moves:
            arrays = dict(others)
            if element is not None:
                name, place = element
                arrays[name] = others[name].copy()
                arrays[name][place] += move
            inputs.append({name: _of_type(block.tensors[name], a) for name, a in arrays.items()})
    return inputs


def _of_type(tensor: Tensor, values: Array) -> Array:
    return values if is_float(tensor.dtype) else typed(tensor.dtype, np.rint(values))


def inputs_of_an_element(distances: Sequence[float]) -> int:
    """Return how many inputs `prominent_inputs` makes of every element, at some distances."""
    return sum(2 if distance == 1 else 4 for distance in distances)


def _unequal_by_input(block: OutputBlock, inputs: Sequence[Mapping[str, Array]]) -> Array:
    """Return where two sides differ at each of some inputs, in double precision; one side alone has
    no value at poles, which some inputs meet by intent.
    """
    scopes = stacked(block.scopes, len(inputs))
    return np.asarray(unequal_in_double(scopes, stacked_arrays(inputs), domains=False))


def unequal_at_once(block: OutputBlock, inputs: Sequence[Mapping[str, Array]]) -> Array:
    """Return where two sides differ at any of some inputs, in double precision."""
    return np.asarray(_unequal_by_input(block, inputs).any(axis=0))


def unequal_confirmed(block: OutputBlock, inputs: Sequence[Mapping[str, Array]]) -> Array:
    """Return where two sides differ at any of some inputs, exactly: at points where they do in
    double precision.
    """
    confirmed = np.zeros(block.scopes[0].shape, bool)
    for mask, arrays in zip(_unequal_by_input(block, inputs), inputs):
        for point in np.argwhere(mask & ~confirmed)[:MAX_CONFIRMED]:
            place = tuple(map(int, point))
            confirmed[place] = _differs_exactly(block, place, arrays)
    return confirmed


def _differs_exactly(
    block: OutputBlock, point: tuple[int, ...], arrays: Mapping[str, Array]
) -> bool:
    """Return whether two sides differ at a point of a block, in rational numbers; False where one
    has no value.
    """
    at_point = cut_block(block.scopes, point, (1,) * len(point))
    exact = {}
    for name, array in arrays_of_part(block, at_point, arrays).items():
        exact[name] = array
        if array.dtype.kind == "f":
            exact[name] = np.asarray(_fractions(array), object)
    values = []
    for scope in at_point.scopes:
        own = {name: exact[name] for name in scope.tensors if name in exact}
        try:
            values.append(evaluate(scope, **own))
        except (ArithmeticError, ValueError, TypeError):
            return False
    return bool(np.asarray(values[0] != values[1]).any())


def unequal_with_many_digits(block: OutputBlock, inputs: Sequence[Mapping[str, Array]]) -> Array:
    """Return where two sides differ at any of some inputs, with many digits."""
    scopes = stacked(block.scopes, len(inputs))
    return np.asarray(unequal_precisely(scopes, stacked_arrays(inputs)).any(axis=0))


_fractions = np.frompyfunc(Fraction, 1, 1)
