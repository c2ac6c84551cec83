"""Wrong loop bounds, fills and constants in a kernel are noticed by the comparison that the other
tests use.
"""

from __future__ import annotations

from functools import cache

import pytest

from codegen.ir.nodes import Function
from codegen.lowering.schedule import DEFAULT, Schedule
from einalg.language.ir.program import as_program
from tests.helpers.expressions import EXPRESSIONS
from tests.helpers.expressions.values import arrays_for
from tests.helpers.kernel_mutants import (
    Change,
    later,
    mutants,
    never,
    other_fill,
    other_start,
    overwritten,
    shorter,
)
from tests.helpers.kernels import agrees, evaluated, functions, quick_compiler, run_functions
from tests.helpers.random_programs import TIGHT

SAMPLE = (
    *(
        "conv_stride2_dilation1_pad10",
        "min_pool_of_integers",
        "offset_add_of_few",
        "triangle",
        "joined",
        "padded_twice",
        "transposed_conv_odd",
    ),
    *(
        "squared_difference_with_padding",
        "long_squared_difference_with_padding",
        "condition_guards_reads",
        "condition_guards_hoisted_reads",
        "product_of_padded",
    ),
)
MOST = 12  # mutants for each kind of change


@cache
def kernel(name: str, schedule: Schedule) -> Function:
    return functions(as_program(EXPRESSIONS[name]()), schedule)[0]


@pytest.mark.parametrize("change", [shorter, later, other_fill, other_start, overwritten, never])
def test_mutants_are_noticed(change: Change) -> None:
    chosen = [
        (name, mutant)
        for name in SAMPLE
        for schedule in (DEFAULT, TIGHT)
        for mutant in mutants(kernel(name, schedule), change)
    ]
    assert len(chosen) >= 4, "too few places to change"
    chosen = chosen[:: max(1, len(chosen) // MOST)]
    arrays = {name: arrays_for(name, as_program(EXPRESSIONS[name]())) for name, _ in chosen}
    changed = [mutant for _, mutant in chosen]
    given_arrays = [arrays[name] for name, _ in chosen]
    outputs = run_functions(changed, given_arrays, cc=quick_compiler())
    for (name, mutant), found in zip(chosen, outputs):
        expected = evaluated(as_program(EXPRESSIONS[name]()), arrays[name])["O"]
        assert not agrees(found, expected, mutant.output.dtype), (
            f"{change.__doc__} {name} is not noticed:\n{mutant.body}"
        )
