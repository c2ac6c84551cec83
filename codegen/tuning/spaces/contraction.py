"""Tilings of contractions, and of transposed convolutions as contractions of their phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache

from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.contraction.blocking import TilingPlan
from codegen.kernels.contraction.cost_model import orders, plan, total_cycles
from codegen.kernels.contraction.nest.loop_nest import contraction_function, joint_function
from codegen.kernels.contraction.partition import Tiling
from codegen.kernels.contraction.problem import Contraction, contraction_of
from codegen.kernels.contraction.statements.bodies import body_contraction
from codegen.kernels.contraction.statements.epilogue import contraction_with_epilogue
from codegen.kernels.contraction.statements.phases import phase_contractions
from codegen.kernels.contraction.term_shares import term_shares
from codegen.kernels.strided_axes import extent
from codegen.lowering.parallel import pays
from codegen.lowering.schedule import Schedule
from codegen.tuning.spaces.holes import StepCard
from codegen.tuning.spaces.points import FLAGS, Choices, Features, ladder, logarithm
from codegen.tuning.spaces.space import CodeCandidate, Fields, Joint, JointPoint
from codegen.tuning.spaces.unit import CodeUnit, Reader
from einalg.language.ir.dtypes import numpy_dtype
from einalg.text.wording import either_of

MIN_WORK = 1 << 12  # products from which on a nest pays
PLANS = 64  # of points, that are at hand: a point is priced, and then described
MIN_EPILOGUE_RATE = 0.8  # of the products in a cycle, which are left with an epilogue


@dataclass(frozen=True)
class OrderedTiling(Tiling):
    """A tiling, with the number of the contraction's order of operands and axes (`orders`)."""

    order: int = 0


IN_REGISTERS = "the sums, and a row of the right operand, fit into the registers"
CARDS: Mapping[str, StepCard] = {
    "order": StepCard("reorder", "which operand is the left one, and the order of the axes"),
    "lanes": StepCard("vectorize", "elements of a vector", "a register or half of one"),
    "rows": StepCard("tile", "rows of the tile of sums in registers", IN_REGISTERS),
    "vectors": StepCard("tile", "vectors of each row of the tile", IN_REGISTERS),
    "lines": StepCard("tile", "lines of columns of the tile", "its vectors fill a line"),
    "depth": StepCard(
        "split",
        "steps of the outermost summed axis between which sums stay in registers",
        "the result can hold the sums, or all steps are one block",
    ),
    "block": StepCard("split", "tiles of rows that are walked before the next panels"),
    "group": StepCard("split", "panels of columns that each of these tiles meets in turn"),
    "row_axes": StepCard("fuse", "axes of rows that are walked as one", "rows are packed"),
    "column_axes": StepCard("fuse", "axes of columns that are walked as one"),
    "pack_left": StepCard("stage", "copies the left operand into panels of rows"),
    "pack_right": StepCard(
        "stage",
        "copies the right operand into panels of columns",
        "without it, columns lie side by side in memory",
    ),
    "apart": StepCard("factor", "gives each step of depth its own sums, which threads share"),
}


