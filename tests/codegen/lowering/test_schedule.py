"""Which sums are computed side by side, and which each by itself."""

from __future__ import annotations

import pytest

import einalg as ea
from codegen.ir.nodes import Alloc, walk
from codegen.lowering.lower import lower


@pytest.mark.parametrize(
    ("text", "shape", "side_by_side"),
    [
        ("S[c] = Sum[h,w](X[c,h,w])", (64, 4, 5), False),  # 20 neighbours
        ("S[c] = Sum[w,h](X[c,h,w])", (64, 14, 14), False),
        ("S[c] = Sum[a:8,h,w](X[c,2*a,h,w])", (64, 16, 3, 5), True),  # rows of 15 terms
        ("S[c] = Sum[h:14,w:14](X[c,h,w])", (64, 14, 15), True),  # rows with gaps
        ("S[c] = Sum[h,w](X[h,w,c])", (14, 14, 64), True),
        ("S[c] = Sum[h](X[c,h])", (64, 196), False),
    ],
)
def test_rows_of_several_axes_are_summed_each_by_itself(
    text: str, shape: tuple[int, ...], side_by_side: bool
) -> None:
    scope = ea.parse(text, X=shape)
    accumulators = [node.buf for node in walk(lower("S", scope)) if isinstance(node, Alloc)]
    assert any(buf.shape for buf in accumulators) is side_by_side
