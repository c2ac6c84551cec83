"""Where the left side of a rule stands in a program, found by the mathematics of its statements.

A pattern is matched from its outputs down. A leaf stands for any expression of the indices that it
is read with: for a tensor, a transposed one, a row that is read again and again. A statement of the
program may have more axes than that of the pattern: what holds for all tensors holds at every point
of these, as the product of a matrix with one of many does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

from derive.programs.forms.rewriting.fitting import COMMUTATIVE, Fitting, is_stored
from derive.programs.forms.rewriting.match import Match, StatementPlace, axis_index, batch_index
from derive.programs.forms.rewriting.patterns import RulePattern
from derive.programs.forms.rewriting.reads import Indices, alike
from derive.programs.passes.normalise import is_elementwise
from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

MAX_OPERANDS = 6  # of a sum or a product that leaves share
MAX_EXTRA_AXES = 4  # that a statement has and its pattern has not
Changed = Collection[str] | None  # statements of a program; None for all


def matches(pattern: RulePattern, program: Program, changed: Changed = None) -> Iterator[Match]:
    """Yield the places of a pattern in a program of a statement for each operator.

    With the names of statements that were `changed`, those places alone where one of these is.

    >>> import einalg as ea
    >>> from derive.programs.forms.rewriting.patterns import patterns_of
    >>> text = "P[i,j] += x[i,k]*y[k,j]"
    >>> rule = ea.substitutions.Rule(
    ...     "transposed", f"{text}\\nO[j,i] = P[i,j]", "O[j,i] += y[k,j]*x[i,k]",
    ...     x=("N", "K"), y=("K", "M"))
    >>> text = "T[b,i,j] += A[b,i,k]*W[j,k]\\nR[b,j,i] = T[b,i,j]"
    >>> (pattern,) = patterns_of(rule)
    >>> for match in matches(pattern, ea.parse(text, A=(9, 2, 3), W=(4, 3))):
    ...     print(match.leaves["x"], match.leaves["y"], match.numbers(rule.before.sizes))
    W[axis0, axis1] A[axis1, batch0, axis0] {'K': 3, 'M': 9, 'N': 4}
    A[batch0, axis0, axis1] W[axis1, axis0] {'K': 3, 'M': 4, 'N': 2}
    """
    yield from _Matching(pattern, program, changed).of_outputs(pattern.before.outputs, Match())


class _Matching:
    """A pattern beside a program."""

    def __init__(self, pattern: RulePattern, program: Program, changed: Changed):
        self.pattern, self.program = pattern.before, program
        self.statements = dict(program.statements)
        self.patterns = dict(pattern.before.statements)
        self.whole_reads, self.fitting = pattern.whole_reads, Fitting(pattern, program)
        self.changed, self.near = changed, None
        if changed is not None:
            self.near = _readers(changed, program, len(self.patterns))

    def of_outputs(self, outputs: Sequence[str], match: Match) -> Iterator[Match]:
        """Yield matches of some outputs and of all that they need."""
        if not outputs:
            if match.leaves.keys() == self.pattern.inputs.keys() and self._is_new(match):
                yield match
            return
        first, *others = outputs
        if first in match.places:
            yield from self.of_outputs(others, match)
            return
        outputs_before = [name for name in self.pattern.outputs if name in match.places]
        used = {match.places[name].name for name in outputs_before}
        for name, scope in self.program.statements:
            if name in used or not self.fitting.of_statement(first, name):
                continue
            if self.near is not None and not others and not {name, *used} & self.near:
                continue
            for place, wider in _places(self.patterns[first], name, scope, match):
                if outputs_before and wider.extents.keys() != match.extents.keys():
                    continue
                for matched in self.of_statement(first, place, wider):
                    yield from self.of_outputs(others, matched)

    def _is_new(self, match: Match) -> bool:
        """Say whether a statement that was changed is matched."""
        if self.changed is None:
            return True
        return any(place.name in self.changed for place in match.places.values())

    def of_statement(self, name: str, place: StatementPlace, match: Match) -> Iterator[Match]:
        """Yield matches in which a statement of the pattern is that of a place."""
        known = match.places.get(name)
        if known is not None:
            if known == place:
                yield match
            return
        pattern, scope = self.patterns[name], self.statements[place.name]
        if pattern.where or scope.where:
            return
        indices: dict[Index, Affine] = {}
        pairs = []
        for iterator, axis in zip(pattern.iterators, place.axes):
            other = scope.iterators[axis]
            indices[iterator.index] = affine(other.index)
            pairs += [(iterator.low, other.low), (iterator.high, other.high)]
        batch = {scope.iterators[axis].index: affine(index) for axis, index in place.batch}
        required = match.requiring(*pairs)
        if required is not None:
            matched = replace(required, places={**match.places, name: place})
            body = substitute(scope.body, batch)
            yield from self.of_body(pattern.body, body, indices, matched)

    def of_body(self, body: Any, other: Any, indices: Indices, match: Match) -> Iterator[Match]:
        """Yield matches of a part of a pattern's body with one of the program."""
        if isinstance(body, Access):
            if body.tensor.name in self.patterns:
                yield from self.of_read(body, other, indices, match)
            else:
                yield from self.of_leaf(body, other, indices, match)
        elif isinstance(body, Reduce):
            yield from self.of_reduction(body, other, indices, match)
        elif isinstance(body, IndexArithmetic) or not body.args:
            if body == other:
                yield match
        elif body.func is getattr(other, "func", None):
            if isinstance(body, COMMUTATIVE):
                yield from self.of_commutative(body, other, indices, match)
            elif len(body.args) == len(other.args):
                yield from self.of_operands(body.args, other.args, indices, match)

    def of_operands(
        self, operands: Sequence[Any], others: Sequence[Any], indices: Indices, match: Match
    ) -> Iterator[Match]:
        """Yield matches of operands, one by one."""
        if not operands:
            yield match
            return
        for matched in self.of_body(operands[0], others[0], indices, match):
            yield from self.of_operands(operands[1:], others[1:], indices, matched)

    def of_reduction(
        self, body: Reduce, other: Any, indices: Indices, match: Match
    ) -> Iterator[Match]:
        """Yield matches of reductions over indices in any order.

        What is reduced over a single point is no reduction: either may have indices of one value
        that the other one has not.
        """
        iterators, inside = (), other
        if isinstance(other, Reduce):
            iterators, inside = other.iterators, other.body
            if body.op != other.op or other.where:
                return
        if len(iterators) != len(body.iterators):
            iterators, inside = _of_several_points(iterators, inside)
        if body.where or len(iterators) > len(body.iterators):
            return
        for chosen in permutations(range(len(body.iterators)), len(iterators)):
            partners = dict(zip(chosen, iterators))
            pairs, inner = [], dict(indices)
            for place, one in enumerate(body.iterators):
                two = partners.get(place)
                if two is None:
                    pairs += [(one.low, 0), (one.high, 1)]
                    inner[one.index] = affine(0)
                else:
                    pairs += [(one.low, two.low), (one.high, two.high)]
                    inner[one.index] = affine(two.index)
            required = match.requiring(*pairs)
            if required is not None:
                yield from self.of_body(body.body, inside, inner, required)

    def of_commutative(
        self, body: Any, other: Any, indices: Indices, match: Match
    ) -> Iterator[Match]:
        """Yield matches of a sum or a product in any order; a leaf may stand for several operands
        together.
        """
        if not len(body.args) <= len(other.args) <= MAX_OPERANDS:
            return
        leaves = [part for part in body.args if part in self.whole_reads]
        fixed = [part for part in body.args if part not in leaves]
        for chosen in permutations(range(len(other.args)), len(fixed)):
            rest = [part for place, part in enumerate(other.args) if place not in chosen]
            if bool(rest) != bool(leaves):
                continue
            parts = [other.args[place] for place in chosen]
            for matched in self.of_operands(fixed, parts, indices, match):
                for groups in _distributed(rest, len(leaves)):
                    joined = [body.func(*group) for group in groups]
                    yield from self.of_operands(leaves, joined, indices, matched)

    def of_leaf(self, body: Access, other: Any, indices: Indices, match: Match) -> Iterator[Match]:
        """Yield matches in which a leaf stands for what is in its place."""
        name, rank = body.tensor.name, body.tensor.rank
        if body in self.whole_reads and is_stored(other):
            axes: dict[Any, Affine] = {}
            for axis, subscript in enumerate(body.subscripts):
                axes[subscript.substitute(indices).as_index()] = affine(axis_index(axis))
            term = substitute(other, axes)
            if None not in axes and self._is_closed(term, rank, match):
                yield from _with_leaf(name, term, match)
                return
        for term, matched in self._read_terms(body, other, indices, match):
            yield from _with_leaf(name, term, matched)

    def _is_closed(self, term: Any, rank: int, match: Match) -> bool:
        """Say whether an expression depends on axes of a leaf and on further ones alone."""
        known = {*match.extents, *(axis_index(axis) for axis in range(rank))}
        free = {symbol for symbol in term.free_symbols if isinstance(symbol, Index)}
        return free <= known

    def _read_terms(
        self, body: Access, other: Any, indices: Indices, match: Match
    ) -> Iterator[tuple[Any, Match]]:
        """Yield what a leaf is where the same elements of a tensor are read."""
        for axes, matched in alike(body, other, indices, match):
            tensor = other.tensor
            subscripts = list(other.subscripts)
            for axis, place in enumerate(axes):
                subscripts[place] = affine(axis_index(axis))
            term = Access.of(tensor, tuple(subscripts))
            if self._is_closed(term, len(axes), matched):
                yield term, matched

    def of_read(self, body: Access, other: Any, indices: Indices, match: Match) -> Iterator[Match]:
        """Yield matches in which a statement of the pattern is read where one of the program is."""
        for axes, matched in alike(body, other, indices, match):
            if other.tensor.name not in self.statements:
                continue
            batch = []
            for place, subscript in enumerate(other.subscripts):
                if place not in axes:
                    batch.append((place, subscript.as_index()))
            further = [index for _, index in batch]
            if len(set(further)) < len(further) or not set(further) <= matched.extents.keys():
                continue
            boxes = [
                other.tensor.box[place] == (0, matched.extents[index]) for place, index in batch
            ]
            if all(boxes):
                place = StatementPlace(other.tensor.name, axes, tuple(batch))
                yield from self.of_statement(body.tensor.name, place, matched)


