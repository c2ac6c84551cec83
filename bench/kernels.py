"""How fast do programs run beside NumPy, torch, torch.compile, ONNX Runtime and OpenVINO?

python -m bench.kernels [--target cpu|cuda] [--threads 1,2] [--only WORD] [--derive SECONDS]
    [--without LIBRARY] [--json PATH]

And how near are they to the machine's limits? Weights are constant for all. Runs alternate between
all implementations in the same minutes, each after calls that do not count, and medians are
compared: of the processor's time for one thread (other work on the machine counts as little as it
can), of the clock's for several. The peak is that of independent multiply-adds in vector registers,
the bandwidth that of a copy. `best` is the fastest library, `ratio` how many times faster the
program is; `error` is the largest deviation from double precision, relative to the largest element.
Programs that have other values have no ratio, and are told in `missed`.
`target` and `missed` are those of `bench.targets`. A derivation that computes less can be beyond
the peak. The table of threads has how many times faster two are than one; that of making, what the
first kernel of a case takes to be written and to be compiled, and what a new process takes to have
the program ready, where all of it is on disk.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import bench
import einalg as ea
from bench.case_rows import bytes_moved, columns, measured
from bench.forms import running
from bench.kernel_cases import CASES, Array, Arrays, Case
from bench.rivals import missing, rivals
from bench.targets import OURS, WRONG, gains, judged, makings
from codegen.hardware.cpu import machine
from codegen.program.building.generated_kernels import best_candidate
from codegen.program.compile import compile_program
from codegen.runtime.array_arguments import sample
from codegen.runtime.memory_planning import aligned
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.targets.c.source_file import c_source
from codegen.tuning.spaces.unit import CodeUnit
from derive.cost.model import MAX_SAMPLES, arithmetic
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, as_program, in_double
from einalg.runtime.measurement import Measurement
from einalg.runtime.timing import MeasuringPolicy, measure

Call = Callable[[], Any]
RESULTS = Path(__file__).parent / "results" / "kernels.json"
SECONDS = 2.0  # of a case
POLICY = MeasuringPolicy(
    min_turns=5, max_turns=50, sharp_spread=0.0, turn_seconds=5e-3, max_runs=200
)
STEPS, ACCUMULATORS = 1 << 20, 12
COPIED = 1 << 26  # bytes, which no cache holds
PEAK = """\
typedef float vec __attribute__((vector_size({bytes})));
float peak(float x, float y) {{
  vec {names};
  {starts}
  for (int i = 0; i < {steps}; ++i) {{ {products} __asm__ volatile(""); }}
  const vec total = {names_sum};
  return total[0];
}}
"""
READ = """\
typedef float vec __attribute__((vector_size({bytes})));
float sum(const vec *data, long vectors, long rounds) {{
  vec a = {{0}}, b = a, c = a, d = a;
  for (long round = 0; round < rounds; ++round) {{
    for (long i = 0; i + 4 <= vectors; i += 4) {{
      a += data[i]; b += data[i + 1]; c += data[i + 2]; d += data[i + 3];
    }}
    __asm__ volatile("" ::: "memory");
  }}
  return (a + b + c + d)[0];
}}
"""


def peak(compiler: Compiler) -> Call:
    """A call of that many multiply-adds in vectors, on one core."""
    names, starts, products = list[str](), list[str](), list[str]()
    for number in range(ACCUMULATORS):
        name = f"a{number}"
        names.append(name)
        starts.append(f"{name} = (vec){{0}} + x * {number}.f;")
        products.append(f"{name} = {name} * x + y;")
    source = PEAK.format(
        bytes=machine().vector,
        names=", ".join(names),
        starts=" ".join(starts),
        steps=STEPS,
        products=" ".join(products),
        names_sum=" + ".join(names),
    )
    call = compiler.load(source).peak
    call.argtypes, call.restype = [ctypes.c_float, ctypes.c_float], ctypes.c_float
    return lambda: call(0.999, 0.5)


def copy() -> Call:
    source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    return lambda: np.copyto(target, source)


def reading(compiler: Compiler, count: int) -> tuple[Call, int]:
    """Return a call that reads so many bytes again and again, and how many it reads in all.

    They stay in the nearest cache that holds them.
    """
    vector = machine().vector
    data, call = (
        aligned((max(count // vector, 4), vector // 4), "f32"),
        compiler.load(READ.format(bytes=vector)).sum,
    )
    data[:] = 0  # memory of its own for each page
    call.argtypes, call.restype = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long], ctypes.c_float
    rounds = ceil(COPIED / data.nbytes)
    given = data.ctypes.data, len(data), rounds
    return lambda: (data, call(*given)), rounds * data.nbytes


def peak_operations() -> int:
    """Operations of a call of `peak`; a multiply-add is two."""
    return 2 * STEPS * ACCUMULATORS * (machine().vector // 4)


def rates(times: Mapping[str, float], threads: int) -> tuple[float, float]:
    """Operations and bytes in a second, from the seconds of `peak` and `copy`."""
    return peak_operations() / times["peak"] * threads, 2 * COPIED / times["copy"]


def generated(program: Program, inputs: Arrays, weights: Arrays) -> tuple[Call, bench.Row]:
    """Return the program as it is, compiled, and the milliseconds of making its first kernel."""
    kernels = kernels_of(program)
    run = compile_program(program, kernels).bind(**weights)
    known = dict(program.statements)
    began = perf_counter()
    unit = CodeUnit(kernels[0], known[kernels[0].output], statements=known)
    candidate = best_candidate(unit)
    assert candidate is not None  # any statement has loops
    function = candidate.build()
    source = c_source([function])
    lowered = perf_counter()
    compiler = find_compiler()
    assert compiler is not None, "this benchmark needs a C compiler"
    compiler._run(source, 300.0)
    spent = {
        "emission ms": (lowered - began) * 1e3,
        "compiling ms": (perf_counter() - lowered) * 1e3,
    }
    return lambda: run(**inputs), spent


def ready(name: str) -> float:
    """Return the milliseconds that a new process takes to compile a case that others compiled.

    These have also measured doubtful choices again.
    """
    script = f"from bench.kernels import compiled_again; print(compiled_again({name!r}))"
    processes = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        for _ in range(MAX_SAMPLES)
    )
    return [float(process.stdout) for process in processes][-1]


def compiled_again(name: str) -> float:
    """Return the milliseconds of compiling a case when all libraries are loaded."""
    (case,) = (case for make in CASES if (case := make()).name == name)
    program = lifted(as_program(case.expression))
    kernels = kernels_of(program)
    compile_program(ea.parse("O[i] = A[i]", A=(1,)))
    began = perf_counter()
    compile_program(program, kernels)
    return (perf_counter() - began) * 1e3


def derived(
    expression: Any, inputs: Arrays, weights: Arrays, seconds: float
) -> tuple[Call, bench.Row]:
    """The best that a search of so many seconds finds."""
    began = perf_counter()
    best = ea.derive(expression, seconds=seconds).best
    spent = perf_counter() - began
    run = best.compile().bind(**weights)
    return lambda: run(**inputs), {
        "search s": spent,
        "derivation": f"{len(best.moves)} moves, {', '.join(k.op for k in running(best))}",
    }


def exact(case: Case, arrays: Arrays) -> Array:
    """The result in double precision."""
    doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
    try:
        import torch
    except ImportError:
        program = as_program(case.expression)
        return execute(in_double(program), arrays)[program.outputs[0]]
    tensors = {name: torch.from_numpy(array) for name, array in case.given(doubles).items()}
    return case.result(case.torch(torch, **tensors).numpy())


def inputs_of(case: Case, program: Program) -> Arrays:
    """Random inputs, around 0 and small where the case says so."""
    scaled = sample(program.inputs)
    return {name: (array - 0.75) * 4 * case.scale.get(name, 1.0) for name, array in scaled.items()}


def measured_case(
    case: Case, threads: int, limits: Mapping[str, Call], search: float, without: Sequence[str] = ()
) -> bench.Row:
    program = lifted(as_program(case.expression))
    arrays = inputs_of(case, program)
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    weights = {name: arrays[name] for name in case.weights}
    inputs = {name: array for name, array in arrays.items() if name not in weights}
    found: dict[str, Call] = {}
    found["generated"], told = generated(program, inputs, weights)
    told = {**told, "ready ms": ready(case.name)}
    if search and case.derives:
        try:
            found["derived"], more = derived(case.expression, inputs, weights, search)
        except EinalgError as error:  # one case less, not the whole table
            more = {"derivation": f"failed: {error}"}
        told = {**told, **more}
    results: dict[str, Callable[[], Any]] = dict(found)
    for name, call, result in rivals(case, arrays, threads, without):
        found[name], results[name] = call, result
    expected = exact(case, arrays)
    largest = float(np.abs(expected).max())
    errors = {
        name: float(np.abs(np.asarray(result()) - expected).max()) / largest
        for name, result in results.items()
    }
    # The limits are measured first, by themselves: a copy leaves nothing in the caches.
    measured = {**in_turns(limits, 0.0), **in_turns(found)}
    shortest = {name: figures.minimum * 1e3 for name, figures in measured.items()}
    times = {name: figures.median for name, figures in measured.items()}
    busy = [name for name, figures in measured.items() if figures.busy]
    told = {**told, "shortest ms": shortest, "busy": busy}
    return row(case, program, threads, times, errors, told)


def alternately(calls: Mapping[str, Call], seconds: float = SECONDS) -> dict[str, float]:
    """Return the medians of the seconds of calls in turns."""
    return {name: figures.median for name, figures in in_turns(calls, seconds).items()}


def in_turns(calls: Mapping[str, Call], seconds: float = SECONDS) -> dict[str, Measurement]:
    """Measure calls in turns, for so many seconds in all, however sharp they are before."""
    share = seconds / max(1, len(calls))
    return measure(calls, replace(POLICY, seconds_per_alternative=share))


def row(
    case: Case,
    program: Program,
    threads: int,
    times: Mapping[str, float],
    errors: Mapping[str, float],
    told: bench.Row,
) -> bench.Row:
    """A case as the benchmark's table shows it.

    The names of all ways with their milliseconds follow.
    """
    right = {name: times[name] for name in times if errors.get(name, 1.0) < WRONG}  # nor NaN
    others = {name: time for name, time in right.items() if name not in OURS}
    best = min(others, key=lambda n: others[n], default="")
    work, moved = arithmetic(program), bytes_moved(program)
    highest, copied = rates(times, threads)
    shown: dict[str, Any] = {
        "case": case.name,
        "threads": threads,
        "ms": times["generated"] * 1e3,
        "GFLOP/s": work / times["generated"] / 1e9,
    }
    shown |= {
        "of peak": work / times["generated"] / highest,
        "of copy": moved / times["generated"] / copied,
    }
    shown |= {"best": best, "best ms": "", "ratio": "", "derived ratio": ""}
    if best:
        shown["best ms"] = others[best] * 1e3
    if best and "generated" in right:
        shown["ratio"] = others[best] / times["generated"]
    if best and "derived" in right:
        shown["derived ratio"] = others[best] / times["derived"]
    shown["error"] = float(np.max([errors[name] for name in OURS if name in times]))
    shown |= {"search s": told.get("search s", ""), "target": "", "missed": ""}
    rest = {
        "derivation": told.get("derivation", ""),
        **{name: told[name] for name in told if name.endswith(" ms")},
        "busy": told.get("busy", []),
    }
    every = {name: seconds * 1e3 for name, seconds in times.items()}
    return judged(
        {**shown, "more": {**rest, "ms": every, "errors": dict(errors)}},
        case,
    )


def rows(threads: int, only: str, search: float, without: Sequence[str]) -> Iterator[bench.Row]:
    """The cases in this process, whose threads its environment says."""
    compiler = find_compiler()
    assert compiler is not None, "this benchmark needs a C compiler"
    limits = {"peak": peak(compiler), "copy": copy()}
    return measured(CASES, only, lambda case: measured_case(case, threads, limits, search, without))


def in_own_process(
    threads: int, only: str, search: float, without: Sequence[str]
) -> list[bench.Row]:
    """The cases where libraries are loaded with so many threads.

    They read that when they are loaded.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        options = [
            "--only",
            only,
            "--derive",
            str(search),
            "--worker",
            str(path),
            "--threads",
            str(threads),
            "--without",
            ",".join(without),
        ]
        of_threads = dict.fromkeys(bench.THREADS, str(threads))
        environment = {**os.environ, **of_threads, "EINALG_LIBRARIES": ""}
        subprocess.run(
            [sys.executable, "-m", "bench.kernels", *options], check=True, env=environment
        )
        return json.loads(path.read_text())


