"""Modules as graphs, with conversions between tensors and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from einalg.errors import ShapeError
from einalg.frontends.axis_order import Order
from einalg.frontends.graph import Graph
from einalg.frontends.import_cache import ImportRecord, import_cached
from einalg.frontends.reading import Exclusions, Reading
from einalg.frontends.torch.capture.export import decomposition_table, export_module
from einalg.frontends.torch.capture.functionalize import drop_empty_parts, is_check
from einalg.frontends.torch.capture.graph_json import ExportedGraph, Weight, graph_origin
from einalg.frontends.torch.devices import device_function, device_of, moved
from einalg.frontends.torch.direct_call import Nest, TensorSignature, tensor_function
from einalg.frontends.torch.framework_values import (
    definers,
    framework_values,
    origins,
    values_in_f64,
)
from einalg.frontends.torch.importer import GraphImporter
from einalg.frontends.torch.input_layout import memory_order, values_of_inputs
from einalg.frontends.torch.nodes.tensors import Array, array_of, tensor_of
from einalg.frontends.torch.output_layout import layout_restorer
from einalg.runtime.direct_call import HOST, DirectCall

if TYPE_CHECKING:
    from torch import fx

Arrays = Sequence[Array]
Reader = Callable[[Exclusions], "tuple[Model, Reading]"]


@dataclass(frozen=True)
class InputPlace:
    """An input of a graph: its position among the arguments, its name and its dtype in torch, and
    the order of its axes in memory where that is not the usual one.
    """

    position: int
    name: str
    dtype: Any
    order: Order | None = None


@dataclass(frozen=True)
class Model:
    """A graph that stands for a module.

    `arrays` converts arguments to the graph's inputs, `results` outputs to the module's result.
    `signature` is there where tensors in a row go in and come out, as a `DirectCall` needs it.
    `again` reads the module once more, with some nodes as calls of torch. `read_ahead` are the
    weights on whose elements the graph itself depends.
    """

    graph: Graph
    arrays: Callable[[Sequence[Any], Mapping[str, Any]], Arrays] = field(repr=False)
    results: Callable[[Arrays], Any] = field(repr=False)
    signature: TensorSignature | None = None
    again: Reader | None = field(default=None, repr=False)
    read_ahead: frozenset[str] = frozenset()

    def function(
        self, run: Callable[..., Arrays] | None = None, direct: DirectCall | None = None
    ) -> Callable[..., Any]:
        """Return the module as a function of tensors.

        It is computed by `run(*arrays)`, by default the graph itself, and by `direct` where that
        can read the tensors. Results lie on the device of the arguments.
        """
        compute = run or self.graph

        def call(*arguments: Any, **keywords: Any) -> Any:
            results = self.results(compute(*self.arrays(arguments, keywords)))
            device = device_of((arguments, keywords) if keywords else arguments)
            return results if device is None else moved(results, device)

        if direct is None or self.signature is None:
            return call
        if direct.device != HOST:
            return device_function(direct, self.signature, call)
        return tensor_function(direct, self.signature, call)


@dataclass(frozen=True)
class _Source:
    """An ATen graph; `weight(node)` is what a placeholder stands for, None for an input.

    `orders` are those of the axes of some inputs in memory, by the names of their placeholders.
    """

    graph: fx.Graph
    owner: Any
    weight: Callable[[fx.Node], Weight | None]
    orders: Mapping[str, Order]

    def read(self, excluded: Exclusions) -> tuple[ImportRecord, GraphImporter]:
        """Return the graph read, without the nodes that stay calls of torch."""
        importer = GraphImporter(excluded)

        def add_placeholder(node: fx.Node) -> None:
            weight = self.weight(node)
            if weight is not None:
                importer.weight(node, weight.name, weight.tensor, weight.is_constant)
            elif _is_tensor(node):
                importer.input(node, self.orders.get(node.name))

        graph, names = _add_nodes(self.graph, self.owner, importer, add_placeholder)
        read_ahead = frozenset(importer.read_ahead)
        return ImportRecord(graph, importer.sources, names, read_ahead), importer

    def constant(self, node: fx.Node) -> Any:
        """Return the value of a node that is no call and no input of the graph."""
        if node.op == "get_attr":
            return _attribute(self.owner, node.target)
        weight = self.weight(node)
        return node.meta.get("val") if weight is None else weight.tensor

    def reader(self, build: Callable[[ImportRecord], Model]) -> Reader:
        """Return a function that reads the graph again; `build` makes a model of what is read."""

        def read_again(excluded: Exclusions) -> tuple[Model, Reading]:
            record, importer = self.read(excluded)
            values = framework_values(
                self.graph, self.constant, importer.values, importer.called_inputs
            )
            names = [tensor.name for tensor in record.graph.inputs]
            values = values_of_inputs(values, names, importer.orders)
            in_f64 = values_in_f64(self.graph, self.constant, importer.values)
            reading = Reading(
                record.graph, origins(importer.values), values, in_f64, definers(self.graph)
            )
            return build(record), reading

        return read_again


def import_exported(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Model:
    """Import a module through `torch.export`."""
    exported = export_module(module, arguments, keywords)
    places = _input_places(exported, arguments, keywords)
    orders = {place.name: place.order for place in places if place.order is not None}
    source = _Source(
        exported.graph, exported.owner, lambda node: exported.weights.get(node.name), orders
    )
    nest = _nest_function(exported.out_spec)
    to_arrays = _array_function(exported.in_spec, arguments, keywords, places)
    is_row = _is_row(exported.in_spec) and len(places) == exported.in_spec.num_leaves

    def build(imported: ImportRecord) -> Model:
        graph = _with_orders(imported.graph, [place.order for place in places])
        outputs = _outputs(_output_leaves(exported.graph), imported.extra, graph)
        rebuild = _rebuild_function(outputs)
        signature = None
        if is_row:
            signature = _signature(graph, [place.dtype for place in places], outputs, nest)
        return Model(
            graph,
            lambda arguments, keywords: graph.in_memory(to_arrays(arguments, keywords)),
            lambda arrays: nest(iter(rebuild(arrays))),
            signature,
            source.reader(build),
            imported.read_ahead,
        )

    origin = graph_origin(exported)
    if origin is None:
        return build(source.read({})[0])
    if orders:
        origin = replace(origin, structure=f"{origin.structure} {orders}")
    return build(import_cached(origin, lambda: source.read({})[0]))


def _input_places(
    exported: ExportedGraph, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[InputPlace]:
    """Return the tensors among the arguments of a module."""
    from torch.utils._pytree import tree_flatten

    leaves = tree_flatten((tuple(arguments), dict(keywords)))[0]
    places: list[InputPlace] = []
    position = 0
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name not in exported.weights:
            if _is_tensor(node):
                order = memory_order(leaves[position])
                places.append(InputPlace(position, node.name, node.meta["val"].dtype, order))
            position += 1
    return places


def _signature(
    graph: Graph, inputs: Sequence[Any], outputs: Sequence[_Output], nest: Nest
) -> TensorSignature | None:
    """Return the dtypes of a module, those of its inputs first; None where results share memory."""
    if not all(output.is_own for output in outputs):
        return None
    orders = [graph.orders.get(tensor.name) for tensor in graph.inputs]
    return TensorSignature(inputs, [output.dtype for output in outputs], nest, orders)


def import_fx(
    module: fx.GraphModule, examples: Sequence[Any], weights: Sequence[int] = ()
) -> tuple[Model, list[int]]:
    """Import an FX graph, whose inputs and outputs are in a row.

    Returns a function of those inputs that are tensors and no weights, and their positions.
    """
    import torch

    if not _is_aten(module.graph):
        module = _trace(module, examples)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    bound: dict[str, Weight] = {}
    inputs: list[int] = []
    orders: dict[str, Order] = {}
    for position, (node, example) in enumerate(zip(placeholders, examples)):
        node.meta.setdefault("val", example)
        if position in weights:
            bound[node.name] = Weight(node.name, example, False)
        elif isinstance(example, torch.Tensor):
            inputs.append(position)
            order = memory_order(example)
            if order is not None:
                orders[node.name] = order
    source = _Source(module.graph, module, lambda node: bound.get(node.name), orders)
    in_order = [orders.get(placeholders[position].name) for position in inputs]
    dtypes = [examples[position].dtype for position in inputs]

    def build(imported: ImportRecord) -> Model:
        graph = _with_orders(imported.graph, in_order)
        outputs = _outputs(_output_leaves(module.graph), imported.extra, graph)
        rebuild = _rebuild_function(outputs)
        signature = _signature(graph, dtypes, outputs, list)
        restore = layout_restorer([output.example for output in outputs])
        results = rebuild
        if restore is not None:
            signature = None  # kernels write contiguous memory
            results = _in_turn(rebuild, restore)
        return Model(
            graph,
            lambda tensors, _: graph.in_memory(list(map(array_of, tensors))),
            results,
            signature,
            source.reader(build),
            imported.read_ahead,
        )

    return build(source.read({})[0]), inputs


def _with_orders(graph: Graph, orders: Sequence[Order | None]) -> Graph:
    """Return a graph whose inputs lie in memory in some orders."""
    known = {}
    for tensor, order in zip(graph.inputs, orders):
        if order is not None:
            known[tensor.name] = order
    return replace(graph, orders=known) if known else graph


def _in_turn(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: second(first(value))


def _is_aten(graph: fx.Graph) -> bool:
    """Return whether all calls are of ATen operators, or take an item of a result."""
    calls = [node for node in graph.nodes if node.op.startswith("call_")]
    return all(hasattr(node.target, "_schema") or _is_item(node) for node in calls)


def _is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _is_tensor(node: fx.Node) -> bool:
    return hasattr(node.meta.get("val"), "dtype")


def _trace(module: fx.GraphModule, examples: Sequence[Any]) -> fx.GraphModule:
    """Return a graph of functions and modules as one of ATen operators.

    Its parameters are attributes.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        table = decomposition_table().materialize()
        return make_fx(torch.func.functionalize(module), table)(*examples)


