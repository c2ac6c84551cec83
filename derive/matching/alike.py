"""Scopes that are written alike but for the names of the tensors that they read, as the statements of equal layers are: each is matched once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

from einalg.access import Access, Padded, Tensor
from einalg.affine import IndexArithmetic
from einalg.kernel import Kernel
from einalg.scope import Reduce, Scope

_SPELLED: dict[int, tuple[Scope, Any]] = {}  # by identity, with the scope, which is kept for that
_FOUND: dict[Hashable, tuple[tuple[str, ...], Kernel | None]] = {}
_MOST = 4096


def spelled(scope: Scope) -> tuple[Hashable, tuple[str, ...]]:
    """What a scope is with numbers in the places of the names of its tensors, and these in the order of their numbers.

    >>> import einalg as ea
    >>> one, other = ea.parse("O[i] = A[i]*B[i]", A=(4,), B=(4,)), ea.parse("P[i] = S[i]*T[i]", S=(4,), T=(4,))
    >>> spelled(one)[0] == spelled(other)[0], spelled(other)[1]
    (True, ('S', 'T'))
    """
    known = _SPELLED.get(id(scope))
    if known is None:
        numbers: dict[str, int] = {}
        known = scope, (_scope(scope, numbers), tuple(numbers))
        if len(_SPELLED) >= _MOST:
            _SPELLED.clear()
        _SPELLED[id(scope)] = known
    return known[1]


def _scope(scope: Scope, numbers: dict[str, int]) -> Hashable:
    return scope.iterators, scope.where, _body(scope.body, numbers)


def _body(body: Any, numbers: dict[str, int]) -> Hashable:
    if isinstance(body, Access):
        return _base(body.base, numbers), body.subscripts
    if isinstance(body, Reduce):
        return body.op, body.iterators, body.where, _body(body.body, numbers)
    if isinstance(body, IndexArithmetic) or not body.args:
        return body
    return body.func, tuple([_body(part, numbers) for part in body.args])


def _base(base: Any, numbers: dict[str, int]) -> Hashable:
    if isinstance(base, Padded):
        return base.amounts, base.fill, _base(base.base, numbers)
    if isinstance(base, Tensor):
        return numbers.setdefault(base.name, len(numbers)), base.kind
    return _scope(base, numbers)


def matched_once(scope: Scope, output: str, among: Hashable, find: Callable[[], Kernel | None]) -> Kernel | None:
    """What `find` gives for a scope, or gave for one that is written alike, with the names of this one."""
    written, names = spelled(scope)
    known = _FOUND.get((written, among))
    if known is None:
        if len(_FOUND) >= _MOST:
            _FOUND.clear()
        known = _FOUND[written, among] = names, find()
    own, found = known
    return None if found is None else _renamed(found, {**dict(zip(own, names)), found.output: output}, scope)


def _renamed(kernel: Kernel, names: Mapping[str, str], scope: Scope) -> Kernel:
    views = tuple(replace(view, name=names.get(view.name, view.name)) for view in kernel.views)
    return replace(kernel, inputs=tuple(names.get(name, name) for name in kernel.inputs), output=names[kernel.output], scope=scope, views=views)
