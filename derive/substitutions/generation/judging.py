"""Verdicts on pairs of programs: of a checkpoint, or of proofs, which an executor may compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from derive.proof.outcome.verdict import PROVED, UNKNOWN
from derive.search.executor import ordered_map
from derive.substitutions.generation.checkpoint import VerdictFile
from derive.substitutions.generation.programs.operators import OperatorChoice
from derive.substitutions.generation.rewriting import LeafRequirement, requirements, taps_text
from derive.substitutions.generation.rules import (
    input_shapes,
    numbers_text,
    rules_of,
    undecided_in,
    verdict_of,
)
from derive.substitutions.generation.terms import ProgramPair
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.language.index.size import Size

BATCH = 16  # pairs that an executor verifies at a time


class Judgement(NamedTuple):
    """A pair, the rule that states it, and its verdict."""

    pair: ProgramPair
    rule: Substitution | None
    verdict: RuleVerdict

    @property
    def is_proved(self) -> bool:
        return self.verdict.verdict == PROVED

    @property
    def is_undecided(self) -> bool:
        """Whether the time was over before there was a verdict."""
        return self.verdict.verdict == UNKNOWN

    @property
    def is_unconditional(self) -> bool:
        return self.verdict.is_unconditional

    @property
    def requirements(self) -> tuple[LeafRequirement, ...]:
        """What the proof says of the leaves: their sizes may be any where it is for all sizes."""
        shapes: Sequence[Sequence[int | Size]] = self.pair.shapes
        is_of_all_sizes = self.is_unconditional and not self.verdict.coverage
        if self.rule is not None and self.rule.graph is None and is_of_all_sizes:
            shapes = input_shapes(self.rule)
        return requirements(self.pair.graph, shapes)

    @property
    def text(self) -> str:
        """The pair, with the sizes of its inputs that are numbers."""
        pair = self.pair
        sizes = taps_text(pair.graph, requirements(pair.graph, pair.shapes))
        if self.rule is not None and self.rule.graph is None:
            sizes = numbers_text(self.rule)
        return f"{pair} ({sizes})" if sizes else str(pair)


class PairJudge:
    """Has pairs of programs proved, of some operators, whose numbers stand for sizes."""

    def __init__(
        self,
        operators: Sequence[OperatorChoice],
        sizes: Mapping[int, Any],
        executor: Any,
        checkpoint: VerdictFile,
    ) -> None:
        self.operators, self.sizes = operators, sizes
        self.executor, self.checkpoint = executor, checkpoint
        self._judged: dict[ProgramPair, Judgement] = {}

    @property
    def batch(self) -> int:
        """The number of statements that are judged at a time."""
        return 1 if self.executor is None else BATCH

    def judgements(
        self, statements: Sequence[Sequence[ProgramPair]], seconds: float
    ) -> Iterator[Judgement]:
        """Yield, for each statement, which is written as pairs, the more general ones first: the
        verdict on the first pair that is proved without a condition, else on the last one. Each
        rule is given some seconds.
        """
        undecided = {}
        if self.executor is not None:
            pairs = [pair for pairs in statements for pair in pairs]
            undecided = self._prove_all(pairs, seconds)
        for pairs in statements:
            yield self._first_unconditional(pairs, seconds, undecided)

    def _first_unconditional(
        self,
        pairs: Sequence[ProgramPair],
        seconds: float,
        undecided: Mapping[ProgramPair, Judgement],
    ) -> Judgement:
        judgements = [undecided.get(pairs[0]) or self._judgement(pairs[0], seconds)]
        for pair in pairs[1:]:
            if not judgements[-1].is_unconditional:
                judgements.append(undecided.get(pair) or self._judgement(pair, seconds))
        return judgements[-1]

    def undecided(self, pair: ProgramPair, seconds: float) -> Judgement:
        """Return the verdict on a pair that is not decided in some seconds."""
        return self._of(pair, 0, undecided_in(seconds))

    def _prove_all(
        self, pairs: Sequence[ProgramPair], seconds: float
    ) -> dict[ProgramPair, Judgement]:
        """Have the executor prove what is not known; return what is undecided then."""
        unknown = [pair for pair in dict.fromkeys(pairs) if self._known(pair) is None]
        rules = [self._rules(pair) for pair in unknown]
        decide = partial(verdict_of, seconds=seconds)
        undecided = {}
        for pair, (place, verdict) in zip(unknown, ordered_map(self.executor, decide, rules)):
            judgement = self._put(pair, place, verdict)
            if judgement.is_undecided:
                undecided[pair] = judgement
        return undecided

    def _judgement(self, pair: ProgramPair, seconds: float) -> Judgement:
        known = self._known(pair)
        if known is None:
            known = self._put(pair, *verdict_of(self._rules(pair), seconds))
        return known

    def _known(self, pair: ProgramPair) -> Judgement | None:
        if pair not in self._judged:
            verdict = self.checkpoint.get(pair)
            if verdict is None:
                return None
            self._judged[pair] = self._of(pair, 0, verdict)
        return self._judged[pair]

    def _put(self, pair: ProgramPair, place: int, verdict: RuleVerdict) -> Judgement:
        """Keep a verdict, for what is decided."""
        judgement = self._of(pair, place, verdict)
        if judgement.is_undecided:
            return judgement
        self.checkpoint.put(pair, verdict)
        return self._judged.setdefault(pair, judgement)

    def _of(self, pair: ProgramPair, place: int, verdict: RuleVerdict) -> Judgement:
        rules = self._rules(pair)
        return Judgement(pair, rules[place] if rules else None, verdict)

    def _rules(self, pair: ProgramPair) -> list[Substitution]:
        return rules_of(pair, self.operators, self.sizes)
