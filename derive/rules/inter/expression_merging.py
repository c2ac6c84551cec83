"""Expression merging: two parts become one expression; two statements that share an input become one, stacked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import sympy

from derive.rewriting.moves import Example, Rule
from derive.rewriting.paths import Path, paths, replace_at, scope_at
from einalg.errors import RuleError
from einalg.language.analysis.canonical import key
from einalg.language.analysis.simplify import simplify_scope
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import fresh_index
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.ir.tensor import Access, Padded, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, reductions

MOST_PAIRED = 4  # tensors in which two siblings may differ


def find(program: Program) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Parts that fit together inside a scope, and statements that differ only in tensors that can be stacked."""
    for path, scope in paths(program):
        for first, second in _pairs_of_parts(scope):
            yield path, {"first": first, "second": second}
    for name, other in _siblings(program):
        for axis in _axes(program, name, other):
            yield (name,), {"sibling": other, "axis": axis}


def merge(program: Program, path: Path, **args: Any) -> Program:
    """Join two parts of one scope (`first`, `second`: positions in its sum), or two statements (`sibling`, `axis`)."""
    if "sibling" in args:
        return _stack(program, path[0], args["sibling"], args.get("axis"))
    scope = scope_at(program, path)
    return replace_at(program, path, _joined(scope, args["first"], args["second"]))


def _parts(scope: Scope) -> list[Any]:
    return list(scope.body.args) if isinstance(scope.body, sympy.Add) else []


def _pairs_of_parts(scope: Scope) -> Iterator[tuple[int, int]]:
    parts = _parts(scope)
    for i, one in enumerate(parts):
        for j, two in enumerate(parts):
            if i != j and _union(one, two) is not None:
                yield i, j


def _union(one: Any, two: Any) -> Access | None:
    """The read of one scope that is the sum of two reads of its adjacent parts."""
    if not all(
        isinstance(p, Access)
        and isinstance(p.base, Padded)
        and p.base.fill == 0
        and isinstance(p.base.base, Scope)
        for p in (one, two)
    ):
        return None
    first, second = one.base.base, two.base.base
    differing = [k for k, (a, b) in enumerate(zip(first.box, second.box)) if a != b]
    if one.subscripts != two.subscripts or first.rank != second.rank or len(differing) != 1:
        return None
    axis = differing[0]
    if first.box[axis][1] != second.box[axis][0]:
        return None
    renamed = [LoopIndex(b.index, a.low, a.high) for a, b in zip(first.iterators, second.iterators)]
    if Scope(renamed, second.where, second.body) != first:
        return None
    iterators = [
        LoopIndex(it.index, it.low, second.box[axis][1]) if k == axis else it
        for k, it in enumerate(first.iterators)
    ]
    amounts = [(a, b) for a, b in one.base.amounts]
    amounts[axis] = (one.base.amounts[axis][0], two.base.amounts[axis][1])
    return Access.of(Padded(Scope(iterators, first.where, first.body), amounts), one.subscripts)


def _joined(scope: Scope, first: Any, second: Any) -> Scope:
    parts = _parts(scope)
    if (
        not all(isinstance(p, int) and 0 <= p < len(parts) for p in (first, second))
        or first == second
    ):
        raise RuleError(
            f"the body is a sum of {len(parts)} terms; {first} and {second} are not two of them"
        )
    union = _union(parts[first], parts[second])
    if union is None:
        raise RuleError("the two terms are not adjacent parts of one expression")
    rest = [p for k, p in enumerate(parts) if k not in (first, second)]
    return simplify_scope(Scope(scope.iterators, scope.where, sympy.Add(union, *rest)))


def _siblings(program: Program) -> Iterator[tuple[str, str]]:
    for (name, scope), (other, second) in combinations(program.statements, 2):
        if (
            scope.rank == second.rank
            and not _depends(program, other, name)
            and set(scope.tensors) & set(second.tensors)
        ):
            yield name, other


def _depends(program: Program, reader: str, producer: str) -> bool:
    """Whether a statement reads another one, or what is computed from it; statements come after those that they read."""
    needed = {reader}
    for name, scope in reversed(program.statements):
        if name in needed:
            needed.update(scope.tensors)
    return producer in needed


