"""Random flat programs as projects in C and CUDA: each is right, and compiled without a warning."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from codegen.export.cuda.project import export_cuda
from codegen.export.project import ExampleCall, ExportedNetwork, export_c
from derive.cost.accuracy import scales, tolerance
from derive.matching import kernels_of
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import in_double
from tests.helpers.c_project import WATCHED, check
from tests.helpers.cuda_project import run_on_the_cpu
from tests.helpers.random_programs import SLOW, programs_with_arrays


def _example(program: Any, arrays: Any) -> tuple[ExportedNetwork, ExampleCall]:
    expected = execute(in_double(program), arrays)
    sizes = scales(expected, program, arrays)
    outputs = tuple(np.asarray(expected[name]) for name in program.outputs)
    network = ExportedNetwork(
        tuple(program.inputs.values()), program.outputs, ((program, kernels_of(program), None),)
    )
    scale = tuple(sizes[name] for name in program.outputs)
    return network, ExampleCall(arrays, outputs, tolerance(program), scale)


@pytest.mark.nightly
@settings(max_examples=30, suppress_health_check=SLOW)
@given(programs_with_arrays())
def test_programs_in_c(case: Any) -> None:
    program, arrays = case
    with TemporaryDirectory() as parent:
        folder = export_c(*_example(program, arrays), Path(parent) / "out", "computed")
        assert "a call takes" in check(folder, "-O0", "-fwrapv", *WATCHED)


@pytest.mark.nightly
@settings(max_examples=20, suppress_health_check=SLOW)
@given(programs_with_arrays())
def test_programs_in_cuda(case: Any) -> None:
    program, arrays = case
    with TemporaryDirectory() as parent:
        folder = export_cuda(*_example(program, arrays), Path(parent) / "out", "computed")
        assert "a call takes" in run_on_the_cpu(folder)
