"""Arrays as lines of code that can be pasted."""

from __future__ import annotations

from typing import Any

import numpy as np

from einalg.testing.input_values import LAYOUTS, PLAIN
from einalg.testing.subject import TORCH

Array = np.ndarray[Any, Any]
MAX_ELEMENTS = 40  # of an array that is written out
FEW_ELEMENTS, SPARSE = 8, 8  # an array of more elements, of which one in so many is not 0
MAX_NUMBERS = 12  # that are set in an array of zeros
WIDTH = 78
INDENT = "    "


def assignment(name: str, array: Array, layout: str, library: str) -> list[str]:
    """Return the lines that make an array.

    >>> assignment("x", np.array([[1, 0.5]], np.float32), PLAIN, "numpy")
    ['x = np.array([[1, 0.5]], np.float32)   # shape (1, 2)']
    >>> assignment("x", np.eye(40, dtype=np.int8)[:2], PLAIN, "torch")
    ['x = torch.zeros((2, 40), dtype=torch.int8)', 'x[0, 0] = 1', 'x[1, 1] = 1']
    """
    places = np.argwhere(array != 0)
    line = f"{name} = {_whole(array, library)}"
    shape = f"   # shape {array.shape}"
    if array.ndim > 1 and "(" not in line.partition("(")[2] and len(line + shape) <= WIDTH:
        line += shape
    lines = [line]
    if array.size > MAX_ELEMENTS and len(places) > MAX_NUMBERS:
        return [f"{name} = error.arrays[{name!r}]  # too large to print, shape {array.shape}"]
    is_sparse = array.size > FEW_ELEMENTS and len(places) * SPARSE <= array.size
    if is_sparse or array.size > MAX_ELEMENTS:
        lines = [f"{name} = {_zeros(array, library)}"]
        for place in places.tolist():
            index = ", ".join(map(str, place))
            lines.append(f"{name}[{index}] = {literal(array[tuple(place)])}")
    if layout != PLAIN:
        form = LAYOUTS[layout][1].format(name if library != TORCH else f"{name}.numpy()")
        lines.append(f"{name} = {form if library != TORCH else f'torch.from_numpy({form})'}")
    return [part for line in lines for part in wrapped(line)]


def _dtype(array: Array, library: str) -> str:
    module = "torch" if library == TORCH else "np"
    return f"{module}.{array.dtype.name}" if array.dtype.name != "bool" else "bool"


def _zeros(array: Array, library: str) -> str:
    if library == TORCH:
        return f"torch.zeros({array.shape}, dtype={_dtype(array, library)})"
    return f"np.zeros({array.shape}, {_dtype(array, library)})"


def _whole(array: Array, library: str) -> str:
    if array.size > MAX_ELEMENTS:
        return _zeros(array, library)
    is_zero = array.size > 1 and not array.any() and not np.signbit(array).any()
    if is_zero or (not array.size and array.ndim > 1):
        return _zeros(array, library)
    if library == TORCH:
        return f"torch.tensor({nested(array)}, dtype={_dtype(array, library)})"
    return f"np.array({nested(array)}, {_dtype(array, library)})"


def nested(array: Array) -> str:
    """Return the elements of an array as nested lists."""
    if not array.ndim:
        return literal(array[()])
    return f"[{', '.join(map(nested, array))}]"


def number(value: Any) -> str:
    """Return a number as it is written in Python, a whole one without a point.

    >>> number(np.float32(2)), number(np.float32(0.1)), number(np.float64(-0.0)), number(True)
    ('2', '0.1', '-0.0', 'True')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    as_float = float(value)
    if as_float == 0 and np.signbit(value):
        return "-0.0"
    if np.isfinite(as_float) and as_float == int(as_float) and abs(as_float) < 1e15:
        return str(int(as_float))
    return str(value)


def literal(value: Any) -> str:
    """Return a number as code.

    >>> literal(np.float32("nan")), literal(np.float64(2))
    ("float('nan')", '2')
    """
    if isinstance(value, np.floating) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return number(value)


def wrapped(line: str) -> list[str]:
    """Return a line of code within the width of a page, broken where a list may be."""
    if len(line) <= WIDTH or "#" in line:
        return [line]
    lines, current = [], ""
    for word in line.split(" "):
        if current and len(current) + 1 + len(word) > WIDTH:
            lines.append(current)
            current = INDENT + word
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]
