"""Windows of operators, as libraries ask for them: taps, steps and zeros (design §10).

All have an entry for each spatial axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import sympy

from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access

SPACE, TAPS = "dhw", "qrs"


@dataclass(frozen=True)
class SpatialAxes:
    """The spatial axes of an operator, some of which may be added: these are of size 1."""

    space: str
    taps: str
    sizes: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.sizes)


def window(kernel: Kernel, min_rank: int = 1) -> SpatialAxes:
    """Return the window of a kernel `conv2d`, `max_pool1d`, …: of so many axes at least."""
    rank = max(min_rank, int(kernel.op[-2]))
    space, taps = SPACE[3 - rank :], TAPS[3 - rank :]
    return SpatialAxes(
        space,
        taps,
        tuple(kernel.sizes.get(tap, 1) for tap in taps),
        setting(kernel, "stride", space, 1),
        setting(kernel, "dilation", space, 1),
    )


def setting(
    kernel: Kernel, name: str, space: Sequence[str], default: int, side: str = ""
) -> tuple[int, ...]:
    """Return a parameter for each spatial axis, as `stride_h` or `padding_h_before`."""
    values = []
    for letter in space:
        key = f"{name}_{letter}"
        if side:
            key = f"{key}_{side}"
        values.append(kernel.sizes.get(key, default))
    return tuple(values)


def reduction(scope: Scope) -> tuple[str, float] | None:
    """Return what reduces the elements that a scope reads, and by what it is multiplied then.

    A mean is a sum and one over its count. None where a scope is nothing like that.

    >>> import einalg as ea
    >>> reduction(ea.ops.mean(ea.tensor("x", (2, 4)), 1))
    ('Sum', 0.25)
    >>> reduction(ea.parse("O[i] = A[i]", A=(3,))) is None
    True
    """
    scale, body = 1.0, scope.body
    if isinstance(body, sympy.Mul) and len(body.args) == 2 and body.args[0].is_Number:
        scale, body = float(body.args[0]), body.args[1]
    if isinstance(body, Reduce) and isinstance(body.body, Access):
        return body.op, scale
    return None
