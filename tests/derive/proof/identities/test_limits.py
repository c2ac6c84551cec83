"""Normal forms end where they grow too large, and linear arithmetic says then that it is not sure."""

from __future__ import annotations

from fractions import Fraction

import pytest

from derive.proof.identities.forms.polynomials.atoms import (
    MAX_DIVISIONS,
    TensorElement,
    content,
    replaced,
    whole_power,
    with_reduced_fractions,
)
from derive.proof.identities.forms.polynomials.laurent import (
    MAX_TERMS,
    ONE,
    ZERO,
    NoValue,
    Poly,
    TooLarge,
    effort,
    of_atom,
    summed,
)
from derive.proof.identities.forms.signs import ZERO_SIGN, contradictory, sign


def element(name: str) -> Poly:
    return of_atom(TensorElement(name, ()))


def test_a_numerator_of_a_high_degree_is_not_divided() -> None:
    x = element("x")
    inverse = whole_power(x + ONE, -1)
    assert with_reduced_fractions(x * x * inverse) == x - ONE + inverse
    with pytest.raises(TooLarge):
        with_reduced_fractions(of_atom(TensorElement("x", ()), MAX_DIVISIONS + 1) * inverse)


def test_a_product_of_long_sums_is_too_large() -> None:
    one, two = [summed([element(f"{side}{n}") for n in range(64)]) for side in "ab"]
    assert len(one.terms) * len(two.terms) > MAX_TERMS
    with pytest.raises(TooLarge):
        _ = one * two


def test_an_effort_counts_against_the_one_around_it() -> None:
    x = element("x") + ONE
    with effort(20) as outer:
        with effort(9) as inner:
            assert x * x == element("x") * element("x") + element("x").scaled(2) + ONE
        assert 9 - inner[0] == 20 - outer[0] > 0
        with pytest.raises(TooLarge), effort(100):
            for _ in range(10):
                _ = x * x


def test_many_inequalities_are_not_decided() -> None:
    """Sums above 0 whose total is below 0: a few are refuted, many are left as they are."""
    for rows, is_refuted in ((3, True), (40, False)):
        sums = []
        for row in range(rows):
            terms = []
            for column in range(12):
                coefficient = (row * row + 3 * row * column + column * column) % 7 - 3
                terms.append(element(f"x{column}").scaled(coefficient))
            sums.append(summed(terms))
        above = [(part, True) for part in sums]
        assert not contradictory(above)
        assert contradictory([*above, (-summed(sums), True)]) == is_refuted


def test_few_inequalities_around_a_circle_are_decided() -> None:
    x, y, z = map(element, "xyz")
    assert contradictory([(x - y, True), (y - z, False), (z - x, False)])
    assert not contradictory([(x - y, False), (y - z, False), (z - x, False)])


def test_terms_that_cancel_over_a_denominator_are_zero() -> None:
    x = element("x")
    vanishing = (x + ONE) * whole_power(x + ONE, -1) - ONE
    assert vanishing and sign(vanishing) == ZERO_SIGN
    with pytest.raises(NoValue):
        content(vanishing)


def test_a_root_of_what_becomes_zero_is_zero() -> None:
    x = TensorElement("x", ())
    assert replaced(of_atom(x, Fraction(1, 2)), {x: ZERO}) == ZERO
    with pytest.raises(NoValue):
        replaced(of_atom(x, Fraction(-1, 2)), {x: ZERO})
