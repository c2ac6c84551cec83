"""The Python code in which an interrupt is lost: that which C code calls and then ignores."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def functions_entered(action: Callable[[], object]) -> list[str]:
    """Return the names of the Python functions that an action of C code enters.

    An interrupt is raised where a function is entered, and C code that lets an object die, or that
    is isl, does not pass it on.
    """
    names: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return names
