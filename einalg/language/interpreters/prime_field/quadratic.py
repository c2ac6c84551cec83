"""A field of p² elements: where expressions are of so high a degree, or apply a function so often,
that p elements tell too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.errors import NotationError
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.modular import Array, inverse, matmul


@dataclass(frozen=True)
class QuadraticField(PrimeField):
    """The field a + b√-1 over a prime p that is 3 modulo 4; an element is held as the integer
    a + b·p, and what is computed from numbers has b = 0.

    It has no order to speak of, so that it serves expressions without comparisons. Raises
    `NotationError` for another prime.

    >>> field = QuadraticField(7)
    >>> root = 7  # of -1
    >>> int(field.multiply([root, root])), field.order
    (6, 49)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.modulus % 4 != 3:
            raise NotationError(
                f"-1 has a root modulo {self.modulus}\n  use a prime that is 3 modulo 4"
            )

    @property
    def order(self) -> int:
        return self.modulus**2

    def _parts(self, values: Any) -> tuple[Any, Any]:
        """Return a and b of a + b√-1."""
        values = np.asarray(values, np.int64)
        imaginary = values // self.modulus
        return values - imaginary * self.modulus, imaginary

    def _joined(self, real: Any, imaginary: Any) -> Any:
        return real % self.modulus + imaginary % self.modulus * self.modulus

    def _plus(self, values: Sequence[Any]) -> Any:
        real: Any = 0
        imaginary: Any = 0
        for value in values:
            a, b = self._parts(value)
            real, imaginary = real + a, imaginary + b
        return self._joined(real, imaginary)

    def _times(self, left: Any, right: Any) -> Any:
        (a, b), (c, d) = self._parts(left), self._parts(right)
        p = self.modulus
        return self._joined(a * c % p - b * d % p, a * d % p + b * c % p)

    def _reciprocal(self, values: Any) -> Any:
        a, b = self._parts(values)
        p = self.modulus
        norm = inverse((a * a % p + b * b % p) % p, p)
        return self._joined(a * norm % p, -(b * norm % p))

    def _opposite(self, values: Any) -> Any:
        a, b = self._parts(values)
        return self._joined(-a, -b)

    def _sum_along(self, values: Array, axes: tuple[int, ...]) -> Array:
        a, b = self._parts(values)
        return self._joined(np.sum(a, axis=axes), np.sum(b, axis=axes))

    def _matrix_product(self, left: Array, right: Array) -> Array:
        (a, b), (c, d) = self._parts(left), self._parts(right)
        p = self.modulus
        real = matmul(a, c, p) - matmul(b, d, p)
        return self._joined(real, matmul(a, d, p) + matmul(b, c, p))
