"""Rows of halves as rows of floats: where loops are rewritten, and that values stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.ir.half_rows import converted_row, half_rows, with_half_rows
from codegen.ir.nodes import Apply, Buf, For, Predicate, Ref, Store, walk
from codegen.lowering.lower import lower
from codegen.targets.c.source_file import c_source
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from tests.helpers.kernels import run_functions

Array = np.ndarray[Any, Any]
SIZES = (1, 15, 16, 100, 127, 128, 129, 255, 256, 300, 70000)


def halves(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(np.float16)


def scope_of(text: str, **arrays: Array) -> Any:
    """A statement that reads arrays of halves."""
    tensors = {name: ea.tensor(name, array.shape, "f16") for name, array in arrays.items()}
    return ea.parse(text, **tensors)


def compared(cases: list[tuple[str, dict[str, Array], Array]], *flags: str) -> None:
    """Compile statements together, and compare their values."""
    kernels = [lower("O", scope_of(text, **arrays)) for text, arrays, _ in cases]
    results = run_functions(kernels, [arrays for _, arrays, _ in cases], *flags)
    for (text, _, expected), result in zip(cases, results, strict=True):
        assert np.array_equal(result, expected.astype(result.dtype)), (text, expected.shape)


@pytest.mark.parametrize("flag", ["-UNOTHING", "-DEINALG_SOFTWARE_HALF"])
def test_rows_of_any_length(flag: str) -> None:
    cases = []
    for size in SIZES:
        arrays = {"A": halves((size,)), "B": halves((size,), 1)}
        total = arrays["A"].astype(np.float32) + arrays["B"]
        cases.append(("O[i] = A[i] + B[i]", arrays, total))
        cases.append(
            ("O[i] = Max(A[i] + B[i], 0)*A[i]", arrays, np.maximum(total, 0) * arrays["A"])
        )
    for size in (40, 200):
        rows = {"A": halves((9, size)), "B": halves((9, size), 1)}
        products = rows["A"].astype(np.float32) * rows["B"]
        cases.append(("O[i] = Sum[j](A[i, j]*B[i, j])", rows, products.sum(1)))
        cases.append(("O[j] = Sum[i](A[i, j]*B[i, j])", rows, products.sum(0)))
    compared(cases, flag)


def test_places_that_are_no_rows() -> None:
    """Steps in memory, one element for all, neighbours, rows of a plane, and truth values."""
    arrays = {"A": halves((300,)), "B": halves((300,), 1), "C": halves((7, 300), 2)}
    wide = {name: array.astype(np.float32) for name, array in arrays.items()}
    stepped = wide["A"][: 2 * 150 : 2] + wide["B"][3]
    shifted = wide["A"][:200] + wide["A"][1:201] * 2 + wide["A"][5:205]
    cases = [
        ("O[i:150] = A[2*i] + B[3]", {"A": arrays["A"], "B": arrays["B"]}, stepped),
        ("O[i:200] = A[i] + 2*A[i + 1] + A[i + 5]", {"A": arrays["A"]}, shifted),
        ("O[i, j] = C[i, j] + A[j]", {"A": arrays["A"], "C": arrays["C"]}, wide["C"] + wide["A"]),
        (
            "O[j, i] = C[i, j] + A[j]",
            {"A": arrays["A"], "C": arrays["C"]},
            wide["C"].T + wide["A"][:, None],
        ),
        ("O[i] = A[i] > B[i]", {"A": arrays["A"], "B": arrays["B"]}, wide["A"] > wide["B"]),
        ("O[i] = A[299 - i]*2", {"A": arrays["A"]}, wide["A"][::-1] * 2),
    ]
    compared(cases)


def test_elements_that_are_read_under_conditions_stay_where_they_are() -> None:
    """A copy of a whole row would read beyond the tensor."""
    stored = ea.tensor("A", (200,), "f16")
    i = ea.indices("i j")[0]
    scope = ea.L[i:300](ea.Piecewise((stored.pad((50, 50))[i - 50], i % 3 > 0), (1, True)))
    function = lower("O", scope)
    loops = [node for node in walk(function) if isinstance(node, For) and node.kind == "vec"]
    assert loops
    for loop in loops:
        has_conditions = any(isinstance(node, Predicate) for node in walk(loop))
        assert not (has_conditions and half_rows(loop))
    array = halves((200,))
    (result,) = run_functions([function], [{"A": array}])
    padded = np.pad(array, 50)
    assert np.array_equal(result, np.where(np.arange(300) % 3 > 0, padded, 1))


def test_names_of_rows_are_free() -> None:
    arrays = {"A": halves((40,)), "A_row": halves((40,), 1)}
    compared([("O[i_block] = A[i_block]*A_row[i_block]", arrays, arrays["A"] * arrays["A_row"])])
    longer = {"A": halves((400,)), "A_row": halves((400,), 1)}
    text = "O[i] = A[i]*A_row[i]"
    compared([(text, longer, longer["A"] * longer["A_row"])])
    source = c_source([lower("O", scope_of(text, **longer))])
    assert "float A_row1[128];" in source and "float A_row2[128];" not in source


def test_functions_without_halves_are_themselves() -> None:
    function = lower("O", ea.parse("O[i] = A[i]*2", A=(200,)))
    assert with_half_rows(function) is function


J = Index("j")
HALF, OTHER = Buf("A", (4, 300), "f16"), Buf("B", (4, 300), "f16")
FLOAT, ONE_HALF = Buf("F", (4, 300), "f32"), Buf("H", (), "f16")


def at(buf: Buf, row: int = 0, shift: int = 0) -> Ref:
    return Ref(buf, (affine(row), affine(J) + shift))


def loop(*stores: Store, kind: str = "vec", count: int = 200) -> For:
    return For(J, affine(0), affine(count), (0, count), stores, kind)


TWICE = Apply("mul", (at(HALF), at(HALF)), "f32")
LOOPS = [
    (loop(Store(at(FLOAT), "=", TWICE)), [at(HALF)]),
    (loop(Store(at(FLOAT), "=", TWICE), count=15), []),
    (loop(Store(at(FLOAT), "=", TWICE), kind="par", count=128), []),
    (loop(Store(at(FLOAT), "=", TWICE), kind="par", count=129), [at(HALF)]),
    (loop(Store(at(FLOAT), "=", TWICE), kind="seq"), []),
    (loop(Store(at(OTHER), "=", TWICE)), [at(OTHER), at(HALF)]),
    (loop(Store(at(OTHER), "+=", TWICE)), []),
    (loop(Store(at(HALF), "=", at(HALF, 1))), []),
    (loop(Store(at(HALF), "=", at(HALF))), []),
    (loop(Store(at(FLOAT), "=", Ref(ONE_HALF, ()))), []),
    (loop(Store(at(FLOAT), "=", Ref(HALF, (affine(J), affine(J))))), []),
]


@pytest.mark.parametrize(("nest", "rows"), LOOPS, ids=range(len(LOOPS)))
def test_the_rows_of_a_loop(nest: For, rows: list[Ref]) -> None:
    assert half_rows(nest) == rows


def test_a_loop_that_only_converts() -> None:
    target, source = at(FLOAT, 1, 3), at(HALF, 2)
    low = Ref(FLOAT, (affine(1), affine(3))), Ref(HALF, (affine(2), affine(0)))
    assert converted_row(loop(Store(target, "=", source))) == low
    assert converted_row(loop(Store(at(HALF), "=", at(FLOAT)))) is not None
    turned = Ref(HALF, (affine(J), affine(0)))
    assert converted_row(loop(Store(target, "=", turned))) is None
    assert converted_row(loop(Store(at(FLOAT), "=", at(FLOAT, 1)))) is None
    assert converted_row(loop(Store(at(FLOAT), "+=", source))) is None
