"""Band products as matched operators describe them: two matrices and a band of a third one (EinNet, §6.1; design §10).

A band holds the elements `(q, n)` of a matrix with `low <= n - q < low + taps`, element `(q, n)` of it at `(q, n - q - low)`. It is a
product's result (`g2bmm`: the sum runs over what both operands have) or its left operand (`gbmm`: the sum runs over n). A dilation `d`
keeps rows apart whose numbers differ modulo d: each class of rows is a band product by itself, of which equal ones are one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from codegen.ir.nodes import Buf
from codegen.kernels.contraction.cost_model import LATENCY, PRODUCTS
from codegen.kernels.operand_axes import group_axes, single_axis
from codegen.kernels.strided_axes import StridedAxis, StridedOperand, extent
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

WAITING, FETCH = (
    0.125,
    0.5,
)  # cycles for a load beside products, and for a vector that is in the second cache
OPERATORS = {"g2bmm": "target", "gbmm": "left"}  # where the band is
CLASS, Q, N, W = (Index(name) for name in ("c", "q", "n", "w"))


@dataclass(frozen=True)
class BandProduct:
    """One product; `banded` says where the band is, `target` or `left`.

    `rows` are those of the band and of the other matrix beside it, `across` the rows of the right operand (outside of which it is 0), `taps`
    the band's second axis, and `inner` the axes that the right operand shares with the matrix that is not the band.
    """

    banded: str
    left: StridedOperand
    right: StridedOperand
    target: StridedOperand
    batch: tuple[StridedAxis, ...]
    rows: StridedAxis
    across: StridedAxis
    taps: StridedAxis
    inner: tuple[StridedAxis, ...]
    low: int
    dtype: str

    @property
    def work(self) -> int:
        """Products, those with what is outside the right operand among them."""
        return extent((*self.batch, self.rows, self.taps, *self.inner))


def band_products_of(kernel: Kernel, scope: Scope, dtype: str) -> list[BandProduct] | None:
    """A kernel as band products computed in `dtype`, which share its rows; None where it is none, or lies in no strides.

    >>> import einalg as ea
    >>> band_products_of(Kernel("eop", {}, ("A",), "O"), ea.parse("O[i] = A[i]", A=(3,)), "f32") is None
    True
    """
    banded = OPERATORS.get(kernel.op)
    if banded is None or len(kernel.views) != 3:
        return None
    one, two, out = kernel.views
    bufs = {name: Buf(name, t.shape, t.dtype) for name, t in scope.tensors.items()}
    bufs[kernel.output] = Buf(kernel.output, scope.shape, scope.dtype)
    rows = single_axis("i", left=one, target=out)
    across, taps = single_axis("i", right=two), single_axis("w", **{banded: one if banded == "left" else out})
    if (
        rows is None
        or across is None
        or taps is None
        or any(view.name not in bufs for view in kernel.views)
    ):
        return None
    batch = group_axes("b", left=one, right=two, target=out)
    inner = group_axes(
        "k", **{"left": one, "right": two} if banded == "target" else {"right": two, "target": out}
    )
    left, right, target = (StridedOperand(bufs[view.name], view.offset) for view in kernel.views)
    whole = BandProduct(banded, left, right, target, batch, rows, across, taps, inner, 0, dtype)
    found = list(_classes(whole, two.pads.get("i", (0, 0))[0], kernel.sizes.get("dilation", 1)))
    return found if found and all(band.work for band in found) else None


def _classes(band: BandProduct, before: int, dilation: int) -> Iterator[BandProduct]:
    """The products of a dilated one: row `d*q + c` of one operand meets rows `d*n + c - before` of the other, for n from q on."""

    def form(c: int) -> tuple[int, int, int, int]:
        """How far the other operand's class is from this one, its extent, the number of rows, and where their band begins."""
        other = (c - before) % dilation
        low = (c - before - other) // dilation
        return (
            other - c,
            -(-max(0, band.across.extent - other) // dilation),
            -(-(band.rows.extent - c) // dilation),
            low,
        )

    for (apart, across, rows, low), group in groupby(range(min(dilation, band.rows.extent)), form):
        first, *others = group
        step = StridedAxis(
            CLASS, 1 + len(others), band.rows.left, band.across.right, band.rows.target
        )
        yield replace(
            band,
            left=replace(band.left, offset=band.left.offset + first * band.rows.left),
            right=replace(
                band.right, offset=band.right.offset + (first + apart) * band.across.right
            ),
            target=replace(band.target, offset=band.target.offset + first * band.rows.target),
            batch=(*band.batch, step) if others else band.batch,
            rows=StridedAxis(Q, rows, dilation * band.rows.left, 0, dilation * band.rows.target),
            across=StridedAxis(N, across, right=dilation * band.across.right),
            taps=replace(band.taps, index=W),
            low=low,
        )


def step_cycles(rows: int, vectors: int) -> float:
    """What one step of the sums of a register tile costs.

    >>> step_cycles(8, 3) < 3 * step_cycles(8, 1)
    True
    """
    return max(rows * vectors / PRODUCTS, LATENCY) + WAITING * (rows + vectors) + FETCH * vectors
