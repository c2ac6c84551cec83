"""Band products as generated code."""

from __future__ import annotations

from codegen.band import bands_of
from codegen.band_operand import band_operand
from codegen.band_result import band_result
from codegen.ir import Function
from codegen.machine import Machine, machine
from codegen.threads import pays
from codegen.writer import Writer
from einalg.kernel import Kernel
from einalg.scope import Scope


def band_function(kernel: Kernel, scope: Scope, dtype: str, target: Machine | None = None, parallel: bool | None = None) -> Function | None:
    """The generated function of a band product computed in `dtype`; None where a kernel is none, or lies in no strides.

    >>> import einalg as ea
    >>> band_function(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)), "f32") is None
    True
    """
    bands = bands_of(kernel, scope, dtype)
    if not bands:
        return None
    target = target or machine()
    first = bands[0]
    w = Writer((first.left.buf.name, first.right.buf.name, first.target.buf.name))
    threads = pays(sum(band.work for band in bands), first.left.buf, first.right.buf) if parallel is None else parallel
    for band in bands:
        (band_result if band.banded == "target" else band_operand)(w, band, target, threads)
    inputs = {buf.name: buf for buf in (first.left.buf, first.right.buf)}
    return Function(kernel.output, tuple(inputs.values()), first.target.buf, tuple(w.out), str(scope))
