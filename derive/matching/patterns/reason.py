"""Reasons why a scope is not an operator, and the weights that make a distance of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from einalg.language.index.affine import Index
from einalg.language.ir.printing.text import outline

MAX_BODY_CHARACTERS = 100  # of a body in a reason


@dataclass(frozen=True)
class DistanceWeights:
    """About how many rule applications mend each thing that separates an expression from an
    operator; the distance is their sum.

    >>> DistanceWeights().repeated_index
    3.0
    """

    other_body: float = 20.0  # the operations are others
    no_operator: float = 20.0  # no template has such a body
    stray_index: float = 4.0  # an index that has no role in the operator
    missing_sum: float = 4.0  # no index is summed
    mixed_subscript: float = 3.0  # `i + j`, where the operator has a bare index
    mixed_sum_subscript: float = 6.0  # the same with output indices and summed ones
    repeated_index: float = 3.0  # `A[k, k]`
    parameters: float = 1.0  # strides, sizes or numbers that the operator cannot have
    copying_scope: float = 0.5  # a scope that only copies another one
    condition: float = 0.25  # of the domain
    padding: float = 0.25  # of what is read


DISTANCE_WEIGHTS = DistanceWeights()


@dataclass(frozen=True)
class Reason:
    """One thing that separates an expression from an operator, and about how many rule applications
    mend it.

    `kind` says which; `read` and `axis` (numbers) and `indices` say where, for the moves that mend
    it.
    """

    text: str
    weight: float
    kind: str = ""
    read: int | None = None
    axis: int | None = None
    indices: tuple[Index, ...] = ()


def body_mismatch(body: Any, form: Any) -> Reason:
    """Return the reason for a body whose operations are not those of an operator's definition; both
    are shown without their sizes.
    """
    text = outline(body)
    if len(text) > MAX_BODY_CHARACTERS:
        text = f"{text[: MAX_BODY_CHARACTERS - 1]}…"
    return Reason(
        f"the body {text} is not of the form {outline(form)}", DISTANCE_WEIGHTS.other_body, "body"
    )
