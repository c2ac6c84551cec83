"""Matching of scopes with library operators, and expression distance (design §7)."""

from derive.matching.distance import distance, nearest
from derive.matching.match import match, matches, plausible, profile_of, reasons, templates
from derive.matching.unify import Reason

__all__ = ["Reason", "distance", "match", "matches", "nearest", "plausible", "profile_of", "reasons", "templates"]
