"""What kernels and networks are to reach, and why a row of their benchmarks does not: told from its figures, nothing is measured.

python -m bench.targets

It brings what rows in bench/results say of their targets up to date, after a change of the targets or of the reasons here. `target` is the
ratio to the fastest library that one thread is to reach, and for some cases a share of the peak or of the copy; the table of threads
tells how many times faster two threads are, where the peak bounds a case more than the bandwidth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, prod
from pathlib import Path
from statistics import median
from typing import Any

import sympy

import bench
from bench.case_rows import bytes_moved
from bench.kernel_cases import CASES, Case
from derive.cost.model import arithmetic
from derive.rules.inter.lifting_nesting import lifted
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.traversal import accesses, reductions

RESULTS = Path(__file__).parent / "results"
OURS = ("generated", "derived")
LIMITS = ("peak", "copy")
# Ratios that one thread is to reach, by the name of the case.
RATIOS: dict[str, float] = {
    **dict.fromkeys(
        (
            "matmul 512x512x512",
            "matmul 1024x1024x1024",
            "matmul 49x4608x512",
            "matmul 1x1024x1024",
            "matmul 64x4096x448",
        ),
        1.0,
    ),
    **{f"Conv3x3 s2 256→512 14x14 {layout} b1": 1.0 for layout in ("NCHW", "NHWC")},
    **{f"Conv3x3 64→64 56x56 {layout} b1": 2.5 for layout in ("NCHW", "NHWC")},
    **{f"Conv3x3 128→128 28x28 {layout} b1": 3.0 for layout in ("NCHW", "NHWC")},
    **{f"Conv3x3 256→256 14x14 {layout} b1": 2.2 for layout in ("NCHW", "NHWC")},
    **{f"Conv5x5 64→32 56x56 {layout} b1": 3.2 for layout in ("NCHW", "NHWC")},
    **{f"Conv3x3 d2 512→512 14x14 {layout} b1": 1.8 for layout in ("NCHW", "NHWC")},
    **{f"Conv7x7 s2 3→64 224x224 {layout} b1": 1.0 for layout in ("NCHW", "NHWC")},
    **{f"Conv5x5 32→1 224x224 {layout} b1": 9.0 for layout in ("NCHW", "NHWC")},
    **{f"Conv11x1 2048→21 7x7 {layout} b1": 1.7 for layout in ("NCHW", "NHWC")},
    "ConvTranspose4x4 s2 448→256 2x2 b1": 1.8,
    "ConvTranspose4x4 s2 448→256 2x2 b16": 3.0,
    "ConvTranspose4x4 s2 64→3 32x32 b1": 3.0,
    "ConvTranspose9x9 s4 56→1 32x32 b1": 2.5,
    **{f"G2BMM 12x4096x64 W256 d{d}": 3.0 for d in (1, 4)},
    **{f"GBMM 12x4096x64 W256 d{d}": 4.0 for d in (1, 4)},
    **{f"banded attention 12x4096x64 W256 d{d}": 2.0 for d in (1, 4)},
    "MMoE 499, 8 experts b1": 6.0,
    "map 1024x1024": 2.0,
    **{f"OffsetAdd 3x3 {size}x{size}x64 b1": 2.0 for size in (56, 112)},
}
# Shares of the peak and of the copy that one thread is to reach, and how many times faster two threads are to be.
PEAKS: dict[str, float] = dict.fromkeys(("matmul 512x512x512", "matmul 1024x1024x1024"), 0.9)
COPIES: dict[str, float] = dict.fromkeys(
    ("map 1024x1024", "OffsetAdd 3x3 56x56x64 b1", "OffsetAdd 3x3 112x112x64 b1"), 1.0
)
GAIN = 1.8
# Milliseconds of a kernel to be written and to be compiled, and of a program to be ready where all of it is on disk.
MAKING: dict[str, float] = {"emission": 50.0, "compiling": 300.0, "ready": 50.0}
# Ratios of whole networks on one thread, by the size of the batch.
NETWORKS: dict[int, dict[str, float]] = {
    1: {
        "fsrcnn": 6.5, "infogan": 2.4, "dcgan": 1.8, "srcnn": 2.2, "csrnet": 1.7, "resnet18": 1.6,
        "longformer_d4": 2.5, "lstm": 1.3, "mmoe": 6.0, "gcn": 1.3,
    },
    16: {
        "fsrcnn": 6.5, "infogan": 2.0, "dcgan": 1.9, "srcnn": 2.0, "csrnet": 1.9, "resnet18": 1.6,
        **dict.fromkeys(("gcn", "longformer_d1", "longformer_d4", "bert", "lstm", "mmoe"), 1.05),
    },
}  # fmt: skip
NEAR = (
    0.75  # share of a limit, or of the lanes of vectors, from which on it is not called far below
)
OWN_CACHE = 2 << 20  # bytes that the caches of one core hold at most
LAST_CACHE = 32 << 20  # bytes that the caches of a machine hold, mostly
FEW = 1.5  # operations for a byte, below which no cache gives data as fast as they are used
LONGER = 1.1  # times the nearest of the other limits, from which on one that looks at each statement is told
SHORT = 0.02  # milliseconds of a call until which calling counts


# Kernels.


def judged(row: bench.Row, case: Case, lanes: int) -> bench.Row:
    """The row of a case with its targets, and the reasons of those that it misses; vectors have so many lanes."""
    if row["threads"] != 1:
        return {**row, "target": "", "missed because": ""}
    targets, reasons = list[str](), list[str]()
    program = lifted(as_program(case.expression))
    ours = _ours(row)
    times = row["more"]["ms"]
    faster = times["generated"] / times[ours]
    peak, copy = row["of peak"] * faster, row["of copy"] * faster
    if case.name in RATIOS and row["best"]:
        ratio, target = times[row["best"]] / times[ours], RATIOS[case.name]
        targets.append(f"{target:g}")
        if ratio < target:
            limit = ratio / max(peak, copy)
            reasons.append(
                at_limit(peak, copy, limit)
                if ratio <= limit < target
                else _reason(row, program, lanes, peak, copy)
            )
    if (target := PEAKS.get(case.name)) is not None:
        targets.append(f"{target:g} of peak")
        reasons += [_reason(row, program, lanes, peak, copy)] if peak < target else []
    if (target := COPIES.get(case.name)) is not None:
        targets.append(f"{target:g} of copy")
        reasons += [_reason(row, program, lanes, peak, copy)] if copy < target else []
    return {
        **row,
        "target": ", ".join(targets),
        "missed because": "; ".join(dict.fromkeys(reasons)),
    }


def at_limit(peak: float, copy: float, limit: float) -> str:
    """The ratio that the nearest limit of the machine allows, and how much of it is reached.

    >>> at_limit(0.85, 0.2, 3.5)
    'at the peak, of which 85 % is reached, the ratio were 3.5'
    """
    name, share = ("peak", peak) if peak >= copy else ("bandwidth", copy)
    return f"at the {name}, of which {100 * share:.0f} % is reached, the ratio were {limit:.2g}"


def _ours(row: bench.Row) -> str:
    times = row["more"]["ms"]
    return min((name for name in OURS if name in times), key=lambda name: times[name])


def _reason(row: bench.Row, program: Program, lanes: int, peak: float, copy: float) -> str:
    kernels = row["more"]["derivation"].split(", ")[1:] if _ours(row) == "derived" else []
    if kernels and peak > 1:
        return fewer_products(kernels, peak)
    if peak >= NEAR:
        size = bytes_moved(program)
        rest = (
            f"its {size / 1e6:.3g} MB are more than the caches of one core hold"
            if size > OWN_CACHE
            else "loads, stores and borders take the rest"
        )
        return f"{100 * peak:.0f} % of the peak: {rest}"
    found = [
        *_disturbed(row, peak),
        *_causes(row, program, lanes, len(kernels) or len(program.statements), copy),
    ] or [*_delivered(program)]
    causes = "; ".join(found) or "these figures do not tell the cause"
    if copy > 1:
        return f"its data stay in caches, {100 * peak:.0f} % of the peak: {causes}"
    if copy >= NEAR:
        return f"{100 * copy:.0f} % of the bandwidth: {causes}"
    return f"neither the peak ({100 * peak:.0f} %) nor the bandwidth ({100 * copy:.0f} %) is the limit: {causes}"


def fewer_products(kernels: Iterable[str], peak: float) -> str:
    """What bounds a derivation beyond the peak of the products as they are written.

    >>> fewer_products(["eop", "conv1d", "eop"], 1.54)
    'fewer products are done than counted (154 % of the peak), along one axis only; these remain, and 2 kernels that transform or copy'
    """
    kernels = list(kernels)
    around = sum(kernel in ("eop", "reshape") for kernel in kernels)
    axes = ", along one axis only" if "conv1d" in kernels else ""
    return f"fewer products are done than counted ({100 * peak:.0f} % of the peak){axes}; these remain, and {around} kernels that transform or copy"


def _disturbed(row: bench.Row, peak: float) -> Iterator[str]:
    """What the shortest of all runs reaches, where that is near the peak as the shortest run of a loop of products shows it."""
    times, shortest, ours = row["more"]["ms"], row["more"].get("shortest ms", {}), _ours(row)
    if (
        shortest
        and (least := peak * times[ours] / shortest[ours] * shortest["peak"] / times["peak"])
        >= NEAR
    ):
        yield f"the shortest run reaches {100 * least:.0f} % of the peak, what else the core does takes the rest"


def _causes(
    row: bench.Row, program: Program, lanes: int, kernels: int, copy: float
) -> Iterator[str]:
    """What the shape of a case tells of a time far from both limits."""
    count = filters(program)
    if count and count * 4 <= lanes:
        yield f"with {count} filter{'s' if count > 1 else ''}, an element that is loaded serves few products"
    elif count and (filled := count / (ceil(count / lanes) * lanes)) < NEAR:
        yield f"{count} filters fill their vectors of {lanes} to {100 * filled:.0f} %"
    if any(
        scope.body.has(sympy.exp, sympy.tanh)
        for _, scope in program.statements
        if not any(True for _ in reductions(scope.body))
    ):
        yield "exp or tanh of elements takes its time"
    if kernels > 1:
        yield f"{kernels} kernels follow one another"
    if (written := sum(4 * prod(program[name].shape) for name in program.outputs)) > LAST_CACHE:
        share = 100 * copy * (1 + written / bytes_moved(program))
        yield f"each line of its results, {written / 1e6:.3g} MB, is read from memory before it is written, with which the bandwidth is {share:.0f} %"
    spent = row["more"]["ms"][_ours(row)]
    if spent <= SHORT:
        yield f"of {1e3 * spent:.2g} µs, the call itself takes a part"


def _delivered(program: Program) -> Iterator[str]:
    """Whether each element is used so seldom that giving it takes longer than using it."""
    if (each := arithmetic(program) / bytes_moved(program)) < FEW:
        yield f"with {each:.2g} operations for a byte, its time is that of loads and stores"


def filters(program: Program) -> int:
    """How many results one element of the other operand has in a program of one product with weights; 0 for other programs.

    >>> import einalg as ea
    >>> filters(as_program(ea.parse("O[n,f] += A[n,c]*K[f,c]", A=(5, 7), K=ea.tensor("K", (3, 7), role="weight"))))
    3
    """
    if len(program.statements) != 1:
        return 0
    scope = program.statements[0][1]
    read = list(accesses(scope.body))
    weights = [
        access
        for access in read
        if any(
            tensor.role == "weight" for tensor in program.inputs.values() if tensor == access.base
        )
    ]
    if len(weights) != 1 or len(read) != 2:
        return 0
    others = {index for access in read if access not in weights for index in access.free_symbols}
    return prod(it.extent for it in scope.iterators if it.index in weights[0].free_symbols - others)


def gains(rows: Iterable[bench.Row]) -> list[dict[str, Any]]:
    """How many times faster two threads are than one, for the cases that the peak bounds more than the bandwidth does."""
    rows = list(rows)
    found: list[dict[str, Any]] = []
    twos = {row["case"]: row for row in rows if row["threads"] == 2}
    for one in rows:
        if (
            one["threads"] != 1
            or one["of peak"] <= one["of copy"]
            or (two := twos.get(one["case"])) is None
        ):
            continue
        before, after = (row["more"]["ms"][_ours(row)] for row in (one, two))
        shown = {
            "case": one["case"],
            "1 thread ms": before,
            "2 threads ms": after,
            "gain": before / after,
            "target": GAIN,
        }
        found.append(
            {
                **shown,
                "missed because": ""
                if before / after >= GAIN
                else _no_gain(one["more"]["ms"], two["more"]["ms"], before),
            }
        )
    return found


def makings(rows: Iterable[bench.Row]) -> list[dict[str, Any]]:
    """The milliseconds of making kernels and programs over all cases on one thread, beside those that are to be reached.

    >>> makings([{"case": name, "threads": 1, "more": {"emission ms": ms}} for name, ms in (("a", 10.0), ("b", 60.0), ("c", 20.0))])
    [{'what': 'emission', 'median ms': 20.0, 'most ms': 60.0, 'in': 'b', 'target ms': 50.0, 'within it': '2 of 3'}]
    """
    ones = [row for row in rows if row["threads"] == 1]
    found: list[dict[str, Any]] = []
    for what, target in MAKING.items():
        times = {
            row["case"]: row["more"][f"{what} ms"] for row in ones if f"{what} ms" in row["more"]
        }
        if times:
            most = max(times, key=lambda case: times[case])
            within = f"{sum(ms <= target for ms in times.values())} of {len(times)}"
            shown = {
                "what": what,
                "median ms": median(times.values()),
                "most ms": times[most],
                "in": most,
            }
            found.append({**shown, "target ms": target, "within it": within})
    return found


def _no_gain(one: Mapping[str, float], two: Mapping[str, float], before: float) -> str:
    """What libraries gain tells whether the second core was there; a call of microseconds is short to share."""
    libraries = {
        name: one[name] / two[name] for name in one if name in two and name not in (*OURS, *LIMITS)
    }
    most = max(libraries, key=lambda name: libraries[name], default="")
    if most and libraries[most] < GAIN:
        told = f"no library gains as much on this machine: at most {libraries[most]:.3g} ({most})"
    else:
        told = (
            f"{most} gains {libraries[most]:.3g}: the second core is not the limit"
            if most
            else "no library shows what the second core gives"
        )
    return f"{told}; {1e3 * before:.2g} µs are short to share" if before < 10 * SHORT else told


# Networks.


def judged_network(row: bench.Row) -> dict[str, Any]:
    """The row of a network with its target, and the reason where it misses that."""
    target = NETWORKS.get(row["batch"], {}).get(row["model"]) if row["threads"] == 1 else None
    kept = {
        name: value
        for name, value in row.items()
        if name not in ("target", "missed because", "more")
    }
    told = (
        {"target": "", "missed because": ""}
        if target is None
        else {"target": target, "missed because": _missed(row, target)}
    )
    return {**kept, **told, "more": row["more"]}


def _missed(row: bench.Row, target: float) -> str:
    if row["failed"] or not row["ratio"]:
        return row["failed"] or "there is no library to compare with"
    if row["ratio"] >= target:
        return ""
    known = row["searched"] + row["cached"]
    written = f"{row['layers'] - known} of {row['layers']} layers stay as they are written"
    told = [
        f"{written}: the search came too late, or found nothing faster"
        if known < row["layers"]
        else f"every layer was searched ({known})"
    ]
    if (spent := row["ms"]["einalg"]) <= SHORT:
        told.append(f"of {1e3 * spent:.2g} µs, the call and making its results take a part")
    return "; ".join([*told, *_limits(row)])


def _limits(row: bench.Row) -> Iterator[str]:
    """What the machine needs for a network's work at least, and the ratio that the nearest limit would allow."""
    ours, work = row["ms"]["einalg"], row["more"].get("work", {})
    if not {"GFLOP", "MB", "GFLOP/s", "GB/s"} <= {name for name in work if work[name]}:
        return
    times = {"peak": 1e3 * work["GFLOP"] / work["GFLOP/s"], "bandwidth": work["MB"] / work["GB/s"]}
    copied = f"its {work['MB']:.3g} MB {times['bandwidth']:.2g} ms at the rate of a copy"
    yield f"its products as they are written take {times['peak']:.2g} ms at the peak, {copied}"
    again = _with_weights_again(work)
    if again > LONGER * max(times.values()):
        times["rate of caches"] = again
        yield f"{again:.2g} ms where each statement takes its weights from a cache of {work['cache GB/s']:.3g} GB/s"
    name = max(times, key=lambda limit: times[limit])
    if times[name] < ours:
        yield f"at the {name} the ratio were {row['ratio'] * ours / times[name]:.2g}"
    elif times["peak"] > ours:
        yield f"fewer products are done than written ({100 * times['peak'] / ours:.0f} % of the peak)"
    else:
        yield "its data stay in caches"


