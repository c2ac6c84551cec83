"""What matching sees of a scope: a normal form, its reads axis by axis, and the iterator mapping table (design §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
Row = frozenset[
    Any
]  # the numbers of the reads in which an index occurs, and OUTPUT where it is not summed
Replace = Callable[[LoopIndex], tuple[list[LoopIndex], Affine] | None]
MOST_SPLITS = 16


def _by_name(index: Index) -> str:
    return index.name


@dataclass(frozen=True)
class ReadAxis:
    """An axis of a read along which some index moves: its number, the subscript, the box, and the first and last element read."""

    position: int
    form: Affine
    box: tuple[int, int]
    reads: tuple[int, int]

    @cached_property
    def indices(self) -> tuple[Index, ...]:
        return tuple(sorted(self.form.indices, key=_by_name))

    @cached_property
    def index(self) -> Index | None:
        """The index that walks along the axis alone, in equal steps; None where there is none."""
        alone = len(self.form.terms) == 1 and isinstance(self.form.terms[0][0], Index)
        return self.form.terms[0][0] if alone else None  # type: ignore[return-value]

    @property
    def overrun(self) -> tuple[int, int]:
        """Elements that are read before and after the box."""
        return max(0, self.box[0] - self.reads[0]), max(0, self.reads[1] + 1 - self.box[1])


@dataclass(frozen=True)
class TensorRead:
    """An access with its live axes."""

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
        return "the inner scope" if isinstance(base, Scope) else base.name


class NormalForm:
    """A scope in normal form, with its reads, each once, and its iterator mapping table."""

    def __init__(self, scope: Scope):
        self.scope = normal(scope)
        self.extents = {it.index: it.extent for it in _all_iterators(self.scope)}
        self.ranges = {it.index: (it.low, it.high) for it in _all_iterators(self.scope)}
        self.reads = tuple(
            self._read(access) for access in dict.fromkeys(accesses(self.scope.body))
        )
        self.solved: dict[Any, Any] = {}  # by templates: see `matching.match`

    @cached_property
    def rows(self) -> dict[Index, Row]:
        """The iterator mapping table: for every index, where it occurs."""
        outputs = set(self.scope.indices)
        found: dict[Index, Row] = {}
        for index in self.extents:
            places: set[Any] = {
                k
                for k, read in enumerate(self.reads)
                if any(index in axis.form.indices for axis in read.axes)
            }
            found[index] = frozenset(places | ({OUTPUT} if index in outputs else set()))
        return found

    @cached_property
    def skeleton(self) -> Any:
        return skeleton(self.scope.body)

    @property
    def conditions(self) -> list[Any]:
        return [*self.scope.where, *(c for node in reductions(self.scope.body) for c in node.where)]

    def named_skeleton(self, names: Sequence[str]) -> Any:
        """The operations of the body on reads that have these names."""
        return skeleton(
            self.scope.body, {read.access: name for read, name in zip(self.reads, names)}
        )

    def separable(self, axis: ReadAxis) -> bool:
        """Whether an axis is a mixed-radix number of its indices that stays inside the box, so that each walks an axis of its own."""
        return axis.overrun == (0, 0) and _has_digits(axis.form, self.extents)

    def _read(self, access: Access) -> TensorRead:
        base = access.base
        box = unpadded(base).box
        axes = []
        for position, (form, bounds) in enumerate(zip(access.subscripts, box)):
            if form.terms:
                axes.append(ReadAxis(position, form, bounds, form.interval(self.ranges)))
        return TensorRead(access, tuple(axes))


_PROFILES: dict[
    int, tuple[Scope, NormalForm]
] = {}  # by identity: comparing expressions costs more than looking at one again
_EQUAL: dict[
    Any, NormalForm
] = {}  # of scopes that are written alike, to the names of indices: the states of a search make them again
_MOST_PROFILES = 4096


def normal_form(scope: Scope) -> NormalForm:
    """The profile of a scope, kept for those who ask again."""
    found = _PROFILES.get(id(scope))
    if found is None:
        if len(_PROFILES) >= _MOST_PROFILES:
            _PROFILES.clear()
            _EQUAL.clear()
        written = scope, scope.indices, scope.body
        profile = _EQUAL.get(written)
        if profile is None:
            profile = _EQUAL[written] = NormalForm(scope)
        found = _PROFILES[id(scope)] = (scope, profile)
    return found[1]


def skeleton(body: Any, names: Mapping[Access, str] | None = None) -> Any:
    """The operations of a body: reads are anonymous without `names`, numbers and the order of commutative operands are left out."""
    if isinstance(body, Access):
        return names[body] if names else "read"
    if isinstance(body, Reduce):
        return body.op, skeleton(body.body, names)
    if not body.args:
        return "number" if body.is_number else "index"
    parts = [skeleton(a, names) for a in body.args]
    if isinstance(body, sympy.Pow) and body.exp == 2:
        return "Mul", (parts[0], parts[0])
    return type(body).__name__, tuple(sorted(parts, key=str))


def normal(scope: Scope) -> Scope:
    """Ranges from 0, no unit indices, names for digits (`i//4` and `i%4`), and taps that run with the output, not against it."""
    taken = {it.index for it in _all_iterators(scope)}
    scope = _rewritten(simplify_scope(scope), lambda it: _from_zero(it))
    for _ in range(MOST_SPLITS):
        split = next(_digits(scope), None)
        if split is None:
            break
        index, divisor = split
        high = fresh_index(f"{index.name}1", taken)
        low = fresh_index(f"{index.name}2", taken | {high})
        taken |= {high, low}
        scope = _rewritten(scope, lambda it, s=(index, divisor, high, low): _halves(it, *s))
    backwards = _backwards(scope)
    if backwards:
        scope = _rewritten(
            scope,
            lambda it: ([it], affine(it.high - 1) - it.index) if it.index in backwards else None,
        )
    return scope


def _all_iterators(scope: Scope) -> list[LoopIndex]:
    return [*scope.iterators, *(it for node in reductions(scope.body) for it in node.iterators)]


def _from_zero(it: LoopIndex) -> tuple[list[LoopIndex], Affine] | None:
    if it.extent == 1:
        return [], affine(it.low)
    return ([LoopIndex(it.index, 0, it.extent)], affine(it.index) + it.low) if it.low else None


def _halves(
    it: LoopIndex, index: Index, divisor: int, high: Index, low: Index
) -> tuple[list[LoopIndex], Affine] | None:
    if it.index != index:
        return None
    return [LoopIndex(high, 0, it.extent // divisor), LoopIndex(low, 0, divisor)], affine(
        high
    ) * divisor + low


def _digits(scope: Scope) -> Iterator[tuple[Index, int]]:
    """Indices that stand alone under `//` or `%`, with the divisor, where it divides their range."""
    extents = {it.index: it.extent for it in _all_iterators(scope)}
    for access in accesses(scope.body):
        for form in access.subscripts:
            for atom in _quotients(form):
                index = atom.argument.as_index()
                if (
                    index is not None
                    and extents[index] > atom.divisor
                    and extents[index] % atom.divisor == 0
                ):
                    yield index, atom.divisor


def _quotients(form: Affine) -> Iterator[Any]:
    for atom, _ in form.terms:
        if isinstance(atom, (FloorDiv, Modulo)):
            yield from _quotients(atom.argument)
            yield atom


def _has_digits(form: Affine, extents: Mapping[Index, int]) -> bool:
    """Whether a form is a mixed-radix number of its indices."""
    terms = sorted(
        ((abs(c), a) for a, c in form.terms if isinstance(a, Index)),
        key=lambda t: (t[0], t[1].name),
    )
    if len(terms) != len(form.terms):
        return False
    reach = 0
    for coefficient, index in terms:
        if coefficient <= reach:
            return False
        reach += coefficient * (extents[index] - 1)
    return True


def _backwards(scope: Scope) -> set[Index]:
    """Summed indices that are subtracted from an output index somewhere, and added to one nowhere.

    As digits of one number both walk axes of their own, in any direction: that counts where there is nothing else.
    """
    outputs, signs, digits = set(scope.indices), dict[Index, set[int]](), dict[Index, set[int]]()
    extents = {it.index: it.extent for it in _all_iterators(scope)}
    for access in accesses(scope.body):
        for form in access.subscripts:
            steps = {a: c for a, c in form.terms if isinstance(a, Index)}
            along = [c for a, c in steps.items() if a in outputs]
            for index, step in steps.items():
                if along and index not in outputs:
                    found = digits if _has_digits(form, extents) else signs
                    found.setdefault(index, set()).add(1 if step * along[0] > 0 else -1)
    return {index for index, found in {**digits, **signs}.items() if found == {-1}}


def _rewritten(scope: Scope, replace: Replace) -> Scope:
    """The scope over other indices: `replace` gives what takes the place of an iterator, and the old index in the new ones."""
    iterators, names = _replaced(scope.iterators, replace)

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        own, inner = _replaced(node.iterators, replace)
        body = substitute(rebuild(node.body, leaf), inner) if inner else rebuild(node.body, leaf)
        where = tuple(c.substitute(inner) for c in node.where)
        return Reduce(node.op, own, where, body) if own or where else body

    body = rebuild(scope.body, leaf)
    body = substitute(body, names) if names else body
    return simplify_scope(Scope(iterators, tuple(c.substitute(names) for c in scope.where), body))


def _replaced(
    iterators: Sequence[LoopIndex], replace: Replace
) -> tuple[list[LoopIndex], dict[Index, Affine]]:
    kept: list[LoopIndex] = []
    names: dict[Index, Affine] = {}
    for it in iterators:
        found = replace(it)
        kept += [it] if found is None else found[0]
        if found is not None:
            names[it.index] = found[1]
    return kept, names
