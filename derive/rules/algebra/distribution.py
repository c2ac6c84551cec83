"""Distribution: factors move into and out of sums; sums are joined, taken apart, multiplied out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations
from typing import Any, NamedTuple

import sympy

from derive.rewriting.body_queries import (
    bound_indices,
    enclosing_domain,
    has_reduction,
    index_ranges,
    indices_of,
    is_empty,
    is_finite,
    iterator_named,
    reduction_at,
    replace_reduction,
    substitute_conditions,
    with_body,
)
from derive.rewriting.domains import box_of
from derive.rewriting.moves import Example, Rule
from derive.rules.intra.traversal_merging import MAX_POWER, with_joined_reductions
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Affine, Index, IndexArithmetic, floordiv, modulo
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, as_factor, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

MAX_NAMINGS = 24  # of the indices of one sum by those of another

Args = dict[str, Any]
Names = dict[Index, Index]


def find(scope: Scope) -> Iterator[Args]:
    """Propose factors into and out of every sum, joins of sums, and what can be taken apart.

    These are sums with a common factor; sums of several terms; and sums as factors or in powers.
    """
    positions: dict[int, int] = {}
    sums: list[Reduce] = []
    for position, node in enumerate(reductions(scope.body)):
        positions.setdefault(id(node), position)
        if _is_finite_sum(node) and node.iterators:
            sums.append(node)
    products = list(_products(scope.body))
    for node in sums:
        for step in _steps_at_sum(node, products):
            yield {"step": step, "reduction": positions[id(node)]}
    for terms in _additions(scope.body):
        yield from _joints(terms, positions)
    for position, product in enumerate(products):
        for number, factor in enumerate(dict.fromkeys(_factors(product))):
            if isinstance(factor, sympy.Add) and is_finite(product):
                yield {"step": "expand", "product": position, "factor": number}


def _steps_at_sum(node: Reduce, products: Sequence[Any]) -> Iterator[str]:
    if any(_may_enter(product, node) for product in products):
        yield "into"
    if _may_leave(node):
        yield "out of"
    if isinstance(node.body, sympy.Add):
        yield "apart"


def distribute(scope: Scope, step: str, **args: Any) -> Scope:
    """Perform one step.

    Factors move `into` a sum or `out of` it, two sums `join`, one is taken `apart` term by term, or
    a product or a power is multiplied out by `expand`. A reduction of any kind is cut in two `in
    ranges` of an index, or `by blocks` where a condition leaves a prefix of it, and an extreme is
    taken over `overlapping` blocks; where that is worth it depends on what comes next, so it is not
    proposed.
    """
    if step not in _STEPS:
        raise RuleError(f"distribution has no step {step!r}\n  use one of: {', '.join(_STEPS)}")
    return simplify_scope(_STEPS[step](scope, **args))


# --- factors and one sum


def _into(scope: Scope, reduction: int) -> Scope:
    node = _finite_sum(scope, reduction)
    for product in _products(scope.body):
        if _may_enter(product, node):
            break
    else:
        raise RuleError("the sum is not a factor beside finite factors without reductions")
    factors = _others(product, node)
    moved = Reduce(node.op, node.iterators, node.where, sympy.Mul(*factors, as_factor(node.body)))
    body = with_joined_reductions(_replaced(scope.body, product, moved))
    return Scope(scope.iterators, scope.where, body)


def _may_enter(product: Any, node: Reduce) -> bool:
    """Tell whether a sum is a factor of a product whose other factors may move into it."""
    others = _others(product, node)
    if len(others) == len(product.args) or not is_finite(product):
        return False
    expressions = [factor for factor in others if not factor.is_number]
    return bool(expressions) and not any(map(has_reduction, expressions))


def _others(product: Any, node: Reduce) -> list[Any]:
    """Return the factors of a product but for one, told by identity."""
    return [factor for factor in product.args if factor is not node]


def _out_of(scope: Scope, reduction: int) -> Scope:
    node = _finite_sum(scope, reduction)
    free, rest = _independent(node)
    if not free or not rest:
        raise RuleError("no factor can leave the sum: the summed indices occur in each, or in none")
    inner = Reduce(node.op, node.iterators, node.where, sympy.Mul(*rest))
    result = replace_reduction(scope, node, sympy.Mul(inner, *free))
    if node.where:
        check_scope(result)  # a factor may have been read only where the condition lets it
    return result


def _may_leave(node: Reduce) -> bool:
    """Tell whether a factor may be moved out; one that a condition may guard is not proposed."""
    if node.where or is_empty(node.iterators):
        return False
    free, rest = _independent(node)
    return bool(rest) and not all(factor.is_number for factor in free)


def _independent(node: Reduce) -> tuple[list[Any], list[Any]]:
    """Return the factors of a sum in which its indices do not occur, and the others."""
    free: list[Any] = []
    rest: list[Any] = []
    for factor in sympy.Mul.make_args(node.body):
        if factor.free_symbols.isdisjoint(node.indices):
            free.append(factor)
        else:
            rest.append(factor)
    return free, rest


def _is_finite_sum(node: Reduce) -> bool:
    return node.op == "Sum" and is_finite(node.body)


def _finite_sum(scope: Scope, reduction: int) -> Reduce:
    node = reduction_at(scope, reduction)
    if not _is_finite_sum(node):
        raise RuleError(f"only a sum of finite terms can be distributed, not {node.op}")
    return node


# --- two sums


def _apart(scope: Scope, reduction: int) -> Scope:
    node = _finite_sum(scope, reduction)
    if not isinstance(node.body, sympy.Add):
        raise RuleError(f"{node.body} is not a sum of terms")
    return replace_reduction(scope, node, _term_by_term(node, node.body.args))


def _term_by_term(node: Reduce, terms: Sequence[Any]) -> Any:
    sums = []
    for term in terms:
        coefficient, rest = term.as_coeff_Mul()
        sums.append(coefficient * Reduce(node.op, node.iterators, node.where, rest))
    return sympy.Add(*sums)


def _joints(terms: Any, positions: Mapping[int, int]) -> Iterator[Args]:
    """Propose two sums among the terms of an addition that have a factor in common."""
    sums: list[Reduce] = []
    for term in terms.args:
        node = term.as_coeff_Mul()[1]
        if isinstance(node, Reduce) and _is_finite_sum(node) and node.iterators:
            sums.append(node)
    for one, other in combinations(sums, 2):
        names = _common_naming(one, other)
        if names is not None:
            pair = [positions[id(one)], positions[id(other)]]
            shown = {theirs.name: mine.name for theirs, mine in names.items()}
            yield {"step": "join", "reductions": pair, "names": shown}


def _common_naming(one: Reduce, other: Reduce) -> Names | None:
    """Return the first naming under which two sums have a factor in common."""
    for names in _namings(one, other):
        if _common(one, _renamed(other, names)):
            return names
    return None


def _namings(one: Reduce, other: Reduce) -> Iterator[Names]:
    """Yield the ways to call the indices of one sum as those of another with the same ranges."""
    if len(one.iterators) != len(other.iterators) or len(one.where) != len(other.where):
        return
    box = box_of(other.iterators)
    for order in islice(permutations(one.iterators), MAX_NAMINGS):
        if box_of(order) == box:
            yield dict(zip(other.indices, indices_of(order)))


def _renamed(node: Reduce, names: Mapping[Index, Index]) -> Reduce:
    forms = {old: affine(new) for old, new in names.items()}
    iterators = [it._replace(index=names[it.index]) for it in node.iterators]
    where = substitute_conditions(node.where, forms)
    return Reduce(node.op, iterators, where, substitute(node.body, forms))


def _common(one: Reduce, other: Reduce) -> list[Any]:
    """Return the factors that two sums over the same points share."""
    if set(one.where) != set(other.where):
        return []
    theirs = sympy.Mul.make_args(other.body)
    mine = sympy.Mul.make_args(one.body)
    return [factor for factor in mine if factor in theirs and not factor.is_number]


def _join(scope: Scope, reductions: Sequence[int], names: Mapping[str, str]) -> Scope:
    one, other = (_finite_sum(scope, position) for position in reductions)
    terms = _addition_of(scope, one, other)
    naming = {Index(old): Index(new) for old, new in names.items()}
    if one is other or terms is None or naming not in list(_namings(one, other)):
        raise RuleError(
            "these are not two terms of one sum over the same points, under these names"
        )
    renamed = _renamed(other, naming)
    common = _common(one, renamed)
    if not common:
        raise RuleError("the two sums have no factor in common")
    mine = _without(one.body, common) * _coefficient(terms, one)
    theirs = _without(renamed.body, common) * _coefficient(terms, other)
    product = sympy.Mul(*common, sympy.Add(mine, theirs))
    joined = Reduce(one.op, one.iterators, one.where, product)
    rest = [term for term in terms.args if not _is_multiple(term, one, other)]
    body = _replaced(scope.body, terms, sympy.Add(joined, *rest))
    return Scope(scope.iterators, scope.where, body)


def _addition_of(scope: Scope, one: Reduce, other: Reduce) -> Any:
    """Return the addition of which two sums are terms; None where there is none."""
    for terms in _additions(scope.body):
        if _coefficient(terms, one) is not None and _coefficient(terms, other) is not None:
            return terms
    return None


def _is_multiple(term: Any, *nodes: Reduce) -> bool:
    """Tell whether a term is one of the sums, told by identity, times a number."""
    return any(term.as_coeff_Mul()[1] is node for node in nodes)


def _coefficient(terms: Any, node: Reduce) -> Any:
    """Return the number by which an addition multiplies a sum; None where it is no term."""
    for term in terms.args:
        coefficient, rest = term.as_coeff_Mul()
        if rest is node:
            return coefficient
    return None


def _without(body: Any, common: list[Any]) -> Any:
    return sympy.Mul(*(factor for factor in sympy.Mul.make_args(body) if factor not in common))


def _in_ranges(scope: Scope, reduction: int, index: str, at: int) -> Scope:
    """Reduce over the values of an index below `at`, and over the others, by themselves."""
    node = reduction_at(scope, reduction)
    whole = iterator_named(node.iterators, index)
    if whole is None or not whole.low < at < whole.high:
        raise RuleError(
            f"{at} does not cut the range of {index} in two\n"
            "  give index= of the reduction, and at= between its first and last value"
        )
    below = _over(node, LoopIndex(whole.index, whole.low, at))
    above = _over(node, LoopIndex(whole.index, at, whole.high))
    return replace_reduction(scope, node, _COMBINED[node.op](below, above))


def _over(node: Reduce, part: LoopIndex) -> Any:
    """Return a reduction over a part of the range of one of its indices, or at its only value."""
    others = [it for it in node.iterators if it.index != part.index]
    if part.extent > 1:
        iterators = [part if it.index == part.index else it for it in node.iterators]
        return Reduce(node.op, iterators, node.where, node.body)
    value = {part.index: affine(part.low)}
    where = substitute_conditions(node.where, value)
    body = substitute(node.body, value)
    if not others and not where:
        return as_factor(body)
    return Reduce(node.op, others, where, body)


def _overlapping(
    scope: Scope, reduction: int, index: str, names: Sequence[str], blocks: int, block: int
) -> Scope:
    """Cover the range of an index of an extreme by blocks, which may share some of their values.

    `names` are those of the number of a block and of the place inside it.
    """
    node = reduction_at(scope, reduction)
    whole = iterator_named(node.iterators, index)
    if node.op not in ("Max", "Min") or whole is None:
        raise RuleError(f"no extreme has the index {index}: a sum would count values twice")
    steps, rest = divmod(whole.extent - block, max(blocks - 1, 1))
    if rest or block < 1 or not 0 <= steps <= block or (blocks - 1) * steps + block < whole.extent:
        raise RuleError(
            f"{blocks} blocks of {block} do not cover {whole.extent} values evenly\n"
            "  give blocks whose distances are equal and at most as long as they are"
        )
    number, place = _unbound_indices(scope, names)
    digits = [LoopIndex(number, 0, blocks), LoopIndex(place, 0, block)]
    others = [it for it in node.iterators if it is not whole]
    value = {whole.index: affine(number) * steps + place + whole.low}
    where = substitute_conditions(node.where, value)
    covered = Reduce(node.op, [*others, *digits], where, substitute(node.body, value))
    return replace_reduction(scope, node, covered)


def _unbound_indices(scope: Scope, names: Sequence[str]) -> tuple[Index, Index]:
    """Return two new indices of these names; `RuleError` where a scope binds one of them."""
    one, two = (Index(name) for name in names)
    bound = bound_indices(scope)
    if len({one, two} | bound) < 2 + len(bound):
        raise RuleError(f"{one} or {two} is bound already\n  give the indices other names")
    return one, two


class HeldPrefix(NamedTuple):
    """The first `count` values of an index, or the last ones, which a condition leaves."""

    iterator: LoopIndex
    condition: Constraint
    count: Affine
    is_suffix: bool

    def element(self, number: Affine) -> Affine:
        """Return a value of the index by its number."""
        if self.is_suffix:
            return affine(self.iterator.high - 1) - number
        return affine(self.iterator.low) + number


def prefix_of(scope: Scope, node: Reduce, index: str) -> HeldPrefix | None:
    """Return how a condition holds an index to a prefix of its range; None where none does."""
    whole = iterator_named(node.iterators, index)
    if whole is None or not isinstance(whole.extent, int):
        return None
    conditions = [condition for condition in node.where if whole.index in condition.indices]
    if len(conditions) != 1 or conditions[0].relation != ">=":
        return None
    form = conditions[0].form
    coefficient = form.coefficient(whole.index)
    bound = form - affine(whole.index) * coefficient
    if abs(coefficient) != 1 or whole.index in bound.indices:
        return None
    around, _ = enclosing_domain(scope, node)
    others = [it for it in node.iterators if it is not whole]
    if coefficient < 0:
        count = bound - whole.low + 1
    else:
        count = affine(whole.high) + bound
    ranges = index_ranges((*around, *others))
    if is_empty((*around, *others)) or not count.indices <= ranges.keys():
        return None
    low, high = count.interval_of_numbers(ranges)
    if low < 0 or high > whole.extent:
        return None
    return HeldPrefix(whole, conditions[0], count, coefficient > 0)


def _by_blocks(scope: Scope, reduction: int, index: str, names: Sequence[str], block: int) -> Scope:
    """Reduce over the whole blocks of a prefix, and over what is left of it, by themselves.

    `names` are those of the number of a block and of the place inside it.
    """
    node = reduction_at(scope, reduction)
    prefix = prefix_of(scope, node, index)
    if prefix is None or not 2 <= block < prefix.iterator.extent:
        raise RuleError(
            f"no condition holds {index} to a prefix of its range that has whole blocks\n"
            "  give a condition such as j <= i, and a block of two or more, less than the range"
        )
    number, place = _unbound_indices(scope, names)
    others = [it for it in node.iterators if it is not prefix.iterator]
    where = [condition for condition in node.where if condition is not prefix.condition]
    inside = LoopIndex(place, 0, block)
    blocks = LoopIndex(number, 0, prefix.iterator.extent // block)
    full, rest = floordiv(prefix.count, block), modulo(prefix.count, block)

    def reduced(iterators: Sequence[LoopIndex], first: Affine, bound: Affine) -> Reduce:
        value = {prefix.iterator.index: prefix.element(first * block + place)}
        held = [*where, Constraint(bound - 1, ">=")]
        return Reduce(node.op, [*others, *iterators], held, substitute(node.body, value))

    whole = reduced([blocks, inside], affine(number), full - number)
    left = reduced([inside], full, rest - place)
    result = replace_reduction(scope, node, _COMBINED[node.op](whole, left))
    check_scope(result)
    return result


_COMBINED: dict[str, Any] = {
    "Sum": sympy.Add,
    "Prod": sympy.Mul,
    "Max": sympy.Max,
    "Min": sympy.Min,
}


# --- a product of a sum


def _expand(scope: Scope, product: int, factor: int) -> Scope:
    products = list(_products(scope.body))
    if not isinstance(product, int) or not 0 <= product < len(products):
        raise RuleError(f"there is no product number {product}: there are {len(products)}")
    old = products[product]
    terms = _multiplied_out(old, factor)
    for node in reductions(scope.body):
        if node.body is old and node.op == "Sum":
            return replace_reduction(scope, node, _term_by_term(node, terms))
    return Scope(scope.iterators, scope.where, _replaced(scope.body, old, sympy.Add(*terms)))


def _multiplied_out(product: Any, factor: int) -> Sequence[Any]:
    """Return the terms of a product of a sum (its number among the factors), or of a power."""
    factors = _factors(product)
    is_position = isinstance(factor, int) and 0 <= factor < len(factors)
    if not is_position or not isinstance(factors[factor], sympy.Add) or not is_finite(product):
        raise RuleError(f"factor {factor} of {product} is not a sum of finite terms")
    if isinstance(product, sympy.Pow):  # equal products of its terms become one
        return sympy.Add.make_args(sympy.expand_multinomial(product, deep=False))
    others = sympy.Mul(*factors[:factor], *factors[factor + 1 :])
    return [others * term for term in factors[factor].args]


# --- places in a body


def _products(body: Any) -> Iterator[Any]:
    """Yield every product of a body, outer before inner; a small power of a sum is one."""
    for node in _nodes(body, (sympy.Mul, sympy.Pow)):
        if isinstance(node, sympy.Mul) or len(_factors(node)) > 1:
            yield node


def _factors(product: Any) -> tuple[Any, ...]:
    """Return the factors of a product, or of a small power of a sum."""
    if isinstance(product, sympy.Mul):
        return product.args
    if not isinstance(product.base, sympy.Add) or not product.exp.is_Integer:
        return (product,)
    if not 1 < product.exp <= MAX_POWER:
        return (product,)
    return (product.base,) * int(product.exp)


def _additions(body: Any) -> Iterator[Any]:
    return _nodes(body, sympy.Add)


def _nodes(body: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    if isinstance(body, kind):
        yield body
    for child in _children(body):
        yield from _nodes(child, kind)


def _children(body: Any) -> tuple[Any, ...]:
    if isinstance(body, Reduce):
        return (body.body,)
    if isinstance(body, (Access, IndexArithmetic)):
        return ()
    return body.args


def _replaced(body: Any, old: Any, new: Any) -> Any:
    """Return the body with one node, told by identity, replaced."""
    if body is old:
        return new
    children = _children(body)
    changed = [_replaced(child, old, new) for child in children]
    if all(a is b for a, b in zip(children, changed)):
        return body
    if isinstance(body, Reduce):
        return with_body(body, changed[0])
    return body.func(*changed)


_STEPS: dict[str, Callable[..., Scope]] = {
    "into": _into,
    "out of": _out_of,
    "join": _join,
    "apart": _apart,
    "expand": _expand,
    "in ranges": _in_ranges,
    "overlapping": _overlapping,
    "by blocks": _by_blocks,
}

RULE = Rule(
    name="distribution",
    before=(
        "g·Σ[s] f;  Σ[s] a·b + Σ[s] a·c;  Σ[s] a·(b + c);  Σ[s] (a + b);  Σ[s] (a + b)²;  "
        "Σ[s∈S∪T] f;  Max[s] f;  Σ[s<n] f"
    ),
    after=(
        "Σ[s] g·f;  Σ[s] a·(b + c);  Σ[s] a·b + Σ[s] a·c;  Σ[s] a + Σ[s] b;  "
        "Σ[s] a² + 2·Σ[s] a·b + Σ[s] b²;  Σ[s∈S] f + Σ[s∈T] f;  "
        "Max[s1,s2] f(d·s1 + s2);  Σ[q<n//b] Σ[t<b] f(b·q + t) + Σ[t<n%b] f(b·(n//b) + t)"
    ),
    requires=(
        "s does not occur in g; all terms are finite; S and T are ranges side by side; "
        "d·s1 + s2 takes each value of s; s has n values or more"
    ),
    find=find,
    rewrite=distribute,
    section="beyond EinNet",
    example=Example("O[i] += A[i,k]*(B[k] + C[k])", {"A": (4, 5), "B": 5, "C": 5}),
)
