"""Values that a program needs several times, computed once: equal statements as one, and what many
points of a statement share as a statement of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from math import prod
from typing import Any

import sympy

from derive.programs.passes.normalise import fused, is_elementwise
from derive.rewriting.body_queries import EXPENSIVE
from einalg.frontends.graph import unique_name
from einalg.language.analysis.canonical import key
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, with_parts
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import parts

MIN_READS = 4  # of a value that is stored for them
STORED = ("f32", "f64")  # of other types less would be stored than is computed with


def shared(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return a flat program without equal statements, but for outputs.

    What then has one reader becomes a part of it, unless it `is_late`. Merge after fusing, not
    before: what is computed by the way, where it is read, would be stored instead.

    >>> import einalg as ea
    >>> text = "S[i] = Max(0, A[i])\\nT[k] = Max(0, A[k])\\nO[i,j] = S[i]*T[j]"
    >>> print(shared(ea.parse(text, A=(3,))))
    S[i:3] = Max(0, A[i])
    O[i:3, j:3] = S[i]*S[j]
    """
    firsts: dict[Hashable, Tensor] = {}
    replaced: dict[str, Tensor] = {}
    statements: list[tuple[str, Scope]] = []
    for name, statement in program.statements:
        scope = substitute_tensors(statement, replaced)
        tensor = statement_tensor(name, scope)
        first = firsts.setdefault((key(scope), tensor.axes, tensor.dtype), tensor)
        if first is tensor or name in program.outputs:
            statements.append((name, scope))
        else:
            replaced[name] = first
    if not replaced:
        return program
    return fused(Program(statements, program.outputs), is_late=is_late)[0]


def with_shared_values(program: Program) -> Program:
    """Return a flat program with statements for the expensive values that points of others share.

    Those are the values that some of the outer indices leave as they are: a gate for each channel,
    where channels are innermost. What only inner indices leave is computed before their loops.

    >>> import einalg as ea
    >>> text = "U[c] += A[c,k]*B[k]\\nO[h,w,c] = X[h,w,c]/(1 + exp(-U[c]))"
    >>> print(with_shared_values(ea.parse(text, A=(64, 8), B=(8,), X=(7, 7, 64))))
    U[c:64] = Sum[k:8](A[c, k]*B[k])
    O_c[c:64] = 1/(exp(-U[c]) + 1)
    O[h:7, w:7, c:64] = O_c[c]*X[h, w, c]
    """
    used_names = {*program.names, *program.tensors}
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        places: dict[Any, Access] = {}
        for value in _shared_values(scope):
            axes = "".join(index.name for index in value.indices)
            label = unique_name(f"{name}_{axes}", used_names)
            used_names.add(label)
            statements.append((label, value))
            subscripts = tuple(map(affine, value.indices))
            places[value.body] = Access.of(statement_tensor(label, value), subscripts)
        if places:
            scope = Scope(scope.iterators, scope.where, with_parts(scope.body, places))
        statements.append((name, scope))
    if len(statements) == len(program.statements):
        return program
    return Program(statements, program.outputs)


def _shared_values(scope: Scope) -> Iterator[Scope]:
    """Yield what is stored for the points of a statement, over the indices that it depends on."""
    if scope.where or not is_elementwise(scope) or not any(map(_takes_long, parts(scope.body))):
        return
    for part in dict.fromkeys(_shared_parts(scope.body, scope)):
        iterators = [it for it in scope.iterators if it.index in part.free_symbols]
        value = Scope(tuple(iterators), (), part)
        if value.dtype in STORED and value.dtype == scope.dtype:
            yield value


def _shared_parts(body: Any, scope: Scope) -> Iterator[Any]:
    """Yield the largest expensive parts of a body that outer indices leave as they are.

    Cases are left alone: what they guard may have no value elsewhere.
    """
    if isinstance(body, (Access, IndexArithmetic, Reduce, sympy.Piecewise)) or not body.args:
        return
    if _is_expensive(body) and _is_shared(body, scope) and not _may_overflow(body):
        yield body
        return
    for operand in body.args:
        yield from _shared_parts(operand, scope)


def _is_expensive(body: Any) -> bool:
    """Say whether a body calls a function that takes many cycles, or is a root or a power."""
    is_long = False
    for part in parts(body):
        if isinstance(part, sympy.Piecewise):
            return False
        is_long |= _takes_long(part)
    return is_long


def _takes_long(part: Any) -> bool:
    """Say whether a part of a body is a function that takes many cycles, a root or a power."""
    if isinstance(part, sympy.Pow):
        return not part.exp.is_Integer
    return isinstance(part, EXPENSIVE)


def _is_shared(body: Any, scope: Scope) -> bool:
    """Say whether outer indices, of many points, are not in a part, and inner ones are."""
    extents = [(it.extent, it.index in body.free_symbols) for it in scope.iterators]
    while extents and not extents[-1][1]:
        extents.pop()
    return prod(extent for extent, is_used in extents if not is_used) >= MIN_READS


def _may_overflow(body: Any) -> bool:
    """Say whether a part is the inverse of what may be so small that the inverse is infinite.

    A root of a number that is not 0 never is, nor is a positive number with an exponential added.
    """
    if not isinstance(body, sympy.Pow) or body.exp.is_nonnegative or body.exp == -sympy.S.Half:
        return False
    if body.exp != -1:
        return True
    terms = sympy.Add.make_args(body.base)
    is_above = any(term.is_Number and term > 0 for term in terms)
    return not (is_above and all(term.is_Number or isinstance(term, sympy.exp) for term in terms))
