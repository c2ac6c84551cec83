"""Signatures of statements, up to the names and origins of their tensors (design §10).

Statements of one signature share their code, as the equal layers of a network do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

import sympy

from codegen.ir.names import Names
from einalg.language.analysis.canonical import key
from einalg.language.index.affine import Affine
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, rebased, reductions


@dataclass(frozen=True)
class KernelSignature:
    """A statement without the names and origins of its tensors, of which equal `key`s need one
    code.

    The `key` is the whole statement with labels for these names, its operator, and what is known of
    the tensors. `tensors` are their names in an order that equal units share. `scope` reads those
    of `offsets` as they are from so many bytes on.
    """

    key: Hashable
    tensors: tuple[str, ...]
    scope: Scope
    offsets: Mapping[str, int]


def kernel_signature(
    kernel: Kernel,
    scopes: Mapping[str, Scope],
    constants: Collection[str],
    unread_gaps: Collection[str] = (),
) -> KernelSignature:
    """Return a statement of a program as code generation sees it.

    `constants` names what is known before a run, and `unread_gaps` the statements of which nothing
    reads the points without a value.
    """
    scope = scopes[kernel.output]
    undefined_points: dict[str, Scope] = {}
    for name in scope.tensors:
        if name in scopes and scopes[name].where:
            undefined_points[name] = scopes[name]
    offsets: dict[str, int] = {}
    if kernel.op == EOP:
        scope, offsets = _with_slices(scope, undefined_points)
    order = _ordered(scope, constants)
    labels = {name: f"A{position}" for position, name in enumerate(order)}
    tensors: dict[str, Tensor] = {}
    for name, label in labels.items():
        role = "weight" if name in constants else "input"
        if name in undefined_points:
            role = "intermediate"  # the fill of a padding of no elements counts
        tensors[label] = _labelled(label, scope.tensors[name], role)

    def relabelled(access: Access) -> Access:
        return _moved(access, tensors[labels[access.tensor.name]])

    written = Scope(scope.iterators, scope.where, map_accesses(scope.body, relabelled))
    heads = [
        (label, tensors[label].shape, tensors[label].dtype, name in constants)
        for name, label in labels.items()
    ]
    gaps = sorted((labels[name], key(_domain(row))) for name, row in undefined_points.items())
    operator = _operator(kernel, labels)
    leaves_gaps = kernel.output in unread_gaps
    identity = (operator, key(written), scope.dtype, tuple(heads), tuple(gaps), leaves_gaps)
    return KernelSignature(identity, (*order, kernel.output), scope, offsets)


def _ordered(scope: Scope, constants: Collection[str]) -> list[str]:
    """Return the tensors of a scope in an order that does not depend on their names.

    It decides only which statements have one key, never that two with one key are the same: a key
    holds all of its statement.
    """
    uses = _uses(scope)

    def rank(name: str) -> tuple[Any, ...]:
        tensor = scope.tensors[name]
        return name in constants, tensor.shape, tensor.dtype, uses[name]

    return sorted(scope.tensors, key=rank)


def _domain(scope: Scope) -> Scope:
    """Return the points at which a scope has a value, as a scope of zeros."""
    return Scope(scope.iterators, scope.where, sympy.Integer(0))


def _operator(kernel: Kernel, labels: Names) -> Hashable:
    """Return all of a kernel but its statement, with labels for the names of tensors.

    Of an eOperator without a name that is nothing: its code is made of the statement alone.
    """
    if kernel.op == EOP:
        return EOP
    names = {**labels, kernel.output: "O"}
    views = tuple(replace(view, name=names.get(view.name, view.name)) for view in kernel.views)
    inputs = tuple(names.get(name, name) for name in kernel.inputs)
    anonymous = replace(kernel, inputs=inputs, output="O", views=views, scope=None, source=None)
    return tuple((field.name, _text(getattr(anonymous, field.name))) for field in fields(kernel))


def _text(value: Any) -> str:
    """Return a field of a kernel as a text that tells it from all others."""
    if isinstance(value, Mapping):
        value = dict(value)
    return repr(value)


def _with_slices(scope: Scope, undefined_points: Collection[str]) -> tuple[Scope, dict[str, int]]:
    """Return a scope without the first axes of tensors that it reads at one place of these.

    The second value says where these tensors begin, in bytes: `A[2,i]` becomes `A[i]`, with the
    offset of the row 2.
    """
    slices: dict[str, Tensor] = {}
    offsets: dict[str, int] = {}
    for name, subscripts in _fixed_subscripts(scope, undefined_points).items():
        tensor = scope.tensors[name]
        part = Tensor(name, tensor.axes[len(subscripts) :], tensor.dtype, tensor.role)
        position = 0
        for subscript, (low, high) in zip(subscripts, tensor.axes):
            position = position * (high - low) + subscript - low
        slices[name] = part
        offsets[name] = position * prod(part.shape) * numpy_dtype(tensor.dtype).itemsize
    if not slices:
        return scope, offsets

    def sliced(access: Access) -> Access:
        part = slices.get(access.tensor.name)
        if part is None:
            return access
        return Access.of(part, access.subscripts[access.tensor.rank - part.rank :])

    return Scope(scope.iterators, scope.where, map_accesses(scope.body, sliced)), offsets


def _fixed_subscripts(
    scope: Scope, undefined_points: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """Return the first subscripts of tensors for which these are the same numbers in all reads.

    An example is `{"A": (2,)}` for `A[2,i]*A[2,j]`.
    """
    subscripts: dict[str, set[tuple[int, ...]]] = {}
    for access in accesses(scope.body):
        tensor = access.tensor
        is_plain = access.base is tensor and not isinstance(tensor, Constant)
        numbers: tuple[int, ...] = ()
        if is_plain and tensor.name not in undefined_points:
            numbers = _first_subscripts(access)
        subscripts.setdefault(tensor.name, set()).add(numbers)
    fixed: dict[str, tuple[int, ...]] = {}
    for name, places in subscripts.items():
        if len(places) == 1 and () not in places:
            (fixed[name],) = places
    return fixed


def _first_subscripts(access: Access) -> tuple[int, ...]:
    """Return the numbers with which an access begins."""
    numbers: list[int] = []
    for form in access.subscripts[:-1]:
        if form.terms:
            break
        numbers.append(form.const)
    return tuple(numbers)


def _uses(scope: Scope) -> dict[str, list[str]]:
    """Return how every tensor is read, in words without names and origins, to order them by."""
    names = {it.index.name: f"o{position}" for position, it in enumerate(scope.iterators)}
    for node in reductions(scope.body):
        for iterator in node.iterators:
            names[iterator.index.name] = f"r{len(names)}"
    uses: dict[str, list[str]] = {name: [] for name in scope.tensors}
    for access in accesses(scope.body):
        subscripts = list(_from_origin(access))
        uses[access.tensor.name].append(
            re.sub(r"\b[^\W\d]\w*", lambda word: names.get(word[0], word[0]), str(subscripts))
        )
    return {name: sorted(texts) for name, texts in uses.items()}


def _labelled(label: str, tensor: Tensor, role: str) -> Tensor:
    if isinstance(tensor, Constant):
        return Constant(label, tensor.shape, tensor.dtype, tensor.values)
    return Tensor(label, tensor.shape, tensor.dtype, role)


def _moved(access: Access, tensor: Tensor) -> Access:
    """Return the access with another tensor of the same shape, whose axes begin at 0."""
    return Access.of(rebased(access, tensor).base, _from_origin(access))


def _from_origin(access: Access) -> tuple[Affine, ...]:
    """Return the subscripts, counted from where the axes of the tensor begin."""
    return tuple(form - low for form, (low, _) in zip(access.subscripts, access.tensor.box))
