"""Contractions and convolutions of odd sizes, and mutants of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from hypothesis import Phase
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.contraction.cost_model import (
    orders,
    plan,
    tilings,
)
from codegen.kernels.contraction.nest.loop_nest import contraction_function
from codegen.kernels.contraction.problem import contraction_of
from derive.matching import match
from einalg.language import ops
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.scope import Scope

SMALL = CpuModel(
    vector=16, registers=7, level1=512, level2=2048, cores=2
)  # so small that every loop is blocked


SIZES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 13, 17, 33))


AHEAD = st.sampled_from(
    ((), ("A",), ("B", "K"), ("A", "B"))
)  # operands that are known before a run


UNSHRUNK = (Phase.explicit, Phase.generate)  # every example costs a run of the compiler


b, m, n, k, p, q = ea.indices("b m n k p q")


@dataclass(frozen=True)
class Case:
    scope: Scope
    choice: int = -1  # of the tilings; the model's own where negative
    dtype: str = "f32"
    parallel: bool = False
    ahead: tuple[str, ...] = ()

    def function(self, machine: CpuModel = SMALL) -> Function:
        kernel = match(self.scope, "O")
        assert kernel is not None
        found = contraction_of(kernel, self.scope, self.dtype, self.ahead)
        assert found is not None
        best = plan(found, machine)
        assert best is not None
        if self.choice < 0:
            return contraction_function(*best, parallel=self.parallel)
        ways = [(way, t) for way in orders(found) for t in tilings(way, machine)]
        way, tiling = ways[self.choice % len(ways)]
        most = way.depth[0].extent if way.depth else 1
        apart = self.choice % 7 > 3
        depth = 1 + self.choice % most if apart or way.target.buf.dtype == self.dtype else most
        sizes = {"depth": depth, "block": 1 + self.choice % 5, "group": 1 + self.choice % 3}
        return contraction_function(
            way, replace(tiling, **sizes, apart=apart), parallel=self.parallel
        )

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(5)
        return {
            name: rng.integers(0 if t.dtype[0] == "u" else -3, 4, t.shape).astype(
                numpy_dtype(t.dtype)
            )
            for name, t in self.scope.tensors.items()
        }


@st.composite
def products(draw: Any) -> Case:
    """Products of matrices: any order of axes, one or two for a letter, steps, offsets and reversed
    axes.
    """
    letters = {b: "lro", m: "lo", p: "lo", n: "ro", k: "lr", q: "lr"}
    kept = [i for i in letters if i in (n, k) or draw(st.booleans())]
    sizes = {
        i: draw(SIZES.filter(lambda s: s < 20)) if i in (b, p, q) else draw(SIZES) for i in kept
    }
    dtype = draw(st.sampled_from(("f32", "f32", "f64")))

    def operand(name: str, side: str) -> Any:
        axes = draw(st.permutations([i for i in kept if side in letters[i]]))
        steps = {i: draw(st.sampled_from((1, 1, 1, 2, -1))) for i in axes}
        shift = {i: draw(st.integers(0, 2)) for i in axes}
        subscripts = [steps[i] * i + shift[i] + (sizes[i] - 1 if steps[i] < 0 else 0) for i in axes]
        return ea.tensor(name, [sizes[i] * abs(steps[i]) + shift[i] for i in axes], dtype)[
            tuple(subscripts)
        ]

    body = operand("A", "l") * operand("B", "r")
    summed = tuple(slice(i, sizes[i]) for i in kept if "o" not in letters[i])
    out = draw(st.permutations([slice(i, sizes[i]) for i in kept if "o" in letters[i]]))
    return Case(
        ea.L[tuple(out)](ea.Sum[summed](body)),
        draw(st.integers(-20, 400)),
        dtype,
        draw(st.booleans()),
        draw(AHEAD),
    )


@st.composite
def convolutions(draw: Any) -> Case:
    """Convolutions of any rank, layout, stride, dilation, padding and groups."""
    rank = draw(st.sampled_from((1, 2, 2, 2, 3)))
    letters = "DHW"[3 - rank :]
    few = st.integers(1, 3)
    groups, taps = draw(st.sampled_from((1, 1, 2))), [draw(few) for _ in letters]
    stride, dilation = (
        [draw(st.integers(1, 2)) for _ in letters],
        [draw(st.integers(1, 2)) for _ in letters],
    )
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in letters]
    space = [draw(st.integers(5, 9 if rank == 3 else 19)) for _ in letters]
    sizes = {
        "N": draw(few),
        "C": groups * draw(st.sampled_from((1, 2, 5))),
        "O": groups * draw(st.sampled_from((1, 3, 4, 9))),
    }
    layout, weights = draw(
        st.sampled_from(
            (
                (f"NC{letters}", f"OI{letters}"),
                (f"N{letters}C", f"{letters}IO"),
                (f"C{letters}N", f"I{letters}O"),
            )
        )
    )
    A = ea.tensor("A", [{**sizes, **dict(zip(letters, space))}[x] for x in layout])
    K = ea.tensor(
        "K", [{**sizes, "I": sizes["C"] // groups, **dict(zip(letters, taps))}[x] for x in weights]
    )
    options = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "groups": groups,
        "layout": layout,
        "weight_layout": weights,
    }
    return Case(
        getattr(ops, f"conv{rank}d")(A, K, **options),
        draw(st.integers(-20, 400)),
        parallel=draw(st.booleans()),
        ahead=draw(AHEAD),
    )


def mutants(node: Any, change: Any) -> Any:
    """A function changed at one place, for every place where a change applies."""
    changed = change(node)
    if changed is not None:
        yield changed
    if is_dataclass(node) and not isinstance(node, type):
        for field in fields(node):
            value = getattr(node, field.name)
            for position, part in enumerate(value if isinstance(value, tuple) else ()):
                if is_dataclass(part):
                    for other in mutants(part, change):
                        yield replace(
                            node, **{field.name: (*value[:position], other, *value[position + 1 :])}
                        )
