"""A CUDA schedule as loops that run one after the other: the same kernel for a CPU, to be checked there.

A thread loop is an ordinary loop. What is private to a thread, or a fragment of a warp, and outlives a nest of such loops gets an
element for each of them. What the threads of a warp do together is written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from codegen.ir.nodes import Alloc, Buf, For, Function, Ref, Statement, walk
from codegen.targets.cuda.text.barriers import THREADED, nest_extents
from codegen.targets.cuda.text.warp_ops import PRIVATE, without_warp_operations
from einalg.errors import CodegenError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine


def serial(function: Function) -> Function:
    """The function for a printer that knows no threads.

    Raises `CodegenError` where a private buffer is used by nests of different threads.
    """
    private = private_buffers(function.body)
    extents = {buf: _extents(function.body, buf) for buf in private}
    body = without_warp_operations(function.body, extents)
    return replace(function, body=tuple(_expanded(s, extents, ()) for s in body))


def private_buffers(body: Sequence[Statement]) -> list[Buf]:
    """The buffers of a thread that are declared outside of thread loops."""
    found: list[Buf] = []
    for statement in body:
        if isinstance(statement, Alloc) and statement.buf.space in PRIVATE:
            found.append(statement.buf)
        elif isinstance(statement, For) and statement.kind not in THREADED:
            found += private_buffers(statement.body)
    return found


def _extents(body: Sequence[Statement], buf: Buf) -> tuple[int, ...]:
    """The extents of the loops of threads or warps that use a private buffer."""
    found: set[tuple[int, ...]] = set()

    def see(statement: Any) -> None:
        if isinstance(statement, For) and statement.kind in THREADED:
            if any(isinstance(node, Ref) and node.buf == buf for node in walk(statement)):
                found.add(nest_extents(statement))
        elif isinstance(statement, For):
            for inner in statement.body:
                see(inner)

    for statement in body:
        see(statement)
    if len(found) != 1:
        raise CodegenError(
            f"{buf.name} is private to threads, but used by {len(found) or 'no'} kinds of thread loops"
        )
    return found.pop()


def _expanded(node: Any, extents: Mapping[Buf, tuple[int, ...]], threads: tuple[Index, ...]) -> Any:
    if isinstance(node, For) and node.kind in THREADED:
        threads = (*threads, node.index)
    if isinstance(node, Alloc) and node.buf in extents:
        return Alloc(_for_each(node.buf, extents[node.buf]))
    if isinstance(node, Ref) and node.buf in extents:
        own = (
            [affine(t) for t in threads] if len(node.subscripts) == len(node.buf.shape) else []
        )  # else written out already
        return Ref(_for_each(node.buf, extents[node.buf]), (*own, *node.subscripts))
    if isinstance(node, For):
        return replace(
            node, kind="seq", body=tuple(_expanded(s, extents, threads) for s in node.body)
        )
    if not is_dataclass(node) or isinstance(node, Buf):
        return node
    changed = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(_expanded(part, extents, threads) for part in value)
        elif is_dataclass(value):
            changed[field.name] = _expanded(value, extents, threads)
    return replace(node, **changed) if changed else node  # pyright: ignore[reportArgumentType]


def _for_each(buf: Buf, extents: tuple[int, ...]) -> Buf:
    return Buf(buf.name, (*extents, *buf.shape), buf.dtype, "local")
