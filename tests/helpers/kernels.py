"""Many scopes compiled together, and compared with the reference evaluator.

One compiler run for a whole batch keeps the tests fast: starting gcc costs more than compiling a
kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import Function
from codegen.kernels.expensive_values.rewriting import with_cheaper_values
from codegen.lowering.lower import lower
from codegen.lowering.schedule import DEFAULT, Schedule
from codegen.runtime.array_arguments import loaded
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.targets.c.source_file import c_source, entry_name
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import is_float, numpy_dtype
from einalg.language.ir.program import Program, as_program, in_double, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import map_accesses, rebased
from einalg.storage.fingerprint import text_digest
from tests.helpers.batches import is_nightly

Array = np.ndarray[Any, Any]
SPREAD = 4  # sources or modules of tests, of which one is compiled as the product does
TOLERANCE = {"f64": 1e-9, "f32": 2e-5, "bf16": 2e-5, "f16": 4e-3}


def compiler() -> Compiler:
    found = find_compiler()
    assert found is not None, "these tests need a C compiler"
    return found


def flat(expression: Any) -> Program:
    """A program without nested scopes: each inner scope as a statement of its own."""
    program = as_program(expression)
    taken = {*program.names, *program.tensors}
    statements: list[tuple[str, Scope]] = []
    known: dict[Scope, Tensor] = {}

    def opened(scope: Scope) -> Scope:
        def change(access: Access) -> Access:
            return (
                rebased(access, statement(access.tensor))
                if isinstance(access.tensor, Scope)
                else access
            )

        return Scope(scope.iterators, scope.where, map_accesses(scope.body, change))

    def statement(scope: Scope) -> Tensor:
        if scope not in known:
            inside = opened(scope)
            name = next(n for n in (f"U{k}" for k in range(len(taken) + 1)) if n not in taken)
            taken.add(name)
            statements.append((name, inside))
            known[scope] = statement_tensor(name, inside)
        return known[scope]

    for name, scope in program.statements:
        statements.append((name, opened(scope)))
    return Program(statements, program.outputs)


def functions(program: Any, schedule: Schedule = DEFAULT) -> list[Function]:
    """The kernels of a flat program."""
    known = dict(as_program(program).statements)
    return [
        with_cheaper_values(lower(name, scope, known, schedule)) for name, scope in known.items()
    ]


def quick_compiler(usual: Compiler | None = None, level: str = "-Og") -> Compiler:
    """The compiler with a level of optimization that takes a third of the time or less.

    It is for tests of what a kernel says: the indices, bounds and guards are the same at every
    level. Of random kernels some are compiled with the flags of the product: `spread_compiler`.
    """
    usual = usual or compiler()
    flags = tuple(level if flag == "-O3" else flag for flag in usual.flags)
    return replace(usual, flags=flags)


def spread_compiler(source: str) -> Compiler:
    """The compiler of the product for one source in `SPREAD`, and at night for every source; the
    quick one for the others.

    It is for many kernels of one kind, of which some are run as the product compiles them.
    """
    if is_as_usual(source):
        return compiler()
    return quick_compiler()


def is_as_usual(text: str) -> bool:
    """Tell whether one of many things is compiled as the product does: one in `SPREAD`, and at
    night each. The digest of its text chooses, so that a test compiles the same way in every run.
    """
    return is_nightly() or int(text_digest(text), 16) % SPREAD == 0


def compile_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every program compile quickly: for tests that ask for values, and not for the code that
    a compiler makes.
    """
    key, run = Compiler.key, Compiler._run
    monkeypatch.setattr(Compiler, "key", lambda cc, source: key(quick_compiler(cc), source))
    monkeypatch.setattr(
        Compiler, "_run", lambda cc, source, timeout: run(quick_compiler(cc), source, timeout)
    )


def run_functions(
    kernels: Sequence[Function],
    arrays: Sequence[Mapping[str, Any]],
    *flags: str,
    cc: Compiler | Callable[[str], Compiler] | None = None,
) -> list[Array]:
    """The outputs of kernels, compiled together, each on its own arrays; the compiler may be chosen
    by their source.
    """
    library = loaded_library(kernels, flags, cc)
    return [
        _packed_call(library, k, kernel, values)
        for k, (kernel, values) in enumerate(zip(kernels, arrays))
    ]


