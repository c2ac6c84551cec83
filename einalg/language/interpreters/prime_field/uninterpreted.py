"""Functions that have no meaning in a finite field: pseudo-random residues that depend on function
and arguments only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import sympy

# The constants of SplitMix64.
FINALIZER = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
INCREMENT = np.uint64(0x9E3779B97F4A7C15)
ODD = (
    sympy.tanh,
    sympy.erf,
    sympy.sin,
    sympy.tan,
    sympy.sinh,
    sympy.asin,
    sympy.atan,
    sympy.asinh,
    sympy.atanh,
)
EVEN = (sympy.cos, sympy.cosh)
# Values by argument; odd functions are 0 at 0 by their symmetry.
RATIONAL_VALUES: dict[type, dict[int, int]] = {
    sympy.exp: {0: 1},
    sympy.log: {1: 0},
    sympy.cos: {0: 1},
    sympy.cosh: {0: 1},
    sympy.acos: {1: 0},
    sympy.acosh: {1: 0},
    sympy.floor: {0: 0},
}


def pseudo_random(name: str, values: Sequence[Any], order: int, seed: int) -> Any:
    """Return integers below `order`: the same for the same name, values and seed, in every process.

    >>> int(pseudo_random("exp", [3], 101, seed=0)), int(pseudo_random("exp", [3], 101, seed=1))
    (10, 47)
    """
    digest = blake2b(f"{seed}:{name}:{len(values)}".encode(), digest_size=8).digest()
    state = np.asarray(int.from_bytes(digest, "little"), np.uint64)
    with np.errstate(over="ignore"):
        for value in values:
            state = _mixed(state ^ np.asarray(value).astype(np.uint64))
    return (state % np.uint64(order)).astype(np.int64)


def _mixed(state: Any) -> Any:
    state = state + INCREMENT
    state = (state ^ (state >> np.uint64(30))) * FINALIZER[0]
    state = (state ^ (state >> np.uint64(27))) * FINALIZER[1]
    return state ^ (state >> np.uint64(31))


def uninterpreted(
    function: type, values: Sequence[Any], negated: Callable[[Any], Any], order: int, seed: int
) -> Any:
    """Return a function of the elements of a field, of which there are `order`, that has the
    symmetry and the few rational values of the real one; `negated` gives the opposite of elements.
    """
    first, *others = values
    opposite = negated(first)
    flipped = np.False_
    if function in ODD or function in EVEN:
        flipped = np.less(opposite, first)
    arguments = [np.where(flipped, opposite, first), *others]
    result = pseudo_random(function.__name__, arguments, order, seed)
    if function in ODD:
        result = np.where(flipped, negated(result), result)
        result = np.where(np.equal(first, 0), 0, result)
    for argument, value in RATIONAL_VALUES.get(function, {}).items():
        result = np.where(np.equal(first, argument), value, result)
    return result
