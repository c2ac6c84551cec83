"""Scopes that are written alike but for the names of their tensors, as the statements of equal
layers are: each is matched once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor

MAX_CACHED_SCOPES = 4096
# By identity, with the scope, which is kept for that.
_NAME_FREE_FORMS: dict[int, tuple[Scope, Any]] = {}
# By name-free form and templates: the names of the tensors that were read, and the kernel.
_MATCHES: dict[Hashable, tuple[tuple[str, ...], Kernel | None]] = {}


def match_once(
    scope: Scope, output: str, among: Hashable, find: Callable[[], Kernel | None]
) -> Kernel | None:
    """Return what `find` gives for a scope, or gave for one that is written alike, with the names
    of this one.
    """
    form, names = name_free_form(scope)
    cached = _MATCHES.get((form, among))
    if cached is None:
        if len(_MATCHES) >= MAX_CACHED_SCOPES:
            _MATCHES.clear()
        cached = _MATCHES[form, among] = names, find()
    its_names, kernel = cached
    if kernel is None:
        return None
    return _renamed(kernel, {**dict(zip(its_names, names)), kernel.output: output}, scope)


def _renamed(kernel: Kernel, names: Mapping[str, str], scope: Scope) -> Kernel:
    return replace(
        kernel,
        inputs=tuple([names.get(name, name) for name in kernel.inputs]),
        output=names[kernel.output],
        scope=scope,
        views=tuple([replace(view, name=names.get(view.name, view.name)) for view in kernel.views]),
    )


def name_free_form(scope: Scope) -> tuple[Hashable, tuple[str, ...]]:
    """Return a scope with numbers in the places of the names of its tensors, and these in the order
    of their numbers.

    >>> import einalg as ea
    >>> one = ea.parse("O[i] = A[i]*B[i]", A=(4,), B=(4,))
    >>> other = ea.parse("P[i] = S[i]*T[i]", S=(4,), T=(4,))
    >>> name_free_form(one)[0] == name_free_form(other)[0], name_free_form(other)[1]
    (True, ('S', 'T'))
    """
    cached = _NAME_FREE_FORMS.get(id(scope))
    if cached is None:
        numbers: dict[str, int] = {}
        cached = scope, (_scope(scope, numbers), tuple(numbers))
        if len(_NAME_FREE_FORMS) >= MAX_CACHED_SCOPES:
            _NAME_FREE_FORMS.clear()
        _NAME_FREE_FORMS[id(scope)] = cached
    return cached[1]


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
