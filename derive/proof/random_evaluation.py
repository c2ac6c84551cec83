"""Equality outside the exact fragment: evaluation at random inputs (design §9).

First over a large prime field, where functions are random but equal on equal arguments: what is equal there is equal. What is
not may still obey a law of the functions, and is decided by exact rational numbers where those suffice, else in double
precision. Where evaluating an output as a whole takes too long, blocks of it are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from derive.proof.blocks import Cut, block_extents, cut, origins, values_for, work
from derive.proof.laws import Laws, laws, miss_probability
from derive.proof.products import union
from derive.proof.regions import from_mask
from derive.proof.verdict import DIFFERENT, PROVED, TESTED, Proof
from einalg.execute import PrimeField, execute
from einalg.execute.primefield import MERSENNE
from einalg.reference import evaluate
from einalg.scope import Scope

MOST_WORK = 5_000_000  # bodies evaluated at once by the executor
MOST_EXACT_WORK = 10_000  # by the reference evaluator
EXACT_ROUNDS = 4  # for every round: small integers meet few of the cases that an order distinguishes
TOLERANCE = 1e-8  # of double precision, relative to an element
CANCELLED = 1e-11  # relative to the largest element: what is left of an element that is 0
Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]
Evaluation = Callable[[Cut, np.random.Generator], Pair]
Found = dict[tuple[int, ...], Array]


@dataclass(frozen=True)
class _Tests:
    """Both sides, and how often they are evaluated."""

    one: Scope
    two: Scope
    rounds: int
    seed: int

    def blocks(self, number: int, limit: int) -> Iterator[tuple[Cut, np.random.Generator]]:
        """What is evaluated in a round: the whole output where it is small, else the first and the last corner in turn, and some block."""
        rng = np.random.default_rng([self.seed, number])
        scopes = [self.one, self.two]
        extents = block_extents(scopes, limit)
        for origin in origins(self.one.shape, extents, number, rng):
            yield cut(scopes, origin, extents), rng

    def is_whole(self, limit: int) -> bool:
        return work([self.one, self.two]) <= limit

    def region(self, found: Found) -> Any:
        """The union of what differed in all rounds."""
        parts = [from_mask(mask, [i.name for i in self.one.indices], origin) for origin, mask in found.items()]
        return union(parts).coalesce()

    def proof(self, verdict: str, method: str, limit: int, region: Any = None, error: float | None = None) -> Proof:
        where = "" if self.is_whole(limit) else ", on blocks of the output"
        return Proof(verdict, region, f"{method}{where}", error)


def compare(one: Scope, two: Scope, rounds: int, seed: int) -> Proof:
    """Compare two scopes of one shape by evaluation, `rounds` times with inputs that `seed` draws."""
    tests = _Tests(one, two, max(1, rounds), seed)
    if not prod(one.shape):
        return Proof(PROVED, None, "there is no output point", 0.0)
    found = _differing(tests, MOST_WORK, _in_field(), _unequal, confirm=True)
    kind = max(laws(one), laws(two))
    if found and kind is Laws.RATIONAL:
        return tests.proof(DIFFERENT, f"evaluation modulo {MERSENNE}", MOST_WORK, tests.region(found), 0.0)
    equal = None if found else _equal_in_field(tests)
    if equal is not None and (equal.error_probability is not None or kind is Laws.RATIONAL):
        return equal
    decided = _in_rationals(tests) if kind is Laws.ORDERED else None
    if decided is None:
        decided = _in_floats(tests)
    return decided if equal is None or decided.verdict == DIFFERENT else replace(equal, method=f"{equal.method}; {decided.method}")


def _equal_in_field(tests: _Tests) -> Proof:
    whole = tests.is_whole(MOST_WORK)
    chance = miss_probability([tests.one, tests.two], MERSENNE) if whole else None
    times = f"{tests.rounds} random input{'s' if tests.rounds > 1 else ''}"
    return tests.proof(TESTED, f"evaluation modulo {MERSENNE} at {times}", MOST_WORK, error=None if chance is None else chance**tests.rounds)


def _differing(tests: _Tests, limit: int, evaluated: Evaluation, unequal: Callable[[Pair], Array], confirm: bool = False) -> Found:
    """Where the sides differ, by the blocks' origins; `confirm` asks for a second input on which they do."""
    found: Found = {}
    for number in range(tests.rounds):
        for block, rng in tests.blocks(number, limit):
            mask = unequal(evaluated(block, rng))
            if confirm and mask.any():
                mask = mask & unequal(evaluated(block, rng))
            if mask.any():
                found[block.origin] = found.get(block.origin, False) | mask
                if mask.shape != tests.one.shape:
                    return found
    return found


