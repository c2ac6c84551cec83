"""Matching of scopes with library operators, and expression distance (design §7)."""

from derive.matching.distance import Distance, distance, distance_to, ranked
from derive.matching.explain import Distances, distances, why_not
from derive.matching.match import match, matches, reasons, templates
from derive.matching.multi_statement import Group, groups, grown, named, spellings
from derive.matching.patterns.normal_form import normal_form
from derive.matching.patterns.unify import Reason

__all__ = [
    "Distance",
    "Distances",
    "Group",
    "Reason",
    "distance",
    "distance_to",
    "distances",
    "groups",
    "grown",
    "match",
    "matches",
    "named",
    "normal_form",
    "ranked",
    "reasons",
    "spellings",
    "templates",
    "why_not",
]
