"""Compilers that die or hang in the middle, and disks that are full: the right values, or an error
that says what happened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen.targets.c.compiler
import codegen.targets.c.thread_pool
import einalg as ea
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import REQUIRED_FLAGS, Compiler, find_compiler
from einalg.errors import CodegenError
from einalg.language.ir.program import as_program
from einalg.storage import disk_cache
from tests.helpers.compiler_script import script
from tests.helpers.kernels import compiler

TEXT = "T[i,j] += A[i,k]*W[k,j]\nU[i,j] = Max(T[i,j], 0)\nV[i] = Max[j:6](U[i,j])\nO[i,j] = U[i,j] - V[i]"
TENSORS = dict(A=(5, 7), W=ea.tensor("W", (7, 6), role="weight"))
DEAD, SLOW = "echo 'out of memory' >&2; exit 1", "sleep 30"
SHORT = 0.5  # seconds that a compiler has here


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(codegen.targets.c.thread_pool, "_pool", [])


def disturbed(folder: Path, runs: str, what: str) -> Path:
    """The system's compiler; once the file `armed` is there, runs of it whose number is in a range
    do something else.
    """
    lines = f"""
if [ -e {folder}/armed ] && [ "$1" != --version ]; then
  n=1; until mkdir {folder}/run$n 2>/dev/null; do n=$((n+1)); done
  case $n in {runs}) {what};; esac
fi
exec {compiler().command[0]} "$@"
"""
    return script(folder / "disturbed", lines)


def be_impatient(monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float) -> None:
    """Give a compiler few seconds while the file `armed` is there."""
    real = codegen.targets.c.compiler.run_command

    def run(command: Sequence[str], timeout: float) -> tuple[int, str]:
        if (folder / "armed").exists():
            timeout = seconds
        return real(command, timeout)

    monkeypatch.setattr(codegen.targets.c.compiler, "run_command", run)


def given() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {"A": (5, 7), "W": (7, 6)}.items()
    }


def is_right(found: Any) -> bool:
    product = np.maximum(given()["A"] @ given()["W"], 0)
    return np.allclose(found, product - product.max(1, keepdims=True), atol=1e-4)


@pytest.mark.parametrize(
    "what, message",
    [(DEAD, "refused the generated code:\nout of memory"), (SLOW, "did not finish within")],
)
@pytest.mark.parametrize("runs", ["1", "2", "3", "[2-9]"])
def test_a_program_of_several_kernels(
    tmp_path: Path, runs: str, what: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = Compiler((str(disturbed(tmp_path, runs, what)),), "test", (*REQUIRED_FLAGS, "-lm"))
    (tmp_path / "armed").touch()
    program = as_program(ea.parse(TEXT, **TENSORS))
    if what == SLOW:
        be_impatient(monkeypatch, tmp_path, SHORT)
    try:
        assert is_right(compile_program(program, compiler=used)(**given()))
    except CodegenError as error:
        assert message in str(error)
    (tmp_path / "armed").unlink()
    assert is_right(compile_program(program, compiler=used)(**given())), "nothing half-made is kept"


@pytest.mark.parametrize("what", [DEAD, SLOW])
@pytest.mark.parametrize("runs", ["1", "2", "[3-9]*", "*"])
def test_a_network(tmp_path: Path, runs: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(disturbed(tmp_path, runs, what)))
    assert find_compiler() is not None
    (tmp_path / "armed").touch()
    if what == SLOW:
        be_impatient(monkeypatch, tmp_path, 2 * SHORT)
    program = ea.parse(TEXT, **TENSORS)
    try:
        assert is_right(ea.optimize(program, given(), seconds=2)(given()["A"]))
    except CodegenError as error:
        assert "disturbed" in str(error) and (
            "out of memory" in str(error) or "did not finish" in str(error)
        )
    (tmp_path / "armed").unlink()
    assert is_right(ea.optimize(program, given(), seconds=0)(given()["A"]))


def full(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """No byte can be written to new files of these folders, which can be made."""
    real = os.fdopen

    def opened(handle: int, *rest: Any, **more: Any) -> Any:
        file = real(handle, *rest, **more)
        if any(
            folder in Path(os.readlink(f"/proc/self/fd/{handle}")).parents for folder in folders
        ):
            file.close()
            return open("/dev/full", "wb", buffering=0)
        return file

    monkeypatch.setattr(os, "fdopen", opened)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing is full here")
def test_a_disk_that_is_full_at_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full(monkeypatch, tmp_path)
    program = ea.parse(TEXT, **TENSORS)
    assert is_right(compile_program(as_program(program))(**given()))
    assert is_right(ea.optimize(program, given(), seconds=1)(given()["A"]))
    assert "No space left" in caplog.text
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()], (
        "nothing half-written is left behind"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing is full here")
def test_where_nothing_can_be_written_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in the temporary folder, where the shared objects lie that are loaded."""
    full(monkeypatch, tmp_path, disk_cache.temporary_folder())
    with pytest.raises(
        CodegenError, match=r"kernels cannot be written: .*No space left(.|\n)*EINALG_CACHE"
    ):
        compile_program(as_program(ea.parse(f"{TEXT} + 1", **TENSORS)))


def test_no_room_for_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    used = compiler()
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(CodegenError, match=r"No space left(.|\n)*TMPDIR"):
        used.compile("int f(void) { return 77; }\n")


def test_a_record_that_cannot_be_kept_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only shared objects can be written."""
    real = disk_cache.DiskCache._write

    def write(self: disk_cache.DiskCache, folder: Path, key: str, content: bytes) -> Path:
        if self.suffix == ".json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, folder, key, content)

    monkeypatch.setattr(disk_cache.DiskCache, "_write", write)
    program = ea.parse(f"{TEXT} + 2", **TENSORS)
    assert is_right(compile_program(as_program(program))(**given()) - 2)
    assert is_right(ea.optimize(program, given(), seconds=1)(given()["A"]) - 2)
