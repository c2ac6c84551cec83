"""Matching of scopes with library operators, and expression distance (design §7).

`match` solves for the parameters of an operator and verifies them: with `patterns` for operators
that libraries have (contractions, convolutions, reductions), with `arrays` for those that move or
map elements of arrays of any rank. `kernels_of` names the operators of a program, and
`multi_statement` matches several statements as one. `distance` and `explain` say what separates an
expression from an operator. Import from here; below
are `einalg.language` and the rules that inline scopes. An operator is added as a template in
`einalg.language.ops.templates`, not here.
"""

from derive.matching.distance import Distance, distance, distance_to, nearest_templates
from derive.matching.explain import Distances, distances, nearest_distance, why_not
from derive.matching.match import match, matches, reasons, templates
from derive.matching.multi_statement import (
    Group,
    candidate_scopes,
    groups,
    growing_groups,
    with_operator_names,
)
from derive.matching.patterns.normal_form import normal_form
from derive.matching.patterns.reason import Reason
from derive.matching.program_kernels import kernel_of, kernels_of, multiplies_by_constants

__all__ = [
    "Distance",
    "Distances",
    "Group",
    "Reason",
    "candidate_scopes",
    "distance",
    "distance_to",
    "distances",
    "groups",
    "growing_groups",
    "kernel_of",
    "kernels_of",
    "match",
    "matches",
    "multiplies_by_constants",
    "nearest_distance",
    "nearest_templates",
    "normal_form",
    "reasons",
    "templates",
    "why_not",
    "with_operator_names",
]
