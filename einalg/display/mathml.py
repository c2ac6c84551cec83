"""Expressions as MathML, which browsers show without help, and what a rewriting changed in them
(design §4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from html import escape, unescape
from xml.etree.ElementTree import Element, tostring

from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope

CHANGED = "einalg-changed"
LEAVES = ("mi", "mn", "mo", "mtext")
ROWS = ("math", "mrow", "mtd", "msqrt")  # of any number of parts
Statements = Sequence[tuple[str, Scope]]


def formula(statements: Program | Scope | Statements) -> str:
    """Statements below each other as HTML: MathML, or the notation as text where latex2mathml is
    not installed.

    A statement without a name is shown as its scope alone.

    >>> import einalg as ea
    >>> formula(ea.parse("O[i] = A[i]", A=(4,))).startswith('<div class="einalg-formula"><div>')
    True
    """
    return _block(_lines(statements))


def changed(
    before: Program | Scope | Statements, after: Program | Scope | Statements
) -> tuple[str, str]:
    """Both as HTML, with the symbols marked that only one of them has."""
    old, new = _lines(before), _lines(after)
    one, other = (
        [leaf for line in old for leaf in _leaves(line)],
        [leaf for line in new for leaf in _leaves(line)],
    )
    matcher = SequenceMatcher(
        None, [leaf.text for leaf in one], [leaf.text for leaf in other], autojunk=False
    )
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            for leaf in (*one[a:b], *other[c:d]):
                leaf.set("class", CHANGED)
    for line in (*old, *new):
        _gather(line)
    return _block(old), _block(new)


def _statements(of: Program | Scope | Statements) -> Statements:
    return [("", of)] if isinstance(of, Scope) else list(of)


def _lines(of: Program | Scope | Statements) -> list[Element]:
    return [_line(name, scope) for name, scope in _statements(of)]


def _line(name: str, scope: Scope) -> Element:
    left = rf"{latex(statement_tensor(name, scope))} = " if name else ""
    return _mathml(left + latex(scope)) or _plain(
        f"{name} = {text(scope)}" if name else text(scope)
    )


def _mathml(source: str) -> Element | None:
    """LaTeX as MathML; None where it cannot be, for want of the package or of depth."""
    try:
        from latex2mathml.converter import convert_to_element
    except ImportError:
        return None
    try:
        root = convert_to_element(source, display="block")
    except Exception:  # whatever a LaTeX reader raises: the expression is shown as text then
        return None
    for node in root.iter():
        _tidy(node)
    return root


def _plain(shown: str) -> Element:
    """Text, a leaf for each word or sign, so that what changed can be marked in it as well."""
    code = Element("code")
    for token in _tokens(shown):
        leaf = Element("mtext")
        leaf.text = token
        code.append(leaf)
    return code


def _tokens(shown: str) -> Iterable[str]:
    word = ""
    for letter in shown:
        if letter.isalnum() or letter == "_":
            word += letter
        else:
            yield from (word, letter) if word else (letter,)
            word = ""
    if word:
        yield word


def _tidy(row: Element) -> None:
    """Characters instead of entities, an operator's name as a leaf with its indices below, upright
    letters of a word as one identifier.
    """
    row.text = unescape(row.text or "") or None
    if row.tag == "msub" and row[0].tag == "mo":
        row.tag = "munder"
    if row.tag == "mo" and len(row):
        row.tag, row.text = "mi", "".join(row.itertext())
        row[:] = []
    previous: Element | None = None
    for child in list(row):
        upright = child.tag == "mi" and child.get("mathvariant") == "normal"
        if upright and previous is not None:
            previous.text = (previous.text or "") + (child.text or "")
            row.remove(child)
        else:
            previous = child if upright else None


def _gather(row: Element) -> bool:
    """Whether all symbols of a row are marked; then the mark is on the row, and else on each run of
    its parts, without gaps.
    """
    if row.tag in LEAVES:
        return row.get("class") == CHANGED or not (row.text or "").strip()
    marked = [_gather(child) for child in row]
    if all(marked) and row.tag != "math":
        for node in row.iter():
            node.attrib.pop("class", None)
        row.set("class", CHANGED)
    elif row.tag in ROWS:
        _join_runs(row, marked)
    return row.get("class") == CHANGED


def _join_runs(row: Element, marked: list[bool]) -> None:
    parts = [(marked[0], [row[0]])] if len(row) else []
    for child, mark in list(zip(row, marked))[1:]:
        if mark == parts[-1][0]:
            parts[-1][1].append(child)
        else:
            parts.append((mark, [child]))
    row[:] = []
    for mark, children in parts:
        if mark and len(children) > 1 and any(_leaves(child) for child in children):
            run = Element("mrow", {"class": CHANGED})
            run.extend(children)
            for node in list(run.iter())[1:]:
                node.attrib.pop("class", None)
            row.append(run)
        else:
            row.extend(children)


def _leaves(line: Element) -> list[Element]:
    return [node for node in line.iter() if node.tag in LEAVES and (node.text or "").strip()]


def _block(lines: Iterable[Element]) -> str:
    rows = "".join(f"<div>{_serialised(line)}</div>" for line in lines)
    return f'<div class="einalg-formula">{rows}</div>'


def _serialised(line: Element) -> str:
    if line.tag != "code":
        return tostring(line, encoding="unicode")
    marks = ((leaf.text or "", leaf.get("class")) for leaf in line)
    return (
        "<code>"
        + "".join(
            f'<mark class="{CHANGED}">{escape(t)}</mark>' if mark else escape(t)
            for t, mark in marks
        )
        + "</code>"
    )
