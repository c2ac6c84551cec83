"""The functions that glibc has for whole vectors, so that equal numbers have equal results.

The library's functions of 16 numbers, of 8, of 4 and of one differ in the last place, and a
compiler calls whichever fits: another at the end of a row than within it. A model that asks whether
all is equal (`x - min(x) == 0`) then sees noise in silence. So the function of the longest vectors
computes every element: shorter vectors, and a number alone, fill one.

The compiler makes its calls by the names of the library. Those for all but the longest vectors are
defined in the file itself, hidden from others, and call that of the longest.
"""

from __future__ import annotations

from collections.abc import Iterable

from codegen.targets.c.helpers import C_TYPES, VECTOR_MATH, math_suffix

# Where a function of the first generation came with the second one.
ONE_GENERATION_LATER = {"pow": "defined(__aarch64__)"}
BINARY_VECTOR_MATH = ("pow", "atan2")
ELEMENT_BYTES = {"f32": 4, "f64": 8}

# `LONGEST_f32(v, expf)` is the name of the function of the longest vectors: `_ZGVeN16v_expf`.
# `EQUAL_f32(ONE, v, expf)` declares it, and defines what the compiler may call in its stead.
EQUAL_RESULTS = """\
#if EINALG_VECTOR_MATH >= 1 && !defined(__clang__)
/* Equal numbers have equal results: the function of the longest vectors computes every element. */
#define CALLED
#if defined(__aarch64__)
#undef CALLED
#define CALLED __attribute__((aarch64_vector_pcs))
#define LONGEST_BYTES 16
#define LONGEST_f32(v, name) _ZGVnN4##v##_##name
#define LONGEST_f64(v, name) _ZGVnN2##v##_##name
#define SHORTER_f32(define, v, name) \\
  define(f32, 8, CALLED, _ZGVnN2##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name)
#elif defined(__AVX512F__)
#define LONGEST_BYTES 64
#define LONGEST_f32(v, name) _ZGVeN16##v##_##name
#define LONGEST_f64(v, name) _ZGVeN8##v##_##name
#define SHORTER_f32(define, v, name) \\
  define(f32, 32, CALLED, _ZGVdN8##v##_##name, LONGEST_f32(v, name)) \\
  define(f32, 16, CALLED, _ZGVbN4##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name) \\
  define(f64, 32, CALLED, _ZGVdN4##v##_##name, LONGEST_f64(v, name)) \\
  define(f64, 16, CALLED, _ZGVbN2##v##_##name, LONGEST_f64(v, name))
#elif defined(__AVX__)
#define LONGEST_BYTES 32
#if defined(__AVX2__)
#define LONGEST_f32(v, name) _ZGVdN8##v##_##name
#define LONGEST_f64(v, name) _ZGVdN4##v##_##name
#else
#define LONGEST_f32(v, name) _ZGVcN8##v##_##name
#define LONGEST_f64(v, name) _ZGVcN4##v##_##name
#endif
#define SHORTER_f32(define, v, name) \\
  define(f32, 16, CALLED, _ZGVbN4##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name) \\
  define(f64, 16, CALLED, _ZGVbN2##v##_##name, LONGEST_f64(v, name))
#else
#define LONGEST_BYTES 16
#define LONGEST_f32(v, name) _ZGVbN4##v##_##name
#define LONGEST_f64(v, name) _ZGVbN2##v##_##name
#define SHORTER_f32(define, v, name)
#define SHORTER_f64(define, v, name)
#endif
#define HIDDEN __attribute__((visibility("hidden")))
#define VECTOR(bytes) __attribute__((vector_size(bytes)))
typedef float longest_f32 VECTOR(LONGEST_BYTES), f32_in_32 VECTOR(32), f32_in_16 VECTOR(16), \
f32_in_8 VECTOR(8), f32_in_4;
typedef double longest_f64 VECTOR(LONGEST_BYTES), f64_in_32 VECTOR(32), f64_in_16 VECTOR(16), \
f64_in_8;
#define FILLED(type, x) ({ \\
  longest_##type all; \\
  for (unsigned k = 0; k < sizeof all; k += sizeof x) \\
    __builtin_memcpy((char *)&all + k, &x, sizeof x); \\
  all; })
#define ONE(type, bytes, called, name, longest) \\
  HIDDEN called type##_in_##bytes name(type##_in_##bytes x) { \\
    const longest_##type all = longest(FILLED(type, x)); \\
    __builtin_memcpy(&x, &all, sizeof x); \\
    return x; \\
  }
#define TWO(type, bytes, called, name, longest) \\
  HIDDEN called type##_in_##bytes name(type##_in_##bytes x, type##_in_##bytes y) { \\
    const longest_##type all = longest(FILLED(type, x), FILLED(type, y)); \\
    __builtin_memcpy(&x, &all, sizeof x); \\
    return x; \\
  }
#endif"""


