"""Equal numbers have equal results, wherever they stand in a row, and however long it is."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.targets.c.functions.elementary import NAMES, elementary
from codegen.targets.c.functions.library import BINARY_VECTOR_MATH, vector_declarations
from codegen.targets.c.functions.names import C_TYPES, VECTOR_MATH, math_suffix
from tests.helpers.batches import is_nightly
from tests.helpers.kernels import functions, run_functions, run_programs

DTYPES = {"f32": np.float32, "f64": np.float64}
# Up to four vectors, and all that may be left; at night all lengths between, too.
LENGTHS = range(1, 68) if is_nightly() else (*range(1, 36), *range(63, 68))
CALLS = [
    *((f"{name}{math_suffix(dtype)}", dtype) for name in VECTOR_MATH for dtype in DTYPES),
    *((f"{name}_f32", "f32") for name in NAMES),
]
BODIES = [
    "log(A[i] + 1e-3)",
    "1/(1 + exp(-A[i]))",
    "tanh(A[i])*erf(A[i])",
    "sin(A[i])*cos(A[i])",
    "cos(A[i])",
    "Abs(A[i])**1.7",
    "atan2(A[i], 0.3)",
    "Piecewise((log(A[i]), A[i] > 0.5), (exp(A[i]) - 1, True))",
]


def is_binary(call: str) -> bool:
    return call.removesuffix("f") in BINARY_VECTOR_MATH


def source() -> str:
    """A file with a loop over each function, of any length, and all that stands before."""
    called = [(name, dtype) for name in VECTOR_MATH for dtype in DTYPES]
    head = vector_declarations(called) + elementary(NAMES)
    lines = ["#include <math.h>", "#include <stdint.h>", *dict.fromkeys(head)]
    for call, dtype in CALLS:
        c, arguments = C_TYPES[dtype], "x[i]"
        if is_binary(call):
            arguments = "x[i], 0.7f"
        lines += [
            f"void run_{call}(const {c} *restrict x, {c} *restrict y, int64_t n) {{",
            "  #pragma omp simd",
            f"  for (int64_t i = 0; i < n; ++i) y[i] = {call}({arguments});",
            "}",
        ]
    return "\n".join(lines) + "\n"


PROCESSORS = ("x86-64", "x86-64-v2", "sandybridge", "haswell")


def compiler_names() -> list[str]:
    """The compiler of this machine, also for older processors, and clang where it is installed."""
    names = ["as usual"]
    if "-march=native" in usual_compiler().flags:
        names += PROCESSORS
    if shutil.which("clang") is not None:
        names.append("clang")
    return names


def usual_compiler() -> Compiler:
    compiler = find_compiler()
    assert compiler is not None, "these tests need a C compiler"
    return compiler


@cache
def compiler_of(name: str) -> Compiler:
    usual = usual_compiler()
    if name in PROCESSORS:
        flags = [flag.replace("=native", f"={name}") for flag in usual.flags]
        return Compiler(usual.command, usual.version, tuple(flags))
    if name == "clang":
        with patch.dict(os.environ, CC="clang"):
            clang = find_compiler()
        assert clang is not None, "clang is installed, and compiles nothing"
        return clang
    return usual


@pytest.fixture(scope="module", params=compiler_names())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return compiler_of(request.param).load(source())


def values(library: ctypes.CDLL, call: str, x: np.ndarray) -> np.ndarray:
    """The results of a loop over a function, as bits."""
    y = np.empty_like(x)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]
    getattr(library, f"run_{call}")(*pointers, ctypes.c_int64(x.size))
    return y.view(f"u{x.itemsize}")


@pytest.mark.parametrize(("call", "dtype"), CALLS)
def test_equal_numbers_have_equal_results(library: ctypes.CDLL, call: str, dtype: str) -> None:
    """At every place of rows of each length, also among others, and where no result is finite."""
    random = np.random.default_rng(0)
    numbers = [*random.uniform(-1, 3, 8).tolist(), 0, 1, np.inf, np.nan, 1e-40, -1e6]
    for number in numbers:
        equal: set[int] = set()
        for length in LENGTHS:
            equal |= set(values(library, call, np.full(length, number, DTYPES[dtype])).tolist())
        others = random.uniform(-1, 3, LENGTHS[-1]).astype(DTYPES[dtype])
        others[::5] = number
        equal |= set(values(library, call, others)[::5].tolist())
        assert len(equal) == 1, f"{call}({number}) is {equal}"


def test_values(library: ctypes.CDLL) -> None:
    """Of shorter vectors and of single numbers, too: they are those of the function."""
    x = np.random.default_rng(1).uniform(0.1, 0.9, 31)
    expected = {
        **{name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "tan", "tanh")},
        **{name: getattr(np, name) for name in ("sinh", "cosh", "expm1", "log1p")},
        **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "tanh")},
        "pow": lambda a: a ** float(np.float32(0.7)),
        "atan2": lambda a: np.arctan2(a, float(np.float32(0.7))),
    }
    for name, function in expected.items():
        for dtype, tolerance in (("f32", 1e-6), ("f64", 1e-14)):
            arguments = x.astype(DTYPES[dtype])
            bits = values(library, f"{name}{math_suffix(dtype)}", arguments)
            np.testing.assert_allclose(
                bits.view(DTYPES[dtype]), function(arguments.astype("f8")), tolerance
            )


PROGRAM = """
#include <stdio.h>
int main(void) {
  const float special[] = {1, 200, -200, NAN, INFINITY, -INFINITY, 1e-40f, 3e5f, 1e30f, -1e30f};
  float x[40], y[40];
  for (int i = 0; i < 40; ++i) x[i] = special[i % 10];
  run_expf(x, y, 40);
  for (int i = 0; i < 10; ++i) printf("%g ", y[i]);
  run_powf(x, y, 40), run_sinf(x, y, 40), run_logf(x, y, 40), run_tanhf(x, y, 40);
  return 0;
}
"""


def test_the_library_may_be_linked_statically(tmp_path: Path) -> None:
    """A function of vectors calls that of one number for special numbers: the library's own."""
    compiler = usual_compiler()
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(source() + PROGRAM)
    flags = [flag for flag in compiler.flags if flag not in ("-shared", "-fPIC")]
    libraries = [flag for flag in flags if flag.startswith("-l")]
    flags = [flag for flag in flags if flag not in libraries]
    command = [*compiler.command, *flags, "-static", f"{program}.c", "-o", str(program), *libraries]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("there are no static libraries")
    finished = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0
    assert finished.stdout.split()[1:6] == ["inf", "0", "nan", "inf", "0"]


