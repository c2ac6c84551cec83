"""The formula of one element of an output, and the elements of the inputs that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from derive.rules.inter.lifting_nesting import lifted
from einalg.language.index.affine import IndexArithmetic
from einalg.language.ir.body import Reduce, substitute
from einalg.language.ir.printing.text import text
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor, unpadded

MAX_READS = 5000
Point = tuple[int, ...]


def formula(program: Program, output: str, point: Sequence[int]) -> list[str]:
    """Return the expression of an output with the coordinates of a point in the place of indices,
    and the statements that it reads, also those that are typed as one.

    >>> import einalg as ea
    >>> program = ea.parse("T[i] = 2*A[i]\\nO[i] += T[j]*B[i,j]", A=(4,), B=(4, 4))
    >>> formula(program, "O", (3,))
    ['O[3] = Sum[j:4](B[3, j]*T[j])', 'T[i:4] = 2*A[i]']
    """
    program = lifted(program)
    scope = program[output]
    lines = [_at(scope, output, point)]
    pending = list(scope.tensors)
    shown: set[str] = set()
    while pending:
        name = pending.pop(0)
        if name in program.names and name not in shown:
            shown.add(name)
            lines.append(_definition(name, program[name]))
            pending += program[name].tensors
    return lines


def _at(scope: Scope, output: str, point: Sequence[int]) -> str:
    coordinates = _coordinates(scope, point)
    body = substitute(scope.body, dict(zip(scope.indices, coordinates)))
    place = ", ".join(map(str, coordinates)) or "()"
    return f"{output}[{place}] = {text(body)}"


def _definition(name: str, scope: Scope) -> str:
    ranges = ", ".join(map(str, scope.iterators)) or "()"
    where = "".join(f", where {condition}" for condition in scope.where)
    return f"{name}[{ranges}] = {text(scope.body)}{where}"


def _coordinates(scope: Scope, point: Sequence[int]) -> Point:
    """Return a point of an array as one of a scope, whose ranges need not begin at 0."""
    return tuple([int(place) + low for place, (low, _) in zip(point, scope.box)])


@dataclass
class Reads:
    """The elements of the inputs that a point reads, in order, and how many reads are of padding.

    `is_whole` is False where there are so many that only some were looked at.
    """

    elements: dict[tuple[str, Point], None] = field(default_factory=dict)
    padding: int = 0
    is_whole: bool = True


def reads(program: Program, output: str, point: Sequence[int]) -> Reads:
    """Return what one element of an output reads, also by way of other statements.

    >>> import einalg as ea
    >>> program = ea.Program([("O", ea.parse("O[i] += A.pad(1)[i+k-1]*B[k]", A=(4,), B=(3,)))])
    >>> element_reads = reads(program, "O", (0,))
    >>> list(element_reads.elements), element_reads.padding
    ([('B', (0,)), ('A', (0,)), ('B', (1,)), ('A', (1,)), ('B', (2,))], 1)
    """
    scope = program[output]
    env = dict(zip(scope.indices, _coordinates(scope, point)))
    element_reads = Reads()
    walk = _ReadWalk(program)
    count = 0
    for read in islice(walk.of_body(scope.body, env), MAX_READS + 1):
        count += 1
        if read is None:
            element_reads.padding += 1
        else:
            element_reads.elements.setdefault(read)
    element_reads.is_whole = count <= MAX_READS
    return element_reads


def array_index(tensor: Tensor, place: Point) -> Point:
    """Return where an element of a tensor is in an array, whose axes begin at 0."""
    return tuple([coordinate - low for coordinate, (low, _) in zip(place, tensor.box)])


class _ReadWalk:
    """A walk over all that a body reads, which looks at each element of a statement once."""

    def __init__(self, program: Program):
        self._program = program
        self._seen: set[Any] = set()

    def of_body(self, body: Any, env: Mapping[Any, int]) -> Iterator[tuple[str, Point] | None]:
        """Yield the elements of inputs that a body reads, None for padding."""
        if isinstance(body, Access):
            yield from self._of_access(body, env)
        elif isinstance(body, Reduce):
            for inner in _points(body, env):
                yield from self.of_body(body.body, inner)
        elif not isinstance(body, IndexArithmetic):
            for argument in getattr(body, "args", ()):
                yield from self.of_body(argument, env)

    def _of_access(
        self, access: Access, env: Mapping[Any, int]
    ) -> Iterator[tuple[str, Point] | None]:
        point = tuple([int(form.evaluate(env)) for form in access.subscripts])
        base = unpadded(access.base)
        if not all(low <= place < high for place, (low, high) in zip(point, base.box)):
            yield None
            return
        scope = base
        if isinstance(base, Tensor):
            if base.role != "intermediate":
                yield base.name, point
                return
            scope = self._program[base.name]
        if (scope, point) in self._seen:
            return
        self._seen.add((scope, point))
        inner = dict(zip(scope.indices, point))
        if all(condition.holds(inner) for condition in scope.where):
            yield from self.of_body(scope.body, inner)
        else:
            yield None


def _points(node: Reduce, env: Mapping[Any, int]) -> Iterator[dict[Any, int]]:
    ranges = [range(it.low, it.high) for it in node.iterators]
    for point in product(*ranges):
        inner = {**env, **dict(zip(node.indices, point))}
        if all(condition.holds(inner) for condition in node.where):
            yield inner
