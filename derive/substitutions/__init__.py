"""Substitutions: pairs of programs, read from rule files or made here, and whether they are equal
at all sizes (design §14).

A rule of a file is a graph of operators whose sizes are open (`graph`, `kinds`); `typed_rule` finds
the axes that must be equal, `sizing` gives them sizes as general as they may be, `building` writes
both sides with `einalg.ops`, and `verifier` has them proved. No axiom about operators is assumed:
conditions are inferred from where the sides differ. `generation` finds rules: all that hold between
programs of few operators.

>>> import einalg as ea
>>> rule = ea.substitutions.Rule("twice", "O[i] = A[i] + A[i]", "O[i] = 2*A[i]", A=("N",))
>>> ea.substitutions.verify(rule)
twice: proved
"""

from derive.substitutions.files.loading import load
from derive.substitutions.generation.generator import generate
from derive.substitutions.generation.report import GeneratedRules, GenerationReport
from derive.substitutions.verification.rule import Substitution as Rule
from derive.substitutions.verification.verdict import RuleVerdict
from derive.substitutions.verification.verifier import verify

__all__ = [
    "GeneratedRules",
    "GenerationReport",
    "Rule",
    "RuleVerdict",
    "generate",
    "load",
    "verify",
]
