"""Small C functions that generated code calls, and the names that it must not take."""

from __future__ import annotations

from collections.abc import Iterable

C_TYPES = {
    "bool": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t", "u16": "uint16_t",
    "u32": "uint32_t", "u64": "uint64_t", "f16": "half", "bf16": "float", "f32": "float", "f64": "double",
}  # fmt: skip
VECTOR_MATH = {
    **dict.fromkeys(("exp", "log", "pow", "sin", "cos"), 1),
    **dict.fromkeys(
        (
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atan2",
            "atanh",
            "cosh",
            "erf",
            "erfc",
            "expm1",
            "log1p",
            "sinh",
            "tan",
            "tanh",
        ),
        2,
    ),
}  # the functions that glibc has for whole vectors, and since which generation of it
LATER = {"pow": "defined(__aarch64__)"}  # where a function came with the next generation only
MATH = (*VECTOR_MATH, "tgamma", "lgamma", "floor", "ceil", "sqrt", "fmod", "fabs")
KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false half main NAN INFINITY
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t buffers floor_div floor_mod index_max index_min
floor_div64 floor_mod64 index_max64 index_min64 arena load_half store_half shuffled places
signgam y0 y1 yn j0 j1 jn gamma asm typeof""".split()  # noqa: SIM905
)
RESERVED = KEYWORDS.union(MATH, (f"{name}f" for name in MATH))

HALF = """\
#if defined(__FLT16_MAX__) && !defined(EINALG_SOFTWARE_HALF)
typedef _Float16 half;
#define load_half(x) ((float)(x))
#define store_half(x) ((half)(x))
#else /* the compiler has no half precision: convert the bits */
typedef uint16_t half;
static inline float load_half(half h) {
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  union { uint32_t bits; float value; } out;
  if (exponent == 0) {
    out.value = (float)fraction * 0x1p-24f;
    out.bits |= sign;
  } else {
    out.bits = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
  }
  return out.value;
}
static inline half store_half(float x) {
  union { float value; uint32_t bits; } in = {x};
  const uint32_t sign = (in.bits >> 16) & 0x8000, magnitude = in.bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (half)(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return (half)(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    in.bits = magnitude;
    in.value += 0.5f; /* the sum has 24 bits, so that its last place is that of a denormal half */
    return (half)(sign | (in.bits - 0x3f000000));
  }
  return (half)(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
}
#endif
"""


def vector_declarations(functions: Iterable[tuple[str, str]]) -> list[str]:
    """Declarations that let loops call a function of a type for whole vectors, where the compiler's flags say that it exists.

    >>> print(*vector_declarations([("exp", "f32")]), sep="\\n")
    #if EINALG_VECTOR_MATH >= 1
    __attribute__((simd("notinbranch"))) float expf(float);
    #endif
    """
    lines = []
    for name, dtype in sorted(set(functions)):
        if name in VECTOR_MATH:
            c = C_TYPES[dtype]
            arguments = ", ".join([c] * (2 if name in ("pow", "atan2") else 1))
            declaration = f'__attribute__((simd("notinbranch"))) {c} {name}{"f" if dtype == "f32" else ""}({arguments});'
            generation = (
                f"{VECTOR_MATH[name]} + {LATER[name]}" if name in LATER else f"{VECTOR_MATH[name]}"
            )
            lines += [f"#if EINALG_VECTOR_MATH >= {generation}", declaration, "#endif"]
    return lines


def helper(name: str, dtype: str) -> str:
    """The text of the function `name_dtype`.

    >>> helper("max", "f32")
    'static inline float max_f32(float a, float b) { return a > b ? a : b; }'
    """
    c, suffix = C_TYPES[dtype], "f" if dtype == "f32" else ""
    if name.startswith("ipow"):
        return _power(int(name.removeprefix("ipow")), c, f"{name}_{dtype}")
    bodies = {
        "max": (f"{c} a, {c} b", "return a > b ? a : b;"),
        "min": (f"{c} a, {c} b", "return a < b ? a : b;"),
        "abs": (
            f"{c} a",
            f"return fabs{suffix}(a);" if dtype[0] == "f" else "return a < 0 ? -a : a;",
        ),
        "sign": (f"{c} a", "return (a > 0) - (a < 0);"),
        "mod": (
            f"{c} a, {c} b",
            f"const {c} r = fmod{suffix}(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
        ),
    }
    arguments, body = bodies[name]
    return f"static inline {c} {name}_{dtype}({arguments}) {{ {body} }}"


def _power(exponent: int, c: str, name: str) -> str:
    """`x**exponent` by repeated squaring."""
    steps, squares, factors = [], "x", []
    for position, bit in enumerate(reversed(bin(exponent)[2:])):
        if position:
            steps.append(f"const {c} x{position} = {squares} * {squares};")
            squares = f"x{position}"
        if bit == "1":
            factors.append(squares)
    return f"static inline {c} {name}({c} x) {{ {' '.join(steps)} return {' * '.join(factors)}; }}"


def index_helper(name: str, c: str) -> str:
    """Integer division that rounds down also for negative numbers, and bounds of loops."""
    body = {
        "floor_div": "return a / b - (a % b < 0);",
        "floor_mod": f"const {c} r = a % b; return r + (r < 0) * b;",  # gcc 12 gets `r < 0 ? r + b : r` wrong in vectors of 2
        "index_max": "return a > b ? a : b;",
        "index_min": "return a < b ? a : b;",
    }[name]
    return f"static inline {c} {index_function(name, c)}({c} a, {c} b) {{ {body} }}"


def index_function(name: str, c: str) -> str:
    """The name of such a function: functions of both index types may stand in one file."""
    return name if c == "int" else f"{name}64"
