"""Statements and values of the loop IR with index expressions in the place of indices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from codegen.ir.nodes import Apply, For, IndexNumber, Number, Predicate, Ref, Store
from einalg.language.index.affine import Affine, Index


def substituted(node: Any, values: Mapping[Index, Affine]) -> Any:
    """Return a statement or value with index expressions for some indices.

    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.convert import affine
    >>> i = Index("i")
    >>> substituted(Ref(Buf("A", (8,), "f32"), (2 * affine(i),)), {i: affine(3)}).subscripts
    (6,)
    """
    if isinstance(node, Ref):
        return Ref(node.buf, tuple(s.substitute(values) for s in node.subscripts))
    if isinstance(node, Apply):
        return Apply(node.op, tuple(substituted(a, values) for a in node.arguments), node.dtype)
    if isinstance(node, IndexNumber):
        return replace(node, form=node.form.substitute(values))
    if isinstance(node, Predicate):
        return replace(node, conditions=tuple(c.substitute(values) for c in node.conditions))
    if isinstance(node, Store):
        return Store(substituted(node.ref, values), node.op, substituted(node.value, values))
    if isinstance(node, For):
        assert isinstance(node.low, Affine) and isinstance(node.high, Affine)
        inner = tuple(substituted(s, values) for s in node.body)
        return replace(
            node, low=node.low.substitute(values), high=node.high.substitute(values), body=inner
        )
    assert isinstance(node, Number)
    return node


def referred(node: Any, refs: Mapping[Ref, Ref]) -> Any:
    """Return a statement without loops, or a value, with other elements for some.

    >>> from codegen.ir.nodes import Buf
    >>> x, y = (Ref(Buf(name, (), "f32", "reg"), ()) for name in "xy")
    >>> referred(Store(x, "+=", Apply("exp", (y,), "f32")), {y: x}).value.arguments == (x,)
    True
    """
    if isinstance(node, Ref):
        return refs.get(node, node)
    if isinstance(node, Apply):
        return Apply(node.op, tuple(referred(a, refs) for a in node.arguments), node.dtype)
    if isinstance(node, Store):
        return Store(referred(node.ref, refs), node.op, referred(node.value, refs))
    return node
