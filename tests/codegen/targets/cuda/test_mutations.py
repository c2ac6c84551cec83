"""Wrong barriers, shuffles, bounds and fills in CUDA kernels are noticed on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.nodes import For, Function, If, Store, Sync, walk
from codegen.targets.cuda.lowering.lower import lower_cuda
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT, TensorTile
from codegen.targets.cuda.shim import Shim, ShimLibrary, cpp_compiler
from codegen.targets.cuda.text.barriers import with_barriers
from codegen.targets.cuda.text.printer import cuda_source
from einalg.errors import DeviceError
from einalg.language.index.affine import Affine
from einalg.language.ir.program import as_program
from tests.helpers.cuda_kernels import ORDERS, SMALL
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernel_mutants import (
    later,
    mutants,
    never,
    other_fill,
    other_start,
    overwritten,
    shorter,
)
from tests.helpers.kernels import agrees, evaluated

i, j, k, r = ea.indices("i j k r")
EXPRESSIONS = {
    "product": lambda: ea.L[i, j](ea.Sum[k](whole("A", 17, 12)[i, k] * whole("B", 12, 13)[k, j])),
    "uneven product": lambda: ea.L[i, j](
        ea.Sum[k](whole("A", 17, 11)[i, k] * whole("B", 11, 13)[k, j])
    ),
    "product of halves": lambda: ea.L[i, j](
        ea.Sum[k](halves("A", 45, 64)[i, k] * halves("B", 33, 64)[j, k])
    ),
    "rows in shared memory": lambda: ea.L[i, j](
        ea.Sum[k](halves("A", 64, 45)[k, i] * halves("B", 64, 33)[k, j])
    ),
    "padded rows": lambda: ea.L[i:30, j:9](
        ea.Sum[r:3, k:8](whole("A", 29, 8).pad(2, 0)[i + r - 1, k] * whole("K", 3, 8, 9)[r, k, j])
    ),
    "padded neighbours": lambda: ea.L[i:30, j:9](
        ea.Sum[r:3, k:8](whole("A", 8, 29).pad(0, 2)[k, i + r - 1] * whole("K", 3, 8, 9)[r, k, j])
    ),
    "sums": lambda: ea.L[i](ea.Sum[j](whole("A", 5, 2100)[i, j])),
    "products": lambda: ea.L[i](ea.Sum[j](whole("A", 5, 70)[i, j] * whole("B", 5, 70)[i, j])),
    "rows": lambda: ea.L[i, j](
        whole("A", 5, 1100)[i, j] - ea.Max[k:1100](whole("A", 5, 1100)[i, k])
    ),
    "map": lambda: ea.L[i, j](whole("A", 13, 77)[i, j] + whole("B", 77)[j]),
}
# the same values, where the reference would take a row's largest once for every element
IN_STEPS = {
    "rows": lambda: ea.L[i, j](
        whole("A", 5, 1100)[i, j] - ea.L[i](ea.Max[k](whole("A", 5, 1100)[i, k]))[i]
    ),
}


def whole(name: str, *shape: int) -> Any:
    """Integers, which are compared exactly."""
    return ea.tensor(name, shape, "i32")


def halves(name: str, *shape: int) -> Any:
    """Small integers, whose products and sums f16 has exactly."""
    return ea.tensor(name, shape, "f16")


SCHEDULE = replace(
    CUDA_DEFAULT,
    min_tiled_products=1,
    tiles=SMALL[:1],
    tensor_tiles=(TensorTile(32, 32, 32, 1, 2),),
)
ENDS_IN_ZEROS = ("uneven product",)  # the last terms add nothing
MOST = 10  # mutants of each kind
START = 'extern "C" __global__ '  # of each kernel in a text


@cache
def kernel(name: str) -> Function:
    return lower_cuda("O", EXPRESSIONS[name](), schedule=SCHEDULE)


@cache
def facts(name: str) -> tuple[dict[str, Any], Any]:
    program = as_program(IN_STEPS.get(name, EXPRESSIONS[name])())
    rng = np.random.default_rng(len(name))  # no symmetries: each element counts
    most = 4 if any(t.dtype == "f16" for t in program.inputs.values()) else 999
    arrays = {
        key: rng.integers(-most, most, values.shape)
        for key, values in arrays_for(name, program).items()
    }
    return arrays, evaluated(program, arrays)["O"]


def is_noticed(shim: Shim, position: int, name: str) -> bool:
    """Whether a kernel fails, depends on the order of threads, or gives another value."""
    arrays, expected = facts(name)
    try:
        found = [shim.run(position, arrays, seed) for seed in ORDERS]
    except DeviceError:
        return True
    return not all(agrees(values, expected, "i32") for values in found) or not all(
        np.array_equal(found[0], v) for v in found
    )


def are_noticed(name: str, texts: Sequence[str]) -> list[bool]:
    """Whether each of several changed texts of one kernel, compiled together, is noticed."""
    copies = [kernel(name)] * len(texts)
    head = texts[0].split(START)[0]
    parts = []
    for position, text in enumerate(texts):
        (part,) = text.split(START)[1:]
        parts.append(part.replace("kernel_0(", f"kernel_{position}(", 1))
    shim = Shim(copies, text=START.join((head, *parts)))
    return [is_noticed(shim, position, name) for position in range(len(texts))]


def check_mutants(chosen: list[tuple[str, Function, str]]) -> None:
    assert len(chosen) >= 1, "too few places to change"
    chosen = chosen[:: max(1, len(chosen) // MOST)]
    shim = Shim([mutant for _, mutant, _ in chosen])
    for position, (name, mutant, what) in enumerate(chosen):
        assert is_noticed(shim, position, name), (
            f"{name} with {what} is not noticed:\n{cuda_source([mutant])}"
        )


def test_kernels_as_they_are_pass() -> None:
    shim = Shim([kernel(name) for name in EXPRESSIONS])
    assert not any(is_noticed(shim, position, name) for position, name in enumerate(EXPRESSIONS))


@pytest.mark.parametrize(
    "change",
    [shorter, later, other_fill, other_start, overwritten, never],
    ids=lambda change: change.__name__,
)
def test_mutants_are_noticed(change: Any) -> None:
    def changed(node: Any) -> Any:
        if isinstance(node, For) and (node.kind == "thread" or node.extent == 1):
            return None  # threads that are not there, and names of values: other changes cover them
        if (
            change is other_start
            and isinstance(node, Store)
            and node.ref.buf.name.endswith("_next")
        ):
            return None  # beyond the end both factors are 0: one is enough
        return change(node)

    names = [name for name in EXPRESSIONS if change is not shorter or name not in ENDS_IN_ZEROS]
    check_mutants(
        [
            (name, mutant, change.__doc__)
            for name in names
            for mutant in mutants(kernel(name), changed)
        ]
    )


def test_guards_that_end_late_are_noticed() -> None:
    """A guard that lets one element more pass: it is written outside of the array, or read there."""

    def later_end(node: Any) -> Any:
        if not isinstance(node, If) or not hasattr(node.test, "conditions"):
            return None
        conditions = tuple(replace_const(c, 1) for c in node.test.conditions)
        return replace(node, test=replace(node.test, conditions=conditions))

    chosen = [
        (name, mutant, "a late guard")
        for name in ("sums", "map")
        for mutant in mutants(kernel(name), later_end)
    ]
    check_mutants(chosen)


def replace_const(condition: Any, by: int) -> Any:
    return type(condition)(condition.form + Affine(by), condition.relation)


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if name not in ("map", "products")])
def test_every_barrier_is_needed(name: str) -> None:
    """Without any one of its barriers, a kernel gives another value in some order of threads."""
    text = cuda_source([kernel(name)])
    barriers = [n for n in walk(with_barriers(kernel(name))) if isinstance(n, Sync)]
    lines = text.splitlines()
    places = [
        position
        for position, line in enumerate(lines)
        if line.strip() in ("__syncthreads();", "__syncwarp();")
    ]
    assert len(places) == len(barriers) >= 1
    places = [
        place
        for place in places
        if not any("store_matrix_sync" in line for line in lines[place : place + 5])
    ]  # it waits by itself
    texts = ["\n".join(lines[:place] + lines[place + 1 :]) + "\n" for place in places]
    for place, noticed in zip(places, are_noticed(name, texts), strict=True):
        assert noticed, f"line {place + 1} is not needed:\n{text}"


DIVERGENT = """
extern "C" __global__ void __launch_bounds__(64, 1) kernel_0(const float *__restrict__ A, float *__restrict__ O) {
  __shared__ float part[64];
  part[threadIdx.x] = A[threadIdx.x];
  if (threadIdx.x < 40) __syncthreads();
  O[threadIdx.x] = part[63 - threadIdx.x];
}
"""
SHUFFLES = """
extern "C" __global__ void __launch_bounds__(64, 1) kernel_0(const float *__restrict__ A, float *__restrict__ O) {
  float x = A[threadIdx.x];
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffff, x, by);
  float y = __shfl_down_sync(0xffffffff, A[threadIdx.x], 1), z = __shfl_sync(0xffffffff, A[threadIdx.x], 5);
  __syncwarp();
  O[threadIdx.x] = x + 1000 * y + 100000 * z;
  atomicAdd(&O[64], 1.0f);
}
"""


def launched(text: str, a: Any, out: Any, seed: int) -> Any:
    how = Shim(
        [
            lower_cuda(
                "O",
                ea.L[i](ea.tensor("A", (64,))[i] + 1),
                schedule=replace(CUDA_DEFAULT, threads=64),
            )
        ]
    ).launches[0]
    ShimLibrary(text, [(0, 2)]).launch(how, [a.ctypes.data, out.ctypes.data], seed)
    return out


@pytest.mark.parametrize("name", ["sums", "products", "rows"])
def test_every_shuffle_is_needed(name: str) -> None:
    lines = cuda_source([kernel(name)]).splitlines()
    places = [
        position for position, line in enumerate(lines) if "__shfl_xor_sync" in line and "=" in line
    ]
    assert len(places) == 5
    texts = ["\n".join(lines[:place] + lines[place + 1 :]) + "\n" for place in places]
    for place, noticed in zip(places, are_noticed(name, texts), strict=True):
        assert noticed, lines[place]


IN_FRAGMENTS = ("product of halves", "rows in shared memory")
TENSOR_MUTANTS = {
    "another layout": ("row_major> one", "col_major> one"),
    "a fragment that is not cleared": ("nvcuda::wmma::fill_fragment(sums[mm][nn], 0.0f);", ""),
    "the other half of the shared memory": ("left[(step % 2)]", "left[((step + 1) % 2)]"),
    "the first terms again": ("[16*kk]", "[0]"),
    "rows of another length": (", 40);", ", 48);"),
    "a product that is not added": (
        "nvcuda::wmma::mma_sync(sums[mm][nn], one[mm], two[nn], sums[mm][nn]);",
        "",
    ),
    "a matrix that is not aligned": (
        "&product[warp_down][warp_across][0][0]",
        "&product[warp_down][warp_across][0][1]",
    ),
    "a warp that is not whole": (
        "nvcuda::wmma::mma_sync(",
        "if (threadIdx.x % 32 != 7) nvcuda::wmma::mma_sync(",
    ),
}


@pytest.mark.parametrize("name", IN_FRAGMENTS)
def test_wrong_fragments_are_noticed(name: str) -> None:
    """Fragments of the wrong layout, place or warp."""
    text = cuda_source([kernel(name)])
    texts = {
        what: text.replace(before, after)
        for what, (before, after) in TENSOR_MUTANTS.items()
        if before in text
    }
    for what, noticed in zip(texts, are_noticed(name, list(texts.values())), strict=True):
        assert noticed, what


def test_wrong_fragments_are_those_of_some_kernel() -> None:
    texts = [cuda_source([kernel(name)]) for name in IN_FRAGMENTS]
    for before, _ in TENSOR_MUTANTS.values():
        assert any(before in text for text in texts), f"{before} is nowhere"


def test_divergent_barriers_are_reported() -> None:
    a = np.zeros(64, np.float32)
    for seed in ORDERS:
        with pytest.raises(DeviceError, match="kernel_0: barrier divergence"):
            launched(DIVERGENT, a, a.copy(), seed)


def test_fibers_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shim has no switch of its own for a processor, it takes that of the system."""
    portable = cpp_compiler().with_flags("-DSHIM_UCONTEXT")
    monkeypatch.setattr("codegen.targets.cuda.shim.cpp_compiler", lambda: portable)
    shim = Shim([kernel(name) for name in ("product", "sums")])
    assert not is_noticed(shim, 0, "product") and not is_noticed(shim, 1, "sums")


def test_shuffles_and_atomics() -> None:
    a = np.arange(64, dtype=np.float32)
    down = np.concatenate([a[1:32], a[31:32], a[33:64], a[63:64]])
    expected = (
        np.repeat([a[:32].sum(), a[32:].sum()], 32)
        + 1000 * down
        + 100000 * np.repeat([5.0, 37.0], 32)
    )
    for seed in ORDERS:
        out = launched(SHUFFLES, a, np.zeros(65, np.float32), seed)
        assert np.array_equal(out[:64], expected) and out[64] == 64
