"""Wrong loop bounds, fills and constants in a kernel are noticed by the comparison that the other tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import pytest

from codegen.ir.nodes import Apply, For, Function, If, Number, Store, walk
from codegen.lowering.schedule import DEFAULT, Schedule
from einalg.language.index.affine import Affine
from einalg.language.ir.program import as_program
from tests.codegen.expressions import EXPRESSIONS
from tests.codegen.harness import agrees, evaluated, functions, run_functions
from tests.codegen.test_expressions import arrays_for
from tests.codegen.test_random import TIGHT

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
        "product_of_padded",
    ),
)
MOST = 12  # mutants for each kind of change
Change = Callable[[Any], Any]


def _counts(node: Any) -> bool:
    """Whether a loop does more than to set local accumulators, whose memory may hold the right number by chance."""
    puts = [n for n in walk(node) if isinstance(n, Store)] if isinstance(node, For) else []
    return any(put.op != "=" or put.ref.buf.space == "global" for put in puts)


def shorter(node: Any) -> Any:
    """A loop without its last step."""
    return (
        replace(node, high=node.high - 1)
        if _counts(node) and isinstance(node.high, Affine)
        else None
    )


def later(node: Any) -> Any:
    """A loop without its first step."""
    return (
        replace(node, low=node.low + 1) if _counts(node) and isinstance(node.low, Affine) else None
    )


def other_fill(node: Any) -> Any:
    """A fill that is one more."""
    if (
        isinstance(node, Apply)
        and node.op == "select"
        and isinstance(node.arguments[2], Number)
        and abs(node.arguments[2].value) < 1e9
    ):
        return replace(
            node,
            arguments=(
                *node.arguments[:2],
                replace(node.arguments[2], value=node.arguments[2].value + 1),
            ),
        )
    return None


def other_start(node: Any) -> Any:
    """An accumulator, or a point outside the domain, that starts one higher."""
    if (
        isinstance(node, Store)
        and node.op == "="
        and isinstance(node.value, Number)
        and abs(node.value.value) < 1e9
    ):
        return replace(node, value=replace(node.value, value=node.value.value + 1))
    return None


def overwritten(node: Any) -> Any:
    """A sum that forgets what was added before."""
    return replace(node, op="=") if isinstance(node, Store) and node.op != "=" else None


def never(node: Any) -> Any:
    """A branch that is not taken."""
    return replace(node, then=()) if isinstance(node, If) and node.then else None


def mutants(node: Any, change: Change) -> Iterator[Any]:
    """The tree with `change` at one place, for every place where there is something to change."""
    changed = change(node)
    if changed is not None:
        yield changed
    if not is_dataclass(node):
        return
    for field in fields(node):
        value = getattr(node, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        for position, part in enumerate(parts):
            for other in mutants(part, change):
                rebuilt = (
                    (*parts[:position], other, *parts[position + 1 :])
                    if isinstance(value, tuple)
                    else other
                )
                yield replace(node, **{field.name: rebuilt})  # pyright: ignore


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
    outputs = run_functions([mutant for _, mutant in chosen], [arrays[name] for name, _ in chosen])
    for (name, mutant), found in zip(chosen, outputs):
        expected = evaluated(as_program(EXPRESSIONS[name]()), arrays[name])["O"]
        assert not agrees(found, expected, mutant.output.dtype), (
            f"{change.__doc__} {name} is not noticed:\n{mutant.body}"
        )