def run_programs(
    programs: Sequence[Program],
    arrays: Sequence[Mapping[str, Any]],
    schedule: Schedule = DEFAULT,
    cc: Compiler | Callable[[str], Compiler] | None = None,
) -> list[dict[str, Array]]:
    """The values of all statements of several flat programs, which are compiled together; the
    compiler may be chosen by their source.
    """
    kernels = [functions(program, schedule) for program in programs]
    library = loaded_library([kernel for group in kernels for kernel in group], (), cc)
    results: list[dict[str, Array]] = []
    position = 0
    for program, group, given in zip(programs, kernels, arrays):
        values: dict[str, Any] = {**loaded(program.constants, {}), **given}
        for kernel in group:
            values[kernel.output.name] = call(
                getattr(library, entry_name(position)), kernel, values
            )
            position += 1
        results.append(values)
    return results


def loaded_library(
    kernels: Sequence[Function],
    flags: Sequence[str],
    cc: Compiler | Callable[[str], Compiler] | None,
) -> ctypes.CDLL:
    """Kernels compiled together, with more flags; as the product does unless a compiler is given,
    or one that their source chooses.
    """
    source = c_source(kernels)
    chosen = cc(source) if callable(cc) else cc or compiler()
    return chosen.with_flags("-fwrapv", *flags).load(source)


def _packed_call(library: Any, position: int, kernel: Function, values: Mapping[str, Any]) -> Array:
    packed = {
        pack.output.name: call(getattr(library, entry_name(position, n)), pack, values)
        for n, pack in enumerate(kernel.packs)
    }
    return call(getattr(library, entry_name(position)), kernel, {**values, **packed})


def call(entry: Any, kernel: Function, values: Mapping[str, Any]) -> Array:
    """One kernel's output. Elements that it does not write show as NaN, 77, -77 or True."""
    given = [np.asarray(values[b.name], numpy_dtype(b.dtype), order="C") for b in kernel.inputs]
    out = np.empty(kernel.output.shape, numpy_dtype(kernel.output.dtype))
    out.fill(
        np.nan
        if out.dtype.kind == "f"
        else 77
        if out.dtype.kind == "u"
        else -77
        if out.dtype.kind == "i"
        else True
    )
    pointers = [a.ctypes.data for a in (*given, out)]
    entry((ctypes.c_void_p * len(pointers))(*pointers))
    return out


def agrees(found: Array, expected: Any, dtype: str) -> bool:
    """Exactly for integers and truth values, else to the precision of the type; no integer is an
    infinity.
    """
    expected = np.asarray(expected)
    if found.shape != expected.shape:
        return False
    if not is_float(dtype):
        has_value = np.abs(expected) != np.inf
        return np.array_equal(found[has_value], expected[has_value])
    tolerance = TOLERANCE[dtype]
    scale = np.abs(expected.astype(np.float64))
    scale = float(scale[np.isfinite(scale)].max(initial=1.0))
    return np.allclose(
        found.astype(np.float64),
        expected.astype(np.float64),
        rtol=tolerance,
        atol=tolerance * scale,
        equal_nan=True,
    )


def evaluated(program: Program, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """What the reference evaluator says, by output."""
    values = ea.evaluate(program, **arrays)
    return values if isinstance(values, dict) else {program.outputs[0]: values}


def in_numpy(expression: Any, arrays: Mapping[str, Any]) -> Any:
    """The value of the only output as NumPy computes it in double precision: for sums of many
    elements, which take the reference evaluator long.
    """
    (value,) = execute(in_double(as_program(expression)), arrays).values()
    return value


def check(program: Program, expected: Mapping[str, Any], found: Mapping[str, Array]) -> None:
    """Fail where an output is not as expected."""
    for name, values in expected.items():
        dtype = program[name].dtype
        assert agrees(found[name], values, dtype), (
            f"{name} ({dtype}) of\n{program}\nis\n{found[name]}\nexpected\n{values}"
        )


def check_statements(
    cases: Sequence[tuple[str, Mapping[str, tuple[int, ...]], str]],
    written: Callable[[str, Scope], Function],
) -> None:
    """Compile one statement of each case together, as `written`, and compare it with NumPy.

    A case is the text of a statement O, the shapes of its tensors, and their element type.
    """
    programs, kernels, arrays = [], [], []
    random = np.random.default_rng(0)
    for text, shapes, dtype in cases:
        tensors = {name: ea.tensor(name, shape, dtype) for name, shape in shapes.items()}
        programs.append(as_program(ea.parse(text, **tensors)))
        ((name, scope),) = programs[-1].statements
        kernels.append(written(name, scope))
        values = {name: random.uniform(-1, 1, shape) for name, shape in shapes.items()}
        arrays.append({name: array.astype(numpy_dtype(dtype)) for name, array in values.items()})
    results = run_functions(kernels, arrays, cc=spread_compiler)
    for program, values, result in zip(programs, arrays, results):
        read = {name: values[name] for name in program.tensors}
        check(program, execute(program, read), {"O": result})
