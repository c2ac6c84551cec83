"""The sizes at which programs are compared where no proof for all sizes decides (design §9).

Small ones; those at which a condition, or a padding, comes to hold or to fail for the first time;
and the numbers that stand in index arithmetic, with their neighbours. Two programs that are masked
at `i < 9` differ at no smaller size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import islpy as isl
import sympy
from sympy.logic.boolalg import BooleanFunction

from derive.proof.exact.guards import conjunctions, inside, is_index_condition, negated
from derive.proof.exact.polynomial import OutsideFragment
from einalg.language.analysis.sizes import smallest, where_all_hold
from einalg.language.index.affine import Affine, IndexQuotient
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.isl import Space, bounded
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.operators import IndexArithmetic
from einalg.language.index.size import Size
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, paddings
from einalg.language.ir.traversal import accesses, parts, reductions

SMALL = 9  # numbers of a size that are tried, from its smallest
NEIGHBOURS = (1, 2, 0, -1)  # of a number that stands in a program, the most telling ones first
STRIDES = (1, 2, 4, 5, 7, 8)  # without a common divisor with `SMALL`
MAX_FROM_PROGRAM = 20  # choices that conditions and numbers of a program make
MAX_CONDITIONS = 16  # of one scope
MAX_ISL_OPERATIONS = 200_000
Numbers = tuple[int, ...]
Domain = tuple[tuple[LoopIndex, ...], tuple[Constraint, ...]]


def small_choices(sizes: Sequence[Size], allowed: isl.Set) -> list[Numbers]:
    """Return different choices of small sizes that are allowed, smaller ones first."""
    starts = _starts(sizes, allowed)
    choices = [tuple(map(_value, sizes, starts, steps)) for steps in _steps(len(sizes))]
    return in_order(_allowed(choices, sizes, allowed))


def choices_for(scopes: Sequence[Scope], sizes: Sequence[Size], allowed: isl.Set) -> list[Numbers]:
    """Return small choices of sizes, then those that conditions and numbers of scopes make, the
    most telling ones first.

    >>> import einalg as ea
    >>> from einalg.language.analysis.sizes import allowed_sizes
    >>> scope = ea.parse("O[()] = Sum[i:N](x[i], where=i<20)", x=("N",))
    >>> choices = choices_for([scope], list(scope.sizes.values()), allowed_sizes(scope))
    >>> [number for (number,) in choices]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 21, 22, 20, 19, 18]
    """
    small = small_choices(sizes, allowed)
    starts = _starts(sizes, allowed)
    first = [choice for choice in _at_thresholds(scopes, sizes, allowed) if choice not in small]
    later = [tuple(map(_value, sizes, choice, [1] * len(sizes))) for choice in first]
    beyond = [*first, *later, *_near_numbers(scopes, sizes, starts)]
    new = (choice for choice in _allowed(beyond, sizes, allowed) if choice not in small)
    return [*small, *islice(new, MAX_FROM_PROGRAM)]


def point_of_sizes(sizes: Sequence[Size], numbers: Sequence[int]) -> isl.Set:
    """Return the set of one choice of sizes."""
    pairs = zip(sizes, numbers)
    return where_all_hold([Constraint(affine(size) - number, "==") for size, number in pairs])


def _starts(sizes: Sequence[Size], allowed: isl.Set) -> list[int]:
    first = smallest(allowed)
    return [first[size.name] for size in sizes]


def _allowed(
    choices: Iterable[Numbers], sizes: Sequence[Size], allowed: isl.Set
) -> Iterator[Numbers]:
    """Yield the different choices that are allowed."""
    for numbers in dict.fromkeys(choices):
        if not point_of_sizes(sizes, numbers).intersect(allowed).is_empty():
            yield numbers


def in_order(choices: Iterable[Numbers]) -> list[Numbers]:
    """Return choices of sizes, smaller ones first."""
    return sorted(choices, key=lambda numbers: (sum(numbers), numbers))


def _value(size: Size, start: int, step: int) -> int:
    """Return the value so many steps from a start, or the last one before it that there is."""
    while step and not size.holds(start + step * size.multiple_of):
        step -= 1
    return start + step * size.multiple_of


def _steps(count: int) -> Iterator[Numbers]:
    """Yield how far sizes are from their start: all as far, one of them alone, and then each once
    as far as any small number is, the others elsewhere.
    """
    for step in range(2):
        yield (step,) * count
    for position in range(count):
        yield tuple([1 if k == position else 0 for k in range(count)])
    for step in range(SMALL):
        yield tuple([_mixed(step, position) for position in range(count)])


def _mixed(step: int, position: int) -> int:
    return (STRIDES[position % len(STRIDES)] * step + position // len(STRIDES)) % SMALL


def _near_numbers(
    scopes: Sequence[Scope], sizes: Sequence[Size], starts: Sequence[int]
) -> Iterator[Numbers]:
    """Yield choices with a number of some scopes, or a neighbour, for one size or for all."""
    numbers = sorted({number for scope in scopes for number in _numbers(scope)})
    for shift in NEIGHBOURS:
        for number in numbers:
            values = [_near(size, number, shift) for size in sizes]
            for position, (value, start) in enumerate(zip(values, starts)):
                if value >= start + SMALL:
                    alone = list(map(_value, sizes, starts, [1] * len(sizes)))
                    alone[position] = value
                    yield tuple(alone)
            if any(value >= start + SMALL for value, start in zip(values, starts)):
                yield tuple(values)


def _near(size: Size, number: int, shift: int) -> int:
    """Return a number, moved by so many steps of a size."""
    return (number // size.multiple_of + shift) * size.multiple_of


def _numbers(scope: Scope) -> Iterator[int]:
    """Yield the numbers of the index arithmetic in a scope and in those that it reads."""
    for node in all_scopes(scope):
        for form in _forms(node):
            yield from _numbers_of_form(affine(form))
        for part in parts(node.body):
            operands = () if isinstance(part, (Access, IndexArithmetic)) else part.args
            if any(isinstance(operand, IndexArithmetic) for operand in operands):
                yield from [abs(int(operand)) for operand in operands if operand.is_Integer]


def _forms(node: Scope) -> Iterator[IndexArithmetic | int]:
    """Yield the conditions, ranges, subscripts, paddings and shapes of a scope."""
    iterators, where = list(node.iterators), list(node.where)
    for reduction in reductions(node.body):
        iterators += reduction.iterators
        where += reduction.where
    for it in iterators:
        yield from (it.low, it.high)
    for condition in where:
        yield condition.form
    for access in accesses(node.body):
        yield from access.subscripts
        for view in paddings(access.base):
            for pair in view.amounts:
                yield from pair
        for axis in access.tensor.box:
            yield from axis
    for part in parts(node.body):
        if isinstance(part, IndexArithmetic):
            yield part


def _numbers_of_form(form: Affine) -> Iterator[int]:
    if form.const:
        yield abs(form.const)
    for atom, coefficient in form.terms:
        yield abs(coefficient)
        if isinstance(atom, IndexQuotient):
            yield atom.divisor
            yield from _numbers_of_form(atom.argument)


def _at_thresholds(
    scopes: Sequence[Scope], sizes: Sequence[Size], allowed: isl.Set
) -> list[Numbers]:
    """Return the smallest sizes at which each condition holds, or fails, at some point."""
    choices: list[Numbers] = []
    try:
        with bounded(MAX_ISL_OPERATIONS):
            for points in _cut_domains(scopes):
                first = smallest(points.params().intersect(allowed))
                if first:
                    choices.append(tuple([first[size.name] for size in sizes]))
    except isl.Error:
        pass
    return choices


def _cut_domains(scopes: Sequence[Scope]) -> Iterator[isl.Set]:
    """Yield the points of the domains of scopes where one of their conditions holds, or fails."""
    for scope in scopes:
        for node in all_scopes(scope):
            yield from _cut_domains_of(node)


def _cut_domains_of(node: Scope) -> Iterator[isl.Set]:
    conditions = _conditions(node)
    for iterators, where in _domains(node.body, (tuple(node.iterators), tuple(node.where))):
        space = Space([it.index for it in iterators])
        for condition in conditions:
            if not condition.indices <= set(space.indices):
                continue
            others = [other for other in where if other != condition]
            domain = space.set(iterators, others)
            for part in (condition, *negated(condition)):
                yield domain.intersect(space.where(part))


def _domains(body: object, domain: Domain) -> Iterator[Domain]:
    """Yield the domain of a body, and those of the reductions in it."""
    yield domain
    if isinstance(body, Reduce):
        inner = (*domain[0], *body.iterators), (*domain[1], *body.where)
        yield from _domains(body.body, inner)
    else:
        for reduction in _outer_reductions(body):
            yield from _domains(reduction, domain)


def _outer_reductions(body: object) -> Iterator[Reduce]:
    for part in getattr(body, "args", ()):
        if isinstance(part, Reduce):
            yield part
        else:
            yield from _outer_reductions(part)


def _conditions(node: Scope) -> list[Constraint]:
    """Return the conditions on indices and sizes in a scope, and those that reads do not meet a
    padding.
    """
    conditions = dict.fromkeys(node.where)
    for reduction in reductions(node.body):
        conditions.update(dict.fromkeys(reduction.where))
    for part in parts(node.body):
        conditions.update(dict.fromkeys(_choices_of(part)))
    for access in accesses(node.body):
        if next(paddings(access.base), None) is not None:
            conditions.update(dict.fromkeys(inside(access.subscripts, access.tensor.box)))
    undecided = [condition for condition in conditions if condition.truth is None]
    return undecided[:MAX_CONDITIONS]


def _choices_of(part: object) -> list[Constraint]:
    if not isinstance(part, (sympy.Rel, BooleanFunction)) or not is_index_condition(part):
        return []
    try:
        return [one for parts in conjunctions(part, lambda form: form) for one in parts]
    except OutsideFragment:
        return []
