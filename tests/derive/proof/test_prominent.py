"""Inputs in which one element stands out: reductions that leave an element out are told apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.proof import DIFFERENT, prove
from derive.proof.random.blocks import arrays_of_part, cut_block
from derive.proof.random.prominent import far_beyond, prominent_elements, prominent_inputs
from einalg.language.ir.program import as_program, inlined, substitute_tensors
from einalg.language.ir.tensor import Constant
from tests.helpers.batches import examples

# A reduction of `{op}` over f(element), and the same by another spelling, outside of what access
# relations decide.
SPELLINGS = {
    "Max": ("exp({whole})", "{element}", "{parts}", "exp({element})"),
    "Min": ("Max({whole}, 0) + {whole}", "{element}", "{parts}", "Max({element}, 0) + {element}"),
    "Sum": ("log({whole})", "exp({element})", "log({parts})", "exp({element})"),
    "Prod": ("Max({whole}, 0)", "{element}", "Max({parts}, 0)", "{element}"),
}
JOINED = {"Max": "Max({}, {})", "Min": "Min({}, {})", "Sum": "({} + {})", "Prod": "{}*{}"}


@st.composite
def rows(draw: st.DrawFn, is_whole: bool) -> tuple[ea.Scope, ea.Scope]:
    """Draw a reduction over a row or a matrix, and another spelling in two parts: all of it, or
    without one element or one row.
    """
    op = draw(st.sampled_from(sorted(SPELLINGS)))
    outer, body, parts, part_body = SPELLINGS[op]
    rank = draw(st.integers(1, 2))
    size = draw(st.sampled_from([3, 10, 40, 300] if rank == 1 else [3, 10, 24]))
    left_out = draw(st.one_of(st.sampled_from([0, size - 1, size // 2]), st.integers(0, size - 1)))
    element, others = "A[j]", ""
    shape: tuple[int, ...] = (size,)
    if rank == 2:
        element, others, shape = "A[j,k]", ",k:7", (size, 7)
    second = left_out if is_whole else left_out + 1
    pieces = []
    for low, high in ((0, left_out), (second, size)):
        if low < high:
            pieces.append(f"{op}[j:{low}:{high}{others}]({part_body.format(element=element)})")
    joined = pieces[0]
    if len(pieces) == 2:
        joined = JOINED[op].format(*pieces)
    whole = f"{op}[j:{size}{others}]({body.format(element=element)})"
    one = f"O[()] = {outer.format(whole=whole)}"
    two = f"O[()] = {parts.format(parts=joined)}"
    return ea.parse(one, A=shape), ea.parse(two, A=shape)


@settings(max_examples=examples(12, at_night=300))
@given(rows(is_whole=False), st.integers(0, 3))
def test_a_reduction_without_an_element_is_different(
    sides: tuple[ea.Scope, ea.Scope], seed: int
) -> None:
    assert prove(*sides, seed=seed).verdict == DIFFERENT, sides


@settings(max_examples=examples(12, at_night=300))
@given(rows(is_whole=True), st.integers(0, 3))
def test_a_reduction_in_two_parts_is_not(sides: tuple[ea.Scope, ea.Scope], seed: int) -> None:
    assert prove(*sides, seed=seed).holds, sides


MASKS = [
    ("exp(x[j] + {mask})", "Sum[j:6]"),
    ("exp(x[j] + {mask})", "Max[j:6]"),
    ("x[j] + {mask}", "Max[j:6]"),
    ("tanh(x[j] + {mask})", "Max[j:6]"),
]


@settings(max_examples=examples(8, at_night=60))
@given(
    st.sampled_from(MASKS),
    st.sampled_from(["j <= i", "j >= i", "Eq(i, j)", "(i - j < 3) & (j <= i)", "j < 4"]),
    st.sampled_from(["-100", "-10000", "-1e9", "-1e30"]),
)
def test_a_finite_mask_is_different(masked: tuple[str, str], condition: str, number: str) -> None:
    body, reduction = masked
    sides = []
    for fill in ("-inf", number):
        mask = f"Piecewise((0, {condition}), ({fill}, True))"
        sides.append(ea.parse(f"O[i:6] = {reduction}({body.format(mask=mask)})", x=(6,)))
    assert prove(*sides).verdict == DIFFERENT


@pytest.mark.parametrize("fill", ["-10000", "-1e30"])
def test_a_finite_fill_is_different(fill: str) -> None:
    sides = []
    for padding in ("-inf", fill):
        sides.append(ea.parse(f"O[i:8] = exp(Max[r:3](x.pad(1, fill={padding})[i+r-1]))", x=(8,)))
    assert prove(*sides).verdict == DIFFERENT


def test_one_condition_of_a_long_row() -> None:
    one = ea.parse("O[i] = exp(Max[j:1000](A[i,j]))", A=(30, 1000))
    text = "O[i] = Max[j:1000](Piecewise((exp(A[i,j]), Ne(j, 517)), (0, True)))"
    assert prove(one, ea.parse(text, A=(30, 1000))).verdict == DIFFERENT


def test_elements_of_constants_do_not_stand_out() -> None:
    numbers = Constant("C", ((0, 8),), "f32", tuple(range(8)))
    sides = []
    for end in (8, 7):
        scope = ea.parse(f"O[i:3] = exp(Max[j:{end}](A[i,j]*C[j]))", A=(3, 8), C=(8,))
        sides.append(substitute_tensors(scope, {"C": numbers}))
    block = cut_block([sides[0]], (0,), (3,))
    assert {name for name, _ in prominent_elements(block)[0]} == {"A"}
    assert prove(*sides).verdict == DIFFERENT


def test_the_ends_of_what_is_read_through_scopes() -> None:
    text = "T[i:3,j:8] = A[i,j+1]*B[j]\nO[i] = Max[j:7](T[i,j])"
    scope = inlined(as_program(ea.parse(text, A=(3, 9), B=(8,))))
    block = cut_block([scope], (0,), (3,))
    elements, count = prominent_elements(block)
    assert len(elements) == count
    assert {("A", (0, 0)), ("A", (2, 6)), ("B", (0,)), ("B", (6,))} <= set(elements)


def test_inputs_of_every_type() -> None:
    tensors = {
        "x": ea.tensor("x", (4,)),
        "u": ea.tensor("u", (4,), "u8"),
        "b": ea.tensor("b", (4,), "bool"),
    }
    block = cut_block([ea.parse("O[i] = x[i]*u[i]*b[i] + 300", **tensors)], (0,), (4,))
    elements, _ = prominent_elements(block)
    assert far_beyond(block.scopes) == 3000
    for distance in (1.0, 3000.0):
        for arrays in prominent_inputs(block, elements, distance, 0):
            assert arrays["b"].dtype == bool
            assert arrays["u"].min() >= 0 and arrays["u"].max() <= 255
    first = prominent_inputs(block, [("x", (2,))], 1.0, 0)
    assert [list(arrays["x"]) for arrays in first] == [[1, 1, 2, 1], [1, 1, 0, 1]]


def test_a_tensor_without_axes_stands_out() -> None:
    scope = ea.parse("O[i] = x[i]*s[()]", x=(2,), s=())
    block = cut_block([scope], (0,), (2,))
    inputs = prominent_inputs(block, [("s", ())], 1.0, 0)
    assert [float(arrays["s"]) for arrays in inputs] == [2, 0]


def test_arrays_of_a_part() -> None:
    block = cut_block([ea.parse("O[i:5] = A[i+2]", A=(9,))], (1,), (3,))
    part = cut_block(block.scopes, (2,), (1,))
    arrays = {"A": ea.evaluate(ea.parse("O[i:3] = i + 10"))}
    assert list(arrays_of_part(block, part, arrays)["A"]) == [12]


def test_the_coverage_counts_what_stood_out() -> None:
    one = ea.parse("O[i] = floor(exp(log(Max[j:50](A[i,j]*A[i,j]) + 1)))", A=(4, 50))
    two = ea.parse("O[i] = floor(Max[j:50](A[i,j]*A[i,j]) + 1)", A=(4, 50))
    proof = prove(one, two)
    if proof.verdict == "tested":
        assert "far from the others in turn" in proof.coverage
