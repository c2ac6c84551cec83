"""Band products as generated code."""

from __future__ import annotations

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.band.g2bmm_loop_nest import write_g2bmm
from codegen.kernels.band.gbmm_loop_nest import write_gbmm
from codegen.kernels.band.problem import band_products_of
from codegen.lowering.parallel import pays
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope


def band_function(
    kernel: Kernel,
    scope: Scope,
    dtype: str,
    target: CpuModel | None = None,
    parallel: bool | None = None,
) -> Function | None:
    """Return the generated function of a band product computed in `dtype`.

    None where a kernel is none, or lies in no strides. Threads share it where `parallel`; where
    that is None, if it takes long enough.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> band_function(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    bands = band_products_of(kernel, scope, dtype)
    if not bands:
        return None
    first = bands[0]
    target = target or machine()
    if parallel is None:
        parallel = pays(sum(band.work for band in bands), first.left.buf, first.right.buf)
    w = LoopBuilder((first.left.buf.name, first.right.buf.name, first.target.buf.name))
    for band in bands:
        if band.banded == "target":
            write_g2bmm(w, band, target, parallel)
        else:
            write_gbmm(w, band, target, parallel)
    inputs = {buf.name: buf for buf in (first.left.buf, first.right.buf)}
    return Function(
        kernel.output, tuple(inputs.values()), first.target.buf, tuple(w.out), str(scope)
    )
