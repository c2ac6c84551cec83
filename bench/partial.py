"""Where mutants differ, how long it takes to know, and what they gain.

python -m bench.partial [--json PATH] [--only WORD] [--seconds S]

The first table has exact regions: the share of the output that differs, beside the share that is
counted by hand, the boxes that are computed again, and the processor's time of a region and of the
proof that the corrected program is equal. The second one has regions for all sizes: of an image, or
of the axes that a mutant leaves alone.
The last one has the operators of PET's table 3 and the dilated convolutions of CSRNet, on one
thread: as written, derived without partial substitution, derived with it, and optimized as a
network; all take turns, and a call of each takes arrays and makes new ones. What depends on weights
alone is computed once, for all of them. The gains are those of the last two over the first. What is
written is told in percent of the peak, which is that of independent multiply-adds in vector
registers: near to it, no other program with as many products is faster. PET's gain is that on its
graphics card.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import bench
import einalg as ea
from bench.kernels import peak, peak_operations
from codegen.program.executable import Executable
from codegen.targets.c.compiler import find_compiler
from derive.cost.model import arithmetic
from derive.proof.exact.compare import compare_exactly
from derive.rewriting.moves import Move, apply
from derive.rules.partial.mutations import mutated
from derive.rules.partial.partial_substitution import RULE, correction
from einalg.language.analysis.sizes import allowed_sizes
from einalg.language.ir.program import Program, as_program
from einalg.runtime.timing import MeasuringPolicy, measure

POLICY = MeasuringPolicy(seconds_per_alternative=0.4)
ROUNDS = 5  # of which the shortest counts
WEIGHTS = "KB"  # the first letters of their names
WRITTEN, EQUAL, PARTIAL = "as written", "derived without", "derived with"
OPTIMIZED, PEAK = "optimized", "peak"
Mutations = Sequence[Mapping[str, Any]]


def conv(shape: Sequence[int | str], filters: int | str, kernel: int, dilation: int = 1) -> str:
    """Return the text of a convolution that keeps the size of its images, named O of A and K."""
    pad = dilation * (kernel // 2)
    height, width = shape[2:]
    return (
        f"O[n,f:{filters},h:{height},w:{width}] = Sum[c,r:{kernel},s:{kernel}]"
        f"(A.pad(0,0,{pad},{pad})[n,c,h+{dilation}*r-{pad},w+{dilation}*s-{pad}]*K[f,c,r,s])"
    )


def convolution(
    shape: Sequence[int | str], filters: int | str, kernel: int, dilation: int = 1
) -> Any:
    """Return the expression of such a convolution."""
    weights = (filters, shape[1], kernel, kernel)
    return ea.parse(conv(shape, filters, kernel, dilation), A=tuple(shape), K=weights)


@dataclass(frozen=True)
class Region:
    """A mutant of a convolution, and the share of its output that differs, counted by hand."""

    name: str
    shape: tuple[int, ...]
    filters: int
    kernel: int
    dilation: int
    mutations: Mutations
    share: float

    def expression(self) -> Any:
        """Return the convolution."""
        return convolution(self.shape, self.filters, self.kernel, self.dilation)

    def of_all_sizes(self) -> Any:
        """Return the convolution with symbolic sizes of all axes that the mutant leaves alone."""
        changed = {name for mutation in self.mutations for name in _axes_of(mutation)}
        sizes = zip("nchw", "NCHW", self.shape, strict=True)
        shape = [extent if axis in changed | {"h", "w"} else size for axis, size, extent in sizes]
        return convolution(shape, "F", self.kernel, self.dilation)


def _axes_of(mutation: Mapping[str, Any]) -> set[str]:
    """Return the names of the axes that a mutation arranges."""
    return {mutation["index"], mutation.get("into", mutation["index"])}


def phases(number: int, pitch: int) -> Mutations:
    """Return rows, then columns, in the order of their remainders."""
    names = {"kind": "interleave", "phases": number, "pitch": pitch}
    return [{**names, "index": index} for index in "hw"]


def tiles(axes: str, size: int, halo: bool = False) -> Mutations:
    """Return tiles of some axes, one after the other."""
    return [{"kind": "tile", "index": axis, "size": size, "halo": halo} for axis in axes]


def side_by_side(parts: int, pitch: int) -> Mutations:
    """Return images side by side."""
    return [{"kind": "join", "index": "n", "into": "w", "parts": parts, "pitch": pitch}]


IMAGES, CSRNET, LARGE = (16, 64, 14, 14), (1, 512, 14, 14), (1, 48, 38, 38)
REGIONS = [
    Region("two images side by side", IMAGES, 64, 3, 1, side_by_side(2, 14), 2 / 28),
    Region("three small images", (6, 3, 9, 9), 4, 3, 1, side_by_side(3, 9), 4 / 27),
    Region("dilated on even, odd", CSRNET, 256, 3, 2, phases(2, 7), 1 - (12 / 14) ** 2),
    Region("16 tiles of 10x10", LARGE, 64, 5, 1, tiles("hw", 10), 1 - (26 / 38) ** 2),
    Region("two halves", LARGE, 64, 5, 1, tiles("h", 19), 4 / 38),
    Region("two images with a halo", IMAGES, 64, 3, 1, side_by_side(2, 15), 0.0),
    Region("even, odd with a halo", CSRNET, 256, 3, 2, phases(2, 8), 0.0),
    Region("16 tiles with a halo", LARGE, 64, 5, 1, tiles("hw", 10, halo=True), 0.0),
]
APART = "O[n:2, w:W] = Sum[k:3](A.pad(0,1)[n, w+k-1])"
SIDE_BY_SIDE = """
T[x:2*W] = A.pad(0,(0,W))[0,x] + A.pad(0,(W,0))[1,x-W]
S[x:2*W] = Sum[k:3](T.pad(1)[x+k-1])
O[n:2, w:W] = Piecewise((S[w], n < 1), (S[w+W], True))
"""


def _least_milliseconds(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return a result, the time of the first call and the least of a few."""
    times = []
    result: Any = None
    for _ in range(ROUNDS):
        start = process_time()
        result = call()
        times.append(1e3 * (process_time() - start))
    return result, times[0], min(times)


