"""Index forms and conditions in the arguments of moves, which are text so that they serialise.

`einalg.language.index.text.form_text` writes the forms that `parse_form` reads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from einalg.errors import EinalgError, RuleError, without_remedy
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint, constraints
from einalg.language.index.convert import affine
from einalg.language.notation.parser import parse_value


@lru_cache(maxsize=65536)
def parse_form(text: str) -> Affine:
    """Read `"2*h + r - 1"` as an affine form."""
    try:
        return affine(parse_value(text))
    except (EinalgError, SyntaxError) as error:
        raise RuleError(f"{text!r} is not a quasi-affine form: {without_remedy(error)}") from None


@lru_cache(maxsize=65536)
def parse_condition(text: str) -> Constraint:
    """Read `"i >= j"` as a constraint."""
    try:
        (constraint,) = constraints(parse_value(text))
        return constraint
    except (EinalgError, SyntaxError, ValueError) as error:
        raise RuleError(
            f"{text!r} is not one condition on indices: {without_remedy(error)}"
        ) from None


def parse_conditions(texts: Any) -> tuple[Constraint, ...]:
    return tuple(parse_condition(text) for text in texts)
