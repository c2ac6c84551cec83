"""`ea.substitutions.generate`: the rules between programs of few operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from derive.results.progress import shown_progress
from derive.substitutions.generation.checkpoint import VerdictFile
from derive.substitutions.generation.judging import Judgement, PairJudge
from derive.substitutions.generation.programs.enumeration import ProgramEnumeration
from derive.substitutions.generation.programs.growing import (
    GoesOn,
    SpaceGrowth,
    grow,
    grow_last,
)
from derive.substitutions.generation.programs.inputs import (
    default_inputs,
    shapes_of,
    sizes_of_numbers,
    with_numbers,
)
from derive.substitutions.generation.programs.joint_programs import (
    JointEnumeration,
    ValuedPrograms,
)
from derive.substitutions.generation.programs.operators import operators_of
from derive.substitutions.generation.programs.space import AppliedNode, ClassId, ProgramSpace
from derive.substitutions.generation.report import (
    GeneratedRules,
    GenerationReport,
    SizeReport,
)
from derive.substitutions.generation.rewriting import (
    LeafRequirement,
    Rewriting,
    requirements,
)
from derive.substitutions.generation.rules import named
from derive.substitutions.generation.terms import ProgramPair, common_parts, is_in_order, pair_of
from einalg.options import (
    EXECUTOR,
    NEW_FILE,
    PROGRESS,
    SECONDS,
    SEED,
    checked,
    optional,
    whole,
)
from einalg.runtime.clock import PROVING, SEARCHING, Clock

MAX_SIZE = 6
MAX_OUTPUTS = 2
NOTHING = frozenset[ClassId]()
SHARE_OF_SEARCH = 0.5  # of the time that is left, before the proofs of a size


@checked(
    size=whole(1, MAX_SIZE),
    outputs=whole(1, MAX_OUTPUTS),
    seconds=SECONDS,
    seed=SEED,
    progress=PROGRESS,
    executor=EXECUTOR,
    checkpoint=optional(NEW_FILE),
)
def generate(
    operators: Iterable[Any],
    inputs: Any = None,
    *,
    size: int = 3,
    outputs: int = 2,
    seconds: float = 60.0,
    seed: int = 0,
    progress: Any = None,
    executor: Any = None,
    checkpoint: Any = None,
) -> GeneratedRules:
    """Find the rules between programs of at most `size` operators, and prove them for all sizes.

    `operators` are names, those of rule files (`"matmul"`) or of `ea.ops` (`"softmax"`), and
    functions of tensors, each alone or with lists of values for its parameters: `("concat",
    {"axis": [0, 1]})`. `inputs` are shapes, by names or as a list: of numbers, or of names of sizes
    where functions are to be proved for more than equal numbers; by default three of each shape
    that the operators read. Programs are evaluated modulo a random prime, drawn by `seed`; two that
    agree are a candidate. Left out is what is a renaming of another pair, what has a part in common
    in whose place any tensor may be, and what follows from the rules before it; the rest is proved,
    where needed under a condition that is inferred, as by `verify`.

    With two `outputs` there are also rules from two programs to two that share work, and so compute
    less: two products with one input are the parts of one with the others joined.

    The search takes about `seconds` at most; what it has then is returned, and its report says that
    it is not complete. Proofs are computed by an `executor` where one is given. With a path as
    `checkpoint`, verdicts are kept there, and a second call with it does not prove them again.
    `progress=True` shows what is done; a function is called with the report so far.

    Raises `UseError` for an operator or an input that is none.

    >>> import einalg as ea
    >>> found = ea.substitutions.generate(["relu", "transpose"], size=2)
    >>> print("\\n".join(found.texts))
    transpose(transpose(x1, perm=(1, 0)), perm=(1, 0)) => x1
    relu(relu(x1)) => relu(x1)
    transpose(relu(x1), perm=(1, 0)) => relu(transpose(x1, perm=(1, 0)))
    >>> found.report.total("enumerated"), len(found)
    (20, 3)
    """
    search = searched(
        operators, inputs, size, seconds, outputs, seed, progress, executor, checkpoint
    )
    return search.result()


def searched(
    operators: Any,
    inputs: Any,
    size: int,
    seconds: float,
    outputs: int = MAX_OUTPUTS,
    seed: int = 0,
    progress: Any = None,
    executor: Any = None,
    checkpoint: Any = None,
) -> RuleSearch:
    """Return a search that is done, with the space of its programs; as `generate` does it."""
    items = list(operators) if not isinstance(operators, str) else operators
    shapes = default_inputs(items) if inputs is None else shapes_of(inputs)
    numbers = with_numbers(shapes)
    space = ProgramSpace(operators_of(items, numbers), numbers, seed)
    clock = Clock.of(seconds)
    names = sizes_of_numbers(shapes)
    with shown_progress(progress, clock, "substitutions") as listener:
        verdicts = VerdictFile(checkpoint)
        judge = PairJudge(space.operators, names, executor, verdicts)
        search = RuleSearch(space, judge, clock, listener, outputs)
        try:
            search.run(size)
        finally:
            verdicts.write()
    return search


class _Candidate(NamedTuple):
    """Programs of values, and with those that stand for these as a pair."""

    programs: ValuedPrograms
    pair: ProgramPair


@dataclass(frozen=True)
class _Task:
    """The statement of a candidate, and a more general one where its sides have parts in common."""

    candidate: _Candidate
    general: ProgramPair | None

    @property
    def pairs(self) -> list[ProgramPair]:
        pairs = [self.candidate.pair]
        return pairs if self.general is None else [self.general, *pairs]


class RuleSearch:
    """A search for rules, size by size."""

    def __init__(
        self, space: ProgramSpace, judge: PairJudge, clock: Clock, listener: Any, outputs: int
    ) -> None:
        self.space, self.judge, self.clock, self.listener = space, judge, clock, listener
        self.outputs = outputs
        self.commutative: set[int] = set()
        self.rewriting = Rewriting(space, self.commutative)
        self.enumeration = ProgramEnumeration(space, self.commutative)
        self.joint = JointEnumeration(space)
        self.sizes: list[SizeReport] = []
        self.is_complete = True
        self._holds: dict[Any, bool] = {}  # what is known of pairs, by their keys
        self._proved: list[Judgement] = []
        self._refused: list[Judgement] = []

    def run(self, size: int) -> None:
        """Look at the programs of all sizes up to one, smaller ones first."""
        for current in range(1, size + 1):
            self.sizes.append(SizeReport(current))
            self.rewriting.size = current
            with self.clock.course.during(SEARCHING, f"size {current}", self.clock.now):
                growth = self._grow(current, is_last=current == size)
                self._count(
                    enumerated=growth.enumerated,
                    distinct=growth.distinct,
                    candidates=len(growth.repeated),
                )
                candidates = self._candidates(growth)
                self._count(after_renaming=len(candidates))
            with self.clock.course.during(PROVING, f"size {current}", self.clock.now):
                self._prove(candidates)
            if self.is_complete and self.outputs > 1:
                self._join(growth, current)
            if not self.is_complete:
                return

    def _join(self, growth: SpaceGrowth, size: int) -> None:
        """Look at the pairs of programs that share work, of so many operations."""
        with self.clock.course.during(SEARCHING, f"two outputs, size {size}", self.clock.now):
            self.joint.add(growth.repeated)
            goes_on = self._goes_on(f"two outputs, size {size}")
            pairs = list(self.joint.pairs(size, goes_on))
            if not pairs:
                return
            candidates = self._unknown(pairs)
            report = SizeReport(size, outputs=2, enumerated=len(pairs), candidates=len(pairs))
            self.sizes.append(report)
            self._count(after_renaming=len(candidates))
        with self.clock.course.during(PROVING, f"two outputs, size {size}", self.clock.now):
            self._prove(candidates)

    def result(self) -> GeneratedRules:
        rules = []
        verdicts = []
        for number, judged in enumerate(self._proved, start=1):
            assert judged.rule is not None
            rules.append(named(judged.rule, str(number)))
            verdicts.append(replace(judged.verdict, rule=str(number)))
        return GeneratedRules(
            tuple(rules),
            tuple(verdicts),
            tuple([judged.text for judged in self._proved]),
            tuple([(judged.text, judged.verdict) for judged in self._refused]),
            self.report(),
        )

    def report(self) -> GenerationReport:
        return GenerationReport(tuple(self.sizes), self.clock.spent, self.is_complete)

    def _count(self, **numbers: int) -> None:
        """Set numbers of the present size."""
        self.sizes[-1] = replace(self.sizes[-1], **numbers)
        if self.listener is not None:
            self.listener(self.report())

    def _grow(self, size: int, is_last: bool) -> SpaceGrowth:
        grown = grow_last if is_last else grow
        return grown(self.enumeration, size, self._goes_on(f"size {size}"))

    def _goes_on(self, words: str) -> GoesOn:
        """Return a function that is told how many programs are looked at next, and says whether
        there is time for them: there is a share of what is left now.
        """
        clock = self.clock.within(SHARE_OF_SEARCH * self.clock.left)
        total = 0

        def goes_on(count: int) -> bool:
            nonlocal total
            total += count
            self.clock.course.tell(f"{words}, {total:,} programs")
            if clock.is_over:
                self.is_complete = False
            return not clock.is_over

        return goes_on

    def _candidates(self, growth: SpaceGrowth) -> list[_Candidate]:
        """Return the pairs that differ by more than names, the most general ones first."""
        programs = []
        for node, place in growth.repeated:
            if self._is_first_of_renamings(node, place):
                programs.append(ValuedPrograms((node,), (place,)))
        return self._unknown(programs)

    def _unknown(self, programs: Iterable[ValuedPrograms]) -> list[_Candidate]:
        """Return pairs of which nothing is known, of several that differ by names one, the most
        general ones first.
        """
        candidates: list[_Candidate] = []
        met = set[ProgramPair]()
        for one in programs:
            pair = self._pair(one)
            if pair in met:
                continue
            met.add(pair)
            key = self._key(pair)
            if key not in self._holds:
                self._holds[key] = False
                candidates.append(_Candidate(one, pair))
        return sorted(candidates, key=lambda candidate: _generality(candidate.pair))

    def _pair(self, programs: ValuedPrograms, cut: frozenset[ClassId] = NOTHING) -> ProgramPair:
        """Return programs and those that stand for their values as a pair: one program leads to the
        smaller one, several to those that share work.
        """
        sides = [programs.nodes, programs.places]
        if len(programs.nodes) > 1:
            sides = sides[::-1]
        return pair_of(self.space, sides[0], sides[1], cut)

    def _is_first_of_renamings(self, node: AppliedNode, place: ClassId) -> bool:
        """Return whether a side uses inputs in their order; of each pair, some renaming has one."""
        for leaves in (self.space.leaves_of(node.inputs), self.space.classes[place].leaves):
            if is_in_order(leaves, self.space.inputs):
                return True
        return False

    def _key(self, pair: ProgramPair) -> tuple[Any, tuple[LeafRequirement, ...]]:
        return pair.graph, requirements(pair.graph, pair.shapes)

    def _prove(self, candidates: Sequence[_Candidate]) -> None:
        """Have proved what does not follow from what is proved already."""
        tasks: list[_Task] = []
        common = derivable = 0
        for place, candidate in enumerate(candidates):
            general = self._general(candidate)
            if general is not None and self._holds.get(self._key(general)):
                common += 1
                self._follows(candidate)
            elif self._is_derivable(candidate):
                derivable += 1
            else:
                tasks.append(_Task(candidate, general))
            after_common = len(candidates) - common
            self._count(after_common_parts=after_common, after_derivable=after_common - derivable)
            if len(tasks) >= self.judge.batch or place == len(candidates) - 1:
                derivable += self._settle(tasks)
                tasks = []
                self._count(after_derivable=after_common - derivable)
            if self.clock.is_over:
                self.is_complete = False
                return

    def _general(self, candidate: _Candidate) -> ProgramPair | None:
        """Return a pair with leaves in the places of what both sides compute; None where they
        compute nothing both.
        """
        cut = common_parts(self.space, *candidate.programs)
        return self._pair(candidate.programs, cut) if cut else None

    def _is_derivable(self, candidate: _Candidate) -> bool:
        if not self.rewriting.follows(*candidate.programs):
            return False
        self._follows(candidate)
        return True

    def _follows(self, candidate: _Candidate) -> None:
        self._holds[self._key(candidate.pair)] = True
        self.rewriting.connect(*candidate.programs)

    def _settle(self, tasks: Sequence[_Task]) -> int:
        """Have tasks judged, and add what is proved; return how many are derivable by others of
        them.
        """
        derivable = 0
        judgements = self.judge.judgements([task.pairs for task in tasks])
        for task, judged in zip(tasks, judgements):
            if self._is_derivable(task.candidate):
                derivable += 1
            elif judged.is_proved:
                self._accept(task.candidate, judged)
            else:
                self._refused.append(judged)
                self.rewriting.refuse(task.candidate.programs.nodes)
                self._count(refused=self.sizes[-1].refused + 1)
        return derivable

    def _accept(self, candidate: _Candidate, judged: Judgement) -> None:
        self._proved.append(judged)
        self._holds[self._key(judged.pair)] = True
        self._follows(candidate)
        self.rewriting.add(judged.pair.graph, judged.requirements)
        self._note_commutative(candidate)
        report = self.sizes[-1]
        conditional = report.under_conditions + (judged.verdict.condition is not None)
        self._count(proved=report.proved + 1, under_conditions=conditional)

    def _note_commutative(self, candidate: _Candidate) -> None:
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


def _generality(pair: ProgramPair) -> tuple[int, int, int]:
    """Return what orders pairs: those of few operations first, then those of many leaves, each read
    once.
    """
    graph = pair.graph
    readings = [source for side in graph.sides for one in side for source in one.inputs]
    leaves = len(graph.leaves)
    return len(graph.before) + len(graph.after), -leaves, len(readings)
