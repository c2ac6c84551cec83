"""Proof that two programs are equal, or exactly where they differ (design §9).

Import `prove` and `Proof` from here. `exact` compares access relations and decides wherever an
expression is a sum of products; `identities` proves by the laws of functions; `random` evaluates at
random inputs elsewhere; `all_sizes` decides for symbolic sizes; `outcome` is what all return.
Imports `einalg.language`, not the rest of `derive`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from derive.proof.all_sizes import prove_for_all_sizes
from derive.proof.exact.compare import compare_exactly
from derive.proof.identities.compare import DIVIDING, shown_equal
from derive.proof.outcome.verdict import DIFFERENT, PROVED, TESTED, Proof
from derive.proof.random.evaluation import compare
from derive.proof.random.refutation import is_refuted, positive_values
from derive.proof.sides import as_sides
from einalg.language.ir.program import Program, inlined
from einalg.language.ir.scope import Scope
from einalg.language.notation.text_arguments import reads_text
from einalg.options import SEED, checked, whole
from einalg.runtime.garbage import with_few_full_collections

__all__ = ["DIFFERENT", "PROVED", "TESTED", "Proof", "prove"]

EXACT = "access relations"


@reads_text("a", "b")
@checked(rounds=whole(1, 1000), seed=SEED)
@with_few_full_collections
def prove(a: Any, b: Any, *, rounds: int = 3, seed: int = 0, **tensors: Any) -> Proof:
    """Decide whether two scopes or programs have the same value at every output point for all
    inputs, over the reals.

    Exact where both are sums of products of elements, once nested scopes are inlined: their access
    relations are compared with multiplicity, and where they differ the region is exact. Functions,
    quotients and maxima are equal where their arguments are. Elsewhere the laws of functions are
    tried (`exp(a + b)` is `exp(a)*exp(b)`), and then both are evaluated at
    `rounds` random inputs that `seed` draws, over a prime field, and the verdict is `"tested"`.
    Outputs are compared in order, their points counted from 0 on every axis; a point at which a
    scope has no value is 0. With symbolic sizes (`ea.size`) the proof is one for all of them, and
    `sizes` holds those at which the two differ; where it does not go through, both are compared at
    some sizes, which `coverage` lists. Text is read with the shapes that are given by name, as by
    `einalg.parse`, and where one side is no text, with its tensors. Raises `NotationError` for
    anything but text, a scope, a program or a tensor, which stands for all its elements; `UseError`
    for a tensor that has one element type in `a` and another in `b`, and for `rounds` or a `seed`
    that is no whole number.

    >>> import einalg as ea
    >>> a = ea.parse("O[i] += A[i,j]*x[j]", A=(4, 5), x=(5,))
    >>> b = ea.parse("T[i,j] = A[i,j]*x[j]\\nO[i] += T[i,j]", A=(4, 5), x=(5,))
    >>> prove(a, b).verdict
    'proved'
    >>> prove(a, ea.parse("O[i] += A[i,j]*x[(j+i//3)%5]", A=(4, 5), x=(5,))).region
    Set("{ [i = 3] }")
    >>> prove("O[i] += A[i,j]", "O[i] += A[i,4-j]", A=(4, 5)).verdict
    'proved'
    >>> prove("O[i] += A[i,j]", "O[i] += A[i,M-1-j]", A=("N", "M")).verdict
    'proved'
    >>> proof = prove("O[i] = A[i]", "O[i:N] = A[0]", A=("N",))
    >>> proof.region, proof.counterexample
    (Set("[N] -> { [i] : 0 < i < N }"), {'N': 2})
    """
    one, two = as_sides(a, b)
    if one.sizes or two.sizes:
        return prove_for_all_sizes(one, two, lambda x, y: _proof(x, y, rounds, seed))
    return _proof(one, two, rounds, seed)


def _proof(one: Program, two: Program, rounds: int, seed: int) -> Proof:
    """Compare two programs whose sizes are numbers."""
    mismatch = _mismatch(one, two)
    if mismatch is not None:
        return Proof(DIFFERENT, None, "shapes", 0.0, reason=mismatch)
    proofs = []
    for name, other in zip(one.outputs, two.outputs):
        # Nothing of a proof depends on the order of terms.
        scopes = inlined(one, name, in_order=False), inlined(two, other, in_order=False)
        proof = replace(_output(*scopes, rounds, seed), output=name)
        if proof.verdict == DIFFERENT:
            return proof
        proofs.append(proof)
    return _weakest(proofs)


def _output(one: Scope, two: Scope, rounds: int, seed: int) -> Proof:
    comparison = compare_exactly(one, two)
    if comparison.equal is None:
        return _by_laws(one, two, seed) or compare(one, two, rounds, seed, comparison)
    if comparison.equal:
        return Proof(PROVED, None, EXACT, 0.0)
    return Proof(DIFFERENT, comparison.region, EXACT, 0.0, is_region_exact=True)


def _by_laws(one: Scope, two: Scope, seed: int) -> Proof | None:
    """Prove by laws of functions what no evaluation refutes at once; None where this fails."""
    if not prod(one.shape):
        return None
    values = positive_values(one, two, seed)
    if is_refuted(one, two, seed, values):
        return None
    identity = shown_equal(one, two, values=values)
    if identity is None:
        return None
    return Proof(PROVED, None, identity.method, 0.0)


def _weakest(proofs: list[Proof]) -> Proof:
    """Return what is known of all outputs: the verdict of the least certain one, and a bound for
    all together.
    """
    tested = [proof for proof in proofs if proof.verdict == TESTED]
    if not tested:
        return replace(max(proofs, key=_assumptions), output=None)
    total = 0.0
    for proof in tested:
        if proof.error_probability is None:
            return replace(proof, output=None)
        total += proof.error_probability
    return replace(tested[0], output=None, error_probability=min(1.0, total))


def _assumptions(proof: Proof) -> tuple[bool, bool]:
    """Return what a proof assumes: that no denominator is 0, and laws of functions."""
    return proof.method == DIVIDING, proof.method != EXACT


def _mismatch(one: Program, two: Program) -> str | None:
    """Say why the two cannot be equal at a glance; None where they can."""
    if len(one.outputs) != len(two.outputs):
        return f"one has {len(one.outputs)} outputs, the other {len(two.outputs)}"
    for a, b in zip(one.outputs, two.outputs):
        if one[a].shape != two[b].shape:
            return f"output {a} has shape {one[a].shape}, and shape {two[b].shape} in the other"
    for name, tensor in one.inputs.items():
        other = two.inputs.get(name, tensor)
        if tensor.shape != other.shape:
            return f"input {name} has shape {tensor.shape}, and shape {other.shape} in the other"
    return None
