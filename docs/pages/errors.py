"""The errors page: the family of errors, and every message of the transcripts that the tests
compare.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import NamedTuple

from docs.pages.markdown import block, with_examples_as_blocks
from einalg import errors
from einalg.errors import EinalgError

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "errors"
INTRODUCTION = """# Errors

Every error that einalg raises on purpose is an `EinalgError`. Its message uses your names: it
says what is wrong, shows the place with a caret, and ends with one remedy that you can paste.
Search this page for the message that you got. The messages here come from the tests, with `A` of
shape `(8, 6)`, `B` of shape `(6, 5)` and `K` of shape `(3,)`.

A traceback ends at your own line, in Python, IPython, Jupyter, pytest and logs; frames inside
einalg are hidden. `EINALG_FULL_TRACEBACK=1` in the environment shows it, for a report of a bug. A
message that points at a place starts on a line of its own, so that the caret stands below the
place; `error.message` is the text alone.
"""


class Message(NamedTuple):
    """What was typed, the class of the error, and its text."""

    typed: str
    kind: str
    text: str


def page() -> str:
    """The whole page."""
    kinds = family()
    parts = [INTRODUCTION, block("\n".join(_tree(EinalgError, kinds)))]
    shown = messages()
    for kind in kinds:
        parts += [f"## {kind.__name__}", with_examples_as_blocks(inspect.getdoc(kind) or "")]
        parts += [_shown(message) for message in shown if message.kind == kind.__name__]
    for warning in (errors.RepeatedTermWarning,):
        parts += [f"## {warning.__name__}", with_examples_as_blocks(inspect.getdoc(warning) or "")]
    return "\n\n".join(parts)


def family() -> list[type[EinalgError]]:
    """The classes of errors, in the order of their file."""
    return [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, EinalgError)
    ]


def messages() -> list[Message]:
    """Every message of the transcripts."""
    found = []
    for path in sorted(TRANSCRIPTS.glob("*.txt"), reverse=True):  # text before python
        for entry in re.split(r"^### ?", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            split = re.search(r"^(\w+Error)$", entry, flags=re.MULTILINE)
            if split is None:
                raise ValueError(f"{path} has an entry without the name of an error:\n{entry}")
            found.append(
                Message(
                    entry[: split.start()].strip("\n"), split[1], entry[split.end() :].strip("\n")
                )
            )
    return found


def _tree(kind: type[EinalgError], kinds: list[type[EinalgError]], depth: int = 0) -> list[str]:
    others = ", ".join(
        base.__name__ for base in kind.__bases__ if not issubclass(base, EinalgError)
    )
    lines = [
        f"{'    ' * depth}{kind.__name__}" + (f"  (also {others})" if others and depth else "")
    ]
    for below in kinds:
        if kind in below.__bases__:
            lines += _tree(below, kinds, depth + 1)
    return lines


def _shown(message: Message) -> str:
    if not message.typed:
        return block(message.text)
    return f"{block(message.typed, 'python')}\n{block(message.text)}"
