"""Band products as matched operators describe them (EinNet, §6.1; design §10).

Two matrices and a band of a third one. A band holds the elements `(q, n)` of a matrix with
`low <= n - q < low + taps`, element `(q, n)` of it at `(q, n - q - low)`. It is a product's result
(`g2bmm`: the sum runs over what both operands have) or its left operand (`gbmm`: the sum runs over
n). A dilation `d` keeps rows apart whose numbers differ modulo d: each class of rows is a band
product by itself, of which equal ones are one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from codegen.hardware.cpu import CpuModel
from codegen.kernels.cpu_costs import CPU_COSTS
from codegen.kernels.operand_axes import group_axes, single_axis, view_buffers
from codegen.kernels.strided_axes import Side, StridedAxis, StridedOperand, extent, offset
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope

OPERATORS = {"g2bmm": "target", "gbmm": "left"}  # where the band is
CLASS, Q, N, W = (Index(name) for name in ("c", "q", "n", "w"))


@dataclass(frozen=True)
class BandProduct:
    """One product; `banded` says where the band is, `target` or `left`.

    `rows` are those of the band and of the other matrix beside it, `across` the rows of the right
    operand (outside of which it is 0), `taps` the band's second axis, and `inner` the axes that the
    right operand shares with the matrix that is not the band.
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
        """Return the number of products, also of those with what is outside the right operand."""
        return extent((*self.batch, self.rows, self.taps, *self.inner))

    def begin(self) -> dict[Side, Affine]:
        """Return where each operand begins in a batch."""
        operands = {"left": self.left, "right": self.right, "target": self.target}
        begin: dict[Side, Affine] = {}
        for side, operand in operands.items():
            begin[side] = offset(self.batch, side) + operand.offset
        return begin


def band_products_of(kernel: Kernel, scope: Scope, dtype: str) -> list[BandProduct] | None:
    """Return a kernel as band products computed in `dtype`, which share its rows.

    None where it is none, or lies in no strides.

    >>> import einalg as ea
    >>> scope = ea.parse("O[i] = A[i]", A=(3,))
    >>> band_products_of(Kernel("eop", {}, ("A",), "O"), scope, "f32") is None
    True
    """
    banded = OPERATORS.get(kernel.op)
    bufs = view_buffers(kernel, scope)
    if banded is None or bufs is None:
        return None
    one, two, out = kernel.views
    rows, across = single_axis("i", left=one, target=out), single_axis("i", right=two)
    batch = group_axes("b", left=one, right=two, target=out)
    if banded == "target":
        taps = single_axis("w", target=out)
        inner = group_axes("k", left=one, right=two)
    else:
        taps = single_axis("w", left=one)
        inner = group_axes("k", right=two, target=out)
    if rows is None or across is None or taps is None:
        return None
    left, right, target = (
        StridedOperand(buf, view.offset) for buf, view in zip(bufs, kernel.views)
    )
    whole = BandProduct(banded, left, right, target, batch, rows, across, taps, inner, 0, dtype)
    before = two.pads.get("i", (0, 0))[0]
    products = list(_class_products(whole, before, kernel.sizes.get("dilation", 1)))
    if products and all(product.work for product in products):
        return products
    return None


@dataclass(frozen=True)
class _RowClass:
    """The rows with one remainder modulo the dilation, but for the number of the class.

    `distance` leads to the class of the right operand's rows that they meet, of which there are
    `across`; there are `rows` rows, whose band begins at `low`.
    """

    distance: int
    across: int
    rows: int
    low: int


def _class_products(band: BandProduct, before: int, dilation: int) -> Iterator[BandProduct]:
    """Yield the products of a dilated one, equal neighbours as a batch.

    Row `d*q + c` of one operand meets rows `d*n + c - before` of the other, for n from q on.
    """

    def row_class(c: int) -> _RowClass:
        other = (c - before) % dilation
        across = -(-max(0, band.across.extent - other) // dilation)
        rows = -(-(band.rows.extent - c) // dilation)
        return _RowClass(other - c, across, rows, (c - before - other) // dilation)

    for form, group in groupby(range(min(dilation, band.rows.extent)), row_class):
        first, *others = group
        yield _class_product(band, form, first, len(others) + 1, dilation)


def _class_product(
    band: BandProduct, form: _RowClass, first: int, count: int, dilation: int
) -> BandProduct:
    """Return the product of so many neighbouring classes of rows, from the first on."""
    rows, across = band.rows, band.across
    batch = band.batch
    if count > 1:
        batch = (*batch, StridedAxis(CLASS, count, rows.left, across.right, rows.target))
    return replace(
        band,
        left=_shifted(band.left, first * rows.left),
        right=_shifted(band.right, (first + form.distance) * across.right),
        target=_shifted(band.target, first * rows.target),
        batch=batch,
        rows=StridedAxis(Q, form.rows, dilation * rows.left, 0, dilation * rows.target),
        across=StridedAxis(N, form.across, right=dilation * across.right),
        taps=replace(band.taps, index=W),
        low=form.low,
    )


def _shifted(operand: StridedOperand, elements: int) -> StridedOperand:
    return replace(operand, offset=operand.offset + elements)


def refused_sums(rows: int, vectors: int, machine: CpuModel) -> str | None:
    """Say in words that the sums of a tile, and a row of operands, are not in registers.

    None where they are.
    """
    needed = (rows + 1) * vectors
    if needed < machine.registers:
        return None
    return (
        f"a tile of {rows} x {vectors} vectors of sums needs {needed} registers, "
        f"and {machine.registers - 1} are free"
    )


def step_cycles(rows: int, vectors: int, passes: int = 1) -> float:
    """Return the cycles of one step of the sums of a register tile.

    An operation on a vector takes so many `passes`, which do not wait for one another.

    >>> step_cycles(8, 3) < 3 * step_cycles(8, 1), step_cycles(1, 1, 2) < 2 * step_cycles(1, 1)
    (True, True)
    """
    costs = CPU_COSTS
    compute = max(passes * rows * vectors / costs.products_per_cycle, costs.product_latency)
    load = costs.load_beside_products * (rows + passes * vectors)
    level2 = costs.level2_vector * passes * vectors
    return compute + load + level2
