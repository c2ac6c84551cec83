"""Operators that move elements and compute nothing, such as those that join and split."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from derive.substitutions.generation.programs.evaluating import enough_samples, evaluate
from derive.substitutions.generation.programs.space import Operation, ProgramSpace, TypedOperator
from einalg.language.interpreters.prime_field.modular import Array


class Movements:
    """Which operators of a space move elements only."""

    def __init__(self, space: ProgramSpace) -> None:
        self.space = space
        self._known: dict[TypedOperator, bool] = {}

    def computing(self, operations: Iterable[Operation]) -> int:
        """Return how many of some operations compute."""
        return sum([not self.is_movement(operation) for operation in operations])

    def is_movement(self, operation: Operation) -> bool:
        """Return whether each element of each result is an element of what is read, the same one
        whatever these are, or 0.
        """
        place, inputs = operation
        types = tuple([self.space.classes[number].type for number in inputs])
        application = self.space.application(place, types)
        assert application is not None
        if application not in self._known:
            self._known[application] = self._moves(application)
        return self._known[application]

    def _moves(self, application: TypedOperator) -> bool:
        space = self.space
        if not application.types:
            return False
        shapes = [space.types[kind].shape for kind in application.types]
        count = enough_samples([space.types[kind].shape for kind in application.results])
        one, two = [[space.random.draw((count, *shape)) for shape in shapes] for _ in range(2)]
        results = [evaluate(application.scopes, samples, space.field) for samples in (one, two)]
        return all(_moved(one, ours, two, theirs) for ours, theirs in zip(*results))


def _moved(one: list[Array], ours: Array, two: list[Array], theirs: Array) -> bool:
    """Return whether the elements of a result at `two` are those that it has at `one`."""
    before = np.concatenate([np.zeros(1, np.int64), *[sample.ravel() for sample in one]])
    after = np.concatenate([np.zeros(1, np.int64), *[sample.ravel() for sample in two]])
    order = np.argsort(before, kind="stable")
    places = np.searchsorted(before, ours.ravel(), sorter=order)
    places = order[np.minimum(places, len(before) - 1)]
    is_element = np.array_equal(before[places], ours.ravel())
    return is_element and np.array_equal(after[places], theirs.ravel())
