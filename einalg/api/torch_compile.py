"""`torch.compile(model, backend="einalg")`: what Dynamo captures, specialised to the shapes of a
call (design §11).

Dynamo calls `einalg` through the entry point of the group `torch_dynamo_backends`, once for every
graph between two graph breaks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.runtime.memory_digest import MemoryDigest
from derive.programs import OptimizedNetwork
from einalg.api.models import torch_network, version_of
from einalg.api.optimization import PREFERENCE, compile_graph
from einalg.api.verification.comparison import Run, Wishes, direct_of
from einalg.api.verification.verification import verified
from einalg.errors import NotationError, ShapeError, first_line
from einalg.frontends.network import Network
from einalg.frontends.random_inputs import random_array
from einalg.frontends.torch.capture.export import decomposition_table
from einalg.frontends.torch.capture.recurrent_ops import without_unrolling
from einalg.frontends.torch.capture.weight_stamp import WeightStamp, bytes_spanned
from einalg.frontends.torch.devices import device_of, wait_for
from einalg.frontends.torch.module import import_fx
from einalg.frontends.torch.nodes.registry import TrainingMode
from einalg.runtime.measurement import Comparison
from einalg.runtime.timing import measure

if TYPE_CHECKING:
    from torch import fx

DEFAULT_WISHES = Wishes(seconds=120.0)
MAX_VERSIONS = 64  # of one graph, by the shapes of its inputs
RECURRENT = "allow_rnn"  # the name of Dynamo's setting
PREFER = "prefer"  # the only option that is none of the optimizer's
OPTIONS = [*list(signature(compile_graph).parameters)[2:], PREFER]
LOG = logging.getLogger("einalg")


def admit_recurrent_networks() -> None:
    """Let Dynamo capture recurrent networks, which it leaves to torch otherwise: no part of a
    function that calls one would reach a backend. This holds for all backends of the process.
    """
    try:
        from torch._dynamo import config
    except ImportError:
        return
    if not getattr(config, RECURRENT, True):
        setattr(config, RECURRENT, True)
        LOG.info("einalg: torch._dynamo.config.%s is set, for recurrent networks", RECURRENT)


def einalg(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Return `graph_module` as a function that compiles itself for the shapes of its calls.

    `options` are those of `torch.compile(…, options=…)`: `target`, `seconds`, `accuracy`,
    `progress`, `nonfinite`, `substitutions` and `prefer`, as of `einalg.optimize`. Raises, when it
    is called, `TrainingMode` where gradients are wanted or a module is in training mode, and
    `NotationError` for an option that there is not.

    >>> import pytest; torch = pytest.importorskip("torch")
    >>> model = torch.compile(torch.nn.Linear(3, 4), backend=einalg)
    >>> with torch.no_grad(): model(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    wanted = options.get("options") or {}
    prefer = wanted.get(PREFER, "fastest")
    wishes = Wishes(
        wanted.get("accuracy"),
        wanted.get("nonfinite", DEFAULT_WISHES.nonfinite),
        wanted.get("seconds", DEFAULT_WISHES.seconds),
    )

    def compiler(network: Network) -> Run:
        return compile_graph(network.graph, network.arrays, **_of_optimizer(wanted))

    return Specialised(graph_module, compiler, prefer, wishes)


def _of_optimizer(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that go to the optimizer; `NotationError` for one that there is not."""
    for name in options:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise NotationError(f"there is no option {name!r}\n  the options: {known}")
    return {name: value for name, value in options.items() if name != PREFER}


