"""The calls on which a model is compared with its framework: the given one and special ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from time import perf_counter
from typing import Any

from einalg.frontends.network import Arguments, ChangeOfKind, Network, Original
from einalg.frontends.special_inputs import INFINITY, NOT_A_NUMBER, SPECIAL, roughened

LOG = logging.getLogger("einalg")
GIVEN = "the given inputs"
MIN_SECONDS = 1.0  # that special inputs may take, however little there is for all
ALWAYS = (NOT_A_NUMBER, INFINITY)  # what forms change most easily, whatever it takes
MAX_SHARE = 0.05  # of all seconds, that they may take
Results = list[tuple[Any, str]]  # arrays with their element types


@dataclass(frozen=True)
class FrameworkCall:
    """A call, by the name of what is special in it, and the framework's results."""

    name: str
    change: ChangeOfKind = field(repr=False)  # of the floats of the given call
    original: Original
    call: Callable[..., Any] = field(repr=False)

    @property
    def arguments(self) -> Arguments:
        """The arguments of the call, as new arrays: a call may write to them."""
        return self.original.changed(self.change)

    @cached_property
    def expected(self) -> Results | None:
        """The framework's results; None where it raises an error."""
        return self._results(self.arguments)

    @cached_property
    def is_repeatable(self) -> bool:
        """Whether the framework returns the same once more: it draws nothing at random."""
        again, before = self._results(self.arguments), self.expected
        if again is None or before is None:
            return False
        pairs = zip(again, before, strict=True)
        return all(one.tobytes() == other.tobytes() for (one, _), (other, _) in pairs)

    @cached_property
    def rough(self) -> Results | None:
        """The framework's results where what the inputs' types round off is other."""
        return self._results(
            self.original.changed(lambda array, kind: roughened(self.change(array, kind), kind))
        )

    def _results(self, arguments: Arguments) -> Results | None:
        args, keywords = arguments
        try:
            return list(self.original.results(self.call(*args, **keywords)))
        except Exception as error:  # whatever a framework raises for inputs that it does not take
            LOG.debug("einalg: the framework does not take %s: %s", self.name, error)
            return None


def examples_of(
    network: Network, seconds: float, left: Callable[[], float] = lambda: inf
) -> Iterator[FrameworkCall]:
    """Yield the given call, then special ones as long as these take no large part of `seconds`.

    None begins that would end too late, if it took as long as the longest before, but for one NaN
    and one infinity; `left` says how many seconds are left then.
    """
    original, call = network.original, network.itself
    assert original is not None and call is not None
    began = perf_counter()
    yield FrameworkCall(GIVEN, lambda array, _: array, original, call)
    longest = perf_counter() - began
    limit = perf_counter() + max(MIN_SECONDS, min(MAX_SHARE * seconds, left()))
    for name, change in SPECIAL.items():
        now = perf_counter()
        if now + longest > limit and name not in ALWAYS:
            return
        yield FrameworkCall(name, lambda array, _, change=change: change(array), original, call)
        longest = max(longest, perf_counter() - now)
