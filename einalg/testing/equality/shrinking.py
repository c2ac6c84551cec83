"""The smallest case of a fault: arrays as NumPy makes them, the smallest shapes, then few elements
that are not 0, and these small whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einalg.language.ir.dtypes import is_float
from einalg.testing.equality.case import VALUES, ExpressionCase, Fault, Judge
from einalg.testing.equality.formula import array_index, reads
from einalg.testing.equality.problem import Problem
from einalg.testing.equality.search import Deadline, Finding
from einalg.testing.equality.world import World
from einalg.testing.input_values import kinds, values

SECONDS = 4.0
TRIES = 6  # of inputs at each shape
Array = np.ndarray[Any, Any]


@dataclass
class Shrinking:
    """A case at fault that becomes smaller, as long as there is time."""

    world: World
    judge: Judge
    case: ExpressionCase
    fault: Fault
    _deadline: Deadline = field(default_factory=lambda: Deadline(SECONDS))

    @property
    def _is_over(self) -> bool:
        return self._deadline.is_over

    def run(self) -> None:
        """Make the case smaller."""
        self._take(self.case.in_order)
        self._shrink_shapes()
        self._shrink_values()

    def _take(self, case: ExpressionCase) -> bool:
        """Take a case that shows the same fault; tell whether it does."""
        fault = self.judge.fault(case)
        if fault is None or not self.fault.is_like(fault):
            return False
        self.case, self.fault = case, fault
        return True

    def _shrink_shapes(self) -> None:
        layouts = self.case.layouts
        for problem in self.world.smaller(self.case.problem):
            for arrays in self._inputs(problem):
                if self._is_over:
                    return
                if self._take(ExpressionCase(problem, arrays, layouts)):
                    return

    def _inputs(self, problem: Problem) -> Iterator[tuple[Array, ...]]:
        """Yield inputs for other shapes: corners of those at fault, ones, zeros, random numbers."""
        pairs = list(zip(self.case.arrays, problem.tensors))
        if all(_holds(array.shape, tensor.shape) for array, tensor in pairs):
            for is_last in (False, True):
                yield tuple([_corner(array, tensor.shape, is_last) for array, tensor in pairs])
        for kind in ("ones", "zeros"):
            yield tuple([values(tensor, kind, 0) for tensor in problem.tensors])
        for seed in range(TRIES):
            arrays = []
            for place, tensor in enumerate(problem.tensors):
                own = kinds(tensor.dtype)
                kind = own[seed % 2] if is_float(tensor.dtype) else own[0]
                arrays.append(values(tensor, kind, TRIES * place + seed))
            yield tuple(arrays)

    def _clear_by_formula(self) -> None:
        """Make 0 what the formula of a wrong element reads, of each input, so that what it does not
        read tells; where that hides the fault, what it does not read.
        """
        if self.fault.kind != VALUES or not self.fault.wrong.ndim:
            return
        program, order = self.case.problem.program, self.case.problem.order
        point = np.argwhere(self.fault.wrong)[0].tolist()
        element_reads = reads(program, self.fault.output, point)
        if not element_reads.is_whole:
            return
        masks = [np.zeros(array.shape, bool) for array in self.case.arrays]
        for name, place in element_reads.elements:
            if name in order:
                masks[order.index(name)][array_index(program.inputs[name], place)] = True
        for place, is_read in enumerate(masks):
            array = self.case.arrays[place]
            if not self._try_array(place, np.where(is_read, 0, array)):
                self._try_array(place, np.where(is_read, array, 0))

    def _shrink_values(self) -> None:
        places = range(len(self.case.arrays))
        self._clear_by_formula()
        for place in places:
            self._clear(place)
        for simpler in (np.ones_like, np.sign, np.trunc):
            for place in places:
                array = self.case.arrays[place]
                if array.dtype.kind != "b":
                    self._try_array(place, np.where(array != 0, simpler(array), array))
        for place in places:
            self._simplify_elements(place)
        for place in places:  # some became superfluous
            self._clear(place)

    def _try_array(self, place: int, array: Array) -> bool:
        if self._is_over:
            return False
        before = self.case.arrays[place]
        array = array.astype(before.dtype)
        if array.tobytes() == before.tobytes():
            return False
        arrays = list(self.case.arrays)
        arrays[place] = array
        return self._take(self.case.with_arrays(arrays))

    def _clear(self, place: int) -> None:
        """Make as many elements 0 as can be, in blocks that become smaller."""
        array = self.case.arrays[place]
        if self._try_array(place, np.zeros_like(array)):
            return
        positions = np.flatnonzero(array)
        block = max(1, len(positions) // 2)
        while not self._is_over:
            for start in range(0, len(positions), block):
                changed = self.case.arrays[place].copy()
                changed.reshape(-1)[positions[start : start + block]] = 0
                self._try_array(place, changed)
            if block == 1:
                return
            block //= 2

    def _simplify_elements(self, place: int) -> None:
        for position in np.flatnonzero(self.case.arrays[place]):
            for number in _simpler_numbers(self.case.arrays[place].reshape(-1)[position]):
                if self._is_over:
                    return
                changed = self.case.arrays[place].copy()
                changed.reshape(-1)[position] = number
                if self._try_array(place, changed):
                    break
            self._bisect(place, int(position))

    def _bisect(self, place: int, position: int) -> None:
        """Make a large number as near to 0 as can be."""
        number = self.case.arrays[place].reshape(-1)[position]
        if not np.isfinite(number):
            return
        sign, large = (-1 if number < 0 else 1), int(abs(float(number)))
        small = 0
        while large - small > 1 and not self._is_over:
            middle = (small + large) // 2
            changed = self.case.arrays[place].copy()
            changed.reshape(-1)[position] = sign * middle
            if self._try_array(place, changed):
                large = middle
            else:
                small = middle


def _holds(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether an array of a shape has a corner of another shape."""
    return len(shape) == len(other) and all(one >= two for one, two in zip(shape, other))


def _corner(array: Array, shape: tuple[int, ...], is_last: bool) -> Array:
    """Return the first or the last elements along every axis."""
    part = []
    for size, old in zip(shape, array.shape):
        start = old - size if is_last else 0
        part.append(slice(start, start + size))
    return np.array(array[tuple(part)])


def _simpler_numbers(number: Any) -> list[Any]:
    """Return the numbers that are tried in the place of one, the simplest first."""
    if isinstance(number, np.bool_) or not np.isfinite(number):
        return []
    sign = -1 if number < 0 else 1
    candidates = [1, sign, 2, 2 * sign, abs(int(number)), int(number)]
    if isinstance(number, np.floating):
        candidates += [type(number)(0.1), type(number)(0.3)]
    simpler: list[Any] = []
    for candidate in candidates:
        fits = candidate >= 0 or not isinstance(number, np.unsignedinteger)
        if candidate == number:
            break
        if fits and candidate not in simpler:
            simpler.append(candidate)
    return simpler


def smallest(finding: Finding, world: World, judge: Judge) -> Finding:
    """Return the smallest case of a fault that can be found in some seconds."""
    shrinking = Shrinking(world, judge, finding.case, finding.fault)
    shrinking.run()
    return finding.simpler(shrinking.case, shrinking.fault)
