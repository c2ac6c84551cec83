"""What is known of a substitution."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import islpy as isl

NO_SIZES = "at no sizes do both sides have a meaning"
NO_EXPRESSION = "a side has no expression with its sizes open"
UNSOLVED = "the sizes at which both sides have outputs of one shape are not known"
UNNAMED = ""  # a rule whose verdict is that of others too
MAX_CHARACTERS = 300  # of a set in a text
AXIS = re.compile(r"(?<![A-Za-z])x(\d+)_(\d+)")  # in the name of a size: `x1_0`, `x1_0_x2_0`


@dataclass(frozen=True, repr=False)
class RuleVerdict:
    """The verdict on a substitution: `"proved"`, `"tested"`, `"different"`, or `"unknown"` where it
    was not decided; true where it is proved.

    `condition` is None where the two sides are equal at all sizes at which both have a meaning;
    else the isl set of sizes at which they are and no result is empty, or of some of these where
    `coverage` says so, and `condition_text` the same in words: "one group", "K = 1". The parameters
    of a condition on groups are `G1`, the groups of the first convolution, `P1`, the outputs of
    each, and so on. Where there is a condition, or the verdict is `"different"`, `counterexample`
    has the smallest sizes at which the sides differ, by name, and `region` the isl set of output
    points that do; the sizes of a rule of a file are those of the axes of its inputs, `x1_0` of the
    first one of `x1`, whose ranks are in `leaves`. `coverage` says what was tried where that was
    not everything.
    """

    rule: str
    verdict: str
    condition: Any = None
    condition_text: str = ""
    counterexample: dict[str, int] | None = None
    region: Any = None
    coverage: str = ""
    leaves: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.verdict == "proved"

    @property
    def is_unconditional(self) -> bool:
        """Whether the rule is proved, of all groups or of all that were tried, which are those that
        would be tried of its cases.
        """
        return self.verdict == "proved" and self.condition is None

    def __str__(self) -> str:
        text = f"{self.rule}: {self.verdict}"
        if self.condition_text:
            text += f" where {self.condition_text}"
        if self.coverage:
            text += f" ({self.coverage})"
        if self.counterexample:
            text += f"\n  different {self.counterexample_text}"
            if self.region is not None:
                text += f", where {_shortened(str(self.region))}"
        return text

    __repr__ = __str__

    @property
    def counterexample_text(self) -> str:
        """The counterexample in words: the shapes of `leaves`, and other sizes by name.

        >>> example = {"x1_0": 2, "x1_1": 3, "G1": 2, "P1": 1}
        >>> verdict = RuleVerdict("rule", "different", counterexample=example, leaves={"x1": 2})
        >>> verdict.counterexample_text
        'where x1 is 2x3, at G1 = 2, P1 = 1'
        """
        others = dict(self.counterexample or {})
        shapes = []
        for leaf, rank in self.leaves.items():
            numbers = [str(others.pop(f"{leaf}_{axis}", "?")) for axis in range(rank)]
            if numbers:
                shapes.append(f"{leaf} is {'x'.join(numbers)}")
        parts = []
        if shapes:
            parts.append("where " + ", ".join(shapes))
        if others:
            parts.append("at " + ", ".join(f"{name} = {number}" for name, number in others.items()))
        return ", ".join(parts)

    def with_leaves(self, numbers: Mapping[int, int]) -> RuleVerdict:
        """Return the verdict on the rule whose leaves have other numbers: those by the numbers that
        they have here.

        >>> verdict = RuleVerdict("rule", "different", counterexample={"x1_0": 2}, leaves={"x1": 1})
        >>> verdict.with_leaves({1: 7}).counterexample_text
        'where x7 is 2'
        """
        leaves = {f"x{number}": self.leaves.get(f"x{place}") for place, number in numbers.items()}
        return replace(
            self.with_axes(lambda leaf, axis: f"x{numbers[leaf]}_{axis}"),
            leaves={name: rank for name, rank in leaves.items() if rank is not None},
        )

    def with_axes(self, name_of: Callable[[int, int], str]) -> RuleVerdict:
        """Return the verdict with other names for the axes of leaves, by the number of a leaf and
        the place of the axis, wherever the verdict names a size.

        >>> verdict = RuleVerdict("rule", "proved", isl.Set("[x1_0] -> { : x1_0 = 3 }"), "x1_0 = 3")
        >>> renamed = verdict.with_axes(lambda leaf, axis: f"x{leaf + 1}_{axis}")
        >>> renamed.condition, renamed.condition_text
        (Set("[x2_0] -> {  : x2_0 = 3 }"), 'x2_0 = 3')
        """

        def renamed(text: str) -> str:
            return AXIS.sub(lambda match: name_of(int(match[1]), int(match[2])), text)

        example = self.counterexample
        if example is not None:
            example = {renamed(name): number for name, number in example.items()}
        return replace(
            self,
            condition=_with_parameters(self.condition, renamed),
            condition_text=renamed(self.condition_text),
            counterexample=example,
            region=_with_parameters(self.region, renamed),
        )


def _with_parameters(points: Any, renamed: Callable[[str], str]) -> Any:
    """Return a set whose parameters have other names; None of none."""
    if points is None:
        return None
    for place in range(points.dim(isl.dim_type.param)):
        name = points.get_dim_name(isl.dim_type.param, place)
        points = points.set_dim_name(isl.dim_type.param, place, renamed(name))
    return points


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"
