"""Programs of both sides of a rule, from the operators of `einalg.ops`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sympy import And, Eq, Rational

from derive.substitutions.graphs.graph import Operation, Source
from derive.substitutions.graphs.kinds import MAX_NUMBER, MAX_RANK
from derive.substitutions.graphs.typed_rule import TypedRule
from derive.substitutions.sizes.sizing import Sizing
from einalg.language import ops
from einalg.language.index.cases import Piecewise
from einalg.language.index.size import Extent, is_number
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Sum, indices, tensor
from einalg.language.ops.definition.windows import same_padding

Value = Any  # a tensor or a scope
ACTIVATION = {"relu": ops.relu, "sigmoid": ops.sigmoid, "tanh": ops.tanh}
BINARY = {"ewadd": ops.add, "ewmul": ops.mul}
RESULT_INDICES = indices(" ".join(f"i{axis}" for axis in range(2 * MAX_RANK)))
MAX_BUILT = 4096
n, g, p, c, h, w, r, s = indices("n g p c h w r s")


class NoExpression(Exception):
    """An operator has no expression at these sizes."""


AxisDigits = tuple[tuple[Extent, ...], ...]  # the extents of each axis, one a digit


@dataclass(frozen=True, eq=False)
class BuiltValue:
    """A tensor or a scope with its axes. What is built alike is one object."""

    value: Value
    axes: AxisDigits

    def position(self, place: int) -> int:
        """Return where the digits of an axis begin."""
        return len(flat(self.axes[:place]))


@dataclass(frozen=True)
class AppliedOperator:
    """An operation with what it reads, and the axes of its results."""

    operator: str
    parameters: tuple[tuple[str, Any], ...]
    operands: tuple[BuiltValue, ...]
    results: tuple[AxisDigits, ...]

    @property
    def values(self) -> list[Value]:
        return [operand.value for operand in self.operands]

    @property
    def result_shape(self) -> tuple[Extent, ...]:
        return flat(self.results[0])

    def parameter(self, name: str) -> Any:
        return dict(self.parameters)[name]

    def activated(self, value: Value) -> Value:
        activation = dict(self.parameters).get("act", "none")
        return value if activation == "none" else ACTIVATION[activation](value)


def flat(axes: AxisDigits) -> tuple[Extent, ...]:
    """Return the shape of a tensor with these axes."""
    return tuple([extent for digits in axes for extent in digits])


def programs(rule: TypedRule, sizing: Sizing) -> tuple[Program, Program]:
    """Return both sides of a rule at some sizes."""
    return program_of_side(rule, sizing, 0), program_of_side(rule, sizing, 1)


def program_of_side(rule: TypedRule, sizing: Sizing, side: int) -> Program:
    """Return a side of a rule at some sizes."""
    operands: dict[Source, BuiltValue] = {}
    for leaf in rule.graph.leaves:
        operands[leaf] = _leaf(leaf.name, sizing.all_digits(rule.tensors[leaf]))
    for place, operation in enumerate(rule.graph.sides[side]):
        results = operation.results(place)
        parameters = operation.parameters
        if operation.operator == "merge":
            outputs = _outputs_of_groups(rule, sizing, side, operation)
            parameters = (*parameters, ("outputs", outputs))
        node = AppliedOperator(
            operation.operator,
            parameters,
            tuple([operands[source] for source in operation.inputs]),
            tuple([sizing.all_digits(rule.of(side, result)) for result in results]),
        )
        operands.update(zip(results, _built(node), strict=True))
    statements = []
    for number, pair in enumerate(rule.graph.outputs):
        statements.append((f"O{number + 1}", _scope(operands[pair[side]].value)))
    return Program(statements, [name for name, _ in statements])


def _outputs_of_groups(rule: TypedRule, sizing: Sizing, side: int, operation: Operation) -> int:
    """Return how many outputs a group has in the convolutions that have the weights that an
    operation reads.
    """
    root = rule.axes.root
    features, depth, *_ = map(root, rule.of(side, operation.inputs[0]))
    for channels in rule.axes.channels:
        if (root(channels.features), root(channels.depth)) == (features, depth):
            sizes = [sizing.digits(axis)[0] for axis in (channels.data, depth, features)]
            if all(map(is_number, sizes)):
                return sizes[2] // _groups(sizes[0], sizes[1])
    raise NoExpression


@lru_cache(maxsize=MAX_BUILT)
def _leaf(name: str, axes: AxisDigits) -> BuiltValue:
    return BuiltValue(tensor(name, flat(axes)), axes)


@lru_cache(maxsize=MAX_BUILT)  # choices of groups, and rules of a file, have operators in common
def _built(node: AppliedOperator) -> tuple[BuiltValue, ...]:
    """Return the results of an operator."""
    values = BUILDERS[node.operator](node)
    return tuple(
        [BuiltValue(value, axes) for value, axes in zip(values, node.results, strict=True)]
    )


def _scope(value: Value) -> Scope:
    if isinstance(value, Scope):
        return value
    at = RESULT_INDICES[: value.rank]
    return L[_ranges(at, value.shape)](value[at])


def _ranges(at: Sequence[Any], shape: Sequence[Extent]) -> tuple[slice, ...]:
    return tuple([slice(index, size) for index, size in zip(at, shape, strict=True)])


def _binary(operator: str) -> Callable[[AppliedOperator], list[Value]]:
    return lambda node: [BINARY[operator](*node.values)]


def _unary(operator: str) -> Callable[[AppliedOperator], list[Value]]:
    return lambda node: [ACTIVATION[operator](node.values[0])]


def _scaled(node: AppliedOperator) -> list[Value]:
    value, factor = node.values
    at = RESULT_INDICES[: value.rank]
    return [L[_ranges(at, value.shape)](value[at] * factor[()])]


def _concat(node: AppliedOperator) -> list[Value]:
    position = node.operands[0].position(node.parameter("axis"))
    return [ops.concat(node.values, axis=position)]


def _split(node: AppliedOperator) -> list[Value]:
    place = node.parameter("axis")
    parts = [axes[place][0] for axes in node.results]
    position = node.operands[0].position(place)
    return list(ops.split(node.values[0], parts, axis=position))


def _transpose(node: AppliedOperator) -> list[Value]:
    order: list[int] = []
    for place in node.parameter("perm"):
        start = node.operands[0].position(place)
        order += range(start, start + len(node.operands[0].axes[place]))
    return [ops.transpose(node.values[0], order)]


def _matmul(node: AppliedOperator) -> list[Value]:
    return [node.activated(ops.matmul(*node.values))]


def _padding(node: AppliedOperator, taps: Sequence[Extent]) -> Any:
    """Return the padding of windows: in numbers where the stride is 1."""
    if node.parameter("pad") == "valid" or any(stride > 1 for stride in node.parameter("stride")):
        return node.parameter("pad")
    return [((number - 1) // 2, number // 2) for number in taps]


def _amounts(node: AppliedOperator, padding: Any, taps: Sequence[Extent]) -> Any:
    """Return the padding of windows before and after each axis of space, by its size where the
    stride is larger than 1.
    """
    if padding == "valid":
        return [(0, 0), (0, 0)]
    if padding != "same":
        return padding
    if not all(map(is_number, taps)):
        raise NoExpression
    lengths = flat(node.operands[0].axes[2:])
    return list(map(same_padding, lengths, taps, node.parameter("stride")))


def _conv2d(node: AppliedOperator) -> list[Value]:
    data, kernel = node.values
    features, (inputs, *_), *taps = node.operands[1].axes
    padding = _padding(node, flat(tuple(taps)))
    if len(features) > 1:
        return [node.activated(_conv_of_digits(node, padding))]
    channels = node.operands[0].axes[1][0]
    groups = 1
    if channels != inputs:
        groups = _groups(channels, inputs)
    if not all(map(is_number, flat(tuple(taps)))):
        return [node.activated(_conv_of_any_taps(node, padding, groups))]
    stride = node.parameter("stride")
    result = ops.conv2d(data, kernel, stride=stride, padding=padding, groups=groups)
    return [node.activated(result)]


def _groups(channels: Extent, inputs: Extent) -> int:
    """Return how many times the inputs of a group the channels are."""
    if is_number(channels) and is_number(inputs) and channels % inputs == 0:
        return channels // inputs
    for groups in range(2, MAX_NUMBER):
        if inputs * groups == channels:
            return groups
    raise NoExpression


def _conv_of_digits(node: AppliedOperator, padding: Any) -> Scope:
    """Return a convolution whose channels are pairs of digits: groups, and places in them."""
    kernel = node.values[1]
    depth, *taps = flat(node.operands[1].axes[1:])
    amounts = _amounts(node, padding, taps)
    point = _padded(node, amounts)[n, g, c, *_window(node, amounts)]
    total = Sum[_ranges((c, r, s), (depth, *taps))](point * kernel[g, p, c, r, s])
    return L[_ranges((n, g, p, h, w), node.result_shape)](total)


def _conv_of_any_taps(node: AppliedOperator, padding: Any, groups: int) -> Scope:
    """Return a convolution whose numbers of taps may be sizes."""
    kernel = node.values[1]
    features, depth, *_ = kernel.shape
    channel = c
    if groups > 1:
        if not (is_number(features) and is_number(depth)):
            raise NoExpression
        channel = p // (features // groups) * depth + c
    amounts = _amounts(node, padding, kernel.shape[2:])
    point = _padded(node, amounts)[n, channel, *_window(node, amounts)]
    total = Sum[_ranges((c, r, s), kernel.shape[1:])](point * kernel[p, c, r, s])
    return L[_ranges((n, p, h, w), node.result_shape)](total)


def _padded(node: AppliedOperator, amounts: Any) -> Value:
    data = node.values[0]
    return data.pad(*[0] * (data.rank - 2), *amounts)


def _window(node: AppliedOperator, amounts: Any) -> tuple[Any, Any]:
    """Return the subscripts of an element of data at an output and a tap."""
    steps, ((above, _), (left, _)) = node.parameter("stride"), amounts
    return h * steps[0] + r - above, w * steps[1] + s - left


def _pool(operator: str) -> Callable[[AppliedOperator], list[Value]]:
    plain = {"poolavg": ops.avg_pool2d, "poolmax": ops.max_pool2d}[operator]
    deep = {"poolavg": ops.avg_pool3d, "poolmax": ops.max_pool3d}[operator]

    def build(node: AppliedOperator) -> list[Value]:
        kernel, stride = node.parameter("kernel"), node.parameter("stride")
        padding = _padding(node, kernel)
        axes = node.operands[0].axes
        extra = len(flat(axes)) - len(axes)
        if not extra:
            result = plain(node.values[0], kernel, stride=stride, padding=padding)
            return [node.activated(result)]
        if extra > 1:
            raise NoExpression
        windows = {"stride": (1, *stride), "padding": [(0, 0), *_amounts(node, padding, kernel)]}
        return [node.activated(deep(node.values[0], (1, *kernel), **windows))]

    return build


def _enlarge(node: AppliedOperator) -> list[Value]:
    axes = node.operands[0].axes
    amounts: list[tuple[int, int]] = []
    for size, wanted in zip(flat(axes[2:]), node.parameter("kernel")):
        if not is_number(size):
            raise NoExpression
        amounts.append(((wanted - 1) // 2 - (size - 1) // 2, wanted // 2 - size // 2))
    others = node.operands[0].position(2)
    return [ops.pad(node.values[0], [(0, 0)] * others + amounts)]


def _merge(node: AppliedOperator) -> list[Value]:
    """Return weights with the channels of several groups, where those of others have zeros."""
    count, outputs = node.parameter("count"), node.parameter("outputs")
    (depth,) = node.operands[0].axes[1]
    at = RESULT_INDICES[:4]
    place = at[0] // outputs % count  # of a group among those that it is merged with
    around = (count - 1) * depth
    weights = node.values[0].pad(0, (around, around), 0, 0)
    subscripts = (at[0], at[1] - depth * place, *at[2:])
    return [L[_ranges(at, node.result_shape)](weights[subscripts])]


def _on_diagonal(node: AppliedOperator) -> tuple[tuple[Any, ...], Any]:
    """Return the indices of a kernel constant, and whether its channel is that of its feature."""
    shape = node.result_shape
    at = RESULT_INDICES[: len(shape)]
    feature, channel = at[-4], at[-3]
    rows, columns = shape[-4], shape[-3]
    if rows != columns:
        if not is_number(columns):
            raise NoExpression
        feature = feature % columns
    return at, Eq(feature, channel)


def _identity_kernel(node: AppliedOperator) -> list[Value]:
    at, is_same = _on_diagonal(node)
    height, width = node.parameter("kernel")
    is_row: Any = Eq(at[-2], (height - 1) // 2)
    is_column: Any = Eq(at[-1], (width - 1) // 2)
    is_centre = And(is_same, is_row, is_column)
    return [L[_ranges(at, node.result_shape)](Piecewise((1, is_centre), (0, True)))]


def _pooling_kernel(node: AppliedOperator) -> list[Value]:
    at, is_same = _on_diagonal(node)
    height, width = node.parameter("kernel")
    share = Rational(1, height * width)
    return [L[_ranges(at, node.result_shape)](Piecewise((share, is_same), (0, True)))]


def _identity_matrix(node: AppliedOperator) -> list[Value]:
    at = RESULT_INDICES[:2]
    return [L[_ranges(at, node.result_shape)](Piecewise((1, Eq(*at)), (0, True)))]


def _ones(node: AppliedOperator) -> list[Value]:
    at = RESULT_INDICES[: len(node.result_shape)]
    return [L[_ranges(at, node.result_shape)](1)]


BUILDERS: Mapping[str, Callable[[AppliedOperator], list[Value]]] = {
    "ewadd": _binary("ewadd"),
    "ewmul": _binary("ewmul"),
    "relu": _unary("relu"),
    "sigmoid": _unary("sigmoid"),
    "tanh": _unary("tanh"),
    "smul": _scaled,
    "concat": _concat,
    "split": _split,
    "transpose": _transpose,
    "matmul": _matmul,
    "conv2d": _conv2d,
    "poolavg": _pool("poolavg"),
    "poolmax": _pool("poolmax"),
    "enlarge": _enlarge,
    "merge": _merge,
    "const_iconv": _identity_kernel,
    "const_pool": _pooling_kernel,
    "const_imm": _identity_matrix,
    "const_one": _ones,
}
