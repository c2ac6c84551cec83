"""Band products through a library's matrix product (design §10).

Blocks of rows are multiplied by all columns that they reach, and a band of each product is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.ir.types import computed_in
from codegen.libraries.numpy import Run, with_border
from codegen.libraries.operands import Array, OperandView, operand
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

LEAST_ROWS = 32  # of a block; and a part of the band's width, so that little is computed in vain
PART = 4


@dataclass(frozen=True)
class BandedRows:
    """Rows of one batch by taps; the classes of rows that a dilation keeps apart are walked one by
    one.
    """

    rows: int
    taps: int
    dilation: int

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows of a block, and the rows of the other operand that their taps reach, in steps of the
        dilation.
        """
        block, d = max(LEAST_ROWS, self.taps // PART), self.dilation
        for first in range(min(d, self.rows)):
            members = -(-(self.rows - first) // d)
            for low in range(0, members, block):
                high = min(members, low + block)
                reached = high + self.taps - 1
                yield (
                    slice(first + low * d, first + (high - 1) * d + 1, d),
                    slice(first + low * d, first + (reached - 1) * d + 1, d),
                )


def diagonals(block: Array, taps: int) -> Array:
    """Of a block `[b, t, u]` the elements `[b, t, t + w]` for so many w."""
    batch, row, column = block.strides
    return np.lib.stride_tricks.as_strided(
        block, (*block.shape[:2], taps), (batch, row + column, column)
    )


def g2bmm(kernel: Kernel, scope: Scope) -> Run | None:
    """`O[b,i,w] = Σ_k Q[b,i,k]·K[b, i + d·(w - W), k]`."""

    def block(out: Array, queries: Array, keys: Array) -> None:
        out[...] = diagonals(np.matmul(queries, keys.swapaxes(1, 2)), out.shape[2])

    return _banded(kernel, scope, ("b", "i", "w"), ("b", "i", "k"), block)


def gbmm(kernel: Kernel, scope: Scope) -> Run | None:
    """`O[b,i,k] = Σ_w P[b,i,w]·V[b, i + d·(w - W), k]`."""

    def block(out: Array, weights: Array, values: Array) -> None:
        spread = np.zeros((*weights.shape[:2], values.shape[1]), weights.dtype)
        diagonals(spread, weights.shape[2])[...] = weights
        out[...] = np.matmul(spread, values)

    return _banded(kernel, scope, ("b", "i", "k"), ("b", "i", "w"), block)


def _banded(
    kernel: Kernel,
    scope: Scope,
    out: tuple[str, ...],
    left: tuple[str, ...],
    block: Callable[[Array, Array, Array], None],
) -> Run | None:
    if len(kernel.views) != 3:
        return None
    first, second, target = kernel.views
    pads = second.pads.get("i", (0, 0))
    one, other, result = (
        operand(first, *left),
        operand(second, "b", "i", "k"),
        operand(target, *out),
    )
    band = BandedRows(one.sizes[1], kernel.sizes["w"], kernel.sizes.get("dilation", 1))
    if other.sizes[1] + sum(pads) != band.rows + (band.taps - 1) * band.dilation:
        return None
    work = numpy_dtype(computed_in(scope))

    def run(buffers: Mapping[str, Array]) -> None:
        reached = with_border(_read(other, buffers, work), ((0, 0), pads, (0, 0)), 0)
        rows, products = _read(one, buffers, work), np.empty(result.sizes, work)
        for here, there in band.blocks():
            block(products[:, here], rows[:, here], reached[:, there])
        whole = result.whole(buffers[result.name])
        whole[...] = products.reshape(whole.shape)

    return run


def _read(view: OperandView, buffers: Mapping[str, Any], work: np.dtype[Any]) -> Array:
    return view.read(buffers[view.name]).astype(work, copy=False)


BINDINGS = {"g2bmm": g2bmm, "gbmm": gbmm}
