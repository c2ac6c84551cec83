"""The rules: the eight of EinNet, bilinear factorisation, partial substitution, and spellings.

Each is a card in a file of its own: `intra` works within a scope, `inter` between parts and
statements, `algebra` by the laws of arithmetic (design §6), `partial` with a scope that is nearly
equal (design §15). `RULES` are the rules of the papers with bilinear factorisation, `SPELLINGS` the
others, `ALL` both by name; `OF_MODELS` are the same, but their moves keep what NaN and infinities
give. Rules import `derive.rewriting`, `derive.bilinear` and `derive.proof`. A new rule is a file
with a `RULE`, entered in one of the tables.
"""

from __future__ import annotations

from derive.rewriting.moves import Rule
from derive.rewriting.nonfinite import keeping_nonfinite
from derive.rules.algebra import bilinear_factorisation, distribution, staging
from derive.rules.inter import (
    expression_fusion,
    expression_merging,
    expression_splitting,
    lifting_nesting,
)
from derive.rules.intra import (
    axis_elimination,
    boundary_relaxing,
    boundary_tightening,
    summation_splitting,
    traversal_merging,
    variable_substitution,
)
from derive.rules.partial import partial_substitution


def _by_name(*rules: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


RULES = _by_name(
    summation_splitting.RULE,
    variable_substitution.RULE,
    traversal_merging.RULE,
    boundary_relaxing.RULE,
    boundary_tightening.RULE,
    expression_splitting.RULE,
    expression_merging.RULE,
    expression_fusion.RULE,
    bilinear_factorisation.RULE,
    partial_substitution.RULE,
)
SPELLINGS = _by_name(
    lifting_nesting.LIFTING,
    lifting_nesting.NESTING,
    staging.RULE,
    distribution.RULE,
    axis_elimination.RULE,
)
ALL = {**RULES, **SPELLINGS}
OF_MODELS = keeping_nonfinite(ALL)
