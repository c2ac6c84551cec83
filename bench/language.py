"""How long the language takes.

Substitution, reading, building, the canonical key, evaluation, import; and how large it is.

python -m bench.language [--json PATH]
"""

from __future__ import annotations

import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import bench
import einalg as ea
from einalg.language.analysis.canonical import key
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.program import as_program

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("einalg", "derive", "codegen")
CONVOLUTION = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]"
REPEATS = 5
SECONDS = 0.1  # that one repeat takes at least


def seconds(action: Callable[[], object]) -> float:
    """The least time of one call over several repeats."""
    timer = timeit.Timer(action)
    number, elapsed = timer.autorange()
    number = max(1, int(number * SECONDS / elapsed))
    return min(timer.repeat(REPEATS, number)) / number


def import_seconds(statement: str) -> float:
    """Seconds that `statement` takes in a fresh process, without the start of Python."""
    code = (
        f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        for _ in range(REPEATS)
    ]
    return min(float(run.stdout) for run in runs)


def actions() -> Iterator[tuple[str, Callable[[], object]]]:
    """Return the measurements: names with calls without arguments."""
    h, r, i = Index("h"), Index("r"), Index("i")
    skew = {h: affine(i) - r + 1}
    form, quotient = 2 * h + r - 1, 2 * ((h + 3) // 4) + (h + 3) % 4 + r
    yield "substitute 2*h + r - 1", lambda: form.substitute(skew)
    yield "substitute under // and %", lambda: quotient.substitute(skew)

    shapes = {"A": (1, 64, 56, 56), "K": (64, 64, 3, 3)}
    tensors = {name: ea.tensor(name, shape) for name, shape in shapes.items()}
    yield "parse and infer a convolution", lambda: ea.parse(CONVOLUTION, **tensors)
    yield "build and infer a convolution", lambda: build_convolution(**tensors)

    convolution = ea.parse(CONVOLUTION, **tensors)
    iterators, where, body = convolution.iterators, convolution.where, convolution.body
    yield "canonical key of a convolution", lambda: key(type(convolution)(iterators, where, body))
    yield "print a convolution", lambda: str(convolution)

    small = as_program(ea.parse(CONVOLUTION, A=(1, 2, 4, 4), K=(2, 2, 3, 3)))
    arrays = {
        name: np.arange(np.prod(tensor.shape)).reshape(tensor.shape)
        for name, tensor in small.tensors.items()
    }
    yield "evaluate a convolution of 576 products", lambda: ea.evaluate(small, **arrays)


def build_convolution(A: ea.Tensor, K: ea.Tensor) -> object:
    """The convolution through the Python door."""
    n, f, h, w, c, r, s = ea.indices("n f h w c r s")
    return ea.L[n, f, h, w](
        ea.Sum[c, r, s](A.pad(0, 0, 1, 1)[n, c, h + r - 1, w + s - 1] * K[f, c, r, s])
    )


def timing_rows() -> Iterator[bench.Row]:
    for name, action in actions():
        yield _timing(name, seconds(action))
    yield _timing("import einalg", import_seconds("import einalg"))
    yield _timing("import einalg, use parse", import_seconds("import einalg; einalg.parse"))


def _timing(what: str, measured: float) -> bench.Row:
    return {"what": what, "microseconds": measured * 1e6, "per second": round(1 / measured)}


def size_rows() -> Iterator[bench.Row]:
    for package in PACKAGES:
        lengths = [len(path.read_text().splitlines()) for path in (ROOT / package).rglob("*.py")]
        yield {
            "package": package,
            "files": len(lengths),
            "lines": sum(lengths),
            "longest file": max(lengths),
        }


def main() -> None:
    parser = bench.options(
        "How long do the operations of the language take, and how large are the packages?"
    )
    chosen = parser.parse_args()
    bench.report({"timings": timing_rows(), "sizes": size_rows()}, chosen.json)


if __name__ == "__main__":
    main()
