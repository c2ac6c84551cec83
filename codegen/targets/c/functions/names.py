"""Types of C, and the functions of its library, by the names that they have in expressions."""

from __future__ import annotations

C_TYPES = {
    "bool": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "i128": "__int128",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "f16": "half",
    "bf16": "float",
    "f32": "float",
    "f64": "double",
}
# The functions that glibc has for whole vectors, by the generation of its library they came with.
FIRST_VECTOR_MATH = ("exp", "log", "pow", "sin", "cos")
SECOND_VECTOR_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "erf", "erfc", "expm1"),
    *("log1p", "sinh", "tan", "tanh"),
)
VECTOR_MATH = {**dict.fromkeys(FIRST_VECTOR_MATH, 1), **dict.fromkeys(SECOND_VECTOR_MATH, 2)}
MATH = (*VECTOR_MATH, "tgamma", "lgamma", "floor", "ceil", "sqrt", "fmod", "fabs")


def math_suffix(dtype: str) -> str:
    """Return what ends the names of the library's functions of a type."""
    if dtype == "f32":
        return "f"
    return ""
