"""A substitution: a name, and two programs that are to be equal (design §14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import signature
from typing import Any

from derive.proof.sides import as_sides
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.building import NoExpression, programs
from derive.substitutions.sizes.equations import Unsolvable, Unsolved
from derive.substitutions.sizes.sizing import OpenSizes
from derive.substitutions.verification.function_sides import FunctionSides
from einalg.boundary import called
from einalg.errors import EinalgError, ShapeError, UseError
from einalg.language.ir.program import Program
from einalg.language.notation.builders import tensor
from einalg.language.notation.text_arguments import reads_text
from einalg.options import checked, shown, text


@called("Rule")
class Substitution:
    """A substitution, `ea.substitutions.Rule`: `before` may be replaced by `after`, programs over
    the same inputs, with symbolic sizes or numbers.

    Text is read with the shapes that are given by name, as by `einalg.parse`. A rule of a file has
    the name of its set before its own, `"pb133/99"`, and its sizes are left open: `before` and
    `after` are the two sides at the most general sizes of one choice of groups, and `verify` looks
    at the others too. A tensor stands for all its elements. Raises `NotationError` for what is no
    program and for two sizes of one name, `UseError` for a name that is no text, and for a tensor
    that has one element type in `before` and another in `after`.

    >>> import einalg as ea
    >>> rule = ea.substitutions.Rule("twice", "O[i] = A[i] + A[i]", "O[i] = 2*A[i]", A=("N",))
    >>> rule.name, rule.after
    ('twice', O[i:N] = 2*A[i])
    """

    name: str
    graph: RuleGraph | None
    functions: FunctionSides | None = None
    _given: tuple[Program, Program] | None

    @reads_text("before", "after")
    @checked(name=text("twice"))
    def __init__(self, name: str, before: Any, after: Any, **tensors: Any) -> None:
        self.name, self.graph = name, None
        self._given = as_sides(before, after)

    @classmethod
    def of_graph(cls, name: str, graph: RuleGraph) -> Substitution:
        """Return a rule whose sizes are open."""
        rule = cls.__new__(cls)
        rule.name, rule.graph, rule._given = name, graph, None
        return rule

    @classmethod
    def of_functions(
        cls,
        name: str,
        before: Callable[..., Any],
        after: Callable[..., Any],
        shapes: Mapping[str, Any],
    ) -> Substitution:
        """Return a rule whose sides are functions of tensors of some shapes, by their names.

        `verify` calls them with all sizes open; where a side has no expression of these, as a
        reshape to a product of two sizes, with numbers for as few sizes as give one, and says with
        which. Raises `UseError` for what is no function of tensors of these names, `ShapeError` for
        a shape that is none.

        >>> import einalg as ea
        >>> rule = ea.substitutions.Rule.of_functions(
        ...     "rows of a batch",
        ...     lambda a, w: ea.ops.flatten(ea.ops.matmul(a, w), 0, 1),
        ...     lambda a, w: ea.ops.matmul(ea.ops.flatten(a, 0, 1), w),
        ...     {"a": ("B", "N", "K"), "w": ("K", "M")},
        ... )
        >>> ea.substitutions.verify(rule)
        rows of a batch: tested (proved at N = 1; N = 2; N = 3; N = 5, for all other sizes)
        """
        for side in (before, after):
            if not callable(side):
                raise UseError(
                    f"a side of rule {name} is {shown(side)}, and no function\n"
                    "  write ea.substitutions.Rule(name, before, after) for expressions"
                )
            _check_arguments(name, side, shapes)
        tensors = tuple([tensor(key, shape) for key, shape in shapes.items()])
        rule = cls.__new__(cls)
        rule.name, rule.graph, rule._given = name, None, None
        rule.functions = FunctionSides(before, after, tensors)
        return rule

    @property
    def before(self) -> Program:
        return self.sides[0]

    @property
    def after(self) -> Program:
        return self.sides[1]

    @cached_property
    def sides(self) -> tuple[Program, Program]:
        """Both programs. Raises `ShapeError` for a rule of a file whose sizes never fit."""
        if self._given is not None:
            return self._given
        if self.functions is not None:
            return self.functions.at(self.functions.least_numbers())
        assert self.graph is not None
        sides = general_sides(self.graph)
        if sides is None:
            raise ShapeError(
                f"rule {self.name} has no sizes at which both sides have a meaning\n"
                "  see the operators of the rule in its file"
            )
        return sides

    def __str__(self) -> str:
        before, after = self.sides
        return f"{self.name}:\n{_indented(before)}\n=>\n{_indented(after)}"

    def __repr__(self) -> str:
        try:
            return str(self)
        except EinalgError:
            return f"{self.name}: a rule without sizes that fit"


def _check_arguments(name: str, side: Callable[..., Any], shapes: Mapping[str, Any]) -> None:
    """Raise `UseError` for a function that cannot be called with tensors by these names."""
    try:
        parameters = signature(side)
    except (TypeError, ValueError):  # of some builtins
        return
    try:
        parameters.bind(**shapes)
    except TypeError as error:
        raise UseError(
            f"a side of rule {name} is no function of {', '.join(shapes)}: {error}\n"
            "  give both functions the names of the shapes as arguments"
        ) from None


def _indented(program: Program) -> str:
    return "\n".join(f"  {line}" for line in str(program).splitlines())


def general_sides(graph: RuleGraph) -> tuple[Program, Program] | None:
    """Return both sides of a rule with one group in each convolution, else with few; None where no
    sizes fit.
    """
    rule = typed(graph)
    for taps in choices_of_taps(rule):
        try:
            open_sizes = OpenSizes(rule, taps)
        except (Unsolvable, Unsolved):
            continue
        for sizing in open_sizes.general():
            try:
                return programs(rule, sizing)
            except (NoExpression, ShapeError):
                continue
    return None
