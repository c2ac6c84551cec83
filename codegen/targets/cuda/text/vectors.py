"""Which elements a thread can read or write at once: up to 16 bytes that lie side by side, aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.ir.nodes import Alloc, For, If, Predicate, Ref, Store, walk
from codegen.targets.cuda.device_types import element_size
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

WORD_TYPES = {4: "unsigned", 8: "uint2", 16: "uint4"}
DEVICE_SPACES = ("global", "shared")


@dataclass(frozen=True)
class VectorAccess:
    """The elements that one reference visits in a loop: `width` neighbours from `first` on, which one `word` holds."""

    ref: Ref
    first: Ref
    width: int
    word: str
    written: bool


def vector_rows(loop: For) -> list[VectorAccess]:
    """The rows that a loop walks; none where a part of it is guarded, for then not all of a row may be there."""
    nodes = [node for statement in loop.body for node in walk(statement)]
    width = loop.extent
    if (
        width is None
        or loop.low != affine(0)
        or any(isinstance(node, (If, For, Alloc, Predicate)) for node in nodes)
    ):
        return []
    written = {node.ref for node in nodes if isinstance(node, Store) and node.op == "="}
    found: dict[Ref, VectorAccess] = {}
    for ref in (
        node for node in nodes if isinstance(node, Ref) and node.buf.space in DEVICE_SPACES
    ):
        word = WORD_TYPES.get(width * element_size(ref.dtype))
        if word and ref not in found and _is_row(ref, loop.index, width):
            first = tuple(s.substitute({loop.index: affine(0)}) for s in ref.subscripts)
            found[ref] = VectorAccess(
                ref, replace(ref, subscripts=first), width, word, ref in written
            )
    return list(found.values())


def copied_row(loop: For) -> tuple[Ref, Ref, str] | None:
    """The first elements of two rows, target and source, of which a loop copies one to the other, and the word that holds either."""
    put = loop.body[0] if len(loop.body) == 1 else None
    if (
        not isinstance(put, Store)
        or put.op != "="
        or not isinstance(put.value, Ref)
        or put.value.dtype != put.ref.dtype
    ):
        return None
    width = loop.extent or 0
    word = WORD_TYPES.get(width * element_size(put.ref.dtype))
    if (
        not word
        or loop.low != affine(0)
        or not all(_is_row(ref, loop.index, width) for ref in (put.ref, put.value))
    ):
        return None
    first, second = (
        replace(
            ref, subscripts=tuple(s.substitute({loop.index: affine(0)}) for s in ref.subscripts)
        )
        for ref in (put.ref, put.value)
    )
    return first, second, word


def walks_rows(loop: For) -> bool:
    """Whether all that a loop moves along in the memory of the device are rows, and there are some."""
    nodes = [
        node
        for statement in loop.body
        for node in walk(statement)
        if isinstance(node, Ref) and node.buf.space == "global"
    ]
    moving = {ref for ref in nodes if any(loop.index in form.indices for form in ref.subscripts)}
    return bool(moving) and moving <= {row.ref for row in vector_rows(loop)}


def _is_row(ref: Ref, index: Index, width: int) -> bool:
    """Whether a reference walks neighbours from a multiple of `width` on."""
    if not ref.subscripts or ref.buf.shape[-1] % width:
        return False
    *outer, last = ref.subscripts
    rest: Affine = last - affine(index)
    if index in rest.indices or any(index in form.indices for form in outer):
        return False
    return rest.const % width == 0 and all(
        coefficient % width == 0 for _, coefficient in rest.terms
    )