def _add_nodes(
    graph: fx.Graph,
    owner: Any,
    importer: GraphImporter,
    add_placeholder: Callable[[fx.Node], None],
) -> tuple[Graph, list[str | None]]:
    """Import all nodes in order.

    Returns the graph, and the names of its outputs with None for those that are no tensors.
    """
    _clean(graph)
    names: list[str | None] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            add_placeholder(node)
        elif node.op == "get_attr":
            importer.attribute(node, _attribute(owner, node.target))
        elif node.op == "output":
            names = [importer.values.get(leaf) for leaf in _output_leaves(graph)]
        elif node.users:
            importer.call(node)
    return importer.builder.graph([name for name in names if name is not None]), names


def _clean(graph: fx.Graph) -> None:
    """Remove checks of shapes that depend on data, operands without elements, and dead code."""
    drop_empty_parts(graph)
    for node in list(graph.nodes):
        if is_check(node):
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _attribute(owner: Any, path: Any) -> Any:
    for part in str(path).split("."):
        owner = getattr(owner, part)
    return owner


def _output_leaves(graph: fx.Graph) -> list[Any]:
    """Return the outputs of a graph in a row: nodes and plain values."""
    (outputs,) = next(node for node in graph.nodes if node.op == "output").args
    if isinstance(outputs, (tuple, list)):
        return list(outputs)
    return [outputs]


