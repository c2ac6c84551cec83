"""Which elements a thread reads or writes at once: up to 16 bytes side by side, aligned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.ir.nodes import Alloc, For, If, Predicate, Ref, Store, walk
from codegen.targets.cuda.device_types import element_size
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

WORD_TYPES = {4: "unsigned", 8: "uint2", 16: "uint4"}  # by their bytes
DEVICE_SPACES = ("global", "shared")


@dataclass(frozen=True)
class VectorAccess:
    """The elements that one reference visits in a loop.

    They are `width` neighbours from `first` on, which one `word` holds.
    """

    ref: Ref
    first: Ref
    width: int
    word: str
    written: bool


def vector_rows(loop: For) -> list[VectorAccess]:
    """Return the rows that a loop walks.

    There are none where a part of the loop is guarded, for then not all of a row may be there.
    """
    nodes = [node for statement in loop.body for node in walk(statement)]
    width = loop.extent
    if width is None or loop.low != affine(0):
        return []
    if any(isinstance(node, (If, For, Alloc, Predicate)) for node in nodes):
        return []
    written = {node.ref for node in nodes if isinstance(node, Store) and node.op == "="}
    rows: dict[Ref, VectorAccess] = {}
    for ref in nodes:
        if not isinstance(ref, Ref) or ref.buf.space not in DEVICE_SPACES or ref in rows:
            continue
        word = WORD_TYPES.get(width * element_size(ref.dtype))
        if word and _is_row(ref, loop.index, width):
            rows[ref] = VectorAccess(ref, _first(ref, loop.index), width, word, ref in written)
    return list(rows.values())


def copied_row(loop: For) -> tuple[Ref, Ref, str] | None:
    """Return the first elements of two rows, target and source, and the word that holds a row.

    None where the loop does not copy one to the other.
    """
    if len(loop.body) != 1:
        return None
    store = loop.body[0]
    if not isinstance(store, Store) or store.op != "=":
        return None
    target, source = store.ref, store.value
    if not isinstance(source, Ref) or source.dtype != target.dtype or loop.low != affine(0):
        return None
    width = loop.extent or 0
    word = WORD_TYPES.get(width * element_size(target.dtype))
    if not word or not _is_row(target, loop.index, width) or not _is_row(source, loop.index, width):
        return None
    return _first(target, loop.index), _first(source, loop.index), word


def walks_rows(loop: For) -> bool:
    """Return whether all that a loop moves along in the device's memory are rows, at least one."""
    moving = set(_moving_references(loop))
    return bool(moving) and moving <= {row.ref for row in vector_rows(loop)}


def _moving_references(loop: For) -> Iterator[Ref]:
    """Yield the elements of the device's memory that differ from step to step."""
    for statement in loop.body:
        for node in walk(statement):
            if not isinstance(node, Ref) or node.buf.space != "global":
                continue
            if any(loop.index in form.indices for form in node.subscripts):
                yield node


def _first(ref: Ref, index: Index) -> Ref:
    """Return the element that a reference visits in the first step of a loop."""
    zero = {index: affine(0)}
    return replace(ref, subscripts=tuple(form.substitute(zero) for form in ref.subscripts))


def _is_row(ref: Ref, index: Index, width: int) -> bool:
    """Return whether a reference walks neighbours from a multiple of `width` on."""
    if not ref.subscripts or ref.buf.shape[-1] % width:
        return False
    *outer, last = ref.subscripts
    rest: Affine = last - affine(index)
    if index in rest.indices or any(index in form.indices for form in outer):
        return False
    if rest.const % width:
        return False
    return all(coefficient % width == 0 for _, coefficient in rest.terms)