def _axes(program: Program, name: str, other: str) -> Iterator[int | None]:
    """The axes along which the two can be stacked; None for a new one."""
    for axis in (None, *range(program[name].rank)):
        if _pairing(program[name], program[other], axis) is not None:
            yield axis


def _pairing(one: Scope, two: Scope, axis: int | None) -> dict[str, Tensor] | None:
    """The tensors of `two` that stand for tensors of `one`: the two are equal once they are exchanged (flat scopes only)."""
    if inner_scopes(one) or inner_scopes(two):
        return None
    if any(a != b for k, (a, b) in enumerate(zip(one.box, two.box)) if k != axis):
        return None
    mine = [t for n, t in one.tensors.items() if n not in two.tensors]
    theirs = [t for n, t in two.tensors.items() if n not in one.tensors]
    if len(mine) != len(theirs) or not 0 < len(mine) <= MOST_PAIRED:
        return None
    renamed = Scope(
        [LoopIndex(b.index, a.low, a.high) for a, b in zip(one.iterators, two.iterators)],
        two.where,
        two.body,
    )
    for candidate in permutations(theirs):
        exchange = dict(zip((t.name for t in candidate), mine))
        if all(_fits(a, b, one, axis) for a, b in zip(mine, candidate)) and key(
            substitute_tensors(renamed, exchange)
        ) == key(one):
            return {m.name: t for m, t in zip(mine, candidate)}
    return None


def _fits(mine: Tensor, theirs: Tensor, scope: Scope, axis: int | None) -> bool:
    if mine.dtype != theirs.dtype or mine.rank != theirs.rank:
        return False
    if axis is None:
        return mine.axes == theirs.axes
    position = _position(mine, scope, axis)
    return position is not None and all(
        a == b for k, (a, b) in enumerate(zip(mine.axes, theirs.axes)) if k != position
    )


def _position(tensor: Tensor, scope: Scope, axis: int) -> int | None:
    """The axis of `tensor` that is read by the traversal's index number `axis` alone, at every read, over its whole extent."""
    index, box = scope.indices[axis], scope.box[axis]
    positions: set[int] = set()
    for access in accesses(scope.body):
        uses = [k for k, s in enumerate(access.subscripts) if index in s.indices]
        if access.tensor != tensor:
            if uses:
                return None
            continue
        if (
            len(uses) != 1
            or access.subscripts[uses[0]].as_index() != index
            or isinstance(access.base, Padded)
        ):
            return None
        positions |= set(uses)
    if any(index in c.indices for c in scope.where) or len(positions) != 1:
        return None
    (position,) = positions
    return position if tensor.axes[position] == box and box[0] == 0 else None


def _stack(program: Program, name: str, other: str, axis: int | None) -> Program:
    if (
        name not in program.names
        or other not in program.names
        or _depends(program, other, name)
        or _depends(program, name, other)
    ):
        raise RuleError(f"{name} and {other} are not two independent statements")
    one, two = program[name], program[other]
    pairs = _pairing(one, two, axis)
    if pairs is None:
        place = "a new axis" if axis is None else f"axis {axis}"
        raise RuleError(
            f"{name} and {other} do not become equal by exchanging tensors that can be stacked along {place}"
        )
    taken = {*program.names, *program.tensors}
    stacked, values = [], {}
    for mine, theirs in pairs.items():
        tensor = one.tensors[mine]
        position = None if axis is None else _position(tensor, one, axis)
        joined = (
            _along_new_axis(tensor, theirs)
            if position is None
            else _along(tensor, theirs, position)
        )
        label = _fresh_name(f"{mine}_{theirs.name}", taken)
        stacked.append((label, joined))
        values[mine] = statement_tensor(label, joined)
    whole = (
        _with_new_axis(one, values) if axis is None else _with_longer_axis(one, two, values, axis)
    )
    label = _fresh_name(f"{name}_{other}", taken)
    read = statement_tensor(label, whole)
    copies = {
        name: _copy(one, read, axis, 0),
        other: _copy(two, read, axis, 1 if axis is None else one.box[axis][1] - two.box[axis][0]),
    }
    return _rebuilt(program, (name, other), [*stacked, (label, whole)], copies)


