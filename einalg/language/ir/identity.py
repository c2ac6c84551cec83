"""Identity of scopes: the whole scope, up to the names of its indices and the order of commutative
operands.

Two scopes are equal if and only if their identities are. An identity is a nested tuple that is
stored once, so that comparing and hashing it costs nothing. (`einalg.language.analysis.canonical`
knows more expressions to be the same; it is asked less often.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from einalg.language.index.affine import Affine, Index, IndexArithmetic
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.interning import InternedTuple, interned
from einalg.language.ir.body import Reduce, with_plain_numbers
from einalg.language.ir.tensor import Access, Padded

COMMUTATIVE = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min, sympy.And, sympy.Or, sympy.Eq, sympy.Ne)
Names = Mapping[Index, int]


def identity(
    iterators: Sequence[LoopIndex], where: tuple[Constraint, ...], body: Any
) -> InternedTuple:
    """Return the identity of a scope with these ranges, conditions and body, stored once.

    >>> import einalg as ea
    >>> A, B = ea.tensor("A", (3,)), ea.tensor("B", (4,))
    >>> i, j, x, y = ea.indices("i j x y")
    >>> ea.L[i, j](A[i]*B[j]).identity is ea.L[y, x](B[x]*A[y]).identity
    True
    """
    names = {it.index: k for k, it in enumerate(iterators)}
    box = tuple((it.low, it.high) for it in iterators)
    plain = with_plain_numbers(body)
    return interned(box, _conditions(where, names), _body(plain, names, len(names)))


def _body(body: Any, names: Names, depth: int) -> Any:
    if isinstance(body, Access):
        return "[]", _base(body.base), tuple([_form(s, names) for s in body.subscripts])
    if isinstance(body, Reduce):
        inner, ranges = dict(names), []
        for position, it in enumerate(body.iterators, depth):
            inner[it.index] = position
            ranges.append((it.low, it.high))
        conditions = _conditions(body.where, inner)
        value = _body(body.body, inner, depth + len(ranges))
        return body.op, tuple(ranges), conditions, value
    if isinstance(body, IndexArithmetic):
        return _arithmetic(affine(body), names)
    if not body.args:
        return body
    parts = [_body(operand, names, depth) for operand in body.args]
    if isinstance(body, COMMUTATIVE):
        return type(body), _unordered(parts)
    return type(body), tuple(parts)


def _base(base: Any) -> Any:
    if isinstance(base, Padded):
        return "pad", base.amounts, base.fill, _base(base.base)
    if base.is_scope:
        return base.identity
    return base


def _arithmetic(form: Affine, names: Names) -> Any:
    """Return the identity of index arithmetic that is a part of a body.

    A form without indices is the number to which it is equal: SymPy remembers what it evaluated,
    and takes one for the other.
    """
    if not form.terms:
        return sympy.Integer(form.const)
    return _form(form, names)


def _form(form: Affine, names: Names) -> Any:
    return _terms(form, names, 1), form.const


def _terms(form: Affine, names: Names, sign: int) -> frozenset[Any]:
    return frozenset([(_atom(atom, names), sign * coefficient) for atom, coefficient in form.terms])


def _atom(atom: Any, names: Names) -> Any:
    if isinstance(atom, Index):
        return names.get(atom, atom)
    return type(atom), _form(atom.argument, names), atom.divisor


def _conditions(where: tuple[Constraint, ...], names: Names) -> frozenset[Any]:
    """Return conditions, which have no order, and neither have the sides of an equation."""
    parts: set[Any] = set()
    for condition in where:
        form = _form(condition.form, names)
        if condition.relation == "==":
            negated = _terms(condition.form, names, -1), -condition.form.const
            parts.add(frozenset([form, negated]))
        else:
            parts.add(form)
    return frozenset(parts)


def _unordered(parts: list[Any]) -> frozenset[Any]:
    distinct = frozenset(parts)
    if len(distinct) == len(parts):
        return distinct
    return frozenset(Counter(parts).items())
