"""The numbers of taps of kernels: the file's where it gives them, or some of each."""

from __future__ import annotations

from collections.abc import Iterator

from derive.substitutions.graphs.axes import Axis
from derive.substitutions.graphs.typed_rule import TypedRule

CHOICES = ((3, 3), (1, 1), (2, 3))  # of kernels of which nothing is said


def choices_of_taps(rule: TypedRule) -> Iterator[dict[Axis, int]]:
    """Yield numbers for the axes of taps whose sizes neither the operators nor the file give."""
    axes = rule.axes
    stated = stated_taps(rule)
    places: dict[Axis, int] = {}  # among the axes of the kernel
    for place, axis in enumerate(axes.taps):
        places.setdefault(axes.root(axis), place % 2)
    undecided = {axis: places[axis] for axis in open_taps(rule) if axis not in stated}
    if not undecided:
        yield stated
        return
    for choice in CHOICES:
        yield {**stated, **{axis: choice[place] for axis, place in undecided.items()}}


def open_taps(rule: TypedRule) -> list[Axis]:
    """Return the classes of the axes of taps whose sizes the operators do not give."""
    known = {rule.axes.root(axis) for axis, _ in rule.axes.numbers}
    roots = dict.fromkeys(map(rule.axes.root, rule.axes.taps))
    return [root for root in roots if root not in known]


def axes_of_taps(rule: TypedRule) -> set[Axis]:
    """Return the classes of the axes of kernels that count taps."""
    return set(map(rule.axes.root, rule.axes.taps))


def stated_taps(rule: TypedRule) -> dict[Axis, int]:
    """Return the numbers of taps that the shapes of the file give."""
    taps = set(open_taps(rule))
    stated: dict[Axis, int] = {}
    shapes = dict(rule.graph.shapes)
    for leaf in rule.graph.leaves:
        shape = shapes.get(leaf.number, ())
        axes = rule.tensors[leaf]
        if len(shape) != len(axes):
            continue
        for axis, size in zip(axes, shape):
            root = rule.axes.root(axis)
            if root in taps:
                stated.setdefault(root, size)
    return stated
