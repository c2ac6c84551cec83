"""A bilinear map as few products: exact matrices U, V, W, and the identity that they fulfil."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from einalg.errors import EinalgError, RecordError, RuleError
from einalg.language.index.identifiers import tensor_name
from einalg.language.ir.tensor import Constant
from einalg.language.notation.constant import constant

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Factorisation:
    """`z[k] = Σ_p W[k,p] · (Σ_i U[p,i] x[i]) · (Σ_j V[p,j] y[j])`, where k, i and j stand for any number of axes.

    `name` is a word, after which the constants in a program are called. The matrices are nested lists of rational numbers, arrays
    of integers or constants. Raises `ShapeError` or `RuleError` where they do not fit each other.

    >>> product = Factorisation("complex3", U=[[1, 0], [0, 1], [1, 1]], V=[[1, 0], [0, 1], [1, 1]], W=[[1, -1, 0], [-1, -1, 1]])
    >>> product.rank
    3
    >>> product.computes([[[1, 0], [0, -1]], [[0, 1], [1, 0]]])  # (a + b·i)(c + d·i)
    True
    """

    name: str
    U: Constant
    V: Constant
    W: Constant

    def __init__(self, name: str, U: Any, V: Any, W: Any):
        object.__setattr__(self, "name", tensor_name(name))
        for letter, values in (("U", U), ("V", V), ("W", W)):
            made = constant(
                f"{name}_{letter}", exact(values) if isinstance(values, Constant) else values
            )
            object.__setattr__(self, letter, made)
        if (
            not all(matrix.rank for matrix in self.matrices)
            or len({self.U.shape[0], self.V.shape[0], self.W.shape[-1]}) > 1
        ):
            shapes = ", ".join(
                f"{letter} {matrix.shape}" for letter, matrix in zip("UVW", self.matrices)
            )
            raise RuleError(
                f"{name}: the matrices differ in the number of products: {shapes}\n  U[p,…], V[p,…] and W[…,p] share p"
            )

    @property
    def matrices(self) -> tuple[Constant, Constant, Constant]:
        return self.U, self.V, self.W

    @property
    def rank(self) -> int:
        """The number of products."""
        return self.U.shape[0]

    @cached_property
    def tensor(self) -> Array:
        """The map that is computed: `T[k…, i…, j…]`, the coefficient of `x[i…]·y[j…]` in `z[k…]`, as exact fractions."""
        left, right, out = (exact(matrix) for matrix in self.matrices)
        pairs = left.reshape(self.rank, -1, 1) * right.reshape(self.rank, 1, -1)
        total = np.dot(out.reshape(-1, self.rank), pairs.reshape(self.rank, -1))
        return total.reshape(*out.shape[:-1], *left.shape[1:], *right.shape[1:])

    def computes(self, tensor: Any) -> bool:
        """Whether the map that is computed is this one, exactly."""
        wanted = np.array(tensor, dtype=object)
        return wanted.shape == self.tensor.shape and bool((wanted == self.tensor).all())

    def as_record(self) -> dict[str, Any]:
        """The factorisation as JSON values."""
        return {
            "name": self.name,
            **{letter: _texts(exact(matrix)) for letter, matrix in zip("UVW", self.matrices)},
        }

    @staticmethod
    def from_record(record: Any) -> Factorisation:
        """Read it back; `RecordError` where the record is broken."""
        try:
            return Factorisation(record["name"], *(_numbers(record[letter]) for letter in "UVW"))
        except (
            KeyError,
            TypeError,
            ValueError,
            ArithmeticError,
            RecursionError,
            EinalgError,
        ) as error:
            raise RecordError(f"the record holds no factorisation: {error}") from None


def exact(matrix: Constant) -> Array:
    """The values of a constant as an array of fractions.

    >>> exact(constant("H", [1, 0.5]))
    array([Fraction(1, 1), Fraction(1, 2)], dtype=object)
    """
    flat = np.empty(len(matrix.values), dtype=object)
    flat[:] = [Fraction(int(v.p), int(v.q)) for v in matrix.values]
    return flat.reshape(matrix.shape)


def _texts(values: Any) -> Any:
    return [_texts(row) for row in values] if isinstance(values, np.ndarray) else str(values)


def _numbers(texts: Any) -> Any:
    return [_numbers(row) for row in texts] if isinstance(texts, (list, tuple)) else Fraction(texts)
