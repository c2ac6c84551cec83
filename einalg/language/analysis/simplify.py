"""What index ranges and conditions say about `//` and `%`: a table of facts, and the simplification
that applies them.

The normal form of `einalg.language.index.affine` needs no ranges. Each row here does, and says in
L-notation what it replaces by what, and when. The tests check each row alone, exhaustively on small
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from einalg.language.index.affine import Affine, FloorDiv, Index, Modulo, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.dtype_inference import result_dtype
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, padded_box

Ranges = Mapping[Index, tuple[int, int]]
MOST_VALUES = 1024  # of an index whose conditions are tried one by one


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
    """`argument == g·x + y` with `g` a divisor of `divisor`, `g > 1` and `0 <= y < g`: the largest
    such g, x and y.
    """
    for g in (g for g in range(divisor, 1, -1) if divisor % g == 0):
        rest = Affine.from_normal_form(tuple((a, c) for a, c in argument.terms if c % g), argument.const)
        low, high = rest.interval(ranges)
        if low // g == high // g and (g == divisor or len(rest.terms) < len(argument.terms)):
            whole = tuple((a, c // g) for a, c in argument.terms if c % g == 0)
            return g, Affine.from_normal_form(whole, low // g), rest - g * (low // g)
    return None


def _quotient_of_small_part(
    atom: Any, coefficient: int, ranges: Ranges, where: Any
) -> Affine | None:
    if isinstance(atom, FloorDiv) and (parts := _small_part(atom.argument, atom.divisor, ranges)):
        g, x, _ = parts
        return floordiv(x, atom.divisor // g).scaled(coefficient)
    return None


def _remainder_of_small_part(
    atom: Any, coefficient: int, ranges: Ranges, where: Any
) -> Affine | None:
    if isinstance(atom, Modulo) and (parts := _small_part(atom.argument, atom.divisor, ranges)):
        g, x, y = parts
        return (modulo(x, atom.divisor // g).scaled(g) + y).scaled(coefficient)
    return None


def known_remainder(form: Affine, divisor: int, where: Iterable[Constraint]) -> int | None:
    """`form % divisor` where a condition `e % k == 0`, with `divisor` dividing k and `form - e`
    constant modulo it, says so.
    """
    for condition in where:
        atom = condition.form.terms[0][0] if len(condition.form.terms) == 1 else None
        if condition.relation == "==" and isinstance(atom, Modulo) and atom.divisor % divisor == 0:
            remainder = modulo(
                form - atom.argument - condition.form.const * condition.form.terms[0][1], divisor
            )
            if not remainder.terms:
                return remainder.const
    return None


def _exact_quotient(atom: Any, coefficient: int, ranges: Ranges, where: Any) -> Affine | None:
    if not isinstance(atom, FloorDiv) or coefficient % atom.divisor or not where:
        return None
    remainder = known_remainder(atom.argument, atom.divisor, where)
    return (
        None
        if remainder is None
        else (atom.argument - remainder).scaled(coefficient // atom.divisor)
    )


def _exact_remainder(atom: Any, coefficient: int, ranges: Ranges, where: Any) -> Affine | None:
    if not isinstance(atom, Modulo) or not where:
        return None
    remainder = known_remainder(atom.argument, atom.divisor, where)
    return None if remainder is None else affine(remainder * coefficient)


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
    """`form` with every fact of the table applied; the same object where none applies.

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
        changed = changed or term is not None
        total = total + (affine(atom).scaled(coefficient) if term is None else term)
    return simplify(total, ranges, where) if changed else form


def with_joined_quotients(form: Affine) -> Affine:
    """`k*m*(x//(d*m)) + (k*(x%(d*m)) + e)//d` is `(k*x + e)//d`, whatever the ranges; the same
    object where there is no such pair.

    >>> x, e = Index("x"), Index("e")
    >>> with_joined_quotients(x // 3 + (x % 3 + e) // 3)
    (e + x)//3
    """
    for atom, coefficient in form.terms:
        if not isinstance(atom, FloorDiv):
            continue
        for part, k in atom.argument.terms:
            if not isinstance(part, Modulo) or part.divisor % atom.divisor:
                continue
            outer = floordiv(part.argument, part.divisor).as_atom()
            if outer is not None and form.coefficient(outer) == coefficient * k * (
                part.divisor // atom.divisor
            ):
                whole = floordiv(atom.argument + (part.argument - part) * k, atom.divisor)
                rest = tuple(term for term in form.terms if term[0] not in (atom, outer))
                return with_joined_quotients(
                    Affine.from_normal_form(rest, form.const) + whole.scaled(coefficient)
                )
    return form


def _simplify_term(
    atom: Any, coefficient: int, ranges: Ranges, where: tuple[Constraint, ...]
) -> Affine | None:
    if isinstance(atom, Index):
        return None
    argument = simplify(atom.argument, ranges, where)
    if argument is not atom.argument:
        rebuilt = (
            floordiv(argument, atom.divisor)
            if isinstance(atom, FloorDiv)
            else modulo(argument, atom.divisor)
        )
        return rebuilt.scaled(coefficient)
    for fact in FACTS:
        result = fact.use(atom, coefficient, ranges, where)
        if result is not None:
            return result
    return None


def simplify_scope(scope: Scope) -> Scope:
    """A scope with simplified subscripts, without conditions that always hold and without padding
    that is never read.
    """
    where = needed_conditions(scope.where, scope.ranges)
    body = _simplify_body(scope.body, scope.ranges, where)
    return (
        scope
        if body is scope.body and where == scope.where
        else Scope(scope.iterators, where, body)
    )


