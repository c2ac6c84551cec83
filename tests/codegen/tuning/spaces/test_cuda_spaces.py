"""Spaces of CUDA kernels: points fit, travel as JSON, compile without spills, and compute the
statement on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.gpu import A100, H100, KernelResources
from codegen.ir.nodes import Function
from codegen.targets.cuda.device.nvcc import ARCHITECTURES, compile_all, find_nvcc
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.shim import Shim
from codegen.targets.cuda.text.geometry import launch
from codegen.targets.cuda.text.printer import cuda_source
from codegen.tuning.spaces import points
from codegen.tuning.spaces.cuda.statement import DeviceUnit
from codegen.tuning.spaces.cuda.unit_spaces import cheapest_kernels, device_spaces
from codegen.tuning.spaces.space import NEVER, CodeCandidate
from einalg.language import ops
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import agrees, evaluated
from tests.helpers.units import arrays_of, drawn

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
KINDS = ("matmul", "half", "conv2d", "depthwise", "band", "map", "rows", "softmax", "total")
NAMES = {"register tiles", "tensor tiles", "rows", "thread rows", "map"}
POINTS = 2  # of each space in a batch


def scope_of(kind: str, a: int, b: int, c: int) -> Scope:
    """Return a statement of a kind whose sizes grow with three numbers."""
    if kind == "matmul":
        return ops.matmul(ea.tensor("A", (17 + a, 9 + b)), ea.tensor("K", (9 + b, 18 + c)))
    if kind == "half":
        data, weights = ea.tensor("A", (16 + a, 18 + b), "f16"), ea.tensor("K", (18 + b, 17), "f16")
        return ops.matmul(data, weights)
    if kind == "conv2d":
        data, weights = ea.tensor("A", (1, 2 + a, 5 + b, 9)), ea.tensor("K", (9, 2 + a, 3, 3))
        return ops.conv2d(data, weights, padding=1)
    if kind == "depthwise":
        text = "O[h,w,c] += A.pad(1,1,0)[h+r-1,w+s-1,c]*K[r,s,c]"
        return ea.parse(text, A=(4 + a, 6, 3 + c), K=(3, 3, 3 + c))
    if kind == "band":
        data = ea.tensor("A", (1, 33 + a, 5 + b)), ea.tensor("K", (1, 33 + a, 5 + b))
        return ops.g2bmm(*data, 9 + c)
    if kind == "map":
        return ea.parse("O[i,j] = exp(A[i,j]) + 1", A=(4 + a, 8 + 4 * b))
    if kind == "rows":
        return ea.parse("O[i] = Max[k](A[i,k])*2", A=(3 + a, 20 + b))
    if kind == "softmax":
        text = "O[i,j] = exp(A[i,j] - Max[k](A[i,k])) / Sum[l](exp(A[i,l] - Max[k](A[i,k])))"
        return ea.parse(text, A=(3 + a, 12 + b))
    return ea.parse("O[i:1] += A[i+j]", A=(300 + 7 * a,))


@cache
def unit_of(kind: str, a: int = 0, b: int = 0, c: int = 0) -> DeviceUnit:
    scope = scope_of(kind, a, b, c)
    return DeviceUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)


def test_every_space_is_drawn_from() -> None:
    assert {space.name for kind in KINDS for space in device_spaces(unit_of(kind))} == NAMES


@pytest.mark.parametrize("kind", KINDS)
def test_points_fit_and_travel_as_text(kind: str) -> None:
    for space in device_spaces(unit_of(kind), A100):
        for point in drawn(space, Random(5)):
            row = json.loads(json.dumps(points.point_row(point)))
            assert space.fits(point) and space.read(row) == point
            assert 0 < space.cycles(point) < NEVER


def results_on_shim(
    groups: Sequence[Sequence[Function]], arrays: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Return what the last kernel of each group computes."""
    shim, position = Shim([kernel for group in groups for kernel in group]), 0
    results: list[Any] = []
    for group, given_arrays in zip(groups, arrays, strict=True):
        values = dict(given_arrays)
        for kernel in group:
            values[kernel.output.name] = shim.run(position, values, seed=7)
            position += 1
        results.append(values[group[-1].output.name])
    return results


@settings(max_examples=batches(1), phases=UNSHRUNK)
@given(st.data())
def test_points_by_chance_compute_the_statement(data: Any) -> None:
    candidates: list[CodeCandidate] = []
    scopes: list[Scope] = []
    sizes = st.integers(0, 9)
    for kind in data.draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=2, unique=True)):
        unit = unit_of(kind, data.draw(sizes), data.draw(sizes), data.draw(sizes))
        rng = Random(data.draw(st.integers(0, 1 << 30)))
        for space in device_spaces(unit):
            chosen = list(drawn(space, rng))
            rng.shuffle(chosen)
            candidates += [CodeCandidate(space, point) for point in chosen[:POINTS]]
            scopes += [unit.scope] * len(chosen[:POINTS])
    groups = [candidate.build() for candidate in candidates]
    results = results_on_shim(groups, [arrays_of(scope) for scope in scopes])
    for candidate, scope, result in zip(candidates, scopes, results):
        (expected,) = evaluated(as_program(scope), arrays_of(scope)).values()
        assert agrees(result, expected, scope.dtype), (str(scope), candidate.point)


