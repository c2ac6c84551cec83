"""Classes of programs of one value, and the programs in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from derive.substitutions.generation.programs.applying import (
    NO_HISTORY,
    JoinedShape,
    NotApplicable,
    apply,
)
from derive.substitutions.generation.programs.evaluating import (
    POSITIVE_SHARES,
    RandomField,
    evaluate,
    name_of,
)
from derive.substitutions.generation.programs.operators import OperatorChoice
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.modular import Array
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import tensor

ClassId = int
Operation = tuple[int, tuple[ClassId, ...]]  # the place of an operator, and what it reads


class AppliedNode(NamedTuple):
    """An output of an operator, by its place, of what it reads, by classes."""

    operator: int
    inputs: tuple[ClassId, ...]
    output: int = 0

    @property
    def operation(self) -> Operation:
        return self.operator, self.inputs


@dataclass(eq=False)
class ProgramClass:
    """All programs of one value. The first one of them, one of the smallest, stands for the class:
    `size` is the number of its operations, `leaves` are the inputs in the order of its first uses.
    """

    type: int
    size: int
    leaf: int | None
    node: AppliedNode | None
    operations: frozenset[Operation]
    leaves: tuple[int, ...]
    values: Array | None
    nodes: list[AppliedNode] = field(default_factory=list)


class TypedOperator(NamedTuple):
    """An operator at types of what it reads: the types of its results, and these as expressions of
    `a0`, `a1`, ….
    """

    operator: OperatorChoice
    types: tuple[int, ...]
    results: tuple[int, ...]
    scopes: tuple[Scope, ...]


FEW_POINTS, MANY_POINTS = len(POSITIVE_SHARES), 16
ELEMENTS = 24  # of an input, at all points


def _points(inputs: Sequence[tuple[int, ...]]) -> int:
    """Return the number of points at which the smallest input has enough elements: relu(x) is x
    where all elements are positive, each with a chance of a half. Numbers count where there is
    nothing else: values are computed and stored at all points.

    >>> _points([(2, 4), ()]), _points([(40,)]), _points([()])
    (3, 3, 16)
    """
    smallest = min([prod(shape) for shape in inputs if shape], default=1)
    return min(MANY_POINTS, max(FEW_POINTS, -(-ELEMENTS // smallest)))


class ProgramSpace:
    """The classes of programs of some operators and inputs, by fingerprints.

    An input is a shape; inputs of one shape are interchangeable.
    """

    def __init__(
        self, operators: Sequence[OperatorChoice], inputs: Sequence[tuple[int, ...]], seed: int = 0
    ) -> None:
        self.operators, self.inputs = tuple(operators), tuple(inputs)
        self.random = RandomField(seed, _points(self.inputs))
        self.types: list[JoinedShape] = []
        self.classes: list[ProgramClass] = []
        self.by_key: dict[int, ClassId] = {}
        self.by_node: dict[AppliedNode, ClassId] = {}
        self.by_operations: dict[frozenset[Operation], list[ClassId]] = {}
        self.users: dict[Operation, list[ClassId]] = {}
        self._type_numbers: dict[JoinedShape, int] = {}
        self._ids: dict[tuple[int, int], list[ClassId]] = {}
        self._applications: dict[tuple[int, tuple[int, ...]], TypedOperator | None] = {}
        self._keeps_histories = any(operator.name == "split" for operator in operators)
        for number, shape in enumerate(self.inputs):
            kind = self.type_number(JoinedShape(shape, (NO_HISTORY,) * len(shape)))
            self._add_leaf(number, kind)

    def _add_leaf(self, number: int, kind: int) -> None:
        values = self.random.tensor(self.types[kind].shape)
        (key,) = self.random.fingerprints(kind, values[None])
        leaf = ProgramClass(kind, 0, number, None, frozenset(), (number,), values)
        self._register(leaf, int(key))

    def type_number(self, kind: JoinedShape) -> int:
        """Return the number of a type."""
        if not self._keeps_histories:
            kind = kind._replace(history=(NO_HISTORY,) * len(kind.shape))
        if kind not in self._type_numbers:
            self._type_numbers[kind] = len(self.types)
            self.types.append(kind)
        return self._type_numbers[kind]

    def ids(self, kind: int, size: int) -> list[ClassId]:
        """Return the classes of a type whose smallest program has so many operations."""
        return self._ids.get((kind, size), [])

    def types_of_size(self, size: int) -> list[int]:
        """Return the types of which there are classes of a size."""
        return [kind for kind in range(len(self.types)) if (kind, size) in self._ids]

    def application(self, place: int, types: tuple[int, ...]) -> TypedOperator | None:
        """Return an operator at types; None where it does not take these."""
        key = place, types
        if key not in self._applications:
            self._applications[key] = self._application(place, types)
        return self._applications[key]

    def unused_operators(self) -> list[str]:
        """Return the operators that took none of the inputs that were tried."""
        unused = dict.fromkeys(map(str, self.operators))
        for (place, _), applied in self._applications.items():
            if applied is not None:
                unused.pop(str(self.operators[place]), None)
        return list(unused)

    def _application(self, place: int, types: tuple[int, ...]) -> TypedOperator | None:
        operator = self.operators[place]
        inputs = []
        for position, kind in enumerate(types):
            shape, _, dtype = self.types[kind]
            inputs.append(tensor(name_of(position), shape, dtype))
        try:
            applied = apply(operator, inputs, [self.types[kind].history for kind in types])
        except NotApplicable:
            return None
        results = []
        for scope, history in zip(applied.scopes, applied.histories):
            if any(type(extent) is not int or extent == 0 for extent in scope.shape):
                return None
            results.append(self.type_number(JoinedShape(scope.shape, history, scope.dtype)))
        return TypedOperator(operator, types, tuple(results), applied.scopes)

    def values(self, ids: Sequence[ClassId] | Array) -> Array:
        """Return the values of classes of one type, along a first axis."""
        return np.stack([self.classes[place].values for place in ids])  # pyright: ignore

    def evaluated(self, application: TypedOperator, ids: Sequence[Array]) -> list[Array]:
        """Return the results of an operator for many inputs, by classes: for each result, an array
        of inputs, points and elements.
        """
        points = self.random.points
        if not ids:
            constants = evaluate(application.scopes, [np.zeros(points, np.int64)], self.field)
            return [values[None] for values in constants]
        samples = []
        for position in ids:
            values = self.values(position)
            samples.append(values.reshape(-1, *values.shape[2:]))
        results = evaluate(application.scopes, samples, self.field)
        return [values.reshape(-1, points, *values.shape[1:]) for values in results]

    @property
    def field(self) -> PrimeField:
        return self.random.field

    def operations_of(self, node: AppliedNode) -> frozenset[Operation]:
        """Return the operations of a program of the programs that stand for what it reads."""
        operations = {node.operation}
        for place in node.inputs:
            operations |= self.classes[place].operations
        return frozenset(operations)

    def leaves_of(self, inputs: Iterable[ClassId]) -> tuple[int, ...]:
        leaves: dict[int, None] = {}
        for place in inputs:
            leaves.update(dict.fromkeys(self.classes[place].leaves))
        return tuple(leaves)

    def add(self, node: AppliedNode, kind: int, key: int, values: Array | None) -> bool:
        """Put a program into the class of its fingerprint; return whether there was one before."""
        place = self.by_key.get(key)
        if place is not None:
            self.by_node[node] = place
            self.classes[place].nodes.append(node)
            return True
        operations = self.operations_of(node)
        leaves = self.leaves_of(node.inputs)
        new = ProgramClass(kind, len(operations), None, node, operations, leaves, values, [node])
        self.by_node[node] = self._register(new, key)
        return False

    def _register(self, new: ProgramClass, key: int) -> ClassId:
        place = len(self.classes)
        self.classes.append(new)
        self.by_key[key] = place
        self._ids.setdefault((new.type, new.size), []).append(place)
        self.by_operations.setdefault(new.operations, []).append(place)
        for operation in new.operations:
            self.users.setdefault(operation, []).append(place)
        return place

    def elements(self, kind: int) -> int:
        return prod(self.types[kind].shape)
