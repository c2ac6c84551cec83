"""Small C functions that generated code calls, and the names that it must not use."""

from __future__ import annotations

from codegen.targets.c.functions.conversions import MACROS
from codegen.targets.c.functions.elementary import fused
from codegen.targets.c.functions.names import C_TYPES, MATH, math_suffix
from einalg.language.ir.dtypes import is_float

KEYWORDS = frozenset(
    """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while bool true false half main NAN NULL INFINITY int8_t int16_t int32_t int64_t uint8_t
uint16_t uint32_t uint64_t buffers floor_div floor_mod index_max index_min floor_div64 floor_mod64
index_max64 index_min64 arena load_half store_half loaded_half stored_half round_half store_bfloat
load_halves store_halves shuffled places
CALLED FILLED ONE OWN TWO VECTOR longest_f32 longest_f64
isunordered signgam y0 y1 yn j0 j1 jn gamma asm typeof
""".split()  # noqa: SIM905
)
LETTERS = "abcdefghijkl"  # without m, which is the extreme of the letters before
MOST_LETTERS = len(LETTERS)
RESERVED = KEYWORDS.union(MATH, (f"{name}f" for name in MATH), MACROS)


def helper(name: str, dtype: str) -> str:
    """Return the text of the function `name_dtype`.

    `max` and `min` of floats are NaN where one of the two is, and so are `max3`, `min3`, `max4`, …
    of more; `at_least` and `at_most` pass over a NaN that is their first argument, and need one
    comparison.

    >>> helper("at_least", "f32")
    'static inline float at_least_f32(float a, float b) { return a > b ? a : b; }'
    """
    c, suffix = C_TYPES[dtype], math_suffix(dtype)
    if name == "fused":
        return fused(dtype)
    if name.startswith("ipow"):
        return _power(int(name.removeprefix("ipow")), c, f"{name}_{dtype}")
    if name.startswith(("max", "min")) and name not in ("max", "min"):
        return _extreme(name[:3], int(name[3:]), dtype)
    absolute = "return a < 0 ? -a : a;"
    larger, smaller = "return a > b ? a : b;", "return a < b ? a : b;"
    largest, smallest = larger, smaller
    if dtype[0] == "f":
        absolute = f"return fabs{suffix}(a);"
        # A comparison with NaN gives b; vectors select once more for the NaN of a.
        largest = f"const {c} m = a > b ? a : b; return a == a ? m : a;"
        smallest = f"const {c} m = a < b ? a : b; return a == a ? m : a;"
    modulo, quotient = _rounded_division(dtype)
    bodies = {
        "max": (f"{c} a, {c} b", largest),
        "min": (f"{c} a, {c} b", smallest),
        "at_least": (f"{c} a, {c} b", larger),
        "at_most": (f"{c} a, {c} b", smaller),
        "abs": (f"{c} a", absolute),
        "sign": (f"{c} a", "return (a > 0) - (a < 0);"),
        "mod": (f"{c} a, {c} b", modulo),
        "scale": (f"{c} a, {c} b", "return a * b;"),
        "quotient": (f"{c} a, {c} b", quotient),
    }
    arguments, body = bodies[name]
    return f"static inline {c} {name}_{dtype}({arguments}) {{ {body} }}"


