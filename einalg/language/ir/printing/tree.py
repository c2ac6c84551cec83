"""Expressions as an indented tree, one line a node (design §4)."""

from __future__ import annotations

from typing import Any

import sympy

from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.iterator import iterators_text
from einalg.language.ir.printing.kinds import is_access, is_reduction, is_scope, is_view
from einalg.language.ir.printing.text import TOO_DEEP, ordered_terms, text


def tree(node: Any) -> str:
    """Return `node` as an indented tree, one node a line."""
    try:
        return _tree(node, 0)
    except RecursionError:
        return TOO_DEEP


def _tree(node: Any, depth: int) -> str:
    pad = "  " * depth
    if is_scope(node) or is_reduction(node):
        op = "L" if is_scope(node) else node.op
        conditions = "".join(f" where {c}" for c in node.where)
        return (
            f"{pad}{op}[{iterators_text(node.iterators)}]{conditions}\n"
            f"{_tree(node.body, depth + 1)}"
        )
    if is_access(node) and is_scope(node.tensor):
        subscripts = ", ".join(map(str, node.subscripts))
        return f"{pad}[{subscripts}] of{_padding(node.base)}\n{_tree(node.tensor, depth + 1)}"
    if is_access(node) or isinstance(node, IndexArithmetic) or not getattr(node, "args", ()):
        return f"{pad}{text(node)}"
    arguments = ordered_terms(node) if isinstance(node, sympy.Add) else node.args
    lines = [f"{pad}{type(node).__name__}"]
    for argument in arguments:
        lines.append(_tree(argument, depth + 1))
    return "\n".join(lines)


def _padding(base: Any) -> str:
    """Return the views of a scope, inner first, as they are written after it."""
    if not is_view(base):
        return ""
    shown = text(base)
    return f"{_padding(base.base)} {shown[shown.rindex('.pad(') :]}"
