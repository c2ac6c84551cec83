"""Expressions of every kind that code is generated for: `EXPRESSIONS[name]()` gives a scope or a
flat program.
"""

from tests.helpers.expressions import constants, general, repeated
from tests.helpers.expressions.registry import EXPRESSIONS

__all__ = ["EXPRESSIONS", "constants", "general", "repeated"]
