"""An expression at many inputs at once: every tensor and scope has the inputs as its first axis.

Small expressions cost the same for one input as for many, which are evaluated as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Constant, Padded, Tensor
from einalg.language.ir.traversal import map_accesses, reductions

Array = np.ndarray[Any, Any]


def stacked(scopes: Sequence[Scope], inputs: int) -> list[Scope]:
    """Return scopes over a first axis of `inputs` inputs; constants are the same for all.

    >>> import einalg as ea
    >>> stacked([ea.parse("O[i] = A[i] + A[2]", A=(3,))], 10)[0].shape
    (10, 3)
    """
    used: set[str] = set()
    for root in scopes:
        for scope in all_scopes(root):
            used |= {index.name for index in scope.indices}
            for reduction in reductions(scope.body):
                used |= {index.name for index in reduction.indices}
    free = (f"input{number}" for number in count())
    name = next(name for name in free if name not in used)
    stacking = _Stacking(LoopIndex(Index(name), 0, inputs))
    return [stacking.scope(scope) for scope in scopes]


def stacked_arrays(arrays: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the arrays of several inputs as one input of `stacked` scopes."""
    return {name: np.stack([one[name] for one in arrays]) for name in arrays[0]}


class _Stacking:
    """Scopes with a first axis; a scope that is read several times is made once."""

    def __init__(self, axis: LoopIndex):
        self.axis = axis
        self._scopes: dict[Scope, Scope] = {}

    def scope(self, scope: Scope) -> Scope:
        for inner in all_scopes(scope):
            if inner not in self._scopes:
                body = map_accesses(inner.body, self._access)
                self._scopes[inner] = Scope([self.axis, *inner.iterators], inner.where, body)
        return self._scopes[scope]

    def _access(self, access: Access) -> Access:
        if isinstance(access.tensor, Constant):
            return access
        return Access.of(self._base(access.base), (affine(self.axis.index), *access.subscripts))

    def _base(self, base: Any) -> Any:
        if isinstance(base, Padded):
            return Padded(self._base(base.base), [(0, 0), *base.amounts], base.fill)
        if isinstance(base, Scope):
            return self._scopes[base]
        return Tensor(base.name, [(0, self.axis.extent), *base.axes], base.dtype, base.role)
