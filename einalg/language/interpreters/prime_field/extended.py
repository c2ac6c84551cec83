"""A prime field with the two infinities and an undefined element, which are codes next to the
residues (see `field`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from einalg.language.interpreters.prime_field.modular import Array, residues

UNIT = 2**9 * 3**2 * 5 * 7 * 11


@dataclass(frozen=True)
class Extended:
    """The order of the field, and how functions of its elements go on to the codes.

    `unit` is the element that counts as 1 in the order: x has the place of `unit·x`, taken between
    -modulus/2 and modulus/2.
    """

    modulus: int  # the number of elements, which are the integers below it
    unit: int
    prime: int  # modulo which numbers are elements

    @classmethod
    def of(cls, modulus: int, seed: int, prime: int) -> Extended:
        """Return the order that a seed draws, of a field of `modulus` elements.

        A unit with many small divisors keeps the order of the small fractions of an expression
        (0 < 1/2 < 6), and is so large that an unknown element often falls between two of them.
        """
        unit = UNIT * (1 + (seed + 3) % 8) % modulus or 1
        return cls(modulus, min(unit, modulus - unit), prime)

    @property
    def lowest(self) -> int:
        """The code of -inf."""
        return -1

    @property
    def highest(self) -> int:
        """The code of inf."""
        return self.modulus

    @property
    def undefined(self) -> int:
        return self.modulus + 1

    def is_element(self, values: Any) -> Any:
        return np.greater_equal(values, 0) & np.less(values, self.modulus)

    def finite(self, values: Any) -> bool:
        unsigned = np.asarray(values, np.int64).view(np.uint64)  # what is negative is large there
        return bool(np.max(unsigned) < self.modulus)

    def order(self, values: Any) -> Array:
        """Return integers that compare as the elements do: -inf is first, *undefined* last."""
        keys = np.asarray(values) * self.unit % self.modulus
        keys = np.where(keys > self.modulus // 2, keys - self.modulus, keys)
        if self.finite(values):
            return keys
        outermost = np.where(
            np.equal(values, self.lowest), -self.modulus, self.modulus + np.asarray(values)
        )
        return np.where(self.is_element(values), keys, outermost)

    def at(self, keys: Array) -> Array:
        """Return the elements at places of the order."""
        elements = keys * pow(self.unit, -1, self.modulus) % self.modulus
        codes = np.where(keys > 0, keys - self.modulus, self.lowest)
        return np.where(np.abs(keys) < self.modulus, elements, codes)

    def as_reals(self, values: Any) -> Array:
        """Return floats in which an element is only its sign, for deciding what infinities do."""
        signs = np.sign(self.order(values)).astype(np.float64)
        infinite = np.where(np.equal(values, self.undefined), np.nan, np.copysign(np.inf, signs))
        return np.where(self.is_element(values), signs, infinite)

    def from_reals(self, reals: Any) -> Array:
        """Return floats as elements and codes."""
        reals = np.asarray(reals, np.float64)
        codes = np.where(
            np.isnan(reals), self.undefined, np.where(reals > 0, self.highest, self.lowest)
        )
        return np.where(np.isfinite(reals), residues(reals, self.prime), codes)

    def arithmetic(
        self, on_elements: Callable[..., Any], on_reals: Callable[..., Any], values: Sequence[Any]
    ) -> Any:
        """Return a sum, product or power of elements, also in a reduction: the result is a code
        exactly where that of the reals is.
        """
        if all(map(self.finite, values)):
            return on_elements(*values)
        with np.errstate(all="ignore"):
            reals = on_reals(*map(self.as_reals, values))
        return np.where(
            np.isfinite(reals), on_elements(*map(self._elements, values)), self.from_reals(reals)
        )

    def function(
        self, on_elements: Callable[..., Any], on_reals: Callable[..., Any], values: Sequence[Any]
    ) -> Any:
        """Return any other function: where an argument is a code, it has its limit."""
        if all(map(self.finite, values)):
            return on_elements(*values)
        proper = reduce(np.logical_and, map(self.is_element, values))
        with np.errstate(all="ignore"):
            limits = self.from_reals(on_reals(*map(self.as_reals, values)))
        return np.where(proper, on_elements(*map(self._elements, values)), limits)

    def _elements(self, values: Any) -> Any:
        return np.where(self.is_element(values), values, 0)
