"""Reductions of any body in register tiles, against the reference evaluator."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.hardware.cpu import CpuModel
from codegen.ir.nodes import Function
from codegen.kernels.contraction.statements.bodies import body_contraction
from codegen.kernels.contraction.statements.epilogue import contraction_with_epilogue
from codegen.targets.c.source_file import c_source
from codegen.tuning.spaces.contraction import ContractionSpace
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import cheapest
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.batches import batches
from tests.helpers.contractions import SMALL, UNSHRUNK
from tests.helpers.kernels import agrees, evaluated, quick_compiler, run_functions

LETTERS = "ijklm"
# Values of an operand: of A and C along rows, of B and D along columns, of G and H along neither.
LEFT_VALUES = ("A", "Max(A, 0)", "2*A - 1", "A*C", "A + 3*C", "-A", "A*G")
RIGHT_VALUES = ("B", "B*H", "Min(B, 2)", "B**2", "B*D", "Abs(B - D)", "-B")
FLOAT_VALUES = ("exp(B/4)", "sqrt(Abs(B))")
TERMS = ("{a}*{b}", "Abs({a} - {b})", "({a} - {b})**2", "{a} + {b}", "Max({a}, {b})")
MORE_TERMS = (
    "Max({a}, {b}, 1)",
    "Min({a}, {b})**3",
    "Piecewise(({a}, {a} < {b}), ({b}, True))",
    "Max(0, {a}*{b})",
    "{a} - {b} + 2",
    "Abs({a} - {b})/4",
    "3*Max({a}, {b})",
)
CONDITIONS = (  # on what a result reduces over
    "k <= i",
    "k >= i + 1",
    "(k <= i + 2) & (k >= i - 3)",
    "2*k <= 3*i",
    "3*k >= i - 1",
    "Eq(k, i)",
    "Eq(2*k, i)",
    "k >= 2",
    "i + k <= 6",
    "k <= j",
    "k <= i + j",
)
TAILS = ("{}", "Max({}, 1)", "{} + E[j]")
SIZES = st.sampled_from((17, 7, 1, 2, 3, 5, 16, 23))


@st.composite
def statements(draw: Any) -> Scope:
    """Draw a reduction of two groups of tensors, with a batch or without, of small sizes."""
    dtype = draw(st.sampled_from(("f32", "f32", "f64", "i32", "f16")))
    sizes = dict(zip("bijk", (draw(st.sampled_from((1, 3))), *(draw(SIZES) for _ in "ijk"))))
    batch = draw(st.sampled_from(("", "b")))
    layouts = {"G": "k", "H": "k"}
    for name, letters in {"A": "ik", "C": "ik", "B": "kj", "D": "kj"}.items():
        layouts[name] = batch + "".join(draw(st.permutations(letters)))
    left, right = draw(st.sampled_from(LEFT_VALUES)), RIGHT_VALUES
    if dtype in ("f32", "f64"):
        right = (*RIGHT_VALUES, *FLOAT_VALUES)
    term = draw(st.sampled_from((*TERMS, *MORE_TERMS)))
    body = term.format(a=f"({left})", b=f"({draw(st.sampled_from(right))})")
    operations = ["Sum", "Max", "Min"]
    where = draw(st.sampled_from(("", "", *(f", where={each}" for each in CONDITIONS))))
    if batch and draw(st.booleans()):
        where = where.replace("i", "b")
    reduction = f"{draw(st.sampled_from(operations))}[k:{sizes['k']}]({body}{where})"
    tail = draw(st.sampled_from(TAILS)).format(reduction)
    output = draw(st.permutations("ij"))
    results = ", ".join(f"{letter}:{sizes[letter]}" for letter in (*batch, *output))
    for name, layout in layouts.items():
        tail = _reading(tail, name, layout)
    tensors = {name: [sizes[x] for x in layout] for name, layout in layouts.items()}
    tensors["E"] = [sizes["j"]]
    shapes = {n: ea.tensor(n, s, dtype=dtype) for n, s in tensors.items() if f"{n}[" in tail}
    return ea.parse(f"O[{results}] = {tail}", **shapes)


def _reading(text: str, name: str, layout: str) -> str:
    """Return a text in which a letter by itself is an element of a tensor."""
    words = []
    for position, letter in enumerate(text):
        around = text[max(0, position - 1) : position] + text[position + 1 : position + 2]
        is_word = letter == name and not any(character.isalnum() for character in around)
        words.append(f"{name}[{','.join(layout)}]" if is_word else letter)
    return "".join(words)


def unit_of(scope: Scope) -> CodeUnit:
    return CodeUnit(Kernel(EOP, {}, tuple(scope.tensors), "O"), scope)


def space_of(
    scope: Scope, target: CpuModel = SMALL, ahead: Collection[str] = ()
) -> ContractionSpace | None:
    unit = unit_of(scope)
    problem = body_contraction("O", scope, unit.dtype, ahead)
    if problem is None:
        return None
    space = ContractionSpace(problem, target, str(scope))
    return None if space.is_empty else space


def arrays_of(scope: Scope, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for name, tensor in scope.tensors.items():
        arrays[name] = rng.integers(-3, 4, tensor.shape).astype(numpy_dtype(tensor.dtype))
    return arrays


def check(scopes: list[Scope], functions: list[Function], seed: int = 0) -> None:
    arrays = [arrays_of(scope, seed) for scope in scopes]
    results = run_functions(functions, arrays, cc=quick_compiler())
    for scope, values, result, function in zip(scopes, arrays, results, functions):
        (expected,) = evaluated(as_program(scope), values).values()
        assert agrees(result, expected, scope.dtype), f"{scope}\n{c_source([function])}"


@settings(max_examples=batches(2), phases=UNSHRUNK)
@given(st.lists(statements(), min_size=12, max_size=12), st.integers(0, 1 << 30))
def test_any_body_and_any_point_equal_the_reference(scopes: list[Scope], seed: int) -> None:
    rng, known, functions = Random(seed), list[Scope](), list[Function]()
    for scope in scopes:
        space = space_of(scope, ahead=rng.sample(sorted(scope.tensors), rng.randrange(3)))
        if space is not None:
            for point in (space.start(), space.sample(rng)):
                known.append(scope)
                functions.append(space.build(point))
    assert functions
    check(known, functions, seed)


@pytest.mark.parametrize("size", [7, 32, 40])
def test_both_sides_of_one_weight_are_packed_ahead(size: int) -> None:
    scope = ea.parse("O[i,j] = Sum[k](exp(W[i,k]/4)*Abs(W[j,k]))", W=(size, size))
    space = space_of(scope, ahead=("W",))
    assert space is not None
    point = replace(space.start(), pack_left=True, pack_right=True)
    function = space.build(point)
    assert len({pack.output.name for pack in function.packs}) == 2
    check([scope], [function])


@pytest.mark.parametrize(
    ("body", "subtracts"),
    [
        ("Sum[k](Abs(A[i,k] - B[k,j]))", True),
        ("Sum[k]((A[i,k] - B[k,j])**2)", True),
        ("Max[k](A[i,k] - B[k,j])", True),
        ("Sum[k](Abs(A[i,k] + B[k,j]))", False),
        ("Sum[k]((A[i,k] - B[k,j])*B[k,j])", False),  # its sign matters elsewhere, too
    ],
)
def test_what_is_subtracted_from_an_element_is_held_with_the_other_sign(
    body: str, subtracts: bool
) -> None:
    """Where a vector is one that adds an element as that is read."""
    scope = ea.parse(f"O[i:37,j:41] = {body}", A=(37, 19), B=(19, 41))
    functions: list[Function] = []
    for target in (CpuModel(vector=64, registers=32), CpuModel(vector=32, registers=16)):
        space = space_of(scope, target)
        assert space is not None
        functions += [space.build(space.start())]
        is_negative = " = -*(f32" in c_source(functions[-1:])
        assert is_negative == (subtracts and target.vector == 64)
    check([scope] * len(functions), functions)


def test_what_is_done_to_a_result_is_not_lost_behind_another_statement() -> None:
    shapes = {"A": (24, 30), "B": (30, 40), "C": (40,)}
    text = "T[i,j] = sqrt(Sum[k]((A[i,k] - B[k,j])**2))\nO[i,j] = Max(T[i,j] - C[j], 1)"
    program = ea.parse(text, **shapes)
    problem = body_contraction("T", program["T"], "f32")
    assert problem is not None
    assert contraction_with_epilogue(problem, "O", program["O"]) is None


@pytest.mark.parametrize(
    "body",
    [
        "Sum[k](Abs(A[i,k] - B[k,j]))",
        "Sum[k]((A[i,k] - B[k,j])**2)",
        "Max[k](A[i,k] + B[k,j])",
        "Sum[k](Max(A[i,k], 0)*B[k,j])",
        "Sum[k](A[i,k]*B[k,j]*D[k,j])",
        "sqrt(Sum[k]((A[i,k] - B[k,j])**2))",
        "Sum[k](Abs(A[i,k] - B[k,j]*C[k]))",
        "Sum[k](Abs(A[i,k]*C[k] - B[k,j])/4)",
        "Min[k](Abs(A[k,i] - B[j,k])*C[k])",
    ],
)
def test_bodies_that_no_library_has_are_tiled(body: str) -> None:
    shapes: dict[str, Any] = {"A": (96, 96), "B": (96, 96), "C": (96,), "D": (96, 96)}
    used = {name: shape for name, shape in shapes.items() if f"{name}[" in body}
    best = cheapest(unit_of(ea.parse(f"O[i:96,j:96] = {body}", **used)), CpuModel(32, 16))
    assert best is not None
    assert (best.space.name == "contraction") == (")*C[" not in body)


@pytest.mark.parametrize(
    "text",
    [
        "O[i,j] = Sum[k:9](A[i,k]*i + B[k,j])",  # an index as a number
        "O[i,j] = Sum[k:9](exp(A[i,k] - B[k,j]))",  # a function of a library for each term
        "O[i:9,j:9] = Sum[k:9](A[i,k] - B[k,j], where=k <= i - 9*(k//2))",
        "O[i:9,j:9] = Sum[k:17](A[i,k-i]*B[i,j], where=(k >= i) & (k <= i + 8))",  # reads beyond A
        "O[i:9] = Sum[k:9](A[i,k]**2)",  # what each result reads is its own
        "O[i,j] = Sum[k:9](Abs(A[i,k])*Abs(A[i,k] - B[k,j]))",  # two values of one operand
        "O[i,j] = Sum[k:9](Piecewise((1, A[i,k] < B[k,j]), (0, True)))",  # a condition
    ],
)
def test_what_is_no_term_of_two_values_is_left_to_loops(text: str) -> None:
    shapes = {name: (9, 9) for name in "AB" if f"{name}[" in text}
    assert body_contraction("O", ea.parse(text, **shapes), "f32") is None


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("vector", [16, 32, 64])
def test_extremes_of_tiles_are_nan_where_an_element_is(dtype: str, vector: int) -> None:
    tensors = {
        "A": ea.tensor("A", (7, 40), dtype=dtype),
        "B": ea.tensor("B", (40, 33), dtype=dtype),
    }
    scope = ea.parse("O[i,j] = Max[k](A[i,k] + B[k,j])", **tensors)
    arrays = arrays_of(scope)
    arrays["A"][2, 5], arrays["A"][3, 1], arrays["B"][1, 4] = np.nan, np.inf, -np.inf
    arrays["B"][39, 32] = np.nan
    space = space_of(scope, CpuModel(vector, 16))
    assert space is not None
    (result,) = run_functions(
        [space.build(space.start())], [arrays], cc=quick_compiler(level="-O1")
    )
    with np.errstate(invalid="ignore"):
        expected = (arrays["A"][:, :, None] + arrays["B"][None]).max(1)
    assert np.isnan(expected).sum() == 33 + 6 + 1
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("where", ["k <= i", "k >= i", "(k <= i) & (k >= i - 5)", "3*k <= 2*i + 4"])
@pytest.mark.parametrize("pack_left", [False, True])
def test_what_a_result_does_not_sum_is_not_multiplied(where: str, pack_left: bool) -> None:
    text = f"O[b,i:37,j] = Sum[k:37](A[b,i,k]*B[b,k,j], where={where})"
    scope = ea.parse(text, A=(2, 37, 37), B=(2, 37, 24))
    space = space_of(scope)
    assert space is not None
    arrays = arrays_of(scope)
    arrays["B"][0, 20], arrays["A"][1, :, 22] = np.nan, np.inf
    function = space.build(replace(space.start(), pack_left=pack_left))
    (result,) = run_functions([function], [arrays], cc=quick_compiler())
    (expected,) = evaluated(as_program(scope), arrays).values()
    assert np.isfinite(expected).any() and np.isnan(expected).any()
    np.testing.assert_allclose(result, expected, 1e-5)


def test_a_triangle_costs_half() -> None:
    whole = "O[b,i,j] = Sum[k:960](A[b,i,k]*B[b,k,j])"
    triangle = "O[b,i:960,j] = Sum[k:960](A[b,i,k]*B[b,k,j], where=k <= i)"
    cycles = []
    for text in (whole, triangle):
        space = space_of(ea.parse(text, A=(4, 960, 960), B=(4, 960, 64)), CpuModel(32, 16))
        assert space is not None
        cycles.append(space.cycles(space.start()))
    assert 0.45 < cycles[1] / cycles[0] < 0.65
