"""Parts of statements that nothing reads, which are not computed.

A network that answers from the last row of a sequence, or from every other pixel, needs no more of
the layers before. What they read shrinks with them, up to the first one of which all is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from derive.rewriting.body_queries import (
    Ranges,
    ReadContext,
    is_empty,
    reads,
    substitute_conditions,
)
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Affine, Index, floordiv
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import substitute
from einalg.language.ir.program import Program, statement_tensor, substitute_accesses
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Tensor, paddings
from einalg.language.ir.traversal import rebased

MIN_UNREAD_SHARE = 0.25  # of an axis: sizes that are nearly the same are better the same


@dataclass(frozen=True)
class ReadPlaces:
    """The places of an axis from the first to the last, in steps.

    >>> ReadPlaces(1, 7, 2).count, ReadPlaces(1, 7, 2).joined(ReadPlaces(4, 4)).count
    (4, 7)
    """

    first: int
    last: int
    step: int = 0  # 0 where there is one place

    @property
    def count(self) -> int:
        """The number of places."""
        if not self.step:
            return 1
        return (self.last - self.first) // self.step + 1

    def joined(self, other: ReadPlaces) -> ReadPlaces:
        """Return the fewest places that have those of both."""
        step = gcd(self.step, other.step, self.first - other.first)
        return ReadPlaces(min(self.first, other.first), max(self.last, other.last), step)

    def number(self, place: Affine) -> Affine:
        """Return the number of one of these places."""
        return floordiv(place - self.first, max(1, self.step))

    def place(self, number: Affine) -> Affine:
        """Return the place of a number."""
        return number * max(1, self.step) + self.first


def without_unread_parts(program: Program) -> Program:
    """Return a flat program whose statements have those places of an axis alone that are read.

    Axes of which nearly all is read stay, and so do those of outputs, and what is read through
    padding.

    >>> import einalg as ea
    >>> text = "S[i,j] += A[i,k]*B[k,j]\\nT[i,j] = Max(0, S[i,j])\\nO[j] = T[7,2*j]"
    >>> print(without_unread_parts(ea.parse(text, A=(9, 5), B=(5, 6))))
    S[i:1, j:3] = Sum[k:5](A[i + 7, k]*B[k, 2*j])
    T[i:1, j:3] = Max(0, S[i, j])
    O[j:3] = T[0, j]
    """
    scopes, readers = dict(program.statements), _readers(program)
    is_changed = False
    for name in reversed(program.names):
        contexts: list[ReadContext] = []
        for reader in readers[name]:
            contexts += _reads_of(name, scopes[reader])
        places = _narrow_axes(scopes[name], contexts)
        if name in program.outputs or not any(places):
            continue
        is_changed = True
        scopes[name] = _narrowed(scopes[name], places)
        for reader in readers[name]:
            scopes[reader] = _reading(scopes[reader], name, scopes[name], places)
    if not is_changed:
        return program
    return Program(scopes.items(), program.outputs)


def _readers(program: Program) -> dict[str, list[str]]:
    """Return the statements that read each statement."""
    readers: dict[str, list[str]] = {name: [] for name in program.names}
    for reader, scope in program.statements:
        for name in scope.tensors.keys() & readers.keys():
            readers[name].append(reader)
    return readers


def _reads_of(name: str, scope: Scope) -> list[ReadContext]:
    """Return the reads of a tensor in a scope and in those inside it."""
    contexts: list[ReadContext] = []
    for inner in all_scopes(scope):
        for read in reads(inner):
            tensor = read.access.tensor
            if isinstance(tensor, Tensor) and tensor.name == name:
                contexts.append(read)
    return contexts


def _narrow_axes(scope: Scope, contexts: Sequence[ReadContext]) -> list[ReadPlaces | None]:
    """Return the places of each axis that are read; None where the axis stays as it is."""
    axes: list[ReadPlaces | None] = []
    for axis, iterator in enumerate(scope.iterators):
        places = _read_places(axis, contexts)
        if places is not None and places.count > (1 - MIN_UNREAD_SHARE) * iterator.extent:
            places = None
        axes.append(places)
    return axes


def _read_places(axis: int, contexts: Iterable[ReadContext]) -> ReadPlaces | None:
    """Return the places of an axis that are read; None where that is not known."""
    places: ReadPlaces | None = None
    for read in contexts:
        if is_empty(read.iterators) or _is_padded(read.access, axis):
            return None
        here = _places(read.access.subscripts[axis], read.ranges)
        low, high = read.access.tensor.box[axis]
        if here.first < low or here.last >= high:  # at points without a value
            return None
        places = here if places is None else places.joined(here)
    return places


def _is_padded(access: Access, axis: int) -> bool:
    return any(any(view.amounts[axis]) for view in paddings(access.base))


def _places(subscript: Affine, ranges: Ranges) -> ReadPlaces:
    """Return places among which a subscript is."""
    first, last = subscript.interval(ranges)
    steps: list[int] = []
    for atom, coefficient in subscript.terms:
        low, high = affine(atom).interval(ranges)
        if low < high:
            steps.append(coefficient)
    return ReadPlaces(first, last, gcd(*steps))


def _narrowed(scope: Scope, places: Sequence[ReadPlaces | None]) -> Scope:
    """Return a scope at these places of its axes alone, which are numbered from 0 on."""
    iterators: list[LoopIndex] = []
    moved: dict[Index, Affine] = {}
    for iterator, axis in zip(scope.iterators, places):
        if axis is not None:
            moved[iterator.index] = axis.place(affine(iterator.index))
            iterator = LoopIndex(iterator.index, 0, axis.count)
        iterators.append(iterator)
    where = substitute_conditions(scope.where, moved)
    return simplify_scope(Scope(iterators, where, substitute(scope.body, moved)))


def _reading(scope: Scope, name: str, narrow: Scope, places: Sequence[ReadPlaces | None]) -> Scope:
    """Return a scope that reads a statement at these places of its axes alone."""
    tensor = statement_tensor(name, narrow)

    def change(access: Access) -> Access:
        read = access.tensor
        if not isinstance(read, Tensor) or read.name != name:
            return access
        subscripts = list(access.subscripts)
        for axis, there in enumerate(places):
            if there is not None:
                subscripts[axis] = there.number(subscripts[axis])
        return Access.of(rebased(access, tensor).base, tuple(subscripts))

    return simplify_scope(substitute_accesses(scope, change))
