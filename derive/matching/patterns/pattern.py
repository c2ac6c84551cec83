"""A template as a pattern: what its definition looks like, read off from instances of it, and how its parameters are found there.

Nothing here knows an operator. A definition is called at a few sizes and settings; where a coefficient, a constant, an amount of
padding or an extent follows one parameter alone, in equal steps, the parameter is read off there. Whatever is solved for is then
verified: the definition, called with the solution, must have the canonical key of the expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import sympy

from derive.matching.patterns.normal_form import OUTPUT, NormalForm, Row
from einalg.errors import EinalgError
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Padded, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.language.ops.templates import Setting, Template

SIZES = (53, 59, 61, 67, 71, 73), (3, 5, 7, 9)  # of axes of the first operand, and of the others
NUMBERS = (
    sympy.Rational(3, 7),
    sympy.Rational(13, 11),
)  # parameters that are any number, in an instance
UNIT = "1"
APART = 4  # how much larger one parameter is than the others in an instance: the stride of a transposed convolution than its dilation
Label = tuple[Any, ...]


@dataclass(frozen=True)
class ReadOff:
    """A parameter is `(feature - start) / step + least` for the feature at `label`."""

    label: Label
    start: int
    step: int
    least: int

    def value(self, found: Mapping[Label, int]) -> int | None:
        feature = found.get(self.label)
        if feature is None or (feature - self.start) % self.step:
            return None
        return (feature - self.start) // self.step + self.least


class Pattern:
    """What instances of a template have in common."""

    def __init__(self, template: Template):
        self.template = template
        self.shapes = self._shapes(0)
        self.settings = self._apart(None)
        self.example = NormalForm(self._instance(self.settings))

    @property
    def _least(self) -> dict[Setting, int]:
        return self.template.settings()

    def _apart(self, larger: str | None) -> dict[Setting, int]:
        return {s: least + 1 + (APART if s[0] == larger else 0) for s, least in self._least.items()}

    def _shapes(self, shift: int) -> dict[str, tuple[int, ...]]:
        sizes: dict[str, int] = {}
        first, *_ = self.template.operands.values()
        for letter in first.replace(UNIT, ""):
            sizes[letter] = SIZES[0][len(sizes) + shift]
        sizes[UNIT] = 1
        others = [
            x for letters in self.template.operands.values() for x in letters if x not in sizes
        ]
        for number, letter in enumerate(dict.fromkeys(others)):
            sizes[letter] = SIZES[1][(number + shift) % len(SIZES[1])]
        return {
            name: tuple(sizes[letter] for letter in letters)
            for name, letters in self.template.operands.items()
        }

    def _instance(self, settings: Mapping[Setting, int], shapes: Any = None) -> Scope:
        return self.template.build(
            shapes or self.shapes, settings, dict(zip(self.template.numbers, NUMBERS))
        )

    @cached_property
    def names(self) -> list[str]:
        """The operand that each read of the example reads."""
        return [read.name for read in self.example.reads]

    @cached_property
    def plain(self) -> Any:
        """The body of the definition at its plainest: steps of 1 and no padding."""
        return self._instance(self._least).body

    @cached_property
    def named_skeleton(self) -> Any:
        """The operations of the body, with the names of operands."""
        return self.example.named_skeleton(self.names)

    @cached_property
    def roles(self) -> dict[str, Row]:
        """The iterator mapping table of the definition, with the names of operands in place of numbers."""
        return {index.name: named(row, self.names) for index, row in self.example.rows.items()}

    @cached_property
    def mixed(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """Operand and axis: the indices that share it, where several do."""
        return {
            (read.name, axis.position): tuple(i.name for i in axis.indices)
            for read in self.example.reads
            for axis in read.axes
            if len(axis.form.indices) > 1
        }

    @cached_property
    def quotients(self) -> bool:
        """Whether a subscript divides."""
        return any(not axis.form.is_affine() for read in self.example.reads for axis in read.axes)

    @cached_property
    def form(self) -> str:
        """The body of the instance in which the fewest parameters cancel, as a stride and a dilation that is a multiple of it do."""
        bodies = [str(self.example.scope.body)]
        for larger in dict.fromkeys(name for name, *_ in self._least):
            with suppress(EinalgError):  # some parameters are bounded by others
                bodies.append(str(self._instance(self._apart(larger)).body))
        return max(bodies, key=len)

    @cached_property
    def sums(self) -> bool:
        """Whether an index is summed."""
        return any(OUTPUT not in row for row in self.roles.values())

    @cached_property
    def output(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.example.scope.indices)

    @cached_property
    def rules(self) -> dict[Setting, ReadOff]:
        """Where each parameter can be read off alone; the others are solved for in the end."""
        found: dict[Setting, ReadOff] = {}
        for larger in (None, *(free.name for free in self.template.free)):
            if len(found) < len(self.settings):
                found = {**self._rules(self._apart(larger)), **found}
        return found

    def _rules(self, settings: dict[Setting, int]) -> dict[Setting, ReadOff]:
        found: dict[Setting, ReadOff] = {}
        base, resized = self._features(settings), self._features(settings, self._shapes(1))
        once, twice = (
            {s: self._features({**settings, s: settings[s] + by}) for s in settings}
            for by in (1, 2)
        )
        for setting, least in self._least.items():
            for label, value in base.items():
                step = once[setting].get(label, value) - value
                steady = step and twice[setting].get(label, value) - value == 2 * step
                others = [resized, *(moved for other, moved in once.items() if other != setting)]
                if steady and all(moved.get(label, value) == value for moved in others):
                    found[setting] = ReadOff(
                        label, value - step * (settings[setting] - least), step, least
                    )
                    break
        return found

    def _features(self, settings: Mapping[Setting, int], shapes: Any = None) -> dict[Label, int]:
        """The features of an instance; none where the definition has no meaning."""
        try:
            return features(self._instance(settings, shapes))
        except EinalgError:
            return {}

    def solve(
        self, target: Scope, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[Setting, int] | None:
        """The parameters with which the definition looks like `target`, as far as features tell; None where there are none."""
        wanted = features(target)
        values = dict(self._least)
        for setting, rule in self.rules.items():
            value = rule.value(wanted)
            if value is not None:
                values[setting] = value
        if any(values[s] < least for s, least in self._least.items()):
            return None
        for setting in (s for s in values if s not in self.rules):
            values[setting] = self._fitted(setting, values, wanted, shapes)
        return values

    def _fitted(
        self, setting: Setting, values: dict[Setting, int], wanted: Mapping[Label, int], shapes: Any
    ) -> int:
        """One step of Newton's method from the least value on, at a feature that the parameter moves and that is not yet right."""
        least = self._least[setting]
        here, there = (self._features({**values, setting: least + k}, shapes) for k in (0, 1))
        for label, value in here.items():
            step = there.get(label, value) - value
            if step and label in wanted and (wanted[label] - value) % step == 0:
                return max(least, least + (wanted[label] - value) // step)
        return least


@cache
def pattern(template: Template) -> Pattern:
    return Pattern(template)


def named(row: Row, names: list[str]) -> Row:
    return frozenset(place if place == OUTPUT else names[place] for place in row)


def features(scope: Scope) -> dict[Label, int]:
    """The numbers of an expression, each with a label that says where it stands: extents, and coefficients, divisors and padding of reads."""
    found: dict[Label, int] = {("extent", it.index.name): it.extent for it in scope.iterators}
    for node in reductions(scope.body):
        found.update({("extent", it.index.name): it.extent for it in node.iterators})
    for access in accesses(scope.body):
        name = unpadded(access.base).name  # type: ignore[union-attr]
        for position, form in enumerate(access.subscripts):
            for label, value in _numbers(form):
                found[name, position, *label] = value
            before, after = (
                access.base.amounts[position] if isinstance(access.base, Padded) else (0, 0)
            )
            found[name, position, "before"], found[name, position, "after"] = before, after
    return found


def _numbers(form: Affine) -> Iterator[tuple[Label, int]]:
    """Coefficients, constant and divisor of a form; `e//d + g` counts as `(e + d·g)//d`, which it is."""
    quotients = [a for a, c in form.terms if isinstance(a, FloorDiv) and c == 1]
    divisor = 1
    if len(quotients) == 1:
        (atom,) = quotients
        divisor = atom.divisor
        form = (form - atom) * divisor + atom.argument
    yield ("divisor",), divisor
    yield ("constant",), form.const
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            yield ("coefficient", atom.name), coefficient