def _array_function(
    spec: Any,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    places: Sequence[InputPlace],
) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Array]]:
    """Return a function from arguments to arrays of the inputs.

    The arguments are nested as in the example, and of the same dtypes; what is no tensor there is
    the same.
    """
    from torch import Tensor
    from torch.utils._pytree import tree_flatten

    example = _call_text(arguments, keywords)
    fixed = dict(enumerate(tree_flatten((tuple(arguments), dict(keywords)))[0]))
    for place in places:
        del fixed[place.position]
    expects_row = _is_row(spec)  # which needs no search for what is nested

    def is_row(arguments: Sequence[Any]) -> bool:
        if not expects_row or len(arguments) != spec.num_leaves:
            return False
        return all(isinstance(argument, Tensor) for argument in arguments)

    def to_arrays(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Array]:
        leaves = arguments
        if keywords or not is_row(arguments):
            leaves, structure = tree_flatten((tuple(arguments), dict(keywords)))
            if structure != spec:
                call = _call_text(arguments, keywords)
                raise ShapeError(
                    f"the arguments are {call}, and those of the example {example}\n"
                    "  call it as in the example"
                )
        for position, value in fixed.items():
            _require_same(leaves[position], value)
        return [_array(leaves[place.position], place) for place in places]

    return to_arrays


