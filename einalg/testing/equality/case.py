"""A call of a function on some inputs, and the fault that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from einalg.errors import ShapeError, without_remedy
from einalg.language.ir.dtypes import is_float
from einalg.testing.equality.problem import Problem
from einalg.testing.input_values import PLAIN, in_layout, values
from einalg.testing.subject import Subject, as_array, as_arrays, fixed_random_numbers

Array = np.ndarray[Any, Any]
RAISES, CHANGES, NO_ARRAY = "raises an error", "changes an input", "returns no array"
SHAPE, TYPE, VALUES = "another shape", "another type", "other values"
RANDOM, STATE, OVERWRITES = "draws at random", "keeps state", "overwrites its result"
REPETITIONS = 6  # of a call that may draw few random numbers
SAME = 1e-4  # relative: what the order of threads may change in a result


@dataclass(frozen=True)
class ExpressionCase:
    """An expression and arrays for its inputs, in order, with their layouts in memory."""

    problem: Problem
    arrays: tuple[Array, ...]
    layouts: tuple[str, ...]

    @property
    def laid_out(self) -> list[Array]:
        """New arrays in their layouts."""
        return [in_layout(array, layout) for array, layout in zip(self.arrays, self.layouts)]

    def with_arrays(self, arrays: Sequence[Array]) -> ExpressionCase:
        """Return the same case with other values."""
        return replace(self, arrays=tuple(arrays))

    @property
    def in_order(self) -> ExpressionCase:
        """The same case with arrays as NumPy makes them."""
        return replace(self, layouts=(PLAIN,) * len(self.layouts))


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: its kind, and what it is about.

    `wrong` marks the elements of an output that differ by more than `allowed`.
    """

    kind: str
    output: str = ""
    expected: Any = None
    result: Any = None
    wrong: Any = field(default=None, repr=False)
    allowed: float = 0.0
    error: BaseException | None = None
    place: int = 0
    text: str = ""

    def is_like(self, other: Fault | None) -> bool:
        """Tell whether another fault is of the same kind."""
        if other is None or self.kind != other.kind:
            return False
        return type(self.error) is type(other.error)