def _of_several_points(
    iterators: Sequence[LoopIndex], body: Any
) -> tuple[Sequence[LoopIndex], Any]:
    """Return the iterators that have several values, and a body at the one value of the others."""
    single = {it.index: affine(it.low) for it in iterators if it.extent == 1}
    if not single:
        return iterators, body
    return [it for it in iterators if it.index not in single], substitute(body, single)


def _readers(changed: Collection[str], program: Program, depth: int) -> set[str]:
    """Return statements and those that read them, through up to `depth` others."""
    readers = set(changed)
    for _ in range(depth):
        for name, scope in program.statements:
            if not readers.isdisjoint(scope.tensors):
                readers.add(name)
    return readers


def _places(
    pattern: Scope, name: str, scope: Scope, match: Match
) -> Iterator[tuple[StatementPlace, Match]]:
    """Yield the axes of a statement that may be those of an output: of what is computed element by
    element in order, for any order is the same there. Each of the others is one that the match has
    already, or a new one.
    """
    extra = scope.rank - pattern.rank
    if not 0 <= extra <= MAX_EXTRA_AXES:
        return
    choices: Iterator[tuple[int, ...]] = permutations(range(scope.rank), pattern.rank)
    if is_elementwise(pattern):
        choices = combinations(range(scope.rank), pattern.rank)
    for axes in choices:
        others = [axis for axis in range(scope.rank) if axis not in axes]
        if any(low != 0 for low, _ in [scope.box[axis] for axis in others]):
            continue
        for batch, extents in _batches(scope, others, match.extents):
            yield (
                StatementPlace(name, axes, tuple(zip(others, batch))),
                replace(match, extents=extents),
            )


def _batches(
    scope: Scope, axes: Sequence[int], extents: Mapping[Index, int]
) -> Iterator[tuple[tuple[Index, ...], dict[Index, int]]]:
    """Yield indices for the axes that a pattern has not, with the extents of all such."""
    if not axes:
        yield (), dict(extents)
        return
    extent = scope.iterators[axes[0]].extent
    for index in (*extents, batch_index(len(extents))):
        if extents.get(index, extent) != extent:
            continue
        for batch, known in _batches(scope, axes[1:], {**extents, index: extent}):
            if index not in batch:
                yield (index, *batch), known


def _with_leaf(name: str, term: Any, match: Match | None) -> Iterator[Match]:
    """Yield a match in which a leaf is an expression, if it is no other one."""
    if match is not None and match.leaves.get(name, term) == term:
        yield replace(match, leaves={**match.leaves, name: term})


def _distributed(parts: Sequence[Any], count: int) -> Iterator[list[list[Any]]]:
    """Yield the ways in which operands may be shared by some leaves, each of which gets one."""
    for owners in product(range(count), repeat=len(parts)):
        groups: list[list[Any]] = [[] for _ in range(count)]
        for part, owner in zip(parts, owners):
            groups[owner].append(part)
        if all(groups):
            yield groups
