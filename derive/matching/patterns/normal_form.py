"""The normal form of a scope, which matching looks at: its reads axis by axis, and the iterator
mapping table (design §7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import sympy

from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index, rebuild, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, reductions

OUTPUT = "output"
Row = frozenset[Any]  # {0, "output"}: the reads in which an index occurs; not summed ones: OUTPUT
Replacement = tuple[list[LoopIndex], Affine]  # new indices, and the old one as a form of them
Replace = Callable[[LoopIndex], Replacement | None]
MAX_SPLIT_INDICES = 16
MAX_CACHED_FORMS = 4096


@dataclass(frozen=True)
class ReadAxis:
    """An axis of a read along which some index moves: its number, the subscript, the box, and the
    first and last element read.
    """

    position: int
    form: Affine
    box: tuple[int, int]
    reads: tuple[int, int]

    @cached_property
    def indices(self) -> tuple[Index, ...]:
        return tuple(sorted(self.form.indices, key=lambda index: index.name))

    @cached_property
    def index(self) -> Index | None:
        """The index that walks along the axis alone, in equal steps; None where there is none."""
        if len(self.form.terms) != 1:
            return None
        atom, _ = self.form.terms[0]
        if isinstance(atom, Index):
            return atom
        return None

    @property
    def overrun(self) -> tuple[int, int]:
        """Elements that are read before and after the box."""
        return max(0, self.box[0] - self.reads[0]), max(0, self.reads[1] + 1 - self.box[1])

    @property
    def elements_read(self) -> tuple[int, int]:
        """The half-open range of the elements in the box that are read."""
        return max(self.box[0], self.reads[0]), min(self.box[1], self.reads[1] + 1)


@dataclass(frozen=True)
class TensorRead:
    """An access with the axes along which it moves."""

    access: Access
    axes: tuple[ReadAxis, ...]

    @property
    def is_padded_twice(self) -> bool:
        """Whether it may reach paddings of different fills, as no operator pads what it reads."""
        base = self.access.base
        return isinstance(base, Padded) and isinstance(base.base, Padded)

    @property
    def name(self) -> str:
        base = unpadded(self.access.base)
        if isinstance(base, Scope):
            return "the inner scope"
        return base.name


class NormalForm:
    """A scope in normal form, with its reads, each once, and its iterator mapping table.

    `cache` holds what matching finds out about the scope, by templates.
    """

    def __init__(self, scope: Scope):
        self.scope = normal(scope)
        self.extents = _extents(self.scope)
        self.ranges = {}
        for index, low, high in _all_iterators(self.scope):
            self.ranges[index] = (low, high)
        distinct = dict.fromkeys(accesses(self.scope.body))
        self.reads = tuple([self._read(access) for access in distinct])
        self.cache: dict[Any, Any] = {}

    @cached_property
    def rows(self) -> dict[Index, Row]:
        """The iterator mapping table: for every index, where it occurs, as in
        `{i: {0, "output"}, k: {0, 1}}`.
        """
        places: dict[Index, set[Any]] = {index: set() for index in self.extents}
        for number, read in enumerate(self.reads):
            for axis in read.axes:
                for index in axis.form.indices:
                    places[index].add(number)
        for index in self.scope.indices:
            places[index].add(OUTPUT)
        return {index: frozenset(occurrences) for index, occurrences in places.items()}

    @cached_property
    def skeleton(self) -> Any:
        return skeleton(self.scope.body)

    @property
    def conditions(self) -> list[Any]:
        """All conditions, of the scope and of its reductions."""
        conditions = list(self.scope.where)
        for node in reductions(self.scope.body):
            conditions += node.where
        return conditions

    def named_skeleton(self, names: Sequence[str]) -> Any:
        """Return the operations of the body on reads that have these names."""
        by_access = {read.access: name for read, name in zip(self.reads, names)}
        return skeleton(self.scope.body, by_access)

    def points(self, indices: Iterable[Index]) -> int:
        """Return the number of values that indices have together."""
        return prod(self.extents[index] for index in indices)

    def separable(self, axis: ReadAxis) -> bool:
        """Return whether an axis is a mixed-radix number of its indices that stays inside the box,
        so that each walks an axis of its own.
        """
        return axis.overrun == (0, 0) and _is_mixed_radix(axis.form, self.extents)

    def _read(self, access: Access) -> TensorRead:
        box = unpadded(access.base).box
        axes = []
        for position, (form, bounds) in enumerate(zip(access.subscripts, box)):
            if form.terms:
                axes.append(ReadAxis(position, form, bounds, form.interval(self.ranges)))
        return TensorRead(access, tuple(axes))


# By identity: to compare expressions costs more than to make the form again.
_FORMS: dict[int, tuple[Scope, NormalForm]] = {}
# Of equal scopes with equal names of indices, which the states of a search make again.
_FORMS_OF_EQUAL: dict[Any, NormalForm] = {}


def normal_form(scope: Scope) -> NormalForm:
    """Return the normal form of a scope, made once."""
    cached = _FORMS.get(id(scope))
    if cached is not None:
        return cached[1]
    if len(_FORMS) >= MAX_CACHED_FORMS:
        _FORMS.clear()
        _FORMS_OF_EQUAL.clear()
    spelling = scope, scope.indices, scope.body
    form = _FORMS_OF_EQUAL.get(spelling)
    if form is None:
        form = _FORMS_OF_EQUAL[spelling] = NormalForm(scope)
    _FORMS[id(scope)] = scope, form
    return form


def skeleton(body: Any, names: Mapping[Access, str] | None = None) -> Any:
    """Return the operations of a body: reads are anonymous without `names`, numbers and the order
    of commutative operands are left out.

    >>> import einalg as ea
    >>> skeleton(ea.parse("O[i] += A[i,k]*B[k]", A=(3, 4), B=(4,)).body)
    ('Sum', ('Mul', ('read', 'read')))
    """
    if isinstance(body, Access):
        return names[body] if names else "read"
    if isinstance(body, Reduce):
        return body.op, skeleton(body.body, names)
    if not body.args:
        return "number" if body.is_number else "index"
    parts = [skeleton(part, names) for part in body.args]
    if isinstance(body, sympy.Pow) and body.exp == 2:
        return "Mul", (parts[0], parts[0])
    return type(body).__name__, tuple(sorted(parts, key=str))


def normal(scope: Scope) -> Scope:
    """Return a scope with ranges from 0, no unit indices, names for digits (`i//4` and `i%4`), and
    taps that run with the output, not against it; the other way round where windows are divided,
    as those of a transposed convolution are: an axis of stride 1 has the order of the others.
    """
    used = set(_extents(scope))
    scope = _rewritten(simplify_scope(scope), _from_zero)
    for _ in range(MAX_SPLIT_INDICES):
        digits = next(_digits(scope), None)
        if digits is None:
            break
        scope = _rewritten(scope, _split_at(*digits, used))
    order = 1
    if _has_divided_windows(scope):
        order = -1
    others = _taps_against(order, scope)
    if others:
        scope = _rewritten(scope, _reversed_indices(others))
    return scope


def _has_divided_windows(scope: Scope) -> bool:
    """Say whether a quotient or remainder is of several indices, as in `A[(h - r)//2]`."""
    return any(
        len(atom.argument.indices) > 1 for form in _subscripts(scope) for atom in _quotients(form)
    )


def _all_iterators(scope: Scope) -> list[LoopIndex]:
    iterators = list(scope.iterators)
    for node in reductions(scope.body):
        iterators += node.iterators
    return iterators


def _extents(scope: Scope) -> dict[Index, int]:
    return {it.index: it.extent for it in _all_iterators(scope)}


def _from_zero(it: LoopIndex) -> Replacement | None:
    if it.extent == 1:
        return [], affine(it.low)
    if it.low == 0:
        return None
    return [LoopIndex(it.index, 0, it.extent)], affine(it.index) + it.low


def _split_at(index: Index, divisor: int, used: set[Index]) -> Replace:
    """Return the replacement of an index by its digits, with names that are added to `used`."""
    high = fresh_index(f"{index.name}1", used)
    used.add(high)
    low = fresh_index(f"{index.name}2", used)
    used.add(low)
    form = affine(high) * divisor + low

    def replace(it: LoopIndex) -> Replacement | None:
        if it.index != index:
            return None
        return [LoopIndex(high, 0, it.extent // divisor), LoopIndex(low, 0, divisor)], form

    return replace


def _reversed_indices(indices: set[Index]) -> Replace:
    """Return the replacement of indices by those that count down."""

    def replace(it: LoopIndex) -> Replacement | None:
        if it.index not in indices:
            return None
        return [it], affine(it.high - 1) - it.index

    return replace


def _digits(scope: Scope) -> Iterator[tuple[Index, int]]:
    """Yield the indices that stand alone under `//` or `%`, with the divisor, where it divides
    their range.
    """
    extents = _extents(scope)
    for form in _subscripts(scope):
        for atom in _quotients(form):
            index = atom.argument.as_index()
            if index is not None:
                extent = extents[index]
                if extent > atom.divisor and extent % atom.divisor == 0:
                    yield index, atom.divisor


def _subscripts(scope: Scope) -> list[Affine]:
    """List all subscripts of what a scope reads."""
    forms: list[Affine] = []
    for access in accesses(scope.body):
        forms += access.subscripts
    return forms


def _quotients(form: Affine) -> Iterator[FloorDiv | Modulo]:
    for atom, _ in form.terms:
        if isinstance(atom, (FloorDiv, Modulo)):
            yield from _quotients(atom.argument)
            yield atom


def _is_mixed_radix(form: Affine, extents: Mapping[Index, int]) -> bool:
    """Return whether a form is a mixed-radix number of its indices, as `4*i + j` is for j below
    4.
    """
    steps = []
    for atom, coefficient in form.terms:
        if not isinstance(atom, Index):
            return False
        steps.append((abs(coefficient), atom.name, extents[atom]))
    reach = 0
    for step, _, extent in sorted(steps):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True


def _taps_against(order: int, scope: Scope) -> set[Index]:
    """Return the summed indices that run only against an order: those that are subtracted from an
    output index somewhere and added to one nowhere, or the other way round for the order -1.

    As digits of one number both walk axes of their own, in any direction: that counts where there
    is nothing else.
    """
    outputs, extents = set(scope.indices), _extents(scope)
    signs: dict[Index, set[int]] = {}
    signs_as_digits: dict[Index, set[int]] = {}
    for form in _subscripts(scope):
        of_outputs, of_sums = _steps(form, outputs)
        if not of_outputs:
            continue
        collected = signs_as_digits if _is_mixed_radix(form, extents) else signs
        for index, step in of_sums.items():
            collected.setdefault(index, set()).add(_sign(step * of_outputs[0]))
    against = set()
    for index, its_signs in {**signs_as_digits, **signs}.items():
        if its_signs == {-order}:
            against.add(index)
    return against


def _steps(form: Affine, outputs: set[Index]) -> tuple[list[int], dict[Index, int]]:
    """Return the coefficients of output indices in a form, and those of summed indices by index."""
    of_outputs: list[int] = []
    of_sums: dict[Index, int] = {}
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            if atom in outputs:
                of_outputs.append(coefficient)
            else:
                of_sums[atom] = coefficient
    return of_outputs, of_sums


def _sign(number: int) -> int:
    if number > 0:
        return 1
    return -1


def _rewritten(scope: Scope, replace: Replace) -> Scope:
    """Return the scope over other indices: `replace` gives what takes the place of an iterator, and
    the old index as a form of the new ones; None where it stays.
    """
    iterators, forms = _replaced(scope.iterators, replace)

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        its_iterators, its_forms = _replaced(node.iterators, replace)
        body = _substituted(rebuild(node.body, leaf), its_forms)
        where = tuple([condition.substitute(its_forms) for condition in node.where])
        if not its_iterators and not where:
            return body
        return Reduce(node.op, its_iterators, where, body)

    body = _substituted(rebuild(scope.body, leaf), forms)
    where = tuple([condition.substitute(forms) for condition in scope.where])
    return simplify_scope(Scope(iterators, where, body))


def _substituted(body: Any, forms: dict[Index, Affine]) -> Any:
    if not forms:
        return body
    return substitute(body, forms)


def _replaced(
    iterators: Sequence[LoopIndex], replace: Replace
) -> tuple[list[LoopIndex], dict[Index, Affine]]:
    """Return iterators with replacements in their places, and the replaced indices as forms."""
    remaining: list[LoopIndex] = []
    forms: dict[Index, Affine] = {}
    for it in iterators:
        replacement = replace(it)
        if replacement is None:
            remaining.append(it)
            continue
        new, forms[it.index] = replacement
        remaining += new
    return remaining, forms
