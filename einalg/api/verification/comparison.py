"""The comparison of a compiled model with its framework, example by example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any

from einalg.api.verification.deviation import Deviation, deviation, tolerance_of
from einalg.api.verification.examples import FrameworkCall, examples_of
from einalg.api.verification.localisation import Faults, Localisation
from einalg.errors import EinalgError
from einalg.frontends.network import Network
from einalg.frontends.reading import Reading
from einalg.frontends.special_inputs import SPECIAL
from einalg.runtime.direct_call import DirectCall

Run = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Wishes:
    """How far results may deviate, where NaNs may be, how many seconds there are,
    and how many are left."""

    accuracy: float | None = None
    nonfinite: str = "spread"
    seconds: float = 300.0
    left: Callable[[], float] = lambda: inf


def direct_of(run: Run) -> DirectCall | None:
    """Return what runs on addresses; None for what has no such function."""
    direct = getattr(run, "direct", None)
    return direct and direct()


def _is_noise(example: FrameworkCall, place: int, one: Deviation) -> bool:
    """Tell whether a result deviates by no more than other rounding of the inputs makes."""
    expected, rough = example.expected, example.rough
    if expected is None or rough is None:
        return False
    return one.is_noise(deviation(expected[place][0], rough[place][0]))


class ModelComparison:
    """The examples on which a model is compared, and what was found on them.

    `excluded` are the operators that were found to deviate, each with what is wrong. Where it
    `is_brief`, the given inputs are the only example.
    """

    def __init__(self, network: Network, wishes: Wishes, is_brief: bool = False):
        self._wishes = wishes
        self.excluded: dict[str, str] = {}
        self._pending = examples_of(network, wishes.seconds, wishes.left)
        if is_brief:
            self._pending = islice(self._pending, 1)
        self._known: list[FrameworkCall] = []
        self._readings: dict[frozenset[str], Reading] = {}
        self._network = network
        self._outcome = _RoundOutcome()

    def reading(self, excluded: Mapping[str, str]) -> Reading:
        """Return the model read operator by operator, some of which are calls."""
        key = frozenset(excluded)
        if key not in self._readings:
            assert self._network.original is not None
            self._readings[key] = self._network.original.again(excluded)[1]
        return self._readings[key]

    def faults(self, network: Network, run: Run, excluded: Mapping[str, str]) -> Faults | None:
        """Return what is at fault on the first example that tells; None where all are right."""
        self._outcome = _RoundOutcome()
        call = network.around(run, direct_of(run))
        for example in self._examples():
            if example.expected is None:
                continue
            self._outcome.compared.append(example.name)
            deviations = self._deviations(example, call)
            if deviations is None:
                return self._located(example, run, excluded)
            if self._are_right(example, deviations):
                continue
            if not example.is_repeatable:
                self._outcome.remarks.append("results are drawn at random, and not compared")
                return None
            if self._are_noise(example, deviations):
                continue
            faults = self._located(example, run, excluded, deviations)
            if faults is not None:
                return faults
        return None

    @property
    def ended_after(self) -> float | None:
        """The seconds that there were, where they did not suffice for all special examples."""
        return None if len(self._known) > len(SPECIAL) else self._wishes.seconds

    def _examples(self) -> Any:
        yield from list(self._known)
        for example in self._pending:
            self._known.append(example)
            yield example

    def _deviations(
        self, example: FrameworkCall, call: Callable[..., Any]
    ) -> list[Deviation] | None:
        """Return how each result deviates; None where there is no result."""
        arguments, named = example.arguments
        try:
            results = example.original.results(call(*arguments, **named))
        except EinalgError as error:
            self._outcome.remarks.append(f"no result on {example.name}: {error}")
            return None
        assert example.expected is not None
        pairs = zip(example.expected, results, strict=True)
        return [deviation(expected, result) for (expected, _), (result, _) in pairs]

    def _are_right(self, example: FrameworkCall, deviations: Sequence[Deviation]) -> bool:
        """Tell whether deviations are no more than is allowed; remember the largest."""
        places = enumerate(deviations)
        if not all(self._is_within(example, place, one) for place, one in places):
            return False
        self._outcome.largest = max([self._outcome.largest, *(one.relative for one in deviations)])
        return True

    def _are_noise(self, example: FrameworkCall, deviations: Sequence[Deviation]) -> bool:
        """Tell whether deviations are no more than other rounding of the inputs makes."""
        if not all(_is_noise(example, place, one) for place, one in enumerate(deviations)):
            return False
        self._outcome.inexact.append(example.name)
        return True

    def _is_within(self, example: FrameworkCall, place: int, one: Deviation) -> bool:
        """Tell whether a result deviates by no more than is allowed of its type."""
        assert example.expected is not None
        return one.is_within(tolerance_of(example.expected[place][1], self._wishes.accuracy))

    def _located(
        self,
        example: FrameworkCall,
        run: Run,
        excluded: Mapping[str, str],
        deviations: Sequence[Deviation] | None = None,
    ) -> Faults | None:
        """Return what is at fault; None where a deviation adds up of rounding, or is allowed.

        There are no `deviations` where there is no result.
        """
        may_spread = self._wishes.nonfinite == "spread"
        localisation = Localisation(
            self.reading(excluded), example, run, self._wishes.accuracy, may_spread
        )
        faults = localisation.faults()
        for origin in sorted(localisation.undefined):
            self._outcome.remarks.append(
                f"{self.reading({}).operator(origin)}: on {example.name}, {example.original.name} "
                f"deviates from {localisation.reading.defined_by(origin)}, as einalg does not"
            )
        if faults.nodes or faults.replaced is not None:
            return faults
        if localisation.is_spread:
            return None
        if self._are_of_added_weights(localisation, example, deviations):
            self._outcome.remarks.append(
                f"on {example.name}, an infinity times the sum of several weights is an "
                f"infinity, where {example.original.name} multiplies it by each and has NaN"
            )
            return None
        is_finite = deviations is not None and all(one.is_finite for one in deviations)
        if is_finite and localisation.is_model:
            self._outcome.inexact.append(example.name)
            return None
        self._outcome.remarks.append(
            f"einalg deviates on {example.name}, and no operator was found that does alone"
        )
        return faults

    def _are_of_added_weights(
        self,
        localisation: Localisation,
        example: FrameworkCall,
        deviations: Sequence[Deviation] | None,
    ) -> bool:
        """Tell whether all that deviates is computed of what adds weights before infinities."""
        if deviations is None:
            return False
        wrong: list[int] = []
        for place, one in enumerate(deviations):
            if not self._is_within(example, place, one) and not _is_noise(example, place, one):
                wrong.append(place)
        return localisation.are_of_added_weights(wrong)

    def notes(self, excluded: Mapping[str, str]) -> tuple[str, ...]:
        """Return what was found, in words."""
        assert self._network.original is not None
        outcome, framework = self._outcome, self._network.original.name
        lines: list[str] = []
        if outcome.compared:
            inputs = ", ".join(outcome.compared)
            largest = f"largest deviation {outcome.largest:.1e}"
            lines.append(f"compared with {framework} on {inputs}: {largest}")
        if outcome.inexact:
            lines.append(
                f"on {', '.join(dict.fromkeys(outcome.inexact))}, results depend on rounding"
            )
        for origin, fault in excluded.items():
            lines.append(f"{self.reading({}).operator(origin)} stays {framework}'s: {fault}")
        return (*lines, *dict.fromkeys(outcome.remarks))


@dataclass
class _RoundOutcome:
    """What was found in one round: names of examples, the largest deviation, remarks."""

    compared: list[str] = field(default_factory=list)
    inexact: list[str] = field(default_factory=list)
    largest: float = 0.0
    remarks: list[str] = field(default_factory=list)
