"""Expressions with the forms that a search ought to find for them.

What tests hold it to, and what benchmarks time (design §8).

A case is the same builder at the size that matters and at one so small that every value can be
computed exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, gcd
from typing import Any

import einalg as ea
from bench.forms import (
    CONVOLUTIONS,
    Form,
    dense,
    every_phase,
    factorised,
    only,
    operators,
    product_and_addition,
    running,
    with_eops,
    without,
)
from einalg.language import ops
from einalg.language.ir.kernel import EOP
from einalg.language.ir.program import Program, as_program, statement_tensor


@dataclass(frozen=True)
class Example:
    """An expression and, by name, the forms that it may take."""

    expression: Any
    forms: Mapping[str, Form]

    @property
    def program(self) -> Program:
        return as_program(self.expression)


@dataclass(frozen=True)
class Case:
    """An example at its `real` size and at a `small` one.

    `states` expand to all its forms but the `slow` ones, at either size.
    """

    name: str
    real: Callable[[], Example]
    small: Callable[[], Example]
    states: int
    slow: tuple[str, ...]


# Tensors.


def weight(name: str, *shape: int) -> Any:
    return ea.tensor(name, shape, role="weight")


def dimensions(sizes: int | Sequence[int], rank: int = 2) -> tuple[int, ...]:
    return (sizes,) * rank if isinstance(sizes, int) else tuple(sizes)


# Convolutions.


def _operands(
    n: int,
    c: int,
    f: int,
    space: tuple[int, ...],
    taps: tuple[int, ...],
    layout: str,
    groups: int = 1,
) -> tuple[Any, Any, dict[str, str]]:
    """Data and weights in a layout.

    "first" has the channels before, "last" after the spatial axes, "batch last" the batch at the
    end.
    """
    letters = "DHW"[3 - len(space) :]
    orders = {
        "first": (f"NC{letters}", f"OI{letters}"),
        "last": (f"N{letters}C", f"{letters}IO"),
        "batch last": (f"C{letters}N", f"I{letters}O"),
    }
    data, kernel = orders[layout]
    sizes = {"N": n, "C": c, "O": f, "I": c // groups}
    A = ea.tensor("A", [sizes.get(x, dict(zip(letters, space)).get(x)) for x in data])
    K = weight("K", *(sizes.get(x) or dict(zip(letters, taps))[x] for x in kernel))
    return A, K, {"layout": data, "weight_layout": kernel}


def convolution(
    n: int,
    c: int,
    space: Any,
    f: int,
    taps: Any,
    forms: Mapping[str, Form],
    layout: str = "first",
    rank: int = 2,
    **options: Any,
) -> Example:
    """A convolution of `rank` spatial axes."""
    A, K, layouts = _operands(
        n, c, f, dimensions(space, rank), dimensions(taps, rank), layout, options.get("groups", 1)
    )
    return Example(getattr(ops, f"conv{rank}d")(A, K, **layouts, **options), forms)


def unit(n: int, c: int, space: int, f: int, layout: str = "first") -> Example:
    """A 1x1 convolution is a matrix multiplication and nothing else."""
    return convolution(n, c, space, f, 1, {"matmul": only(matmul=1)}, layout)


def windowed(
    n: int,
    c: int,
    space: Any,
    f: int,
    taps: Any,
    layout: str = "first",
    rank: int = 2,
    winograd: int = 0,
    **options: Any,
) -> Example:
    """A convolution of stride 1.

    A product and an OffsetAdd; with `winograd`, that many bilinear factorisations and a batched
    product.
    """
    forms: dict[str, Form] = {"matmul and OffsetAdd": product_and_addition}
    if winograd:
        forms["Winograd"] = factorised(winograd)
    return convolution(n, c, space, f, taps, forms, layout, rank, **options)


def smaller(n: int, c: int, space: int, f: int, taps: int, block: int) -> Example:
    """A convolution with large windows.

    One with windows of `block` and as many times the channels as there are blocks.
    """
    forms = {"smaller windows": dense("conv2d", f=f * ceil(taps / block) ** 2, r=block, s=block)}
    return convolution(n, c, space, f, taps, forms, padding=taps // 2)


def strided(
    n: int, c: int, space: int, f: int, taps: int, stride: int, layout: str = "first"
) -> Example:
    """A strided convolution.

    A product, or a dense convolution of space-to-depth, which is a product where no taps overlap.
    """
    blocks = ceil(taps / stride)
    deep = (
        dense("conv2d", c=c * stride**2, r=blocks, s=blocks)
        if blocks > 1
        else with_eops("matmul", b=1, k=c * stride**2)
    )
    forms = {"matmul": with_eops("matmul"), "space to depth": deep}
    return convolution(n, c, space, f, taps, forms, layout, stride=stride, padding=taps // 2)


def dilated(n: int, c: int, space: int, f: int, dilation: int, layout: str = "first") -> Example:
    """A dilated convolution.

    A product, a dense convolution of the classes of its points in the batch, and Winograd of that.
    """
    forms = {
        "matmul": with_eops("matmul"),
        "space to batch": dense("conv2d", n=n * dilation**2),
        "Winograd of the classes": factorised(2),
    }
    return convolution(n, c, space, f, 3, forms, layout, padding=dilation, dilation=dilation)


def strided_and_dilated(
    n: int, c: int, space: int, f: int, stride: int, dilation: int, layout: str = "first"
) -> Example:
    """A convolution with stride and dilation.

    A product, or a convolution without dilation of the classes of its points in the batch.
    """
    together = gcd(stride, dilation)
    classes = dense("conv2d", strided=together < stride, n=n * (dilation // together) ** 2)
    forms = {"matmul": with_eops("matmul"), "space to batch": classes}
    return convolution(
        n, c, space, f, 3, forms, layout, padding=dilation, stride=stride, dilation=dilation
    )


def grouped(n: int, c: int, space: int, f: int, groups: int) -> Example:
    forms = {
        "batched matmul": lambda candidate: any(
            with_eops("matmul", b=b)(candidate) for b in (groups, 9 * groups)
        )
    }
    return convolution(n, c, space, f, 3, forms, padding=1, groups=groups)


def depthwise(n: int, c: int, space: int) -> Example:
    A, K = ea.tensor("A", (n, c, space, space)), weight("K", c, 1, 3, 3)
    return Example(
        ops.depthwise_conv2d(A, K, padding=1), {"no convolution": without(*CONVOLUTIONS)}
    )


def few_outputs(n: int, c: int, space: int) -> Example:
    forms: dict[str, Form] = {
        "no convolution": without(*CONVOLUTIONS),
        "matmul and OffsetAdd": product_and_addition,
    }
    return convolution(n, c, space, 1, 5, forms, padding=2)


# Transposed convolutions.


def transposed(
    n: int,
    c: int,
    space: int,
    f: int,
    taps: int,
    stride: int,
    padding: int,
    rank: int = 2,
    phases: bool = True,
) -> Example:
    letters = dimensions(space, rank)
    A, K = ea.tensor("A", (n, c, *letters)), weight("K", c, f, *dimensions(taps, rank))
    forms: dict[str, Form] = {"matmul and selective addition": product_and_addition}
    if phases:
        forms["a dense convolution for every phase"] = every_phase(stride**rank)
    return Example(
        getattr(ops, f"conv_transpose{rank}d")(A, K, stride=stride, padding=padding), forms
    )


def transposed_in_two(n: int, c: int, space: int, f: int) -> Example:
    """A transposed convolution as a product of all taps and a selective addition.

    4x4 taps, stride 2, padding 1.
    """
    out = 2 * space
    A, K = ea.tensor("A", (n, c, space, space)), weight("K", c, f, 4, 4)
    text = (
        "T[r,s,n,f,h,w] += A[n,c,h,w]*K[c,f,r,s]\n"
        f"O = L[n:{n}, f:{f}, h:{out}, w:{out}]"
        "(Sum[r:4, s:4](T.pad(0,0,0,0,1,1)[r,s,n,f,(h-r+1)//2,(w-s+1)//2],"
        " where=((h-r+1)%2==0, (w-s+1)%2==0)))"
    )
    phases = {"a dense convolution for every phase": every_phase(4)}
    return Example(
        ea.parse(text, A=A, K=K), {"matmul and selective addition": product_and_addition, **phases}
    )


# Bands.


def band(op: str, b: int, rows: int, k: int, width: int, dilation: int) -> Example:
    first = (
        ea.tensor("Q", (b, rows, k)) if op == "g2bmm" else ea.tensor("P", (b, rows, 2 * width + 1))
    )
    second = ea.tensor("V", (b, rows, k))
    expression = (
        ops.g2bmm(first, second, width, dilation)
        if op == "g2bmm"
        else ops.gbmm(first, second, width, dilation)
    )
    return Example(expression, {"dense, classes in the batch": dense(op, b=b * dilation)})


def banded_attention(b: int, rows: int, k: int, width: int, dilation: int) -> Example:
    Q, K, V = (ea.tensor(name, (b, rows, k)) for name in "QKV")
    forms = {"g2bmm and gbmm": operators(g2bmm=1, gbmm=1)}
    return Example(ops.banded_attention(Q, K, V, width, dilation), forms)


# Products.


def attention(b: int, rows: int, k: int) -> Example:
    Q, K, V = (ea.tensor(name, (b, rows, k)) for name in "QKV")
    return Example(ops.attention(Q, K, V), {"two products": operators(matmul=2)})


def product(m: int, k: int, n: int, strassen: bool = True) -> Example:
    A, B = ea.tensor("A", (m, k)), ea.tensor("B", (k, n))
    forms = {
        "as it is": only(matmul=1),
        **({"Strassen": factorised(1, b=7, m=m // 2, n=n // 2, k=k // 2)} if strassen else {}),
    }
    return Example(ops.matmul(A, B), forms)


def siblings(count: int, b: int, m: int, k: int, n: int) -> Example:
    """Products that share their left operand."""
    shapes = {"A": (b, m, k), **{f"B{i}": (b, k, n) for i in range(count)}}
    statements = [
        (
            f"O{i}",
            ea.parse(
                f"O{i}[b,i,j] += A[b,i,k]*B{i}[b,k,j]", **{x: shapes[x] for x in ("A", f"B{i}")}
            ),
        )
        for i in range(count)
    ]
    expression = Program(statements, outputs=[name for name, _ in statements])
    return Example(expression, {"one matmul": operators(matmul=1)})


def projections(rows: int, d: int) -> Example:
    """Queries, keys and values of one input."""
    statements = [
        (
            x,
            ea.parse(
                f"{x}[i,j] += X[i,k]*W{x}[k,j]", X=(rows, d), **{f"W{x}": weight(f"W{x}", d, d)}
            ),
        )
        for x in "QKV"
    ]
    return Example(Program(statements, outputs=list("QKV")), {"one matmul": operators(matmul=1)})


def sibling_convolutions(n: int, c: int, space: int, f: int) -> Example:
    """The sum of two convolutions of one input, and the two of them as results."""
    A = ea.tensor("A", (n, c, space, space))
    parts = [
        (name, ops.conv2d(A, weight(f"K{name}", f, c, 3, 3), padding=1)) for name in ("O1", "O2")
    ]
    return Example(
        Program(parts, outputs=["O1", "O2"]), {"one convolution": with_eops("conv2d", f=2 * f)}
    )


def product_order(m: int, k: int, n: int, statements: bool) -> Example:
    """(A·B)·v as A·(B·v)."""
    text = (
        "T[i,j] += A[i,k]*B[k,j]\nO[i] += T[i,j]*v[j]"
        if statements
        else "O[i] += A[i,k]*B[k,j]*v[j]"
    )
    work = m * k + k * n

    def cheap(candidate: Any) -> bool:
        multiplied = [
            k.sizes["b"] * k.sizes["m"] * k.sizes["n"] * k.sizes["k"]
            for k in running(candidate)
            if k.op == "matmul"
        ]
        return operators(matmul=2)(candidate) and sum(multiplied) <= work

    return Example(ea.parse(text, A=(m, k), B=(k, n), v=(n,)), {"A·(B·v)": cheap})


def common_factor(m: int, k: int, n: int) -> Example:
    text = "T[i,j] += A[i,k]*B[k,j]\nU[i,j] += A[i,k]*C[k,j]\nO[i,j] = T[i,j] + U[i,j]"
    return Example(
        ea.parse(text, A=(m, k), B=(k, n), C=(k, n)), {"A·(B + C)": with_eops("matmul", b=1, k=k)}
    )


def distances(m: int, n: int, k: int) -> Example:
    """Squared distances of two sets of points, by the product of their coordinates."""
    return Example(
        ea.parse("O[i,j] += (A[i,k] - B[j,k])**2", A=(m, k), B=(n, k)),
        {"one matmul": operators(matmul=1)},
    )


def real_part(m: int, k: int, n: int) -> Example:
    """The real part of a product of complex matrices."""
    shapes = {"A": (m, k), "B": (m, k), "C": (k, n), "D": (k, n)}
    return Example(
        ea.parse("O[i,j] += A[i,k]*C[k,j] - B[i,k]*D[k,j]", **shapes),
        {"two matmuls": operators(matmul=2)},
    )


def decomposition(a: int, b: int, c: int, rank: int) -> Example:
    """A tensor from its canonical polyadic decomposition.

    Three factors that share the summed index.
    """
    shapes = {"X": (a, rank), "Y": (b, rank), "Z": (c, rank)}
    return Example(
        ea.parse("O[i,j,k] += X[i,r]*Y[j,r]*Z[k,r]", **shapes), {"one matmul": operators(matmul=1)}
    )


# Padding and epilogues around a product.


def normalized(n: int, c: int, space: int, f: int) -> Example:
    """A batch norm after a convolution: its scale in the weights, computed once."""
    first = ops.conv2d(ea.tensor("A", (n, c, space, space)), weight("K", f, c, 3, 3), padding=1)
    channel = [weight(name, f) for name in ("mean", "variance", "gamma", "beta")]
    expression = Program(
        [("T", first), ("O", ops.batch_norm(statement_tensor("T", first), *channel))]
    )

    def folded(candidate: Any) -> bool:
        return [k.op for k in running(candidate)] == ["conv2d", EOP] and any(
            "variance" in k.inputs and "K" in k.inputs for k in candidate.kernels
        )

    return Example(expression, {"folded weights": folded})


def with_bias(n: int, c: int, space: int, f: int) -> Example:
    text = (
        "T[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]\n"
        "O[n,f,h,w] = Max(T[n,f,h,w] + bias[f], 0)"
    )
    A, K = ea.tensor("A", (n, c, space, space)), weight("K", f, c, 3, 3)
    expression = ea.parse(text, A=A, K=K, bias=weight("bias", f))
    return Example(
        expression,
        {
            "conv2d and one eOperator": only(conv2d=1, eop=1),
            "matmul and OffsetAdd": with_eops("matmul", b=1),
        },
    )


def pooling(kind: str, n: int, c: int, space: int, kernel: int, stride: int) -> Example:
    expression = getattr(ops, f"{kind}_pool2d")(
        ea.tensor("A", (n, c, space, space)), kernel, stride=stride
    )
    return Example(
        expression,
        {"as it is": lambda candidate: [k.op for k in candidate.kernels] == [f"{kind}_pool2d"]},
    )


def negative_starts(n: int, c: int, space: int, f: int) -> Example:
    """A convolution whose taps run from -1 to 1."""
    text = (
        f"O = L[n:{n}, f:{f}, h:{space}, w:{space}]"
        f"(Sum[c:{c}, r:-1:2, s:-1:2](A.pad(0,0,1,1)[n,c,h+r,w+s]*K[f,c,r+1,s+1]))"
    )
    A, K = ea.tensor("A", (n, c, space, space)), weight("K", f, c, 3, 3)
    return Example(
        ea.parse(text, A=A, K=K),
        {"matmul and OffsetAdd": product_and_addition, "as it is": only(conv2d=1)},
    )


def _case(
    name: str,
    builder: Callable[..., Example],
    real: Sequence[Any],
    small: Sequence[Any],
    states: int = 16,
    slow: Sequence[str] = (),
    **options: Any,
) -> Case:
    return Case(
        name,
        lambda: builder(*real, **options),
        lambda: builder(*small, **options),
        states,
        tuple(slow),
    )


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        _case(
            "Conv3x3 NCHW", windowed, (1, 512, 7, 512, 3), (1, 2, 3, 2, 3), padding=1, winograd=2
        ),
        _case(
            "Conv3x3 NHWC",
            windowed,
            (1, 512, 7, 512, 3, "last"),
            (1, 2, 3, 2, 3, "last"),
            padding=1,
            winograd=2,
        ),
        _case(
            "Conv3x3 CHWN",
            windowed,
            (1, 512, 7, 512, 3, "batch last"),
            (2, 2, 3, 2, 3, "batch last"),
            padding=1,
        ),
        _case("Conv3x3 large", windowed, (8, 16, 224, 32, 3), (2, 2, 4, 3, 3), padding=1),
        _case(
            "Conv3x3 odd sizes",
            windowed,
            (3, 17, (13, 11), 19, (3, 2)),
            (1, 2, (4, 3), 3, (3, 2)),
            padding=((2, 0), (0, 1)),
        ),
        _case("Conv1x1", unit, (1, 512, 7, 512), (2, 2, 3, 3)),
        _case("Conv1x7", windowed, (1, 128, 17, 128, (1, 7)), (2, 2, 5, 3, (1, 7)), padding=(0, 3)),
        _case("Conv7x1", windowed, (1, 128, 17, 128, (7, 1)), (2, 2, 5, 3, (7, 1)), padding=(3, 0)),
        _case("Conv5x5", windowed, (16, 32, 56, 32, 5), (1, 2, 6, 2, 5), padding=2, winograd=2),
        _case("Conv6x6", windowed, (1, 32, 28, 32, 6), (1, 2, 6, 2, 6), padding=2),
        _case("Conv9x9", windowed, (1, 32, 28, 32, 9), (1, 2, 5, 2, 9), padding=4),
        _case("Conv5x5 as Conv3x3", smaller, (16, 32, 224, 1, 5, 3), (2, 2, 5, 1, 5, 3), 80),
        _case("Conv9x9 as Conv3x3", smaller, (1, 32, 56, 32, 9, 3), (1, 2, 4, 2, 9, 3), 30),
        _case("Conv3x3 stride 2", strided, (1, 64, 28, 64, 3, 2), (1, 2, 6, 3, 3, 2)),
        _case("Conv7x7 stride 2", strided, (1, 3, 224, 64, 7, 2), (1, 2, 8, 2, 7, 2)),
        _case(
            "Conv3x3 stride 3 NHWC",
            strided,
            (1, 31, 29, 37, 3, 3, "last"),
            (1, 2, 7, 3, 3, 3, "last"),
        ),
        _case("Conv3x3 dilation 2", dilated, (1, 512, 14, 512, 2), (1, 2, 4, 2, 2), 40),
        _case(
            "Conv3x3 dilation 3 NHWC",
            dilated,
            (1, 64, 27, 64, 3, "last"),
            (1, 2, 6, 2, 3, "last"),
            30,
        ),
        _case(
            "Conv3x3 stride 2 dilation 3",
            strided_and_dilated,
            (1, 64, 41, 64, 2, 3),
            (1, 2, 9, 2, 2, 3),
        ),
        _case(
            "Conv3x3 stride 2 dilation 4 NHWC",
            strided_and_dilated,
            (1, 61, 44, 64, 2, 4, "last"),
            (1, 2, 10, 2, 2, 4, "last"),
        ),
        _case("Conv3x3 groups", grouped, (1, 128, 14, 128, 4), (1, 4, 3, 6, 2)),
        _case("depthwise Conv3x3", depthwise, (1, 128, 28), (1, 3, 4)),
        _case("Conv5x5 of one output channel", few_outputs, (16, 32, 224), (1, 2, 5)),
        _case(
            "Conv1d",
            windowed,
            (4, 61, 127, 67, 5, "first", 1),
            (1, 2, 7, 3, 5, "first", 1),
            padding=2,
        ),
        _case(
            "Conv3d",
            windowed,
            (1, 16, 14, 16, 3, "first", 3),
            (1, 2, 3, 2, 3, "first", 3),
            padding=1,
        ),
        _case("Conv3x3, taps from -1", negative_starts, (1, 64, 14, 64), (1, 2, 4, 2)),
        _case("ConvTranspose", transposed, (16, 448, 2, 256, 4, 2, 1), (1, 2, 2, 2, 4, 2, 1)),
        _case("ConvTranspose, two scopes", transposed_in_two, (16, 448, 2, 256), (1, 32, 2, 8)),
        _case(
            "ConvTranspose 1d stride 3",
            transposed,
            (4, 64, 31, 48, 5, 3, 1, 1),
            (1, 2, 4, 2, 5, 3, 1, 1),
        ),
        _case(
            "ConvTranspose 3d",
            transposed,
            (1, 16, 7, 8, 2, 2, 0, 3),
            (1, 2, 2, 2, 2, 2, 0, 3),
            8,
            ["matmul and selective addition"],
        ),
        _case(
            "G2BMM dilation 4", band, ("g2bmm", 8, 10000, 64, 1000, 4), ("g2bmm", 2, 12, 3, 2, 4)
        ),
        _case(
            "G2BMM dilation 4, narrow",
            band,
            ("g2bmm", 8, 10000, 64, 32, 4),
            ("g2bmm", 1, 11, 3, 1, 4),
        ),
        _case("GBMM dilation 4", band, ("gbmm", 8, 10000, 64, 1000, 4), ("gbmm", 2, 12, 3, 2, 4)),
        _case(
            "GBMM dilation 4, narrow", band, ("gbmm", 8, 10000, 64, 32, 4), ("gbmm", 1, 11, 3, 1, 4)
        ),
        _case("G2BMM dilation 3", band, ("g2bmm", 3, 1001, 17, 7, 3), ("g2bmm", 1, 10, 2, 2, 3)),
        _case("matmuls of one input", siblings, (2, 8, 128, 64, 32), (2, 2, 3, 4, 5)),
        _case("projections", projections, (512, 512), (3, 4)),
        _case("convolutions of one input", sibling_convolutions, (1, 64, 28, 64), (1, 2, 4, 3), 3),
        _case("(A·B)·v", product_order, (512, 1024, 2048, True), (3, 4, 5, True)),
        _case("A·B·v in one sum", product_order, (512, 1024, 2048, False), (3, 4, 5, False)),
        _case("A·B + A·C", common_factor, (512, 1024, 2048), (3, 4, 5)),
        _case("squared distances", distances, (500, 301, 64), (5, 4, 3)),
        _case("real part of a product", real_part, (256, 200, 128), (3, 4, 5)),
        _case("canonical polyadic decomposition", decomposition, (64, 50, 31, 17), (3, 4, 5, 2)),
        _case("matmul 256", product, (256, 256, 256), (16, 16, 16, False)),
        _case("matmul of primes", product, (61, 67, 71), (3, 5, 7), strassen=False),
        _case(
            "batch norm after Conv3x3",
            normalized,
            (1, 64, 28, 64),
            (1, 2, 4, 3),
            10,
            ["folded weights"],
        ),
        _case("bias and relu after Conv3x3", with_bias, (1, 64, 28, 64), (1, 2, 4, 3)),
        _case("attention", attention, (12, 512, 64), (2, 4, 3)),
        _case("banded attention", banded_attention, (12, 4096, 64, 256, 1), (2, 8, 3, 2, 1)),
        _case("max pooling", pooling, ("max", 1, 64, 56, 3, 2), ("max", 1, 2, 7, 3, 2)),
        _case("average pooling", pooling, ("avg", 1, 64, 56, 3, 2), ("avg", 1, 2, 7, 3, 2)),
    )
}
