"""Compilation of code beside the generation of more, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from codegen.program.building.problem import BuildProblem, KernelSource
from codegen.targets.c.object_store import BackgroundCompiler
from codegen.targets.c.source_file import own_sources
from einalg.errors import EinalgError
from einalg.runtime.processors import core_count

MIN_BATCH_CHARACTERS = 16_000  # of C that take a compiler longer than to start
MAX_BATCH_CHARACTERS = 64_000  # of C that are not worth waiting for a compiler that is free


def compile_together(
    problems: Sequence[BuildProblem], background: BackgroundCompiler | None = None
) -> None:
    """Compile what no record is of, for programs that are built with the same compiler later.

    Compilers run while code is still generated. With a `background` all of it is one file, which
    only begins. What fails is reported to whoever builds it.
    """
    if not problems:
        return
    sources = _uncached_sources(problems)
    if background is not None:
        problems[0].begin(dict(sources), background)
        return
    compile_while_generating(problems[0], sources)


def compile_while_generating(
    problem: BuildProblem, sources: Iterator[tuple[str, KernelSource]]
) -> None:
    """Compile code beside its generation, on all cores; what fails is compiled again later."""
    compiler = BackgroundCompiler(core_count())
    try:
        for batch in _batches(sources, compiler):
            problem.begin(batch, compiler)
        compiler.finish()
    finally:
        compiler.stop()


def _batches(
    sources: Iterator[tuple[str, KernelSource]], compiler: BackgroundCompiler
) -> Iterator[dict[str, KernelSource]]:
    """Yield code in batches that are worth a compiler's start; they grow while none may start."""
    batch: dict[str, KernelSource] = {}
    characters = 0
    for name, source in sources:
        batch[name] = source
        (text,) = own_sources([source.function])
        characters += len(text)
        is_large = characters >= MAX_BATCH_CHARACTERS
        if is_large or (characters >= MIN_BATCH_CHARACTERS and compiler.is_free):
            yield batch
            batch, characters = {}, 0
    if batch:
        yield batch


def _uncached_sources(problems: Sequence[BuildProblem]) -> Iterator[tuple[str, KernelSource]]:
    """Yield the code of the kernels that no record is of, under names of their own."""
    for number, problem in enumerate(problems):
        with suppress(EinalgError):
            for kernel in problem.uncached_kernels():
                yield f"{number}.{kernel.output}", problem.source(kernel)
