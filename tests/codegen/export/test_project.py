"""Programs as C projects: compiled without a warning, watched by sanitizers, and right."""

from __future__ import annotations

import ctypes
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.export.project import ExampleCall, ExportedNetwork, export_c
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import as_program
from tests.helpers.aarch64 import COMPILER, EMULATOR
from tests.helpers.aarch64 import MISSING as NO_AARCH64
from tests.helpers.c_project import WATCHED, check, exported, require, said


def _typed(dtype: str, **shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: ea.tensor(name, shape, dtype=dtype) for name, shape in shapes.items()}


CONVOLUTION = "O[n,h,w,f] += A.pad(0,(1,0),(2,1),0)[n,h+r-1,w+s-2,c]*K[r,s,f,c]"
PRODUCT = "O[i,j] += A[i,k]*B[k,j]"
SEVERAL = """
T[i,j] += A[i,k]*B[k,j]
U[i] += T[i,j]
O[i,j] = T[i,j]/(U[i] + alpha[()]) + exp(T[i,j])
V[j] += O[i,j]
O, V
"""
HEADS = """
S[h,i,j] += A[i,h,k]*B[j,h,k]
T[h,i,j] = S[h,i,j]/4 + C[h]
M[h,i] = Max[j](T[h,i,j])
E[h,i,j] = exp(T[h,i,j] - M[h,i])
N[h,i] += E[h,i,j]
O[h,i,j] = E[h,i,j]/N[h,i]
"""
PROGRAMS = {
    "asymmetric convolution": ea.parse(CONVOLUTION, A=(2, 9, 11, 5), K=(2, 4, 7, 5)),
    "odd product": ea.parse(PRODUCT, A=(37, 53), B=(53, 41)),
    "softmax": ea.ops.softmax(ea.tensor("A", (7, 33))),
    "weights of heads": ea.parse(HEADS, A=(67, 5, 16), B=(53, 5, 16), C=(5,)),
    "several statements": ea.parse(SEVERAL, A=(17, 5), B=(5, 19), alpha=()),
    "i32 product": ea.parse(PRODUCT, **_typed("i32", A=(17, 13), B=(13, 9))),
    "u8": ea.parse("O[i] = Max(A[i], 3) + A[i]*A[i]", **_typed("u8", A=(50,))),
    "f64 product": ea.parse(PRODUCT, **_typed("f64", A=(17, 130), B=(130, 90))),
    "f16 product": ea.parse(PRODUCT, **_typed("f16", A=(17, 13), B=(13, 9))),
    "bf16": ea.parse("O[i] = A[i]*2 + B[()]", **_typed("bf16", A=(9,), B=())),
    "bool": ea.parse("O[i] = A[i] > B[()]", A=(50,), B=()),
    "sum of all": ea.parse("O[()] += A[i,j]", A=(13, 7)),
    "largest": ea.parse("O = L[()](Max[i](A[i]))", A=(77,)),
    "no rows": ea.parse(PRODUCT, A=(0, 3), B=(3, 5)),
    "empty sum": ea.parse(PRODUCT, A=(4, 0), B=(0, 5)),
    "one element": ea.parse(PRODUCT, A=(1, 1), B=(1, 1)),
    "functions": ea.parse("O[i] = tanh(A[i]) + erf(A[i]) + log(A[i]**2 + 1)", A=(100,)),
    "words of the check": ea.parse("O[i] = exp(k[i]) + NULL[i]*call[i]", k=(5,), NULL=(5,), call=5),
    "words of C": ea.parse("new[i] = int_[i] + memory[i]*α[i]", int_=(5,), memory=(5,), α=(5,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_checks_itself(name: str, tmp_path: Path) -> None:
    folder = exported(PROGRAMS[name], tmp_path / "out", "computed")
    assert "a call takes" in check(folder, "-O0", "-fopenmp-simd", *WATCHED)


@pytest.mark.parametrize("name", ["k", "call_", "spent_time"])
def test_a_function_may_have_the_name_of_a_counter(name: str, tmp_path: Path) -> None:
    folder = exported(PROGRAMS["one element"], tmp_path / "out", name)
    assert "a call takes" in check(folder, "-O0")


@pytest.mark.parametrize(
    "name", ["asymmetric convolution", "softmax", "weights of heads", "f16 product", "functions"]
)
def test_clang_compiles_it_without_a_warning(name: str, tmp_path: Path) -> None:
    require("clang")
    folder = exported(PROGRAMS[name], tmp_path / "out", "computed")
    assert "a call takes" in check(folder, "-O1", compiler="clang")


@pytest.mark.parametrize(
    "flags", [("-O1",), ("-O1", "-march=native"), ("-O1", "-fopenmp", "-DOUT_THREADS=3")]
)
def test_flags_choose_the_processor_and_threads(flags: tuple[str, ...], tmp_path: Path) -> None:
    expression = ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[j,i] = exp(T[i,j])", A=(160, 90), B=(90, 120))
    assert "a call takes" in check(exported(expression, tmp_path / "out"), *flags)
    heads = ea.parse(HEADS, A=(96, 8, 64), B=(96, 8, 64), C=(8,))
    assert "a call takes" in check(exported(heads, tmp_path / "heads" / "out"), *flags)


def test_a_wrong_result_is_reported(tmp_path: Path) -> None:
    folder = exported(PROGRAMS["several statements"], tmp_path / "out")
    source = folder / "out.c"
    source.write_text(source.read_text().replace("exp_f32(T", "1.001f*exp_f32(T"))
    with pytest.raises(AssertionError, match="V: the largest difference is"):
        check(folder, "-O1")


def test_the_header_is_for_cpp_too(tmp_path: Path) -> None:
    require("g++")
    folder = exported(PROGRAMS["words of C"], tmp_path / "out", "sums")
    caller = tmp_path / "caller.cpp"
    caller.write_text(
        '#include "sums.h"\nint main() { float a[5] = {1, 2, 3, 4, 5}, b[5];\n'
        "  sums(a, a, a, b, nullptr); return b[1] == 6.0f ? 0 : 1; }\n"
    )
    objects = tmp_path / "sums.o"
    said(["gcc", "-std=c11", "-c", str(folder / "sums.c"), "-o", str(objects)])
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}"]
    said(["g++", *flags, str(caller), str(objects), "-o", str(tmp_path / "caller"), "-lm"])
    said([str(tmp_path / "caller")])


def test_only_the_functions_of_the_header_are_visible(tmp_path: Path) -> None:
    """No function of a library is defined, so that none of it can clash."""
    require("nm")
    folder = exported(PROGRAMS["functions"], tmp_path / "out", "computed")
    compiled = tmp_path / "computed.o"
    said(["gcc", "-O2", "-c", str(folder / "computed.c"), "-o", str(compiled)])
    symbols = said(["nm", "--extern-only", "--defined-only", str(compiled)])
    assert sorted(line.split()[-1] for line in symbols.splitlines()) == [
        "computed",
        "computed_workspace_size",
    ]


def test_the_header_documents_the_buffers(tmp_path: Path) -> None:
    folder = exported(PROGRAMS["several statements"], tmp_path / "out", "several")
    header = (folder / "several.h").read_text()
    rows = {line.split()[0]: line for line in header.splitlines() if line.startswith("   ")}
    assert re.search(r"const float \* +17 x 5 +5, 1 +340$", rows["A"])
    assert re.search(r"float \(a number\) +- +- +4$", rows["alpha"])
    assert re.search(r"float \* +19 +1 +76$", rows["V"])
    assert "workspace: several_workspace_size() bytes (1408" in header
    declaration = "void several(const float *A, const float *B, float alpha, float *O, float *V, "
    assert f"{declaration}void *workspace);" in header


def test_weights_are_inside_and_packed(tmp_path: Path) -> None:
    expression = PROGRAMS["asymmetric convolution"]
    folder = exported(expression, tmp_path / "out", "layer", weights=["K"])
    header = (folder / "layer.h").read_text()
    assert "void layer(const float *A, float *O, void *workspace);" in header
    stored = re.search(r"are inside, (\d+) bytes in all, .*: K", " ".join(header.split()))
    assert stored and int(stored[1]) > 0
    assert "are inside" not in (exported(expression, tmp_path / "all", "f") / "f.h").read_text()
    assert "a call takes" in check(folder, "-O1")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_large_arrays_are_a_file_that_no_compiler_reads(compiler: str, tmp_path: Path) -> None:
    require(compiler)
    expression = ea.parse("O[i] += A[i,j]*W[j,k]", A=(3, 300), W=(300, 400))
    folder = exported(expression, tmp_path / "out", "layer", weights=["W"])
    assert (folder / "layer_weights.bin").stat().st_size >= 4 * 300 * 400
    assert (folder / "layer.c").stat().st_size < 50_000
    assert "a call takes" in check(folder, "-O1", compiler=compiler)


def test_large_inputs_of_the_check_are_a_file_too(tmp_path: Path) -> None:
    folder = exported(ea.parse("O[j,i] = A[i,j]", A=(150, 160)), tmp_path / "out")
    assert (folder / "main_data.bin").stat().st_size == 2 * 4 * 150 * 160
    assert "a call takes" in check(folder, "-O1", *WATCHED)


def test_infinities_and_extreme_integers_are_constants(tmp_path: Path) -> None:
    text = "O[i] = W[i] + B[i]\nP[i] = V[i]*B[i]\nO, P"
    program = lifted(as_program(ea.parse(text, **_typed("i64", W=(4,), B=(4,)), V=(4,))))
    weights = {
        "W": np.array([-(2**63), 2**63 - 1, -(2**31), 0]),
        "V": np.array([np.inf, -np.inf, np.nan, 1e-45], np.float32),
    }
    ones = np.ones(4, np.int64)
    example = ExampleCall({"B": ones}, (weights["W"] + ones, weights["V"]), 0.0, (1.0, 1.0))
    programs = ((program, kernels_of(program), None),)
    network = ExportedNetwork((program.inputs["B"],), program.outputs, programs, weights)
    folder = export_c(network, example, tmp_path / "out")
    assert "a call takes" in check(folder, "-O1", "-fwrapv")


def _network(count: int) -> tuple[ExportedNetwork, ExampleCall]:
    """Return two programs, the first of which computes one of some slices."""
    one = lifted(
        as_program(ea.parse("T[b,i] += A[b,j]*W[j,i]\nU[b,i] = exp(T[b,i])", A=(1, 7), W=(7, 9)))
    )
    two = lifted(as_program(ea.parse("O[i] += U[b,i]*c[()]", U=(count, 9), c=())))
    rng = np.random.default_rng(0)
    inputs = {"A": rng.standard_normal((count, 7)), "c": np.float32(0.5)}
    weight = rng.standard_normal((7, 9)).astype(np.float32)
    between = np.exp(inputs["A"] @ weight)
    output = between.sum(0) * 0.5
    network = ExportedNetwork(
        (ea.tensor("A", (count, 7)), ea.tensor("c", ())),
        ("O", "U", "A", "W", "O"),
        (
            (one, kernels_of(one), Slices(count, frozenset({"A", "U"}))),
            (two, kernels_of(two), None),
        ),
        {"W": weight},
        (("the input", "c"), ("sum", "exp", "same", "weight", "again")),
    )
    outputs = (output, between, inputs["A"], weight, output)
    return network, ExampleCall(inputs, outputs, 1e-5, tuple(float(abs(o).max()) for o in outputs))


def test_programs_of_slices_and_copies(tmp_path: Path) -> None:
    folder = export_c(*_network(5), tmp_path / "net")
    header = (folder / "net.h").read_text()
    for name in ("the_input", "sum", "exp_", "same", "weight", "again"):
        assert re.search(rf"\*{name}\b", header), name
    assert "sample < 5" in (folder / "net.c").read_text()
    assert "a call takes" in check(folder, "-O1", *WATCHED)


def test_threads_may_call_it_at_the_same_time(tmp_path: Path) -> None:
    """All that a call writes is its outputs and its workspace."""
    rng = np.random.default_rng(0)
    shapes = {"A": (120, 90), "B": (90, 110)}
    folder = exported(
        ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[j,i] = T[i,j]*2", **shapes), tmp_path / "out"
    )
    library = tmp_path / "out.so"
    said(["gcc", "-O2", "-shared", "-fPIC", str(folder / "out.c"), "-o", str(library), "-lm"])
    call = ctypes.CDLL(str(library))
    call.out_workspace_size.restype = ctypes.c_size_t
    wrong: list[int] = []

    def run(number: int) -> None:
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes.values()]
        result = np.empty((110, 120), np.float32)
        workspace = np.empty(call.out_workspace_size(), np.uint8)
        buffers = [*arrays, result, workspace]
        for _ in range(20):
            call.out(*(ctypes.c_void_p(array.ctypes.data) for array in buffers))
            if not np.allclose(result, 2 * (arrays[0] @ arrays[1]).T, atol=1e-3):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_make_builds_a_library_and_checks_it(tmp_path: Path) -> None:
    require("make")
    folder = exported(PROGRAMS["odd product"], tmp_path / "out", "product")
    assert "O: the largest difference is" in said(
        ["make", "check", "CFLAGS=-O1 -DSECONDS=0.0"], folder
    )
    assert (folder / "libproduct.a").is_file()


@pytest.mark.nightly
def test_cmake_builds_and_tests_it(tmp_path: Path) -> None:
    require("cmake", "make")
    expression = ea.parse("O[i] += A[i,j]*W[j,k]", A=(3, 300), W=(300, 400))
    folder = exported(expression, tmp_path / "out", "layer", weights=["W"])
    said(["cmake", "-B", "build", "-S", ".", "-DLAYER_ARCH="], folder)
    said(["cmake", "--build", "build"], folder)
    assert "100% tests passed" in said(["ctest", "--test-dir", "build"], folder)


@pytest.mark.skipif(bool(NO_AARCH64), reason=f"{NO_AARCH64} is not installed")
@pytest.mark.parametrize("name", ["asymmetric convolution", "f16 product", "functions"])
def test_another_processor_runs_it(name: str, tmp_path: Path) -> None:
    folder = exported(PROGRAMS[name], tmp_path / "out")
    assert "a call takes" in check(folder, "-O1", "-static", compiler=COMPILER, run=[EMULATOR])
