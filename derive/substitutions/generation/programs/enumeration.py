"""The programs of a number of operations: an operator applied to the programs that stand for
classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from derive.substitutions.generation.programs.leaf_order import LeafOrder
from derive.substitutions.generation.programs.space import (
    ClassId,
    Operation,
    ProgramSpace,
    TypedOperator,
)
from einalg.language.interpreters.prime_field.modular import Array

MAX_PAIRS = 2**20  # of a block


class ProgramBlock(NamedTuple):
    """Programs of one operator and one type: for each input, the classes that it reads.

    For a product of two lists of classes, `mask` says which pairs are meant, all where it is None.
    """

    place: int
    application: TypedOperator
    ids: tuple[Array, ...]
    is_product: bool = False
    mask: Array | None = None

    @property
    def count(self) -> int:
        """The number of programs, each output counted."""
        programs = len(self.ids[0]) if self.ids else 1
        if self.is_product:
            programs *= len(self.ids[1])
        if self.mask is not None:
            programs = int(self.mask.sum())
        return programs * len(self.application.results)

    def inputs(self) -> list[Array]:
        """Return, for each input, the class of each program."""
        if not self.is_product:
            return list(self.ids)
        first, second = np.meshgrid(*self.ids, indexing="ij")
        if self.mask is None:
            return [first.ravel(), second.ravel()]
        return [first[self.mask], second[self.mask]]


class ProgramEnumeration:
    """The programs of a space, by size. `commutative` has the operators, by places, of which a pair
    of inputs is read in one order only.
    """

    def __init__(self, space: ProgramSpace, commutative: set[int]) -> None:
        self.space, self.commutative = space, commutative
        self._leaf_order = LeafOrder(space)
        self._pairs: dict[int, dict[tuple[int, int], Array]] = {}  # those of one size

    def first_blocks(self, size: int) -> Iterator[ProgramBlock]:
        """Yield those programs of exactly so many operations that read, of the inputs of a shape,
        the first ones: each other program is a renaming of some of these.
        """
        for block in self.blocks(size):
            first = self._first(block)
            if first is not None:
                yield first

    def _first(self, block: ProgramBlock) -> ProgramBlock | None:
        order = self._leaf_order
        if not block.ids:
            return block
        if not block.is_product:
            is_first = order.first(block.ids)
            ids = tuple([position[is_first] for position in block.ids])
            return block._replace(ids=ids) if is_first.any() else None
        one, two = [order.bits([position]) for position in block.ids]
        is_first = order.are_first(one[:, None] | two[None, :])
        if block.mask is not None:
            is_first &= block.mask
        return block._replace(mask=is_first) if is_first.any() else None

    def blocks(self, size: int) -> Iterator[ProgramBlock]:
        """Yield the programs of exactly so many operations."""
        for place, operator in enumerate(self.space.operators):
            if operator.arity == 0:
                yield from self._constant(place, size)
            elif operator.arity == 1:
                yield from self._unary(place, size)
            elif operator.arity == 2:
                yield from self._apart(place, size)
                yield from self._overlapping(place, size)
            else:
                yield from self._of_many(place, size)

    def _constant(self, place: int, size: int) -> Iterator[ProgramBlock]:
        application = self.space.application(place, ())
        if size == 1 and application is not None:
            yield ProgramBlock(place, application, ())

    def _unary(self, place: int, size: int) -> Iterator[ProgramBlock]:
        for kind in self.space.types_of_size(size - 1):
            application = self.space.application(place, (kind,))
            if application is not None:
                ids = np.array(self.space.ids(kind, size - 1))
                for start in range(0, len(ids), MAX_PAIRS):
                    yield ProgramBlock(place, application, (ids[start : start + MAX_PAIRS],))

    def _apart(self, place: int, size: int) -> Iterator[ProgramBlock]:
        """Yield the pairs of programs that share no operation."""
        space = self.space
        for first_size in range(size):
            second_size = size - 1 - first_size
            kinds = product(space.types_of_size(first_size), space.types_of_size(second_size))
            for types in kinds:
                application = space.application(place, types)
                if application is None:
                    continue
                first = np.array(space.ids(types[0], first_size))
                second = np.array(space.ids(types[1], second_size))
                step = max(1, MAX_PAIRS // len(second))
                for start in range(0, len(first), step):
                    part = first[start : start + step]
                    mask = self._mask(place, types, part, second)
                    if mask is None or mask.any():
                        yield ProgramBlock(place, application, (part, second), True, mask)

    def _mask(
        self, place: int, types: tuple[int, int], first: Array, second: Array
    ) -> Array | None:
        """Return which pairs share no operation, and are in the order that is read."""
        is_commutative = place in self.commutative and types[0] == types[1]
        classes = self.space.classes
        if not is_commutative and not (classes[first[0]].size and classes[second[0]].size):
            return None
        mask = np.ones((len(first), len(second)), bool)
        if is_commutative:
            mask &= first[:, None] <= second[None, :]
        if not (classes[first[0]].size and classes[second[0]].size):
            return mask
        columns = {int(number): column for column, number in enumerate(second)}
        for row, number in enumerate(first):
            for operation in self.space.classes[number].operations:
                for user in self.space.users[operation]:
                    if user in columns:
                        mask[row, columns[user]] = False
        return None if mask.all() else mask

    def _overlapping(self, place: int, size: int) -> Iterator[ProgramBlock]:
        """Yield the pairs of programs that share operations."""
        if size not in self._pairs:
            self._pairs = {size: self._overlapping_by_types(size - 1)}
        for types, ids in self._pairs[size].items():
            application = self.space.application(place, types)
            if application is None:
                continue
            first, second = ids
            if place in self.commutative and types[0] == types[1]:
                is_ordered = first <= second
                first, second = first[is_ordered], second[is_ordered]
            for start in range(0, len(first), MAX_PAIRS):
                part = slice(start, start + MAX_PAIRS)
                yield ProgramBlock(place, application, (first[part], second[part]))

    def _overlapping_by_types(self, total: int) -> dict[tuple[int, int], Array]:
        """Return the pairs of classes that share operations, and have so many in all, by types."""
        by_types: dict[tuple[int, int], list[tuple[ClassId, ClassId]]] = {}
        classes = self.space.classes
        for pair in self._overlapping_pairs(total):
            types = classes[pair[0]].type, classes[pair[1]].type
            by_types.setdefault(types, []).append(pair)
        return {types: np.array(pairs).T for types, pairs in by_types.items()}

    def _overlapping_pairs(self, total: int) -> Iterator[tuple[ClassId, ClassId]]:
        """Yield the pairs of classes whose programs share operations, and have so many in all."""
        space = self.space
        for operations, ids in list(space.by_operations.items()):
            if len(operations) == total and total:
                inner = _within(space, operations)
                for whole, part in product(ids, inner):
                    yield whole, part
                    if space.classes[part].size < total:
                        yield part, whole
        for first, one in enumerate(space.classes):
            if not 1 < one.size < total:
                continue
            others = {user for operation in one.operations for user in space.users[operation]}
            for second in sorted(others):
                two = space.classes[second]
                if 1 < two.size < total and len(one.operations | two.operations) == total:
                    yield first, second

    def _of_many(self, place: int, size: int) -> Iterator[ProgramBlock]:
        """Yield the programs of an operator of three inputs or more."""
        by_types: dict[tuple[int, ...], list[tuple[ClassId, ...]]] = {}
        for ids in self._tuples(self.space.operators[place].arity, size - 1):
            types = tuple([self.space.classes[number].type for number in ids])
            if self.space.application(place, types) is not None:
                by_types.setdefault(types, []).append(ids)
        for types, rows in by_types.items():
            application = self.space.application(place, types)
            assert application is not None
            yield ProgramBlock(place, application, tuple(np.array(rows).T))

    def _tuples(self, count: int, total: int) -> Iterator[tuple[ClassId, ...]]:
        """Yield lists of classes whose programs have so many operations in all."""
        space = self.space
        sets = [operations for operations in space.by_operations if len(operations) <= total]

        def extended(chosen: Sequence[ClassId], union: frozenset[Operation]) -> Iterator[tuple]:
            if len(chosen) == count:
                if len(union) == total:
                    yield tuple(chosen)
                return
            for operations in sets:
                whole = union | operations
                if len(whole) <= total:
                    for number in list(space.by_operations[operations]):
                        yield from extended([*chosen, number], whole)

        yield from extended([], frozenset())


def _within(space: ProgramSpace, operations: frozenset[Operation]) -> list[ClassId]:
    """Return the classes of one operation or more whose operations are all among some."""
    ids: list[ClassId] = []
    for count in range(1, len(operations) + 1):
        for chosen in combinations(sorted(operations), count):
            ids += space.by_operations.get(frozenset(chosen), [])
    return ids
