"""From an expression to its `SearchResult`: search, prove, check, measure (design §8, §9, §20).

An answer is there at any time: the candidates that are proven until then, and the expression as it
is. One clock bounds all phases.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from derive.cost.accuracy import tolerance
from derive.cost.backend import Backend
from derive.cost.model import MeasuredCostModel, Roofline, calibrated
from derive.results.candidates import Candidate
from derive.results.derivation import SearchResult
from derive.results.progress import format_stats
from derive.results.selection import (
    SELECTION,
    EarlyCompilation,
    KernelCosts,
    SelectionPolicy,
    most_promising,
    ranked,
    varied,
)
from derive.results.stored_search import MIN_SECONDS, SearchOutcome, StaleSearch, StoredSearch
from derive.results.verification import Proofs, ShortlistCheck
from derive.rewriting.moves import Rule
from derive.rules import ALL
from derive.search.best_first import Budget, Progress, Search, rules_by_name, templates_by_name
from derive.search.candidates import LATE, EstimatedCandidate, Stats
from derive.search.expansion import StateExpander
from einalg.errors import without_remedy
from einalg.language.ir.program import as_program
from einalg.runtime.clock import (
    COMPILING,
    MEASURING,
    PROVING,
    SEARCHING,
    Clock,
    Course,
    OutOfTime,
    check_time,
)
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")


@dataclass(frozen=True)
class TimePolicy:
    """How the seconds of a derivation are divided.

    A share is of the seconds that are left when a phase begins; what one does not need is there
    for the next. The best candidate so far is proven while the search goes on.
    """

    calibrating: float = 0.35  # where the rates of the machine are not known
    searching: float = 0.5
    searching_alone: float = 0.75  # where nothing is measured
    proving: float = 0.4
    proving_others: float = 0.5  # once the shortlist is measured
    proving_early: float = 0.1  # of the seconds so far, that proofs take during the search
    compiling_early: float = 0.3  # of the seconds so far, that code generation takes during it
    at_last: float = 1.0  # seconds for proofs after the end, so that there is an answer


TIMES = TimePolicy()
WHOLE_TIME = replace(SELECTION, max_proof_share=1.0)  # for one proof


def find_derivation(  # noqa: PLR0913, PLR0917 - every option of a search
    expression: Any,
    budget: Budget,
    rules: Iterable[Rule | str] | None,
    backend: Backend | None,
    seed: int = 0,
    progress: Progress | None = None,
    measure: bool = True,
    accuracy: float | None = None,
    executor: Any = None,
    ops: Sequence[str] | None = None,
    most: int | None = None,
    clock: Clock | None = None,
) -> SearchResult:
    """Search, prove the candidates, those that promise most first, then check and measure these.

    The seconds of the budget bound all of it; they are those of the `clock`, if there is one.
    `progress` is called with the statistics after every state and at every phase. An interrupt, or
    `StopIteration` raised by `progress`, ends it: the result is the best so far. With `most`,
    derived candidates that promise less than so many others are neither proven nor kept; nor are
    those that the time is not enough for.
    """
    start = as_program(expression)
    searched = rules_by_name(rules)
    expand = StateExpander(searched, templates_by_name(ops))
    clock = clock or Clock.of(budget.seconds)

    def derived(restores: bool) -> SearchResult:
        search = Search(start, budget, expand, Roofline())
        proofs = Proofs(start, backend, search.stats, executor)
        derivation = _Derivation(search, proofs, clock, progress, most, restores)
        if backend is not None and measure:
            allowed = tolerance(start) if accuracy is None else accuracy
            check = ShortlistCheck(start, backend, search.stats, allowed, seed)
            derivation.run_measuring(backend, check, executor)
        else:
            derivation.run_estimating(executor)
        ordered = ranked(derivation.candidates())
        stats, explored = derivation.stats, derivation.explored
        return SearchResult(start, ordered, stats, backend, explored, {**ALL, **searched})

    try:
        return derived(restores=True)
    except StaleSearch as error:
        log.warning("einalg: %s; it is done again", without_remedy(error))
        return derived(restores=False)


def in_words(candidate: Candidate, original: Candidate) -> str:
    """Return a candidate in a few words: `1.240 ms, 2.3x (estimated, proved)`."""
    text = milliseconds(candidate.cost)
    comparison = candidate.compared(original)
    if comparison is not None and candidate is not original:
        return f"{text}, {comparison}, {candidate.verdict}"
    if candidate is not original and candidate.measured == original.measured:
        text += f", {original.cost / candidate.cost:.1f}x"
    if candidate.measured:
        return f"{text} ({candidate.verdict})"
    return f"{text} (estimated, {candidate.verdict})"


class _Derivation:
    """A derivation under way: what is known of its candidates so far.

    Every step begins where the last one was ended, by itself, the clock or an interrupt.
    """

    def __init__(
        self,
        search: Search,
        proofs: Proofs,
        clock: Clock,
        progress: Progress | None,
        most: int | None,
        restores: bool = True,
        policy: SelectionPolicy = SELECTION,
    ):
        self.stats, self.explored = search.stats, search.explored
        self._search, self._proofs, self._clock = search, proofs, clock
        self._progress, self._most, self._policy = progress, most, policy
        self._restores = restores  # what the same search has found before
        self._began, self._before = clock.now(), dict(clock.course.seconds)
        self._wrong: list[Candidate] = []
        self._postponed: set[int] = set()  # identities of candidates that are hard to prove
        self._stored: StoredSearch | None = None
        self._outcome: SearchOutcome | None = None  # of a search that is whole
        self._stored_verdicts = 0  # of a search that was done before
        self._early: EarlyCompilation | None = None  # where candidates are measured

    def run_measuring(self, backend: Backend, check: ShortlistCheck, executor: Any) -> None:
        """Search, prove what promises most, measure that, and prove the others."""
        costs, background = MeasuredCostModel(Roofline(), backend), backend.background_kernels()
        self._early = EarlyCompilation(costs, background, self._policy)
        try:
            self._run(
                partial(self._calibrate, costs),
                partial(self._explore, executor, TIMES.searching),
                self._prove_promising,
                partial(self._measure, costs, self._early, check),
                self._prove_others,
            )
        finally:
            background.stop()

    def run_estimating(self, executor: Any) -> None:
        """Search, and prove the candidates, the best by estimate first."""
        self._run(partial(self._explore, executor, TIMES.searching_alone), self._prove_all)

    def candidates(self) -> list[Candidate]:
        """Return the candidates that are proven, and the expression as it is."""
        candidates = []
        wrong = set(map(id, self._wrong))
        for estimated in self._estimated():
            candidate = self._proofs.candidate(estimated)
            if candidate is not None and id(candidate) not in wrong:
                candidates.append(candidate)
        return candidates

    def _run(self, *steps: Callable[[], None]) -> None:
        course = self._clock.course
        with course.heard_by(self._listen):
            for step in steps:
                if not self.stats.is_interrupted:
                    self._take(step)
        self._search.keep_as_it_is()
        if self.stats.is_interrupted:
            log.warning("einalg: interrupted; the best that was derived until then is returned")
            self._prove_at_last()
        else:
            self._prove_what_saves_time()
        self._finish()

    def _take(self, step: Callable[[], None]) -> None:
        """Take a step, as far as time allows; a second interrupt is raised."""
        try:
            step()
        except OutOfTime:
            self.stats.is_cut = True
        except KeyboardInterrupt:
            if self.stats.is_interrupted:
                raise
            self._stop("interrupted")

    def _stop(self, reason: str) -> None:
        self.stats.is_cut = self.stats.is_interrupted = True
        self.stats.stopped = self.stats.stopped or reason
        self._clock.stop()

    def _listen(self, course: Course) -> None:
        """Report the phase and the statistics; the one who watches may end it."""
        self.stats.phase, self.stats.phases = course.phase, self._phases()
        if self._progress is None or self.stats.is_interrupted:
            return
        try:
            self._progress(self.stats)
        except StopIteration:
            self._stop("by the one who watched")
            raise OutOfTime from None

    def _phases(self) -> dict[str, float]:
        """Return the seconds of each phase so far."""
        phases = {}
        for name, seconds in self._clock.course.seconds.items():
            spent = seconds - self._before.get(name, 0.0)
            if spent > 0:
                phases[name] = spent
        return phases

    def _finish(self) -> None:
        stats = self.stats
        late = sum(map(self._proofs.is_late, self._estimated()))
        if late:
            stats.rejected[LATE] += late
            stats.unmeasured += late
            stats.is_cut = True
        stats.stopped = stats.stopped or "interrupted"
        stats.phase, stats.phases = "", self._phases()
        stats.seconds = self._clock.now() - self._began
        self._proofs.warn_of_rules()
        self._keep()

    def _keep(self) -> None:
        """Keep a search that took some time on disk, with what was proven."""
        if self._stored is None or self._outcome is None:
            return
        if self.stats.is_known:
            is_worth_it = self._count_verdicts() > self._stored_verdicts
        else:
            is_worth_it = self._phases().get(SEARCHING, 0.0) >= MIN_SECONDS
        if is_worth_it:
            self._stored.keep(self._outcome, self._proofs.verdict, self._proofs.candidate)

    def _count_verdicts(self) -> int:
        collected = self._search.candidates.collected
        return sum(self._proofs.verdict(candidate) is not None for candidate in collected)

    def _calibrate(self, costs: MeasuredCostModel) -> None:
        """Take the rates of this machine; usual ones where there is no time to measure them."""
        clock = self._clock.within(TIMES.calibrating * self._clock.left)
        with clock.phase(MEASURING, "this machine"):
            try:
                with clock.limiting():
                    costs.model = calibrated(costs.backend)
            except OutOfTime:
                if self._clock.is_over:
                    raise
                log.info("einalg: there is no time to measure this machine; usual rates are used")
        self._search.candidates.model = costs.model
        self._stored = StoredSearch(self._search, costs.model)

    def _explore(self, executor: Any, share: float) -> None:
        """Search, or take what the same search has found before."""
        clock = self._clock.within(share * self._clock.left)
        with clock.phase(SEARCHING):
            if self._stored is not None and self._restores:
                verdicts = self._stored.restore()
                if verdicts is not None:
                    self._outcome = SearchOutcome.of(self.stats)
                    self._proofs.restore(verdicts, self._search.candidates.collected)
                    self._stored_verdicts = self._count_verdicts()
                    return
            self._search.explore(clock, self._look, executor)
        if not self.stats.is_cut:
            self._outcome = SearchOutcome.of(self.stats)

    def _look(self, stats: Stats) -> None:
        """Prove the best candidate so far where that takes little, and report how far it is.

        What promises most is compiled meanwhile, where a core is free.
        """
        best = self._search.candidates.best
        if best is not None:
            candidate = self._proven_early(best)
            if candidate is not None:
                self._show(candidate)
        self._compile_early()
        self._clock.course.tell(format_stats(stats))

    def _proven_early(self, estimated: EstimatedCandidate) -> Candidate | None:
        """Return a candidate, proven now where that takes little; None where it is not."""
        if self._proofs.is_open(estimated):
            if id(estimated) in self._postponed or self._is_due(PROVING, TIMES.proving_early):
                return None
            clock = self._clock.within(TIMES.proving_early * self._clock.left)
            with self._clock.phase(PROVING):
                self._proofs.prove([estimated], clock)
            if self._proofs.reopen(estimated):
                self._postponed.add(id(estimated))
        return self._proofs.candidate(estimated)

    def _is_due(self, phase: str, share: float) -> bool:
        """Tell whether a phase has had more than its share of the time so far."""
        spent = self._clock.now() - self._began
        return self._phases().get(phase, 0.0) > share * spent

    def _compile_early(self) -> None:
        """Begin to compile the most promising candidate that is not begun, where a core is free.

        The expression as it is comes second: it is measured in any case.
        """
        early = self._early
        if early is None or not early.is_free or self._is_due(COMPILING, TIMES.compiling_early):
            return
        for candidate in self._wanted_early():
            if not early.has_begun(candidate):
                with self._clock.phase(COMPILING, "while it searches"), self._clock.limiting():
                    early.begin(candidate)
                return

    def _wanted_early(self) -> Iterator[Candidate]:
        """Yield what is measured later, as far as is known now; each is proven when it is due."""
        promising = filter(None, map(self._proven_early, self._promising()))
        for number, candidate in enumerate(promising):
            yield candidate
            if number == 0:
                yield self._original()

    def _show_best(self) -> None:
        self._show(ranked(self.candidates())[0])

    def _show(self, candidate: Candidate) -> None:
        """Tell the best candidate so far."""
        self.stats.best = candidate
        self._clock.course.tell_best(in_words(candidate, self._original()))

    def _original(self) -> Candidate:
        """Return the expression as it is."""
        for estimated in self._search.candidates.collected:
            if not estimated.moves:
                candidate = self._proofs.candidate(estimated)
                assert candidate is not None  # equal to itself
                return candidate
        raise AssertionError("the expression as it is was not collected")

    def _estimated(self) -> list[EstimatedCandidate]:
        """Return the candidates that are followed up: of the derived ones `most`, if given."""
        estimated = self._search.ordered()
        if self._most is None:
            return estimated
        derived = varied([candidate for candidate in estimated if candidate.moves])
        originals = [candidate for candidate in estimated if not candidate.moves]
        return [*derived[: self._most], *originals]

    def _promising(self) -> list[EstimatedCandidate]:
        """Return the candidates that promise most, of those that are not known to be wrong."""
        estimated = self._estimated()
        right = [candidate for candidate in estimated if not self._proofs.is_wrong(candidate)]
        return most_promising(right)[: self._policy.promising]

    def _prove_promising(self) -> None:
        """Prove the candidates that promise most; those in the place of wrong ones too."""
        with self._proving(TIMES.proving) as clock:
            while todo := [c for c in self._promising() if self._proofs.is_open(c)]:
                check_time()
                self._proofs.prove(todo, clock)
            self._show_best()

    def _prove_all(self) -> None:
        with self._proving(1.0) as clock:
            derived = [candidate for candidate in self._estimated() if candidate.moves]
            self._proofs.prove(varied(derived), clock)
            self._show_best()

    def _prove_others(self) -> None:
        with self._proving(TIMES.proving_others) as clock:
            derived = [candidate for candidate in self._estimated() if candidate.moves]
            self._proofs.prove(varied(derived), clock)

    @contextmanager
    def _proving(self, share: float) -> Iterator[Clock]:
        """Give a share of the time that is left to proofs."""
        clock = self._clock.within(share * self._clock.left)
        with clock.phase(PROVING), clock.limiting():
            yield clock

    def _prove_at_last(self) -> None:
        """Prove what promises most though it was interrupted, so that there is an answer."""
        clock = Clock.of(TIMES.at_last, now=self._clock.now)
        derived = [candidate for candidate in self._promising() if candidate.moves]
        self._proofs.prove(derived, clock)

    def _prove_what_saves_time(self) -> None:
        """Prove what promises most though the time is over, where nothing derived is proven, and
        one run of the expression as it is takes longer than the proof may.
        """
        promising = [candidate for candidate in self._promising() if candidate.moves]
        if not promising or any(map(self._proofs.candidate, promising)):
            return
        best = promising[0]
        saved = self._original().cost - best.estimate
        clock = Clock.of(max(TIMES.at_last, self._search.budget.seconds), now=self._clock.now)
        if saved > clock.left:
            self._proofs.reopen(best)
            with self._clock.phase(PROVING, "what saves most"):
                self._proofs.prove([best], clock, WHOLE_TIME)

    def _measure(
        self, costs: MeasuredCostModel, early: EarlyCompilation, check: ShortlistCheck
    ) -> None:
        """Measure the kernels of what promises most, then the best of these as wholes."""
        proven = [self._proofs.candidate(estimated) for estimated in self._promising()]
        promising = [candidate for candidate in proven if candidate is not None]
        kernel_costs = KernelCosts(promising, costs, self._policy, early)
        try:
            kernel_costs.run(self._clock.within(self._policy.max_kernel_share * self._clock.left))
        except OutOfTime:
            self.stats.is_cut = True
            self.stats.unmeasured += len(promising) - len(kernel_costs.measured)
        with self._clock.phase(COMPILING, "what was begun"), self._clock.limiting():
            early.finish()
        shortlist = kernel_costs.shortlist
        check.wrong = self._wrong
        check.run([*shortlist[:1], self._original(), *shortlist[1:]], self._clock)
        if any(candidate.measured for candidate in [*shortlist, self._original()]):
            self._show_best()
