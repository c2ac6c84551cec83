"""Which targets do kernels and networks reach? A comparison of kept figures; nothing is measured.

python -m bench.targets

It updates what rows in bench/results say of their targets, after a change of these. `target` is the
ratio to the fastest library that one thread is to reach, and for some cases a share of the peak or
of the copy; `missed` has the figures of those that are not reached, as "0.85 < 0.9 of peak". The
table of threads has how many times faster two threads are, where the peak bounds a case more than
the bandwidth does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import bench
from bench.kernel_cases import CASES, Case

RESULTS = Path(__file__).parent / "results"
OURS = ("generated", "derived")
WRONG = 1e-2  # error from which on a way has other values, and does not count
LAYOUTS = ("NCHW", "NHWC")
# Ratios of one thread, by the name of a case; LAYOUT stands for each layout.
RATIO_PATTERNS: dict[str, float] = {
    "matmul 512x512x512": 1.0,
    "matmul 1024x1024x1024": 1.0,
    "matmul 49x4608x512": 1.0,
    "matmul 1x1024x1024": 1.0,
    "matmul 64x4096x448": 1.0,
    "Conv3x3 s2 256→512 14x14 LAYOUT b1": 1.0,
    "Conv3x3 64→64 56x56 LAYOUT b1": 2.5,
    "Conv3x3 128→128 28x28 LAYOUT b1": 3.0,
    "Conv3x3 256→256 14x14 LAYOUT b1": 2.2,
    "Conv5x5 64→32 56x56 LAYOUT b1": 3.2,
    "Conv3x3 d2 512→512 14x14 LAYOUT b1": 1.8,
    "Conv7x7 s2 3→64 224x224 LAYOUT b1": 1.0,
    "Conv5x5 32→1 224x224 LAYOUT b1": 9.0,
    "Conv11x1 2048→21 7x7 LAYOUT b1": 1.7,
    "ConvTranspose4x4 s2 448→256 2x2 b1": 1.8,
    "ConvTranspose4x4 s2 448→256 2x2 b16": 3.0,
    "ConvTranspose4x4 s2 64→3 32x32 b1": 3.0,
    "ConvTranspose9x9 s4 56→1 32x32 b1": 2.5,
    "G2BMM 12x4096x64 W256 d1": 3.0,
    "G2BMM 12x4096x64 W256 d4": 3.0,
    "GBMM 12x4096x64 W256 d1": 4.0,
    "GBMM 12x4096x64 W256 d4": 4.0,
    "banded attention 12x4096x64 W256 d1": 2.0,
    "banded attention 12x4096x64 W256 d4": 2.0,
    "MMoE 499, 8 experts b1": 6.0,
    "map 1024x1024": 2.0,
    "OffsetAdd 3x3 56x56x64 b1": 2.0,
    "OffsetAdd 3x3 112x112x64 b1": 2.0,
}


def _of_each_layout(patterns: Mapping[str, float]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for pattern, ratio in patterns.items():
        for layout in LAYOUTS:
            ratios[pattern.replace("LAYOUT", layout)] = ratio
    return ratios


RATIOS = _of_each_layout(RATIO_PATTERNS)
# Shares of the peak and of the copy that one thread is to reach.
PEAKS: dict[str, float] = {"matmul 512x512x512": 0.9, "matmul 1024x1024x1024": 0.9}
COPIES: dict[str, float] = {
    "map 1024x1024": 1.0,
    "OffsetAdd 3x3 56x56x64 b1": 1.0,
    "OffsetAdd 3x3 112x112x64 b1": 1.0,
}
GAIN = 1.8  # how many times faster two threads are to be
# Milliseconds of a kernel to be written and to be compiled, and of a program to be ready where all
# of it is on disk.
MAKING_MS: dict[str, float] = {"emission": 50.0, "compiling": 300.0, "ready": 50.0}
# Ratios of whole networks on one thread, by the size of the batch.
NETWORKS: dict[int, dict[str, float]] = {
    1: {
        "fsrcnn": 6.5,
        "infogan": 2.4,
        "dcgan": 1.8,
        "srcnn": 2.2,
        "csrnet": 1.7,
        "resnet18": 1.6,
        "longformer_d4": 2.5,
        "lstm": 1.3,
        "mmoe": 6.0,
        "gcn": 1.3,
        "mobilenet_v2": 1.0,
        "mobilenet_v3": 1.0,
        "efficientnet": 1.0,
        "squeezenet": 1.0,
        "resnet50": 1.0,
        "resnext50": 1.0,
        "inception": 1.0,
        "resnet3d": 1.0,
        "nasnet": 1.0,
        "convnext": 1.0,
        "unet": 1.0,
        "vit": 1.0,
        "swin": 1.0,
        "bert12": 1.0,
        "gpt": 1.0,
        "gpt_step": 0.98,  # which streams its weights
    },
    16: {
        "fsrcnn": 6.5,
        "infogan": 2.0,
        "dcgan": 1.9,
        "srcnn": 2.0,
        "csrnet": 1.9,
        "resnet18": 1.6,
        "gcn": 1.05,
        "longformer_d1": 1.05,
        "longformer_d4": 1.05,
        "bert": 1.05,
        "lstm": 1.05,
        "mmoe": 1.05,
    },
}


@dataclass(frozen=True)
class Target:
    """A figure, the value that it is to reach, and what both are shares of: "" for a ratio.

    >>> str(Target(0.85, 0.9, " of peak")), Target(0.85, 0.9, " of peak").missed
    ('0.9 of peak', '0.85 < 0.9 of peak')
    """

    figure: float
    value: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.value:g}{self.unit}"

    @property
    def missed(self) -> str:
        """The figure and the target; empty where that is reached."""
        if self.figure >= self.value:
            return ""
        return f"{self.figure:.3g} < {self}"


# Kernels.


def judged(row: bench.Row, case: Case) -> bench.Row:
    """Return the row of a case with its targets, those that it misses, and which of einalg's
    programs have other values.
    """
    targets: list[Target] = []
    if row["threads"] == 1:
        targets = case_targets(row, case.name)
    missed = [target.missed for target in targets if target.missed]
    right = right_programs(row)
    missed += [f"{name} has other values" for name in OURS if name in _own(row) - set(right)]
    return {**row, "target": ", ".join(map(str, targets)), "missed": ", ".join(missed)}


def case_targets(row: bench.Row, name: str) -> list[Target]:
    """Return the targets of a case, with the figures of the fastest of einalg's programs; none
    where all of these have other values.
    """
    times, ours = row["more"]["ms"], _right_milliseconds(row)
    if ours is None:
        return []
    speedup = times["generated"] / ours  # of a derivation, whose shares the row does not have
    targets: list[Target] = []
    if name in RATIOS and row["best"]:
        targets.append(Target(times[row["best"]] / ours, RATIOS[name]))
    if name in PEAKS:
        targets.append(Target(row["of peak"] * speedup, PEAKS[name], " of peak"))
    if name in COPIES:
        targets.append(Target(row["of copy"] * speedup, COPIES[name], " of copy"))
    return targets


def right_programs(row: bench.Row) -> list[str]:
    """Return the names of einalg's programs whose values are those of the reference."""
    errors = row["more"].get("errors", {})
    return [name for name in OURS if name in _own(row) and errors.get(name, 0.0) < WRONG]


