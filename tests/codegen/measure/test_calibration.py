"""Kernels that are measured one by one are compiled together, and fail one by one."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

import einalg as ea
from codegen.ir.nodes import Function
from codegen.measure.calibration import kernel_timers
from codegen.program.building import compilation, problem
from codegen.targets.c.compiler import Compiler
from codegen.tuning.spaces import loops
from derive.matching import kernels_of
from einalg.errors import CodegenError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from einalg.runtime.processors import core_count


def kernel(text: str, **shapes: Any) -> Kernel:
    return kernels_of(as_program(ea.parse(text, **shapes)))[0]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of kernels that are compiled, with an empty cache."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    sources, compile_one = list[str](), Compiler.compile

    def compile_it(self: Compiler, source: str, *rest: Any) -> Path:
        if "kernel_0" in source:  # not what runs threads
            sources.append(source)
        return compile_one(self, source, *rest)

    monkeypatch.setattr(Compiler, "compile", compile_it)
    return sources


def test_kernels_are_compiled_together(compiled: list[str]) -> None:
    kernels = [kernel(f"O[i] = A[i]*{k} + B[i]", A=(50,), B=(50,)) for k in range(2, 7)]
    product = kernel("O[i,j] += A[i,k]*B[k,j]", A=(40, 30), B=(30, 50))
    timers = kernel_timers([*kernels, product])
    assert 1 <= len(compiled) <= core_count()
    assert all(0 < timer().seconds < 1 for timer in timers)
    assert 1 <= len(compiled) <= core_count()


def test_a_compiler_runs_while_code_is_generated(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, lower, run = Event(), loops.lower, Compiler._run
    generated = list[bool]()

    def generate(name: str, scope: Scope, *rest: Any) -> Function:
        if generated:
            generated.append(begun.wait(20.0))
        else:
            generated.append(True)
        return lower(name, scope, *rest)

    def compile_it(self: Compiler, source: str, timeout: float) -> bytes:
        begun.set()
        return run(self, source, timeout)

    monkeypatch.setattr(loops, "lower", generate)
    monkeypatch.setattr(Compiler, "_run", compile_it)
    monkeypatch.setattr(compilation, "MIN_BATCH_CHARACTERS", 1)
    kernel_timers([kernel("O[i] = A[i]*2", A=(50,)), kernel("O[i] = A[i] + 7", A=(60,))])
    assert generated == [True, True] and len(compiled) == 2


@pytest.mark.parametrize(("is_free", "batches"), [(True, 6), (False, 2)])
def test_batches_grow_while_no_compiler_is_free(
    is_free: bool, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler takes time to start, which nothing is waiting for then."""

    class Compilers(compilation.BackgroundCompiler):
        is_free = False

    compilers = Compilers(1)
    monkeypatch.setattr(Compilers, "is_free", is_free)
    scope = kernel("O[i] = A[i] + 1", A=(50,)).scope
    assert scope is not None
    source = problem.KernelSource("generated", loops.lower("O", scope))
    (text,) = compilation.own_sources([source.function])
    monkeypatch.setattr(compilation, "MIN_BATCH_CHARACTERS", len(text))
    monkeypatch.setattr(compilation, "MAX_BATCH_CHARACTERS", 4 * len(text))
    sources = {f"kernel {number}": source for number in range(6)}
    built = list(compilation._batches(iter(sources.items()), compilers))
    assert len(built) == batches
    assert [name for batch in built for name in batch] == list(sources)


def test_what_has_no_code_fails_by_itself(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = loops.lower

    def refusing(name: str, scope: Scope, *rest: Any) -> Function:
        if "cosh" in str(scope):
            raise CodegenError("there is no cosh")
        return lower(name, scope, *rest)

    monkeypatch.setattr(loops, "lower", refusing)
    first, broken, last = kernel_timers(
        [kernel(f"O[i] = {body}", A=(50,)) for body in ("A[i] + 1", "cosh(A[i])", "A[i] - 1")]
    )
    before = len(compiled)
    assert before and first().seconds > 0 and last().seconds > 0 and len(compiled) == before
    with pytest.raises(CodegenError, match="no cosh"):
        broken()


def test_nothing_to_measure() -> None:
    assert kernel_timers([]) == []
