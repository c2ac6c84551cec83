"""Values modulo a random prime, of one expression for many inputs at a time, and fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import sympy

from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.interpreters.numpy import execute
from einalg.language.interpreters.prime_field.field import PrimeField
from einalg.language.interpreters.prime_field.modular import Array, matmul
from einalg.language.interpreters.prime_field.primes import random_prime
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import map_accesses, padded_like

SAMPLE = Index("sample")
POSITIVE_SHARES = (1 / 2, 1 / 16, 15 / 16)  # of the elements, at one point after the other
ENOUGH_ELEMENTS = 48  # that are compared: one of a truth value agrees with a chance of 3/8
WORDS = 2  # residues of a fingerprint, below 2**31 each


class RandomField:
    """A random prime field, with what is drawn of it: inputs, and functionals for fingerprints.

    A tensor is `points` arrays, its values at as many random inputs.
    """

    def __init__(self, seed: int, points: int) -> None:
        self.points = points
        self._rng = np.random.default_rng(seed)
        self.field = PrimeField(
            random_prime(self._rng), seed=int(self._rng.integers(2**31)), holds_elements=True
        )
        self._functionals: dict[Any, tuple[Array, int]] = {}

    def draw(self, shape: Sequence[int]) -> Array:
        """Return random elements of the field."""
        return self._rng.integers(0, self.field.modulus, tuple(shape), np.int64)

    def tensor(self, shape: Sequence[int]) -> Array:
        """Return a random tensor: its values at each point. At some points nearly all elements are
        negative, and at some nearly none, so that there are rows of one sign.
        """
        values = self.draw((self.points, *shape))
        is_positive = self.field.function(sympy.sign, [values]) == 1
        shares = np.resize(POSITIVE_SHARES, self.points).reshape(-1, *[1] * len(shape))
        wanted = self._rng.random(values.shape) < shares
        return np.where(is_positive == wanted, values, self.field.modulus - values)

    def functional(self, kind: Any, size: int) -> tuple[Array, int]:
        """Return a random linear function from tensors of a type to fingerprints, and a number that
        tells these from those of other types.
        """
        if kind not in self._functionals:
            matrix = self.draw((self.points * size, WORDS))
            self._functionals[kind] = matrix, int(self._rng.integers(2**62))
        return self._functionals[kind]

    def fingerprints(self, kind: Any, values: Array) -> Array:
        """Return a number for each tensor of many, of one type: one is equal for equal tensors, and
        differs for others but for a chance of about 2**-60.
        """
        words = self.words(kind, values)
        return self.packed(words, self.mark(kind))

    def words(self, kind: Any, values: Array) -> Array:
        """Return the residues of fingerprints, which are linear in the values."""
        flat = values.reshape(len(values), -1)
        matrix, _ = self.functional(kind, flat.shape[1] // self.points)
        return matmul(flat, matrix, self.field.modulus)

    def mark(self, kind: Any) -> int:
        """Return the number that tells fingerprints of a type, of which there are some."""
        return self._functionals[kind][1]

    def packed(self, words: Array, mark: int) -> Array:
        return (words[..., 0] << 31 | words[..., 1]) ^ mark


def enough_samples(shapes: Iterable[Sequence[int]]) -> int:
    """Return how many samples have enough elements, of tensors of each of some shapes.

    >>> enough_samples([(2, 4), (100,)]), enough_samples([()]), enough_samples([(7, 7)])
    (6, 48, 1)
    """
    return -(-ENOUGH_ELEMENTS // max(1, min(map(prod, shapes))))


def name_of(position: int) -> str:
    """Return the name of the tensor that stands for an input."""
    return f"a{position}"


def batched(scope: Scope, count: int, names: Mapping[str, Any]) -> Scope:
    """Return the expression for `count` samples of some of its tensors, along a first axis.

    >>> import einalg as ea
    >>> batched(ea.parse("O[i] = A[i] + B[i]", A=(3,), B=(3,)), 2, {"A": None})
    L[sample:2, i:3](A[sample, i] + B[i])
    """
    memo: dict[Any, Any] = {}

    def base_of(base: Any) -> Any:
        if isinstance(base, Scope):
            return memo[base]
        return Tensor(base.name, [(0, count), *base.axes], base.dtype, base.role)

    def change(access: Access) -> Access:
        tensor = access.tensor
        if not isinstance(tensor, Scope) and tensor.name not in names:
            return access
        view = padded_like(access.base, base_of(tensor), lambda layer: [(0, 0), *layer])
        return Access.of(view, (affine(SAMPLE), *access.subscripts))

    for node in all_scopes(scope):
        iterators = [(SAMPLE, 0, count), *node.iterators]
        memo[node] = Scope(iterators, node.where, map_accesses(node.body, change))
    return memo[scope]


def evaluate(scopes: Sequence[Scope], samples: Sequence[Array], field: PrimeField) -> list[Array]:
    """Return the values of expressions of the tensors `a0`, `a1`, …, for samples of these along
    their first axes.
    """
    count = len(samples[0])
    arrays = {name_of(place): array for place, array in enumerate(samples)}
    statements = []
    for place, scope in enumerate(scopes):
        statements.append((f"O{place}", batched(scope, count, arrays)))
    names = [name for name, _ in statements]
    results = execute(Program(statements, names), arrays, arithmetic=field)
    return [np.asarray(results[name]) for name in names]


def is_defined(values: Array, field: PrimeField) -> Array:
    """Return which tensors of many are elements of the field everywhere: no infinities, and nothing
    that was divided by 0.
    """
    flat = values.reshape(len(values), -1).astype(np.int64, copy=False)
    unsigned = flat.view(np.uint64)  # what is negative is large there
    return np.asarray(unsigned.max(axis=1, initial=0) < field.modulus)
