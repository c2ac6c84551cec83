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
from functools import cached_property, partial
from itertools import chain, product, starmap
from typing import Any

from einalg.language import ops
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor

# A parameter, the letter of its axis ("" for all), and "before" or "after" of a pair.
Setting = tuple[str, str, str]


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
        """Return every integer to solve for, e.g. `("padding", "h", "before")`."""
        sides = ("before", "after") if self.pair else ("",)
        return [(self.name, axis, side) for axis, side in product(self.axes or [""], sides)]

    def argument(self, values: Mapping[Setting, int]) -> Any:
        """Return the values as the definition expects them."""
        entries: list[Any] = [values[setting] for setting in self.settings()]
        if self.pair:
            entries = list(zip(entries[::2], entries[1::2]))
        if not self.axes:
            return entries[0]
        return tuple(entries)


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
        """The fields that differ between templates."""
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
        """Return every integer to solve for, with its least value."""
        least: dict[Setting, int] = {}
        for free in self.free:
            least.update(dict.fromkeys(free.settings(), free.least))
        return least

    def build(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[Setting, int],
        numbers: Mapping[str, Any] | None = None,
        dtypes: Mapping[str, str] | None = None,
    ) -> Scope:
        """Return the definition for operands of these shapes; raises `ShapeError` where it has no
        meaning.
        """
        arguments: dict[str, Any] = {**self.fixed, **(numbers or {})}
        for name in self.operands:
            dtype = (dtypes or {}).get(name, "f32")
            arguments[name] = Tensor(name, shapes[name], dtype)
        for free in self.free:
            arguments[free.name] = free.argument(values)
        return getattr(ops, self.definition)(**arguments)


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
        """Return the definition for these operands and parameters; raises `ShapeError` where it has
        no meaning.
        """
        if self.many:
            (name,) = self.operands
            named: dict[str, Any] = {name: list(operands)}
        else:
            named = dict(zip(self.operands, operands, strict=True))
        return getattr(ops, self.definition)(**named, **arguments, **self.fixed)


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
    *map(_convolution, (1, 2, 3)),
    *map(_transposed_convolution, (1, 2, 3)),
    Template(
        "g2bmm", "g2bmm", {"Q": "bik", "K": "bik"}, (Free("width", least=0), Free("dilation"))
    ),
    Template("gbmm", "gbmm", {"P": "biw", "V": "bik"}, (Free("dilation"),)),
    *map(_reduction, ("sum", "mean", "max", "min", "prod")),
    *map(partial(_pooling, "max"), (1, 2, 3)),
    *map(partial(_pooling, "avg"), (1, 2, 3)),
)


# Element by element.


def _each(name: str, *numbers: str, **fixed: Any) -> Template:
    """Return the template of a function of one element; `numbers` are its parameters."""
    return Template(name, name, {"x": "i"}, fixed=fixed, numbers=numbers, plain=True)


def _pair(name: str, numbers: bool = True) -> list[Template]:
    """Return the templates of a function of two elements: of equal axes, broadcast, or with a
    number in the place of one.
    """
    templates = [
        Template(name, name, {"a": "i", "b": "i"}, plain=True),
        Template(name, name, {"a": "ij1", "b": "i1k"}, plain=True),
    ]
    if numbers:
        templates.append(Template(name, name, {"a": "i"}, numbers=("b",), plain=True))
        templates.append(Template(name, name, {"b": "i"}, numbers=("a",), plain=True))
    return templates


def _choice() -> list[Template]:
    """Return the templates of a choice between elements by a third one; either may be a number."""
    equal = {"condition": "i", "a": "i", "b": "i"}
    spread = {"condition": "ijk1m11", "a": "ij1l1n1", "b": "i1kl11o"}
    first, second = {"condition": "ij1", "a": "i1k"}, {"condition": "ij1", "b": "i1k"}
    return [
        Template("where", "where", equal, plain=True),
        Template("where", "where", spread, plain=True),
        Template("where", "where", first, numbers=("b",), plain=True),
        Template("where", "where", second, numbers=("a",), plain=True),
    ]


def _along(name: str, *vectors: str, numbers: tuple[str, ...] = (), **fixed: Any) -> Template:
    """Return the template of a function of an element and of what vectors hold for one axis."""
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
# The vectors that may scale and shift a normalisation.
SCALED = ((), ("weight",), ("bias",), ("weight", "bias"))


def _absent(vectors: Sequence[str]) -> dict[str, None]:
    """Return the weight as None where a bias follows it and it is absent itself."""
    if "bias" in vectors and "weight" not in vectors:
        return {"weight": None}
    return {}


# Arrays of any rank.


def _movement(name: str, example: Mapping[str, Any], **sources: str) -> ArrayTemplate:
    return ArrayTemplate(name, name, {"x": "ij"}, sources, example)


def _rows(name: str) -> ArrayTemplate:
    """Return the template of an operator on the rows of an array along one axis."""
    return ArrayTemplate(name, name, {"x": "ij"}, {"axis": "reduced axis"}, {"axis": 1}, views=True)


def _normalisation(name: str, *vectors: str) -> ArrayTemplate:
    """Return the template of a normalisation of the elements along some axes."""
    operands = {"x": "ij", **dict.fromkeys(vectors, "j")}
    sources, example = {"axes": "reduced axes", "eps": "number"}, {"axes": (1,), "eps": 3}
    return ArrayTemplate(name, name, operands, sources, example, _absent(vectors), views=True)


def _batch_normalisation(*vectors: str) -> Template:
    return _along("batch_norm", "mean", "variance", *vectors, numbers=("eps",), **_absent(vectors))


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
    *starmap(partial(_normalisation, "layer_norm"), SCALED),
    _normalisation("rms_norm"),
    _normalisation("rms_norm", "weight"),
    *starmap(_batch_normalisation, SCALED),
    *map(_each, FUNCTIONS),
    _each("gelu", approximate="tanh"),
    *starmap(_each, PARAMETERS),
    _along("bias_add", "bias"),
    *chain.from_iterable(map(_pair, PAIRS)),
    *_pair("logical_and", numbers=False),
    *_pair("logical_or", numbers=False),
    *_choice(),
)

EVERY: tuple[AnyTemplate, ...] = (*TEMPLATES, *PLAIN)