def _right_milliseconds(row: bench.Row) -> float | None:
    """Return the time of the fastest of einalg's programs whose values are right."""
    times = row["more"]["ms"]
    return min((times[name] for name in right_programs(row)), default=None)


def _own(row: bench.Row) -> set[str]:
    return set(OURS) & row["more"]["ms"].keys()


def gains(rows: Iterable[bench.Row]) -> list[dict[str, Any]]:
    """Return how many times faster two threads are than one.

    That is for the cases that the peak bounds more than the bandwidth does.
    """
    rows = list(rows)
    two_threads = {row["case"]: row for row in rows if row["threads"] == 2}
    gain_rows: list[dict[str, Any]] = []
    for one in rows:
        two = two_threads.get(one["case"])
        if one["threads"] != 1 or one["of peak"] <= one["of copy"] or two is None:
            continue
        before, after = _right_milliseconds(one), _right_milliseconds(two)
        if before is None or after is None:
            continue
        gain_rows.append(
            {
                "case": one["case"],
                "1 thread ms": before,
                "2 threads ms": after,
                "gain": before / after,
                "target": GAIN,
                "missed": Target(before / after, GAIN).missed,
            }
        )
    return gain_rows


def makings(rows: Iterable[bench.Row]) -> list[dict[str, Any]]:
    """Return the milliseconds of making kernels and programs over all cases on one thread.

    >>> rows = []
    >>> for name, ms in (("a", 10.0), ("b", 60.0), ("c", 20.0)):
    ...     rows.append({"case": name, "threads": 1, "more": {"emission ms": ms}})
    >>> made, = makings(rows)
    >>> made["median ms"], made["most ms"], made["in"], made["target ms"], made["within it"]
    (20.0, 60.0, 'b', 50.0, '2 of 3')
    """
    making_rows: list[dict[str, Any]] = []
    one_thread = [row for row in rows if row["threads"] == 1]
    for what, target in MAKING_MS.items():
        times: dict[str, float] = {}
        for row in one_thread:
            if f"{what} ms" in row["more"]:
                times[row["case"]] = row["more"][f"{what} ms"]
        if not times:
            continue
        slowest = max(times, key=lambda case: times[case])
        making_rows.append(
            {
                "what": what,
                "median ms": median(times.values()),
                "most ms": times[slowest],
                "in": slowest,
                "target ms": target,
                "within it": f"{sum(ms <= target for ms in times.values())} of {len(times)}",
            }
        )
    return making_rows