def results(text: str, dtype: str, sizes: list[int], number: float) -> list[Any]:
    """The results of one expression of equal numbers, of several sizes, as bits."""
    kernels, arrays = [], []
    for size in sizes:
        kernels += functions(ea.parse(f"O[i] = {text}", A=ea.tensor("A", (size,), dtype)))
        arrays.append({"A": np.full(size, number)})
    return [array.view(f"u{array.itemsize}") for array in run_functions(kernels, arrays)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("text", BODIES)
def test_equal_numbers_have_equal_results_in_kernels(text: str, dtype: str) -> None:
    """Of every size, also where threads share the work."""
    bits = np.concatenate(results(text, dtype, [1, 5, 16, 53, 70_001], 0.37))
    assert len(set(bits.tolist())) == 1


@settings(max_examples=10)
@given(
    st.sampled_from(BODIES),
    st.lists(st.integers(1, 80), min_size=1, max_size=3),
    st.floats(-4, 4, width=16),
)
def test_any_size_and_number(text: str, sizes: list[int], number: float) -> None:
    bits = np.concatenate(results(text, "f32", sizes, number))
    nan = np.isnan(bits.view(np.float32))
    assert nan.all() or len(set(bits.tolist())) == 1


def test_silence_stays_silent() -> None:
    """A spectrum in decibels from its least element to its largest: 0 where all is equal."""
    program = ea.parse(
        "Y[i,j,k] = 4.342944622*log(X[i,j,k] + 1e-10)\n"
        "Z[i] = Min[j,k](Y[i,j,k])\n"
        "O[i,j,k] = Y[i,j,k] - Z[i]",
        X=(2, 43, 109),
    )
    (found,) = run_programs([program], [{"X": np.zeros((2, 43, 109), np.float32)}])
    assert not found["O"].any()
