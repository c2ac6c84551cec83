"""Small windows are written out, each term with its condition: any type, reduction and geometry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from einalg.language.ir.program import Program, as_program
from tests.helpers.batches import batches
from tests.helpers.cuda_kernels import functions, run_programs
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernels import check, evaluated

DTYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "u8")
BODIES = ("{A}", "{A}*W[r,s]", "Abs({A} - B[i,j])")
OPERATORS = ("Sum", "Max", "Min")
WINDOWS = st.tuples(
    st.sampled_from(DTYPES),
    st.sampled_from(OPERATORS),
    st.sampled_from(BODIES),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),  # taps
    st.tuples(st.integers(1, 9), st.integers(1, 9)),  # of the input
    st.tuples(st.integers(0, 3), st.integers(0, 3)),  # padding before
    st.tuples(st.integers(1, 3), st.integers(1, 2)),  # stride, dilation
    st.sampled_from(["", "Eq((i + r)%2, 0)", "r + s <= i + 1"]),
)


def window(
    dtype: str, operator: str, body: str, taps: Any, size: Any, padding: Any, steps: Any, where: str
) -> Program:
    """A reduction over the windows of an image, some of which reach beyond its edges."""
    (stride, dilation), out = steps, (size[0] // steps[0] + 1, size[1] + 1)
    last = (stride * (out[0] - 1) + dilation * (taps[0] - 1), out[1] - 1 + taps[1] - 1)
    pads = []
    for before, largest, extent in zip(padding, last, size):
        pads.append((before, max(0, largest - before - extent + 1)))
    read = (
        f"A.pad({pads[0]},{pads[1]})"
        f"[{stride}*i + {dilation}*r - {padding[0]}, j + s - {padding[1]}]"
    )
    condition = f", where=({where},)" if where else ""
    text = (
        f"O[i:{out[0]},j:{out[1]}] = "
        f"{operator}[r:{taps[0]},s:{taps[1]}]({body.format(A=read)}{condition})"
    )
    shapes = {"A": size, "W": taps, "B": out}
    tensors: dict[str, Any] = {}
    for name, shape in shapes.items():
        if name == "A" or f"{name}[" in text:
            tensors[name] = ea.tensor(name, shape, dtype)
    return as_program(ea.parse(text, **tensors))


@settings(max_examples=batches(2), deadline=None)
@given(st.lists(WINDOWS, min_size=8, max_size=8))
def test_values(drawn: list[Any]) -> None:
    programs = [window(*geometry) for geometry in drawn]
    arrays = [arrays_for(f"window {place}", program) for place, program in enumerate(programs)]
    found = run_programs(programs, arrays, orders=(0, 7))
    for program, inputs, values in zip(programs, arrays, found):
        check(program, evaluated(program, inputs), values)


def test_no_loop_is_left_of_a_window() -> None:
    program = ea.parse("O[i,j] += A.pad(1,2)[i+r-1,j+s-2]*W[r,s]", A=(20, 30), W=(3, 5))
    (function,) = functions(program)
    looped = functions(program, replace(CUDA_DEFAULT, guarded_terms=14))[0]
    assert "for (int r" not in ea.derive(program, states=0, measure=False).best.source("cuda")
    assert len(str(looped)) < len(str(function))


def test_what_does_not_contribute_is_not_added() -> None:
    program = ea.parse("O[i] = Sum[r:3](A.pad(1)[i+r-1], where=(i+r >= 2,))", A=(6,))
    elements = np.array([np.nan, 1, 2, 3, 4, 5], "f4")
    (values,) = run_programs([as_program(program)], [{"A": elements}])
    np.testing.assert_array_equal(values["O"], [1, 3, 6, 9, 12, 9])
