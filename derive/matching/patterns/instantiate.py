"""A scope over the roles of a pattern: what the definition of an operator, called with a solution,
must be equal to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from derive.matching.patterns.normal_form import NormalForm
from derive.matching.patterns.operand_views import mixed_axes, walking_role
from derive.matching.patterns.pattern import Pattern
from derive.matching.patterns.unify import Assignment
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, unpadded

LIBRARY_DTYPE = "f32"  # of the operands of a library's operator: its sums are of any type


@dataclass(frozen=True)
class Instance:
    """The scope, and the shapes and data types of the operands by name."""

    scope: Scope
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]


@dataclass(frozen=True)
class _Roles:
    """A scope and a pattern with the extent of each role, and the roles as the names of indices
    that play one alone: `{"m": 6}` and `{i: m}`.
    """

    normalized: NormalForm
    pattern: Pattern
    assignment: Assignment
    extents: Mapping[str, int]
    names: Mapping[Index, Any]


def instantiate(
    normalized: NormalForm, pattern: Pattern, assignment: Assignment
) -> Instance | None:
    """Write a scope with one index for each role, and operands with the definition's axes, of the
    part that is read.

    None where a condition names another index, or an operand is padded twice, with different fills.
    """
    if any(read.is_padded_twice for read in normalized.reads):
        return None
    roles = _roles(normalized, pattern, assignment)
    operands: dict[Access, tuple[Tensor, Access]] = {}
    for name, number in assignment.operands.items():
        operands[normalized.reads[number].access] = _operand(roles, name)
    iterators = [LoopIndex(Index(r), 0, roles.extents.get(r, 1)) for r in pattern.output]
    known = set(map(Index, [*roles.extents, *pattern.output]))
    where = []
    for condition in normalized.scope.where:
        over_roles = condition.substitute(roles.names)
        if not over_roles.indices <= known:
            return None
        where.append(over_roles)
    body = _body_over_roles(roles, operands)
    shapes, dtypes = {}, {}
    for tensor, _ in operands.values():
        shapes[tensor.name] = tensor.shape
        dtypes[tensor.name] = tensor.dtype
    return Instance(Scope(iterators, tuple(where), body), shapes, dtypes)


def _roles(normalized: NormalForm, pattern: Pattern, assignment: Assignment) -> _Roles:
    extents: dict[str, int] = {}
    names: dict[Index, Any] = {}
    for role, members in assignment.roles.items():
        extents[role] = normalized.points(members)
        if len(members) == 1:
            names[members[0]] = affine(Index(role))
    return _Roles(normalized, pattern, assignment, extents, names)


def _body_over_roles(roles: _Roles, operands: Mapping[Access, tuple[Tensor, Access]]) -> Any:
    """Return the body with operands in the place of reads and roles in the place of indices."""

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            _, access = operands[node]
            return access
        if isinstance(node, Reduce):
            iterators = _reduction_iterators(roles, node)
            where = tuple(condition.substitute(roles.names) for condition in node.where)
            return Reduce(node.op, iterators, where, rebuild(node.body, leaf))
        return node.substitute(roles.names)

    return rebuild(roles.normalized.scope.body, leaf)


def _reduction_iterators(roles: _Roles, node: Reduce) -> list[LoopIndex]:
    iterators = []
    for role, members in roles.assignment.roles.items():
        if members[0] in node.indices:
            iterators.append(LoopIndex(Index(role), 0, roles.extents[role]))
    return iterators


def _operand(roles: _Roles, name: str) -> tuple[Tensor, Access]:
    """Return an operand with the definition's axes, and the read of it over the roles."""
    base = roles.normalized.reads[roles.assignment.operands[name]].access.base
    subscripts, shape = _axes(roles, name)
    dtype = LIBRARY_DTYPE
    if roles.pattern.template.plain:
        dtype = unpadded(base).dtype
    tensor = Tensor(name, shape, dtype)
    pads = [_overrun(form, size, roles.extents) for form, size in zip(subscripts, tensor.shape)]
    if not any(map(any, pads)):
        return tensor, Access.of(tensor, tuple(subscripts))
    fill = 0
    if isinstance(base, Padded):
        fill = base.fill
    return tensor, Access.of(Padded(tensor, pads, fill), tuple(subscripts))


def _axes(roles: _Roles, name: str) -> tuple[list[Affine], tuple[int, ...]]:
    """Return the subscripts of an operand in the definition's axes, and the extent of the part of
    each axis that is read.
    """
    mixed = mixed_axes(roles.normalized, roles.assignment, name)
    subscripts: list[Affine] = []
    shape: list[int] = []
    for position, letter in enumerate(roles.pattern.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = axis.elements_read
            subscripts.append(axis.form.substitute(roles.names) - low)
            shape.append(max(0, high - low))
            continue
        role = walking_role(roles.pattern, name, position, letter)
        shape.append(roles.extents.get(role, 1))
        if role in roles.extents:
            subscripts.append(affine(Index(role)))
        else:
            subscripts.append(affine(0))
    return subscripts, tuple(shape)


def _overrun(form: Affine, size: int, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return how many elements a subscript reads before and after an axis."""
    low, high = form.interval({index: (0, extents[index.name]) for index in form.indices})
    return max(0, -low), max(0, high + 1 - size)
