"""Many scopes compiled together, and compared with the reference evaluator.

One compiler run for a whole batch keeps the tests fast: starting gcc costs more than compiling a kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import einalg as ea
from codegen.c_printer import c_source, entry_name
from codegen.compiler import Compiler, find_compiler
from codegen.ir import Function
from codegen.lower import lower
from codegen.schedule import DEFAULT, Schedule
from einalg.dtypes import is_float, numpy_dtype
from einalg.program import Program, as_program

Array = np.ndarray[Any, Any]
TOLERANCE = {"f64": 1e-9, "f32": 2e-5, "bf16": 2e-5, "f16": 4e-3}


def compiler() -> Compiler:
    found = find_compiler()
    assert found is not None, "these tests need a C compiler"
    return found


def functions(program: Any, schedule: Schedule = DEFAULT) -> list[Function]:
    """The kernels of a flat program."""
    known = dict(as_program(program).statements)
    return [lower(name, scope, known, schedule) for name, scope in known.items()]


def run_functions(kernels: Sequence[Function], inputs: Sequence[Mapping[str, Any]], flags: Sequence[str] = ("-fwrapv",)) -> list[Array]:
    """The outputs of kernels on their inputs; all are compiled together. Elements that are not written show as NaN, -77 or True."""
    library = compiler().with_flags(*flags).load(c_source(kernels))
    outputs = []
    for position, (kernel, arrays) in enumerate(zip(kernels, inputs)):
        given = [np.asarray(arrays[b.name], numpy_dtype(b.dtype), order="C") for b in kernel.inputs]
        out = np.empty(kernel.output.shape, numpy_dtype(kernel.output.dtype))
        out.fill(np.nan if out.dtype.kind == "f" else 77 if out.dtype.kind == "u" else -77)
        pointers = [a.ctypes.data for a in (*given, out)]
        getattr(library, entry_name(position))((ctypes.c_void_p * len(pointers))(*pointers))
        outputs.append(out)
    return outputs


def run_programs(programs: Sequence[Program], arrays: Sequence[Mapping[str, Any]], schedule: Schedule = DEFAULT) -> list[dict[str, Array]]:
    """The values of all statements of several flat programs, each read by later statements as in a compiled program."""
    kernels = [function for program in programs for function in functions(program, schedule)]
    library_inputs: list[dict[str, Any]] = []
    results: list[dict[str, Array]] = []
    for program, given in zip(programs, arrays):
        values: dict[str, Any] = dict(given)
        for name, scope in program.statements:
            library_inputs.append(values)
            values[name] = np.empty(scope.shape, numpy_dtype(scope.dtype))
        results.append(values)
    library = compiler().with_flags("-fwrapv").load(c_source(kernels))
    for position, (kernel, values) in enumerate(zip(kernels, library_inputs)):
        given = [np.asarray(values[b.name], numpy_dtype(b.dtype), order="C") for b in kernel.inputs]
        pointers = [a.ctypes.data for a in (*given, values[kernel.output.name])]
        getattr(library, entry_name(position))((ctypes.c_void_p * len(pointers))(*pointers))
    return results


def agrees(found: Array, expected: Any, dtype: str) -> bool:
    """Exactly for integers and truth values, else to the precision of the type."""
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return False
    if not is_float(dtype):
        return np.array_equal(found, expected)
    tolerance = TOLERANCE[dtype]
    scale = np.abs(expected.astype(np.float64))
    scale = float(scale[np.isfinite(scale)].max(initial=1.0))
    return np.allclose(found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def evaluated(program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """What the reference evaluator says, by output."""
    values = ea.evaluate(program, **arrays)
    return values if isinstance(values, dict) else {program.outputs[0]: values}


def check(program: Program, expected: Mapping[str, Any], found: Mapping[str, Array]) -> None:
    """Fail where an output is not as expected."""
    for name, values in expected.items():
        dtype = program[name].dtype
        assert agrees(found[name], values, dtype), f"{name} ({dtype}) of\n{program}\nis\n{found[name]}\nexpected\n{values}"
