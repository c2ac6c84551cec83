"""The task of an optimization: its options, and how much of its time is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from derive.cost.backend import Backend
from derive.programs.layers import Layer
from derive.programs.optimized_program import SPREADING
from derive.rewriting.moves import Rule
from derive.rules import OF_MODELS
from derive.search.best_first import Budget

Progress = Callable[[Layer, int, int], None]  # called with a layer, its number, and how many
MAX_RESERVED_SHARE = 0.5  # of all seconds, that may be left for compiling the whole


@dataclass(frozen=True)
class Task:
    """How to optimize: on what, for how many seconds, with which budget for a layer.

    Results may deviate by `accuracy`. The search leaves `reserved` seconds for what comes after it.
    The seconds count from `began` on, of `perf_counter`. Where NaNs and infinities shall be exact,
    no layer is searched with the rules that spread them. Where the network `is_compared` with a
    framework later, code that deviates is no error here.
    """

    backend: Backend
    seconds: float
    budget: Budget = field(default_factory=Budget)
    progress: Progress | None = None
    accuracy: float | None = None
    began: float = field(default_factory=time.perf_counter)
    reserved: float = 0.0
    nonfinite: str = "spread"
    is_compared: bool = False

    @property
    def rules(self) -> list[Rule] | None:
        """The rules that layers are searched with; None for all."""
        if self.nonfinite != "exact":
            return None
        return [rule for name, rule in OF_MODELS.items() if name not in SPREADING]

    @property
    def spent(self) -> float:
        """The seconds since it began."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """The seconds that are left, but for those that are reserved."""
        return max(0.0, self.seconds - self.reserved - self.spent)

    def is_spent(self) -> bool:
        """Tell whether nothing is left."""
        return self.left <= 0

    def reserving(self, seconds: float) -> Task:
        """Return the task with seconds reserved, but no more than a share of all."""
        return replace(self, reserved=min(seconds, MAX_RESERVED_SHARE * self.seconds))
