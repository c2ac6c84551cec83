"""Transposed convolutions as contractions of their phases: every stride, dilation, padding, layout
and number of groups, alone and with a statement that reads the results, against NumPy in double
precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import Function
from codegen.kernels.contraction.cost_model import plan
from codegen.kernels.contraction.nest.loop_nest import joint_function
from codegen.kernels.contraction.statements.phases import phase_contractions
from codegen.program.compile import compile_program
from codegen.tuning.spaces.contraction import phases_space
from codegen.tuning.spaces.unit import CodeUnit
from derive.matching import kernels_of, match, templates
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double
from einalg.language.ir.scope import Scope
from tests.helpers.contractions import SMALL, UNSHRUNK
from tests.helpers.epilogues import statements
from tests.helpers.kernels import quick_compiler, run_functions, spread_compiler

RANKS = {1: "W", 2: "HW", 3: "DHW"}
TEMPLATES = [t for rank in RANKS for t in templates(f"conv_transpose{rank}d")]
WIDE = CpuModel(64, 32, cores=2)


@dataclass(frozen=True)
class Case:
    """A transposed convolution `T`, and the statement `O` that reads its results, if any."""

    scope: Scope
    reader: Scope | None = None
    machine: CpuModel = SMALL
    is_parallel: bool = False
    constants: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        rows = [("T", self.scope)]
        if self.reader is not None:
            rows.append(("O", self.reader))
        return Program(rows, (rows[-1][0],))

    @cached_property
    def function(self) -> Function | None:
        kernel = match(self.scope, "T", TEMPLATES)
        if kernel is None:
            return None
        epilogue = None
        if self.reader is not None:
            epilogue = "O", self.reader
        contractions = phase_contractions(kernel, self.scope, "f32", self.constants, epilogue)
        if contractions is None:
            return None
        parts = []
        for contraction in contractions:
            part = plan(contraction, self.machine)
            if part is None:
                return None
            parts.append(part)
        return joint_function(parts, parallel=self.is_parallel)


def check(cases: list[Case]) -> None:
    """The sums of small integers are exact, so all that is right is equal."""
    rng = np.random.default_rng(7)
    functions: list[Function] = []
    arrays: list[dict[str, Any]] = []
    for case in cases:
        function = case.function
        assert function is not None, case
        functions.append(function)
        inputs = case.program.inputs.items()
        arrays.append({n: rng.integers(-3, 4, t.shape).astype(np.float32) for n, t in inputs})
    outputs = run_functions(functions, arrays, cc=spread_compiler)
    for case, given_arrays, values in zip(cases, arrays, outputs):
        expected = execute(in_double(case.program), given_arrays)[case.program.outputs[0]]
        assert np.array_equal(values.astype(np.float64), expected), case


@st.composite
def convolutions(draw: Any) -> Scope | None:
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    space = RANKS[rank]
    most = {1: 3, 2: 3, 3: 2}[rank]
    stride = [draw(st.integers(2, most)) for _ in space]
    dilation = [draw(st.sampled_from([d for d in (1, 2, 3) if gcd(d, s) == 1])) for s in stride]
    taps = [draw(st.integers(s, s + 2)) for s in stride]  # fewer leave results of no tap
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    few = st.integers(1, 3)
    sizes = {"N": draw(few), "C": groups * draw(st.sampled_from((1, 2, 5)))}
    sizes |= {letter: draw(st.sampled_from((1, 2, 3, 5, 7))) for letter in space}
    layout, weights = f"NC{space}", f"IO{space}"
    if draw(st.booleans()):
        layout, weights = f"N{space}C", f"{space}OI"
    inside = {"I": sizes["C"], "O": draw(few), **dict(zip(space, taps))}
    A = ea.tensor("A", [sizes[letter] for letter in layout])
    K = ea.tensor("K", [inside[letter] for letter in weights], role="weight")
    try:
        return getattr(ops, f"conv_transpose{rank}d")(
            A,
            K,
            stride=stride,
            padding=[(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in space],
            output_padding=[draw(st.integers(0, max(step - 1, 0))) for step in stride],
            groups=groups,
            dilation=dilation,
            layout=layout,
            weight_layout=weights,
        )
    except ea.EinalgError:  # an axis would be empty
        return None


@st.composite
def cases(draw: Any, has_reader: bool) -> Case:
    scope = draw(convolutions().filter(lambda scope: scope is not None))
    reader = None
    if has_reader:
        reader = draw(statements(scope, "f32"))
    return Case(
        scope,
        reader,
        draw(st.sampled_from((SMALL, WIDE))),
        draw(st.booleans()),
        draw(st.sampled_from(((), ("K",)))),
    )


@pytest.mark.parametrize("has_reader", [False, True])
def test_convolutions(has_reader: bool) -> None:
    whole = cases(has_reader).filter(lambda case: case.function is not None)

    @settings(max_examples=2, phases=UNSHRUNK)
    @given(st.lists(whole, min_size=3, max_size=4))
    def run(drawn: list[Case]) -> None:
        check(drawn)

    run()


def upsampled(taps: int, stride: int, padding: int = 0, more: int = 0, size: int = 7) -> Scope:
    A = ea.tensor("A", (2, size, size, 5))
    K = ea.tensor("K", (5, 4, taps, taps), role="weight")
    return ops.conv_transpose2d(
        A, K, stride=stride, padding=padding, output_padding=more, layout="NHWC"
    )


@pytest.mark.parametrize(
    "scope, count",
    [
        (upsampled(2, 2), 1),
        (upsampled(3, 3), 1),
        (upsampled(2, 2, more=1), 4),
        (upsampled(4, 2, 1), 4),
        (upsampled(3, 2, 1, 1), 4),
        (upsampled(5, 3, 2, size=8), 4),
    ],
)
def test_phases_that_read_the_same_data_are_one_contraction(scope: Scope, count: int) -> None:
    kernel = match(scope, "T", TEMPLATES)
    assert kernel is not None
    contractions = phase_contractions(kernel, scope, "f32")
    assert contractions is not None and len(contractions) == count
    check([Case(scope), Case(scope, machine=WIDE, is_parallel=True, constants=("K",))])


def test_results_of_no_tap_are_left_to_others() -> None:
    """Windows that are shorter than the stride leave zeros between them."""
    scope = upsampled(2, 3)
    kernel = match(scope, "T", TEMPLATES)
    assert kernel is not None
    assert phase_contractions(kernel, scope, "f32") is None


@pytest.mark.parametrize("taps, stride, padding, more", [(2, 2, 0, 0), (3, 2, 1, 1), (4, 2, 1, 0)])
def test_a_decoder_is_fused(
    taps: int, stride: int, padding: int, more: int, tmp_path: Any, monkeypatch: Any
) -> None:
    """Channels last, an unsearched upsampling with its bias and activation is one kernel."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setenv("EINALG_LIBRARIES", "")
    A = ea.tensor("A", (1, 9, 9, 32))
    K = ea.tensor("K", (32, 16, taps, taps), role="weight")
    b = ea.tensor("b", (16,), role="weight")
    results = ops.conv_transpose2d(
        A, K, stride=stride, padding=padding, output_padding=more, layout="NHWC"
    )
    T = ea.tensor("T", results.shape, role="intermediate")
    n, h, w, f = ea.indices("n h w f")
    _, height, width, filters = results.shape
    reader = ea.L[n:1, h:height, w:width, f:filters](ea.Max(T[n, h, w, f] + b[f], 0))
    program = Program([("T", results), ("O", reader)], ("O",))
    unit = CodeUnit(kernels_of(program)[0], results, frozenset({"K"}))
    assert phases_space(unit, machine()) is not None
    run = compile_program(program, kernels_of(program), compiler=quick_compiler())
    assert len(run.kernels) == 1
    rng = np.random.default_rng(3)
    arrays = {n: rng.standard_normal(t.shape).astype(np.float32) for n, t in program.inputs.items()}
    expected = execute(in_double(program), arrays)[program.outputs[0]]
    np.testing.assert_allclose(run(**arrays), expected, rtol=1e-4, atol=1e-4)
