"""How long the search takes: states, seconds to the first candidate and in all, states per second.

python -m bench.search [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator

import bench
import einalg as ea
from derive.search import Budget, search

CASES = {
    "Conv3x3 N1 C512 7x7 F512, NCHW": ("O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", {"A": (1, 512, 7, 7), "K": (512, 512, 3, 3)}),
    "Conv3x3 N1 C512 7x7 F512, NHWC": ("O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]", {"A": (1, 7, 7, 512), "K": (3, 3, 512, 512)}),
    "Conv3x3 N8 C16 224x224 F32": ("O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", {"A": (8, 16, 224, 224), "K": (32, 16, 3, 3)}),
    "Conv1x7 stride 2": ("O[n,f,h,w] += A.pad(0,0,0,3)[n,c,h,2*w+s-3]*K[f,c,s]", {"A": (1, 64, 28, 28), "K": (64, 64, 7)}),
    "Conv3x3 dilation 2": ("O[n,f,h,w] += A.pad(0,0,2,2)[n,c,h+2*r-2,w+2*s-2]*K[f,c,r,s]", {"A": (1, 64, 28, 28), "K": (64, 64, 3, 3)}),
    "Matmul 512": ("O[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)}),
}
REPEATS = 5


def rows() -> Iterator[bench.Row]:
    for name, (text, shapes) in CASES.items():
        expression = ea.parse(text, **shapes)
        runs = [search(expression, Budget()) for _ in range(REPEATS)]
        stats = min((s for _, s in runs), key=lambda s: s.seconds)
        first = min(s.first_hit or 0.0 for _, s in runs)
        yield {
            "case": name,
            "states": stats.states,
            "first hit, ms": first * 1e3,
            "in all, ms": stats.seconds * 1e3,
            "states per second": round(stats.states / stats.seconds),
            "programs per second": round(stats.generated / stats.seconds),
            "candidates": stats.candidates,
        }


def main() -> None:
    chosen = bench.options("How long does the search for a matrix multiplication take?").parse_args()
    bench.report({"search": rows()}, chosen.json)


if __name__ == "__main__":
    main()
