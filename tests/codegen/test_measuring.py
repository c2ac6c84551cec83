"""Kernels that are measured one by one are compiled together, and fail one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sympy

import einalg as ea
from codegen.compiler import Compiler
from codegen.measuring import kernel_timers
from derive.search import kernels_of
from einalg.errors import CodegenError
from einalg.kernel import Kernel
from einalg.notation import L, indices
from einalg.program import as_program
from einalg.turns import cores


def kernel(text: str, **shapes: Any) -> Kernel:
    return kernels_of(as_program(ea.parse(text, **shapes)))[0]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that are compiled, with an empty cache."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    sources, compile_one = list[str](), Compiler.compile
    monkeypatch.setattr(Compiler, "compile", lambda self, source, *rest: sources.append(source) or compile_one(self, source, *rest))
    return sources


def test_kernels_are_compiled_together(compiled: list[str]) -> None:
    kernels = [kernel(f"O[i] = A[i]*{k} + B[i]", A=(50,), B=(50,)) for k in range(2, 7)]
    product = kernel("O[i,j] += A[i,k]*B[k,j]", A=(40, 30), B=(30, 50))
    timers = kernel_timers([*kernels, product])
    several = [source for source in compiled if "kernel_0" in source]
    assert 1 <= len(several) <= cores()
    before = len(compiled)
    assert all(0 < timer() < 1 for timer in timers)
    assert len(compiled) == before


def test_what_has_no_code_fails_by_itself(compiled: list[str]) -> None:
    i, A = indices("i")[0], ea.tensor("A", (50,))
    strange = Kernel("eop", {"i": 50}, ("A",), "O", scope=L[i:50](sympy.zeta(A[i])))
    first, broken, last = kernel_timers([kernel("O[i] = A[i] + 1", A=(50,)), strange, kernel("O[i] = A[i] - 1", A=(50,))])
    before = len(compiled)
    assert before and first() > 0 and last() > 0 and len(compiled) == before
    with pytest.raises(CodegenError, match="zeta"):
        broken()


def test_nothing_to_measure() -> None:
    assert kernel_timers([]) == []
