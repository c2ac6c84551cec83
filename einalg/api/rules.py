"""Rules and moves: the known ones by name, and those that a user makes and tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from derive.rewriting.moves import Move, Rule
from derive.rewriting.user_rules import RuleReport, check_rule, rule
from derive.rules import ALL

rules: Mapping[str, Rule] = MappingProxyType(ALL)  # by name, each with its card

__all__ = ["Move", "Rule", "RuleReport", "check_rule", "rule", "rules"]
