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
    refused: set[Move] = set()
    while (move := next((m for m in _fusions(program) if m not in refused), None)) is not None:
        fused = _fused(program, move)
        if fused is None:
            refused.add(move)
        else:
            program = fused
            done.append(move)
    return Program(needed(program.statements, program.outputs), program.outputs), done


def is_elementwise(scope: Scope) -> bool:
    """Whether every element is computed from single elements of what is read."""
    return not any(True for _ in reductions(scope.body))


def readers(program: Program, name: str) -> list[str]:
    """The statements that read one."""
    return [reader for reader, scope in program.statements if name in scope.tensors]


def _fusions(program: Program) -> Iterator[Move]:
    """Statements that become a part of what reads them.

    An element-wise statement does, where each of its elements is read at one point of one other element-wise statement; a copy does
    wherever it is read, so that views and layouts are read where they lie.
    """
    for name, scope in program.statements:
        if name in program.outputs or not is_elementwise(scope):
            continue
        found = readers(program, name)
        if isinstance(scope.body, Access):
            yield from (Move(NESTING.name, (reader,), {"producer": name}) for reader in found)
        elif len(found) == 1 and is_elementwise(program[found[0]]) and _fits(program, name, found[0]):
            yield Move(NESTING.name, (found[0],), {"producer": name})


def _fits(program: Program, name: str, reader: str) -> bool:
    """Whether each element is read once, and not too many tensors are read then."""
    reads = {a for a in accesses(program[reader].body) if isinstance(a.tensor, Tensor) and a.tensor.name == name}
    if len(reads) != 1 or len({*program[name].tensors, *program[reader].tensors}) > MOST_READS:
        return False
    (read,) = reads
    bare = [s.as_index() for s in read.subscripts if s.terms]
    return not isinstance(read.base, Padded) and None not in bare and len(set(bare)) == len(bare)


def _fused(program: Program, move: Move) -> Program | None:
    """The producer's body in the place of its reads; None where that takes conditions or an inner scope."""
    (reader,) = move.path
    nested = apply(program, move, ALL)
    try:
        while inner_scopes(nested[reader]):
            nested = apply(nested, Move(traversal_merging.RULE.name, (reader,), {"inner": 0}), ALL)
    except EinalgError:
        return None
    return nested if _conditions(nested[reader]) <= _conditions(program[reader]) else None


def _conditions(scope: Scope) -> int:
    return len(scope.where) + sum(len(node.where) for node in reductions(scope.body))
