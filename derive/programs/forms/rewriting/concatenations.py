"""Concatenations of many parts with two neighbours apart: rules of files join two at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from einalg.frontends.graph import unique_name
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor


@dataclass(frozen=True)
class _JoinedTensor:
    """A tensor that is read in a concatenation, the axis of it that is joined, and where it begins
    along that axis of the result.
    """

    read: Access
    axis: int
    start: int

    @property
    def extent(self) -> int:
        return self.read.tensor.shape[self.axis]

    def moved(self, iterator: LoopIndex, start: int) -> Access:
        """Return the part as it begins elsewhere, in a result with another range of an axis."""
        amounts: list[Any] = [(0, 0)] * self.read.tensor.rank
        amounts[self.axis] = (start, iterator.extent - start - self.extent)
        subscripts = list(self.read.subscripts)
        subscripts[self.axis] = affine(iterator.index - start)
        return Access.of(Padded(self.read.tensor, amounts), tuple(subscripts))


def with_neighbours_apart(program: Program) -> Iterator[tuple[Program, str]]:
    """Yield a program in which two neighbours of a concatenation of more are one of their own,
    with the name of that.

    >>> import einalg as ea
    >>> A, B, C = (ea.tensor(name, (size,)) for name, size in (("A", 2), ("B", 3), ("C", 4)))
    >>> program = ea.language.ir.program.as_program(ea.ops.concat([A, B, C]))
    >>> for other, name in with_neighbours_apart(program):
    ...     print(other)
    O_0[i:5] = A.pad((0, 3))[i] + B.pad((2, 0))[i - 2]
    O[i:9] = C.pad((5, 0))[i - 5] + O_0.pad((0, 4))[i]
    O_1[i:7] = B.pad((0, 4))[i] + C.pad((3, 0))[i - 3]
    O[i:9] = A.pad((0, 7))[i] + O_1.pad((2, 0))[i - 2]
    """
    for name, scope in program.statements:
        for place in range(scope.rank):
            parts = _parts(scope, place)
            for number in range(len(parts) - 1 if len(parts) > 2 else 0):
                used = {*program.names, *program.tensors}
                label = unique_name(f"{name}_{number}", used)
                yield _with_apart(program, name, place, parts, number, label), label


def _parts(scope: Scope, place: int) -> list[_JoinedTensor]:
    """Return the parts of a statement that is their concatenation along an axis, in order; none of
    any other.
    """
    if scope.where or not isinstance(scope.body, sympy.Add):
        return []
    iterator = scope.iterators[place]
    parts = []
    for term in scope.body.args:
        part = _part(term, iterator)
        if part is None:
            return []
        parts.append(part)
    parts.sort(key=lambda part: part.start)
    end = 0
    for part in parts:
        if part.start != end:
            return []
        end += part.extent
    return parts if (0, end) == (iterator.low, iterator.high) else []


def _part(term: Any, iterator: LoopIndex) -> _JoinedTensor | None:
    """Return what a term of a concatenation reads; None where it is none."""
    if not isinstance(term, Access) or not isinstance(term.base, Padded) or term.base.fill != 0:
        return None
    if not isinstance(term.base.base, Tensor):
        return None
    axes = [axis for axis, sub in enumerate(term.subscripts) if iterator.index in sub.indices]
    if len(axes) != 1:
        return None
    part = _JoinedTensor(term, axes[0], affine(iterator.index - term.subscripts[axes[0]]).const)
    return part if part.moved(iterator, part.start) == term else None


def _with_apart(
    program: Program, name: str, place: int, parts: Sequence[_JoinedTensor], number: int, label: str
) -> Program:
    """Return a program in which a part and its neighbour are a statement, which is read instead."""
    scope = program[name]
    one, two = parts[number], parts[number + 1]
    iterators = list(scope.iterators)
    joined = LoopIndex(iterators[place].index, 0, one.extent + two.extent)
    iterators[place] = joined
    body = sympy.Add(one.moved(joined, 0), two.moved(joined, one.extent))
    inner = Scope(iterators, (), body)
    result = statement_tensor(label, inner)
    read = _JoinedTensor(result[tuple(scope.indices)], place, one.start)
    others = [part.read for part in parts if part not in (one, two)]
    outer = Scope(
        scope.iterators, (), sympy.Add(*others, read.moved(scope.iterators[place], one.start))
    )
    statements = []
    for other, old in program.statements:
        if other == name:
            statements += [(label, inner), (name, outer)]
        else:
            statements.append((other, old))
    return Program(statements, program.outputs)
