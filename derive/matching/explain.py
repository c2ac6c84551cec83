"""What separates a program from the operators of the libraries, in words."""

from __future__ import annotations

from html import escape

from derive.matching.distance import Distance, distance_to
from derive.matching.multi_statement import grown, spellings
from derive.rules.inter.lifting_nesting import lifted
from einalg.display.html import page, table
from einalg.language.index.identifiers import with_article
from einalg.language.ir.program import Program
from einalg.language.ops.templates import TEMPLATES
from einalg.text.tables import Listing
from einalg.text.terminal import width, wrapped


class Distances(Listing[Distance]):
    """Distances, the nearest operator first; shown with the reasons, and those whose body is another one by name alone.

    >>> import einalg as ea
    >>> print(distances(ea.Session(ea.parse("O[i] += A[i,k,k]*B[k]", A=(3, 4, 4), B=(4,))).expr))  # doctest: +ELLIPSIS
        3  matmul: k stands twice in A
    ...
    """

    def __str__(self) -> str:
        lines = [
            f"{float(d):5g}  {d.operator}: {'; '.join(r.text for r in d.reasons) or 'it is one'}"
            for d in self
            if not _is_other(d)
        ]
        return wrapped("\n".join([*lines, *self._others()]), width())

    def _repr_html_(self) -> str:
        rows = (
            (f"{d:g}", escape(d.operator), "<br>".join(escape(r.text) for r in d.reasons))
            for d in self
            if not _is_other(d)
        )
        others = "".join(f"<p>{escape(line)}</p>" for line in self._others())
        return page(
            table(("distance", "operator", "what separates"), rows) + others, "einalg-distances"
        )

    def _others(self) -> list[str]:
        names = [found.operator for found in self if _is_other(found)]
        return [f"of another form: {', '.join(names)}"] if names else []


def _is_other(found: Distance) -> bool:
    """Whether the body is another one than the operator's: then nothing more is to be said."""
    return any(reason.kind == "body" for reason in found.reasons)


def distances(program: Program) -> Distances:
    """The distance of a program to every operator, the nearest first: what is nearest in it counts."""
    scopes = spellings(program)
    operators = dict.fromkeys(template.name for template in TEMPLATES)
    return Distances(
        sorted((min(distance_to(scope, name) for scope in scopes) for name in operators), key=float)
    )


def why_not(program: Program, operator: str) -> str:
    """What separates each statement from an operator, in words; `MatchError` for an unknown operator."""
    lines = []
    flat = lifted(program)
    for name in flat.names:
        found = min(distance_to(scope, operator) for scope, _ in grown(flat, name))
        lines.append(
            f"{name} is {with_article(operator)}"
            if not found.reasons
            else f"{name} is not {with_article(operator)}:"
        )
        lines += found.lines
    return "\n".join(lines)
