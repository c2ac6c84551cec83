"""The task of an optimization: its options, and how much of its time is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from derive.cost.backend import Backend
from derive.programs.forms.layers import Layer
from derive.programs.forms.rewriting.rule_set import NO_RULES, RuleSet
from derive.programs.optimized_program import SPREADING
from derive.rewriting.moves import Rule
from derive.rules import OF_MODELS
from derive.search.best_first import Budget
from einalg.runtime.clock import Clock, check_time

Result = TypeVar("Result")
Progress = Callable[[Layer, int, int], None]  # called with a layer, its number, and how many
MAX_RESERVED_SHARE = 0.5  # of all seconds, that may be left for compiling the whole
MIN_RESERVED_SHARE = 0.1  # of those that are left: kernels so far may have been stored ones


@dataclass(frozen=True)
class Task:
    """How to optimize: on what, for how many seconds, with which budget for a layer.

    Results may deviate by `accuracy`. The `clock` is that of the seconds, but for those that are
    reserved for what comes after. Where NaNs and infinities shall be exact, no layer is searched
    with the rules that spread them. Where the network `is_compared` with a framework later, code
    that deviates is no error here. Where the framework can go on running it, the optimization
    `may_give_up`: then `OutOfTime` ends what takes too long though it is needed. Programs are
    rewritten by the `substitutions`.
    """

    backend: Backend
    seconds: float
    clock: Clock
    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None
    accuracy: float | None = None
    nonfinite: str = "spread"
    is_compared: bool = False
    may_give_up: bool = False
    substitutions: RuleSet = NO_RULES

    @property
    def rules(self) -> list[Rule] | None:
        """The rules that layers are searched with; None for all."""
        if self.nonfinite != "exact":
            return None
        return [rule for name, rule in OF_MODELS.items() if name not in SPREADING]

    @property
    def left(self) -> float:
        """The seconds that are left, but for those that are reserved."""
        return self.clock.left

    def is_spent(self) -> bool:
        """Tell whether nothing is left."""
        return self.clock.is_over

    def need(self, step: Callable[[], Result]) -> Result:
        """Take a step without which there is no answer but the framework's."""
        if not self.may_give_up:
            return self.clock.insist(step)
        with self.clock.limiting():
            check_time()
            return self.clock.insist(step)

    def reserving(self, seconds: float) -> Task:
        """Return the task with seconds reserved, or a share of those that are left if that is more.

        They are no more than a share of all.
        """
        least = MIN_RESERVED_SHARE * self.clock.left
        reserved = min(max(seconds, least), MAX_RESERVED_SHARE * self.seconds)
        return replace(self, clock=self.clock.within(self.clock.left - reserved))
