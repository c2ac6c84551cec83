"""The cycles of loop IR, whatever wrote it (design §10).

This is the cost of what has no model of its own: the loop nests of the generic lowering, and
transposed squares. It is the sum of what the innermost loops compute and of the lines that come
from the second cache or from memory. The unit is that of the models of contractions, stencils and
depthwise convolutions, so that all can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, log2

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import (
    Apply,
    Bound,
    For,
    Function,
    If,
    MinMax,
    Number,
    Predicate,
    Ref,
    Statement,
    Store,
    Transpose,
    value_parts,
)
from codegen.ir.types import bytes_of
from codegen.kernels.cpu_costs import CPU_COSTS
from einalg.language.index.affine import Affine, FloorDiv, Index, IndexQuotient
from einalg.language.index.convert import affine

LONG_OPERATIONS = {"div": 5.0, "sqrt": 6.0, "pow": 40.0}  # passes of a vector, in products
LINES_OF_LOAD = 1.5  # of the cache, that a vector lies in wherever it begins
OF_FUNCTION = 14.0  # products that a function as exp is worth
SIMPLE_OPERATIONS = frozenset(
    {"mul", "add", "sub", "neg", "abs", "max", "min", "select", "cast", "lt", "le", "eq", "ne"}
    | {"gt", "ge", "and", "or", "not", "scale", "floor", "ceil"}
)


@dataclass(frozen=True)
class OpenLoop:
    """A loop that is open around a statement, `low <= index < high`.

    Where its bounds depend on outer loops, those of their middle steps.
    """

    index: Index
    low: float
    high: float

    @property
    def steps(self) -> float:
        return max(0.0, self.high - self.low)

    @property
    def middle(self) -> float:
        return (self.low + self.high - 1) / 2


def function_cycles(function: Function, target: CpuModel | None = None) -> float:
    """Return the cycles of one run of a function on one core.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> row = ea.parse("O[i,j] = A[i,j] + 1", A=(512, 512))
    >>> column = ea.parse("O[i,j] = A[j,i] + 1", A=(512, 512))
    >>> function_cycles(lower("O", row)) < function_cycles(lower("O", column))
    True
    """
    cost = _LoopCost(target or machine())
    return cost.statements(function.body, ()) + cost.cache(function.body)


def _walk(loop: For, outer: Sequence[OpenLoop]) -> OpenLoop:
    """Return how a loop is walked inside of others."""
    middles = {walk.index: walk.middle for walk in outer}
    first, last = loop.range
    low, high = _middle(loop.low, middles), _middle(loop.high, middles)
    return OpenLoop(loop.index, max(first, low), min(last, high))


@dataclass(frozen=True)
class Branch:
    """A branch: its statements, the loops around with the steps that lead there, and their part."""

    body: Sequence[Statement]
    loops: tuple[OpenLoop, ...]
    share: float


def _branches(branch: If, loops: tuple[OpenLoop, ...]) -> list[Branch]:
    """Return both branches of a condition.

    A condition on one index cuts its loop; one on several holds everywhere, as guards do.
    """
    if not isinstance(branch.test, Predicate):
        return [Branch(branch.then, loops, 0.5), Branch(branch.orelse, loops, 0.5)]
    inside, outside, share = list(loops), list(loops), 1.0
    for condition in branch.test.conditions:
        for place, walk in enumerate(inside):
            if condition.relation != ">=" or condition.form.indices != {walk.index}:
                continue
            factor = condition.form.coefficient(walk.index)
            if not factor or not walk.steps:
                continue
            bound = -condition.form.const / factor
            cut, rest = replace(walk, high=bound + 1), replace(walk, low=bound + 1)
            if factor > 0:
                cut, rest = replace(walk, low=bound), replace(walk, high=bound)
            cut, rest = _clipped(cut, walk), _clipped(rest, walk)
            share *= cut.steps / walk.steps
            inside[place], outside[place] = cut, rest
    return [
        Branch(branch.then, tuple(inside), share),
        Branch(branch.orelse, tuple(outside), 1 - share),
    ]


def _clipped(walk: OpenLoop, whole: OpenLoop) -> OpenLoop:
    low = min(max(walk.low, whole.low), whole.high)
    return replace(walk, low=low, high=max(low, min(walk.high, whole.high)))


def _middle(bound: Bound, middles: Mapping[Index, float]) -> float:
    if isinstance(bound, MinMax):
        parts = [_middle(part, middles) for part in bound.of]
        if bound.op == "min":
            return min(parts)
        return max(parts)
    total = float(bound.const)
    for atom, factor in bound.terms:
        if isinstance(atom, Index):
            total += factor * middles.get(atom, 0.0)
        else:
            total += factor * _middle_of_quotient(atom, middles)
    return total


def _middle_of_quotient(quotient: IndexQuotient, middles: Mapping[Index, float]) -> float:
    value = _middle(quotient.argument, middles)
    if isinstance(quotient, FloorDiv):
        return value // quotient.divisor
    return value % quotient.divisor


@dataclass(frozen=True)
class _LoopCost:
    """The cost of statements on a machine."""

    machine: CpuModel

    # What is computed.

    def statements(self, body: Iterable[Statement], outer: tuple[OpenLoop, ...]) -> float:
        """Return the cycles of what some statements compute, with all data in the first cache."""
        total = 0.0
        for statement in body:
            if isinstance(statement, For):
                total += self.loop(statement, outer)
            elif isinstance(statement, If):
                for branch in _branches(statement, outer):
                    total += branch.share * self.statements(branch.body, branch.loops)
            elif isinstance(statement, Store):
                total += self.straight([statement], None, 1)
            elif isinstance(statement, Transpose):
                total += self.square(statement)
        return total

    def loop(self, loop: For, outer: tuple[OpenLoop, ...]) -> float:
        walk = _walk(loop, outer)
        inside, steps = (*outer, walk), walk.steps
        stores = [statement for statement in loop.body if isinstance(statement, Store)]
        if loop.kind in ("vec", "lanes", "par") and not _has_loops(loop.body):
            return self.innermost(loop, stores, inside, steps)
        return steps * (self.statements(loop.body, inside) + self.turn)

    @property
    def turn(self) -> float:
        """The cycles of counting a step of a loop."""
        return 2 / CPU_COSTS.instructions_per_cycle

    def innermost(
        self, loop: For, stores: Sequence[Store], inside: tuple[OpenLoop, ...], steps: float
    ) -> float:
        """Return the cycles of a loop in vectors; what fills none goes in halves of one."""
        conditional = [s for s in loop.body if isinstance(s, If)]
        if conditional:
            return steps * (self.statements(loop.body, inside) + self.turn)
        lanes = self.machine.widths(_element_bytes(stores))[0]
        rest, total = round(steps), CPU_COSTS.loop_start
        while lanes:
            vectors, rest = divmod(rest, lanes)
            if vectors:
                total += vectors * (self.straight(stores, loop.index, lanes) + self.turn)
            lanes //= 2
        return total

    def straight(self, stores: Sequence[Store], index: Index | None, lanes: int) -> float:
        """Return the cycles of a step of a loop over `index`, in vectors of so many elements."""
        costs = CPU_COSTS
        passes = 1
        if lanes > 1:
            passes = self.machine.passes(lanes, _element_bytes(stores))
        products, latency = 0.0, 0.0
        loads: dict[Ref, None] = {}
        for store in stores:
            products += store_operations(store)
            loads.update(dict.fromkeys(_reads(store, index)))
            if store.op != "=" and index is not None and not _moves(store.ref, index):
                latency = costs.product_latency
        vector_loads, gathers = self.loads(loads, index, lanes, passes)
        compute = passes * products / costs.products_per_cycle
        load = vector_loads / costs.loads_per_cycle
        busy = max(compute, load, latency) + costs.load_beside_products * vector_loads
        return busy + gathers + self.stores(stores, index, lanes, passes)

    def loads(
        self, loads: Iterable[Ref], index: Index | None, lanes: int, passes: int
    ) -> tuple[float, float]:
        """Return the passes of loads of vectors, and the cycles of elements that lie apart."""
        vectors, gathers = 0.0, 0.0
        for ref in loads:
            step = 1
            if index is not None and lanes > 1:
                step = element_step(ref, index)
            if step is None:
                gathers += CPU_COSTS.inserted_element * lanes
            elif abs(step) > 1:
                gathers += min(CPU_COSTS.inserted_element * lanes, passes * 2 * abs(step))
            elif lanes > 1:
                vectors += passes * LINES_OF_LOAD
            else:
                vectors += passes
        return vectors, gathers

    def stores(
        self, stores: Sequence[Store], index: Index | None, lanes: int, passes: int
    ) -> float:
        """Return the cycles of writing to memory, in vectors or element by element."""
        total = 0.0
        for store in stores:
            if store.ref.buf.space != "global" and not store.ref.buf.shape:
                continue
            step = 0
            if index is not None:
                step = abs(element_step(store.ref, index) or 0)
            if step > 1 and _fill_lines(stores, store, step):
                total += min(2 * lanes, passes * (1 + log2(step)))
            elif step > 1:
                total += 2 * lanes
            elif index is None or _moves(store.ref, index):
                total += passes * CPU_COSTS.overlapped_store
        return total

    def square(self, square: Transpose) -> float:
        """Return the cycles of transposing a square: loads, exchanges and stores of its rows."""
        element_bytes = bytes_of(square.source.dtype)
        passes = self.machine.passes(square.size, element_bytes)
        exchanges = log2(max(2, square.size))
        return passes * square.size * (1 + exchanges) / 2

    # Lines of the caches.

    def cache(self, body: Sequence[Statement]) -> float:
        """Return the cycles for lines that are not in the first cache."""
        total = 0.0
        for outer, nest in _nests(body, ()):
            streams = _streams(nest, outer)
            for stream in streams:
                total += self.stream(stream, streams, outer)
        return total

    def stream(
        self, stream: _Stream, streams: Sequence[_Stream], loops: Sequence[OpenLoop]
    ) -> float:
        """Return the cycles for the lines of one stream of elements.

        The loops inside of which all that is used fits into a cache fetch a line once.
        """
        total = 0.0
        for level_bytes, line in (
            (self.machine.level1, CPU_COSTS.level2_line),
            (self.machine.level2, CPU_COSTS.memory_line - CPU_COSTS.level2_line),
        ):
            depth = len(loops)
            while depth and _used_bytes(streams, depth - 1) <= level_bytes:
                if stream.kept_lines(self.machine, depth - 1, level_bytes):
                    depth -= 1
                else:
                    break
            if not depth:
                continue
            fetched = stream.lines(depth)
            for outer in loops[:depth]:
                fetched *= max(1.0, outer.steps)
            fetched = max(stream.lines(0), min(fetched, fetched / stream.shared(depth)))
            total += fetched * line
        return total


@dataclass(frozen=True)
class _Stream:
    """The elements that a reference walks, as steps in bytes for each loop around it.

    `number` are those that walk so, in other lines.
    """

    element_bytes: int
    steps: tuple[tuple[float, float], ...]  # bytes and number, outer first
    number: int = 1

    def place(self, distance: float) -> int:
        """Return how many lines remain of a distance in bytes after whole steps of all loops."""
        for step, count in sorted(self.steps, reverse=True):
            if step and distance // step < count:
                distance %= step
        return int(distance // CPU_COSTS.line_bytes)

    def lines(self, depth: int) -> float:
        """Return the lines that the loops from `depth` on touch."""
        line = CPU_COSTS.line_bytes
        bytes_in_row, rows = float(self.element_bytes), 1.0
        for step, count in sorted(self.steps[depth:]):
            if not step or count <= 1:
                continue
            if step < line or step <= bytes_in_row:
                bytes_in_row += step * (count - 1)
            else:
                rows *= count
        return self.number * rows * max(1.0, bytes_in_row / line)

    def shared(self, depth: int) -> float:
        """Return how many steps of the loop around `depth` share a line."""
        if not depth:
            return 1.0
        step, count = self.steps[depth - 1]
        line = CPU_COSTS.line_bytes
        inner = self.lines(depth)
        whole = self.lines(depth - 1)
        if step and step < line and count > 1:
            return max(1.0, min(line / step, inner * count / max(1.0, whole)))
        return 1.0

    def kept_lines(self, machine: CpuModel, depth: int, level_bytes: int) -> bool:
        """Return whether the sets of a cache hold the lines of the loops from `depth` on.

        Lines that a power of 2 is apart are of few sets.
        """
        ways = max(1, machine.level1 // CPU_COSTS.page_bytes)
        way_bytes = level_bytes // ways
        for step, count in self.steps[depth:]:
            if step < CPU_COSTS.line_bytes or count <= 1:
                continue
            sets = way_bytes // gcd(int(step), way_bytes)
            if count > ways * max(1, sets):
                return False
        return True


def _used_bytes(streams: Sequence[_Stream], depth: int) -> float:
    return sum(stream.lines(depth) for stream in streams) * CPU_COSTS.line_bytes


def _nests(
    body: Iterable[Statement], outer: tuple[OpenLoop, ...]
) -> Iterator[tuple[tuple[OpenLoop, ...], list[Statement]]]:
    """Yield the loops around straight code, with this."""
    straight: list[Statement] = []
    for statement in body:
        if isinstance(statement, For):
            loops = (*outer, _walk(statement, outer))
            yield from _nests(statement.body, loops)
        elif isinstance(statement, If):
            for branch in _branches(statement, outer):
                yield from _nests(branch.body, branch.loops)
        else:
            straight.append(statement)
    if straight:
        yield outer, straight


def _streams(nest: Sequence[Statement], loops: Sequence[OpenLoop]) -> list[_Stream]:
    """Return the streams of what straight code reads and writes.

    Those that begin where another one comes in later steps are one with it.
    """
    begins: dict[tuple[str, _Stream], set[int]] = {}
    for ref in _references(nest):
        if ref.buf.space == "global":
            begin = _element(ref.subscripts, ref.buf.shape).const
            begins.setdefault((ref.buf.name, _stream(ref, loops)), set()).add(begin)
    streams = []
    for (_, stream), places in begins.items():
        first = min(places)
        apart = {stream.place((place - first) * stream.element_bytes) for place in places}
        streams.append(replace(stream, number=len(apart)))
    return streams


def _references(nest: Sequence[Statement]) -> Iterator[Ref]:
    """Yield what straight code reads and writes."""
    for statement in nest:
        if isinstance(statement, Store):
            yield statement.ref
            for node in value_parts(statement.value):
                if isinstance(node, Ref):
                    yield node
        elif isinstance(statement, Transpose):
            yield from (statement.source, statement.target)


def _stream(ref: Ref, loops: Sequence[OpenLoop]) -> _Stream:
    size = bytes_of(ref.dtype)
    steps = []
    for loop in loops:
        step = element_step(ref, loop.index)
        if step is None:
            step = CPU_COSTS.line_bytes
        steps.append((float(abs(step) * size), loop.steps))
    return _Stream(size, tuple(steps))


@lru_cache(maxsize=1 << 14)
def _element(subscripts: tuple[Affine, ...], shape: tuple[int, ...]) -> Affine:
    """Return the element of a reference, counted as it lies in memory."""
    total = affine(0)
    for subscript, extent in zip(subscripts, shape):
        total = total * extent + subscript
    return total


def element_step(ref: Ref, index: Index) -> int | None:
    """Return how many elements on the next step of an index is; None where that varies."""
    element = _element(ref.subscripts, ref.buf.shape)
    step = 0
    for atom, factor in element.terms:
        if atom == index:
            step = factor
        elif not isinstance(atom, Index) and index in atom.argument.indices:
            return None
    return step


def _moves(ref: Ref, index: Index) -> bool:
    return any(index in subscript.indices for subscript in ref.subscripts)


def _reads(store: Store, index: Index | None) -> Iterator[Ref]:
    """Yield what a statement reads of memory in each step."""
    for node in value_parts(store.value):
        if not isinstance(node, Ref) or (node.buf.space != "global" and not node.buf.shape):
            continue
        if index is None or _moves(node, index):
            yield node


def operation_products(node: Apply) -> float:
    """Return how many products one operation is worth.

    >>> from codegen.ir.nodes import Number
    >>> x, five = Number(0.5, "f32"), Number(5, "weak")
    >>> operation_products(Apply("exp", (x,), "f32"))
    14.0
    >>> operation_products(Apply("ipow", (x, five), "f32"))  # x*x, its square, times x
    3.0
    """
    if node.op in SIMPLE_OPERATIONS:
        return 1.0
    if node.op == "ipow" and isinstance(node.arguments[1], Number):
        exponent = int(node.arguments[1].value)
        return float(max(1, exponent.bit_length() + exponent.bit_count() - 2))
    return LONG_OPERATIONS.get(node.op, OF_FUNCTION)


def _fill_lines(stores: Sequence[Store], store: Store, step: int) -> bool:
    """Whether stores fill what one of them steps over, so that vectors of them are interleaved."""
    buf = store.ref.buf
    places = {other.ref for other in stores if other.ref.buf == buf}
    return len(places) == step


def store_operations(store: Store) -> float:
    """Return the operations of a statement in products; adding a product is a part of that."""
    total = 0.0
    for node in value_parts(store.value):
        if isinstance(node, Apply):
            total += operation_products(node)
        if isinstance(node, Apply) and node.op == "add":  # which subtracts as well
            total -= sum(isinstance(a, Apply) and a.op == "neg" for a in node.arguments)
    is_product = isinstance(store.value, Apply) and store.value.op in ("mul", "ipow")
    if store.op != "=" and not is_product:
        total += 1
    return total


def _element_bytes(stores: Sequence[Store]) -> int:
    """Return the bytes of the widest element that some statements compute."""
    return max((bytes_of(store.ref.dtype) for store in stores), default=4)


def _has_loops(body: Sequence[Statement]) -> bool:
    for statement in body:
        if isinstance(statement, For | Transpose):
            return True
        if isinstance(statement, If) and _has_loops((*statement.then, *statement.orelse)):
            return True
    return False
