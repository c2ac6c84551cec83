"""Derivations, candidates and explanations in Jupyter: what they show is what the values hold."""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from html.parser import HTMLParser

import pytest

import einalg as ea
from derive.cost.model import MeasuredCostModel, Roofline
from derive.cost.work import work_of_each_run
from derive.results.history import History
from derive.results.script import MAX_BRIEF_LINES
from einalg.display.html import asset
from einalg.display.kernels.kernel_code import MAX_NAMES, linking_style, numbered_names
from einalg.display.kernels.source_code import source_html
from einalg.display.mathml import NUMBER, formula
from einalg.display.results.proof import rule_verdict_html
from einalg.text.wording import significant

VOID = {"br", "input", "hr"}
TEXT = "O[f,h] += A.pad(0,1)[c,h+r-1]*K[f,c,r]"
SHAPES = dict(A=(4, 14), K=(3, 4, 3))


class Page(HTMLParser):
    """The elements of a page, and its text; fails where they are not balanced."""

    def __init__(self, html):
        super().__init__()
        self.opened, self.elements, self.text = [], [], []
        self.feed(html)
        assert not self.opened

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.opened[-1:] != ["style"]:
            self.text.append(data)

    def classes(self, name):
        return [a for _, a in self.elements if name in (a.get("class") or "").split()]


@pytest.fixture(scope="module")
def d():
    return ea.derive(TEXT, **SHAPES, states=12, measure=False)


@pytest.fixture(scope="module")
def measured():
    return ea.derive(TEXT, **SHAPES, states=8, seconds=20)


def test_a_derivation_shows_its_parts(d):
    page = Page(d._repr_html_())
    text = "".join(page.text)
    assert f"{len(d.candidates)} candidates" in text and d.stats.stopped in text
    assert str(d).splitlines()[0] in text
    for tag, attributes in page.elements:
        assert tag != "script"
        for name in ("src", "href"):
            assert name not in attributes
    assert len(page.classes("einalg-kernel")) == len(d.best.kernels)
    listed = re.findall(r'<th scope="row">(\d+)</th>', d._repr_html_())
    assert listed == 2 * [str(number) for number in range(len(d.candidates))]


def test_a_candidate_shows_its_kernels_with_their_work(d):
    for candidate in d.candidates[:4]:
        html = candidate._repr_html_()
        page, text = Page(html), "".join(Page(html).text)
        assert len(page.classes("einalg-kernel")) == len(candidate.kernels)
        for kernel, work in zip(candidate.kernels, work_of_each_run(candidate.kernels)):
            assert str(kernel) in text
            if work.bytes:
                assert f"{significant(work.intensity)} FLOP/B" in text
        assert "candidate.source()" in text  # it was not compiled, and is not in order to be shown


def test_measured_candidates_show_their_source_and_the_times_that_were_measured(measured):
    candidate = next(c for c in measured.candidates if c.measured and c.moves)
    html = candidate._repr_html_()
    page, text = Page(html), "".join(Page(html).text)
    sources = [k.source for k in candidate.compile().kernels if k.source is not None]
    assert len(page.classes("einalg-source")) == len(sources) >= 1
    for source in sources:
        assert source.splitlines()[-1] in text
    model = MeasuredCostModel(Roofline(), candidate.backend, max_seconds=0, retry_seconds=0)
    for kernel in candidate.kernels:
        assert f"{model.seconds(kernel) * 1e3:.3f} ms" in text
    stack = re.search(r'class="einalg-stack".*?</div>', html)[0]
    assert stack.count("<span") == len(candidate.kernels)


def test_nothing_is_measured_in_order_to_be_shown(measured, monkeypatch):
    def refuse(*_):
        raise AssertionError("a kernel is measured")

    monkeypatch.setattr(type(measured.backend), "kernel_timers", refuse)
    monkeypatch.setattr(type(measured.backend), "rates", refuse)
    assert measured._repr_html_() and measured.best._repr_html_()
    monkeypatch.setattr(type(measured.backend), "identity", lambda _: "another machine")
    assert "all kernels" in measured.best._repr_html_()  # whose times are not known one by one


def test_a_device_that_is_missing_hinders_no_view(measured, monkeypatch):
    def missing(*_):
        raise ea.EinalgError("there is no device\n  connect one")

    for method in ("identity", "compile"):
        monkeypatch.setattr(type(measured.backend), method, missing)
    assert Page(measured._repr_html_()) and Page(measured.best._repr_html_())


