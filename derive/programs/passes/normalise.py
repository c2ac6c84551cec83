"""A program made ready for its layers to be searched one by one: reductions alone, what is
element-wise in one piece (design §11).

Every step is a move of a rule, so that each program is equal to the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import NESTING, lifted
from derive.rules.intra import traversal_merging
from derive.search.best_first import kernel_of, kernels_of
from derive.search.cleanup import fissioned
from einalg.errors import EinalgError
from einalg.frontends.graph import live_statements
from einalg.language.index.affine import Index
from einalg.language.ir.kernel import EOP
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses, reductions

MOST_READS = 8  # of different tensors, that an element-wise statement may make
SMALL = 64  # points of a sum, up to which generated code may write out its terms


def shaped(program: Program) -> tuple[Program, list[Move]]:
    """A flat program with a statement for every reduction, and as few as can be for what is
    computed element by element; and the moves.
    """
    known, done = dict(program.statements), list[Move]()
    for name in program.names:
        alone, moves = fissioned(excerpt(known, [name]), ALL)
        if moves:
            known[name] = returned(alone[name], known)
            done += [move for move in moves if move.path[0] == name]
    program, moves = fused(lifted(Program(known.items(), program.outputs)))
    return program, [*done, *moves]


def with_epilogues(program: Program) -> Program:
    """A flat program in which code that is generated for small sums does what is element-wise
    behind them, too.

    >>> import einalg as ea
    >>> W = ea.constant("W", [[1, 1, 0], [0, 1, -1]])
    >>> print(with_epilogues(ea.parse("T[p,i] += W[p,k]*A[k,i]\\nO[p,i] = Max(T[p,i] + b[p], 0)", W=W, A=(3, 8), b=(2,))))
    O[p:2, i:8] = Max(0, b[p] + Sum[k:3](W[p, k]*A[k, i]))
    """
    generated = {kernel.output for kernel in kernels_of(program) if kernel.op == EOP}
    small = {name for name, scope in program.statements if _terms(scope) <= SMALL}
    return fused(program, lambda name, scope: name in generated & small)[0]


def fused(
    program: Program, which: Callable[[str, Scope], bool] = lambda _, scope: is_elementwise(scope)
) -> tuple[Program, list[Move]]:
    """A flat program with those statements, if these can, as parts of what reads them; and the
    moves.
    """
    fusing = _Fusing(program, which)
    while fusing.once():
        pass
    return Program(live_statements(fusing.known.items(), program.outputs), program.outputs), fusing.done


def is_elementwise(scope: Scope) -> bool:
    """Whether every element is computed from single elements of what is read."""
    return not any(True for _ in reductions(scope.body))


class _Fusing:
    """Statements that become a part of what reads them, one after the other.

    Of those in question, a statement does where each of its elements is read at one point of one
    other, element-wise statement; a copy does wherever it is read, so that views and layouts are
    read where they lie, but where a product of tensors would be no operator then.
    """

    def __init__(self, program: Program, which: Callable[[str, Scope], bool]):
        self.which = which
        self.known, self.outputs = dict(program.statements), frozenset(program.outputs)
        self.readers: dict[str, dict[str, None]] = {name: {} for name in program.names}  # in order
        for reader, scope in program.statements:
            self._reads(reader, scope)
        self.done: list[Move] = []
        self.refused: set[Move] = set()

    def once(self) -> bool:
        """Look at every statement once; whether one was fused."""
        before = len(self.done)
        for name in list(self.known):
            if name not in self.outputs and self.which(name, self.known[name]):
                for reader in [reader for reader in self.readers[name] if self._fits(name, reader)]:
                    self._fuse(name, reader)
                if not self.readers[name]:
                    self._reads_no_more(name, self.known.pop(name))
        return len(self.done) > before

    def _fits(self, name: str, reader: str) -> bool:
        """Whether a statement may become a part of a reader: it is a copy, or each element is read
        once, and not too many tensors are read then.
        """
        scope, other = self.known[name], self.known[reader]
        if isinstance(scope.body, Access):
            return True
        reads = {
            a
            for a in accesses(other.body)
            if isinstance(a.tensor, Tensor) and a.tensor.name == name
        }
        if (
            len(self.readers[name]) != 1
            or not is_elementwise(other)
            or len(reads) != 1
            or len({*scope.tensors, *other.tensors}) > MOST_READS
        ):
            return False
        (read,) = reads
        bare = [s.as_index() for s in read.subscripts if s.terms]
        return (
            not isinstance(read.base, Padded)
            and None not in bare
            and len(set(bare)) == len(bare)
            and not _is_repeated(scope, bare, other)
        )

    def _fuse(self, name: str, reader: str) -> None:
        move = Move(NESTING.name, (reader,), {"producer": name})
        fused = (
            _fused(excerpt(self.known, [name, reader]), move) if move not in self.refused else None
        )
        if (
            fused is None
            or _is_product(reader, self.known[reader])
            and not _is_product(reader, fused)
        ):
            self.refused.add(move)
            return
        self._reads_no_more(reader, self.known[reader])
        self.known[reader] = returned(fused, self.known)
        self._reads(reader, self.known[reader])
        self.done.append(move)

    def _reads(self, reader: str, scope: Scope) -> None:
        for tensor in scope.tensors:
            if tensor in self.readers:
                self.readers[tensor][reader] = None

    def _reads_no_more(self, reader: str, scope: Scope) -> None:
        for tensor in scope.tensors:
            if tensor in self.readers:
                self.readers[tensor].pop(reader, None)


def _fused(program: Program, move: Move) -> Scope | None:
    """The reader with the producer's body in the place of its reads; None where that takes
    conditions or an inner scope.
    """
    (reader,) = move.path
    try:
        nested = apply(program, move, ALL)
        while inner_scopes(nested[reader]):
            nested = apply(nested, Move(traversal_merging.RULE.name, (reader,), {"inner": 0}), ALL)
    except EinalgError:
        return None
    known, found = program[reader], nested[reader]
    return (
        found if _conditions(found) <= _conditions(known) and found.dtype == known.dtype else None
    )


def _is_product(name: str, scope: Scope) -> bool:
    """Whether a statement is an operator that sums products of several tensors, as of matrices."""
    return (
        any(len(set(accesses(node))) > 1 for node in reductions(scope.body))
        and kernel_of(name, scope).op != EOP
    )


def _is_repeated(scope: Scope, bare: Collection[Index], reader: Scope) -> bool:
    """Whether a reader would compute elements again that it reads at these of its indices, as often
    as it has points or more.

    It need not where the other indices are those of its innermost loops.
    """
    extents = [(it.extent, it.index in bare) for it in reader.iterators if it.extent > 1]
    while extents and not extents[-1][1]:
        extents.pop()
    times = prod(extent for extent, _ in extents)
    return times > prod(scope.shape) and times * _terms(scope) >= prod(reader.shape)


def _terms(scope: Scope) -> int:
    """How many terms its reductions have; 1 without any."""
    return prod(it.extent for node in reductions(scope.body) for it in node.iterators)


def _conditions(scope: Scope) -> int:
    return len(scope.where) + sum(len(node.where) for node in reductions(scope.body))
