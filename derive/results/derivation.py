"""The answer of `einalg.derive`: candidates that were searched, proven, checked and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from derive.cost.backend import Backend
from derive.cost.model import (
    CostModel,
    MeasuredCostModel,
    Roofline,
    calibrated,
    measured_rates,
    seconds_by_kernel,
)
from derive.cost.roofline_table import Roof, RooflineRow, RooflineTable
from derive.cost.work import work_of_each_run
from derive.matching import kernels_of, why_not, with_operator_names
from derive.proof import prove
from derive.results.candidates import (
    Candidate,
    Candidates,
    format_kernels,
    summarize_operators,
)
from derive.results.costs import Bar, Costs
from derive.results.history import History, HistoryStep, replay
from derive.results.script import ExplainedStep, Explanation, python_script
from derive.rewriting.moves import Move, Rule
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.candidates import Stats
from derive.search.search_tree import SearchNode, SearchTree
from einalg.boundary import public
from einalg.errors import CodegenError, MatchError, RecordError, RuleError, without_remedy
from einalg.language.ir.program import Program
from einalg.language.notation.program_json import program_from_record, program_record
from einalg.options import (
    NEW_FILE,
    checked,
    either,
    instance_of,
    optional,
    several,
    shown,
    text,
    whole,
)
from einalg.runtime.clock import phases_in_words
from einalg.runtime.measurement import Measurement
from einalg.storage import record
from einalg.text.terminal import fitted
from einalg.text.wording import AS_WRITTEN, counted, milliseconds

KIND = "einalg derivation"
STATISTICS: dict[str, type] = {
    "states": int,
    "generated": int,
    "candidates": int,
    "seconds": float,
    "duplicates": int,
    "stopped": str,
    "first_hit": float,
}
CANDIDATE = instance_of(Candidate, "a candidate", "see d.candidates", RuleError)
CHOICE = optional(either(CANDIDATE, whole(None)))  # a candidate, or its number
CANDIDATES = optional(several(CANDIDATE, "a list of candidates", "e.g. {name}=d.candidates[:3]"))
BROKEN = (KeyError, TypeError, AttributeError, ValueError, OverflowError, RuleError)


@public
@dataclass
class SearchResult:
    """The result of a search for `expression`: `best`, all `candidates` (cheapest first), `stats`.

    `explored` are the states that it kept, and `rules` those by which moves are replayed.
    """

    expression: Program
    candidates: Candidates
    stats: Stats
    backend: Backend | None = field(default=None, repr=False)
    explored: list[SearchNode] = field(default_factory=list, repr=False)
    rules: Mapping[str, Rule] = field(default_factory=lambda: ALL, repr=False)

    @property
    def best(self) -> Candidate:
        """The cheapest candidate; leaving the expression as it is counts as one."""
        return self.candidates[0]

    @property
    def original(self) -> Candidate:
        """The expression as it is written. Raises `CodegenError` where it is no candidate, because
        its code does not give the values of the reference evaluator.
        """
        original = self._as_written()
        if original is None:
            raise CodegenError(
                "the code of the expression as it is written does not give the values of the "
                "reference evaluator\n  compile d.best, or compute it with einalg.evaluate"
            )
        return original

    def _as_written(self) -> Candidate | None:
        return next((candidate for candidate in self.candidates if not candidate.moves), None)

    def __str__(self) -> str:
        return fitted("\n".join(self._lines()))

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        best, stats = self.best, self.stats
        yield self._gain()
        yield from format_kernels(best.kernels)
        yield f"{counted(len(best.moves), 'move')}, {best.verdict}"
        candidates = counted(len(self.candidates), "candidate")
        if len(self.candidates) <= stats.candidates:
            candidates += f" of {stats.candidates + 1} that were found"
        states, duplicates = counted(stats.states, "state"), counted(stats.duplicates, "duplicate")
        if stats.is_known:
            states += " (searched before)"
        yield f"{states}, {candidates}, {duplicates}; stopped: {stats.ending}"
        yield _time(stats)

    def _gain(self) -> str:
        """Return what the best candidate costs, and how much faster it is than the expression."""
        best, original = self.best, self._as_written()
        if original is None:
            return f"cost: {_cost(best)}; as it is written, its code gives other values"
        cost = f"cost: {_cost(original)} → {_cost(best)}"
        if best is original:
            return cost
        comparison = best.compared(original)
        if comparison is not None:
            return f"{cost}, {comparison.text(f'the speed {AS_WRITTEN}')}"
        if best.measured == original.measured:
            ratio = original.cost / best.cost
            return f"{cost}, by estimate {ratio:.1f}x the speed {AS_WRITTEN}"
        return cost

    def _candidate(self, candidate: Candidate | int | None) -> Candidate:
        """Return a candidate, that of a number, or the best one."""
        if candidate is None:
            return self.best
        if isinstance(candidate, Candidate):
            return candidate
        count = len(self.candidates)
        if not 0 <= candidate < count:
            raise RuleError(
                f"there is no candidate {shown(candidate)}: there are {count}\n  see d.candidates"
            )
        return self.candidates[candidate]

    @checked(candidate=CHOICE)
    def explain(self, candidate: Candidate | int | None = None) -> Explanation:
        """Return the derivation of a candidate, or of that number, step by step.

        It is a text: each step is shown in L-notation with its rule, the last one with the kernels.
        In Jupyter it is mathematics, with what each step changes marked. Raises `RuleError` where
        there is no candidate of that number.
        """
        chosen = self._candidate(candidate)
        programs = replay(self.expression, chosen.moves, self.rules)
        steps = []
        for move, program in zip(chosen.moves, programs, strict=True):
            steps.append(ExplainedStep(move, self.rules[move.rule], program))
        return Explanation.of(self.expression, steps, chosen, _time(self.stats))

    def plot(self) -> SearchTree:
        """Return the tree of states that the search kept: in Jupyter a picture.

        It opens at the way to the best candidate, which comes first. Its `dot` is the text for
        Graphviz.
        """
        return SearchTree(self.explored, self.expression, self.rules, self.best.moves)

    @checked(candidate=CHOICE)
    def steps(self, candidate: Candidate | int | None = None) -> History:
        """Return the moves that lead to a candidate, each with its program.

        The candidate is the best one by default, or that of a number. In Jupyter this is a proof,
        read downwards: every program is proven equal to the one before.
        """
        chosen, history = self._candidate(candidate), History(self.expression)
        for move, program in zip(chosen.moves, replay(self.expression, chosen.moves, self.rules)):
            verdict = prove(history.program, program).verdict
            history.steps.append(HistoryStep(move, program, verdict))
        return history

    @checked(candidates=CANDIDATES)
    def costs(self, candidates: Sequence[Candidate] | None = None) -> Costs:
        """Return what candidates cost, kernel by kernel, as bars on one scale.

        By default these are the expression as it is written, and the best that is derived.
        """
        if candidates is None:
            derived = [candidate for candidate in self.candidates if candidate.moves]
            candidates = [self.original, *derived[:1]]
        return Costs([self._bar(candidate) for candidate in candidates])

    def _bar(self, candidate: Candidate) -> Bar:
        model: CostModel = Roofline()
        if candidate.measured and self.backend is not None:
            model = MeasuredCostModel(calibrated(self.backend), self.backend)
        return candidate_bar(candidate, seconds_by_kernel(model, candidate.kernels))

    @checked(candidates=CANDIDATES)
    def roofline(self, candidates: Sequence[Candidate] | None = None) -> RooflineTable:
        """Return the work of candidates (all by default), and how near they come to the roofline.

        That is the least time that the machine's peak of arithmetic and its bandwidth of memory
        allow. Both are measured once, within a second or so; where no candidate was measured, those
        of a usual machine stand for them. The rows are in FLOP, bytes and seconds.

        >>> import einalg as ea
        >>> d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), measure=False)
        >>> row = d.roofline().rows[0]
        >>> row.work.flops, row.work.bytes
        (120, 188)
        """
        chosen = self.candidates if candidates is None else candidates
        rates = None
        if self.backend is not None and any(candidate.measured for candidate in chosen):
            rates = measured_rates(self.backend)
        return roofline_table(self, chosen, Roof.of(rates))

    @checked(operator=text("matmul", MatchError))
    def why_not(self, operator: str) -> str:
        """Say what separates each statement of the expression from an operator.

        Raises `MatchError` for an unknown operator.
        """
        return why_not(self.expression, operator)

    @checked(candidate=CHOICE)
    def script(self, candidate: Candidate | int | None = None) -> str:
        """Return Python that applies the moves of a candidate (the best by default).

        It makes the expression, and proves the end equal to it.
        """
        return python_script(self.expression, self._candidate(candidate).moves)

    @checked(candidate=CHOICE)
    def replay(self, candidate: Candidate | int | None = None) -> Program:
        """Apply the moves of a candidate again, and return the flat program that they give.

        The candidate is the best one by default, or that of a number.
        """
        chosen = self._candidate(candidate)
        result = _after(self.expression, chosen.moves, self.rules)
        if str(result) != str(chosen.program):
            raise RuleError("the moves give another program than the candidate's")
        return result

    @checked(path=NEW_FILE)
    def save(self, path: Any) -> None:
        """Write expression, candidates (as moves) and statistics as JSON, whole or not at all."""
        stats = {name: getattr(self.stats, name) for name in STATISTICS}
        content = {
            "expression": program_record(self.expression),
            "candidates": [_candidate_record(candidate) for candidate in self.candidates],
            "stats": {
                **stats,
                "rejected": dict(self.stats.rejected),
                "phases": dict(self.stats.phases),
            },
            "explored": [row.as_record() for row in self.explored],
        }
        record.write(path, KIND, content)

    @classmethod
    def load(
        cls, path: Any, rules: Mapping[str, Rule] = ALL, backend: Backend | None = None
    ) -> SearchResult:
        """Read a derivation and replay the moves of every candidate.

        Raises `RecordError` where the file is broken.
        """
        content = record.read(path, KIND)
        expression = program_from_record(content.get("expression"))
        try:
            candidates = Candidates()
            for row in content["candidates"]:
                candidates.append(_candidate_from_record(expression, row, rules, backend))
            stats = _stats_from_record(content["stats"])
            nodes = content.get("explored", [])  # older records have none
            explored = [SearchNode.from_record(row) for row in nodes]
        except BROKEN as error:
            raise RecordError(f"{path} is damaged: {without_remedy(error)}") from None
        if all(candidate.moves for candidate in candidates):
            raise RecordError(f"{path} holds no candidates")
        return cls(expression, candidates, stats, backend, explored, rules)


def candidate_bar(candidate: Candidate, seconds: Sequence[float]) -> Bar:
    """Return the cost of a candidate, divided by the seconds of its kernels."""
    title = AS_WRITTEN
    if candidate.moves:
        title = f"after {counted(len(candidate.moves), 'move')}"
    kernels = tuple(zip(map(str, candidate.kernels), seconds, strict=True))
    return Bar(title, candidate.cost, candidate.measured, kernels)


def roofline_table(
    result: SearchResult, candidates: Sequence[Candidate], roof: Roof
) -> RooflineTable:
    """Return the work of some candidates of a result below a roof that is known."""
    numbers = {id(candidate): number for number, candidate in enumerate(result.candidates)}
    rows = []
    for position, candidate in enumerate(candidates):
        row = RooflineRow(
            numbers.get(id(candidate), position),
            summarize_operators(candidate.operators),
            tuple(work_of_each_run(candidate.kernels)),
            candidate.cost,
            candidate.measured,
            roof,
        )
        rows.append(row)
    return RooflineTable(rows, roof)


def _time(stats: Stats) -> str:
    """Return how long the whole took, and its phases: `2.0 s: searching 1.5 s, proving 0.5 s`."""
    whole = f"{stats.seconds:.2f} s"
    if not stats.phases:
        return whole
    return f"{whole}: {phases_in_words(stats.phases)}"


def _cost(candidate: Candidate) -> str:
    if candidate.measured:
        return milliseconds(candidate.cost)
    return f"{milliseconds(candidate.cost)} (estimated)"


def _after(expression: Program, moves: Sequence[Move], rules: Mapping[str, Rule]) -> Program:
    """Return the flat program after all moves."""
    programs = replay(expression, moves, rules)
    return lifted(programs[-1] if programs else expression)


def _stats_from_record(row: Any) -> Stats:
    stats = Stats()
    for name, kind in STATISTICS.items():
        if row.get(name) is not None:
            setattr(stats, name, kind(row[name]))
    for phase, seconds in row.get("phases", {}).items():  # older records have none
        stats.phases[str(phase)] = float(seconds)
    for reason, times in row.get("rejected", {}).items():
        stats.rejected[str(reason)] += int(times)
    return stats


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    return {
        "moves": [move.as_record() for move in candidate.moves],
        "cost": candidate.cost,
        "verdict": candidate.verdict,
        "measured": candidate.measured,
        "error": candidate.error,
        "measurement": candidate.measurement and candidate.measurement.as_record(),
    }


def _candidate_from_record(
    expression: Program, row: Any, rules: Mapping[str, Rule], backend: Backend | None
) -> Candidate:
    moves = tuple(Move.from_record(move) for move in row["moves"])
    program = _after(expression, moves, rules)
    error = None if row["error"] is None else float(row["error"])
    return Candidate(
        program,
        with_operator_names(kernels_of(program)),
        moves,
        float(row["cost"]),
        str(row["verdict"]),
        bool(row["measured"]),
        error,
        backend,
        Measurement.from_record(row.get("measurement")),  # older records have none
        expression,
    )
