"""Each generated kernel is compiled once, whatever programs it is a part of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import Function
from codegen.lowering.lower import lower
from codegen.lowering.schedule import DEFAULT
from codegen.program.compile import compile_program
from codegen.targets.c.compiler import KERNEL_CACHE, Compiler
from codegen.targets.c.object_store import BackgroundCompiler, Place, placed
from codegen.targets.c.source_file import own_sources
from einalg.errors import CodegenError
from einalg.language.ir.program import as_program
from einalg.runtime.clock import Clock, OutOfTime
from tests.helpers.compiler_script import script
from tests.helpers.kernels import compiler

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


def functions_of(*texts: str) -> list[Function]:
    functions: list[Function] = []
    for text in texts:
        program = as_program(ea.parse(text, A=(37, 53)))
        scope = program["O"]
        functions.append(lower("O", scope, {}, DEFAULT))
    return functions


def begin(background: BackgroundCompiler, functions: list[Function]) -> None:
    background.begin(compiler(), functions, own_sources(functions), 60.0)


def places_of(functions: list[Function]) -> list[Place]:
    return placed(compiler(), functions, own_sources(functions), 60.0)


@pytest.fixture
def background() -> Iterator[BackgroundCompiler]:
    background = BackgroundCompiler(1)
    yield background
    background.stop()


def test_kernels_that_were_begun_are_compiled_once(
    compilers: list[str], background: BackgroundCompiler
) -> None:
    one, two, three = functions_of("O[i] += A[i,j]", "O[i] = A[i,0]+1", "O[i] = A[i,0]+2")
    begin(background, [one, two])
    begin(background, [two, three])
    background.finish()
    assert background.is_free and kernels(compilers) == 3
    assert len(set(places_of([one, two, three]))) == 3 and kernels(compilers) == 3


def test_what_was_stopped_leaves_no_trace(
    compilers: list[str],
    background: BackgroundCompiler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging = script(tmp_path / "hanging", f"touch {tmp_path}/hangs; sleep 600")
    functions = functions_of("O[i] += A[i,j]")
    slow = replace(compiler(), command=(str(hanging),))
    background.begin(slow, functions, own_sources(functions), 60.0)
    assert not background.is_free
    with pytest.raises(OutOfTime), Clock.of(0.2).limiting():
        background.finish()
    background.stop()
    assert not list(tmp_path.rglob("*.so")) and not list(tmp_path.rglob(".new-*"))
    assert len(places_of(functions)) == 1 and kernels(compilers) == 2


def test_what_fails_in_the_background_is_reported_by_who_needs_it(
    compilers: list[str], background: BackgroundCompiler, tmp_path: Path
) -> None:
    functions = functions_of("O[i] += A[i,j]")
    refusing = replace(compiler(), command=(str(script(tmp_path / "refusing", "exit 1")),))
    background.begin(refusing, functions, own_sources(functions), 60.0)
    background.finish()
    with pytest.raises(CodegenError, match="refused"):
        placed(refusing, functions, own_sources(functions), 60.0)
