"""Reductions of any body as contractions (design §10, §16).

A body reads some tensors along the rows of results, others along their columns: of each group it
computes one value, and a term of the two, as `A[i, k]` and `B[k, j]*S[k, j]` of
`Abs(A[i, k] - B[k, j]*S[k, j])`. The values are operands, which are computed as they are packed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from codegen.ir.nodes import Buf, Ref, Value
from codegen.ir.scalars.elements import ElementLeaves, is_lanewise
from codegen.ir.scalars.translation import accumulated
from codegen.ir.types import computed
from codegen.kernels.contraction.problem import (
    Contraction,
    ReducedTerm,
    with_constants,
    with_needed_results,
)
from codegen.kernels.contraction.ranges import IndexRange
from codegen.kernels.contraction.statements.epilogue import contraction_with_epilogue
from codegen.kernels.epilogue import element_number, is_plain, result_number
from codegen.kernels.strided_axes import Prologue, StridedAxis, StridedOperand
from codegen.lowering.block import buffer
from codegen.lowering.loop_plan import has_numbers
from einalg.errors import CodegenError
from einalg.language.analysis.simplify import simplify
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import LoopIndex, Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses, reductions

LEFT, RIGHT = "left", "right"
GROUP_LETTERS = {"batch": "b", "rows": "m", "columns": "n", "depth": "k"}


def body_contraction(
    name: str, scope: Scope, dtype: str, ahead: Collection[str] = (), leaves_gaps: bool = False
) -> Contraction | None:
    """Return the statement `name = scope`, a reduction of any body, as a contraction in `dtype`.

    What is computed of the reduction is its epilogue. `ahead` names the tensors whose values are
    compile-time constants. With `leaves_gaps`, anything may be stored where it has no value. None
    where no tile of results reads less than each result by itself.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i,j] = Max[k](A[i,k] + B[k,j])", A=(4, 5), B=(5, 8))
    >>> c = body_contraction("O", scope, "f32")
    >>> c.term.body, c.term.reduction, c.columns[0].extent
    (left[()] + right[()], 'Max', 8)
    """
    if (scope.where and not leaves_gaps) or has_numbers(scope):
        return None
    reduces = [*reductions(scope.body)]
    if len(reduces) != 1:
        return None
    (reduce,) = reduces
    if accumulated(reduce) != dtype:
        return None
    if reduce == scope.body:
        contraction = _reduction(name, scope, reduce, dtype, ahead)
        return contraction and with_needed_results(contraction, scope)
    total = Tensor(_unused(f"{name}_total", scope), scope.shape, scope.dtype)
    reduced = Scope(scope.iterators, (), reduce)
    if reduced.dtype != scope.dtype:
        return None
    contraction = _reduction(total.name, reduced, reduce, dtype, ahead)
    if contraction is None:
        return None
    place = total[tuple(affine(it.index) - it.low for it in scope.iterators)]
    after = rebuild(scope.body, lambda node: place if node == reduce else node)
    reader = Scope(scope.iterators, scope.where, after)
    return contraction_with_epilogue(contraction, name, reader, leaves_gaps=leaves_gaps)


def _unused(name: str, scope: Scope) -> str:
    while name in scope.tensors:
        name += "_"
    return name


def _reduction(
    name: str, scope: Scope, reduce: Reduce, dtype: str, ahead: Collection[str]
) -> Contraction | None:
    for side in (LEFT, RIGHT):
        reads = _Reads.of(scope, reduce, side)
        contraction = reads and _reduction_of(reads, name, scope, reduce, dtype)
        if contraction is not None:
            return with_constants(contraction, ahead)
    return None


def _reduction_of(
    reads: _Reads, name: str, scope: Scope, reduce: Reduce, dtype: str
) -> Contraction | None:
    terms = _Terms(reads.sides)
    try:
        body = terms.term(reduce.body)
        values = [_single_value(terms.values[side], dtype) for side in (LEFT, RIGHT)]
    except CodegenError:  # of a function that no printer has
        return None
    left, right = values
    if left is None or right is None:
        return None
    term = ReducedTerm(body, terms.places[left], terms.places[right], reduce.op, reduce.identity)
    operands = reads.operand(left), reads.operand(right)
    target = StridedOperand(Buf(name, scope.shape, scope.dtype), 0)
    axes = reads.axes(scope, values)
    ranges = reads.summed_ranges(reduce, axes)
    if ranges is None:
        return None
    groups: dict[str, tuple[StridedAxis, ...]] = {}
    for group, letter in GROUP_LETTERS.items():
        groups[group] = tuple(axis for axis in axes.values() if axis.index.name[0] == letter)
    contraction = Contraction(
        *operands,
        target,
        groups["batch"],
        groups["rows"],
        groups["columns"],
        groups["depth"],
        dtype,
        term=term,
        ranges=ranges,
    )
    if not contraction.work or not _is_computed_in_vectors(contraction):
        return None
    return contraction


def _single_value(values: Sequence[Any], dtype: str) -> Any | None:
    """Return the one value of an operand that is of a type; None where there is another number."""
    if len(values) != 1:
        return None
    (value,) = values
    if isinstance(value, Access):
        if computed(value.tensor.dtype) == dtype:
            return value
        return None
    elements: dict[Access, Value] = {}
    for access in accesses(value):
        elements[access] = Ref(Buf(access.tensor.name, (), access.tensor.dtype), ())
    if ElementLeaves(value, elements).value.dtype == dtype:
        return value
    return None


def _is_computed_in_vectors(contraction: Contraction) -> bool:
    try:
        value = contraction.reducing_store().value
    except CodegenError:
        return False
    return is_lanewise(value, contraction.dtype)


# What is read, and along which axes.


@dataclass(frozen=True)
class _Reads:
    """The accesses of a reduction: the element that each reads, and the side that it is on."""

    numbers: Mapping[Access, Affine]
    sides: Mapping[Access, str]
    ranges: Mapping[Index, tuple[int, int]]

    @classmethod
    def of(cls, scope: Scope, reduce: Reduce, idle: str) -> _Reads | None:
        """Return the accesses of a reduction; None where they have not two sides. `idle` is the
        side of those that are the same for all results.
        """
        reads = list(dict.fromkeys(accesses(reduce.body)))
        if not all(map(is_plain, reads)):
            return None
        ranges = {it.index: (it.low, it.low + it.extent) for it in _iterators(scope, reduce)}
        numbers: dict[Access, Affine] = {}
        for access in reads:
            numbers[access] = simplify(element_number(access), ranges)
            if not (numbers[access].is_affine() and _is_inside(access, ranges)):
                return None
        sides = _sides(scope, numbers, idle)
        if set(sides.values()) != {LEFT, RIGHT}:
            return None
        return cls(numbers, sides, ranges)

    def operand(self, value: Any) -> StridedOperand:
        """Return a value as an operand."""
        first, *others = dict.fromkeys(accesses(value))
        operand = self._read(first)
        if value == first:
            return operand
        read = {access: self._read(access) for access in others}
        return replace(operand, prologue=Prologue(value, first, read))

    def _read(self, access: Access) -> StridedOperand:
        first = {index: affine(low) for index, (low, _) in self.ranges.items()}
        return StridedOperand(buffer(access.tensor), self.numbers[access].substitute(first).const)

    def axes(self, scope: Scope, values: Sequence[Any]) -> dict[Index, StridedAxis]:
        """Return the axes of a contraction by their indices in the statement.

        Each is called by the letter of its group. Indices of one value have none.
        """
        sides = [list(dict.fromkeys(accesses(value))) for value in values]
        target = result_number(scope)
        axes: dict[Index, StridedAxis] = {}
        counts = dict.fromkeys(GROUP_LETTERS, 0)
        for index, (low, high) in self.ranges.items():
            if high - low == 1:
                continue
            steps = [[self.numbers[read].coefficient(index) for read in side] for side in sides]
            moved = [any(side) for side in steps]
            group = _group(index in scope.indices, *moved)
            name = Index(f"{GROUP_LETTERS[group]}{counts[group]}")
            counts[group] += 1
            (left, *left_reads), (right, *right_reads) = steps
            step = target.coefficient(index)
            axis = StridedAxis(name, high - low, left, right, step)
            own_reads = {"left_reads": tuple(left_reads), "right_reads": tuple(right_reads)}
            axes[index] = replace(axis, **own_reads)
        return axes

    def summed_ranges(
        self, reduce: Reduce, axes: Mapping[Index, StridedAxis]
    ) -> tuple[IndexRange, ...] | None:
        """Return what the conditions of a reduction leave of its axes; None where tiles cannot."""
        if not reduce.where:
            return ()
        places: dict[Index, Affine] = {}
        for index, (low, _) in self.ranges.items():
            places[index] = affine(low)
            if index in axes:
                places[index] = affine(axes[index].index) + low
        conditions = [condition.substitute(places) for condition in reduce.where]
        depth = {axes[index].index for index in reduce.indices if index in axes}
        within = IndexRange.of(conditions, depth)
        return within and (within,)


def _is_inside(access: Access, ranges: Mapping[Index, tuple[int, int]]) -> bool:
    """Whether an access reads elements of its tensor at all values of the indices.

    Tiles read more than conditions leave.
    """
    for form, (low, high) in zip(access.subscripts, access.tensor.box):
        least, most = form.interval(ranges)
        if least < low or most >= high:
            return False
    return True


def _iterators(scope: Scope, reduce: Reduce) -> list[LoopIndex]:
    return [*scope.iterators, *reduce.iterators]


def _group(is_output: bool, moves_left: bool, moves_right: bool) -> str:
    if not is_output:
        return "depth"
    if moves_left == moves_right:
        return "batch"
    if moves_left:
        return "rows"
    return "columns"


def _sides(scope: Scope, numbers: Mapping[Access, Affine], idle: str) -> dict[Access, str]:
    """Return the side of each access: of those that are the same for all results the `idle` one.

    Columns are the results that are neighbours in memory.
    """
    own: dict[Access, set[Index]] = {}
    outputs = [it.index for it in scope.iterators if it.extent > 1]
    for access, number in numbers.items():
        own[access] = {index for index in outputs if number.coefficient(index)}
    batch = set(outputs)
    for indices in own.values():
        if indices:
            batch &= indices
    if len([indices for indices in own.values() if indices]) < 2 and len(own) > 1:
        batch = set()
    columns = [index for index in outputs if index not in batch][-1:]
    grown = set(columns)
    sides: dict[Access, str] = {}
    while True:
        met = {access for access, indices in own.items() if (indices - batch) & grown}
        more = set[Index]().union(*(own[access] - batch for access in met))
        if more <= grown:
            break
        grown |= more
    for access in numbers:
        if not own[access]:
            sides[access] = idle
        else:
            sides[access] = RIGHT if access in met else LEFT
    return sides


# Values of operands, and terms of these.


@dataclass
class _Terms:
    """Cuts a body into the values of operands, and a term of these."""

    sides: Mapping[Access, str]
    places: dict[Any, Access] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=lambda: {LEFT: [], RIGHT: []})

    def term(self, body: Any) -> Any:
        """Return a body with the accesses that stand for values in their place."""
        sides = {self.sides[access] for access in accesses(body)}
        if not sides:
            return body
        if len(sides) == 1 and isinstance(body, sympy.Expr):
            return self._value(body, *sides)
        if isinstance(body, (sympy.Add, sympy.Mul)):
            return body.func(*map(self.term, self._parts(body)))
        return body.func(*map(self.term, body.args))

    def _parts(self, body: Any) -> list[Any]:
        """Return the terms or factors of a body, those of each side as one; numbers are left."""
        parts: dict[str, list[Any]] = {LEFT: [], RIGHT: []}
        mixed: list[Any] = []
        numbers: list[Any] = []
        for part in body.args:
            sides = {self.sides[access] for access in accesses(part)}
            if not sides:
                numbers.append(part)
            elif len(sides) == 1:
                parts[sides.pop()].append(part)
            else:
                mixed.append(part)
        for side in (LEFT, RIGHT):
            if parts[side]:
                parts[side] += numbers
                numbers = []
        joined = [body.func(*own) for own in parts.values() if own]
        return [*joined, *mixed, *numbers]

    def _value(self, value: Any, side: str) -> Any:
        """Return what stands for a value of a side; its sign is a part of the term."""
        factor, positive = value.as_coeff_Mul()
        if factor == -1:
            return -self._value(positive, side)
        if value not in self.places:
            read = next(iter(accesses(value)))
            dtype = computed(read.tensor.dtype)
            name = f"{side}{len(self.values[side]) or ''}"
            self.values[side].append(value)
            self.places[value] = Tensor(name, (), dtype)[()]
        return self.places[value]
