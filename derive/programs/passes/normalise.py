"""A program made ready for its layers to be searched: reductions alone, element-wise code in one.

Every step is a move of a rule, so that each program is equal to the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice, permutations
from math import prod

from derive.contraction.ordering import contracted
from derive.matching import kernel_of, kernels_of
from derive.programs.passes.subprogram import excerpt, returned
from derive.rewriting.body_queries import EXPENSIVE
from derive.rewriting.moves import Move, apply
from derive.rewriting.paths import program_scopes
from derive.rules import OF_MODELS
from derive.rules.inter.lifting_nesting import NESTING, lifted
from derive.rules.intra import traversal_merging
from derive.search.cleanup import fissioned
from einalg.errors import EinalgError
from einalg.frontends.graph import live_statements
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import substitute
from einalg.language.ir.kernel import EOP
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses, parts, reductions

MAX_TENSORS = 8  # that an element-wise statement may read
MAX_ORDERS = 4  # of a product of many factors, that are looked at
MAX_MORE_POINTS = 1.25  # times as many may be computed where factors are multiplied two by two
MAX_WRITTEN_OUT_TERMS = 64  # of a sum in generated code
MAX_REPEATED_PARTS = 256  # of a body in which a statement stands more than once
MIN_ROW = 8  # elements; what is read in shorter rows gains nothing by a copy


def shaped(
    program: Program, is_late: Callable[[], bool] = lambda: False
) -> tuple[Program, list[Move]]:
    """Return a flat program with a statement for every reduction, and the moves to it.

    There are as few statements as can be for what is computed element by element, as far as these
    are fused before it `is_late`. Every reduction gets its statement in any case: operators are
    found of reductions alone.
    """
    known, done = dict(program.statements), list[Move]()
    for name in program.names:
        alone, moves = fissioned(excerpt(known, [name]), OF_MODELS)
        alone, steps = _contracted(alone)
        moves += steps
        if moves:
            known[name] = returned(alone[name], known)
            done += [move for move in moves if move.path[0] == name]
    program, moves = fused(lifted(Program(known.items(), program.outputs)), is_late=is_late)
    return program, [*done, *moves]


def _contracted(program: Program) -> tuple[Program, list[Move]]:
    """Return a program with its products of many factors as products of two, and the moves.

    Of these there are operators. The order is that of the fewest points of the first that are
    found; there is none where it computes more.
    """
    ordered = islice(contracted(program, OF_MODELS), MAX_ORDERS)
    best = min(ordered, key=lambda candidate: _points(candidate[0]), default=None)
    if best is None or _points(best[0]) > MAX_MORE_POINTS * _points(program):
        return program, []
    return best


def _points(program: Program) -> int:
    """Return at how many points all scopes of a program compute something."""
    return sum(prod(scope.shape) * _terms(scope) for scope in program_scopes(program))


def with_epilogues(program: Program) -> Program:
    """Return a flat program in which generated code for small sums does what is behind them, too.

    That is what is element-wise. So does that for any sum of a function that its reader computes as
    well, as a softmax does: generated code stores such values. What depends on weights alone stays
    by itself, so that it is computed once.

    >>> import einalg as ea
    >>> W = ea.constant("W", [[1, 1, 0], [0, 1, -1]])
    >>> text = "T[p,i] += W[p,k]*A[k,i]\\nO[p,i] = Max(T[p,i] + b[p], 0)"
    >>> print(with_epilogues(ea.parse(text, W=W, A=(3, 8), b=(2,))))
    O[p:2, i:8] = Max(0, b[p] + Sum[k:3](W[p, k]*A[k, i]))
    """
    generated = {kernel.output for kernel in kernels_of(program) if kernel.op == EOP}
    small = {name for name, scope in program.statements if _terms(scope) <= MAX_WRITTEN_OUT_TERMS}
    repeated = {name for name in generated if _is_function_repeated(name, program)}
    candidates = generated & (small | repeated) - compile_time_statements(program)
    return fused(program, lambda name, scope: name in candidates)[0]


def _is_function_repeated(name: str, program: Program) -> bool:
    """Say whether a statement sums a function that its reader computes at the same points."""
    scope = program[name]
    for reduce in reductions(scope.body):
        functions = reduce.body.atoms(*EXPENSIVE)
        for _, reader in program.statements:
            for read in _reads_of(name, reader):
                places = dict(zip(scope.indices, read.subscripts))
                for names in _renamings(reduce.iterators, reader.iterators):
                    again = {substitute(node, {**places, **names}) for node in functions}
                    if again & reader.body.atoms(*EXPENSIVE):
                        return True
    return False


def _renamings(
    summed: Sequence[LoopIndex], iterators: Sequence[LoopIndex]
) -> Iterator[dict[Index, Affine]]:
    """Yield summed indices as different indices of a statement, of the same ranges."""
    for chosen in permutations(iterators, len(summed)):
        if all((a.low, a.high) == (b.low, b.high) for a, b in zip(summed, chosen)):
            yield {a.index: affine(b.index) for a, b in zip(summed, chosen)}


def fused(
    program: Program,
    which: Callable[[str, Scope], bool] = lambda _, scope: is_elementwise(scope),
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Program, list[Move]]:
    """Return a flat program with those statements as parts of what reads them, and the moves.

    Statements that cannot be such parts stay, and all once it `is_late`.
    """
    fusing = _Fusing(program, which)
    while not is_late() and fusing.once(is_late):
        pass
    live = live_statements(fusing.known.items(), program.outputs)
    return Program(live, program.outputs), fusing.done


def is_elementwise(scope: Scope) -> bool:
    """Whether every element is computed from single elements of what is read."""
    return not any(True for _ in reductions(scope.body))


class _Fusing:
    """Statements that become a part of what reads them, one after the other.

    Of those in question, a statement does where each of its elements is read at one point of one
    other, element-wise statement; a copy does wherever it is read, so that views and layouts are
    read where they lie, but where a product of tensors would be no operator then, and where a copy
    of weights, which is made once, has rows that they do not have.
    """

    def __init__(self, program: Program, which: Callable[[str, Scope], bool]):
        self.which = which
        self.known, self.outputs = dict(program.statements), frozenset(program.outputs)
        self.made_once = compile_time_statements(program)
        self.readers: dict[str, dict[str, None]] = {name: {} for name in program.names}  # in order
        for reader, scope in program.statements:
            self._reads(reader, scope)
        self.done: list[Move] = []
        self.refused: set[Move] = set()

    def once(self, is_late: Callable[[], bool]) -> bool:
        """Look at every statement once; whether one was fused."""
        before = len(self.done)
        for name in list(self.known):
            if is_late():
                break
            if name not in self.outputs and self.which(name, self.known[name]):
                fitting = [r for r in self.readers[name] if self._fits(name, r)]
                for reader in fitting:
                    self._fuse(name, reader)
                if not self.readers[name]:
                    self._reads_no_more(name, self.known.pop(name))
        return len(self.done) > before

    def _fits(self, name: str, reader: str) -> bool:
        """Say whether a statement may become a part of a reader.

        It may if it is a copy, or no more is computed then, and not too many tensors are read.
        """
        scope, other = self.known[name], self.known[reader]
        if isinstance(scope.body, Access):
            return not (
                self._is_read_later(name, reader) and _has_rows_of_its_own(scope, name, other)
            )
        if len(self.readers[name]) != 1 or not is_elementwise(other):
            return False
        reads = _reads_of(name, other)
        if len(reads) != 1 or len({*scope.tensors, *other.tensors}) > MAX_TENSORS:
            return False
        (read,) = reads
        if isinstance(read.base, Padded) or _is_too_long(scope, read, other):
            return False
        bare = [form.as_index() for form in read.subscripts if form.terms]
        if None in bare or len(set(bare)) < len(bare):
            return _is_moved_in_rows(scope, read, other)
        return not _is_repeated(scope, bare, other)

    def _is_read_later(self, name: str, reader: str) -> bool:
        """Say whether a statement is computed once, and one that is not is element-wise with it."""
        is_once = name in self.made_once and reader not in self.made_once
        return is_once and is_elementwise(self.known[reader])

    def _fuse(self, name: str, reader: str) -> None:
        move = Move(NESTING.name, (reader,), {"producer": name})
        if move in self.refused:
            return
        fused = nested(excerpt(self.known, [name, reader]), name, reader)
        if (
            fused is None
            or self._is_product_lost(reader, fused)
            or self._are_rows_lost(name, reader, fused)
        ):
            self.refused.add(move)
            return
        self._reads_no_more(reader, self.known[reader])
        self.known[reader] = returned(fused, self.known)
        self._reads(reader, self.known[reader])
        self.done.append(move)

    def _is_product_lost(self, reader: str, fused: Scope) -> bool:
        return _is_product(reader, self.known[reader]) and not _is_product(reader, fused)

    def _are_rows_lost(self, name: str, reader: str, fused: Scope) -> bool:
        """Say whether the terms of a sum would be columns, which are rows as long as it is alone.

        A reader that exchanges its axes reads one column of the result instead. So does a copy that
        exchanges the axes of what a sum reads again and again: it has rows of all its terms.
        """
        scope, other = self.known[name], self.known[reader]
        if _terms(scope) == 1 and not self._is_read_again(scope, reader):
            return False
        return _column_reads(fused) > _column_reads(scope) + _column_reads(other)

    def _is_read_again(self, scope: Scope, reader: str) -> bool:
        """Say whether a small sum in generated code reads a statement in rows, more than once."""
        other = self.known[reader]
        terms = _terms(other)
        if not 1 < terms <= MAX_WRITTEN_OUT_TERMS or _is_product(reader, other):
            return False
        has_rows = other.rank > 0 and other.shape[-1] >= MIN_ROW
        return has_rows and terms * prod(other.shape) > prod(scope.shape)

    def _reads(self, reader: str, scope: Scope) -> None:
        for tensor in scope.tensors:
            if tensor in self.readers:
                self.readers[tensor][reader] = None

    def _reads_no_more(self, reader: str, scope: Scope) -> None:
        for tensor in scope.tensors:
            if tensor in self.readers:
                self.readers[tensor].pop(reader, None)


def _is_too_long(scope: Scope, read: Access, reader: Scope) -> bool:
    """Say whether a statement would stand more than once in a reader that is long then: where each
    of many statements reads the one before twice, the last would have the first in it 2^n times.
    """
    count = sum(part == read for part in parts(reader.body))
    if count < 2:
        return False
    repeated = count * sum(1 for _ in parts(scope.body))
    return sum(1 for _ in parts(reader.body)) + repeated > MAX_REPEATED_PARTS


def _reads_of(name: str, scope: Scope) -> set[Access]:
    """Return the different reads of a statement's result in a scope."""
    reads = set()
    for access in accesses(scope.body):
        if isinstance(access.tensor, Tensor) and access.tensor.name == name:
            reads.add(access)
    return reads


