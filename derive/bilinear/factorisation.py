"""A bilinear map as few products: exact matrices U, V, W and the identity that they fulfil."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from einalg.errors import EinalgError, RecordError, RuleError, without_remedy
from einalg.language.index.identifiers import tensor_name
from einalg.language.ir.tensor import Constant
from einalg.language.notation.constant import constant

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Factorisation:
    """A bilinear map `z[k] = Σ_p W[k,p] · (Σ_i U[p,i] x[i]) · (Σ_j V[p,j] y[j])`.

    Any number of axes may stand for k, i and j. `name` is a word, after which the constants in a
    program are called. The matrices are nested lists of rational numbers, arrays of integers or
    constants. Raises `ShapeError` or `RuleError` where they do not fit each other.

    >>> sums = [[1, 0], [0, 1], [1, 1]]
    >>> product = Factorisation("complex3", U=sums, V=sums, W=[[1, -1, 0], [-1, -1, 1]])
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
            if isinstance(values, Constant):
                values = exact(values)
            object.__setattr__(self, letter, constant(f"{name}_{letter}", values))
        if not self._share_products():
            shapes = f"U {self.U.shape}, V {self.V.shape}, W {self.W.shape}"
            raise RuleError(
                f"{name}: the matrices differ in the number of products: {shapes}\n"
                "  U[p,…], V[p,…] and W[…,p] share p"
            )

    def _share_products(self) -> bool:
        if not all(matrix.rank for matrix in self.matrices):
            return False
        return self.U.shape[0] == self.V.shape[0] == self.W.shape[-1]

    @property
    def matrices(self) -> tuple[Constant, Constant, Constant]:
        return self.U, self.V, self.W

    @property
    def rank(self) -> int:
        """Return the number of products."""
        return self.U.shape[0]

    @cached_property
    def tensor(self) -> Array:
        """Return `T[k…, i…, j…]`, the coefficients of `x[i…]·y[j…]` in `z[k…]`, as fractions."""
        left, right, out = map(exact, self.matrices)
        pairs = left.reshape(self.rank, -1, 1) * right.reshape(self.rank, 1, -1)
        total = np.dot(out.reshape(-1, self.rank), pairs.reshape(self.rank, -1))
        return total.reshape(*out.shape[:-1], *left.shape[1:], *right.shape[1:])

    def computes(self, tensor: Any) -> bool:
        """Tell whether the map that is computed is this one, exactly."""
        wanted = np.array(tensor, dtype=object)
        return wanted.shape == self.tensor.shape and bool((wanted == self.tensor).all())

    def as_record(self) -> dict[str, Any]:
        """Return the factorisation as JSON values."""
        U, V, W = (_texts(exact(matrix)) for matrix in self.matrices)
        return {"name": self.name, "U": U, "V": V, "W": W}

    @staticmethod
    def from_record(record: Any) -> Factorisation:
        """Read it back; `RecordError` where the record is broken."""
        try:
            U, V, W = _numbers(record["U"]), _numbers(record["V"]), _numbers(record["W"])
            return Factorisation(record["name"], U, V, W)
        except (
            KeyError,
            TypeError,
            ValueError,
            ArithmeticError,
            RecursionError,
            EinalgError,
        ) as error:
            raise RecordError(
                f"the record holds no factorisation: {without_remedy(error)}"
            ) from None


def exact(matrix: Constant) -> Array:
    """Return the values of a constant as an array of fractions.

    >>> exact(constant("H", [1, 0.5]))
    array([Fraction(1, 1), Fraction(1, 2)], dtype=object)
    """
    flat = np.empty(len(matrix.values), dtype=object)
    flat[:] = [Fraction(int(v.p), int(v.q)) for v in matrix.values]
    return flat.reshape(matrix.shape)


def _texts(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return list(map(_texts, values))
    return str(values)


def _numbers(texts: Any) -> Any:
    if isinstance(texts, (list, tuple)):
        return list(map(_numbers, texts))
    return Fraction(texts)
