"""Matching of scopes with library operators, and expression distance (design §7)."""

from derive.matching.distance import Distance, distance, distance_to, nearest
from derive.matching.match import match, matches, plausible, profile_of, reasons, templates
from derive.matching.unify import Reason

__all__ = ["Distance", "Reason", "distance", "distance_to", "match", "matches", "nearest", "plausible", "profile_of", "reasons", "templates"]
