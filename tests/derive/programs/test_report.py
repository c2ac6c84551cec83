"""What a report says of programs and their layers, in text and in Jupyter alike."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

import einalg as ea
from derive.matching import kernels_of, with_operator_names
from derive.programs.early_end import EarlyEnd
from derive.programs.forms.layers import SearchedLayer
from derive.programs.report import MAX_BAR_CHARACTERS, Report
from derive.results.candidates import Candidate
from derive.rewriting.moves import Move
from einalg.display.mathml import MAX_FORMULAS
from einalg.display.results.report import ELSE, report_html
from einalg.language.ir.program import Program, as_program
from einalg.runtime.measurement import Comparison
from einalg.text.terminal import COLUMNS
from tests.helpers.measurements import exactly

SIZES = {"Input": (16, 64, 32), "Weight": (16, 32, 48), "Scale": (16, 64)}


def parsed(text: str, **shapes) -> Program:
    return as_program(ea.parse(text, **shapes))


BELOW = parsed("O[i] = A[i] < 1", A=(4,))
PRODUCT = parsed("O[i,j] += A[i,k]*B[k,j]", A=(8, 9), B=(9, 7))
TURNED = parsed("T[k,i] = A[i,k]\nO[i,j] += T[k,i]*B[k,j]", A=(8, 9), B=(9, 7))
WIDE = parsed(
    "O[batch,row,column] += Input[batch,row,inner]*Weight[batch,inner,column]*Scale[batch,row]",
    **SIZES,
)


def reported(**layer):
    layer = {"names": ["O"], "weights": [], "timed_out_after": None, **layer}
    return report_of(
        [SimpleNamespace(program=BELOW, candidate=None, **layer)],
        (2e-3, 1e-3),
    )


def part_of(layers, seconds):
    return SimpleNamespace(
        seconds=seconds,
        comparison=Comparison(exactly(seconds[1]), exactly(seconds[0])),
        verdict="proved",
        error=0.0,
        layers=layers,
        changes=(),
        workspace=3 << 20,
        slices=None,
        early_end=None,
    )


def report_of(layers, seconds, times=None):
    opaque = [SimpleNamespace(operator="<sort>", why="no order")]
    return Report([part_of(layers, seconds)], opaque, 1.0, times)


def candidate(program: Program, cost: float, moves: int = 1) -> Candidate:
    return Candidate(
        program,
        with_operator_names(kernels_of(program)),
        (Move("staging", ("O",), {}),) * moves,
        cost,
        "proved",
        True,
        2e-7,
    )


def two_layers(times=None):
    """Two statements of 4 ms each that now take 1 ms each, and one of 2 ms that is as it was, in 12
    ms and in 4 ms.
    """
    fast = SearchedLayer(("C0", "C1"), PRODUCT, ("w<0>",), candidate(TURNED, 1e-3), 4e-3)
    same = SearchedLayer(("D",), PRODUCT, (), candidate(PRODUCT, 2e-3, 0), 2e-3)
    return report_of([fast, same], (12e-3, 4e-3), times)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (dict(original=None), "it was not searched, for its search failed, which a warning tells"),
        (
            dict(original=None, timed_out_after=60.0),
            "it was not searched, for the 60 s were over before its turn; more go on from here",
        ),
        (
            dict(original=None, timed_out_after=0.0),
            "it was not searched, for searches were given no time (seconds=0)",
        ),
        (dict(original=1e-3), "what was found for it is not faster in the whole"),
    ],
)
def test_why_a_layer_stays_as_it_is(layer, said):
    report = reported(**layer)
    assert (
        f"stays as it is: {said}" in report.text
        and f"<td>stays as it is: {said}</td>" in report_html(report)
    )


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (EarlyEnd(60.0, ("its other forms",)), "the 60 s were over before these: its other forms"),
        (EarlyEnd(60.0, ("its other forms",), True), "it was interrupted before it had these"),
        (EarlyEnd(0.0, ("substitutions",)), "it was given no time (seconds=0) for these"),
    ],
)
def test_why_a_search_stopped_is_told(end, said):
    part = part_of([], (2e-3, 1e-3))
    part.early_end = end
    report = Report([part], [], 1.0, None)
    assert said in report.text and "a call with more seconds goes on from here" in report.text
    assert said in report_html(report)
    assert EarlyEnd.from_record(json.loads(json.dumps(end.as_record()))) == end
    assert EarlyEnd.from_record(None) is None


def test_the_memory_between_kernels_is_told():
    assert "proved, largest error 0.0e+00, 3.0 MiB between kernels" in str(reported(original=None))


def test_texts_are_escaped():
    html = report_html(reported(original=None))
    assert "A[i] &lt; 1" in html and "&lt;sort&gt;" in html


def test_equal_layers_are_counted():
    assert "  O (once): " in str(reported(original=None))
    assert "  C0 (2 times): " in str(reported(original=None, names=["C0", "C1"]))
    found = reported(
        original=None, names=["C0", "C1"], weights=["stem_weight", *(f"w{k}" for k in range(6))]
    )
    assert "  C0 (2 times, with stem_weight, w0, w1, w2, …): " in str(
        found
    ) and "<td>stem_weight, w0, w1, w2, …</td>" in report_html(found)
    assert str(reported(original=None)).startswith("1 program, 1 opaque call; ")


def bars(text: str) -> list[tuple[str, str, str, int]]:
    """The bars of a text: before or after, milliseconds, share, length."""
    found = re.findall(r"^ +(before|after) +(.*) ms +(\d+%)  (█*)$", text, re.MULTILINE)
    return [(when, each, share, len(bar)) for when, each, share, bar in found]


def test_bars_of_a_text_are_of_all_statements_of_a_layer():
    half = round(MAX_BAR_CHARACTERS * 2 / 8)
    first = [
        ("before", "2 × 4.000", "67%", MAX_BAR_CHARACTERS),
        ("after", "2 × 1.000", "50%", half),
    ]
    assert bars(str(two_layers())) == [
        *first,
        ("before", "2.000", "17%", half),
        ("after", "2.000", "50%", half),
    ]


def test_shares_of_layers_that_take_longer_one_by_one_add_up():
    layers = [
        SearchedLayer((name,), PRODUCT, (), candidate(PRODUCT, 2e-3, 0), 3e-3) for name in "CD"
    ]
    assert [share for _, _, share, _ in bars(str(report_of(layers, (4e-3, 1e-3))))] == ["50%"] * 4


def test_a_layer_is_told_before_and_after():
    """With its kernels and its statements, where they differ."""
    text = str(two_layers())
    first, second = text.partition("\n  D (once)")[::2]
    kernels = [f"      {kernel}" for kernel in with_operator_names(kernels_of(TURNED))]
    assert (
        "1 move, proved, error 2.0e-07; 0 states searched; it became\n      T[k:9, i:8] "
        "= A[i, k]\n      O[i:8, j:7] = " in first
    )
    assert first.count("  O = matmul(A, B)") == 1 and all(kernel in first for kernel in kernels)
    assert (
        second.count("  O = matmul(A, B)") == 1
        and "it became" not in second
        and "0 moves, proved, error 2.0e-07" in second
    )
    html = report_html(two_layers())
    assert (
        len(re.findall(r"<summary>after</summary><.*?<pre>T\[k:9, i:8\] = A\[i, k\]\n", html))
        == 1
        == html.count("<summary>before</summary>O = matmul(A, B)")
    )


def test_a_page_has_bars_of_programs_and_of_calls():
    html = report_html(two_layers((exactly(20e-3), exactly(5e-3))))
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", html)]
    assert widths == pytest.approx(
        [100, 25, *(100 * s / 12 for s in (8, 2, 2, 2, 2))], abs=0.01
    )  # the calls, then layers and the rest
    assert (
        "a call, in the framework</strong> 20.000 ms" in html
        and "4.000 <small>67%</small>" in html
        and f"</i>{ELSE}" in html
    )
    assert "w&lt;0&gt;" in html and "w<0>" not in html
    assert "a call" not in report_html(two_layers())
    assert "a call: 20.000 ms in the framework, 5.000 ms optimized" in str(
        two_layers((exactly(20e-3), exactly(5e-3)))
    )


def test_a_layer_that_stays_has_its_time_before():
    assert (
        bars(str(reported(original=1e-3))) == [("before", "1.000", "50%", MAX_BAR_CHARACTERS)]
        and bars(str(reported(original=None))) == []
    )


def test_a_text_fits_80_columns():
    layers = [
        SearchedLayer(
            ("O",),
            WIDE,
            tuple(f"encoder.layers.{k}.weight" for k in range(9)),
            candidate(WIDE, 1e-3),
            1e-3,
        )
    ]
    text = str(report_of(layers, (1e-3, 1e-3), (exactly(1e-3), exactly(1e-3))))
    assert max(map(len, text.splitlines())) <= COLUMNS and "Sum[inner:32]" in text


def test_layers_are_shown_as_mathematics_with_their_text_folded():
    html = report_html(two_layers())
    layers = html.partition("<tbody>")[2].split("</tr>")
    assert [row.count('<div class="einalg-formula">') for row in layers] == [2, 1, 0]
    assert html.count("<summary>as text</summary><pre>O[i:8, j:7] = Sum[k:9]") == 2
    assert "<strong>C0</strong>" in html and "<strong>D</strong>" in html


def test_a_report_of_very_many_layers_is_text():
    layer = SearchedLayer(("D",), PRODUCT, (), candidate(PRODUCT, 2e-3, 0), 2e-3)
    html = report_html(report_of([layer] * (MAX_FORMULAS + 1), (12e-3, 4e-3)))
    assert 'einalg-formula"' not in html and html.count("<pre>O[i:8, j:7] = ") == MAX_FORMULAS + 1


def test_a_program_without_layers_has_no_table():
    html = report_html(report_of([], (12e-3, 4e-3)))
    assert "<table" not in html and "before</strong> 12.000 ms" in html


def test_a_program_that_was_not_measured_has_no_bars():
    part = SimpleNamespace(**{**vars(part_of([], (0.0, 0.0))), "comparison": None})
    html = report_html(Report([part], [], 1.0, None))
    assert "program 1: not measured" in html and "0.000 ms" not in html
