"""Library operators as templates: their definitions, with parameters that matching solves for
(design §7).

A `Template` is a definition of `einalg.ops` with a letter for every axis of its operands: the index
that walks along it. Sizes, strides, dilations and padding are free; the order of axes is, too,
because an operand is any strided view. An `ArrayTemplate` is a definition for arrays of any rank,
with the source from which matching reads each of its parameters. Adding an operator is an entry
here.

`TEMPLATES` are the operators that a library is needed for: searches head for these. `PLAIN` are
those that generated code runs as fast as memory allows; they name what is left over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from einalg.language import ops
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor

Setting = tuple[
    str, str, str
]  # a parameter, the letter of its axis ("" for all), and "before" or "after" of a pair


@dataclass(frozen=True)
class Free:
    """A parameter to solve for: one integer, or with `axes` one for each of these letters, or with
    `pair` (before, after) for each.
    """

    name: str
    axes: str = ""
    pair: bool = False
    least: int = 1

    def settings(self) -> list[Setting]:
        return [
            (self.name, axis, side)
            for axis in self.axes or [""]
            for side in (("before", "after") if self.pair else ("",))
        ]

    def argument(self, values: Mapping[Setting, int]) -> Any:
        """The values as the definition takes them."""
        flat = [values[setting] for setting in self.settings()]
        if self.pair:
            flat = list(zip(flat[::2], flat[1::2]))  # type: ignore[assignment]
        return tuple(flat) if self.axes else flat[0]


@dataclass(frozen=True, eq=False)
class Template:
    """The operator `name` as `einalg.ops.<definition>`: `operands` gives a letter for each of their
    axes, `free` what is solved for.

    The letter 1 is an axis of size 1, which broadcasts. `numbers` are parameters that are any
    number in the body. With `batch`, an index that every operand and the result have may stand
    beside the definition's own; `batch` names their number. A `plain` operator computes nothing
    that a library is needed for.
    """

    name: str
    definition: str
    operands: Mapping[str, str]
    free: tuple[Free, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    batch: str | None = None
    numbers: tuple[str, ...] = ()
    plain: bool = False

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """What tells it from other templates."""
        return (
            self.name,
            self.definition,
            tuple(self.operands.items()),
            tuple(self.fixed.items()),
            self.numbers,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.identity == other.identity

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.identity)

    def settings(self) -> dict[Setting, int]:
        """Every integer to solve for, with its least value."""
        return {setting: free.least for free in self.free for setting in free.settings()}

    def build(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[Setting, int],
        numbers: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, str] | None = None,
    ) -> Scope:
        """The definition for operands of these shapes; raises `ShapeError` where it has no
        meaning.
        """
        operands = {
            name: Tensor(name, shapes[name], (dtypes or {}).get(name, "f32"))
            for name in self.operands
        }
        solved = {free.name: free.argument(values) for free in self.free}
        return getattr(ops, self.definition)(**operands, **solved, **self.fixed, **(numbers or {}))


@dataclass(frozen=True, eq=False)
class ArrayTemplate:
    """The operator `name` as `einalg.ops.<definition>` on arrays of any rank: `sources` says what
    each parameter is read from.

    `operands` and `example` are the operands and parameters of one instance. With `views`, an
    operand may have its axes in any order; `many` operands are given as one list. Every such
    operator is `plain`.
    """

    name: str
    definition: str
    operands: Mapping[str, str]
    sources: Mapping[str, str]
    example: Mapping[str, Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    views: bool = False
    many: bool = False
    plain: bool = True

    def build(self, operands: Sequence[Any], arguments: Mapping[str, Any]) -> Scope:
        """The definition for these operands and parameters; raises `ShapeError` where it has no
        meaning.
        """
        (name, *_) = self.operands
        given = (
            {name: list(operands)} if self.many else dict(zip(self.operands, operands, strict=True))
        )
        return getattr(ops, self.definition)(**given, **arguments, **self.fixed)


AnyTemplate = Template | ArrayTemplate


def _convolution(rank: int) -> Template:
    space, taps = "dhw"[3 - rank :], "qrs"[3 - rank :]
    free = (
        Free("stride", space),
        Free("padding", space, pair=True, least=0),
        Free("dilation", space),
    )
    return Template(
        f"conv{rank}d", f"conv{rank}d", {"A": f"nc{space}", "K": f"fc{taps}"}, free, batch="groups"
    )


def _transposed_convolution(rank: int) -> Template:
    space, taps = "dhw"[3 - rank :], "qrs"[3 - rank :]
    free = (
        Free("stride", space),
        Free("dilation", space),
        Free("padding", space, pair=True, least=0),
        Free("output_padding", space, least=0),
    )
    return Template(
        f"conv_transpose{rank}d",
        f"conv_transpose{rank}d",
        {"A": f"nc{space}", "K": f"cf{taps}"},
        free,
        batch="groups",
    )


def _pooling(kind: str, rank: int) -> Template:
    space = "dhw"[3 - rank :]
    free = (
        Free("kernel", space),
        Free("stride", space),
        Free("padding", space, pair=True, least=0),
        Free("dilation", space),
    )
    return Template(f"{kind}_pool{rank}d", f"{kind}_pool{rank}d", {"A": f"nc{space}"}, free)


def _reduction(definition: str) -> Template:
    return Template("reduce", definition, {"x": "ik"}, fixed={"axes": (1,)})


TEMPLATES: tuple[Template, ...] = (
    Template("matmul", "matmul", {"A": "bmk", "B": "bkn"}),
    *(_convolution(rank) for rank in (1, 2, 3)),
    *(_transposed_convolution(rank) for rank in (1, 2, 3)),
    Template(
        "g2bmm", "g2bmm", {"Q": "bik", "K": "bik"}, (Free("width", least=0), Free("dilation"))
    ),
    Template("gbmm", "gbmm", {"P": "biw", "V": "bik"}, (Free("dilation"),)),
    *(_reduction(definition) for definition in ("sum", "mean", "max", "min", "prod")),
    *(_pooling(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
)


# Element by element.


def _each(name: str, *numbers: str, **fixed: Any) -> Template:
    """A function of one element; `numbers` are its parameters."""
    return Template(name, name, {"x": "i"}, fixed=fixed, numbers=numbers, plain=True)


def _pair(name: str, numbers: bool = True) -> list[Template]:
    """A function of two elements: of equal axes, broadcast, or with a number in the place of
    one.
    """
    equal, spread = {"a": "i", "b": "i"}, {"a": "ij1", "b": "i1k"}
    one = [
        Template(name, name, {given: "i"}, numbers=(number,), plain=True)
        for given, number in ("ab", "ba")
        if numbers
    ]
    return [*(Template(name, name, operands, plain=True) for operands in (equal, spread)), *one]


def _choice() -> list[Template]:
    """A choice between elements by a third one; either may be a number."""
    equal = {"condition": "i", "a": "i", "b": "i"}
    spread = {"condition": "ijk1m11", "a": "ij1l1n1", "b": "i1kl11o"}
    one = [
        Template(
            "where", "where", {"condition": "ij1", given: "i1k"}, numbers=(number,), plain=True
        )
        for given, number in ("ab", "ba")
    ]
    return [
        *(Template("where", "where", operands, plain=True) for operands in (equal, spread)),
        *one,
    ]


def _along(name: str, *vectors: str, numbers: tuple[str, ...] = (), **fixed: Any) -> Template:
    """A function of an element and of what vectors hold for one axis."""
    return Template(
        name,
        name,
        {"x": "ij", **dict.fromkeys(vectors, "i")},
        fixed={"axis": 0, **fixed},
        numbers=numbers,
        plain=True,
    )


FUNCTIONS = (
    *(
        "relu",
        "sigmoid",
        "silu",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "tanh",
        "exp",
        "log",
        "erf",
        "sqrt",
        "rsqrt",
        "square",
        "reciprocal",
    ),
    *("neg", "abs", "sign", "sin", "cos", "floor", "ceil", "elu", "softplus", "logical_not"),
)
PARAMETERS = (
    ("leaky_relu", "slope"),
    ("elu", "alpha"),
    ("softplus", "beta"),
    ("clip", "low", "high"),
    ("clip", "low"),
    ("clip", "high"),
)
PAIRS = (
    *("add", "mul", "sub", "div", "maximum", "minimum", "pow"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
)
SCALED = ((), ("weight",), ("bias",), ("weight", "bias"))  # what may follow a normalisation


def _absent(vectors: Sequence[str]) -> dict[str, None]:
    """What is left out before something that is there."""
    return {"weight": None} if "bias" in vectors and "weight" not in vectors else {}


# Arrays of any rank.


def _movement(name: str, example: Mapping[str, Any], **sources: str) -> ArrayTemplate:
    return ArrayTemplate(name, name, {"x": "ij"}, sources, example)


def _rows(name: str) -> ArrayTemplate:
    """An operator on the rows of an array along one axis."""
    return ArrayTemplate(name, name, {"x": "ij"}, {"axis": "reduced axis"}, {"axis": 1}, views=True)


def _normalisation(name: str, *vectors: str) -> ArrayTemplate:
    """A normalisation of the elements along some axes."""
    operands = {"x": "ij", **dict.fromkeys(vectors, "j")}
    sources, example = {"axes": "reduced axes", "eps": "number"}, {"axes": (1,), "eps": 3}
    return ArrayTemplate(name, name, operands, sources, example, _absent(vectors), views=True)


PLAIN: tuple[AnyTemplate, ...] = (
    _movement("reshape", {"shape": (3, 2)}, shape="sizes"),
    _movement("transpose", {"axes": (1, 0)}, axes="order"),
    _movement("flip", {"axes": (0,)}, axes="reversed axes"),
    _movement(
        "slice",
        {"starts": (1, 0), "stops": (2, 3), "steps": (1, 1)},
        starts="starts",
        stops="stops",
        steps="steps",
    ),
    _movement("pad", {"amounts": (1, 0), "value": 0}, amounts="overruns", value="fill"),
    _movement("broadcast_to", {"shape": (4, 2, 3)}, shape="sizes"),
    _movement("tile", {"repeats": (2, 1)}, repeats="ratios"),
    _movement("repeat", {"repeats": 2, "axis": 0}, repeats="ratio", axis="enlarged axis"),
    ArrayTemplate(
        "concat",
        "concat",
        {"tensors": "ij"},
        {"axis": "padded axis"},
        {"axis": 1},
        views=True,
        many=True,
    ),
    _rows("softmax"),
    _rows("log_softmax"),
    *(_normalisation("layer_norm", *vectors) for vectors in SCALED),
    *(_normalisation("rms_norm", *vectors) for vectors in SCALED if "bias" not in vectors),
    *(
        _along("batch_norm", "mean", "variance", *vectors, numbers=("eps",), **_absent(vectors))
        for vectors in SCALED
    ),
    *(_each(name) for name in FUNCTIONS),
    _each("gelu", approximate="tanh"),
    *(_each(*row) for row in PARAMETERS),
    _along("bias_add", "bias"),
    *(template for name in PAIRS for template in _pair(name)),
    *(
        template
        for name in ("logical_and", "logical_or")
        for template in _pair(name, numbers=False)
    ),
    *_choice(),
)

EVERY: tuple[AnyTemplate, ...] = (*TEMPLATES, *PLAIN)