def nested(program: Program, producer: str, reader: str) -> Scope | None:
    """Return a statement with the body of another one in the place of its reads.

    None where that takes conditions or an inner scope.
    """
    try:
        both = apply(program, Move(NESTING.name, (reader,), {"producer": producer}), OF_MODELS)
        while inner_scopes(both[reader]):
            merging = Move(traversal_merging.RULE.name, (reader,), {"inner": 0})
            both = apply(both, merging, OF_MODELS)
    except EinalgError:
        return None
    before, after = program[reader], both[reader]
    if _conditions(after) > _conditions(before) or after.dtype != before.dtype:
        return None
    return after


def _is_product(name: str, scope: Scope) -> bool:
    """Say whether a statement is an operator that sums products of several tensors."""
    if all(len(set(accesses(node))) < 2 for node in reductions(scope.body)):
        return False
    return kernel_of(name, scope).op != EOP


def _is_moved_in_rows(scope: Scope, read: Access, reader: Scope) -> bool:
    """Say whether a reader has no more points than a statement, and reads it in whole rows.

    So does one that rolls it, divides it into windows or takes a part of it: no more is computed
    then, and rows stay what vectors are made of.
    """
    if not read.subscripts or not reader.indices:
        return False
    has_rows = read.subscripts[-1].as_index() == reader.indices[-1]
    return has_rows and prod(reader.shape) <= prod(scope.shape)


