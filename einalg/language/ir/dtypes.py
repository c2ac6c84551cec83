"""Element types by their short names, and their promotion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.conversion import rounded
from einalg.options import shown

NUMPY = {
    "bool": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.float32,  # NumPy has no bfloat16: held as f32
}
_FROM_NUMPY = {np.dtype(v).name: k for k, v in NUMPY.items() if k != "bf16"}
_FLOATS = ("bf16", "f16", "f32", "f64")
_INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")  # narrow ones first


def dtype_name(dtype: Any) -> str:
    """Return the short name of a dtype given as `'f32'`, `'float32'`, a NumPy dtype or type.

    >>> dtype_name("float32"), dtype_name(np.int8)
    ('f32', 'i8')
    """
    text = dtype if isinstance(dtype, str) else _text(dtype)
    if text in NUMPY:
        return text
    if text in ("bfloat16", "torch.bfloat16"):
        return "bf16"
    name = ""
    # NumPy counts bytes: its "i8" is our "i64".
    counts_bytes = isinstance(dtype, str) and text[:1] in "iuf" and text[1:].isdigit()
    if dtype is not None and not counts_bytes:
        try:
            name = np.dtype(getattr(dtype, "name", dtype)).name
        except (TypeError, ValueError):
            name = text.removeprefix("torch.")
    if name not in _FROM_NUMPY:
        raise ShapeError(f"dtype {text!r} is unknown\n  use one of: {', '.join(NUMPY)}")
    return _FROM_NUMPY[name]


def _text(dtype: Any) -> str:
    try:
        return str(dtype)
    except Exception:  # of a class that is not ours
        return shown(dtype)


def is_float(dtype: str) -> bool:
    return dtype in _FLOATS


def holds(dtype: str, value: Any) -> bool:
    """Return whether a rational number is a value of `dtype`; a float holds every one, rounded.

    >>> holds("u8", 255), holds("u8", -1), holds("f16", 0.1)
    (True, False, True)
    """
    if is_float(dtype):
        return True
    low, high = bounds(dtype)
    return low <= value <= high and int(value) == value


def widened(dtype: str, numbers: Iterable[int], op: str = "") -> str:
    """Return the narrowest type for `op` of elements of a type of integers and integer constants.

    It holds the elements and the constants, but for those that a sum or a product subtracts (`add`,
    `mul`) and those that bound nothing (`max`, `min`). A type that a constant widens holds what it
    gives with every element as well, as far as 64 bits go. Where no type of integers holds the
    constants, it is f64.

    >>> widened("u8", [300]), widened("u32", [-1]), widened("u32", [-1], "add")
    ('i16', 'i64', 'u32')
    >>> widened("u8", [300], "mul"), widened("i8", [2**31 - 1], "add"), widened("u8", [-1], "max")
    ('i32', 'i64', 'u8')
    >>> widened("i32", [2**33], "mul"), widened("i64", [2**64])
    ('i64', 'f64')
    """
    low, high = bounds(dtype)
    if dtype == "bool":
        low, high = bounds("i64")  # in which truth values are counted
    beyond = [number for number in numbers if _is_beyond(number, low, high, op)]
    if not beyond:
        return dtype
    needed = [*bounds(dtype), *beyond]
    for numbers_to_hold in ([*needed, *_results(dtype, beyond, op)], needed):
        for wider in _INTEGERS:
            if all(holds(wider, number) for number in numbers_to_hold):
                return wider
    return "f64"


def _results(dtype: str, numbers: Sequence[int], op: str) -> list[int]:
    """Return the least and the largest result of a sum or product of an element and numbers."""
    if op == "add":
        return [end + sum(numbers) for end in bounds(dtype)]
    if op == "mul":
        return [end * prod(numbers) for end in bounds(dtype)]
    return []


def _is_beyond(number: int, low: int, high: int, op: str) -> bool:
    """Return whether a constant needs a wider type than that of these bounds."""
    if low <= number <= high:
        return False
    if op == "max":
        return number > high
    if op == "min":
        return number < low
    return op not in ("add", "mul") or number > 0 or -number > high


def nearest_element(value: float, dtype: str) -> float:
    """Return the element of a type of floats that is nearest to a number.

    >>> nearest_element(0.1, "f32"), nearest_element(0.1, "bf16"), nearest_element(0.1, "f64")
    (0.10000000149011612, 0.10009765625, 0.1)
    """
    return float(rounded(numpy_dtype(dtype).type(value), dtype))


def bounds(dtype: str) -> tuple[int, int]:
    """Return the least and the largest value of a type that is no float: what infinities are there.

    >>> bounds("bool"), bounds("i8"), bounds("u8")
    ((0, 1), (-128, 127), (0, 255))
    """
    if dtype == "bool":
        return 0, 1
    bits = int(dtype[1:])
    if dtype.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def promote(*dtypes: str) -> str:
    """Return the smallest type that holds all of them (NumPy's rules; bf16 with f16 gives f32).

    >>> promote("i8", "f32"), promote("bf16", "bf16"), promote("bool", "i32")
    ('f32', 'bf16', 'i32')
    """
    kinds = set(dtypes)
    if not kinds:
        return "f32"
    if len(kinds) == 1:
        return kinds.pop()
    if "bf16" in kinds:
        others = kinds - {"bf16"}
        if all(k == "bool" or k[0] in "iu" for k in others):
            return "bf16"
        return promote("f32", *others)
    floats = [k for k in kinds if k in _FLOATS]
    if floats:
        return max(floats, key=_FLOATS.index)
    return _FROM_NUMPY[np.result_type(*(NUMPY[k] for k in kinds)).name]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype that holds elements of `dtype`."""
    return np.dtype(NUMPY[dtype])
