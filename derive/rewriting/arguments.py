"""Index forms and conditions in the arguments of moves, which are text so that they serialise."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from einalg.errors import EinalgError, RuleError
from einalg.language.index.affine import Affine
from einalg.language.index.constraint import Constraint, constraints
from einalg.language.index.convert import affine
from einalg.language.index.text import form_text
from einalg.language.notation.parser import parse_value


@lru_cache(maxsize=65536)
def parse_form(text: str) -> Affine:
    """`"2*h + r - 1"` as an affine form."""
    try:
        return affine(parse_value(text))
    except (EinalgError, SyntaxError) as error:
        raise RuleError(f"{text!r} is not a quasi-affine form: {error}") from None


def text(form: Affine) -> str:
    """An affine form as text that `parse_form` reads."""
    return form_text(form)


@lru_cache(maxsize=65536)
def parse_condition(text: str) -> Constraint:
    """`"i >= j"` as a constraint."""
    try:
        (found,) = constraints(parse_value(text))
        return found
    except (EinalgError, SyntaxError, ValueError) as error:
        raise RuleError(f"{text!r} is not one condition on indices: {error}") from None


def parse_conditions(texts: Any) -> tuple[Constraint, ...]:
    return tuple(parse_condition(t) for t in texts)
