"""The kernels that benchmarks compare with libraries.

Each is an expression, a function of torch, and an ONNX operator where it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import einalg as ea
from einalg.language import ops
from einalg.language.ir.program import Program, statement_tensor

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
SPREAD = 0.05  # of recurrent weights, so that gates stay in range
LAYOUTS = ("NCHW", "NHWC")


@dataclass(frozen=True)
class Case:
    """An expression with the same computation in torch and ONNX.

    `torch(torch, **tensors)` computes it from tensors in torch's own layout, into which `given`
    brings arrays; `result` brings torch's result into the expression's layout. `onnx` is the name
    and the attributes of the operator. Where `derives`, a search is worth its time.
    """

    name: str
    expression: Any
    torch: Callable[..., Any]
    weights: tuple[str, ...] = ()
    given: Callable[[Arrays], Arrays] = lambda arrays: arrays
    result: Callable[[Array], Array] = lambda array: array
    onnx: tuple[str, Mapping[str, Any]] | None = None
    derives: bool = False
    scale: Mapping[str, float] = field(default_factory=dict)


# Products.


def matmul(m: int, k: int, n: int, batch: int = 0, weights: bool = True) -> Case:
    first: tuple[int, ...] = ()
    name = f"matmul {m}x{k}x{n}"
    if batch:
        first = (batch,)
        name = f"matmul {batch}x {m}x{k}x{n}"
    role, weight_names = "input", ()
    if weights:
        role, weight_names = "weight", ("B",)
    A, B = ea.tensor("A", (*first, m, k)), ea.tensor("B", (*first, k, n), role=role)

    def function(torch: Any, A: Any, B: Any) -> Any:
        return torch.matmul(A, B)

    return Case(name, ops.matmul(A, B), function, weight_names, onnx=("MatMul", {}))


# Convolutions.


def conv(
    n: int,
    c: int,
    size: int,
    f: int,
    taps: Any,
    layout: str = "NCHW",
    derives: bool = False,
    groups: int = 1,
    **options: Any,
) -> Case:
    kernel = pair(taps)
    image, weights, weight_layout = (n, c, size, size), (f, c // groups, *kernel), "OIHW"
    to_torch, from_torch = _same, _same
    if layout == "NHWC":
        image, weights, weight_layout = (n, size, size, c), (*kernel, c // groups, f), "HWIO"
        to_torch, from_torch = _channels_first, _channels_last
    A, K = ea.tensor("A", image), ea.tensor("K", weights, role="weight")
    expression = ops.conv2d(
        A, K, layout=layout, weight_layout=weight_layout, groups=groups, **options
    )
    pads = pair(options.get("padding", 0))
    strides, dilations = pair(options.get("stride", 1)), pair(options.get("dilation", 1))
    attributes = {
        "pads": [*pads, *pads],
        "strides": strides,
        "dilations": dilations,
        "kernel_shape": kernel,
        "group": groups,
    }
    words = [f"Conv{kernel[0]}x{kernel[1]}"]
    if groups > 1:
        words.append(f"g{groups}")
    for option, value in options.items():
        if option != "padding":
            words.append(f"{option[0]}{value}")
    words.append(f"{c}→{f} {size}x{size} {layout} b{n}")
    return Case(
        " ".join(words),
        expression,
        partial(_conv2d, padding=pads, stride=strides, dilation=dilations, groups=groups),
        ("K",),
        to_torch,
        from_torch,
        ("Conv", attributes),
        derives,
    )


def conv_transpose(
    n: int, c: int, size: int, f: int, taps: int, stride: int, padding: int, output_padding: int = 0
) -> Case:
    A, K = ea.tensor("A", (n, c, size, size)), ea.tensor("K", (c, f, taps, taps), role="weight")
    options: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "output_padding": output_padding,
    }
    attributes = {
        "pads": [padding] * 4,
        "strides": [stride] * 2,
        "kernel_shape": [taps] * 2,
        "output_padding": [output_padding] * 2,
    }
    name = f"ConvTranspose{taps}x{taps} s{stride} {c}→{f} {size}x{size} b{n}"
    function = partial(_conv_transpose2d, **options)
    return Case(
        name,
        ops.conv_transpose2d(A, K, **options),
        function,
        ("K",),
        onnx=("ConvTranspose", attributes),
        derives=True,
    )


def _conv2d(torch: Any, A: Any, K: Any, **options: Any) -> Any:
    return torch.nn.functional.conv2d(A, K, **options)


def _conv_transpose2d(torch: Any, A: Any, K: Any, **options: Any) -> Any:
    return torch.nn.functional.conv_transpose2d(A, K, **options)


def pair(value: Any) -> list[int]:
    if isinstance(value, int):
        return [value, value]
    return list(value)


def _channels_first(arrays: Arrays) -> Arrays:
    return {
        "A": np.ascontiguousarray(arrays["A"].transpose(0, 3, 1, 2)),
        "K": np.ascontiguousarray(arrays["K"].transpose(3, 2, 0, 1)),
    }


def _channels_last(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1)


def _same(arrays: Any) -> Any:
    return arrays


# Bands: in torch, blocks of rows by all columns that these reach, of which a diagonal band is kept.


def g2bmm(b: int, rows: int, k: int, width: int, dilation: int) -> Case:
    Q, K = ea.tensor("Q", (b, rows, k)), ea.tensor("K", (b, rows, k))
    name = f"G2BMM {b}x{rows}x{k} W{width} d{dilation}"
    return Case(
        name, ops.g2bmm(Q, K, width, dilation), partial(_g2bmm, width=width, dilation=dilation)
    )


def gbmm(b: int, rows: int, k: int, width: int, dilation: int) -> Case:
    P, V = ea.tensor("P", (b, rows, 2 * width + 1)), ea.tensor("V", (b, rows, k))
    name = f"GBMM {b}x{rows}x{k} W{width} d{dilation}"
    return Case(
        name, ops.gbmm(P, V, width, dilation), partial(_gbmm, width=width, dilation=dilation)
    )


def _classes(torch: Any, values: Any, dilation: int) -> Any:
    """Return the rows that a dilation separates in the batch.

    Rows are a multiple of the dilation.
    """
    b, rows, k = values.shape
    return (
        values.reshape(b, rows // dilation, dilation, k)
        .transpose(1, 2)
        .reshape(b * dilation, rows // dilation, k)
    )


def _joined(values: Any, dilation: int) -> Any:
    b, rows, k = values.shape
    return (
        values.reshape(b // dilation, dilation, rows, k)
        .transpose(1, 2)
        .reshape(b // dilation, rows * dilation, k)
    )


def _g2bmm(torch: Any, Q: Any, K: Any, width: int, dilation: int) -> Any:
    queries, keys = (
        _classes(torch, Q, dilation),
        torch.nn.functional.pad(_classes(torch, K, dilation), (0, 0, width, width)),
    )
    rows, taps, block = queries.shape[1], 2 * width + 1, max(32, width)
    parts = []
    for low in range(0, rows, block):
        high = min(rows, low + block)
        scores = torch.bmm(queries[:, low:high], keys[:, low : high + 2 * width].transpose(1, 2))
        count, wide = high - low, high - low + 2 * width
        parts.append(
            torch.as_strided(scores, (scores.shape[0], count, taps), (count * wide, wide + 1, 1))
        )
    return _joined(torch.cat(parts, 1), dilation)


def _gbmm(torch: Any, P: Any, V: Any, width: int, dilation: int) -> Any:
    weights, values = (
        _classes(torch, P, dilation),
        torch.nn.functional.pad(_classes(torch, V, dilation), (0, 0, width, width)),
    )
    rows, block = weights.shape[1], max(32, width)
    parts = []
    for low in range(0, rows, block):
        high = min(rows, low + block)
        count, wide = high - low, high - low + 2 * width
        # One more element a row moves each row by one against the row before it.
        padded = torch.nn.functional.pad(weights[:, low:high], (0, count))
        spread = padded.reshape(-1, count * (wide + 1))
        spread = spread[:, : count * wide].reshape(-1, count, wide)
        parts.append(torch.bmm(spread, values[:, low : high + 2 * width]))
    return _joined(torch.cat(parts, 1), dilation)


def attention(b: int, rows: int, k: int, width: int, dilation: int) -> Case:
    """Return sliding-window attention, beside FlexAttention with a mask of blocks.

    Its first call in torch makes the mask.
    """
    Q, K, V = (ea.tensor(name, (b, rows, k)) for name in "QKV")
    name = f"banded attention {b}x{rows}x{k} W{width} d{dilation}"
    function, expression = (
        FlexAttention(rows, width, dilation),
        ops.banded_attention(Q, K, V, width, dilation),
    )
    return Case(
        name,
        expression,
        function,
        given=lambda arrays: {n: a[None] for n, a in arrays.items()},
        result=lambda array: array[0],
        derives=True,
    )


class FlexAttention:
    """Banded attention in torch.

    The mask of blocks is computed by the first call, which must not be one that torch traces.
    """

    def __init__(self, rows: int, width: int, dilation: int):
        self.rows, self.width, self.dilation = rows, width, dilation
        self.masks: dict[str, Any] = {}  # by device

    def __call__(self, torch: Any, Q: Any, K: Any, V: Any) -> Any:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        reach, dilation = self.width * self.dilation, self.dilation

        def is_seen(b: Any, h: Any, i: Any, j: Any) -> Any:
            return ((i - j).abs() <= reach) & ((i - j) % dilation == 0)

        device = Q.device.type
        if device not in self.masks:
            sizes = (None, None, self.rows, self.rows)
            self.masks[device] = create_block_mask(is_seen, *sizes, device=device)
        return flex_attention(Q, K, V, block_mask=self.masks[device])


# Networks.


def lstm(steps: int, batch: int, inputs: int, size: int) -> Case:
    """Return an LSTM step by step; the projections of all inputs are one product."""
    x = ea.tensor("x", (steps, batch, inputs))
    W, U = (
        ea.tensor("W", (4 * size, inputs), role="weight"),
        ea.tensor("U", (4 * size, size), role="weight"),
    )
    statements: list[tuple[str, Any]] = [("X", ea.parse("X[t,b,g] += x[t,b,i]*W[g,i]", x=x, W=W))]
    X = statement_tensor("X", statements[0][1])
    state = memory = None
    for t in range(steps):
        gates = _gates(t, X, state, U)
        statements += [*gates, *_state(t, statement_tensor(*gates[-1]), memory, size)]
        memory, state = (statement_tensor(*statement) for statement in statements[-2:])
    scale = {"W": SPREAD, "U": SPREAD}
    name = f"LSTM layer, {steps} steps of {inputs} inputs, {size} units b{batch}"
    return Case(name, Program(statements), _lstm, ("W", "U"), scale=scale)


def _gates(t: int, X: Any, state: Any, U: Any) -> list[tuple[str, Any]]:
    if state is None:
        return [(f"G{t}", ea.parse(f"G[b,g] = X[{t},b,g]", X=X))]
    product = ea.parse(
        "P[b,g] += S[b,j]*U[g,j]".replace("S", state.name), U=U, **{state.name: state}
    )
    P = statement_tensor(f"P{t}", product)
    return [
        (f"P{t}", product),
        (f"G{t}", ea.parse(f"G[b,g] = X[{t},b,g] + P{t}[b,g]", X=X, **{f"P{t}": P})),
    ]


def _state(t: int, G: Any, memory: Any, size: int) -> list[tuple[str, Any]]:
    """Return the cell and the state; gates are in torch's order: input, forget, cell, output."""

    def sigmoid(part: int) -> str:
        return f"(1/(1 + exp(-{G.name}[b,j + {part * size}])))"

    tensors, remembered = {G.name: G}, ""
    if memory is not None:
        tensors[memory.name] = memory
        remembered = f"{sigmoid(1)}*{memory.name}[b,j] + "
    text = f"C[b,j:{size}] = {remembered}{sigmoid(0)}*tanh({G.name}[b,j + {2 * size}])"
    cell = ea.parse(text, **tensors)
    C = statement_tensor(f"C{t}", cell)
    out = ea.parse(f"H[b,j:{size}] = {sigmoid(3)}*tanh({C.name}[b,j])", **{G.name: G, C.name: C})
    return [(C.name, cell), (f"H{t}", out)]


