"""Random primes for a test of identities: what one prime divides, others do not."""

from __future__ import annotations

import numpy as np
import sympy

LOWEST = 7 * 2**28
BEYOND = 2**31
COUNT = 6_265_089  # of the primes from LOWEST on, below BEYOND, that are 3 modulo 4


def random_prime(rng: np.random.Generator) -> int:
    """Return a prime below 2**31 that is 3 modulo 4, so that half of all elements have a root; each
    of the `COUNT` is as likely as another.

    >>> random_prime(np.random.default_rng(0)) % 4
    3
    """
    while True:
        candidate = LOWEST + 3 + 4 * int(rng.integers(0, (BEYOND - LOWEST) // 4))
        if sympy.isprime(candidate):
            return candidate
