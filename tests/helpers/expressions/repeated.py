"""Reductions that do not depend on some of the loops around them: these are not to compute them
again.
"""

from __future__ import annotations

from typing import Any

import einalg as ea
from tests.helpers.expressions.registry import expression

TEXTS = {
    "norm_along_outer_axis": (
        "O[j:7, k:150] = x[j,k]/sqrt(Sum[r:70](y[r,k]**2) + 1)",
        dict(x=(7, 150), y=(70, 150)),
    ),
    "norm_along_channels": (
        "O[i:2, j:9, k:5, l:11] = x[i,j,k,l] - Sum[r:9](x[i,r,k,l]**2)/9",
        dict(x=(2, 9, 5, 11)),
    ),
    "sums_of_rows_across": (
        "O[j:6, k:70] = y[j,k] - Sum[r:65](x[k,r]**2)",
        dict(x=(70, 65), y=(6, 70)),
    ),
    "behind_the_loops_they_depend_on": (
        "O[j:5, k:6, l:17] = y[j,k] + Sum[r:33](x[k,r])*z[l]",
        dict(x=(6, 33), y=(5, 6), z=(17,)),
    ),
    "softmax_along_outer_axis": (
        "O[i:3, j:6, k:67] = exp(x[j,k] - Max[r:9](x[r,k]))/Sum[s:8](exp(x[s,k]))",
        dict(x=(9, 67)),
    ),
    "repeated_with_padding": (
        "O[j:7, k:131] = x[j,k] - Max[r:64](x.pad(0,(2,3))[r,k-2])",
        dict(x=(64, 131)),
    ),
    "repeated_with_a_padded_loop": (
        "O[j:9, k:21] = x.pad((1,2),(0,4))[j-1,k] - Sum[r:6](x[r,k%17])",
        dict(x=(6, 17)),
    ),
    "repeated_with_quotients": (
        "O[j:12, k:30] = x[j//3,k] + Sum[r:8](y[r,k//4])*Sum[r:8](y[r,k%5])",
        dict(x=(4, 30), y=(8, 8)),
    ),
    "repeated_in_part": (
        "O[i:4, j:5, k:19] = Sum[r:7](x[r,k]) + Sum[r:7](x[r,k]*y[j,r])",
        dict(x=(7, 19), y=(5, 7)),
    ),
    "repeated_one_in_another": (
        "O[j:5, k:19] = x[j,k]*Sum[r:6](x[r,k]*Sum[s:5](x[s,k]**2))",
        dict(x=(6, 19)),
    ),
    "repeated_along_an_axis_of_one": ("O[j:9, k:1] = x[j,k] - Sum[r:20](x[r,k])", dict(x=(20, 1))),
}


def _of(name: str) -> Any:
    def make() -> Any:
        text, shapes = TEXTS[name]
        return ea.parse(text, **shapes)

    make.__name__ = name
    return make


for each in TEXTS:
    expression(_of(each))
