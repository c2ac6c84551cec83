"""Range inference (design §4): what the axes say about indices whose range is not written.

(i) A bare subscript takes exactly the axis that it indexes, and two bare uses must agree. (ii)
Then, in rounds, an axis with one unresolved index gives it the widest range that stays inside the
padded box. (iii) Every access must fit its padded box, which `einalg.language.analysis.validate`
checks. Nothing is shrunk silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from einalg.errors import NotationError, RangeError
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import BoundTwice, LoopIndex
from einalg.language.index.size import Extent, largest, least, settled, sizes_in
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, describe, padded_box
from einalg.language.ir.traversal import IndexArithmetic


@dataclass(eq=False)
class _Binding:
    """One bound index; two reductions may bind the same name to different ranges."""

    index: Index
    range: tuple[Extent, Extent] | None
    source: str = "given"


@dataclass
class _Use:
    """One subscript, with what its indices are bound to at that place."""

    access: Access
    axis: int
    form: Affine
    bound: Mapping[Index, _Binding]

    @property
    def source(self) -> str:
        return f"{describe(self.access.base)} axis {self.axis}"

    def unresolved(self) -> list[_Binding]:
        bindings = [self.bound[index] for index in sorted(self.form.indices, key=str)]
        return [binding for binding in bindings if binding.range is None]

    def ranges(self, without: Index) -> dict[Index, tuple[Extent, Extent]]:
        ranges = {}
        for index, binding in self.bound.items():
            if binding.range is not None and index != without:
                ranges[index] = binding.range
        return ranges


@dataclass
class _Problem:
    """The bound indices of a body and the subscripts that say something of their ranges."""

    written: WrittenParts
    bindings: list[_Binding] = field(default_factory=list)
    uses: list[_Use] = field(default_factory=list)
    of_reduction: dict[int, list[_Binding]] = field(default_factory=dict)


class WrittenParts:
    """The reads and reductions that a text has, also where SymPy leaves them out: `0*A[i]` is 0,
    and says all the same that `i` is an index of `A`.
    """

    def __init__(self) -> None:
        self.here: list[Any] = []  # directly in the scope or reduction that is being read
        self.inside: dict[Reduce, list[Any]] = {}

    def add(self, part: Access | Reduce) -> None:
        self.here.append(part)

    def enter(self) -> list[Any]:
        """Begin a scope or a reduction; returns what `leave` takes."""
        outside, self.here = self.here, []
        return outside

    def leave(self, outside: list[Any], reduction: Reduce | None = None) -> None:
        """End a scope, or a reduction, which is a part of what is around it."""
        parts, self.here = self.here, outside
        if reduction is not None:
            self.inside.setdefault(reduction, []).extend(parts)
            self.here.append(reduction)


def build_scope(
    iterators: list[LoopIndex],
    body: Any,
    where: Any = None,
    written: WrittenParts | None = None,
) -> Scope:
    """Return a checked scope of iterators of which some ranges are still open (in the reductions of
    `body` too).

    The parts that are `written` say what ranges are, like those of the body.
    """
    problem = _Problem(written or WrittenParts())
    outer = _open_bindings(iterators)
    problem.bindings += outer
    bound: dict[Index, _Binding] = {}
    for binding in outer:
        _bind(bound, binding)
    _collect(body, bound, problem)
    if any(b.range is None for b in problem.bindings):
        _collect_left_out(body, problem.written.here, bound, problem)
        _infer_from_bare_subscripts(problem)
        _infer_in_rounds(problem)
    closed = _close(body, problem)
    scope = Scope([_iterator(b) for b in outer], where, closed)
    check_scope(scope)
    return scope


def _open_bindings(iterators: Iterable[LoopIndex]) -> list[_Binding]:
    """Return the bindings of iterators, without ranges where these are to be inferred."""
    bindings = []
    for it in iterators:
        written = None if it.high is None else (it.low, it.high)
        bindings.append(_Binding(it.index, written))
    return bindings


def _iterator(binding: _Binding) -> LoopIndex:
    assert binding.range is not None
    return LoopIndex(binding.index, *binding.range)


def _bind(bound: dict[Index, _Binding], binding: _Binding) -> None:
    if binding.index in bound:
        raise BoundTwice(binding.index).error()
    bound[binding.index] = binding


def _collect(body: Any, bound: dict[Index, _Binding], problem: _Problem) -> None:
    """Note every subscript and every reduction of a body."""
    if isinstance(body, Access):
        for axis, form in enumerate(body.subscripts):
            _check_bound(body, axis, bound)
            problem.uses.append(_Use(body, axis, form, bound))
    elif isinstance(body, Reduce):
        inner = dict(bound)
        bindings = _open_bindings(body.iterators)
        for binding in bindings:
            _bind(inner, binding)
        problem.bindings += bindings
        problem.of_reduction[id(body)] = bindings
        _collect(body.body, inner, problem)
        if any(binding.range is None for binding in inner.values()):
            _collect_left_out(body.body, problem.written.inside.get(body, ()), inner, problem)
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            _collect(argument, bound, problem)


def _collect_left_out(
    body: Any, parts: Iterable[Any], bound: dict[Index, _Binding], problem: _Problem
) -> None:
    """Note the parts of a body that are written, and not in it any more."""
    present = set(_parts(body))
    for part in parts:
        if part not in present:
            _collect(part, bound, problem)


def _parts(body: Any) -> Iterator[Any]:
    """Yield the reads and reductions that stand directly in a body."""
    if isinstance(body, (Access, Reduce)):
        yield body
    elif not isinstance(body, IndexArithmetic):
        for argument in getattr(body, "args", ()):
            yield from _parts(argument)


def _check_bound(access: Access, axis: int, bound: Mapping[Index, _Binding]) -> None:
    loose = sorted(i.name for i in access.subscripts[axis].indices if i not in bound)
    if loose:
        message = (
            f"index {loose[0]} is not bound\n"
            f"  add it to L[...] or to a reduction, e.g. Sum[{loose[0]}](...)"
        )
        raise NotationError(message).regarding((access, axis))


def _infer_from_bare_subscripts(problem: _Problem) -> None:
    """Give the indices that are a whole subscript the range of the axis; step (i)."""
    for use in problem.uses:
        index = use.form.as_index()
        if index is None:
            continue
        binding, axis = use.bound[index], use.access.tensor.box[use.axis]
        if binding.range is None:
            binding.range, binding.source = axis, use.source
        elif binding.source != "given" and binding.range != axis:
            raise _two_ranges(binding, use, axis).regarding((use.access, use.axis))


def _two_ranges(binding: _Binding, use: _Use, axis: tuple[Extent, Extent]) -> RangeError:
    assert binding.range is not None
    (a, b), (c, d) = binding.range, axis
    if a == c == 0:
        sizes = f"two sizes: {b} ({binding.source}) and {d} ({use.source})"
    else:
        sizes = f"two ranges: [{a},{b}) ({binding.source}) and [{c},{d}) ({use.source})"
    remedy = "use two indices"
    if not sizes_in((a, b, c, d)):
        both = LoopIndex(binding.index, max(a, c), min(b, d))
        if both.extent > 0:
            remedy = f"write {both} where it is bound, or use two indices"
    return RangeError(f"index {binding.index} has {sizes}\n  {remedy}")


def _infer_in_rounds(problem: _Problem) -> None:
    """Give the other indices ranges, round by round; step (ii)."""
    while open_bindings := [b for b in problem.bindings if b.range is None]:
        ranges = _ranges_of_a_round(problem)
        if not ranges:
            raise RangeError(_cannot_infer(problem, open_bindings)).regarding(
                open_bindings[0].index
            )
        for binding in open_bindings:
            if id(binding) in ranges:
                binding.range = _from_zero(binding, *ranges[id(binding)])


def _ranges_of_a_round(problem: _Problem) -> dict[int, tuple[Extent, Extent]]:
    """Return the ranges, by the `id` of the binding, that follow from those which are known: the
    widest with which every subscript of no other open index stays inside.
    """
    ranges: dict[int, tuple[Extent, Extent]] = {}
    for use in problem.uses:
        unresolved = use.unresolved()
        if len(unresolved) != 1:
            continue
        (binding,) = unresolved
        widest = _widest(use, binding.index)
        if widest is None:
            continue
        low, high = ranges.get(id(binding), widest)
        try:
            ranges[id(binding)] = max(low, widest[0]), min(high, widest[1])
        except TypeError:
            raise _incomparable(binding, (low, high), widest).regarding(binding.index) from None
        binding.source = use.source
    return ranges


def _incomparable(
    binding: _Binding, one: tuple[Extent, Extent], two: tuple[Extent, Extent]
) -> RangeError:
    """Return the error for two ranges of which sizes decide which is the narrower one."""
    ranges = [LoopIndex(binding.index, *limits) for limits in (one, two)]
    return RangeError(
        f"index {binding.index} could be {ranges[0]} or {ranges[1]}, as the sizes are\n"
        "  write its range where it is bound"
    )


def _widest(use: _Use, index: Index) -> tuple[Extent, Extent] | None:
    """Half-open range of `index` for which `low <= c·index + rest < high`; None where it stands
    under `//` or `%`.
    """
    c = use.form.coefficient(index)
    rest = use.form - affine(index) * c
    if c == 0 or index in rest.indices:
        return None
    low, high = padded_box(use.access.base)[use.axis]
    first, last = rest.interval(use.ranges(index))
    lower, upper = low - first, high - 1 - last
    if c < 0:
        lower, upper, c = -upper, -lower, -c
    return settled(-(-lower // c)), settled(upper // c + 1)


def _from_zero(binding: _Binding, low: int, high: int) -> tuple[Extent, Extent]:
    """Return an inferred range, which must start at 0 and hold something."""
    name, source = binding.index, binding.source
    if largest(settled(high - low)) <= 0:
        message = (
            f"index {name} has no value at which every read stays inside ({source})\n"
            "  pad that axis, or narrow another index"
        )
        raise RangeError(message).regarding(name)
    if low != 0:
        holds_zero = largest(low) < 0 < least(high)
        from_zero = f"{name}:{high} (0 to {high}) or " if holds_zero else ""
        message = (
            f"index {name} would range over [{low},{high}) ({source}), not from 0\n"
            f"  write {from_zero}{name}:{low}:{high} where it is bound"
        )
        raise RangeError(message).regarding(name)
    return low, high


def _cannot_infer(problem: _Problem, unresolved: list[_Binding]) -> str:
    """Return the message for indices of which no subscript says anything."""
    names = list(dict.fromkeys(str(binding.index) for binding in unresolved))
    facts = _known_ranges(problem)
    return (
        f"cannot infer the range of {', '.join(names)}: {_reason(problem, unresolved, names)}\n"
        f"{facts}  write {names[0]}:SIZE where it is bound"
    )


def _reason(problem: _Problem, unresolved: list[_Binding], names: list[str]) -> str:
    used = set().union(*(use.form.indices for use in problem.uses))
    if not used.isdisjoint(binding.index for binding in unresolved):
        return "each appears only beside another unresolved index, or under // or %"
    if len(names) == 1:
        return "no subscript uses it"
    return "no subscript uses them"


def _known_ranges(problem: _Problem) -> str:
    """Return a line with the ranges that are known, or nothing."""
    known: dict[str, None] = {}
    for binding in problem.bindings:
        if binding.range is not None:
            low, high = binding.range
            known[f"{binding.index} in [{low},{high}) ({binding.source})"] = None
    if not known:
        return ""
    return f"  known: {', '.join(known)}\n"


def _close(body: Any, problem: _Problem) -> Any:
    """Return the body with every reduction's ranges filled in."""

    def leaf(node: Any) -> Any:
        if not isinstance(node, Reduce):
            return node
        inner = rebuild(node.body, leaf)
        if inner is node.body and all(it.high is not None for it in node.iterators):
            return node
        iterators = [_iterator(binding) for binding in problem.of_reduction[id(node)]]
        return Reduce(node.op, iterators, node.where, inner)

    return rebuild(body, leaf)
