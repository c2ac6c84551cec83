"""Matching against the matrix multiplication: index groups, and how far an expression is from having them (design §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import sympy

from einalg.access import Access, Padded, unpadded
from einalg.affine import Index
from einalg.kernel import Kernel
from einalg.scope import Reduce, Scope
from einalg.traverse import reductions

Groups = Mapping[str, tuple[Index, ...]]


@dataclass(frozen=True)
class Reason:
    """One thing that separates an expression from an operator, and about how many rule applications mend it."""

    text: str
    weight: float


@dataclass(frozen=True)
class Contraction:
    """`L[x] Σ[s] left·right`: a product of two reads, summed."""

    scope: Scope
    reduce: Reduce
    left: Access
    right: Access


def contraction(scope: Scope) -> Contraction | None:
    """The scope as a summed product of exactly two reads, or None."""
    body = scope.body
    if not isinstance(body, Reduce) or body.op != "Sum" or not isinstance(body.body, sympy.Mul):
        return None
    factors = body.body.args
    if len(factors) != 2 or not all(isinstance(f, Access) for f in factors):
        return None
    return Contraction(scope, body, factors[0], factors[1])


def index_groups(found: Contraction) -> dict[str, tuple[Index, ...]]:
    """The iterator mapping table's rows: batch (all three), m (left, output), n (right, output), k (left, right).

    `stray` holds the indices that occur in no operand, or are summed in one alone; indices of extent 1 are in no group.
    """
    groups: dict[str, list[Index]] = {"b": [], "m": [], "n": [], "k": [], "stray": []}
    left, right = found.left.free_symbols, found.right.free_symbols
    outputs = {it.index for it in found.scope.iterators}
    for it in (*found.scope.iterators, *found.reduce.iterators):
        if it.extent == 1:
            continue
        here = (it.index in left, it.index in right, it.index in outputs)
        name = {(True, True, True): "b", (True, False, True): "m", (False, True, True): "n", (True, True, False): "k"}.get(here, "stray")
        groups[name].append(it.index)
    return {name: tuple(members) for name, members in groups.items()}


def reasons(scope: Scope) -> list[Reason]:
    """What separates a scope from a matrix multiplication; empty exactly when it is one."""
    found = contraction(scope)
    if found is None:
        return [Reason("the body is not a sum of products of exactly two reads", 20.0)]
    summed = set(found.reduce.indices)
    extents = {it.index: it.extent for it in (*scope.iterators, *found.reduce.iterators)}
    listed = [r for access in (found.left, found.right) for r in _access_reasons(access, summed, extents)]
    groups = index_groups(found)
    if groups["stray"]:
        listed.append(Reason(f"{', '.join(map(str, groups['stray']))} belongs to no index group of a product", 4.0 * len(groups["stray"])))
    if not groups["k"]:
        listed.append(Reason("no index is summed over both operands", 4.0))
    listed += [Reason(f"the domain has the condition {c}", 0.25) for c in (*scope.where, *found.reduce.where)]
    return listed


def _access_reasons(access: Access, summed: set[Index], extents: Mapping[Index, int]) -> list[Reason]:
    listed = []
    seen: set[Index] = set()
    for subscript in access.subscripts:
        live = {i for i in subscript.indices if extents[i] != 1}
        if live and subscript.as_index() is None:
            mixed = bool(live & summed) and bool(live - summed)
            listed.append(Reason(f"the subscript {subscript} of {_name(access)} is not a bare index", 6.0 if mixed else 3.0))
        elif not live <= {*live} - seen:
            listed.append(Reason(f"{subscript} stands twice in {_name(access)}", 3.0))
        seen |= live
    if isinstance(access.base, Padded):
        listed.append(Reason(f"{_name(access)} is read through padding", 0.25))
    return listed


def _name(access: Access) -> str:
    base = unpadded(access.base)
    return "the inner scope" if isinstance(base, Scope) else base.name


def match(scope: Scope, output: str) -> Kernel | None:
    """The kernel that computes a scope as a (batched) matrix multiplication, or None."""
    found = contraction(scope)
    if found is None or reasons(scope):
        return None
    groups = {k: v for k, v in index_groups(found).items() if k != "stray"}
    extents = {it.index: it.extent for it in (*scope.iterators, *found.reduce.iterators)}
    sizes = {name: prod(extents[i] for i in members) for name, members in groups.items()}
    inputs = (_name(found.left), _name(found.right))
    return Kernel("matmul", sizes, inputs, output, scope=scope, groups=groups)


WRAPPER = 0.5  # weight of a scope that only copies another one


def distance(scopes: Any) -> float:
    """The distance of a program's nearest scope to the operator, plus what the scopes around it still have to lose."""
    nearest, around = 20.0, 0.0
    for scope in scopes:
        if isinstance(scope.body, Access) or not any(True for _ in reductions(scope.body)):
            around += WRAPPER
        nearest = min(nearest, sum(r.weight for r in reasons(scope)))
    return nearest + around
