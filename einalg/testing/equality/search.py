"""The search for a case at fault: values at which code tends to fail first, then what hypothesis
draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time
from typing import Any

from einalg.testing.draws import Draws
from einalg.testing.equality.case import ExpressionCase, Fault, Judge
from einalg.testing.equality.problem import Problem
from einalg.testing.equality.world import World
from einalg.testing.input_values import LAYOUTS, PLAIN, kinds, values

STEADINESS_EXAMPLES = 2  # that are called again
SHRINK_SECONDS = 1.5  # of hypothesis; what is smaller is looked for afterwards
WAITING = 4  # times the seconds of a deadline pass by the clock at most
MAX_SEED = 2**16


@dataclass(frozen=True)
class Finding:
    """A case with its fault; the number and the fault of the example that showed it first."""

    case: ExpressionCase
    fault: Fault
    example: int
    first: Fault

    def simpler(self, case: ExpressionCase, fault: Fault) -> Finding:
        """Return the same finding on a simpler case."""
        return replace(self, case=case, fault=fault)


@dataclass
class Deadline:
    """A moment by the time of this process, which a busy machine does not bring nearer; for what
    waits for others there is a later one by the clock.
    """

    seconds: float
    _began: tuple[float, float] = field(default_factory=lambda: (process_time(), perf_counter()))

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        own, all_ = process_time() - self._began[0], perf_counter() - self._began[1]
        return own > self.seconds or all_ > WAITING * self.seconds


class _Found(Exception):
    """An example is at fault: hypothesis looks for simpler ones."""


@dataclass
class CaseSearch:
    """A search over the cases of a world."""

    world: World
    judge: Judge
    examples: int
    seed: int
    tried: int = 0
    shapes: set[Any] = field(default_factory=set)
    finding: Finding | None = None
    _deadline: Deadline | None = None

    def run(self) -> Finding | None:
        """Return the first case at fault; None where no example shows one."""
        pool = self.world.pool
        for case in _edges(pool, self.seed, self._has_nonfinite):
            if self.tried == self.examples:
                return None
            self._try(case)
            if self.finding is not None:
                return self.finding
        if self.tried < self.examples:
            self._draw(pool, self.examples - self.tried)
        return self.finding

    @property
    def _has_nonfinite(self) -> bool:
        """Whether NaN and infinities are among the inputs."""
        return self.judge.nonfinite is not None

    def _try(self, case: ExpressionCase) -> None:
        self.tried += 1
        self.shapes.add(tuple(array.shape for array in case.arrays))
        fault = self.judge.fault(case)
        if self.tried <= STEADINESS_EXAMPLES or fault is not None:
            fault = self.judge.unsteadiness(case) or fault
        if fault is not None:
            self.finding = Finding(case, fault, self.tried, fault)

    def _simplified(self, case: ExpressionCase) -> bool:
        """Tell whether a case that hypothesis takes for simpler shows the same fault."""
        assert self.finding is not None
        fault = self.judge.fault(case)
        if fault is None or not self.finding.fault.is_like(fault):
            return False
        self.finding = self.finding.simpler(case, fault)
        return True

    def _draw(self, pool: Sequence[Problem], examples: int) -> None:
        from hypothesis import HealthCheck, Phase, Verbosity, given, settings
        from hypothesis import seed as hypothesis_seed
        from hypothesis import strategies as st

        @hypothesis_seed(self.seed)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=False,
            suppress_health_check=[
                check for check in HealthCheck if isinstance(check, HealthCheck)
            ],
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        @given(st.data())
        def run(data: Any) -> None:
            case = draw_case(Draws(data.draw, st), pool, self._has_nonfinite)
            if self.finding is None:
                self._try(case)
                if self.finding is not None:
                    self._deadline = Deadline(SHRINK_SECONDS)
                    raise _Found
            elif self._deadline and not self._deadline.is_over and self._simplified(case):
                raise _Found

        try:
            run()
        except Exception:
            if self.finding is None:
                raise


def _edges(pool: Sequence[Problem], seed: int, nonfinite: bool) -> list[ExpressionCase]:
    """Return a case for each kind of values, with shapes from all over a pool."""
    cases: list[ExpressionCase] = []
    for number, kind in enumerate(kinds("f32", nonfinite)):
        problem = pool[(number * 7 + len(pool) // 2) % len(pool)]
        arrays = []
        for place, tensor in enumerate(problem.tensors):
            own = kinds(tensor.dtype, nonfinite)
            name = kind if kind in own else own[number % len(own)]
            arrays.append(values(tensor, name, seed + number + place))
        cases.append(ExpressionCase(problem, tuple(arrays), (PLAIN,) * len(arrays)))
    return cases


def draw_case(draws: Draws, pool: Sequence[Problem], nonfinite: bool = False) -> ExpressionCase:
    """Return a case of a pool: half of them with plain random numbers in every input."""
    problem = draws.one_of(pool)
    is_plain = not draws.chance(2)
    arrays, layouts = [], []
    for tensor in problem.tensors:
        own = kinds(tensor.dtype, nonfinite)
        kind = draws.one_of(own[: 1 + is_plain] if is_plain else own)
        arrays.append(values(tensor, kind, draws.integer(0, MAX_SEED)))
        layouts.append(draws.one_of(tuple(LAYOUTS)) if draws.chance(4) else PLAIN)
    return ExpressionCase(problem, tuple(arrays), tuple(layouts))
