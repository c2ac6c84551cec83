"""Code for processors with NEON: compiled for aarch64, run by an emulator, and compared with NumPy
in double precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.contraction import cost_model
from codegen.kernels.loop_cost import cycles
from codegen.lowering.lower import lower
from codegen.program.building import generated_kernels
from codegen.program.building.generated_kernels import best_candidate
from codegen.runtime.array_arguments import loaded
from codegen.targets.c.source_file import c_source
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import OPERATOR_SPACES
from derive.matching import kernels_of
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.program import Program, as_program, in_double
from tests.helpers.aarch64 import COMPILER, DUMP, MISSING, built, compiler, outputs, run
from tests.helpers.batches import is_nightly
from tests.helpers.expressions import EXPRESSIONS
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernels import agrees

pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"code for aarch64 is compiled and run by {MISSING}, which are not installed",
)
NEON = CpuModel(vector=16, registers=32)
PROCESSOR, LONGER = "-mcpu=neoverse-n1", "-mcpu=neoverse-v1"
NESTS = (cost_model, cycles, generated_kernels)


@dataclass(frozen=True)
class Case:
    """A program of one operator, or of one with a statement that reads its results. `by_tiles`
    where its code must have vectors of its own.
    """

    make: Callable[[], Any]
    by_tiles: bool = True
    ahead: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        program = as_program(self.make())
        return Program(program.statements, program.names[-1:])

    def function(self) -> Function:
        kernel, statements = kernels_of(self.program)[0], self.program.statements
        unit = CodeUnit(kernel, statements[0][1], frozenset(self.ahead))
        if len(statements) > 1:
            unit = replace(unit, readers=tuple(statements[1:]))
        best = best_candidate(unit)
        assert best is not None
        assert (best.space.name in OPERATOR_SPACES) == self.by_tiles, self.program
        return best.build()

    def arrays(self) -> dict[str, Any]:
        """Random numbers, those of bytes so small that their sums are bytes."""
        rng = np.random.default_rng(11)
        arrays: dict[str, Any] = {}
        for name, tensor in self.program.inputs.items():
            kind, most = numpy_dtype(tensor.dtype), 2 if tensor.dtype[1:] == "8" else 10
            values = (
                rng.standard_normal(tensor.shape)
                if kind.kind == "f"
                else rng.integers(0 if kind.kind == "u" else 1 - most, most, tensor.shape)
            )
            arrays[name] = values.astype(kind)
        return arrays


def product(
    rows: int, depth: int, columns: int, dtype: str = "f32", axes: str = "ik,kj"
) -> Callable[[], Any]:
    sizes = {"i": rows, "k": depth, "j": columns}
    a, b = axes.split(",")
    text = f"O[i,j] += A[{','.join(a)}]*B[{','.join(b)}]"
    return lambda: ea.parse(
        text,
        **{
            name: ea.tensor(name, [sizes[x] for x in own], dtype)
            for name, own in (("A", a), ("B", b))
        },
    )


def conv(image: Any, weights: Any, dtype: str = "f32", **options: Any) -> Callable[[], Any]:
    return lambda: ops.conv2d(
        ea.tensor("A", image, dtype), ea.tensor("K", weights, dtype), **options
    )


def text(source: str, **tensors: Any) -> Callable[[], Any]:
    return lambda: ea.parse(source, **tensors)


PRODUCT = "T[i,j] += A[i,k]*B[k,j]\n"
SHAPES = {"A": (29, 37), "B": (37, 31), "C": (31,)}
CASES = {
    "product of primes": Case(product(37, 53, 41)),
    "product of whole tiles": Case(product(64, 64, 64), ahead=("B",)),
    "product in double": Case(product(23, 31, 29, "f64")),
    "turned operands": Case(product(31, 29, 19, axes="ki,jk")),
    "one row": Case(product(1, 211, 67)),
    "one column": Case(product(67, 211, 1, axes="ik,jk"), by_tiles=False),
    "depth of one": Case(product(67, 1, 71), by_tiles=False),
    "half precision": Case(product(29, 37, 31, "f16"), ahead=("A", "B")),
    "brain float": Case(product(29, 37, 31, "bf16")),
    "integers": Case(product(29, 37, 31, "i32")),
    "long integers": Case(product(19, 23, 17, "i64")),
    "bytes": Case(product(29, 37, 31, "i8")),
    "bytes to integers": Case(
        text(
            "O[i,j] += A[i,k]*B[k,j]",
            A=ea.tensor("A", (29, 37), "i8"),
            B=ea.tensor("B", (37, 31), "i32"),
        )
    ),
    "on threads": Case(product(131, 127, 137)),
    "batch": Case(text("O[b,i,j] += A[b,i,k]*B[b,j,k]", A=(3, 17, 29), B=(3, 13, 29))),
    "convolution": Case(
        conv((2, 11, 13, 17), (19, 11, 3, 3), stride=(2, 1), padding=((1, 2), (0, 1)))
    ),
    "channels last": Case(
        conv(
            (1, 12, 9, 16),
            (3, 3, 16, 24),
            layout="NHWC",
            weight_layout="HWIO",
            dilation=2,
            padding=2,
        )
    ),
    "convolution of halves": Case(conv((1, 8, 9, 10), (12, 8, 3, 3), "f16", padding=1)),
    "depthwise": Case(
        conv(
            (1, 9, 11, 13),
            (3, 3, 1, 13),
            layout="NHWC",
            weight_layout="HWIO",
            groups=13,
            padding=1,
        )
    ),
    "stencil": Case(conv((1, 2, 41, 53), (1, 2, 5, 5), padding=2)),
    "stencil in double": Case(conv((1, 3, 23, 29), (2, 3, 3, 3), "f64", padding=((0, 2), (1, 1)))),
    "band": Case(
        lambda: ops.g2bmm(
            ea.tensor("Q", (2, 37, 19)), ea.tensor("K", (2, 37, 19)), width=3, dilation=2
        )
    ),
    "band read": Case(
        lambda: ops.gbmm(ea.tensor("P", (2, 37, 7)), ea.tensor("V", (2, 37, 19)), dilation=2)
    ),
    "bias and activation": Case(text(PRODUCT + "O[i,j] = Max(T[i,j] + C[j], 0)", **SHAPES)),
    "turned activation": Case(text(PRODUCT + "O[j,i] = tanh(T[i,j] + C[j])", **SHAPES)),
    "softmax": Case(EXPRESSIONS["softmax"], by_tiles=False),
    "functions": Case(
        text(
            "O[i,j] = exp(-A[i,j]**2) + tanh(A[i,j])*sin(A[i,j])*erf(A[i,j]) + "
            "Max(A[i,j], 0.1)**1.5",
            A=(7, 61),
        ),
        by_tiles=False,
    ),
    "exponential": Case(text("O[i] = exp(-A[i]*A[i]) + sin(A[i])", A=(67,)), by_tiles=False),
    "functions in double": Case(
        text("O[i] = exp(-A[i]**2)*erf(A[i])", A=ea.tensor("A", (67,), "f64")), by_tiles=False
    ),
    "sum of rows": Case(text("O[i] += A[i,j]*A[i,j]", A=(13, 101)), by_tiles=False),
    "sum of columns": Case(text("O[j] += A[i,j]", A=(101, 13)), by_tiles=False),
    "sum of bytes": Case(text("O[i] += A[i,j]", A=ea.tensor("A", (13, 101), "i8")), by_tiles=False),
    "maximum": Case(EXPRESSIONS["max_pool"], by_tiles=False),
    "halves": Case(
        text("O[i] = A[i]*2 + B[i]", **{name: ea.tensor(name, (67,), "f16") for name in "AB"}),
        by_tiles=False,
    ),
    "no rows": Case(product(0, 5, 7), by_tiles=False),
    "empty sums": Case(product(5, 0, 7), by_tiles=False),
}
SPREAD = 3  # expressions, of which one is compiled for longer vectors by day
VECTOR_SUM = re.compile(r"\tfmla\tv\d+\.4s")
IN_MEMORY = re.compile(r"\t(ldr|ldp|str|stp)\tq.*\[sp")
# A library of vector functions to link with. Generated code defines functions of one and of two
# numbers itself, so that these here are weak, and none of them calls a function of `float`.
VECTOR_MATH = """\
#include <math.h>
#define CALLED __attribute__((aarch64_vector_pcs, weak))
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x2 __attribute__((vector_size(8)));
#define ONE(name, wide) \\
  CALLED f32x4 _ZGVnN4v_##name(f32x4 a) { \\
    return (f32x4){wide(a[0]), wide(a[1]), wide(a[2]), wide(a[3])}; } \\
  CALLED f32x2 _ZGVnN2v_##name(f32x2 a) { return (f32x2){wide(a[0]), wide(a[1])}; }
