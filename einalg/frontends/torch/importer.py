"""ATen graphs as einalg graphs: every node an expression where the table has one, a call of torch elsewhere (design §11)."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from einalg.errors import EinalgError
from einalg.frontends.graph import live_statements, unique_name
from einalg.frontends.graph_builder import GraphBuilder
from einalg.frontends.torch.capture.functionalize import operator_names
from einalg.frontends.torch.nodes.opaque_call import TorchCall, flat_results, map_nodes, nodes_in
from einalg.frontends.torch.nodes.registry import ATEN, TAKES_CONSTANT_INTEGERS, NotExpressed, TrainingMode
from einalg.frontends.torch.nodes.tensors import array_of, shape_and_dtype, memory_key
from einalg.language.analysis.overflow import may_wrap
from einalg.language.ir.dtypes import dtype_name
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.math.cast import cast

if TYPE_CHECKING:
    from torch import fx

LOG = logging.getLogger("einalg")
UNIFORM = (
    "full",
    "full_like",
    "new_full",
    "zeros",
    "zeros_like",
    "new_zeros",
    "ones",
    "ones_like",
    "new_ones",
    "scalar_tensor",
)
SHAPE_ONLY = {
    "full_like",
    "zeros_like",
    "ones_like",
    "empty_like",
    "new_full",
    "new_zeros",
    "new_ones",
    "new_empty",
}
FAILURES = (
    EinalgError,
    ArithmeticError,
    IndexError,
    TypeError,
    ValueError,
)  # of a handler, for arguments that it does not know


class GraphImporter:
    """The values of FX nodes, by node: the name of a value of the graph, a list of names, or what is no array."""

    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self.values: dict[fx.Node, Any] = {}
        self.sources: dict[str, str] = {}  # the placeholders of weights, by the names of these
        self._fixed: dict[fx.Node, Any] = {}  # what is no array: modules, None
        self._constant: set[str] = set()  # weights that no parameter of the module decides
        self._shared: dict[Any, str] = {}

    def input(self, node: fx.Node) -> None:
        """A tensor that a call gives."""
        name = self._unique(node.name)
        shape, dtype = tuple(node.meta["val"].shape), dtype_name(node.meta["val"].dtype)
        self.builder.input(name, shape, dtype)
        self.values[node] = name

    def weight(self, node: fx.Node, name: str, tensor: Any, constant: bool = False) -> None:
        """A tensor that is known already; one that has several names is one weight."""
        same = memory_key(tensor) or node
        if same not in self._shared:
            self._shared[same] = self._unique(name)
            self.sources[self._shared[same]] = node.name
            self.builder.weight(self._shared[same], array_of(tensor))
        self.values[node] = self._shared[same]
        if constant:
            self._constant.add(self._shared[same])

    def attribute(self, node: fx.Node, value: Any) -> None:
        """What a graph holds itself: a constant tensor, or a module of a branch."""
        if hasattr(value, "data_ptr"):
            node.meta.setdefault("val", value)
            self.weight(node, node.name, value, constant=True)
        else:
            self._fixed[node] = value

    def call(self, node: fx.Node) -> None:
        """A node of an operator: an expression, a constant, or a call of torch."""
        if node.target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        reads = nodes_in(node.args, node.kwargs)
        names = [self.values[n] for n in reads if n not in self._fixed]
        known = all(name in self.builder.weights for name in names)
        overload, base = operator_names(node.target)
        has_shape = base in SHAPE_ONLY and all(map(_shape_is_known, (*reads, node)))
        if _repeatable(node.target) and (
            has_shape or (known and all(name in self._constant for name in names))
        ):
            self._compute(node, base, reads, constant=True)
            return
        why = self._express(node, overload)
        if why is None:
            return
        LOG.info("einalg: %s stays a call of torch: %s", overload, why)
        if known and _repeatable(node.target):
            self._compute(node, base, reads, constant=False)
        else:
            self._call_torch(node, overload, reads, why)

    def outputs(self, node: fx.Node) -> list[Any]:
        """The names of the values that a graph gives, one by one; None where it gives none."""
        found: list[Any] = []
        map_nodes(node.args, found.append)
        return [self.values.get(n) for n in found]

    def _express(self, node: fx.Node, overload: str) -> str | None:
        """Add a node as an expression; if it has none, say why."""
        if overload not in ATEN:
            return f"{overload} has no expression"
        try:
            arguments = map_nodes(
                _in_order(node), self._positions if overload in TAKES_CONSTANT_INTEGERS else self._operand
            )
            results = ATEN[overload](*arguments)
            self.values[node] = self._add(node, overload, results)
        except TrainingMode:
            raise
        except FAILURES as error:
            return str(error).splitlines()[0] if str(error) else type(error).__name__
        return None

    def _operand(self, node: fx.Node) -> Any:
        if node in self._fixed:
            return self._fixed[node]
        tensor = self.builder.values[self.values[node]]
        if tensor is None or not hasattr(node.meta.get("val"), "dtype"):
            raise NotExpressed(f"{node.name} is known at run time only")
        return tensor

    def _positions(self, node: fx.Node) -> Any:
        """An operand, as an array where it is integers that are known ahead."""
        array = self.builder.weights.get(str(self.values.get(node)))
        return self._operand(node) if array is None or array.dtype.kind not in "iu" else array

    def _add(self, node: fx.Node, overload: str, results: Any) -> Any:
        """The statement of a node, or one for each of its results that is used."""
        if isinstance(results, Program) and len(results.outputs) > 1:
            return self._add_program(node, overload, results)
        if not isinstance(results, tuple):
            (value,) = self._added(overload, {node.name: (results, node.meta["val"])})
            return value
        used = _used(node)
        examples = node.meta["val"]
        named = {f"{node.name}_{k}": (results[k], examples[k]) for k in used}
        values = dict(zip(used, self._added(overload, named)))
        return [values.get(k) for k in range(len(examples))]

    def _added(self, overload: str, named: Mapping[str, tuple[Any, Any]]) -> list[str]:
        fitted = {name: _fitted(result, example) for name, (result, example) in named.items()}
        made = {
            name: self._unique(name)
            for name, result in fitted.items()
            if not isinstance(result, Tensor)
        }
        if made:
            expressions = [fitted[name] for name in made]
            inputs = tuple(
                dict.fromkeys(name for e in expressions for name in as_program(e).inputs)
            )
            self.builder.express(
                overload,
                inputs,
                tuple(made.values()),
                lambda *_: tuple(expressions) if len(expressions) > 1 else expressions[0],
            )
        return [made.get(name) or result.name for name, result in fitted.items()]

    def _add_program(self, node: fx.Node, overload: str, program: Program) -> list[str | None]:
        """A program that gives several results, as far as they are used."""
        used, examples = _used(node), node.meta["val"]
        outputs = list(map(program.outputs.__getitem__, used))
        for name, place in zip(outputs, used):
            scope = program[name]
            if (scope.shape, scope.dtype) != shape_and_dtype(examples[place]):
                raise NotExpressed(f"a result would be {scope.dtype} of shape {scope.shape}")
        part = Program(live_statements(program.statements, outputs), outputs)
        names = {k: self._unique(f"{node.name}_{k}") for k in used}
        self.builder.express(overload, tuple(part.inputs), tuple(names.values()), lambda *_: part)
        return [names.get(k) for k in range(len(examples))]

    def _compute(self, node: fx.Node, base: str, reads: Iterable[fx.Node], constant: bool) -> None:
        """A node whose value is known ahead, as a weight."""
        reads = [n for n in reads if n not in self._fixed]
        examples = flat_results(node.meta["val"])
        arrays = (
            (np.broadcast_to(np.zeros((), np.float32), n.meta["val"].shape) for n in reads)
            if base in SHAPE_ONLY
            else map(self._array, reads)
        )
        results = TorchCall(node, reads, range(len(examples)), self._fixed)(*arrays)
        names = []
        for result in results:
            name = self._unique(node.name)
            uniform = base in UNIFORM and result.size > 1
            self.builder.weight(
                name, np.broadcast_to(result.flat[0], result.shape) if uniform else result
            )
            names.append(name)
        self._constant.update(names if constant else ())
        self.values[node] = names if isinstance(node.meta["val"], (tuple, list)) else names[0]

    def _array(self, node: fx.Node) -> Any:
        return self.builder.weights[self.values[node]]

    def _call_torch(self, node: fx.Node, overload: str, reads: Iterable[fx.Node], why: str) -> None:
        reads = [n for n in reads if n not in self._fixed]
        several = isinstance(node.meta.get("val"), (tuple, list))
        examples = flat_results(node.meta.get("val"))
        wanted = [k for k in (_used(node) if several else [0]) if examples[k] is not None]
        names = {k: self._unique(f"{node.name}_{k}" if several else node.name) for k in wanted}
        outputs = {names[k]: shape_and_dtype(examples[k]) for k in wanted}
        call = TorchCall(node, reads, wanted, self._fixed)
        self.builder.call(
            overload,
            tuple(self.values[n] for n in reads),
            outputs,
            call,
            why,
            _repeatable(node.target),
        )
        self.values[node] = (
            [names.get(k) for k in range(len(examples))] if several else names.get(0)
        )

    def _unique(self, name: str) -> str:
        return unique_name(name, self.builder.values)


def _repeatable(target: Any) -> bool:
    """Whether an operator gives the same whenever it is called: it is a plain one, and not random."""
    return hasattr(target, "_schema") and "nondeterministic_seeded" not in {
        tag.name for tag in target.tags
    }


def _shape_is_known(node: fx.Node) -> bool:
    """Whether no size of a tensor depends on data."""
    return all(type(size) is int for size in getattr(node.meta.get("val"), "shape", ()))


def _in_order(node: fx.Node) -> list[Any]:
    """The arguments of a node in the order of its operator's schema, with the defaults."""
    entries = node.target._schema.arguments  # type: ignore[union-attr]
    return [
        node.args[k] if k < len(node.args) else node.kwargs.get(entry.name, entry.default_value)
        for k, entry in enumerate(entries)
    ]


def _used(node: fx.Node) -> list[int]:
    """Which of the results of a node are read."""
    return sorted({user.args[1] for user in node.users if user.target is operator.getitem})  # type: ignore[type-var]


def _fitted(result: Any, example: Any) -> Any:
    """A result in the shape and dtype that torch gives it."""
    if result is None:
        raise NotExpressed("a result that says where something is, or is for gradients")
    known = shape_and_dtype(example)
    if known is None:
        raise NotExpressed("a result whose shape is known at run time only")
    shape, dtype = known
    whole = result if isinstance(result, Tensor) else as_program(result).result
    if tuple(whole.shape) != shape:
        raise NotExpressed(f"it would have the shape {tuple(whole.shape)}, and torch gives {shape}")
    if isinstance(whole, Scope) and not all(
        map(prod, (shape, *(t.shape for t in whole.tensors.values())))
    ):
        raise NotExpressed("a tensor without elements")
    if isinstance(whole, Scope) and may_wrap(whole):
        raise NotExpressed(f"integers of {whole.dtype} wrap round where they are too large")
    return result if whole.dtype == dtype else cast(whole, dtype)
