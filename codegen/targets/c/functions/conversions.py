"""Conversions between numbers of 16 bits and floats: files of C, and when a kernel needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text().rstrip()


HALF_VECTORS, HALF, BFLOAT = _file("half_vectors.h"), _file("half.h"), _file("bfloat.h")
HALF_USE = re.compile(r"\bhalf\b|_half\(|_halves\(")
MACROS = frozenset(re.findall(r"#define (\w+)", HALF_VECTORS + HALF))


def conversions(texts: Sequence[str], has_vector_functions: bool = True) -> list[str]:
    """Return the functions that convert numbers of 16 bits, where kernels call them.

    Those for whole vectors are taken where the compiler's flags say that it calls such functions.

    >>> conversions(["O[i] = store_bfloat(A[i]);"]) == [BFLOAT], conversions(["O[i] = A[i];"])
    (True, [])
    """
    results: list[str] = []
    if any(HALF_USE.search(text) for text in texts):
        if has_vector_functions:
            results.append(HALF_VECTORS)
        results.append(HALF)
    if any("store_bfloat(" in text for text in texts):
        results.append(BFLOAT)
    return results
