"""Integers that a rewriting stores: what was exact in place must fit (design §2).

A part of a body is computed exactly where wrapping round would change what is made of it, and a
scope of its own is stored in its type. So where a rewriting makes a scope of such a part, a value
may overflow that did not before. An extreme over no points is infinite in place, and the end of its
type where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import sympy

from derive.rewriting.element_types import is_ring
from derive.rewriting.paths import Path, scope_at
from einalg.errors import RuleError
from einalg.language.analysis.infinite_integers import EXTREMES, InfiniteIntegers
from einalg.language.analysis.ranges.value_ranges import range_of_scope
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce, as_factor
from einalg.language.ir.dtypes import bounds, is_float, numpy_dtype
from einalg.language.ir.program import Program, inlined, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access

COMPUTED_BITS = 32  # of the shortest type in which integers are computed
MOST_SCOPES = 4096  # that are remembered


def reads_integers(scope: Scope) -> bool:
    """Tell whether a rewriting of a scope may store integers that overflow."""
    return any(_is_integer(tensor.dtype) for tensor in scope.tensors.values())


def check_stored_integers(before: Program, after: Program, place: Path = ()) -> None:
    """Raise `RuleError` where a rewritten program stores integers in a scope or statement, in which
    they may overflow or be infinite, and what has that name or these values was not stored so
    before.

    A rewriting of the scope at a place keeps the values of that, and of the scopes around it.
    """
    statements = dict(before.statements)
    changed = [scope for name, scope in after.statements if statements.get(name) != scope]
    if not any(map(reads_integers, changed)):
        return
    unfit = _unfit(after, changed)
    if not unfit:
        return
    known = _unfit(before, statements.values())
    for length in range(1, len(place) + 1):
        if scope_at(before, place[:length]) in known.values():
            known[place[:length]] = scope_at(after, place[:length])
    whole = {_in_place(before, scope) for scope in known.values()}
    for name, stored in unfit.items():
        if name in known or _in_place(after, stored) in whole:
            continue
        low, high = range_of_scope(stored)
        if not _may_overflow(stored):
            raise RuleError(
                f"a new scope of {stored.dtype} may hold an extreme of no integers, and no type of "
                "integers has an infinity\n  cast what is reduced to a float, e.g. "
                "ea.ops.cast(A, 'f64')"
            )
        raise RuleError(
            f"the type {stored.dtype} does not hold all values of a new scope, from {low} to "
            f"{high}\n  cast an operand of it to a longer type, e.g. ea.ops.cast(A, 'i64')"
        )


def _unfit(program: Program, scopes: Iterable[Scope]) -> dict[Any, Scope]:
    """Return what may overflow or be infinite of what some scopes read, where that changes what is
    made of it: statements by their names, and inner scopes.
    """
    statements = dict(program.statements)
    unfit: dict[Any, Scope] = {}
    for scope in scopes:
        for node in all_scopes(scope):
            for read in _integer_reads(node):
                name, stored = read.tensor, read.tensor
                if not isinstance(stored, Scope):
                    name, stored = stored.name, statements.get(stored.name)
                if stored is not None and _is_unfit(read, stored, node):
                    unfit[name] = stored
    return unfit


def _is_unfit(read: _IntegerRead, stored: Scope, reader: Scope) -> bool:
    """Tell whether what is stored is another number to its reader than in place."""
    if read.is_exact and _may_overflow(stored):
        return True
    infinite, value = _infinite_integers(stored), as_factor(stored.body)
    if isinstance(reader.body, Access) or not infinite.may_be(value):
        return False
    return not read.is_chosen or not infinite.are_ends(value)


def _in_place(program: Program, scope: Scope) -> Scope:
    """Return a scope that reads no statements."""
    statements = {
        name: inlined(program, name) for name in scope.tensors if name in set(program.names)
    }
    return substitute_tensors(scope, statements)


class _IntegerRead(NamedTuple):
    """A tensor or inner scope of integers that a scope reads directly.

    The read `is_exact` where it is not the same to wrap round before and after, and it `is_chosen`
    where the end of its type is as good as an infinity: the largest of several, or a case.
    """

    tensor: Any
    is_exact: bool
    is_chosen: bool


@lru_cache(maxsize=MOST_SCOPES)
def _integer_reads(scope: Scope) -> frozenset[_IntegerRead]:
    wraps = _is_integer(scope.dtype)
    return frozenset(_reads(as_factor(scope.body), scope.dtype, wraps, True))


def _reads(part: Any, dtype: str, wraps: bool, is_chosen: bool) -> Iterator[_IntegerRead]:
    """Yield the integers that a part of a body reads; whether that wraps round as the whole does,
    which has the type `dtype`, and is chosen as the whole.
    """
    if isinstance(part, Access):
        stored = part.tensor
        if _is_integer(stored.dtype):
            is_exact = not wraps or _bits(stored.dtype) < _bits(dtype)
            yield _IntegerRead(stored, is_exact, is_chosen and stored.dtype == dtype)
    elif isinstance(part, Reduce):
        is_chosen = is_chosen and part.op in EXTREMES
        yield from _reads(as_factor(part.body), dtype, wraps and is_ring(part), is_chosen)
    elif isinstance(part, sympy.Piecewise):
        for value, condition in (case.args for case in part.args):
            yield from _reads(as_factor(value), dtype, wraps, is_chosen)
            yield from _reads(condition, dtype, False, False)
    elif not isinstance(part, IndexArithmetic):
        wraps = wraps and is_ring(part)
        is_chosen = is_chosen and isinstance(part, (sympy.Max, sympy.Min))
        for operand in part.args:
            yield from _reads(as_factor(operand), dtype, wraps, is_chosen)


@lru_cache(maxsize=MOST_SCOPES)
def _infinite_integers(scope: Scope) -> InfiniteIntegers:
    return InfiniteIntegers(scope)


def _may_overflow(scope: Scope) -> bool:
    """Tell whether a scope does not hold in its type what is computed of its body in place.

    Sums and products of long integers wrap round there too.
    """
    low, high = bounds(scope.dtype)
    bits = _bits(scope.dtype)
    has_sign = low < 0
    if has_sign and bits > COMPUTED_BITS:
        return False
    least, largest = range_of_scope(scope)
    if least < 0 and not has_sign:
        return True
    wraps = isinstance(scope.body, Reduce) and scope.body.op in ("Sum", "Prod")
    if bits > COMPUTED_BITS or (wraps and bits == COMPUTED_BITS):
        return False
    return least < low or high < largest


def _is_integer(dtype: str) -> bool:
    return dtype != "bool" and not is_float(dtype)


def _bits(dtype: str) -> int:
    """Return how many bits an element of a type of integers has."""
    return 8 * numpy_dtype(dtype).itemsize
