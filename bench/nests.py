"""How fast are statements beside nests of loops written by hand, and beside the best library?

python -m bench.nests [--only WORD] [--derive SECONDS] [--without LIBRARY] [--json PATH]

Products over other operations than multiply-add, which no library has, beside hand-written C: a
panel of the second operand packed, a tile of the results in registers, the best of several tiles;
a NaN makes a result NaN in both.
Vectors times matrices and rows (softmax, layer norm) beside the libraries of `bench.ansor`, with
its columns. One thread; all run in turns.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from bench import THREADS

os.environ.update(dict.fromkeys(THREADS, "1"))  # which NumPy reads when it is loaded
os.environ.setdefault("EINALG_LIBRARIES", "")

import bench
import einalg as ea
from bench.ansor import measured_case
from bench.case_rows import columns, measured
from bench.kernel_cases import Array, Arrays, Case
from bench.rivals import Rival, missing
from codegen.hardware.cpu import machine
from codegen.runtime.memory_planning import aligned
from codegen.targets.c.compiler import find_compiler
from einalg.runtime.timing import measure

TILES = tuple(product((4, 6, 8, 12, 14), (1, 2, 3)))  # rows, and vectors of a row
NEST = """\
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif
typedef float vec __attribute__((vector_size({bytes}), aligned(4)));
typedef int ints __attribute__((vector_size({bytes}), aligned(4)));
enum {{ V = {bytes} / 4, ROWS = {rows}, WIDE = {wide}, M = {m}, N = {n}, K = {k} }};
static float panel[K * WIDE * V + V], left[M * K];
static inline vec larger(vec a, vec b) {{ /* NaN where one is */
#ifdef __AVX512F__
  if (sizeof a == 64) {{
    const __m512 x = (__m512)a, y = (__m512)b;
    return (vec)_mm512_mask_max_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, y);
  }}
#endif
  const ints is_larger = a > b, is_nan = a != a, from_a = is_larger | is_nan;
  return (vec)((from_a & (ints)a) | (~from_a & (ints)b));
}}
static inline vec magnitude(vec a) {{ return (vec)((ints)a & 0x7fffffff); }}
void nest(const float *A, const float *B, float *O) {{
  for (long at = 0; at < (long)M * K; ++at) {{ const float a = A[at]; left[at] = {first}; }}
  for (long j = 0; j < N; j += WIDE * V) {{
    const long width = N - j < WIDE * V ? N - j : WIDE * V;
    for (long k = 0; k < K; ++k) memcpy(panel + k * WIDE * V, B + k * N + j, width * sizeof(float));
    for (long from = 0; from < M; from += ROWS) {{
      const long i = from + ROWS <= M ? from : M - ROWS;
      vec sums[ROWS][WIDE];
      for (int r = 0; r < ROWS; ++r)
        for (int w = 0; w < WIDE; ++w) sums[r][w] = (vec){{0}} + {start};
      for (long k = 0; k < K; ++k) {{
        const vec *row = (const vec *)(panel + k * WIDE * V);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {{
          const vec a = (vec){{0}} + left[(i + r) * K + k];
#pragma GCC unroll 4
          for (int w = 0; w < WIDE; ++w) {{
            const vec b = row[w], s = sums[r][w];
            sums[r][w] = {step};
          }}
        }}
      }}
      for (int r = 0; r < ROWS; ++r) memcpy(O + (i + r) * N + j, sums[r], width * sizeof(float));
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Body:
    """What a product does in place of multiply-add.

    `text` is its statement, `step` that of a vector of results `s` by a value `a` and a vector `b`
    in C, from `start`; `first` is what the nest does to each `a` once, before. `torch` computes it.
    """

    name: str
    text: str
    step: str
    torch: Callable[..., Any]
    start: str = "0.0f"
    first: str = "a"


def _distances(torch: Any, A: Any, B: Any) -> Any:
    return torch.cdist(A, B.T.contiguous(), p=1)


def _squares(torch: Any, A: Any, B: Any) -> Any:
    return torch.cdist(A, B.T.contiguous()) ** 2


def _largest(torch: Any, A: Any, B: Any) -> Any:
    return torch.stack([(row[:, None] + B).amax(0) for row in A])


def _positive(torch: Any, A: Any, B: Any) -> Any:
    return torch.relu(A) @ B


BODIES = (
    Body("sum of distances", "O[i,j] += Abs(A[i,k] - B[k,j])", "s + magnitude(a - b)", _distances),
    Body("sum of squares", "O[i,j] += (A[i,k] - B[k,j])**2", "s + (a - b) * (a - b)", _squares),
    Body(
        "largest sum",
        "O[i,j] = Max[k:{k}](A[i,k] + B[k,j])",
        "larger(a + b, s)",
        _largest,
        "-__builtin_inff()",
    ),
    Body(
        "product of ReLU",
        "O[i,j] += Max(A[i,k], 0)*B[k,j]",
        "s + a * b",
        _positive,
        first="a > 0 ? a : 0",
    ),
)


def by_hand(body: Body, arrays: Arrays) -> Rival:
    """Return the nest of the tile that takes the shortest time here."""
    (m, k), (_, n) = arrays["A"].shape, arrays["B"].shape
    compiler = find_compiler()
    assert compiler is not None, "this benchmark needs a C compiler"
    result = aligned((m, n), "f32")
    given = [arrays["A"].ctypes.data, arrays["B"].ctypes.data, result.ctypes.data]
    calls: dict[str, Callable[[], Any]] = {}
    for rows, wide in TILES:
        if rows > m:
            continue
        source = NEST.format(
            bytes=machine().vector,
            rows=rows,
            wide=wide,
            m=m,
            n=n,
            k=k,
            first=body.first,
            start=body.start,
            step=body.step,
        )
        nest = compiler.load(source).nest
        nest.argtypes, nest.restype = [ctypes.c_void_p] * 3, None
        calls[f"{rows}x{wide}"] = partial(nest, *given)
    times = measure(calls)
    best = calls[min(calls, key=lambda tile: times[tile].minimum)]

    def run() -> Array:
        best()
        return result.copy()

    return "by hand", best, run


# Cases.


def bodies(m: int, k: int, n: int) -> Iterator[tuple[Case, Body]]:
    """Yield products of such sizes over each body."""
    for body in BODIES:
        expression = ea.parse(body.text.format(k=k), A=(m, k), B=(k, n))
        name = f"{body.name} {m}x{k}x{n}"
        yield Case(name, expression, body.torch, derives=True), body


def vector_times_matrix(k: int, n: int) -> Case:
    expression = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(1, k), B=(k, n))
    return Case(f"vector times matrix {k}x{n}", expression, lambda torch, A, B: A @ B, derives=True)


def softmax(rows: int, size: int) -> Case:
    text = (
        "M[i] = Max[j](A[i,j])\nE[i,j] = exp(A[i,j] - M[i])\nS[i] += E[i,j]\nO[i,j] = E[i,j]/S[i]"
    )
    expression = ea.parse(text, A=(rows, size))
    return Case(
        f"softmax {rows}x{size}", expression, lambda torch, A: torch.softmax(A, -1), derives=True
    )


def layer_norm(rows: int, size: int) -> Case:
    text = (
        f"M[i] = Sum[j](A[i,j])/{size}\n"
        "C[i,j] = A[i,j] - M[i]\n"
        f"V[i] = Sum[j](C[i,j]**2)/{size}\n"
        "O[i,j] = C[i,j]/sqrt(V[i] + 0.00001)*W[j] + B[j]"
    )
    vectors = {name: ea.tensor(name, (size,), role="weight") for name in ("W", "B")}
    expression = ea.parse(text, A=ea.tensor("A", (rows, size)), **vectors)

    def function(torch: Any, A: Any, W: Any, B: Any) -> Any:
        return torch.nn.functional.layer_norm(A, (size,), W, B)

    return Case(f"layer norm {rows}x{size}", expression, function, ("W", "B"), derives=True)


def cases() -> Iterator[tuple[Case, Body | None]]:
    """Yield the cases, those of `BODIES` with theirs."""
    for shape in ((384, 384, 384), (197, 251, 313)):
        yield from bodies(*shape)
    for case in (
        vector_times_matrix(1024, 4096),
        vector_times_matrix(1021, 509),
        softmax(1024, 1024),
        softmax(12 * 197, 197),
        layer_norm(512, 768),
        layer_norm(197, 197),
    ):
        yield case, None


def measured_nest(case: Case, body: Body | None, search: float, without: list[str]) -> bench.Row:
    """Return the row of a case, with the nest by hand where there is one."""

    def nests(arrays: Arrays) -> Iterator[Rival]:
        if body:
            yield by_hand(body, arrays)

    return measured_case(case, search, without, nests)


def main() -> None:
    parser = bench.options("How fast are statements beside nests by hand and the best library?")
    parser.add_argument("--only", default="", metavar="WORD", help="only cases with this word")
    parser.add_argument(
        "--derive", type=float, default=0.0, metavar="SECONDS", help="search each case too"
    )
    parser.add_argument(
        "--without", default="", metavar="LIBRARY", help="leave these out, separated by commas"
    )
    chosen = parser.parse_args()
    without = [name for name in chosen.without.split(",") if name]
    body_of = {case.name: (case, body) for case, body in cases()}
    rows: list[bench.Row] = []
    makers = (lambda case=case: case for case, _ in body_of.values())
    absent = missing()

    def measure_nest(case: Case) -> bench.Row:
        return measured_nest(case, body_of[case.name][1], chosen.derive, without)

    for row in measured(makers, chosen.only, measure_nest):
        rows.append(row)
        if chosen.json:
            told = {"machine": bench.machine(), "not installed": absent, "left out": without}
            chosen.json.write_text(json.dumps({**told, "nests": rows}, indent=2) + "\n")
    print(bench.table(columns(row) for row in rows))
    if absent:
        print(f"\nnot installed, and left out: {', '.join(absent)}")


if __name__ == "__main__":
    main()