#define TWO(name, wide) \\
  CALLED f32x4 _ZGVnN4vv_##name(f32x4 a, f32x4 b) { \\
    return (f32x4){wide(a[0], b[0]), wide(a[1], b[1]), wide(a[2], b[2]), wide(a[3], b[3])}; } \\
  CALLED f32x2 _ZGVnN2vv_##name(f32x2 a, f32x2 b) { \\
    return (f32x2){wide(a[0], b[0]), wide(a[1], b[1])}; }
ONE(expf, exp) ONE(sinf, sin)
#if GENERATION >= 2
ONE(tanhf, tanh) ONE(erff, erf) TWO(powf, pow)
#endif
"""  # what glibc 2.39 has of these functions, and since 2.40


@dataclass(frozen=True)
class Built:
    """Kernels as a program for another processor."""

    functions: list[Function]
    program: Path

    def code(self, name: str) -> str:
        """The instructions of a case; the compiler makes functions of their own of what threads
        share.
        """
        parts = re.split(
            r"^[0-9a-f]+ <(\S+)>:$",
            run(DUMP, "-d", "kernels.o", folder=self.program.parent),
            flags=re.MULTILINE,
        )
        found, position = dict(zip(parts[1::2], parts[2::2], strict=True)), list(CASES).index(name)
        own = re.compile(rf"(O|kernel)_{position}(\.|$)")
        return "\n".join(code for name, code in found.items() if own.match(name))


@pytest.fixture(scope="module")
def neon() -> Iterator[None]:
    """Code is generated for the vectors of such a machine."""
    with pytest.MonkeyPatch.context() as patch:
        for module in NESTS:
            patch.setattr(module, "machine", lambda: NEON)
        yield


@pytest.fixture(scope="module")
def operators(neon: None, tmp_path_factory: pytest.TempPathFactory) -> Built:
    functions = [case.function() for case in CASES.values()]
    return Built(
        functions, built(compiler(PROCESSOR), functions, tmp_path_factory.mktemp("operators"))
    )


def check(
    programs: Mapping[str, Program], arrays: Sequence[Mapping[str, Any]], found: Sequence[Any]
) -> None:
    for (name, program), values, result in zip(programs.items(), arrays, found, strict=True):
        output = program.outputs[0]
        expected = execute(in_double(program), values)[output]
        assert agrees(result, expected, program[output].dtype), (
            f"{name}: {program}\nis\n{result}\nexpected\n{expected}"
        )


def test_operators(operators: Built) -> None:
    arrays = [case.arrays() for case in CASES.values()]
    check(
        {name: case.program for name, case in CASES.items()},
        arrays,
        outputs(operators.program, operators.functions, arrays),
    )


@pytest.mark.parametrize(
    "name", ["product of whole tiles", "convolution", "stencil", "bias and activation"]
)
def test_sums_are_made_in_vectors(operators: Built, name: str) -> None:
    code = operators.code(name)
    assert len(VECTOR_SUM.findall(code)) >= 24 and "fmadd" not in code


def test_sums_stay_in_registers(operators: Built) -> None:
    """Of a product of whole tiles, whose code has one loop around its sums."""
    code = operators.code("product of whole tiles")
    first, *_, last = VECTOR_SUM.finditer(code)
    assert not IN_MEMORY.findall(code[first.start() : last.end()])


def test_expressions_with_longer_vectors(tmp_path: Path) -> None:
    """What is left to the compiler's vectoriser, on a processor with vectors of any length."""
    every = {name: as_program(make()) for name, make in EXPRESSIONS.items()}
    alone = [name for name, program in every.items() if len(program.statements) == 1]
    chosen = {name: every[name] for name in alone[:: 1 if is_nightly() else SPREAD]}
    functions = [lower(*program.statements[0]) for program in chosen.values()]
    arrays = [
        {**loaded(program.constants, {}), **arrays_for(name, program)}
        for name, program in chosen.items()
    ]
    check(
        chosen,
        arrays,
        outputs(built(compiler(LONGER), functions, tmp_path), functions, arrays),
    )


