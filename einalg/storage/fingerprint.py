"""Digests of everything that a cached entry depends on: texts, arrays, and einalg's own code."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("einalg", "derive", "codegen")
_ROOT = Path(__file__).parents[2]


def text_digest(*parts: str) -> str:
    """Return a key of 64 hexadecimal digits for some texts, in order.

    >>> text_digest("layer", "4")[:8], text_digest("layer4")[:8]
    ('e7e687c8', '6613a3c1')
    """
    return sha256("\0".join(parts).encode()).hexdigest()


def array_digest(arrays: Iterable[tuple[str, np.ndarray[Any, Any]]]) -> str:
    """Return a digest of named arrays: of their element types, shapes and values.

    >>> sliced = np.zeros((2, 2))[:, 1]
    >>> array_digest([("A", np.zeros(2))]) == array_digest([("A", sliced)])
    True
    """
    digest = sha256()
    for name, array in arrays:
        digest.update(f"{name}:{array.dtype}:{array.shape}".encode())
        digest.update(_elements(array))
    return digest.hexdigest()


@cache
def code_digest(*folders: str) -> str:
    """Return a digest of einalg's own code; of the packages, or of some folders of these alone.

    It changes with the version and with every changed file, by size and time of modification.

    >>> code_digest() == code_digest("einalg/language")
    False
    """
    files: list[Path] = []
    for folder in folders or PACKAGES:
        files.extend((_ROOT / folder).rglob("*.py"))
    states: list[str] = []
    for file in sorted(files):
        state = file.stat()
        states.append(f"{file} {state.st_size} {state.st_mtime_ns}")
    return text_digest(*states)


def _elements(array: np.ndarray[Any, Any]) -> Any:
    """Return the values of an array as bytes; NumPy gives no buffer of text and objects."""
    if array.dtype.kind in "biufc":
        return np.ascontiguousarray(array).data
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return array.tobytes()
