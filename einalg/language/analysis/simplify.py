"""Simplification of `//` and `%` by index ranges and conditions: a table of facts, and what applies
them.

The normal form of `einalg.language.index.affine` needs no ranges. Each row here does, and says in
L-notation what it replaces by what, and when. The tests check each row alone, exhaustively on small
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, inf
from typing import Any

import sympy

from einalg.errors import RuleError
from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.index.size import Extent, is_always_at_most, least
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, padded_box

Ranges = Mapping[Index, tuple[int, int]]
REMEMBERED_NUMBERS = 1000  # whose divisors are
MAX_TRIED_VALUES = 1024  # of an index whose conditions are tried one by one


@dataclass(frozen=True)
class IndexFact:
    """One row: in a term `coefficient·before`, `before` may be replaced by `after` where `requires`
    holds.
    """

    name: str
    before: str
    after: str
    requires: str
    use: Callable[[FloorDiv | Modulo, int, Ranges, tuple[Constraint, ...]], Affine | None]


def _small_part(
    argument: Affine, divisor: int, ranges: Ranges
) -> tuple[int, Affine, Affine] | None:
    """Return the largest `g`, `x` and `y` with `argument == g·x + y`, where `g > 1` divides
    `divisor` and `0 <= y < g`; None where there are none.
    """
    for g in _common_divisors(argument, divisor):
        multiples, rest_terms = [], []
        for atom, coefficient in argument.terms:
            if coefficient % g:
                rest_terms.append((atom, coefficient))
            else:
                multiples.append((atom, coefficient // g))
        rest = Affine.from_normal_form(tuple(rest_terms), argument.const)
        low, high = rest.interval(ranges)
        if low // g == high // g and (g == divisor or multiples):
            return g, Affine.from_normal_form(tuple(multiples), low // g), rest - g * (low // g)
    return None


def _common_divisors(argument: Affine, divisor: int) -> list[int]:
    """Return a divisor, and those of its divisors above 1 that divide a coefficient as well, the
    largest first.
    """
    common = {divisor}
    for _, coefficient in argument.terms:
        common.update(_divisors(gcd(coefficient, divisor)))
    return sorted(common - {1}, reverse=True)


@lru_cache(REMEMBERED_NUMBERS)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(sympy.divisors(number))


def _quotient_of_small_part(
    atom: Any, coefficient: int, ranges: Ranges, where: Any
) -> Affine | None:
    if not isinstance(atom, FloorDiv):
        return None
    parts = _small_part(atom.argument, atom.divisor, ranges)
    if parts is None:
        return None
    g, x, _ = parts
    return floordiv(x, atom.divisor // g).scaled(coefficient)


def _remainder_of_small_part(
    atom: Any, coefficient: int, ranges: Ranges, where: Any
) -> Affine | None:
    if not isinstance(atom, Modulo):
        return None
    parts = _small_part(atom.argument, atom.divisor, ranges)
    if parts is None:
        return None
    g, x, y = parts
    return (modulo(x, atom.divisor // g).scaled(g) + y).scaled(coefficient)


def known_remainder(form: Affine, divisor: int, where: Iterable[Constraint]) -> int | None:
    """Return `form % divisor` where a condition `e % k == 0`, with `divisor` dividing k and `form -
    e` constant modulo it, says so; else None.
    """
    for condition in where:
        if condition.relation != "==" or len(condition.form.terms) != 1:
            continue
        ((atom, coefficient),) = condition.form.terms
        if isinstance(atom, Modulo) and atom.divisor % divisor == 0:
            difference = form - atom.argument - condition.form.const * coefficient
            remainder = modulo(difference, divisor)
            if not remainder.terms:
                return remainder.const
    return None


def _exact_quotient(atom: Any, coefficient: int, ranges: Ranges, where: Any) -> Affine | None:
    if not isinstance(atom, FloorDiv) or coefficient % atom.divisor or not where:
        return None
    remainder = known_remainder(atom.argument, atom.divisor, where)
    if remainder is None:
        return None
    return (atom.argument - remainder).scaled(coefficient // atom.divisor)


def _exact_remainder(atom: Any, coefficient: int, ranges: Ranges, where: Any) -> Affine | None:
    if not isinstance(atom, Modulo) or not where:
        return None
    remainder = known_remainder(atom.argument, atom.divisor, where)
    if remainder is None:
        return None
    return affine(remainder * coefficient)


FACTS = (
    IndexFact(
        "quotient of a small part",
        "(g*x + y)//(g*k)",
        "x//k",
        "0 <= y < g",
        _quotient_of_small_part,
    ),
    IndexFact(
        "remainder of a small part",
        "(g*x + y)%(g*k)",
        "g*(x%k) + y",
        "0 <= y < g",
        _remainder_of_small_part,
    ),
    IndexFact("exact quotient", "k*((e + d)//k)", "e + d - d%k", "e%k == 0", _exact_quotient),
    IndexFact("exact remainder", "(e + d)%k", "d%k", "e%k == 0", _exact_remainder),
)


def simplify(form: Affine, ranges: Ranges, where: tuple[Constraint, ...] = ()) -> Affine:
    """Return `form` with every fact of the table applied; the same object where none applies.

    >>> x, y = Index("x"), Index("y")
    >>> simplify((4*x + y)//4, {x: (0, 9), y: (0, 4)})
    x
    """
    if form.is_affine():
        return form
    form = with_joined_quotients(form)
    total, changed = affine(form.const), False
    for atom, coefficient in form.terms:
        term = _simplify_term(atom, coefficient, ranges, where)
        if term is None:
            term = affine(atom).scaled(coefficient)
        else:
            changed = True
        total = total + term
    if not changed:
        return form
    return simplify(total, ranges, where)


def with_joined_quotients(form: Affine) -> Affine:
    """Return a form with `(k*x + e)//d` for `k*m*(x//(d*m)) + (k*(x%(d*m)) + e)//d`, whatever the
    ranges; the same object where there is no such pair.

    >>> x, e = Index("x"), Index("e")
    >>> with_joined_quotients(x // 3 + (x % 3 + e) // 3)
    (e + x)//3
    """
    for atom, coefficient in form.terms:
        if isinstance(atom, FloorDiv):
            joined = _with_joined_quotient(form, atom, coefficient)
            if joined is not None:
                return with_joined_quotients(joined)
    return form


def _with_joined_quotient(form: Affine, quotient: FloorDiv, coefficient: int) -> Affine | None:
    """Return a form in which one quotient takes in another, of which it holds the remainder."""
    divisor = quotient.divisor
    for part, k in quotient.argument.terms:
        if not isinstance(part, Modulo) or part.divisor % divisor:
            continue
        outer = floordiv(part.argument, part.divisor).as_atom()
        factor = coefficient * k * (part.divisor // divisor)
        if outer is not None and form.coefficient(outer) == factor:
            whole = floordiv(quotient.argument + (part.argument - part) * k, divisor)
            rest = tuple(term for term in form.terms if term[0] not in (quotient, outer))
            return Affine.from_normal_form(rest, form.const) + whole.scaled(coefficient)
    return None


def _simplify_term(
    atom: Any, coefficient: int, ranges: Ranges, where: tuple[Constraint, ...]
) -> Affine | None:
    if isinstance(atom, Index):
        return None
    argument = simplify(atom.argument, ranges, where)
    if argument is not atom.argument:
        return atom.divide(argument, atom.divisor).scaled(coefficient)
    for fact in FACTS:
        result = fact.use(atom, coefficient, ranges, where)
        if result is not None:
            return result
    return None


def simplify_scope(scope: Scope) -> Scope:
    """Return a scope with simplified subscripts, without conditions that always hold and without
    padding that is never read.
    """
    where = needed_conditions(scope.where, scope.ranges)
    body = _simplify_body(scope.body, scope.ranges, where)
    if body is scope.body and where == scope.where:
        return scope
    return Scope(scope.iterators, where, body)


def needed_conditions(where: Iterable[Constraint], ranges: Ranges) -> tuple[Constraint, ...]:
    """Return the conditions that do not hold everywhere in the box, simplified."""
    needed: list[Constraint] = []
    for condition in where:
        simple = _divisibility(Constraint(simplify(condition.form, ranges), condition.relation))
        if simple not in needed and not _always(simple, ranges):
            needed.append(simple)
    return tuple(needed)


def _divisibility(condition: Constraint) -> Constraint:
    """Return `e % k == 0` for the condition `k*(e//k) == e`, and any other as it is."""
    if condition.relation != "==":
        return condition
    for atom, coefficient in condition.form.terms:
        if isinstance(atom, FloorDiv) and coefficient % atom.divisor == 0:
            multiple = atom.argument.scaled(coefficient // atom.divisor)
            rest = condition.form - affine(atom).scaled(coefficient) + multiple
            if not rest.terms and rest.const == 0:
                return Constraint(modulo(atom.argument, atom.divisor), "==")
    return condition


def _simplify_body(body: Any, ranges: Ranges, where: tuple[Constraint, ...]) -> Any:
    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return _simplify_access(node, ranges, where)
        if isinstance(node, Reduce):
            return _simplify_reduce(node, ranges, where)
        return node

    simple = rebuild(body, leaf)
    folded = rebuild(simple, lambda node: _folded(node, ranges))
    if folded is simple or result_dtype(folded) == result_dtype(simple):
        return folded
    return simple


def _folded(node: Any, ranges: Ranges) -> Any:
    """Return the fill for a read of padding alone, the identity for a reduction of nothing, and
    anything else as it is.
    """
    if isinstance(node, Access) and _reads_padding_alone(node, ranges):
        return node.base.fill
    if isinstance(node, Reduce) and _is_over_nothing(node, ranges):
        return node.identity
    return node


def _reads_padding_alone(access: Access, ranges: Ranges) -> bool:
    view = access.base
    if not isinstance(view, Padded) or isinstance(view.base, Padded):
        return False
    for subscript, (low, high) in zip(access.subscripts, view.base.box):
        first, last = subscript.interval(ranges)
        if last < low or first >= high:
            return True
    return False


def _is_over_nothing(node: Reduce, ranges: Ranges) -> bool:
    """Return whether no point meets the conditions of a reduction, or a sum adds zeros."""
    if node.op == "Sum" and node.body == 0:
        return True
    inner = _inner_ranges(node, ranges)
    return any(_never(condition, inner) for condition in node.where)


def _inner_ranges(node: Reduce, ranges: Ranges) -> dict[Index, tuple[int, int]]:
    """Return the ranges of the indices inside a reduction."""
    inner = dict(ranges)
    for it in node.iterators:
        inner[it.index] = (it.low, it.high)
    return inner


def _always(condition: Constraint, ranges: Ranges) -> bool:
    low, high = condition.form.interval(ranges)
    if condition.relation == ">=":
        return low >= 0
    return low == high == 0


def _never(condition: Constraint, ranges: Ranges) -> bool:
    low, high = condition.form.interval(ranges)
    return high < 0 or (condition.relation == "==" and low > 0)


def _simplify_reduce(node: Reduce, ranges: Ranges, where: tuple[Constraint, ...]) -> Any:
    inner = _inner_ranges(node, ranges)
    needed = needed_conditions(node.where, inner)
    if needed:
        narrow = _narrowed(node, needed)
        if narrow is not None:
            return _simplify_body(narrow, ranges, where)
    body = _simplify_body(node.body, inner, (*where, *needed))
    if not node.iterators and not needed and result_dtype(body) != "bool":
        return body
    if body is node.body and needed == node.where:
        return node
    return Reduce(node.op, node.iterators, needed, body)


def _narrowed(node: Reduce, where: tuple[Constraint, ...]) -> Reduce | None:
    """Return a reduction whose conditions on one index alone are the range of that index; an index
    with one value is gone.

    None where no condition can go.
    """
    for it in node.iterators:
        alone = [condition for condition in where if condition.indices == {it.index}]
        if not alone or not 0 < it.extent <= MAX_TRIED_VALUES:
            continue
        values = _values_that_meet(alone, it)
        if not values or values[-1] - values[0] != len(values) - 1:
            continue
        others = tuple(condition for condition in where if condition not in alone)
        if len(values) == 1 and result_dtype(node.body) != "bool":
            return _at_value(node, it, values[0], others)
        iterators = list(node.iterators)
        iterators[iterators.index(it)] = LoopIndex(it.index, values[0], values[-1] + 1)
        return Reduce(node.op, iterators, others, node.body)
    return None


def _values_that_meet(conditions: Iterable[Constraint], it: LoopIndex) -> list[int]:
    """Return the values of an index that meet conditions on it alone, in order."""
    values = list(range(it.low, it.high))
    for condition in conditions:
        values = [value for value in values if condition.holds({it.index: value})]
    return values


def _at_value(node: Reduce, it: LoopIndex, value: int, where: tuple[Constraint, ...]) -> Reduce:
    """Return the reduction with one index at a value."""
    at = {it.index: affine(value)}
    others = [o for o in node.iterators if o is not it]
    return Reduce(node.op, others, [c.substitute(at) for c in where], substitute(node.body, at))


def _simplify_access(access: Access, ranges: Ranges, where: tuple[Constraint, ...]) -> Access:
    subscripts, reads, changed = [], [], False
    for subscript in access.subscripts:
        simple = simplify(subscript, ranges, where)
        changed = changed or simple is not subscript
        subscripts.append(simple)
        reads.append(simple.interval(ranges))
    base = _without_unread_padding(access.base, reads)
    if base is access.base and not changed:
        return access
    return Access.of(base, tuple(subscripts))


def _without_unread_padding(base: Any, reads: list[tuple[int, int]]) -> Any:
    if not isinstance(base, Padded) or isinstance(base.base, Padded):
        return base
    trimmed = []
    for (before, after), (low, high), (first, last) in zip(base.amounts, base.box, reads):
        trimmed.append((min(before, max(0, low - first)), min(after, max(0, last + 1 - high))))
    if tuple(trimmed) == base.amounts:
        return base
    has_gaps = isinstance(base.base, Scope) and base.base.where
    if not has_gaps and not any(map(any, trimmed)):
        return base.base
    return Padded(base.base, tuple(trimmed), base.fill)


def _amount(missing: Extent) -> Extent:
    """Return a padding of at least so many elements, of none where none is missing.

    >>> from einalg.language.index.size import Size
    >>> N = Size("N")
    >>> _amount(2*N - 1), _amount(1 - N), _amount(N - 4)
    (2*N - 1, 0, N - 1)
    """
    if is_always_at_most(missing, 0):
        return 0
    below = -least(missing)
    if below == inf:
        raise RuleError(
            f"a padding of {missing} elements may be negative, at sizes without bounds\n"
            "  give a size other bounds: ea.size('N', at_most=64)"
        )
    return missing + max(0, below)


def with_padding(access: Access, ranges: Ranges, fill: Any = 0) -> Access:
    """Return the access with as much padding as its subscripts may reach over `ranges`, or more
    where that depends on sizes; an existing padding keeps its fill. Raises `RuleError` where no
    padding is known to be enough at all sizes.
    """
    missing = []
    for subscript, (low, high) in zip(access.subscripts, padded_box(access.base)):
        first, last = subscript.interval(ranges)
        missing.append((_amount(low - first), _amount(last + 1 - high)))
    if not any(map(any, missing)):
        return access
    if isinstance(access.base, Padded):
        fill = access.base.fill
    return Access.of(Padded(access.base, missing, fill), access.subscripts)
