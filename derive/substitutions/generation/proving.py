"""Which candidates are rules: what is proved, the easy proofs first, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from derive.substitutions.generation.judging import Judgement, PairJudge
from derive.substitutions.generation.programs.joint_programs import ValuedPrograms
from derive.substitutions.generation.programs.space import ClassId, ProgramSpace
from derive.substitutions.generation.rewriting import LeafRequirement, Rewriting, requirements
from derive.substitutions.generation.terms import ProgramPair, common_parts, pair_of
from derive.substitutions.graphs.graph import RuleGraph
from einalg.runtime.clock import Clock

# Seconds for a proof: few at first where there are many, then more for what is left when all others
# are tried.
FEWEST_SECONDS, LATER_SECONDS = 0.1, (0.5, 2.0, 8.0, 32.0, 128.0)
Count = Callable[..., None]  # is told numbers of a size by their names


class RuleCandidate(NamedTuple):
    """Programs of values, and with those that stand for these as a pair."""

    programs: ValuedPrograms
    pair: ProgramPair


def pair_of_values(
    space: ProgramSpace, programs: ValuedPrograms, cut: frozenset[ClassId] = frozenset()
) -> ProgramPair:
    """Return programs and those that stand for their values as a pair: one program leads to the
    smaller one, several to those that share work.
    """
    sides = [programs.nodes, programs.places]
    if len(programs.nodes) > 1:
        sides = sides[::-1]
    return pair_of(space, sides[0], sides[1], cut)


class ProofTask(NamedTuple):
    """The statement of a candidate, and a more general one where its sides have parts in common."""

    candidate: RuleCandidate
    general: ProgramPair | None

    @property
    def pairs(self) -> list[ProgramPair]:
        pairs = [self.candidate.pair]
        return pairs if self.general is None else [self.general, *pairs]


@dataclass
class ProofCounts:
    """The numbers of some candidates, as in a report of a size."""

    after_common_parts: int
    after_derivable: int
    proved: int = 0
    under_conditions: int = 0
    refused: int = 0


class RuleProofs:
    """What is known of pairs of programs of a space. `commutative` has the operators, by places, of
    which a rule says that the order of their inputs does not matter.
    """

    def __init__(self, space: ProgramSpace, judge: PairJudge, clock: Clock) -> None:
        self.space, self.judge, self.clock = space, judge, clock
        self.commutative: set[int] = set()
        self.rewriting = Rewriting(space, self.commutative)
        self.proved: list[Judgement] = []
        self.refused: list[Judgement] = []
        self._holds: dict[Any, bool] = {}  # what is known of pairs, by their keys
        self._hard: dict[RuleGraph, float] = {}  # what is undecided, and the seconds it was given

    def is_new(self, pair: ProgramPair) -> bool:
        """Return whether nothing was known of a pair, which is then looked at."""
        key = _key(pair)
        if key in self._holds:
            return False
        self._holds[key] = False
        return True

    def prove(self, candidates: Sequence[RuleCandidate], count: Count) -> bool:
        """Have proved what does not follow from what is proved already. Return whether there was
        the time for all.
        """
        counts = ProofCounts(len(candidates), len(candidates))
        tasks: list[ProofTask] = []
        undecided: list[ProofTask] = []
        seconds = max(FEWEST_SECONDS, self.clock.left / max(1, len(candidates)))
        for place, candidate in enumerate(candidates):
            general = self._general(candidate)
            if general is not None and self._holds.get(_key(general)):
                counts.after_common_parts -= 1
                counts.after_derivable -= 1
                self._follows(candidate)
            elif self._is_derivable(candidate):
                counts.after_derivable -= 1
            else:
                tasks.append(ProofTask(candidate, general))
            if len(tasks) >= self.judge.batch or place == len(candidates) - 1:
                undecided += self._settle(tasks, seconds, counts)
                tasks = []
            count(**asdict(counts))
            if self.clock.is_over:
                return False
        limits = [seconds, *[limit for limit in LATER_SECONDS if limit > seconds]]
        return self._prove_later(undecided, limits, counts, count)

    def _prove_later(
        self,
        undecided: Sequence[ProofTask],
        limits: Sequence[float],
        counts: ProofCounts,
        count: Count,
    ) -> bool:
        """Go on with what is undecided after the first of some limits, with the later ones; refuse
        what is left.
        """
        for seconds in limits[1:]:
            tasks, undecided = undecided, []
            for task in tasks:
                if self._is_derivable(task.candidate):
                    counts.after_derivable -= 1
                else:
                    undecided += self._settle([task], seconds, counts)
                count(**asdict(counts))
                if self.clock.is_over:
                    return False
        for task in undecided:
            self._refuse(task, self.judge.undecided(task.candidate.pair, limits[-1]), counts)
        count(**asdict(counts))
        return True

    def _general(self, candidate: RuleCandidate) -> ProgramPair | None:
        """Return a pair with leaves in the places of what both sides compute; None where they
        compute nothing both.
        """
        cut = common_parts(self.space, *candidate.programs)
        return pair_of_values(self.space, candidate.programs, cut) if cut else None

    def _is_derivable(self, candidate: RuleCandidate) -> bool:
        if not self.rewriting.follows(*candidate.programs):
            return False
        self._follows(candidate)
        return True

    def _follows(self, candidate: RuleCandidate) -> None:
        self._holds[_key(candidate.pair)] = True
        self.rewriting.connect(*candidate.programs)

    def _settle(
        self, tasks: Sequence[ProofTask], seconds: float, counts: ProofCounts
    ) -> list[ProofTask]:
        """Have tasks judged, each in some seconds, and add what is proved; return what is not
        decided. Where that is so for a rule at some kernels, it is not tried at others.
        """
        undecided: list[ProofTask] = []
        tried: list[ProofTask] = []
        for task in tasks:
            is_hard = self._hard.get(task.candidate.pair.graph, 0.0) >= seconds
            (undecided if is_hard else tried).append(task)
        limit = min(seconds, self.clock.left)
        judgements = self.judge.judgements([task.pairs for task in tried], limit)
        for task, judged in zip(tried, judgements):
            if self._is_derivable(task.candidate):
                counts.after_derivable -= 1
            elif judged.is_proved:
                self._accept(task.candidate, judged, counts)
            elif judged.is_undecided:
                self._hard[task.candidate.pair.graph] = seconds
                undecided.append(task)
            else:
                self._refuse(task, judged, counts)
        return undecided

    def _refuse(self, task: ProofTask, judged: Judgement, counts: ProofCounts) -> None:
        self.refused.append(judged)
        self.rewriting.refuse(task.candidate.programs.nodes)
        counts.refused += 1

    def _accept(self, candidate: RuleCandidate, judged: Judgement, counts: ProofCounts) -> None:
        self.proved.append(judged)
        self._holds[_key(judged.pair)] = True
        self._follows(candidate)
        self.rewriting.add(judged.pair.graph, judged.requirements)
        self._note_commutative(candidate)
        counts.proved += 1
        counts.under_conditions += judged.verdict.condition is not None

    def _note_commutative(self, candidate: RuleCandidate) -> None:
        """Read pairs in one order only where a rule says that the order does not matter."""
        node, *others = candidate.programs.nodes
        other = self.space.classes[candidate.programs.places[0]].node
        if (
            others
            or other is None
            or (other.operator, other.output) != (node.operator, node.output)
        ):
            return
        one, two = candidate.pair.graph.before, candidate.pair.graph.after
        if len(one) == len(two) == 1 and node.inputs == other.inputs[::-1] != other.inputs:
            self.commutative.add(node.operator)


def _key(pair: ProgramPair) -> tuple[Any, tuple[LeafRequirement, ...]]:
    return pair.graph, requirements(pair.graph, pair.shapes)
