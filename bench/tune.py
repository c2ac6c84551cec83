"""Measure the fastest tilings of the contractions of some cases, and keep them for this machine.

python -m bench.tune CASE… | --all [--count N] [--export FILE] [--import FILE] [--json PATH]

CASE is a word in the name of a case of `bench.kernels`. Compiled programs use the winners from then
on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import bench
from bench.kernel_cases import CASES, Case
from codegen.hardware.cpu import machine
from codegen.kernels.contraction.loop_nest import contraction_function
from codegen.kernels.contraction.partition import Tiling
from codegen.kernels.contraction.problem import Contraction
from codegen.lowering.parallel import pays
from codegen.runtime.kernel_call import generated_kernel
from codegen.runtime.protocol import KernelFunction
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.targets.c.source_file import c_source
from codegen.tuning.spaces.contraction import contraction_space
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.tile_search import COUNT, Make, exported, imported, signature, tune
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import compile_time_constants
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope


def tunings(case: Case, compiler: Compiler, count: int) -> Iterator[bench.Row]:
    """Every distinct contraction of a case with its winner."""
    program = lifted(as_program(case.expression))
    known = dict(program.statements)
    ahead = compile_time_constants(program)
    done: set[str] = set()
    for kernel in kernels_of(program):
        scope = known[kernel.output]
        space = contraction_space(CodeUnit(kernel, scope, frozenset(ahead)), machine())
        if space is None or signature(space.contraction) in done:
            continue
        nest = space.contraction
        done.add(signature(nest))
        winner = tune(
            nest,
            scope,
            kernel.output,
            maker(scope, compiler),
            compiler,
            [n for n in scope.tensors if n in ahead],
            count,
        )
        gain = winner.model_seconds / winner.seconds
        yield {
            "case": case.name,
            "kernel": str(kernel)[:60],
            "ms": winner.seconds * 1e3,
            "of the model's": gain,
            "tiling": numbers(winner.tiling),
        }


def maker(scope: Scope, compiler: Compiler) -> Make:
    """Compiles a contraction with the numbers of its loop nest."""

    def make(nest: Contraction, tiling: Tiling) -> KernelFunction:
        is_parallel = pays(nest.work, nest.left.buf, nest.right.buf)
        function = contraction_function(nest, tiling, str(scope), is_parallel)
        return generated_kernel(compiler.load(c_source([function])), function)

    return make


def numbers(tiling: Tiling) -> str:
    """Return the fields of a tiling that differ from the defaults.

    >>> numbers(Tiling(16, 8, 2, depth=64))
    'lanes=16 rows=8 vectors=2 depth=64'
    """
    usual = asdict(Tiling(0, 0, 0))
    return " ".join(
        f"{name}={value}" for name, value in asdict(tiling).items() if value != usual[name]
    )


def chosen_cases(words: Iterable[str], everything: bool) -> Iterator[Case]:
    for case in (make() for make in CASES):
        if everything or any(word.lower() in case.name.lower() for word in words):
            yield case


def main() -> None:
    parser = bench.options("Which tilings are fastest here?")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="words in the names of cases")
    parser.add_argument("--all", action="store_true", help="all cases")
    parser.add_argument(
        "--count", type=int, default=COUNT, help=f"tilings that are compiled (default: {COUNT})"
    )
    parser.add_argument(
        "--export", type=Path, metavar="FILE", help="write all winners that this machine has"
    )
    parser.add_argument(
        "--import", type=Path, dest="given", metavar="FILE", help="take the winners of a file first"
    )
    chosen = parser.parse_args()
    compiler = find_compiler()
    if compiler is None or not (chosen.cases or chosen.all or chosen.export or chosen.tuned_file):
        parser.error(
            "this needs a C compiler"
            if compiler is None
            else "name a case, or use --all, --export or --import"
        )
    try:
        if chosen.tuned_file:
            print(
                f"{imported(chosen.given)} tuned kernels read from {chosen.given}", file=sys.stderr
            )
        if chosen.cases or chosen.all:
            winners = (
                row
                for case in chosen_cases(chosen.cases, chosen.all)
                for row in tunings(case, compiler, chosen.count)
            )
            bench.report({"tuned": winners}, chosen.json)
        if chosen.export:
            chosen.export.write_text(exported() + "\n")
    except EinalgError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
