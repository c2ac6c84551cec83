"""Functions of single precision that generated C computes itself: tanh; exp and erf where no library has them for vectors (design §10).

These are a few products and sums in the loop itself, which any compiler makes vectors of, where a library's function is a call for each element.
For whole vectors glibc has functions, too, which gcc calls: its exp takes as long as this one, its erf half as long, but its tanh twice as long on
processors with 256 bits. Polynomials are fitted here, so that no table of numbers has to be believed. Errors stay below three units of the last
place; infinities, NaN and what is too small are as the library's functions have them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np

from codegen.targets.c.helpers import VECTOR_MATH

Real = Any  # a number of mpmath
NAMES = ("exp", "tanh", "erf")
DIGITS = 40  # of what is fitted
TERMS, SMALL, LARGE = 5, 7, 9  # of the polynomials of exp, and of erf below 1 and above
HIGH = 9  # bits of the first part of log(2): few, so that its products with whole numbers are exact
LEAST, MOST = -104, 89  # exp is 0 there and below, infinite there and above
STEADY = 10  # tanh is 1 there
FULL = 4  # erf is 1 there

HELPERS = """\
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline float fused_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float fused_f32(float a, float b, float c) {
#ifdef __clang__
#pragma clang fp reassociate(off)
#endif
  return a * b + c;
}
#endif
static inline float inside_f32(float x, float low, float high) { /* low < 0 < high; compares bits, for vectors have that in one step */
  int32_t bits, bound;
  __builtin_memcpy(&bits, &x, sizeof bits);
  __builtin_memcpy(&bound, &high, sizeof bound);
  bits = bits < bound ? bits : bound;
  __builtin_memcpy(&bound, &low, sizeof bound);
  bits = (uint32_t)bits < (uint32_t)bound ? bits : bound;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
static inline float scaled_f32(float x, int32_t power) { /* x times a power of 2; both x and that are normal */
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits += (uint32_t)power << 23;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}"""


def elementary(names: Collection[str]) -> list[str]:
    """What the head of a C file needs for those of the functions `name_f32` that are among some names.

    >>> elementary({"tanh", "log"})[1].splitlines()[0], elementary({"log"})
    ('static inline float tanh_f32(float x) {', [])
    """
    needed = {*names, *(("exp",) if "erf" in names else ())}
    found = [text for name, text in _functions().items() if name in needed]
    return [HELPERS, *found] if found else []


@cache
def _functions() -> dict[str, str]:
    """The C text of each function."""
    return dict(
        zip(NAMES, (_of_library("exp", _exp()), _tanh(), _of_library("erf", _erf())), strict=True)
    )


def _of_library(name: str, text: str) -> str:
    """The function of a library of vectors, which gcc calls, and this text elsewhere."""
    return f"""\
#if EINALG_VECTOR_MATH >= {VECTOR_MATH[name]} && !defined(__clang__)
__attribute__((simd("notinbranch"))) float {name}f(float);
#define {name}_f32 {name}f
#else
{text}
#endif"""


def _exp() -> str:
    """`exp(x) = 2^k exp(r)` with the nearest whole `k`; scaled in two steps, for `2^k` alone may be too large or too small."""
    return f"""\
static inline float exp_f32(float x) {{
  const float y = inside_f32(x, {LEAST}.0f, {MOST}.0f);
{_reduced()}
  const int32_t half = (int32_t)k >> 1;
  const float found = scaled_f32(1.0f + less_one, half) * scaled_f32(1.0f, (int32_t)k - half);
  return x == x ? found : x;
}}"""


def _tanh() -> str:
    """From `exp(2x) - 1`, whose digits near 0 are kept."""
    return f"""\
static inline float tanh_f32(float x) {{
  const float y = 2.0f * inside_f32(x, -{STEADY}.0f, {STEADY}.0f);
{_reduced()}
  const float power = scaled_f32(1.0f, (int32_t)k), twice = fused_f32(power, less_one, power - 1.0f);
  const float found = twice / (twice + 2.0f);
  return x == x ? found : x;
}}"""


def _erf() -> str:
    """A polynomial of the square below 1; above, one less `exp` of the logarithm of what is missing from 1."""
    with mpmath.workdps(DIGITS):
        root = 2 / mpmath.sqrt(mpmath.pi)
        small = mpmath.chebyfit(
            lambda t: mpmath.erf(mpmath.sqrt(t)) / mpmath.sqrt(t) if t else root, [0, 1], SMALL
        )
        large = mpmath.chebyfit(lambda a: mpmath.log(mpmath.erfc(a)), [1, FULL], LARGE)
    return f"""\
static inline float erf_f32(float x) {{
  const float size = fabsf(x), a = inside_f32(size, -1.0f, {FULL}.0f), square = x * x;
  const float below = x * {_horner(small, "square")};
  const float above = 1.0f - exp_f32({_horner(large, "a")});
  return size >= 1.0f ? copysignf(above, x) : below;
}}"""


def _reduced() -> str:
    """Lines that give the whole `k` and `less_one = exp(r) - 1` of a number `y = k log(2) + r`."""
    with mpmath.workdps(DIGITS):
        log2 = mpmath.log(2)
        high = mpmath.floor(log2 * 2**HIGH) / 2**HIGH
        rest = mpmath.chebyfit(
            lambda r: mpmath.nsum(lambda n: r**n / mpmath.factorial(n + 2), [0, 30]),
            [-log2 / 2, log2 / 2],
            TERMS,
        )
    return f"""\
  const float k = rintf(y * {_c(1 / log2)});
  const float r = fused_f32(k, {_c(high - log2)}, fused_f32(k, {_c(-high)}, y));
  const float less_one = fused_f32(r * r, {_horner(rest, "r")}, r);"""


def _horner(coefficients: Sequence[Real], name: str) -> str:
    """A polynomial in C, of coefficients from that of the highest power on.

    >>> _horner([3, 2, 1], "r")
    'fused_f32(fused_f32(3.0f, r, 2.0f), r, 1.0f)'
    """
    text, *others = map(_c, coefficients)
    for other in others:
        text = f"fused_f32({text}, {name}, {other})"
    return text


def _c(value: Real) -> str:
    """The nearest number of single precision in C."""
    return f"{np.float32(float(value))!s}f"