def main() -> None:
    parser = bench.options("How fast do programs run beside the best of the libraries?")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--threads", default="1", help="numbers of threads, separated by commas (default: 1)"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only cases with this word in their name"
    )
    parser.add_argument(
        "--derive",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="search too, where derivation may choose",
    )
    parser.add_argument(
        "--without",
        default="",
        metavar="LIBRARY",
        help="leave these out: names of libraries, separated by commas",
    )
    parser.add_argument("--worker", type=Path, help=bench.argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.target == "cuda":
        from bench.kernels_cuda import on_device

        return on_device(chosen.only, chosen.json, search=chosen.derive)
    without = [name for name in chosen.without.split(",") if name]
    threads = [int(number) for number in chosen.threads.split(",")]
    if chosen.worker:
        chosen.worker.write_text(
            json.dumps(list(rows(threads[0], chosen.only, chosen.derive, without)))
        )
        return
    absent = missing()
    found: list[bench.Row] = []
    for number in threads:
        found += in_own_process(number, chosen.only, chosen.derive, without)
    print("\n" + bench.table(columns(row) for row in found))
    threaded = gains(found)
    if threaded:
        print(f"\n{bench.table(threaded)}")
    made = makings(found)
    print(f"\n{bench.table(made)}")
    if absent:
        print(f"\nnot installed, and left out: {', '.join(absent)}")
    path = chosen.json
    if path is None and not chosen.only and not without:
        path = RESULTS
    if path:
        told = {
            "machine": bench.machine(),
            "not installed": absent,
            "left out": without,
            "kernels": found,
            "threads": threaded,
            "making": made,
        }
        path.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
