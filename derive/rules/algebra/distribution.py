"""Distribution: factors move into a sum and out of it, sums over one domain are joined or taken apart, products of sums are multiplied out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import sympy

from derive.rewriting.body_queries import is_finite, reduction_at, replace_reduction
from derive.rewriting.moves import Example, Rule
from derive.rules.intra.traversal_merging import with_joined_reductions
from einalg.errors import RuleError
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Index, IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions

MOST_NAMINGS = 24  # of the indices of one sum by those of another
MOST_POWER = 3  # of a sum that is multiplied out


def find(scope: Scope) -> Iterator[dict[str, Any]]:
    """Factors into and out of every sum, pairs of sums with a common factor, sums of several terms, sums as factors and in powers."""
    nodes = [
        n for n in reductions(scope.body) if n.op == "Sum" and n.iterators and is_finite(n.body)
    ]
    positions = {id(n): k for k, n in reversed(list(enumerate(reductions(scope.body))))}
    products = list(_products(scope.body))
    for node in nodes:
        if any(_may_enter(product, node) for product in products):
            yield {"step": "into", "reduction": positions[id(node)]}
        if _may_leave(node):
            yield {"step": "out of", "reduction": positions[id(node)]}
        if isinstance(node.body, sympy.Add):
            yield {"step": "apart", "reduction": positions[id(node)]}
    for terms in _sums(scope.body):
        yield from _joints(terms, positions)
    for position, product in enumerate(products):
        for k, factor in enumerate(dict.fromkeys(_factors(product))):
            if isinstance(factor, sympy.Add) and is_finite(product):
                yield {"step": "expand", "product": position, "factor": k}


def distribute(scope: Scope, step: str, **args: Any) -> Scope:
    """One step: factors `into` a sum or `out of` it, `join` two sums, take one `apart` term by term, `expand` a product or a power."""
    if step not in _STEPS:
        raise RuleError(f"distribution has no step {step!r}\n  use one of: {', '.join(_STEPS)}")
    return simplify_scope(_STEPS[step](scope, **args))


# --- factors and one sum


def _into(scope: Scope, reduction: int) -> Scope:
    node = _finite_sum(scope, reduction)
    product = next((p for p in _products(scope.body) if _may_enter(p, node)), None)
    if product is None:
        raise RuleError("the sum is not a factor beside finite factors without reductions")
    factors = [a for a in product.args if a is not node]
    moved = Reduce(node.op, node.iterators, node.where, sympy.Mul(*factors, node.body))
    return Scope(
        scope.iterators, scope.where, with_joined_reductions(_replaced(scope.body, product, moved))
    )


def _may_enter(product: Any, node: Reduce) -> bool:
    others = [a for a in product.args if a is not node]
    plain = all(a.is_number or not list(reductions(a)) for a in others)
    return (
        len(others) < len(product.args)
        and plain
        and is_finite(product)
        and not all(a.is_number for a in others)
    )


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
    """Whether a factor may be moved out; one that a condition may guard is not proposed."""
    free, rest = _independent(node)
    return (
        bool(rest)
        and any(not a.is_number for a in free)
        and not node.where
        and all(it.extent > 0 for it in node.iterators)
    )


def _independent(node: Reduce) -> tuple[list[Any], list[Any]]:
    """The factors of a sum in which its indices do not occur, and the others."""
    factors = sympy.Mul.make_args(node.body)
    free = [a for a in factors if a.free_symbols.isdisjoint(node.indices)]
    return free, [a for a in factors if a not in free]


def _finite_sum(scope: Scope, reduction: int) -> Reduce:
    node = reduction_at(scope, reduction)
    if node.op != "Sum" or not is_finite(node.body):
        raise RuleError(f"only a sum of finite terms can be distributed, not {node.op}")
    return node


# --- two sums


def _apart(scope: Scope, reduction: int) -> Scope:
    node = _finite_sum(scope, reduction)
    if not isinstance(node.body, sympy.Add):
        raise RuleError(f"{node.body} is not a sum of terms")
    return replace_reduction(scope, node, _term_by_term(node, node.body.args))


def _term_by_term(node: Reduce, terms: Sequence[Any]) -> Any:
    return sympy.Add(
        *(
            c * Reduce(node.op, node.iterators, node.where, term)
            for c, term in (t.as_coeff_Mul() for t in terms)
        )
    )


def _joints(terms: Any, positions: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    found = [t.as_coeff_Mul()[1] for t in terms.args]
    found = [
        t
        for t in found
        if isinstance(t, Reduce) and t.op == "Sum" and t.iterators and is_finite(t.body)
    ]
    for k, one in enumerate(found):
        for other in found[k + 1 :]:
            names = next(
                (n for n in _namings(one, other) if _common(one, _renamed(other, n))), None
            )
            if names is not None:
                shown = {i.name: j.name for i, j in names.items()}
                yield {
                    "step": "join",
                    "reductions": [positions[id(one)], positions[id(other)]],
                    "names": shown,
                }


def _namings(one: Reduce, other: Reduce) -> Iterator[dict[Index, Index]]:
    """The ways to call the indices of one sum as those of another with the same ranges."""
    if len(one.iterators) == len(other.iterators) and len(one.where) == len(other.where):
        for count, order in enumerate(permutations(one.iterators)):
            if count == MOST_NAMINGS:
                return
            if all(a.low == b.low and a.high == b.high for a, b in zip(order, other.iterators)):
                yield {b.index: a.index for a, b in zip(order, other.iterators)}


def _renamed(node: Reduce, names: Mapping[Index, Index]) -> Reduce:
    forms = {i: affine(j) for i, j in names.items()}
    iterators = [it._replace(index=names[it.index]) for it in node.iterators]
    return Reduce(
        node.op, iterators, [c.substitute(forms) for c in node.where], substitute(node.body, forms)
    )


def _common(one: Reduce, other: Reduce) -> list[Any]:
    """The factors that two sums over the same points share."""
    if set(one.where) != set(other.where):
        return []
    theirs = sympy.Mul.make_args(other.body)
    return [a for a in sympy.Mul.make_args(one.body) if a in theirs and not a.is_number]


def _join(scope: Scope, reductions: Sequence[int], names: Mapping[str, str]) -> Scope:
    one, other = (_finite_sum(scope, k) for k in reductions)
    terms = next(
        (
            t
            for t in _sums(scope.body)
            if _coefficient(t, one) is not None and _coefficient(t, other) is not None
        ),
        None,
    )
    given = {Index(i): Index(j) for i, j in names.items()}
    if one is other or terms is None or given not in list(_namings(one, other)):
        raise RuleError(
            "these are not two terms of one sum over the same points, under these names"
        )
    renamed = _renamed(other, given)
    common = _common(one, renamed)
    if not common:
        raise RuleError("the two sums have no factor in common")
    parts = [
        _without(r.body, common) * _coefficient(terms, node)
        for r, node in ((one, one), (renamed, other))
    ]
    joined = Reduce(one.op, one.iterators, one.where, sympy.Mul(*common, sympy.Add(*parts)))
    rest = [
        t for t in terms.args if t.as_coeff_Mul()[1] is not one and t.as_coeff_Mul()[1] is not other
    ]
    return Scope(
        scope.iterators, scope.where, _replaced(scope.body, terms, sympy.Add(joined, *rest))
    )


def _coefficient(terms: Any, node: Reduce) -> Any:
    return next((c for c, t in (term.as_coeff_Mul() for term in terms.args) if t is node), None)


def _without(body: Any, common: list[Any]) -> Any:
    return sympy.Mul(*(a for a in sympy.Mul.make_args(body) if a not in common))


# --- a product of a sum


def _expand(scope: Scope, product: int, factor: int) -> Scope:
    found = list(_products(scope.body))
    if not isinstance(product, int) or not 0 <= product < len(found):
        raise RuleError(f"there is no product number {product}: there are {len(found)}")
    old = found[product]
    factors = _factors(old)
    if (
        not isinstance(factor, int)
        or not 0 <= factor < len(factors)
        or not isinstance(factors[factor], sympy.Add)
        or not is_finite(old)
    ):
        raise RuleError(f"factor {factor} of {old} is not a sum of finite terms")
    if isinstance(old, sympy.Pow):
        terms = sympy.Add.make_args(
            sympy.expand_multinomial(old, deep=False)
        )  # where equal products of its terms are one
    else:
        others = sympy.Mul(*factors[:factor], *factors[factor + 1 :])
        terms = [others * term for term in factors[factor].args]
    node = next((n for n in reductions(scope.body) if n.body is old and n.op == "Sum"), None)
    if node is None:
        return Scope(scope.iterators, scope.where, _replaced(scope.body, old, sympy.Add(*terms)))
    return replace_reduction(scope, node, _term_by_term(node, terms))


# --- places in a body


def _products(body: Any) -> Iterator[Any]:
    """Every product of a body, outer before inner; a small power of a sum is one."""
    return (
        node
        for node in _nodes(body, (sympy.Mul, sympy.Pow))
        if isinstance(node, sympy.Mul) or len(_factors(node)) > 1
    )


def _factors(product: Any) -> tuple[Any, ...]:
    """The factors of a product, or of a small power of a sum."""
    if isinstance(product, sympy.Mul):
        return product.args
    small = (
        isinstance(product.base, sympy.Add)
        and product.exp.is_Integer
        and 1 < product.exp <= MOST_POWER
    )
    return (product.base,) * int(product.exp) if small else (product,)


def _sums(body: Any) -> Iterator[Any]:
    return _nodes(body, sympy.Add)


def _nodes(body: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    if isinstance(body, kind):
        yield body
    for child in _children(body):
        yield from _nodes(child, kind)


def _children(body: Any) -> tuple[Any, ...]:
    if isinstance(body, Reduce):
        return (body.body,)
    return () if isinstance(body, (Access, IndexArithmetic)) else body.args


def _replaced(body: Any, old: Any, new: Any) -> Any:
    """The body with one node, told by identity, replaced."""
    if body is old:
        return new
    children = _children(body)
    changed = [_replaced(child, old, new) for child in children]
    if all(a is b for a, b in zip(children, changed)):
        return body
    return (
        Reduce(body.op, body.iterators, body.where, changed[0])
        if isinstance(body, Reduce)
        else body.func(*changed)
    )


_STEPS: dict[str, Callable[..., Scope]] = {
    "into": _into,
    "out of": _out_of,
    "join": _join,
    "apart": _apart,
    "expand": _expand,
}

RULE = Rule(
    name="distribution",
    before="g·Σ[s] f;  Σ[s] a·b + Σ[s] a·c;  Σ[s] a·(b + c);  Σ[s] (a + b);  Σ[s] (a + b)²",
    after="Σ[s] g·f;  Σ[s] a·(b + c);  Σ[s] a·b + Σ[s] a·c;  Σ[s] a + Σ[s] b;  Σ[s] a² + 2·Σ[s] a·b + Σ[s] b²",
    requires="s does not occur in g; all terms are finite",
    find=find,
    rewrite=distribute,
    section="beyond EinNet",
    example=Example("O[i] += A[i,k]*(B[k] + C[k])", {"A": (4, 5), "B": 5, "C": 5}),
)