def _rounded_division(dtype: str) -> tuple[str, str]:
    """Return the bodies of the remainder with the sign of the divisor and of the quotient that is
    rounded down, as in Python.
    """
    c, suffix = C_TYPES[dtype], math_suffix(dtype)
    has_other_sign = "r != 0 && (r < 0) != (b < 0)"
    if is_float(dtype):
        modulo = f"const {c} r = fmod{suffix}(a, b); return {has_other_sign} ? r + b : r;"
        # The exact quotient is near a whole number once the remainder is taken off.
        quotient = (
            f"const {c} p = a / b, r = fmod{suffix}(a, b), q = (a - r) / b; "
            f"const {c} d = {has_other_sign} ? q - 1 : q, w = floor{suffix}(d); "
            "return b == 0 ? p : d - w > 0.5 ? w + 1 : w;"
        )
        return modulo, quotient
    if dtype[0] == "u":
        return "return b == 0 ? 0 : a % b;", "return b == 0 ? 0 : a / b;"
    # As in NumPy, a division by 0 gives 0. A processor stops at it, and at the least integer over
    # -1.
    modulo = (
        "if (b == 0 || b == -1) return 0; "
        f"const {c} r = a % b; return {has_other_sign} ? r + b : r;"
    )
    quotient = (
        f"if (b == 0) return 0; if (b == -1) return ({c})(0 - ({_unsigned(c)})a); "
        f"const {c} r = a % b; return a / b - ({has_other_sign});"
    )
    return modulo, quotient


def _unsigned(c: str) -> str:
    """Return the type without sign that is as long as one with a sign."""
    if c.startswith("__"):
        return f"unsigned {c}"
    return f"u{c}"


def _extreme(op: str, count: int, dtype: str) -> str:
    """Return the function of a maximum or minimum of more than two numbers.

    A comparison keeps what it had where either is NaN: the first number. The others are tested in
    pairs, each as soon as it was compared, while it is in a register.

    >>> for part in _extreme("max", 4, "f32").split("; "):
    ...     print(part)
    static inline float max4_f32(float a, float b, float c, float d) { float m = a
    m = b > m ? b : m
    m = c > m ? c : m
    int u = isunordered(b, c)
    m = d > m ? d : m
    u |= isunordered(d, d)
    return u ? NAN : m
    }
    """
    c, relation = C_TYPES[dtype], {"max": ">", "min": "<"}[op]
    first, *others = names = _argument_names(count)
    steps, declared, result = [f"{c} m = {first};"], "int u =", "m"
    for one, two in zip(others[::2], [*others[1::2], others[-1]]):
        for name in dict.fromkeys((one, two)):
            steps.append(f"m = {name} {relation} m ? {name} : m;")
        if is_float(dtype):
            steps.append(f"{declared} isunordered({one}, {two});")
            declared, result = "u |=", "u ? NAN : m"
    arguments = ", ".join(f"{c} {name}" for name in names)
    steps.append(f"return {result};")
    return f"static inline {c} {op}{count}_{dtype}({arguments}) {{ {' '.join(steps)} }}"


def _argument_names(count: int) -> list[str]:
    """Return names for the arguments of a function: letters, or letters with numbers."""
    if count <= MOST_LETTERS:
        return list(LETTERS[:count])
    return [f"a{position}" for position in range(count)]


def _power(exponent: int, c: str, name: str) -> str:
    """Return a function for `x**exponent`, by repeated squaring."""
    steps, square, factors = [], "x", []
    for position, bit in enumerate(reversed(bin(exponent)[2:])):
        if position:
            steps.append(f"const {c} x{position} = {square} * {square};")
            square = f"x{position}"
        if bit == "1":
            factors.append(square)
    return f"static inline {c} {name}({c} x) {{ {' '.join(steps)} return {' * '.join(factors)}; }}"


def index_helper(name: str, c: str) -> str:
    """Return a function of indices: a division that rounds down, or a bound of a loop."""
    # gcc 12 gets `r < 0 ? r + b : r` wrong in vectors of 2.
    body = {
        "floor_div": "return a / b - (a % b < 0);",
        "floor_mod": f"const {c} r = a % b; return r + (r < 0) * b;",
        "index_max": "return a > b ? a : b;",
        "index_min": "return a < b ? a : b;",
    }[name]
    return f"static inline {c} {index_function(name, c)}({c} a, {c} b) {{ {body} }}"


def index_function(name: str, c: str) -> str:
    """Return the name of such a function: those of both index types may stand in one file."""
    if c == "int":
        return name
    return f"{name}64"
