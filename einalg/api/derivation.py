"""`einalg.derive`: search for equal programs that run faster, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.measure.baselines import OURS, as_written
from derive.cost.accuracy import relative_error
from derive.cost.backend import BACKEND
from derive.results.derivation import SearchResult
from derive.results.history import History
from derive.results.pipeline import find_derivation
from derive.results.progress import shown_progress
from derive.results.sample_inputs import by_role, sample_inputs
from derive.results.timings import Timing, Timings
from derive.rewriting.moves import Rule
from derive.rules import ALL
from derive.search.best_first import OPERATOR_NAMES, RULE_LIST, Budget
from einalg.api.backend import TARGET, LocalBackend, require_device
from einalg.boundary import public
from einalg.language.notation.text_arguments import reads_text
from einalg.options import (
    ACCURACY,
    EXECUTOR,
    FLAG,
    PATH,
    PROGRESS,
    SECONDS,
    SEED,
    checked,
    optional,
    whole,
)
from einalg.runtime.clock import Clock
from einalg.runtime.garbage import with_few_full_collections
from einalg.text.wording import AS_WRITTEN, counted


@public
class Derivation(SearchResult):
    """The result of `derive`: `best`, all `candidates` (cheapest first), and `stats` of the search.

    `explain()` tells a candidate's moves, `plot()` draws what was tried, `why_not(operator)` says
    what separates the expression from an operator; `script()` is Python that derives a candidate
    again; `save(path)` and `Derivation.load(path)` keep it in a file, and `replay()` applies the
    moves again.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8)),
    ...               measure=False)
    >>> d.best.verdict, d.best.cost <= d.original.cost
    ('proved', True)
    >>> d.replay() == d.best.program
    True
    """

    @classmethod
    @checked(path=PATH, rules=RULE_LIST, backend=optional(BACKEND))
    def load(  # type: ignore[override]
        cls, path: Any, rules: Iterable[Rule] = (), backend: Any = None
    ) -> Derivation:
        """Read a saved derivation and replay its moves.

        Raises `RecordError` where the file is broken.
        """
        by_name = {**ALL, **{rule.name: rule for rule in rules}}
        loaded = super().load(path, by_name, backend or LocalBackend())
        return cls._of(loaded)

    @classmethod
    def _of(cls, result: SearchResult) -> Derivation:
        return cls(
            result.expression,
            result.candidates,
            result.stats,
            result.backend,
            result.explored,
            result.rules,
        )

    @checked(most=whole())
    def compare(self, most: int = 3) -> Timings:
        """Time the expression as it is written and its `most` best candidates.

        As it is written it is compiled like every candidate; beside that it runs by NumPy, as
        generated loops, and by each library that has its operators. The ways run in turns, on the
        same random inputs, with weights given ahead; shown are the shortest time, the median, and
        the speed with its range. torch takes part where the program has imported it. What takes
        longer than a second is run few times. Raises `DeviceError` where the derivation's device is
        missing.

        >>> import einalg as ea
        >>> d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), states=2)
        >>> ways = {timing.way for timing in d.compare()}
        >>> {"numpy", "generated C", "as it is written"} <= ways
        True
        """
        target = getattr(self.backend, "target", "cpu")
        require_device(target)
        alternatives = [*self._baselines(target), *self._compiled_candidates(most)]
        arrays = sample_inputs(self.expression)
        weights, inputs = by_role(self.expression, arrays)
        backend = LocalBackend(target)
        expected = backend.reference(self.expression, arrays)
        runs = [alternative.run.bind(**weights) for alternative in alternatives]
        errors = []
        for run in runs:
            errors.append(relative_error(expected, run(**inputs), self.expression, arrays))
        measured = backend.measure(runs, inputs)
        timings = []
        for alternative, measurement, error in zip(alternatives, measured, errors, strict=True):
            timings.append(Timing(alternative.name, measurement, error, alternative.operators))
        return Timings(timings)

    def _baselines(self, target: str) -> list[_Alternative]:
        original = self.original
        alternatives = []
        for name, run in as_written(original.program, original.kernels, target).items():
            operators = () if name in OURS else original.operators
            alternatives.append(_Alternative(name, run, operators))
        return alternatives

    def _compiled_candidates(self, limit: int) -> list[_Alternative]:
        alternatives = []
        for number, candidate in enumerate(self.candidates):
            if candidate is self.original:
                name = AS_WRITTEN
            elif number < limit:
                name = f"candidate {number}, {counted(len(candidate.moves), 'move')}"
            else:
                continue
            alternatives.append(_Alternative(name, candidate.compile(), candidate.operators))
        return alternatives


@dataclass(frozen=True)
class _Alternative:
    """One way to run an expression: its name, what runs, and the library operators in it."""

    name: str
    run: Any
    operators: tuple[str, ...]


@reads_text("expr")
@checked(
    target=TARGET,
    depth=whole(),
    states=whole(),
    seconds=SECONDS,
    seed=SEED,
    rules=optional(RULE_LIST),
    progress=PROGRESS,
    measure=FLAG,
    ops=optional(OPERATOR_NAMES),
    executor=EXECUTOR,
    accuracy=ACCURACY,
    memory=optional(whole()),
)
@with_few_full_collections
def derive(  # noqa: PLR0913, PLR0917 - every option of a search
    expr: Any,
    target: str = "cpu",
    depth: int = Budget.depth,
    states: int = Budget.states,
    seconds: float = Budget.seconds,
    seed: int = 0,
    rules: Iterable[Rule | str] | None = None,
    progress: Callable[[Any], None] | bool | None = None,
    measure: bool = True,
    ops: Sequence[str] | None = None,
    executor: Any = None,
    accuracy: float | None = None,
    memory: int | None = None,
    **tensors: Any,
) -> Derivation:
    """Search for equal programs that run faster, prove, check and measure them (EinNet §4–§5).

    The result holds all candidates, the fastest first. Ctrl-C returns the best so far; pressed a
    second time, it raises `KeyboardInterrupt`.

    - `expr`: a scope, a program, or text with the shapes of its tensors by name, as for
      `einalg.parse`: `derive(text, A=(8, 16))`.
    - `target`: `"cpu"` or `"cuda"`.
    - `depth`, `states`: how many moves in a row are tried, and the moves of how many expressions.
    - `seconds`: the time for the whole, which is search, proofs, compilation and measuring. The
      most promising candidates come first. Where none is proven by then, and one run of the
      expression as it is would take longer, the best has as much time again for its proof.
    - `ops`: the operators to look for, by name; all by default.
    - `rules`: the rules to search with, as names or as rules of your own (see `einalg.rule`).
      `[*einalg.rules, mine]` adds one to the usual ones.
    - `measure=False`: nothing is compiled or run; candidates are ranked by an estimate.
    - `accuracy`: how far the values of a candidate may be from the reference, relative to the
      largest element that is computed (the fill of a mask does not count). By default 1e-4 for f32,
      1e-10 for f64, 2e-2 for f16, 5e-2 for bf16, and 0 for integers. From 1/1024 on, the tensor
      cores of a GPU multiply f32 too, with 10 bits of each factor.
    - `memory`: how many bytes a candidate may hold between its statements. Products of many tensors
      are then contracted in orders whose intermediate results fit; where none does, an index is cut
      in ranges that run one after the other. The expression as it is stays a candidate.
    - `seed`: decides the inputs on which values are compared.
    - `progress`: by default a line shows in terminals and notebooks what is being done and the best
      so far. True logs such lines anywhere, False shows nothing. A function is called with the
      statistics after every state and at every phase; it ends the derivation by `StopIteration`.
    - `executor`: does the work elsewhere; anything with the `submit` of
      `concurrent.futures.Executor`.

    What depends on weights alone (`role="weight"`) is computed once, when they are bound
    (`candidate.compile().bind(K=...)`), so a candidate's time does not contain it.

    Raises `NotationError` for anything but an expression, `UseError` for an option of a wrong kind,
    `DeviceError` for a target that is unknown or missing, `MatchError` for an unknown operator, and
    `RuleError` for an unknown rule.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8)),
    ...               measure=False)
    >>> {c.verdict for c in d.candidates}
    {'proved'}
    """
    budget = Budget(depth=depth, states=states, seconds=seconds, memory=memory)
    if measure:
        require_device(target)
    clock = Clock.of(seconds)
    with shown_progress(progress, clock, "derive") as on_state:
        result = find_derivation(
            expr,
            budget,
            rules,
            LocalBackend(target, accuracy),
            seed,
            on_state,
            measure,
            accuracy,
            executor,
            ops,
            clock=clock,
        )
    return Derivation._of(result)


__all__ = ["Derivation", "History", "derive"]
