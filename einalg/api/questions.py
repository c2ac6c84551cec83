"""Questions that change nothing: about two expressions, an operator, a rule, this machine.

Beside them the rules by name, and those that a user makes and asks about.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from codegen.measure.diagnostics import facts
from derive.matching import Distance, nearest_distance
from derive.matching.mapping_table import mapping_table
from derive.proof import Proof, prove
from derive.rewriting.moves import Move, Rule
from derive.rewriting.user_rules import RuleReport, check_rule, rule
from derive.rules import ALL
from derive.rules.partial.mutants import Mutant, mutants
from einalg.boundary import public
from einalg.errors import MatchError
from einalg.language.ir.program import as_program
from einalg.language.notation.text_arguments import reads_text
from einalg.options import checked, text

rules: Mapping[str, Rule] = MappingProxyType(ALL)  # by name, each with its card


@reads_text("expr")
@checked(operator=text("conv2d", MatchError))
def distance(expr: Any, operator: str, **tensors: Any) -> Distance:
    """The expression distance from an operator: 0 exactly when `expr` is one, with `reasons`.

    Text is read with the shapes that are given by name, as by `einalg.parse`. Of a program, what
    is nearest counts: a statement, or one with those that only it reads. Raises `MatchError` for
    an operator that has no template.

    >>> import einalg as ea
    >>> conv = ea.parse("O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1]*K[f,c,r]", A=(1, 8, 16), K=(4, 8, 3))
    >>> ea.distance(conv, "conv1d")
    0: it is a conv1d
    >>> ea.distance(conv, "matmul")
    6 from a matmul:
      - the subscript h + r - 1 of A is not a bare index
    >>> ea.distance("O[i,j] += A[i,k]*B[k,j]", "matmul", A=(4, 5), B=(5, 6))
    0: it is a matmul
    """
    return nearest_distance(as_program(expr), operator)


@public
def doctor() -> list[Any]:
    """Return what this machine has for einalg: facts with `name`, `found` and `detail`.

    The detail is which one there is, or the command that installs it. Raises nothing: what is
    missing is a fact.

    >>> {fact.name: fact.found for fact in doctor()}["cache"]
    True
    """
    return facts()


__all__ = [
    "Move",
    "Mutant",
    "Proof",
    "Rule",
    "RuleReport",
    "check_rule",
    "distance",
    "doctor",
    "mapping_table",
    "mutants",
    "prove",
    "rule",
    "rules",
]
