"""Contractions as generated code: matrix products and convolutions of a program, where the loop nest of registers and panels fits."""

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
LOST = 0.8  # of the products in a cycle, which an epilogue may cost at most
SLOW = 2.0  # products in a cycle that code without register tiles reaches too


def function(
    kernel: Kernel,
    scope: Scope,
    ahead: Collection[str] = (),
    epilogue: tuple[str, Scope] | None = None,
) -> Function | None:
    """The generated function of a kernel; None where it is no contraction, or one that register tiles make no faster.

    What it packs of the tensors that are known `ahead` of a run has functions of its own. With an `epilogue`, a statement that reads the
    kernel's results, the function stores this one instead; None where it cannot.

    >>> import einalg as ea
    >>> function(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,))) is None
    True
    """
    dtype = computed_in(scope)
    if dtype not in TYPES or scope.dtype == "bool":
        return None
    if band := band_function(kernel, scope, dtype):
        return None if epilogue else band
    found = contraction(kernel, scope, ahead)
    measured = tuned(found) if found else None
    best = measured or (plan(found) if found else None)
    rate = products_per_cycle(*best) if best else 0.0
    if few := stencil_function(kernel, scope, dtype, max(rate, SLOW)):
        return stencil_function(kernel, scope, dtype, epilogue=epilogue) if epilogue else few
    if best is None or (measured is None and rate < SLOW):
        return None
    return _with_epilogue(*best, *epilogue) if epilogue else written(*best, scope)


def _with_epilogue(way: Contraction, tiling: Tiling, name: str, scope: Scope) -> Function | None:
    """A contraction that stores another statement: with its own numbers, unless axes are cut; None where others make it much slower."""
    whole = contraction_with_epilogue(way, name, scope)
    if whole is None:
        return None
    whole = ordered(whole)
    best = (
        (whole, tiling) if _extents(whole) == _extents(way) and tiling.fits(whole) else plan(whole)
    )
    return (
        written(*best, scope)
        if best and products_per_cycle(*best) >= LOST * products_per_cycle(way, tiling)
        else None
    )


def _extents(contraction: Contraction) -> list[list[int]]:
    return [
        [axis.extent for axis in axes]
        for axes in (contraction.batch, contraction.rows, contraction.columns)
    ]


def contraction(kernel: Kernel, scope: Scope, ahead: Collection[str] = ()) -> Contraction | None:
    """The kernel as a contraction that is worth a loop nest of its own."""
    dtype = computed_in(scope)
    found = (
        contraction_of(kernel, scope, dtype, ahead)
        if dtype in TYPES and scope.dtype != "bool"
        else None
    )
    return found if found is not None and found.work >= LEAST else None


def written(way: Contraction, tiling: Tiling, scope: Scope) -> Function:
    """A contraction with the numbers of its loop nest as a function."""
    return contraction_function(
        way, tiling, str(scope), pays(way.work, way.left.buf, way.right.buf)
    )
