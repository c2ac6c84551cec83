"""What libraries ask of an operator with windows: its taps, steps and zeros, an entry for each spatial axis (design §10)."""

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
    """The spatial axes of an operator, `rank` at least: axes that it does not have are of size 1."""

    space: str
    taps: str
    sizes: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.sizes)


def window(kernel: Kernel, least: int = 1) -> SpatialAxes:
    """The window of a kernel `conv2d`, `max_pool1d`, …: of so many axes at least."""
    rank = max(least, int(kernel.op[-2]))
    space, taps = SPACE[3 - rank :], TAPS[3 - rank :]
    return SpatialAxes(
        space,
        taps,
        tuple(kernel.sizes.get(tap, 1) for tap in taps),
        setting(kernel, "stride", space, 1),
        setting(kernel, "dilation", space, 1),
    )


def setting(
    kernel: Kernel, name: str, space: Sequence[str], least: int, side: str = ""
) -> tuple[int, ...]:
    """A parameter for each spatial axis."""
    return tuple(
        kernel.sizes.get("_".join(filter(None, (name, letter, side))), least) for letter in space
    )


def reduction(scope: Scope) -> tuple[str, float] | None:
    """What reduces the elements that a scope reads, and by what it is multiplied then: a mean is a sum and one over its count.

    >>> import einalg as ea
    >>> reduction(ea.ops.mean(ea.tensor("x", (2, 4)), 1)), reduction(ea.parse("O[i] = A[i]", A=(3,)))
    (('Sum', 0.25), None)
    """
    scale, body = 1.0, scope.body
    if isinstance(body, sympy.Mul) and len(body.args) == 2 and body.args[0].is_Number:
        scale, body = float(body.args[0]), body.args[1]
    return (body.op, scale) if isinstance(body, Reduce) and isinstance(body.body, Access) else None
