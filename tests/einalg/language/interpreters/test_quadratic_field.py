"""The field of p² elements, and the primes that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy

import einalg as ea
from einalg.errors import NotationError
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.primes import BEYOND, LOWEST, random_prime
from einalg.language.interpreters.prime_field.quadratic import QuadraticField

PRIMES = [3, 7, 1879048247, 2**31 - 1]


def pair(field: QuadraticField, element: Any) -> tuple[int, int]:
    """Return a and b of a + b√-1, with integers that never overflow."""
    b, a = divmod(int(element), field.modulus)
    return a, b


def product(field: QuadraticField, one: Any, two: Any) -> int:
    (a, b), (c, d) = pair(field, one), pair(field, two)
    p = field.modulus
    return (a * c - b * d) % p + (a * d + b * c) % p * p


@pytest.mark.parametrize("modulus", PRIMES)
def test_arithmetic(modulus: int) -> None:
    field, rng = QuadraticField(modulus), np.random.default_rng(0)
    one, two = rng.integers(0, field.order, (2, 60))
    products = field.multiply([one, two])
    assert products.tolist() == [product(field, a, b) for a, b in zip(one, two)]
    sums = field.add([one, two, two])
    for total, a, b in zip(sums, one, two):
        (x, y), (u, v) = pair(field, a), pair(field, b)
        assert pair(field, total) == ((x + 2 * u) % modulus, (y + 2 * v) % modulus)
    quotients = field.divide(one, two)
    for quotient, a, b in zip(quotients, one, two):
        if b:
            assert product(field, quotient, b) == a
        else:
            assert quotient == field.extended.undefined
    powers = field.power(one, 5)
    for power, a in zip(powers, one):
        expected = 1
        for _ in range(5):
            expected = product(field, expected, a)
        assert power == expected


@pytest.mark.parametrize("modulus", PRIMES)
def test_every_element_has_the_order_of_the_field(modulus: int) -> None:
    """x to the power of p² is x, and to the power of p it is not: what vanishes in the field of p
    elements is seen here.
    """
    field = QuadraticField(modulus)
    elements = np.random.default_rng(1).integers(1, field.order, 40)
    assert field.power(elements, field.order).tolist() == elements.tolist()
    assert (np.asarray(field.power(elements, modulus)) != elements).any()


@pytest.mark.parametrize("modulus", PRIMES)
def test_reductions_and_matrix_products(modulus: int) -> None:
    rng = np.random.default_rng(2)
    field = QuadraticField(modulus, holds_elements=True)
    shapes = {"A": (3, 4), "B": (4, 5)}
    arrays = {name: rng.integers(0, field.order, shape) for name, shape in shapes.items()}
    total = ea.parse("O[i,j] += A[i,k]*B[k,j]", **shapes)
    values = execute(total, arrays, arithmetic=field)["O"]
    for i, j in np.ndindex(3, 5):
        expected = 0
        for k in range(4):
            expected = int(
                field.add([expected, product(field, arrays["A"][i, k], arrays["B"][k, j])])
            )
        assert values[i, j] == expected
    every = ea.parse("O[i] = Prod[k](A[i,k])", A=(3, 4))
    for value, row in zip(execute(every, arrays, arithmetic=field)["O"], arrays["A"]):
        expected = 1
        for element in row:
            expected = product(field, expected, element)
        assert value == expected


def test_numbers_and_functions() -> None:
    field = QuadraticField(2**31 - 1)
    assert field.number(sympy.Rational(-1, 2)) == (2**31 - 1 - 1) // 2
    element = np.array([5 + 7 * field.modulus])
    opposite = field.multiply([element, field.number(sympy.Integer(-1))])
    for function in (sympy.tanh, sympy.sin):
        value, flipped = (field.function(function, [v]) for v in (element, opposite))
        assert field.add([value, flipped]).tolist() == [0]
    assert int(field.function(sympy.tanh, [field.extended.highest])) == 1
    with pytest.raises(NotationError, match="3 modulo 4"):
        QuadraticField(13)


def test_primes_are_drawn_anew_and_the_same_for_a_seed() -> None:
    drawn = [random_prime(np.random.default_rng(seed)) for seed in range(40)]
    assert drawn == [random_prime(np.random.default_rng(seed)) for seed in range(40)]
    assert len(set(drawn)) == 40
    for prime in drawn:
        assert LOWEST <= prime < BEYOND and prime % 4 == 3 and sympy.isprime(prime)
