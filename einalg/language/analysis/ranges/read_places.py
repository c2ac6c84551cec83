"""The places of a program's statements that others read: they need values nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses

Conditions = tuple[Constraint, ...]


def with_read_places(program: Program, names: Collection[str]) -> Program:
    """Return a program in which some statements have values only where these are read.

    What they read is then read less, too. Outputs stay, and so does what is read through padding,
    or everywhere.

    >>> import einalg as ea
    >>> text = "S[i,j] += A[i,k]*B[k,j]\\nT[i,j] = 2*S[i,j]\\nO[i] = Sum[j:4](T[i,j], where=j <= i)"
    >>> print(with_read_places(ea.parse(text, A=(4, 5), B=(5, 4)), ("S", "T")))
    S = L[i:4, j:4](Sum[k:5](A[i, k]*B[k, j]), where=i >= j)
    T = L[i:4, j:4](2*S[i, j], where=i >= j)
    O[i:4] = Sum[j:4](T[i, j], where=i >= j)
    """
    scopes = dict(program.statements)
    is_changed = False
    for name in reversed(program.names):
        scope = scopes[name]
        if name not in names or name in program.outputs or scope.where:
            continue
        where = _read_conditions(name, scopes)
        if where:
            is_changed = True
            scopes[name] = Scope(scope.iterators, where, scope.body)
    if not is_changed:
        return program
    return Program(scopes.items(), program.outputs)


def unread_gaps(program: Program) -> frozenset[str]:
    """Return the statements without a value at some points, of which nothing reads these points.

    An output is 0 there, and so is what is read through padding.

    >>> import einalg as ea
    >>> text = "S = L[i:4, j:4](A[i,j]*B[j], where=j <= i)\\nO[i] = Sum[j:4](S[i,j], where=j <= i)"
    >>> unread_gaps(ea.parse(text, A=(4, 4), B=(4,)))
    frozenset({'S'})
    """
    names = {name for name, scope in program.statements if scope.where} - set(program.outputs)
    for _, scope in program.statements:
        for access in accesses(scope.body):
            if access.base is not access.tensor:
                names.discard(access.tensor.name)
    return frozenset(names)


def _read_conditions(name: str, scopes: Mapping[str, Scope]) -> Conditions:
    """Return the conditions on a statement's indices that hold wherever it is read."""
    common: list[Constraint] | None = None
    for scope in scopes.values():
        if name not in scope.tensors:
            continue
        for access, where in _accesses(scope.body, scope.where):
            if isinstance(access.tensor, Tensor) and access.tensor.name == name:
                here = _conditions_of(access, where, scopes[name])
                common = [each for each in here if common is None or each in common]
    return tuple(common or ())


def _accesses(body: Any, where: Conditions) -> Iterator[tuple[Access, Conditions]]:
    """Yield the accesses of a body, with the conditions under which each is read."""
    if isinstance(body, Access):
        yield body, where
    elif isinstance(body, Reduce):
        yield from _accesses(body.body, (*where, *body.where))
    else:
        for part in body.args:
            yield from _accesses(part, where)


def _conditions_of(access: Access, where: Conditions, statement: Scope) -> list[Constraint]:
    """Return those conditions of a read that are about the indices of what it reads."""
    if access.base is not access.tensor:
        return []
    places = _places(access, statement)
    return [each.substitute(places) for each in where if each.indices <= places.keys()]


def _places(access: Access, statement: Scope) -> Mapping[Index, Affine]:
    """Return the indices of a read, by those of what it reads, where each moves along one axis."""
    places: dict[Index, Affine] = {}
    for form, iterator in zip(access.subscripts, statement.iterators):
        if len(form.terms) != 1:
            continue
        ((index, factor),) = form.terms
        if isinstance(index, Index) and factor == 1:
            places[index] = affine(iterator.index) - form.const
    return places
