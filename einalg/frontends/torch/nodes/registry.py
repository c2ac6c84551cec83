"""The table of torch operators that are expressions (design §11).

Each entry is a function of the operator's arguments, in the order of its schema. Tensors come as
einalg tensors, everything else as torch has it. A function returns a scope, a program, one of its
operands where nothing is computed, or for an operator of several results a tuple of these, with
None for a result that has no expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from einalg.errors import EinalgError, NotationError

Handler = Callable[..., Any]
ATEN: dict[str, Handler] = {}
TAKES_CONSTANT_INTEGERS = set[str]()  # operators whose constant integers come as NumPy arrays


class NotExpressed(EinalgError):
    """An operator, with these arguments, stays a call of torch; the message says why."""


class TrainingMode(NotationError):
    """A module behaves as in training."""


def aten(*names: str, by_position: bool = False) -> Callable[[Handler], Handler]:
    """Register a function for ATen operators, named with their overloads: `aten("mm.default")`.

    With `by_position`, constant integers come as NumPy arrays.
    """
    if by_position:
        TAKES_CONSTANT_INTEGERS.update(names)

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in ATEN:
                raise ValueError(f"aten.{name} is registered twice")
            ATEN[name] = handler
        return handler

    return register


def register(handlers: Mapping[str, Handler]) -> None:
    """Register a table of functions by the names of their operators."""
    for names, handler in handlers.items():
        aten(*names.split())(handler)


def training_error(what: str) -> TrainingMode:
    """Return the error for an operator whose result depends on training."""
    return TrainingMode(
        f"{what} is in training mode, and einalg optimizes inference only\n"
        "  call model.eval() first"
    )
