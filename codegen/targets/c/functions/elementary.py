"""Functions of single precision that generated C computes itself (design §10).

They are tanh; exp and erf where no library has them for vectors. Each is a few products and sums in
the loop itself, which any compiler makes vectors of, where a library's function is a call for each
element. For whole vectors glibc has functions, too, which gcc calls: its exp takes as long as this
one, its erf half as long, but its tanh twice as long on processors with 256 bits.

Polynomials are fitted here, so that no table of numbers has to be believed. Errors stay below three
units of the last place; infinities, NaN and what is too small are as the library's functions have
them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np

from codegen.targets.c.functions.library import available, vector_declarations

Real = Any  # a number of mpmath
NAMES = ("exp", "tanh", "erf")
OF_LIBRARY = frozenset({"exp", "erf"})  # those that are the library's where it has them for vectors
FIT_DIGITS = 40  # decimal ones, of the numbers with which polynomials are fitted
EXP_TERMS = 5  # of the polynomial of exp
SMALL_ERF_TERMS, LARGE_ERF_TERMS = 7, 9  # of those of erf, below 1 and above
LOG2_BITS = 9  # of the first part of log(2): few, so that products with whole numbers are exact
EXP_LOW, EXP_HIGH = -104, 89  # exp is 0 at the one and below, infinite at the other and above
TANH_END = 10  # tanh is 1 there
ERF_END = 4  # erf is 1 there

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
static inline float inside_f32(float x, float low, float high) { /* low < 0 < high; \
compares bits, for vectors have that in one step */
  int32_t bits, bound;
  __builtin_memcpy(&bits, &x, sizeof bits);
  __builtin_memcpy(&bound, &high, sizeof bound);
  bits = bits < bound ? bits : bound;
  __builtin_memcpy(&bound, &low, sizeof bound);
  bits = (uint32_t)bits < (uint32_t)bound ? bits : bound;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
static inline float scaled_f32(float x, int32_t power) { /* x times a power of 2; \
both x and that are normal */
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits += (uint32_t)power << 23;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}"""


def elementary(names: Collection[str], has_library: bool = True) -> list[str]:
    """Return what the head of a C file needs for the functions `name_f32` of some names.

    Without the library of vector functions, each is computed here.

    >>> elementary({"tanh", "log"})[1].splitlines()[0], elementary({"log"})
    ('static inline float tanh_f32(float x) {', [])
    """
    needed = set(names)
    if "erf" in needed:
        needed.add("exp")
    texts = {name: text for name, text in _functions().items() if name in needed}
    if not texts:
        return []
    if not has_library:
        return [HELPERS, *texts.values()]
    for name in OF_LIBRARY & texts.keys():
        texts[name] = _of_library(name, texts[name])
    of_library = vector_declarations((name, "f32") for name in needed & OF_LIBRARY)
    return [*of_library, HELPERS, *texts.values()]


@cache
def _functions() -> dict[str, str]:
    """Return the C text of each function."""
    return dict(zip(NAMES, (_exp(), _tanh(), _erf()), strict=True))


def _of_library(name: str, text: str) -> str:
    """Return the function of a library of vectors, which gcc calls, and this text elsewhere."""
    return f"""\
#if {available(name)}
#define {name}_f32 {name}f
#else
{text}
#endif"""


def _exp() -> str:
    """Return `exp(x) = 2^k exp(r)` with the nearest whole `k`.

    It is scaled in two steps, for `2^k` alone may be too large or too small.
    """
    return f"""\
static inline float exp_f32(float x) {{
  const float y = inside_f32(x, {EXP_LOW}.0f, {EXP_HIGH}.0f);
{_reduced()}
  const int32_t half = (int32_t)k >> 1;
  const float value = scaled_f32(1.0f + less_one, half) * scaled_f32(1.0f, (int32_t)k - half);
  return x == x ? value : x;
}}"""


def _tanh() -> str:
    """Return tanh from `exp(2x) - 1`, which keeps its digits near 0."""
    return f"""\
static inline float tanh_f32(float x) {{
  const float y = 2.0f * inside_f32(x, -{TANH_END}.0f, {TANH_END}.0f);
{_reduced()}
  const float power = scaled_f32(1.0f, (int32_t)k), \
twice = fused_f32(power, less_one, power - 1.0f);
  const float value = twice / (twice + 2.0f);
  return x == x ? value : x;
}}"""


def _erf() -> str:
    """Return erf: a polynomial of the square below 1, and `1 - erfc(x)` above.

    There the logarithm of erfc is a polynomial.
    """
    with mpmath.workdps(FIT_DIGITS):
        small = mpmath.chebyfit(_erf_of_square, [0, 1], SMALL_ERF_TERMS)
        large = mpmath.chebyfit(lambda a: mpmath.log(mpmath.erfc(a)), [1, ERF_END], LARGE_ERF_TERMS)
    return f"""\
static inline float erf_f32(float x) {{
  const float size = fabsf(x), a = inside_f32(size, -1.0f, {ERF_END}.0f), square = x * x;
  const float below = x * {_horner(small, "square")};
  const float above = 1.0f - exp_f32({_horner(large, "a")});
  return size >= 1.0f ? copysignf(above, x) : below;
}}"""


def _erf_of_square(square: Real) -> Real:
    """Return `erf(x) / x` for the square of x."""
    if not square:
        return 2 / mpmath.sqrt(mpmath.pi)
    return mpmath.erf(mpmath.sqrt(square)) / mpmath.sqrt(square)


def _exp_rest(r: Real) -> Real:
    """Return `(exp(r) - 1 - r) / r^2`, by its series."""
    return mpmath.nsum(lambda n: r**n / mpmath.factorial(n + 2), [0, 30])


def _reduced() -> str:
    """Return lines for the whole `k` and `less_one = exp(r) - 1` of a number `y = k log(2) + r`."""
    with mpmath.workdps(FIT_DIGITS):
        log2 = mpmath.log(2)
        high = mpmath.floor(log2 * 2**LOG2_BITS) / 2**LOG2_BITS
        rest = mpmath.chebyfit(_exp_rest, [-log2 / 2, log2 / 2], EXP_TERMS)
    return f"""\
  const float k = rintf(y * {_c(1 / log2)});
  const float r = fused_f32(k, {_c(high - log2)}, fused_f32(k, {_c(-high)}, y));
  const float less_one = fused_f32(r * r, {_horner(rest, "r")}, r);"""


def _horner(coefficients: Sequence[Real], name: str) -> str:
    """Return a polynomial in C, of coefficients from that of the highest power on.

    >>> _horner([3, 2, 1], "r")
    'fused_f32(fused_f32(3.0f, r, 2.0f), r, 1.0f)'
    """
    text, *others = map(_c, coefficients)
    for other in others:
        text = f"fused_f32({text}, {name}, {other})"
    return text


def _c(value: Real) -> str:
    """Return the nearest number of single precision in C."""
    return f"{np.float32(float(value))!s}f"
