"""Products of matrices of which only a band is kept: sliding-window attention's two contractions
(EinNet, §6.1).
"""

from __future__ import annotations

from typing import Any

from einalg.errors import ShapeError
from einalg.language.ir.scope import Scope
from einalg.language.notation.builders import L, Sum, indices
from einalg.language.ops.definition.operands import equal_size, expect_shape, operand, whole
from einalg.language.ops.definition.registry import operator

b, i, w, k = indices("b i w k")


@operator
def g2bmm(Q: Any, K: Any, width: int, dilation: int = 1) -> Scope:
    """General to band matrix multiplication: `O[b,i,w] = Σ_k Q[b,i,k]·K[b, i + dilation·(w -
    width), k]`.

    `Q` and `K` are `(B, M, D)`, the result is `(B, M, 2·width + 1)`; rows of `K` outside `0..M`
    read as 0. `width` is the number of columns on either side of the diagonal, `dilation` the
    distance of neighbouring ones in rows of `K`. Raises `ShapeError` for shapes that differ, a
    negative `width`, or a `dilation` below 1.

    >>> import einalg as ea
    >>> g2bmm(ea.tensor("Q", (8, 100, 64)), ea.tensor("K", (8, 100, 64)), width=2, dilation=4)
    L[b:8, i:100, w:5](Sum[k:64](K.pad(0, 8, 0)[b, i + 4*w - 8, k]*Q[b, i, k]))
    """
    queries, keys = operand(Q, "Q", rank=3), operand(K, "K", rank=3)
    expect_shape(keys, queries.shape, "the shape of Q")
    width, dilation = whole(width, "width", 0), whole(dilation, "dilation", 1)
    batch, rows, depth = queries.shape
    around = keys.padded(((0, 0), (dilation * width, dilation * width), (0, 0)))
    return L[b:batch, i:rows, w : 2 * width + 1](
        Sum[k:depth](queries[b, i, k] * around[b, i + dilation * (w - width), k])
    )


@operator
def gbmm(P: Any, V: Any, width: int | None = None, dilation: int = 1) -> Scope:
    """Band to general matrix multiplication: `O[b,i,k] = Σ_w P[b,i,w]·V[b, i + dilation·(w -
    width), k]`.

    `P` is `(B, M, 2·width + 1)`, as `g2bmm` gives it, `V` is `(B, M, D)` and so is the result; rows
    of `V` outside `0..M` read as 0. `width` follows from `P` where it is None. Raises `ShapeError`
    for shapes that do not fit, or a `dilation` below 1.

    >>> import einalg as ea
    >>> gbmm(ea.tensor("P", (8, 100, 5)), ea.tensor("V", (8, 100, 64)), width=2)
    L[b:8, i:100, k:64](Sum[w:5](V.pad(0, 2, 0)[b, i + w - 2, k]*P[b, i, w]))
    """
    band, values = operand(P, "P", rank=3), operand(V, "V", rank=3)
    if band.shape[2] % 2 == 0:
        raise ShapeError(
            f"axis 2 of P has size {band.shape[2]}, but a band is 2*width + 1 columns wide\n"
            "  give P an odd last axis"
        )
    width = whole(band.shape[2] // 2 if width is None else width, "width", 0)
    dilation = whole(dilation, "dilation", 1)
    batch, rows, depth = values.shape
    equal_size([("axis 0 of V", batch), ("axis 0 of P", band.shape[0])])
    equal_size([("axis 1 of V", rows), ("axis 1 of P", band.shape[1])])
    equal_size([("the band, 2*width + 1,", 2 * width + 1), ("axis 2 of P", band.shape[2])])
    around = values.padded(((0, 0), (dilation * width, dilation * width), (0, 0)))
    return L[b:batch, i:rows, k:depth](
        Sum[w : 2 * width + 1](band[b, i, w] * around[b, i + dilation * (w - width), k])
    )
