"""Maxima, minima and products by what they meet: over elements of tensors they are decided by which
ones these are (design §9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from derive.proof.exact.polynomial import (
    ConstantFactor,
    ElementFactor,
    FunctionFactor,
    Head,
    Polynomial,
    single_factor,
)
from einalg.language.ir.dtypes import is_float

ABSORBING = {"Max[]": "oo", "Min[]": "-oo", "Prod[]": "0"}  # the result, whatever else is met


@dataclass(frozen=True)
class ReducedElements:
    """What the same reduction of two sides meets; each counts `once`, or as often as it is met.
    `tell_apart`: the reductions differ wherever these do.
    """

    ours: Polynomial
    theirs: Polynomial
    once: bool
    tell_apart: bool


def reduced_elements(ours: Polynomial, theirs: Polynomial) -> ReducedElements | None:
    """Return what both sides reduce; None where they are not the same reduction."""
    one, two = _reduction(ours), _reduction(theirs)
    if one is None or two is None or one.function != two.function:
        return None
    met = one.arguments[0], two.arguments[0]
    heads = [factor.head for side in met for term in side for factor in term.factors]
    are_truths = all(isinstance(head, ElementFactor) and head.dtype == "bool" for head in heads)
    tell_apart = _tell_apart(one.function, heads) or are_truths
    return ReducedElements(*met, one.idempotent or are_truths, tell_apart)


def _reduction(polynomial: Polynomial) -> FunctionFactor | None:
    factor = single_factor(polynomial)
    if factor is None or not isinstance(factor.head, FunctionFactor):
        return None
    return factor.head if factor.head.function.endswith("[]") else None


def _tell_apart(function: str, heads: Iterable[Head]) -> bool:
    """Return whether an element that one side alone meets, or more often, changes its value: no
    constant, and no value of another kind, may hide it.
    """
    heads = list(heads)
    elements = [head for head in heads if isinstance(head, ElementFactor)]
    constants = [head.value for head in heads if isinstance(head, ConstantFactor)]
    has_others = len(elements) + len(constants) < len(heads)
    if has_others or ABSORBING[function] in constants:
        return False
    if function == "Prod[]":
        return all(head.dtype != "bool" for head in elements)
    return not constants or all(is_float(head.dtype) for head in elements)