def _in_field() -> Evaluation:
    """Both sides over the prime field; the functions that it lacks are drawn anew every time."""

    def evaluated(block: Cut, rng: np.random.Generator) -> Pair:
        field = PrimeField(MERSENNE, seed=int(rng.integers(2**31)))
        arrays = {name: values_for(t, lambda shape: rng.integers(0, MERSENNE, shape)) for name, t in block.tensors.items()}
        one, two = (next(iter(execute(scope, arrays, arithmetic=field).values())) for scope in block.scopes)
        return one, two

    return evaluated


def _unequal(pair: Pair) -> Array:
    return np.asarray(pair[0] != pair[1])


def _in_rationals(tests: _Tests) -> Proof | None:
    """Exact, on small integers, among which ties are common; None where a division by zero spoils it."""
    try:
        found = _differing(replace(tests, rounds=EXACT_ROUNDS * tests.rounds), MOST_EXACT_WORK, _exactly, _unequal)
    except (ZeroDivisionError, OverflowError, TypeError):
        return None
    if not found:
        return tests.proof(TESTED, "exact evaluation at random integers", MOST_EXACT_WORK)
    return tests.proof(DIFFERENT, "exact evaluation at random integers", MOST_EXACT_WORK, tests.region(found), 0.0)


def _exactly(block: Cut, rng: np.random.Generator) -> Pair:
    low, high = rng.choice([(-3, 3), (-1000, 1000), (1, 9), (-9, -1)])
    arrays = {name: values_for(t, lambda shape: rng.integers(low, high + 1, shape)) for name, t in block.tensors.items()}
    one, two = (evaluate(scope, **{name: arrays[name] for name in scope.tensors if name in arrays}) for scope in block.scopes)
    return one, two


def _in_floats(tests: _Tests) -> Proof:
    """Double precision: inputs of both signs, where a side may be undefined, and positive ones, where it should not be."""
    method = "evaluation in double precision"
    found = _differing(tests, MOST_WORK, _floating(lambda rng, shape: rng.normal(size=shape)), _apart)
    if not found:
        positive = _floating(lambda rng, shape: rng.uniform(0.25, 1.75, shape))
        found = _differing(tests, MOST_WORK, positive, lambda pair: _apart(pair) | (np.isfinite(pair[0]) != np.isfinite(pair[1])), confirm=True)
    if found:
        return tests.proof(DIFFERENT, method, MOST_WORK, tests.region(found))
    return tests.proof(TESTED, method, MOST_WORK)


def _floating(draw: Callable[[np.random.Generator, Any], Array]) -> Evaluation:
    def evaluated(block: Cut, rng: np.random.Generator) -> Pair:
        arrays = {name: values_for(t, lambda shape: draw(rng, shape)) for name, t in block.tensors.items()}
        one, two = (next(iter(execute(scope, arrays).values())).astype(np.float64) for scope in block.scopes)
        return one, two

    return evaluated


def _apart(pair: Pair) -> Array:
    one, two = pair
    finite = np.isfinite(one) & np.isfinite(two)
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(one), np.abs(two))
        allowed = TOLERANCE * size + CANCELLED * float(size[finite].max(initial=0.0))
        return finite & (np.abs(one - two) > allowed)
