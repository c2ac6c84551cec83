"""The public functions that need derivation and code generation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from time import perf_counter
from types import MappingProxyType
from typing import Any

from codegen.measure.baselines import OURS, as_written
from codegen.measure.diagnostics import facts
from codegen.targets.onnx import onnx_model
from derive import programs as _optimizer
from derive.cost.accuracy import relative_error
from derive.interactive import session as _session
from derive.matching import Distance, distance_to, spellings
from derive.matching.mapping_table import mapping_table
from derive.proof import Proof, prove
from derive.results import derivation as _derivation
from derive.results.history import History
from derive.results.progress import shown, shown_layers
from derive.results.timings import Timing, Timings
from derive.rewriting.moves import Move, Rule
from derive.rewriting.user_rules import RuleReport, check_rule, rule
from derive.rules import ALL
from derive.search.best_first import Budget
from einalg.api.backend import LocalBackend, require_device, require_target
from einalg.api.interactive.panel import SessionPanel
from einalg.api.interactive.show import bundle
from einalg.api.models import Network, bound, network, plain, signature_of
from einalg.errors import NotationError, RecordError
from einalg.frontends.graph import Graph
from einalg.frontends.random_inputs import drawn_arrays
from einalg.language.ir.program import as_program, of_expressions
from einalg.runtime.timing import is_slower
from einalg.storage.atomic_file import write_whole
from einalg.text.wording import counted

rules: Mapping[str, Rule] = MappingProxyType(ALL)  # by name, each with its card
_LOG = logging.getLogger("einalg")


class Derivation(_derivation.Derivation):
    """What `derive` found: `best`, all `candidates` (cheapest first), and `stats` of the search.

    `explain()` tells a candidate's moves, `plot()` draws what was tried, `why_not(operator)` says what separates the expression from an
    operator; `script()` is Python that derives a candidate again; `save(path)` and `Derivation.load(path)` keep it in a file, and
    `replay()` applies the moves again.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8)), measure=False)
    >>> d.best.verdict, d.best.cost <= d.original.cost
    ('proved', True)
    >>> d.replay() == d.best.program
    True
    """

    @classmethod
    def load(cls, path: Any, rules: Iterable[Rule] = (), backend: Any = None) -> Derivation:  # type: ignore[override]
        """Read a saved derivation and replay its moves. Raises `RecordError` where the file is broken."""
        loaded = super().load(
            path, {**ALL, **{r.name: r for r in rules}}, backend or LocalBackend()
        )
        return cls(
            loaded.expression,
            loaded.candidates,
            loaded.stats,
            loaded.backend,
            loaded.explored,
            loaded.rules,
        )

    def compare(self, most: int = 3) -> Timings:
        """How fast the expression runs here as it is written, by NumPy, as generated loops and by each library that has its operators, and
        how fast as its `most` best candidates: medians of runs in turns, on the same random inputs, weights given ahead.

        torch takes part where the program has imported it. What takes longer than a second is run twice. Raises `DeviceError` where the
        derivation's device is missing.

        >>> import einalg as ea
        >>> d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), states=2)
        >>> {"numpy", "generated C", "candidate 0, as it is"} <= {timing.way for timing in d.compare()}
        True
        """
        target, original = getattr(self.backend, "target", "cpu"), self.original
        require_device(target)
        plain = as_written(original.program, original.kernels, target)
        ways = {
            name: (run, () if name in OURS else original.operators) for name, run in plain.items()
        }
        ways |= {
            f"candidate {k}, {counted(len(c.moves), 'move') if c.moves else 'as it is'}": (
                c.compile(),
                c.operators,
            )
            for k, c in enumerate(self.candidates[:most])
        }
        arrays = _derivation.sample_inputs(self.expression)
        weights, given = _derivation.by_role(self.expression, arrays)
        runs = [run.bind(**weights) for run, _ in ways.values()]
        expected = LocalBackend(target).reference(self.expression, arrays)
        errors = [relative_error(expected, run(**given), self.expression, arrays) for run in runs]
        seconds = LocalBackend(target).seconds_of_all(runs, given)
        return Timings(
            Timing(name, s, e, ops)
            for (name, (_, ops)), s, e in zip(ways.items(), seconds, errors, strict=True)
        )


class Session(_session.Session):
    __doc__ = _session.Session.__doc__

    def __init__(self, expr: Any, rules: Iterable[Rule | str] | Rule | str = (), **parts: Any):
        super().__init__(
            as_program(expr), rules, **{"backend": LocalBackend(), "search": derive, **parts}
        )

    @cached_property
    def panel(self) -> SessionPanel:
        """What the widget shows and does, without one."""
        return SessionPanel(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return bundle(self.panel)


@of_expressions
def derive(
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
) -> Derivation:
    """Search for equal programs that run faster, prove them, check them numerically, and measure them (EinNet §4–§5).

    `expr` is a scope or a program; text is read by `einalg.parse`. The budgets are moves in a row (`depth`), expanded `states` and
    `seconds`; within as many seconds again candidates are proven, and within as many again measured, those that promise most first.
    `seed` decides the inputs of the check. `rules` replaces the rules that are searched: rules of your own (see `einalg.rule`) and
    names of known ones, so that `[*einalg.rules, mine]` adds one. `ops` names the operators to look for (all by default). `progress=True` shows a
    bar (log lines where tqdm is not installed); a function is called with the statistics after every state. `executor` computes elsewhere:
    anything with the `submit` of `concurrent.futures.Executor`.

    The values of a candidate may differ from the reference by `accuracy`, relative to the largest element that is computed (the fill of a mask
    is not): by default 1e-4 for f32, 1e-10 for f64, 2e-2 for f16, 5e-2 for bf16, nothing for integers. From 1/1024 on, the tensor cores
    of a GPU multiply f32 too, with 10 bits of each factor. What depends on weights alone (`role="weight"`) is
    computed once, when they are bound (`candidate.compile().bind(K=...)`), and costs nothing. With `measure=False` nothing is
    compiled or checked numerically, and candidates are ranked by the estimate.

    Raises `NotationError` for anything but an expression, `DeviceError` for an unknown target or
    a device that is missing, `MatchError` for an unknown operator, `RuleError` for an unknown rule.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8)), measure=False)
    >>> {c.verdict for c in d.candidates}
    {'proved'}
    """
    require_target(target)
    if accuracy is not None and not accuracy >= 0:
        raise NotationError(f"accuracy is a relative error from 0, not {accuracy!r}")
    budget = Budget(depth=depth, states=states, seconds=seconds)
    if measure:
        require_device(target)
    with shown(progress, budget) as told:
        found = _derivation.derivation(
            expr,
            budget,
            rules,
            LocalBackend(target, accuracy),
            seed,
            told,
            measure,
            accuracy,
            executor,
            ops,
        )
    return Derivation(
        found.expression, found.candidates, found.stats, found.backend, found.explored, found.rules
    )


class Optimized(_optimizer.OptimizedNetwork):
    """What `optimize` gives: call it like the model; `report` says what was done, `parts` and `opaque` hold it.

    The framework goes on running the model where it is faster (`is_original`, `times`).

    >>> import numpy as np
    >>> import einalg as ea
    >>> o = ea.optimize(ea.parse("O[i] = 2*Max(A[i], 0)", A=(4,)), {"A": np.ones(4)}, seconds=1)
    >>> o(np.array([-1, 0, 1, 2]))
    array([0., 0., 2., 4.], dtype=float32)
    >>> [part.verdict for part in o.parts.values()], o.opaque
    (['proved'], [])
    """

    def __init__(
        self, made: _optimizer.OptimizedNetwork, model: Network | None = None, target: str = "cpu"
    ):
        super().__init__(made.graph, made.parts, made.seconds)
        self._call: Callable[..., Any] = (model.around if model else plain)(
            super().__call__, self.direct()
        )
        self._bound: Callable[..., Any] = (
            model.bound if model else partial(bound, signature_of(made.graph))
        )
        self.is_original, self.target = False, target
        if model and model.itself:
            self._compare(model, model.itself, made)

    def _compare(
        self, model: Network, itself: Callable[..., Any], made: _optimizer.OptimizedNetwork
    ) -> None:
        """Time the model in its framework too, and let that run it where it is faster."""
        arguments, named = model.examples
        before, now = (partial(way, *arguments, **named) for way in (itself, self._call))
        self.times = LocalBackend().seconds_of_both(
            before, now, f"{model.framework} {made.key}", made.is_known
        )
        if self.times is not None and is_slower(self.times[1], self.times[0]):
            what = "einalg: the model is not faster than in its framework (%.3f ms, %.3f ms), which goes on running it"
            _LOG.warning(what, *(1e3 * seconds for seconds in reversed(self.times)))
            self.is_original, self._call = True, itself

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The model's result for inputs in order or by name: tensors for a torch module, arrays for anything else.

        Raises `ShapeError` for inputs of another number or shape.
        """
        if named:
            inputs, named = self._bound(inputs, named)
        return self._call(*inputs, **named)

    def save(self, path: Any, language: str | None = None) -> None:
        """Write the network into a new folder: programs, weights, the report, and the generated sources (in the target's language).

        `Optimized.load` runs it without torch and ONNX, as a function of arrays. Raises `RecordError` where something stays a call of the
        framework, or the folder holds anything already; then nothing is written.
        """
        super().save(path, language or ("cuda" if self.target == "cuda" else "c"))

    def to_onnx(self, path: Any) -> None:
        """Write the network as an ONNX model (opset 18), which any runtime of ONNX runs; needs the package onnx.

        Inputs and outputs are called as in the model. Kernels that ONNX has an operator for are that operator, and what einalg generates
        code for is written with element-wise ones: the values are the same, the speed is that of the runtime. What runs sample by sample is a
        `Scan`. What depends on weights alone is computed now. The file is written whole or not at all. Raises `RecordError` where something
        stays a call of the framework or the file cannot be written, `CodegenError` for a function that ONNX has not.

        >>> o.to_onnx("optimized.onnx")  # doctest: +SKIP
        """
        model = onnx_model(
            self.graph.inputs,
            self.graph.weights,
            self.programs(),
            self.graph.outputs,
            self.graph.names,
        )
        try:
            write_whole(path, model.SerializeToString())
        except (
            OSError,
            ValueError,
        ) as error:  # a model of more than 2 GB is no message of protobuf
            raise RecordError(f"{path} cannot be written: {error}") from None

    @classmethod
    def load(cls, path: Any, target: str = "cpu") -> Optimized:  # type: ignore[override]
        """Read a saved network, and compile it for this machine.

        It takes arrays in the order of the model's inputs, and gives an array, or a tuple of several. Raises `RecordError` where the folder
        is damaged, `DeviceError` for an unknown target. Nothing of the folder is executed but generated anew.

        >>> import tempfile
        >>> import numpy as np
        >>> import einalg as ea
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     o = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(2,)), [np.ones(2)], seconds=0)
        ...     o.save(f"{folder}/model")
        ...     ea.Optimized.load(f"{folder}/model")(np.ones(2))
        array([2., 2.], dtype=float32)
        """
        require_target(target)
        require_device(target)
        return cls(_optimizer.OptimizedNetwork.load(path, LocalBackend(target)), None, target)


