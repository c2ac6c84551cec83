"""The numbers of taps of kernels: the file's where it gives them, or some of each."""

from __future__ import annotations

from collections.abc import Iterator

from derive.substitutions.graphs.axes import Axis
from derive.substitutions.graphs.typed_rule import TypedRule

CHOICES = ((3, 3), (1, 1), (2, 3))  # of kernels of which nothing is said


def choices_of_taps(rule: TypedRule) -> Iterator[dict[Axis, int]]:
    """Yield numbers for the axes of taps whose sizes neither the operators nor the file give."""
    axes = rule.axes
    known = {axes.root(axis) for axis, _ in axes.numbers}
    stated = _stated(rule)
    open_axes: dict[Axis, int] = {}  # with the place among the axes of the kernel
    for place, axis in enumerate(axes.taps):
        root = axes.root(axis)
        if root not in known and root not in stated:
            open_axes.setdefault(root, place % 2)
    if not open_axes:
        yield stated
        return
    for choice in CHOICES:
        yield {**stated, **{axis: choice[place] for axis, place in open_axes.items()}}


def _stated(rule: TypedRule) -> dict[Axis, int]:
    """Return the taps that the shapes of the file give."""
    taps = set(map(rule.axes.root, rule.axes.taps))
    known = {rule.axes.root(axis) for axis, _ in rule.axes.numbers}
    stated: dict[Axis, int] = {}
    shapes = dict(rule.graph.shapes)
    for leaf in rule.graph.leaves:
        shape = shapes.get(leaf.number, ())
        axes = rule.tensors[leaf]
        if len(shape) != len(axes):
            continue
        for axis, size in zip(axes, shape):
            root = rule.axes.root(axis)
            if root in taps and root not in known:
                stated.setdefault(root, size)
    return stated
