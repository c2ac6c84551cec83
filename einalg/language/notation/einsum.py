"""Einsum equations as expressions (design §4)."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any
from unicodedata import normalize

import sympy

from einalg.boundary import public
from einalg.errors import EinalgError, NotationError, ShapeError, underline
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.identifiers import CONSTANT_NAMES
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Indexable, describe
from einalg.language.notation.range_inference import build_scope

DOTS = "..."
SIGNS = "×÷"  # that opt_einsum counts among its letters, of which it has more than the alphabet
Range = tuple[int, int]


@public
def einsum(equation: str, *operands: Any) -> Scope:
    """Return the expression of an einsum equation over tensors or scopes: implicit output, repeated
    indices and `...` included.

    Axes that `...` stands for broadcast as in NumPy. Raises `NotationError` for a wrong equation,
    `ShapeError` where the operands do not fit it.

    >>> from einalg import tensor
    >>> einsum("nchw,fc->nfhw", tensor("A", (8, 3, 5, 5)), tensor("K", (4, 3))).shape
    (8, 4, 5, 5)
    """
    if not isinstance(equation, str):
        raise NotationError(
            f"einsum takes its equation as text first, not {equation!r}\n"
            "  einsum('ij,jk->ik', A, B)"
        )
    return _Equation("".join(equation.split())).scope(operands)


class _Equation:
    """An equation without spaces; its axes are named by letters, and by `.0`, `.1`, … where `...`
    stands.
    """

    def __init__(self, text: str):
        self.text = text
        left, self.arrow, self.right = text.partition("->")
        self.terms = left.split(",")
        for term in [*self.terms, self.right]:
            self.check_term(term)

    def check_term(self, term: str) -> None:
        for character in term.replace(DOTS, "", 1):
            if not (character.isalpha() or character in SIGNS):
                place = term if character == "." else character
                raise self.error(
                    place,
                    f"{character!r} cannot stand in a term of an einsum\n"
                    "  a term has letters, and '...' once at most: 'ij,jk->ik'",
                )

    def error(
        self, place: str, message: str, kind: type[EinalgError] = NotationError
    ) -> EinalgError:
        """Return an error with the first occurrence of `place` underlined."""
        return self.error_at(self.text.find(place), place, message, kind)

    def output_error(self, place: str, message: str) -> EinalgError:
        """Return an error with the last occurrence of `place` underlined, which is the output's."""
        return self.error_at(self.text.rfind(place), place, message, NotationError)

    def error_at(
        self, column: int, place: str, message: str, kind: type[EinalgError]
    ) -> EinalgError:
        return kind(message).below(underline(self.text, max(column, 0), len(place)))

    def scope(self, operands: tuple[Any, ...]) -> Scope:
        if len(operands) != len(self.terms):
            raise self.error(
                self.text.partition("->")[0],
                f"the equation has {len(self.terms)} terms, and {len(operands)} operands are "
                "given\n  give one operand a term, after the equation",
            )
        ranks = [self.rank_of_dots(term, operand) for term, operand in zip(self.terms, operands)]
        dots = max(ranks)
        names = [_axes(term, rank, dots) for term, rank in zip(self.terms, ranks)]
        output = self.output(names, dots)
        ranges = self.ranges(names, operands)
        self.check_output(output, ranges)
        return _scope(names, output, ranges, operands)

    def check_output(self, output: list[str], ranges: dict[str, Range]) -> None:
        for name in output:
            if name not in ranges:
                raise self.output_error(
                    name,
                    f"output index {name!r} is in no operand\n"
                    f"  leave it out, or name an axis {name!r}",
                )
        for name in output:
            if output.count(name) > 1:
                raise self.output_error(
                    name,
                    f"output index {name!r} is repeated\n  name every axis of the result once",
                )

    def rank_of_dots(self, term: str, operand: Any) -> int:
        """Return how many axes `...` stands for in a term."""
        if not isinstance(operand, Indexable):
            raise NotationError(
                f"einsum takes tensors or scopes, not {type(operand).__name__}\n"
                "  make a tensor: ea.tensor('A', (8, 3))"
            )
        letters = len(term.replace(DOTS, ""))
        rank = operand.rank - letters
        if rank < 0 or (rank and DOTS not in term):
            raise self.error(
                term,
                f"the term {term!r} names {letters} axes, and {describe(operand)} has "
                f"{operand.rank}\n  name every axis once, or the rest by '...'",
                ShapeError,
            )
        return rank

    def output(self, names: list[list[str]], dots: int) -> list[str]:
        """Return the axes of the result; without `->` those of `...`, then the letters that occur
        once, in alphabetical order.
        """
        if not self.arrow:
            occurrences = Counter(chain.from_iterable(names))
            once = [n for n, count in occurrences.items() if count == 1 and n[0] != "."]
            return _dotted(0, dots) + sorted(once)
        if dots and DOTS not in self.right:
            raise self.output_error(
                self.right or "->",
                "the axes that '...' stands for are not in the output\n  write '...' there too",
            )
        return _axes(self.right, dots, dots)

    def ranges(self, names: list[list[str]], operands: tuple[Any, ...]) -> dict[str, Range]:
        """Return the range of every axis, which all operands agree on or broadcast to."""
        ranges: dict[str, Range] = {}
        sources: dict[str, str] = {}
        for axes, operand in zip(names, operands):
            for position, (name, box) in enumerate(zip(axes, operand.box)):
                source = f"{describe(operand)} axis {position}"
                known = ranges.get(name)
                if known is None:
                    known = box
                broadcasts = name[0] == "." and 1 in (_size(known), _size(box))
                if known != box and not broadcasts:
                    raise self.two_sizes(name, known, sources[name], box, source)
                if name not in ranges or _size(known) == 1 != _size(box):
                    ranges[name], sources[name] = box, source
        return ranges

    def two_sizes(
        self, name: str, first: Range, first_source: str, second: Range, second_source: str
    ) -> EinalgError:
        letter = DOTS if name[0] == "." else name
        message = (
            f"index {letter!r} has two sizes: {_range_text(first, second)} ({first_source}) and "
            f"{_range_text(second, first)} ({second_source})\n"
            "  use two letters, or tensors of one size"
        )
        return self.error(letter, message, ShapeError)


