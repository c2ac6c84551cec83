"""Text in the notation, read into Python's grammar, and messages that point into it (design §4,
§13).
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

from einalg.errors import Error, NotationError, underline
from einalg.language.notation.grammar import MAX_DEPTH, MAX_TEXT

OPENING, CLOSING = "([{", ")]}"


class SourceText:
    """Some text without its indentation, its lines, and its places."""

    def __init__(self, text: str):
        self.text = undented(text)
        self.lines = self.text.split("\n")

    def module(self) -> ast.Module:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except SyntaxError as error:
            raise self._misspelt(error) from None
        except (ValueError, MemoryError, RecursionError, OverflowError) as error:
            raise NotationError(
                f"the text cannot be read: {error}\n  write shorter statements"
            ) from None

    def _misspelt(self, error: SyntaxError) -> NotationError:
        line, column = max(error.lineno or 1, 1), max((error.offset or 1) - 1, 0)
        width = 1
        if error.end_lineno == error.lineno:
            width = (error.end_offset or 0) - (error.offset or 0)
        remedy = "the text is read as Python: check the brackets and the signs up to here"
        return NotationError(f"{error.msg}\n  {remedy}").below(
            underline(self.text, column, width, line)
        )

    def error(self, node: Any, message: str) -> NotationError:
        return self.placed(NotationError(message), node)

    def placed(self, error: Error, node: Any) -> Error:
        """The error with `node` underlined, unless it says already where it is."""
        if error.placed:
            return error
        start = self._column(node.lineno, node.col_offset)
        end = len(self.lines[node.lineno - 1])
        if node.end_lineno == node.lineno:
            end = self._column(node.lineno, node.end_col_offset)
        return error.below(underline(self.text, start, end - start, node.lineno))

    def segment(self, node: Any) -> str:
        """Return the text of a part of the grammar tree, on one line."""
        return " ".join((ast.get_source_segment(self.text, node) or "").split())

    def _column(self, line: int, offset: int) -> int:
        """Python counts columns in bytes of UTF-8."""
        return len(self.lines[line - 1].encode()[:offset].decode(errors="ignore"))


def undented(text: Any) -> str:
    """The text without the indentation of its statements, and with plain line ends; NotationError
    where it is too much.
    """
    if not isinstance(text, str):
        raise NotationError(
            f"parse() takes text, not {type(text).__name__}\n  e.g. parse('O[i] = A[i]', A=(8,))"
        )
    if len(text) > MAX_TEXT:
        raise NotationError(
            f"the text has {len(text)} characters; at most {MAX_TEXT} are read\n  read it in parts"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotationError(
            "the text holds half of a surrogate pair, which is no character\n  decode it as UTF-8"
        )
    lines = _without_indentation(text)
    depth = _max_depth(lines)
    if depth > MAX_DEPTH:
        raise NotationError(
            f"the expression has {depth} nested brackets; at most {MAX_DEPTH} are read\n"
            "  name the inner parts: T[i] = ..."
        )
    return "\n".join(lines).rstrip()


def _without_indentation(text: str) -> list[str]:
    """Return the lines; those inside brackets keep their indentation."""
    depth = 0
    lines = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n"):
        lines.append(line if depth > 0 else line.lstrip(" \t"))
        for character in _code(line):
            depth += (character in OPENING) - (character in CLOSING)
    return lines


def _max_depth(lines: list[str]) -> int:
    """Return how many brackets are open at most."""
    depth = deepest = 0
    for line in lines:
        for character in _code(line):
            depth += (character in OPENING) - (character in CLOSING)
            deepest = max(deepest, depth)
    return deepest


def _code(line: str) -> str:
    """Return a line without its comment."""
    return line.split("#")[0]
