"""The line of a program at which an error lies, marked for its reader (design §13)."""

from __future__ import annotations

import re
from typing import Any

from einalg.errors import Error, underline
from einalg.language.index.iterator import BoundTwice, iterators_text
from einalg.language.ir.printing.text import text
from einalg.language.ir.tensor import Access


def located(error: Error, iterators: Any, body: Any) -> Error:
    """The error with the expression above it in which what it is about is underlined."""
    if error.placed or error.about is None:
        return error
    about = error.about.index if isinstance(error.about, BoundTwice) else error.about
    access, axis = about if isinstance(about, tuple) else (about, None)
    shown = f"L[{iterators_text(iterators)}]({text(body)})"
    found = re.search(rf"(?<!\w){re.escape(text(access))}", shown)
    if found is None:
        return error
    column, width = found.start(), found.end() - found.start()
    if axis is not None and isinstance(access, Access):
        subscripts = [str(s) for s in access.subscripts]
        column += width - len(", ".join(subscripts[axis:])) - 1
        width = len(subscripts[axis])
    return error.below(underline(shown, column, width))
