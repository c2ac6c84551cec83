"""Candidates as shared objects, several in a file, compiled on this machine or on any executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from codegen.ir.nodes import Function
from codegen.targets.c.compiler import Compiler, run_compiler
from codegen.targets.c.object_store import compiler_for
from codegen.targets.c.source_file import c_source, own_sources
from codegen.targets.c.thread_pool import REGIONS
from codegen.tuning.measuring.refusal import compiled_or_refused
from codegen.tuning.measuring.task import CompiledCandidate, Outcome, without_body
from einalg.runtime.clock import OutOfTime, time_left
from einalg.runtime.processes import in_parallel
from einalg.storage.fingerprint import text_digest

FILE_CANDIDATES = 4  # whose compilers would each start for little else


@dataclass(frozen=True)
class CandidateCompiler:
    """Compiles candidates into a folder, within some seconds a file.

    An `executor` has the `submit` of `concurrent.futures.Executor`; its workers need a compiler and
    a processor like those here.
    """

    compiler: Compiler
    folder: Path
    seconds: float
    executor: Executor | None = None

    def text(self, function: Function) -> str:
        """Return the C of a function, which tells it from others."""
        (source,) = own_sources([function])
        return source

    def compiled(self, functions: Mapping[int, Function]) -> dict[int, CompiledCandidate | Outcome]:
        """Return the machine code of each function by its number, or why it has none.

        Where a file with several is refused, each is compiled alone, so that one of them takes none
        of the others along.
        """
        numbers = list(functions)
        files: list[list[int]] = []
        for start in range(0, len(numbers), FILE_CANDIDATES):
            files.append(numbers[start : start + FILE_CANDIDATES])
        candidates = self._compiled(functions, files)
        alone = [[n] for file in files if len(file) > 1 for n in file if n not in candidates]
        candidates |= self._compiled(functions, alone)
        return {number: candidates[number] for number in numbers}

    def _compiled(
        self, functions: Mapping[int, Function], files: Sequence[Sequence[int]]
    ) -> dict[int, CompiledCandidate | Outcome]:
        """Return what came of files; nothing of one with several candidates that is refused."""
        texts: list[str] = []
        for file in files:
            texts.append(REGIONS + c_source([functions[number] for number in file]))
        compiler = self.compiler
        if files:
            compiler = compiler_for(compiler, functions[files[0][0]])
        work = partial(machine_code, compiler, self.seconds)
        candidates: dict[int, CompiledCandidate | Outcome] = {}
        for file, text, content in zip(files, texts, self._map(work, texts), strict=True):
            if isinstance(content, Outcome):
                if len(file) == 1:
                    candidates[file[0]] = content
                continue
            path = self.folder / f"{text_digest(text)}.so"
            path.write_bytes(content)
            for position, number in enumerate(file):
                function = without_body(functions[number])
                candidates[number] = CompiledCandidate(path, position, function)
        return candidates

    def _map(self, work: partial[bytes | Outcome], texts: Sequence[str]) -> list[bytes | Outcome]:
        if self.executor is None:
            return in_parallel(work, texts)
        futures = [_submitted(self.executor, work, text) for text in texts]
        try:
            return [_content(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()  # nothing that is done


def _submitted(executor: Executor, work: partial[bytes | Outcome], text: str) -> Future[Any]:
    """Return a future of some work; of an executor that takes none, one with its error."""
    try:
        return executor.submit(work, text)
    except RuntimeError as error:  # a pool is broken once a worker has died
        future: Future[Any] = Future()
        future.set_exception(error)
        return future


def _content(future: Future[Any]) -> bytes | Outcome:
    """Return what a worker has made; `OutOfTime` where it does not finish in the time left."""
    seconds: float | None = time_left()
    if seconds == inf:
        seconds = None
    try:
        return future.result(seconds)
    except Exception as error:  # of a worker, which may die in ways of its own
        if isinstance(error, TimeoutError) and not future.done():
            raise OutOfTime from None
        return Outcome(reason=f"no worker: {type(error).__name__}")


def machine_code(compiler: Compiler, seconds: float, source: str) -> bytes | Outcome:
    """Return the shared object of a C source, or why there is none."""
    command = (*compiler.command, *compiler.flags)
    return compiled_or_refused(lambda: run_compiler(command, source, seconds)[0])
