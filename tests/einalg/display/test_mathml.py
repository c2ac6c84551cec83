"""Expressions as MathML, with what a rewriting changed marked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import einalg as ea
import einalg.api  # attaches the views of notebooks
from einalg.display.mathml import CHANGED, MAX_FORMULAS, changed, formula

mathml = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('latex2mathml')",
    reason="needs einalg[notebook]",
)
ROOT = Path(__file__).resolve().parents[3]
CONV = ea.parse("O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1] * K[f,c,r]", A=(1, 3, 6), K=(4, 3, 3))


def symbols(html):
    """The leaves in order, and those among them that are marked."""
    leaves, marked = [], []

    def walk(node, inside):
        inside = inside or node.get("class") == CHANGED
        if not len(node):
            leaves.append(node.text or "")
            marked.extend([node.text or ""] if inside else [])
        for child in node:
            walk(child, inside)

    walk(ElementTree.fromstring(html), False)
    return leaves, [text for text in marked if text.strip()]


def plain(html):
    return "".join(text for text in symbols(html)[0] if text.strip())


@mathml
def test_an_expression_is_what_the_paper_writes():
    assert plain(formula(CONV)) == "Ln,f,h∑c,rApad[n,c,h+r−1]K[f,c,r]"
    assert '<mi mathvariant="normal">pad</mi>' in formula(CONV)


@mathml
def test_a_program_has_a_line_for_each_statement():
    html = formula(ea.parse("M[i] = Max[j](S[i,j])\nO[i,j] = exp(S[i,j] - M[i])", S=(3, 5)))
    lines = re.findall(r"<div><math.*?</math></div>", html)
    assert [plain(line) for line in lines] == ["M=LimaxjS[i,j]", "O=Li,jeS[i,j]−M[i]"]


@mathml
@pytest.mark.parametrize(
    "text",
    [
        "O[i] = Piecewise((A[i], A[i] > 0), (tanh(A[i]), True))",
        "O[i:4] = sqrt(A[i//2])/3 + A[i%3]**2",
        "O = L[i:4](A[i]*A_[i], where=i>=2)",
    ],
)
def test_any_body_is_well_formed_mathml(text):
    ElementTree.fromstring(
        formula(ea.parse(text, A=(4,), **({"A_": (4,)} if "A_" in text else {})))
    )


@mathml
def test_nothing_is_marked_where_nothing_changed():
    before, after = changed(CONV, CONV)
    assert before == after == formula(CONV)


@mathml
def test_what_changed_is_marked_and_the_rest_is_not():
    split = ea.parse(
        "O = L[n:1,f:4,h:6](Sum[r:3]((L[r:3,n:1,f:4,h:6](Sum[c:3](A.pad(0,0,1)[n,c,h+r-1]*K[f,c,r])))[r,n,f,h]))",
        A=(1, 3, 6),
        K=(4, 3, 3),
    )
    before, after = changed(CONV, split)
    (old, old_marked), (new, new_marked) = symbols(before), symbols(after)
    assert 0 < len(old_marked) <= 3 and "{" in new_marked and "}" in new_marked
    for text in "AK":
        assert text in old and text in new and text not in old_marked + new_marked
    assert [t for t in old if t.strip()] == [t for t in symbols(formula(CONV))[0] if t.strip()]
    assert plain(after) == plain(formula(split))


@pytest.mark.parametrize("missing", [True, False])
def test_without_the_package_it_is_text(monkeypatch, missing):
    if missing:
        monkeypatch.setitem(sys.modules, "latex2mathml", None)
        monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    html = formula(ea.parse("O[i] = A[i] < 1", A=(4,)))
    assert ("<code>" in html) == missing and ("&lt;" in html)
    if missing:
        before, after = changed(
            ea.parse("O[i] = A[i] + 1", A=(4,)), ea.parse("O[i] = A[i] + 2", A=(4,))
        )
        assert (
            f'<mark class="{CHANGED}">1</mark>' in before
            and f'<mark class="{CHANGED}">2</mark>' in after
        )


def test_names_cannot_bring_markup_along(monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    assert "<script" not in formula(ea.parse("O[i] = Piecewise((1, A[i] <1), (0, True))", A=(4,)))


@mathml
def test_a_pair_of_braces_stays_in_one_row():
    """One of them in a row of its own is as tall as something else. That of cases has no partner."""
    session = ea.Session(CONV)
    for choice in session.moves():
        for html in changed(*choice.change):
            for row in ElementTree.fromstring(html).iter():
                fences = [child.get("form") for child in row if child.get("fence") == "true"]
                has_cases = any(child.tag.endswith("mtable") for child in row)
                assert fences.count("prefix") - has_cases == fences.count("postfix")


@mathml
@pytest.mark.parametrize(
    ("text", "lines"), [("O[i] = A[i]", 1), ("T[i] = A[i]\nO[i] = exp(T[i])", 2)]
)
def test_a_notebook_shows_expressions_and_programs_as_mathml(text, lines):
    expression = ea.parse(text, A=(4,))
    html = expression._repr_html_()
    assert html.count("<math") == lines and expression._repr_latex_().startswith("$")
    assert html.endswith(f'<div class="einalg einalg-expression">{formula(expression)}</div>')


@mathml
def test_a_notebook_that_only_parses_shows_mathml():
    code = "import sys; sys.modules['IPython'] = sys; import einalg as ea; "
    code += "print(ea.parse('O[i] = A[i]', A=(4,))._repr_html_()); print('derive' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "<math" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_a_notebook_that_only_verifies_rules_shows_verdicts():
    code = "import sys; sys.modules['IPython'] = sys; import einalg as ea; "
    code += "print(ea.substitutions.RuleVerdict('a rule', 'proved')._repr_html_())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "<strong>a rule</strong>" in done.stdout, done.stderr


def test_an_expression_is_latex_where_it_cannot_be_mathml(monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml", None)
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    assert ea.parse("O[i] = A[i]", A=(4,))._repr_html_() is None


def test_a_program_of_very_many_statements_is_latex():
    names = [f"T{number}" for number in range(MAX_FORMULAS + 1)]
    lines = [f"{name}[i] = A[i] + {number}" for number, name in enumerate(names)]
    program = ea.parse("\n".join([*lines, ", ".join(names)]), A=(4,))
    assert program._repr_html_() is None
