"""`einalg.optimize`: a whole network made faster, on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from codegen.targets.onnx import onnx_model
from derive.cost.model import Roofline, known_rates
from derive.programs import OptimizedNetwork, RuleSet, rule_set
from derive.programs.optimization import is_large, optimized, postponed
from derive.programs.optimized_program import statement_seconds
from derive.results.progress import shown_progress
from derive.substitutions import Rule, load
from einalg.api.backend import TARGET, LocalBackend, require_device
from einalg.api.export import export_network, exported_network
from einalg.api.models import EXAMPLES, as_called, network
from einalg.api.verification.comparison import Wishes
from einalg.api.verification.examples import MAX_SHARE
from einalg.api.verification.verification import Verified, verified
from einalg.boundary import hide_inside, public, public_by_hand
from einalg.display.network_graph import NetworkGraph, network_graph
from einalg.errors import CodegenError, EinalgError, RecordError
from einalg.frontends.graph import Graph
from einalg.frontends.network import FrameworkRun, Network, bound, signature_of
from einalg.frontends.random_inputs import random_arrays
from einalg.options import (
    ACCURACY,
    FLAG,
    NEW_FILE,
    PATH,
    PROGRESS,
    SECONDS,
    Kind,
    checked,
    either,
    instance_of,
    one_of,
    optional,
    several,
    text,
)
from einalg.runtime.clock import CHECKING, MEASURING, PROVING, READING, Clock, OutOfTime
from einalg.runtime.garbage import with_few_full_collections
from einalg.runtime.measurement import Comparison
from einalg.storage.atomic_file import write_whole

LOG = logging.getLogger("einalg")
# Who runs a model that its framework runs faster: that, or this.
PREFERENCE = one_of("fastest", "einalg")
# Rules for whole programs, read from a file where there is one.
SUBSTITUTIONS = optional(
    either(
        several(
            instance_of(Rule, "a rule", ""),
            "rules",
            "e.g. {name}=ea.substitutions.load('rules.json')",
        ),
        Kind("the path of a rule file", lambda value: load(PATH.read(value)), ""),
    )
)
# How far a NaN or an infinity may reach: to what shares a transform tile with it, or depends on it
# by an operator's definition; or no further than in the framework.
NONFINITE = one_of("spread", "exact")
MAX_VERIFYING_SHARE = 0.25  # of the seconds, that verifying substitutions may take
SECONDS_TO_COMPARE = 0.3  # a model with its framework, though time is over
SOURCE_LANGUAGES = {"cpu": "c", "cuda": "cuda"}  # of the generated kernels, by target


@public
class Optimized(OptimizedNetwork):
    """The result of `optimize`: call it like the model.

    `report` says what was done, `parts` and `opaque` hold it. The framework goes on running the
    model where it is faster (`is_original`, `times`), unless einalg is to `prefer`, and where
    einalg deviates from it and no operator was found that does so alone. The framework reads the
    weights of its model at each call; einalg has them as they were when it optimized the model.

    >>> import numpy as np
    >>> import einalg as ea
    >>> o = ea.optimize(ea.parse("O[i] = 2*Max(A[i], 0)", A=(4,)), {"A": np.ones(4)}, seconds=1)
    >>> o(np.array([-1, 0, 1, 2]))
    array([0., 0., 2., 4.], dtype=float32)
    >>> [part.verdict for part in o.parts.values()], o.opaque
    (['proved'], [])
    """

    def __init__(
        self,
        made: OptimizedNetwork,
        model: Network | None = None,
        target: str = "cpu",
        prefer: str = "fastest",
        is_right: bool = True,
        clock: Clock | None = None,
    ):
        super().__init__(made.graph, made.parts, made.seconds, backend=made.backend)
        self._is_right = is_right
        self._arrays = model.arrays if model else None
        self.notes = made.notes
        self.is_original, self.target, self._prefer = False, target, prefer
        if made.is_postponed:
            assert model is not None  # which its framework runs
            LOG.warning(
                "einalg: the time was over before the model was compiled; its framework goes on "
                "running it"
            )
            original = model.framework_run(target)
            self.is_original, self._call, self._bound = True, original.call, model.bound
            return
        self.hold_weights()
        around = model.around if model else as_called(made.graph)
        self._call: Callable[..., Any] = around(super().__call__, self.direct())
        self._bound: Callable[..., Any] = partial(bound, signature_of(made.graph))
        if model is None:
            return
        self._bound = model.bound
        if model.itself is None:
            return
        original = model.framework_run(target)
        if not is_right:
            LOG.warning("einalg: the model deviates from its framework, which goes on running it")
            self.is_original, self._call = True, original.call
            return
        subject = f"{model.framework} {original.where} {made.key}"
        self._compare(original, subject, made.is_known, clock or Clock.of(inf))

    def _compare(self, original: FrameworkRun, subject: str, is_known: bool, clock: Clock) -> None:
        """Time the model in its framework too, and let that run it where it is faster."""
        self.measurements, self.framework_place = None, original.where
        with suppress(OutOfTime), clock.at_least(SECONDS_TO_COMPARE).limiting():
            self.measurements = LocalBackend().measure_both(
                original.on_example(original.call),
                original.on_example(self._call),
                subject,
                is_known,
            )
        if self.measurements is None or self._prefer == "einalg":
            return
        before, after = self.measurements
        if Comparison(after, before).verdict == "slower":
            LOG.warning(
                "einalg: the model is not faster than in its framework (%.3f ms, %.3f ms), "
                "which goes on running it",
                1e3 * after.seconds,
                1e3 * before.seconds,
            )
            self.is_original, self._call = True, original.call

    @public_by_hand
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Return the model's result for inputs in order or by name.

        These are tensors for a torch module, arrays for anything else. Raises `ShapeError` for
        inputs of another number or shape.
        """
        try:
            if named:
                inputs, named = self._bound(inputs, named)
            return self._call(*inputs, **named)
        except EinalgError as error:
            hide_inside(error)
            raise

    @checked(measure=FLAG)
    def plot(self, measure: bool = True) -> NetworkGraph:
        """Return the graph of the network before and after: in Jupyter to search and to unfold,
        coloured by time.

        Each kernel is timed by itself on random inputs, which takes a few runs of the network;
        with `measure=False` its time is an estimate.

        >>> import numpy as np
        >>> import einalg as ea
        >>> o = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(4,)), {"A": np.ones(4)}, seconds=1)
        >>> [statement.name for statement in o.plot().after.statements]
        ['O']
        """
        backend = self.backend or LocalBackend(self.target)
        times = {}
        if measure:
            for position, part in self.parts.items():
                times[position] = statement_seconds(part, backend, self.graph.weights)
        return network_graph(self, known_rates(backend) or Roofline(), times)

    @checked(path=PATH, language=optional(text("c")))
    def save(self, path: Any, language: str | None = None) -> None:
        """Write the network into a new folder: programs, weights, the report, the sources.

        The sources are those of generated kernels, in the target's language. `Optimized.load` runs
        it without torch and ONNX, as a function of arrays. Raises `RecordError` where something
        stays a call of the framework, or the folder holds anything already; then nothing is
        written.
        """
        super().save(path, language or SOURCE_LANGUAGES[self.target])

    @checked(path=NEW_FILE)
    def to_onnx(self, path: Any) -> None:
        """Write the network as an ONNX model (opset 18), which any runtime of ONNX runs.

        It needs the package onnx. Inputs and outputs are called as in the model. Kernels that ONNX
        has an operator for are that operator, and what einalg generates code for is written with
        element-wise ones: the values are the same, the speed is that of the runtime. What runs
        sample by sample is a `Scan`. What depends on weights alone is computed now. The file is
        written whole or not at all. Raises `RecordError` where something stays a call of the
        framework or the file cannot be written, `CodegenError` for a function that ONNX has not.

        >>> o.to_onnx("optimized.onnx")  # doctest: +SKIP
        """
        network = exported_network(self)
        model = onnx_model(
            network.inputs, network.weights, network.programs, network.outputs, network.names
        )
        try:
            write_whole(path, model.SerializeToString())
        except (OSError, ValueError) as error:  # protobuf has no messages of more than 2 GB
            raise RecordError(f"{path} cannot be written: {error}") from None

    @checked(folder=PATH)
    def export_c(self, folder: Any, name: str | None = None) -> Path:
        """Write the network as a C project into a folder, and return the folder.

        It holds a C file and a header with one function of the model's inputs and outputs, weights
        inside, a `main.c` that checks it on the example inputs and times it, a `Makefile` and a
        `CMakeLists.txt`; the header says how buffers lie. For the target `"cuda"` the files are
        CUDA's, and the function starts kernels. `name` is that of the function, by default that of
        the folder. All kernels are generated code, whatever library is faster here.

        Raises `CodegenError` where something stays a call of the framework, where the values
        deviate from the framework's, or where there is no C compiler, `UseError` for a name that C
        does not allow, and `RecordError` where the folder holds anything that no export has
        written. Then nothing is written.

        >>> o.export_c("network")  # doctest: +SKIP
        """
        if not self._is_right:
            raise CodegenError(
                "the network deviates from its framework, so that no code of it is written\n"
                "  print(o.report) says where"
            )
        accuracy = getattr(self.backend, "accuracy", None)
        return export_network(self, self._examples(), self.target, accuracy, folder, name)

    def _examples(self) -> list[Any]:
        """Return arrays of the inputs: those that it was optimized on, else random ones."""
        if self._arrays is not None:
            return self._arrays
        return list(random_arrays(self.graph.inputs).values())

    @classmethod
    @checked(path=PATH, target=TARGET)
    def load(cls, path: Any, target: str = "cpu") -> Optimized:  # type: ignore[override]
        """Read a saved network, and compile it for this machine.

        It takes arrays in the order of the model's inputs, and gives an array, or a tuple of
        several. Raises `RecordError` where the folder is damaged, `DeviceError` for an unknown
        target. Nothing of the folder is executed but generated anew.

        >>> import tempfile
        >>> import numpy as np
        >>> import einalg as ea
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     o = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(2,)), [np.ones(2)], seconds=0)
        ...     o.save(f"{folder}/model")
        ...     ea.Optimized.load(f"{folder}/model")(np.ones(2))
        array([2., 2.], dtype=float32)
        """
        require_device(target)
        return cls(OptimizedNetwork.load(path, LocalBackend(target)), None, target)


