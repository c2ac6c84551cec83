"""Generated contractions: every order of axes, edge and blocking, against NumPy in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.c_printer import c_source
from codegen.contract import contract
from codegen.contraction import contraction_of
from codegen.ir import Function
from codegen.machine import Machine
from codegen.tiling import ordered, plan, tilings
from derive.matching import match
from einalg import ops
from einalg.dtypes import numpy_dtype
from einalg.execute import execute
from einalg.program import as_program
from einalg.scope import Scope
from tests.codegen.harness import run_functions

SMALL = Machine(vector=16, registers=7, level1=512, level2=2048, cores=2)  # so small that every loop is blocked
SIZES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 13, 17, 33))
UNSHRUNK = (Phase.explicit, Phase.generate)  # every example costs a run of the compiler
b, m, n, k, p, q = ea.indices("b m n k p q")


@dataclass(frozen=True)
class Case:
    scope: Scope
    choice: int = -1  # of the tilings; the model's own where negative
    dtype: str = "f32"
    parallel: bool = False

    def function(self, machine: Machine = SMALL) -> Function:
        kernel = match(self.scope, "O")
        assert kernel is not None
        found = contraction_of(kernel, self.scope, self.dtype)
        assert found is not None
        best = plan(found, machine)
        assert best is not None
        if self.choice < 0:
            return contract(*best, parallel=self.parallel)
        ways = [(way, t) for way in (ordered(found), ordered(found.swapped())) for t in tilings(way, machine)]
        way, tiling = ways[self.choice % len(ways)]
        depth = 1 + self.choice % (way.depth[0].extent if way.depth else 1)
        return contract(way, replace(tiling, depth=depth, block=1 + self.choice % 5), parallel=self.parallel)

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(5)
        return {name: rng.integers(-3, 4, t.shape).astype(numpy_dtype(t.dtype)) for name, t in self.scope.tensors.items()}


def check(cases: Sequence[Case], machine: Machine = SMALL) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    arrays = [case.arrays() for case in cases]
    for case, given_arrays, found in zip(cases, arrays, run_functions([case.function(machine) for case in cases], arrays)):
        exact = {name: a.astype(np.float64) for name, a in given_arrays.items()}
        expected = execute(as_program(case.scope), exact)["O"]
        assert np.array_equal(found.astype(np.float64), expected), f"{case}\n{c_source([case.function(machine)])}"


@st.composite
def products(draw: Any) -> Case:
    """Products of matrices: any order of axes, one or two for a letter, steps, offsets and reversed axes."""
    letters = {b: "lro", m: "lo", p: "lo", n: "ro", k: "lr", q: "lr"}
    kept = [i for i in letters if i in (n, k) or draw(st.booleans())]
    sizes = {i: draw(SIZES.filter(lambda s: s < 20)) if i in (b, p, q) else draw(SIZES) for i in kept}
    dtype = draw(st.sampled_from(("f32", "f32", "f64")))

    def operand(name: str, side: str) -> Any:
        axes = draw(st.permutations([i for i in kept if side in letters[i]]))
        steps = {i: draw(st.sampled_from((1, 1, 1, 2, -1))) for i in axes}
        shift = {i: draw(st.integers(0, 2)) for i in axes}
        subscripts = [steps[i] * i + shift[i] + (sizes[i] - 1 if steps[i] < 0 else 0) for i in axes]
        return ea.tensor(name, [sizes[i] * abs(steps[i]) + shift[i] for i in axes], dtype)[tuple(subscripts)]

    body = operand("A", "l") * operand("B", "r")
    summed = tuple(slice(i, sizes[i]) for i in kept if "o" not in letters[i])
    out = draw(st.permutations([slice(i, sizes[i]) for i in kept if "o" in letters[i]]))
    return Case(ea.L[tuple(out)](ea.Sum[summed](body)), draw(st.integers(-20, 400)), dtype, draw(st.booleans()))


@st.composite
def convolutions(draw: Any) -> Case:
    """Convolutions of any rank, layout, stride, dilation, padding and groups."""
    rank = draw(st.sampled_from((1, 2, 2, 2, 3)))
    letters = "DHW"[3 - rank :]
    few = st.integers(1, 3)
    groups, taps = draw(st.sampled_from((1, 1, 2))), [draw(few) for _ in letters]
    stride, dilation = [draw(st.integers(1, 2)) for _ in letters], [draw(st.integers(1, 2)) for _ in letters]
    padding = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in letters]
    space = [draw(st.integers(5, 9 if rank == 3 else 19)) for _ in letters]
    sizes = {"N": draw(few), "C": groups * draw(st.sampled_from((1, 2, 5))), "O": groups * draw(st.sampled_from((1, 3, 4, 9)))}
    layout, weights = draw(st.sampled_from(((f"NC{letters}", f"OI{letters}"), (f"N{letters}C", f"{letters}IO"), (f"C{letters}N", f"I{letters}O"))))
    A = ea.tensor("A", [{**sizes, **dict(zip(letters, space))}[x] for x in layout])
    K = ea.tensor("K", [{**sizes, "I": sizes["C"] // groups, **dict(zip(letters, taps))}[x] for x in weights])
    options = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups, "layout": layout, "weight_layout": weights}
    return Case(getattr(ops, f"conv{rank}d")(A, K, **options), draw(st.integers(-20, 400)), parallel=draw(st.booleans()))


def is_plain(case: Case) -> bool:
    """Whether the scope is matched as an operator that is a contraction with something to lay side by side."""
    kernel = match(case.scope, "O")
    found = contraction_of(kernel, case.scope, case.dtype) if kernel else None
    return found is not None and plan(found, SMALL) is not None and (case.choice < 0 or bool(found.columns or found.rows))


@settings(max_examples=6, phases=UNSHRUNK)
@given(st.lists(products().filter(is_plain), min_size=6, max_size=12))
def test_products(cases: list[Case]) -> None:
    check(cases)


@settings(max_examples=6, phases=UNSHRUNK)
@given(st.lists(convolutions().filter(is_plain), min_size=4, max_size=8))
def test_convolutions(cases: list[Case]) -> None:
    check(cases)
