"""The identity of a scope: what it says, up to the names of its indices and the order of
commutative operands.

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
from einalg.language.ir.body import Reduce
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
    return interned(box, _conditions(where, names), _body(body, names, len(names)))


def _body(body: Any, names: Names, depth: int) -> Any:
    if isinstance(body, Access):
        return "[]", _base(body.base), tuple([_form(s, names) for s in body.subscripts])
    if isinstance(body, Reduce):
        inner = {**names, **{it.index: depth + k for k, it in enumerate(body.iterators)}}
        ranges = tuple([(it.low, it.high) for it in body.iterators])
        return (
            body.op,
            ranges,
            _conditions(body.where, inner),
            _body(body.body, inner, depth + len(ranges)),
        )
    if isinstance(body, IndexArithmetic):
        return _form(affine(body), names)
    if not body.args:
        return body
    parts = [_body(a, names, depth) for a in body.args]
    return type(body), _unordered(parts) if isinstance(body, COMMUTATIVE) else tuple(parts)


def _base(base: Any) -> Any:
    if isinstance(base, Padded):
        return "pad", base.amounts, base.fill, _base(base.base)
    return base.identity if base.is_scope else base


def _form(form: Affine, names: Names) -> Any:
    return _terms(form, names, 1), form.const


def _terms(form: Affine, names: Names, sign: int) -> frozenset[Any]:
    return frozenset([(_atom(atom, names), sign * coefficient) for atom, coefficient in form.terms])


def _atom(atom: Any, names: Names) -> Any:
    return (
        names.get(atom, atom)
        if isinstance(atom, Index)
        else (type(atom), _form(atom.argument, names), atom.divisor)
    )


def _conditions(where: tuple[Constraint, ...], names: Names) -> frozenset[Any]:
    """Conditions have no order, and the sides of an equation none either."""
    found: set[Any] = set()
    for c in where:
        form = _form(c.form, names)
        found.add(
            form
            if c.relation == ">="
            else frozenset([form, (_terms(c.form, names, -1), -c.form.const)])
        )
    return frozenset(found)


def _unordered(parts: list[Any]) -> frozenset[Any]:
    found = frozenset(parts)
    return found if len(found) == len(parts) else frozenset(Counter(parts).items())
