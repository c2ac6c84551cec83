"""Factors that are known ahead move from behind a layer into its weights, as those of a batch norm
do (design §11).

There is no special case for any normalisation: what follows a product of data and weights is taken
apart as far as it is linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

from derive.programs.passes.normalise import is_elementwise
from derive.programs.passes.subprogram import excerpt
from derive.proof import prove
from derive.rules.algebra import staging
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import known_ahead
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses


@dataclass(frozen=True)
class Linear:
    """`factor·x + known + rest` with x a read: `factor` and `known` depend on what is known ahead
    alone.
    """

    factor: Any
    known: Any
    rest: Any


class _Read:
    """A program, with what depends on all its statements: who reads each one (`readers`), and the
    names of what is known ahead.
    """

    def __init__(self, program: Program):
        self.program = program
        self.readers: dict[str, list[str]] = {name: [] for name in program.names}
        for reader, scope in program.statements:
            for read in scope.tensors.keys() & self.readers.keys():
                self.readers[read].append(reader)
        self.ahead = known_ahead(program) | {
            n for n, t in program.tensors.items() if isinstance(t, Constant)
        }


def folded(program: Program) -> Program:
    """The program with every such factor in the weights of its layer, as far as that is proven
    equal.
    """
    read = _Read(program)
    for name in program.names:
        if (changed := _folded_at(read, name)) is not read.program:
            read = _Read(changed)
    return read.program


def _folded_at(given: _Read, name: str) -> Program:
    program, ahead = given.program, given.ahead
    if (
        name in program.outputs
        or len(given.readers[name]) != 1
        or not _is_product_with_weights(program[name].body, ahead)
    ):
        return program
    (reader,) = given.readers[name]
    after = program[reader]
    reads = [
        a for a in accesses(after.body) if isinstance(a.tensor, Tensor) and a.tensor.name == name
    ]
    if len(set(reads)) != 1 or not is_elementwise(after) or not _is_bare(reads[0]):
        return program
    split = _linear(after.body, reads[0], ahead)
    if split is None or (split[1].factor == 1):
        return program
    place, linear = split
    inward = dict(
        zip((s.as_index() for s in reads[0].subscripts), (affine(i) for i in program[name].indices))
    )
    if not {i for i in linear.factor.free_symbols if isinstance(i, Index)} <= set(inward):
        return program
    try:
        return _rewritten(
            given, (name, reader), reads[0], (place, linear), substitute(linear.factor, inward)
        )
    except EinalgError:
        return program


def _is_product_with_weights(body: Any, ahead: frozenset[str]) -> bool:
    if not isinstance(body, Reduce) or body.op != "Sum":
        return False
    names = [
        {a.tensor.name for a in accesses(f) if isinstance(a.tensor, Tensor)}
        for f in sympy.Mul.make_args(body.body)
    ]
    return any(n and n <= ahead for n in names) and any(n - ahead for n in names)


def _is_bare(access: Access) -> bool:
    bare = [s.as_index() for s in access.subscripts]
    return access.base is access.tensor and None not in bare and len(set(bare)) == len(bare)


def _linear(body: Any, read: Access, ahead: frozenset[str]) -> tuple[Any, Linear] | None:
    """The largest part of a body that is linear in the read with a known factor, and how."""
    if body == read:
        return body, Linear(sympy.S.One, sympy.S.Zero, sympy.S.Zero)
    holding = (
        [a for a in body.args if read in set(accesses(a))] if not isinstance(body, Access) else []
    )
    if len(holding) != 1:
        return None
    below = _linear(holding[0], read, ahead)
    if below is None or below[0] != holding[0]:
        return below
    linear = below[1]
    others: list[Any] = [a for a in body.args if a is not holding[0]]
    if isinstance(body, sympy.Add):
        known = [a for a in others if _is_known(a, ahead)]
        rest = [a for a in others if not _is_known(a, ahead)]
        return body, Linear(
            linear.factor, sympy.Add(linear.known, *known), sympy.Add(linear.rest, *rest)
        )
    if isinstance(body, sympy.Mul) and all(_is_known(a, ahead) for a in others):
        factor = sympy.Mul(*others)
        return body, Linear(linear.factor * factor, linear.known * factor, linear.rest * factor)
    return below


def _is_known(part: Any, ahead: frozenset[str]) -> bool:
    return (
        all(isinstance(a.tensor, Tensor) and a.tensor.name in ahead for a in accesses(part))
        and not part.atoms(Index) - part.free_symbols
    )


def _rewritten(
    given: _Read, names: tuple[str, str], read: Access, split: tuple[Any, Linear], factor: Any
) -> Program:
    program = given.program
    name, reader = names
    place, linear = split
    body: Any = program[name].body
    scaled = Scope(
        program[name].iterators,
        program[name].where,
        Reduce(body.op, body.iterators, body.where, body.body * factor),
    )
    roles = {
        n: Tensor(n, t.axes, t.dtype, "weight")
        for n, t in scaled.tensors.items()
        if n in given.ahead and t.role == "intermediate"
    }
    for args in staging.subterms(substitute_tensors(scaled, roles)):
        if args.get("factors") is not None and args["reduction"] == 0:
            scaled = staging.stage(substitute_tensors(scaled, roles), **args)
            break
    else:
        return program
    after = program[reader]
    new_body = after.body.xreplace({place: read + _apart(linear.known, after) + linear.rest})
    changed = [
        (n, {name: scaled, reader: Scope(after.iterators, after.where, new_body)}.get(n, s))
        for n, s in program.statements
    ]
    if (
        prove(excerpt(dict(program.statements), names), excerpt(dict(changed), names)).verdict
        != "proved"
    ):
        return program
    known = {n: statement_tensor(n, s) for n, s in program.statements}
    back = {n: known[n] for n in roles}
    return lifted(
        Program(
            [(n, substitute_tensors(s, back) if n == name else s) for n, s in changed],
            program.outputs,
        )
    )


def _apart(known: Any, scope: Scope) -> Any:
    """What is known ahead as an inner scope over the indices that it needs, where anything is to be
    computed for it.
    """
    if known.is_number or isinstance(known, Access):
        return known
    iterators = [it for it in scope.iterators if it.index in known.free_symbols]
    return Access.of(Scope(iterators, (), known), tuple(affine(it.index) for it in iterators))
