"""What does each CUDA kernel need, and how fast are the cases of `bench.kernels` on a device?

python -m bench.kernels_cuda [--only WORD] [--json PATH]
python -m bench.kernels --target cuda [--only WORD] [--derive SECONDS] [--json PATH]

The second command needs a device, PyCUDA and nvcc, and compares with torch (cuBLAS, cuDNN) where
that has CUDA: as it is, with channels last, and compiled. Times are those of the device: medians of
a call among repeats of it, as a CUDA graph where that can be, inputs and weights there before;
`ratio` is how many times faster the program is than the best of torch's, `error` the largest
deviation from double precision, relative to the largest element. With `--derive`, the best that a
search of so many seconds finds has a ratio, too, where derivation may choose.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import bench
import einalg as ea
from bench.case_rows import bytes_moved, columns, measured
from bench.kernel_cases import CASES, Arrays, Case
from bench.rivals import channels_last, compiled, eager, module_of
from codegen.hardware.gpu import KernelResources, gpu_model
from codegen.program.compile import compile_program
from codegen.targets.cuda.device.driver import Driver
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.nvcc import ARCHITECTURES, Cubin, compile_all, find_nvcc
from codegen.targets.cuda.device.timing import choose_repeats
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import cheapest_kernels
from derive.cost.model import arithmetic
from derive.matching import kernels_of
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import DeviceError
from einalg.language import ops
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program, in_double
from einalg.language.ir.scope import Scope

LOG = logging.getLogger("einalg")
RESULTS = Path(__file__).parent / "results"
REPEATS = 20
OWN = ("generated", "derived")
WRONG = 5e-2  # error from which on a way has other values, and does not count
Named = tuple[str, Scope]


def shapes() -> Iterator[Named]:
    """Products, a convolution, reductions and element-wise kernels.

    What they need is known without a device.
    """
    for size in (512, 1024, 4096):
        yield f"matmul {size}", ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(size, size), B=(size, size))
    yield (
        "matmul 1000x1001x1002",
        ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(1000, 1002), B=(1002, 1001)),
    )
    yield (
        "batched 96x512x64x512",
        ea.parse("O[b,i,j] += A[b,i,k]*B[b,j,k]", A=(96, 512, 64), B=(96, 512, 64)),
    )
    yield (
        "conv3x3 64 56x56",
        ea.parse(
            "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
            A=(16, 64, 56, 56),
            K=(64, 64, 3, 3),
        ),
    )
    for dtype in ("f16", "bf16"):
        yield f"matmul 1024 {dtype}", half(1024, 1024, 1024, dtype).expression
    yield "softmax 4096x1000", softmax(4096, 1000).expression
    yield "row sums 4096x4096", ea.parse("O[i] += A[i,j]", A=(4096, 4096))
    yield "sum 2^24", ea.parse("O[i:1] += A[i+j]", A=(1 << 24,))
    yield "add 2^24", ea.parse("O[i] = A[i] + B[i]", A=(1 << 24,), B=(1 << 24,))
    yield "transpose 4096", ea.parse("O[i,j] = A[j,i]", A=(4096, 4096))


def half(m: int, k: int, n: int, dtype: str) -> Case:
    """A product for tensor cores."""
    A, B = ea.tensor("A", (m, k), dtype), ea.tensor("B", (k, n), dtype, role="weight")
    return Case(
        f"matmul {m}x{k}x{n} {dtype}",
        ops.matmul(A, B),
        lambda torch, A, B: torch.matmul(A, B),
        ("B",),
    )


def softmax(rows: int, columns: int) -> Case:
    text = "O[i,j] = exp(A[i,j] - Max[k](A[i,k])) / Sum[l](exp(A[i,l] - Max[k](A[i,k])))"
    return Case(
        f"softmax {rows}x{columns}",
        ea.parse(text, A=(rows, columns)),
        lambda torch, A: torch.softmax(A, 1),
    )


DEVICE_CASES: tuple[Callable[[], Case], ...] = (
    *CASES,
    *(
        partial(half, *shape, dtype)
        for shape in ((1024, 1024, 1024), (4096, 4096, 4096), (1000, 1001, 1003))
        for dtype in ("f16", "bf16")
    ),
    partial(softmax, 4096, 1000),
)


# Without a device.


def needs(name: str, scope: Scope, cubins: Iterable[Cubin] | None = None) -> bench.Row:
    """The resources that the kernels of a statement ask of a device.

    Blocks, threads, registers, spills, shared memory, and how full the first one makes it.
    """
    unit = DeviceUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)
    functions = list(cheapest_kernels(unit).build())
    how = launch(functions[0])
    row: dict[str, Any] = {
        "kernel": name,
        "kernels": len(functions),
        "blocks": prod(how.grid),
        "threads": how.threads,
        "shared": how.shared,
    }
    for cubin in cubins or compile_all(cuda_source(functions), ARCHITECTURES):
        usage = cubin.usage[how.name]
        row |= {
            f"registers sm_{cubin.sm}": usage.registers,
            f"spilled sm_{cubin.sm}": usage.spilled,
        }
        resources = KernelResources(how.threads, usage.registers, usage.shared)
        row[f"occupancy sm_{cubin.sm}"] = round(gpu_model(cubin.sm).occupancy(resources), 2)
    return row


# On a device.


def missing() -> list[str]:
    """Return what this machine lacks for measuring on a device, each with a remedy.

    The first ones decide whether anything can be measured.
    """
    problems = []
    try:
        find_driver()
    except DeviceError as error:
        problems.append("; ".join(line.strip() for line in str(error).splitlines()))
    if find_nvcc() is None:
        problems.append("nvcc is not found; install the CUDA toolkit, or set CUDA_HOME")
    return problems


def has_torch() -> bool:
    """Whether torch is installed and has a device."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def device_row(case: Case, search: float = 0.0) -> bench.Row:
    """A case on the device of this machine.

    The program as it is, the best that so many seconds of `search` find, and what torch takes for
    the same.
    """
    program = lifted(as_program(case.expression))
    arrays = inputs_of(case, program)
    compiled = {"generated": compile_program(program, kernels_of(program), "cuda")}
    if search and case.derives:
        best = ea.derive(case.expression, target="cuda", seconds=search).best
        compiled["derived"] = best.compile()
    inputs = {name: array for name, array in arrays.items() if name not in case.weights}
    seconds: dict[str, float] = {}
    results: dict[str, Any] = {}
    for name, runnable in compiled.items():
        run = runnable.bind(**{weight: arrays[weight] for weight in case.weights})
        seconds[name] = sum(run.time(REPEATS, **inputs).values())
        results[name] = np.asarray(run(**inputs))
    if has_torch():
        for name, call in torch_calls(case, program, arrays).items():
            try:
                results[name], seconds[name] = (
                    case.result(call().double().cpu().numpy()),
                    torch_seconds(call),
                )
            except Exception as error:  # one way less
                LOG.warning("bench: %s does not run %s: %s", name, case.name, error)
    return row(case, program, seconds, errors_of(results, expected_of(case, program, arrays)))


