"""`ea.substitutions.generate`: the rules between programs of few operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from derive.results.progress import shown_progress
from derive.substitutions.generation.checkpoint import VerdictFile
from derive.substitutions.generation.judging import PairJudge
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
from derive.substitutions.generation.proving import RuleCandidate, RuleProofs, pair_of_values
from derive.substitutions.generation.report import (
    GeneratedRules,
    GenerationReport,
    SizeReport,
)
from derive.substitutions.generation.rules import named
from derive.substitutions.generation.terms import ProgramPair, is_in_order
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
from einalg.runtime.garbage import with_few_full_collections

MAX_SIZE = 6
MAX_OUTPUTS = 2
SHARE_OF_SEARCH = 0.5  # of the time that is left, before the proofs of a size
# Seconds for a proof: few at first, then more for what is left when all others are tried.
FIRST_PROOF_SECONDS, LATER_PROOF_SECONDS = 0.1, (0.5, 2.0, 8.0, 32.0, 128.0)


@checked(
    size=whole(1, MAX_SIZE),
    outputs=whole(1, MAX_OUTPUTS),
    seconds=SECONDS,
    seed=SEED,
    progress=PROGRESS,
    executor=EXECUTOR,
    checkpoint=optional(NEW_FILE),
)
@with_few_full_collections
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


@with_few_full_collections
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


class RuleSearch:
    """A search for rules, size by size."""

    def __init__(
        self, space: ProgramSpace, judge: PairJudge, clock: Clock, listener: Any, outputs: int
    ) -> None:
        self.space, self.clock, self.listener, self.outputs = space, clock, listener, outputs
        self.proofs = RuleProofs(space, judge, clock)
        self.enumeration = ProgramEnumeration(space, self.proofs.commutative)
        self.joint = JointEnumeration(space)
        self.sizes: list[SizeReport] = []
        self.is_complete = True

    def run(self, size: int) -> None:
        """Look at the programs of all sizes up to one, smaller ones first."""
        for current in range(1, size + 1):
            self.sizes.append(SizeReport(current))
            self.proofs.rewriting.size = current
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
        for number, judged in enumerate(self.proofs.proved, start=1):
            assert judged.rule is not None
            rules.append(named(judged.rule, str(number)))
            verdicts.append(replace(judged.verdict, rule=str(number)))
        return GeneratedRules(
            tuple(rules),
            tuple(verdicts),
            tuple([judged.text for judged in self.proofs.proved]),
            tuple([(judged.text, judged.verdict) for judged in self.proofs.refused]),
            self.report(),
        )

    def report(self) -> GenerationReport:
        unused = tuple(self.space.unused_operators())
        return GenerationReport(tuple(self.sizes), self.clock.spent, self.is_complete, unused)

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

    def _candidates(self, growth: SpaceGrowth) -> list[RuleCandidate]:
        """Return the pairs that differ by more than names, the most general ones first."""
        programs = []
        for node, place in growth.repeated:
            if self._is_first_of_renamings(node, place):
                programs.append(ValuedPrograms((node,), (place,)))
        return self._unknown(programs)

    def _unknown(self, programs: Iterable[ValuedPrograms]) -> list[RuleCandidate]:
        """Return pairs of which nothing is known, of several that differ by names one, the most
        general ones first.
        """
        candidates: list[RuleCandidate] = []
        met = set[ProgramPair]()
        for one in programs:
            pair = pair_of_values(self.space, one)
            if pair in met:
                continue
            met.add(pair)
            if self.proofs.is_new(pair):
                candidates.append(RuleCandidate(one, pair))
        return sorted(candidates, key=lambda candidate: _generality(candidate.pair))

    def _is_first_of_renamings(self, node: AppliedNode, place: ClassId) -> bool:
        """Return whether a side uses inputs in their order; of each pair, some renaming has one."""
        for leaves in (self.space.leaves_of(node.inputs), self.space.classes[place].leaves):
            if is_in_order(leaves, self.space.inputs):
                return True
        return False

    def _prove(self, candidates: Sequence[RuleCandidate]) -> None:
        if not self.proofs.prove(candidates, self._count):
            self.is_complete = False


def _generality(pair: ProgramPair) -> tuple[int, int, int]:
    """Return what orders pairs: those of few operations first, then those of many leaves, each read
    once.
    """
    graph = pair.graph
    readings = [source for side in graph.sides for one in side for source in one.inputs]
    leaves = len(graph.leaves)
    return len(graph.before) + len(graph.after), -leaves, len(readings)
