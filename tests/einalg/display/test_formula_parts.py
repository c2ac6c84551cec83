"""The mathematics of a program in which each part can be pointed at."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import einalg as ea
from derive.interactive.parts import parts
from einalg.display.formula_parts import formula_with_parts
from einalg.display.mathml import formula
from einalg.language.ir.program import as_program
from einalg.testing import strategies
from tests.helpers.batches import examples

pytest.importorskip("latex2mathml", reason="needs einalg[notebook]")
NESTED = "O[i] += (L[i:4,j:5](Sum[k:6](A[i,j,k]*x[k]))).pad((1,0),0)[i-1,j] * y[j]"


def tree(program):
    return ElementTree.fromstring(formula_with_parts(program, parts(program)))


def symbols(node):
    """Return the symbols below a node as they read."""
    return re.sub(r"\s|\u00a0", "", "".join(node.itertext()))


def numbers(node):
    return {int(part.get("data-part")) for part in node.iter() if part.get("data-part")}


def test_each_part_is_an_element_of_its_own():
    program = as_program(ea.parse(NESTED, A=(4, 5, 6), x=(6,), y=(5,)))
    whole, listed = tree(program), parts(program)
    reads = {}
    for node in whole.iter():
        if node.get("data-part"):
            reads[listed[int(node.get("data-part"))].name] = symbols(node)
    assert reads["O.0.Sum"] == "∑k" and reads["O.0.A"] == "A[i,j,k]" and reads["O.y"] == "y[j]"
    assert reads["O.0"] == "{Li,j∑kA[i,j,k]x[k]}" and set(reads) == {part.name for part in listed}


def test_what_stands_twice_is_one_part_in_two_places():
    program = as_program(ea.parse("O[i] = A[i]*A[i] + exp(A[i])", A=(4,)))
    marked = [node for node in tree(program).iter() if node.get("data-part") == "1"]
    assert len(marked) == 2 and {symbols(node) for node in marked} == {"A[i]"}


@settings(max_examples=examples(20, at_night=400))
@given(strategies.programs())
def test_parts_change_nothing_that_is_read(program):
    whole = tree(program)
    assert symbols(whole) == symbols(ElementTree.fromstring(formula(program)))
    assert numbers(whole) == set(range(len(parts(program))))


def test_without_mathematics_there_are_no_parts(monkeypatch):
    monkeypatch.setattr("einalg.display.formula_parts.mathml", lambda source: None)
    program = as_program(ea.parse("O[i] = A[i]", A=(4,)))
    assert symbols(tree(program)) == "O=L[i:4](A[i])" and not numbers(tree(program))
