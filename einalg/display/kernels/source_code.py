"""Generated source as HTML: coloured where pygments is installed, with the names of an expression
marked, so that they are found in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape

from einalg.display.mathml import NUMBER

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
INCLUDES = re.compile(r"\A(?:\s*#include[^\n]*\n)+\s*")  # which say nothing of a kernel
# The classes of the style sheet, by the kinds of tokens of pygments; the first that fits.
KINDS = (
    ("Token.Comment.Preproc", "p"),
    ("Token.Comment", "c"),
    ("Token.Keyword", "k"),
    ("Token.Literal.Number", "n"),
    ("Token.Literal.String", "s"),
)


def source_html(source: str, language: str = "c", names: Mapping[str, int] | None = None) -> str:
    """Return the lines of a source, without those that include headers, in a block that scrolls.

    Identifiers that are one of the `names`, or made of one (`h_outer` of `h`), have its number.

    >>> block = source_html("#include <math.h>\\n\\nint i = a < 1;", names={"i": 3})
    >>> '<b data-n="3">i</b>' in block, "math.h" in block, "&lt;" in block
    (True, False, True)
    """
    known = names or {}
    parts = []
    for kind, text in _tokens(INCLUDES.sub("", source), language):
        content = "".join(_marked(text, known))
        if kind in ("c", "s", "p"):
            content = escape(text)
        parts.append(f'<span class="einalg-{kind}">{content}</span>' if kind else content)
    label = f"source in {language}"
    content = "".join(parts)
    return f'<pre class="einalg-source" tabindex="0" aria-label="{label}">{content}</pre>'


def _tokens(source: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield pieces of a source, each with its class; one piece without any where pygments is not
    installed.
    """
    try:
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        yield "", source
        return
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    for token, text in lexer.get_tokens(source):
        yield _kind(str(token)), text


def _kind(token: str) -> str:
    for prefix, kind in KINDS:
        if token == prefix or token.startswith(f"{prefix}."):
            return kind
    return ""


def _marked(text: str, names: Mapping[str, int]) -> Iterator[str]:
    """Yield a text as HTML, with its names in elements of their own."""
    last = 0
    for match in IDENTIFIER.finditer(text):
        number = _number(match[0], names)
        if number is not None:
            yield escape(text[last : match.start()])
            yield f'<b {NUMBER}="{number}">{escape(match[0])}</b>'
            last = match.end()
    yield escape(text[last:])


def _number(identifier: str, names: Mapping[str, int]) -> int | None:
    """Return the number of the longest name that an identifier is, or begins with."""
    name = identifier
    while name:
        if name in names:
            return names[name]
        name = name.rpartition("_")[0]
    return None
