"""Boxes in the arguments of moves, as the rules take them that grow or shrink a domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from einalg.errors import EinalgError, RuleError
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope


def box_of(iterators: Sequence[LoopIndex]) -> list[list[int]]:
    """Return half-open bounds for every index, such as `[[0, 7], [-1, 8]]`."""
    return [[it.low, it.high] for it in iterators]


def resized(iterators: Sequence[LoopIndex], box: Sequence[Sequence[int]]) -> tuple[LoopIndex, ...]:
    """Return the iterators with the bounds of a box; `RuleError` where their number differs."""
    if len(box) != len(iterators):
        raise RuleError(f"box has {len(box)} entries for {len(iterators)} indices")
    resized_iterators = []
    for it, (low, high) in zip(iterators, box):
        resized_iterators.append(LoopIndex(it.index, int(low), int(high)))
    return tuple(resized_iterators)


def is_applicable(rewrite: Callable[..., Scope], scope: Scope, args: Mapping[str, Any]) -> bool:
    """Tell whether a rewriting of a scope raises no error."""
    try:
        rewrite(scope, **args)
    except EinalgError:
        return False
    return True
