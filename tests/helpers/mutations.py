"""Every expression that differs from a given one in a single place.

In a number (a coefficient, a bound, a padding, a fill, a divisor), or in the order of two paddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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

Maker = Callable[[], Any]  # SymPy takes milliseconds for some: those are made that are looked at


def mutations(expression: Scope | Program) -> list[Scope]:
    """The well-formed mutants of a scope, or of a program with one output, of which named
    statements are inlined first.
    """
    return [mutant for mutant in candidates(expression) if is_well_formed(mutant)]


def candidates(expression: Scope | Program) -> Iterator[Scope]:
    """All mutants, also those that read where there is nothing."""
    for make in makers(expression):
        yield make()


def makers(expression: Scope | Program) -> Iterator[Callable[[], Scope]]:
    """A function that makes it, for each mutant."""
    return _scopes(inlined(expression) if isinstance(expression, Program) else expression)


def is_well_formed(expression: Scope | Program) -> bool:
    try:
        check(expression)
    except EinalgError:
        return False
    return True


def _scopes(scope: Scope) -> Iterator[Maker]:
    for iterators in _each(scope.iterators, _ranges):
        yield partial(Scope, iterators, scope.where, scope.body)
    for where in _each(scope.where, _constraints):
        yield partial(Scope, scope.iterators, where, scope.body)
    for make in _bodies(scope.body):
        yield _with(lambda body: Scope(scope.iterators, scope.where, body), make)


def _with(function: Callable[[Any], Any], make: Maker) -> Maker:
    """The maker of what a function makes of a mutant."""
    return lambda: function(make())


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


def _bases(base: Any) -> Iterator[Maker]:
    if isinstance(base, Scope):
        yield from _scopes(base)
    elif isinstance(base, Padded):
        for amounts in _each(base.amounts, _amounts):
            yield partial(Padded, base.base, amounts, base.fill)
        for fill in (base.fill - 1, base.fill + 1):
            if not fill.is_finite or fill == 0 or holds(base.dtype, fill):
                yield partial(Padded, base.base, base.amounts, fill)
        for make in _bases(base.base):
            yield _with(lambda inner: Padded(inner, base.amounts, base.fill), make)
        if isinstance(base.base, Padded):
            yield from _exchanged(base, base.base)
    else:
        assert isinstance(base, Tensor)


def _exchanged(outer: Padded, inner: Padded) -> Iterator[Maker]:
    """Two paddings in the other order, with each other's fills, and with each other's amounts; and
    the outer one alone.
    """
    padded = partial(_padded_twice, inner.base)
    yield partial(padded, (outer.amounts, outer.fill), (inner.amounts, inner.fill))
    yield partial(padded, (inner.amounts, outer.fill), (outer.amounts, inner.fill))
    yield partial(padded, (outer.amounts, inner.fill), (inner.amounts, outer.fill))
    together = [(a + c, b + d) for (a, b), (c, d) in zip(outer.amounts, inner.amounts)]
    yield partial(Padded, inner.base, together, outer.fill)


def _padded_twice(base: Any, inner: tuple[Any, Any], outer: tuple[Any, Any]) -> Padded:
    return Padded(Padded(base, *inner), *outer)


def _amounts(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for before, after in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        if pair[0] + before >= 0 and pair[1] + after >= 0:
            yield pair[0] + before, pair[1] + after


def _bodies(body: Any) -> Iterator[Maker]:
    if isinstance(body, Access):
        for make in _bases(body.base):
            yield _with(lambda base: Access.of(base, body.subscripts), make)
        for subscripts in _each(body.subscripts, _forms):
            yield partial(Access.of, body.base, subscripts)
    elif isinstance(body, Reduce):
        for iterators in _each(body.iterators, _ranges):
            yield partial(Reduce, body.op, iterators, body.where, body.body)
        for where in _each(body.where, _constraints):
            yield partial(Reduce, body.op, body.iterators, where, body.body)
        for make in _bodies(body.body):
            yield _with(lambda inner: Reduce(body.op, body.iterators, body.where, inner), make)
    elif isinstance(body, IndexArithmetic):
        for form in _forms(affine(body)):
            yield partial(as_number, form)
    elif body.is_Number and body.is_finite:
        for number in (body - 1, body + 1):
            yield partial(_same, number)
    else:
        for operands in _each(body.args, _bodies):
            yield partial(_operation, body, operands)


def _same(number: Any) -> Any:
    return number


def _operation(body: Any, operands: tuple[Any, ...]) -> Any:
    """The operation of a body on its operands, of which one is a maker."""
    made = []
    for new, old in zip(operands, body.args):
        made.append(old if new is old else new())
    return body.func(*made)
