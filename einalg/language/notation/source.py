"""Text in the notation, read into Python's grammar, and messages that point into it (design §4,
§13).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

from einalg.errors import Error, NotationError, underline
from einalg.language.notation.grammar import MAX_DEPTH, MAX_TEXT

OPENING, CLOSING = "([{", ")]}"
MAX_REPAIRED = 500  # characters of a line that is mended
PARTNERS = dict(zip(OPENING, CLOSING))
SIGNS = {  # of mathematics, as Python has them
    **dict.fromkeys("×·⋅∙∗", "*"),
    **dict.fromkeys("−–—", "-"),
    "÷": "/",
    "²": "**2",
    "³": "**3",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "∞": "inf",
    "∑": "Sum",
    "∏": "Prod",
    "√": "sqrt",
    "←": "=",
    "∧": "&",
    "∨": "|",
    "¬": "~",
}
ASSIGNMENTS = re.compile(r"^([^=<>:-]*?)\s*(?::=|<-|->|=>|==)\s*")
CALLED_LEFT_SIDE = re.compile(r"^\s*(\w+)\(([^()]*)\)(\s*\+?=(?!=).*)$")
CHOICES = (
    re.compile(
        r"=\s*(?P<condition>[^=?]*(?:[<>]=?|[=!]=)[^=?]*?)\s*\?\s*(?P<one>.*?)\s+:\s+(?P<two>.*)$"
    ),
    re.compile(r"=\s*if\s+(?P<condition>.*?)\s+then\s+(?P<one>.*?)\s+else\s+(?P<two>.*)$"),
)
RANGE_BY_SIGN = re.compile(r"(?<=[\[,])(\s*\w+)\s*=\s*(-?\d)")
NUMBER_BEFORE_NAME = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?=[^\W\d])")
CALL_WITHOUT_BRACKETS = re.compile(r"(?<!\w)([^\W\d]\w*)\s+([^\W\d]\w*\[[^][]*\])")
PRODUCT_WITHOUT_SIGN = re.compile(r"([\])])\s*(?=[^\W\d])")
PREFIXED = re.compile(r"^\s*(?:let|var|val|def|return)\s+")


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
        instead = repaired(self.lines[min(line, len(self.lines)) - 1], column)
        if instead is not None:
            remedy = f"write {instead}"
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


def repaired(line: str, column: int) -> str | None:
    """Return a line that Python cannot read with one mistake mended, as the first of some likely
    repairs has it with which it can; None where none has.

    >>> repaired("O[i,j] = A[i,j", 10), repaired("O[i] = 2A[i]", 7)
    ('O[i,j] = A[i,j]', 'O[i] = 2*A[i]')
    """
    if len(line) > MAX_REPAIRED:
        return None
    mended = line
    for sign, written in SIGNS.items():
        mended = mended.replace(sign, written)
    for candidate in (mended, *_repairs(mended, column)):
        if candidate != line and _is_statement(candidate):
            return candidate.strip()
    return None


def _is_statement(line: str) -> bool:
    """Return whether Python reads a line as an assignment to a name or an access, or a value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (node,) = ast.parse(line).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr))


def _repairs(line: str, column: int) -> Iterator[str]:
    """Yield a line with one mistake mended, the likeliest first."""
    yield _closed(line)
    yield RANGE_BY_SIGN.sub(r"\1:\2", line)
    yield CALLED_LEFT_SIDE.sub(r"\1[\2]\3", line)
    yield NUMBER_BEFORE_NAME.sub(r"\1*", line)
    yield ASSIGNMENTS.sub(r"\1 = ", line)
    yield line.replace("{", "[").replace("}", "]")
    yield PREFIXED.sub("", line)
    for choice in CHOICES:
        yield choice.sub(r"= Piecewise((\g<one>, \g<condition>), (\g<two>, True))", line)
    yield CALL_WITHOUT_BRACKETS.sub(r"\1(\2)", line)
    yield _with_commas(line)
    yield PRODUCT_WITHOUT_SIGN.sub(r"\1*", line)
    yield line[:column] + line[column + 1 :]


def _closed(line: str) -> str:
    """Return a line whose brackets are closed in the order in which they are opened: those that
    are missing are put where another one closes, or at the end, and those too many are left out.

    >>> _closed("O[i] += A[i,j*(x[j]"), _closed("O[i] = A[i])")
    ('O[i] += A[i,j*(x[j])]', 'O[i] = A[i]')
    """
    opened: list[str] = []
    letters: list[str] = []
    for letter in line:
        if letter in OPENING:
            opened.append(PARTNERS[letter])
        elif letter in CLOSING:
            if letter not in opened:
                continue
            while opened[-1] != letter:
                letters.append(opened.pop())
            opened.pop()
        letters.append(letter)
    return "".join([*letters, *reversed(opened)])


def _with_commas(line: str) -> str:
    """Return a line with commas between names that stand beside each other in square brackets."""

    def separated(match: re.Match[str]) -> str:
        return re.sub(r"(?<=\w)\s+(?=\w)", ",", match[0])

    return re.sub(r"\[[^][]*\]", separated, line)