def optimize(
    model: Any,
    example_inputs: Any = None,
    target: str = "cpu",
    seconds: float = 300.0,
    accuracy: float | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Optimized:
    """A model made faster, and verified: every layer derived, measured and proven equal, the whole compared with the reference.

    `model` is a `torch.nn.Module` in evaluation mode, the path, bytes or `ModelProto` of an ONNX model, or a program; shapes and dtypes are
    those of `example_inputs`: the arguments of a call in order, or by name in a dict, by default drawn at random where
    the model states all shapes (ONNX files that leave none open, programs without weights). What the language cannot say stays a call of
    the framework. `seconds` bounds the optimization: the search over all layers leaves as much of it as compiling the whole takes, up to
    half; what has begun then is finished. Equal layers are searched once and kept on disk. An interrupt keeps what was found until then.
    `progress=True` shows a bar over the layers that are searched (log lines where tqdm is not installed); a function is called as
    `progress(layer, number, of)` before each of them. The result deviates from the reference by `accuracy` at most (default: as in
    `derive`), and is the model as it was, with a warning, where it is not faster: its own program, or the framework that it comes from.

    Raises `NotationError` for what is no model, `ShapeError` for examples that do not fit, `DeviceError` for an unknown target.

    >>> import numpy as np
    >>> import einalg as ea
    >>> p = ea.parse("T[i,j] += A[i,k]*W[k,j]\\nO[i,j] = Max(T[i,j], 0)", A=(4, 8), W=ea.tensor("W", (8, 3), role="weight"))
    >>> o = ea.optimize(p, {"A": np.ones((4, 8)), "W": np.ones((8, 3))}, seconds=1)
    >>> o(np.ones((4, 8)))[0]
    array([8., 8., 8.], dtype=float32)
    """
    require_target(target)
    require_device(target)
    Budget(seconds=seconds)  # which refuses what is no time
    began = perf_counter()
    found = network(model, example_inputs)
    with shown_layers(progress) as told:
        machine = LocalBackend(target, accuracy)
        made = _optimizer.optimized(
            found.graph,
            found.arrays,
            machine,
            seconds,
            progress=told,
            accuracy=accuracy,
            began=began,
        )
    return Optimized(made, found, target)


def compile_graph(
    graph: Graph,
    target: str = "cpu",
    seconds: float = 120.0,
    accuracy: float | None = None,
    progress: Callable[..., None] | bool | None = None,
) -> Callable[..., Sequence[Any]]:
    """A graph of a front end as a function of arrays, optimized for arrays that are drawn: what `torch.compile(…, backend="einalg")` runs.

    The options are those of `optimize`.
    """
    require_target(target)
    require_device(target)
    arrays = list(drawn_arrays(graph.inputs).values())
    with shown_layers(progress) as told:
        return _optimizer.optimized(
            graph, arrays, LocalBackend(target, accuracy), seconds, progress=told, accuracy=accuracy
        )


def distance(expr: Any, operator: str) -> Distance:
    """The expression distance from an operator: a number, 0 exactly when `expr` is one, with its `reasons`.

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


def doctor() -> list[Any]:
    """What this machine has for einalg, as a list of facts with `name`, `found` and `detail`: which one, or the command that installs it.

    Raises nothing: what is missing is a fact.

    >>> {fact.name: fact.found for fact in doctor()}["cache"]
    True
    """
    return facts()


__all__ = [
    "Derivation",
    "History",
    "Move",
    "Optimized",
    "Proof",
    "Rule",
    "RuleReport",
    "Session",
    "check_rule",
    "derive",
    "distance",
    "doctor",
    "mapping_table",
    "optimize",
    "prove",
    "rule",
    "rules",
]
