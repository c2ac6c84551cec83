"""Which inputs programs read, as sets of bits: inputs of one shape are interchangeable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derive.substitutions.generation.programs.space import ProgramSpace
from einalg.language.interpreters.prime_field.modular import Array


class LeafOrder:
    """The inputs that the programs of a space read, and whether these are the first ones of their
    shapes: of the programs that differ by the names of inputs, some read the first ones.
    """

    def __init__(self, space: ProgramSpace) -> None:
        self.space = space
        self._bits = np.zeros(0, np.uint64)  # of each class
        self._neighbours: list[tuple[np.uint64, np.uint64]] = []
        last: dict[object, int] = {}
        for number, shape in enumerate(space.inputs):
            if shape in last:
                self._neighbours.append((_bit(last[shape]), _bit(number)))
            last[shape] = number

    def first(self, ids: Sequence[Array]) -> Array:
        """Return which programs read the first inputs of each shape that they read: for each input
        of an operator, `ids` has the classes.
        """
        return self.are_first(self.bits(ids))

    def bits(self, ids: Sequence[Array]) -> Array:
        """Return the inputs that programs read, each a bit."""
        self._extend()
        read = self._bits[ids[0]]
        for position in ids[1:]:
            read = read | self._bits[position]
        return read

    def are_first(self, bits: Array) -> Array:
        result = np.ones(bits.shape, bool)
        for earlier, later in self._neighbours:
            result &= (bits & later == 0) | (bits & earlier != 0)
        return result

    def _extend(self) -> None:
        new = self.space.classes[len(self._bits) :]
        if new:
            bits = [sum([1 << leaf for leaf in one.leaves]) for one in new]
            self._bits = np.concatenate([self._bits, np.array(bits, np.uint64)])


def _bit(number: int) -> np.uint64:
    return np.uint64(1 << number)
