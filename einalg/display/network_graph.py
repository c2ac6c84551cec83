"""The graph of a network before and after its optimization: statements in the order in which they
run, what each reads, and its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from derive.cost.model import Roofline, constant_outputs, seconds_by_kernel
from derive.matching import kernels_of, with_operator_names
from derive.programs import OptimizedNetwork
from derive.programs.optimized_program import OptimizedProgram
from derive.rules.inter.lifting_nesting import lifted
from einalg.boundary import public
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant
from einalg.text.tables import aligned
from einalg.text.terminal import fitted
from einalg.text.wording import counted, milliseconds

BEFORE, AFTER = "before", "after"
FRAMEWORK = "framework"
MAX_TEXT_ROWS = 10  # of each side
MAX_NAME_LETTERS, MAX_OPERATOR_LETTERS, MAX_READ_LETTERS = 24, 16, 16
ESTIMATED = "~: estimated by what is counted, not measured"
INSIDE = "–: inside the kernel of a later statement, or not known"
HEADS = ("share", "       ms", "statement", "by", "reads")


@dataclass(frozen=True)
class GraphStatement:
    """A statement, or a call of the framework: its name, the operator that runs it, what it reads.

    `seconds` are those of its kernel by itself: None where it has none of its own or they are not
    known. A statement that depends on weights alone runs `once`, when they are bound. `layer` is
    the layer of the report that it is a part of, if any. `text` is the statement as it is written,
    or why it is a call of the framework.
    """

    name: str
    operator: str
    reads: tuple[str, ...]
    shape: tuple[int, ...] | None = None
    scope: Scope | None = None
    seconds: float | None = None
    is_measured: bool = False
    once: bool = False
    layer: str = ""
    text: str = ""

    @property
    def is_opaque(self) -> bool:
        """Whether the framework computes it."""
        return self.scope is None

    @property
    def time(self) -> str:
        """Its time in words: `0.012`, or `~0.012` for an estimate."""
        if self.seconds is None:
            return "–"
        return f"{'' if self.is_measured else '~'}{self.seconds * 1e3:.3f}"


@dataclass(frozen=True)
class GraphSide:
    """The network before or after: its statements in order, and the seconds of its programs
    together, 0 where they were not measured.
    """

    title: str
    statements: tuple[GraphStatement, ...]
    whole: float

    @property
    def seconds(self) -> float:
        """The seconds of all statements, each by itself."""
        return sum(statement.seconds or 0.0 for statement in self.statements)

    def share(self, seconds: float | None) -> float:
        """Return some seconds as a part of those of all statements."""
        return (seconds or 0.0) / self.seconds if self.seconds else 0.0

    @property
    def head(self) -> str:
        """Its statements and its time in words."""
        calls = sum(statement.is_opaque for statement in self.statements)
        parts = [counted(len(self.statements) - calls, "statement")]
        if calls:
            parts.append(f"{counted(calls, 'call')} of the framework")
        if self.whole:
            parts.append(f"{milliseconds(self.whole)} measured in the whole")
        return f"{self.title}: {', '.join(parts)}"

    def groups(self) -> list[tuple[str, list[GraphStatement]]]:
        """Return the statements of a run, those of one layer that follow each other together.

        Each group has the name of its layer; what is done once is in none.
        """
        repeated = [statement for statement in self.statements if not statement.once]
        groups: list[tuple[str, list[GraphStatement]]] = []
        for layer, members in groupby(repeated, key=lambda statement: statement.layer):
            if layer:
                groups.append((layer, list(members)))
            else:
                groups += [("", [member]) for member in members]
        return groups


@public
class NetworkGraph:
    """A network before and after its optimization; in Jupyter as a graph to search and unfold.

    `before` and `after` hold the statements as plain values, in seconds. The text has those that
    take most of the time.
    """

    def __init__(self, before: GraphSide, after: GraphSide):
        self.before, self.after = before, after

    @property
    def sides(self) -> tuple[GraphSide, GraphSide]:
        """The network before, and after."""
        return self.before, self.after

    def remarks(self) -> list[str]:
        """Return what a reader of the times should know."""
        listed = [s for side in self.sides for s in side.statements if not s.once]
        remarks = []
        if any(s.seconds is not None and not s.is_measured for s in listed):
            remarks.append(ESTIMATED)
        if any(s.seconds is None for s in listed):
            remarks.append(INSIDE)
        return remarks

    def __str__(self) -> str:
        lines: list[str] = []
        for side in self.sides:
            lines += [side.head, *_text_rows(side)]
        return fitted("\n".join([*lines, *self.remarks()]))

    __repr__ = __str__


def _text_rows(side: GraphSide) -> Iterator[str]:
    """Yield the statements that take most of the time, in the order in which they run."""
    longest = sorted(side.statements, key=lambda statement: -(statement.seconds or 0.0))
    chosen = {id(statement) for statement in longest[:MAX_TEXT_ROWS]}
    rows = []
    for statement in side.statements:
        if id(statement) in chosen:
            rows.append(_text_row(side, statement))
    yield from aligned([HEADS, *rows]).splitlines()
    left_out = len(side.statements) - len(rows)
    if left_out:
        yield f"and {left_out} more that take less"


def _text_row(side: GraphSide, statement: GraphStatement) -> tuple[str, str, str, str, str]:
    return (
        f"{side.share(statement.seconds):5.0%}",
        f"{statement.time:>9}",
        _cut(statement.name, MAX_NAME_LETTERS),
        _cut(statement.operator, MAX_OPERATOR_LETTERS),
        _cut(", ".join(statement.reads), MAX_READ_LETTERS),
    )


def _cut(name: str, longest: int) -> str:
    """Return a name in so many letters: its beginning and its end, which tell it from others.

    >>> _cut("native_batch_norm_no_training_10", 20)
    'native_ba…raining_10'
    """
    if len(name) <= longest:
        return name
    half = longest // 2
    return f"{name[: half - 1]}…{name[-(longest - half) :]}"


Times = Mapping[int, tuple[Mapping[str, float], Mapping[str, float]]]


def network_graph(network: OptimizedNetwork, rates: Roofline, times: Times) -> NetworkGraph:
    """Return the graph of an optimized network.

    `times` are the measured seconds of kernels before and after, by the position of their program
    in the graph and by their output; where there are none, `rates` give an estimate.
    """
    return NetworkGraph(_side(network, BEFORE, rates, times), _side(network, AFTER, rates, times))


def _side(network: OptimizedNetwork, title: str, rates: Roofline, times: Times) -> GraphSide:
    number = (BEFORE, AFTER).index(title)
    statements: list[GraphStatement] = []
    whole = 0.0
    weights = network.graph.weights.keys()
    for position, node in enumerate(network.graph.nodes):
        part = network.parts.get(position)
        if part is None:
            why = str(getattr(node, "why", ""))
            operator = f"{FRAMEWORK}: {node.operator}"
            for name in node.outputs:
                statements.append(GraphStatement(name, operator, node.inputs, text=why))
            continue
        whole += part.seconds[number]
        program = part.before if number == 0 else part.after
        measured = times.get(position, ({}, {}))[number]
        layers = [] if number == 0 else [name for layer in part.layers for name in layer.names]
        statements += _statements(part, program, layers, weights, rates, measured)
    return GraphSide(title, tuple(statements), whole)


def _statements(
    part: OptimizedProgram,
    program: Program,
    layers: Sequence[str],
    weights: Iterable[str],
    rates: Roofline,
    measured: Mapping[str, float],
) -> Iterator[GraphStatement]:
    flat = lifted(program)
    kernels = with_operator_names(kernels_of(flat))
    once = constant_outputs(kernels)
    texts = dict(zip(flat.names, str(flat).splitlines()))
    for kernel, estimate in zip(kernels, seconds_by_kernel(rates, kernels), strict=True):
        scope = flat[kernel.output]
        seconds: float | None = estimate
        if measured:
            seconds = measured.get(kernel.output)
        elif part.slices is not None and program is part.after:
            seconds = estimate * part.slices.count
        yield GraphStatement(
            kernel.output,
            kernel.op,
            tuple(_values(scope, weights)),
            scope.shape,
            scope,
            None if kernel.output in once else seconds,
            bool(measured),
            kernel.output in once,
            _layer_of(kernel.output, layers),
            texts[kernel.output],
        )


def _values(scope: Scope, weights: Iterable[str]) -> Iterator[str]:
    """Yield what a statement reads that is neither a weight nor a constant."""
    for name, tensor in scope.tensors.items():
        if name not in weights and not isinstance(tensor, Constant):
            yield name


def _layer_of(name: str, layers: Sequence[str]) -> str:
    """Return the layer that a statement is a part of: that by whose name its own begins."""
    for layer in layers:
        if name == layer or name.startswith(f"{layer}_"):
            return layer
    return ""


@dataclass(frozen=True)
class Lanes:
    """The lines of a graph beside one of its rows: the lane of the row itself, the lanes that end
    in it, those that go on past it, and whether its own goes on below.
    """

    own: int
    ending: tuple[int, ...]
    passing: tuple[int, ...]
    goes_on: bool


def lanes(rows: Sequence[tuple[Iterable[str], Iterable[str]]]) -> list[Lanes]:
    """Return the lines beside rows that are given by what they make and what they read.

    A value has a lane from the row that makes it to the last that reads it. A lane that ends is
    taken again.

    >>> [row.own for row in lanes([("a", ""), ("b", "a"), ("c", "ab")])]
    [0, 1, 0]
    """
    makers: dict[str, int] = {}
    reads: list[set[int]] = []
    last_reader = [-inf] * len(rows)
    for number, (made, read) in enumerate(rows):
        sources = {makers[name] for name in read if name in makers}
        reads.append(sources - {number})
        for source in sources:
            last_reader[source] = number
        makers.update(dict.fromkeys(made, number))
    taken: dict[int, int] = {}  # the row of each lane in use
    result = []
    for number in range(len(rows)):
        lane_of = {row: lane for lane, row in taken.items()}
        incoming = sorted(lane_of[row] for row in reads[number])
        for lane, row in list(taken.items()):
            if last_reader[row] <= number:
                del taken[lane]
        own = next(lane for lane in [*incoming, *range(len(taken) + 1)] if lane not in taken)
        result.append(Lanes(own, tuple(incoming), tuple(taken), last_reader[number] > number))
        if last_reader[number] > number:
            taken[own] = number
    return result
