"""The work of kernels that is counted, not measured: arithmetic, bytes, and their ratio.

`derive.cost.model` ranks candidates by a faster count, which has a term for conditions and copies
as well; here a FLOP is what a person counts as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair

from derive.cost.model import kernels_of_each_run, traffic
from einalg.language.conversion import Conversion
from einalg.language.index.constraint import Constraint
from einalg.language.index.isl import number_of_points
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses

CHOICES = (sympy.Piecewise, ExprCondPair, sympy.Tuple, sympy.logic.boolalg.BooleanFunction)
FREE = (*CHOICES, Conversion)  # nodes that are no arithmetic themselves
CHAINS = (sympy.Add, sympy.Max, sympy.Min)  # of n operands, with n - 1 operations


@dataclass(frozen=True)
class Work:
    """The arithmetic operations of a call, and the bytes that it must move at least.

    >>> Work(flops=600, bytes=200).intensity
    3.0
    """

    flops: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations for each byte that is moved."""
        return self.flops / max(self.bytes, 1)


def total_work(works: Iterable[Work]) -> Work:
    """Return the work of calls that are made one after the other."""
    flops = size = 0
    for work in works:
        flops += work.flops
        size += work.bytes
    return Work(flops, size)


def work_of_each_run(kernels: Sequence[Kernel]) -> list[Work]:
    """Return the work of every kernel of a run; what depends on weights alone has none."""
    repeated = {kernel.output for kernel in kernels_of_each_run(kernels)}
    works = []
    for kernel in kernels:
        work = Work(0, 0)
        if kernel.output in repeated and kernel.scope is not None:
            work = Work(flops(kernel.scope), traffic(kernel.scope))
        works.append(work)
    return works


def flops(scope: Scope) -> int:
    """Return the arithmetic of a flat scope.

    Every addition, multiplication, division, comparison of data and call of a function counts as
    one, at each point where the conditions hold. Index arithmetic, changes of sign, choices and
    copies count nothing; a product with an element of padding counts like any other.

    >>> import einalg as ea
    >>> flops(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 8), B=(8, 5)))
    320
    >>> flops(ea.parse("O[i,j] = A[j,i]", A=(4, 8)))
    0
    """
    return _flops(scope.body, tuple(scope.iterators), tuple(scope.where))


def _flops(
    body: sympy.Basic, iterators: tuple[LoopIndex, ...], where: tuple[Constraint, ...]
) -> int:
    """Return the operations of a body at all points of some iterators."""
    count = _points(iterators, where) * _operations(body)
    for reduce in _outermost_reductions(body):
        inner_iterators = (*iterators, *reduce.iterators)
        inner_where = (*where, *reduce.where)
        count += _points(inner_iterators, inner_where)  # to combine
        count += _flops(reduce.body, inner_iterators, inner_where)
    return count


def _points(iterators: Sequence[LoopIndex], where: Sequence[Constraint]) -> int:
    points = number_of_points(iterators, where)
    return prod(it.extent for it in iterators) if points is None else points


def _outermost_reductions(body: sympy.Basic) -> list[Reduce]:
    """Return the reductions of data that are in no other one."""
    if not _reads_data(body):
        return []
    if isinstance(body, Reduce):
        return [body]
    reductions = []
    for operand in body.args:
        reductions += _outermost_reductions(operand)
    return reductions


def _operations(body: sympy.Basic) -> int:
    """Return the operations on data for one point, without those of reductions."""
    if isinstance(body, (Access, Reduce)) or not _reads_data(body):
        return 0
    count = sum(map(_operations, body.args))
    if isinstance(body, FREE):
        return count
    if isinstance(body, sympy.Mul):
        return count + _products(body)
    if isinstance(body, CHAINS):
        return count + len(body.args) - 1
    return count + 1


def _reads_data(body: Any) -> bool:
    return next(iter(accesses(body)), None) is not None


def _products(product: sympy.Mul) -> int:
    """Return the multiplications between factors; -1 is none, and 1/x is the division that it
    counts as itself.
    """
    factors = 0
    for factor in product.args:
        is_quotient = isinstance(factor, sympy.Pow) and factor.exp == -1
        if factor != -1 and not is_quotient:
            factors += 1
    return max(factors - 1, 0)