def needed_conditions(where: Iterable[Constraint], ranges: Ranges) -> tuple[Constraint, ...]:
    """The conditions that do not hold everywhere in the box, simplified."""
    kept: list[Constraint] = []
    for condition in where:
        simple = _divisibility(Constraint(simplify(condition.form, ranges), condition.relation))
        low, high = simple.form.interval(ranges)
        if (low >= 0) if simple.relation == ">=" else (low == high == 0):
            continue
        if simple not in kept:
            kept.append(simple)
    return tuple(kept)


def _divisibility(condition: Constraint) -> Constraint:
    """`k*(e//k) == e` is `e % k == 0`."""
    if condition.relation == "==":
        for atom, coefficient in condition.form.terms:
            if isinstance(atom, FloorDiv) and coefficient % atom.divisor == 0:
                factor = coefficient // atom.divisor
                rest = (
                    condition.form - affine(atom).scaled(coefficient) + atom.argument.scaled(factor)
                )
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
    short = rebuild(simple, lambda node: _constant(node, ranges))
    return short if short is simple or result_dtype(short) == result_dtype(simple) else simple


def _constant(node: Any, ranges: Ranges) -> Any:
    """The fill for a read of padding alone, the identity for a reduction of nothing; anything else
    as it is.
    """
    if (
        isinstance(node, Access)
        and isinstance(node.base, Padded)
        and not isinstance(node.base.base, Padded)
    ):
        bounds = zip(node.subscripts, node.base.base.box)
        if any(
            last < low or first >= high
            for s, (low, high) in bounds
            for first, last in (s.interval(ranges),)
        ):
            return node.base.fill
    if isinstance(node, Reduce):
        inner = {**ranges, **{it.index: (it.low, it.high) for it in node.iterators}}
        if any(_never(condition, inner) for condition in node.where) or (
            node.op == "Sum" and node.body == 0
        ):
            return node.identity
    return node


def _never(condition: Constraint, ranges: Ranges) -> bool:
    low, high = condition.form.interval(ranges)
    return high < 0 or (condition.relation == "==" and low > 0)


def _simplify_reduce(node: Reduce, ranges: Ranges, where: tuple[Constraint, ...]) -> Any:
    inner = {**ranges, **{it.index: (it.low, it.high) for it in node.iterators}}
    own = needed_conditions(node.where, inner)
    narrow = _narrowed(node, own) if own else None
    if narrow is not None:
        return _simplify_body(narrow, ranges, where)
    body = _simplify_body(node.body, inner, (*where, *own))
    if not node.iterators and not own and result_dtype(body) != "bool":
        return body
    return (
        node
        if body is node.body and own == node.where
        else Reduce(node.op, node.iterators, own, body)
    )


def _narrowed(node: Reduce, where: tuple[Constraint, ...]) -> Reduce | None:
    """A reduction whose conditions on one index alone are the range of that index; an index with
    one value is gone.

    None where no condition can go.
    """
    for it in node.iterators:
        alone = [c for c in where if c.indices == {it.index}]
        if not alone or not 0 < it.extent <= MOST_VALUES:
            continue
        values = [v for v in range(it.low, it.high) if all(c.holds({it.index: v}) for c in alone)]
        if values and values[-1] - values[0] == len(values) - 1:
            kept = tuple(c for c in where if c not in alone)
            if len(values) > 1 or result_dtype(node.body) == "bool":
                ranges = [
                    it._replace(low=values[0], high=values[-1] + 1) if o is it else o
                    for o in node.iterators
                ]
                return Reduce(node.op, ranges, kept, node.body)
            return _without(node, it, values[0], kept)
    return None


def _without(node: Reduce, it: Any, value: int, where: tuple[Constraint, ...]) -> Reduce:
    """The reduction with one index at a value."""
    at = {it.index: affine(value)}
    others = [o for o in node.iterators if o is not it]
    return Reduce(node.op, others, [c.substitute(at) for c in where], substitute(node.body, at))


def _simplify_access(access: Access, ranges: Ranges, where: tuple[Constraint, ...]) -> Access:
    subscripts = tuple(simplify(s, ranges, where) for s in access.subscripts)
    base = _without_unread_padding(access.base, [s.interval(ranges) for s in subscripts])
    same = base is access.base and all(a is b for a, b in zip(subscripts, access.subscripts))
    return access if same else Access.of(base, subscripts)


def _without_unread_padding(base: Any, reads: list[tuple[int, int]]) -> Any:
    if not isinstance(base, Padded) or isinstance(base.base, Padded):
        return base
    trimmed = tuple(
        (min(before, max(0, low - first)), min(after, max(0, last + 1 - high)))
        for (before, after), (low, high), (first, last) in zip(base.amounts, base.box, reads)
    )
    if trimmed == base.amounts:
        return base
    has_gaps = isinstance(base.base, Scope) and base.base.where
    return (
        base.base
        if not any(map(any, trimmed)) and not has_gaps
        else Padded(base.base, trimmed, base.fill)
    )


def with_padding(access: Access, ranges: Ranges, fill: Any = 0) -> Access:
    """The access with as much padding as its subscripts may reach over `ranges`; an existing
    padding keeps its fill.
    """
    missing = []
    for subscript, (low, high) in zip(access.subscripts, padded_box(access.base)):
        first, last = subscript.interval(ranges)
        missing.append((max(0, low - first), max(0, last + 1 - high)))
    if not any(map(any, missing)):
        return access
    return Access.of(
        Padded(access.base, missing, access.base.fill if isinstance(access.base, Padded) else fill),
        access.subscripts,
    )
