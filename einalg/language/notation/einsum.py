"""Einsum text as an expression (design §4)."""

from __future__ import annotations

from typing import Any

import sympy

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


def einsum(equation: str, *operands: Any) -> Scope:
    """The expression of an einsum equation over tensors or scopes: implicit output, repeated
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
            letters = term.replace(DOTS, "", 1)
            wrong = next((c for c in letters if not (c.isascii() and c.isalpha())), None)
            if wrong is not None:
                message = (
                    f"{wrong!r} cannot stand in a term of an einsum\n"
                    "  a term has letters, and '...' once at most: 'ij,jk->ik'"
                )
                raise self.error(wrong if wrong != "." else term, message)

    def error(
        self, place: str, message: str, kind: type[EinalgError] = NotationError, last: bool = False
    ) -> EinalgError:
        column = self.text.rfind(place) if last else self.text.find(place)
        return kind(message).below(underline(self.text, max(column, 0), len(place)))

    def scope(self, operands: tuple[Any, ...]) -> Scope:
        if len(operands) != len(self.terms):
            message = (
                f"the equation has {len(self.terms)} terms, and {len(operands)} operands are "
                "given\n"
                "  give one operand a term, after the equation"
            )
            raise self.error(self.text.partition("->")[0], message)
        ranks = [self.rank_of_dots(term, operand) for term, operand in zip(self.terms, operands)]
        dots = max(ranks)
        names = [_axes(term, rank, dots) for term, rank in zip(self.terms, ranks)]
        out = self.output(names, dots)
        ranges = self.ranges(names, operands)
        missing = next((n for n in out if n not in ranges), None)
        if missing is not None:
            raise self.error(
                missing,
                (
                    f"output index {missing!r} is in no operand\n"
                    f"  leave it out, or name an axis {missing!r}"
                ),
                last=True,
            )
        twice = next((n for n in out if out.count(n) > 1), None)
        if twice is not None:
            raise self.error(
                twice,
                f"output index {twice!r} is repeated\n  name every axis of the result once",
                last=True,
            )
        return _scope(names, out, ranges, operands)

    def rank_of_dots(self, term: str, operand: Any) -> int:
        """How many axes `...` stands for in a term."""
        if not isinstance(operand, Indexable):
            raise NotationError(
                f"einsum takes tensors or scopes, not {type(operand).__name__}\n"
                "  make a tensor: ea.tensor('A', (8, 3))"
            )
        letters = len(term.replace(DOTS, ""))
        rank = operand.rank - letters
        if rank < 0 or rank and DOTS not in term:
            message = (
                f"the term {term!r} names {letters} axes, and {describe(operand)} has "
                f"{operand.rank}\n"
                "  name every axis once, or the rest by '...'"
            )
            raise self.error(term, message, ShapeError)
        return rank

    def output(self, names: list[list[str]], dots: int) -> list[str]:
        if not self.arrow:
            flat = [n for axes in names for n in axes if n[0] != "."]
            return [
                *(f".{k}" for k in range(dots)),
                *sorted(n for n in set(flat) if flat.count(n) == 1),
            ]
        if dots and DOTS not in self.right:
            raise self.error(
                self.right or "->",
                "the axes that '...' stands for are not in the output\n  write '...' there too",
                last=True,
            )
        return _axes(self.right, dots, dots)

    def ranges(
        self, names: list[list[str]], operands: tuple[Any, ...]
    ) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        sources: dict[str, str] = {}
        for axes, operand in zip(names, operands):
            for position, (name, box) in enumerate(zip(axes, operand.box)):
                known: tuple[int, int] = found.get(name, box)  # pyright: ignore[reportAssignmentType]
                source = f"{describe(operand)} axis {position}"
                broadcasts = name[0] == "." and 1 in (_size(known), _size(box))
                if known != box and not broadcasts:
                    one, two = _shown(known, box), _shown(box, known)
                    shown = DOTS if name[0] == "." else name
                    message = (
                        f"index {shown!r} has two sizes: {one} ({sources[name]}) and {two} "
                        f"({source})\n"
                        "  use two letters, or tensors of one size"
                    )
                    raise self.error(shown, message, ShapeError)
                if name not in found or _size(known) == 1 != _size(box):
                    found[name], sources[name] = box, source
        return found


def _size(box: tuple[int, int]) -> int:
    return box[1] - box[0]


def _shown(box: tuple[int, int], other: tuple[int, int]) -> str:
    return str(box[1]) if box[0] == other[0] == 0 else f"[{box[0]},{box[1]})"


def _axes(term: str, rank: int, dots: int) -> list[str]:
    before, found, after = term.partition(DOTS)
    return [*before, *(f".{k}" for k in range(dots - rank, dots) if found), *after]


def _scope(
    names: list[list[str]],
    out: list[str],
    ranges: dict[str, tuple[int, int]],
    operands: tuple[Any, ...],
) -> Scope:
    letters = {
        n: Index(f"e{n[1:]}" if n[0] == "." else f"{n}_" if n in CONSTANT_NAMES else n)
        for n in ranges
    }
    body: Any = sympy.S.One
    for axes, operand in zip(names, operands):
        body = (
            body
            * operand[
                tuple(_subscript(letters[n], box, ranges[n]) for n, box in zip(axes, operand.box))
            ]
        )
    summed = [LoopIndex(letters[n], *ranges[n]) for n in ranges if n not in out]
    body = Reduce("Sum", summed, None, body) if summed else body
    return build_scope([LoopIndex(letters[n], *ranges[n]) for n in out], body)


def _subscript(index: Index, box: tuple[int, int], full: tuple[int, int]) -> Affine:
    return affine(index) if box == full else affine(box[0])