def regions() -> Iterator[bench.Row]:
    """Yield a row for each mutant."""
    ea.mutants("O[i] += A.pad(1)[i+r-1]*K[r]", A=(12,), K=(3,))  # imports and compiles patterns
    for case in REGIONS:
        scope = case.expression()
        _, first, least = _least_milliseconds(
            lambda c=case, s=scope: compare_exactly(s, mutated(s, c.mutations))
        )
        result = correction(scope, case.mutations)
        share = int(result.region.count_val().to_python()) / prod(scope.shape)
        move = Move(RULE.name, ("O",), {"mutations": list(case.mutations)})
        corrected = apply(as_program(scope), move, {RULE.name: RULE})
        start = process_time()
        verdict = ea.prove(scope, corrected).verdict
        yield {
            "mutant": case.name,
            "differs, %": 100 * share,
            "by hand, %": 100 * case.share,
            "parts": len(result.covers),
            "again, %": 100 * result.share,
            "first, ms": first,
            "least, ms": least,
            "corrected": verdict,
            "proof, ms": 1e3 * (process_time() - start),
        }


def sizes() -> Iterator[bench.Row]:
    """Yield the region of two images of any width, side by side, and those of the mutants for all
    numbers of channels, of filters, and of images that stay apart.
    """
    image = ea.tensor("A", (2, "W"))
    apart, joined = ea.parse(APART, A=image), ea.parse(SIDE_BY_SIDE, A=image)
    proof, first, least = _least_milliseconds(lambda: ea.prove(apart, joined))
    row = {"mutant": "two images of any width", "differs where": str(proof.region)}
    yield {**row, "first, ms": first, "least, ms": least}
    for case in REGIONS:
        scope = case.of_all_sizes()
        comparison, first, least = _least_milliseconds(
            lambda c=case, s=scope: compare_exactly(s, mutated(s, c.mutations), allowed_sizes(s))
        )
        row = {"mutant": case.name, "differs where": str(comparison.region)}
        yield {**row, "first, ms": first, "least, ms": least}


@dataclass(frozen=True)
class Case:
    """A program by its text and shapes, and what PET gains over the same back end."""

    name: str
    text: str
    shapes: Mapping[str, tuple[int, ...]]
    gain: float

    def program(self) -> Program:
        """Return the program: what is called K or B is a weight, as in the networks of PET."""
        tensors = {}
        for name, shape in self.shapes.items():
            role = "weight" if _is_weight(name) else "input"
            tensors[name] = ea.tensor(name, shape, role=role)
        return as_program(ea.parse(self.text, **tensors))


def _csrnet() -> Case:
    """Return the six dilated convolutions, each with its ReLU."""
    channels = (512, 512, 512, 512, 256, 128, 64)
    lines, shapes, source = [], {"X0": (1, 512, 14, 14)}, "X0"
    for layer, (inputs, outputs) in enumerate(pairwise(channels), 1):
        text = conv((1, inputs, 14, 14), outputs, 3, 2)
        text = text.replace("O[", f"C{layer}[").replace("A.", f"{source}.")
        lines.append(text.replace("K[", f"K{layer}["))
        lines.append(f"X{layer}[n,f,h,w] = Max(C{layer}[n,f,h,w], 0)")
        shapes[f"K{layer}"] = (outputs, inputs, 3, 3)
        source = f"X{layer}"
    return Case("CSRNet", "\n".join(lines), shapes, 1.83)


