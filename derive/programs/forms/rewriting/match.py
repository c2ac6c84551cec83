"""A match of a rule: the statements, expressions and sizes that its parts stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from derive.substitutions.sizes.equations import Equations, Unsolvable, Unsolved
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.size import Size
from einalg.language.ir.body import substitute


@dataclass(frozen=True)
class StatementPlace:
    """The statement of the program that a statement of a pattern is: its axis for each axis of the
    pattern, and an index for each of its other axes.
    """

    name: str
    axes: tuple[int, ...]
    batch: tuple[tuple[int, Index], ...] = ()


@dataclass(frozen=True)
class Match:
    """Places for the statements of a pattern, the leaves as expressions of `axis_index`, and the
    sizes; `extents` are those of the axes that the pattern has not.
    """

    places: Mapping[str, StatementPlace] = field(default_factory=dict)
    leaves: Mapping[str, Any] = field(default_factory=dict)
    extents: Mapping[Index, int] = field(default_factory=dict)
    equations: Equations = field(default_factory=Equations)

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The statements that are matched and what leaves read, with all axes as one."""
        statements = [(name, place.name) for name, place in self.places.items()]
        leaves = []
        for name, term in self.leaves.items():
            one = {index: affine(axis_index(0)) for index in _indices(term)}
            leaves.append((name, str(substitute(term, one))))
        return (*sorted(statements), *sorted(leaves))

    def number(self, extent: Any) -> int | None:
        """Return an extent of the pattern as a number; None where it is open."""
        value = self.equations.value(affine(extent))
        if value.terms:
            return None
        return int(value.const)

    def numbers(self, sizes: Mapping[str, Any]) -> dict[str, int] | None:
        """Return numbers for sizes by name; None where one of them is open."""
        numbers = {}
        for name, size in sizes.items():
            number = self.number(size)
            if number is None:
                return None
            numbers[name] = number
        return numbers

    def requiring(self, *pairs: tuple[Any, Any]) -> Match | None:
        """Return the match with extents or subscripts equal; None where they cannot be."""
        equations = self.equations.copy()
        try:
            for one, other in pairs:
                difference = affine(affine(one) - affine(other))
                if any(not isinstance(atom, Size) for atom, _ in difference.terms):
                    return None
                equations.require(difference, affine(0))
        except (Unsolvable, Unsolved):
            return None
        return replace(self, equations=equations)


def _indices(term: Any) -> list[Index]:
    """Return the indices on which a leaf depends."""
    return [symbol for symbol in term.free_symbols if isinstance(symbol, Index)]


def axis_index(axis: int) -> Index:
    """Return the index that stands for an axis of a leaf in its expression."""
    return Index(f"axis{axis}")


def batch_index(number: int) -> Index:
    """Return the index of an axis that the pattern has not."""
    return Index(f"batch{number}")
