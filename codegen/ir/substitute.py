"""Statements and values of the loop IR with index expressions in the place of indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from codegen.ir.nodes import (
    Apply,
    For,
    If,
    IndexNumber,
    Number,
    Outlined,
    Predicate,
    Prefetch,
    Ref,
    Store,
    Transpose,
)
from einalg.language.index.affine import Affine, Index

# Nodes whose parts may read or write an element.
WITH_REFERENCES = (Apply, For, If, Outlined, Prefetch, Store, Transpose)


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


def with_references(node: Any, change: Callable[[Ref], Ref]) -> Any:
    """Return a statement or value with other elements for those that it reads and writes.

    >>> from codegen.ir.nodes import Buf
    >>> from einalg.language.index.convert import affine
    >>> i, (a, b) = Index("i"), (Buf(name, (8,), "f32") for name in "AB")
    >>> store = Store(Ref(a, (affine(i),)), "=", Apply("neg", (Ref(a, (affine(i),)),), "f32"))
    >>> loop = For(i, affine(0), affine(8), (0, 8), (store,))
    >>> (moved,) = with_references(loop, lambda ref: Ref(b, ref.subscripts)).body
    >>> moved.ref.buf.name, moved.value.arguments[0].buf.name
    ('B', 'B')
    """
    if isinstance(node, Ref):
        return change(node)
    if isinstance(node, tuple):
        return tuple(with_references(part, change) for part in node)
    if not isinstance(node, WITH_REFERENCES):
        return node
    parts: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        changed = with_references(value, change)
        if changed is not value:
            parts[field.name] = changed
    return replace(node, **parts)


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