@checked(
    example_inputs=EXAMPLES,
    target=TARGET,
    seconds=SECONDS,
    accuracy=ACCURACY,
    progress=PROGRESS,
    prefer=PREFERENCE,
    nonfinite=NONFINITE,
    substitutions=SUBSTITUTIONS,
    tune=SECONDS,
)
@with_few_full_collections
def optimize(
    model: Any,
    example_inputs: Any = None,
    target: str = "cpu",
    seconds: float = 300.0,
    accuracy: float | None = None,
    progress: Callable[..., None] | bool | None = None,
    prefer: str = "fastest",
    nonfinite: str = "spread",
    substitutions: Any = None,
    tune: float = 0.0,
) -> Optimized:
    """Make a model faster, and verify it.

    Each layer is derived, proved and measured; equal layers once. Then the whole is compared with
    the reference and with the framework that the model comes from: on your inputs and, where these
    are floats, also on zeros, a constant, 1000 and 0.001 times your inputs, one NaN, one infinity,
    and other random numbers. If a result of einalg deviates, the framework goes on computing the
    operator at fault, and so it does for operators that the language cannot express; the report
    lists them. If the optimized model is not faster, you get the model as it was, with a warning.

    - `model`: a `torch.nn.Module` in evaluation mode; the path, the bytes or the `ModelProto` of an
      ONNX model; or a program.
    - `example_inputs`: the arguments of one call, in order or in a dict by name. They give the
      shapes and element types, and tensors how the axes of inputs lie in memory: calls copy others.
      Random ones are drawn where the model states all shapes: an ONNX
      file without open sizes, or a program without weights.
    - `target`: `"cpu"` or `"cuda"`. With a device, torch's module is timed on it, too: where it
      lies, or a copy of it. Tensors of the device are read where they lie, and results are there.
    - `seconds`: the time for the whole. Reading the model, compiling it folded and fused, and
      checking it come first, and are done in any case, except for large models that their framework
      can go on running. (`torch.export`, which reads a module, cannot be interrupted: a large
      module that it has not read before may take longer than its seconds.) Then the other layouts
      are timed, and layers are searched, beginning with those that are expected to save most.
      Ctrl-C keeps what was found until then; pressed a second time, it raises `KeyboardInterrupt`.
    - `accuracy`: how far the result may be from the reference; by default as in `derive`.
    - `progress`: by default a line shows in terminals and notebooks what is being done, and one
      line stays for each layer that was searched. True logs these lines anywhere, False shows
      nothing, and a function is called as `progress(layer, number, of)` before each layer.
    - `prefer="einalg"`: einalg computes even where the framework is faster, so that you can look at
      its values.
    - `nonfinite="exact"`: leaves out forms that compute tiles together, such as Winograd's, in
      which one NaN makes its whole tile NaN. By default they are used, and the report names their
      layers. It leaves to the framework the operators for which that has other NaNs than their
      definition: numbers in ONNX Runtime's recurrent layers, NaNs in torch's GELU of infinities.
    - `substitutions`: rules for whole programs: the path of a rule file, or rules, as
      `ea.substitutions.load` returns or `ea.substitutions.Rule` makes them. Those that are proved
      are applied where the estimated cost promises something, also where that pays only after
      another one; what they give is compiled and measured like every other form. The report says
      which rules were applied and what they gained, and names those that are left out, because they
      are not proved.
    - `tune`: how many of the seconds, the last ones, are for the schedules of the kernels of what
      was found, as `einalg.tune` searches them; by default none. Later compilations use them too.

    Layers and comparisons are kept on disk: a second run with the same code, weights and framework
    compares other inputs only.

    Raises `NotationError` for anything but a model, `ShapeError` for example inputs that do not fit
    it, `UseError` for an option of a wrong kind, and `DeviceError` for an unknown target.

    >>> import numpy as np
    >>> import einalg as ea
    >>> W = ea.tensor("W", (8, 3), role="weight")
    >>> p = ea.parse("T[i,j] += A[i,k]*W[k,j]\\nO[i,j] = Max(T[i,j], 0)", A=(4, 8), W=W)
    >>> o = ea.optimize(p, {"A": np.ones((4, 8)), "W": np.ones((8, 3))}, seconds=1)
    >>> o(np.ones((4, 8)))[0]
    array([8., 8., 8.], dtype=float32)
    """
    require_device(target)
    clock = Clock.of(seconds)
    backend = LocalBackend(target, accuracy)
    wishes = Wishes(accuracy, nonfinite, seconds, lambda: clock.left)
    with shown_progress(progress, clock, "optimize") as on_layer:
        with clock.phase(READING, "the model"):
            source = network(model, example_inputs)
        rules = _verified_rules(substitutions, clock)
        may_give_up = not tune and _may_give_up(source, seconds, prefer)

        until_checked = clock
        if source.original is not None:
            until_checked = clock.within((1 - MAX_SHARE) * clock.left)

        def compiler(model: Network) -> OptimizedNetwork:
            return clock.insist(
                lambda: optimized(
                    model.graph,
                    model.arrays,
                    backend,
                    seconds,
                    progress=on_layer,
                    accuracy=accuracy,
                    clock=until_checked,
                    nonfinite=nonfinite,
                    is_compared=model.original is not None,
                    may_give_up=may_give_up,
                    substitutions=rules,
                    tune=tune,
                )
            )

        with clock.phase(CHECKING, "the model beside its framework"):
            try:
                result = verified(source, compiler, wishes)
            except OutOfTime:
                given_up = postponed(source.graph, backend, clock.spent)
                result = Verified(source, given_up)
        made = result.run
        assert isinstance(made, OptimizedNetwork)
        made.notes = (*made.notes, *result.notes, *rules.notes)
        with clock.phase(MEASURING, "the model beside its framework"):
            chosen = clock.insist(
                lambda: Optimized(made, result.network, target, prefer, result.is_right, clock)
            )
    chosen.seconds, chosen.phases = clock.spent, dict(clock.course.seconds)
    return chosen