class Tilings(Fields):
    """The tilings of a contraction, in every order of its operands and axes."""

    cards = CARDS

    def __init__(self, contraction: Contraction, target: CpuModel):
        self.contraction, self.target = contraction, target
        self.plan = lru_cache(PLANS)(self._plan)

    @cached_property
    def orders(self) -> list[Contraction]:
        return orders(self.contraction)

    @cached_property
    def _start(self) -> OrderedTiling | None:
        best = plan(self.contraction, self.target)
        if best is None:
            return None
        return self.point(*best)

    @property
    def is_empty(self) -> bool:
        """Whether no axis of columns can be laid side by side."""
        return self._start is None

    def start(self) -> OrderedTiling:
        assert self._start is not None  # of a space that is not empty
        return self._start

    def point(self, ordered: Contraction, tiling: Tiling) -> OrderedTiling:
        """Return an order with its tiling as a point."""
        return OrderedTiling(**asdict(tiling), order=self.orders.index(ordered))

    def ordered(self, point: OrderedTiling) -> Contraction:
        """Return the contraction in the order of a point."""
        return self.orders[point.order]

    def choices(self) -> Choices:
        return self._choices

    @cached_property
    def _choices(self) -> Choices:
        most: dict[str, int] = dict.fromkeys(("rows", "columns", "depth", "outer"), 1)
        for order in self.orders:
            most["rows"] = max(most["rows"], extent(order.rows))
            most["columns"] = max(most["columns"], extent(order.columns))
            most["depth"] = max(most["depth"], order.outer_depth_extent)
        axes = max(len(order.rows) for order in self.orders)
        column_axes = max(len(order.columns) for order in self.orders)
        registers = range(1, self.target.registers + 1)
        choices: dict[str, Sequence[int | bool]] = {
            "order": range(len(self.orders)),
            "lanes": sorted(self.target.widths(numpy_dtype(self.contraction.dtype).itemsize)),
            "rows": registers,
            "vectors": registers,
            "lines": registers,
            "depth": ladder(most["depth"]),
            "block": ladder(most["rows"]),
            "group": ladder(most["columns"]),
            "row_axes": range(1, max(1, axes) + 1),
            "column_axes": range(1, max(1, column_axes) + 1),
            "pack_left": FLAGS,
            "pack_right": FLAGS,
        }
        if self.target.cores > 1:
            choices["apart"] = FLAGS
        return choices

    def repaired(self, point: OrderedTiling) -> OrderedTiling:
        """Return a point whose tile is in registers, and whose axes are those of its order.

        Rows that are packed are walked as one, others are not, and a panel has one line where its
        vectors do not fill one.
        """
        order = self.orders[point.order]
        column_axes = max(1, min(point.column_axes, len(order.columns)))
        lines = 1
        if len(order.columns) > column_axes:
            width = -(-extent(order.columns[-column_axes:]) // point.lanes)
            lines = min(point.lines, order.columns[-column_axes - 1].extent)
            if point.vectors != width:
                lines = 1
        row_axes = 1
        if point.pack_left:
            row_axes = max(1, len(order.rows))
        height = extent(order.rows[max(0, len(order.rows) - row_axes) :])
        registers = self.target.registers - order.held_registers
        most_rows = max(1, registers // (point.vectors * lines) - 1)
        return replace(
            point,
            rows=min(point.rows, most_rows, height),
            lines=lines,
            row_axes=row_axes,
            column_axes=column_axes,
        )

    def refusal(self, point: OrderedTiling) -> str | None:
        widths = self._choices["lanes"]
        if point.lanes not in widths:
            return f"vectors have {either_of(widths)} elements here"
        return self._refused_registers(point) or point.refusal(self.ordered(point))

    def _refused_registers(self, point: OrderedTiling) -> str | None:
        """Sums, and a row of the right operand beside them, are in registers."""
        row = point.vectors * point.lines
        needed = row * point.rows + min(1, point.rows - 1) * row
        free = self.target.registers - self.contraction.held_registers
        if 0 < needed <= free:
            return None
        return (
            f"a tile of {point.rows} x {row} vectors of sums needs {needed} registers, "
            f"and {free} are free"
        )

    def cycles(self, point: OrderedTiling) -> float:
        return total_cycles(self.plan(point))

    def _plan(self, point: OrderedTiling) -> TilingPlan:
        """Return what the cost of a point depends on."""
        return TilingPlan(self.ordered(point), point, self.target, is_blocked=True)

    def extents(self, point: OrderedTiling) -> Mapping[str, int]:
        order = self.ordered(point)
        height = extent(order.rows[max(0, len(order.rows) - point.row_axes) :])
        width = -(-extent(order.columns[-point.column_axes :]) // point.lanes)
        return {
            "rows": height,
            "vectors": width,
            "depth": order.outer_depth_extent,
            "block": -(-height // point.rows),
            "group": -(-width // point.vectors),
        }

    def features(self, point: OrderedTiling) -> Features:
        """Return features that mean the same in all orders, with the bytes that caches hold."""
        order, features = self.ordered(point), super().features(point)
        del features["order"]  # a number of this contraction's own
        depth_bytes = point.depth * order.inner_depth_extent * order.element_bytes
        panel_bytes = point.vectors * point.lines * point.lanes * depth_bytes
        features["sums"] = logarithm(point.rows * point.vectors * point.lines)
        features["panel bytes"] = logarithm(panel_bytes)
        features["group bytes"] = logarithm(panel_bytes * point.group)
        features["block bytes"] = logarithm(depth_bytes * point.rows * point.block)
        features["columns apart"] = float(order.columns[-1].target != 1)
        features["left ahead"] = float(order.left.ahead)
        features["right ahead"] = float(order.right.ahead)
        features["batch"] = logarithm(extent(order.batch))
        for name, share in term_shares(self.plan(point)).items():
            features[f"{name} share"] = logarithm(1 + share)
        features["operations"] = logarithm(order.operations)
        features["registers"] = logarithm(point.vectors * point.lines * (point.rows + 1))
        features["loads"] = features["sums"] - logarithm(point.rows + point.vectors * point.lines)
        for axis in order.depth[-1:]:
            features["left step"] = logarithm(abs(axis.left))
            features["right step"] = logarithm(abs(axis.right))
        return features

    def like(self, other: Tilings, point: OrderedTiling) -> OrderedTiling | None:
        """Return the point most like one of the same contraction without an epilogue.

        That has its order and tiling if these fit, else it is the start. None where it is much
        slower, as axes that are cut make it.
        """
        numbers, extents = asdict(point), _extents(other.ordered(point))
        same: list[OrderedTiling] = []
        for number, order in enumerate(self.orders):
            if _extents(order) == extents and point.fits(order):
                same.append(OrderedTiling(**{**numbers, "order": number}))
        best = min(same, key=self.cycles) if same else self._start
        if best is None or self.cycles(best) * MIN_EPILOGUE_RATE > other.cycles(point):
            return None
        return best


def _extents(contraction: Contraction) -> list[list[int]]:
    groups = (contraction.batch, contraction.rows, contraction.columns)
    return [[axis.extent for axis in axes] for axes in groups]


class ContractionSpace(Tilings):
    """A statement as one contraction."""

    name = "contraction"

    def __init__(
        self, contraction: Contraction, target: CpuModel, comment: str, leaves_gaps: bool = False
    ):
        super().__init__(contraction, target)
        self.comment, self.leaves_gaps = comment, leaves_gaps

    @property
    def work(self) -> int:
        """Return the number of products."""
        return self.contraction.work

    def build(self, point: OrderedTiling) -> Function:
        ordered = self.ordered(point)
        is_parallel = pays(ordered.work, ordered.left.buf, ordered.right.buf)
        return contraction_function(ordered, point, self.comment, is_parallel)

    def with_epilogue(self, point: OrderedTiling, epilogue: Reader) -> CodeCandidate | None:
        name, scope = epilogue
        whole = contraction_with_epilogue(
            self.contraction, name, scope, leaves_gaps=self.leaves_gaps
        )
        if whole is None:
            return None
        fused = ContractionSpace(whole, self.target, str(scope), self.leaves_gaps)
        like = fused.like(self, point)
        if like is None:
            return None
        return CodeCandidate(fused, like)


class PhasesSpace(Joint):
    """A transposed convolution as contractions of its phases, each with its tiling."""

    name = "phases"

    def __init__(self, unit: CodeUnit, parts: Sequence[Tilings], comment: str):
        self.unit, self.comment = unit, comment
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[Tilings, ...]:
        return self._parts

    @property
    def work(self) -> int:
        """Return the number of products."""
        return sum(part.contraction.work for part in self.parts)

    def build(self, point: JointPoint) -> Function:
        ordered: list[tuple[Contraction, Tiling]] = []
        for part, tiling in zip(self.parts, point.parts):
            ordered.append((part.ordered(tiling), tiling))
        first = ordered[0][0]
        is_parallel = pays(self.work, first.left.buf, first.right.buf)
        return joint_function(ordered, self.comment, is_parallel)

    def with_epilogue(self, point: JointPoint, epilogue: Reader) -> CodeCandidate | None:
        whole = _phases(self.unit, self.parts[0].target, epilogue)
        if whole is None:
            return None
        likes: list[OrderedTiling] = []
        for part, old, tiling in zip(whole.parts, self.parts, point.parts):
            like = part.like(old, tiling)
            if like is None:
                return None
            likes.append(like)
        return CodeCandidate(whole, JointPoint(tuple(likes)))


def contraction_space(unit: CodeUnit, target: CpuModel) -> ContractionSpace | None:
    """Return a unit as a contraction that is worth a loop nest of its own; None elsewhere."""
    problem = contraction_of(unit.kernel, unit.scope, unit.dtype, unit.constants)
    if problem is None:
        problem = body_contraction(
            unit.name, unit.scope, unit.dtype, unit.constants, unit.leaves_gaps
        )
    if problem is None or problem.work < MIN_WORK or _reads_long_rows(problem, unit.schedule):
        return None
    space = ContractionSpace(problem, target, str(unit.scope), unit.leaves_gaps)
    if space.is_empty:
        return None
    return space


def _reads_long_rows(problem: Contraction, schedule: Schedule) -> bool:
    """Whether a vector is multiplied by a matrix from memory, row by row.

    A tile reads a few lines of each row. Loops over whole rows read them in the time in which they
    come.
    """
    for c in (problem, problem.swapped()):
        matrix_bytes = extent((*c.columns, *c.depth)) * c.element_bytes
        if c.batch_rows == 1 and not c.right.ahead and matrix_bytes >= schedule.memory_bytes:
            return any(axis.right == 1 for axis in c.columns)
    return False


def phases_space(unit: CodeUnit, target: CpuModel) -> PhasesSpace | None:
    """Return a transposed convolution as contractions; None where it is none."""
    return _phases(unit, target, None)


def _phases(unit: CodeUnit, target: CpuModel, epilogue: Reader | None) -> PhasesSpace | None:
    contractions = phase_contractions(unit.kernel, unit.scope, unit.dtype, unit.constants, epilogue)
    parts = [Tilings(contraction, target) for contraction in contractions or ()]
    if not parts or any(part.is_empty for part in parts):
        return None
    comment = unit.scope
    if epilogue is not None:
        comment = epilogue[1]
    return PhasesSpace(unit, parts, str(comment))
