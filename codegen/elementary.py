"""Functions of single precision that generated C computes itself: tanh, and exp where no library has it for vectors (design §10).

These are a few products and sums in the loop itself, which any compiler makes vectors of, where a library's function is a call for each element.
For whole vectors glibc has functions, too: its exp takes as long as this one, its tanh twice as long on processors with 256 bits. The polynomial
that both share is fitted here, so that no table of numbers has to be believed. Errors stay below three units of the last place; infinities, NaN and
what is too small are as the library's functions have them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np

from codegen.c_helpers import VECTOR_MATH

Real = Any  # a number of mpmath
NAMES = ("exp", "tanh")
DIGITS = 40  # of what is fitted
TERMS = 5  # of the polynomial
HIGH = 9  # bits of the first part of log(2): few, so that its products with whole numbers are exact
LEAST, MOST = -104, 89  # exp is 0 there and below, infinite there and above
STEADY = 10  # tanh is 1 there

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
    found = [text for name, text in _functions().items() if name in names]
    return [HELPERS, *found] if found else []


@cache
def _functions() -> dict[str, str]:
    """`exp(x) = 2^k exp(r)` with the nearest whole `k`, scaled in two steps, for `2^k` alone may be too large or too small; and `tanh(x)` from
    `exp(2x) - 1`, whose digits near 0 are kept."""
    exp = f"""\
#if EINALG_VECTOR_MATH >= {VECTOR_MATH["exp"]} && !defined(__clang__)
__attribute__((simd("notinbranch"))) float expf(float);
#define exp_f32 expf
#else
static inline float exp_f32(float x) {{
  const float y = inside_f32(x, {LEAST}.0f, {MOST}.0f);
{_reduced()}
  const int32_t half = (int32_t)k >> 1;
  const float found = scaled_f32(1.0f + less_one, half) * scaled_f32(1.0f, (int32_t)k - half);
  return x == x ? found : x;
}}
#endif"""
    tanh = f"""\
static inline float tanh_f32(float x) {{
  const float y = 2.0f * inside_f32(x, -{STEADY}.0f, {STEADY}.0f);
{_reduced()}
  const float power = scaled_f32(1.0f, (int32_t)k), twice = fused_f32(power, less_one, power - 1.0f);
  const float found = twice / (twice + 2.0f);
  return x == x ? found : x;
}}"""
    return dict(zip(NAMES, (exp, tanh), strict=True))


def _reduced() -> str:
    """Lines that give the whole `k` and `less_one = exp(r) - 1` of a number `y = k log(2) + r`."""
    with mpmath.workdps(DIGITS):
        log2 = mpmath.log(2)
        high = mpmath.floor(log2 * 2**HIGH) / 2**HIGH
        rest = mpmath.chebyfit(lambda r: mpmath.nsum(lambda n: r**n / mpmath.factorial(n + 2), [0, 30]), [-log2 / 2, log2 / 2], TERMS)
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
