"""Modules read as graphs, and the way from tensors to arrays and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from einalg.errors import ShapeError
from einalg.frontends.graph import Graph
from einalg.frontends.import_cache import ImportRecord, import_cached
from einalg.frontends.torch.capture.export import decomposition_table, export_module
from einalg.frontends.torch.capture.functionalize import drop_empty_parts, is_check
from einalg.frontends.torch.capture.graph_json import graph_origin
from einalg.frontends.torch.direct_call import TensorSignature, tensor_function
from einalg.frontends.torch.importer import GraphImporter
from einalg.frontends.torch.nodes.tensors import Array, array_of, tensor_of
from einalg.runtime.direct_call import DirectCall

if TYPE_CHECKING:
    from torch import fx

Arrays = Sequence[Array]
Place = tuple[
    int, str, Any
]  # of an input: its position among the arguments, its name and its dtype


@dataclass(frozen=True)
class Model:
    """A graph that stands for a module: `arrays` gives the graph's inputs for arguments, `results` the module's result for outputs."""

    graph: Graph
    arrays: Callable[[Sequence[Any], Mapping[str, Any]], list[Array]] = field(repr=False)
    results: Callable[[Arrays], Any] = field(repr=False)
    row: TensorSignature | None = None

    def function(
        self, run: Callable[..., Arrays] | None = None, direct: DirectCall | None = None
    ) -> Callable[..., Any]:
        """The module as a function of tensors, computed by `run(*arrays)`, by default the graph itself; by `direct` where it can read them."""
        compute = run or self.graph

        def call(*arguments: Any, **keywords: Any) -> Any:
            return self.results(compute(*self.arrays(arguments, keywords)))

        return call if direct is None or self.row is None else tensor_function(direct, self.row, call)


def import_exported(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Model:
    """A module through `torch.export`."""
    found = export_module(module, arguments, keywords)
    user_inputs = [
        n for n in found.graph.nodes if n.op == "placeholder" and n.name not in found.weights
    ]
    places = [(k, n.name, n.meta["val"].dtype) for k, n in enumerate(user_inputs) if _is_tensor(n)]

    def read() -> ImportRecord:
        reader = GraphImporter()

        def placeholder(node: fx.Node) -> None:
            if weight := found.weights.get(node.name):
                reader.weight(node, weight.name, weight.tensor, weight.is_constant)
            elif _is_tensor(node):
                reader.input(node)

        graph, names = _read(found.graph, found.owner, reader, placeholder)
        return ImportRecord(graph, reader.sources, names)

    origin = graph_origin(found)
    reading = read() if origin is None else import_cached(origin, read)
    graph, names = reading.graph, reading.extra
    outputs, nest = _outputs(_output_leaves(found.graph), names, graph), _nested(found.out_spec)
    rebuild = _rebuilder(outputs)
    in_row = _is_row(found.in_spec) and [position for position, _, _ in places] == list(
        range(found.in_spec.num_leaves)
    )
    row = (
        TensorSignature(
            [dtype for _, _, dtype in places], [output.dtype for output in outputs], nest
        )
        if in_row and all(o.is_own for o in outputs)
        else None
    )
    arrays = _flattened(found.in_spec, _call(arguments, keywords), places)
    return Model(graph, arrays, lambda given: nest(iter(rebuild(given))), row)


def import_fx(
    module: fx.GraphModule, examples: Sequence[Any], weights: Sequence[int] = ()
) -> tuple[Model, list[int]]:
    """An FX graph, whose inputs and outputs are in a row, as a function of those inputs that are tensors and no weights; and their positions."""
    import torch

    if not all(
        hasattr(n.target, "_schema") or _is_item(n)
        for n in module.graph.nodes
        if n.op.startswith("call_")
    ):
        module = _traced(module, examples)
    reader, places = GraphImporter(), []
    position = iter(range(len(examples)))

    def placeholder(node: fx.Node) -> None:
        place = next(position)
        example = examples[place]
        node.meta.setdefault("val", example)
        if place in weights:
            reader.weight(node, node.name, example)
        elif isinstance(example, torch.Tensor):
            places.append(place)
            reader.input(node)

    graph, names = _read(module.graph, module, reader, placeholder)
    outputs = _outputs(_output_leaves(module.graph), names, graph)
    row = (
        TensorSignature(
            [examples[place].dtype for place in places], [output.dtype for output in outputs], list
        )
        if all(o.is_own for o in outputs)
        else None
    )
    return Model(
        graph, lambda given, _: list(map(array_of, given)), _rebuilder(outputs), row
    ), places


def _is_tensor(node: fx.Node) -> bool:
    return hasattr(node.meta.get("val"), "dtype")


def _is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"


def _traced(module: fx.GraphModule, examples: Sequence[Any]) -> fx.GraphModule:
    """A graph of functions and modules as one of ATen operators, its parameters among its attributes."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        return make_fx(torch.func.functionalize(module), decomposition_table().materialize())(*examples)


