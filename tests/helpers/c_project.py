"""Exported projects, compiled and run as a user would."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.export.project import ExampleCall, ExportedNetwork, export_c
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.frontends.random_inputs import random_arrays
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, in_double

TIMEOUT = 120.0
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-DSECONDS=0.0")
WATCHED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ALLOWED = {"f64": 1e-10, "f32": 1e-4, "f16": 2e-2, "bf16": 2e-2}


def exported(
    expression: Any, folder: Path, name: str | None = None, weights: Sequence[str] = ()
) -> Path:
    """Export a program that checks itself on random inputs; `weights` are inside."""
    return export_c(*example(lifted(as_program(expression)), weights), folder, name)


def example(program: Program, weights: Sequence[str] = ()) -> tuple[ExportedNetwork, ExampleCall]:
    """Return a flat program with random inputs, of which `weights` are inside."""
    arrays: Mapping[str, Any] = random_arrays(program.inputs.values())
    expected = execute(in_double(program), arrays)
    outputs = [np.asarray(expected[output]) for output in program.outputs]
    scales = [float(np.abs(array).max(initial=0.0)) or 1.0 for array in outputs]
    allowed = max(ALLOWED.get(program[output].dtype, 0.0) for output in program.outputs)
    network = ExportedNetwork(
        tuple(tensor for key, tensor in program.inputs.items() if key not in weights),
        program.outputs,
        ((program, kernels_of(program), None),),
        {key: arrays[key] for key in weights},
    )
    return network, ExampleCall(arrays, tuple(outputs), allowed, tuple(scales))


def check(folder: Path, *flags: str, compiler: str = "gcc", run: Sequence[str] = ()) -> str:
    """Compile a project with these flags, run it, and return what it says; its status is 0."""
    sources = [*folder.glob("*.c"), *folder.glob("*.S")]
    program = folder.parent / f"{folder.name}_check"
    command = [compiler, *STRICT, *flags, f"-I{folder}", *map(str, sources), "-o", str(program)]
    output = said([*command, "-lm"])
    assert not output, output
    return said([*run, str(program)])


def said(command: Sequence[str], folder: Path | None = None) -> str:
    """Run a command that succeeds, and return what it says."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def require(*programs: str) -> None:
    """Skip a test where a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
