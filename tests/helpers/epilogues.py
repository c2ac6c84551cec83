"""Contractions with epilogues, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
from hypothesis import strategies as st

import einalg as ea
from codegen.ir.nodes import Function
from codegen.kernels.contraction.cost_model import orders, tilings
from codegen.kernels.contraction.nest.loop_nest import contraction_function
from codegen.kernels.contraction.problem import Contraction, contraction_of
from codegen.kernels.contraction.statements.epilogue import contraction_with_epilogue
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.source_file import c_source
from derive.matching import match
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double
from einalg.language.ir.scope import Scope
from tests.helpers.contractions import SMALL
from tests.helpers.kernels import run_functions, spread_compiler


@dataclass(frozen=True)
class Finished:
    """A contraction, and the statement `O` that reads its results `T`."""

    case: Any
    reader: Scope

    @property
    def program(self) -> Program:
        return Program([("T", self.case.scope), ("O", self.reader)], ("O",))

    @property
    def whole(self) -> Contraction | None:
        kernel = match(self.case.scope, "T")
        found = (
            contraction_of(kernel, self.case.scope, self.case.dtype, self.case.ahead)
            if kernel
            else None
        )
        assert found is not None
        return contraction_with_epilogue(found, "O", self.reader)

    def function(self) -> Function | None:
        whole = self.whole
        assert whole is not None
        ways = [(way, t) for way in orders(whole) for t in tilings(way, SMALL)]
        way, tiling = ways[self.case.choice % len(ways)]
        most = way.depth[0].extent if way.depth else 1
        sizes = {
            "depth": 1 + self.case.choice % most,
            "block": 1 + self.case.choice % 5,
            "group": 1 + self.case.choice % 3,
        }
        return contraction_function(
            way,
            replace(tiling, **sizes, apart=self.case.choice % 7 > 3),
            parallel=self.case.parallel,
        )

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(7)
        dtype = np.float64 if self.case.dtype == "f64" else np.float32
        return {
            name: rng.integers(-3, 4, t.shape).astype(dtype)
            for name, t in self.program.inputs.items()
        }


@st.composite
def statements(draw: Any, results: Scope, dtype: str) -> Scope:
    """Statements that read every result `T` once: in another order of axes, axes split into two,
    beside tensors of other forms.
    """
    shape = results.shape
    T = ea.tensor("T", results.box, dtype, role="intermediate")
    names = iter(ea.indices(" ".join(f"i{k}" for k in range(2 * len(shape)))))
    ranges, subscripts = [], []
    for size in shape:
        inner = draw(st.sampled_from([n for n in (1, 2, 3, 4) if size % n == 0]))
        outer, index = next(names), next(names)
        split = inner > 1 and size > inner
        ranges += (
            [slice(outer, size // inner), slice(index, inner)] if split else [slice(outer, size)]
        )
        subscripts.append(outer * inner + index if split else outer)
    order = draw(st.permutations(ranges))
    body: Any = T[tuple(subscripts)]
    for name in draw(st.sampled_from(("", "C", "CR"))):
        walked = draw(
            st.lists(st.sampled_from(ranges), unique_by=lambda r: r.start, max_size=len(ranges))
        )
        step = draw(st.integers(1, 2))

        tensor = ea.tensor(name, [r.stop * step for r in walked] or [3], dtype)
        body = body + tensor[tuple(r.start * step for r in walked) or (1,)]
    kind = draw(st.sampled_from(("plain", "max", "twice", "piecewise")))
    if kind == "max":
        body = ea.Max(body, 0)
    elif kind == "twice":
        body = body * 2 - T[tuple(subscripts)]
    elif kind == "piecewise":
        body = sympy.Piecewise((body, body > 1), (3 - body, True))
    return ea.L[tuple(order)](body)


def check_finished(
    found: Sequence[Finished], cc: Compiler | Callable[[str], Compiler] = spread_compiler
) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    functions, arrays = [case.function() for case in found], [case.arrays() for case in found]
    assert all(functions)
    outputs = run_functions(functions, arrays, cc=cc)
    for case, function, given_arrays, values in zip(found, functions, arrays, outputs):
        expected = execute(in_double(case.program), given_arrays)["O"]
        assert np.array_equal(values.astype(np.float64), expected), (
            f"{case.program}\n{c_source([function])}"
        )
