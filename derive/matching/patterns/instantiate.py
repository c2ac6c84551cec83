"""A scope over the roles of a pattern: what the definition of an operator, called with a solution, must be equal to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from derive.matching.patterns.normal_form import NormalForm
from derive.matching.patterns.operand_views import walker
from derive.matching.patterns.pattern import Pattern
from derive.matching.patterns.unify import Assignment
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, rebuild
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, unpadded

NUMBER = "f32"


@dataclass(frozen=True)
class Instance:
    """The scope, and the shapes and data types of the operands by name."""

    scope: Scope
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]


def instantiate(profile: NormalForm, found: Pattern, assignment: Assignment) -> Instance | None:
    """One index a role, operands with the definition's axes, of the part that is read.

    None where a condition names another index, or an operand is padded twice, with different fills.
    """
    if any(read.is_padded_twice for read in profile.reads):
        return None
    extents = {
        role: prod(profile.extents[i] for i in members)
        for role, members in assignment.roles.items()
    }
    names: dict[Index, Any] = {
        members[0]: affine(Index(role))
        for role, members in assignment.roles.items()
        if len(members) == 1
    }
    operands = {number: name for name, number in assignment.operands.items()}
    numbers = {read.access: k for k, read in enumerate(profile.reads)}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}

    def access(node: Access) -> Any:
        number = numbers[node]
        name = operands[number]
        subscripts, box = _axes(profile, found, assignment, number, name, names, extents)
        shapes[name] = tuple(high - low for low, high in box)
        dtypes[name] = (
            unpadded(node.base).dtype if found.template.plain else NUMBER
        )  # a library's sums are of any type
        tensor = Tensor(name, shapes[name], dtypes[name])
        pads = [_overrun(s, size, extents) for s, size in zip(subscripts, shapes[name])]
        if not any(map(any, pads)):
            return Access.of(tensor, tuple(subscripts))
        fill = node.base.fill if isinstance(node.base, Padded) else 0
        return Access.of(Padded(tensor, pads, fill), tuple(subscripts))

    def leaf(node: Any) -> Any:
        if isinstance(node, Access):
            return access(node)
        if isinstance(node, Reduce):
            roles = [r for r, members in assignment.roles.items() if members[0] in node.indices]
            where = tuple(c.substitute(names) for c in node.where)
            return Reduce(
                node.op,
                [LoopIndex(Index(r), 0, extents[r]) for r in roles],
                where,
                rebuild(node.body, leaf),
            )
        return node.substitute(names)

    body = rebuild(profile.scope.body, leaf)
    where = tuple(c.substitute(names) for c in profile.scope.where)
    iterators = [LoopIndex(Index(role), 0, extents.get(role, 1)) for role in found.output]
    known = {*(Index(r) for r in extents), *(it.index for it in iterators)}
    if any(not c.indices <= known for c in where):
        return None
    return Instance(Scope(iterators, where, body), shapes, dtypes)


def _axes(
    profile: NormalForm,
    found: Pattern,
    assignment: Assignment,
    number: int,
    name: str,
    names: Mapping[Index, Any],
    extents: Mapping[str, int],
) -> tuple[list[Affine], list[tuple[int, int]]]:
    """The subscripts of an operand in the definition's axes, and the part of each axis that is read, from 0."""
    mixed = {
        partner: axis
        for axis in profile.reads[number].axes
        if (partner := assignment.axes.get((number, axis.position))) is not None
    }
    subscripts: list[Affine] = []
    box: list[tuple[int, int]] = []
    for position, letter in enumerate(found.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = max(axis.box[0], axis.reads[0]), min(axis.box[1], axis.reads[1] + 1)
            subscripts.append(axis.form.substitute(names) - low)
            box.append((0, max(0, high - low)))
            continue
        role = walker(found, name, position, letter)
        subscripts.append(affine(Index(role)) if role in extents else affine(0))
        box.append((0, extents.get(role, 1)))
    return subscripts, box


def _overrun(form: Affine, size: int, extents: Mapping[str, int]) -> tuple[int, int]:
    low, high = form.interval({i: (0, extents[i.name]) for i in form.indices})
    return max(0, -low), max(0, high + 1 - size)
