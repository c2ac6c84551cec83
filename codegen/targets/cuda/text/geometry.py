"""How the kernels of a CUDA file are launched, and how many blocks share a multiprocessor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from codegen.hardware.gpu import WARP_THREADS
from codegen.ir.nodes import Alloc, Buf, For, Function, If, Statement, walk
from codegen.targets.c.source_file import entry_name
from codegen.targets.cuda.device_types import element_size
from codegen.targets.cuda.launch import (
    MAX_BLOCK_THREADS,
    MAX_GRID,
    MAX_SHARED_BYTES,
    VECTOR_BYTES,
    Grid,
    Launch,
)
from codegen.targets.cuda.text.barriers import THREADED, nest_threads
from codegen.targets.cuda.text.warp_ops import is_fragment
from einalg.errors import CodegenError

AXES = 3  # of blocks
MULTIPROCESSOR_THREADS = 512  # with 128 registers each they take all 65536 of a multiprocessor
MULTIPROCESSOR_BLOCKS = 16  # that every device of compute capability 8 or 9 has at once
MAX_PRIVATE_BYTES = 256  # of a thread: half of 128 registers, beside what it computes with
MIN_REGISTER_BYTES = 4  # that an element of a private array takes


def launch(function: Function, position: int = 0, max_grid: Grid = MAX_GRID) -> Launch:
    """Return how the kernel at `position` of a CUDA file is started.

    Raises `CodegenError` for a kernel that no GPU runs: too many threads in a block, too many axes
    of blocks, or too much memory shared by threads.
    """
    extents = [loop.extent or 0 for loop in reversed(block_loops(function.body))]
    if len(extents) > AXES:
        raise CodegenError(
            f"{function.name} has {len(extents)} axes of blocks, and a GPU has {AXES}"
        )
    x, y, z = (min(n, most) for n, most in zip((*extents, 1, 1, 1), max_grid))
    threads = max(map(nest_threads, _thread_nests(function.body)), default=1)
    shared = _shared_bytes(function)
    if threads > MAX_BLOCK_THREADS:
        raise CodegenError(
            f"{function.name} has {threads} threads in a block, "
            f"and a GPU has at most {MAX_BLOCK_THREADS}"
        )
    if shared > MAX_SHARED_BYTES:
        raise CodegenError(
            f"{function.name} shares {shared} bytes in a block, and {MAX_SHARED_BYTES} are allowed"
        )
    return Launch(entry_name(position), (x, y, z), threads, shared)


def resident_blocks(function: Function, how: Launch) -> int:
    """Return the blocks that should fit into a multiprocessor at once.

    They bound the registers of a thread: to 128, but for large private arrays.
    """
    private_bytes = 0
    for buf in _allocated(function):
        if is_fragment(buf):
            private_bytes += _bytes(buf) // WARP_THREADS
        elif buf.space != "shared":
            private_bytes += prod(buf.shape) * max(MIN_REGISTER_BYTES, element_size(buf.dtype))
    return bounded_blocks(how.threads, private_bytes)


def bounded_blocks(threads: int, private_bytes: int) -> int:
    """Return the blocks that should fit where each thread has private arrays of so many bytes.

    >>> bounded_blocks(256, 128), bounded_blocks(256, 512)
    (2, 1)
    """
    if private_bytes > MAX_PRIVATE_BYTES:
        return 1
    return max(1, min(MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_THREADS // threads))


def block_loops(body: Sequence[Statement]) -> list[For]:
    """Return the block loops, outer first: each is alone in the one around it."""
    loops: list[For] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "block":
        loops.append(body[0])
        body = body[0].body
    return loops


def _thread_nests(body: Sequence[Statement]) -> Iterator[For]:
    """Yield the outermost loops of threads or warps."""
    for statement in body:
        if isinstance(statement, For) and statement.kind in THREADED:
            yield statement
        elif isinstance(statement, For):
            yield from _thread_nests(statement.body)
        elif isinstance(statement, If):
            yield from _thread_nests(statement.then)
            yield from _thread_nests(statement.orelse)


def _allocated(function: Function) -> set[Buf]:
    """Return the buffers that a kernel declares."""
    return {node.buf for node in walk(function) if isinstance(node, Alloc)}


def _shared_bytes(function: Function) -> int:
    """Return the bytes of the shared buffers of a kernel, each aligned."""
    total = 0
    for node in walk(function):
        if isinstance(node, Alloc) and node.buf.space == "shared":
            total += -(-_bytes(node.buf) // VECTOR_BYTES) * VECTOR_BYTES
    return total


def _bytes(buf: Buf) -> int:
    return prod(buf.shape) * element_size(buf.dtype)