def vector_declarations(functions: Iterable[tuple[str, str]]) -> list[str]:
    """Return what lets loops call functions, each with its type, for whole vectors.

    It holds where the compiler's flags say that the library has them.

    >>> print(vector_declarations([("exp", "f32")])[-1])
    #if EINALG_VECTOR_MATH >= 1 && !defined(__clang__)
    __attribute__((simd("notinbranch"), const)) float expf(float);
    CALLED longest_f32 LONGEST_f32(v, expf)(longest_f32);
    SHORTER_f32(ONE, v, expf)
    float number_expf(float) __asm__("expf");
    ONE(f32, 4, , number_expf, LONGEST_f32(v, expf))
    #endif
    """
    called = set(functions)
    texts = []
    for name, dtype in sorted(called):
        if name in VECTOR_MATH:
            texts.append(_declaration(name, dtype))
        if name == "sin" and ("cos", dtype) in called:
            texts.append(_separate_cosine(dtype))
    if not texts:
        return []
    return [EQUAL_RESULTS, *texts]


def available(function: str) -> str:
    """Return the condition, in C, that the library has a function for vectors.

    >>> available("erf")
    'EINALG_VECTOR_MATH >= 2 && !defined(__clang__)'
    """
    generation = str(VECTOR_MATH[function])
    if function in ONE_GENERATION_LATER:
        generation = f"{generation} + {ONE_GENERATION_LATER[function]}"
    return f"EINALG_VECTOR_MATH >= {generation} && !defined(__clang__)"


def _declaration(function: str, dtype: str) -> str:
    """Return the declarations of one function of one type, and the definitions that call it."""
    c, longest = C_TYPES[dtype], f"longest_{dtype}"
    define, v, numbers, vectors = "ONE", "v", c, longest
    if function in BINARY_VECTOR_MATH:
        define, v, numbers, vectors = "TWO", "vv", f"{c}, {c}", f"{longest}, {longest}"
    name = f"{function}{math_suffix(dtype)}"
    symbol = f"LONGEST_{dtype}({v}, {name})"
    return f"""\
#if {available(function)}
__attribute__((simd("notinbranch"), const)) {c} {name}({numbers});
CALLED {longest} {symbol}({vectors});
SHORTER_{dtype}({define}, {v}, {name})
{c} number_{name}({numbers}) __asm__("{name}");
{define}({dtype}, {ELEMENT_BYTES[dtype]}, , number_{name}, {symbol})
#endif"""


def _separate_cosine(dtype: str) -> str:
    """Return what hides from gcc that a function is the cosine.

    It would compute sine and cosine of a number together, which it cannot do for vectors.
    """
    c, name = C_TYPES[dtype], f"cos{math_suffix(dtype)}"
    return f"""\
#if {available("cos")}
__attribute__((simd("notinbranch"), const)) {c} separate_{name}({c}) __asm__("{name}");
#define {name} separate_{name}
#endif"""
