"""Equality outside the exact fragment: evaluation at random inputs (design §9).

First over a large random field, where functions are random but equal on equal arguments: what is
equal there is equal. What is not may still obey a law of the functions, and is decided by exact
rational numbers where those suffice, else in double precision, and with many digits at a few
points. What differs is then compared with the structure: it tells which points can differ at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

import islpy as isl
import numpy as np

from derive.proof.exact.compare import ExactComparison
from derive.proof.exact.products import union
from derive.proof.outcome.regions import from_mask, readable, union_of_boxes, with_axis_names
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.batches import stacked, stacked_arrays
from derive.proof.random.blocks import OutputBlock, evaluation_steps, values_for
from derive.proof.random.degrees import MissBound, miss_bound
from derive.proof.random.inputs import (
    MAX_MARK,
    Pattern,
    double_values,
    marks_of,
    mixed_doubles,
    mixed_rationals,
    patterns,
    rational_values,
)
from derive.proof.random.operations import Operations, operations_of
from derive.proof.random.places import Place, Places
from derive.proof.random.prominent import (
    NEAR,
    far_beyond,
    inputs_of_an_element,
    prominent_elements,
    prominent_inputs,
    unequal_at_once,
    unequal_confirmed,
    unequal_with_many_digits,
)
from derive.proof.random.rounding import unequal_in_double
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.primes import LOWEST, random_prime
from einalg.language.interpreters.prime_field.quadratic import QuadraticField
from einalg.language.interpreters.reference import evaluate
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.runtime.clock import check_time

MAX_STEPS = 5_000_000  # bodies evaluated at once by the executor
MAX_EXACT_STEPS = 10_000  # and by the reference evaluator
MAX_ALL_EXACT_STEPS = 30_000  # of all inputs together
MAX_REGION_STEPS = 6_000  # of all that only tell more points that differ
MIN_EXACT_ROUNDS = 4
MAX_REGION_ROUNDS = 200
MAX_PRECISE_STEPS = 100  # and with many digits
MAX_ALL_PRECISE_STEPS = 4_000  # of all inputs together
MAX_PROMINENT_STEPS = 2_000_000  # of all inputs in which one element stands out
MIN_PROMINENT_INPUTS = 32
MAX_CONFIRMED_STEPS = 100_000  # of a point that is evaluated exactly
EXACT_ROUNDS = 6  # for every round: few numbers meet few of the cases that an order distinguishes
ROUNDS_FOR_REGION = 6  # more at a time, until they show no more points
PATIENCE = 3  # how often they may show none, where they are cheap
CHEAP_STEPS = 50_000
EXACTLY = "exact evaluation at random rational numbers"
IN_FIELD = "evaluation modulo random primes"
IN_EXTENSION = "evaluation in random fields of p² elements"
IN_DOUBLE = "evaluation in double precision"
PRECISELY = "evaluation with 96 digits"
RELATIONS = "access relations"
MAX_ROOTS = 2**16  # in a field of p elements: beyond, p² tell more
MIN_ELEMENTS = 200  # of all rounds in double precision, where an output has fewer
MAX_ROUNDS = 50
MAX_DOUBLE_MARK = 20  # a number near which inputs are drawn: exp and its kin hide what is beyond
MAX_PRECISE_MARK = 1000
Array = np.ndarray[Any, Any]
# Where the sides of a block differ, at inputs of a round.
Comparison = Callable[[OutputBlock, np.random.Generator, int], Array]


@dataclass
class _Findings:
    """Where the sides differ, by the first point of a block, and where they were evaluated."""

    differences: dict[tuple[int, ...], Array] = field(default_factory=dict)
    visited: list[Place] = field(default_factory=list)
    rounds: int = 0

    def add(self, place: Place, mask: Array) -> None:
        self.visited.append(place)
        if mask.any():
            origin = place[0]
            known = self.differences.get(origin)
            if known is not None and known.shape == mask.shape:
                mask = known | mask
            self.differences[origin] = mask

    def __bool__(self) -> bool:
        return bool(self.differences)


@dataclass(frozen=True)
class _Tests:
    """Both sides, what their structure tells, and how often they are evaluated."""

    one: Scope
    two: Scope
    structure: ExactComparison
    rounds: int
    seed: int
    # Cut once for all rounds.
    blocks: dict[Place, OutputBlock] = field(default_factory=dict)

    def block(self, places: Places, place: Place) -> OutputBlock:
        """Return a block of the output; one that is evaluated again is not cut again."""
        if place not in self.blocks:
            self.blocks[place] = places.cut(place)
        return self.blocks[place]

    @property
    def scopes(self) -> tuple[Scope, Scope]:
        return self.one, self.two

    def places(self, max_steps: int) -> Places:
        return Places(self.scopes, self.structure.cells, max_steps)

    def findings(
        self,
        places: Places,
        differs: Comparison,
        rounds: int,
        first: int = 0,
        after_difference: int = ROUNDS_FOR_REGION,
    ) -> _Findings:
        """Return where both sides differ in some rounds; rounds that see blocks only end with the
        first that differs, others so many rounds after it.
        """
        findings = _Findings()
        for number in range(first, first + rounds):
            check_time()
            rng = np.random.default_rng([self.seed, number])
            for place in places.of_round(number, rng):
                findings.add(place, differs(self.block(places, place), rng, number))
            findings.rounds = number + 1
            if findings:
                after_difference -= 1
                is_everywhere = all(mask.all() for mask in findings.differences.values())
                if after_difference < 0 or is_everywhere or not places.is_complete:
                    break
        return findings

    def region(self, findings: _Findings) -> isl.Set:
        """Return the union of what differed in all rounds."""
        parts = []
        for origin, mask in findings.differences.items():
            parts.append(from_mask(mask, self._axes, origin))
        return union(parts).coalesce()

    def equal(
        self, method: str, places: Places, findings: _Findings, error: float | None = None
    ) -> Proof:
        coverage = places.coverage(findings.visited)
        return Proof(TESTED, None, method, error, coverage=coverage)

    def different(
        self,
        method: str,
        places: Places,
        findings: _Findings,
        differs: Comparison,
        error: float | None = None,
        most_rounds: int = MAX_REGION_ROUNDS,
    ) -> Proof | None:
        """Return the proof that both sides differ, with all points where they do, as far as these
        are known and seen in so many more rounds; None where they are proved equal at all points
        that seem to differ.
        """
        seen, possible = self.region(findings), self._all_points()
        known = self.structure.region_of_differences()
        if known is not None:
            possible, is_certain = known
            seen = seen.intersect(possible)
            if seen.is_empty():
                return None
            if is_certain:
                region = readable(possible, self._axes)
                both = f"{method}; {RELATIONS}"
                return Proof(DIFFERENT, region, both, 0.0, is_region_exact=True)
        patience = PATIENCE if places.is_cheaper_than(CHEAP_STEPS) else 1
        last = findings.rounds + most_rounds
        while places.is_complete and patience and not possible.is_subset(seen):
            rounds = min(ROUNDS_FOR_REGION, last - findings.rounds)
            if rounds <= 0:
                break
            more = self.findings(places, differs, rounds, findings.rounds)
            findings.rounds = more.rounds
            if not more or self.region(more).is_subset(seen):
                patience -= 1
            else:
                seen = seen.union(self.region(more).intersect(possible)).coalesce()
        seen, is_exact = with_axis_names(seen, self._axes), possible.is_subset(seen)
        coverage = places.coverage(findings.visited)
        return Proof(DIFFERENT, seen, method, error, is_region_exact=is_exact, coverage=coverage)

    @property
    def _axes(self) -> list[str]:
        return [index.name for index in self.one.indices]

    def _all_points(self) -> isl.Set:
        return union_of_boxes([tuple((0, extent) for extent in self.one.shape)], self.one.rank)


def compare(one: Scope, two: Scope, rounds: int, seed: int, structure: ExactComparison) -> Proof:
    """Compare two scopes of one shape by evaluation, `rounds` times with inputs that `seed` draws;
    `structure` says which points are written differently.
    """
    tests = _Tests(one, two, structure, max(1, rounds), seed)
    if not prod(one.shape):
        return Proof(PROVED, None, "there is no output point", 0.0)
    field_test = _FieldTest(miss_bound(one, two))
    places = tests.places(MAX_STEPS)
    findings = tests.findings(places, field_test.differs_twice, tests.rounds)
    kind = max(operations_of(one), operations_of(two))
    if findings and kind is Operations.RATIONAL:
        differs = field_test.differs_twice
        proof = tests.different(field_test.name, places, findings, differs, 0.0)
        if proof is not None:
            return proof
    elif findings:
        return _over_reals(tests, kind, is_equal_in_field=False)
    equal = _equal_in_field(tests, field_test, places, findings)
    if equal.error_probability is not None or kind is Operations.RATIONAL:
        return equal
    decided = _over_reals(tests, kind, is_equal_in_field=True)
    if decided.verdict == DIFFERENT:
        return decided
    return replace(equal, method=f"{equal.method}; {decided.method}")


def _over_reals(tests: _Tests, kind: Operations, is_equal_in_field: bool) -> Proof:
    """Compare over the reals: at random inputs, then at those in which one element stands out."""
    decided = _at_random(tests, kind, is_equal_in_field)
    if decided.verdict == DIFFERENT:
        return decided
    return _with_prominent_elements(tests, kind, decided)


def _at_random(tests: _Tests, kind: Operations, is_equal_in_field: bool) -> Proof:
    """Compare by rational numbers where these suffice, and in double precision where they do not,
    or would see a few points only.
    """
    if kind is Operations.ORDERED:
        exactly = _in_rationals(tests)
        if exactly is None:
            return _in_floats(tests)
        decided, is_complete = exactly
        if decided.verdict == DIFFERENT or is_complete:
            return decided
        in_floats = _in_floats(tests, MAX_MARK)
        if in_floats.verdict == DIFFERENT:
            return in_floats
        return replace(in_floats, method=f"{decided.method}; {in_floats.method}")
    decided = _in_floats(tests)
    if decided.verdict == DIFFERENT or is_equal_in_field:
        return decided
    return _with_many_digits(tests, decided)


def _with_prominent_elements(tests: _Tests, kind: Operations, equal: Proof) -> Proof:
    """Compare once more, where one element after the other stands out: in double precision, where
    only an order decides confirmed exactly; and with many digits, where exponentials have no
    largest number.
    """
    distances = [1.0, NEAR, far_beyond(tests.scopes)]
    one_point = Places(tests.scopes, (), 1).steps_of_round(tests.seed)
    if kind is Operations.ORDERED and one_point <= MAX_CONFIRMED_STEPS:
        exact = _ProminentTest(EXACTLY, MAX_PROMINENT_STEPS, distances, unequal_confirmed, 0.0)
        return exact.proof(tests, equal)
    in_double = _ProminentTest(IN_DOUBLE, MAX_PROMINENT_STEPS, distances, unequal_at_once)
    proof = in_double.proof(tests, equal)
    if proof.verdict == DIFFERENT:
        return proof
    precise = _ProminentTest(
        PRECISELY, MAX_ALL_PRECISE_STEPS, distances[2:], unequal_with_many_digits
    )
    precisely = precise.proof(tests, equal)
    return precisely if precisely.verdict == DIFFERENT else proof


@dataclass(frozen=True)
class _ProminentTest:
    """An evaluation at inputs in which one element stands out by some distances, `max_steps` steps
    in all.
    """

    method: str
    max_steps: int
    distances: Sequence[float]
    unequal: Callable[[OutputBlock, Sequence[Mapping[str, Array]]], Array]
    error: float | None = None  # of a difference

    def proof(self, tests: _Tests, equal: Proof) -> Proof:
        """Return the proof that both sides differ at one of the inputs, else that of their
        equality with what it covers now.
        """
        places = tests.places(self.max_steps // MIN_PROMINENT_INPUTS)
        number, all_elements = 0, 0

        def differs(block: OutputBlock, rng: np.random.Generator, _: int) -> Array:
            nonlocal number, all_elements
            elements, count = prominent_elements(block)
            steps = evaluation_steps(block.scopes)
            most = self.max_steps // max(1, steps * inputs_of_an_element(self.distances))
            chosen = elements[:most]
            number += len(chosen)
            all_elements += count
            mask = np.zeros(block.scopes[0].shape, bool)
            for distance in self.distances:
                inputs = prominent_inputs(block, chosen, distance, tests.seed)
                if inputs and not mask.all():
                    mask = mask | self.unequal(block, inputs)
            return mask

        findings = tests.findings(places, differs, 1)
        if findings:
            proof = tests.different(self.method, places, findings, differs, self.error)
            if proof is not None:
                return proof
        if not number:
            return equal
        these = f"{number:,}" if number == all_elements else f"{number:,} of {all_elements:,}"
        more = f"with {these} elements at the ends of what is read far from the others in turn"
        where = places.coverage(findings.visited)
        return replace(equal, coverage=f"{equal.coverage}; {more}, {where}")


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

    def differs_twice(self, block: OutputBlock, rng: np.random.Generator, number: int) -> Array:
        """Compare both sides; a difference counts where a second field shows it as well."""
        mask = self._differs(block, rng)
        return mask & self._differs(block, rng) if mask.any() else mask

    def _differs(self, block: OutputBlock, rng: np.random.Generator) -> Array:
        """Compare both sides over a field; its prime, and the functions that it lacks, are drawn
        anew every time.
        """
        kind = QuadraticField if self.needs_extension else PrimeField
        elements = kind(random_prime(rng), seed=int(rng.integers(2**31)), holds_elements=True)
        arrays = {}
        for name, tensor in block.tensors.items():
            arrays[name] = values_for(tensor, lambda shape: rng.integers(0, elements.order, shape))
        one, two = [_only_value(execute(p, arrays, arithmetic=elements)) for p in block.programs]
        return np.asarray(one != two)


def _only_value(results: Mapping[str, Array]) -> Array:
    (value,) = results.values()
    return value


def _equal_in_field(
    tests: _Tests, field_test: _FieldTest, places: Places, findings: _Findings
) -> Proof:
    """Return that no difference was seen in a field, with the bound of the error."""
    chance = field_test.miss_probability if places.is_complete else None
    error = None if chance is None else chance**tests.rounds
    plural = "s" if tests.rounds > 1 else ""
    method = f"{field_test.name} at {tests.rounds} random input{plural}"
    return tests.equal(method, places, findings, error)


def _in_rationals(tests: _Tests) -> tuple[Proof, bool] | None:
    """Compare exactly, on rational numbers, among which ties are common: the proof, and whether all
    patterns of inputs were met; None where a division by zero spoils it.
    """
    differs = _exact_comparison(tests)
    places = tests.places(MAX_EXACT_STEPS)
    steps = places.steps_of_round(tests.seed)
    rounds = max(EXACT_ROUNDS * tests.rounds, 2 * len(patterns(marks_of(tests.scopes))))
    affordable = max(MIN_EXACT_ROUNDS, MAX_ALL_EXACT_STEPS // steps)
    more = MAX_REGION_STEPS // steps
    try:
        findings = tests.findings(places, differs, min(rounds, affordable), 0, more)
        if findings:
            proof = tests.different(EXACTLY, places, findings, differs, 0.0, more)
            if proof is not None:
                return proof, True
    except (ArithmeticError, TypeError):
        return None
    return tests.equal(EXACTLY, places, findings), rounds <= affordable and places.is_complete


def _exact_comparison(tests: _Tests) -> Comparison:
    """Return the comparison at rational numbers: in every second round by a pattern."""
    marks = marks_of(tests.scopes)
    known = patterns(marks)

    def differs(block: OutputBlock, rng: np.random.Generator, number: int) -> Array:
        arrays = {}
        mixed = mixed_rationals(marks, rng)
        for name, tensor in block.tensors.items():
            if number % 2:
                arrays[name] = rational_values(tensor, known[number // 2 % len(known)], rng)
            else:
                arrays[name] = mixed(tensor)
        one, two = [evaluate(side, **_arrays_of(side, arrays)) for side in block.programs]
        return np.asarray(one != two)

    return differs


def _arrays_of(side: Program, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: arrays[name] for name in side.tensors if name in arrays}


def _in_floats(tests: _Tests, most: float = MAX_DOUBLE_MARK) -> Proof:
    """Compare in double precision, near numbers that are at most so large. Where one side alone has
    a value, they differ.
    """
    marks = [mark for mark in marks_of(tests.scopes) if abs(mark) < most]
    known = patterns(marks, most)
    places = tests.places(MAX_STEPS)
    rounds = tests.rounds
    if places.is_cheaper_than(CHEAP_STEPS):
        rounds = max(rounds, len(known))
    differs = _double_comparison(marks, known)
    findings = tests.findings(places, differs, rounds)
    if not findings and places.is_whole:
        _add_many_inputs(findings, tests, places, marks)
    if findings:
        proof = tests.different(IN_DOUBLE, places, findings, differs)
        if proof is not None:
            return proof
    return tests.equal(IN_DOUBLE, places, findings)


def _add_many_inputs(
    findings: _Findings, tests: _Tests, places: Places, marks: Sequence[Fraction]
) -> None:
    """Add what differs at further inputs of an output of few elements, all evaluated at once."""
    count = min(MAX_ROUNDS, MIN_ELEMENTS // prod(tests.one.shape))
    if count <= 1 or not places.is_cheaper_than(MAX_STEPS // count):
        return
    (place,) = places.of_round(0, np.random.default_rng(tests.seed))
    block = tests.block(places, place)
    inputs = []
    for number in range(count):
        mixed = mixed_doubles(marks, np.random.default_rng([tests.seed, findings.rounds, number]))
        inputs.append({name: mixed(tensor) for name, tensor in block.tensors.items()})
    if not inputs[0]:
        return
    mask = unequal_in_double(stacked(block.scopes, count), stacked_arrays(inputs))
    findings.add(place, np.asarray(mask.any(axis=0)))


def _double_comparison(marks: Sequence[Fraction], known: Sequence[Pattern]) -> Comparison:
    """Return the comparison in double precision: at inputs of both signs, and by a pattern; first
    at positive ones, where more is defined. Other patterns lie at poles by intent.
    """

    def differs(block: OutputBlock, rng: np.random.Generator, number: int) -> Array:
        anywhere: dict[str, Array] = {}
        by_pattern: dict[str, Array] = {}
        mixed = mixed_doubles(marks, rng)
        for name, tensor in block.tensors.items():
            anywhere[name] = mixed(tensor)
            by_pattern[name] = double_values(tensor, known[number % len(known)], rng)
        mask = unequal_in_double(block.scopes, anywhere)
        return mask | unequal_in_double(block.scopes, by_pattern, domains=number == 0)

    return differs


def _with_many_digits(tests: _Tests, equal: Proof) -> Proof:
    """Compare once more at a few points, where constants that agree to sixteen digits differ."""
    marks = [mark for mark in marks_of(tests.scopes) if abs(mark) <= MAX_PRECISE_MARK]
    places = tests.places(MAX_PRECISE_STEPS)
    known = patterns(marks, MAX_PRECISE_MARK)
    known = known[: MAX_ALL_PRECISE_STEPS // places.steps_of_round(tests.seed)]
    if not known:
        return equal
    differs = _precise_comparison(known)
    findings = tests.findings(places, differs, 1)
    if findings:
        proof = tests.different(PRECISELY, places, findings, differs)
        if proof is not None:
            return proof
    return replace(equal, method=f"{equal.method} and, at a few points, with 96 digits")


def _precise_comparison(known: Sequence[Pattern]) -> Comparison:
    """Return the comparison with many digits: at positive numbers, and between all numbers that
    stand in the sides.
    """

    def differs(block: OutputBlock, rng: np.random.Generator, number: int) -> Array:
        inputs = []
        for pattern in known:
            arrays = {}
            for name, tensor in block.tensors.items():
                arrays[name] = double_values(tensor, pattern, rng)
            inputs.append(arrays)
        return unequal_with_many_digits(block, inputs)

    return differs
