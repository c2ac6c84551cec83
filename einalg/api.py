"""The public functions that need derivation and code generation: the one module that composes the three packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

from derive import derivation as _derivation
from derive import session as _session
from derive.custom import RuleReport, check_rule, rule
from derive.history import History
from derive.matching import Distance, distance_to, spellings
from derive.moves import Move, Rule
from derive.progress import shown
from derive.proof import Proof, prove
from derive.search import Budget
from einalg.errors import DeviceError, NotationError
from einalg.kernel import Kernel
from einalg.program import Program, as_program, in_double

TARGETS = ("cpu", "cuda")
_REPEATS = 5  # at least; more until `_SECONDS` are spent
_SECONDS = 0.1


class _Machine:
    """Compiles and times with `codegen`, on this machine, for `target` unless asked for another."""

    def __init__(self, target: str = "cpu"):
        self.target = target

    def compile(self, program: Program, kernels: Sequence[Kernel], target: str | None = None) -> Any:
        from codegen.compiled import compile_program

        return compile_program(program, kernels, _target(target or self.target))

    def kernel_seconds(self, kernel: Kernel) -> float:
        """The median time of one kernel by itself."""
        from codegen.measuring import kernel_seconds

        return kernel_seconds(kernel, self.target)

    def rates(self) -> dict[str, float]:
        """What the roofline model needs to know of this machine."""
        from codegen.measuring import rates

        return rates(self.target)

    def identity(self) -> str:
        """What measurements depend on besides the kernel."""
        from codegen.measuring import identity

        return identity(self.target)

    def seconds(self, runnables: Sequence[Any], arrays: Mapping[str, Any]) -> list[float]:
        """The median of several runs of each, in turns, after a first one; on a device, without the way there and back."""
        if self.target == "cuda":
            return [sum(runnable.time(_REPEATS, **arrays).values()) for runnable in runnables]
        spent: list[list[float]] = [[] for _ in runnables]
        for runnable in runnables:
            runnable(**arrays)
        began = perf_counter()
        while runnables and (len(spent[0]) < _REPEATS or (perf_counter() - began < _SECONDS * len(runnables) and len(spent[0]) < 100)):
            for times, runnable in zip(spent, runnables):
                start = perf_counter()
                runnable(**arrays)
                times.append(perf_counter() - start)
        return [median(times) for times in spent]

    def reference(self, program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs computed in double precision, as they are written."""
        from einalg.execute import execute

        return execute(in_double(program), arrays)


def _target(target: str) -> str:
    if target not in TARGETS:
        raise DeviceError(f"there is no target {target!r}\n  use one of: {', '.join(TARGETS)}")
    return target


def _require_device(target: str) -> None:
    """`DeviceError` where nothing can be measured for a target."""
    if target == "cuda":
        from codegen.cuda_driver import find_driver

        find_driver()


class Derivation(_derivation.Derivation):
    """What `derive` found: `best`, `candidates`, `stats`, `explain()`, `why_not(operator)`, `save(path)`, `replay()`."""

    @classmethod
    def load(cls, path: Any, rules: Iterable[Rule] = (), backend: Any = None) -> Derivation:  # type: ignore[override]
        """Read a saved derivation and replay its moves. Raises `RecordError` where the file is broken."""
        from derive.rules import ALL

        loaded = super().load(path, {**ALL, **{r.name: r for r in rules}}, backend or _Machine())
        return cls(loaded.expression, loaded.candidates, loaded.stats, loaded.backend, loaded.explored)


class Session(_session.Session):
    __doc__ = _session.Session.__doc__

    def __init__(self, expr: Any, rules: Iterable[Rule] = (), **parts: Any):
        super().__init__(expr, tuple(rules), **{"backend": _Machine(), "search": derive, **parts})


def derive(
    expr: Any,
    target: str = "cpu",
    depth: int = Budget.depth,
    states: int = Budget.states,
    seconds: float = Budget.seconds,
    seed: int = 0,
    rules: Iterable[Rule] | None = None,
    progress: Callable[[Any], None] | bool | None = None,
    measure: bool = True,
    ops: Sequence[str] | None = None,
    executor: Any = None,
    accuracy: float | None = None,
) -> Derivation:
    """Search for equal programs that run faster, prove them, check them numerically, and measure them (EinNet §4–§5).

    `expr` is a scope or a program. The budgets are moves in a row (`depth`), expanded `states` and `seconds`; `seed` decides
    the inputs of the check. `rules` replaces the rules that are searched (see `einalg.rule`), `ops` names the operators to look
    for (all by default). `progress=True` shows a bar (log lines where tqdm is not installed); a function is called with the
    statistics after every state. `executor` computes elsewhere: anything with the `submit` of `concurrent.futures.Executor`.

    The values of a candidate may differ from the reference by `accuracy`, relative to the largest element: by default 1e-4 for
    f32, 1e-10 for f64, 2e-2 for f16, 5e-2 for bf16, nothing for integers. What depends on weights alone (`role="weight"`) is
    computed once, when they are bound (`candidate.compile().bind(K=...)`), and costs nothing. With `measure=False` nothing is
    compiled or checked numerically, and candidates are ranked by the estimate.

    Raises `NotationError` for anything but an expression, `DeviceError` for an unknown target or
    a device that is missing, `MatchError` for an unknown operator.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8)), measure=False)
    >>> {c.verdict for c in d.candidates}
    {'proved'}
    """
    _target(target)
    if depth < 0 or states < 0 or seconds < 0:
        raise NotationError("depth, states and seconds are budgets: give numbers from 0")
    if accuracy is not None and not accuracy >= 0:
        raise NotationError(f"accuracy is a relative error from 0, not {accuracy!r}")
    budget = Budget(depth=depth, states=states, seconds=seconds)
    if measure:
        _require_device(target)
    with shown(progress, budget) as told:
        found = _derivation.derivation(expr, budget, rules, _Machine(target), seed, told, measure, accuracy, executor, ops)
    return Derivation(found.expression, found.candidates, found.stats, found.backend, found.explored)


def distance(expr: Any, operator: str) -> Distance:
    """The expression distance from an operator (design §7): a number, 0 exactly when `expr` is one, with its `reasons`.

    Of a program, what is nearest counts: a statement, or one with those that only it reads. Raises `MatchError` for an operator that has no template.

    >>> import einalg as ea
    >>> conv = ea.parse("O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1]*K[f,c,r]", A=(1, 8, 16), K=(4, 8, 3))
    >>> ea.distance(conv, "conv1d")
    0: it is a conv1d
    >>> ea.distance(conv, "matmul")
    6 from a matmul:
      - the subscript h + r - 1 of A is not a bare index
    """
    return min(distance_to(scope, operator) for scope in spellings(as_program(expr)))


__all__ = ["Derivation", "History", "Move", "Proof", "Rule", "RuleReport", "Session", "check_rule", "derive", "distance", "prove", "rule"]
