"""What a compiler makes of a candidate, or the reason why it makes nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import TypeVar

from codegen.tuning.measuring.task import LASTING, Outcome
from einalg.errors import CodegenError

Content = TypeVar("Content")
MAX_REASON = 100  # characters
# What a compiler says, or ends with, where the system has no memory or disk left for it.
OF_THE_MOMENT = re.compile(
    r"Killed|Kill signal|exit status (-9|-15|137|143)\b|No space left|[Oo]ut of memory|exhausted"
)


def compiled_or_refused(compile_candidate: Callable[[], Content]) -> Content | Outcome:
    """Return what a compiler makes, or why it makes nothing.

    Only what it says of the code strikes that out: one that takes too long, that the system ends,
    or that cannot be run may succeed another time.
    """
    try:
        return compile_candidate()
    except subprocess.TimeoutExpired:
        return Outcome(reason="the compiler takes too long")
    except CodegenError as error:
        strikes = LASTING
        if OF_THE_MOMENT.search(str(error)):
            strikes = 0
        reason = f"the compiler refuses it: {_complaint(str(error))}"
        return Outcome(reason=reason, strikes=strikes)
    except OSError as error:
        return Outcome(reason=f"it cannot be compiled: {error.strerror}")


def _complaint(message: str) -> str:
    """Return the first error of a compiler's message, without the place of its source.

    >>> _complaint("gcc refused it:\\na.c:1:1: error: unknown type name\\n    1 | text\\n")
    'error: unknown type name'
    """
    lines = message.strip().splitlines()
    for line in lines[1:]:
        place = line.find("error")
        if place >= 0:
            return line[place:][:MAX_REASON]
    return lines[min(1, len(lines) - 1)].strip()[:MAX_REASON]
