"""Each generated kernel is compiled once, whatever programs it is a part of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import KERNEL_CACHE, Compiler

FIRST = "T[i,j] = A[i,j]*A[i,j] + 1\nO[i] += T[i,j]"
SECOND = "T[i,j] = A[i,j]*A[i,j] + 1\nU[i,j] = 3*T[i,j] - A[i,j]\nO[i] += U[i,j]"


@pytest.fixture
def compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that a compiler is run on, with a cache folder that is empty."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    sources: list[str] = []
    run = Compiler._run

    def told(self: Compiler, source: str, timeout: float) -> bytes:
        sources.append(source)
        return run(self, source, timeout)

    monkeypatch.setattr(Compiler, "_run", told)
    return sources


def kernels(sources: list[str]) -> int:
    return sum(source.count("\nvoid kernel_") for source in sources)


def values(text: str, a: Any) -> Any:
    return compile_program(ea.parse(text, A=a.shape))(A=a)


def test_a_second_program_compiles_what_is_new(compilers: list[str]) -> None:
    a = np.random.default_rng(0).normal(size=(37, 53)).astype(np.float32)
    assert np.allclose(values(FIRST, a), (a * a + 1).sum(1), rtol=1e-4)
    assert kernels(compilers) == 2
    assert np.allclose(values(SECOND, a), (3 * (a * a + 1) - a).sum(1), rtol=1e-4)
    assert kernels(compilers) == 3  # the sum, which reads another name, is known
    before = len(compilers)
    values(FIRST, a), values(SECOND, a)
    assert len(compilers) == before


def test_a_shared_object_that_is_gone_is_compiled_again(
    compilers: list[str], tmp_path: Path
) -> None:
    a = np.ones((37, 53), np.float32)
    values(FIRST, a)
    for path in (tmp_path / KERNEL_CACHE.name).rglob(f"*{KERNEL_CACHE.suffix}"):
        path.unlink()
    assert np.allclose(values(FIRST, a), 106) and kernels(compilers) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[[1, 2]]", b'[["none", 0]]', b"[3]"])
def test_a_damaged_place_is_found_again(
    compilers: list[str], content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from codegen.targets.c import object_store

    a = np.ones((37, 53), np.float32)
    values(FIRST, a)
    monkeypatch.setattr(type(object_store.PLACES), "read", lambda self, key: content)
    assert np.allclose(values(FIRST, a), 106)
