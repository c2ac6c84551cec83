"""Functions that generated C computes itself: within a few units of the last place, also where
values are too large, too small, or none.
"""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from codegen.targets.c.compiler import Compiler, find_compiler
from codegen.targets.c.functions.elementary import NAMES, elementary

ULPS = {"exp": 3.0, "exp_bounded": 3.0, "tanh": 3.0, "erf": 7.0}
SINGLE = "f"
COUNT = 1 << 16


def compilers() -> dict[str, Compiler]:
    """The compiler of this machine, and the same without what some machines lack."""
    found = find_compiler()
    if found is None:
        return {}
    plain = replace(
        found,
        flags=tuple(
            flag
            for flag in found.flags
            if not flag.startswith(("-march", "-mcpu", "-mprefer", "-DEINALG"))
        ),
    )
    return {
        "as usual": found,
        "any machine": plain,
        "no fused products": plain.with_flags("-ffp-contract=off"),
        "not in vectors": plain.with_flags("-O1"),
    }


COMPILERS = compilers()
EXACT = {
    "exp": np.exp,
    "exp_bounded": lambda x: np.exp(np.minimum(x, 43)),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes="d"),
}


def compiled(name: str, compiler: Compiler) -> Any:
    lines = ["#include <math.h>", "#include <stdint.h>", *elementary({name})]
    loop = f"#pragma omp simd\n  for (int64_t i = 0; i < n; ++i) y[i] = {name}_f32(x[i]);"
    library = compiler.load(
        "\n".join(
            [
                *lines,
                f"void run(const float *restrict x, float *restrict y, int64_t n) {{\n  "
                f"{loop}\n}}\n",
            ]
        )
    )

    def run(x: np.ndarray) -> np.ndarray:
        x, y = np.ascontiguousarray(x, SINGLE), np.empty(x.shape, SINGLE)
        library.run(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(x.size)
        )
        return y

    return run


def check(name: str, x: np.ndarray, found: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype("d"))
        rounded = exact.astype(SINGLE)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        units = np.abs(found - exact) / np.spacing(np.abs(rounded)).astype("d")
    wrong = ~same & ~(units < ULPS[name])
    assert not wrong.any(), (
        f"{name} of {x[wrong][:5]} is {found[wrong][:5]}, not {rounded[wrong][:5]}"
    )


@pytest.mark.parametrize("way", COMPILERS)
@pytest.mark.parametrize("name", NAMES)
def test_values(name: str, way: str) -> None:
    """Of all sizes, with each exponent and sign, and near the ends of where the function is finite
    and not yet steady.
    """
    random = np.random.default_rng(0)
    run = compiled(name, COMPILERS[way])
    bits = random.integers(0, 1 << 32, COUNT, np.uint32).view(SINGLE)
    near = np.concatenate(
        [
            random.uniform(end - 1, end + 1, COUNT)
            for end in (-104, -88, -10, -4, -1, -0.34, 0, 0.34, 1, 4, 10, 88)
        ]
    ).astype(SINGLE)
    for x in (bits, near, random.normal(0, 3, COUNT + 5).astype(SINGLE)):
        check(name, x, run(x))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number(name: str) -> None:
    tiny, huge = np.finfo(SINGLE).smallest_subnormal, np.finfo(SINGLE).max
    x = np.array(
        [
            np.nan,
            -np.nan,
            np.inf,
            -np.inf,
            0,
            -0.0,
            tiny,
            -tiny,
            huge,
            -huge,
            88.72,
            88.73,
            -87.4,
            -103.9,
            -104.1,
        ],
        SINGLE,
    )
    for compiler in COMPILERS.values():
        results = compiled(name, compiler)(x)
        check(name, x, results)
        if name in ("erf", "tanh"):  # exactly 1 there
            steady = np.abs(x) > 10  # False for NaN
            assert np.array_equal(results[steady], np.sign(x[steady]))


def test_calls_no_library() -> None:
    """Neither within conditions, where gcc has functions of vectors for none."""
    compiler = COMPILERS["as usual"]
    text = ea.parse("O[i] = exp(A[i])*erf(A[i])*tanh(A[i])", A=(99,))
    source = ea.derive(text, states=1).best.source("c")
    assert not re.search(r"_ZGV|\b(exp|erf|tanh)f\b", source)
    assert compiler.load(source) is not None


@given(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from(NAMES),
    st.sampled_from(sorted(COMPILERS)),
)
def test_any_value(value: float, name: str, way: str) -> None:
    x = np.full(9, value, SINGLE)
    check(name, x, compiled(name, COMPILERS[way])(x))


def test_only_single_precision_on_a_processor_has_them() -> None:
    """Other types and devices have the library's functions."""
    texts = {
        dtype: ea.parse("O[i] = exp(A[i]) + tanh(A[i])", A=ea.tensor("A", (37,), dtype))
        for dtype in ("f32", "f16", "f64")
    }
    sources = {dtype: ea.derive(expr, states=1).best.source("c") for dtype, expr in texts.items()}
    for dtype in ("f32", "f16"):
        assert (
            "exp_f32(" in sources[dtype]
            and "tanh_f32(" in sources[dtype]
            and "tanhf(" not in sources[dtype]
        )
    assert "exp(" in sources["f64"] and "exp_f32" not in sources["f64"]
    device = ea.derive(texts["f32"], states=1).best.source("cuda")
    assert "expf(" in device and "tanhf(" in device and "exp_f32" not in device
