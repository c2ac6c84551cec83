"""Families of operators that TASO lacks, to generate rules of: `bench.substitutions --families`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import process_time
from typing import Any

import bench
import einalg as ea

Family = tuple[list[Any], Any]  # the operators, and the inputs


def product(a: Any, b: Any) -> Any:
    """Return the product of two matrices as an einsum."""
    return ea.einsum("ik,kj->ij", a, b)


MATRICES = {"x": ("N", "M"), "y": ("N", "M")}
EVEN_PLACES = {"starts": [(0, 0)], "stops": [(5, 5)], "axes": [(2, 3)], "steps": [(2, 2)]}
FAMILIES: Mapping[str, Family] = {
    "einsum": (
        [product, "add", "transpose"],
        {"x": ("N", "N"), "y": ("N", "N"), "z": ("N", "N")},
    ),
    "reductions": (
        [("sum", {"axes": [0, 1]}), ("max", {"axes": [0, 1]}), ("mean", {"axes": [0, 1]}),
         "add", "relu"],
        MATRICES,
    ),
    "softmax": (
        [("softmax", {"axis": [0, 1]}), "exp", "transpose", ("sum", {"axes": [1]}),
         ("flip", {"axes": [1]})],
        MATRICES,
    ),
    "pad, slice": (
        [("pad", {"amounts": [((1, 1), (0, 0)), ((0, 0), (1, 0))]}),
         ("slice", {"starts": [(0,)], "stops": [(2,)], "axes": [(0,), (1,)]}),
         ("concat", {"axis": [0, 1]}), "relu", "add"],
        MATRICES,
    ),
    "strided convolution": (
        [("conv2d", {"stride": [(1, 1), (2, 2)], "pad": ["same"], "act": ["none"]}),
         ("slice", EVEN_PLACES), "add", "relu"],
        [(1, 2, 5, 5), (1, 2, 5, 5), (2, 2, 3, 3), (2, 2, 3, 3)],
    ),
    "attention": (
        ["attention", ("concat", {"axis": [0, 1]}), ("flip", {"axes": [1]}), "add"],
        {"q": ("N", "K"), "k": ("M", "K"), "v": ("M", "K")},
    ),
}  # fmt: skip


def generated_of_families(
    size: int, seconds: float, names: Sequence[str] = ()
) -> tuple[list[bench.Row], list[bench.Row]]:
    """Return the numbers of a generation over each family, and the rules that it proved."""
    counts: list[bench.Row] = []
    rules: list[bench.Row] = []
    for name in names or FAMILIES:
        operators, inputs = FAMILIES[name]
        start = process_time()
        found = ea.substitutions.generate(operators, inputs, size=size, seconds=seconds)
        counts.append(
            {
                "family": name,
                "programs": found.report.total("enumerated"),
                "candidates": found.report.total("candidates"),
                "proved": len(found),
                "under conditions": found.report.total("under_conditions"),
                "refused": len(found.refused),
                "complete": found.report.is_complete,
                "s": process_time() - start,
            }
        )
        rules += _rows(name, found)
    return counts, rules


def _rows(name: str, found: ea.substitutions.GeneratedRules) -> Iterator[bench.Row]:
    for text, verdict in zip(found.texts, found.verdicts):
        yield {"family": name, "rule": text, "where": verdict.condition_text}
