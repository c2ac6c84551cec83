"""The grammar of the notation page is that of the parser: it has what einalg prints, and what it
produces is read.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from lark import Lark, UnexpectedInput

import einalg as ea
from einalg.errors import EinalgError
from einalg.language.ir.functions import FUNCTIONS
from einalg.language.notation.grammar import BINDERS, CONSTANTS
from einalg.testing import strategies
from tests.helpers.batches import examples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notation.md"
GRAMMAR = re.search(r"```lark\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
PARSER = Lark(GRAMMAR)
TENSORS = {"A": (4, 5), "B": (5,), "K": (3, 3, 2)}
REFUSED = re.compile(
    "not part of the notation|read as Python|not a statement|on the left side|only a "
    "tensor or a scope|not a function|not quasi-affine|"
    "index:size|expected an index|a slice|is not known here|not a number of the "
    "notation|takes comparisons"
)
WORDS = re.compile(r'"(\w+)"')


@given(strategies.programs(functions=True, truths=True))
@settings(max_examples=examples(10, at_night=200))
def test_what_is_printed_is_in_the_grammar(program):
    PARSER.parse(str(program))


@pytest.mark.parametrize(
    "text",
    [
        "O[i,j] += A[i,k] * B[k,j]",
        "O = L[i:4, j:-1:4](A[i,j], where=(j<=i, Eq(i%2, 0)))",
        "O[()] = Sum[i](A[i])",
        "O[h] = A.pad((1, 2), 0, fill=-inf)[h-1, 0]",
        "O[i] = Piecewise((A[i], (A[i] > 0) & (i > 2)), (0.5e-3, True))",
        "\nT[i] = -A[i]**2\nO[i] = (L[j:4](T[j])).pad(1)[i-1]//3\n\nT, O\n",
    ],
)
def test_what_the_page_shows_is_in_the_grammar(text):
    PARSER.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "O[i] -= A[i]",
        "O[i] = A[i",
        "O[2*i] = A[i]",
        "O[i:5:2:1] = A[i]",
        "O[i] = [A[i]]",
        "O[i] = A[i] if i else 0",
        "",
    ],
)
def test_what_is_no_notation_is_not_in_the_grammar(text):
    with pytest.raises(UnexpectedInput):
        PARSER.parse(text)
    with pytest.raises(EinalgError):
        ea.parse(text, **TENSORS)


WRITTEN = {
    "NAME": list(TENSORS),
    "INDEX": ["i", "j", "k"],
    "INT": list("123456789"),
    "FLOAT": ["0.5", "1e3", "2."],
    "_NL": ["\n"],
}
ALTERNATIVES: dict[str, list[Any]] = {}
for _rule in PARSER.rules:
    ALTERNATIVES.setdefault(_rule.origin.name, []).append(_rule.expansion)
TERMINALS = {terminal.name: terminal.pattern for terminal in PARSER.terminals}
DEEPEST, LONGEST = 12, 300


@cache
def heights() -> dict[str, int]:
    """For every symbol how deep the smallest text that it stands for is nested."""
    found = dict.fromkeys(TERMINALS, 0)
    for _ in ALTERNATIVES:
        for name, choices in ALTERNATIVES.items():
            known = [
                1 + max((found[s.name] for s in c), default=0)
                for c in choices
                if all(s.name in found for s in c)
            ]
            if known:
                found[name] = min(known)
    return found


def produced(name: str, draw: random.Random, depth: int = 0) -> str:
    """A random text that a symbol of the grammar stands for."""
    if name in TERMINALS:
        choices = (
            WRITTEN.get(name) or re.findall(r"\w+", TERMINALS[name].value)
            if TERMINALS[name].type == "re"
            else [TERMINALS[name].value]
        )
        return draw.choice(choices)
    low = [
        c
        for c in ALTERNATIVES[name]
        if depth < DEEPEST or 1 + max((heights()[s.name] for s in c), default=0) == heights()[name]
    ]
    text = "".join(produced(symbol.name, draw, depth + 1) for symbol in draw.choice(low))
    return (
        re.sub(r"^\w+", f"T{draw.randrange(10**6)}", text) if name == "statement" else text
    )  # a name that is not taken


@pytest.mark.parametrize("seed", range(4))
def test_what_the_grammar_produces_is_read(seed):
    """It may have no meaning (a name that is not known, a shape that does not fit), but every
    construct is one of the notation.
    """
    draw = random.Random(seed)
    for _ in range(200):
        text = produced("start", draw)
        if len(text) > LONGEST:
            continue
        try:
            ea.parse(text, **TENSORS)
        except EinalgError as error:
            assert not REFUSED.search(str(error)), f"{text}\n{error}"


def test_the_grammar_has_the_words_of_the_vocabulary():
    words = set(WORDS.findall(GRAMMAR))
    logic = {"And", "Or", "Not"}
    assert set(FUNCTIONS) - words == logic and set(CONSTANTS) <= words and set(BINDERS) <= words
    assert words - set(FUNCTIONS) - set(CONSTANTS) - set(BINDERS) == {"where", "fill", "True"}
