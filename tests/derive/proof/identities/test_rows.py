"""Every row of the table of laws, alone: by values of the reference evaluator, and by proof."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.proof.identities.compare import shown_equal
from derive.proof.identities.laws import LAWS, Law
from einalg.language.ir.program import as_symbolic_program, inlined
from tests.helpers.batches import batches

VARIABLES = "abc"
VALUES = st.lists(st.fractions(-4, 4, max_denominator=8), min_size=6, max_size=6)


def _scope(text: str, extent: int | str = 1) -> ea.Scope:
    """Return a text in a, b, c as a scope of so many elements."""
    for name in VARIABLES:
        text = _with_element(text, name)
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name in VARIABLES:
        if f"{name}[i]" in text:
            shapes[name] = (extent,)
    if "A[" in text:
        shapes["A"] = (3,)
    sizes = {"N": ea.size("N")} if extent == "N" else {}
    return ea.parse(f"O[i:{extent}] = {text}", **shapes, **sizes)


def _with_element(text: str, name: str) -> str:
    """Return a text with an element in the place of a variable."""
    parts = []
    for position, character in enumerate(text):
        around = text[max(0, position - 1) : position] + text[position + 1 : position + 2]
        is_word = any(neighbour.isalpha() for neighbour in around)
        parts.append(f"{name}[i]" if character == name and not is_word else character)
    return "".join(parts)


def _value(text: str, numbers: dict[str, list[object]]) -> float:
    scope = _scope(text)
    arrays = {name: numbers[name] for name in scope.tensors}
    return float(ea.evaluate(scope, **arrays)[0])


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@settings(max_examples=batches(3))
@given(values=VALUES)
def test_both_sides_have_one_value(law: Law, values: list[object]) -> None:
    numbers = {name: [value] for name, value in zip(VARIABLES, values)}
    numbers["A"] = values[3:]
    if law.requires:
        assume(eval(law.requires, dict(zip(VARIABLES, values))))
    before, after = _value(law.before, numbers), _value(law.after, numbers)
    assert math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("extent", [1, "N"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_normal_forms_apply_it(law: Law, extent: int | str) -> None:
    """What is required of a variable is true of the expression that stands for it."""
    before, after = law.before, law.after
    for name in VARIABLES:
        value = None
        if f"{name} > 0" in law.requires:
            value = f"exp({name})"
        elif f"{name} >= 0" in law.requires:
            value = f"Abs({name})"
        if value is not None:
            before, after = [_replaced(text, name, value) for text in (before, after)]
    sides = [as_symbolic_program(_scope(text, extent)) for text in (before, after)]
    one, two = [inlined(side, side.outputs[0]) for side in sides]
    assert shown_equal(one, two) is not None


def _replaced(text: str, name: str, value: str) -> str:
    marked = _with_element(text, name).replace(f"{name}[i]", "()")
    return marked.replace("()", f"({value})")
