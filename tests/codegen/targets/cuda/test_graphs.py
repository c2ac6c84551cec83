"""Kernels that are started together, on a fake device: which memory they meet, what is kept, and
what is done without graphs.
"""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import CudaCompiled, compile_cuda
from codegen.targets.cuda.device.graph_cache import MAX_CACHED_GRAPHS, GraphCache
from codegen.targets.cuda.device.memory_pool import MemoryPool, acquire, allocate
from codegen.targets.cuda.launch import Launch
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from einalg.errors import DeviceError
from einalg.language.ir.program import as_program
from tests.helpers.fake_device import FakeDevice, assemble

TEXT = "T[i,j] += A[i,k]*B[k,j]\nU[i,j] = T[i,j] + C[j]\nO[i,j] = U[i,j]*T[i,j]"
SHAPES = dict(A=(5, 7), B=(7, 3), C=(3,))
NAMES = ("kernel_0", "kernel_1", "kernel_2")
RNG = np.random.default_rng(5)


def compiled(device: FakeDevice, **places: Any) -> CudaCompiled:
    program = as_program(ea.parse(TEXT, **SHAPES))
    return compile_cuda(
        program, checked_kernels(program, None), driver=lambda: device, assemble=assemble, **places
    )


def given() -> dict[str, Any]:
    return {name: RNG.integers(-4, 5, shape).astype(np.float32) for name, shape in SHAPES.items()}


def expected(arrays: Any) -> Any:
    product = arrays["A"] @ arrays["B"]
    return (product + arrays["C"]) * product


def launches(device: FakeDevice) -> tuple[int, int, int]:
    """Kernels that were launched one by one, graphs that were made, and graphs that were launched."""
    return device.count("launch"), device.count("graph"), device.count("graph launch")


def test_the_second_call_is_one_launch() -> None:
    device = FakeDevice()
    run = compiled(device)
    for found in ((3, 0, 0), (3, 1, 1), (3, 1, 2)):
        arrays = given()
        assert np.array_equal(run(**arrays), expected(arrays))
        assert launches(device) == found
    assert ("graph", *NAMES) in device.calls and ("graph launch", *NAMES) in device.calls


def test_arrays_of_the_host_meet_the_same_memory() -> None:
    device = FakeDevice()
    run = compiled(device)
    run(**given())
    allocated = device.count("allocate")
    for _ in range(3):
        run(**given())
    assert device.count("allocate") == allocated


def test_other_addresses_are_another_graph() -> None:
    device = FakeDevice()
    run = compiled(device)
    several = [given() for _ in range(3)]
    there = [{name: device.array(array) for name, array in arrays.items()} for arrays in several]
    for turn in range(3):
        for arrays, on_device in zip(several, there):
            assert np.array_equal(run(**on_device).get(), expected(arrays))
        assert launches(device) == (9, 3 * min(turn, 1), 3 * turn)


def test_results_that_are_kept_lie_elsewhere() -> None:
    """A graph writes no result that a user still holds."""
    device = FakeDevice()
    run = compiled(device)
    several = [given() for _ in range(6)]
    results = [run(**{**arrays, "A": device.array(arrays["A"])}) for arrays in several]
    assert len({result.memory.address for result in results}) == 6
    for arrays, result in zip(several, results):
        assert np.array_equal(result.get(), expected(arrays))


def test_results_that_replace_each_other_alternate() -> None:
    device, arrays = FakeDevice(), given()
    there = {name: device.array(array) for name, array in arrays.items()}
    run = compiled(device)
    for _ in range(10):
        result = run(**there)
        assert np.array_equal(result.get(), expected(arrays))
    assert launches(device) == (6, 2, 8)


def test_memory_of_arrays_is_not_kept_by_graphs_and_not_used_without_them() -> None:
    """The fake device fails where a kernel is given memory that was freed."""
    device = FakeDevice()
    run = compiled(device)
    arrays = given()
    there = {name: device.array(array) for name, array in arrays.items()}
    for _ in range(4):
        run(**there)
    memory = [weakref.ref(array.memory) for array in there.values()]
    del there
    gc.collect()
    assert not any(ref() for ref in memory)
    for _ in range(3):
        arrays = given()
        assert np.array_equal(
            run(**{name: device.array(array) for name, array in arrays.items()}).get(),
            expected(arrays),
        )


