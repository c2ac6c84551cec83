"""Functions of the loop IR under other names of their buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from codegen.ir.nodes import Buf, Function

Names = Mapping[str, str]


def renamed(function: Function, names: Names) -> Function:
    """Return a function whose inputs and output have other names; its body is as it was."""
    return replace(
        function,
        inputs=tuple(_named(b, names) for b in function.inputs),
        output=_named(function.output, names),
    )


def _named(buf: Buf, names: Names) -> Buf:
    return replace(buf, name=names.get(buf.name, buf.name))
