"""A template as a pattern: what its definition looks like, read off from instances of it, and how
its parameters are solved for.

Nothing here knows an operator. A definition is called at a few sizes and settings; where a
coefficient, a constant, an amount of padding or an extent follows one parameter alone, in equal
steps, the parameter is read off there. Whatever is solved for is then verified: the definition,
called with the solution, must have the canonical key of the expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import sympy

from derive.matching.patterns.normal_form import OUTPUT, NormalForm, Row
from einalg.errors import EinalgError
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.language.ops.templates import Setting, Template

FIRST_OPERAND_SIZES = 53, 59, 61, 67, 71, 73  # of the axes of the first operand of an instance
OTHER_OPERAND_SIZES = 3, 5, 7, 9  # and of the others
NUMBERS = sympy.Rational(3, 7), sympy.Rational(13, 11)  # any numbers, for parameters that are such
UNIT = "1"
LARGER_BY = 4  # of one parameter in an instance: a transposed stride must exceed the dilation
Label = tuple[Any, ...]  # ("A", 2, "coefficient", "s"), ("extent", "i")


@dataclass(frozen=True)
class ParameterRule:
    """A parameter is `(feature - start) / step + least` for the feature at `label`.

    >>> ParameterRule(("A", 2, "constant"), start=0, step=-1, least=0).value(
    ...     {("A", 2, "constant"): -3}
    ... )
    3
    """

    label: Label
    start: int
    step: int
    least: int

    def value(self, features: Mapping[Label, int]) -> int | None:
        feature = features.get(self.label)
        if feature is None or (feature - self.start) % self.step:
            return None
        return (feature - self.start) // self.step + self.least


class Pattern:
    """The common form of the instances of a template."""

    def __init__(self, template: Template):
        self.template = template
        self.shapes = self._shapes(0)
        self.settings = self._settings(None)
        self.example = NormalForm(self._instance(self.settings))

    @property
    def _least(self) -> dict[Setting, int]:
        return self.template.settings()

    def _settings(self, larger: str | None) -> dict[Setting, int]:
        """Return values above the least ones, with one parameter that is larger than the others."""
        settings = {}
        for setting, least in self._least.items():
            settings[setting] = least + 1
            if setting[0] == larger:
                settings[setting] += LARGER_BY
        return settings

    def _shapes(self, shift: int) -> dict[str, tuple[int, ...]]:
        """Return shapes of the operands of an instance; those of another `shift` differ in every
        axis.
        """
        operands = self.template.operands
        sizes: dict[str, int] = {}
        first, *_ = operands.values()
        for letter in first.replace(UNIT, ""):
            sizes[letter] = FIRST_OPERAND_SIZES[len(sizes) + shift]
        sizes[UNIT] = 1
        others = [x for x in dict.fromkeys("".join(operands.values())) if x not in sizes]
        for number, letter in enumerate(others):
            sizes[letter] = OTHER_OPERAND_SIZES[(number + shift) % len(OTHER_OPERAND_SIZES)]
        shapes = {}
        for name, letters in operands.items():
            shapes[name] = tuple(sizes[letter] for letter in letters)
        return shapes

    def _instance(self, settings: Mapping[Setting, int], shapes: Any = None) -> Scope:
        numbers = dict(zip(self.template.numbers, NUMBERS))
        return self.template.build(shapes or self.shapes, settings, numbers)

    @cached_property
    def names(self) -> list[str]:
        """The operand that each read of the example reads."""
        return [read.name for read in self.example.reads]

    @cached_property
    def plainest_body(self) -> Any:
        """The body of the definition with steps of 1 and no padding."""
        return self._instance(self._least).body

    @cached_property
    def named_skeleton(self) -> Any:
        """The operations of the body, with the names of operands."""
        return self.example.named_skeleton(self.names)

    @cached_property
    def roles(self) -> dict[str, Row]:
        """The iterator mapping table of the definition, by the names of operands:
        `{"m": {"A", "output"}, "k": {"A", "B"}, …}`.
        """
        roles = {}
        for index, row in self.example.rows.items():
            roles[index.name] = with_operand_names(row, self.names)
        return roles

    @cached_property
    def mixed(self) -> dict[tuple[str, int], tuple[str, ...]]:
        """The indices that share an axis of an operand, where several do: `{("A", 2): ("s", "w")}`
        for a convolution along one axis.
        """
        mixed = {}
        for read in self.example.reads:
            for axis in read.axes:
                if len(axis.indices) > 1:
                    mixed[read.name, axis.position] = tuple(index.name for index in axis.indices)
        return mixed

    @cached_property
    def mixed_roles(self) -> frozenset[str]:
        """The roles that share an axis with another one."""
        return frozenset().union(*self.mixed.values())

    @cached_property
    def has_quotients(self) -> bool:
        """Whether a subscript divides."""
        return any(not axis.form.is_affine() for read in self.example.reads for axis in read.axes)

    @cached_property
    def text(self) -> str:
        """The body of the instance in which the fewest parameters cancel, as a stride and a
        dilation that is a multiple of it do.
        """
        bodies = [str(self.example.scope.body)]
        for larger in dict.fromkeys(name for name, *_ in self._least):
            with suppress(EinalgError):  # some parameters are bounded by others
                bodies.append(str(self._instance(self._settings(larger)).body))
        return max(bodies, key=len)

    @cached_property
    def has_sum(self) -> bool:
        """Whether an index is summed."""
        return any(OUTPUT not in row for row in self.roles.values())

    @cached_property
    def output(self) -> tuple[str, ...]:
        """The roles of the axes of the result, in order: `("b", "m", "n")`."""
        return tuple(index.name for index in self.example.scope.indices)

    @cached_property
    def rules(self) -> dict[Setting, ParameterRule]:
        """Where each parameter can be read off alone; the others are solved for in the end."""
        rules: dict[Setting, ParameterRule] = {}
        for larger in (None, *(free.name for free in self.template.free)):
            if len(rules) < len(self.settings):
                rules = {**self._rules(self._settings(larger)), **rules}
        return rules

    def _rules(self, settings: dict[Setting, int]) -> dict[Setting, ParameterRule]:
        """Return the rules that can be read off from instances around these settings."""
        base, resized = self._features(settings), self._features(settings, self._shapes(1))
        once, twice = self._moved(settings, 1), self._moved(settings, 2)
        rules: dict[Setting, ParameterRule] = {}
        for setting, least in self._least.items():
            others = [moved for other, moved in once.items() if other != setting]
            steady = _steady_feature(base, once[setting], twice[setting], [resized, *others])
            if steady is not None:
                label, step = steady
                start = base[label] - step * (settings[setting] - least)
                rules[setting] = ParameterRule(label, start, step, least)
        return rules

    def _moved(self, settings: dict[Setting, int], by: int) -> dict[Setting, dict[Label, int]]:
        """Return for every parameter the features of an instance in which it alone is larger."""
        moved = {}
        for setting, value in settings.items():
            moved[setting] = self._features({**settings, setting: value + by})
        return moved

    def _features(self, settings: Mapping[Setting, int], shapes: Any = None) -> dict[Label, int]:
        """Return the features of an instance; none where the definition has no meaning."""
        try:
            return features(self._instance(settings, shapes))
        except EinalgError:
            return {}

    def solve(
        self, target: Scope, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[Setting, int] | None:
        """Return the parameters with which the definition looks like `target`, as far as features
        tell; None where there are none.
        """
        wanted = features(target)
        values = dict(self._least)
        for setting, rule in self.rules.items():
            value = rule.value(wanted)
            if value is not None:
                values[setting] = value
        for setting, least in self._least.items():
            if values[setting] < least:
                return None
        for setting in values:
            if setting not in self.rules:
                values[setting] = self._fitted(setting, values, wanted, shapes)
        return values

    def _fitted(
        self, setting: Setting, values: dict[Setting, int], wanted: Mapping[Label, int], shapes: Any
    ) -> int:
        """Take one step of Newton's method from the least value on, at a feature that the parameter
        moves and that is not yet right.
        """
        least = self._least[setting]
        here = self._features({**values, setting: least}, shapes)
        there = self._features({**values, setting: least + 1}, shapes)
        for label, value in here.items():
            step = there.get(label, value) - value
            if step and label in wanted and (wanted[label] - value) % step == 0:
                return max(least, least + (wanted[label] - value) // step)
        return least


@cache
def pattern_of(template: Template) -> Pattern:
    """Return the pattern of a template, made once."""
    return Pattern(template)


def with_operand_names(row: Row, names: list[str]) -> Row:
    """Return a row of the mapping table with the names of operands in the place of numbers.

    >>> sorted(with_operand_names(frozenset([0, OUTPUT]), ["A", "B"]))
    ['A', 'output']
    """
    named = set()
    for place in row:
        if place == OUTPUT:
            named.add(place)
        else:
            named.add(names[place])
    return frozenset(named)


def _steady_feature(
    base: Mapping[Label, int],
    once: Mapping[Label, int],
    twice: Mapping[Label, int],
    others: Sequence[Mapping[Label, int]],
) -> tuple[Label, int] | None:
    """Return the first feature that moves in equal steps with one parameter and with no other one,
    and the step.
    """
    for label, value in base.items():
        step = once.get(label, value) - value
        if not step or twice.get(label, value) - value != 2 * step:
            continue
        if all(moved.get(label, value) == value for moved in others):
            return label, step
    return None


def features(scope: Scope) -> dict[Label, int]:
    """Return the numbers of an expression, each with a label that says where it stands: extents,
    and coefficients, divisors and padding of reads.

    >>> import einalg as ea
    >>> features(ea.parse("O[i:3] = A[2*i+1]", A=(9,)))  # doctest: +NORMALIZE_WHITESPACE
    {('extent', 'i'): 3, ('A', 0, 'divisor'): 1, ('A', 0, 'constant'): 1,
     ('A', 0, 'coefficient', 'i'): 2, ('A', 0, 'before'): 0, ('A', 0, 'after'): 0}
    """
    numbers: dict[Label, int] = {}
    for node in (scope, *reductions(scope.body)):
        for it in node.iterators:
            numbers["extent", it.index.name] = it.extent
    for access in accesses(scope.body):
        name = unpadded(access.base).name
        for position, form in enumerate(access.subscripts):
            for label, value in _numbers(form):
                numbers[name, position, *label] = value
            before, after = _padding(access, position)
            numbers[name, position, "before"] = before
            numbers[name, position, "after"] = after
    return numbers


def _padding(access: Access, position: int) -> tuple[int, int]:
    if isinstance(access.base, Padded):
        return access.base.amounts[position]
    return 0, 0


def _numbers(form: Affine) -> Iterator[tuple[Label, int]]:
    """Yield coefficients, constant and divisor of a form; `e//d + g` counts as `(e + d·g)//d`,
    which it is.
    """
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
