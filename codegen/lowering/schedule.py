"""Choices of a lowering that do not change what a kernel computes: the holes that a tuner fills (design §10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses


@dataclass(frozen=True)
class Schedule:
    """The numbers of a lowering. `DEFAULT` is for a CPU with vector registers.

    `unroll`: most points of a reduction that are written out one by one. `row`: elements of a row of accumulators.
    `regions`: most parts into which the output is cut so that the inner ones need no guards. `parallel`: scalar operations
    from which on threads are worth starting. `chunks`: pieces of work that the threads should find.
    `tile`: edge, in elements, of the tiles in which a transposed read is walked. `written`: most terms with numbers of constants that
    are written out in one place. `again`: least points of a reduction that is not computed again in loops on which it does not depend;
    these are inner ones then, behind a row of such reductions.
    """

    unroll: int = 64
    row: int = 64
    regions: int = 64
    parallel: int = 1 << 16
    chunks: int = 64
    tile: int = 32
    written: int = 512
    again: float = 4


DEFAULT = Schedule()
WIDE = 16  # terms from which on a sum is for vector registers


def strides(access: Access, fixed: Mapping[Index, Affine]) -> Callable[[Index], int | None]:
    """How many elements apart an access reads for neighbouring values of an index; None where that varies."""
    total, size = affine(0), 1
    for form, (low, high) in zip(reversed(access.subscripts), reversed(access.tensor.box)):
        total = total + form.substitute(fixed) * size
        size *= max(1, high - low)

    def stride(index: Index) -> int | None:
        step = total.coefficient(index)
        return None if index in (total - affine(index) * step).indices else step

    return stride


def outer_first(reduce: Reduce) -> list[LoopIndex]:
    """The indices of a reduction with the one that moves least in memory last."""
    steps = [strides(access, {}) for access in accesses(reduce.body)]

    def reach(it: LoopIndex) -> int:
        return max(
            (1 << 62 if (step := stride(it.index)) is None else abs(step) for stride in steps),
            default=0,
        )

    return sorted(reduce.iterators, key=reach, reverse=True)


def prefers_row(
    reduces: Sequence[Reduce], last: Index, extent: int, fixed: Mapping[Index, Affine]
) -> bool:
    """Whether neighbouring outputs should be summed side by side, rather than each by itself over its summed index."""
    if extent < 8:
        return False
    steps = [strides(access, fixed) for reduce in reduces for access in accesses(reduce.body)]
    summed = [strides(access, {}) for reduce in reduces for access in accesses(reduce.body)]
    inner = [it.index for reduce in reduces for it in reduce.iterators if it.extent >= WIDE]
    return _smooth(steps, last) >= max((_smooth(summed, index) for index in inner), default=0)


def is_across(reduce: Reduce, last: Index | None) -> bool:
    """Whether the terms of a reduction lie side by side, many of them, where those of neighbouring outputs lie apart."""
    steps = [strides(access, {}) for access in accesses(reduce.body)]
    along = max(
        (_smooth(steps, it.index) for it in reduce.iterators if it.extent >= WIDE), default=0.0
    )
    return along > (_smooth(steps, last) if last is not None else 0.0)


def _smooth(steps: Sequence[Callable[[Index], int | None]], index: Index) -> float:
    """How many reads are contiguous in an index; one that does not move counts half."""
    return sum(
        {1: 1.0, 0: 0.5}.get(step, 0.0) for stride in steps if (step := stride(index)) is not None
    )
