"""Functions of single precision that generated C computes itself: exp, tanh and erf (design §10).

Each is a few products and sums in the loop itself, which any compiler makes vectors of, also where
the loop has conditions. A library's function is a call for each element there. For whole vectors
glibc has functions, too, which gcc can call; but they take longer (erf twice as long), and many
times as long where a result is too small to be a normal number, as those of exp behind a mask are.

Polynomials are fitted here, so that no table of numbers has to be believed. Errors stay below three
units of the last place, those of erf below seven; infinities, NaN and what is too small are as the
library's functions have them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np

from codegen.ir.scalars.functions import LARGEST_EXPONENT
from codegen.targets.c.functions.names import C_TYPES, math_suffix
from codegen.targets.c.functions.rational_fit import rational_fit

Real = Any  # a number of mpmath
NAMES = ("exp", "exp_bounded", "tanh", "erf")
FIT_DIGITS = 40  # decimal ones, of the numbers with which polynomials are fitted
EXP_TERMS = 5  # of the polynomial of exp
ERF_DEGREE = 5  # of both polynomials of erf
LOG2_BITS = 9  # of the first part of log(2): few, so that products with whole numbers are exact
EXP_LOW, EXP_HIGH = -104, 89  # exp is 0 at the one and below, infinite at the other and above
SHIFT = 3 << 22  # numbers of this size end with the bits of whole ones: adding it rounds to these
SCALED_UP = 64  # exponent of 2: with it, exp of -104 is a normal number
TANH_END = 10  # tanh is 1 there
ERF_END = 4  # erf is 1 there

FUSED = """\
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline {c} fused_{dtype}({c} a, {c} b, {c} c) {{ return __builtin_fma{suffix}(a, b, c); }}
#else
static inline {c} fused_{dtype}({c} a, {c} b, {c} c) {{
#ifdef __clang__
#pragma clang fp reassociate(off)
#endif
  return a * b + c;
}}
#endif"""
HELPERS = """\
static inline float rounded_f32(float shifted, float shift) { /* a number, from its sum with \
that */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return shifted - shift;
#else
  int32_t bits, zero; /* a compiler that reassociates would take the sum back */
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  __builtin_memcpy(&zero, &shift, sizeof zero);
  return (float)(bits - zero);
#endif
}
static inline uint32_t whole_f32(float shifted) { /* the last bits of that whole number */
  uint32_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  return bits;
}
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
static inline float scaled_f32(float x, uint32_t power) { /* x times a power of 2, of whose \
bits the last nine count; both x and that are normal */
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits += power << 23;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}"""


def fused(dtype: str) -> str:
    """Return the function for `a*b + c` whose product the compiler combines with nothing else.

    gcc has no way to say that of vectors where the processor does not have it as one step.
    """
    return FUSED.format(dtype=dtype, c=C_TYPES[dtype], suffix=math_suffix(dtype))


def elementary(names: Collection[str]) -> list[str]:
    """Return what the head of a C file needs for the functions `name_f32` of some names.

    >>> elementary({"tanh", "log"})[2].splitlines()[0], elementary({"log"})
    ('static inline float tanh_f32(float x) {', [])
    """
    texts = [text for name, text in _functions().items() if name in names]
    if not texts:
        return []
    return [fused("f32"), HELPERS, *texts]


@cache
def _functions() -> dict[str, str]:
    """Return the C text of each function."""
    return dict(zip(NAMES, (_exp(), _exp_bounded(), _tanh(), _erf()), strict=True))


def _exp() -> str:
    """Return `exp(x) = 2^k exp(r)` with the nearest whole `k`.

    It is scaled in two steps, for `2^k` alone may be too large or too small.
    """
    return f"""\
static inline float exp_f32(float x) {{
  const float y = inside_f32(x, {EXP_LOW}.0f, {EXP_HIGH}.0f);
{_reduced()}
  const uint32_t bits = whole_f32(shifted), half = bits >> 1;
  const float value = scaled_f32(1.0f + less_one, half) * scaled_f32(1.0f, bits - half);
  return x == x ? value : x;
}}"""


def _exp_bounded() -> str:
    """Return `exp(x)` of `x` up to `LARGEST_EXPONENT`: scaled up, which leaves it below the largest
    float, so that one factor scales it down at the end. The whole `k` has the exponent of that.

    What is above by rounding, where numbers are so large, is taken for that.
    """
    return f"""\
static inline float exp_bounded_f32(float x) {{
  const float y = inside_f32(x, {EXP_LOW}.0f, {LARGEST_EXPONENT}.0f);
{_reduced(SHIFT + SCALED_UP)}
  const float value = scaled_f32(1.0f + less_one, whole_f32(shifted)) * 0x1p-{SCALED_UP}f;
  return x == x ? value : x;
}}"""


def _tanh() -> str:
    """Return tanh from `exp(2x) - 1`, which keeps its digits near 0."""
    return f"""\
static inline float tanh_f32(float x) {{
  const float y = 2.0f * inside_f32(x, -{TANH_END}.0f, {TANH_END}.0f);
{_reduced()}
  const float power = scaled_f32(1.0f, whole_f32(shifted)), \
twice = fused_f32(power, less_one, power - 1.0f);
  const float value = twice / (twice + 2.0f);
  return x == x ? value : x;
}}"""


def _erf() -> str:
    """Return erf: a number times a quotient of polynomials of its square."""
    with mpmath.workdps(FIT_DIGITS):
        above, below = rational_fit(_erf_of_square, ERF_END**2, ERF_DEGREE)
    return f"""\
static inline float erf_f32(float x) {{
  const float a = inside_f32(x, -{ERF_END}.0f, {ERF_END}.0f), square = a * a;
  const float above = a * {_horner(above, "square")}, below = {_horner(below, "square")};
  const float value = above / below; /* 1 at the end */
  return x == x ? value : x;
}}"""


def _erf_of_square(square: Real) -> Real:
    """Return `erf(x) / x` for the square of x."""
    if not square:
        return 2 / mpmath.sqrt(mpmath.pi)
    return mpmath.erf(mpmath.sqrt(square)) / mpmath.sqrt(square)


def _exp_rest(r: Real) -> Real:
    """Return `(exp(r) - 1 - r) / r^2`, by its series."""
    return mpmath.nsum(lambda n: r**n / mpmath.factorial(n + 2), [0, 30])


def _reduced(shift: int = SHIFT) -> str:
    """Return lines for the whole `k` and `less_one = exp(r) - 1` of a number `y = k log(2) + r`.

    `shifted` ends with the bits of `k`, and of what `shift` has beside `SHIFT`.
    """
    with mpmath.workdps(FIT_DIGITS):
        log2 = mpmath.log(2)
        high = mpmath.floor(log2 * 2**LOG2_BITS) / 2**LOG2_BITS
        rest = mpmath.chebyfit(_exp_rest, [-log2 / 2, log2 / 2], EXP_TERMS)
    return f"""\
  const float shifted = fused_f32(y, {_c(1 / log2)}, {shift}.0f);
  const float k = rounded_f32(shifted, {shift}.0f);
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