def test_the_least_recently_used_graph_is_forgotten() -> None:
    device = FakeDevice()
    graphs, kernel = GraphCache(device, max_graphs=2), Counted()

    def start(address: int) -> None:
        graphs.start(
            [
                (kernel, Launch("a", (1, 1, 1), 32), [held[address].address]),
                (kernel, Launch("b", (1, 1, 1), 32), [held[address].address]),
            ]
        )

    held = [device.memory(16) for _ in range(3)]
    for address in (0, 0, 1, 1, 0, 2, 2):
        start(address)
    assert device.count("graph") == 3
    start(0)
    assert device.count("graph") == 3, "used after that of 1, so it is still there"
    before = device.count("launch")
    start(1)
    assert device.count("launch") == before + 2, "it was forgotten"
    assert kernel.started == 2 * 9 and MAX_CACHED_GRAPHS > 2


class Counted:
    started = 0

    def launch(self, how: Launch, addresses: Any) -> None:
        self.started += 1


@pytest.mark.parametrize("failing", ["graphs", "launches"])
def test_without_graphs_kernels_are_launched_one_by_one(failing: str) -> None:
    device = FakeDevice()
    setattr(device, failing, False)
    run = compiled(device)
    for _ in range(4):
        arrays = given()
        assert np.array_equal(run(**arrays), expected(arrays))
    assert device.count("launch") == 12 and device.count("graph launch") == 0


def test_one_kernel_is_no_graph() -> None:
    device = FakeDevice()
    program = as_program(ea.parse("O[i] = A[i] + 1", A=(4,)))
    run = compile_cuda(
        program, checked_kernels(program, None), driver=lambda: device, assemble=assemble
    )
    for _ in range(3):
        run(A=np.zeros(4))
    assert launches(device) == (3, 0, 0)


def test_kernels_are_timed_one_by_one() -> None:
    device = FakeDevice()
    run = compiled(device)
    for _ in range(2):
        run(**given())
    before, graphs = launches(device)[0], launches(device)[1:]
    assert list(run.time(2, **given())) == ["T", "U", "O"]
    runs = 4 + 2  # to be ready, and for the clock
    assert launches(device) == (before + 3 * runs, *graphs)


