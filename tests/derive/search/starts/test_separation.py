"""Sums that are split in two: windows by axes, products by factors, one kernel for all channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.cost.model import arithmetic, operations
from derive.matching import kernels_of
from derive.proof import prove
from derive.rewriting.moves import apply
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget, search
from derive.search.cleanup import cleaned_up
from derive.search.starts.separation import separated
from einalg.language.ir.program import Program, as_program
from tests.helpers.batches import examples

WINDOW = "O[i:280,j:280] = "
CHANNELS = "O[h:62,w:62] = Sum[r:3,s:3,c:64](A[h+r,w+s,c]*K[r,s])"


def work(program: Program) -> int:
    return sum(operations(scope) for _, scope in lifted(program).statements)


@pytest.mark.parametrize(
    ("text", "shapes", "saving"),
    [
        (WINDOW + "Sum[r:21,s:21](A[i+r,j+s])", {"A": (300, 300)}, 10),
        (WINDOW + "Max[r:21,s:21](A[i+r,j+s])", {"A": (300, 300)}, 10),
        (WINDOW + "Min[r:9,s:9](A[i+2*r,j+2*s])", {"A": (296, 296)}, 4),
        (WINDOW + "Sum[r:9,s:9](a[r]*b[s]*A[i+r,j+s])", {"A": (288, 288), "a": 9, "b": 9}, 4),
        ("O[i:9,j:9,k:9] = Sum[r:9,s:9,u:9](A[i+r,j+s,k+u])", {"A": (17, 17, 17)}, 10),
        ("O[i:60,j:60] = Sum[r:9,s:9](A[2*i+r,2*j+s])", {"A": (128, 128)}, 2.5),
        (CHANNELS, {"A": (64, 64, 64), "K": (3, 3)}, 10),
        ("O[z:1] = Sum[i:100,j:100](x[i]+y[j])", {"x": 100, "y": 100}, 50),
        ("O[z:1] = Sum[i:100,j:100]((x[i]-y[j])**2)", {"x": 100, "y": 100}, 20),
        ("O[z:1] = Max[i:100,j:100](x[i]+y[j])", {"x": 100, "y": 100}, 50),
        (WINDOW + "Min[r:9,s:9](A[i+r,j+s]-a[r]-b[s])", {"A": (288, 288), "a": 9, "b": 9}, 4),
        ("O[i:50] = Sum[r:9](exp(A[i+r]))", {"A": 58}, 1.5),
        ("O[i:1000] = Sum[r:64](A[i+r])", {"A": 1063}, 3),
        ("O[i:1000] = Sum[r:31](A[i+r])", {"A": 1030}, 2),
        ("O[i:1000] = Max[r:31](A[i+r])", {"A": 1030}, 2),
    ],
)
def test_a_candidate_does_as_much_less(text: str, shapes: Any, saving: float) -> None:
    program = as_program(ea.parse(text, **shapes))
    candidates, _, _ = search(program, Budget(states=2))
    best = min(candidates, key=lambda candidate: work(candidate.program))
    assert work(program) / work(best.program) >= saving
    assert prove(program, best.program).verdict in ("proved", "tested")


def test_a_box_of_21_by_21_takes_at_most_42_additions_a_point() -> None:
    derivation = ea.derive(ea.parse(WINDOW + "Sum[r:21,s:21](A[i+r,j+s])", A=(300, 300)))
    assert derivation.best.verdict == "proved"
    additions = arithmetic(derivation.best.program) // 2
    assert additions <= 42 * 300 * 300


def separations(program: Program) -> list[Program]:
    """Return both spellings, with and without windows of windows; their moves can be replayed."""
    start, _ = cleaned_up(program, ALL)
    spellings = []
    for by_digits in (False, True):
        spelling, moves = separated(start, ALL, cleaned_up, by_digits)
        replayed = start
        for move in moves:
            replayed = apply(replayed, move, ALL)
        assert replayed == spelling
        spellings.append(spelling)
    return spellings


@pytest.mark.parametrize(
    "text",
    [
        "O[i:8,j:8] = Sum[k](A[i,k]*B[k,j])",
        "O[i:6,j:6,f:8] = Sum[r:3,s:3,c](T[i+r,j+s,c]*K[r,s,c,f])",
        "O[i:8] = Sum[k,l](A[i,k]*B[k,l]*A[i,l])",
        "O[i:6,j:6] = Sum[r:3,s:3](A[i+r,j+s]*B[r,s])",
    ],
)
def test_what_does_not_separate_is_left(text: str) -> None:
    program = as_program(ea.parse(text, A=(8, 8), B=(8, 8), T=(8, 8, 8), K=(3, 3, 8, 8)))
    assert separations(program) == [program, program]


def test_a_window_of_windows_takes_fewer_additions() -> None:
    program = as_program(ea.parse("O[i:100] = Max[r:16](A[i+r])", A=115))
    plain, nested = separations(program)
    assert plain == program
    assert str(nested) == ("O[i:100] = Max[r1:4]((L[t:112](Max[r2:4](A[r2 + t])))[i + 4*r1])")


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def windows(draw: Draw) -> Program:
    """Windows over one to three axes, of any stride, dilation and padding with any fill."""
    op = draw(st.sampled_from(["Sum", "Max", "Min"]))
    axes = draw(st.integers(1, 3))
    shape, padding, subscripts, outputs, taps = [], [], [], [], []
    for name, tap in zip("hwd"[:axes], "rsu"):
        size, extent = draw(st.integers(1, 3)), draw(st.integers(1, 13 if axes == 1 else 4))
        stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        reach = stride * (size - 1) + dilation * (extent - 1) + 1
        shape.append(max(1, reach - before - after))
        padding.append(f"({before},{max(after, reach - before - shape[-1])})")
        subscripts.append(f"{stride}*{name}+{dilation}*{tap}-{before}")
        outputs.append(f"{name}:{size}")
        taps.append(f"{tap}:{extent}")
    fill = draw(st.sampled_from(["0", "1", "-2"]))
    read = f"A.pad({','.join(padding)},fill={fill})[{','.join(subscripts)}]"
    weights = {
        "Sum": ["{}", "{}*x[r]", "{}*x[r]*y[h]", "{}**2"],
        "Max": ["{}", "{}+x[r]", "{}-x[r]*y[h]"],
    }
    body = draw(st.sampled_from(weights.get(op, weights["Max"]))).format(read)
    text = f"O[{','.join(outputs)}] = {op}[{','.join(taps)}]({body})"
    data = ea.tensor("A", tuple(shape), "i64")
    vectors = {"x": ea.tensor("x", (13,), "i64"), "y": ea.tensor("y", (3,), "i64")}
    return as_program(ea.parse(text, A=data, **vectors))


def inputs(program: Program) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(-9, 9, tensor.shape) for name, tensor in program.inputs.items()}


@settings(max_examples=examples(20, at_night=400))
@given(windows())
def test_random_windows_keep_every_value(program: Program) -> None:
    arrays = inputs(program)
    expected = ea.evaluate(program, **arrays)
    for spelling in separations(program):
        assert np.array_equal(ea.evaluate(spelling, **arrays), expected)
        assert prove(program, spelling).verdict in ("proved", "tested")


@pytest.mark.nightly
@settings(max_examples=60)
@given(windows())
def test_every_candidate_of_random_windows_keeps_every_value(program: Program) -> None:
    arrays = inputs(program)
    expected = ea.evaluate(program, **arrays)
    for candidate in search(program, Budget(states=20, seconds=600))[0]:
        assert kernels_of(candidate.program)
        assert np.array_equal(ea.evaluate(candidate.program, **arrays), expected)


def test_sums_around_which_there_are_no_points_are_left() -> None:
    text = "O[c:3,e:2] = Sum[a:2,b:0,d:2](S[b,c,a]*T[c]*A[a,d])"
    program = as_program(ea.parse(text, S=(0, 3, 2), T=3, A=(2, 2)))
    assert separated(program, ALL, cleaned_up) == (program, [])
    nowhere = as_program(ea.parse("O[i:0,j:9] = Sum[r:4](A[i,j+r])", A=(0, 12)))
    assert separated(nowhere, ALL, cleaned_up) == (nowhere, [])


@pytest.mark.parametrize(
    ("text", "shapes", "saving"),
    [
        ("O[i:1024] = Sum[j:1024](x[j], where=(j <= i,))", {"x": 1024}, 15),
        ("O[i:300] = Sum[j:300](exp(x[j]), where=(j < i,))", {"x": 300}, 8),
        ("O[i:100,k:9] = Max[j:100](x[j,k], where=(j >= i,))", {"x": (100, 9)}, 3),
    ],
    ids=["sums so far", "of a function", "maxima from here on"],
)
def test_blocks_of_prefixes_are_reduced_once(text: str, shapes: Any, saving: int) -> None:
    start = as_program(ea.parse(text, **shapes))
    program, moves = separated(start, ALL, cleaned_up)
    assert moves and work(program) * saving <= work(start)
    arrays = {"x": np.random.default_rng(0).integers(-9, 10, shapes["x"]) / 8}
    expected, result = (ea.evaluate(p, **arrays) for p in (start, program))
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_prefixes_of_rows_of_their_own_have_nothing_in_common() -> None:
    text = "O[i:64,d:8] = Sum[j:64](A[i,j]*x[j,d], where=(j <= i,))"
    start = as_program(ea.parse(text, A=(64, 64), x=(64, 8)))
    assert separated(start, ALL, cleaned_up) == (start, [])
