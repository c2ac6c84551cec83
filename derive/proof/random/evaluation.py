"""Equality outside the exact fragment: evaluation at random inputs (design §9).

First over a large prime field, where functions are random but equal on equal arguments: what is
equal there is equal. What is not may still obey a law of the functions, and is decided by exact
rational numbers where those suffice, else in double precision: at fractions and at large numbers
too, of both signs. Where evaluating an output as a whole takes too long, blocks of it are
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as initial
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from derive.proof.exact.products import union
from derive.proof.outcome.regions import from_mask
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.batches import stacked, stacked_arrays
from derive.proof.random.blocks import (
    OutputBlock,
    block_extents,
    cut_block,
    evaluation_steps,
    origins,
    values_for,
    within_type,
)
from derive.proof.random.degrees import MissBound, miss_bound
from derive.proof.random.laws import Laws, laws
from derive.proof.random.rounding import unequal
from einalg.language.index.affine import IndexArithmetic
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.primes import LOWEST, random_prime
from einalg.language.interpreters.prime_field.quadratic import QuadraticField
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.body import Reduce
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor

MAX_STEPS = 5_000_000  # bodies evaluated at once by the executor
MAX_EXACT_STEPS = 10_000  # and by the reference evaluator
EXACT_ROUNDS = 6  # for every round: few numbers meet few of the cases that an order distinguishes
EXACTLY = "exact evaluation at random rational numbers"
IN_FIELD = "evaluation modulo random primes"
IN_EXTENSION = "evaluation in random fields of p² elements"
MAX_ROOTS = 2**16  # in a field of p elements: beyond, p² tell more
IN_DOUBLE = "evaluation in double precision"
DIVISORS = (1, 1, 2, 3, 8)  # of the fractions that are drawn
NEIGHBOURS = (  # of a number that is compared with: itself, and what is near it on both sides
    Fraction(0),
    *(Fraction(side, below) for below in (1, 2, 8, 1000) for side in (-1, 1)),
)
MIN_ELEMENTS = 200  # of all rounds in double precision, where an output has fewer
MAX_ROUNDS = 50
MAX_MARK = 10**12  # a number of an expression near which inputs are drawn
MAX_DOUBLE_MARK = 20  # the same in double precision: exp and its kin hide what is near larger ones
Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Any], Array]
# Where the sides of a block differ, at inputs that are drawn.
Comparison = Callable[[OutputBlock, np.random.Generator], Array]
Differences = dict[tuple[int, ...], Array]  # by the origin of the block, where both sides differ


@dataclass(frozen=True)
class _Tests:
    """Both sides, and how often they are evaluated."""

    one: Scope
    two: Scope
    rounds: int
    seed: int
    # Cut once for all rounds.
    extents_by_steps: dict[int, tuple[int, ...]] = initial(default_factory=dict)
    blocks_by_box: dict[Any, OutputBlock] = initial(default_factory=dict)

    def blocks(
        self, number: int, max_steps: int
    ) -> Iterator[tuple[OutputBlock, np.random.Generator]]:
        """Yield what is evaluated in a round: the whole output where it is small, else the first
        and the last corner in turn, and some block.
        """
        rng = np.random.default_rng([self.seed, number])
        extents = self.extents(max_steps)
        for origin in origins(self.one.shape, extents, number, rng):
            yield self.block(origin, extents), rng

    def extents(self, max_steps: int) -> tuple[int, ...]:
        """Return the extents of a block, which are the same in every round."""
        if max_steps not in self.extents_by_steps:
            self.extents_by_steps[max_steps] = block_extents([self.one, self.two], max_steps)
        return self.extents_by_steps[max_steps]

    def block(self, origin: tuple[int, ...], extents: tuple[int, ...]) -> OutputBlock:
        """Return a block of the output; one that is evaluated again is not cut again."""
        box = origin, extents
        if box not in self.blocks_by_box:
            self.blocks_by_box[box] = cut_block([self.one, self.two], origin, extents)
        return self.blocks_by_box[box]

    def is_whole(self, max_steps: int) -> bool:
        """Return whether the output is evaluated as a whole."""
        return evaluation_steps([self.one, self.two]) <= max_steps

    def region(self, differences: Differences) -> Any:
        """Return the union of what differed in all rounds."""
        names = [index.name for index in self.one.indices]
        parts = [from_mask(mask, names, origin) for origin, mask in differences.items()]
        return union(parts).coalesce()

    def proof(
        self,
        verdict: str,
        method: str,
        max_steps: int,
        region: Any = None,
        error: float | None = None,
    ) -> Proof:
        if not self.is_whole(max_steps):
            method = f"{method}, on blocks of the output"
        return Proof(verdict, region, method, error)


def compare(one: Scope, two: Scope, rounds: int, seed: int) -> Proof:
    """Compare two scopes of one shape by evaluation, `rounds` times with inputs that `seed`
    draws.
    """
    tests = _Tests(one, two, max(1, rounds), seed)
    if not prod(one.shape):
        return Proof(PROVED, None, "there is no output point", 0.0)
    field = _FieldTest(miss_bound(one, two))
    differences = _differences(tests, MAX_STEPS, field.differs, confirm=True)
    kind = max(laws(one), laws(two))
    if differences:
        if kind is Laws.RATIONAL:
            return tests.proof(DIFFERENT, field.name, MAX_STEPS, tests.region(differences), 0.0)
        return _over_reals(tests, kind)
    equal = _equal_in_field(tests, field)
    if equal.error_probability is not None or kind is Laws.RATIONAL:
        return equal
    decided = _over_reals(tests, kind)
    if decided.verdict == DIFFERENT:
        return decided
    return replace(equal, method=f"{equal.method}; {decided.method}")


def _over_reals(tests: _Tests, kind: Laws) -> Proof:
    """Compare by rational numbers where these suffice, else in double precision."""
    if kind is Laws.ORDERED:
        decided = _in_rationals(tests)
        if decided is not None:
            return decided
    return _in_floats(tests)


@dataclass(frozen=True)
class _FieldTest:
    """An evaluation in a random finite field, and the bound of what it misses."""

    bound: MissBound | None

    @property
    def needs_extension(self) -> bool:
        return self.bound is not None and self.bound.roots > MAX_ROOTS

    @property
    def name(self) -> str:
        return IN_EXTENSION if self.needs_extension else IN_FIELD

    @property
    def miss_probability(self) -> float | None:
        """The bound for one random input; None where none is known."""
        if self.bound is None:
            return None
        return self.bound.probability(LOWEST**2 if self.needs_extension else LOWEST)

    def differs(self, block: OutputBlock, rng: np.random.Generator) -> Array:
        """Compare both sides over a field; its prime, and the functions that it lacks, are drawn
        anew every time.
        """
        kind = QuadraticField if self.needs_extension else PrimeField
        field = kind(random_prime(rng), seed=int(rng.integers(2**31)), holds_elements=True)
        arrays = {}
        for name, tensor in block.tensors.items():
            arrays[name] = values_for(tensor, lambda shape: rng.integers(0, field.order, shape))
        one, two = [_only_value(execute(s, arrays, arithmetic=field)) for s in block.scopes]
        return np.asarray(one != two)


def _equal_in_field(tests: _Tests, field: _FieldTest) -> Proof:
    """Return that no difference was seen in a field, with the bound of the error."""
    chance = field.miss_probability if tests.is_whole(MAX_STEPS) else None
    error = None if chance is None else chance**tests.rounds
    plural = "s" if tests.rounds > 1 else ""
    method = f"{field.name} at {tests.rounds} random input{plural}"
    return tests.proof(TESTED, method, MAX_STEPS, error=error)


def _differences(
    tests: _Tests, max_steps: int, differs: Comparison, confirm: bool = False
) -> Differences:
    """Return where the sides differ, by the blocks' origins; `confirm` asks for a second input on
    which they do.
    """
    differences: Differences = {}
    for number in range(tests.rounds):
        for block, rng in tests.blocks(number, max_steps):
            mask = differs(block, rng)
            if confirm and mask.any():
                mask = mask & differs(block, rng)
            if mask.any():
                differences[block.origin] = differences.get(block.origin, False) | mask
                if mask.shape != tests.one.shape or differences[block.origin].all():
                    return differences
    return differences


def _only_value(results: Mapping[str, Array]) -> Array:
    (value,) = results.values()
    return value


def _in_rationals(tests: _Tests) -> Proof | None:
    """Compare exactly, on rational numbers, among which ties are common; None where a division by
    zero spoils it.
    """
    more = replace(tests, rounds=EXACT_ROUNDS * tests.rounds)
    try:
        differences = _differences(more, MAX_EXACT_STEPS, _unequal_exactly(_marks(tests)))
    except (ZeroDivisionError, OverflowError, TypeError):
        return None
    if not differences:
        return tests.proof(TESTED, EXACTLY, MAX_EXACT_STEPS)
    return tests.proof(DIFFERENT, EXACTLY, MAX_EXACT_STEPS, tests.region(differences), 0.0)


def _marks(tests: _Tests) -> list[Fraction]:
    """Return the numbers of both sides, of both signs, and 0: inputs must lie on either side of
    what they are compared with.
    """
    marks = {Fraction(0)}
    for scope in (tests.one, tests.two):
        for number in _numbers(scope.body):
            marks.update((number, -number))
    return sorted(marks)


def _numbers(body: Any) -> Iterator[Fraction]:
    """Yield the numbers of a body that are not too large."""
    if isinstance(body, Reduce):
        yield from _numbers(body.body)
    elif isinstance(body, (Access, IndexArithmetic)):
        return
    elif body.is_Number:
        if body.is_finite and abs(body) <= MAX_MARK:
            yield _fraction_of(body)
    else:
        for part in body.args:
            yield from _numbers(part)


def _fraction_of(number: Any) -> Fraction:
    if number.is_Rational:
        return Fraction(int(number.p), int(number.q))
    return Fraction(float(number))


def _unequal_exactly(marks: Sequence[Fraction]) -> Comparison:
    """Return the comparison at rational numbers, some of them near these marks."""
    most = 2 * int(marks[-1]) + 2
    ranges = [(-3, 3), (-1000, 1000), (1, 9), (-9, -1), (-most, most)]

    def differs(block: OutputBlock, rng: np.random.Generator) -> Array:
        low, high = map(int, rng.choice(ranges))
        arrays = {}
        for name, tensor in block.tensors.items():
            arrays[name] = values_for(tensor, _rationals(tensor, rng, low, high, marks))
        one, two = [evaluate(scope, **_arrays_of(scope, arrays)) for scope in block.scopes]
        return np.asarray(one != two)

    return differs


def _arrays_of(scope: Scope, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: arrays[name] for name in scope.tensors if name in arrays}


def _rationals(
    tensor: Tensor, rng: np.random.Generator, low: int, high: int, marks: Sequence[Fraction]
) -> Callable[[Any], Array]:
    """Return a function that draws integers, for a tensor of floats fractions too, and every third
    near one of some marks.
    """

    def drawn(shape: Any, divisors: Array) -> Array:
        numerators = rng.integers(low * divisors, high * divisors + 1)
        anywhere = np.asarray(_fraction(numerators, divisors))
        mark = rng.choice(np.array(marks, object), shape)
        neighbour = rng.choice(np.array(NEIGHBOURS, object), shape)
        near = np.asarray(_sum(mark, neighbour))
        return np.where(rng.random(shape) < 1 / 3, near, anywhere)

    def fractions(shape: Any) -> Array:
        return drawn(shape, rng.choice(DIVISORS, shape))

    def integers(shape: Any) -> Array:
        whole = np.asarray(_integer(drawn(shape, np.ones(shape, np.int64))))
        return within_type(tensor.dtype, whole).astype(np.int64)

    return fractions if is_float(tensor.dtype) else integers


_fraction = np.frompyfunc(lambda above, below: Fraction(int(above), int(below)), 2, 1)
_sum = np.frompyfunc(lambda one, other: one + other, 2, 1)
_integer = np.frompyfunc(round, 1, 1)


def _in_floats(tests: _Tests) -> Proof:
    """Compare in double precision: inputs of both signs, and positive ones, where more is defined.
    Where one side alone has a value, they differ.
    """
    rounds = max(tests.rounds, min(MAX_ROUNDS, MIN_ELEMENTS // prod(tests.one.shape)))
    tests = replace(tests, rounds=rounds)
    for draw in (_near_marks(tests), _positive):
        differences = _float_differences(tests, draw)
        if differences:
            return tests.proof(DIFFERENT, IN_DOUBLE, MAX_STEPS, tests.region(differences))
    return tests.proof(TESTED, IN_DOUBLE, MAX_STEPS)


def _float_differences(tests: _Tests, draw: Draw) -> Differences:
    """Return where values differ; where none do, where one side alone has a value."""
    if tests.is_whole(MAX_STEPS):
        return _float_differences_of_whole(tests, draw)
    domains: Differences = {}

    def differs(block: OutputBlock, rng: np.random.Generator) -> Array:
        values, one_alone = unequal(block.scopes, _float_arrays(block, draw, rng))
        if one_alone.any():
            domains[block.origin] = domains.get(block.origin, False) | one_alone
        return values

    return _differences(tests, MAX_STEPS, differs) or domains


def _float_differences_of_whole(tests: _Tests, draw: Draw) -> Differences:
    """Return the same for outputs that are evaluated as a whole: as many inputs at once as the
    steps allow.
    """
    steps = max(1, evaluation_steps([tests.one, tests.two]))
    together = max(1, min(tests.rounds, MAX_STEPS // steps))
    values: Any = False
    domains: Any = False
    origin = (0,) * tests.one.rank
    for first in range(0, tests.rounds, together):
        inputs, scopes = [], []
        for number in range(first, min(first + together, tests.rounds)):
            for block, rng in tests.blocks(number, MAX_STEPS):
                inputs.append(_float_arrays(block, draw, rng))
                scopes = block.scopes
        differing, one_alone = unequal(stacked(scopes, len(inputs)), stacked_arrays(inputs))
        values = values | differing.any(axis=0)
        domains = domains | one_alone.any(axis=0)
        if values.all():
            break
    if values.any():
        return {origin: values}
    return {origin: domains} if domains.any() else {}


def _near_marks(tests: _Tests) -> Draw:
    """Return a function that draws numbers of both signs, every third near a number that stands in
    a side.
    """
    marks = [float(mark) for mark in _marks(tests) if abs(mark) < MAX_DOUBLE_MARK]

    def draw(rng: np.random.Generator, shape: Any) -> Array:
        near = rng.choice(marks, shape) + rng.normal(size=shape)
        is_near = rng.random(shape) < 1 / 3
        anywhere = rng.normal(size=shape) * rng.choice([1, 1 + marks[-1]], shape)
        return np.where(is_near, near, anywhere)

    return draw


def _positive(rng: np.random.Generator, shape: Any) -> Array:
    return rng.uniform(0.25, 1.75, shape)


def _float_arrays(block: OutputBlock, draw: Draw, rng: np.random.Generator) -> dict[str, Array]:
    """Return arrays that are drawn, integers for tensors of integers."""
    arrays = {}
    for name, tensor in block.tensors.items():
        arrays[name] = _double_values(tensor, draw, rng)
    return arrays


def _double_values(tensor: Tensor, draw: Draw, rng: np.random.Generator) -> Array:
    def of_type(shape: Any) -> Array:
        drawn = draw(rng, shape)
        if is_float(tensor.dtype):
            return drawn
        return within_type(tensor.dtype, np.rint(4 * np.asarray(drawn)))

    return values_for(tensor, of_type)
