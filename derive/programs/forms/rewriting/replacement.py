"""The right side of a rule in the place of its left side, and the proof that it is equal there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from derive.programs.forms.rewriting.match import Match, StatementPlace, axis_index
from derive.programs.forms.rewriting.patterns import RulePattern
from derive.proof import prove
from einalg.errors import EinalgError
from einalg.frontends.graph import live_statements, unique_name
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.program import (
    Program,
    in_order,
    statement_tensor,
    substitute_tensors,
)
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import map_accesses, padded_like

Row = tuple[str, Scope]


@dataclass(frozen=True)
class RuleReplacement:
    """A program with the right side of a rule in it, and what was there, each as a program of its
    own.
    """

    program: Program
    before: Program
    after: Program

    def is_proved(self) -> bool:
        """Prove that what is there now equals what was there."""
        try:
            return prove(self.before, self.after).verdict == "proved"
        except EinalgError:
            return False


Axis = Index | int  # an axis that the rule has not, or the number of one that it has


@dataclass(frozen=True)
class _Value:
    """A tensor that is a leaf or a statement of the right side, with what each of its axes is."""

    tensor: Tensor
    layout: tuple[Axis, ...]

    def read(self, access: Access) -> Access:
        """Return an access of the rule as one to the tensor."""
        subscripts: list[Affine] = []
        for axis in self.layout:
            subscripts.append(access.subscripts[axis] if isinstance(axis, int) else affine(axis))
        base = padded_like(access.base, self.tensor, self._amounts)
        return Access.of(base, tuple(subscripts))

    def _amounts(self, layer: Sequence[Any]) -> list[Any]:
        """Return a padding of the rule on the axes of the tensor."""
        return [layer[axis] if isinstance(axis, int) else (0, 0) for axis in self.layout]


def replaced(pattern: RulePattern, match: Match, program: Program) -> RuleReplacement | None:
    """Return a program with the right side of a rule in the place of a match.

    None where sizes stay open or do not fit, where a statement would need itself, and where a
    result would be of another type.

    >>> import einalg as ea
    >>> from derive.programs.forms.rewriting.matching import matches
    >>> from derive.programs.forms.rewriting.patterns import patterns_of
    >>> sides = "O[i] = x[i]*z[i] + y[i]*z[i]", "O[i] = (x[i] + y[i])*z[i]"
    >>> rule = ea.substitutions.Rule("distributive", *sides, x=("N",), y=("N",), z=("N",))
    >>> program = ea.parse("O[i] = A[i]*C[0] + B[i]*C[0]\\nR[i] = O[i]", A=(4,), B=(4,), C=(4,))
    >>> (pattern,) = patterns_of(rule)
    >>> made = replaced(pattern, next(matches(pattern, program)), program)
    >>> print(made.program)
    O_z[axis0:4] = C[0]
    O[i:4] = O_z[i]*(A[i] + B[i])
    R[i:4] = O[i]
    >>> made.is_proved()
    True
    """
    numbers = match.numbers(pattern.sizes)
    if numbers is None:
        return None
    try:
        after = pattern.write(numbers)
        if after is None:
            return None
        return _Writing(pattern, match, program, after).replacement()
    except (EinalgError, CycleError):
        return None


class _Writing:
    """The right side of a rule, as it is written into a program."""

    def __init__(self, pattern: RulePattern, match: Match, program: Program, after: Program):
        self.match, self.program, self.after = match, program, after
        self.places = [match.places[name] for name in pattern.before.outputs]
        self.outputs = [place.name for place in self.places]
        self.used = {*program.names, *program.tensors}
        self.rows: list[Row] = []
        self.values: dict[str, _Value] = {}

    def replacement(self) -> RuleReplacement | None:
        """Return the whole program, and the parts that differ."""
        for name, tensor in self.after.inputs.items():
            self.values[name] = self._leaf(tensor)
        for name, scope in self.after.statements:
            self._write(name, scope)
        for place, name in zip(self.places, self.after.outputs):
            if not set(self.values[name].layout) <= set(_layout_of(place)):
                return None
            if self.values[name].tensor.name != place.name:
                self.rows.append((place.name, self._copy(place, name)))
        before, new = dict(self.program.statements), dict(self.rows)
        for name in self.outputs:
            if (new[name].dtype, new[name].box) != (before[name].dtype, before[name].box):
                return None
        matched = {place.name for place in self.match.places.values()}
        old = [(name, scope) for name, scope in before.items() if name in matched]
        for _, scope in [*old, *self.rows]:
            if any(before[read].where for read in scope.tensors if read in before):
                return None
        rows = {**before, **new}
        _check_acyclic(rows)
        outputs = self.program.outputs
        statements = _without_copies(in_order(rows.items()), outputs)
        program = Program(live_statements(statements, outputs), outputs)
        return RuleReplacement(program, _alone(old, self.outputs), _alone(self.rows, self.outputs))

    def _leaf(self, tensor: Tensor) -> _Value:
        """Return the tensor that a leaf is; what is no tensor yet becomes a statement."""
        term = self.match.leaves[tensor.name]
        places: dict[Index, Axis] = {axis_index(axis): axis for axis in range(tensor.rank)}
        for index in self.match.extents:
            if index in term.free_symbols:
                places[index] = index
        if isinstance(term, Access) and isinstance(term.base, Tensor):
            axes = [places.get(subscript.as_index()) for subscript in term.subscripts]
            if None not in axes and len(axes) == len(places):
                known: tuple[Any, ...] = tuple(axes)
                if term.base.box == tuple([self._range(axis, tensor.box) for axis in known]):
                    return _Value(term.base, known)
        batch = [index for index in self.match.extents if index in places]
        layout = self._layout(batch, tensor.rank)
        iterators = []
        for axis in layout:
            index = axis_index(axis) if isinstance(axis, int) else axis
            iterators.append(LoopIndex(index, *self._range(axis, tensor.box)))
        label = unique_name(f"{self.outputs[0]}_{tensor.name}", self.used)
        return self._row(label, Scope(iterators, (), term), layout)

    def _write(self, name: str, scope: Scope) -> None:
        """Write a statement of the right side."""
        read: set[Axis] = set()
        for label in scope.tensors:
            read.update(self.values[label].layout)
        layout = self._layout([index for index in self.match.extents if index in read], scope.rank)
        iterators = []
        for axis in layout:
            if isinstance(axis, int):
                iterators.append(scope.iterators[axis])
            else:
                iterators.append(LoopIndex(axis, *self._range(axis)))
        body = map_accesses(scope.body, lambda access: self.values[access.tensor.name].read(access))
        label = self._output(name, layout)
        if label is None:
            label = unique_name(f"{self.outputs[0]}_{name}", self.used)
        self.values[name] = self._row(label, Scope(iterators, scope.where, body), layout)

    def _row(self, label: str, scope: Scope, layout: Sequence[Axis]) -> _Value:
        self.used.add(label)
        self.rows.append((label, scope))
        return _Value(statement_tensor(label, scope), tuple(layout))

    def _range(self, axis: Axis, box: Sequence[Any] = ()) -> tuple[Any, Any]:
        if isinstance(axis, int):
            return box[axis]
        return 0, self.match.extents[axis]

    def _layout(self, batch: Sequence[Index], rank: int) -> tuple[Axis, ...]:
        """Return the axes of a statement: those that the rule has not lie among those that it has
        as they do in the first output.
        """
        first = self.places[0]
        layout: list[Axis] = list(range(rank))
        for place, index in reversed(first.batch):
            if index in batch:
                before = sum(axis < place for axis in first.axes)
                position = rank if before == len(first.axes) else min(before, rank)
                layout.insert(position, index)
        return tuple(layout)

    def _output(self, name: str, layout: Sequence[Axis]) -> str | None:
        """Return the statement of the program that a statement takes the place of, as it lies."""
        written = {label for label, _ in self.rows}
        for place, output in zip(self.places, self.after.outputs):
            if output == name and place.name not in written and _layout_of(place) == layout:
                return place.name
        return None

    def _copy(self, place: StatementPlace, output: str) -> Scope:
        """Return a statement that lies as it did, as a copy of an output of the right side."""
        scope, value = self.program[place.name], self.values[output]
        indices = dict(zip(_layout_of(place), scope.indices))
        subscripts = tuple([indices[axis] for axis in value.layout])
        return Scope(scope.iterators, (), value.tensor[subscripts])


def _layout_of(place: StatementPlace) -> tuple[Axis, ...]:
    """Return what each axis of a matched statement is."""
    axes: dict[int, Axis] = {position: axis for axis, position in enumerate(place.axes)}
    axes.update(place.batch)
    return tuple([axes[position] for position in sorted(axes)])


def _check_acyclic(rows: Mapping[str, Scope]) -> None:
    """Raise `CycleError` where a statement needs itself."""
    reads = {}
    for name, scope in rows.items():
        reads[name] = [read for read in scope.tensors if read in rows]
    TopologicalSorter(reads).prepare()


def _without_copies(rows: Sequence[Row], outputs: Collection[str]) -> list[Row]:
    """Return statements, in order, in which a copy that lies as its original is read there."""
    originals: dict[str, Tensor] = {}
    statements = []
    for name, scope in rows:
        scope = substitute_tensors(scope, originals)
        original = _original(scope)
        if original is not None and name not in outputs:
            originals[name] = original
        statements.append((name, scope))
    return statements


def _original(scope: Scope) -> Tensor | None:
    """Return the tensor of which a statement is a copy that lies as it does."""
    body = scope.body
    if scope.where or not isinstance(body, Access) or not isinstance(body.base, Tensor):
        return None
    if body.subscripts != tuple(map(affine, scope.indices)) or body.base.box != scope.box:
        return None
    return body.base


def _alone(rows: Sequence[Row], outputs: Sequence[str]) -> Program:
    """Return statements as a program in which all else that they read are inputs."""
    names = {name for name, _ in rows}
    statements = []
    for name, scope in rows:
        inputs = {}
        for label, tensor in scope.tensors.items():
            if label not in names:
                inputs[label] = Tensor(label, tensor.axes, tensor.dtype)
        statements.append((name, substitute_tensors(scope, inputs)))
    return Program(statements, outputs)
