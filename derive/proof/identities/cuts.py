"""Intermediate values that both sides share: a proof step by step, inner scopes first.

Scopes whose values agree at a random input are compared; those that are shown to be equal are read
as one unknown tensor from then on. So a recurrent network of many steps is compared one step at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from derive.proof.random.refutation import evaluated
from einalg.language.analysis.canonical import key_among
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Constant, Tensor

MAX_SCOPES = 4000  # of both sides
MAX_ELEMENTS = 1_000_000  # of all values
CLOSE = 1e-9  # values that are no further apart, relative to the larger one, may be equal
Array = np.ndarray[Any, Any]
Cuts = dict[Scope, str]
IsEqual = Callable[[Scope, Scope, Mapping[Scope, str]], bool]


def shared_values(
    one: Scope, two: Scope, is_equal: IsEqual, values: Mapping[Scope, Array] | None = None
) -> Cuts:
    """Return the inner scopes of both sides that are shown to be equal, by the name of what both
    are read as. `values` are those at one input, where they are known.
    """
    if values is None:
        values = _values(one, two)
    values = {scope: array for scope, array in values.items() if scope not in (one, two)}
    ours = [scope for scope in all_scopes(one) if scope in values]
    classes = _Classes()
    for scope in ours:
        classes.add(scope, classes.alike(scope))
    close = _ByShape(ours, values)
    cuts: Cuts = {}
    for scope in all_scopes(two):
        if scope not in values:
            continue
        name = f"shared value {len(cuts)}"
        if scope not in classes:
            other = classes.alike(scope)
            if other is None:
                nearby = close.near(scope, values[scope])
                other = next((near for near in nearby if is_equal(near, scope, cuts)), None)
            classes.add(scope, other)
            if other is None or not (other in cuts or other in close):
                continue
            name = cuts.get(other, name)
        for member in classes.equal_to(scope):
            cuts.setdefault(member, name)
    return cuts


class _Classes:
    """Classes of equal scopes: the inner ones are told by their classes, so that every scope is
    looked at once.
    """

    def __init__(self) -> None:
        self._numbers: dict[Scope, int] = {}
        self._members: list[list[Scope]] = []
        self._by_key: dict[Any, Scope] = {}

    def __contains__(self, scope: Scope) -> bool:
        return scope in self._numbers

    def alike(self, scope: Scope) -> Scope | None:
        """Return a scope that is the same but for equal scopes in it; None where there is none."""
        other = self._by_key.setdefault(key_among(scope, self._numbers), scope)
        return None if other == scope else other

    def add(self, scope: Scope, equal: Scope | None) -> None:
        """Note a scope as equal to another one; None for a class of its own."""
        if equal is None:
            self._numbers[scope] = len(self._members)
            self._members.append([scope])
        else:
            self._numbers[scope] = self._numbers[equal]
            self._members[self._numbers[equal]].append(scope)

    def equal_to(self, scope: Scope) -> list[Scope]:
        """Return the scopes of the class of a scope."""
        return self._members[self._numbers[scope]]


class _ByShape:
    """Scopes with their values, as one matrix for each shape."""

    def __init__(self, scopes: list[Scope], values: Mapping[Scope, Array]):
        self._known = set(scopes)
        self._scopes: dict[tuple[int, ...], list[Scope]] = {}
        for scope in scopes:
            self._scopes.setdefault(scope.shape, []).append(scope)
        self._values = {}
        for shape, group in self._scopes.items():
            self._values[shape] = np.stack([values[scope].reshape(-1) for scope in group])

    def __contains__(self, scope: Scope) -> bool:
        return scope in self._known

    def near(self, scope: Scope, values: Array) -> list[Scope]:
        """Return the scopes that may be equal: those that have these values."""
        if scope.shape not in self._scopes:
            return []
        own = values.reshape(-1)
        close = np.isclose(self._values[scope.shape], own, CLOSE, CLOSE, equal_nan=True)
        group = self._scopes[scope.shape]
        return [group[place] for place in np.flatnonzero(close.all(axis=1))]


def _values(one: Scope, two: Scope) -> dict[Scope, Array]:
    """Return the values of all scopes at a random input; nothing where these are too many."""
    scopes: dict[Scope, None] = {}
    for root in (one, two):
        scopes.update(dict.fromkeys(all_scopes(root)))
    elements = sum(prod(scope.shape) for scope in scopes)
    if len(scopes) > MAX_SCOPES or elements > MAX_ELEMENTS:
        return {}
    arrays = {}
    for root in (one, two):
        for name, tensor in root.tensors.items():
            if not isinstance(tensor, Constant):
                arrays[name] = _random(tensor)
    return evaluated([one, two], arrays)


def _random(tensor: Tensor) -> Array:
    """Return positive values, at which most functions are defined."""
    seed = [ord(character) for character in tensor.name]
    drawn = np.random.default_rng(seed).uniform(0.25, 1.25, tensor.shape)
    return drawn if is_float(tensor.dtype) else np.rint(drawn).astype(np.int64)
