"""Operands of a kernel as strided views: what a library is given (design §7)."""

from __future__ import annotations

from collections.abc import Sequence

from derive.matching.patterns.normal_form import OUTPUT, NormalForm
from derive.matching.patterns.pattern import UNIT, Pattern
from derive.matching.patterns.unify import Assignment
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, unpadded


def view(profile: NormalForm, found: Pattern, assignment: Assignment, name: str) -> View:
    """An operand as strided axes, one group a letter."""
    read = profile.reads[assignment.operands[name]]
    steps_of = strides(unpadded(read.access.base).shape)
    mixed = {
        assignment.axes[key]: axis
        for axis in read.axes
        if (key := (assignment.operands[name], axis.position)) in assignment.axes
    }
    steps: dict[Index, int] = {}
    offset = 0
    for position, (form, stride, (low, _)) in enumerate(
        zip(read.access.subscripts, steps_of, unpadded(read.access.base).box)
    ):
        axis = next((a for a in mixed.values() if a.position == position), None)
        if axis is not None:
            offset += max(0, axis.reads[0] - low) * stride
            continue
        offset += (form.const - low) * stride
        for atom, coefficient in form.terms:
            if isinstance(atom, Index):
                steps[atom] = steps.get(atom, 0) + coefficient * stride
    axes: dict[str, tuple[tuple[int, int], ...]] = {}
    pads: dict[str, tuple[int, int]] = {}
    for position, letter in enumerate(found.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = max(axis.box[0], axis.reads[0]), min(axis.box[1], axis.reads[1] + 1)
            axes[letter], pads[letter] = (
                ((max(0, high - low), steps_of[axis.position]),),
                axis.overrun,
            )
        elif letter != UNIT:
            members = assignment.roles.get(walker(found, name, position, letter), ())
            axes[letter] = tuple((profile.extents[i], steps.get(i, 0)) for i in members)
    batch = tuple((profile.extents[i], steps.get(i, 0)) for i in assignment.batch)
    return View(read_name(read.access), offset, axes, pads, batch)


def output_view(profile: NormalForm, found: Pattern, assignment: Assignment, output: str) -> View:
    """The result as strided axes."""
    steps = dict(zip(profile.scope.indices, strides(profile.scope.shape)))
    axes = {
        role: tuple((profile.extents[i], steps[i]) for i in assignment.roles.get(role, ()))
        for role in found.output
    }
    return View(
        output, 0, axes, {}, tuple((profile.extents[i], steps[i]) for i in assignment.batch)
    )


def walker(found: Pattern, name: str, position: int, letter: str) -> str:
    """The role that walks along an axis by itself: of a mixed axis, the output's."""
    mixed = found.mixed.get((name, position))
    if mixed is not None:
        return next((r for r in mixed if OUTPUT in found.roles[r]), letter)
    axes = (
        a for r in found.example.reads if r.name == name for a in r.axes if a.position == position
    )
    return next((a.indices[0].name for a in axes), letter)


def read_name(access: Access) -> str:
    base = unpadded(access.base)
    return "the inner scope" if isinstance(base, Scope) else base.name


def role_order(found: Pattern) -> list[str]:
    """Roles in the order of the operands' axes."""
    order = [
        letter
        for letters in found.template.operands.values()
        for letter in letters
        if letter in found.roles
    ]
    return list(dict.fromkeys([*order, *found.roles]))


def strides(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis of a contiguous array.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    return steps[::-1]
