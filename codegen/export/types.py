"""Element types of the buffers of an exported function."""

from __future__ import annotations

from codegen.targets.c.helpers import C_TYPES

# Half precision has no type that C++ and older compilers know: callers hold its bits.
TYPES = {**C_TYPES, "f16": "uint16_t"}
NOTES = {
    "f16": "half precision: the 16 bits of an IEEE binary16 number",
    "bf16": "a float whose lower 16 bits are zero",
}


def value_type(dtype: str) -> str:
    """Return the C type of an element as a caller holds it.

    >>> value_type("f32"), value_type("f16"), value_type("i8")
    ('float', 'uint16_t', 'int8_t')
    """
    return TYPES[dtype]