@dataclass
class Judge:
    """The judgement of cases: by a tolerance that is given, or one that is derived.

    Where inputs have NaN or infinities, results have these just where the expression has them
    (`nonfinite="exact"`), or at other places too (`"spread"`).
    """

    subject: Subject
    tolerance: float | None = None
    nonfinite: str | None = None
    compared: int = 0  # elements so far

    def fault(self, case: ExpressionCase) -> Fault | None:
        """Return what is wrong in a case; None where nothing is."""
        problem = case.problem
        try:
            call = self.subject.call(case.laid_out, problem.dtypes)
        except Exception as error:  # of the user's function
            return Fault(RAISES, error=error)
        if call.changed is not None:
            place, array = call.changed
            return Fault(CHANGES, place=place, result=array)
        try:
            results = as_arrays(call.result, problem.outputs)
            arrays = [as_array(result) for result in results]
        except ShapeError as error:
            return Fault(NO_ARRAY, text=without_remedy(error))
        expected = problem.expected(case.arrays)
        for name, result in zip(problem.outputs, arrays):
            fault = self._fault_of(case, name, expected[name], result)
            if fault is not None:
                return fault
        return None

    def _fault_of(
        self, case: ExpressionCase, name: str, expected: Array, result: Array
    ) -> Fault | None:
        if expected.shape != result.shape:
            return Fault(SHAPE, name, expected, result)
        if not _is_of_kind(case.problem.dtype(name), expected, result):
            return Fault(TYPE, name, expected, result)
        wrong, allowed = self._compared(case, name, expected, result)
        if wrong.any():
            return Fault(VALUES, name, expected, result, wrong, allowed)
        return None

    def _compared(
        self, case: ExpressionCase, name: str, expected: Array, result: Array
    ) -> tuple[Array, float]:
        """Return which elements are wrong, and by how much the first of them may differ."""
        problem = case.problem
        if not is_float(problem.dtype(name)):
            counted = problem.is_representable(name, expected)
            self.compared += int(counted.sum())
            return np.not_equal(expected, result) & counted, 0.0
        exact = expected.astype(np.float64)
        with np.errstate(over="ignore"):
            wanted = exact.astype(result.dtype).astype(np.float64)
        result = result.astype(np.float64)
        counted = ~np.isnan(wanted)
        if problem.may_overflow:
            counted &= np.isfinite(exact)
        if self.nonfinite is not None and not _are_finite(case.arrays):
            misplaced = _misplaced(exact, wanted, result, self.nonfinite)
            if misplaced.any():
                return misplaced, 0.0
            self.compared += int((~np.isfinite(exact)).sum())
            counted &= np.isfinite(wanted) & np.isfinite(result)
        self.compared += int(counted.sum())
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = problem.relative_tolerance(name)
        with np.errstate(invalid="ignore"):
            distance = np.where(wanted == result, 0.0, np.abs(exact - result))
        distance = np.where(np.isnan(distance), np.inf, distance)
        sizes = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        wrong = counted & (distance > tolerance * sizes)
        if not wrong.any() or not tolerance:
            return wrong, 0.0
        with np.errstate(invalid="ignore"):
            common = min(float(sizes.max()), _largest(case.arrays))  # a fill is no measure
            scale = np.maximum(problem.scale(name, case.arrays), common)
            allowed = tolerance * np.maximum(sizes, scale)
        wrong &= distance > allowed + problem.floor(name)
        first = allowed[wrong][:1]
        return wrong, float(first[0]) if first.size else 0.0

    def unsteadiness(self, case: ExpressionCase) -> Fault | None:
        """Return a fault where the function returns something else when it is called again."""
        first = self._results(case)
        if first is None:
            return None
        copies = [np.array(array) for array in first]
        self._results(_of_ones(case))
        for before, now in zip(copies, first):
            if not _same(before, now):
                return Fault(OVERWRITES)
        again: list[Array] | None = None
        for _ in range(REPETITIONS):
            again = self._results(case)
            if again is None or not all(map(_same, copies, again)):
                break
        else:
            return None
        seeded: list[list[Array]] = []
        for _ in range(2):
            with fixed_random_numbers(0):
                seeded.append(self._results(case) or [])
        is_random = len(seeded[0]) == len(seeded[1]) and all(map(_same, *seeded))
        return Fault(RANDOM if is_random else STATE, expected=copies, result=again)

    def _results(self, case: ExpressionCase) -> list[Array] | None:
        """Return the results as arrays that may share memory with them; None without any."""
        try:
            call = self.subject.call(case.laid_out, case.problem.dtypes)
            results = as_arrays(call.result, case.problem.outputs)
            return [as_array(result) for result in results]
        except Exception:  # which the comparison of values tells
            return None


def _largest(arrays: Sequence[Array]) -> float:
    """Return the largest size of the floats of arrays."""
    largest = 0.0
    for array in arrays:
        if array.dtype.kind == "f" and array.size:
            sizes = np.abs(array[np.isfinite(array)])
            largest = max(largest, float(sizes.max(initial=0.0)))
    return largest


def _are_finite(arrays: Sequence[Array]) -> bool:
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")


def _misplaced(exact: Array, wanted: Array, result: Array, nonfinite: str) -> Array:
    """Return where a result is finite though it must not be, or the other way round.

    What is too large for the element type is neither.
    """
    swallowed = ~np.isfinite(exact) & np.isfinite(result)
    if nonfinite == "spread":
        return swallowed
    is_same = (np.isnan(exact) & np.isnan(result)) | (exact == result)
    return swallowed | (
        ~np.isfinite(result) & ~is_same & (np.isfinite(wanted) | ~np.isfinite(exact))
    )


def _of_ones(case: ExpressionCase) -> ExpressionCase:
    """Return a case with the same shapes and other values."""
    arrays = []
    for tensor, array in zip(case.problem.tensors, case.arrays):
        ones = values(tensor, "ones", 0)
        arrays.append(values(tensor, "zeros", 0) if np.array_equal(ones, array) else ones)
    return case.with_arrays(arrays)


def _same(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    finite = np.abs(one[np.isfinite(one)])
    near = SAME * float(finite.max(initial=0.0))
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol=SAME, atol=near, equal_nan=True))


def _is_of_kind(dtype: str, expected: Array, result: Array) -> bool:
    """Tell whether a result is of the kind of an element type: floats, or integers and truths.

    The extreme of no integer is an infinity, which only a float is.
    """
    if is_float(dtype):
        return result.dtype.kind == "f"
    return result.dtype.kind in "biu" or expected.dtype.kind == result.dtype.kind == "f"