@pytest.mark.parametrize("generation", [1, 2])
def test_functions_of_vectors(tmp_path: Path, generation: int) -> None:
    """Those that a library of the system has are called, and no others."""
    (tmp_path / "mvec.c").write_text(VECTOR_MATH)
    options = "-O1", f"-DGENERATION={generation}", "mvec.c"
    run(COMPILER, *options, "-c", folder=tmp_path)
    run(COMPILER.replace("gcc", "ar"), "rc", "libmvec.a", "mvec.o", folder=tmp_path)
    run(
        COMPILER,
        *options,
        "-fPIC",
        "-shared",
        "-nostartfiles",
        "-o",
        "libmvec.so",
        "-lm",
        folder=tmp_path,
    )
    found = compiler(PROCESSOR, f"-L{tmp_path}")
    assert [flag for flag in found.flags if "MATH" in flag] == [
        f"-DEINALG_VECTOR_MATH={generation}"
    ]
    cases = {name: CASES[name] for name in ("functions", "exponential")}
    functions, arrays = (
        [case.function() for case in cases.values()],
        [case.arrays() for case in cases.values()],
    )
    found.compile(c_source(functions))  # as a shared object, in which nothing may be missing
    check(
        {name: case.program for name, case in cases.items()},
        arrays,
        outputs(built(found, functions, tmp_path), functions, arrays),
    )
    called = set(re.findall(r"_ZGVnN4v+_(\w+)", run(DUMP, "-dr", "kernels.o", folder=tmp_path)))
    assert called == {"sinf", *(("powf",) if generation == 2 else ())}


def test_a_cross_compiler_knows_no_processor_of_its_own() -> None:
    found = compiler(PROCESSOR)
    assert {"-fopenmp", "-ffp-contract=fast", "-fno-schedule-insns"} < set(found.flags)
    assert not [flag for flag in found.flags if "native" in flag or "prefer" in flag]


def test_a_compiler_of_the_machine_is_told_the_processor(tmp_path: Path) -> None:
    """And not its instructions alone, which say nothing of how long they take."""
    path = tmp_path / "gcc"
    path.write_text(
        f'#!/bin/bash\nset -- "${{@/-mcpu=native/{PROCESSOR}}}"\nexec {COMPILER} '
        f'"${{@/-march=native/-march=armv8-a}}"\n'
    )
    path.chmod(0o755)
    flags = compiler(command=str(path)).flags
    assert "-mcpu=native" in flags and "-march=native" not in flags