def _size(box: Range) -> int:
    return box[1] - box[0]


def _range_text(box: Range, other: Range) -> str:
    """Return a range as text beside another one: its size, where both start at 0."""
    if box[0] == other[0] == 0:
        return str(box[1])
    return f"[{box[0]},{box[1]})"


def _axes(term: str, rank: int, dots: int) -> list[str]:
    """Return the axes of a term in which `...` stands for the last `rank` of `dots` axes."""
    before, separator, after = term.partition(DOTS)
    dotted = _dotted(dots - rank, dots) if separator else []
    return [*before, *dotted, *after]


def _dotted(first: int, last: int) -> list[str]:
    return [f".{position}" for position in range(first, last)]


def _scope(
    names: list[list[str]],
    output: list[str],
    ranges: dict[str, Range],
    operands: tuple[Any, ...],
) -> Scope:
    indices = {name: Index(_index_name(name)) for name in ranges}
    body: Any = sympy.S.One
    for axes, operand in zip(names, operands):
        subscripts = []
        for name, box in zip(axes, operand.box):
            subscripts.append(_subscript(indices[name], box, ranges[name]))
        body = body * operand[tuple(subscripts)]
    iterators = {name: LoopIndex(indices[name], *ranges[name]) for name in ranges}
    summed = [it for name, it in iterators.items() if name not in output]
    if summed:
        body = Reduce("Sum", summed, None, body)
    return build_scope([iterators[name] for name in output], body)


def _index_name(axis: str) -> str:
    """Return the name of the index of an axis: `e0` for `.0`, `E_` for a constant's name `E`.

    What is no name in Python, or is read as another one there, is named by its number.
    """
    if axis[0] == ".":
        return f"e{axis[1:]}"
    if not axis.isidentifier() or normalize("NFKC", axis) != axis:
        return f"x{ord(axis)}"
    if axis in CONSTANT_NAMES:
        return f"{axis}_"
    return axis


def _subscript(index: Index, box: Range, full: Range) -> Affine:
    """Return the subscript of an axis, which is broadcast where its range is not the whole one."""
    return affine(index if box == full else box[0])
