"""A quick look for a difference, before a proof is sought (design §9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from derive.proof.random.blocks import (
    block_extents,
    cut_block,
    evaluation_steps,
    values_for,
    within_type,
)
from derive.proof.random.rounding import has_no_cancellation, in_double, unequal_in_double
from einalg.language.interpreters.numpy import FLOAT, MEMORY
from einalg.language.interpreters.numpy.arrays import ArrayStore, BoxedArray
from einalg.language.interpreters.numpy.body import Evaluator
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Constant, Tensor

MAX_STEPS = 50_000  # bodies evaluated for one input
CLOSE = 1e-9  # values that are no further apart, relative to the larger one, may be equal
Array = np.ndarray[Any, Any]
Draw = Callable[[Any], Array]


def positive_values(one: Scope, two: Scope, seed: int) -> dict[Scope, Array] | None:
    """Return the values of two scopes and of all inside them at a positive input, as they stand:
    nothing is cut or made double precision first. None where these are too many.
    """
    if evaluation_steps([one, two]) > MAX_STEPS:
        return None
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for scope in (one, two):
        for name, tensor in scope.tensors.items():
            if name not in arrays and not isinstance(tensor, Constant):
                arrays[name] = _values(tensor, lambda shape: rng.uniform(0.25, 1.75, shape))
    return evaluated([one, two], arrays)


def is_refuted(
    one: Scope, two: Scope, seed: int, values: Mapping[Scope, Array] | None = None
) -> bool:
    """Return whether two scopes of one shape differ at an input of both signs, or at a positive or
    a negative one, in double precision, at the first output points; what is not refuted may be
    equal. `values` are those at a positive input, where they are known.

    >>> import einalg as ea
    >>> x = ea.tensor("x", (3,))
    >>> is_refuted(ea.parse("O[i] = exp(x[i])", x=x), ea.parse("O[i] = x[i] + 1", x=x), 0)
    True
    """
    scopes = [one, two]
    nothing_cancels = all(map(has_no_cancellation, scopes))
    if values is not None:
        if _are_close(values[one], values[two]):
            return False
        if nothing_cancels and _are_finite(values[one], values[two]):
            return True
    extents = block_extents(scopes, MAX_STEPS)
    block = cut_block(scopes, (0,) * one.rank, extents)
    rng = np.random.default_rng(seed)

    def drawn(draw: Draw) -> dict[str, Array]:
        return {name: _values(tensor, draw) for name, tensor in block.tensors.items()}

    positive = drawn(lambda shape: rng.uniform(0.25, 1.75, shape))
    if nothing_cancels and values is None:
        ours, theirs = [in_double(scope, positive) for scope in block.scopes]
        if _are_finite(ours, theirs) and not _are_close(ours, theirs):
            return True
    # The maximum of many numbers of both signs is positive: some are all negative.
    negative = drawn(lambda shape: -rng.uniform(0.25, 1.75, shape))
    for arrays in (drawn(rng.standard_normal), positive, negative):
        if unequal_in_double(block.scopes, arrays).any():
            return True
    return False


def _are_close(ours: Array, theirs: Array) -> bool:
    """Return whether all values are finite and nearly the same."""
    return _are_finite(ours, theirs) and np.allclose(ours, theirs, rtol=CLOSE, atol=0)


def _are_finite(ours: Array, theirs: Array) -> bool:
    return bool(np.isfinite(ours).all() and np.isfinite(theirs).all())


def evaluated(roots: Sequence[Scope], arrays: Mapping[str, Array]) -> dict[Scope, Array]:
    """Return the values of some scopes and of all that they read, in double precision."""
    store = ArrayStore(FLOAT)
    scopes: dict[Scope, None] = {}
    for root in roots:
        scopes.update(dict.fromkeys(all_scopes(root)))
        for name, tensor in root.tensors.items():
            if isinstance(tensor, Constant):
                array = np.array([float(value) for value in tensor.values]).reshape(tensor.shape)
            else:
                array = arrays[name]
            store.tensors[name] = BoxedArray(array, tensor.box)
    evaluator = Evaluator(store, FLOAT, MEMORY)
    values: dict[Scope, Array] = {}
    with np.errstate(all="ignore"):
        for scope in scopes:
            store.scopes[scope] = evaluator.scope(scope)
            values[scope] = store.scopes[scope].values
    return values


def _values(tensor: Tensor, draw: Draw) -> Array:
    def of_type(shape: Any) -> Array:
        drawn = np.asarray(draw(shape))
        if is_float(tensor.dtype):
            return drawn
        return within_type(tensor.dtype, np.rint(4 * drawn))

    return values_for(tensor, of_type)
