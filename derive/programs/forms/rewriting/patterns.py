"""The sides of a proved rule as patterns: flat programs whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from derive.programs.passes.subprogram import excerpt, returned
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import lifted
from derive.search.cleanup import with_reductions_apart
from derive.substitutions import Rule
from derive.substitutions.sizes.sides import ConvolutionKind, OpenSides, open_sides
from einalg.language.analysis.canonical import key
from einalg.language.index.size import Size
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, reductions


@dataclass(frozen=True, eq=False)
class RulePattern:
    """A rule with a statement for each operator of its sides; what both read are its leaves.

    The right side is written at numbers for the sizes, as it is needed.
    """

    name: str
    before: Program
    sizes: Mapping[str, Size]
    write: Callable[[Mapping[str, int]], Program | None]

    @property
    def leaves(self) -> Collection[str]:
        """The tensors that stand for any others."""
        return self.before.inputs.keys()

    @cached_property
    def whole_reads(self) -> frozenset[Access]:
        """The reads of leaves at all their elements, each by an index of its own."""
        reads: set[Access] = set()
        for _, scope in self.before.statements:
            reads |= _whole_reads(scope, self.leaves)
        return frozenset(reads)


def patterns_of(rule: Rule, convolutions: Sequence[ConvolutionKind] = ()) -> Iterator[RulePattern]:
    """Yield a rule as patterns; a rule of a file that leaves kernels and groups open as one for
    each choice of `convolutions`, which are the kinds that a program has.

    There are none of a rule that is no substitution: of equal sides, or whose right side reads what
    its left side does not. Raises `EinalgError` for one of sizes that never fit.

    >>> import einalg as ea
    >>> sides = "O[i] = b[i] + Sum[k](A[i,k])", "O[i] = b[i] + A[i,0]"
    >>> rule = ea.substitutions.Rule("first", *sides, A=("N", 1), b=("N",))
    >>> for pattern in patterns_of(rule):
    ...     print(pattern.before)
    T1[i:N] = Sum[k:1](A[i, k])
    O[i:N] = T1[i] + b[i]
    """
    if rule.graph is None:
        yield from _of_sides(rule.name, rule.before, rule.after)
        return
    for sides in open_sides(rule.graph, convolutions):
        after = sides.after()
        if after is not None:
            yield from _of_sides(rule.name, sides.before, after)
        elif not sides.before.constants and sides.reads_enough:
            before = apart(sides.before)
            yield RulePattern(rule.name, before, before.sizes, _written_late(sides))


def _of_sides(name: str, before: Program, after: Program) -> Iterator[RulePattern]:
    """Yield the pattern of both sides of a rule, if it is a substitution."""
    before, after = apart(before), apart(after)
    if after.constants or before.constants or key(before) == key(after):
        return
    if not after.inputs.keys() <= before.inputs.keys():
        return

    def written(numbers: Mapping[str, int]) -> Program:
        return after.at(**{size: numbers[size] for size in after.sizes})

    yield RulePattern(name, before, {**before.sizes, **after.sizes}, written)


def _written_late(sides: OpenSides) -> Callable[[Mapping[str, int]], Program | None]:
    """Return a function that writes a right side whose groups depend on sizes."""

    def written(numbers: Mapping[str, int]) -> Program | None:
        after = sides.after(numbers)
        if after is None or after.sizes:
            return None
        return apart(after)

    return written


def apart(program: Program) -> Program:
    """Return a program with a statement for each scope, and for each reduction.

    >>> import einalg as ea
    >>> print(apart(ea.parse("O[i] = b[i] + Sum[k](A[i,k])\\nR[i] = 2*O[i]", A=(2, 3), b=(2,))))
    T1[i:2] = Sum[k:3](A[i, k])
    O[i:2] = T1[i] + b[i]
    R[i:2] = 2*O[i]
    """
    flat = lifted(program)
    known: dict[str, Scope] = dict(flat.statements)
    for name in flat.names:
        alone, moves = with_reductions_apart(excerpt(known, [name]), OF_MODELS)
        if moves:
            known[name] = returned(alone[name], known)
    return lifted(Program(known.items(), program.outputs))


def _whole_reads(scope: Scope, leaves: Collection[str]) -> set[Access]:
    """Return the reads of leaves at all their elements, each by an index of its own."""
    ranges = [(it.index, (it.low, it.high)) for it in scope.iterators]
    for node in reductions(scope.body):
        ranges += [(it.index, (it.low, it.high)) for it in node.iterators]
    by_index = dict(ranges)
    if len(by_index) < len(ranges):  # two reductions over one name
        return set()
    whole = set()
    for access in accesses(scope.body):
        bare = [subscript.as_index() for subscript in access.subscripts]
        if access.base is not access.tensor or access.tensor.name not in leaves:
            continue
        if None in bare or len(set(bare)) < len(bare):
            continue
        if tuple([by_index.get(index) for index in bare]) == access.tensor.box:
            whole.add(access)
    return whole
