"""What fails by the code of a candidate strikes it out; what fails by the moment does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.targets.cuda.device.nvcc import Nvcc
from codegen.tuning.measuring.compilation import machine_code as processor_code
from codegen.tuning.measuring.device_task import machine_code as device_code
from codegen.tuning.measuring.task import LASTING, Outcome
from tests.helpers.kernels import quick_compiler

SECONDS = 0.5


def refused_by_c(program: Path) -> Outcome:
    compiler = replace(quick_compiler(), command=(str(program),))
    return refused(processor_code(compiler, SECONDS, "int x;"))


def refused_by_cuda(program: Path) -> Outcome:
    return refused(device_code(Nvcc(str(program), "release 1"), 80, SECONDS, "int x;"))


def refused(result: object) -> Outcome:
    assert isinstance(result, Outcome) and result.reason
    return result


def script(folder: Path, text: str) -> Path:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


BOTH = pytest.mark.parametrize("refusal", [refused_by_c, refused_by_cuda])


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "sleep 9",
        "kill -9 $$",
        "echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1",
        "echo \"nvcc error   : 'cicc' died due to signal 9 (Kill signal)\" >&2; exit 9",
        "echo 'kernels: error: No space left on device' >&2; exit 1",
    ],
)
def test_a_failure_of_the_moment(
    refusal: Callable[[Path], Outcome], text: str, tmp_path: Path
) -> None:
    outcome = refusal(script(tmp_path, text))
    assert outcome.strikes == 0 and "einalg.evaluate" not in str(outcome.reason)


@BOTH
def test_a_compiler_that_is_missing(refusal: Callable[[Path], Outcome], tmp_path: Path) -> None:
    outcome = refusal(tmp_path / "nothing")
    assert outcome == Outcome(reason="it cannot be compiled: No such file or directory")


@BOTH
def test_code_that_is_refused(refusal: Callable[[Path], Outcome], tmp_path: Path) -> None:
    """The reason is the complaint alone: no place in a folder that is gone, no caret, no remedy."""
    said = "folder/kernels.c:1:1: error: unknown type name\n    1 | this is no C\n      | ^~~~"
    outcome = refusal(script(tmp_path, f"cat >&2 <<'END'\n{said}\nEND\nexit 1"))
    reason = "the compiler refuses it: error: unknown type name"
    assert outcome == Outcome(reason=reason, strikes=LASTING)


def test_candidates_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of candidates one is used later, and compiled once more then."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    makes = script(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo code > "$2"')
    code = device_code(Nvcc(str(makes), "release 1"), 80, SECONDS, "int x;")
    assert not isinstance(code, Outcome) and code.image == b"code\n"
    assert not list((tmp_path / "cache").rglob("*.cubin"))
