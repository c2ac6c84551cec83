"""Equality outside the exact fragment: evaluation at random inputs (design §9).

First over a large prime field, where functions are random but equal on equal arguments: what is equal there is equal. What is
not may still obey a law of the functions, and is decided by exact rational numbers where those suffice, else in double
precision: at fractions and at large numbers too, of both signs. Where evaluating an output as a whole takes too long, blocks of it are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from derive.proof.exact.products import union
from derive.proof.outcome.regions import from_mask
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.blocks import OutputBlock, block_extents, cut, origins, values_for, work
from derive.proof.random.laws import Laws, laws, miss_probability
from derive.proof.random.rounding import in_double, rounding
from einalg.language.index.affine import IndexArithmetic
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import MERSENNE, PrimeField
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor

MOST_WORK = 5_000_000  # bodies evaluated at once by the executor
MOST_EXACT_WORK = 10_000  # by the reference evaluator
EXACT_ROUNDS = 6  # for every round: few numbers meet few of the cases that an order distinguishes
EXACTLY = "exact evaluation at random rational numbers"
DIVISORS = (1, 1, 2, 3, 8)  # of the fractions that are drawn
BESIDE = (Fraction(0), *(Fraction(side, below) for below in (1, 2, 8, 1000) for side in (-1, 1)))
FEW, MOST_ROUNDS = 200, 50  # elements of all rounds, where there are fewer
MOST_REACH, MOST_MARK = (
    10**12,
    20,
)  # of a number beside which is drawn; exp and its kin leave nothing to see of larger ones
TOLERANCE = 1e-11  # of functions in double precision, relative to an element, beside its rounding
Array = np.ndarray[Any, Any]
Comparison = Callable[
    [OutputBlock, np.random.Generator], Array
]  # where the sides differ at inputs that are drawn
Found = dict[tuple[int, ...], Array]


@dataclass(frozen=True)
class _Tests:
    """Both sides, and how often they are evaluated."""

    one: Scope
    two: Scope
    rounds: int
    seed: int

    def blocks(self, number: int, limit: int) -> Iterator[tuple[OutputBlock, np.random.Generator]]:
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
        parts = [
            from_mask(mask, [i.name for i in self.one.indices], origin)
            for origin, mask in found.items()
        ]
        return union(parts).coalesce()

    def proof(
        self, verdict: str, method: str, limit: int, region: Any = None, error: float | None = None
    ) -> Proof:
        where = "" if self.is_whole(limit) else ", on blocks of the output"
        return Proof(verdict, region, f"{method}{where}", error)


def compare(one: Scope, two: Scope, rounds: int, seed: int) -> Proof:
    """Compare two scopes of one shape by evaluation, `rounds` times with inputs that `seed` draws."""
    tests = _Tests(one, two, max(1, rounds), seed)
    if not prod(one.shape):
        return Proof(PROVED, None, "there is no output point", 0.0)
    found = _differing(tests, MOST_WORK, _unequal_in_field, confirm=True)
    kind = max(laws(one), laws(two))
    if found and kind is Laws.RATIONAL:
        return tests.proof(
            DIFFERENT, f"evaluation modulo {MERSENNE}", MOST_WORK, tests.region(found), 0.0
        )
    equal = None if found else _equal_in_field(tests)
    if equal is not None and (equal.error_probability is not None or kind is Laws.RATIONAL):
        return equal
    decided = _in_rationals(tests) if kind is Laws.ORDERED else None
    if decided is None:
        decided = _in_floats(tests)
    return (
        decided
        if equal is None or decided.verdict == DIFFERENT
        else replace(equal, method=f"{equal.method}; {decided.method}")
    )


def _equal_in_field(tests: _Tests) -> Proof:
    whole = tests.is_whole(MOST_WORK)
    chance = miss_probability([tests.one, tests.two], MERSENNE) if whole else None
    times = f"{tests.rounds} random input{'s' if tests.rounds > 1 else ''}"
    return tests.proof(
        TESTED,
        f"evaluation modulo {MERSENNE} at {times}",
        MOST_WORK,
        error=None if chance is None else chance**tests.rounds,
    )


def _differing(tests: _Tests, limit: int, differs: Comparison, confirm: bool = False) -> Found:
    """Where the sides differ, by the blocks' origins; `confirm` asks for a second input on which they do."""
    found: Found = {}
    for number in range(tests.rounds):
        for block, rng in tests.blocks(number, limit):
            mask = differs(block, rng)
            if confirm and mask.any():
                mask = mask & differs(block, rng)
            if mask.any():
                found[block.origin] = found.get(block.origin, False) | mask
                if mask.shape != tests.one.shape:
                    return found
    return found


def _unequal_in_field(block: OutputBlock, rng: np.random.Generator) -> Array:
    """Both sides over the prime field; the functions that it lacks are drawn anew every time."""
    field = PrimeField(MERSENNE, seed=int(rng.integers(2**31)))
    arrays = {
        name: values_for(t, lambda shape: rng.integers(0, MERSENNE, shape))
        for name, t in block.tensors.items()
    }
    one, two = (
        next(iter(execute(scope, arrays, arithmetic=field).values())) for scope in block.scopes
    )
    return np.asarray(one != two)


