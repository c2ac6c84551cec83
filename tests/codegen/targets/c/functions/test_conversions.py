"""Numbers of 16 bits in C: rounded as NumPy rounds, by whole vectors as one by one."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.lowering.lower import lower
from codegen.targets.c.functions.conversions import MACROS
from codegen.targets.c.source_file import c_source
from einalg.language.conversion import rounded
from tests.helpers.batches import is_nightly
from tests.helpers.kernels import compiler, quick_compiler, run_functions

Array = np.ndarray[Any, Any]
SIZES = (1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70, 1001)
BY_NUMBERS = "-DEINALG_SOFTWARE_HALF"
FLAGS = ["-UNOTHING", BY_NUMBERS]
if platform.machine().lower() in ("x86_64", "amd64"):
    FLAGS += ["-mno-avx512f", "-mno-avx2", "-mno-f16c"]


def specials(size: int, seed: int) -> Array:
    """Halves of every magnitude, with ties, denormals, infinities and NaN."""
    draw = np.random.default_rng(seed)
    return draw.integers(0, 1 << 16, size, dtype=np.uint16).view(np.float16)


def results(texts: list[str], flag: str) -> list[Array]:
    """The values of statements of every size, computed of the same numbers.

    One processor's kernels are compiled as the product does, by day: the text is the same.
    """
    kernels, arrays = [], []
    for text in texts:
        for size in SIZES:
            shapes = {name: ea.tensor(name, (size,), "f16") for name in "AB" if f"{name}[" in text}
            kernels.append(lower("O", ea.parse(text, **shapes)))
            arrays.append({name: specials(size, ord(name) + size) for name in shapes})
    cc = compiler() if flag == FLAGS[0] or is_nightly() else quick_compiler()
    return run_functions(kernels, arrays, flag, cc=cc)


TEXTS = {
    "O[i] = A[i]*B[i]": lambda a, b: a * b,
    "O[i] = f16(A[i]*B[i]) + A[i]": lambda a, b: rounded(a * b, "f16") + a,
    "O[i] = f16(f16(A[i] + B[i])/3)*B[i]": lambda a, b: (
        rounded(rounded(a + b, "f16") / np.float32(3), "f16") * b
    ),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_chains_of_halves(flag: str) -> None:
    """The end of a row is rounded as its middle is, and as NumPy rounds it."""
    values = iter(results(list(TEXTS), flag))
    with np.errstate(all="ignore"):
        for text, function in TEXTS.items():
            for size in SIZES:
                a, b = (specials(size, ord(name) + size).astype(np.float32) for name in "AB")
                expected = function(a, b).astype(np.float16)
                assert np.array_equal(next(values), expected, equal_nan=True), (text, size)


def test_reductions_and_steps_in_memory() -> None:
    """Halves that do not lie side by side, and those that are summed."""
    array = np.random.default_rng(0).integers(-8, 8, (9, 70)).astype(np.float16)
    stored = ea.tensor("A", array.shape, "f16")
    texts = ("O[i] = Max[j](A[i, j])", "O[i] = Sum[j](A[i, j])", "O[j, i] = A[i, j] + 1")
    kernels = [lower("O", ea.parse(text, A=stored)) for text in texts]
    largest, total, turned = run_functions(kernels, [{"A": array}] * 3)
    assert np.array_equal(largest, array.max(1))
    assert np.array_equal(total, array.sum(1, dtype=np.float32).astype(np.float16))
    assert np.array_equal(turned, array.T + 1)


def test_names_of_macros_are_no_names_of_tensors() -> None:
    """Tensors, and files with functions of both kinds, compile beside the conversions."""
    names = [*sorted(MACROS), "half_x8", "loaded_half"]
    operands = " + ".join(f"exp({name}[i])" for name in names)
    shapes = {name: ea.tensor(name, (40,), "f16") for name in names}
    scope = ea.parse(f"loaded_x4[i] = {operands}", **shapes)
    compiler().compile(c_source([lower("loaded", scope)] * 5))
