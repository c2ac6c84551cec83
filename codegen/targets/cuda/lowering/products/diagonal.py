"""Products of which one factor depends on two indices of the output through one combination.

Sliding-window attention has them, and relative positions, and the costs of shifted images:

    O[i,w] += Q[i,k]*K[i+w,k]

As written, every index of the one factor is an index of the other, so that there are no rows and
columns to tile. Here rows `i = R*p + m` are taken R at a time, and the columns that they meet are
counted from the first of them: `w = c - m`. So `i + w` is `R*p + c`, and for each `p` the statement
is a product with rows `m` and columns `c`. A row has R - 1 columns too many, which are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from codegen.ir.nodes import Ref
from codegen.lowering.guards import Place
from codegen.lowering.reductions import outermost_reductions
from codegen.targets.cuda.lowering.products.contraction import ContractionSource, blocked_product
from codegen.targets.cuda.lowering.threads.schedule import CudaSchedule
from einalg.language.analysis.padded_reads import in_box
from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index, rebuild, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, padded_box
from einalg.language.ir.traversal import accesses

MAX_WASTE = 1.5  # computed points for each point of the statement


@dataclass(frozen=True)
class _Diagonal:
    """Two indices of the output that a subscript combines, as `2*row + 3*across`.

    Rows that are `stride` apart meet the same columns, `slope` further on from one to the next.
    """

    row: LoopIndex
    across: LoopIndex
    stride: int
    slope: int

    @property
    def row_count(self) -> int:
        """Return the number of rows that are `stride` apart."""
        return -(-self.row.extent // self.stride)

    def waste(self, rows: int) -> float:
        """Return how many points are computed for each point of the statement."""
        return 1 + abs(self.slope) * (rows - 1) / self.across.extent

    def rows_at_once(self, choices: Sequence[int]) -> int | None:
        """Return the most rows of which not too many points are computed; None where none do."""
        fitting = [n for n in choices if n < 2 * self.row_count and self.waste(n) <= MAX_WASTE]
        return max(fitting, default=None)


@dataclass(frozen=True)
class _Coordinates:
    """A statement in other coordinates: `subscripts` say where its output lies.

    Its points are those `inside`. `member` counts rows that are taken together, `column` what they
    meet.
    """

    scope: Scope
    subscripts: tuple[Affine, ...]
    inside: tuple[Constraint, ...]
    member: Index
    column: Index


class DiagonalSource(ContractionSource):
    """A statement whose rows are taken several at a time, with the columns that they all meet."""

    def __init__(
        self,
        name: str,
        statement: Scope,
        holes: Mapping[str, Scope],
        schedule: CudaSchedule,
        coordinates: _Coordinates,
    ):
        super().__init__(name, statement, holes, schedule)
        self.scope, self.inside = coordinates.scope, coordinates.inside
        self._coordinates = coordinates

    def is_separated(self) -> bool:
        """Return whether one factor depends on the rows alone and the other on the columns."""
        product = blocked_product(self)
        if product is None:
            return False
        rows = {level.index for level in product.rows}
        columns = {level.index for level in product.columns}
        pair = {self._coordinates.member, self._coordinates.column}
        return len(rows & pair) == len(columns & pair) == 1

    def target(self, place: Place) -> Ref:
        return self._element(self.output, self._coordinates.subscripts, place)


def diagonal_sources(
    name: str, scope: Scope, holes: Mapping[str, Scope], schedule: CudaSchedule
) -> Iterator[DiagonalSource]:
    """Yield a statement with the rows and columns of each combination that its sum reads."""
    statement = ContractionSource(name, scope, holes, schedule).scope  # with distinct indices
    reduces = outermost_reductions(statement.body)
    if statement.where or len(reduces) != 1:
        return
    row_choices = [tile.rows for tile in schedule.tiles]
    for diagonal in dict.fromkeys(_diagonals(statement, reduces[0])):
        rows = diagonal.rows_at_once(row_choices)
        if rows is not None:
            coordinates = _coordinates(statement, reduces[0], diagonal, rows)
            source = DiagonalSource(name, statement, holes, schedule, coordinates)
            if source.is_separated():
                yield source


def _diagonals(scope: Scope, reduce: Reduce) -> Iterator[_Diagonal]:
    """Yield the pairs of output indices that a subscript in a sum combines."""
    for access in accesses(reduce.body):
        for form in access.subscripts:
            combined = [it for it in scope.iterators if form.coefficient(it.index)]
            for row in combined:
                for across in combined:
                    if row != across:
                        one = form.coefficient(row.index)
                        other = form.coefficient(across.index)
                        stride = abs(other) // gcd(one, other)
                        yield _Diagonal(row, across, stride, one * stride // other)


def _coordinates(scope: Scope, reduce: Reduce, diagonal: _Diagonal, rows: int) -> _Coordinates:
    """Return a statement with so many rows of a diagonal at once."""
    row, across, stride, slope = diagonal.row, diagonal.across, diagonal.stride, diagonal.slope
    names = {*scope.indices, *scope.body.free_symbols, *reduce.indices}
    first, group, member, column = (_fresh(name, names) for name in ("first", "p", "m", "c"))
    reach = slope * (rows - 1)
    coordinates = {
        row: (
            LoopIndex(first, 0, stride),
            LoopIndex(group, 0, -(-diagonal.row_count // rows)),
            LoopIndex(member, 0, rows),
        ),
        across: (LoopIndex(column, across.low + min(0, reach), across.high + max(0, reach)),),
    }
    forms = {
        row.index: (affine(group) * rows + affine(member)) * stride + affine(first) + row.low,
        across.index: affine(column) - affine(member) * slope,
    }
    iterators: list[LoopIndex] = []
    for it in scope.iterators:
        iterators += coordinates.get(it, (it,))
    ranges = {it.index: (it.low, it.high) for it in (*iterators, *reduce.iterators)}
    terms = _readable(substitute(reduce.body, forms), ranges)
    total = Reduce(reduce.op, reduce.iterators, reduce.where, terms)

    def in_coordinates(node: Any) -> Any:
        if node == reduce:
            return total
        return substitute(node, forms)

    subscripts = [affine(it.index).substitute(forms) - it.low for it in scope.iterators]
    inside = in_box(list(forms.values()), [(it.low, it.high) for it in (row, across)])
    body = rebuild(scope.body, in_coordinates)
    return _Coordinates(Scope(iterators, (), body), tuple(subscripts), inside, member, column)


def _fresh(name: str, names: set[Index]) -> Index:
    index = fresh_index(name, names)
    names.add(index)
    return index


def _readable(body: Any, ranges: Mapping[Index, tuple[int, int]]) -> Any:
    """Return a body that reads 0 where it would read outside of its tensors."""

    def padded(node: Any) -> Any:
        if not isinstance(node, Access):
            return node
        amounts: list[tuple[int, int]] = []
        for form, (low, high) in zip(node.subscripts, padded_box(node.base)):
            smallest, largest = form.interval(ranges)
            amounts.append((max(0, low - smallest), max(0, largest + 1 - high)))
        if any(map(any, amounts)):
            return Access.of(Padded(node.base, amounts, 0), node.subscripts)
        return node

    return rebuild(body, padded)
