"""A program made ready for its layers to be searched one by one: reductions alone, what is element-wise in one piece (design §11).

Every step is a move of a rule, so that each program is equal to the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.moves import Move, apply
from derive.rules import ALL, traversal_merging
from derive.rules.spelling import NESTING, lifted
from derive.tidy import parted
from einalg.access import Access, Padded, Tensor
from einalg.errors import EinalgError
from einalg.graph import needed
from einalg.program import Program
from einalg.scope import Scope
from einalg.traverse import accesses, inner_scopes, reductions

MOST_READS = 8  # of different tensors, that an element-wise statement may make


def shaped(program: Program) -> tuple[Program, list[Move]]:
    """A flat program with a statement for every reduction, and as few as can be for what is computed element by element; and the moves."""
    program, done = parted(program, ALL)
    program = lifted(program)
    while (move := next(_fusions(program), None)) is not None:
        program = _fused(program, move)
        done.append(move)
    return Program(needed(program.statements, program.outputs), program.outputs), done


def is_elementwise(scope: Scope) -> bool:
    """Whether every element is computed from single elements of what is read."""
    return not any(True for _ in reductions(scope.body))


def readers(program: Program, name: str) -> list[str]:
    """The statements that read one."""
    return [reader for reader, scope in program.statements if name in scope.tensors]


def _fusions(program: Program) -> Iterator[Move]:
    """An element-wise statement whose elements are each read at one point of one other element-wise statement becomes a part of that one.

    So does a copy of what is no result of a reduction, wherever it is read.
    """
    for name, scope in program.statements:
        if name in program.outputs or not is_elementwise(scope):
            continue
        found = readers(program, name)
        if len(found) == 1 and is_elementwise(program[found[0]]) and _fits(program, name, found[0]):
            yield Move(NESTING.name, (found[0],), {"producer": name})


def _fits(program: Program, name: str, reader: str) -> bool:
    reads = {a for a in accesses(program[reader].body) if isinstance(a.tensor, Tensor) and a.tensor.name == name}
    if len(reads) != 1 or len({*program[name].tensors, *program[reader].tensors}) > MOST_READS:
        return False
    (read,) = reads
    if isinstance(program[name].body, Access) and not isinstance(read.base, Padded):
        return True
    bare = [s.as_index() for s in read.subscripts if s.terms]
    return not isinstance(read.base, Padded) and None not in bare and len(set(bare)) == len(bare)


def _fused(program: Program, move: Move) -> Program:
    """The producer's body in the place of its reads; the program with the statement as an inner scope where it does not merge."""
    (reader,) = move.path
    nested = apply(program, move, ALL)
    try:
        while inner_scopes(nested[reader]):
            nested = apply(nested, Move(traversal_merging.RULE.name, (reader,), {"inner": 0}), ALL)
    except EinalgError:
        return lifted(nested)
    return nested
