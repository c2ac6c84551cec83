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
    """A body as a product; one factor where it is not a product.

    >>> x, y = sympy.symbols("x y")
    >>> product_of(-3 * x * y / 2)
    Product(coefficient=-3/2, factors=(x, y))
    """
    if not isinstance(body, sympy.Mul) or isinstance(body, IndexArithmetic):
        return Product(sympy.S.One, (body,))
    coefficient = sympy.Mul(*(a for a in body.args if a.is_Rational))
    return Product(coefficient, tuple(a for a in body.args if not a.is_Rational))


def addends(body: Any, extents: Mapping[Index, int]) -> tuple[Any, ...]:
    """The parts of a summed body to be summed apart: of an addition with a product that is larger
    than each of its factors.
    """
    if not isinstance(body, sympy.Add) or isinstance(body, IndexArithmetic):
        return (body,)
    return body.args if any(_is_outer(term, extents) for term in body.args) else (body,)


def _is_outer(term: Any, extents: Mapping[Index, int]) -> bool:
    factors = [
        frozenset(i for i in indices_of(f) if extents[i] > 1) for f in product_of(term).factors
    ]
    whole = frozenset().union(*factors)
    return all(f != whole for f in factors)


def indices_of(body: Any) -> frozenset[Index]:
    """The indices that the value of a body depends on."""
    return frozenset(i for i in body.free_symbols if isinstance(i, Index))


def where_indices(reduction: Any) -> frozenset[Index]:
    """The indices in the conditions of a reduction or scope."""
    return frozenset[Index]().union(*(c.indices for c in reduction.where))


def flattened(reduction: Reduce) -> Reduce:
    """A sum that is the whole body of a sum, as one sum over the indices of both; the same for the
    other reductions.
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
    """Whether a body depends on elements of tensors, not on indices only."""
    if isinstance(body, Access):
        return True
    if isinstance(body, IndexArithmetic):
        return False
    return any(map(reads, (body.body,) if isinstance(body, Reduce) else body.args))


def exponent_of(power: sympy.Pow) -> Any:
    """A constant exponent as the rational number that it is; None where it is no finite constant.

    >>> exponent_of(sympy.Symbol("x")**0.5)
    1/2
    """
    if power.exp.is_Float and sympy.oo not in (power.exp, -power.exp):
        return sympy.Rational(*float(power.exp).as_integer_ratio())
    return power.exp if power.exp.is_Rational else None


def over(factors: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Factors parted into numerators and denominators: `x**-2` goes below as `x**2`."""
    above, below = [], []
    for factor in factors:
        exponent = exponent_of(factor) if isinstance(factor, sympy.Pow) else None
        if exponent is not None and exponent < 0:
            below.append(sympy.Pow(factor.base, -exponent))
        else:
            above.append(factor)
    return above, below
