"""A term of `+=` that lacks a summed index is added many times, of which a warning says what to write."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea

SHAPES = {"A": (4, 6), "B": (4, 5), "C": (4, 6, 5), "x": (6,), "b": (4,), "c": (4, 1)}
REPEATED = [
    ("O[i] += A[i,k]*x[k] + b[i]", "b[i]", 6, "k", "O[i] = Sum[k](A[i,k]*x[k]) + b[i]"),
    ("O[i] += b[i] + A[i,k]*x[k]", "b[i]", 6, "k", "O[i] = b[i] + Sum[k](A[i,k]*x[k])"),
    ("O[i] += A[i,k] - A[i,k]*x[k] + 2*b[i]", "2*b[i]", 6, "k", "O[i] = Sum[k](A[i,k] - A[i,k]*x[k]) + 2*b[i]"),
    ("O[i] += C[i,k,l]*x[k] + exp(b[i])", "exp(b[i])", 30, "k and l", "O[i] = Sum[k, l](C[i,k,l]*x[k]) + exp(b[i])"),
    ("O[i] += C[i,k,l] + A[i,k]", "A[i,k]", 5, "l", "O[i] = Sum[k, l](C[i,k,l]) + Sum[k](A[i,k])"),
    ("O[i] += C[i,k,l] - 1 + A[i,k]", "A[i,k]", 5, "l", "O[i] = Sum[k, l](C[i,k,l]) - 1 + Sum[k](A[i,k])"),
    ("O[i:3] += A.pad(0,2)[i,k+r-2]*x[k]*B[i,r] + b[i]", "b[i]", 30, "k and r", "O[i:3] = Sum[k, r](A.pad(0,2)[i,k+r-2]*x[k]*B[i,r]) + b[i]"),
]  # fmt: skip
PLAIN = [
    "O[i] += A[i,k]*x[k]",
    "O[i] += A[i,k] + A[i,k]*x[k]",
    "O[i] += (A[i,k] - b[i])**2",
    "O[i] += A[i,k] - b[i]",  # centred, as in a variance
    "O[i] += A[i,k] + 1",
    "O[i] += A[i,k]*(x[k] + b[i])",
    "O[i] += c[i,k] + b[i]",  # one point
    "O[i] += Sum[k](A[i,k]) + b[i]",
    "O[i] += b[i]",
    "O[i] = Sum[k](A[i,k]*x[k] + b[i])",
    "O[i] = Sum[k](A[i,k]*x[k]) + b[i]",
]


@pytest.mark.parametrize("text, term, times, each, written", REPEATED)
def test_the_warning_says_what_to_write(
    text: str, term: str, times: int, each: str, written: str
) -> None:
    with pytest.warns(ea.RepeatedTermWarning) as caught:
        ea.parse(text, **SHAPES)
    (warning,) = caught
    assert Path(warning.filename) == Path(__file__)
    blank, shown, carets, what, remedy, other = str(warning.message).split("\n")
    assert (blank, shown) == ("", text) and carets == " " * text.index(term) + "^" * len(term)
    assert what == f"{term} is added {times} times, once for each {each}"
    assert remedy == f"  write {written}"
    meant = re.fullmatch("  or, if that is meant, (.*)", other)
    assert meant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ea.parse(written, **SHAPES)
        assert ea.parse(meant[1], **SHAPES) == silenced(text)


def silenced(text: str) -> ea.Scope:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ea.RepeatedTermWarning)
        return ea.parse(text, **SHAPES)


@pytest.mark.parametrize("text", PLAIN)
def test_there_is_no_warning_where_nothing_is_repeated_for_certain(text: str) -> None:
    ea.parse(text, **SHAPES)


@given(st.lists(st.sampled_from(["A[i,k]", "A[i,k]*x[k]", "C[i,k,l]", "b[i]"]), min_size=1))
def test_what_is_written_adds_every_term_once(terms: list[str]) -> None:
    text = "O[i] += " + " + ".join(terms)
    arrays = {name: np.arange(np.prod(shape)).reshape(shape) for name, shape in SHAPES.items()}
    once = sum(
        (ea.evaluate(ea.parse(f"O[i] += {t}", **SHAPES), **used(t, arrays)) for t in terms), 0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scope = ea.parse(text, **SHAPES)
    if caught:
        written = re.search("  write (.*)", str(caught[0].message))
        assert written
        scope = ea.parse(written[1], **SHAPES)
    assert np.array_equal(ea.evaluate(scope, **used(text, arrays)), once)


def used(text: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if f"{name}[" in text}


def test_several_public_functions_warn_at_the_line_of_the_user() -> None:
    with pytest.warns(ea.RepeatedTermWarning) as caught:
        ea.Session(REPEATED[0][0], A=(4, 6), x=(6,), b=(4,))
    assert Path(caught[0].filename) == Path(__file__)
