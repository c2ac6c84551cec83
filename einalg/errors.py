"""Every error a user can meet (design §13): what is wrong, where, what is known, and one remedy."""

from __future__ import annotations


class EinalgError(Exception):
    """Base of all errors that einalg raises on purpose."""


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
    lines = text.splitlines() or [""]
    shown = lines[min(max(line, 1), len(lines)) - 1]
    return f"{shown}\n{' ' * column}{'^' * max(1, width)}"
