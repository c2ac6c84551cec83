"""Every expression that differs from a given one in a single place.

In a number (a coefficient, a bound, a padding, a fill, a divisor), or in the order of two paddings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from einalg.errors import EinalgError
from einalg.language.analysis.validate import check
from einalg.language.index.affine import Affine, FloorDiv, Index, IndexArithmetic, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.remainder import as_number
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import holds
from einalg.language.ir.program import Program, inlined
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor


def mutations(expression: Scope | Program) -> list[Scope]:
    """The well-formed mutants of a scope, or of a program with one output, of which named
    statements are inlined first.
    """
    return [mutant for mutant in candidates(expression) if is_well_formed(mutant)]


def candidates(expression: Scope | Program) -> Iterator[Scope]:
    """All mutants, also those that read where there is nothing."""
    return _scopes(inlined(expression) if isinstance(expression, Program) else expression)


def is_well_formed(scope: Scope) -> bool:
    try:
        check(scope)
    except EinalgError:
        return False
    return True


def _scopes(scope: Scope) -> Iterator[Scope]:
    yield from (
        Scope(iterators, scope.where, scope.body) for iterators in _each(scope.iterators, _ranges)
    )
    yield from (
        Scope(scope.iterators, where, scope.body) for where in _each(scope.where, _constraints)
    )
    yield from (Scope(scope.iterators, scope.where, body) for body in _bodies(scope.body))


def _each(items: Any, mutants: Any) -> Iterator[tuple[Any, ...]]:
    """The tuple with one item mutated."""
    for position, item in enumerate(items):
        for mutant in mutants(item):
            yield (*items[:position], mutant, *items[position + 1 :])


def _ranges(it: LoopIndex) -> Iterator[LoopIndex]:
    for low, high in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if it.low + low <= it.high + high:
            yield LoopIndex(it.index, it.low + low, it.high + high)


def _constraints(constraint: Constraint) -> Iterator[Constraint]:
    yield from (Constraint(form, constraint.relation) for form in _forms(constraint.form))


def _forms(form: Affine) -> Iterator[Affine]:
    for step in (-1, 1):
        yield form + step
        yield from (form + affine(atom) * step for atom, _ in form.terms)
    for atom, coefficient in form.terms:
        rest = form - affine(atom) * coefficient
        yield from (rest + mutant * coefficient for mutant in _atoms(atom))


def _atoms(atom: Any) -> Iterator[Affine]:
    if isinstance(atom, Index):
        return
    make = floordiv if isinstance(atom, FloorDiv) else modulo
    yield from (
        make(atom.argument, divisor) for divisor in (atom.divisor - 1, atom.divisor + 1) if divisor
    )
    yield from (make(argument, atom.divisor) for argument in _forms(atom.argument))


def _bases(base: Any) -> Iterator[Any]:
    if isinstance(base, Scope):
        yield from _scopes(base)
    elif isinstance(base, Padded):
        yield from (
            Padded(base.base, amounts, base.fill) for amounts in _each(base.amounts, _amounts)
        )
        fills = [base.fill + step for step in (-1, 1)]
        yield from (
            Padded(base.base, base.amounts, fill)
            for fill in fills
            if not fill.is_finite or fill == 0 or holds(base.dtype, fill)
        )
        yield from (Padded(inner, base.amounts, base.fill) for inner in _bases(base.base))
        if isinstance(base.base, Padded):
            yield from _exchanged(base, base.base)
    else:
        assert isinstance(base, Tensor)


def _exchanged(outer: Padded, inner: Padded) -> Iterator[Padded]:
    """Two paddings in the other order, with each other's fills, and with each other's amounts; and
    the outer one alone.
    """
    yield Padded(Padded(inner.base, outer.amounts, outer.fill), inner.amounts, inner.fill)
    yield Padded(Padded(inner.base, inner.amounts, outer.fill), outer.amounts, inner.fill)
    yield Padded(Padded(inner.base, outer.amounts, inner.fill), inner.amounts, outer.fill)
    together = [(a + c, b + d) for (a, b), (c, d) in zip(outer.amounts, inner.amounts)]
    yield Padded(inner.base, together, outer.fill)


def _amounts(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for before, after in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if pair[0] + before >= 0 and pair[1] + after >= 0:
            yield pair[0] + before, pair[1] + after


def _bodies(body: Any) -> Iterator[Any]:
    if isinstance(body, Access):
        yield from (Access.of(base, body.subscripts) for base in _bases(body.base))
        yield from (
            Access.of(body.base, subscripts) for subscripts in _each(body.subscripts, _forms)
        )
    elif isinstance(body, Reduce):
        yield from (
            Reduce(body.op, iterators, body.where, body.body)
            for iterators in _each(body.iterators, _ranges)
        )
        yield from (
            Reduce(body.op, body.iterators, where, body.body)
            for where in _each(body.where, _constraints)
        )
        yield from (
            Reduce(body.op, body.iterators, body.where, inner) for inner in _bodies(body.body)
        )
    elif isinstance(body, IndexArithmetic):
        yield from (as_number(form) for form in _forms(affine(body)))
    elif body.is_Number and body.is_finite:
        yield from (body - 1, body + 1)
    else:
        yield from (body.func(*arguments) for arguments in _each(body.args, _bodies))
