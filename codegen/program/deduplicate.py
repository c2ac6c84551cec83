"""Statements that differ in the names and origins of their tensors alone share their code, as the equal layers of a network do (design §10)."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

import sympy

from codegen.ir.rename import Names
from einalg.language.analysis.canonical import key
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, rebased, reductions


@dataclass(frozen=True)
class KernelSignature:
    """A statement without the names and origins of its tensors, of which equal `key`s need one code.

    The `key` is the whole statement with labels for these names, its operator, and what is known of
    the tensors. `tensors` are their names in an order that equal units share. `scope` reads those of
    `offsets` as they are from so many bytes on.
    """

    key: Hashable
    tensors: tuple[str, ...]
    scope: Scope
    offsets: Mapping[str, int]


def kernel_signature(
    kernel: Kernel, known: Mapping[str, Scope], ahead: Collection[str]
) -> KernelSignature:
    """A statement of a program, as code generation sees it; `ahead` names what is known before a run."""
    scope, offsets = known[kernel.output], dict[str, int]()
    holes = {name: known[name] for name in scope.tensors if name in known and known[name].where}
    if kernel.op == EOP:
        scope, offsets = _with_slices(scope, holes)
    order = _ordered(scope, ahead)
    labels = {name: f"A{k}" for k, name in enumerate(order)}
    tensors = {
        label: _labelled(label, scope.tensors[name], name in ahead)
        for name, label in labels.items()
    }

    def relabelled(access: Access) -> Access:
        return _moved(access, tensors[labels[access.tensor.name]])

    written = Scope(scope.iterators, scope.where, map_accesses(scope.body, relabelled))
    gaps = tuple((labels[name], key(_domain(hole))) for name, hole in holes.items())
    own = (
        _operator(kernel, labels),
        key(written),
        scope.dtype,
        tuple(
            (label, tensor.shape, tensor.dtype, tensor.role) for label, tensor in tensors.items()
        ),
        tuple(sorted(gaps)),
    )
    return KernelSignature(own, (*order, kernel.output), scope, offsets)


def _ordered(scope: Scope, ahead: Collection[str]) -> list[str]:
    """The tensors of a scope in an order that does not depend on their names.

    It decides only which statements have one key, never that two with one key are the same: a key holds all of its statement.
    """
    uses = _uses(scope)
    rows = sorted(
        scope.tensors.items(),
        key=lambda item: (item[0] in ahead, item[1].shape, item[1].dtype, uses[item[0]]),
    )
    return [name for name, _ in rows]


def _domain(scope: Scope) -> Scope:
    """The points at which a scope has a value."""
    return Scope(scope.iterators, scope.where, sympy.Integer(0))


def _operator(kernel: Kernel, labels: Names) -> Hashable:
    """All of a kernel but its statement, with labels for the names of tensors.

    Of an eOperator without a name that is nothing: its code is made of the statement alone.
    """
    if kernel.op == EOP:
        return EOP
    names = {**labels, kernel.output: "O"}
    views = tuple(replace(view, name=names.get(view.name, view.name)) for view in kernel.views)
    inputs = tuple(names.get(name, name) for name in kernel.inputs)
    plain = replace(kernel, inputs=inputs, output="O", views=views, scope=None, source=None)
    return tuple((field.name, _text(getattr(plain, field.name))) for field in fields(plain))


def _text(value: Any) -> str:
    """A field of a kernel as a text that tells it from all others."""
    return repr(dict(value)) if isinstance(value, Mapping) else repr(value)


def _with_slices(scope: Scope, holes: Collection[str]) -> tuple[Scope, dict[str, int]]:
    """The scope with those tensors that are read at fixed first subscripts without these axes, and where they begin, in bytes."""
    fixed: dict[str, set[tuple[int, ...]]] = {}
    for access in accesses(scope.body):
        plain = (
            access.base is access.tensor
            and not isinstance(access.tensor, Constant)
            and access.tensor.name not in holes
        )
        fixed.setdefault(access.tensor.name, set()).add(_first_subscripts(access) if plain else ())
    slices, offsets = dict[str, Tensor](), dict[str, int]()
    for name, (*others, first) in fixed.items():
        if first and not others:
            tensor = scope.tensors[name]
            slices[name] = Tensor(name, tensor.axes[len(first) :], tensor.dtype, tensor.role)
            position = 0
            for at, (low, high) in zip(first, tensor.axes):
                position = position * (high - low) + at - low
            offsets[name] = position * prod(slices[name].shape) * numpy_dtype(tensor.dtype).itemsize

    def change(access: Access) -> Access:
        part = slices.get(access.tensor.name)
        return (
            access
            if part is None
            else Access.of(part, access.subscripts[access.tensor.rank - part.rank :])
        )

    return (
        Scope(scope.iterators, scope.where, map_accesses(scope.body, change)) if slices else scope
    ), offsets


def _first_subscripts(access: Access) -> tuple[int, ...]:
    """The numbers with which an access begins."""
    numbers = []
    for form in access.subscripts[:-1]:
        if form.terms:
            break
        numbers.append(form.const)
    return tuple(numbers)


def _uses(scope: Scope) -> dict[str, list[str]]:
    """How every tensor is read, in words without names and origins, to order tensors by."""
    names = {it.index.name: f"o{k}" for k, it in enumerate(scope.iterators)}
    for node in reductions(scope.body):
        names.update((it.index.name, f"r{len(names)}") for it in node.iterators)
    uses: dict[str, list[str]] = {name: [] for name in scope.tensors}
    for access in accesses(scope.body):
        subscripts = [form - low for form, (low, _) in zip(access.subscripts, access.tensor.box)]
        uses[access.tensor.name].append(
            re.sub(r"\b[^\W\d]\w*", lambda word: names.get(word[0], word[0]), str(subscripts))
        )
    return {name: sorted(texts) for name, texts in uses.items()}


def _labelled(label: str, tensor: Tensor, ahead: bool) -> Tensor:
    if isinstance(tensor, Constant):
        return Constant(label, tensor.shape, tensor.dtype, tensor.values)
    return Tensor(label, tensor.shape, tensor.dtype, "weight" if ahead else "input")


def _moved(access: Access, tensor: Tensor) -> Access:
    """The access with a tensor of the same shape, whose axes begin at 0, for its own."""
    subscripts = tuple(form - low for form, (low, _) in zip(access.subscripts, access.tensor.box))
    return Access.of(rebased(access, tensor).base, subscripts)
