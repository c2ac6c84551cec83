"""The parts of a program that a person can point at, and the moves that change one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from derive.rewriting.paths import Path, paths, scope_at
from einalg.boundary import public, similar
from einalg.errors import RuleError
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope, all_scopes, inner_scopes
from einalg.language.ir.tensor import Access, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.options import shown
from einalg.text.tables import Listing
from einalg.text.terminal import width, wrapped


@dataclass(frozen=True)
class Part:
    """A scope of a program, or a reduction or a read of a tensor in the body of one.

    `path` is that of the scope, and `name` is what `Session.moves(at=…)` takes.
    """

    name: str
    path: Path
    node: Scope | Reduce | Access

    @property
    def text(self) -> str:
        """The part as text; of a reduction its indices."""
        if isinstance(self.node, Reduce):
            indices = ", ".join(index.name for index in self.node.indices)
            return f"{self.node.op}[{indices}]"
        return str(self.node)

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"

    __repr__ = __str__


@public
class PartList(Listing[Part]):
    """The parts of a program, each scope followed by what is in its body.

    >>> import einalg as ea
    >>> s = ea.Session("O[i] += A[i,k]*x[k] + A[k,i]", A=(4, 4), x=(4,))
    >>> s.parts()
    O: L[i:4](Sum[k:4](A[i, k]*x[k] + A[k, i]))
    O.Sum: Sum[k]
    O.A: A[i, k]
    O.x: x[k]
    O.A#2: A[k, i]
    """

    def __str__(self) -> str:
        return wrapped("\n".join(map(str, self)), width())


def parts(program: Program) -> PartList:
    """Return the parts of a program; what occurs several times in a body is one."""
    listed = PartList()
    for path, scope in paths(program):
        place = ".".join(map(str, path))
        listed.append(Part(place, path, scope))
        names: Counter[str] = Counter()
        for node in _inside(scope):
            label = f"{place}.{_label(node)}"
            names[label] += 1
            name = label if names[label] == 1 else f"{label}#{names[label]}"
            listed.append(Part(name, path, node))
    return listed


def _inside(scope: Scope) -> Iterator[Reduce | Access]:
    """Yield the distinct reductions of a body, then its distinct reads of tensors."""
    yield from dict.fromkeys(reductions(scope.body))
    for access in dict.fromkeys(accesses(scope.body)):
        if not isinstance(unpadded(access.base), Scope):
            yield access


def _label(node: Reduce | Access) -> str:
    if isinstance(node, Reduce):
        return node.op
    return unpadded(node.base).name


def parts_at(program: Program, at: Part | str | Iterable[Any]) -> list[Part]:
    """Return the parts that are meant: one itself, by its name, by the path of a scope; or by the
    name of a tensor or of a reduction, wherever it occurs.

    Raises `RuleError` where there is none.
    """
    listed = parts(program)
    if isinstance(at, Part):
        meant = [part for part in listed if part == at]
        at = at.name
    else:
        if not isinstance(at, str):
            at = ".".join(map(str, at))
        meant = [part for part in listed if part.name == at]
        if not meant:
            meant = [part for part in listed if at == _wanted(part)]
    if not meant:
        names = [part.name for part in listed]
        remedy = f"known: {', '.join(names)}"
        close = similar(at, names)
        if close:
            remedy = f"write {close[0]!r}, or see s.parts()"
        raise RuleError(f"there is no part {shown(at)}\n  {remedy}")
    return meant


def _wanted(part: Part) -> str:
    """Return the name that a part has wherever it is: that of a tensor or of a reduction."""
    if isinstance(part.node, Scope):
        return part.name
    return _label(part.node)


def paths_of(part: Part) -> list[Path]:
    """Return the places of the moves that may change a part: its scope and, of an inner scope, the
    one that reads it.
    """
    if isinstance(part.node, Scope) and len(part.path) > 1:
        return [part.path, part.path[:-1]]
    return [part.path]


def changes(part: Part, path: Path, before: Program, after: Program) -> bool:
    """Return whether a move at a path changes a part.

    One at an inner scope itself always does. Another does where a read or a reduction is gone,
    has other indices, or stands there more often than before.
    """
    if isinstance(part.node, Scope) and path == part.path:
        return True
    old = scope_at(before, path)
    try:
        new = scope_at(after, path)
    except RuleError:  # the place is gone
        return True
    remaining = _everywhere(new)
    old_counts, new_counts = _signatures(old), _signatures(new)
    for signature in _signatures_of(part, old):
        is_more = new_counts[signature] > old_counts[signature]
        if signature not in remaining or is_more:
            return True
    return False


def _signatures_of(part: Part, scope: Scope) -> list[Any]:
    """Return what a part looks like in the scope that holds it."""
    if not isinstance(part.node, Scope):
        return [_signature(part.node)]
    inner = inner_scopes(scope)[part.path[-1]]
    reads = dict.fromkeys(accesses(scope.body))
    return [access for access in reads if unpadded(access.base) == inner]


def _signatures(scope: Scope) -> Counter[Any]:
    """Return how often each reduction and read stands in a body."""
    nodes: list[Any] = [*reductions(scope.body), *accesses(scope.body)]
    return Counter(map(_signature, nodes))


def _signature(node: Any) -> Any:
    """Return a read itself; of a reduction what it runs over, without the body."""
    if isinstance(node, Reduce):
        return node.op, node.iterators, node.where
    return node


def _everywhere(scope: Scope) -> set[Any]:
    signatures: set[Any] = set()
    for inner in all_scopes(scope):
        signatures.update(_signatures(inner))
    return signatures