def inputs_of(case: Case, program: Program) -> Arrays:
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=t.shape).astype(np.float32) * case.scale.get(name, 1.0)
        for name, t in program.inputs.items()
    }


def expected_of(case: Case, program: Program, arrays: Arrays) -> Any:
    """The result in double precision, of the inputs as their types hold them."""
    held = {
        name: rounded(array, program.inputs[name].dtype).astype(np.float64)
        for name, array in arrays.items()
    }
    if find_spec("torch") is None:
        from einalg.language.interpreters.numpy import execute

        return execute(in_double(program), held)[program.outputs[0]]
    import torch

    return case.result(
        case.torch(
            torch, **{name: torch.from_numpy(array) for name, array in case.given(held).items()}
        ).numpy()
    )


def rounded(array: Any, dtype: str) -> Any:
    """An array as elements of a type hold it."""
    from codegen.targets.cuda.device_types import from_device, to_device

    return from_device(to_device(array, dtype), dtype)


def errors_of(results: dict[str, Any], expected: Any) -> dict[str, float]:
    largest = float(np.abs(expected).max())
    return {
        name: float(np.abs(np.asarray(result) - expected).max()) / largest
        for name, result in results.items()
    }


def torch_calls(case: Case, program: Program, arrays: Arrays) -> dict[str, Callable[[], Any]]:
    """torch on the device, in full precision of the types.

    As it is, with channels last, and compiled.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
    module, inputs = module_of(case, case.given(arrays))
    dtype = next(
        (types[t.dtype] for t in program.inputs.values() if t.dtype in types), torch.float32
    )
    module, inputs = module.to("cuda", dtype), tuple(x.to("cuda", dtype) for x in inputs)
    makers: dict[str, Callable[[], Any]] = {
        "torch": lambda: eager(module, inputs),
        "torch.compile": lambda: compiled(module, inputs),
    }
    makers["torch, channels last"] = lambda: eager(*channels_last(module, inputs))
    calls = {}
    for name, make in makers.items():
        try:
            calls[name] = make()
        except Exception as error:  # whatever torch raises, there is another way
            LOG.warning("bench: %s does not run %s: %s", name, case.name, error)
    return calls


def torch_seconds(call: Callable[[], Any]) -> float:
    """Return the median time that the device takes for a call, among repeats of it.

    A call is a CUDA graph where torch can make one, so that what the host does is no part of it.
    """
    import torch

    run = call
    try:
        run = captured(call)
    except RuntimeError as error:  # it waits for the device, say
        LOG.info("bench: torch is timed without a graph: %s", error)

    def elapsed(count: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    elapsed(1)
    count = choose_repeats(elapsed(1))
    elapsed(count)
    return median(elapsed(count) for _ in range(REPEATS))


def captured(call: Callable[[], Any]) -> Callable[[], None]:
    """Return a call as a CUDA graph, as torch's documentation makes one."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def row(
    case: Case, program: Program, seconds: dict[str, float], errors: dict[str, float]
) -> bench.Row:
    """A case as the table shows it; the times and errors of all ways follow."""
    ours = seconds["generated"]
    others = {name: seconds[name] for name in seconds if name not in OWN and errors[name] < WRONG}
    best = min(others, key=lambda name: others[name], default="")
    is_right = errors["generated"] < WRONG
    work, moved = arithmetic(program), bytes_moved(program)
    shown = {
        "case": case.name,
        "us": ours * 1e6,
        "GFLOP/s": work / ours / 1e9,
        "GB/s": moved / ours / 1e9,
        "best": best,
    }
    shown |= {
        "best us": others[best] * 1e6 if best else "",
        "ratio": others[best] / ours if best and is_right else "",
        "error": errors["generated"],
    }
    if "derived" in seconds:
        is_right = bool(best) and errors["derived"] < WRONG
        shown["derived ratio"] = others[best] / seconds["derived"] if is_right else ""
    return {
        **shown,
        "more": {"us": {name: 1e6 * s for name, s in seconds.items()}, "errors": errors},
    }


