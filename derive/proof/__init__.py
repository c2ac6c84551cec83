"""Proof that two programs are equal, or exactly where they differ (design §9)."""

from __future__ import annotations

from typing import Any

import islpy as isl

from derive.proof.polynomials import Expansion, OutsideFragment, Symbols
from derive.proof.random_evaluation import compare
from derive.proof.relations import difference, same_symbols
from derive.proof.verdict import DIFFERENT, PROVED, TESTED, Proof
from einalg.polyhedra import bounded
from einalg.program import Program, as_program

__all__ = ["DIFFERENT", "PROVED", "TESTED", "Proof", "prove"]

OPERATIONS = 50_000_000  # of isl, for the exact method
EXACT = "access relations"


def prove(one: Any, two: Any, rounds: int = 2, seed: int = 0) -> Proof:
    """Decide whether two scopes or programs have the same value at every output point for all inputs, over the reals.

    Exact where both are sums of products of accesses, once nested scopes are inlined: their access relations are compared
    with multiplicity, and where they differ the region is exact (functions and maxima count as symbols, equal where their
    arguments are). Elsewhere both are evaluated at `rounds` random points over a prime field, and the verdict is `"tested"`.
    Outputs are compared in order, their points counted from 0; a point at which a scope has no value is 0.

    >>> import einalg as ea
    >>> a = ea.parse("O[i] += A[i,j]*x[j]", A=(4, 5), x=(5,))
    >>> b = ea.parse("T[i,j] = A[i,j]*x[j]\\nO[i] += T[i,j]", A=(4, 5), x=(5,))
    >>> ea.prove(a, b).verdict
    'proved'
    """
    first, second = as_program(one), as_program(two)
    mismatch = _mismatch(first, second)
    if mismatch is not None:
        return Proof(DIFFERENT, mismatch)
    try:
        with bounded(OPERATIONS):
            exact = _exactly(first, second)
    except (OutsideFragment, isl.Error, RecursionError):
        exact = None
    return exact if exact is not None else compare(first, second, rounds, seed)


def _mismatch(one: Program, two: Program) -> str | None:
    """Why the two cannot be equal at a glance."""
    if len(one.outputs) != len(two.outputs):
        return f"one has {len(one.outputs)} outputs, the other {len(two.outputs)}"
    for a, b in zip(one.outputs, two.outputs):
        if one[a].shape != two[b].shape:
            return f"output {a} has shape {one[a].shape}, the other {two[b].shape}"
    for name in one.tensors.keys() & two.tensors.keys():
        if one.tensors[name].shape != two.tensors[name].shape:
            return f"input {name} has shape {one.tensors[name].shape} in one and {two.tensors[name].shape} in the other"
    return None


def _exactly(one: Program, two: Program) -> Proof | None:
    """The exact verdict; None where a difference may be due to symbols that stand for equal values."""
    symbols = Symbols(same_symbols)
    left, right = Expansion(one, symbols), Expansion(two, symbols)
    for a, b in zip(one.outputs, two.outputs):
        box, mine = left.output(a)
        _, theirs = right.output(b)
        region = difference(box, mine, theirs)
        if not region.is_empty():
            free = any("#" in name or name in ("index", "oo", "-oo", "zoo", "nan") for t in (*mine, *theirs) for name, _ in t.factors)
            return None if free else Proof(DIFFERENT, EXACT, region, a if len(one.outputs) > 1 else None)
    return Proof(PROVED, EXACT)
