"""The distance of a program from the operators of the libraries, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sympy import Expr

from derive.matching.distance import Distance, distance_to
from derive.matching.multi_statement import candidate_scopes, growing_groups
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.index.identifiers import with_article
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ops.templates import TEMPLATES
from einalg.text.tables import Listing
from einalg.text.terminal import width, wrapped

KINDS = {"Sum": "sum", "Max": "maximum", "Min": "minimum", "Prod": "product"}


class Distances(Listing[Distance]):
    """Distances, the nearest operator first; shown with the reasons, and those whose body is
    another one by name alone.

    >>> import einalg as ea
    >>> session = ea.Session(ea.parse("O[i] += A[i,k,k]*B[k]", A=(3, 4, 4), B=(4,)))
    >>> print(distances(session.expr))  # doctest: +ELLIPSIS
        3  matmul: k stands twice in A
    ...
    """

    def __str__(self) -> str:
        lines = []
        for distance in self.comparable:
            reasons = "; ".join(reason.text for reason in distance.reasons) or "it is one"
            lines.append(f"{float(distance):5g}  {distance.operator}: {reasons}")
        if self.remark:
            lines.append(self.remark)
        return wrapped("\n".join(lines), width())

    @property
    def comparable(self) -> list[Distance]:
        """The distances to operators whose body the expression has; the others need no reasons."""
        return [distance for distance in self if not _has_another_body(distance)]

    @property
    def remark(self) -> str:
        """The operators of another body, in one line; empty where there are none."""
        names = [distance.operator for distance in self if _has_another_body(distance)]
        if not names:
            return ""
        return f"of another form: {', '.join(names)}"


def _has_another_body(distance: Distance) -> bool:
    return any(reason.kind == "body" for reason in distance.reasons)


def nearest_distance(program: Program, operator: str) -> Distance:
    """Return the distance of a program from an operator: what is nearest in it counts.

    Raises `MatchError` for an unknown operator.
    """
    distances = []
    for scope in candidate_scopes(program):
        distances.append(distance_to(scope, operator))
        if distances[-1] == 0:
            break
    return min(distances)


def distances(program: Program) -> Distances:
    """Return the distance of a program to every operator, the nearest first: what is nearest in it
    counts.
    """
    scopes = candidate_scopes(program)
    nearest = []
    for operator in dict.fromkeys(template.name for template in TEMPLATES):
        nearest.append(min(distance_to(scope, operator) for scope in scopes))
    return Distances(sorted(nearest, key=float))


def why_not(program: Program, operator: str) -> str:
    """Say what separates each statement from an operator; `MatchError` for an unknown operator."""
    lines = []
    flat = lifted(program)
    for name in flat.names:
        nearest = min(distance_to(scope, operator) for scope, _ in growing_groups(flat, name))
        if nearest.reasons:
            lines.append(f"{name} is not {with_article(operator)}:")
        else:
            lines.append(f"{name} is {with_article(operator)}")
        lines += nearest.lines
        if nearest.reasons:
            lines += _inside(flat[name], operator)
    return "\n".join(lines)


def _inside(scope: Scope, operator: str) -> list[str]:
    """Return the line about a part of a body that is the operator, such as the sum of a convolution
    with a bias; nothing where there is none.
    """
    for part in _parts(scope.body):
        inner = Scope(scope.iterators, scope.where, part)
        if distance_to(inner, operator) == 0:
            return [f"  the {_kind(part)} is one: {inner}"]
    return []


def _parts(body: Any) -> Iterator[Any]:
    """Yield the parts of a body that compute something, the largest first; those of a reduction
    have indices of its own.
    """
    level = [body]
    while level:
        below = []
        for node in level:
            if isinstance(node, (Reduce, Access)):
                continue
            below += [argument for argument in node.args if isinstance(argument, Expr)]
        yield from (node for node in below if not node.is_Atom and not isinstance(node, Access))
        level = below


def _kind(part: Any) -> str:
    """Return what a part is called: a sum, a maximum, …; else an inner part."""
    if isinstance(part, Reduce):
        return f"inner {KINDS[part.op]}"
    return "inner part"
