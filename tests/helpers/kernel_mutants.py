"""Kernels with a fault each, which the tests must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from codegen.ir.nodes import Apply, For, If, Number, Store, walk
from einalg.language.index.affine import Affine

Change = Callable[[Any], Any]


def _counts(node: Any) -> bool:
    """Whether a loop does more than to set local accumulators, whose memory may hold the right
    number by chance.
    """
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
