"""CUDA kernels: what each needs, known without a device, and how fast it is where there is one, beside torch.

python -m bench.kernels_cuda [--json PATH] [--repeats N]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from statistics import median
from typing import Any

import bench
import einalg as ea
from codegen.arguments import sample
from codegen.compiled import checked
from codegen.cuda.compiled import compile_cuda
from codegen.cuda.compiler import ARCHITECTURES, Cubin, compile_all
from codegen.cuda.driver import Driver, find_driver
from codegen.cuda.lower import lower_cuda
from codegen.cuda.printer import cuda_source, launch
from derive.cost import operations, traffic
from einalg.errors import DeviceError
from einalg.program import as_program
from einalg.scope import Scope

MULTIPROCESSOR = {"registers": 1 << 16, "threads": 2048, "blocks": 32, "shared": 160 << 10}  # of sm_80; sm_90 has more shared memory
RESERVED_SHARED = 1024  # bytes of each block that the system takes
Case = tuple[str, Scope]


def cases() -> Iterator[Case]:
    """Products, a convolution, reductions and element-wise kernels."""
    for size in (512, 1024, 4096):
        yield f"matmul {size}", ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(size, size), B=(size, size))
    yield "matmul 1000x1001x1002", ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(1000, 1002), B=(1002, 1001))
    yield "batched 96x512x64x512", ea.parse("O[b,i,j] += A[b,i,k]*B[b,j,k]", A=(96, 512, 64), B=(96, 512, 64))
    yield "conv3x3 64 56x56", ea.parse("O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", A=(16, 64, 56, 56), K=(64, 64, 3, 3))
    yield "row sums 4096x4096", ea.parse("O[i] += A[i,j]", A=(4096, 4096))
    yield "sum 2^24", ea.parse("O[i:1] += A[i+j]", A=(1 << 24,))
    yield "add 2^24", ea.parse("O[i] = A[i] + B[i]", A=(1 << 24,), B=(1 << 24,))
    yield "transpose 4096", ea.parse("O[i,j] = A[j,i]", A=(4096, 4096))


def needs(name: str, scope: Scope, cubins: Iterable[Cubin] | None = None) -> bench.Row:
    """What a kernel asks of a device: blocks, threads, registers, spills, shared memory, and how full it makes a multiprocessor."""
    function = lower_cuda("O", scope)
    how = launch(function)
    row: dict[str, Any] = {"kernel": name, "blocks": prod(how.grid), "threads": how.threads, "shared": how.shared}
    for cubin in cubins or compile_all(cuda_source([function]), ARCHITECTURES):
        usage = cubin.usage[how.name]
        row |= {f"registers sm_{cubin.sm}": usage.registers, f"spilled sm_{cubin.sm}": usage.spilled}
        row[f"occupancy sm_{cubin.sm}"] = occupancy(how.threads, usage.registers, usage.shared)
    return row


def occupancy(threads: int, registers: int, shared: int) -> float:
    """The part of a multiprocessor's threads that fit into it at once.

    >>> occupancy(256, 32, 0), occupancy(256, 128, 0)
    (1.0, 0.25)
    """
    warps = -(-threads // 32)
    held = warps * -(-registers * 32 // 256) * 256  # registers are given to warps in pieces of 256
    fitting = min(MULTIPROCESSOR["blocks"], MULTIPROCESSOR["threads"] // (32 * warps), MULTIPROCESSOR["registers"] // max(1, held))
    fitting = min(fitting, MULTIPROCESSOR["shared"] // (shared + RESERVED_SHARED))
    return round(fitting * 32 * warps / MULTIPROCESSOR["threads"], 2)


def speed(name: str, scope: Scope, repeats: int = 20) -> bench.Row:
    """How long a kernel takes on the device of this machine, and torch for the same where it is installed; medians."""
    program = as_program(scope)
    run = compile_cuda(program, checked(program, None))
    seconds = sum(run.time(repeats).values())
    row = {"kernel": name, "us": seconds * 1e6, "GFLOP/s": operations(scope) / seconds / 1e9, "GB/s": traffic(scope) / seconds / 1e9}
    torch_seconds = _torch_seconds(name, scope, repeats)
    return {**row, "torch us": torch_seconds * 1e6, "ratio": torch_seconds / seconds} if torch_seconds else row


def _torch_seconds(name: str, scope: Scope, repeats: int) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    call = _torch_call(torch, name)
    if call is None or not torch.cuda.is_available():
        return None
    arrays = {key: torch.from_numpy(value).cuda() for key, value in sample(scope.tensors).items()}
    spent = []
    for _ in range(repeats + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(**arrays)
        end.record()
        end.synchronize()
        spent.append(begin.elapsed_time(end) / 1e3)
    return median(spent[1:])


def _torch_call(torch: Any, name: str) -> Callable[..., Any] | None:
    """torch's own for a case, by the first word of its name; in full f32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    calls: dict[str, Callable[..., Any]] = {
        "matmul": lambda A, B: A @ B,
        "batched": lambda A, B: A @ B.transpose(1, 2),
        "conv3x3": lambda A, K: torch.nn.functional.conv2d(A, K, padding=1),
        "row": lambda A: A.sum(1),
        "sum": lambda A: A.sum(),
        "add": lambda A, B: A + B,
        "transpose": lambda A: A.t().contiguous(),
    }
    return calls.get(name.split()[0])


def device() -> Driver | None:
    """The device of this machine, if there is one."""
    try:
        return find_driver()
    except DeviceError:
        return None


def tables(chosen: Iterable[Case], repeats: int = 20) -> dict[str, list[bench.Row]]:
    """What each kernel needs, and its speed where there is a device."""
    chosen, found = list(chosen), device()
    result = {"what kernels need": [needs(name, scope) for name, scope in chosen]}
    return {**result, f"speed on {found.name}": [speed(name, scope, repeats) for name, scope in chosen]} if found else result


def main() -> None:
    parser = bench.options("What do CUDA kernels need, and how fast are they?")
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    bench.report(tables(cases(), given.repeats), given.json)
    if device() is None:
        print("\nno CUDA device here: speeds are not measured")


if __name__ == "__main__":
    main()