def _verified_rules(rules: Sequence[Rule] | None, clock: Clock) -> RuleSet:
    """Return the rules that are proved, as far as a share of the time allows."""
    if not rules:
        return RuleSet()
    with clock.phase(PROVING, "substitutions"):
        return rule_set(rules, clock.within(MAX_VERIFYING_SHARE * clock.left))


def _may_give_up(source: Network, seconds: float, prefer: str) -> bool:
    """Tell whether a framework can go on running a model that would take long to compile."""
    if source.itself is None or prefer == "einalg" or not seconds:
        return False
    return is_large(source.graph)


@checked(
    target=TARGET,
    seconds=SECONDS,
    accuracy=ACCURACY,
    progress=PROGRESS,
    nonfinite=NONFINITE,
    substitutions=SUBSTITUTIONS,
    tune=SECONDS,
)
@with_few_full_collections
def compile_graph(
    graph: Graph,
    arrays: Sequence[Any],
    target: str = "cpu",
    seconds: float = 120.0,
    accuracy: float | None = None,
    progress: Callable[..., None] | bool | None = None,
    nonfinite: str = "spread",
    substitutions: Any = None,
    tune: float = 0.0,
) -> Callable[..., Sequence[Any]]:
    """Return a graph of a front end as a function of arrays, optimized for those of a call.

    This is what `torch.compile(…, backend="einalg")` runs. The options are those of `optimize`.
    Its kernels read the weights of the graph where they lie, but for those that the result's
    `copied_weights()` names.
    Values that deviate from the reference are no error: they are compared with torch's.
    """
    require_device(target)
    clock = Clock.of(seconds)
    with shown_progress(progress, clock, "compile") as on_layer:
        return optimized(
            graph,
            arrays,
            LocalBackend(target, accuracy, shares_weights=True),
            seconds,
            progress=on_layer,
            accuracy=accuracy,
            clock=clock,
            nonfinite=nonfinite,
            is_compared=True,
            substitutions=_verified_rules(substitutions, clock),
            tune=tune,
        )