def on_device(
    only: str = "",
    json_path: Path | None = None,
    cases: Sequence[Callable[[], Case]] = DEVICE_CASES,
    search: float = 0.0,
) -> None:
    """Measure on the device of this machine, and write the rows with its name.

    They go to `bench/results/gpu-NAME-kernels.json` where no path is given. Exits with 2 and what
    is missing where that cannot be.
    """
    lacking = missing()
    if lacking:
        print(
            "\n".join(
                [
                    "nothing can be measured on a CUDA device here:",
                    *(f"- {what}" for what in lacking),
                ]
            )
        )
        print("python -m bench.kernels_cuda shows what the kernels need, without a device")
        sys.exit(2)
    device, beside = find_driver(), has_torch()
    if not beside:
        print(
            "torch has no CUDA here, so that there is nothing to compare with: "
            "pip install torch, as built for CUDA"
        )
    path = json_path
    if path is None and not only:
        path = RESULTS / f"gpu-{device.name.lower().replace(' ', '-')}-kernels.json"
    facts = {**told(device), "compared with torch": beside}
    rows: list[bench.Row] = []
    for row_of_case in measured(cases, only, partial(device_row, search=search)):
        rows.append(row_of_case)
        if path:  # after each case, so that what was measured is there if the next one fails
            path.write_text(json.dumps({**facts, "kernels": rows}, indent=2) + "\n")
    print(f"\nspeed on {device.name} (sm_{device.sm})\n{bench.table(map(columns, rows))}")


def told(device: Driver) -> bench.Row:
    """Return all that the figures depend on: the device, the compiler and the libraries."""
    nvcc = find_nvcc()
    facts = {
        "device": device.name,
        "compute capability": device.sm,
        "nvcc": nvcc.version.splitlines()[-1] if nvcc else "",
        "machine": bench.machine(),
    }
    if find_spec("torch"):
        import torch

        facts |= {"torch": torch.__version__, "CUDA of torch": torch.version.cuda or "none"}
    return facts


def main() -> None:
    parser = bench.options("What do CUDA kernels need?")
    parser.add_argument("--only", default="", metavar="WORD", help="kernels whose name has this")
    arguments = parser.parse_args()
    bench.report(
        {
            "what kernels need": [
                needs(name, scope) for name, scope in shapes() if arguments.only in name
            ]
        },
        arguments.json,
    )
    for what in missing():
        print(f"\nnot measured: {what}")


if __name__ == "__main__":
    main()
