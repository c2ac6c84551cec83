"""A quick look for a difference, before a proof is sought (design §9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from derive.proof.random.blocks import block_extents, cut_block, values_for, within_type
from derive.proof.random.rounding import unequal_in_double
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor

MAX_STEPS = 50_000  # bodies evaluated for one input
Array = np.ndarray[Any, Any]
Draw = Callable[[Any], Array]


def is_refuted(one: Scope, two: Scope, seed: int) -> bool:
    """Return whether two scopes of one shape differ at one of two inputs, in double precision, at
    the first output points; what is not refuted may be equal.

    >>> import einalg as ea
    >>> x = ea.tensor("x", (3,))
    >>> is_refuted(ea.parse("O[i] = exp(x[i])", x=x), ea.parse("O[i] = x[i] + 1", x=x), 0)
    True
    """
    scopes = [one, two]
    extents = block_extents(scopes, MAX_STEPS)
    block = cut_block(scopes, (0,) * one.rank, extents)
    rng = np.random.default_rng(seed)
    draws: list[Draw] = [rng.standard_normal, lambda shape: rng.uniform(0.25, 1.75, shape)]
    for draw in draws:
        arrays = {name: _values(tensor, draw) for name, tensor in block.tensors.items()}
        if unequal_in_double(block.scopes, arrays).any():
            return True
    return False


def _values(tensor: Tensor, draw: Draw) -> Array:
    def of_type(shape: Any) -> Array:
        drawn = np.asarray(draw(shape))
        if is_float(tensor.dtype):
            return drawn
        return within_type(tensor.dtype, np.rint(4 * drawn))

    return values_for(tensor, of_type)
