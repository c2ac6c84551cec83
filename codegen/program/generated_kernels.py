"""Contractions as generated code: matrix products and convolutions of a program.

There is such code where the loop nest of registers and panels fits.
"""

from __future__ import annotations

from collections.abc import Collection

from codegen.ir.nodes import Function
from codegen.ir.scalar import computed_in
from codegen.kernels.band.kernel import band_function
from codegen.kernels.contraction.cost_model import ordered, plan, products_per_cycle
from codegen.kernels.contraction.epilogue import contraction_with_epilogue
from codegen.kernels.contraction.loop_nest import contraction_function
from codegen.kernels.contraction.partition import Tiling
from codegen.kernels.contraction.problem import Contraction, contraction_of
from codegen.kernels.stencil.kernel import stencil_function
from codegen.lowering.parallel import pays
from codegen.tuning.tile_search import tuned
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

TYPES = ("f32", "f64", "i32", "i64")  # in which products are summed
LEAST = 1 << 12  # products from which on a nest pays
MIN_EPILOGUE_RATE = 0.8  # of the products in a cycle, which are left with an epilogue
SLOW_RATE = 2.0  # products in a cycle that code without register tiles reaches too


def function(
    kernel: Kernel,
    scope: Scope,
    constants: Collection[str] = (),
    epilogue: tuple[str, Scope] | None = None,
) -> Function | None:
    """Return the generated function of a kernel.

    None where it is no contraction, or one that register tiles make no faster. What it packs of
    the `constants`, which are known before a run, has functions of its own. With an `epilogue`, a
    statement that reads the kernel's results, the function stores this one instead; None where it
    cannot.

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
    problem = contraction(kernel, scope, constants)
    measured = None
    best = None
    if problem is not None:
        measured = tuned(problem)
        best = measured or plan(problem)
    rate = 0.0
    if best is not None:
        rate = products_per_cycle(*best)
    stencil = stencil_function(kernel, scope, dtype, max(rate, SLOW_RATE))
    if stencil is not None:
        if epilogue is None:
            return stencil
        return stencil_function(kernel, scope, dtype, epilogue=epilogue)
    if best is None or (measured is None and rate < SLOW_RATE):
        return None
    if epilogue is None:
        return written(*best, scope)
    return _with_epilogue(*best, *epilogue)


def _with_epilogue(
    contraction: Contraction, tiling: Tiling, name: str, scope: Scope
) -> Function | None:
    """Return a contraction that stores another statement.

    It has its own tiling, unless axes are cut; None where another one makes it much slower.
    """
    whole = contraction_with_epilogue(contraction, name, scope)
    if whole is None:
        return None
    best = _tiled(ordered(whole), contraction, tiling)
    if best is None:
        return None
    if products_per_cycle(*best) < MIN_EPILOGUE_RATE * products_per_cycle(contraction, tiling):
        return None
    return written(*best, scope)


def _tiled(
    whole: Contraction, contraction: Contraction, tiling: Tiling
) -> tuple[Contraction, Tiling] | None:
    if _extents(whole) == _extents(contraction) and tiling.fits(whole):
        return whole, tiling
    return plan(whole)


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
