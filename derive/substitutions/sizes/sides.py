"""Both sides of a rule of a file at the kernels and groups that the convolutions of a program have.

Groups and taps are numbers in an expression, so that a rule that leaves them open is a pattern of
its own for each of them. The left side has the others open; so has the right side, or it is written
once all are numbers, as it may have groups that its left side has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from derive.substitutions.graphs.axes import Axis, ConvolutionChannels
from derive.substitutions.graphs.graph import Leaf, RuleGraph
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import TypedRule, typed
from derive.substitutions.sizes.building import NoExpression, program_of_side
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import OpenGroup, OpenSizes, Sizing
from einalg.errors import EinalgError
from einalg.language.ir.program import Program
from einalg.runtime.clock import check_time


class ConvolutionKind(NamedTuple):
    """The taps of a convolution of a program, its groups, and the channels that one of these reads
    and gives; None for both where there is one group.
    """

    taps: tuple[int, int]
    groups: int = 1
    depth: int | None = None
    outputs: int | None = None


@dataclass(frozen=True, eq=False)
class OpenSides:
    """A rule, with numbers for some sizes."""

    rule: TypedRule
    sizing: Sizing
    before: Program

    @property
    def reads_enough(self) -> bool:
        """Whether the right side reads no leaf that the left side does not read."""
        graph = self.rule.graph
        sources = [source for operation in graph.after for source in operation.inputs]
        sources += [source for _, source in graph.outputs]
        leaves = {source.name for source in sources if isinstance(source, Leaf)}
        return leaves <= self.before.inputs.keys()

    def after(self, numbers: Mapping[str, int] | None = None) -> Program | None:
        """Return the right side, at numbers for the sizes of the left side if these are given; None
        where it has no expression.
        """
        sizing = self.sizing if numbers is None else self.sizing.at(numbers)
        return _side(self.rule, sizing, 1)


def open_sides(graph: RuleGraph, convolutions: Sequence[ConvolutionKind]) -> Iterator[OpenSides]:
    """Yield a rule at each choice of the kinds of convolutions that its left side may have.

    >>> from derive.substitutions.files.checking import checked_graph, operation
    >>> from derive.substitutions.graphs.graph import Leaf, Port
    >>> window = {"stride": [1, 1], "pad": "same"}
    >>> one = [operation("conv2d", window | {"act": "relu"}, [Leaf(1), Leaf(2)])]
    >>> two = [operation("conv2d", window, [Leaf(1), Leaf(2)]), operation("relu", {}, [Port(0)])]
    >>> graph = checked_graph("relu", (one, two), [(Port(0), Port(1))], {})
    >>> for sides in open_sides(graph, [ConvolutionKind((1, 5))]):
    ...     print(sides.before.inputs["x2"].shape)
    (x2_0, x2_1, 1, 5)
    """
    rule = typed(graph)
    operands = _convolutions(rule)
    for kinds in product(dict.fromkeys(convolutions), repeat=len(operands)):
        check_time()
        try:
            sizing = _sizing(rule, dict(zip(operands, kinds)))
        except (Unsolvable, Unsolved):
            continue
        before = _side(rule, sizing, 0)
        if before is not None:
            yield OpenSides(rule, sizing, before)


_Operands = tuple[ConvolutionChannels, tuple[Axis, ...]]  # channels and taps of a convolution


def _convolutions(rule: TypedRule) -> list[_Operands]:
    """Return the different convolutions of the left side."""
    root = rule.axes.root
    convolutions: dict[_Operands, None] = {}
    for operation in rule.graph.before:
        if operation.operator == "conv2d":
            data, kernel = [rule.of(0, source) for source in operation.inputs]
            features, depth, *taps = map(root, kernel)
            channels = ConvolutionChannels(root(data[1]), depth, features)
            convolutions[channels, tuple(taps)] = None
    return list(convolutions)


def _sizing(rule: TypedRule, kinds: Mapping[_Operands, ConvolutionKind]) -> Sizing:
    """Return the sizes of a rule whose convolutions are of some kinds. Raises `Unsolvable` or
    `Unsolved` where there are none.
    """
    taps: dict[Axis, int] = {}
    groups: dict[ConvolutionChannels, OpenGroup] = {}
    for (channels, axes), kind in kinds.items():
        numbers = kind.groups, kind.depth, kind.outputs
        if groups.setdefault(channels, numbers) != numbers:
            raise Unsolvable
        for axis, number in zip(axes, kind.taps):
            if taps.setdefault(axis, number) != number:
                raise Unsolvable
    others = next(choices_of_taps(rule))
    return OpenSizes(rule, {**others, **taps}).of_groups(groups)


def _side(rule: TypedRule, sizing: Sizing, side: int) -> Program | None:
    try:
        return program_of_side(rule, sizing, side)
    except (NoExpression, EinalgError):
        return None
