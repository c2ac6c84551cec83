"""Names in functions of the loop IR: those in use, others, and functions under other names."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from codegen.ir.nodes import Buf, For, Function, walk

Names = Mapping[str, str]


def used_names(function: Function) -> set[str]:
    """Return the names of a function, of its buffers and of the indices of its loops."""
    names = {function.name}
    for node in walk(function):
        if isinstance(node, Buf):
            names.add(node.name)
        elif isinstance(node, For):
            names.add(node.index.name)
    return names


def unused_name(name: str, used: Container[str]) -> str:
    """Return a name that is not in use: `name`, else the first of `name1`, `name2`, …

    >>> unused_name("row", {"A"}), unused_name("row", {"row", "row1"})
    ('row', 'row2')
    """
    unused, count = name, 0
    while unused in used:
        count += 1
        unused = f"{name}{count}"
    return unused


def renamed(function: Function, names: Names) -> Function:
    """Return a function whose inputs and output have other names; its body is as it was."""
    return replace(
        function,
        inputs=tuple(_named(b, names) for b in function.inputs),
        output=_named(function.output, names),
    )


def _named(buf: Buf, names: Names) -> Buf:
    return replace(buf, name=names.get(buf.name, buf.name))
