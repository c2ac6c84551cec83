"""Extremes of bodies, which SymPy evaluates once for each form."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.index import remainder
from einalg.language.index.remainder import applied

i = ea.indices("i")
ELEMENTS = tuple(ea.tensor(name, (4,))[i] for name in "ABCDEF")


def bodies(elements):
    """Return random bodies of some elements, numbers and an index."""
    leaves = st.sampled_from([*elements, *map(sympy.Integer, (-1, 0, 1, 2)), sympy.Mul(2, i)])
    functions = st.sampled_from([sympy.Add, sympy.Mul, sympy.Max, sympy.Min])

    def combined(parts):
        operations = st.builds(lambda f, a, b: f(a, b), functions, parts, parts)
        return operations | st.builds(lambda a: abs(a) + 1, parts)

    return st.recursive(leaves, combined, max_leaves=5)


@given(bodies(ELEMENTS[:3]), bodies(ELEMENTS[:3]), st.sampled_from([sympy.Max, sympy.Min]))
def test_extremes_of_one_form_are_what_sympy_makes_of_each(one, other, function):
    """The elements of the second are others, or fewer, of which more is known."""
    for renaming in (dict(zip(ELEMENTS, ELEMENTS[3:])), {ELEMENTS[1]: ELEMENTS[0]}, {}):
        operands = tuple(body.xreplace(renaming) for body in (one, other))
        assert applied(function, operands) == function(*operands)


def test_an_extreme_is_evaluated_once_for_its_form(monkeypatch):
    monkeypatch.setattr(remainder, "_settled", set())
    evaluated = []
    new = sympy.Max.__new__

    def counted(cls, *args, **options):
        evaluated.append(options.get("evaluate", True))
        return new(cls, *args, **options)

    monkeypatch.setattr(sympy.Max, "__new__", counted)
    for first, second in pairwise(ELEMENTS):
        assert applied(sympy.Max, (2 * first + second, sympy.S.Zero)).args[0] == 0
    assert evaluated.count(True) == 1


@pytest.mark.parametrize("element", ELEMENTS[:2])
def test_the_number_of_an_element_is_no_number(element, monkeypatch):
    monkeypatch.setattr(remainder, "_settled", set())
    applied(sympy.Max, (element, sympy.Integer(1)))
    assert applied(sympy.Max, (sympy.Integer(0), sympy.Integer(1))) == 1
