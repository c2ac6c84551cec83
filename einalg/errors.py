"""Every error a user can meet (design §13): what is wrong, where, what is known, and one remedy."""

from __future__ import annotations

from typing import Any, TypeVar

Error = TypeVar("Error", bound="EinalgError")


class EinalgError(Exception):
    """Base of all errors that einalg raises on purpose.

    `about` is the index, the access, or the access and axis in question; `placed` says that the message shows where that is.
    """

    about: Any = None
    placed: bool = False

    def regarding(self: Error, about: Any) -> Error:
        self.about = about
        return self

    def below(self: Error, place: str) -> Error:
        """The same error with its place, underlined, above the message."""
        error = type(self)(f"{place}\n{self}").regarding(self.about)
        error.placed = True
        return error


class NotationError(EinalgError, ValueError):
    """The text or the Python expression is not part of the notation."""


class UseError(NotationError, TypeError):
    """A Python operation that has no meaning on a tensor expression (`bool`, `len`, iteration, …)."""


class RangeError(EinalgError, ValueError):
    """An index has no range, two ranges, or leads outside what may be read."""


class ShapeError(RangeError):
    """Shapes, dtypes or parameters of an operator do not fit together."""


class RuleError(EinalgError):
    """A rule's precondition does not hold, or a move names a place that does not exist."""


class MatchError(EinalgError):
    """An expression does not match the operator that was asked for."""


class CodegenError(EinalgError):
    """No code could be generated or compiled."""


class DeviceError(EinalgError):
    """The device is missing or failed."""


class RecordError(EinalgError):
    """A saved record is broken, foreign, or newer than this version."""


def underline(text: str, column: int, width: int = 1, line: int = 1) -> str:
    """Return `text`'s line number `line` with carets under `width` columns from `column` (0-based).

    >>> print(underline("O[n] += Z[n]", 8))
    O[n] += Z[n]
            ^
    """
    lines = text.split("\n")
    shown = lines[min(max(line, 1), len(lines)) - 1]
    return f"{shown}\n{' ' * column}{'^' * max(1, width)}"
