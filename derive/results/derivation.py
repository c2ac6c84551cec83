"""The answer of `einalg.derive`: candidates that were searched, proven, checked and measured
(design §8, §9, §12).
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from derive.cost.accuracy import relative_error, tolerance
from derive.cost.backend import Backend, Runnable
from derive.cost.memory import fits
from derive.cost.model import MeasuredCostModel, Roofline, calibrated, each_run, shares, total
from derive.matching import named, why_not
from derive.proof import prove
from derive.results.candidates import Candidate, Candidates, told
from derive.results.costs import Bar, Costs
from derive.results.history import History, HistoryStep, indented, replay
from derive.results.script import written
from derive.rewriting.moves import Move, Rule
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import (
    Budget,
    EstimatedCandidate,
    Progress,
    Stats,
    kernels_of,
    rules_by_name,
    search,
)
from derive.search.executor import ordered_map
from derive.search.search_tree import SearchNode, SearchTree
from einalg.errors import CodegenError, RecordError, RuleError
from einalg.language.analysis.compile_time import is_weight
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.program_json import program_from_record, program_record
from einalg.storage import record
from einalg.text.wording import counted

log = logging.getLogger("einalg")

KIND = "einalg derivation"
STATISTICS: dict[str, type] = {
    "states": int, "generated": int, "candidates": int, "seconds": float, "duplicates": int, "stopped": str, "first_hit": float,
}  # fmt: skip
Some = TypeVar("Some", Candidate, EstimatedCandidate)
PROMISING = 12  # candidates by estimate, whose kernels are measured one by one
FAR = 2.5  # times the lowest estimate, above which a candidate does not promise anything
TOGETHER = 4  # of them, whose kernels are compiled at once
PROVING = 1.0  # times the seconds of the search, after which no other candidate is proven
MEASURING = (
    2.0  # times the seconds of the search, after which no other candidate's kernels are measured
)
AT_ONCE = 32  # programs that an executor is given to prove before the time is looked at
SHORTLIST = 4  # of these, that are compiled, checked and measured whole
NOISE = 0.03  # relative difference of two measured costs that says nothing
LONGEST = 2.0  # seconds: a candidate that is estimated to run longer is not timed


@dataclass
class Derivation:
    """What a search found for `expression`: `best`, all `candidates` (cheapest first), `stats` of
    the search, and what it `explored`.
    """

    expression: Program
    candidates: Candidates
    stats: Stats
    backend: Backend | None = field(default=None, repr=False)
    explored: list[SearchNode] = field(default_factory=list, repr=False)
    rules: Mapping[str, Rule] = field(
        default_factory=lambda: ALL, repr=False
    )  # by which the moves are replayed

    @property
    def best(self) -> Candidate:
        """The cheapest candidate; leaving the expression as it is counts as one."""
        return self.candidates[0]

    @property
    def original(self) -> Candidate:
        """The expression as it was given."""
        return next(c for c in self.candidates if not c.moves)

    def __str__(self) -> str:
        s, best = self.stats, self.best
        cost = f"cost: {_cost(self.original)} → {_cost(best)}"
        if best is not self.original and best.measured == self.original.measured:
            cost += f"  ({self.original.cost / best.cost:.1f}x)"
        found = (
            f" of {s.candidates + 1} that were found"
            if len(self.candidates) <= s.candidates
            else ""
        )
        ways = f"{counted(s.states, 'state')}, {counted(len(self.candidates), 'candidate')}{found}, {counted(s.duplicates, 'duplicate')}"
        ends = f"{ways} in {s.seconds:.2f} s; stopped: {s.stopped}"
        lines = [
            cost,
            *told(best.kernels),
            f"{counted(len(best.moves), 'move')}, {best.verdict}",
            ends,
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _chosen(self, candidate: Candidate | int | None) -> Candidate:
        if candidate is None or isinstance(candidate, Candidate):
            return candidate or self.best
        if (
            isinstance(candidate, bool)
            or not isinstance(candidate, int)
            or not 0 <= candidate < len(self.candidates)
        ):
            raise RuleError(
                f"there is no candidate {candidate!r}: there are {len(self.candidates)}\n  see d.candidates"
            )
        return self.candidates[candidate]

    def explain(self, candidate: Candidate | int | None = None) -> str:
        """The derivation of a candidate, or of that number, step by step: L-notation, the rule of
        each step, and the kernels at its end.

        Raises `RuleError` where there is no candidate of that number.
        """
        chosen = self._chosen(candidate)
        lines = ["given", indented(self.expression)]
        for number, (move, program) in enumerate(
            zip(chosen.moves, replay(self.expression, chosen.moves, self.rules)), 1
        ):
            card = self.rules[move.rule]
            lines += [f"{number}. {move}", f"   {card.before} ⇒ {card.after}", indented(program)]
        if str(lifted(self.expression)) != str(chosen.program):
            lines += ["as kernels", indented(chosen.program)]
        lines += told(chosen.kernels)
        return "\n".join([*lines, f"verdict: {chosen.verdict}"])

    def plot(self) -> SearchTree:
        """The tree of states that the search kept, as a picture in Jupyter; its `dot` is the text
        for Graphviz.
        """
        return SearchTree(self.explored, self.expression, self.rules)

    def steps(self, candidate: Candidate | int | None = None) -> History:
        """The moves that lead to a candidate (the best by default; or its number), each with its
        program: in Jupyter a proof, read downwards.

        Every program is proven equal to the one before.
        """
        chosen, history = self._chosen(candidate), History(self.expression)
        for move, program in zip(chosen.moves, replay(self.expression, chosen.moves, self.rules)):
            history.steps.append(HistoryStep(move, program, _verdict(history.program, program)))
        return history

    def costs(self, candidates: Sequence[Candidate] | None = None) -> Costs:
        """What candidates cost, kernel by kernel, as bars on one scale: by default the expression
        as it is, and the best that is derived.
        """
        chosen = (
            candidates
            if candidates is not None
            else [self.original, *[c for c in self.candidates if c.moves][:1]]
        )
        return Costs([self._bar(candidate) for candidate in chosen])

    def _bar(self, candidate: Candidate) -> Bar:
        measuring = candidate.measured and self.backend is not None
        model = (
            MeasuredCostModel(calibrated(self.backend), self.backend)
            if measuring and self.backend is not None
            else Roofline()
        )
        title = (
            "as it is" if not candidate.moves else f"after {counted(len(candidate.moves), 'move')}"
        )
        kernels = zip(map(str, candidate.kernels), shares(model, candidate.kernels))
        return Bar(title, candidate.cost, candidate.measured, tuple(kernels))

    def why_not(self, operator: str) -> str:
        """What separates each statement of the expression from an operator, in words; `MatchError`
        for an unknown operator.
        """
        return why_not(self.expression, operator)

    def script(self, candidate: Candidate | int | None = None) -> str:
        """A Python script that makes the expression, applies the moves of a candidate (the best by
        default) and proves the end equal to it.
        """
        return written(self.expression, self._chosen(candidate).moves)

    def save(self, path: Any) -> None:
        """Write expression, candidates (as moves) and statistics as JSON, whole or not at all."""
        rows = [
            {
                "moves": [m.as_record() for m in c.moves],
                "cost": c.cost,
                "verdict": c.verdict,
                "measured": c.measured,
                "error": c.error,
            }
            for c in self.candidates
        ]
        stats = {
            **{name: getattr(self.stats, name) for name in STATISTICS},
            "rejected": dict(self.stats.rejected),
        }
        explored = [row.as_record() for row in self.explored]
        record.write(
            path,
            KIND,
            {
                "expression": program_record(self.expression),
                "candidates": rows,
                "stats": stats,
                "explored": explored,
            },
        )

    @classmethod
    def load(
        cls, path: Any, rules: Mapping[str, Rule] = ALL, backend: Backend | None = None
    ) -> Derivation:
        """Read a derivation and replay the moves of every candidate; `RecordError` where the file
        is broken.
        """
        content = record.read(path, KIND)
        expression = program_from_record(content.get("expression"))
        try:
            candidates = Candidates(
                _loaded(expression, row, rules, backend) for row in content["candidates"]
            )
            stats = _loaded_stats(content["stats"])
            explored = [
                SearchNode.from_record(row) for row in content.get("explored", [])
            ]  # older records have none
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RuleError) as error:
            raise RecordError(f"{path} is damaged: {error}") from None
        if not candidates or not any(not c.moves for c in candidates):
            raise RecordError(f"{path} holds no candidates")
        return cls(expression, candidates, stats, backend, explored, rules)

    def replay(self, candidate: Candidate | int | None = None) -> Program:
        """Apply the moves of a candidate (the best by default; or its number) again, and return the
        flat program that they give.
        """
        chosen = self._chosen(candidate)
        programs = replay(self.expression, chosen.moves, self.rules)
        result = lifted(programs[-1] if programs else self.expression)
        if str(result) != str(chosen.program):
            raise RuleError("the moves give another program than the candidate's")
        return result


def _cost(candidate: Candidate) -> str:
    return f"{candidate.cost * 1e3:.3f} ms{'' if candidate.measured else ' (estimated)'}"


def _loaded_stats(row: Any) -> Stats:
    stats = Stats(
        **{name: kind(row[name]) for name, kind in STATISTICS.items() if row.get(name) is not None}
    )
    stats.rejected.update(
        {str(reason): int(times) for reason, times in row.get("rejected", {}).items()}
    )
    return stats


def _loaded(
    expression: Program, row: Any, rules: Mapping[str, Rule], backend: Backend | None
) -> Candidate:
    moves = tuple(Move.from_record(m) for m in row["moves"])
    programs = replay(expression, moves, rules)
    flat = lifted(programs[-1] if programs else expression)
    error = None if row["error"] is None else float(row["error"])
    return Candidate(
        flat,
        named(kernels_of(flat)),
        moves,
        float(row["cost"]),
        str(row["verdict"]),
        bool(row["measured"]),
        error,
        backend,
    )


def derivation(
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
) -> Derivation:
    """Search, prove the candidates, those that promise most first, then check and measure these.

    Where only so many candidates at `most` are wanted, those that promise less are neither proven
    nor kept; nor are those that the time is not enough for.
    """
    start = as_program(expression)
    searched = rules_by_name(rules)
    model = Roofline() if backend is None or not measure else calibrated(backend)
    found, stats, explored = search(
        start, budget, searched.values(), model, progress, ops=ops, executor=executor, seed=seed
    )
    wanted = (
        found
        if most is None
        else [*_varied([f for f in found if f.moves])[:most], *(f for f in found if not f.moves)]
    )
    began = perf_counter()
    kept = _proven(start, wanted, backend, stats, executor, began + PROVING * budget.seconds)
    if backend is not None and measure:
        chosen, unmeasured = promising(
            kept, MeasuredCostModel(model, backend), began + MEASURING * budget.seconds
        )
        stats.unmeasured += unmeasured
        checked = _checked(
            start, chosen, backend, stats, seed, tolerance(start) if accuracy is None else accuracy
        )
        kept = [*checked, *(c for c in kept if not any(c is other for other in chosen))]
    return Derivation(start, _ranked(kept), stats, backend, explored, {**ALL, **searched})


def promising(
    candidates: Sequence[Candidate], model: MeasuredCostModel, until: float = math.inf
) -> tuple[list[Candidate], int]:
    """The expression as it is and the `SHORTLIST` derived candidates that are cheapest by `model`,
    of those that are by estimate.

    Their costs become those of the model. A candidate that already costs more than `SHORTLIST`
    others is not followed up: what is known of it is its cost. From the time `until` on (of
    `perf_counter`) the model is asked for no other one; the second value counts these.
    """
    ordered = sorted((c for c in candidates if c.moves), key=lambda c: c.cost)
    derived = _varied([c for c in ordered if c.cost <= FAR * ordered[0].cost])[:PROMISING]
    asked = list[Candidate]()
    costs = [math.inf] * SHORTLIST
    for number, candidate in enumerate(derived):
        if asked and perf_counter() > until:
            break
        if number % TOGETHER == 0:
            model.make_ready(
                [
                    kernel
                    for c in derived[number : number + TOGETHER]
                    for kernel in each_run(c.kernels)
                ]
            )
        candidate.cost = total(model, candidate.kernels, costs[SHORTLIST - 1])
        costs = sorted([*costs, candidate.cost])
        asked.append(candidate)
    return [
        *sorted(asked, key=lambda c: c.cost)[:SHORTLIST],
        *(c for c in candidates if not c.moves),
    ], len(derived) - len(asked)


def _varied(ordered: Sequence[Some]) -> list[Some]:
    """The first of every set of operators, then the second of every one, …: an estimate that is
    wrong is wrong for a whole set.

    An operator on tensors as they are given is told from one on tensors that were made for it.
    """
    seen: Counter[Any] = Counter()
    turns = []
    for position, candidate in enumerate(ordered):
        made = {k.output for k in candidate.kernels}
        operators = frozenset(
            (k.op, k.is_eop or made.isdisjoint(k.inputs)) for k in candidate.kernels
        )
        turns.append((seen[operators], position, candidate))
        seen[operators] += 1
    return [candidate for _, _, candidate in sorted(turns, key=lambda turn: turn[:2])]


def _ranked(candidates: Sequence[Candidate]) -> Candidates:
    """Cheapest first, the measured before the estimated; where costs are as good as equal, fewer
    moves first.
    """
    measured = any(c.measured for c in candidates)
    ordered = sorted(candidates, key=lambda c: (measured and not c.measured, c.cost))
    equal = [
        c
        for c in ordered
        if c.measured == ordered[0].measured and c.cost <= ordered[0].cost * (1 + NOISE)
    ]
    return Candidates([*sorted(equal, key=lambda c: len(c.moves)), *ordered[len(equal) :]])


def _proven(
    start: Program,
    found: Sequence[EstimatedCandidate],
    backend: Backend | None,
    stats: Stats,
    executor: Any,
    until: float,
) -> list[Candidate]:
    """The candidates that are equal to the expression, each with its verdict; those that are not,
    or come after the time, are counted.
    """
    derived = _varied([f for f in found if f.moves])
    verdicts = _verdicts(start, [f.program for f in derived], executor, until)
    if late := len(derived) - len(verdicts):
        stats.rejected["not proven in time"] += late
        stats.unmeasured += late
    known = {id(f): verdict for f, verdict in zip(derived, verdicts)}
    kept, wrong = [], Counter[str]()
    for f in found:
        verdict = known.get(id(f)) if f.moves else "proved"
        if verdict == "different":
            stats.rejected["not equal to the original"] += 1
            wrong.update(move.rule for move in f.moves if move.rule not in ALL)
        elif verdict is not None:
            kept.append(
                Candidate(
                    f.program, named(f.kernels), f.moves, f.estimate, verdict, backend=backend
                )
            )
    for name, times in wrong.items():
        log.warning(
            "einalg: %d programs that the rule %r helped to make are not equal to the original; ea.check_rule tests it",
            times,
            name,
        )
    return kept


def _verdicts(
    start: Program, programs: Sequence[Program], executor: Any, until: float
) -> list[str]:
    """The verdicts of the first programs: of one at least, and of no other from the time `until` on
    (of `perf_counter`).
    """
    verdicts = list[str]()
    size = 1 if executor is None else AT_ONCE
    while len(verdicts) < len(programs) and (not verdicts or perf_counter() < until):
        verdicts += ordered_map(
            executor, partial(_verdict, start), programs[len(verdicts) : len(verdicts) + size]
        )
    return verdicts


def _verdict(start: Program, program: Program) -> str:
    return prove(start, program).verdict


def _checked(
    start: Program,
    candidates: list[Candidate],
    backend: Backend,
    stats: Stats,
    seed: int,
    accuracy: float,
) -> list[Candidate]:
    """Candidates whose compiled kernels give what the reference gives, with their measured seconds;
    those are estimated for which memory lacks.
    """
    if min(c.cost for c in candidates) > LONGEST or not fits(start, start):
        return candidates
    arrays = sample_inputs(start, seed)
    expected = backend.reference(start, arrays)
    weights, given = by_role(start, arrays)
    kept, ready = [], []
    for candidate in candidates:
        if candidate.cost <= LONGEST and fits(start, candidate.program):
            runnable = _compiled(candidate, weights, stats)
            if runnable is None:
                continue
            candidate.error = relative_error(expected, runnable(**given), start, arrays)
            if not candidate.error <= accuracy:
                stats.rejected[f"numerical error above {accuracy:.1e}"] += 1
                continue
            ready.append((candidate, runnable))
        kept.append(candidate)
    for (candidate, _), seconds in zip(ready, backend.seconds([r for _, r in ready], given)):
        candidate.cost, candidate.measured = seconds, True
    if not kept:
        whole = not all(map(is_float, {scope.dtype for _, scope in start.statements}))
        remedy = "\n  where integers overflow, give its tensors a wider type" if whole else ""
        raise CodegenError(
            f"no candidate, not even the expression as it is, gives the values of the reference evaluator{remedy}"
        )
    return kept


def _compiled(candidate: Candidate, weights: Mapping[str, Any], stats: Stats) -> Runnable | None:
    """The candidate with the weights bound; None, counted and told, where code generation fails for
    anything but the expression as it is.
    """
    try:
        return candidate.compile().bind(**weights)
    except CodegenError as error:
        if not candidate.moves:
            raise
        log.warning("a candidate is dropped: %s", error)
        stats.rejected["code generation failed"] += 1
        return None


def sample_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Random inputs of the right shapes and dtypes: normal for floats, small for integers."""
    rng = np.random.default_rng(seed)
    return {
        name: _sample(rng, tensor).astype(numpy_dtype(tensor.dtype))
        for name, tensor in program.inputs.items()
    }


def by_role(program: Program, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of a program's weights, and those of its other inputs."""
    weights = {name: array for name, array in arrays.items() if is_weight(program.inputs[name])}
    return weights, {name: array for name, array in arrays.items() if name not in weights}


def _sample(rng: np.random.Generator, tensor: Tensor) -> np.ndarray[Any, Any]:
    if is_float(tensor.dtype):
        return rng.standard_normal(
            tensor.shape, np.float64 if tensor.dtype == "f64" else np.float32
        )
    low, high = {"b": (0, 2), "u": (0, 5)}.get(tensor.dtype[0], (-4, 5))
    return rng.integers(low, high, tensor.shape)
