"""Expression distance: how many repairs separate an expression from the operators that a library
has (design §7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from derive.matching.match import plausible_templates, reasons, templates
from derive.matching.patterns.normal_form import normal_form
from derive.matching.patterns.pattern import pattern_of
from derive.matching.patterns.reason import DISTANCE_WEIGHTS, Reason
from einalg.language.index.identifiers import with_article
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions
from einalg.language.ops.templates import TEMPLATES, AnyTemplate, Template


class Distance(float):
    """About how many rule applications separate an expression from an operator, with the `reasons`;
    0 exactly when it is one.
    """

    reasons: tuple[Reason, ...]
    operator: str
    template: AnyTemplate

    def __new__(cls, template: AnyTemplate, reasons: Iterable[Reason]) -> Distance:
        listed = tuple(reasons)
        distance = super().__new__(cls, _weight(listed))
        distance.reasons, distance.operator, distance.template = listed, template.name, template
        return distance

    @property
    def lines(self) -> list[str]:
        """The reasons in words; where subscripts are in the way, what those of the operator look
        like.
        """
        lines = [f"  - {reason.text}" for reason in self.reasons]
        has_mixed = any(reason.kind == "mixed" for reason in self.reasons)
        if not has_mixed or not isinstance(self.template, Template):
            return lines
        pattern = pattern_of(self.template)
        if pattern.mixed:
            lines.append(f"  {with_article(self.operator)} is written, for example, {pattern.text}")
        return lines

    def __str__(self) -> str:
        if not self.reasons:
            return f"0: it is {with_article(self.operator)}"
        return "\n".join([f"{float(self):g} from {with_article(self.operator)}:", *self.lines])

    __repr__ = __str__


def _weight(reasons: Iterable[Reason]) -> float:
    return sum(reason.weight for reason in reasons)


def distance_to(scope: Scope, operator: str) -> Distance:
    """Return the distance of one scope from an operator, for the template of it that is nearest;
    `MatchError` for an unknown operator.
    """
    return min(Distance(template, reasons(scope, template)) for template in templates(operator))


def nearest_templates(
    scope: Scope, among: tuple[Template, ...] = TEMPLATES
) -> list[tuple[Template, list[Reason]]]:
    """Return the templates with the body of a scope and the reasons against each, the one with the
    lightest first; none where none has such a body.
    """
    normalized = normal_form(scope)
    cached = normalized.cache.get(("nearest", among))
    if cached is None:
        cached = [(t, reasons(scope, t)) for t in plausible_templates(normalized, among)]
        cached.sort(key=lambda row: _weight(row[1]))
        normalized.cache["nearest", among] = cached
    return cached


def distance(
    scopes: Iterable[Scope],
    among: tuple[Template, ...] = TEMPLATES,
    heavy: Callable[[Scope], bool] = lambda _: True,
) -> float:
    """Return how far a program is from operators: of the scopes that are `heavy` all of them, or if
    none is, of the nearest one.

    Scopes that only copy another one weigh a little.
    """
    copies = 0.0
    of_heavy: list[float] = []
    of_others = [DISTANCE_WEIGHTS.no_operator]
    for scope in scopes:
        if _only_copies(scope):
            copies += DISTANCE_WEIGHTS.copying_scope
        elif heavy(scope):
            of_heavy.append(_nearest_weight(scope, among))
        else:
            of_others.append(_nearest_weight(scope, among))
    if of_heavy:
        return sum(of_heavy) + copies
    return min(of_others) + copies


def _only_copies(scope: Scope) -> bool:
    """Return whether a scope reduces nothing."""
    return isinstance(scope.body, Access) or next(reductions(scope.body), None) is None


def _nearest_weight(scope: Scope, among: tuple[Template, ...]) -> float:
    nearest = nearest_templates(scope, among)
    if not nearest:
        return DISTANCE_WEIGHTS.no_operator
    _, against = nearest[0]
    return _weight(against)