def _lstm(torch: Any, x: Any, W: Any, U: Any) -> Any:
    projected = torch.matmul(x, W.t())
    state, memory = x.new_zeros(x.shape[1], U.shape[1]), x.new_zeros(x.shape[1], U.shape[1])
    for t in range(x.shape[0]):
        i, f, c, o = (projected[t] + state @ U.t()).chunk(4, -1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(c)
        state = torch.sigmoid(o) * torch.tanh(memory)
    return state


def mmoe(batch: int, features: int, experts: int, hidden: int, tasks: int, tower: int) -> Case:
    """Return experts that are mixed by a gate for each task, then a small tower for each."""
    shapes = {
        "E": (experts, features, hidden),
        "G": (tasks, features, experts),
        "T": (tasks, hidden, tower),
        "R": (tasks, tower),
    }
    weights = {name: ea.tensor(name, shape, role="weight") for name, shape in shapes.items()}
    text = (
        "Y[b,e,h] += x[b,f]*E[e,f,h]\n"
        "L[t,b,e] += x[b,f]*G[t,f,e]\n"
        "S[t,b,e] = exp(L[t,b,e])\n"
        "N[t,b] += S[t,b,e]\n"
        "M[t,b,h] += S[t,b,e]*Max(Y[b,e,h], 0)\n"
        "U[t,b,u] += M[t,b,h]*T[t,h,u]/N[t,b]\n"
        "O[t,b] += Max(U[t,b,u], 0)*R[t,u]"
    )
    expression = ea.parse(text, x=(batch, features), **weights)
    return Case(
        f"MMoE {features}, {experts} experts b{batch}",
        expression,
        _mmoe,
        tuple(shapes),
        scale=dict.fromkeys(shapes, SPREAD),
    )


def _mmoe(torch: Any, x: Any, E: Any, G: Any, T: Any, R: Any) -> Any:
    experts = torch.relu(torch.einsum("bf,efh->beh", x, E))
    gates = torch.softmax(torch.einsum("bf,tfe->tbe", x, G), -1)
    towers = torch.relu(torch.bmm(torch.einsum("tbe,beh->tbh", gates, experts), T))
    return torch.einsum("tbu,tu->tb", towers, R)


# Element by element, and sums of few elements.


def chain(rows: int, columns: int) -> Case:
    expression = ea.parse(
        "O[i,j] = tanh(A[i,j])*Max(A[i,j] + B[j], 0)", A=(rows, columns), B=(columns,)
    )
    return Case(
        f"map {rows}x{columns}", expression, lambda torch, A, B: torch.tanh(A) * torch.relu(A + B)
    )


def offset_add(n: int, size: int, f: int, taps: int) -> Case:
    half = taps // 2
    text = (
        f"O[n,h:{size},w:{size},f] += T.pad(0,{half},{half},0,0,0)[n,h+r-{half},w+s-{half},r,s,f]"
    )

    def function(torch: Any, T: Any) -> Any:
        padded = torch.nn.functional.pad(T, (0, 0, 0, 0, 0, 0, half, half, half, half))
        total = 0
        for r in range(taps):
            for s in range(taps):
                total = total + padded[:, r : r + size, s : s + size, r, s]
        return total

    return Case(
        f"OffsetAdd {taps}x{taps} {size}x{size}x{f} b{n}",
        ea.parse(text, T=(n, size, size, taps, taps, f)),
        function,
    )


def reduction(operator: str, shape: tuple[int, ...], axis: int) -> Case:
    expression = getattr(ops, operator)(ea.tensor("x", shape), axis)
    words = "x".join(map(str, shape))
    names = {"max": "amax", "min": "amin"}
    return Case(
        f"{operator} of {words}, axis {axis}",
        expression,
        lambda torch, x: getattr(torch, names.get(operator, operator))(x, axis),
    )


def pool(kind: str, n: int, c: int, size: int, kernel: int, stride: int) -> Case:
    expression = getattr(ops, f"{kind}_pool2d")(ea.tensor("A", (n, c, size, size)), kernel, stride)
    name = f"{kind} pool {kernel}x{kernel} s{stride} {c} {size}x{size} b{n}"
    return Case(
        name,
        expression,
        lambda torch, A: getattr(torch.nn.functional, f"{kind}_pool2d")(A, kernel, stride),
    )


def _convolutions() -> list[Callable[[], Case]]:
    """Return the convolutions, each in both layouts."""
    makers: list[Callable[[], Case]] = []
    for size, c, f, taps, derives, options in (
        (14, 256, 512, 3, False, {"stride": 2, "padding": 1}),
        (56, 64, 64, 3, True, {"padding": 1}),
        (28, 128, 128, 3, True, {"padding": 1}),
        (14, 256, 256, 3, True, {"padding": 1}),
        (56, 64, 32, 5, True, {"padding": 2}),
        (14, 512, 512, 3, True, {"padding": 2, "dilation": 2}),
        (224, 3, 64, 7, False, {"stride": 2, "padding": 3}),
        (224, 32, 1, 5, False, {"padding": 2}),
        (7, 2048, 21, (11, 1), False, {"padding": (5, 0)}),
    ):
        for layout in LAYOUTS:
            makers.append(partial(conv, 1, c, size, f, taps, layout, derives, **options))
    return makers


def _depthwise_convolutions() -> list[Callable[[], Case]]:
    """Return depthwise convolutions of both layouts, as in networks for phones, and odd ones."""
    shapes = [(32, 112, 3), (128, 56, 3), (256, 28, 3), (512, 14, 3), (240, 28, 5), (480, 14, 7)]
    cases: list[Callable[[], Case]] = []
    for layout, (c, size, taps) in product(LAYOUTS, shapes):
        for n in (1, 16):
            cases.append(
                partial(conv, n, c, size, c, taps, layout, groups=c, stride=1, padding=taps // 2)
            )
    for c, options in ((64, {"stride": 2}), (128, {"dilation": 2}), (31, {}), (97, {})):
        padding = options.get("dilation", 1)
        cases.append(partial(conv, 1, c, 56, c, 3, "NHWC", groups=c, padding=padding, **options))
    return cases


CASES: tuple[Callable[[], Case], ...] = (
    partial(matmul, 512, 512, 512),
    partial(matmul, 1024, 1024, 1024),
    partial(matmul, 49, 4608, 512),
    partial(matmul, 1, 1024, 1024),
    partial(matmul, 64, 4096, 448),
    partial(matmul, 61, 67, 71),
    partial(matmul, 64, 64, 196, 36, False),
    *_convolutions(),
    *_depthwise_convolutions(),
    partial(conv_transpose, 1, 448, 2, 256, 4, 2, 1),
    partial(conv_transpose, 16, 448, 2, 256, 4, 2, 1),
    partial(conv_transpose, 1, 64, 32, 3, 4, 2, 1),
    partial(conv_transpose, 1, 56, 32, 1, 9, 4, 4, 3),
    partial(g2bmm, 12, 4096, 64, 256, 1),
    partial(g2bmm, 12, 4096, 64, 256, 4),
    partial(gbmm, 12, 4096, 64, 256, 1),
    partial(gbmm, 12, 4096, 64, 256, 4),
    partial(attention, 12, 4096, 64, 256, 1),
    partial(attention, 12, 4096, 64, 256, 4),
    partial(lstm, 10, 1, 100, 256),
    partial(mmoe, 1, 499, 8, 16, 2, 8),
    partial(chain, 1024, 1024),
    partial(offset_add, 1, 56, 64, 3),
    partial(offset_add, 1, 112, 64, 3),
    partial(reduction, "sum", (1000, 1001), 1),
    partial(pool, "max", 1, 64, 112, 3, 2),
)
