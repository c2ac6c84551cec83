"""Equality outside the exact fragment: evaluation at random inputs over a large prime field (design §9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl
import numpy as np
import sympy

from derive.proof.verdict import DIFFERENT, TESTED, Proof
from einalg.access import Tensor
from einalg.dtypes import is_float
from einalg.execute import PrimeField, execute
from einalg.execute.primefield import MERSENNE
from einalg.program import Program, statement_tensor, substitute_tensors
from einalg.scope import Reduce
from einalg.traverse import all_scopes

MODULUS = MERSENNE
TOLERANCE = 1e-9  # of double precision, relative to the largest element
MOST_RUNS = 2000
LARGEST = 2**40  # of a degree that is told

Arrays = Mapping[str, np.ndarray[Any, Any]]


def compare(one: Program, two: Program, rounds: int, seed: int) -> Proof:
    """Evaluate both sides at random inputs; the chance to miss a difference is `(degree / modulus) ** rounds`."""
    tensors = {**one.tensors, **two.tensors}
    for number in range(rounds):
        rng = np.random.default_rng((seed, number))
        arrays = {name: _residues(rng, tensor) for name, tensor in tensors.items()}
        field = PrimeField(MODULUS, seed=seed + number)
        where = _differing(one, two, execute(one, arrays, arithmetic=field), execute(two, arrays, arithmetic=field), 0.0)
        if where is not None:
            if _is_rational(one) and _is_rational(two):
                return Proof(DIFFERENT, where[1], "evaluation over a prime field", 0.0, where[0])
            return _in_floats(one, two, tensors, seed)
    degree = max(_degree(one), _degree(two))
    chance = min(1.0, degree / MODULUS) ** rounds
    return Proof(TESTED, None, f"evaluation at {rounds} random points over a prime field, degree {degree}", chance)


def _residues(rng: np.random.Generator, tensor: Tensor) -> np.ndarray[Any, Any]:
    return rng.integers(0, 2 if tensor.dtype == "bool" else MODULUS, tensor.shape)


def _in_floats(one: Program, two: Program, tensors: Mapping[str, Tensor], seed: int) -> Proof:
    """Functions obey identities that a field does not know: double precision decides."""
    method = "evaluation in double precision"
    one, two = _in_double(one), _in_double(two)
    for number, low in enumerate((-1.0, 0.5)):
        rng = np.random.default_rng((seed, number))
        arrays = {name: _real(rng, tensor, low) for name, tensor in tensors.items()}
        where = _differing(one, two, execute(one, arrays), execute(two, arrays), TOLERANCE)
        if where is not None:
            return Proof(DIFFERENT, where[1], method, None, where[0])
    return Proof(TESTED, None, method)


def _in_double(program: Program) -> Program:
    """The program with its floating-point tensors in double precision."""
    wide = {n: Tensor(n, t.axes, "f64" if is_float(t.dtype) else t.dtype, t.role) for n, t in program.tensors.items()}
    statements = []
    for name, scope in program.statements:
        widened = substitute_tensors(scope, wide)
        statements.append((name, widened))
        wide[name] = statement_tensor(name, widened)
    return Program(statements, program.outputs)


def _real(rng: np.random.Generator, tensor: Tensor, low: float) -> np.ndarray[Any, Any]:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    return rng.uniform(low, 1.5, tensor.shape)


def _differing(one: Program, two: Program, left: Arrays, right: Arrays, tolerance: float) -> tuple[str, isl.Set] | None:
    """The first output that differs, with the points at which it does."""
    for name, other in zip(one.outputs, two.outputs):
        a, b = left[name], right[other]
        same = a == b
        if tolerance:
            a, b = a.astype(np.float64), b.astype(np.float64)
            finite = np.abs(a[np.isfinite(a)])
            scale = max(1.0, float(finite.max()) if finite.size else 0.0)
            with np.errstate(invalid="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance * scale)
        if not np.all(same):
            return name, points(~np.asarray(same))
    return None


def points(mask: np.ndarray[Any, Any]) -> isl.Set:
    """The points at which a mask is true, as runs along the last axis; their bounding box where the runs are too many."""
    names = [f"x{k}" for k in range(mask.ndim)]
    found = np.argwhere(mask)
    if not mask.ndim:
        return isl.Set("{ [] }")
    breaks = np.flatnonzero(np.any(found[1:, :-1] != found[:-1, :-1], axis=1) | (found[1:, -1] != found[:-1, -1] + 1)) + 1
    runs = np.split(found, breaks)
    if len(runs) > MOST_RUNS:
        boxes = [f"{a} <= {n} <= {b}" for n, a, b in zip(names, found.min(0), found.max(0))]
        return isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(boxes)} }}")
    pieces = (" and ".join([*(f"{n} = {v}" for n, v in zip(names, run[0][:-1])), f"{run[0][-1]} <= {names[-1]} <= {run[-1][-1]}"]) for run in runs)
    return isl.Set(f"{{ [{', '.join(names)}] : {' or '.join(pieces)} }}").coalesce()


def _bodies(program: Program) -> list[Any]:
    return [node.body for _, scope in program.statements for node in all_scopes(scope)]


def _is_rational(program: Program) -> bool:
    """Only + - * / and integer powers occur: a difference over a prime field is a difference."""
    return all(_rational(body) for body in _bodies(program))


def _rational(body: Any) -> bool:
    if isinstance(body, Reduce):
        return body.op in ("Sum", "Prod") and _rational(body.body)
    if hasattr(body, "subscripts") or not body.args:
        return body not in (sympy.oo, -sympy.oo)
    if isinstance(body, sympy.Pow):
        return bool(body.exp.is_Integer) and _rational(body.base)
    return isinstance(body, (sympy.Add, sympy.Mul)) and all(_rational(a) for a in body.args)


def _degree(program: Program) -> int:
    """A bound of the degree of numerator and denominator of any output in the elements of the inputs."""
    known: dict[Any, int] = {}
    for name, scope in program.statements:
        for node in all_scopes(scope):
            known[node] = min(LARGEST, _body_degree(node.body, known))
        known[name] = known[scope]
    return max(known[name] for name in program.outputs)


def _body_degree(body: Any, known: Mapping[Any, int]) -> int:
    if hasattr(body, "subscripts"):
        base = body.tensor
        return known.get(base.name if isinstance(base, Tensor) else base, 1)
    if isinstance(body, Reduce):
        times = int(np.prod([it.extent for it in body.iterators])) if body.op == "Prod" else 1
        return times * _body_degree(body.body, known)
    if not body.args:
        return 0
    if isinstance(body, sympy.Pow) and body.exp.is_Integer:
        return abs(int(body.exp)) * _body_degree(body.base, known)
    degrees = [_body_degree(a, known) for a in body.args]
    fraction = any(isinstance(a, sympy.Pow) and a.exp.is_negative for a in sympy.preorder_traversal(body))
    return sum(degrees) if isinstance(body, sympy.Mul) or fraction else max(degrees)
