"""Common subexpressions of both sides of a rule, as leaves: what is equal for any tensor there is
equal for theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations, product
from typing import Any

from derive.substitutions.graphs.graph import Leaf, Operation, Port, RuleGraph, Source

Key = Any  # of a tensor: a leaf, or an operator with parameters, keys of inputs, and an output


def reduced(graph: RuleGraph, equal: Mapping[Port, Port] | None = None) -> RuleGraph | None:
    """Return a rule with a leaf for each tensor that both sides compute alike; None where they
    compute none. `equal` has tensors of the right side that are known to equal one of the left.
    """
    keys = [_keys(graph.before, {}), {}]
    known = {port: keys[0][other] for port, other in (equal or {}).items()}
    keys[1] = _keys(graph.after, known)
    common = set(keys[0].values()) & set(keys[1].values())
    if not common:
        return None
    first = max([leaf.number for leaf in graph.leaves], default=0) + 1
    leaves: dict[Key, Leaf] = {}
    for key in keys[0].values():
        if key in common:
            leaves.setdefault(key, Leaf(first + len(leaves)))
    sides, places = [], []
    for operations, known in zip(graph.sides, keys):
        replaced: dict[Source, Source] = {}
        for port, key in known.items():
            if key in leaves:
                replaced[port] = leaves[key]
        operations, moved = _without(operations, replaced)
        sides.append(operations)
        places.append(moved)
    outputs = []
    for before, after in graph.outputs:
        outputs.append((places[0].get(before, before), places[1].get(after, after)))
    smaller = RuleGraph(sides[0], sides[1], tuple(outputs), graph.shapes)
    return _pruned(smaller)


def _keys(operations: tuple[Operation, ...], known: Mapping[Port, Key]) -> dict[Port, Key]:
    """Return a key for each result of each operation, equal for equal expressions; of some it is
    known.
    """
    keys: dict[Port, Key] = {}
    for place, operation in enumerate(operations):
        inputs = tuple([keys[s] if isinstance(s, Port) else s for s in operation.inputs])
        for port in operation.results(place):
            keys[port] = known.get(port) or _key(operation, inputs, port.output)
    return keys


def _key(operation: Operation, inputs: tuple[Key, ...], number: int) -> Key:
    """Return the key of a result: an activation is an operator of its own."""
    parameters = dict(operation.parameters)
    activation = parameters.pop("act", "none")
    key = (operation.operator, tuple(parameters.items()), inputs, number)
    if activation == "none":
        return key
    return (activation, (), (key,), 0)


def _without(
    operations: tuple[Operation, ...], replaced: dict[Source, Source]
) -> tuple[tuple[Operation, ...], dict[Source, Source]]:
    """Return operations of which those whose results are all replaced are left out, and where each
    result is now.
    """
    rest: list[Operation] = []
    places = dict(replaced)
    for place, operation in enumerate(operations):
        ports = operation.results(place)
        if all(port in replaced for port in ports):
            continue
        for port in ports:
            places.setdefault(port, Port(len(rest), port.output))
        inputs = tuple([places.get(source, source) for source in operation.inputs])
        rest.append(Operation(operation.operator, operation.parameters, inputs))
    return tuple(rest), places


def _pruned(graph: RuleGraph) -> RuleGraph:
    """Return a rule without the operations that no output needs."""
    before, one = _needed(graph.before, [pair[0] for pair in graph.outputs])
    after, two = _needed(graph.after, [pair[1] for pair in graph.outputs])
    outputs = tuple([(one.get(a, a), two.get(b, b)) for a, b in graph.outputs])
    return RuleGraph(before, after, outputs, graph.shapes)


def _needed(
    operations: tuple[Operation, ...], outputs: list[Source]
) -> tuple[tuple[Operation, ...], dict[Source, Source]]:
    needed = {source.operation for source in outputs if isinstance(source, Port)}
    for place in reversed(range(len(operations))):
        if place in needed:
            for source in operations[place].inputs:
                if isinstance(source, Port):
                    needed.add(source.operation)
    rest: list[Operation] = []
    places: dict[Source, Source] = {}
    for place, operation in enumerate(operations):
        if place not in needed:
            continue
        for port in operation.results(place):
            places[port] = Port(len(rest), port.output)
        inputs = tuple([places.get(source, source) for source in operation.inputs])
        rest.append(Operation(operation.operator, operation.parameters, inputs))
    return tuple(rest), places


def single_outputs(graph: RuleGraph) -> list[RuleGraph]:
    """Return a rule for each output, with the operations that it needs."""
    rules = []
    for pair in graph.outputs:
        rules.append(_pruned(RuleGraph(graph.before, graph.after, (pair,), graph.shapes)))
    return rules


MOST_OCCURRENCES = 8  # of leaves in a side that is written out
MOST_RENAMINGS = 24


def parts(graph: RuleGraph) -> list[tuple[Port, Port, RuleGraph]]:
    """Return pairs of tensors inside both sides that are computed from the same leaves, earlier
    ones first, each as a rule.
    """
    rules = []
    for a, ours in _leaves_of_results(graph.before).items():
        for b, theirs in _leaves_of_results(graph.after).items():
            if ours == theirs and (a, b) not in graph.outputs:
                part = RuleGraph(graph.before, graph.after, ((a, b),), graph.shapes)
                rules.append((a, b, _pruned(part)))
    return rules


def _leaves_of_results(operations: tuple[Operation, ...]) -> dict[Port, frozenset[Leaf]]:
    """Return the leaves that each result of each operation is computed from."""
    leaves: dict[Port, frozenset[Leaf]] = {}
    for place, operation in enumerate(operations):
        read: set[Leaf] = set()
        for source in operation.inputs:
            read |= leaves[source] if isinstance(source, Port) else {source}
        for port in operation.results(place):
            leaves[port] = frozenset(read)
    return leaves


SUMS = ("conv2d", "matmul", "poolavg")  # over an axis of what they read


def nests_sums(graph: RuleGraph) -> bool:
    """Return whether on both sides a sum is computed of sums."""
    return all(_depth_of_sums(operations) > 1 for operations in graph.sides)


def _depth_of_sums(operations: tuple[Operation, ...]) -> int:
    depths: list[int] = []
    for operation in operations:
        ports = [source for source in operation.inputs if isinstance(source, Port)]
        inner = max([depths[port.operation] for port in ports], default=0)
        depths.append(inner + (operation.operator in SUMS))
    return max(depths, default=0)


def renamed_apart(graph: RuleGraph) -> list[RuleGraph]:
    """Return rules of which a rule of one output is a case: with a new leaf for each occurrence of
    a leaf, in the orders in which those of both sides may correspond.
    """
    if len(graph.outputs) != 1:
        return []
    try:
        before, root, ours = _written_out(graph.before, graph.outputs[0][0])
        after, other_root, theirs = _written_out(graph.after, graph.outputs[0][1])
    except _TooLarge:
        return []
    if sorted(map(_number, ours)) != sorted(map(_number, theirs)) or len(set(ours)) == len(ours):
        return []
    first = max(map(_number, graph.leaves)) + 1
    shapes = []
    for number, leaf in enumerate(ours, start=first):
        shapes += [(number, shape) for other, shape in graph.shapes if other == leaf.number]
    before = _with_leaves(before, list(range(first, first + len(ours))))
    rules = []
    for order in _orders(ours, theirs):
        renamed = _with_leaves(after, [first + place for place in order])
        rules.append(RuleGraph(before, renamed, ((root, other_root),), tuple(shapes)))
    return rules


class _TooLarge(Exception):
    """A side has too many leaves when nothing is shared."""


def _number(leaf: Leaf) -> int:
    return leaf.number


def _written_out(
    operations: tuple[Operation, ...], output: Source
) -> tuple[tuple[Operation, ...], Source, list[Leaf]]:
    """Return what an output needs with nothing shared, and the leaves as they occur, whose places
    from 1 are the leaves of the result.
    """
    rest: list[Operation] = []
    leaves: list[Leaf] = []

    def copied(source: Source) -> Source:
        if isinstance(source, Leaf):
            if len(leaves) == MOST_OCCURRENCES:
                raise _TooLarge
            leaves.append(source)
            return Leaf(len(leaves))
        operation = operations[source.operation]
        inputs = tuple([copied(inner) for inner in operation.inputs])
        rest.append(Operation(operation.operator, operation.parameters, inputs))
        if len(rest) > 2 * MOST_OCCURRENCES:
            raise _TooLarge
        return Port(len(rest) - 1, source.output)

    root = copied(output)
    return tuple(rest), root, leaves


def _orders(ours: list[Leaf], theirs: list[Leaf]) -> list[list[int]]:
    """Return, for the occurrences on the right, the places on the left that they may be; first
    those in which equal leaves keep their order.
    """
    kinds = sorted(set(ours), key=_number)
    choices = []
    for leaf in kinds:
        places = [place for place, other in enumerate(ours) if other == leaf]
        choices.append(list(permutations(places)))
    orders = []
    for choice in product(*choices):
        queues = {leaf: list(places) for leaf, places in zip(kinds, choice)}
        orders.append([queues[leaf].pop(0) for leaf in theirs])
        if len(orders) == MOST_RENAMINGS:
            break
    return orders


def _with_leaves(operations: tuple[Operation, ...], numbers: list[int]) -> tuple[Operation, ...]:
    """Return operations that read, for the leaf of each place, that of a number."""
    rest = []
    for operation in operations:
        inputs: list[Source] = []
        for source in operation.inputs:
            is_leaf = isinstance(source, Leaf)
            inputs.append(Leaf(numbers[source.number - 1]) if is_leaf else source)
        rest.append(Operation(operation.operator, operation.parameters, tuple(inputs)))
    return tuple(rest)


POINTWISE = ("relu", "sigmoid", "tanh")
MOVEMENTS = ("concat", "split", "transpose")  # functions of elements commute with these


def without_activation(graph: RuleGraph) -> RuleGraph | None:
    """Return the rule without the function of elements that both sides apply last, of whose results
    movements may follow; None where that is not the same for each output.

    Where its sides are equal, so are those of the rule.
    """
    before = _Unwrapped(graph.before)
    after = _Unwrapped(graph.after)
    outputs: list[tuple[Source, Source]] = []
    for one, two in graph.outputs:
        inner, function = before.of(one)
        other, other_function = after.of(two)
        if function is None or function != other_function:
            return None
        outputs.append((inner, other))
    (one, ours), (two, theirs) = before.in_order(), after.in_order()
    moved = tuple([(ours.get(a, a), theirs.get(b, b)) for a, b in outputs])
    return _pruned(RuleGraph(one, two, moved, graph.shapes))


class _Unwrapped:
    """Operations of a side, and, at places after all of these, besides each that the function is
    taken from the one without it.
    """

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self._operations = dict(enumerate(operations))
        self._count = len(operations)
        self._functions: dict[int, str | None] = {}

    def of(self, source: Source) -> tuple[Source, str | None]:
        """Return a tensor without the function that is applied to it last, and that."""
        if isinstance(source, Leaf):
            return source, None
        place = source.operation
        operation = self._operations[place]
        if operation.operator in POINTWISE:
            return operation.inputs[0], operation.operator
        if place not in self._functions:
            self._functions[place] = self._unwrap(place, operation)
        return Port(self._count + place, source.output), self._functions[place]

    def _unwrap(self, place: int, operation: Operation) -> str | None:
        """Put an operation without its function besides it, and return that; None where it has
        none.
        """
        parameters = dict(operation.parameters)
        function = parameters.pop("act", "none")
        inputs = operation.inputs
        if operation.operator in MOVEMENTS:
            pairs = [self.of(source) for source in operation.inputs]
            function = pairs[0][1]
            if any(other != function for _, other in pairs):
                return None
            inputs = tuple([inner for inner, _ in pairs])
        if function in (None, "none"):
            return None
        rest = Operation(operation.operator, tuple(parameters.items()), inputs)
        self._operations[self._count + place] = rest
        return function

    def in_order(self) -> tuple[tuple[Operation, ...], dict[Source, Source]]:
        """Return all operations, those without a function where those with it stand, so that
        convolutions keep their order, and where each result is then.
        """
        order = sorted(self._operations, key=lambda place: (place % self._count, place))
        places: dict[Source, Source] = {}
        rest = []
        for new, old in enumerate(order):
            operation = self._operations[old]
            for port in operation.results(old):
                places[port] = Port(new, port.output)
            inputs = tuple([places.get(source, source) for source in operation.inputs])
            rest.append(Operation(operation.operator, operation.parameters, inputs))
        return tuple(rest), places
