"""Sizes for the axes of a rule: symbolic ones, as general as its operators allow.

A convolution of `g` groups reads channel `f // (O/g)*c + i`, which is affine in sizes for one
group, for groups and outputs per group that are numbers, and, for any numbers of both, where
channels are pairs of digits: the group, and the place in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from derive.substitutions.graphs.axes import Axes, Axis, ConvolutionChannels, WindowPositions
from derive.substitutions.graphs.typed_rule import TypedRule
from derive.substitutions.sizes.equations import Equations, Unsolvable, Unsolved, check_positive
from einalg.language.index.affine import Affine
from einalg.language.index.convert import affine
from einalg.language.index.size import Extent, Size, at_sizes, settled, sizes_in

MOST_GROUPS, MOST_DEPTH = 2, 2  # that are tried where they are numbers
MOST_OUTPUTS = (3, 2)  # for one group, and for more
Group = tuple[int, int]  # groups, and outputs of each
OpenGroup = tuple[int, int | None, int | None]  # groups, and channels that each reads and gives


@dataclass(frozen=True)
class Sizing:
    """The extents of each class of axes, one a digit, and the groups of each convolution and their
    outputs where both are numbers.
    """

    axes: Axes
    extents: Mapping[Axis, tuple[Extent, ...]]
    groups: tuple[Group, ...] = ()

    def digits(self, axis: Axis) -> tuple[Extent, ...]:
        return self.extents[self.axes.root(axis)]

    @property
    def names_of_pairs(self) -> frozenset[str]:
        """The names of the sizes of axes that are pairs of digits, and of their digits."""
        pairs = [digits for digits in self.extents.values() if len(digits) > 1]
        return frozenset(size.name for digits in pairs for size in sizes_in(digits))

    def at(self, numbers: Mapping[str, int]) -> Sizing:
        """Return the sizing with numbers for sizes by name; others stay open."""
        extents: dict[Axis, tuple[Extent, ...]] = {}
        for axis, digits in self.extents.items():
            values = {}
            for size in sizes_in(digits):
                if size.name in numbers:
                    values[size] = affine(numbers[size.name])
            extents[axis] = tuple([at_sizes(digit, values) for digit in digits])
        return Sizing(self.axes, extents, self.groups)

    def all_digits(self, axes: Sequence[Axis]) -> tuple[tuple[Extent, ...], ...]:
        return tuple(map(self.digits, axes))


class OpenSizes:
    """The sizes of a rule before anything is said of groups; `taps` are those that are left open,
    as numbers. Raises `Unsolvable` where no sizes meet what its operators demand, and `Unsolved`
    where that is not known.
    """

    def __init__(self, rule: TypedRule, taps: Mapping[Axis, int]) -> None:
        self.axes = rule.axes
        self.channels = distinct_channels(rule.axes)
        self._sizes = _sizes(rule)
        self._strided: dict[Size, WindowPositions] = {}
        for window in self.axes.windows:
            if window.stride > 1:
                self._strided[self._sizes[self.axes.root(window.positions)]] = window
        self.equations = Equations()
        self.equations.fixed = frozenset(self._strided)
        for axis, number in taps.items():
            self.equations.require(self.size(axis), affine(number))
        self._require_sizes(self.equations)
        self._require_identities(self.equations)
        for size in self._sizes.values():
            self._without_strided(self.equations.value(affine(size)), self.equations)

    @property
    def tried_groups(self) -> tuple[int, ...]:
        """The numbers of groups that are tried where these are open: few, and as many times those
        that are merged.
        """
        numbers = set(range(1, MOST_GROUPS + 1))
        for count in self.axes.merged_counts:
            numbers.update(range(count, MOST_GROUPS * count + 1, count))
        return tuple(sorted(numbers))

    @property
    def tried_text(self) -> str:
        """The numbers of groups and outputs that are tried, in words."""
        groups = self.tried_groups
        words = f"up to {groups[-1]}"
        if len(groups) < groups[-1]:
            words = ", ".join(map(str, groups))
        return f"{words} groups, and {max(MOST_OUTPUTS)} outputs of each, tried"

    def _require_sizes(self, equations: Equations) -> None:
        """Require what holds whatever the groups are."""
        for axis, number in self.axes.numbers:
            equations.require(self.size(axis), affine(number))
        for whole, parts in self.axes.sums:
            equations.require(self.size(whole), _sum([self.size(part) for part in parts]))
        for window in self.axes.windows:
            if window.stride == 1:
                reads = self.size(window.positions) + self.size(window.taps) - 1
                equations.require(self.size(window.axis), affine(reads))

    def _require_identities(self, equations: Equations) -> None:
        """Require that an identity kernel has as many features as what it is applied to has
        channels.
        """
        root = self.axes.root
        for rows, columns in self.axes.diagonals:
            for data, depth, features in self.channels:
                if (root(rows), root(columns)) == (root(features), root(depth)):
                    equations.require(self.size(data), self.size(features))

    def size(self, axis: Axis) -> Affine:
        return affine(self._sizes[self.axes.root(axis)])

    def form(self, axis: Axis, equations: Equations | None = None) -> Affine:
        """Return the size of an axis as a form of the sizes that the equations leave free."""
        equations = self.equations if equations is None else equations
        return self._without_strided(equations.value(self.size(axis)), equations)

    def at(self, numbers: Mapping[Axis, int]) -> Sizing | None:
        """Return the sizing at which axes have these sizes; None where there is none."""
        equations = self.equations.copy()
        try:
            for axis, number in numbers.items():
                equations.require(self.size(axis), affine(number))
            for solved, groups in self._choices(equations, self.channels):
                return self._sizing(solved, groups)
        except (Unsolvable, Unsolved):
            return None
        return None

    def of_one_group(self) -> Sizing:
        """Return the sizes of convolutions of one group each."""
        equations = self.equations.copy()
        for data, depth, _ in self.channels:
            equations.require(self.size(data), self.size(depth))
        for rows, columns in self.axes.diagonals:
            equations.require(self.size(rows), self.size(columns))
        return self._sizing(equations, ())

    def of_groups(self, groups: Mapping[ConvolutionChannels, OpenGroup]) -> Sizing:
        """Return the sizes of some groups for some convolutions; those of others are left open."""
        equations = self.equations.copy()
        for (data, depth, features), (number, inside, outputs) in groups.items():
            equations.require(self.size(data), affine(self.size(depth) * number))
            if inside is not None:
                equations.require(self.size(depth), affine(inside))
            if outputs is not None:
                equations.require(self.size(features), affine(number * outputs))
        if all(number == 1 for number, _, _ in groups.values()):
            for rows, columns in self.axes.diagonals:
                equations.require(self.size(rows), self.size(columns))
        return self._sizing(equations, ())

    def general(self) -> Iterator[Sizing]:
        """Yield sizes as general as they may be: of one group if there are any, then of few."""
        with suppress(Unsolvable, Unsolved):
            yield self.of_one_group()
        yield from self.of_some_groups()

    def is_of_one_group(self) -> bool:
        """Return whether the operators demand one group of every convolution."""
        return all(self._value(data) == self._value(depth) for data, depth, _ in self.channels)

    def of_some_groups(self) -> Iterator[Sizing]:
        """Yield the sizes of each choice of few groups and few outputs per group that fit."""
        for equations, groups in self._choices(self.equations, self.channels):
            for solved in self._with_diagonals(equations):
                try:
                    yield self._sizing(solved, groups)
                except (Unsolvable, Unsolved):
                    continue

    def is_any_groups_complete(self) -> bool:
        """Return whether `of_any_groups` has all sizes: no axis of channels is a part of another,
        or belongs to convolutions whose groups may differ.
        """
        groups: dict[Axis, tuple[Affine, Affine]] = {}
        for data, depth, features in self.channels:
            key = self._value(data), self._value(depth)
            for axis in (data, features):
                if groups.setdefault(self.axes.root(axis), key) != key:
                    return False
        members = [axis for whole, parts in self.axes.sums for axis in (whole, *parts)]
        return not any(self.axes.root(axis) in groups for axis in members)

    def of_any_groups(self) -> Sizing | None:
        """Return sizes with channels as pairs of digits; None where some axis of channels is used
        as one of another kind.
        """
        digits = _digit_classes(self.axes, self.channels)
        root = self.axes.root
        if digits is None or any(root(axis) in digits for axis, _ in self.axes.numbers):
            return None
        second = {axis: affine(Size(f"{self._sizes[axis].name}_in")) for axis in digits}
        equations = Equations()
        equations.fixed = self.equations.fixed
        self._require_sizes(equations)
        for axis in self.axes.taps:
            equations.require(self.size(axis), self._value(axis))
        for whole, parts in self.axes.sums:
            if root(whole) in digits:
                for part in parts:
                    equations.require(second[root(whole)], second[root(part)])
        for data, depth, features in self.channels:
            equations.require(self.size(data), self.size(features))
            equations.require(second[root(data)], self.size(depth))
        for rows, columns in self.axes.diagonals:
            square = second[root(rows)] if root(rows) in digits else self.size(rows)
            equations.require(square, self.size(columns))
        solved = {axis: equations.value(size) for axis, size in second.items()}
        return self._sizing(equations, (), solved)

    def are_pairs(self, sizing: Sizing) -> bool:
        """Return whether `of_any_groups`, where there is one, has the sizes of a choice of groups,
        or those of one group: channels that are parts of others are whole groups, as deep as those.
        """
        root = self.axes.root
        pairs: dict[Axis, tuple[int, Extent]] = {}  # groups, and the channels of one
        choice = sizing.groups or self._one_group_each(sizing)
        for (data, depth, features), (groups, outputs) in zip(self.channels, choice):
            for axis, inside in ((data, sizing.digits(depth)[0]), (features, outputs)):
                if pairs.setdefault(root(axis), (groups, inside)) != (groups, inside):
                    return False
        for whole, parts in self.axes.sums:
            if root(whole) in pairs:
                groups, inside = pairs[root(whole)]
                members = [pairs[root(part)] for part in parts]
                if any(other != inside for _, other in members):
                    return False
                if sum(count for count, _ in members) != groups:
                    return False
        for rows, columns in self.axes.diagonals:
            _, square = pairs.get(root(rows), (1, sizing.digits(rows)[0]))
            if square != sizing.digits(columns)[0]:
                return False
        return True

    def _one_group_each(self, sizing: Sizing) -> list[tuple[int, Extent]]:
        return [(1, sizing.digits(channels.features)[0]) for channels in self.channels]

    def _value(self, axis: Axis) -> Affine:
        return self.equations.value(self.size(axis))

    def _choices(
        self, equations: Equations, channels: Sequence[ConvolutionChannels]
    ) -> Iterator[tuple[Equations, tuple[Group, ...]]]:
        if not channels:
            yield equations, ()
            return
        for solved, group in self._groups(equations, channels[0]):
            for others, groups in self._choices(solved, channels[1:]):
                yield others, (group, *groups)

    def _groups(
        self, equations: Equations, channels: ConvolutionChannels
    ) -> Iterator[tuple[Equations, tuple[int, int]]]:
        """Yield the groups that a convolution may have."""
        data, depth = (equations.value(self.size(a)) for a in channels[:2])
        known = _ratio(data, depth)
        numbers = self.tried_groups if known is None else (known,)
        for groups in numbers:
            solved = _with(equations, data, affine(depth * groups))
            if solved is None:
                continue
            for deeper in self._with_depth(solved, channels.depth, groups):
                yield from self._with_outputs(deeper, channels.features, groups)

    def _with_depth(self, equations: Equations, depth: Axis, groups: int) -> Iterator[Equations]:
        """Yield numbers for the channels that a group reads; with one group these may be any."""
        form = equations.value(self.size(depth))
        if groups == 1 or not form.terms:
            yield equations
            return
        for number in range(1, MOST_DEPTH + 1):
            solved = _with(equations, form, affine(number))
            if solved is not None:
                yield solved

    def _with_outputs(
        self, equations: Equations, features: Axis, groups: int
    ) -> Iterator[tuple[Equations, tuple[int, int]]]:
        form = equations.value(self.size(features))
        if not form.terms:
            if form.const % groups == 0:
                yield equations, (groups, form.const // groups)
            return
        for outputs in range(1, MOST_OUTPUTS[min(groups, 2) - 1] + 1):
            solved = _with(equations, form, affine(groups * outputs))
            if solved is not None:
                yield solved, (groups, outputs)

    def _with_diagonals(self, equations: Equations) -> Iterator[Equations]:
        """Yield sizes for which every identity kernel has a number of columns, or is square."""
        for rows, columns in self.axes.diagonals:
            depth = equations.value(self.size(columns))
            if depth.terms and depth != equations.value(self.size(rows)):
                for number in range(1, MOST_DEPTH + 1):
                    solved = _with(equations, depth, affine(number))
                    if solved is not None:
                        yield from self._with_diagonals(solved)
                return
        yield equations

    def _sizing(
        self,
        equations: Equations,
        groups: tuple[Group, ...],
        second: Mapping[Axis, Affine] | None = None,
    ) -> Sizing:
        extents: dict[Axis, tuple[Extent, ...]] = {}
        for axis, size in self._sizes.items():
            form = equations.value(affine(size))
            check_positive(form)
            extents[axis] = (settled(self._without_strided(form, equations)),)
            if second is not None and axis in second:
                check_positive(second[axis])
                extents[axis] += (settled(second[axis]),)
        return Sizing(self.axes, extents, groups)

    def _without_strided(
        self, form: Affine, equations: Equations, within: frozenset[Size] = frozenset()
    ) -> Affine:
        """Return a form with the numbers of strided positions as quotients of other sizes. Raises
        `Unsolved` where one would be a quotient of itself; `within` are those that need it.
        """
        values = {}
        for size in form.sizes:
            if size in within:
                raise Unsolved
            if size in self._strided:
                window = self._strided[size]
                length = equations.value(self.size(window.axis))
                length = self._without_strided(length, equations, within | {size})
                taps = equations.value(self.size(window.taps))
                values[size] = affine(window.number(length, taps))
        return affine(form.substitute(values)) if values else form


def distinct_channels(axes: Axes) -> tuple[ConvolutionChannels, ...]:
    """Return the convolutions that differ in the classes of their channels, in order."""
    classes = {}
    for channels in axes.channels:
        classes[tuple(map(axes.root, channels))] = channels
    return tuple(classes.values())


def _sizes(rule: TypedRule) -> dict[Axis, Size]:
    """Return a size for each class, named after the first leaf that has it: `x7_1`."""
    names: dict[Axis, str] = {}
    for leaf in rule.graph.leaves:
        for place, axis in enumerate(rule.tensors[leaf]):
            names.setdefault(rule.axes.root(axis), f"{leaf.name}_{place}")
    sizes = {axis: Size(name) for axis, name in names.items()}
    others = [axis for axes in rule.tensors.values() for axis in axes]
    others += [axis for axis, _ in rule.axes.numbers]
    for whole, parts in rule.axes.sums:
        others += [whole, *parts]
    for window in rule.axes.windows:
        others += [window.positions, window.taps]
    for axis in others:
        root = rule.axes.root(axis)
        if root not in sizes:
            sizes[root] = Size(f"s{root}")
    return sizes


def _digit_classes(axes: Axes, channels: Sequence[ConvolutionChannels]) -> frozenset[Axis] | None:
    """Return the classes of axes that are channels of groups, if they are nothing else."""
    digits, others = set(), [*axes.taps, *axes.others]
    for data, depth, features in channels:
        digits |= {axes.root(data), axes.root(features)}
        others.append(depth)
    for window in axes.windows:
        others += [window.axis, window.positions]
    others += [columns for _, columns in axes.diagonals]
    if digits & set(map(axes.root, others)):
        return None
    for whole, parts in axes.sums:
        members = {axes.root(axis) for axis in (whole, *parts)}
        if members & digits and not members <= digits:
            return None
    return frozenset(digits)


def _ratio(whole: Affine, part: Affine) -> int | None:
    """Return how many times a form another one is, whatever the sizes; None where that depends on
    them.
    """
    coefficient = part.terms[0][1] if part.terms else part.const
    of_whole = whole.terms[0][1] if whole.terms else whole.const
    if of_whole % coefficient or of_whole // coefficient < 1:
        return None
    number = of_whole // coefficient
    return number if affine(part * number) == whole else None


def _with(equations: Equations, one: Affine, two: Affine) -> Equations | None:
    """Return equations with one more; None where no sizes meet it."""
    solved = equations.copy()
    try:
        solved.require(one, two)
    except (Unsolvable, Unsolved):
        return None
    return solved


def _sum(forms: Sequence[Affine]) -> Affine:
    total = affine(0)
    for form in forms:
        total = affine(total + form)
    return total
