"""The eight rules of EinNet (design §6) and bilinear factorisation, each a card in a file of its own, and the spellings of a program."""

from __future__ import annotations

from derive.rules.algebra import bilinear_factorisation, distribution, staging
from derive.rules.inter import (
    expression_fusion,
    expression_merging,
    expression_splitting,
    lifting_nesting,
)
from derive.rules.intra import (
    boundary_relaxing,
    boundary_tightening,
    summation_splitting,
    traversal_merging,
    variable_substitution,
)

RULES = {
    rule.name: rule
    for rule in (
        summation_splitting.RULE,
        variable_substitution.RULE,
        traversal_merging.RULE,
        boundary_relaxing.RULE,
        boundary_tightening.RULE,
        expression_splitting.RULE,
        expression_merging.RULE,
        expression_fusion.RULE,
        bilinear_factorisation.RULE,
    )
}
SPELLINGS = {
    rule.name: rule
    for rule in (lifting_nesting.LIFTING, lifting_nesting.NESTING, staging.RULE, distribution.RULE)
}
ALL = {**RULES, **SPELLINGS}
