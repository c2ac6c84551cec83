"""The functions that glibc has for whole vectors, so that equal numbers have equal results.

The library's functions of 16 numbers, of 8, of 4 and of one differ in the last place, and a
compiler calls whichever fits: another at the end of a row than within it. A model that asks whether
all is equal (`x - min(x) == 0`) then sees noise in silence. So the function of the longest vectors
computes every element: shorter vectors, and a number alone, fill one.

The compiler makes its calls by the names of the library. Those for all but the longest vectors are
defined in the file itself, and call that of the longest. They are the file's own: a library that is
linked statically calls a function of one number where a number is special, and must not meet these.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from codegen.targets.c.functions.names import C_TYPES, VECTOR_MATH, math_suffix

# Where a function of the first generation came with the second one.
ONE_GENERATION_LATER = {"pow": "defined(__aarch64__)"}
BINARY_VECTOR_MATH = ("pow", "atan2")
ELEMENT_BYTES = {"f32": 4, "f64": 8}

# `LONGEST_f32(v, expf)` is the name of the function of the longest vectors: `_ZGVeN16v_expf`.
# `EQUAL_f32(ONE, v, expf)` declares it, and defines what the compiler may call in its stead.
EQUAL_RESULTS = Path(__file__).with_name("library.h").read_text().rstrip()


def vector_declarations(functions: Iterable[tuple[str, str]]) -> list[str]:
    """Return what lets loops call functions, each with its type, for whole vectors.

    It holds where the compiler's flags say that the library has them.

    >>> print(vector_declarations([("exp", "f32")])[-1])
    #if EINALG_VECTOR_MATH >= 1 && !defined(__clang__)
    __attribute__((simd("notinbranch"), const)) float expf(float);
    CALLED longest_f32 LONGEST_f32(v, expf)(longest_f32);
    SHORTER_f32(ONE, v, expf)
    static float number_expf(float) __asm__("expf");
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
static {c} number_{name}({numbers}) __asm__("{name}");
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
