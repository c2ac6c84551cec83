"""Operators as generated code with a shape of their own, where that is the cheapest.

Every implementation of a kernel has a cost in cycles by the model of its kind: contractions,
stencils, depthwise convolutions, and the loops of the generic lowering. The cheapest one runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from codegen.hardware.cpu import machine
from codegen.ir.nodes import Function
from codegen.ir.types import computed_in
from codegen.kernels.band.kernel import band_function
from codegen.kernels.contraction.cost_model import orders, plan, products_per_cycle
from codegen.kernels.contraction.epilogue import contraction_with_epilogue
from codegen.kernels.contraction.loop_nest import contraction_function, joint_function
from codegen.kernels.contraction.partition import Tiling
from codegen.kernels.contraction.phases import phase_contractions
from codegen.kernels.contraction.problem import Contraction, contraction_of
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.depthwise.kernel import depthwise_function
from codegen.kernels.depthwise.problem import Depthwise, depthwise_of
from codegen.kernels.depthwise.tile_choice import DepthwiseTile, choose_tile
from codegen.kernels.expensive_values.rewriting import with_cheaper_values
from codegen.kernels.loop_cost import function_cycles
from codegen.kernels.stencil.kernel import StencilPlan, planned_stencils, stencil_function
from codegen.lowering.lower import lower
from codegen.lowering.parallel import pays
from codegen.tuning.tile_search import tuned
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.runtime.clock import check_time

TYPES = ("f32", "f64", "i32", "i64")  # in which products are summed
LEAST = 1 << 12  # products from which on a nest pays
MIN_EPILOGUE_RATE = 0.8  # of the products in a cycle, which are left with an epilogue
LOOPS = "loops"  # the generic lowering
Epilogue = tuple[str, Scope]  # a statement that reads a kernel's results


@dataclass(frozen=True)
class PlannedContraction:
    """A contraction with the tiling that costs least, or that was the fastest when measured."""

    contraction: Contraction
    tiling: Tiling
    is_measured: bool
    name: str = "contraction"

    @property
    def work(self) -> int:
        return self.contraction.work

    @property
    def cycles(self) -> float:
        return self.work / products_per_cycle(self.contraction, self.tiling)

    def function(self, scope: Scope, epilogue: Epilogue | None) -> Function | None:
        if epilogue is None:
            return written(self.contraction, self.tiling, scope)
        return _with_epilogue(self.contraction, self.tiling, *epilogue)


@dataclass(frozen=True)
class PlannedStencil:
    """A convolution as stencils with their register tiles."""

    kernel: Kernel
    plan: StencilPlan
    dtype: str
    name: str = "stencil"

    @property
    def work(self) -> int:
        return self.plan.work

    @property
    def cycles(self) -> float:
        return self.plan.cycles

    def function(self, scope: Scope, epilogue: Epilogue | None) -> Function | None:
        return stencil_function(self.kernel, scope, self.dtype, epilogue=epilogue)


@dataclass(frozen=True)
class PlannedDepthwise:
    """A depthwise convolution with its register tile."""

    kernel: Kernel
    problem: Depthwise
    tile: DepthwiseTile
    cycles: float
    constants: Collection[str]
    name: str = "depthwise"

    @property
    def work(self) -> int:
        return self.problem.work

    def function(self, scope: Scope, epilogue: Epilogue | None) -> Function | None:
        if epilogue is None:
            return depthwise_function(self.problem, str(scope), tile=self.tile)
        dtype = self.problem.dtype
        whole = depthwise_of(self.kernel, scope, dtype, self.constants, epilogue)
        if whole is None:
            return None
        return depthwise_function(whole, str(scope), tile=self.tile)


@dataclass(frozen=True)
class PlannedPhases:
    """A transposed convolution as contractions of its phases, each with its tiling."""

    kernel: Kernel
    dtype: str
    parts: tuple[PlannedContraction, ...]
    constants: Collection[str]
    name: str = "phases"

    @property
    def work(self) -> int:
        return sum(part.work for part in self.parts)

    @property
    def cycles(self) -> float:
        return sum(part.cycles for part in self.parts)

    def function(self, scope: Scope, epilogue: Epilogue | None) -> Function | None:
        parts = [(part.contraction, part.tiling) for part in self.parts]
        if epilogue is not None:
            whole = phase_contractions(self.kernel, scope, self.dtype, self.constants, epilogue)
            if whole is None:
                return None
            for number, (contraction, part) in enumerate(zip(whole, self.parts)):
                best = _tiled_like(contraction, part.contraction, part.tiling)
                if best is None:
                    return None
                parts[number] = best
        first = parts[0][0]
        is_parallel = pays(self.work, first.left.buf, first.right.buf)
        return joint_function(parts, str(scope), is_parallel)


PlannedKernel = PlannedContraction | PlannedStencil | PlannedDepthwise | PlannedPhases


def function(
    kernel: Kernel,
    scope: Scope,
    constants: Collection[str] = (),
    epilogue: Epilogue | None = None,
) -> Function | None:
    """Return the generated function of a kernel.

    None where the loops of the generic lowering are cheaper. What it packs of the `constants`,
    which are known before a run, has functions of its own. With an `epilogue`, a statement that
    reads the kernel's results, the function stores this one instead; None where it cannot.

    >>> import einalg as ea
    >>> function(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,))) is None
    True
    """
    dtype = computed_in(scope)
    if dtype not in TYPES or scope.dtype == "bool":
        return None
    band = band_function(kernel, scope, dtype)
    if band is not None:
        if epilogue is not None:
            return None
        return band
    best = cheapest(kernel, scope, constants)
    if best is None:
        return None
    return best.function(scope, epilogue)


def cheapest(kernel: Kernel, scope: Scope, constants: Collection[str] = ()) -> PlannedKernel | None:
    """Return the implementation of a kernel that costs least.

    None where there is none, or the loops of the generic lowering cost less. What was measured is
    not compared with these. Raises `OutOfTime` where the time for the work under way is over.
    """
    best: PlannedKernel | None = None
    for implementation in implementations(kernel, scope, constants):
        check_time()  # each is the best of hundreds of tilings
        if best is None or implementation.cycles < best.cycles:
            best = implementation
    if best is None or (isinstance(best, PlannedContraction) and best.is_measured):
        return best
    if best.cycles <= _fewest_loop_cycles(scope, best):
        return best
    if function_cycles(with_cheaper_values(lower(kernel.output, scope))) < best.cycles:
        return None
    return best


def implementations(
    kernel: Kernel, scope: Scope, constants: Collection[str] = ()
) -> Iterator[PlannedKernel]:
    """Yield every implementation of a kernel that has a shape of its own."""
    dtype = computed_in(scope)
    if dtype not in TYPES or scope.dtype == "bool":
        return
    problem = contraction(kernel, scope, constants)
    if problem is not None:
        planned = _planned(problem)
        if planned is not None:
            yield planned
    phases = planned_phases(kernel, scope, constants)
    if phases is not None:
        yield phases
    stencils = planned_stencils(kernel, scope, dtype)
    if stencils is not None:
        yield PlannedStencil(kernel, stencils, dtype)
    depthwise = depthwise_of(kernel, scope, dtype, constants)
    if depthwise is not None:
        choice = choose_tile(depthwise, machine())
        if choice is not None:
            yield PlannedDepthwise(kernel, depthwise, *choice, constants)


def planned_phases(
    kernel: Kernel, scope: Scope, constants: Collection[str] = ()
) -> PlannedPhases | None:
    """Return a transposed convolution as contractions; None where it is none."""
    dtype = computed_in(scope)
    parts = []
    for problem in phase_contractions(kernel, scope, dtype, constants) or ():
        part = _planned(problem)
        if part is None:
            return None
        parts.append(part)
    if not parts:
        return None
    return PlannedPhases(kernel, dtype, tuple(parts), constants)


def _planned(problem: Contraction) -> PlannedContraction | None:
    measured = tuned(problem)
    tiled = measured or plan(problem)
    if tiled is None:
        return None
    return PlannedContraction(*tiled, measured is not None)


def _fewest_loop_cycles(scope: Scope, best: PlannedKernel) -> float:
    """Return cycles below which no loops are that hold no tile in registers.

    These load both operands of each product, and so compute half of what the core can.
    """
    lanes = machine().widths(numpy_dtype(computed_in(scope)).itemsize)[-1]
    return best.work / (lanes * CPU_COSTS.loads_per_cycle / 2)


def _with_epilogue(
    contraction: Contraction, tiling: Tiling, name: str, scope: Scope
) -> Function | None:
    """Return a contraction that stores another statement.

    It has its own tiling, unless axes are cut; None where another one makes it much slower.
    """
    whole = contraction_with_epilogue(contraction, name, scope)
    if whole is None:
        return None
    best = _tiled_like(whole, contraction, tiling)
    if best is None:
        return None
    return written(*best, scope)


def _tiled_like(
    whole: Contraction, contraction: Contraction, tiling: Tiling
) -> tuple[Contraction, Tiling] | None:
    """Return a contraction with an epilogue in the tiling that it has without.

    None where axes are cut and it is much slower with another one.
    """
    best = _tiled(whole, contraction, tiling)
    if best is None:
        return None
    if products_per_cycle(*best) < MIN_EPILOGUE_RATE * products_per_cycle(contraction, tiling):
        return None
    return best


def _tiled(
    whole: Contraction, contraction: Contraction, tiling: Tiling
) -> tuple[Contraction, Tiling] | None:
    """Return a contraction with an epilogue, in the order and tiling of that without if these fit.

    Else in those that cost least; None where there are none.
    """
    same = []
    for order in orders(whole):
        if _extents(order) == _extents(contraction) and tiling.fits(order):
            same.append((order, tiling))
    if not same:
        return plan(whole)
    return max(same, key=lambda order: products_per_cycle(*order))


def _extents(contraction: Contraction) -> list[list[int]]:
    groups = (contraction.batch, contraction.rows, contraction.columns)
    return [[axis.extent for axis in axes] for axes in groups]


def contraction(
    kernel: Kernel, scope: Scope, constants: Collection[str] = ()
) -> Contraction | None:
    """Return the kernel as a contraction that is worth a loop nest of its own."""
    dtype = computed_in(scope)
    if dtype not in TYPES or scope.dtype == "bool":
        return None
    problem = contraction_of(kernel, scope, dtype, constants)
    if problem is None or problem.work < LEAST:
        return None
    return problem


def written(contraction: Contraction, tiling: Tiling, scope: Scope) -> Function:
    """Return a contraction with the numbers of its loop nest as a function."""
    is_parallel = pays(contraction.work, contraction.left.buf, contraction.right.buf)
    return contraction_function(contraction, tiling, str(scope), is_parallel)