def _in_rationals(tests: _Tests) -> Proof | None:
    """Exact, on rational numbers, among which ties are common; None where a division by zero spoils it."""
    try:
        found = _differing(
            replace(tests, rounds=EXACT_ROUNDS * tests.rounds),
            MOST_EXACT_WORK,
            _unequal_exactly(_marks(tests)),
        )
    except (ZeroDivisionError, OverflowError, TypeError):
        return None
    if not found:
        return tests.proof(TESTED, EXACTLY, MOST_EXACT_WORK)
    return tests.proof(DIFFERENT, EXACTLY, MOST_EXACT_WORK, tests.region(found), 0.0)


def _marks(tests: _Tests) -> list[Fraction]:
    """The numbers of both sides: inputs must lie on either side of what they are compared with."""
    numbers = {abs(number) for scope in (tests.one, tests.two) for number in _numbers(scope.body)}
    return sorted({Fraction(0), *numbers, *(-number for number in numbers)})


def _numbers(body: Any) -> Iterator[Fraction]:
    """Those of a body that are not too large."""
    if isinstance(body, (Access, IndexArithmetic)):
        return
    if body.is_Number:
        if body.is_finite and abs(body) <= MOST_REACH:
            yield Fraction(int(body.p), int(body.q)) if body.is_Rational else Fraction(float(body))
        return
    for part in [body.body] if isinstance(body, Reduce) else body.args:
        yield from _numbers(part)


def _unequal_exactly(marks: Sequence[Fraction]) -> Comparison:
    top = 2 * int(marks[-1]) + 2

    def differs(block: OutputBlock, rng: np.random.Generator) -> Array:
        low, high = map(int, rng.choice([(-3, 3), (-1000, 1000), (1, 9), (-9, -1), (-top, top)]))
        arrays = {
            name: values_for(t, _rationals(t, rng, low, high, marks))
            for name, t in block.tensors.items()
        }
        one, two = (
            evaluate(scope, **{name: arrays[name] for name in scope.tensors if name in arrays})
            for scope in block.scopes
        )
        return np.asarray(one != two)

    return differs


def _rationals(
    tensor: Tensor, rng: np.random.Generator, low: int, high: int, marks: Sequence[Fraction]
) -> Callable[[Any], Array]:
    """Draws integers, for a tensor of floats fractions too, and every third near one of some marks."""
    whole = not is_float(tensor.dtype)

    def draw(shape: Any) -> Array:
        divisors = np.ones(shape, np.int64) if whole else rng.choice(DIVISORS, shape)
        drawn = np.asarray(_fraction(rng.integers(low * divisors, high * divisors + 1), divisors))
        near = np.asarray(
            _sum(
                rng.choice(np.array(marks, object), shape),
                rng.choice(np.array(BESIDE, object), shape),
            )
        )
        chosen = np.where(rng.random(shape) < 1 / 3, near, drawn)
        return np.asarray(_integer(chosen)).astype(np.int64) if whole else chosen

    return draw


_fraction = np.frompyfunc(lambda above, below: Fraction(int(above), int(below)), 2, 1)
_sum = np.frompyfunc(lambda one, other: one + other, 2, 1)
_integer = np.frompyfunc(round, 1, 1)


def _in_floats(tests: _Tests) -> Proof:
    """Double precision: inputs of both signs, and positive ones, where more is defined. What one side alone has a value for differs."""
    method, found = "evaluation in double precision", Found()
    marks = [float(mark) for mark in _marks(tests) if abs(mark) < MOST_MARK]

    def either(rng: np.random.Generator, shape: Any) -> Array:
        near = rng.choice(marks, shape) + rng.normal(size=shape)
        return np.where(
            rng.random(shape) < 1 / 3,
            near,
            rng.normal(size=shape) * rng.choice([1, 1 + marks[-1]], shape),
        )

    tests = replace(tests, rounds=max(tests.rounds, min(MOST_ROUNDS, FEW // prod(tests.one.shape))))
    for draw in (either, lambda rng, shape: rng.uniform(0.25, 1.75, shape)):
        found = (
            found
            or _differing(tests, MOST_WORK, _in_double(draw, _apart))
            or _differing(tests, MOST_WORK, _in_double(draw, _undefined))
        )
    if found:
        return tests.proof(DIFFERENT, method, MOST_WORK, tests.region(found))
    return tests.proof(TESTED, method, MOST_WORK)


def _in_double(
    draw: Callable[[np.random.Generator, Any], Array],
    differs: Callable[[OutputBlock, Mapping[str, Array]], Array],
) -> Comparison:
    def differs_at(block: OutputBlock, rng: np.random.Generator) -> Array:
        return differs(
            block,
            {
                name: values_for(t, lambda shape, t=t: _of_type(draw(rng, shape), t))
                for name, t in block.tensors.items()
            },
        )

    return differs_at


def _of_type(drawn: Any, tensor: Tensor) -> Any:
    return drawn if is_float(tensor.dtype) else np.rint(4 * np.asarray(drawn))


def _undefined(block: OutputBlock, arrays: Mapping[str, Array]) -> Array:
    one, two = (in_double(scope, arrays) for scope in block.scopes)
    return np.isfinite(one) != np.isfinite(two)


def _apart(block: OutputBlock, arrays: Mapping[str, Array]) -> Array:
    """Where the sides differ by more than a small part of the element itself, and by more than they are rounded there."""
    one, two = (in_double(scope, arrays) for scope in block.scopes)
    with np.errstate(invalid="ignore", over="ignore"):
        far = (
            np.isfinite(one)
            & np.isfinite(two)
            & (np.abs(one - two) > TOLERANCE * np.maximum(np.abs(one), np.abs(two)))
        )
        return (
            far & (np.abs(one - two) > sum(rounding(scope, arrays) for scope in block.scopes))
            if far.any()
            else far
        )
