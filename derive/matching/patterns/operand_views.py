"""Operands of a kernel as strided views: what a library reads and writes (design §7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.matching.patterns.normal_form import OUTPUT, NormalForm, ReadAxis, TensorRead
from derive.matching.patterns.pattern import UNIT, Pattern
from derive.matching.patterns.unify import Assignment
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import View
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, unpadded

Steps = Mapping[Index, int]  # elements between neighbours along an index
Groups = tuple[tuple[int, int], ...]  # (extent, elements between neighbours) of each index


def operand_view(
    normalized: NormalForm, pattern: Pattern, assignment: Assignment, name: str
) -> View:
    """Return an operand as strided axes, one group for each letter of the template."""
    read = normalized.reads[assignment.operands[name]]
    mixed = mixed_axes(normalized, assignment, name)
    offset, steps = _origin(read, [axis.position for axis in mixed.values()])
    memory_strides = strides(unpadded(read.access.base).shape)
    axes: dict[str, Groups] = {}
    pads: dict[str, tuple[int, int]] = {}
    for position, letter in enumerate(pattern.template.operands[name]):
        axis = mixed.get(position)
        if axis is not None:
            low, high = axis.elements_read
            axes[letter] = ((max(0, high - low), memory_strides[axis.position]),)
            pads[letter] = axis.overrun
        elif letter != UNIT:
            role = walking_role(pattern, name, position, letter)
            axes[letter] = _groups(normalized, assignment.roles.get(role, ()), steps)
    batch = _groups(normalized, assignment.batch, steps)
    return View(read_name(read.access), offset, axes, pads, batch)


def mixed_axes(normalized: NormalForm, assignment: Assignment, name: str) -> dict[int, ReadAxis]:
    """Return the axes of an operand's read that are mixed, by the axis of the operand."""
    number = assignment.operands[name]
    axes = {}
    for axis in normalized.reads[number].axes:
        partner = assignment.axes.get((number, axis.position))
        if partner is not None:
            axes[partner] = axis
    return axes


def _origin(read: TensorRead, mixed: Sequence[int]) -> tuple[int, dict[Index, int]]:
    """Return the first element that is read, and the step of every index, but for axes that are
    mixed, of which only the place of the first element counts.
    """
    tensor = unpadded(read.access.base)
    first_read = {axis.position: axis.reads[0] for axis in read.axes}
    offset = 0
    steps: dict[Index, int] = {}
    for position, stride in enumerate(strides(tensor.shape)):
        form, (low, _) = read.access.subscripts[position], tensor.box[position]
        if position in mixed:
            offset += max(0, first_read[position] - low) * stride
            continue
        offset += (form.const - low) * stride
        for atom, coefficient in form.terms:
            if isinstance(atom, Index):
                steps[atom] = steps.get(atom, 0) + coefficient * stride
    return offset, steps


def output_view(
    normalized: NormalForm, pattern: Pattern, assignment: Assignment, output: str
) -> View:
    """Return the result as strided axes."""
    steps = dict(zip(normalized.scope.indices, strides(normalized.scope.shape)))
    axes = {}
    for role in pattern.output:
        axes[role] = _groups(normalized, assignment.roles.get(role, ()), steps)
    return View(output, 0, axes, {}, _groups(normalized, assignment.batch, steps))


def _groups(normalized: NormalForm, indices: Sequence[Index], steps: Steps) -> Groups:
    return tuple((normalized.extents[index], steps.get(index, 0)) for index in indices)


def walking_role(pattern: Pattern, name: str, position: int, letter: str) -> str:
    """Return the role that walks along an axis of an operand by itself: of a mixed axis, the
    output's.
    """
    for role in pattern.mixed.get((name, position), ()):
        if OUTPUT in pattern.roles[role]:
            return role
    if (name, position) in pattern.mixed:
        return letter
    for read in pattern.example.reads:
        for axis in read.axes:
            if read.name == name and axis.position == position:
                return axis.indices[0].name
    return letter


def read_name(access: Access) -> str:
    """Return the name of what is read, for an operand."""
    base = unpadded(access.base)
    if isinstance(base, Scope):
        return "the inner scope"
    return base.name


def role_order(pattern: Pattern) -> list[str]:
    """Return the roles in the order of the operands' axes."""
    letters = "".join(pattern.template.operands.values())
    walking = [letter for letter in letters if letter in pattern.roles]
    return list(dict.fromkeys([*walking, *pattern.roles]))


def strides(shape: Sequence[int]) -> list[int]:
    """Return the elements between neighbours along each axis of a contiguous array.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    return steps[::-1]