def _require_same(value: Any, example: Any) -> None:
    """Raise `ShapeError` for another plain argument than that of the example, which the graph
    depends on.
    """
    if _is_same(value, example):
        return
    raise ShapeError(
        f"an argument is {_plain_text(value)}, and {_plain_text(example)} in the example\n"
        "  call it as in the example, or optimize the model again with these arguments"
    )


def _is_same(value: Any, example: Any) -> bool:
    """Tell whether two plain arguments are one, in type and, of zeros, in sign."""
    if value is example:
        return True
    if type(value) is not type(example):
        return False
    if isinstance(value, float):
        return repr(value) == repr(example)
    return bool(value == example)


def _plain_text(value: Any) -> str:
    """Return a plain argument as it is written, of anything else the type."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    return f"a {type(value).__name__}"


def _is_row(spec: Any) -> bool:
    """Return whether arguments are leaves in a row."""
    from torch.utils._pytree import tree_flatten

    return spec == tree_flatten(((None,) * spec.num_leaves, {}))[1]


def _array(value: Any, place: InputPlace) -> Array:
    """Return the array of an input, which has the dtype of the example.

    Torch's modules do not convert either.
    """
    array = array_of(value)
    if value.dtype is not place.dtype:
        raise ShapeError(
            f"input {place.name} has elements of {value.dtype}, not of {place.dtype}\n"
            f"  convert it with .to({place.dtype})"
        )
    return array


class _TypeName(str):
    """The type of a value in a text of arguments, which has no quotation marks."""

    __repr__ = str.__str__


def _call_text(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Return arguments as they are written in a call, with types in the place of values.

    For example `(Tensor, [Tensor, int], mask=Tensor)`.
    """
    from torch.utils._pytree import tree_map

    types, named_types = tree_map(
        lambda leaf: _TypeName(type(leaf).__name__), (tuple(arguments), dict(keywords))
    )
    parts = list(map(repr, types))
    for name, kind in named_types.items():
        parts.append(f"{name}={kind!r}")
    return f"({', '.join(parts)})"


def _nest_function(spec: Any) -> Nest:
    """Return a function that puts leaves in a row into the structure of a spec.

    For tuples and lists it is faster than torch's.
    """
    from torch.utils._pytree import tree_unflatten

    if spec.is_leaf():
        return next
    if spec.type in (tuple, list):
        parts = [_nest_function(child) for child in _children(spec)]
        return lambda leaves: spec.type([part(leaves) for part in parts])
    return lambda leaves: tree_unflatten(list(islice(leaves, spec.num_leaves)), spec)


def _children(spec: Any) -> Sequence[Any]:
    if hasattr(spec, "children"):
        return spec.children()
    return spec.children_specs  # before torch 2.9


@dataclass(frozen=True)
class _Output:
    """A result of a module.

    `name` is its value in the graph, None where it is no tensor but what the `example` is; `dtype`
    is None for a number. It `is_own` where it shares memory with no other output, input or weight.
    """

    name: str | None
    example: Any
    dtype: Any
    is_own: bool


def _outputs(leaves: Sequence[Any], names: Sequence[str | None], graph: Graph) -> list[_Output]:
    computed: set[str] = set()
    for node in graph.nodes:
        computed.update(node.outputs)
    outputs: list[_Output] = []
    for name, leaf in zip(names, leaves):
        example = getattr(leaf, "meta", {}).get("val", leaf)
        outputs.append(_Output(name, example, getattr(example, "dtype", None), name in computed))
        computed.difference_update([name])  # a second output of that name shares its memory
    return outputs


def _rebuild_function(outputs: Sequence[_Output]) -> Callable[[Arrays], list[Any]]:
    """Return a function from arrays of the outputs to results, of which no two share memory."""

    def rebuild(arrays: Arrays) -> list[Any]:
        remaining = iter(arrays)
        results: list[Any] = []
        for output in outputs:
            if output.name is None:
                results.append(output.example)
            else:
                results.append(_result(next(remaining), output))
        return results

    return rebuild


def _result(array: Array, output: _Output) -> Any:
    """Return an output as a number, or as a tensor with memory of its own."""
    if output.dtype is None:
        return array.item()
    if not output.is_own:
        array = array.copy()
    return tensor_of(array, output.dtype)
