"""Random paddings, one over another."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import einalg as ea
from einalg.language.index.affine import Index


@st.composite
def paddings(draw: Any) -> Any:
    """A tensor, or a scope with points without a value, under one to four paddings, read
    everywhere.
    """
    axes = draw(st.sampled_from([(3,), (1,), (2, 1), (1, 1)]))
    names = tuple(Index(name) for name in "ij"[: len(axes)])
    base: Any = ea.tensor("A", axes)
    if draw(st.booleans()):
        base = ea.L[names](base[names], where=names[0] >= draw(st.integers(0, 1)))
    amount = st.integers(0, 2)
    reach = [(0, size) for size in axes]
    for _ in range(draw(st.integers(1, 4))):
        layer = [(draw(amount), draw(amount)) for _ in axes]
        base = base.pad(*layer, fill=draw(st.sampled_from([2, 5])))
        reach = [(low - b, high + a) for (low, high), (b, a) in zip(reach, layer)]
    return ea.L[tuple(slice(name, low, high) for name, (low, high) in zip(names, reach))](
        base[names]
    )
