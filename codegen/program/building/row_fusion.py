"""Statements that compute a value of each row of another one, as one kernel with it (design §16).

The largest element of a row and the sum of its exponentials are read by all elements of a softmax
in this row. As parts of its statement they are computed just before these, while the row is in a
cache, and what they compute alike is computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from codegen.ir.types import computed_in
from codegen.lowering.distinct_indices import with_fresh_indices
from codegen.lowering.schedule import Schedule
from einalg.language.index.affine import Index
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access
from einalg.language.ir.traversal import accesses, map_accesses, reductions

TYPES = ("f32", "f64")  # in which values are stored as they are computed


@dataclass(frozen=True)
class RowGroup:
    """A statement, `scope`, and those that are `parts` of it, the last ones first."""

    kernel: Kernel
    scope: Scope
    parts: tuple[str, ...] = ()

    def with_part(self, name: str, part: Scope) -> RowGroup:
        """Return the group with another statement as a part."""
        scope = with_row_value(self.scope, name, part)
        sizes, output = self.kernel.sizes, self.kernel.output
        kernel = Kernel(EOP, sizes, tuple(scope.tensors), output, scope=scope)
        return RowGroup(kernel, scope, (*self.parts, name))


def row_groups(
    program: Program,
    kernels: Sequence[Kernel],
    fixed: Collection[str],
    schedule: Schedule,
) -> Iterator[list[RowGroup]]:
    """Yield each statement with none, one, two, … of the statements that may be parts of it.

    What reads others comes first: where some are chosen as parts, they have none of their own.
    Those of `fixed` stay as they are.
    """
    by_output = {kernel.output: kernel for kernel in kernels}
    scopes = dict(program.statements)
    readers: dict[str, set[str]] = {name: set() for name in scopes}
    for name, scope in program.statements:
        for tensor in scope.tensors:
            readers.get(tensor, set()).add(name)
    free = {name for name in scopes if name not in fixed and has_loops_alone(by_output[name])}
    parts = free - set(program.outputs)
    for name in reversed(list(scopes)):
        if name not in free:
            continue
        group = RowGroup(by_output[name], scopes[name])
        groups = [group]
        while True:
            inside = {name, *group.parts}
            for part in group.scope.tensors:
                if part not in parts or not readers[part] <= inside:
                    continue
                if is_row_value(part, scopes[part], group.scope, schedule):
                    break
            else:
                break
            group = group.with_part(part, scopes[part])
            groups.append(group)
        if len(groups) > 1:
            yield groups


def with_row_groups(program: Program, groups: Sequence[RowGroup]) -> Program:
    """Return a program with these statements, and without those that are parts of them."""
    chosen = {group.kernel.output: group.scope for group in groups}
    parts = {name for group in groups for name in group.parts}
    statements: list[tuple[str, Scope]] = []
    for name, scope in program.statements:
        if name not in parts:
            statements.append((name, chosen.get(name, scope)))
    return Program(statements, program.outputs)


def has_loops_alone(kernel: Kernel) -> bool:
    """Whether nothing but loops of the generic lowering computes a statement."""
    return kernel.is_eop or kernel.op == "reduce"


def is_row_value(name: str, part: Scope, reader: Scope, schedule: Schedule) -> bool:
    """Whether a statement may be a part of its reader, as a value or as elements of each row.

    A value reduces what the reader has in a row, and is the same for a whole row. Elements are what
    a reduction of the reader reads, and the reader again. The loops over rows are the outermost
    ones of the reader, and enough for threads.

    >>> import einalg as ea
    >>> from codegen.lowering.schedule import DEFAULT
    >>> p = ea.parse("T[i] += A[i,k]\\nO[i,j] = A[i,j]/T[i]\\nU[j,i] = A[j,i]/T[i]", A=(96, 96))
    >>> [is_row_value("T", p["T"], p[name], DEFAULT) for name in "OU"]
    [True, False]
    """
    types = {part.dtype, computed_in(part), computed_in(reader)}
    if part.where or len(types) > 1 or not types <= set(TYPES):
        return False
    reads = {access for access in accesses(reader.body) if access.tensor.name == name}
    if not any(True for _ in reductions(part.body)):
        return _are_elements(reads, reader, schedule)
    if len(reads) != 1 or not part.tensors.keys() & reader.tensors.keys():
        return False
    (read,) = reads
    rows = _rows(read, reader)
    if rows is None:
        return False
    return rows >= schedule.chunks or prod(reader.shape) < schedule.parallel


def _are_elements(reads: Collection[Access], reader: Scope, schedule: Schedule) -> bool:
    """Whether some reads are of single elements: of those that a reduction reads, and again.

    Those of a single long row are none: one thread would compute it, where all do otherwise.
    """
    ranges = dict(reader.ranges)
    reduced: set[Access] = set()
    for node in reductions(reader.body):
        reduced.update(accesses(node.body))
        ranges.update({it.index: (it.low, it.high) for it in node.iterators})
    for read in reads:
        indices = [form.as_index() for form in read.subscripts]
        if read.base is not read.tensor or len(set(indices)) < len(indices):
            return False
        if any(ranges.get(index) != axis for index, axis in zip(indices, read.tensor.axes)):
            return False
    for read in reduced & set(reads):
        named = {form.as_index() for form in read.subscripts}
        rows = prod(it.extent for it in reader.iterators if it.index in named)
        if rows == 1 and prod(read.tensor.shape) >= schedule.parallel:
            return False
    return bool(reduced & set(reads)) and not reduced >= set(reads)


def _rows(read: Access, reader: Scope) -> int | None:
    """Return in how many rows a read is the same; None where rows are no outermost loops."""
    if read.base is not read.tensor:
        return None
    named: set[Index] = set()
    for form, (low, high) in zip(read.subscripts, read.tensor.axes):
        index = form.as_index()
        if high - low == 1 and not form.terms:
            continue
        if index is None or index in named or reader.ranges.get(index) != (low, high):
            return None
        named.add(index)
    rows = 1
    for it in reader.iterators:
        if it.index in named:
            named.remove(it.index)
        elif it.extent > 1:
            break
        rows *= it.extent
    if named:
        return None
    return rows


def with_row_value(reader: Scope, name: str, part: Scope) -> Scope:
    """Return a statement that computes the values of another one, called `name`, by itself.

    >>> import einalg as ea
    >>> p = ea.parse("T[i] = Max[k](A[i,k])\\nO[i,j] = A[i,j] - T[i]", A=(4, 5))
    >>> print(with_row_value(p["O"], "T", p["T"]))
    L[i:4, j:5](A[i, j] - Max[k1:5](A[i, k1]))
    """
    used = {*reader.indices, *part.indices}
    for scope in (reader, part):
        for node in reductions(scope.body):
            used.update(node.indices)

    def renamed(node: object) -> object:
        if not isinstance(node, Reduce):
            return node
        inner = Reduce(node.op, node.iterators, node.where, rebuild(node.body, renamed))
        return with_fresh_indices(inner, used)

    body = rebuild(part.body, renamed)

    def inlined(access: Access) -> object:
        if access.tensor.name != name:
            return access
        return substitute(body, dict(zip(part.indices, access.subscripts)))

    return Scope(reader.iterators, reader.where, map_accesses(reader.body, inlined))
