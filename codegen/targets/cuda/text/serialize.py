"""A CUDA schedule as loops that run one after the other: the same kernel for a CPU, to check it.

A thread loop is an ordinary loop. What is private to a thread, or a fragment of a warp, and
outlives a nest of such loops has an element for each of them. What the threads of a warp do
together is written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from codegen.ir.nodes import Alloc, Buf, For, Function, Ref, Statement, walk
from codegen.targets.cuda.text.barriers import THREADED, nest_extents
from codegen.targets.cuda.text.warp_ops import PRIVATE, without_warp_operations
from einalg.errors import CodegenError
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine


def serial(function: Function) -> Function:
    """Return the function for a printer that knows no threads.

    Raises `CodegenError` where a private buffer is used by nests of different threads.
    """
    extents = {buf: _extents(function.body, buf) for buf in private_buffers(function.body)}
    body = without_warp_operations(function.body, extents)
    return replace(function, body=_all_expanded(body, extents, ()))


def private_buffers(body: Sequence[Statement]) -> list[Buf]:
    """Return the buffers of a thread that are declared outside of thread loops."""
    buffers: list[Buf] = []
    for statement in body:
        if isinstance(statement, Alloc) and statement.buf.space in PRIVATE:
            buffers.append(statement.buf)
        elif isinstance(statement, For) and statement.kind not in THREADED:
            buffers += private_buffers(statement.body)
    return buffers


def _extents(body: Sequence[Statement], buf: Buf) -> tuple[int, ...]:
    """Return the extents of the loops of threads or warps that use a private buffer."""
    extents: set[tuple[int, ...]] = set()
    for nest in _thread_nests(body):
        if any(isinstance(node, Ref) and node.buf == buf for node in walk(nest)):
            extents.add(nest_extents(nest))
    if len(extents) != 1:
        raise CodegenError(
            f"{buf.name} is private to threads, "
            f"but used by {len(extents) or 'no'} kinds of thread loops"
        )
    return extents.pop()


def _thread_nests(body: Sequence[Statement]) -> Iterator[For]:
    """Yield the outermost loops of threads or warps, in loops of other kinds."""
    for statement in body:
        if isinstance(statement, For) and statement.kind in THREADED:
            yield statement
        elif isinstance(statement, For):
            yield from _thread_nests(statement.body)


def _expanded(node: Any, extents: Mapping[Buf, tuple[int, ...]], threads: tuple[Index, ...]) -> Any:
    """Return a node inside the loops `threads`, with an element of private buffers for each."""
    if isinstance(node, Alloc) and node.buf in extents:
        return Alloc(_for_each(node.buf, extents[node.buf]))
    if isinstance(node, Ref) and node.buf in extents:
        subscripts = node.subscripts
        if len(subscripts) == len(node.buf.shape):  # not written out already
            subscripts = (*map(affine, threads), *subscripts)
        return Ref(_for_each(node.buf, extents[node.buf]), subscripts)
    if isinstance(node, For):
        if node.kind in THREADED:
            threads = (*threads, node.index)
        return replace(node, kind="seq", body=_all_expanded(node.body, extents, threads))
    if not is_dataclass(node) or isinstance(node, Buf):
        return node
    return _with_expanded_fields(node, extents, threads)


def _with_expanded_fields(
    node: Any, extents: Mapping[Buf, tuple[int, ...]], threads: tuple[Index, ...]
) -> Any:
    """Return a node whose fields are expanded."""
    changed = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            changed[field.name] = _all_expanded(value, extents, threads)
        elif is_dataclass(value):
            changed[field.name] = _expanded(value, extents, threads)
    if not changed:
        return node
    return replace(node, **changed)


def _all_expanded(
    nodes: Sequence[Any], extents: Mapping[Buf, tuple[int, ...]], threads: tuple[Index, ...]
) -> tuple[Any, ...]:
    return tuple(_expanded(node, extents, threads) for node in nodes)


def _for_each(buf: Buf, extents: tuple[int, ...]) -> Buf:
    """Return a buffer with an element of a private one for each thread."""
    return Buf(buf.name, (*extents, *buf.shape), buf.dtype, "local")