# Networks.


def judged_network(row: bench.Row) -> dict[str, Any]:
    """Return the row of a network with its target, and its figure where it misses that."""
    judgement: dict[str, Any] = {"target": "", "missed": ""}
    target = NETWORKS.get(row["batch"], {}).get(row["model"])
    if row["threads"] == 1 and target is not None:
        judgement = {"target": target, "missed": _missed_ratio(row, target)}
    figures = {name: row[name] for name in row if name not in (*judgement, "more")}
    return {**figures, **judgement, "more": row["more"]}


def _missed_ratio(row: bench.Row, target: float) -> str:
    if row["failed"] or not row["ratio"]:
        return "there is no ratio"
    return Target(row["ratio"], target).missed


# Kept results.


def result_files() -> list[Path]:
    """Return the results of kernels and networks; names of other machines follow a dash."""
    files = sorted(RESULTS.glob("*.json"))
    return [path for path in files if path.stem.partition("-")[0] in ("kernels", "models")]


def updated(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of results with the targets of today."""
    if "models" in record:
        return {**record, "models": [judged_network(row) for row in record["models"]]}
    cases = {case.name: case for case in (make() for make in CASES)}
    rows: list[bench.Row] = []
    for row in record["kernels"]:
        if row["case"] in cases:
            row = judged(row, cases[row["case"]])
        rows.append(row)
    return {**record, "kernels": rows, "threads": gains(rows), "making": makings(rows)}


def main() -> None:
    bench.options("What do the kept results say of their targets?").parse_args()
    for path in result_files():
        record = updated(json.loads(path.read_text()))
        path.write_text(json.dumps(record, indent=2) + "\n")
        for table in ("kernels", "threads", "models"):
            for row in record.get(table, []):
                if row["missed"]:
                    print(f"{row.get('case') or row['model']}: {row['missed']}")


if __name__ == "__main__":
    main()