def test_a_library_between_kernels_parts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before and after it are started together; where it fails, its own kernel is launched
    in its place, and later with the others.
    """
    device = FakeDevice()
    text = "S[i] = A[i] + 1\nT[i] = S[i]*2\nU[i] = T[i] - 3\nV[i] = U[i]*U[i]\nO[i] = V[i] + T[i]"
    program = as_program(ea.parse(text, A=(6,)))
    run = compile_cuda(
        program, checked_kernels(program, None), driver=lambda: device, assemble=assemble
    )
    works = [True]

    def library(memory: Any) -> None:
        if not works[0]:
            raise RuntimeError("no workspace")
        device.calls.append(("library",))
        made.driver.run(
            made.kernels["U"][0][2], made.kernels["U"][0][1], [addresses["T"], addresses["U"]]
        )

    addresses: dict[str, int] = {}
    values = np.arange(6, dtype=np.float32)
    twice = 2 * (values + 1)
    wanted = (twice - 3) ** 2 + twice
    assert np.array_equal(run(A=values), wanted)
    made: Any = run._device
    made.ways["U"] = ("a library", library)
    monkeypatch.setattr(
        made,
        "tensors",
        lambda memory: addresses.update({name: memory[name].address for name in ("T", "U")}),
    )
    for _ in range(3):
        assert np.array_equal(run(A=values), wanted)
    kinds = [call for call in device.calls if call[0] in ("graph launch", "library")]
    assert kinds[-3:] == [
        ("graph launch", "kernel_0", "kernel_1"),
        ("library",),
        ("graph launch", "kernel_3", "kernel_4"),
    ]
    works[0] = False
    assert np.array_equal(run(A=values), wanted)
    assert [call for call in device.calls if "launch" in call[0]][-2:] == [
        ("launch", "kernel_2"),
        ("graph launch", "kernel_3", "kernel_4"),
    ]
    allocated = device.count("allocate")
    for _ in range(2):
        assert np.array_equal(run(A=values), wanted)
    assert device.count("allocate") == allocated, "the memory of the failed call is still held"
    assert device.calls[-2] == ("graph launch", *(f"kernel_{k}" for k in range(5)))


def test_threads_have_graphs_of_their_own() -> None:
    device, together = FakeDevice(), Barrier(4)
    run = compiled(device)
    run(**given())

    def several() -> bool:
        together.wait()
        cases = [given_by(np.random.default_rng(k)) for k in range(8)]
        return all(np.array_equal(run(**arrays), expected(arrays)) for arrays in cases)

    with ThreadPoolExecutor(4) as pool:
        assert all(found.result() for found in [pool.submit(several) for _ in range(4)])
    assert device.count("launch") + 3 * device.count("graph launch") == 3 * 33


def given_by(rng: Any) -> dict[str, Any]:
    return {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in SHAPES.items()}


def test_memory_that_others_have_seen_is_waited_for() -> None:
    """A result whose address was read may be in use on any stream; one that was copied, or read by
    another program of ours, is not.
    """
    device = FakeDevice()
    there = {name: device.array(array) for name, array in given().items()}
    run = compiled(device)
    first = run(**there)
    first.get()
    del first
    first = run(**there)
    assert device.count("wait") == 0
    assert first.__cuda_array_interface__["data"][0] == first.memory.address
    del first
    run(**there)
    assert device.count("wait") == 1


def test_results_are_read_by_programs_without_waiting() -> None:
    device = FakeDevice()
    arrays = given()
    run = compiled(device)
    for _ in range(4):
        result = run(**{**arrays, "A": device.array(arrays["A"])})
        result = compile_again(device)(X=result)
        assert np.array_equal(result.get(), expected(arrays) + 1)
    assert device.count("wait") == 0


def compile_again(device: FakeDevice) -> CudaCompiled:
    program = as_program(ea.parse("Y[i,j] = X[i,j] + 1", X=(5, 3)))
    return compile_cuda(
        program,
        checked_kernels(program, None),
        CUDA_DEFAULT,
        driver=lambda: device,
        assemble=assemble,
    )


def test_free_memory_is_bounded_and_the_lowest_address_is_first() -> None:
    device = FakeDevice()
    device.free = MemoryPool(max_bytes=250)
    blocks = [acquire(device, 100) for _ in range(3)]
    lowest, middle, _ = sorted(blocks, key=lambda block: block.address)
    wanted = [lowest.address, middle.address]
    del lowest, middle, _
    held = weakref.WeakSet(device.alive.values())
    blocks.sort(key=lambda block: -block.address)
    while blocks:
        blocks.pop()
    gc.collect()
    assert len(held) == 2, "the third is freed"
    assert [acquire(device, 100).address for _ in range(2)] == [wanted[0]] * 2
    again = [acquire(device, 100), acquire(device, 100), acquire(device, 40)]
    assert [block.address for block in again[:2]] == wanted


def test_free_memory_gives_way_where_there_is_none() -> None:
    class Small(FakeDevice):
        def allocate(self, size: int) -> Any:
            gc.collect()
            self.room = 200 - sum(len(memory.bytes) - 512 for memory in self.alive.values())
            return super().allocate(size)

    device = Small()
    acquire(device, 150)
    assert len(device.alive) == 1
    kept = allocate(device, 100)
    assert len(device.alive) == 1 and kept.address in device.alive
    with pytest.raises(DeviceError, match="no memory for 150"):
        allocate(device, 150)


def test_memory_that_is_given_back_while_some_is_taken_is_freed() -> None:
    """As by a collection of garbage in the midst of it."""
    device = FakeDevice()
    block = acquire(device, 100)
    with device.free._lock:
        del block
    assert not device.alive and device.free.take(100) is None