class Specialised:
    """A graph of Dynamo, compiled for every combination of shapes and whole numbers that it meets.

    A weight that is another tensor later, or lies elsewhere, makes it compile again. Kernels read
    weights where they lie, and so see what is written to them. Those of which something was packed
    or computed ahead are looked at in each call, by digests of their bytes: other ones make it
    compile again too. What the graph itself writes to is no weight: it would be another one after
    each call.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        compiler: Callable[[Network], Run],
        prefer: str = "fastest",
        wishes: Wishes = DEFAULT_WISHES,
    ):
        self._module, self._compiler, self._prefer = module, compiler, prefer
        self._wishes = wishes
        self._versions: dict[Any, _Version] = {}
        self._written: frozenset[int] | None = None  # once it was called
        self._last: _Version | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._last is None or not self._last.suits(inputs):
            self._last = self._version(inputs)
        return self._last.run(*inputs)

    def _version(self, inputs: Sequence[Any]) -> _Version:
        if self._written is None:
            _refuse_gradients(inputs)
            self._written = _written(self._module, inputs)
        key = tuple(map(_kind, inputs))
        version = self._versions.get(key)
        if version is not None and version.suits(inputs):
            return version
        _refuse_gradients(inputs)
        weights, spans, others = [], {}, []
        for k, value in enumerate(inputs):
            if k not in self._written and is_weight(value):
                weights.append((k, WeightStamp.of(value)))
                spans[k] = value.data_ptr(), bytes_spanned(value)
            else:
                others.append((k, *_kind(value)))
        prefer = PREFERENCE.check(PREFER, self._prefer)
        digests = {k: MemoryDigest.of([span]) for k, span in spans.items()}
        run, copied = _compiled(
            self._module, inputs, list(spans), self._compiler, prefer, self._wishes
        )
        if run is self._module:
            weights = []  # torch reads them at each call
        content = MemoryDigest.together([digests[k] for k in sorted(copied)])
        if len(self._versions) >= MAX_VERSIONS:
            self._versions.pop(next(iter(self._versions)))
        version = _Version(weights, others, run, content)
        self._versions[key] = version
        return version


@dataclass(frozen=True)
class _Version:
    """A graph compiled for its weights and for the dtypes and shapes of its other inputs.

    `weights` are rows of a position and a stamp. `others` are rows of a position, a dtype and a
    shape; of a number None and the number itself. `content` are the bytes of those weights of which
    something was made ahead.
    """

    weights: Sequence[tuple[int, WeightStamp]]
    others: Sequence[tuple[int, Any, Any]]
    run: Callable[..., Any]
    content: MemoryDigest

    def suits(self, inputs: Sequence[Any]) -> bool:
        for k, stamp in self.weights:
            if not stamp.suits(inputs[k]):
                return False
        for k, dtype, shape in self.others:
            value = inputs[k]
            if dtype is None:
                if hasattr(value, "shape") or value != shape:
                    return False
            elif getattr(value, "dtype", None) is not dtype or value.shape != shape:
                return False
        return self.content.is_unchanged()


def is_weight(value: Any) -> bool:
    """Whether Dynamo says that an input is a parameter or a buffer of a module, in plain memory."""
    if str(getattr(value, "layout", "")) != "torch.strided":
        return False
    if hasattr(value, "_dynamo_static_input_type"):
        return True
    return type(value).__name__ in ("Parameter", "Buffer")


def _kind(value: Any) -> tuple[Any, Any]:
    """Return the dtype and the shape of a tensor; of a number None and the number itself."""
    shape = tuple(value.shape) if hasattr(value, "shape") else value
    return getattr(value, "dtype", None), shape


def _refuse_gradients(inputs: Sequence[Any]) -> None:
    import torch

    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs):
        raise TrainingMode(
            "gradients are wanted, and einalg optimizes inference only\n"
            "  call it under torch.no_grad() or torch.inference_mode(), or "
            "model.requires_grad_(False)"
        )


def _copies(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs for a graph that may write to them."""
    import torch

    return [x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def _written(module: Any, inputs: Sequence[Any]) -> frozenset[int]:
    """Return the positions of the inputs that a graph writes to.

    It runs on copies, which count what is written where inference tensors do not.
    """
    import torch

    written = set()
    with torch.inference_mode(False), torch.no_grad():
        copies = _copies(inputs)
        module(*copies)
        for k, value in enumerate(copies):
            if isinstance(value, torch.Tensor) and value._version:
                written.add(k)
    return frozenset(written)


def _compiled(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    weights: Sequence[int],
    compiler: Callable[[Network], Run],
    prefer: str,
    wishes: Wishes,
) -> tuple[Callable[..., Any], frozenset[int]]:
    """Compile a graph for these very inputs.

    Returns it with the positions of the weights of which something was made ahead. What the graph
    writes to its inputs, and results that are views of these, are left to torch. So is all of it
    where torch cannot trace it, such as a number that is read from a tensor.
    """
    import torch
    from torch._functorch._aot_autograd.utils import make_boxed_func
    from torch._functorch.aot_autograd import aot_module_simplified

    captured: list[tuple[fx.GraphModule, Sequence[Any]]] = []
    ready: list[Callable[..., Any]] = []

    def lower(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        captured.append((gm, example_inputs))  # read later: here torch has no values
        return make_boxed_func(lambda *arrays: ready[0](*arrays))

    try:
        with torch.no_grad(), without_unrolling():
            called = aot_module_simplified(
                module,
                list(inputs),
                fw_compiler=lower,
                decompositions=decomposition_table().materialize(),
            )
    except Exception as error:  # of many kinds, none of which torch names as its own
        LOG.warning(
            "einalg: torch cannot trace a graph, and goes on running it: %s", first_line(error)
        )
        return module, frozenset()
    copied: set[int] = set()
    for traced, examples in captured:
        bound: Sequence[int] = weights
        if len(examples) == len(inputs):
            examples = inputs
        else:  # where inputs share memory that is written to, torch has that memory in their place
            bound = ()
        result = _read(traced, examples, bound, compiler, wishes)
        if result is None:
            return module, frozenset()
        ready.append(result[0])
        copied |= result[1]
    if prefer == "fastest" and _is_faster(module, called, inputs):
        return module, frozenset()
    return called, frozenset(copied)


def _is_faster(module: Any, called: Callable[..., Any], inputs: Sequence[Any]) -> bool:
    """Say whether torch itself runs a graph faster; then it goes on doing that.

    Both run on copies of the inputs, for a graph may write to these.
    """
    import torch

    copies = _copies(inputs)
    wait = wait_for(device_of(inputs))
    with torch.no_grad():
        calls = {
            "torch": lambda: wait(module(*copies)),
            "einalg": lambda: wait(called(*copies)),
        }
        measured = measure(calls)
    original, optimized = measured["torch"], measured["einalg"]
    if Comparison(optimized, original).verdict != "slower":
        return False
    LOG.warning(
        "einalg: a graph is not faster than in torch (%.3f ms, %.3f ms), which goes on running it",
        1e3 * optimized.seconds,
        1e3 * original.seconds,
    )
    return True


def _read(
    traced: fx.GraphModule,
    inputs: Sequence[Any],
    weights: Sequence[int],
    compiler: Callable[[Network], Run],
    wishes: Wishes,
) -> tuple[Callable[..., Any], frozenset[int]] | None:
    """Return an ATen graph as a function of its inputs, in which the weights are bound.

    Returns also the positions of those of which something was made ahead. None, with a warning,
    where it has values that the language has no type for, or where it deviates from torch and no
    operator is found that does so alone.
    """
    import torch

    try:
        model, positions = import_fx(traced, inputs, weights)
    except ShapeError as error:  # a value whose type the language does not have
        LOG.warning("einalg: a graph stays torch's: %s", first_line(error))
        return None
    values = _with_values(inputs)

    def call(*tensors: Any) -> Any:
        for position, tensor in zip(positions, tensors):
            values[position] = tensor
        with torch.no_grad():
            return traced(*values)

    examples = tuple(values[position] for position in positions)
    source = torch_network(model, call, (examples, {}), framework=version_of("torch"))
    result = verified(source, compiler, wishes)
    for position in positions:
        values[position] = None  # which nothing else need hold
    for note in result.notes:
        LOG.info("einalg: %s", note)
    if not result.is_right:
        LOG.warning("einalg: a graph deviates from torch, which goes on running it")
        return None
    function = result.network.around(result.run, direct_of(result.run))
    tensors = {position: inputs[position] for position in weights}
    copied = _copied(tensors, result.network, result.run)
    return (lambda *arrays: function(*[arrays[k] for k in positions])), copied


def _copied(tensors: Mapping[int, Any], network: Network, run: Run) -> frozenset[int]:
    """Return the positions of weights of which something was copied, packed or computed ahead.

    The others are read where they lie, by kernels and by calls of torch.
    """
    if not isinstance(run, OptimizedNetwork):
        return frozenset(tensors)
    if run.graph.weights.keys() - network.graph.weights.keys():  # of which some were computed
        return frozenset(tensors)
    copied_names = network.read_ahead | run.copied_weights()
    in_place: set[int] = set()  # addresses
    copied: set[int] = set()
    for name, array in network.graph.weights.items():
        addresses = copied if name in copied_names else in_place
        addresses.add(array.__array_interface__["data"][0])
    read_in_place = in_place - copied
    return frozenset(k for k, value in tensors.items() if value.data_ptr() not in read_in_place)


def _with_values(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs of a trace with drawn values in the place of those that have none."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    values: list[Any] = []
    for value in inputs:
        if isinstance(value, FakeTensor):
            array = random_array(tuple(value.shape), np.float32, np.random.default_rng(0))
            if not value.is_floating_point():
                array = array > 0
            value = torch.from_numpy(array).to(value.device, value.dtype)
        values.append(value)
    return values


admit_recurrent_networks()  # once Dynamo loads this module, before it captures anything
