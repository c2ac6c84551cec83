"""How fast generated contractions run, beside NumPy and torch, and how near the arithmetic of one core.

python -m bench.kernels [--target cpu] [--json PATH] [--rounds N] [--only WORD]

One thread each. Runs alternate between the libraries; medians of the processor's time are shown, so that other work on the machine
counts as little as it can. The peak is that of independent multiply-adds in vector registers, measured in the same rounds.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import numpy as np

import bench
import einalg as ea
from codegen.c_printer import c_source, entry_name
from codegen.calls import caller
from codegen.compiler import Compiler, find_compiler
from codegen.libraries import bind, einalg_library
from codegen.lower import lower
from codegen.machine import machine
from derive.matching import match
from einalg import ops
from einalg.kernel import Kernel
from einalg.scope import Scope

Call = Callable[[], Any]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
STEPS, ACCUMULATORS = 1 << 20, 12
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


@dataclass(frozen=True)
class Case:
    name: str
    scope: Scope
    torch: Callable[[Any, Mapping[str, Any], bool], Call]  # (torch, tensors, channels last) to a call


def product(rows: int, columns: int, depth: int, batch: int = 0) -> Case:
    first = (batch,) if batch else ()
    scope = ops.matmul(ea.tensor("A", (*first, rows, depth)), ea.tensor("B", (*first, depth, columns)))
    name = f"{f'{batch}x ' if batch else ''}{rows}x{depth}x{columns}"
    return Case(f"matmul {name}", scope, lambda torch, t, last: lambda: torch.matmul(t["A"], t["B"]))


def convolution(channels: int, size: int, filters: int, taps: Any, layout: str = "NCHW", **options: Any) -> Case:
    across = (taps, taps) if isinstance(taps, int) else tuple(taps)
    space = (size, size)
    first = layout == "NCHW"
    A = ea.tensor("A", (1, channels, *space) if first else (1, *space, channels))
    K = ea.tensor("K", (filters, channels, *across) if first else (*across, channels, filters), role="weight")
    scope = ops.conv2d(A, K, layout=layout, weight_layout="OIHW" if first else "HWIO", **options)

    def torch_call(torch: Any, tensors: Mapping[str, Any], last: bool) -> Call:
        data, weights = tensors["A"], tensors["K"]
        if not first:
            data, weights = data.permute(0, 3, 1, 2), weights.permute(3, 2, 0, 1)
        form = torch.channels_last if last else torch.contiguous_format
        data, weights = data.contiguous(memory_format=form), weights.contiguous(memory_format=form)
        return lambda: torch.nn.functional.conv2d(data, weights, **options)

    step = f" s{options['stride']}" if "stride" in options else ""
    return Case(f"Conv{across[0]}x{across[1]}{step} {channels}→{filters} {size}x{size} {layout}", scope, torch_call)


def cases() -> Iterator[Case]:
    yield product(512, 512, 512)
    yield product(1024, 1024, 1024)
    yield product(49, 512, 4608)
    yield product(1, 1024, 1024)
    yield product(64, 448, 4096)
    yield product(64, 196, 64, batch=36)
    for layout in ("NCHW", "NHWC"):
        yield convolution(256, 14, 512, 3, layout, stride=2, padding=1)
        yield convolution(64, 56, 64, 3, layout, padding=1)
        yield convolution(3, 224, 64, 7, layout, stride=2, padding=3)
        yield convolution(2048, 7, 21, (11, 1), layout, padding=(5, 0))
        yield convolution(32, 224, 1, 5, layout, padding=2)


def peak(compiler: Compiler) -> Call:
    """A call of that many multiply-adds in vectors."""
    names = [f"a{k}" for k in range(ACCUMULATORS)]
    source = PEAK.format(
        bytes=machine().vector,
        names=", ".join(names),
        starts=" ".join(f"{n} = (vec){{0}} + x * {k}.f;" for k, n in enumerate(names)),
        steps=STEPS,
        products=" ".join(f"{n} = {n} * x + y;" for n in names),
        names_sum=" + ".join(names),
    )
    call = compiler.load(source).peak
    call.argtypes, call.restype = [ctypes.c_float, ctypes.c_float], ctypes.c_float
    return lambda: call(0.999, 0.5)


def calls(case: Case, compiler: Compiler) -> tuple[dict[str, Call], dict[str, float]]:
    """What is timed, by name, and the milliseconds that code generation takes."""
    kernel = match(case.scope, "O")
    assert kernel is not None
    rng = np.random.default_rng(0)
    buffers = {name: rng.random(t.shape, np.float32) for name, t in case.scope.tensors.items()}
    buffers["O"] = np.empty(case.scope.shape, np.float32)
    run, spent = generated(kernel, case.scope, compiler)
    found: dict[str, Call] = {"generated": lambda: run(buffers)}
    if library := bind(kernel, case.scope):
        found["numpy"] = lambda: library[1](buffers)
    try:
        import torch
    except ImportError:
        return found, spent
    torch.set_num_threads(1)
    tensors = {name: torch.from_numpy(array) for name, array in buffers.items()}
    for name, last in (("torch", False), ("torch, channels last", True))[: 2 if "Conv" in case.name else 1]:
        found[name] = case.torch(torch, tensors, last)
    run(buffers)
    expected = found["torch"]().numpy()
    expected = expected if expected.shape == buffers["O"].shape and "NHWC" not in case.name else expected.transpose(0, 2, 3, 1)
    assert np.allclose(buffers["O"], expected, rtol=1e-3), case.name
    return found, spent


def generated(kernel: Kernel, scope: Scope, compiler: Compiler) -> tuple[Callable[[Mapping[str, Any]], None], dict[str, float]]:
    began = perf_counter()
    function = einalg_library.function(kernel, scope) or lower(kernel.output, scope)
    source = c_source([function])
    lowered = perf_counter()
    compiler._run(source, 300.0)
    done = perf_counter()
    entry = getattr(compiler.load(source), entry_name(0))
    names = [b.name for b in (*function.inputs, function.output)]
    return caller(entry, names), {"lowering, ms": (lowered - began) * 1e3, "compiling, ms": (done - lowered) * 1e3}


def measure(case: Case, rounds: int) -> bench.Row:
    compiler = find_compiler()
    assert compiler is not None, "this benchmark needs a C compiler"
    found, spent = calls(case, compiler)
    found["peak"] = peak(compiler)
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds + 1):
        for name, call in found.items():
            began = thread_time()
            call()
            times[name].append(thread_time() - began)
    middle = {name: median(seconds[1:]) for name, seconds in times.items()}
    work = 2 * products(case.scope)
    highest = 2 * STEPS * ACCUMULATORS * (machine().vector // 4) / middle["peak"]
    row: dict[str, Any] = {"case": case.name, "ms": middle["generated"] * 1e3, "GFLOP/s": work / middle["generated"] / 1e9}
    row |= {"of peak": work / middle["generated"] / highest}
    row |= {f"of {name}": middle[name] / middle["generated"] if name in middle else "" for name in ("numpy", "torch", "torch, channels last")}
    return {**row, **spent}


def products(scope: Scope) -> int:
    """Multiplications of a sum of products."""
    summed = [it.extent for it in getattr(scope.body, "iterators", ())]
    return int(np.prod([*scope.shape, *summed], dtype=np.int64))


def main() -> None:
    parser = bench.options("How fast do generated contractions run?")
    parser.add_argument("--target", choices=["cpu"], default="cpu")
    parser.add_argument("--rounds", type=int, default=11, help="runs of which the median is shown (default: 11)")
    parser.add_argument("--only", default="", metavar="WORD", help="only cases with this word in their name")
    chosen = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in THREADS):  # read when libraries are loaded
        os.execve(sys.executable, [sys.executable, "-m", "bench.kernels", *sys.argv[1:]], {**os.environ, **dict.fromkeys(THREADS, "1")})
    bench.report({"contractions": (measure(case, chosen.rounds) for case in cases() if chosen.only in case.name)}, chosen.json)


if __name__ == "__main__":
    main()
