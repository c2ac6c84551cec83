"""Index forms from numbers, indices and SymPy expressions, and back (design §3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from sympy import Expr

from einalg.errors import NotationError
from einalg.language.index.affine import (
    Affine,
    Atom,
    FloorDiv,
    Index,
    IndexLike,
    as_form,
    floordiv,
)
from einalg.language.index.operators import IndexArithmetic, whole_number
from einalg.language.index.remainder import Mod, remainder_of_form


def affine(value: IndexLike) -> Affine:
    """Return `value` as an `Affine`: an int, an index, a quotient, or an ordinary SymPy expression.

    >>> affine(3), affine(Index("h"))
    (3, h)
    """
    if type(value) is Affine:
        return value
    if (
        isinstance(value, Expr)
        and not isinstance(value, IndexArithmetic)
        and whole_number(value) is None
    ):
        return from_sympy(value)
    return as_form(value)


def to_sympy(form: Affine) -> Expr:
    """Return the same value as an ordinary SymPy expression."""
    return sympy.Add(form.const, *(sympy.Mul(c, _atom_to_sympy(a)) for a, c in form.terms))


def _atom_to_sympy(atom: Atom) -> Expr:
    if isinstance(atom, Index):
        return atom
    inner = to_sympy(atom.argument)
    if isinstance(atom, FloorDiv):
        return sympy.floor(sympy.Mul(inner, sympy.Rational(1, atom.divisor)), evaluate=False)
    remainder: Any = Mod(inner, atom.divisor, evaluate=False)
    return remainder


def from_sympy(value: Any) -> Affine:
    """Read an ordinary SymPy expression made of integers, indices, `floor` and `Mod`; NotationError
    for any other.
    """
    if isinstance(value, sympy.Add):
        return _sum(affine(a) for a in value.args)
    if isinstance(value, sympy.Mul):
        coefficient, rest = value.as_coeff_Mul()
        if coefficient.is_Integer and coefficient != 1:
            return affine(rest).scaled(int(coefficient))
    if isinstance(value, sympy.floor):
        inner, divisor = _over_common_denominator(value.args[0])
        return floordiv(inner, divisor)
    if isinstance(value, sympy.ceiling):
        inner, divisor = _over_common_denominator(value.args[0])
        return floordiv(inner.scaled(-1), divisor).scaled(-1)
    if isinstance(value, (sympy.Mod, Mod)):
        arguments: Any = value.args
        inner, divisor = arguments
        if divisor.is_Integer and divisor != 0:
            return remainder_of_form(affine(inner), int(divisor))
    raise NotationError(
        f"{value} is not quasi-affine, so it cannot stand in a subscript\n"
        "  a subscript is made of indices and integers with +, -, multiplication by integers, "
        "and // and % by positive integers"
    )


def _over_common_denominator(value: Any) -> tuple[Affine, int]:
    terms = sympy.Add.make_args(sympy.expand(value))
    divisor = 1
    for term in terms:
        coefficient: Any = term.as_coeff_Mul()[0]
        if not coefficient.is_Rational:
            raise NotationError(
                f"floor({value}) is not quasi-affine\n  divide by a whole number: (i + 1)//2"
            )
        divisor = sympy.ilcm(divisor, coefficient.q)
    return _sum(affine(term * divisor) for term in terms), int(divisor)


def _sum(forms: Iterable[Affine]) -> Affine:
    total = affine(0)
    for form in forms:
        total = total.plus(form)
    return total
