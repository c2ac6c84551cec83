"""The place of an error in an expression, underlined for its reader (design §13)."""

from __future__ import annotations

import re
from typing import Any

from einalg.errors import Error, underline
from einalg.language.index.iterator import BoundTwice, iterators_text
from einalg.language.ir.printing.text import text
from einalg.language.ir.tensor import Access


def located(error: Error, iterators: Any, body: Any) -> Error:
    """Return the error under its expression, in which the part that it is about is underlined."""
    if error.placed or error.about is None:
        return error
    about = error.about.index if isinstance(error.about, BoundTwice) else error.about
    access, axis = about if isinstance(about, tuple) else (about, None)
    shown = f"L[{iterators_text(iterators)}]({text(body)})"
    match = re.search(rf"(?<!\w){re.escape(text(access))}", shown)
    if match is None:
        return error
    column, width = match.start(), match.end() - match.start()
    if axis is not None and isinstance(access, Access):
        subscripts = [str(s) for s in access.subscripts]
        column += width - len(", ".join(subscripts[axis:])) - 1
        width = len(subscripts[axis])
    return error.below(underline(shown, column, width))
