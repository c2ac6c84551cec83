"""Factorisations and contractions that several tests share."""

from __future__ import annotations

from hypothesis import strategies as st

import einalg as ea
from derive.bilinear import Factorisation
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.rules.algebra.bilinear_factorisation import RULE
from einalg.language.ir.program import as_program
from einalg.language.ir.tensor import Constant

KARATSUBA = Factorisation(
    "complex3", U=[[1, 0], [0, 1], [1, 1]], V=[[1, 0], [0, 1], [1, 1]], W=[[1, -1, 0], [-1, -1, 1]]
)
COMPLEX = [[[1, 0], [0, -1]], [[0, 1], [1, 0]]]
small_rationals = st.fractions(-4, 4, max_denominator=4)


def mutants(factorisation):
    """The factorisation with one entry of one matrix changed, for every entry."""
    for letter in "UVW":
        matrix = getattr(factorisation, letter)
        for place in range(len(matrix.values)):
            values = [v + 1 if k == place else v for k, v in enumerate(matrix.values)]
            yield replace_matrix(
                factorisation, letter, Constant(matrix.name, matrix.axes, matrix.dtype, values)
            )


def replace_matrix(factorisation, letter, matrix):
    matrices = {name: getattr(factorisation, name) for name in "UVW"}
    return Factorisation(factorisation.name, **{**matrices, letter: matrix})


def program(text, **tensors):
    return as_program(ea.parse(text, **tensors))


CONV = program(
    "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]",
    A=(1, 7, 6, 2),
    K=ea.tensor("K", (3, 3, 2, 2), role="weight"),
)
REAL = program(
    "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]",
    A=(1, 56, 56, 64),
    K=(3, 3, 64, 64),
)
SQUARE = program("O[m,n] += A[m,k]*B[k,n]", A=(256, 256), B=(256, 256))


def winograd(program, *, tiles=(2, 2), axes=(("h", "r"), ("w", "s"))):
    """Both axes in turn."""
    for path, tile, (output, tap) in zip((("O",), ("O", 0)), tiles, axes):
        program = apply(
            program, Move(RULE.name, path, {"output": output, "tap": tap, "tile": tile}), ALL
        )
    return program
