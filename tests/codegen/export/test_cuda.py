"""Programs as CUDA projects: run on the CPU by the shim, and compiled by nvcc where there is one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.export.cuda.project import export_cuda
from codegen.export.project import ExampleCall, ExportedNetwork
from codegen.targets.cuda.device.nvcc import find_nvcc
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import CodegenError
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import as_program
from tests.helpers.c_project import example, said
from tests.helpers.cuda_project import run_on_the_cpu

CONVOLUTION = "O[n,h,w,f] += A.pad(0,(1,0),(2,1),0)[n,h+r-1,w+s-2,c]*K[r,s,f,c]"
PRODUCT = "O[i,j] += A[i,k]*B[k,j]"
SEVERAL = """
T[i,j] += A[i,k]*B[k,j]
U[i] += T[i,j]
O[i,j] = T[i,j]/(U[i] + alpha[()]) + exp(T[i,j])
V[j] += O[i,j]
O, V
"""


def _typed(dtype: str, **shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: ea.tensor(name, shape, dtype=dtype) for name, shape in shapes.items()}


PROGRAMS = {
    "asymmetric convolution": ea.parse(CONVOLUTION, A=(2, 9, 11, 5), K=(2, 4, 7, 5)),
    "odd product": ea.parse(PRODUCT, A=(37, 53), B=(53, 41)),
    "several statements": ea.parse(SEVERAL, A=(17, 5), B=(5, 19), alpha=()),
    "i32 product": ea.parse(PRODUCT, **_typed("i32", A=(17, 13), B=(13, 9))),
    "f16 product": ea.parse(PRODUCT, **_typed("f16", A=(17, 13), B=(13, 9))),
    "bf16": ea.parse("O[i] = A[i]*2 + B[()]", **_typed("bf16", A=(9,), B=())),
    "long sum": ea.parse("O[()] += A[i]", A=(100_000,)),
    "no rows": ea.parse(PRODUCT, A=(0, 3), B=(3, 5)),
    "words of C": ea.parse("new[i] = int_[i] + stream[i]*α[i]", int_=(5,), stream=(5,), α=(5,)),
}


def exported(
    expression: Any, folder: Path, name: str | None = None, weights: tuple[str, ...] = ()
) -> Path:
    return export_cuda(*example(lifted(as_program(expression)), weights), folder, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_checks_itself(name: str, tmp_path: Path) -> None:
    folder = exported(PROGRAMS[name], tmp_path / "out", "computed")
    assert "a call takes" in run_on_the_cpu(folder)


def test_a_wrong_result_is_reported(tmp_path: Path) -> None:
    folder = exported(PROGRAMS["several statements"], tmp_path / "out", "computed")
    source = folder / "computed.cu"
    source.write_text(source.read_text().replace("expf(", "1.001f*expf("))
    with pytest.raises(AssertionError, match="V: the largest difference is"):
        run_on_the_cpu(folder)


@pytest.mark.parametrize("size", [20, 300])
def test_weights_are_inside_and_computed_ahead(size: int, tmp_path: Path) -> None:
    """Large ones are a file that no compiler reads."""
    expression = ea.parse(
        "V[j,k] = exp(W[j,k])\nO[i,k] += A[i,j]*V[j,k]",
        A=(3, size),
        W=ea.tensor("W", (size, size), role="weight"),
    )
    folder = exported(expression, tmp_path / "out", "layer", ("W",))
    header = (folder / "layer.h").read_text()
    assert re.search(r"layer\(\s*const float \*A,\s*float \*O,\s*const void \*weights,", header)
    assert (folder / "layer_weights.bin").exists() == (size == 300)
    assert "exp" not in (folder / "layer.cu").read_text()
    assert "a call takes" in run_on_the_cpu(folder)


def test_programs_in_a_row_and_copies(tmp_path: Path) -> None:
    one = lifted(as_program(ea.parse("T[i] += A[i,j]*W[j]\nU[i] = exp(T[i])", A=(5, 7), W=(7,))))
    two = lifted(as_program(ea.parse("T[i] = U[i]*2\nO[()] += T[i]*U[i]", U=(5,))))
    rng = np.random.default_rng(0)
    array, weight = rng.standard_normal((5, 7)), rng.standard_normal(7).astype(np.float32)
    between = np.exp(array @ weight)
    total = (2 * between * between).sum()
    network = ExportedNetwork(
        (ea.tensor("A", (5, 7)),),
        ("O", "U", "A", "W", "O"),
        ((one, kernels_of(one), None), (two, kernels_of(two), None)),
        {"W": weight},
        (("A",), ("sum", "exp", "same", "weight", "again")),
    )
    outputs = (total, between, array, weight, total)
    scales = tuple(float(np.abs(output).max()) for output in outputs)
    folder = export_cuda(
        network, ExampleCall({"A": array}, outputs, 1e-5, scales), tmp_path / "net"
    )
    assert "a call takes" in run_on_the_cpu(folder)


def test_slices_are_for_the_cpu(tmp_path: Path) -> None:
    program = lifted(as_program(ea.parse("O[b,i] = A[b,i] + 1", A=(1, 7))))
    slices = Slices(3, frozenset("AO"))
    network = ExportedNetwork(
        (ea.tensor("A", (3, 7)),), ("O",), ((program, kernels_of(program), slices),)
    )
    given = ExampleCall({"A": np.zeros((3, 7))}, (np.ones((3, 7)),), 1e-5, (1.0,))
    with pytest.raises(CodegenError, match="sample by sample"):
        export_cuda(network, given, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", ["several statements", "bf16"])
def test_nvcc_compiles_it_without_a_warning(name: str, tmp_path: Path) -> None:
    folder = exported(PROGRAMS[name], tmp_path / "out", "computed")
    nvcc = find_nvcc()
    assert nvcc is not None
    flags = ["-std=c++17", "-arch=sm_80", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra"]
    for source in ("computed.cu", "main.cu"):
        compiled = tmp_path / f"{source}.o"
        said([nvcc.program, *flags, "-c", str(folder / source), "-o", str(compiled)])
