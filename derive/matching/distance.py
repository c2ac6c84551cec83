"""Expression distance: how many repairs separate an expression from the operators that a library has (design §7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from derive.matching.match import plausible, reasons, templates
from derive.matching.patterns.normal_form import normal_form
from derive.matching.patterns.pattern import pattern
from derive.matching.patterns.unify import Reason
from einalg.language.index.identifiers import with_article
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import reductions
from einalg.language.ops.templates import TEMPLATES, AnyTemplate, Template


class Distance(float):
    """About how many rule applications separate an expression from an operator, with the `reasons`; 0 exactly when it is one."""

    reasons: tuple[Reason, ...]
    operator: str
    template: AnyTemplate

    def __new__(cls, template: AnyTemplate, reasons: Iterable[Reason]) -> Distance:
        listed = tuple(reasons)
        found = super().__new__(cls, sum(r.weight for r in listed))
        found.reasons, found.operator, found.template = listed, template.name, template
        return found

    @property
    def lines(self) -> list[str]:
        """The reasons in words; where subscripts are in the way, what those of the operator look like."""
        found = [f"  - {r.text}" for r in self.reasons]
        if (
            isinstance(self.template, Template)
            and any(r.kind == "mixed" for r in self.reasons)
            and pattern(self.template).mixed
        ):
            found.append(
                f"  {with_article(self.operator)} is written, for example, {pattern(self.template).form}"
            )
        return found

    def __str__(self) -> str:
        if not self.reasons:
            return f"0: it is {with_article(self.operator)}"
        return "\n".join([f"{float(self):g} from {with_article(self.operator)}:", *self.lines])

    __repr__ = __str__


def distance_to(scope: Scope, operator: str) -> Distance:
    """The distance of one scope from an operator, for the template of it that is nearest; `MatchError` for an unknown operator."""
    return min(Distance(t, reasons(scope, t)) for t in templates(operator))


WRAPPER = 0.5  # weight of a scope that only copies another one
FAR = 20.0


def ranked(
    scope: Scope, among: tuple[Template, ...] = TEMPLATES
) -> list[tuple[Template, list[Reason]]]:
    """The templates with the body of a scope and the reasons against each, the one with the lightest first; none where none has such a body."""
    profile = normal_form(scope)
    known = profile.solved.get(("ranked", among))
    if known is None:
        known = [(t, reasons(scope, t)) for t in plausible(profile, among)]
        known.sort(key=lambda row: sum(r.weight for r in row[1]))
        profile.solved["ranked", among] = known
    return known


def distance(
    scopes: Iterable[Scope],
    among: tuple[Template, ...] = TEMPLATES,
    heavy: Callable[[Scope], bool] = lambda _: True,
) -> float:
    """How far a program is from operators: of the scopes that are `heavy` all of them, or if none is, of the nearest one.

    Scopes that only copy another one weigh a little.
    """
    around, heavies, others = 0.0, [], [FAR]
    for scope in scopes:
        if isinstance(scope.body, Access) or not any(True for _ in reductions(scope.body)):
            around += WRAPPER
            continue
        nearest = next((against for _, against in ranked(scope, among)), None)
        (heavies if heavy(scope) else others).append(
            FAR if nearest is None else sum(r.weight for r in nearest)
        )
    return (sum(heavies) if heavies else min(others)) + around
