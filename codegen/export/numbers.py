"""Arrays in an exported project: as numbers in C, or as bytes that an assembler includes.

A compiler reads a number of a C array in about a microsecond and a few dozen bytes, so that some
kilobytes are best there, where a person can read them and the byte order of the machine does not
matter. 100 MB would take minutes and gigabytes. The assembler copies a file of any size as it is
(`.incbin`), which gcc's and clang's do alike, on Linux and on macOS: neither reads the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any

import numpy as np

from codegen.export.call_plan import Data
from codegen.export.types import value_type
from codegen.runtime.memory_planning import CACHE_LINE_BYTES

MAX_BYTES_IN_C = 1 << 16  # of all arrays of a file together
NUMBERS_PER_LINE = 8
Array = np.ndarray[Any, Any]
_INTEGER_LIMITS = {-(2**31): "INT32_MIN", -(2**63): "INT64_MIN"}


def array_definition(data: Data) -> str:
    """Return an array with its values, as C.

    >>> from codegen.export.call_plan import Buffer
    >>> print(array_definition(Data(Buffer("K", (3,), "f32"), np.array([1.5, -np.inf, 0.1], "f4"))))
    static const float K[3] __attribute__((aligned(64))) = {
      1.5f, -INFINITY, 0.1f,
    };
    """
    numbers = list(_numbers(data.array, data.buffer.dtype))
    lines = [f"{declaration(data)} = {{"]
    for first in range(0, len(numbers), NUMBERS_PER_LINE):
        lines.append(f"  {', '.join(numbers[first : first + NUMBERS_PER_LINE])},")
    return "\n".join([*lines, "};"])


def declaration(data: Data) -> str:
    """Return the declaration of an array of constants, which its definition may follow later."""
    buffer = data.buffer
    aligned = f"__attribute__((aligned({CACHE_LINE_BYTES})))"
    size = max(1, buffer.elements)
    return f"static const {value_type(buffer.dtype)} {buffer.name}[{size}] {aligned}"


def _numbers(array: Array, dtype: str) -> Iterator[str]:
    flat = array.reshape(-1)
    if not flat.size:
        yield "0"
    elif dtype == "f16":
        for bits in flat.astype(np.float16).view(np.uint16):
            yield f"0x{bits:04x}"
    elif dtype == "bool":
        for value in flat:
            yield "true" if value else "false"
    elif array.dtype.kind == "f":
        suffix = "" if dtype == "f64" else "f"
        for value in flat:
            yield _floating(value, suffix)
    else:
        for value in flat.tolist():
            yield _integer(value, dtype)


def _floating(value: Any, suffix: str) -> str:
    """Return the shortest decimal number that is read as this one."""
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{value!s}{suffix}"


def _integer(value: int, dtype: str) -> str:
    if value in _INTEGER_LIMITS:
        return _INTEGER_LIMITS[value]
    suffix = {"i64": "ll", "u64": "ull", "u32": "u"}.get(dtype, "")
    return f"{value}{suffix}"


@dataclass(frozen=True)
class Blob:
    """Arrays one after the other in a file of bytes, each at the beginning of a cache line.

    `offsets` are where they begin, in order.
    """

    symbol: str
    arrays: tuple[Data, ...]

    @property
    def offsets(self) -> list[int]:
        offsets: list[int] = []
        position = 0
        for data in self.arrays:
            offsets.append(position)
            position += -(-data.buffer.bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        return offsets

    @property
    def file_name(self) -> str:
        return f"{self.symbol}.bin"

    @property
    def assembler_name(self) -> str:
        return f"{self.symbol}.S"

    def content(self) -> bytes:
        """Return the bytes of the file: little-endian, as the header says."""
        content = bytearray()
        for data in self.arrays:
            array = np.ascontiguousarray(data.array)
            content += array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            content += bytes(-len(content) % CACHE_LINE_BYTES)
        return bytes(content)

    def assembler(self, text: str) -> str:
        """Return the file that makes an object of the bytes; `text` says what they are."""
        return f"""\
/* {text}

   The assembler copies the file {self.file_name} into the object as it is: no compiler reads it,
   whatever its size. The file is looked for in the current folder and those of -I. */
#ifdef __APPLE__
#define SYMBOL _{self.symbol}
        .section __TEXT,__const
        .private_extern SYMBOL
#else
#define SYMBOL {self.symbol}
        .section .rodata
        .hidden SYMBOL
#endif
        .globl SYMBOL
        .balign {CACHE_LINE_BYTES}
SYMBOL:
        .incbin "{self.file_name}"
        .byte 0
#ifdef __ELF__
        .section .note.GNU-stack, "", %progbits
#endif
"""

    def declaration(self) -> str:
        """Return the C text that declares the bytes, for machines that can read them."""
        return f"""\
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "{self.file_name} holds numbers in little-endian order"
#endif
extern const unsigned char {self.symbol}[] __attribute__((visibility("hidden")));"""

    def variables(self) -> list[str]:
        """Return the statements by which a function knows the arrays under their names."""
        lines: list[str] = []
        for data, offset in zip(self.arrays, self.offsets):
            kind, name = value_type(data.buffer.dtype), data.buffer.name
            lines.append(
                f"const {kind} *const {name} = (const {kind} *)({self.symbol} + {offset});"
            )
        return lines


def are_small(arrays: Sequence[Data]) -> bool:
    """Return whether arrays are few enough to be numbers in a C file."""
    return sum(data.buffer.bytes for data in arrays) <= MAX_BYTES_IN_C
