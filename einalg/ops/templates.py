"""Library operators as templates: their definitions, with parameters that matching solves for (design §7).

A template is a definition of `einalg.ops` with a letter for every axis of its operands: the index that walks along it. Sizes, strides,
dilations and padding are free; the order of axes is, too, because an operand is any strided view. Adding one is an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einalg import ops
from einalg.access import Tensor
from einalg.scope import Scope

Setting = tuple[str, str, str]  # a parameter, the letter of its axis ("" for all), and "before" or "after" of a pair


@dataclass(frozen=True)
class Free:
    """A parameter to solve for: one integer, or with `axes` one for each of these letters, or with `pair` (before, after) for each."""

    name: str
    axes: str = ""
    pair: bool = False
    least: int = 1

    def settings(self) -> list[Setting]:
        return [(self.name, axis, side) for axis in self.axes or [""] for side in (("before", "after") if self.pair else ("",))]

    def argument(self, values: Mapping[Setting, int]) -> Any:
        """The values as the definition takes them."""
        flat = [values[setting] for setting in self.settings()]
        if self.pair:
            flat = list(zip(flat[::2], flat[1::2]))  # type: ignore[assignment]
        return tuple(flat) if self.axes else flat[0]


@dataclass(frozen=True, eq=False)
class Template:
    """The operator `name` as `einalg.ops.<definition>`: `operands` gives a letter for each of their axes, `free` what is solved for.

    With `batch`, an index that every operand and the result have may stand beside the definition's own; `batch` names their number.
    """

    name: str
    definition: str
    operands: Mapping[str, str]
    free: tuple[Free, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    batch: str | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and (self.name, self.definition) == (other.name, other.definition)

    def __hash__(self) -> int:
        return hash((self.name, self.definition))

    def settings(self) -> dict[Setting, int]:
        """Every integer to solve for, with its least value."""
        return {setting: free.least for free in self.free for setting in free.settings()}

    def build(self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[Setting, int]) -> Scope:
        """The definition for operands of these shapes; raises `ShapeError` where it has no meaning."""
        operands = [Tensor(name, shapes[name]) for name in self.operands]
        return getattr(ops, self.definition)(*operands, **{free.name: free.argument(values) for free in self.free}, **self.fixed)


def _convolution(rank: int) -> Template:
    space, taps = "dhw"[3 - rank :], "qrs"[3 - rank :]
    free = (Free("stride", space), Free("padding", space, pair=True, least=0), Free("dilation", space))
    return Template(f"conv{rank}d", f"conv{rank}d", {"A": f"nc{space}", "K": f"fc{taps}"}, free, batch="groups")


def _transposed_convolution(rank: int) -> Template:
    space, taps = "dhw"[3 - rank :], "qrs"[3 - rank :]
    free = (
        Free("stride", space),
        Free("dilation", space),
        Free("padding", space, pair=True, least=0),
        Free("output_padding", space, least=0),
    )
    return Template(f"conv_transpose{rank}d", f"conv_transpose{rank}d", {"A": f"nc{space}", "K": f"cf{taps}"}, free, batch="groups")


def _pooling(kind: str, rank: int) -> Template:
    space = "dhw"[3 - rank :]
    free = (Free("kernel", space), Free("stride", space), Free("padding", space, pair=True, least=0), Free("dilation", space))
    return Template(f"{kind}_pool{rank}d", f"{kind}_pool{rank}d", {"A": f"nc{space}"}, free)


def _reduction(definition: str) -> Template:
    return Template("reduce", definition, {"x": "ik"}, fixed={"axes": (1,)})


TEMPLATES: tuple[Template, ...] = (
    Template("matmul", "matmul", {"A": "bmk", "B": "bkn"}),
    *(_convolution(rank) for rank in (1, 2, 3)),
    *(_transposed_convolution(rank) for rank in (1, 2, 3)),
    Template("g2bmm", "g2bmm", {"Q": "bik", "K": "bik"}, (Free("width", least=0), Free("dilation"))),
    Template("gbmm", "gbmm", {"P": "biw", "V": "bik"}, (Free("dilation"),)),
    *(_reduction(definition) for definition in ("sum", "mean", "max", "min", "prod")),
    *(_pooling(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
)