def _pointwise_convolutions() -> Case:
    """Return four 1x1 convolutions of one input, two with each number of filters."""
    filters = (192, 192, 160, 160)
    lines = [f"O{k}[n,f,h,w] = Sum[c](A[n,c,h,w]*K{k}[f,c])" for k in range(len(filters))]
    weights = {f"K{k}": (count, 768) for k, count in enumerate(filters)}
    return Case("groupconv", "\n".join(lines), {"A": (1, 768, 18, 18), **weights}, 1.7)


def _products() -> Case:
    """Return three products of one matrix."""
    lines = [f"O{k}[i,j] = Sum[c](A[i,c]*B{k}[c,j])" for k in range(3)]
    return Case(
        "batchmatmul",
        "\n".join(lines),
        {"A": (512, 768), **{f"B{k}": (768, 768) for k in range(3)}},
        1.2,
    )


def cases() -> list[Case]:
    """Return the operators of PET's table 3, and the stack of CSRNet."""
    return [
        Case("conv", conv(LARGE, 64, 5), {"A": LARGE, "K": (64, 48, 5, 5)}, 1.75),
        Case("dilatedconv", conv(CSRNET, 256, 3, 2), {"A": CSRNET, "K": (256, 512, 3, 3)}, 1.83),
        _pointwise_convolutions(),
        _products(),
        _csrnet(),
    ]


def measured_case(case: Case, seconds: float) -> bench.Row:
    """Return the times of a case; `ValueError` where the results differ."""
    program = case.program()
    others = [name for name in ea.rules if name != RULE.name]
    equal = ea.derive(program, seconds=seconds, rules=others)
    partial = ea.derive(program, seconds=seconds)
    arrays = _arrays(program)
    (part,) = ea.optimize(program, arrays, seconds=seconds, progress=False).parts.values()
    inputs = {name: array for name, array in arrays.items() if not _is_weight(name)}
    calls: dict[str, Callable[[], Any]] = {}
    for name, form in ((WRITTEN, partial.original), (EQUAL, equal.best), (PARTIAL, partial.best)):
        calls[name] = functools.partial(with_weights(form.compile(), arrays), **inputs)
    calls[OPTIMIZED] = functools.partial(part.run, **inputs)
    _require_equal(case.name, {name: call() for name, call in calls.items()})
    compiler = find_compiler()
    assert compiler is not None  # which has compiled all of them
    times = measure({**calls, PEAK: peak(compiler)}, POLICY)
    row: dict[str, Any] = {"case": case.name}
    for name in calls:
        row[f"{name}, us"] = 1e6 * times[name].seconds
    highest = peak_operations() / times[PEAK].seconds
    row["of peak, %"] = 100 * arithmetic(program) / times[WRITTEN].seconds / highest
    row["gain"] = times[WRITTEN].seconds / times[PARTIAL].seconds
    row["optimized, gain"] = times[WRITTEN].seconds / times[OPTIMIZED].seconds
    row["PET"] = case.gain
    row["substituted"] = any(move.rule == RULE.name for move in partial.best.moves)
    row["verdict"] = partial.best.verdict
    return row


def _require_equal(name: str, results: Mapping[str, Any]) -> None:
    """Raise `ValueError` where results differ from those of the program as written."""
    expected = _outputs(results[WRITTEN])
    for form, result in results.items():
        for one, other in zip(_outputs(result), expected, strict=True):
            if not np.allclose(one, other, rtol=1e-3, atol=1e-3 * np.abs(other).max()):
                raise ValueError(f"{name}: the results of what is {form} differ")


def _is_weight(name: str) -> bool:
    return name[0] in WEIGHTS


def with_weights(form: Executable, arrays: Mapping[str, Any]) -> Executable:
    """Return a compiled program with its weights bound: what depends on them alone is computed."""
    return form.bind(**{name: array for name, array in arrays.items() if _is_weight(name)})


def _arrays(program: Program) -> dict[str, Any]:
    """Return random inputs, of weights such that values stay near 1."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, tensor in program.inputs.items():
        scale = 1 / np.sqrt(np.prod(tensor.shape[1:])) if _is_weight(name) else 1.0
        arrays[name] = (scale * rng.standard_normal(tensor.shape)).astype(np.float32)
    return arrays


def _outputs(result: Any) -> list[Any]:
    """Return the arrays of one output or of several."""
    if isinstance(result, Mapping):
        return list(result.values())
    return list(result) if isinstance(result, tuple | list) else [result]


def main() -> None:
    parser = bench.options("Where do mutants differ, and what do they gain?")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only cases with this word in their name"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of each derivation (default: 60)"
    )
    chosen = parser.parse_args()
    selected = (case for case in cases() if chosen.only in case.name)
    tables = {
        "regions": regions(),
        "of all sizes": sizes(),
        "operators": (measured_case(case, chosen.seconds) for case in selected),
    }
    bench.report(tables, chosen.json)


if __name__ == "__main__":
    main()