def _has_rows_of_its_own(copy: Scope, name: str, reader: Scope) -> bool:
    """Say whether a reader reads rows of a copy that are columns of what was copied."""
    for read in _reads_of(name, reader):
        if not reader.indices or not read.subscripts:
            return False
        last = reader.indices[-1]
        places = dict(zip(copy.indices, read.subscripts))
        copied = [form.substitute(places).coefficient(last) for form in copy.body.subscripts]
        while copied and copy.body.tensor.shape[len(copied) - 1] == 1:
            copied.pop()
        if read.subscripts[-1].coefficient(last) != 1 or not any(copied[:-1]):
            return False
    return True


def _is_repeated(scope: Scope, bare: Collection[Index], reader: Scope) -> bool:
    """Say whether a reader would compute elements again, as often as it has points or more.

    It reads them at these of its indices. It need not where the other indices are those of its
    innermost loops.
    """
    extents = [(it.extent, it.index in bare) for it in reader.iterators if it.extent > 1]
    while extents and not extents[-1][1]:
        extents.pop()
    times = prod(extent for extent, _ in extents)
    return times > prod(scope.shape) and times * _terms(scope) >= prod(reader.shape)


def _terms(scope: Scope) -> int:
    """Return how many terms its reductions have; 1 without any."""
    return prod(it.extent for node in reductions(scope.body) for it in node.iterators)


def _column_reads(scope: Scope) -> int:
    """Return how many elements a point reads that are in other rows than those of the next point.

    >>> import einalg as ea
    >>> sizes = {"A": (8, 9), "B": (5, 8)}
    >>> _column_reads(ea.parse("O[i:8,j:5] = B[j,i] + Sum[s:3](A[i,j+s] + A[j+s,i])", **sizes))
    4
    """
    inner = [iterator.index for iterator in scope.iterators if iterator.extent > 1][-1:]
    if not inner:
        return 0
    of_sums: set[Access] = set()
    count = 0
    for node in reductions(scope.body):
        summed = set(accesses(node.body))
        of_sums |= summed
        terms = prod(iterator.extent for iterator in node.iterators)
        count += terms * sum(_is_column(access, inner[0]) for access in summed)
    others = set(accesses(scope.body)) - of_sums
    return count + sum(_is_column(access, inner[0]) for access in others)


def _is_column(access: Access, index: Index) -> bool:
    """Say whether an index runs along another axis of what is read than the last with rows."""
    subscripts, shape = list(access.subscripts), list(access.base.shape)
    while shape and shape[-1] == 1:
        subscripts.pop()
        shape.pop()
    return any(index in form.free_symbols for form in subscripts[:-1])


def _conditions(scope: Scope) -> int:
    return len(scope.where) + sum(len(node.where) for node in reductions(scope.body))