def _read(
    graph: fx.Graph, owner: Any, reader: GraphImporter, placeholder: Callable[[fx.Node], None]
) -> tuple[Graph, list[str | None]]:
    """All nodes in order; the graph, and the names of its outputs with None for what is no tensor."""
    _cleaned(graph)
    names: list[str | None] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            placeholder(node)
        elif node.op == "get_attr":
            reader.attribute(node, _attribute(owner, node.target))
        elif node.op == "output":
            names = [
                reader.values.get(leaf) if leaf in reader.values else None
                for leaf in _output_leaves(graph)
            ]
        elif node.users:
            reader.call(node)
    return reader.builder.graph([name for name in names if name is not None]), names


def _cleaned(graph: fx.Graph) -> None:
    """Leave out what torch checks of shapes that depend on data, what has no elements, and what is computed for these alone."""
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
    """What a graph gives, one by one: nodes and plain values."""
    (given,) = next(n for n in graph.nodes if n.op == "output").args
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _flattened(
    spec: Any, example: str, places: Sequence[Place]
) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Array]]:
    """Arguments, nested as in the example and of the same dtypes, to arrays of the inputs."""
    from torch import Tensor
    from torch.utils._pytree import tree_flatten

    plain = _is_row(spec)  # which needs no search for what is nested

    def arrays(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Array]:
        given = arguments
        if (
            not plain
            or keywords
            or len(arguments) != spec.num_leaves
            or not all(isinstance(argument, Tensor) for argument in arguments)
        ):
            given, found = tree_flatten((tuple(arguments), dict(keywords)))
            if found != spec:
                raise ShapeError(
                    f"the arguments are {_call(arguments, keywords)}, and those of the example {example}\n  call it as in the example"
                )
        return [_array(given[position], name, dtype) for position, name, dtype in places]

    return arrays


def _is_row(spec: Any) -> bool:
    """Whether arguments are leaves in a row."""
    from torch.utils._pytree import tree_flatten

    return spec == tree_flatten(((None,) * spec.num_leaves, {}))[1]


def _array(value: Any, name: str, dtype: Any) -> Array:
    """The array of an input, which has the dtype of the example: torch's modules do not convert either."""
    array = array_of(value)
    if value.dtype is not dtype:
        raise ShapeError(
            f"input {name} has elements of {value.dtype}, not of {dtype}\n  convert it with .to({dtype})"
        )
    return array


class _Kind(str):
    """The type of a value in a text of arguments."""

    __repr__ = str.__str__


def _call(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Arguments as they are written in a call, with types in the place of values: `(Tensor, [Tensor, int], mask=Tensor)`."""
    from torch.utils._pytree import tree_map

    kinds, named = tree_map(
        lambda leaf: _Kind(type(leaf).__name__), (tuple(arguments), dict(keywords))
    )
    return (
        f"({', '.join([*map(repr, kinds), *(f'{name}={kind!r}' for name, kind in named.items())])})"
    )


def _nested(spec: Any) -> Callable[[Iterator[Any]], Any]:
    """What puts leaves in a row into the structure of a spec: torch's own function, but for tuples and lists, where it takes long."""
    from torch.utils._pytree import tree_unflatten

    if spec.is_leaf():
        return next
    if spec.type in (tuple, list):
        children = (
            spec.children() if hasattr(spec, "children") else spec.children_specs
        )  # before torch 2.9
        parts = [_nested(child) for child in children]
        return lambda leaves: spec.type([part(leaves) for part in parts])
    return lambda leaves: tree_unflatten([next(leaves) for _ in range(spec.num_leaves)], spec)


@dataclass(frozen=True)
class _Output:
    """A result of a module: its value in the graph, None where it is no tensor but what the `example` is; its dtype, None for a number.

    It is its `own` where it shares memory with no other output, nor with an input or a weight.
    """

    name: str | None
    example: Any
    dtype: Any
    is_own: bool


def _outputs(leaves: Sequence[Any], names: Sequence[str | None], graph: Graph) -> list[_Output]:
    examples = [getattr(leaf, "meta", {}).get("val", leaf) for leaf in leaves]
    made = {name for node in graph.nodes for name in node.outputs}
    own = [name in made and names.index(name) == k for k, name in enumerate(names)]
    return [
        _Output(name, example, getattr(example, "dtype", None), alone)
        for name, example, alone in zip(names, examples, own)
    ]


def _rebuilder(outputs: Sequence[_Output]) -> Callable[[Arrays], list[Any]]:
    """Arrays of the outputs to tensors, with what is no tensor between them; no two share memory, nor do they with an input or a weight."""

    def rebuild(arrays: Arrays) -> list[Any]:
        given = iter(arrays)
        return [
            output.example if output.name is None else _result(next(given), output)
            for output in outputs
        ]

    return rebuild


def _result(array: Array, output: _Output) -> Any:
    return (
        array.item()
        if output.dtype is None
        else tensor_of(array if output.is_own else array.copy(), output.dtype)
    )