def _rebuilt(
    program: Program, pair: tuple[str, str], added: list[Any], copies: dict[str, Scope]
) -> Program:
    """The added statements stand before the first of the pair, after everything that they read."""
    statements = [(n, copies.get(n, s)) for n, s in program.statements if n not in pair]
    needed = {t for _, s in added for t in s.tensors}
    at = max((k + 1 for k, (n, _) in enumerate(statements) if n in needed), default=0)
    block = [*added, *((n, copies[n]) for n in pair)]
    try:
        return Program([*statements[:at], *block, *statements[at:]], program.outputs)
    except ValueError as error:
        raise RuleError(f"the two statements cannot stand side by side: {error}") from None


def _fresh_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _traversal(tensor: Tensor) -> list[LoopIndex]:
    return [LoopIndex(Index(f"i{k}"), low, high) for k, (low, high) in enumerate(tensor.axes)]


def _along(mine: Tensor, theirs: Tensor, position: int) -> Scope:
    """Two tensors one after the other along an axis: a sum of two padded reads."""
    iterators = _traversal(mine)
    (low, end), (low2, high2) = mine.axes[position], theirs.axes[position]
    length = high2 - low2
    iterators[position] = LoopIndex(iterators[position].index, low, end + length)
    before = [(0, length) if k == position else (0, 0) for k in range(mine.rank)]
    after = [(end - low, 0) if k == position else (0, 0) for k in range(mine.rank)]
    subscripts = [affine(it.index) for it in iterators]
    moved = [s - (end - low2) if k == position else s for k, s in enumerate(subscripts)]
    return Scope(
        iterators, (), mine.pad(*before)[tuple(subscripts)] + theirs.pad(*after)[tuple(moved)]
    )


def _along_new_axis(mine: Tensor, theirs: Tensor) -> Scope:
    layer = Index("z")
    iterators = [LoopIndex(layer, 0, 2), *_traversal(mine)]
    subscripts = tuple(affine(it.index) for it in iterators)
    total: Any = sympy.S.Zero
    for k, tensor in enumerate((mine, theirs)):
        plane = Scope(
            [LoopIndex(layer, k, k + 1), *iterators[1:]], (), Access.of(tensor, subscripts[1:])
        )
        total = total + Access.of(Padded(plane, [(k, 1 - k)] + [(0, 0)] * mine.rank), subscripts)
    return Scope(iterators, (), total)


def _with_new_axis(one: Scope, values: dict[str, Tensor]) -> Scope:
    layer = fresh_index(
        "z", {*one.indices, *(i for node in reductions(one.body) for i in node.indices)}
    )

    def change(access: Access) -> Access:
        base = access.tensor
        if not (isinstance(base, Tensor) and base.name in values):
            return access
        stacked: Any = values[base.name]
        if isinstance(access.base, Padded):
            stacked = Padded(stacked, [(0, 0), *access.base.amounts], access.base.fill)
        return Access.of(stacked, (affine(layer), *access.subscripts))

    return Scope(
        [LoopIndex(layer, 0, 2), *one.iterators], one.where, map_accesses(one.body, change)
    )


def _with_longer_axis(one: Scope, two: Scope, values: dict[str, Tensor], axis: int) -> Scope:
    length = two.box[axis][1] - two.box[axis][0]
    iterators = [
        LoopIndex(it.index, it.low, it.high + length) if k == axis else it
        for k, it in enumerate(one.iterators)
    ]
    renamed = substitute_tensors(one, values)
    return Scope(iterators, renamed.where, renamed.body)


def _copy(scope: Scope, stacked: Tensor, axis: int | None, offset: int) -> Scope:
    subscripts = [affine(i) for i in scope.indices]
    moved = (
        [affine(offset), *subscripts]
        if axis is None
        else [s + offset if k == axis else s for k, s in enumerate(subscripts)]
    )
    return Scope(scope.iterators, scope.where, Access.of(stacked, tuple(moved)))


RULE = Rule(
    name="expression merging",
    before="L[X0] f ~ L[X1] f",
    after="L[X0 ∪ X1] f",
    requires="X0 and X1 disjoint and adjacent; or two independent statements that differ in tensors, which are stacked",
    find=find,
    rewrite=merge,
    level="program",
    example=Example(
        "P[i,j] += X[i,k]*V[k,j]\nQ[i,j] += X[i,k]*W[k,j]", {"X": (4, 6), "V": (6, 3), "W": (6, 5)}
    ),
)
