"""What rows say of their targets: a function of their figures, and that of the results which are kept."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench import kernel_cases, targets

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


@pytest.mark.parametrize("path", targets.kept(), ids=lambda path: path.stem)
def test_the_results_that_are_kept_say_what_the_targets_are_now(path: Path) -> None:
    kept = json.loads(path.read_text())
    assert json.loads(json.dumps(targets.anew(kept))) == kept, (
        "python -m bench.targets brings them up to date"
    )


def test_what_others_do_on_the_machine_is_told_by_the_shortest_runs() -> None:
    """Against the shortest run of the peak: both may be disturbed."""
    slow = row(CONV, 0.4, 0.1, numpy=1.2)
    slow["more"]["ms"]["peak"] = 1.0
    assert "these figures do not tell the cause" in targets.judged(slow, CONV, 16)["missed because"]
    told = "the shortest run reaches 90 % of the peak, what else the core does takes the rest"
    for shortest, reason in ((0.4, told), (0.9, "these figures do not tell the cause")):
        slow["more"]["shortest ms"] = {"generated": shortest, "peak": 0.9, "numpy": 1.0}
        assert reason in targets.judged(slow, CONV, 16)["missed because"]


def test_every_target_is_of_a_case_or_a_network() -> None:
    names = {make().name for make in kernel_cases.CASES}
    assert {*targets.RATIOS, *targets.PEAKS, *targets.COPIES} <= names
    pytest.importorskip("torch")
    from bench.models import MODELS

    assert {*targets.NETWORKS[1], *targets.NETWORKS[16]} <= set(MODELS) and set(
        targets.NETWORKS[16]
    ) == set(MODELS)


@pytest.mark.parametrize(
    ("case", "figures", "reason"),
    [
        (PRODUCT, row(PRODUCT, 0.95, 0.1), ""),
        (
            PRODUCT,
            row(PRODUCT, 0.85, 0.1),
            "85 % of the peak: its 3.15 MB are more than the caches of one core hold",
        ),
        (
            PRODUCT,
            row(PRODUCT, 0.95, 0.1, numpy=0.9),
            "at the peak, of which 95 % is reached, the ratio were 0.95",
        ),
        (
            CONV,
            row(CONV, 0.9, 0.1, derived=0.5, numpy=1.0),
            "fewer products are done than counted (180 % of the peak), along one axis only",
        ),
        (CONV, row(CONV, 0.9, 0.1), "at the peak, of which 90 % is reached, the ratio were 2.2"),
        (
            CONV,
            row(CONV, 0.8, 0.1, numpy=2.4),
            "80 % of the peak: loads, stores and borders take the rest",
        ),
        (
            CONV,
            row(CONV, 0.4, 0.1),
            "neither the peak (40 %) nor the bandwidth (10 %) is the limit: these figures do not tell the cause",
        ),
        (
            CONV,
            row(CONV, 0.4, 0.1, generated=0.02, numpy=0.04),
            "the limit: of 20 µs, the call itself takes a part",
        ),
    ],
)
def test_the_reason_follows_from_the_figures(
    case: kernel_cases.Case, figures: dict[str, Any], reason: str
) -> None:
    found = targets.judged(figures, case, 16)
    assert reason in found["missed because"] and bool(reason) == bool(found["missed because"])
    assert found["target"] == {PRODUCT.name: "1, 0.9 of peak", CONV.name: "2.5"}[case.name]


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        (
            partial(kernel_cases.conv, 1, 32, 224, 1, 5, padding=2),
            "with 1 filter, an element that is loaded serves few products",
        ),
        (
            partial(kernel_cases.conv, 1, 2048, 7, 21, (11, 1), padding=(5, 0)),
            "21 filters fill their vectors of 16 to 66 %",
        ),
        (partial(kernel_cases.mmoe, 1, 499, 8, 16, 2, 8), "7 kernels follow one another"),
        (
            partial(kernel_cases.g2bmm, 12, 4096, 64, 256, 4),
            "each line of its results, 101 MB, is read from memory before it is written",
        ),
        (
            partial(kernel_cases.matmul, 1, 1024, 1024),
            "with 0.5 operations for a byte, its time is that of loads and stores",
        ),
    ],
)
def test_far_from_the_limits_the_shape_tells_the_cause(case: Any, cause: str) -> None:
    made = case()
    assert cause in targets.judged(row(made, 0.1, 0.05, numpy=0.95), made, 16)["missed because"]


def test_a_share_of_the_copy_is_a_target_too() -> None:
    case = kernel_cases.chain(1024, 1024)
    found = targets.judged(row(case, 0.0, 0.8), case, 16)
    assert (
        found["target"] == "2, 1 of copy"
        and found["missed because"]
        == "80 % of the bandwidth: exp or tanh of elements takes its time"
    )
    assert targets.judged(row(case, 0.0, 1.1), case, 16)["missed because"] == ""


def test_two_threads_are_compared_where_the_peak_bounds() -> None:
    rows = [
        row(PRODUCT, 0.9, 0.1),
        row(PRODUCT, 0.5, 0.1, 2, generated=0.9, numpy=1.6),
        row(CONV, 0.1, 0.9),
        row(CONV, 0.1, 0.9, 2),
    ]
    (found,) = targets.gains(rows)
    assert (
        found["gain"] == pytest.approx(1 / 0.9)
        and found["missed because"]
        == "no library gains as much on this machine: at most 1.25 (numpy)"
    )
    (found,) = targets.gains([rows[0], row(PRODUCT, 0.5, 0.1, 2, generated=0.9, numpy=1.0)])
    assert found["missed because"] == "numpy gains 2: the second core is not the limit"
    (found,) = targets.gains([rows[0], row(PRODUCT, 0.9, 0.1, 2, generated=0.5)])
    assert found["missed because"] == "" and targets.judged(rows[1], PRODUCT, 16)["target"] == ""


def test_networks_say_what_was_searched() -> None:
    found = targets.judged_network(network())
    assert list(found)[-3:] == ["target", "missed because", "more"] and found["target"] == 1.3
    assert found["missed because"] == "every layer was searched (5)"
    found = targets.judged_network(network(searched=1, cached=1))
    assert found["missed because"].startswith("3 of 5 layers stay as they are written")
    assert targets.judged_network(network(ratio=1.4))["missed because"] == ""
    assert (
        targets.judged_network(network(ratio="", failed="no memory"))["missed because"]
        == "no memory"
    )
    assert (
        targets.judged_network(network("bert"))["target"] == ""
        and targets.judged_network(network(threads=2))["target"] == ""
    )
    assert targets.judged_network(network("bert", 1.0, batch=16))["target"] == 1.05


AGAIN = [
    {"count": 10, "GFLOP": 0.01, "weights MB": 2.0},
    {"count": 1, "GFLOP": 0.1, "weights MB": 1.0},
]


@pytest.mark.parametrize(
    "work, said",
    [
        (
            {"GFLOP": 0.1, "MB": 1.0},
            "take 1 ms at the peak, its 1 MB 0.1 ms at the rate of a copy; at the peak the ratio were 2.4",
        ),
        (
            {"GFLOP": 0.1, "MB": 15.0},
            "take 1 ms at the peak, its 15 MB 1.5 ms at the rate of a copy; at the bandwidth the ratio were 1.6",
        ),
        (
            {"GFLOP": 0.3, "MB": 1.0},
            "take 3 ms at the peak, its 1 MB 0.1 ms at the rate of a copy; fewer products are done than written (150 % of the peak)",
        ),
        (
            {"GFLOP": 0.1, "MB": 30.0},
            "take 1 ms at the peak, its 30 MB 3 ms at the rate of a copy; its data stay in caches",
        ),
        (
            {"GFLOP": 0.19, "MB": 3.0, "statements": AGAIN, "cache GB/s": 25.0},
            "take 1.9 ms at the peak, its 3 MB 0.3 ms at the rate of a copy; at the peak the ratio were 1.3",
        ),
        (
            {"GFLOP": 0.1, "MB": 3.0, "statements": AGAIN[:1], "cache GB/s": 16.0},
            "1.2 ms where each statement takes its weights from a cache of 16 GB/s; at the rate of caches the ratio were 1.9",
        ),
    ],
)
def test_networks_say_what_the_machine_allows(work: Any, said: str) -> None:
    found = network(ratio=1.2, ms={"einalg": 2.0})
    found["more"] |= {"work": {**work, "GFLOP/s": 100.0, "GB/s": 10.0}}
    assert targets.judged_network(found)["missed because"].endswith(said)
