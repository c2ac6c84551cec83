"""Intermediate values that both sides share: a proof step by step, inner scopes first.

Scopes whose values agree at a random input are compared; those that are shown to be equal are read
as one unknown tensor from then on. So a recurrent network of many steps is compared one step at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from einalg.language.interpreters.numpy import FLOAT, MEMORY
from einalg.language.interpreters.numpy.arrays import BoxedArray, Store
from einalg.language.interpreters.numpy.body import Evaluator
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Constant, Tensor

MAX_SCOPES = 400  # of both sides
MAX_ELEMENTS = 1_000_000  # of all values
CLOSE = 1e-9  # values that are no further apart, relative to the larger one, may be equal
Array = np.ndarray[Any, Any]
Cuts = dict[Scope, str]
IsEqual = Callable[[Scope, Scope, Mapping[Scope, str]], bool]


def shared_values(one: Scope, two: Scope, is_equal: IsEqual) -> Cuts:
    """Return the inner scopes of both sides that are shown to be equal, by the name of what both
    are read as.
    """
    values = _values(one, two)
    ours = [scope for scope in all_scopes(one) if scope in values]
    cuts: Cuts = {}
    for scope in all_scopes(two):
        if scope not in values:
            continue
        for other in _candidates(scope, ours, values, cuts):
            if scope == other or is_equal(other, scope, cuts):
                cuts[scope] = cuts.setdefault(other, f"shared value {len(cuts)}")
                break
    return cuts


def _candidates(
    scope: Scope, ours: list[Scope], values: Mapping[Scope, Array], cuts: Cuts
) -> Iterator[Scope]:
    """Yield scopes of the other side that have the same values at a random input."""
    if scope in ours:
        yield scope
        return
    own = values[scope]
    for other in ours:
        theirs = values[other]
        if own.shape == theirs.shape and np.allclose(own, theirs, CLOSE, CLOSE, equal_nan=True):
            yield other


def _values(one: Scope, two: Scope) -> dict[Scope, Array]:
    """Return the values of all inner scopes at a random input."""
    scopes: dict[Scope, None] = {}
    for root in (one, two):
        scopes.update(dict.fromkeys(all_scopes(root)))
    elements = sum(prod(scope.shape) for scope in scopes)
    if len(scopes) > MAX_SCOPES or elements > MAX_ELEMENTS:
        return {}
    store = Store(FLOAT)
    for root in (one, two):
        for name, tensor in root.tensors.items():
            store.tensors[name] = BoxedArray(_random(tensor), tensor.box)
    evaluator = Evaluator(store, FLOAT, MEMORY)
    values: dict[Scope, Array] = {}
    with np.errstate(all="ignore"):
        for scope in scopes:
            if scope in (one, two):
                continue
            store.scopes[scope] = evaluator.scope(scope)
            values[scope] = store.scopes[scope].values
    return values


def _random(tensor: Tensor) -> Array:
    """Return positive values, at which most functions are defined."""
    if isinstance(tensor, Constant):
        return np.array([float(value) for value in tensor.values]).reshape(tensor.shape)
    seed = [ord(character) for character in tensor.name]
    drawn = np.random.default_rng(seed).uniform(0.25, 1.25, tensor.shape)
    return drawn if is_float(tensor.dtype) else np.rint(drawn).astype(np.int64)
