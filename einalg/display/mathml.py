"""Expressions as MathML, which browsers show without help, and what a rewriting changed in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from html import escape, unescape
from itertools import groupby
from types import MappingProxyType
from xml.etree.ElementTree import Element, tostring

from einalg.display.html import page
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope

CHANGED = "einalg-changed"
NUMBER = "data-n"
ALIGNED = (r"\begin{aligned}", r"\end{aligned}")
ROW = r"\\"  # ends one in LaTeX
LEAVES = ("mi", "mn", "mo", "mtext")
ROWS = ("math", "mrow", "mtd", "msqrt")  # of any number of parts
MAX_FORMULAS = 120  # of a view: mathematics of many statements makes a page slow
Statements = Sequence[tuple[str, Scope]]


def formula(
    statements: Program | Scope | Statements, names: Mapping[str, int] = MappingProxyType({})
) -> str:
    """Statements below each other as HTML: MathML, or the notation as text where latex2mathml is
    not installed.

    A statement without a name is shown as its scope alone. What is one of the `names` has its
    number as an attribute (`NUMBER`), by which it is found.

    >>> import einalg as ea
    >>> formula(ea.parse("O[i] = A[i]", A=(4,))).startswith('<div class="einalg-formula"><div>')
    True
    """
    lines = _lines(statements)
    numbers = {_spelling(name): number for name, number in names.items()}
    for line in lines:
        _number(line, numbers)
    return block(lines)


def expression_html(expression: Program | Scope) -> str | None:
    """Return an expression as a notebook shows it.

    None where it cannot be MathML, or has very many statements: it is shown as LaTeX then.

    >>> import einalg as ea
    >>> expression_html(ea.parse("O[i] = A[i]", A=(4,))).count("<math")
    1
    """
    lines = _lines(expression)
    if len(lines) > MAX_FORMULAS or any(line.tag != "math" for line in lines):
        return None
    return page(block(lines), "einalg-expression")


def attach_to_expressions() -> None:
    """Give scopes and programs the method by which IPython shows HTML."""
    for kind in (Scope, Program):
        setattr(kind, "_repr_html_", expression_html)  # noqa: B010


def _number(node: Element, numbers: Mapping[str, int]) -> None:
    """Give the outermost parts of a formula that spell a name its number."""
    number = numbers.get(_spelling("".join(node.itertext())))
    if number is not None and node.tag not in ("math", "code"):
        node.set(NUMBER, str(number))
        return
    for child in node:
        _number(child, numbers)


def _spelling(name: str) -> str:
    """Return a name as a formula has it: an index `h_1` or `h1` is an h with a 1 below."""
    return "".join(letter for letter in name if not letter.isspace() and letter != "_")


def from_latex(source: str) -> str:
    """Return LaTeX as HTML, as `formula` does: that which an expression showed before.

    >>> from_latex(r"\\frac{1}{2}").count("mfrac")
    2
    """
    lines = []
    for row in _rows(source.removeprefix(ALIGNED[0]).removesuffix(ALIGNED[1])):
        line = mathml(row)
        if line is None:
            line = plain(row)
        lines.append(line)
    return block(lines)


def _rows(source: str) -> list[str]:
    """Split aligned LaTeX where a row ends that is no row of an environment inside.

    >>> _rows(r"a &= 1 \\\\ b &= \\begin{cases} 1 & c \\\\ 2 & d \\end{cases}")
    ['a = 1 ', ' b = \\\\begin{cases} 1 & c \\\\\\\\ 2 & d \\\\end{cases}']
    """
    rows = [""]
    for part in source.split(ROW):
        if rows[-1].count(r"\begin") > rows[-1].count(r"\end"):
            rows[-1] += ROW + part
        elif rows[-1]:
            rows.append(part)
        else:
            rows[-1] = part
    return [row.replace("&=", "=", 1) for row in rows]


def changed(
    before: Program | Scope | Statements, after: Program | Scope | Statements
) -> tuple[str, str]:
    """Both as HTML, with the symbols marked that only one of them has."""
    old, new = _lines(before), _lines(after)
    one, other = _all_leaves(old), _all_leaves(new)
    matcher = SequenceMatcher(None, _texts(one), _texts(other), autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            for leaf in (*one[a:b], *other[c:d]):
                leaf.set("class", CHANGED)
    for line in (*old, *new):
        _gather(line)
    return block(old), block(new)


def _texts(leaves: Sequence[Element]) -> list[str | None]:
    return [leaf.text for leaf in leaves]


def _lines(of: Program | Scope | Statements) -> list[Element]:
    if isinstance(of, Scope):
        return [_line("", of)]
    return [_line(name, scope) for name, scope in of]


def _line(name: str, scope: Scope) -> Element:
    if not name:
        return mathml(latex(scope)) or plain(text(scope))
    left = latex(statement_tensor(name, scope))
    return mathml(f"{left} = {latex(scope)}") or plain(f"{name} = {text(scope)}")


def mathml(source: str) -> Element | None:
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


def plain(shown: str) -> Element:
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
    """Make a row of latex2mathml what browsers show well.

    Entities become characters, an operator's name a leaf with its indices below, and the upright
    letters of a word one identifier.
    """
    row.text = unescape(row.text or "") or None
    if row.tag == "msub" and row[0].tag == "mo":
        row.tag = "munder"
    if row.tag == "mo" and len(row):
        row.tag, row.text = "mi", "".join(row.itertext())
        row[:] = []
    previous: Element | None = None
    for child in list(row):
        if child.tag != "mi" or child.get("mathvariant") != "normal":
            previous = None
        elif previous is None:
            previous = child
        else:
            previous.text = (previous.text or "") + (child.text or "")
            row.remove(child)


def _gather(row: Element) -> bool:
    """Put the marks of symbols on the rows around them; say whether the whole row is marked.

    Where only some parts of it are, the mark is on each run of them, without gaps.
    """
    if row.tag in LEAVES:
        return row.get("class") == CHANGED or not (row.text or "").strip()
    marked = list(map(_gather, row))
    if all(marked) and row.tag != "math":
        for node in row.iter():
            node.attrib.pop("class", None)
        row.set("class", CHANGED)
    elif row.tag in ROWS:
        _join_runs(row, marked)
    return row.get("class") == CHANGED


def _is_fence(node: Element) -> bool:
    return node.get("fence") == "true"


def _join_runs(row: Element, marked: list[bool]) -> None:
    """Put the children of a row that are marked one after the other into a row of their own.

    Braces stay in the row, where both of a pair grow with what is between them.
    """
    pairs = [(child, mark, _is_fence(child)) for child, mark in zip(row, marked)]
    row[:] = []
    for (mark, is_fence), group in groupby(pairs, key=lambda pair: pair[1:]):
        children = [child for child, *_ in group]
        if not mark or is_fence or len(children) < 2 or not _all_leaves(children):
            row.extend(children)
            continue
        run = Element("mrow", {"class": CHANGED})
        run.extend(children)
        for node in list(run.iter())[1:]:
            node.attrib.pop("class", None)
        row.append(run)


def _all_leaves(lines: Sequence[Element]) -> list[Element]:
    """Return the symbols of some lines, in order."""
    leaves = []
    for line in lines:
        for node in line.iter():
            if node.tag in LEAVES and (node.text or "").strip():
                leaves.append(node)
    return leaves


def block(lines: Iterable[Element]) -> str:
    rows = "".join(f"<div>{_serialised(line)}</div>" for line in lines)
    return f'<div class="einalg-formula">{rows}</div>'


def _serialised(line: Element) -> str:
    if line.tag != "code":
        return tostring(line, encoding="unicode")
    parts = []
    for leaf in line:
        shown = escape(leaf.text or "")
        if leaf.get("class"):
            shown = f'<mark class="{CHANGED}">{shown}</mark>'
        elif leaf.get(NUMBER):
            shown = f'<span {NUMBER}="{leaf.get(NUMBER)}">{shown}</span>'
        parts.append(shown)
    return f"<code>{''.join(parts)}</code>"
