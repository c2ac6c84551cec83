"""Products with a statement over the results of each batch, as one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import For, Function, Outlined, walk
from codegen.program.compile import compile_program
from codegen.tuning.spaces import contraction as contraction_spaces
from codegen.tuning.spaces.slices import SlicesSpace, with_slice_reader
from codegen.tuning.spaces.space import CodeCandidate
from codegen.tuning.spaces.unit import CodeUnit
from derive.matching import kernels_of, match
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program, as_program, in_double
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

ONE_CORE = CpuModel(vector=32, registers=16)
TWO_CORES = replace(ONE_CORE, cores=2)
LEFT = ("b,h,i,k", "b,i,h,k", "h,b,i,k", "b,i,k,h")
RIGHT = ("b,h,j,k", "b,j,h,k", "b,h,k,j", "b,j,k,h")
ROWS = (
    "O[b,h,i,j] = exp(T[b,h,i,j] - Max[r](T[b,h,i,r]))",
    "O[b,h,i,j] = exp(T[b,h,i,j] - Max[r](T[b,h,i,r]))"
    "/Sum[q](exp(T[b,h,i,q] - Max[r](T[b,h,i,r])))",
    "O[b,h,i,j] = (T[b,h,i,j] - Sum[r](T[b,h,i,r])/7)*C[j] + D[b,i]",
    "O[b,h,i,j] = T[b,h,i,j]/(1 + Sum[r](T[b,h,r,j]**2))",
    "O[b,h,i] = Max[j](T[b,h,i,j])",
    "O[b,h,j,i] = T[b,h,i,j] + Sum[r](T[b,h,i,r]*D[b,r])*j",
)
BETWEEN = (
    "",
    "T[b,h,i,j] = S[b,h,i,j]/8",
    "T[b,h,i,j] = S[b,h,i,j]*W[b,h,i,j] + C[j]",
    "T[b,h,i,j] = Max(S[b,h,i,j], 0) + W[b,i,j]",
    "T[b,h,i,j] = S[b,h,i,j] + W[i,j,h]",
    "T[b,h,i,j] = S[b,h,i,j] + W[h]",
)


@dataclass(frozen=True)
class Chain:
    """A product, what is computed of each of its elements, and rows over the results."""

    program: Program

    def unit(self) -> CodeUnit:
        (name, scope), *readers = self.program.statements
        kernel = match(scope, name) or Kernel(EOP, {}, tuple(scope.tensors), name)
        return CodeUnit(kernel, scope, readers=tuple(readers))

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(3)
        return {
            name: rng.standard_normal(t.shape).astype(np.float32)
            for name, t in self.program.inputs.items()
        }


def chain(sizes: Mapping[str, int], left: str, right: str, between: str, rows: str) -> Chain:
    used = {**sizes, "r": sizes["j"], "q": sizes["j"]}
    if "T[b,h,r,j]" in rows:
        used["r"] = sizes["i"]
    text = f"S[b,h,i,j] += A[{left}]*B[{right}]\n{between}\n{rows}"
    if not between:
        text = text.replace("S[", "T[")
    shapes = {"A": left, "B": right, "C": "j", "D": "b,i" if "D[b,i]" in rows else "b,r"}
    for form in ("b,h,i,j", "b,i,j", "i,j,h", "h"):
        if f"W[{form}]" in between:
            shapes["W"] = form
    tensors = {}
    for name, axes in shapes.items():
        if f"{name}[" in text:
            tensors[name] = tuple(used[axis] for axis in axes.split(","))
    return Chain(as_program(ea.parse("\n".join(filter(None, text.split("\n"))), **tensors)))


@st.composite
def chains(draw: Any) -> Chain:
    sizes = {
        "b": draw(st.sampled_from((1, 2, 3))),
        "h": draw(st.sampled_from((2, 4, 5))),
        "i": draw(st.integers(2, 17)),
        "j": draw(st.integers(2, 40)),
        "k": draw(st.integers(2, 19)),
    }
    parts = [draw(st.sampled_from(choices)) for choices in (LEFT, RIGHT, BETWEEN, ROWS)]
    return chain(sizes, *parts)


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction_spaces, "MIN_WORK", 1)


def found(case: Chain, machine: CpuModel = ONE_CORE) -> CodeCandidate | None:
    """The contraction with its readers, though loops might cost less by the model."""
    unit = case.unit()
    space = contraction_spaces.contraction_space(unit, machine)
    if space is None:
        return None
    candidate: CodeCandidate | None = CodeCandidate(space, space.start())
    for reader in unit.readers:
        if candidate is not None:
            own = candidate.with_epilogue(reader)
            candidate = own or with_slice_reader(unit, candidate, reader)
    return candidate


@settings(max_examples=batches(3), phases=UNSHRUNK)
@given(st.lists(chains(), min_size=6, max_size=10), st.integers(0, 1 << 16))
def test_chains_are_one_kernel(cases: list[Chain], seed: int) -> None:
    """Whatever reads a slice of the results, and at the start of their space as at other points."""
    rng, kept = Random(seed), list[Chain]()
    functions: list[Function] = []
    for case in cases:
        candidate = found(case)
        event(candidate.space.name if candidate else "apart")
        if candidate is None:
            continue
        space, point = candidate.space, candidate.point
        assert isinstance(space, SlicesSpace)
        assert sum(isinstance(node, Outlined) for node in walk(candidate.build())) == 1
        for _ in range(3):
            kept.append(case)
            functions.append(space.build(point))
            point = space.sample(rng)
            if not space.fits(point):
                point = space.start()
            assert space.cycles(point) > 0
    assert len(kept) >= len(cases)  # a third of them, of three points each
    outputs = run_functions(functions, [case.arrays() for case in kept], cc=spread_compiler)
    for case, values in zip(kept, outputs):
        expected = execute(in_double(case.program), case.arrays())["O"]
        scale = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(
            values, expected, rtol=2e-5, atol=2e-5 * scale, err_msg=str(case.program)
        )


SIZES = {"b": 2, "h": 3, "i": 8, "j": 12, "k": 16}


@pytest.mark.parametrize(
    "rows",
    [
        "O[b,h,i,j] = T[b,h,i,j]/Sum[r](T[b,2 - h,i,r])",  # another slice
        "O[b,h,i,j] = T[b,h,i,j]*h/Sum[r](T[b,h,i,r])",  # the number of a slice
        "O[h,b,i,j] = T[b,h,i,j]/Sum[r](T[b,h,i,r])",  # in another order
        "O[b,i,h,j] = T[b,h,i,j]/Sum[r](T[b,h,i,r])",
        "O[b,h,i,j] = T[b,h,i,j]*D[h,h]/Sum[r](T[b,h,i,r])",  # a diagonal
        "O[b,i,j] = Max[r:3](T[b,r,i,j])",  # of all slices
    ],
)
def test_what_reads_no_slices_is_apart(rows: str) -> None:
    text = f"T[b,h,i,j] += A[b,h,i,k]*B[b,h,k,j]\n{rows}"
    shapes: dict[str, Any] = {"A": (2, 3, 8, 16), "B": (2, 3, 16, 12), "D": (3, 3)}
    if "D[" not in rows:
        del shapes["D"]
    case = Chain(as_program(ea.parse(text.replace("[r](", "[r:12]("), **shapes)))
    assert found(case) is None


def test_a_batch_that_no_cache_holds_is_apart() -> None:
    case = chain(SIZES, LEFT[0], RIGHT[0], "", ROWS[1])
    assert found(case, replace(ONE_CORE, level2=4 * 8 * 12 * 4)) is not None
    assert found(case, replace(ONE_CORE, level2=8 * 12 * 4)) is None


def test_threads_share_batches_that_keep_them_busy() -> None:
    case = chain({**SIZES, "i": 64, "j": 64, "k": 64}, LEFT[0], RIGHT[0], "", ROWS[1])
    best = found(case, TWO_CORES)
    assert best is not None
    (loop,) = [node for node in walk(best.build()) if isinstance(node, For) and node.kind == "par"]
    assert loop.extent == 6
    assert found(case, replace(ONE_CORE, cores=4)) is not None  # 6 batches in two turns of four
    assert found(case, replace(ONE_CORE, cores=5)) is None
    alone = chain({**SIZES, "b": 1, "h": 1}, LEFT[0], RIGHT[0], "", ROWS[1])
    assert found(alone, ONE_CORE) is None


def test_numbers_of_both_parts_are_chosen_by_their_names() -> None:
    best = found(chain(SIZES, LEFT[0], RIGHT[0], BETWEEN[1], ROWS[1]))
    assert best is not None
    space, (tiling, loops) = best.space, best.point.parts
    rows, unroll = (
        space.with_values(best.point, values) for values in ({"rows": 3}, {"unroll": 16})
    )
    assert rows.parts == (replace(tiling, rows=3), loops)
    assert unroll.parts == (tiling, replace(loops, unroll=16))
    assert space.with_values(best.point, {"unroll": 16}, part=1) == unroll
    for part in (0, 2):
        with pytest.raises(ValueError, match=r"part|unroll"):
            space.with_values(best.point, {"unroll": 16}, part=part)
    assert space.read({"parts": [vars(tiling), vars(loops)]}) == best.point


def test_a_program_has_one_kernel_for_scores_and_their_softmax() -> None:
    """Also where they are scaled in a statement of their own; its values are right."""
    for between in BETWEEN:
        case = chain({**SIZES, "i": 40, "j": 50}, LEFT[1], RIGHT[1], between, ROWS[1])
        program = case.program
        kernels = kernels_of(program)
        run = compile_program(program, kernels, compiler=quick_compiler(), compares=False)
        assert len(run.kernels) == 1 and run.workspace == 0
        arrays = case.arrays()
        expected = execute(in_double(program), arrays)["O"]
        np.testing.assert_allclose(run(**arrays), expected, rtol=2e-5, atol=1e-6)
