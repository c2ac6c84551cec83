"""Independent integer combinations of indices, by which given combinations can be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Row = tuple[int, ...]


class IntegerBasis(NamedTuple):
    """Forms in the indices, as rows of coefficients, and each index as a row in the forms.

    An index in the forms is one of many choices: all given combinations are the same for each.
    """

    forms: list[Row]
    inverse: list[Row]


def independent_forms(rows: Iterable[Row], extents: Sequence[int]) -> IntegerBasis:
    """Return forms of which every row is an integer combination: as few as there can be.

    A form takes the place of the index in it that has the largest of the `extents`; single indices
    stay as they are, and forms stand in the order of the indices whose places they take.

    >>> independent_forms([(1, 1, 0)], (7, 3, 5))
    IntegerBasis(forms=[(1, 1, 0)], inverse=[(1,), (0,), (0,)])
    """
    elimination = _Elimination(extents)
    for row in sorted(set(rows), key=_simplest_first):
        elimination.add(row)
    return elimination.basis()


def _simplest_first(row: Row) -> tuple[int, int, Row]:
    live = [abs(coefficient) for coefficient in row if coefficient]
    return len(live), sum(live), tuple(-coefficient for coefficient in row)


class _Elimination:
    """Coordinates y of the indices x, changed by steps of determinant 1 or -1.

    `forms` gives y in x, `inverse` x in y. The rows added so far are combinations of `pivots`.
    """

    def __init__(self, extents: Sequence[int]):
        self.extents = extents
        count = len(extents)
        self.forms = _identity(count)
        self.inverse = _identity(count)
        self.pivots: list[int] = []

    def add(self, row: Row) -> None:
        """Make the row a combination of the pivots, by one more pivot if need be."""
        coefficients = self._in_coordinates(row)
        while True:
            live = self._live(coefficients)
            if not live:
                return
            pivot = min(live, key=lambda k: (abs(coefficients[k]), -self.extents[k], k))
            for other in live:
                if other != pivot:
                    factor = coefficients[other] // coefficients[pivot]
                    self._shear(pivot, other, factor)
                    coefficients[other] -= factor * coefficients[pivot]
            if self._live(coefficients) == [pivot]:
                break
        if next(filter(None, self.forms[pivot])) < 0:
            self._reflect(pivot)
        self.pivots.append(pivot)

    def _in_coordinates(self, row: Row) -> list[int]:
        coefficients = []
        for coordinate in range(len(row)):
            column = [line[coordinate] for line in self.inverse]
            coefficients.append(sum(a * b for a, b in zip(row, column)))
        return coefficients

    def _live(self, coefficients: Sequence[int]) -> list[int]:
        """Return the coordinates with a coefficient that are no pivots."""
        return [k for k, c in enumerate(coefficients) if c and k not in self.pivots]

    def _shear(self, pivot: int, other: int, factor: int) -> None:
        """Add a multiple of another coordinate to that of the pivot."""
        for k, coefficient in enumerate(self.forms[other]):
            self.forms[pivot][k] += factor * coefficient
        for line in self.inverse:
            line[other] -= factor * line[pivot]

    def _reflect(self, pivot: int) -> None:
        self.forms[pivot] = [-coefficient for coefficient in self.forms[pivot]]
        for line in self.inverse:
            line[pivot] = -line[pivot]

    def basis(self) -> IntegerBasis:
        pivots = sorted(self.pivots)
        forms = [tuple(self.forms[pivot]) for pivot in pivots]
        inverse = [tuple(line[pivot] for pivot in pivots) for line in self.inverse]
        return IntegerBasis(forms, inverse)


def _identity(count: int) -> list[list[int]]:
    return [[int(row == column) for column in range(count)] for row in range(count)]