LARGE = {
    "product": ("O[i,j] += A[i,k]*B[k,j]", {"A": (500, 700), "B": (700, 900)}),
    "vector": ("O[j] += A[k]*B[k,j]", {"A": (1024,), "B": (1024, 1000)}),
    "convolution": (
        "O[f,h,w] += A.pad(0,1,1)[c,h+r-1,w+s-1]*K[f,c,r,s]",
        {"A": (64, 28, 28), "K": (96, 64, 3, 3)},
    ),
    "depthwise": (
        "O[n,h,w,c] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,c]",
        {"A": (16, 28, 28, 96), "K": (3, 3, 96)},
    ),
    "map": ("O[i,j] = exp(A[i,j])", {"A": (700, 1024)}),
    "row sums": ("O[i] += A[i,j]", {"A": (100, 100000)}),
    "few outputs": ("O[i] += A[i,j]*B[j]", {"A": (8, 5000), "B": (5000,)}),
}


def chosen_kernels() -> dict[str, CodeCandidate]:
    """Return what is chosen for each statement: all in f32, those of tiles in other types too."""
    chosen: dict[str, CodeCandidate] = {}
    for name, (text, shapes) in LARGE.items():
        dtypes = ["f32"]
        if name in ("product", "convolution"):
            dtypes = ["f32", "f64", "f16"]
        for dtype in dtypes:
            tensors = {k: ea.tensor(k, shape, dtype) for k, shape in shapes.items()}
            scope = ea.parse(text, **tensors)
            unit = DeviceUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)
            chosen[f"{name} {dtype}"] = cheapest_kernels(unit)
    return chosen


def spilled(
    candidates: Mapping[str, CodeCandidate], architectures: Sequence[int]
) -> dict[str, Any]:
    """Return the usage of the kernels, by the names of their candidates, that spill registers."""
    flat = [(name, kernel) for name, one in candidates.items() for kernel in one.build()]
    wrong: dict[str, Any] = {}
    for cubin in compile_all(cuda_source([kernel for _, kernel in flat]), architectures):
        for position, (name, _) in enumerate(flat):
            usage = cubin.usage[f"kernel_{position}"]
            if usage.spilled:
                wrong[f"{name} sm_{cubin.sm}"] = (usage, candidates[name].point)
    return wrong


@needs_nvcc
def test_chosen_tiles_spill_nothing() -> None:
    tiles = {n: one for n, one in chosen_kernels().items() if one.space.name.endswith("tiles")}
    assert tiles and not spilled(tiles, ARCHITECTURES[:1])


@pytest.mark.nightly
@needs_nvcc
def test_chosen_kernels_spill_nothing() -> None:
    assert not spilled(chosen_kernels(), ARCHITECTURES)


@pytest.mark.nightly
@needs_nvcc
@settings(max_examples=batches(1), phases=UNSHRUNK)
@given(st.integers(0, 1 << 30))
def test_points_by_chance_compile(seed: int) -> None:
    """Each compiles for all devices, and its registers and shared memory are as estimated."""
    rng, drawn_points = Random(seed), dict[str, CodeCandidate]()
    for name, candidate in chosen_kernels().items():
        for space in device_spaces(candidate.space.unit):
            drawn_points[f"{name} {space.name}"] = CodeCandidate(space, space.sample(rng))
    spills = spilled(drawn_points, ARCHITECTURES)
    assert len(spills) <= len(drawn_points) // 10, spills


def test_shared_memory_is_as_estimated() -> None:
    for kind in ("matmul", "half", "conv2d"):
        for space in device_spaces(unit_of(kind)):
            if space.name.endswith("tiles"):
                for point in drawn(space, Random(2)):
                    stated = launch(space.build(point)[0]).shared
                    assert stated == space.work(point).resources.shared


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_what_goes_between_kernels_is_as_estimated(dtype: str) -> None:
    scope = ops.matmul(ea.tensor("A", (32, 70), dtype), ea.tensor("K", (70, 32), dtype))
    unit = DeviceUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)
    names: set[str] = set()
    for space in device_spaces(unit):
        for point in drawn(space, Random(3)):
            first, *others = space.build(point)
            passed = prod(first.output.shape) * element_size(first.output.dtype)
            assert space.added_bytes(point) == 2 * passed * len(others)
            names.update(space.name for _ in others)
    assert {"register tiles", "rows"} <= names


def test_a_block_that_asks_for_more_has_fewer_beside_it() -> None:
    few = KernelResources(256, 32, 1 << 10)
    many = KernelResources(256, 128, 1 << 10)
    assert H100.resident_blocks(few) == 8 and H100.resident_blocks(many) == 2
    assert H100.resident_blocks(KernelResources(1024, 255, 0)) == 0


def test_long_products_are_tiles_and_short_rows_are_none() -> None:
    names = {name: one.space.name for name, one in chosen_kernels().items()}
    assert names["product f32"] == "register tiles" and names["product f16"] == "tensor tiles"
    assert names["row sums f32"] == "rows" and names["map f32"] == "map"
    assert names["depthwise f32"] == "thread rows"
