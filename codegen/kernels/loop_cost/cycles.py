"""The cycles of loop IR, whatever wrote it (design §10).

This is the cost of what has no model of its own: the loop nests of the generic lowering, and
transposed squares. It is the sum of what the innermost loops compute and of the lines that come
from the second cache or from memory. The unit is that of the models of contractions, stencils and
depthwise convolutions, so that all can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import (
    Apply,
    Buf,
    For,
    Function,
    If,
    Number,
    Ref,
    Statement,
    Store,
    Transpose,
    value_parts,
    walk,
)
from codegen.ir.types import bytes_of
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.loop_cost.lines import cache_cycles, element_step
from codegen.kernels.loop_cost.open_loops import OpenLoop, branches, walked
from einalg.language.index.affine import Index

LONG_OPERATIONS = {"div": 5.0, "sqrt": 6.0, "pow": 40.0}  # passes of a vector, in products
LINES_OF_LOAD = 1.5  # of the cache, that a vector lies in wherever it begins
OF_FUNCTION = 14.0  # products that a function as exp is worth
SIMPLE_OPERATIONS = frozenset(
    {"mul", "add", "sub", "neg", "abs", "max", "min", "select", "cast", "lt", "le", "eq", "ne"}
    | {"gt", "ge", "and", "or", "not", "scale", "floor", "ceil"}
)


def function_cycles(function: Function, target: CpuModel | None = None) -> float:
    """Return the cycles of one run of a function on one core.

    >>> from codegen.lowering.lower import lower
    >>> import einalg as ea
    >>> row = ea.parse("O[i,j] = A[i,j] + 1", A=(512, 512))
    >>> column = ea.parse("O[i,j] = A[j,i] + 1", A=(512, 512))
    >>> function_cycles(lower("O", row)) < function_cycles(lower("O", column))
    True
    """
    return sum(function_terms(function, target or machine()))


def function_terms(function: Function, target: CpuModel) -> tuple[float, float]:
    """Return the cycles of what a function computes, and those for lines that it waits for."""
    computed = _LoopCost(target).statements(function.body, ())
    return computed, cache_cycles(function.body, target)


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
                for branch in branches(statement, outer):
                    total += branch.share * self.statements(branch.body, branch.loops)
            elif isinstance(statement, Store):
                total += self.straight([statement], None, 1)
            elif isinstance(statement, Transpose):
                total += self.square(statement)
        return total

    def loop(self, loop: For, outer: tuple[OpenLoop, ...]) -> float:
        walk = walked(loop, outer)
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
        """Return the cycles of a loop in vectors; what fills none goes in halves of one.

        A loop over a row of registers is no loop in the code.
        """
        conditional = [s for s in loop.body if isinstance(s, If)]
        if conditional:
            return steps * (self.statements(loop.body, inside) + self.turn)
        lanes = self.machine.widths(_element_bytes(stores))[0]
        rest, total, turn = round(steps), CPU_COSTS.loop_start, self.turn
        if any(_is_row_of_registers(node) for store in stores for node in walk(store)):
            total, turn = 0.0, 0.0
        while lanes:
            vectors, rest = divmod(rest, lanes)
            if vectors:
                total += vectors * (self.straight(stores, loop.index, lanes) + turn)
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
            if _is_in_registers(store.ref.buf):
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


def _moves(ref: Ref, index: Index) -> bool:
    return any(index in subscript.indices for subscript in ref.subscripts)


def _reads(store: Store, index: Index | None) -> Iterator[Ref]:
    """Yield what a statement reads of memory in each step."""
    for node in value_parts(store.value):
        if not isinstance(node, Ref) or _is_in_registers(node.buf):
            continue
        if index is None or _moves(node, index):
            yield node


def _is_in_registers(buf: Buf) -> bool:
    return buf.space == "reg" or (buf.space != "global" and not buf.shape)


def _is_row_of_registers(node: Any) -> bool:
    return isinstance(node, Buf) and node.space == "reg" and bool(node.shape)


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
