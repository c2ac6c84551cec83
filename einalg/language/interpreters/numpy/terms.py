"""The shape of a body: sums as products of factors, and which indices a part of it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sympy

from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access


class Product(NamedTuple):
    """`coefficient · Π factors`, the coefficient a rational number."""

    coefficient: Any
    factors: tuple[Any, ...]


def product_of(body: Any) -> Product:
    """Return a body as a product; one factor where it is not a product.

    >>> x, y = sympy.symbols("x y")
    >>> product_of(-3 * x * y / 2)
    Product(coefficient=-3/2, factors=(x, y))
    """
    if not isinstance(body, sympy.Mul) or isinstance(body, IndexArithmetic):
        return Product(sympy.S.One, (body,))
    numbers, factors = [], []
    for operand in body.args:
        (numbers if operand.is_Rational else factors).append(operand)
    return Product(sympy.Mul(*numbers), tuple(factors))


def addends(body: Any, extents: Mapping[Index, int]) -> tuple[Any, ...]:
    """Return the parts of a summed body that are summed one by one: those of an addition with a
    product that is larger than each of its factors.
    """
    if not isinstance(body, sympy.Add) or isinstance(body, IndexArithmetic):
        return (body,)
    if any(_is_outer(term, extents) for term in body.args):
        return body.args
    return (body,)


def _is_outer(term: Any, extents: Mapping[Index, int]) -> bool:
    """Return whether a product is larger than each of its factors."""
    factors = [axes_of(factor, extents) for factor in product_of(term).factors]
    return frozenset().union(*factors) not in factors


def axes_of(body: Any, extents: Mapping[Index, int]) -> frozenset[Index]:
    """Return the indices along which the value of a body is more than one element."""
    return frozenset(index for index in indices_of(body) if extents[index] > 1)


def indices_of(body: Any) -> frozenset[Index]:
    """Return the indices that the value of a body depends on."""
    return frozenset(i for i in body.free_symbols if isinstance(i, Index))


def where_indices(reduction: Any) -> frozenset[Index]:
    """Return the indices in the conditions of a reduction or scope."""
    return frozenset[Index]().union(*(c.indices for c in reduction.where))


def flattened(reduction: Reduce) -> Reduce:
    """Return a sum that is the whole body of a sum as one sum over the indices of both; the same
    for the other reductions.
    """
    while isinstance(reduction.body, Reduce) and reduction.body.op == reduction.op:
        inner = reduction.body
        reduction = Reduce(
            reduction.op,
            (*reduction.iterators, *inner.iterators),
            (*reduction.where, *inner.where),
            inner.body,
        )
    return reduction


def reads(body: Any) -> bool:
    """Return whether a body depends on elements of tensors, not on indices only."""
    if isinstance(body, Access):
        return True
    if isinstance(body, IndexArithmetic):
        return False
    if isinstance(body, Reduce):
        return reads(body.body)
    return any(map(reads, body.args))


def exponent_of(power: sympy.Pow) -> Any:
    """Return a constant exponent as a rational number; None where it is no finite constant.

    >>> exponent_of(sympy.Symbol("x")**0.5)
    1/2
    """
    if power.exp.is_Float and sympy.oo not in (power.exp, -power.exp):
        return sympy.Rational(*float(power.exp).as_integer_ratio())
    return power.exp if power.exp.is_Rational else None


def as_fraction(factors: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Split factors into numerators and denominators: `x**-2` goes below as `x**2`."""
    numerators, denominators = [], []
    for factor in factors:
        exponent = exponent_of(factor) if isinstance(factor, sympy.Pow) else None
        if exponent is not None and exponent < 0:
            denominators.append(sympy.Pow(factor.base, -exponent))
        else:
            numerators.append(factor)
    return numerators, denominators
