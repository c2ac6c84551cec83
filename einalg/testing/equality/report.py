"""The message of a fault: at which point, by which formula, on which inputs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from einalg.errors import EinalgError
from einalg.language.ir.dtypes import is_float
from einalg.testing.equality import case as kinds
from einalg.testing.equality.case import ExpressionCase, Fault
from einalg.testing.equality.code_text import assignment, number
from einalg.testing.equality.formula import array_index, formula, reads
from einalg.testing.equality.problem import Problem
from einalg.testing.equality.search import Finding
from einalg.testing.input_values import PLAIN
from einalg.testing.subject import NUMPY, Subject
from einalg.text.wording import counted

WIDTH = 78
MAX_FORMULA_LINES = 4
MAX_READS = 6
NEAR = 1000  # times what rounding explains, up to which that is told
MAX_SUPERFLUOUS = 3  # elements that the formula does not read
MAX_SHOWN_ELEMENTS = 40
MAX_AXES = 5  # of which all orders are tried
SMALL_DIFFERENCE = 1e-2  # relative: not a wrong formula, it seems
_KINDS = {"i": "integers", "u": "integers", "b": "truth values", "f": "real numbers"}
_KINDS["c"] = "complex numbers"
UNSTEADY = (kinds.RANDOM, kinds.STATE, kinds.OVERWRITES)
Array = np.ndarray[Any, Any]


class UnequalError(EinalgError, AssertionError):
    """A function differs from an expression.

    `arrays` are the smallest inputs by name, `output` and `point` say where they differ, `expected`
    and `returned` are the whole outputs; these are None where the function has no result.
    """

    arrays: dict[str, Array]
    output: str
    point: tuple[int, ...] | None
    expected: Array | None
    returned: Array | None
    remedy = "mend the function, or the expression"


UnequalError.__module__ = "einalg.testing"  # as a traceback names it


@dataclass(frozen=True)
class DifferenceReport:
    """A finding as a person reads it; `of_all` says how to find it again, `proof` what is known
    besides.
    """

    subject: Subject
    finding: Finding
    of_all: tuple[str, ...]
    proof: str = ""

    @property
    def case(self) -> ExpressionCase:
        """The case at fault."""
        return self.finding.case

    @property
    def fault(self) -> Fault:
        """The fault."""
        return self.finding.fault

    @property
    def problem(self) -> Problem:
        """The expression at the shapes of the case."""
        return self.case.problem

    def error(self) -> UnequalError:
        """Return the error that says it."""
        error = UnequalError(str(self))
        error.arrays = dict(zip(self.problem.order, self.case.laid_out))
        error.output, error.point = self.fault.output, self._point
        error.expected, error.returned = self.fault.expected, self.fault.result
        return error

    @property
    def _point(self) -> tuple[int, ...] | None:
        """The first element that is wrong."""
        if self.fault.kind != kinds.VALUES:
            return None
        return tuple(map(int, np.argwhere(self.fault.wrong)[0])) if self.fault.wrong.ndim else ()

    def __str__(self) -> str:
        parts = [[self._headline()], self._at_the_point(), self._hints(), self._inputs()]
        parts.append(["  " + line for line in self.of_all])
        return "\n\n".join("\n".join(part) for part in parts if part)

    def _headline(self) -> str:
        name, fault = self.subject.name, self.fault
        output = f" as {fault.output}" if len(self.problem.outputs) > 1 else ""
        if fault.kind == kinds.VALUES:
            wrong, size = int(fault.wrong.sum()), fault.wrong.size
            extent = f"in {wrong} of {size} elements" if size > 1 else "in its only element"
            return f"{name} differs from the expected expression{output}, {extent}"
        if fault.kind == kinds.SHAPE:
            shapes = f"shape {fault.result.shape}, and {fault.expected.shape} is expected"
            return f"{name} returns{output} an array of {shapes}"
        if fault.kind == kinds.TYPE:
            dtype = self.problem.dtype(fault.output)
            returned = f"{_KINDS[fault.result.dtype.kind]} ({fault.result.dtype})"
            return f"{name} returns{output} {returned}, and {_dtype_words(dtype)} are expected"
        if fault.kind == kinds.RAISES:
            text = " ".join(str(fault.error).split())
            return "\n".join(_block(f"{name} raises {type(fault.error).__name__}: {text}", "", 4))
        if fault.kind == kinds.CHANGES:
            return f"{name} changes its input {self.problem.order[fault.place]} in place"
        if fault.kind == kinds.NO_ARRAY:
            return f"{name} has no result that can be compared: {fault.text}"
        return f"{name} {_UNSTEADY_WORDS[fault.kind]}"

    def _at_the_point(self) -> list[str]:
        point, fault = self._point, self.fault
        if fault.kind == kinds.CHANGES:
            return [self._change()]
        if point is None:
            return []
        place = ", ".join(map(str, point))
        expected, result = number(fault.expected[point]), number(fault.result[point])
        where = f"at [{place}]: " if point else ""
        line = f"  {where}expected {expected}, returned {result}"
        difference = abs(float(fault.expected[point]) - float(fault.result[point]))
        if difference < NEAR * fault.allowed:
            line += f"   (rounding explains {fault.allowed:.1e})"
        lines = [line, ""]
        first, *others = formula(self.problem.program, fault.output, point)
        lines += _block(first, "  ", MAX_FORMULA_LINES)
        for other in others[:MAX_FORMULA_LINES]:
            lines += _block(other, "    ", 2)
        lines += _block(f"reads {self._reads(point)}", "    ", MAX_FORMULA_LINES)
        return lines

    def _reads(self, point: tuple[int, ...]) -> str:
        element_reads = reads(self.problem.program, self.fault.output, point)
        arrays = dict(zip(self.problem.order, self.case.arrays))
        parts: list[str] = []
        zeros = others = 0
        elements = [(name, place) for name, place in element_reads.elements if name in arrays]
        elements.sort(key=lambda element: self.problem.order.index(element[0]))
        for name, place in elements:
            value = arrays[name][array_index(self.problem.program.inputs[name], place)]
            is_left_out = value == 0 and len(elements) > MAX_READS
            if len(parts) < MAX_READS and not is_left_out:
                parts.append(f"{name}[{', '.join(map(str, place))}] = {number(value)}")
            elif value == 0:
                zeros += 1
            else:
                others += 1
        if others:
            parts.append(counted(others, "other element"))
        if zeros:
            parts.append(counted(zeros, "zero"))
        if element_reads.padding:
            parts.append(f"{counted(element_reads.padding, 'place')} of padding")
        if len(parts) > 1:
            parts[-2:] = [f"{parts[-2]} and {parts[-1]}"]
        return ", ".join(parts) or "nothing"

    def _change(self) -> str:
        before, after = self.case.arrays[self.fault.place], self.fault.result
        name = self.problem.order[self.fault.place]
        place = tuple(map(int, np.argwhere(before != after)[0])) if before.ndim else ()
        index = f"[{', '.join(map(str, place))}]" if place else ""
        was, now = number(before[place]), number(after[place])
        return f"  {name}{index} was {was}, and is {now} after the call"

    def _hints(self) -> list[str]:
        return [line for hint in self._all_hints() for line in _block(hint, "  ", 4)]

    def _all_hints(self) -> Iterator[str]:
        fault = self.fault
        if self.proof:
            yield self.proof
        if fault.kind in (kinds.VALUES, kinds.SHAPE):
            first = self.finding.first
            yield from _transposition(first.expected, first.result)
        if fault.kind == kinds.VALUES:
            yield from self._hints_of_values()
        if fault.kind == kinds.RAISES:
            yield from self._hints_of_error()
        if fault.kind in _REMEDIES:
            yield _REMEDIES[fault.kind]
        if any(layout != PLAIN for layout in self.case.layouts):
            yield "Only where an input is not contiguous in memory."

    def _hints_of_error(self) -> Iterator[str]:
        name, names = self.subject.name, self.problem.order
        if not isinstance(self.fault.error, (TypeError, AttributeError)):
            return
        if not names:
            yield "It was called without arguments, for the expression reads no input."
        elif self.subject.library == NUMPY:
            example = f"def {name}({names[0]}: torch.Tensor)"
            yield f"It was called with NumPy arrays. If it takes tensors, say so: {example}."

    def _hints_of_values(self) -> Iterator[str]:
        fault, point = self.fault, self._point
        assert point is not None
        yield from self._superfluous_reads(point)
        expected, result = fault.expected[point], fault.result[point]
        if fault.result.dtype.kind in "iu":
            yield from _wrapping(int(expected), fault.result.dtype)
        if fault.result.dtype.kind != "f":
            return
        difference = abs(expected - result)
        if not np.isfinite(result):
            yield "A number on the way is too large for its type, or 0 is divided by 0."
        elif difference < SMALL_DIFFERENCE * abs(expected):
            yield (
                "The difference is small, but more than rounding in "
                f"{self.problem.dtype(fault.output)} explains; results of type "
                f"{fault.result.dtype} were returned. If it is meant, allow it: "
                f"tolerance={_rounded_up(difference / abs(expected))}."
            )

    def _superfluous_reads(self, point: tuple[int, ...]) -> Iterator[str]:
        """Say which elements have an effect though the formula does not read them: of the smallest
        inputs, those that are not 0.
        """
        element_reads = reads(self.problem.program, self.fault.output, point)
        if not element_reads.is_whole:
            return
        others: list[str] = []
        for name, array in zip(self.problem.order, self.case.arrays):
            lows = [low for low, _ in self.problem.program.inputs[name].box]
            for position in np.argwhere(array != 0).tolist():
                place = tuple([p + low for p, low in zip(position, lows)])
                if (name, place) not in element_reads.elements:
                    others.append(f"{name}[{', '.join(map(str, place))}]")
        if 0 < len(others) <= MAX_SUPERFLUOUS:
            yield f"{self.subject.name} reads {' and '.join(others)} as well, it seems."

    def _inputs(self) -> list[str]:
        names = self.problem.order
        title = "The smallest inputs that show it:"
        if self.fault.kind in UNSTEADY:
            title = "For example with these inputs:"
        lines = [title, ""] if names else []
        for name, array, layout in zip(names, self.case.arrays, self.case.layouts):
            lines += ["  " + line for line in assignment(name, array, layout, self.subject.library)]
        lines.append(f"  {self.subject.call_text(names)}")
        fault = self.fault
        if fault.kind in (kinds.VALUES, kinds.SHAPE, kinds.TYPE):
            lines += _commented("expected", fault.expected)
            lines += _commented("returned", fault.result)
        return lines


_UNSTEADY_WORDS = {
    kinds.RANDOM: "returns something else each time: it draws random numbers",
    kinds.STATE: "returns something else when it is called again: it keeps state",
    kinds.OVERWRITES: "changes its earlier result when it is called again",
}
_REMEDIES = {
    kinds.RANDOM: (
        "With the generators of Python, NumPy and torch set to a seed it returns the same. Set the "
        "seed inside, pass a generator, or call .eval() on a torch module."
    ),
    kinds.STATE: (
        "The same inputs have to give the same result. Make a new object for each call: "
        "assert_equal(lambda x: Layer()(x), …)."
    ),
    kinds.OVERWRITES: "It returns memory that it uses again: return a copy.",
    kinds.CHANGES: "Compute on a copy: the caller's array is overwritten otherwise.",
    kinds.NO_ARRAY: "Return an array, or a tuple of them for several outputs.",
}


def _dtype_words(dtype: str) -> str:
    """Return an element type in words.

    >>> _dtype_words("u8"), _dtype_words("bf16")
    ('integers (u8)', 'real numbers (bf16)')
    """
    if dtype == "bool":
        return "truth values (bool)"
    return f"real numbers ({dtype})" if is_float(dtype) else f"integers ({dtype})"


def _block(text: str, indent: str, most: int) -> list[str]:
    """Return a text in lines of the width of a page, of a long one the first."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=True
    )
    if len(lines) > most:
        lines = [*lines[:most], f"{indent}…"]
    return lines