def test_an_explanation_is_a_text_and_mathematics(d):
    chosen = max(d.candidates, key=lambda candidate: len(candidate.moves))
    explanation = d.explain(chosen)
    assert isinstance(explanation, str) and explanation.startswith("given\n")
    assert [step.move for step in explanation.steps] == list(chosen.moves)
    page = Page(explanation._repr_html_())
    text = "".join(page.text)
    for step in explanation.steps:
        assert step.move.rule in text and f"{step.rule.before} ⇒ {step.rule.after}" in text
    assert text.count("⇓") == len(chosen.moves) + (
        str(explanation.steps[-1].program) != str(chosen.program)
    )


def test_the_verdict_on_a_rule_shows_where_it_holds_and_a_counterexample():
    first = ea.substitutions.Rule("a & b", "O[i] += A[i,k]", "O[i] = A[i,0]", A=("N", "K"))
    verdict = ea.substitutions.verify(first)
    page = Page(rule_verdict_html(verdict))
    text = "".join(page.text)
    assert page.classes("good") and "a & b where K = 1" in text
    assert f"equal at sizes: {verdict.condition}" in text and str(verdict.region) in text
    assert "different at K = 2, N = 1" in text
    never = ea.substitutions.Rule("shift", "O[i:N] = A[i]", "O[i:N] = A[i] + 1", A=("N",))
    page = Page(rule_verdict_html(ea.substitutions.verify(never)))
    assert page.classes("bad") and "equal at sizes" not in "".join(page.text)


def test_a_terminal_shows_explanations_in_short(d, monkeypatch):
    for candidate in d.candidates:
        explanation = d.explain(candidate)
        for columns in ("80", "50"):
            monkeypatch.setenv("COLUMNS", columns)
            lines = repr(explanation).splitlines()
            assert len(lines) <= MAX_BRIEF_LINES
            assert max(map(len, lines)) <= int(columns)
            assert f"verdict: {candidate.verdict}" in lines
    assert str(explanation) == "" + explanation  # in a pipe it is whole
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, str(explanation).splitlines())) <= 80


def test_a_terminal_shows_many_steps_in_short(d, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    chosen = max(d.candidates, key=lambda candidate: len(candidate.moves))
    steps = d.steps(chosen)
    lines = repr(steps).splitlines()
    assert lines[0] == "given" and max(map(len, lines)) <= 80
    assert sum(". proved: " in line for line in lines) == len(steps)
    long = History(steps.start, steps.steps * 20)
    lines = repr(long).splitlines()
    assert len(lines) <= MAX_BRIEF_LINES and "more steps" in lines[-2]
    assert str(long).count("(proved)") == len(long)


def test_names_are_found_in_expression_and_source():
    kernel = ea.derive(TEXT, **SHAPES, states=0, measure=False).best.kernels[0]
    names = numbered_names(kernel)
    assert list(names) == ["O", "f", "h", "c", "r", "A", "K"]
    statement = formula([(kernel.output, kernel.scope)], names)
    source = source_html(
        "for (int h_outer = 0; h_outer < N; ++h) { O[h] += A2[r_1] * 2; }", "c", names
    )
    for name in ("O", "h", "r"):
        assert f'{NUMBER}="{names[name]}"' in statement
        assert f'<b {NUMBER}="{names[name]}">' in source
    assert source.count(f'{NUMBER}="{names["h"]}"') == 4  # two of them are parts of h
    assert ">A2<" not in source and "&lt; " in source
    assert set(re.findall(rf'{NUMBER}="(\d+)"', source)) <= {str(n) for n in names.values()}


def test_an_index_with_a_number_is_one_name():
    scope = ea.parse("O[h1,h] = A[h1]*B[h]", A=(3,), B=(4,))
    html = formula([("O", scope)], {"h1": 0, "h": 1})
    assert html.count(f'<msub {NUMBER}="0">') == 2 and html.count(f'<mi {NUMBER}="1">') == 2


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_source_is_whole_with_pygments_and_without(monkeypatch, is_missing):
    if is_missing:
        monkeypatch.setitem(sys.modules, "pygments.lexers", None)
    source = '#pragma omp simd\nif (a < b && "<i>") { /* <b> */ x = 0x1p-3f; }\n\n'
    html = source_html(source, "c", {"a": 0})
    page = Page(html)
    assert unescape("".join(page.text)) == source and "<i>" not in html
    assert ("einalg-k" in html) != is_missing
    assert f'<b {NUMBER}="0">a</b>' in html


def test_what_a_name_marks_is_said_by_the_style_alone():
    style = linking_style()
    assert style.count(":has(") == MAX_NAMES and "<" not in style
    assert ".einalg-kernel" in asset("style.css")


def test_texts_of_a_program_bring_no_markup(d):
    html = d.explain()._repr_html_()
    assert escape(d.explain().steps[0].rule.before if d.explain().steps else "given") in html
