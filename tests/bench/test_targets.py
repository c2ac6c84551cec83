"""What rows say of their targets: a function of their figures, also for the kept results."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest

from bench import kernel_cases, kernels, kernels_cuda, targets
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.program import as_program

PRODUCT = kernel_cases.matmul(512, 512, 512)
CONV = kernel_cases.conv(1, 64, 56, 64, 3, "NCHW", padding=1)


def row(
    case: kernel_cases.Case, peak: float, copy: float, threads: int = 1, **ms: float
) -> dict[str, Any]:
    more = {
        "derivation": "2 moves, eop, conv1d, eop" if "derived" in ms else "",
        "ms": {"numpy": 2.0, "generated": 1.0, **ms},
    }
    return {
        "case": case.name,
        "threads": threads,
        "best": "numpy",
        "of peak": peak,
        "of copy": copy,
        "more": more,
    }


def network(
    model: str = "gcn", ratio: float | str = 1.0, threads: int = 1, batch: int = 1, **changed: Any
) -> dict[str, Any]:
    made = {
        "model": model,
        "batch": batch,
        "threads": threads,
        "ms": {"einalg": 2.0},
        "ratio": ratio,
        "layers": 5,
        "searched": 5,
        "cached": 0,
    }
    return {**made, "failed": "", **changed, "more": {"programs ms": [[3.0, 1.0]]}}


@pytest.mark.parametrize("path", targets.result_files(), ids=lambda path: path.stem)
def test_the_results_that_are_kept_say_what_the_targets_are_now(path: Path) -> None:
    record = json.loads(path.read_text())
    assert json.loads(json.dumps(targets.updated(record))) == record, (
        "python -m bench.targets brings them up to date"
    )


def test_every_target_is_of_a_case_or_a_network() -> None:
    names = {make().name for make in kernel_cases.CASES}
    assert {*targets.RATIOS, *targets.PEAKS, *targets.COPIES} <= names
    pytest.importorskip("torch")
    from bench.models import MODELS

    assert {*targets.NETWORKS[1], *targets.NETWORKS[16]} == set(MODELS)


@pytest.mark.parametrize(
    ("case", "figures", "missed"),
    [
        (PRODUCT, row(PRODUCT, 0.95, 0.1), ""),
        (PRODUCT, row(PRODUCT, 0.85, 0.1), "0.85 < 0.9 of peak"),
        (PRODUCT, row(PRODUCT, 0.95, 0.1, numpy=0.9), "0.9 < 1"),
        (PRODUCT, row(PRODUCT, 0.85, 0.1, numpy=0.9), "0.9 < 1, 0.85 < 0.9 of peak"),
        (CONV, row(CONV, 0.9, 0.1, derived=0.5, numpy=1.0), "2 < 2.5"),
        (CONV, row(CONV, 0.9, 0.1, derived=0.4, numpy=1.0), ""),
        (CONV, row(CONV, 0.9, 0.1), "2 < 2.5"),
    ],
)
def test_what_is_missed_is_told_by_figures(
    case: kernel_cases.Case, figures: dict[str, Any], missed: str
) -> None:
    judged = targets.judged(figures, case)
    assert judged["missed"] == missed
    assert judged["target"] == {PRODUCT.name: "1, 0.9 of peak", CONV.name: "2.5"}[case.name]


def test_a_share_of_the_copy_is_a_target_too() -> None:
    case = kernel_cases.chain(1024, 1024)
    judged = targets.judged(row(case, 0.0, 0.8), case)
    assert (judged["target"], judged["missed"]) == ("2, 1 of copy", "0.8 < 1 of copy")
    assert targets.judged(row(case, 0.0, 1.1), case)["missed"] == ""


def test_two_threads_are_compared_where_the_peak_bounds() -> None:
    rows = [
        row(PRODUCT, 0.9, 0.1),
        row(PRODUCT, 0.5, 0.1, 2, generated=0.9, numpy=1.6),
        row(CONV, 0.1, 0.9),
        row(CONV, 0.1, 0.9, 2),
    ]
    (gain,) = targets.gains(rows)
    assert gain["gain"] == pytest.approx(1 / 0.9) and gain["missed"] == "1.11 < 1.8"
    (gain,) = targets.gains([rows[0], row(PRODUCT, 0.9, 0.1, 2, generated=0.5)])
    assert gain["missed"] == "" and targets.judged(rows[1], PRODUCT)["target"] == ""


def test_networks_have_targets_of_one_thread() -> None:
    judged = targets.judged_network(network())
    assert list(judged)[-3:] == ["target", "missed", "more"]
    assert (judged["target"], judged["missed"]) == (1.3, "1 < 1.3")
    assert targets.judged_network(network(ratio=1.4))["missed"] == ""
    failed = targets.judged_network(network(ratio="", failed="no memory"))
    assert failed["missed"] == "there is no ratio" and failed["failed"] == "no memory"
    assert targets.judged_network(network("bert"))["target"] == ""
    assert targets.judged_network(network(threads=2))["target"] == ""
    assert targets.judged_network(network("bert", 1.0, batch=16))["target"] == 1.05


def test_programs_with_other_values_meet_no_target() -> None:
    """The figures are those of what is right, and what is wrong is told."""
    one = row(CONV, 0.9, 0.1, derived=0.1, numpy=3.0)
    one["more"]["errors"] = {"generated": 1e-7, "derived": 0.5}
    judged = targets.judged(one, CONV)
    assert judged["missed"] == "derived has other values"
    assert targets.judged({**one, "threads": 2}, CONV)["missed"] == "derived has other values"
    one["more"]["errors"]["generated"] = nan
    judged = targets.judged(one, CONV)
    assert judged["target"] == "" and "generated has other values" in judged["missed"]


@pytest.mark.parametrize("wrong, ratios", [("generated", ("", 4.0)), ("derived", (2.0, ""))])
def test_programs_with_other_values_have_no_ratio(wrong: str, ratios: tuple[Any, Any]) -> None:
    case = kernel_cases.matmul(3, 4, 5)
    program = lifted(as_program(case.expression))
    times = {"peak": 1.0, "copy": 1.0, "generated": 1.0, "derived": 0.5, "numpy": 2.0}
    errors = {"generated": 1e-7, "derived": 1e-7, "numpy": 1e-7, wrong: 0.5}
    made = kernels.row(case, program, 1, times, errors, {})
    assert (made["ratio"], made["derived ratio"], made["error"]) == (*ratios, 0.5)
    seconds = {"generated": 1.0, "torch": 2.0}
    made = kernels_cuda.row(case, program, seconds, {"generated": 0.5, "torch": 0.0})
    assert made["best"] == "torch" and made["ratio"] == "" and made["error"] == 0.5