def _with_weights_again(work: Mapping[str, Any]) -> float:
    """The milliseconds of all statements, one after the other, each at the peak or at the rate at which a cache gives its weights."""
    if not work.get("cache GB/s"):
        return 0.0
    kinds = work["statements"]
    return sum(
        kind["count"]
        * max(1e3 * kind["GFLOP"] / work["GFLOP/s"], kind["weights MB"] / work["cache GB/s"])
        for kind in kinds
    )


# Results that are kept.


def lanes_of(machine: Mapping[str, str]) -> int:
    """Elements of four bytes in a vector of a machine as the results describe it.

    >>> lanes_of({"vectors": "512 bits"})
    16
    """
    return int(machine["vectors"].split()[0]) // 32


def kept() -> list[Path]:
    """The results of kernels and of networks on this machine and on others, whose names follow a dash."""
    return sorted(
        path
        for path in RESULTS.glob("*.json")
        if path.stem.partition("-")[0] in ("kernels", "models")
    )


def anew(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of results with what the targets and reasons are now."""
    if "models" in record:
        return {**record, "models": [judged_network(row) for row in record["models"]]}
    cases = {case.name: case for case in (make() for make in CASES)}
    lanes = lanes_of(record["machine"])
    rows = [
        judged(row, cases[row["case"]], lanes) if row["case"] in cases else row
        for row in record["kernels"]
    ]
    return {**record, "kernels": rows, "threads": gains(rows), "making": makings(rows)}


def main() -> None:
    bench.options("What do the kept results say of their targets?").parse_args()
    for path in kept():
        record = anew(json.loads(path.read_text()))
        path.write_text(json.dumps(record, indent=2) + "\n")
        tables = (record.get(name, []) for name in ("kernels", "threads", "models"))
        missed = [row for rows in tables for row in rows if row["missed because"]]
        print(
            "\n".join(
                f"{row.get('case') or row['model']}: {row['missed because']}" for row in missed
            )
        )


if __name__ == "__main__":
    main()