def _commented(title: str, array: Array) -> list[str]:
    """Return an array as a comment; of a large one only its shape and type."""
    if array.size > MAX_SHOWN_ELEMENTS:
        return [f"  # {title}: shape {array.shape}, {array.dtype}"]
    text = np.array2string(array, max_line_width=WIDTH - 6, precision=8, floatmode="maxprec")
    if "\n" not in text:
        return [f"  # {title}: {text}"]
    return [f"  # {title}:", *(f"  #   {line}" for line in text.splitlines() if line.strip())]


def _transposition(expected: Array, result: Array) -> Iterator[str]:
    """Say so where a result is right but for the order of its axes."""
    if not 2 <= expected.ndim == result.ndim <= MAX_AXES or expected.size < 2:
        return
    for axes in permutations(range(expected.ndim)):
        turned = result.transpose(axes)
        if list(axes) == sorted(axes) or turned.shape != expected.shape:
            continue
        if np.allclose(turned, expected, rtol=1e-4, equal_nan=True) and expected.any():
            yield f"It is the expected array with its axes in another order: .transpose{axes}."
            return


def _wrapping(expected: int, dtype: Any) -> Iterator[str]:
    limits = np.iinfo(dtype)
    if not limits.min <= expected <= limits.max:
        yield (
            f"{dtype} holds {limits.min} to {limits.max}, and the result wraps round: compute in a "
            "wider type."
        )


def _rounded_up(value: float) -> str:
    """Return a number of one digit that is above another one."""
    return f"{1.5 * value:.0e}"
