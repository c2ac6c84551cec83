"""Functions of vectors in C: each element of the result is of the elements in the same lane.

None is left to the compiler's vectoriser, which does not know a function in a register tile again.
"""

from __future__ import annotations

from codegen.ir.types import bytes_of
from codegen.targets.c.functions.names import C_TYPES
from einalg.language.ir.dtypes import is_float

FUNCTIONS = {"abs": 1, "max": 2, "min": 2, "at_least": 2, "at_most": 2, "chosen": 3}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
BOUNDS = {"max": "at_least", "min": "at_most"}
RELATIONS = {"at_least": ">", "at_most": "<"}
X86_NAMES = {"at_least": "max", "at_most": "min"}
X86_SUFFIXES = {"f32": "ps", "f64": "pd"}
MASKED_BYTES = 64  # of the vectors whose instructions take masks
ORDERED, CURRENT_ROUNDING = 7, 4  # of the instructions of x86
X86_VECTORS = {16: ("SSE2", ""), 32: ("AVX", "256"), 64: ("AVX512F", "512_mask")}  # by bytes


def vector_type(dtype: str, width: int) -> str:
    """Return the C type of `width` elements side by side.

    >>> vector_type("f32", 16)
    'f32x16'
    """
    return f"{dtype}x{width}"


def vector_declaration(dtype: str, width: int) -> str:
    """Return the C types of a vector: in a register, and anywhere in memory.

    >>> print(vector_declaration("f32", 4))
    typedef float f32x4 __attribute__((vector_size(16)));
    typedef float f32x4u __attribute__((vector_size(16), aligned(4), may_alias));
    """
    name, c, size = vector_type(dtype, width), C_TYPES[dtype], bytes_of(dtype)
    whole = f"vector_size({width * size})"
    return (
        f"typedef {c} {name} __attribute__(({whole}));\n"
        f"typedef {c} {name}u __attribute__(({whole}, aligned({size}), may_alias));"
    )


def mask_type(dtype: str) -> str:
    """Return the type of a lane of a comparison: all bits are set where it holds."""
    return f"i{8 * bytes_of(dtype)}"


def lane_function(name: str, dtype: str, width: int) -> str:
    """Return the text of a function of vectors, with the types that it needs.

    `max` and `min` of floats are NaN where one of the two is; `at_least` and `at_most` are the
    second argument there. `chosen` takes a mask.

    >>> print(lane_function("chosen", "i32", 4).splitlines()[-1])
    }
    """
    vector, mask = vector_type(dtype, width), vector_type(mask_type(dtype), width)
    lines = [vector_declaration(dtype, width)]
    if mask != vector:
        lines.append(vector_declaration(mask_type(dtype), width))
    arguments = [f"const {vector} {letter}" for letter in "ab"[: FUNCTIONS[name]]]
    if name == "chosen":
        arguments.insert(0, f"const {mask} m")
        body = [f"  return ({vector})((m & ({mask})a) | (~m & ({mask})b));"]
    elif name == "abs":
        body = [_absolute(dtype, vector, mask)]
    else:
        body = [f"  {vector} r;", *_bound(BOUNDS.get(name, name), dtype, width), "  return r;"]
        if name in BOUNDS and is_float(dtype):
            body = _exact_extreme(name, dtype, width)
    attributes = "static inline __attribute__((always_inline))"
    head = f"{attributes} {vector} {name}_{vector}({', '.join(arguments)}) {{"
    return "\n".join([*lines, head, *body, "}"])


def _absolute(dtype: str, vector: str, mask: str) -> str:
    if is_float(dtype):
        bits = 8 * bytes_of(dtype)
        return f"  return ({vector})(({mask})a & ~(INT{bits}_C(1) << {bits - 2} << 1));"
    return f"  const {mask} m = a < 0; return (a ^ m) - m;"


def _exact_extreme(name: str, dtype: str, width: int) -> list[str]:
    """Return the body of an extreme that is NaN where an argument is.

    A masked instruction of AVX-512 leaves the first argument where that is NaN.
    """
    vector, mask = vector_type(dtype, width), vector_type(mask_type(dtype), width)
    plain = [
        f"  {vector} r;",
        *_bound(BOUNDS[name], dtype, width),
        f"  const {mask} is_number = a == a;",
        f"  return ({vector})((is_number & ({mask})r) | (~is_number & ({mask})a));",
    ]
    if width * bytes_of(dtype) != MASKED_BYTES:
        return plain
    suffix = f"{X86_SUFFIXES[dtype]}512_mask"
    is_number = f"__builtin_ia32_cmp{suffix}(a, a, {ORDERED}, -1, {CURRENT_ROUNDING})"
    return [
        "#if defined(__AVX512F__) && !defined(__clang__)",
        f"  return __builtin_ia32_{name}{suffix}(a, b, a, {is_number}, {CURRENT_ROUNDING});",
        "#else",
        *plain,
        "#endif",
    ]


def _bound(name: str, dtype: str, width: int) -> list[str]:
    """Return what sets `r` to an extreme: the second argument where one of them is NaN.

    gcc does not see that this is one instruction of x86.
    """
    vector, mask = vector_type(dtype, width), vector_type(mask_type(dtype), width)
    plain = [
        f"  const {mask} m = a {RELATIONS[name]} b;",
        f"  r = ({vector})((m & ({mask})a) | (~m & ({mask})b));",
    ]
    size = width * bytes_of(dtype)
    if dtype not in X86_SUFFIXES or size not in X86_VECTORS:
        return plain
    feature, ending = X86_VECTORS[size]
    arguments = "a, b"
    if ending == "512_mask":
        arguments = f"a, b, a, -1, {CURRENT_ROUNDING}"
    call = f"__builtin_ia32_{X86_NAMES[name]}{X86_SUFFIXES[dtype]}{ending}"
    return [
        f"#if defined(__{feature}__) && !defined(__clang__)",
        f"  r = {call}({arguments});",
        "#else",
        *plain,
        "#endif",
    ]
