"""Identifiers: the words that may name an index or a tensor, which the notation can read back."""

from __future__ import annotations

import keyword
import unicodedata

from einalg.errors import NotationError

CONSTANT_NAMES = ("inf", "oo", "pi", "E")


def tensor_name(name: str) -> str:
    """Return `name`, or raise NotationError where no tensor can be called that."""
    return _word(name, "a tensor", "use a word: 'A', 'weight_1'")


def index_name(name: str) -> str:
    """Return `name`, or raise NotationError where no index can be called that, as the constants of
    the notation.
    """
    if name in CONSTANT_NAMES:
        raise NotationError(
            f"{name!r} is a constant of the notation, so it cannot name an index\n"
            f"  use another word: '{name.lower()}_'"
        )
    return _word(name, "an index", "use a letter or a word: 'h', 'row'")


def _word(name: str, what: str, remedy: str) -> str:
    word = unicodedata.normalize("NFKC", name)  # as Python reads names
    if not word.isidentifier() or keyword.iskeyword(word):
        raise NotationError(f"{name!r} is not a name for {what}\n  {remedy}")
    return word


def with_article(noun: str) -> str:
    """Return the name of an operator in a sentence.

    >>> with_article("avg_pool2d"), with_article("conv2d")
    ('an avg_pool2d', 'a conv2d')
    """
    article = "an" if noun[:1] in "aeiou" else "a"
    return f"{article} {noun}"
